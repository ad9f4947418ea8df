"""Whom alerts are sent to: an Alertmanager, a broker, and addresses that are refused."""

from __future__ import annotations

import json
import random
import re
import shutil
import socket
import subprocess
import threading
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from cep.connectors.alerts.outbox import Outbox
from cep.connectors.receivers.alertmanager import LASTS, Alertmanager, alertmanager_alert
from cep.connectors.receivers.http_post import HttpConnections
from cep.connectors.receivers.mqtt import Topics
from cep.connectors.receivers.sender import Unreachable
from cep.connectors.receivers.senders import sending, targets
from cep.connectors.receivers.targets import public, reachable, target
from cep.core.errors import CepError
from tests.alert_feeds import ORIGIN, WHOLE, filled
from tests.brokers import answers, publish
from tests.ports import free_port
from tests.receiver import receiver
from tests.waiting import PATIENCE, Received, until


def test_an_alertmanager_is_told_every_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of alerts that are over by the time they are sent, and of one that was followed by another of its key; in
    order, and never two of one key at once. What it once refused is reported as it is by now."""
    posts: list[list[dict[str, Any]]] = []
    delivery = Alertmanager(target("alertmanager+http://localhost:9093"), ORIGIN, outbox := filled(WHOLE))
    monkeypatch.setattr(delivery.http, "post", lambda path, body, headers: posts.append(json.loads(body)))
    entries = outbox.after(0)
    assert len({entry.change.slot for entry in entries}) < len({entry.change.alert for entry in entries})
    before = time.time()
    for start in range(0, len(entries), delivery.most):
        delivery.give(entries[start : start + delivery.most])
    received = [
        (one["annotations"]["alert"], datetime.fromisoformat(one["endsAt"]).timestamp() > before + 60)
        for sent in posts
        for one in sent
    ]
    expected = [(change.alert, change.state != "resolved") for change in WHOLE]
    assert sorted(received) == sorted(expected)
    for name in {change.alert for change in WHOLE}:
        assert [one for one in received if one[0] == name] == [one for one in expected if one[0] == name]
    for sent in posts:
        labels = [json.dumps(one["labels"]) for one in sent]
        assert len(set(labels)) == len(labels)
    posts.clear()
    delivery.again(entries[0], outbox.standing(entries[0].change))
    ((now,),) = posts
    assert datetime.fromisoformat(now["endsAt"]).timestamp() < before + 60, "it is over"
    outbox.add([replace(WHOLE[0], alert="f" * 32)], {})
    outbox.lost = ("tcp://sensors:1",)
    delivery.again(entries[0], outbox.standing(entries[0].change))
    assert posts[-1][0]["annotations"]["alert"] == "f" * 32, "of one key it is the latest that counts"
    assert posts[-1][0]["annotations"]["source_lost"] == "tcp://sensors:1"


def test_what_a_broker_once_refused_does_not_open_what_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[bytes, bool]] = []

    class Broker:
        def publish(self, topic: str, payload: bytes, qos: int, retain: bool) -> Any:
            sent.append((payload, retain))
            return self

        def wait_for_publish(self, seconds: float) -> None:
            """It is there."""

        def is_published(self) -> bool:
            return True

    topics = Topics(target("mqtt://localhost/alerts"), ORIGIN)
    monkeypatch.setattr(topics, "_connected", Broker)
    life = [entry for entry in filled(WHOLE).after(0) if entry.change.alert == WHOLE[0].alert]
    for now in (life[-1].change, life[0].change):
        topics.again(life[0], now)
    assert [(json.loads(payload)["id"], retain) for payload, retain in sent] == [
        (life[0].change.id, False),
        (life[0].change.id, True),
    ]
    topics.give([replace(life[0], reminder=3)])
    topics.give([life[0]])
    assert [json.loads(payload)["reminder"] for payload, _ in sent] == [0, 0, 3, 0]


def test_what_is_open_at_the_end_of_the_input_is_told_as_long_as_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An Alertmanager goes by the clock: what nothing more is known of is over there when its time has passed."""
    posts: list[list[dict[str, Any]]] = []
    outbox = filled([replace(WHOLE[0], until=WHOLE[0].end + lasts) for lasts in (0,)])
    outbox.add([replace(WHOLE[0], alert="f" * 32, slot="other", until=WHOLE[0].end + 10**12)], {})
    delivery = Alertmanager(replace(target("alertmanager+http://localhost:9093"), every=0), ORIGIN, outbox)
    monkeypatch.setattr(delivery.http, "post", lambda path, body, headers: posts.append(json.loads(body)))
    delivery.rest(outbox, outbox.live)
    outbox.ended = True
    delivery.rest(outbox, outbox.live)
    assert [len(sent) for sent in posts] == [2, 1]
    assert posts[1][0]["annotations"]["alert"] == "f" * 32


