"""Live inputs that go away: they are lost, not at their end, and come again; nothing follows from what is not heard."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest

from cep.connectors.addresses import address
from cep.connectors.brokers import kafka, live, sources
from cep.connectors.brokers.messages import Messages
from cep.connectors.brokers.sources import Reconnecting, SourceLost, Sources
from cep.connectors.files import read
from cep.connectors.records.batch import Batch
from cep.core.errors import CepError
from cep.engine import Engine
from tests.brokers import MISSING, MOSQUITTO, Cluster
from tests.ports import free_port
from tests.test_serve import PAIRS, Server
from tests.waiting import until

READINGS = "event reading(room: string) TIME time.\nquiet(R) <- reading(R) UNLESS reading(R) WITHIN 1 h.\n"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody waits for the first try; no server is left."""
    monkeypatch.setattr(sources, "FIRST", 0.01)
    yield
    while Server.running:
        Server.running.pop().kill()


class Numbers:
    """A feed of three numbers behind a place, which then goes away."""

    lost = None

    def __init__(self, place: Mapping[int, int]) -> None:
        self.at, self.closed, self.kept_at = place.get(0, 0), False, 0
        self.last = self.at + 3

    def poll(self, most: int, seconds: float) -> Messages | None:
        if self.at == self.last:
            raise SourceLost("numbers://: they are out", code="input")
        self.at += 1
        return Messages(["numbers://"], [self.at], [b"%d" % self.at], place={0: self.at})

    def done(self) -> None:
        """All are the same to it."""

    def kept(self) -> None:
        if self.at == self.last:
            raise SourceLost("numbers://: nobody answers", code="input")

    def close(self) -> None:
        self.closed = True


def test_a_feed_that_goes_away_is_opened_again_behind_what_was_done() -> None:
    opened: list[Numbers] = []
    refused = [CepError("numbers://: not yet", code="input")] * 2

    def again(place: Mapping[int, int]) -> Numbers:
        if refused:
            raise refused.pop()
        opened.append(Numbers(place))
        return opened[-1]

    first = Numbers({})
    feed = Reconnecting(first, again, {0: 0})
    found: list[bytes] = []
    reasons: list[str | None] = []
    while len(found) < 8:
        messages = feed.poll(10, 0.01)
        assert messages is not None
        reasons.append(feed.lost)
        if len(messages):
            found += messages.payloads
            feed.done()
            feed.kept()
    assert found == [b"%d" % number for number in range(1, 9)], "each once, none left out"
    assert first.closed and opened[0].closed and not opened[-1].closed
    reported = list(dict.fromkeys(reasons))
    assert reported[0] is None and set(reported) <= {None, "nobody answers", "not yet"} and len(reported) > 1
    feed.close()
    assert opened[-1].closed


