"""Live inputs in one process: MQTT of a real broker, Kafka over its protocol, connections, rates; what can be wrong."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cep.command import app
from cep.connectors.addresses import address
from cep.connectors.brokers.kafka import TopicSource
from cep.connectors.brokers.mqtt import Subscription
from cep.connectors.files import read
from cep.connectors.records.batch import Batch
from cep.core.compilation import Compilation
from cep.engine import Engine
from tests import brokers
from tests.brokers import PASSWORD, Cluster, mosquitto, publish

PROGRAM = "event reading(sensor: string, temp: float in ..100).\nhot(S, T) <- reading(S, T) WHERE T > 30.\n"
needs_mosquitto = pytest.mark.skipif(brokers.MOSQUITTO is None, reason=brokers.MISSING)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    Path("hot.cep").write_text(PROGRAM)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[int]:
    with mosquitto(tmp_path / "broker") as port:
        yield port


def record(time: int, sensor: str = "a", temp: float = 20.0) -> bytes:
    return json.dumps({"time": time, "sensor": sensor, "temp": temp}).encode()


def run(*inputs: str, rules: str = "hot.cep") -> Result:
    given = [part for each in inputs for part in ("--input", each)]
    return CliRunner().invoke(app, ["run", rules, *given, "--dead-letter", "dead.jsonl"], prog_name="cep")


def dead() -> list[Any]:
    return [json.loads(line) for line in Path("dead.jsonl").read_text().splitlines()]


def until(batches: Iterator[Batch], records: int) -> list[Batch]:
    """Batches until so many records have come."""
    found: list[Batch] = []
    while sum(batch.rows + len(batch.dead) for batch in found) < records:
        found.append(next(batches))
    return found


# --- MQTT ---


@needs_mosquitto
def test_messages_of_all_topics_with_their_dead_letters(broker: int) -> None:
    schemas = Engine.from_text(PROGRAM).inputs
    batches = read([f"reading=mqtt://127.0.0.1:{broker}/rooms/#"], schemas, idle=0.3)
    assert next(batches).silence
    sent = [("rooms/a/temp", record(1)), ("rooms/b", b"?"), ("rooms/c", b'{"time": 2,\n "sensor": "c", "temp": 9}')]
    publish(broker, [*sent, ("other", record(1)), ("rooms/a/temp", b""), ("rooms/a/temp", record(3))])
    found = until(batches, 4)
    times = [time for batch in found for table in batch.tables.values() for time in table["end"].to_list()]
    assert times == [1_000_000, 2_000_000, 3_000_000]
    letters = [letter for batch in found for letter in batch.dead]
    assert [(each.file, each.line, each.code) for each in letters] == [
        (f"mqtt://127.0.0.1:{broker}/rooms/b", 2, "json")
    ]
    last = found[-1]
    assert last.origin("reading", last.tables["reading"].height - 1) == (
        f"mqtt://127.0.0.1:{broker}/rooms/a/temp",
        5,
        record(3).decode(),
    )


@needs_mosquitto
def test_what_was_not_worked_off_comes_again(broker: int) -> None:
    place = address(f"mqtt://127.0.0.1:{broker}/rooms/#?client=roof")
    first = Subscription.open(place, "roof")
    publish(broker, [("rooms/a", record(n)) for n in range(300)])
    taken = 0
    while taken < 200:
        taken += len(first.take(200 - taken, 1))
    first.done()
    first.take(10, 1)
    first.close()  # a run that is killed leaves it at that
    publish(broker, [("rooms/a", record(n)) for n in range(300, 320)])
    again = Subscription.open(place, "roof")
    payloads: list[bytes] = []
    while record(319) not in payloads:
        payloads += [one.payload for one in again.take(1000, 1)]
    again.done()
    assert payloads == [record(n) for n in range(200, 320)]
    assert again.take(1, 0.2) == []
    again.close()


@needs_mosquitto
@pytest.mark.parametrize("version", [3, 5])
def test_what_is_retained_can_be_left_out(broker: int, version: int) -> None:
    publish(broker, [(f"kept/{version}", record(1))], retain=True)
    for option, expected in (("no", [record(2)]), ("yes", [record(1), record(2)])):
        place = address(f"mqtt://127.0.0.1:{broker}/kept/{version}?version={version}&retained={option}")
        listening = Subscription.open(place, None)
        publish(broker, [(f"kept/{version}", record(2))])
        payloads: list[bytes] = []
        while record(2) not in payloads:
            payloads += [one.payload for one in listening.take(10, 1)]
        assert payloads == expected
        listening.close()


@needs_mosquitto
def test_a_broker_with_logins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with mosquitto(tmp_path / "closed", login=True) as port:
        for login in ("", "cep:open@"):
            result = run(f"reading=mqtt://{login}127.0.0.1:{port}/rooms/#")
            assert result.exit_code == 2
            assert "the broker refuses: not authorized" in result.stderr and "open" not in result.stderr
        monkeypatch.setenv("SEMCEP_MQTT_USER", "cep")
        monkeypatch.setenv("SEMCEP_MQTT_PASSWORD", PASSWORD)
        for version in (3, 5):
            place = address(f"mqtt://127.0.0.1:{port}/rooms/#?version={version}")
            listening = Subscription.open(place, None)
            publish(port, [("rooms/a", record(1))], user="cep", password=PASSWORD)
            assert [one.payload for one in listening.take(1, 120)] == [record(1)]
            listening.close()


# --- Kafka ---


def test_partitions_side_by_side_once_each() -> None:
    cluster = Cluster("readings")
    place = f"kafka://{cluster.servers}/readings"
    hundred = [(n % 4, n, record(n, temp=n)) for n in range(98)]
    cluster.send([*hundred, (2, 98, None), (3, 99, b"7"), (1, 99, record(99, temp=101))])
    result = run(f"reading={place}?until=now&group=hot", rules="hot.cep")
    assert result.exit_code == 0, result.stderr
    # One batch after the other, in order across partitions: without a lateness nothing is late.
    assert [json.loads(line)["t"] for line in result.stdout.splitlines()] == [float(n) for n in range(31, 98)]
    assert [(each["code"], each["file"], each["line"]) for each in dead()] == [
        ("object", f"{place}/3", 24),
        ("range", f"{place}/1", 25),
    ]
    cluster.send([(0, 100, record(100, temp=50))])
    result = run(f"reading={place}?until=now&group=hot")
    assert [json.loads(line)["end"] for line in result.stdout.splitlines()] == [100]
    gone = run(f"reading=kafka://{cluster.servers}/redings")
    assert (gone.exit_code, "unknown topic or partition" in gone.stderr, "readings" in gone.stderr) == (2, True, True)


def test_large_messages_come_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cep.connectors.brokers.kafka._BYTES", 1 << 17)
    cluster = Cluster("readings")
    sent = [record(n, "a" * (8000 if 40 <= n < 80 else 1)) for n in range(120)]
    cluster.send([(n % 2, n, payload) for n, payload in enumerate(sent)])
    log = TopicSource.open(address(f"kafka://{cluster.servers}/readings?until=now"))
    found: list[bytes] = []
    sizes: list[int] = []
    while (messages := log.poll(1 << 17, 1)) is not None:
        found += messages.payloads
        sizes.append(sum(map(len, messages.payloads)))
        log.done()
    log.close()
    assert sorted(found) == sorted(sent)
    assert max(sizes) <= 1 << 18 and 3 <= len(sizes) < 20


# --- connections, rates, and what is wrong ---


def test_lines_of_a_connection_until_it_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as made:
                made.sendall(record(1, temp=40) + b"\n" + record(2)[:9])
                made.sendall(record(2)[9:] + b"\nnone\n")

        thread = threading.Thread(target=serve)
        thread.start()
        place = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        result = run(f"reading={place}")
        thread.join()
    assert "3 records, 1 dead letter (1 bad JSON), 1 derived event: hot 1" in result.stderr
    assert [(each["file"], each["line"]) for each in dead()] == [(place, 3)]


def test_a_rate_is_the_same_whenever_it_is_read() -> None:
    Path("many.cep").write_text(
        "event tick(value: int, key: int) TIME timestamp.\n"
        "many(K, N) <- tick(_, K) AGGREGATE N = count() OVER LAST 1 h BY K WHERE N = 500.\n"
    )
    result = run("rate://100000?start=2024-01-01&keys=2&until=1000", rules="many.cep")
    assert result.exit_code == 0, result.stderr
    assert [json.loads(line)["end"] for line in result.stdout.splitlines()] == [
        "2024-01-01T00:00:00.00998Z",
        "2024-01-01T00:00:00.00999Z",
    ]


@pytest.mark.parametrize(
    "place, message",
    [
        ("mqtt://127.0.0.1:1/rooms", "no broker: connection refused"),
        ("mqtt://u:secret@127.0.0.1:1", "the address names no topic"),
        ("mqtt://127.0.0.1:1/a/#/b", "the path is not a valid topic filter"),
        ("mqtt://127.0.0.1:1/a?clent=roof", "`clent` is not an option"),
        ("mqtt://127.0.0.1:1/a?qos=3", "`qos=3` is not known"),
        ("mqtt://127.0.0.1:1/a?format=csv", "messages cannot have the format csv"),
        ("mqtts://127.0.0.1:1/a?ca=none.pem", "TLS: [errno 2] no such file or directory"),
        ("kafka://127.0.0.1:1", "the address names no topic"),
        ("kafka://127.0.0.1:1/t?security.protocol=none", "a setting is wrong: invalid value"),
        ("tcp://127.0.0.1:1", "no connection: connection refused"),
        ("tcp://127.0.0.1", "`127.0.0.1` is not a valid host and port"),
        ("rate://many", "the address does not say how many records a second"),
        ("mqtt+ws://u:secret@host/a", "`mqtt+ws://` is not a kind of input"),
        ("MQTT://u:secret@host/a", "no such file"),
        ("mqtt://u:p@secret@host/a", "it is not clear where the host begins"),
        ("mqtt://u:p/secret@host/a", "it is not clear where the host begins"),
    ],
)
def test_what_is_wrong_is_said_without_secrets(place: str, message: str) -> None:
    result = run(f"reading={place}")
    assert result.exit_code == 2
    assert message in result.stderr.splitlines()[0], result.stderr
    assert "secret" not in result.stderr


def test_addresses_are_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEMCEP_KAFKA_USER", raising=False)
    one = address("kafkas://me:p%40ss@a:1,[::1]/topic?sasl=SCRAM-SHA-512&fetch.max.bytes=9")
    assert (one.kind, one.tls, one.hosts, one.path) == ("kafka", True, (("a", 1), ("::1", 9093)), "topic")
    assert (one.user, one.password, "p@ss" in repr(one)) == ("me", "p@ss", False)
    assert one.text == "kafkas://a:1,[::1]/topic"
    assert address("mqtt://h/a%3Fb/+/#").path == "a?b/+/#"
