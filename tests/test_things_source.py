"""A SensorThings service as a live input: each observation once, in any order of commits, over kills and losses; what
can be wrong with an address and a server."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cep.command import app
from cep.connectors.addresses import address
from cep.connectors.brokers import sources
from cep.connectors.brokers.live import acknowledged
from cep.connectors.brokers.sensorthings import AGAIN, Observations
from cep.connectors.brokers.sources import SourceLost, Sources
from cep.connectors.files import read
from cep.connectors.inputs import inputs
from cep.connectors.records.batch import Batch
from cep.core.compilation import Compilation
from cep.core.errors import CepError
from cep.engine import Engine
from tests.brokers import MISSING, MOSQUITTO, mosquitto, publish
from tests.long import seeds
from tests.ports import free_port
from tests.test_serve import Server
from tests.things_server import ThingsServer, things_server
from tests.waiting import until

PROGRAM = """
event level(level: float FROM result, stream: int FROM datastream, name: string? FROM Datastream.name).
high(Stream, Name, Level) <- level(Level, Stream, Name) WHERE Level > 30.
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    monkeypatch.setattr(sources, "FIRST", 0.01)
    for name in ("USER", "PASSWORD", "TOKEN", "PASSWORD_FILE", "TOKEN_FILE"):
        monkeypatch.delenv(f"SEMCEP_SENSORTHINGS_{name}", raising=False)
    Path("high.cep").write_text(PROGRAM)
    yield
    while Server.running:
        Server.running.pop().kill()


@pytest.fixture
def things() -> Iterator[ThingsServer]:
    with things_server() as server:
        yield server


def run(place: str) -> Result:
    return CliRunner().invoke(app, ["run", "high.cep", "--input", f"level={place}"], prog_name="cep")


def close(batches: Iterator[Batch]) -> None:
    """End the reading, and the threads with it."""
    assert isinstance(batches, Generator)
    batches.close()


def all_of(place: str, behind: Mapping[int, int] | None = None, most: int = 1000) -> tuple[list[Any], dict[int, int]]:
    """The ids of what is there behind a place, and the place behind them."""
    source = Observations.open(address(place + ("&" if "?" in place else "?") + "until=now"), behind or {})
    found: list[Any] = []
    reached = {**(behind or {}), **source.place}
    while (messages := source.poll(most, 0.1)) is not None:
        found += [json.loads(payload)["@iot.id"] for payload in messages.payloads]
        reached |= messages.place
    source.close()
    return found, reached


def test_observations_come_page_by_page_from_the_one_server(things: ThingsServer) -> None:
    for number in range(1, 24):
        things.enter(number, number, 20 + number / 2, 7 + number % 2)
    result = run(f"{things.place}?until=now&page=5")
    assert result.exit_code == 0, result.stderr
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["level"] for row in rows] == [30.5, 31.0, 31.5]
    assert [(row["stream"], row["name"]) for row in rows] == [(8, "stream 8"), (7, "stream 7"), (8, "stream 8")]
    assert "23 records" in result.stderr
    assert [query.get("$filter") for query in things.asked] == [None, *(f"id gt {last}" for last in (5, 10, 15, 20))], (
        "links to other servers are not followed"
    )
    assert {query["$expand"] for query in things.asked} == {"Datastream($select=id,name)"}
    assert all_of(f"{things.place}/Datastreams(7)?filter=result gt 28&expand=none")[0] == [18, 20, 22]


