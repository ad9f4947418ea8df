"""Live inputs on Spark: what a broker has given once is derived from once, however often the query is started again."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from cep.connectors.addresses import address
from cep.connectors.brokers.mqtt import Arrival, Subscription
from cep.connectors.brokers.tcp import Connection
from cep.connectors.inputs import Input
from cep.core.errors import CepError
from cep.engine import Engine
from cep.events import Event
from cep.spark.source.data_source import alive
from cep.spark.source.live import TopicInput, live_input
from cep.spark.source.message_log import MessageLog
from cep.spark.source.message_ranges import MessageRange
from tests import brokers, spark_runs
from tests.brokers import Cluster, mosquitto, publish
from tests.cases_format import difference
from tests.program_maker import SECOND
from tests.spark_runs import alone, distributed, job
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("spark")

PROGRAM = """PREFIX sosa: <http://www.w3.org/ns/sosa/>
event reading(room: string, temp: float).
event door(room: string, open: bool).
event window(room: string AS sosa:hasFeatureOfInterest, open: bool AS sosa:hasSimpleResult).
event tick(value: int) TIME timestamp.
event bell(room: string).
draught(R, T) <- (door(R, O) AND window(R, O) AND reading(R, T)) WITHIN 20 s WHERE O = true, T < 15.
rung(R) <- bell(R) SEQ bell(R) WITHIN 3 s.
late(N) <- tick(V) AGGREGATE N = count() OVER LAST 1 h WHERE N = 300.
"""
SOSA = "http://www.w3.org/ns/sosa/"
TIMES = range(60)


def reading(n: int) -> bytes:
    return json.dumps({"time": n, "room": f"urn:{n % 3}", "temp": n % 30}).encode()


def door(n: int) -> bytes:
    return json.dumps({"time": n + 0.5, "room": f"urn:{n % 3}", "open": n % 2 == 0}).encode()


def bell(n: int) -> bytes:
    return json.dumps({"time": n, "room": f"urn:{n % 3}"}).encode() + b"\n"


def window(n: int) -> str:
    said = {"hasFeatureOfInterest": f"<urn:{n % 3}>", "hasSimpleResult": '"true"', "resultTime": f'"{n + 0.25}"'}
    return "".join(f"<urn:observation:{n}> <{SOSA}{name}> {value} .\n" for name, value in said.items())


@pytest.mark.long
@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
@pytest.mark.skipif(brokers.MOSQUITTO is None, reason=brokers.MISSING)
def test_brokers_files_of_observations_a_connection_and_a_rate_in_one_query(tmp_path: Path) -> None:
    cluster = Cluster("readings")
    with mosquitto(tmp_path / "broker") as port, socket.create_server(("127.0.0.1", 0)) as server:
        inputs = [
            f"reading=kafka://{cluster.servers}/readings?limit=20",
            f"door=mqtt://127.0.0.1:{port}/doors/+?client=roof&quiet=2",
            f"window={tmp_path}/windows",
            "tick=rate://1000000?start=1970-01-01&until=400",
            f"bell=tcp://127.0.0.1:{server.getsockname()[1]}?quiet=2",
        ]
        (tmp_path / "windows").mkdir()
        options = {"lateness": 20 * SECOND, "most": 500, "dead_letters": str(tmp_path / "dead")}

        def ring(part: range) -> None:
            with server.accept()[0] as made:
                made.sendall(b"".join(map(bell, part)))

        def come(part: range) -> None:
            threading.Thread(target=ring, args=(part,)).start()
            cluster.send([(n % 4, n, reading(n)) for n in part])
            publish(port, [(f"doors/{n % 3}", door(n)) for n in part])
            (tmp_path / "windows" / f"{part.start:02}.nq").write_text("".join(map(window, part)))

        Subscription.open(address(inputs[1].removeprefix("door=")), "roof").close()  # from now on there is a session
        come(TIMES[:30])
        publish(port, [("doors/1", b"ajar")])
        distributed(job(PROGRAM, inputs, tmp_path, closing=False, **options))
        assert len(list((tmp_path / "state" / "input-1").glob("*.mail"))) == 1
        come(TIMES[30:])
        found = distributed(job(PROGRAM, inputs, tmp_path, **options))
    written = tmp_path / "all.jsonl"
    events = [{"type": "reading"} | json.loads(reading(n)) for n in TIMES]
    events += [{"type": "door"} | json.loads(door(n)) for n in TIMES]
    events += [{"type": "bell"} | json.loads(bell(n)) for n in TIMES]
    events += [{"type": "window", "time": n + 0.25, "room": f"urn:{n % 3}", "open": True} for n in TIMES]
    written.write_text("".join(json.dumps(event) + "\n" for event in sorted(events, key=lambda each: each["time"])))
    expected = [*alone(PROGRAM, [str(written)], 20 * SECOND), Event("late", (300,), 0, 299)]
    assert len(expected) > 10
    assert difference(expected, found) == ""
    letters = [json.loads(line) for file in (tmp_path / "dead").iterdir() for line in file.read_text().splitlines()]
    assert [(one["file"], one["line"], one["record"]) for one in letters] == [
        (f"mqtt://127.0.0.1:{port}/doors/1", 30, "ajar")
    ]


def test_kept_messages_outlive_any_end(tmp_path: Path) -> None:
    def some(first: int, last: int) -> list[Arrival]:
        return [Arrival(f"rooms/{n % 2}", bytes(1 << 16) + str(n).encode(), n, 1) for n in range(first, last)]

    mail = MessageLog(tmp_path / "mail")
    for first in range(0, 600, 100):
        mail.append(some(first, first + 100))
    assert mail.read(150, 350) == some(150, 350)
    parts = list(mail.cuts(150, 350, 100, 10 << 20))
    assert [(one.first, one.last) for one in parts] == [(150, 250), (250, 300), (300, 350)], "100, a segment, the rest"
    assert [one for part in parts for one in part.read()] == some(150, 350)
    assert [one.last - one.first for one in mail.cuts(150, 300, 100, 1 << 20)] == [15] * 10, "of 64 KiB and a head"
    Path(parts[-1].path).rename(tmp_path / "elsewhere")
    with pytest.raises(CepError, match=r"\.mail cannot be read by a worker on .*: no such file") as caught:
        parts[-1].read()
    assert caught.value.hint == "all machines need the folder of the checkpoint under the same path"
    (tmp_path / "elsewhere").rename(parts[-1].path)
    with pytest.raises(CepError, match="is in use by another run"):
        MessageLog(tmp_path / "mail", timeout=0)
    mail.close()
    files = sorted((tmp_path / "mail").glob("*.mail"))
    assert [file.name.lstrip("0") for file in files] == [".mail", "300.mail"]
    files[-1].write_bytes(files[-1].read_bytes()[:-10])  # killed while it wrote the last one
    again = MessageLog(tmp_path / "mail")
    assert (again.end, len(again.known()), again.known()[598]) == (599, 599, some(598, 599)[0].digest)
    again.append(some(599, 601))
    before = again.known()
    again.forget(450)
    assert (again.read(300, 601), len(list((tmp_path / "mail").glob("*.mail")))) == (some(300, 601), 2)
    with pytest.raises(CepError, match="messages from 299 on are missing"):
        again.read(299, 310)
    again.close()
    once_more = MessageLog(tmp_path / "mail")
    assert once_more.known() == before and len(before) == 601, "also of what is removed"
    once_more.close()
    known = tmp_path / "mail" / "known"
    known.write_bytes(known.read_bytes()[:-1])
    damaged = MessageLog(tmp_path / "mail")
    with pytest.raises(CepError, match="known is damaged"):
        damaged.known()
    damaged.close()


def test_damage_in_what_was_kept_is_told(tmp_path: Path) -> None:
    mail = MessageLog(tmp_path)
    mail.append([Arrival("rooms", b"%d" % n, n, 1) for n in range(100)])
    file = next(tmp_path.glob("*.mail"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    (part,) = mail.cuts(40, 60, 100, 1 << 20)
    for read in (lambda: mail.read(0, 100), part.read):
        with pytest.raises(CepError, match=r"\.mail: message 50 is damaged"):
            read()
    mail.close()
    for _ in range(2):
        with pytest.raises(CepError, match=r"\.mail: message 50 is damaged"):
            MessageLog(tmp_path, timeout=0)
    assert file.read_bytes() == bytes(data), "nothing is cut off"
    data[len(data) // 2] ^= 1
    for wrong in (bytes(data[:-1]) + b"?", bytes(data) + b"not half of a record"):
        file.write_bytes(wrong)
        with pytest.raises(CepError, match=r"message (99|100) is damaged"):
            MessageLog(tmp_path, timeout=0)
    for torn in (
        bytes(data[:-1]),
        bytes(data[:-30]) + bytes(30),
        bytes(data) + bytes(4096),
        bytes(data) + bytes(data[8:30]),
    ):
        file.write_bytes(torn)  # the machine has ended while the last one was written
        again = MessageLog(tmp_path)
        assert again.end == (100 if torn.startswith(data) else 99)
        again.append([Arrival("rooms", b"new", 5, 1)])
        assert again.read(again.end - 1, again.end)[0].payload == b"new"
        again.close()


def lines_of(pieces: list[MessageRange]) -> list[bytes]:
    return [payload for piece in pieces for part in piece.messages() for payload in part.payloads]


def test_lines_of_a_connection_are_kept(tmp_path: Path) -> None:
    """The query fails, the other side closes, and half a line comes before it goes on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = address(f"tcp://127.0.0.1:{server.getsockname()[1]}?quiet=0.1")
        one = Input(place.text, "jsonl", "bell", True, place)
        first = live_input(one, 0, tmp_path / "state" / "input-0")
        assert first.latest(0, None) == 0
        made = server.accept()[0]
        made.sendall(b"".join(b'{"time": %d}\n' % n for n in range(30_000)) + b'{"time": 3')
        end = until(lambda: (end := first.latest(0, None)) >= 30_000 and end, "the whole lines")
        assert (end, first.latest(0, 500), first.latest(400, 500)) == (30_000, 500, 900)
        pieces = first.work_items(400, 30_000)
        assert [piece.first for piece in pieces] == [400, 20_400]
        made.sendall(b"0000}\n" + b'{"time": 30001}')  # without its end: closed as it is, it is a line
        made.close()
        made = server.accept()[0]  # it has come again
        made.sendall(b'{"time": 30002}\n' + bytes(9 << 20) + b"\n")
        until(lambda: first.latest(0, None) >= 30_004, "the lines of the second connection")
        first.commit(400)
        first.stop()  # the query has failed: what is planned is planned again
        made.close()
        again = live_input(one, 0, tmp_path / "state" / "input-0")
        assert lines_of(again.work_items(400, 30_000)) == lines_of(pieces)
        assert lines_of(again.work_items(29_999, 30_003)) == [b'{"time": %d}' % n for n in range(29_999, 30_003)]
        assert [piece.first for piece in again.work_items(20_000, 30_004)] == [20_000, 30_003]  # 9 MiB are an item
        with pytest.raises(CepError, match="there were messages up to 30005, but now only up to 30004"):
            again.latest(30_005, None)
        again.stop()