def test_an_alertmanager_is_told_what_is_open_again_and_again(tmp_path: Path) -> None:
    taken, received, outbox = tmp_path / "taken", [], Outbox(None)
    server = receiver(0, taken, random.Random(0), 1.0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    feed = f"alertmanager+http://127.0.0.1:{server.server_port}/am/#every=1"
    begun = time.time()
    ended = [c for c in WHOLE if c.alert == WHOLE[1].alert]
    with sending(outbox, targets([feed]), ORIGIN, lambda *said, **fields: received.append(said)) as (sender,):
        until(lambda: not sender._behind, "it is asked for what is open")
        outbox.add(ended, {"p": 0})
        until(lambda: taken.exists() and outbox.statuses()[0].waiting == 0, "it comes")
        outbox.add(WHOLE[:1], {"p": 0})
        until(lambda: len(taken.read_text().splitlines()) >= len(ended) + 3, "it comes")
    server.shutdown()
    server.server_close()
    lines = [line.split("\t") for line in taken.read_text().splitlines()]
    bodies = [json.loads(body) for *_, body in lines]
    assert {path for path, *_ in lines} == {"/am/api/v2/alerts"}
    before, rest = bodies[: len(ended)], bodies[len(ended) :]
    assert [one["annotations"]["alert"] for (one,) in before] == [ended[0].alert] * len(ended) and len(ended) > 2
    told_by = datetime.fromisoformat(before[-1][0]["endsAt"]).timestamp()
    assert told_by <= time.time(), "what is over has ended, by the clock, although its time was in 1970"
    ends = [datetime.fromisoformat(body[0].pop("endsAt")).timestamp() for body in rest]
    assert begun + LASTS <= ends[0] < ends[1] < ends[2] < time.time() + LASTS
    labels = {"alertname": "wind", "severity": "unknown", "program": "storm.cep"}
    says = {"summary": "Strong wind", "description": "Strong wind", "alert": WHOLE[0].alert}
    assert rest == [[{"labels": labels, "annotations": says, "startsAt": "1970-01-01T00:00:00Z"}]] * len(rest)
    change = replace(WHOLE[0], start=1_000_000, fired=9_000_000, until=90_000_000, key={"severity": "x", "é": 1})
    soon = alertmanager_alert(change, replace(ORIGIN, status="Test"), 5_000_000, 1)
    assert (soon["startsAt"], soon["endsAt"]) == ("1970-01-01T00:00:05Z", "1970-01-01T00:01:30Z")
    assert soon["labels"] == labels | {"key_severity": "x", "key__": "1", "status": "test"}
    assert "generatorURL" not in soon
    twins = alertmanager_alert(replace(change, key={"é": "1", "à": "2", "station": "s"}), ORIGIN, 5_000_000, 1)
    assert twins["labels"] == labels | {"key__": "1", "key___": "2", "station": "s"}, "two keys are two alerts"
    found = alertmanager_alert(change, replace(ORIGIN, address="https://example.org/semcep/"), 5_000_000, 1)
    assert found["generatorURL"] == f"https://example.org/semcep/#alert={change.alert}"
    over = alertmanager_alert(replace(change, state="resolved"), ORIGIN, 95_000_000, 1)
    assert (over["startsAt"], over["endsAt"]) == ("1970-01-01T00:00:09Z", "1970-01-01T00:01:35Z")
    assert Alertmanager.most > 1


def test_a_broker_holds_what_is_open(tmp_path: Path) -> None:
    """The broker comes late, dies, and comes back empty: the sender waits, and goes on."""
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion

    binary = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
    if binary is None:
        pytest.fail("mosquitto is needed: `apt-get install mosquitto`")
    port, outbox = free_port(), Outbox(None)
    came: Received[tuple[str, bytes, bool]] = Received()
    config = tmp_path / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")

    def broker() -> subprocess.Popen[bytes]:
        started = subprocess.Popen([binary, "-c", str(config)], stderr=subprocess.DEVNULL)
        until(lambda: answers(port), "mosquitto answers")
        return started

    def subscriber() -> Client:
        made = Client(CallbackAPIVersion.VERSION2)
        granted = threading.Event()
        made.on_connect = lambda client, *rest: client.subscribe("warn/#", qos=1)
        made.on_subscribe = lambda *rest: granted.set()
        made.on_message = lambda client, data, message: came.append((message.topic, message.payload, message.retain))
        made.connect("127.0.0.1", port)
        made.loop_start()
        assert granted.wait(PATIENCE), "it is subscribed"
        return made

    one = [change for change in WHOLE if change.alert == next(c.alert for c in WHOLE if c.name == "storm")]
    topic = f"warn/storm/{one[0].key['station']}"
    with sending(outbox, targets([f"mqtt://127.0.0.1:{port}/warn"]), ORIGIN, lambda *said, **fields: None):
        outbox.add(one[:1], {"p": 0})
        running = broker()
        listening = subscriber()
        until(lambda: len(came) == 1, "it comes")
        running.kill()
        running.wait()
        outbox.add(one[1:2], {"p": 0})
        running = broker()
        until(lambda: outbox.statuses()[0].waiting == 0, "it comes")
        late = subscriber()  # who comes later finds what is open
        until(
            lambda: any(retained and json.loads(payload)["revision"] == 1 for _, payload, retained in came), "it comes"
        )
        outbox.add(one[2:], {"p": 0})
        until(lambda: came[-1][1] == b"" and outbox.statuses()[0].waiting == 0, "it comes")
    for client in (listening, late):
        client.disconnect()
        client.loop_stop()
    count = len(came)
    fresh = subscriber()
    publish(port, [("warn/over", b"{}")])
    came.at_least(count + 1)
    assert came.pop()[0] == "warn/over", "what is retained would have come before"
    fresh.disconnect()
    fresh.loop_stop()
    running.kill()
    running.wait()
    assert {place for place, *_ in came} == {topic} and len(came) == count, "nothing is retained of what is over"
    revisions = [json.loads(payload)["revision"] for _, payload, _ in came if payload]
    assert list(dict.fromkeys(revisions)) == [change.revision for change in one]


REFUSED_TARGETS = [
    ("hooks.example.org", "`hooks.example.org` is not an address"),
    ("https://example.org/x", "`https://` is not a kind of feed"),
    ("cloudevents://example.org/x", "`cloudevents://` is not a kind of feed"),
    ("cloudevents+https:///x", "the host is missing"),
    ("cloudevents+https://h:99999/x", "the host is missing, or the port"),
    ("cloudevents+https://h/x\r\nHost: y", "a space or a control character"),
    ("cloudevents+http://localhost:80/x", "is a private address"),
    ("cloudevents+http://u:secret@10.1.2.3/", "is a private address"),
    ("cloudevents+http://[::1]/", "is a private address"),
    ("cloudevents+http://[::ffff:127.0.0.1]/", "is a private address"),
    ("cloudevents+http://2130706433/", "is a private address"),
    ("cloudevents+http://0x7f.1/", "is a private address"),
    ("cloudevents+http://169.254.169.254/latest", "is a private address"),
    ("cloudevents+http://192.0.0.8/", "is a private address"),
    ("alertmanager+http://169.254.169.254", "is a link-local address"),
    ("alertmanager+http://[::ffff:169.254.169.254]", "is a link-local address"),
    ("mqtt://[fe80::1]/alerts", "is a link-local address"),
    *(
        (f"{kind}://{host}/", "or the address of a cloud's metadata service")
        for kind in ("alertmanager+http", "mqtt")
        for host in (
            "[fd00:ec2::254]",
            "[FD00:0EC2:0::0:254]",
            "[fd00:ec2::23]",
            "[fd20:ce::254]",
            "100.100.100.200",
            "[::ffff:100.100.100.200]",
            "[64:ff9b::100.100.100.200]",
            "[64:ff9b:1::100.100.100.200]",
            "[::100.100.100.200]",
            "[2002:6464:64c8::]",
            "1684301000",
            "0x646464c8",
            "0144.0144.0144.0310",
            "100.100.25800",
            "168.63.129.16",
            "192.0.0.192",
            "2852039166",
            "0xa9fea9fe",
            "[64:ff9b:1::169.254.169.254]",
            "100.100.100.200.",
        )
    ),
    ("cloudevents+http://[fd00:ec2::254]/latest", "is a private address"),
    ("cloudevents+http://100.100.100.200/latest", "is a private address"),
    ("cloudevents+https://h/#from=yesterday", "`from=yesterday` is not known"),
    ("cloudevents+https://h/#attempts=0", "`attempts=0` is not a whole number from 1 to"),
    ("alertmanager+http://h/#every=1min", "`every=1min` is not a whole number from 1 to"),
    ("cloudevents+https://h/#retries=3", "`retries=3` is not an option"),
    ("cloudevents+https://h/#origin=a%0d%0ab", "is not a valid host name"),
    ("mqtt://h/alerts#origin=a", "`origin=a` is not an option"),
    ("cloudevents+http://h/#private=yes,attempts=3", "`private=yes,attempts=3` has several options"),
    ("mqtt://h/alerts/%23", "use a topic without"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED_TARGETS, ids=[text[:30] for text, _ in REFUSED_TARGETS])
def test_targets_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(CepError) as caught:
        target(text)
    assert message in caught.value.message and caught.value.message.startswith("--feed") and caught.value.hint
    assert "secret" not in str(caught.value)


def test_the_hint_for_a_wrong_number_is_the_usual_one() -> None:
    with pytest.raises(CepError) as caught:
        target("alertmanager+http://h/#every=1min")
    assert caught.value.hint == "use `#every=60`, which is the default"


@pytest.mark.parametrize("sign", [",", ";", "#", "?"])
def test_options_are_joined_by_an_ampersand(sign: str, tmp_path: Path) -> None:
    with pytest.raises(CepError) as caught:
        target(f"smtp://127.0.0.1/a@example.org#private=yes{sign}tls=none")
    assert "need `&` between them" in caught.value.message
    assert caught.value.hint == "`#private=yes&tls=none`, in quotes on a command line"
    (tmp_path / "a,b;c").write_text("secret")
    assert target(f"smtp://u@e.org/a@e.org#password-file={tmp_path}/a,b;c", {}).password == "secret"


def test_targets() -> None:
    hook = target("cloudevents+https://me:a%40b@example.org/in?key=s3#from=start&attempts=3")
    assert (hook.kind, hook.tls, hook.host, hook.port, hook.path) == (
        "cloudevents", True, "example.org", 443, "/in?key=s3")  # fmt: skip
    assert (hook.user, hook.password, hook.start, hook.attempts, hook.private) == ("me", "a@b", True, 3, False)
    assert "s3" not in hook.name + repr(replace(hook, path="")) and "a@b" not in repr(hook)
    broker = target("mqtts://broker/", {"SEMCEP_MQTT_USER": "u", "SEMCEP_MQTT_PASSWORD": "p"})
    assert (broker.name, broker.port, broker.tls, broker.user) == ("mqtts://broker/alerts", 8883, True, "u")
    assert target("alertmanager+http://localhost:9093", {"SEMCEP_ALERTMANAGER_TOKEN": "t"}).token == "t"
    with pytest.raises(CepError, match="appears twice"):
        targets(["mqtt://h/a", "mqtt://h/a#attempts=2"])
    for address, open_to_all in (
        ("8.8.8.8", True),
        ("2a00:1450:4001::1", True),
        ("100.64.0.1", False),
        ("64:ff9b::a00:1", False),
        ("64:ff9b::808:808", True),
        ("64:ff9b:1::7f00:1", False),
        ("192.0.0.8", False),
        ("192.88.99.1", False),
        ("3fff::1", False),
        ("2002:7f00:1::", False),
        ("::127.0.0.1", False),
        ("ff02::1", False),
        ("fe80::1%eth0", False),
    ):
        assert public(address) == open_to_all, address


def test_a_public_name_with_a_private_address_is_not_spoken_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a name stands for is judged when it is connected to."""
    place = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **options: [place])
    with pytest.raises(Unreachable, match="is a private address"):
        HttpConnections(target("cloudevents+http://evil.example.org/")).post("/", b"{}", {})
    for own in ("alertmanager+http://metadata.example.org", "mqtt://metadata.example.org/alerts"):
        assert reachable(target(own)) == ["127.0.0.1"], "these two may be in the own network"
    for address in ("169.254.169.254", "100.100.100.200", "fd00:ec2::254"):
        metadata = (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *given, both=(place, metadata), **options: list(both))
        for own in ("alertmanager+http://metadata.example.org", "mqtt://metadata.example.org/alerts"):
            with pytest.raises(OSError, match=f"{re.escape(address)} is a link-local address"):
                reachable(target(own))


def test_a_broker_is_connected_to_at_the_address_that_was_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name may stand for another one the next time; its certificate is asked for by the name all the same."""
    hello: list[bytes] = []
    looked_up = socket.getaddrinfo
    names: list[object] = []

    def resolved(host: Any, *given: Any, **options: Any) -> Any:
        names.append(host)
        return looked_up("127.0.0.1" if host == "broker.example" else host, *given, **options)

    def listen() -> None:
        with listening.accept()[0] as one:
            hello.append(one.recv(4096))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        monkeypatch.setattr(socket, "getaddrinfo", resolved)
        to = Topics(target(f"mqtts://broker.example:{listening.getsockname()[1]}/x"), ORIGIN)
        with pytest.raises(Unreachable):
            to.give([])
        thread.join(60)
    assert names.count("broker.example") == 1 and "127.0.0.1" in names
    assert b"broker.example" in hello[0]