def test_results_of_several_values_are_one_event(things: ThingsServer) -> None:
    """Observations come from a service with both kinds of stream, and from one MultiDatastream. A result that is not as
    declared is a dead letter, and an absent value is a missing one."""
    things.entities = {"MultiDatastreams": []}
    things.enter(1, 1, [21.5, 40, "calm"], stream=None, multi=3)
    things.enter(2, 2, 31.0, stream=3)
    things.enter(3, 3, [35.5, None], stream=None, multi=3)
    things.enter(4, 4, [36.5, "damp"], stream=None, multi=3)
    things.enter(5, 5, None, stream=None, multi=3)
    things.enter(6, 6, [0.0, 0.0], stream=None, multi=3)
    Path("high.cep").write_text("""
        event air(temp: float? FROM result[0], humidity: float? FROM result[1], wind: string? FROM result[2],
                  multi: int? FROM multidatastream, stream: int? FROM datastream, name: string? FROM MultiDatastream.name).
        seen(T, H, W, M, S, N) <- air(T, H, W, M, S, N).
    """)  # noqa: E501
    for path, refused in (("", ["`result` is a number, not a list"]), ("/MultiDatastreams(3)", [])):
        place = f"air={things.place}{path}?until=now"
        result = CliRunner().invoke(app, ["run", "high.cep", "-i", place, "--dead-letter", "dead.jsonl"])
        assert result.exit_code == 0, result.stderr
        rows = [tuple(json.loads(line).get(name) for name in "thwmsn") for line in result.stdout.splitlines()]
        assert rows == [
            (21.5, 40.0, "calm", 3, None, "stream 3"),
            (35.5, None, None, 3, None, "stream 3"),
            (None, None, None, 3, None, "stream 3"),
            (0.0, 0.0, None, 3, None, "stream 3"),
        ]
        dead = [json.loads(line)["reason"] for line in Path("dead.jsonl").read_text().splitlines()]
        assert dead == [*refused, "humidity: expected float, found a string"]
    expands = list(dict.fromkeys(query["$expand"] for query in things.asked))
    multi = "MultiDatastream($select=id,name)"
    assert expands == [f"Datastream($select=id,name),{multi}", multi]