class Door:
    """A place where connections come to."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listening.settimeout(60)
        self.place = f"tcp://127.0.0.1:{self.listening.getsockname()[1]}"

    def opened(self) -> socket.socket:
        return self.listening.accept()[0]

    def shut(self) -> None:
        """Who comes back is refused, until the door is there again."""
        self.address = self.listening.getsockname()
        self.listening.close()

    def there_again(self) -> None:
        self.listening = socket.create_server(self.address)
        self.listening.settimeout(60)


def line(minute: int, room: str) -> bytes:
    return json.dumps({"time": f"2024-05-01T08:{minute:02}:00Z", "room": room}).encode() + b"\n"


def test_a_connection_that_is_closed_is_lost_and_made_again() -> None:
    """Nothing is told of the silence meanwhile, and lines have their numbers on."""
    door, reported = Door(), []
    schemas = Engine.from_text(READINGS).inputs

    def tell(source: str, text: str, /, *, lost: bool) -> None:
        reported.append((source, text.partition(";")[0], lost))

    known = Sources(tell, lasting=True)
    batches = read([f"reading={door.place}"], schemas, idle=0.02, sources=known)

    def rows_in(wanted: int) -> list[Batch]:
        found: list[Batch] = []
        while sum(batch.rows + len(batch.dead) for batch in found) < wanted:
            found.append(next(batches))
        return found

    connection: socket.socket | None = None

    def listen() -> None:  # it is made when the first batch is asked for
        nonlocal connection
        connection = door.opened()
        connection.sendall(b"\xef\xbb\xbf" + line(0, "attic") + b"none\n")

    thread = threading.Thread(target=listen)
    thread.start()
    (*_, last) = rows_in(2)
    thread.join()
    assert connection is not None and last.dead[0].line == 2 and not known.lost
    connection.close()

    silences: list[int] = []
    gone = threading.Event()

    def changed() -> None:
        silences.append(len(known.lost))
        gone.set()

    known.listen(changed)

    def returns() -> None:
        assert gone.wait(60)
        with door.opened() as made:
            made.sendall(line(1, "cellar"))

    thread = threading.Thread(target=returns)
    thread.start()
    found = rows_in(1)
    thread.join()
    assert silences[:2] == [1, 0] and known.losses == {door.place: silences.count(1)}
    quiet = [batch for batch in found if batch.silence]
    assert found[-1].rows == 1 and found[-1].blocks[0].place(found[-1].blocks[0].first) == (door.place, 3)
    assert all(batch.silence < 5_000_000 for batch in quiet)
    why = "the source is lost: the other side has closed the connection"
    assert reported[:2] == [(door.place, why, True), (door.place, "the source is connected again", False)]
    batches.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("options", ["", "?until=closed"])
def test_a_run_reads_a_connection_to_its_end(options: str) -> None:
    door = Door()
    schemas = Engine.from_text(READINGS).inputs

    def serve() -> None:
        with door.opened() as made:
            made.sendall(line(0, "attic") + line(1, "cellar").rstrip())

    thread = threading.Thread(target=serve)
    thread.start()
    known = Sources(lasting=bool(options))
    found = list(read([f"reading={door.place}{options}"], schemas, sources=known))
    thread.join()
    assert sum(batch.rows for batch in found) == 2 and not known.lost, "half a line is one where it was closed"


def test_a_connection_that_breaks_is_no_end() -> None:
    """A run that is to end with it says so, and does not close what is open."""
    door = Door()
    schemas = Engine.from_text(READINGS).inputs

    def serve() -> None:
        made = door.opened()
        made.sendall(line(0, "attic"))
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        made.close()

    thread = threading.Thread(target=serve)
    thread.start()
    with pytest.raises(CepError, match=r"the connection broke: connection reset|no connection: connection reset"):
        list(read([f"reading={door.place}"], schemas))
    thread.join()
    for text in (f"{door.place}?format=nquads&until=ever", f"{door.place}?until=never"):
        with pytest.raises(CepError, match=r"N-Quads from a connection are complete|`until=never` is not known"):
            list(read([f"reading={text}"], schemas))


def test_a_server_says_source_lost_not_resolved(tmp_path: Path) -> None:
    """On the page, in alerts, in `/ready`, in metrics and in the log; when it is there again, alerts go on."""
    door = Door()
    (tmp_path / "pairs.cep").write_text(PAIRS.replace("FOR 1 h", "FOR 60 s"))
    server = Server(str(tmp_path / "pairs.cep"), "--input", f"reading={door.place}", "--idle", "100ms")
    record = '{{"time": {}, "fridge": "milk", "temp": {}}}\n'
    with door.opened() as connection:
        connection.sendall("".join(record.format(at, at) for at in (1, 2, 2.5)).encode())
        (alert,) = server.look("/feeds/alerts", lambda alerts: len(alerts) == 1 and alerts[0]["occurrences"] >= 1)
        assert "lost" not in alert
        door.shut()
    lost = server.look("/ready", lambda reported: reported.get("lost"))
    assert lost["status"] == "ok" and list(lost["lost"]) == [door.place]
    (alert,) = server.look("/feeds/alerts", lambda alerts: alerts and alerts[0].get("lost"))
    assert alert["lost"] == [door.place] and alert["state"] != "resolved"
    door.there_again()
    again = door.opened()
    server.look("/ready", lambda reported: reported == {"status": "ok"})
    metrics = httpx.get(server.url + "/metrics").text
    assert f'semcep_source_up{{source="{door.place}"}} 1.0' in metrics
    assert f'semcep_source_losses_total{{source="{door.place}"}} 1.0' in metrics
    numbers = httpx.get(server.url + "/api/state").json()["numbers"]
    assert numbers["lost"] == [] and numbers["ended"] is False
    again.sendall(record.format(90, 0).encode() + record.format(91, 0).encode())
    server.look(f"/feeds/alerts/{alert['alert']}", lambda life: life[-1]["state"] == "resolved")
    again.close()
    assert server.end(2) == 0
    reported = [entry for entry in server.logged if entry["event"] == "source"]
    assert [entry["lost"] for entry in reported[:2]] == [True, False] and reported[0]["level"] == "warning"
    assert reported[0]["source"] == door.place and "the next attempt is in" in reported[0]["text"]
    assert "the other side has closed the connection" in reported[0]["text"]


def test_a_server_is_ready_when_each_source_has_been_there_once(tmp_path: Path) -> None:
    """Then what is sent is heard. A later loss is only told."""
    door, port = Door(), free_port()
    late = f"tcp://127.0.0.1:{port}"
    (tmp_path / "pairs.cep").write_text(PAIRS)
    server = Server(
        str(tmp_path / "pairs.cep"), "--input", f"reading={door.place}", "--input", f"reading={late}", "--idle", "never"
    )
    with door.opened():
        until(lambda: late in httpx.get(server.url + "/ready").json().get("lost", {}), "one of them is there")
        answer = httpx.get(server.url + "/ready")
        assert (answer.status_code, answer.json()["status"]) == (503, f"waiting for {late}")
        assert httpx.get(server.url + "/health").status_code == 200
        with socket.create_server(("127.0.0.1", port)) as listening:
            listening.settimeout(120)
            with listening.accept()[0]:
                assert server.look("/ready", bool) == {"status": "ok"}
        lost = server.look("/ready", lambda reported: reported.get("lost"))
        assert lost["status"] == "ok" and list(lost["lost"]) == [late]
    assert server.end(2) == 0


def test_a_server_waits_for_sources_that_are_not_there_yet() -> None:
    """A machine that begins starts its services in any order; a run in a terminal fails at once instead."""
    port = free_port()
    place = f"tcp://127.0.0.1:{port}"
    for there in (place, f"mqtt://127.0.0.1:{port}/rooms"):
        with pytest.raises(CepError, match="connection refused"):
            live.opened_source(address(there), {})
    waiting = live.opened_source(address(f"mqtt://127.0.0.1:{port}/rooms"), {}, lasting=True)
    assert waiting.lost == "no broker: connection refused"
    waiting.close()
    with pytest.raises(CepError, match="no connection"):
        live.opened_source(address(place + "?until=closed"), {}, lasting=True)
    with pytest.raises(CepError, match="the address names no topic"):
        live.opened_source(address(f"mqtt://127.0.0.1:{port}"), {}, lasting=True)
    feed = live.opened_source(address(place), {}, lasting=True)
    assert feed.lost == "no connection: connection refused"
    found: list[bytes] = []
    with socket.create_server(("127.0.0.1", port)) as listening:
        listening.settimeout(60)
        with listening.accept()[0] as made:
            made.sendall(b"first\n")
            until(lambda: found.extend(getattr(feed.poll(10, 0.05), "payloads", ())) or found, "the first line")
    assert found == [b"first"]
    feed.close()


def test_brokers_that_go_away_are_lost_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MQTT comes back by itself; of Kafka it is the loss that is seen here, which no longer ends the run."""
    assert MOSQUITTO is not None, MISSING
    port = free_port()
    (tmp_path / "conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")

    def broker() -> subprocess.Popen[bytes]:
        made = subprocess.Popen([str(MOSQUITTO), "-c", str(tmp_path / "conf")], stderr=subprocess.DEVNULL)

        def listens() -> bool:
            with socket.socket() as one:
                return one.connect_ex(("127.0.0.1", port)) == 0

        until(listens, "the broker listens")
        return made

    running = broker()
    topic = live.opened_source(address(f"mqtt://127.0.0.1:{port}/rooms"), {})
    try:
        assert topic.lost is None
        running.kill()
        running.wait()
        until(lambda: topic.lost is not None, "the broker is lost")
        assert topic.lost == "the broker has closed the connection"
        running = broker()
        until(lambda: topic.lost is None, "the broker is back")
    finally:
        running.kill()
        running.wait()
        topic.close()

    monkeypatch.setattr(kafka, "WAIT", 1.0)
    cluster = Cluster("rooms")
    cluster.send([(0, 0, b"1")])
    log = live.opened_source(address(f"kafka://{cluster.servers}/rooms"), {})
    found = log.poll(10, 0.1)
    assert found is not None and found.payloads == [b"1"] and log.lost is None
    log.done()
    del cluster

    def polled() -> bool:
        log.poll(10, 0.1)
        return log.lost is not None

    until(polled, "the loss is seen")
    assert "no answer" in (log.lost or "")
    log.close()