def soon(act: Callable[[], object]) -> None:
    """Do what must not wait for ever."""
    doing = threading.Thread(target=act, daemon=True)
    doing.start()
    doing.join(120)
    assert not doing.is_alive()


def test_what_never_pauses_is_taken_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody follows, and where the run stops; the folder is then free for the next one."""
    monkeypatch.setattr("cep.spark.source.live._LONGEST", 1.0)

    def pour() -> None:
        with suppress(OSError), server.accept()[0] as made:
            while True:
                made.sendall(bytes(9_999) + b"\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        place = address(f"tcp://127.0.0.1:{server.getsockname()[1]}?quiet=0.1")
        one = Input(place.text, "jsonl", "bell", True, place)
        for number in range(2):
            threading.Thread(target=pour, daemon=True).start()
            post = live_input(one, 0, tmp_path / f"input-{number}")
            if number == 0:
                soon(post.target)
                end = post.latest(0, None)
                assert post.reached(end) and post.latest(end, None) == end
            else:
                until(lambda: post.latest(0, None), "a line")  # noqa: B023
            soon(post.stop)
            MessageLog(tmp_path / f"input-{number}", timeout=0).close()


@pytest.mark.parametrize(
    "failure, message", [(IndexError("of a library"), "of a library"), (None, "receiving has stopped")]
)
def test_an_input_that_ends_unasked_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception | None, message: str
) -> None:
    def take(self: Connection, most: int, seconds: float) -> None:
        if failure is not None:
            raise failure

    monkeypatch.setattr(Connection, "take", take)
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = address(f"tcp://127.0.0.1:{server.getsockname()[1]}")
        one = Input(place.text, "jsonl", "bell", True, place)
        post = live_input(one, 0, tmp_path)
        with pytest.raises((CepError, IndexError), match=message):
            until(lambda: post.latest(0, None) and False, "the input ends")
        post.stop()
    (tmp_path / "address").write_text("")
    with pytest.raises(CepError, match="address is damaged"):
        live_input(one, 0, tmp_path)


def test_a_partition_that_is_added_waits_for_the_next_run(tmp_path: Path) -> None:
    cluster = Cluster("readings")
    cluster.send([(n % 4, n, reading(n)) for n in range(8)])
    place = address(f"kafka://{cluster.servers}/readings")
    shelf = live_input(Input(place.text, "jsonl", "reading", True, place), 0, tmp_path)
    assert isinstance(shelf, TopicInput)
    begin = shelf.begin()
    shelf.target()
    assert shelf._target is not None
    del shelf._target[3]  # as if there had been three of them
    end = shelf.latest(begin, None)
    assert end == {"0": 2, "1": 2, "2": 2, "3": 0} and shelf.reached(end)
    shelf.stop()


def test_lines_that_are_no_records_are_refused() -> None:
    schemas = Engine.from_text(PROGRAM).inputs
    with pytest.raises(CepError, match="a line of N-Quads is not a whole record"):
        alive(schemas, "window=tcp://localhost:1?format=nquads", None)