def test_a_smaller_page_of_the_server_and_its_own_links(things: ThingsServer) -> None:
    things.cap = 3
    for number in range(8):
        things.enter(f"n{number}", number // 5, 1.0)
    assert all_of(f"{things.place}?by=resultTime")[0] == [f"n{number}" for number in range(8)]
    assert [query.get("$skip") for query in things.asked] == [None, "3", "6"]


def test_what_a_slower_transaction_enters_is_not_missed(things: ThingsServer) -> None:
    for number in (1, 2, 4, 5):
        things.enter(number, number, 1.0)
    found, place = all_of(things.place)
    assert found == [1, 2, 4, 5]
    things.enter(3, 3, 1.0)
    things.enter(6, 0, 1.0)
    found, place = all_of(things.place, place)
    assert found == [3, 6], "also one that comes with an old time"
    assert all_of(things.place, place)[0] == []


def test_only_what_is_entered_from_now_on(things: ThingsServer) -> None:
    for number in range(1, 6):
        things.enter(number, min(number, 4), 1.0)
    for by in ("id", "resultTime", "phenomenonTime"):
        found, place = all_of(f"{things.place}?from=latest&by={by}")
        assert found == []
        things.enter(number := number + 1, number, 1.0)
        found, place = all_of(f"{things.place}?from=latest&by={by}", place)
        assert found == [number], by


@pytest.mark.parametrize("seed", seeds(60))
def test_each_observation_once_whatever_is_killed(seed: int) -> None:
    """Ids are committed out of order, pages are small, and the reader is killed after any message, by any order."""
    chance = random.Random(seed)
    by = chance.choice(["id", "resultTime", "phenomenonTime"])
    texts = by != "id" and chance.random() < 0.5
    found: list[Any] = []
    place: dict[int, int] = {}
    entered, seconds, waiting = 0, 0, list[int]()
    with things_server() as things:
        things.cap = chance.choice([2, 3, 1000])
        top = chance.choice([1, 2, 5, 1000])
        for _ in range(chance.randrange(2, 8)):
            for _ in range(chance.randrange(12)):
                waiting.append(entered := entered + 1)
            while waiting and chance.random() < 0.9:
                number = waiting.pop(chance.randrange(min(4, len(waiting))) if by == "id" else 0)
                seconds += chance.randrange(2) if by != "id" else chance.randrange(-1, 3)
                things.enter(f"o{number}" if texts else number, max(seconds, 0), 1.0)
            source = Observations.open(address(f"{things.place}?by={by}&page={top}&until=now&expand=none"), place)
            done = chance.randrange(40)
            while done > 0 and (messages := source.poll(chance.randrange(1, 4), 0.1)) is not None:
                found += [json.loads(payload)["@iot.id"] for payload in messages.payloads]
                place |= messages.place
                done -= 1
            source.close()
        there = [row["@iot.id"] for row in things.observations]
        while len(found) < len(there):
            more, place = all_of(f"{things.place}?by={by}&page={top}", place)
            assert more, "what is left comes"
            found += more
        assert sorted(map(str, found)) == sorted(map(str, there)), "none is lost, none comes twice"
        assert all_of(f"{things.place}?by={by}&page={top}", place)[0] == []


def test_many_of_one_time_and_many_ids(things: ThingsServer) -> None:
    for number in range(3 * AGAIN):
        things.enter(number, number // 600, 1.0)
    for by in ("id", "resultTime"):
        some, place = all_of(f"{things.place}?by={by}&page=100")
        assert len(some) == 3 * AGAIN
        assert all_of(f"{things.place}?by={by}&page=100", place)[0] == []


def test_it_is_asked_again_and_lost_while_the_server_fails(things: ThingsServer) -> None:
    told: list[tuple[str, bool]] = []

    def tell(source: str, text: str, /, *, lost: bool) -> None:
        told.append((text, lost))
        if lost:
            things.broken = lambda: None

    lost = Sources(tell)
    schemas = Engine.from_text(PROGRAM).inputs
    for number in (1, 2):
        things.enter(number, number, number)
    batches = read([f"level={things.place}?every=0.1"], schemas, idle=0.2, sources=lost)
    found = [row for batch in [next(batches)] for row in batch.tables["level"]["level"]]
    for answer in [(503, "text/plain", b"be right back"), (200, "text/html", b"<html>hello"), (404, "text/plain", b"")]:
        things.broken = lambda answer=answer: answer  # type: ignore[misc]
        number += 1
        things.enter(number, number, number)

        while len(found) < number:
            batch = next(batches)
            found += batch.tables["level"]["level"].to_list() if batch.tables else []
    assert found == [1, 2, 3, 4, 5]
    reasons = [text for text, gone in told if gone]
    assert [reason.split("; the next attempt")[0] for reason in reasons] == [
        "the source is lost: the server answers 503 Service Unavailable: be right back",
        "the source is lost: the answer is not a page of observations, it is not an object: `<html>hello`",
        "the source is lost: the server answers 404 Not Found",
    ]
    assert [gone for _, gone in told] == [True, False] * 3
    close(batches)


def test_who_asks_stands_in_the_environment(things: ThingsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    things.enter(1, 1, 1.0)
    monkeypatch.setenv("SEMCEP_SENSORTHINGS_USER", "ann")
    monkeypatch.setenv("SEMCEP_SENSORTHINGS_PASSWORD", "sesame")
    all_of(things.place)
    monkeypatch.setenv("SEMCEP_SENSORTHINGS_TOKEN", "abc")
    all_of(things.place)
    Path("secret").write_text("sesame\n")
    for name in ("TOKEN", "PASSWORD"):
        monkeypatch.delenv(f"SEMCEP_SENSORTHINGS_{name}")
    monkeypatch.setenv("SEMCEP_SENSORTHINGS_PASSWORD_FILE", "secret")
    all_of(things.place)
    monkeypatch.setenv("SEMCEP_SENSORTHINGS_TOKEN_FILE", "secret")
    all_of(things.place)
    asked = [headers["Authorization"] for headers in things.headers]
    basic = "Basic YW5uOnNlc2FtZQ=="
    assert list(dict.fromkeys(asked)) == [basic, "Bearer abc", "Bearer sesame"]
    assert asked.count(basic) == asked.count("Bearer abc") * 2, "each request says so"
    monkeypatch.setenv("SEMCEP_SENSORTHINGS_TOKEN_FILE", "absent")
    with pytest.raises(CepError, match="SEMCEP_SENSORTHINGS_TOKEN_FILE=absent: no such file"):
        all_of(things.place)


@pytest.mark.parametrize(
    "place, message, hint",
    [
        (
            "sensorthings+http://h/FROST/v1.1/Things",
            "`FROST/v1.1/Things` does not lead to observations",
            "Datastreams(7)",
        ),
        ("sensorthings+http://h", "the address has no path to a service", "FROST-Server/v1.1"),
        ("sensorthings+http://u:secret@h/v1.1", "a password does not belong here", "SEMCEP_SENSORTHINGS_PASSWORD"),
        ("sensorthings+http://h/v1.1?by=time", "`by=time` is not known", "id, resultTime, phenomenonTime"),
        ("sensorthings+http://h/v1.1?every=0", "`every=0` is not a number of at least 0.1", "every=5"),
        ("sensorthings+http://h/v1.1?page=0", "`page=0` is not a number of at least 1", "page=1000"),
        ("sensorthings+http://h/v1.1?format=csv", "`format` is not an option", "options are by"),
        ("sensorthings+http://127.0.0.1:1/v1.1", "no answer: connection refused", "is the server running"),
        ("sensorthings+http://169.254.169.254/v1.1", "of a cloud's metadata", "`?private=yes` allows it"),
        ("sensorthings+http://2852039166/v1.1", "of a cloud's metadata", "`?private=yes` allows it"),
        ("sensorthings+https://127.0.0.1:1/v1.1?ca=none.pem", "TLS: no such file or directory", "name PEM files"),
        ("sensorthings+mqtt://h/v1.1/Things", "`v1.1/Things` does not lead to observations", "v1.1/Datastreams(7)"),
        ("sensorthings+mqtt://h?format=csv", "the messages have the format sensorthings", "leave `format` out"),
        ("http://h/FROST-Server/v1.1", "`http://` is not a kind of input", "`sensorthings+http://`"),
    ],
)
def test_a_wrong_address_is_refused(place: str, message: str, hint: str) -> None:
    result = run(place)
    first, second = result.stderr.splitlines()[:2]
    assert result.exit_code == 2 and message in first and hint in second, result.stderr
    assert "secret" not in result.stderr


@pytest.mark.parametrize(
    "answer, message, hint",
    [
        ((401, "text/plain", b"who?"), "the server answers 401 Unauthorized: who?", "SEMCEP_SENSORTHINGS_TOKEN"),
        ((302, "text/plain", b""), "it sends to http://169.254.169.254/latest", "redirections are not followed"),
        ((400, "text/plain", b"Failed\x1b[31m to parse"), "400 Bad Request: Failed [31m to parse", None),
        (
            (200, "text/html", b"<html>"),
            "the answer is not a page of observations, it is not an object: `<html>`",
            "path",
        ),
        ((200, "application/json", b'{"value": {}}'), "it has no list `value`", "path"),
        ((200, "application/json", b'{"value": [7]}'), "it has no list `value` of objects", "path"),
        ((200, "application/json", b'{"value": [{}'), "the answer is not a page of observations, bad JSON", "path"),
        ((200, "application/json", b"\xff"), "the answer is not UTF-8", None),
        (
            (200, "application/json", b'{"value": [{"@iot.id": "a"}]}'),
            "the ids are not increasing numbers",
            "`by` is one of",
        ),
        (
            (200, "application/json", b'{"value": [{"result": 2}]}'),
            "the ids are not increasing numbers",
            "`by` is one of",
        ),
        (
            (200, "application/json", b'{"value": [{"@iot.id": 2}, {"@iot.id": 1}]}'),
            "the service ignores `$orderby=id asc`: it sends the id 1 after 2",
            "`by` is one of",
        ),
        (
            (200, "application/json", b'{"value": [{"@iot.id": 2}], "@iot.nextLink": "?a"}'),
            "the service ignores `$filter=id gt 2`: it sends the id 2",
            "`by` is one of",
        ),
    ],
)
def test_a_wrong_answer_is_refused(
    things: ThingsServer, answer: tuple[int, str, bytes], message: str, hint: str | None
) -> None:
    things.broken = lambda: answer
    result = run(f"{things.place}?until=now")
    lines = result.stderr.splitlines()
    assert result.exit_code != 0 and message in lines[0] and "\x1b" not in result.stderr, result.stderr
    assert hint is None or hint in lines[1], result.stderr


@pytest.mark.parametrize(
    "row, message",
    [
        ({"@iot.id": 1, "phenomenonTime": "2024-05-01T08:00:00Z/2024-05-01T09:00:00Z"}, "is an interval"),
        ({"@iot.id": 1, "phenomenonTime": None}, "an observation has no `phenomenonTime`"),
        ({"@iot.id": 1, "phenomenonTime": "yesterday"}, "`yesterday` is not an ISO 8601 time"),
        ({"phenomenonTime": "2024-05-01T08:00:00Z"}, "an observation has no `@iot.id`"),
    ],
)
def test_times_that_give_no_order_are_refused(things: ThingsServer, row: dict[str, Any], message: str) -> None:
    things.broken = lambda: (200, "application/json", json.dumps({"value": [row]}).encode())
    with pytest.raises(CepError, match=message):
        all_of(f"{things.place}?by=phenomenonTime")


def test_one_order_is_kept_to(things: ThingsServer) -> None:
    things.enter(1, 1, 1.0)
    _, place = all_of(things.place)
    with pytest.raises(CepError, match="the observations were read by id so far"):
        all_of(f"{things.place}?by=resultTime", place)


def test_a_server_that_is_down_is_waited_for_by_a_server_only() -> None:
    place = address(f"sensorthings+http://127.0.0.1:{free_port()}/v1.1")
    with pytest.raises(SourceLost):
        Observations.open(place, {})


def test_spark_reads_no_service(things: ThingsServer) -> None:
    arguments = ["run", "high.cep", "--on", "spark", "--follow", "--lateness", "1s", "--checkpoint", "state"]
    arguments += ["--output", "out", "--input", f"level={things.place}"]
    result = CliRunner().invoke(app, arguments, prog_name="cep")
    assert result.exit_code == 2 and "Spark cannot poll a service" in result.stderr
    assert "`sensorthings+mqtt://host`" in result.stderr and not things.asked


@pytest.mark.long
def test_a_killed_server_goes_on_where_it_was(tmp_path: Path) -> None:
    """The service is down at first; the server is killed three times, while observations are entered."""
    with things_server() as things:
        pass
    place = things.place
    arguments = [str(tmp_path / "high.cep"), "--state", str(tmp_path / "state"), "--idle", "never"]
    arguments += ["--input", f"level={place}?every=0.1&page=3"]
    server = Server(*arguments)
    count = 0
    with things_server(things, things.port):
        for turn in range(4):
            for _ in range(10):
                count += 1
                things.enter(count, count, 30.0 + count)
            server.look("/ready", lambda said: not said.get("lost"))
            assert len(server.rows(count=count - 1)) == count - 1, f"in turn {turn}: the last waits for a later one"
            if turn < 3:
                assert server.end(signal.SIGKILL) == -signal.SIGKILL
                count += 1
                things.enter(count, count, 30.0 + count)
                server = Server(*arguments)
        asked = len(things.asked)
        until(lambda: len(things.asked) > asked + 1, "it is asked again")
        assert len(server.rows(count=count - 1)) == count - 1, "none came twice"
        assert server.end(signal.SIGTERM) == 0


def test_addresses_name_their_observations() -> None:
    one = address("sensorthings+https://ann@h/FROST-Server/v1.1/Datastreams(7)?by=resultTime")
    assert (one.kind, one.tls, one.hosts, one.user) == ("sensorthings", True, (("h", 443),), "ann")
    assert one.text == "sensorthings+https://h/FROST-Server/v1.1/Datastreams(7)/Observations"
    for text, path in [
        ("sensorthings+mqtt://h", "v1.1/Observations"),
        ("sensorthings+mqtt://h/v1.0", "v1.0/Observations"),
        ("sensorthings+mqtt://h/v1.1/Datastreams(7)?client=roof", "v1.1/Datastreams(7)/Observations"),
        ("sensorthings+mqtts://h/v1.1/MultiDatastreams('a')/Observations", "v1.1/MultiDatastreams('a')/Observations"),
    ]:
        one = address(text)
        assert (one.kind, one.path, one.options["format"]) == ("mqtt", path, "sensorthings")
        assert one.tls == text.startswith("sensorthings+mqtts")
    schemas = Engine.from_text(PROGRAM).inputs
    (kept,) = inputs(["level=sensorthings+http://h/v1.1"], schemas)
    (bounded,) = inputs(["level=sensorthings+http://h/v1.1?until=now"], schemas)
    assert kept.format == "sensorthings" and acknowledged(kept) and not acknowledged(bounded)


@pytest.mark.skipif(MOSQUITTO is None, reason=MISSING)
def test_observations_of_a_broker(tmp_path: Path) -> None:
    text = "event level(level: float FROM result, stream: string FROM topic[1]).\n"
    schemas = Engine.from_text(text + "high(S, L) <- level(L, S).\n").inputs
    with mosquitto(tmp_path / "broker") as port:
        place = f"sensorthings+mqtt://127.0.0.1:{port}/v1.1/Datastreams(7)"
        batches = read([f"level={place}"], schemas, idle=0.3)
        assert next(batches).silence
        observation = {"@iot.id": 1, "phenomenonTime": "2024-05-01T08:00:00Z", "result": 3.5}
        topics = ["v1.1/Datastreams(8)/Observations", "v1.1/Datastreams(7)/Observations"]
        publish(port, [(topic, json.dumps(observation).encode()) for topic in topics])
        batch = next(batch for batch in batches if batch.tables)
        assert batch.tables["level"].select("level", "stream").rows() == [(3.5, "Datastreams(7)")]
        assert batch.origin("level", 0)[0] == f"{place}/Observations"
        close(batches)
