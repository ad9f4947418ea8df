"""Things of a service that change during a run: from when on rules see it, over kills; what is refused, and by name."""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from cep.app import things as app_things
from cep.app.knowledge_updates import KnowledgeUpdates
from cep.app.pipeline import Interrupt, flow
from cep.app.things import ThingsFollower, ThingsService
from cep.command import app
from cep.connectors.dead_letters import DeadLetters
from cep.connectors.records.batch import Batch
from cep.core.compilation import Compilation
from cep.core.logs import Log
from cep.engine import Engine
from cep.knowledge.change import Change
from cep.knowledge.graph import Knowledge
from cep.knowledge.things import in_graph, known_in_graph, things_to_rdf
from cep.runtime.run_stats import RunStats
from tests.long import seeds
from tests.serving import EIGHT
from tests.test_serve import Server
from tests.test_serve_journal import SECOND, Killed, Row, readings
from tests.test_serve_journal import run as journaled
from tests.test_things_knowledge import stream, thing
from tests.things_server import ThingsServer, things_server
from tests.waiting import until

LEVELS = """
PREFIX sosa: <http://www.w3.org/ns/sosa/>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
PREFIX dct: <http://purl.org/dc/terms/>
PREFIX thing: <urn:semcep:thing/>
event level(level: float FROM result, stream: int FROM datastream).
high(Place, Level) <- level(Level, Stream) WHERE {
    ?d dct:identifier ?Stream ; sosa:hasFeatureOfInterest ?t . ?t rdfs:label ?Place ; thing:limit ?Limit },
    Level > Limit.
"""
BASE = "https://example.org/v1.1"
FRIDGES = """
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
PREFIX thing: <urn:semcep:thing/>
event reading(fridge: string, temp: float) TIME time.
warm(F, T, L) <- reading(F, T) WHERE { ?f rdfs:label ?F ; thing:limit ?L }, T > L.
quiet(F) <- reading(F, _) UNLESS reading(F, _) WITHIN 6 s.
silent(F) <- quiet(F) WHERE { ?f rdfs:label ?F ; thing:limit ?L }, L < 0.5.
"""
WARM = FRIDGES[: FRIDGES.index("quiet(F)")]


def signed(sign: int) -> pl.Expr:
    """The column that says whether a record comes or is withdrawn."""
    return pl.lit(sign, pl.Int8).alias("@change")


def quiet(event: str, text: str | None, level: str = "info", /, **fields: object) -> None:
    """A log that nobody reads."""


def quads(*limits: float) -> frozenset[str]:
    """Return the quads that a service gives for the fridges a, b, ... with these limits."""
    rows = [thing(number, "abc"[number], limit, 8.0) for number, limit in enumerate(limits)]
    return in_graph(things_to_rdf(BASE, {"Things": rows}), BASE)


def knowledge(*limits: float) -> Knowledge:
    import pyoxigraph as ox

    return Knowledge.of(list(ox.parse("\n".join(sorted(quads(*limits))), ox.RdfFormat.N_QUADS)))


def difference(before: frozenset[str], now: frozenset[str]) -> bytes:
    return Change(before - now, now - before).written()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    monkeypatch.setattr(app_things, "FIRST", 0.05)
    Path("levels.cep").write_text(LEVELS)
    yield
    while Server.running:
        Server.running.pop().kill()


@pytest.fixture
def served() -> Iterator[ThingsServer]:
    with things_server(gauges(3.0, 4.0)) as server:
        yield server


def gauges(*limits: float) -> ThingsServer:
    """A service of gauges with limits; the datastream of gauge n is n + 6."""
    made = ThingsServer()
    made.entities = {
        "Things": [thing(n, f"gauge {n}", limit, 8.0 + n) for n, limit in enumerate(limits, 1)],
        "Datastreams": [stream(n + 6, n) for n in range(1, len(limits) + 1)],
    }
    return made


def change(served: ThingsServer, number: int, **properties: Any) -> None:
    """The service says something else of a gauge from now on."""
    things = served.entities["Things"]
    things[number - 1] = {**things[number - 1], "properties": {**things[number - 1]["properties"], **properties}}


def invoked(*words: str) -> Result:
    return CliRunner().invoke(app, ["run", "levels.cep", *words], prog_name="cep")


def test_it_is_loaded_at_the_start_of_a_run_and_of_other_commands(served: ThingsServer) -> None:
    for number, level in enumerate((3.5, 4.5), 1):
        served.enter(number, number, level, stream=7)
    served.enter(3, 3, 3.5, stream=8)
    result = invoked("--input", f"level={served.place}?until=now", "--knowledge", served.place)
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["place"], row["level"]) for row in rows] == [("gauge 1", 3.5), ("gauge 1", 4.5)]
    for words in (
        ["check", "levels.cep", "-k", served.place],
        ["plan", "levels.cep", "-k", f"{served.place}?every=60"],
        ["knowledge", "stats", "-k", served.place],
        ["knowledge", "query", "SELECT ?n { GRAPH ?g { ?t a sosa:Platform ; rdfs:label ?n } }", "-k", served.place],
    ):
        result = CliRunner().invoke(app, words, prog_name="cep")
        assert result.exit_code == 0, result.output
    assert "gauge 1" in result.output and "gauge 2" in result.output


@pytest.mark.parametrize("seed", seeds(40))
def test_rules_see_a_change_in_what_ends_behind_all_that_had_come(seed: int) -> None:
    """Records come out of order within the lateness; which limit judges each is computed apart. Runs that are killed
    at any batch, with snapshots that are saved later, derive the same; so do those that are cut otherwise."""
    chance = random.Random(seed)
    limits = (3.0, 3.0)
    now, latest, first = 4, -1, 0
    batches: list[Batch] = []
    expected: set[Row] = set()
    changes: list[tuple[int, tuple[float, ...]]] = [(-1, limits)]
    for _ in range(chance.randrange(4, 16)):
        rows = []
        before = limits
        if chance.random() < 0.4:
            limits = chance.choice([3.0, 1.0, 2.0]), chance.choice([3.0, 0.0])
            changes.append((latest, limits))
        for _ in range(chance.randrange(1, 4)):
            now += chance.randrange(3)
            rows.append((now - chance.randrange(3), chance.choice("ab"), float(chance.randrange(5))))
        for at, fridge, temp in rows:
            limit = next(of for since, of in reversed(changes) if at > since)["ab".index(fridge)]
            if temp > limit:
                end = EIGHT + at * SECOND
                expected.add(("warm", end, end, fridge, temp, limit))
        latest = max(latest, *(at for at, _, _ in rows))
        known = b"" if before == limits else difference(quads(*before), quads(*limits))
        batches.append(replace(readings(first, *rows), knowledge=known))
        first += len(rows)

    def program() -> Engine:
        return Engine.from_text(FRIDGES, knowledge=knowledge(3.0, 3.0), lateness=3 * SECOND)

    def warm(found: set[Row]) -> set[Row]:
        return {row for row in found if row[0] == "warm"}

    whole: set[Row] = set()
    for folder in ("whole", "killed"):
        Path(folder).mkdir()
    journaled(Path("whole"), iter(batches), None, whole, 1000, program=program)
    assert warm(whole) == expected
    left, found = batches, set[Row]()
    while True:
        taken = 0

        def counted(left: list[Batch] = left) -> Iterator[Batch]:
            nonlocal taken
            for batch in left:
                taken += 1
                yield batch

        stop = chance.choice([None, *range(8)])
        try:
            journaled(Path("killed"), counted(), stop, found, chance.randrange(1, 4), chance.randrange(3), program)
        except Killed:
            left = left[taken:]
        else:
            break
    assert found == whole


@pytest.mark.parametrize("seed", seeds(40))
def test_what_is_put_right_is_judged_by_the_knowledge_of_its_time(seed: int) -> None:
    """With --revise: records come late and are withdrawn, and a change holds for what ends behind all that had come."""
    chance = random.Random(seed)
    limits = (3.0, 3.0)
    now, latest, first = 4, -1, 0
    batches: list[Batch] = []
    changes: list[tuple[int, tuple[float, ...]]] = [(-1, limits)]
    held: dict[int, tuple[int, str, float]] = {}  # by number, what nobody has withdrawn
    for _ in range(chance.randrange(4, 16)):
        before = limits
        if chance.random() < 0.5:
            limits = chance.choice([3.0, 1.0, 2.0]), chance.choice([3.0, 0.0])
            changes.append((latest, limits))
        rows = []
        for _ in range(chance.randrange(1, 4)):
            now += chance.randrange(3)
            rows.append((now - chance.randrange(4), chance.choice("ab"), float(chance.randrange(5))))
        gone = [number for number, (at, _, _) in held.items() if at > latest - 2 and chance.random() < 0.3]
        tables = [readings(number, held.pop(number)).tables["reading"].with_columns(signed(-1)) for number in gone]
        tables.append(readings(first, *rows).tables["reading"].with_columns(signed(1)))
        held |= dict(enumerate(rows, first))
        first, latest = first + len(rows), max(latest, *(at for at, _, _ in rows))
        known = b"" if before == limits else difference(quads(*before), quads(*limits))
        batches.append(Batch({"reading": pl.concat(tables)}, [], [], knowledge=known))
    expected: Counter[Row] = Counter()
    for at, fridge, temp in held.values():
        limit = next(of for since, of in reversed(changes) if at > since)["ab".index(fridge)]
        if temp > limit:
            expected["warm", EIGHT + at * SECOND, EIGHT + at * SECOND, fridge, temp, limit] += 1
    found: Counter[Row] = Counter()

    def take(batch: Batch | None, tables: Any) -> None:
        table = tables.get("warm", pl.DataFrame())
        for row in table.iter_rows(named=True):
            values = [value for name, value in row.items() if not name.startswith("@")]
            found["warm", *values] += row["@change"]

    engine = Engine.from_text(WARM, knowledge=knowledge(3.0, 3.0), revise=5 * SECOND)
    flow(engine, iter(batches), RunStats(), take, DeadLetters(), Interrupt())
    assert {row: number for row, number in found.items() if number} == expected


def test_a_silence_before_a_change_and_after_it() -> None:
    """Absence is judged by what is known when its time is over; also if the change came in the middle."""
    knows = difference(quads(3.0), quads(0.0))

    def derived(*batches: Batch) -> list[tuple[str, int]]:
        engine = Engine.from_text(FRIDGES, knowledge=knowledge(3.0), lateness=0)
        found: list[tuple[str, int]] = []

        def take(batch: Batch | None, tables: Any) -> None:
            for name, table in tables.items():
                found.extend((name, (end - EIGHT) // SECOND) for end in table["end"].to_list() if name != "quiet")

        interrupt = Interrupt()

        def coming() -> Iterator[Batch]:
            yield readings(0, (0, "a", 1.0))
            yield from batches
            interrupt.signal = 2

        flow(engine, coming(), RunStats(), take, DeadLetters(), interrupt)
        return found

    silence = [Batch({}, [], [], silence=seconds * SECOND) for seconds in (3, 5, 8)]
    assert derived(*silence) == []
    assert derived(silence[0], replace(silence[1], knowledge=knows), silence[2]) == [("silent", 6)]
    assert derived(*silence, replace(readings(1, (20, "a", 1.0), (21, "a", 0.0)), knowledge=knows)) == [("warm", 20)]


def test_what_is_refused_of_a_change_is_a_dead_letter_and_the_rest_holds() -> None:
    engine = Engine.from_text(FRIDGES, knowledge=knowledge(3.0, 3.0), lateness=0)
    updates = KnowledgeUpdates(())
    before, now = quads(3.0, 3.0), quads(1.0, 3.0)
    wrong = {
        line.replace('"3.0"^^<http://www.w3.org/2001/XMLSchema#double>', '"much"')
        for line in now
        if "/Things(1)" in line
    }
    now = frozenset(line for line in now if "/Things(1)" not in line) | wrong
    updates.take(engine, difference(before, now))
    (dead,) = updates.take_dead()
    assert dead.file == BASE and dead.code == "type" and '"much"' in (dead.text or "")
    found = engine.push(readings(0, (1, "a", 2.0), (2, "b", 9.0)).tables), engine.close()
    assert [row[2:] for each in found for row in each["warm"].rows()] == [("a", 2.0, 1.0), ("b", 9.0, 3.0)]


def test_what_a_service_says_goes_from_its_own_graph_alone() -> None:
    """A file that says the same still holds; what is known after changes is what the engine knows."""
    known = knowledge(3.0)
    gone = Change(quads(3.0), frozenset()).written()
    assert known_in_graph(known, [], BASE) == quads(3.0)
    assert known_in_graph(known, [gone, difference(frozenset(), quads(1.0))], BASE) == quads(1.0)
    assert known_in_graph(known, [], "https://example.org/other") == frozenset()


def test_a_follower_goes_on_from_what_came_again(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [quads(1.0, 3.0)]
    monkeypatch.setattr(ThingsService, "quads", lambda self: said[0])
    log: Log = quiet
    follower = ThingsFollower([f"sensorthings+{BASE}"], knowledge(3.0, 3.0), None, True, log)
    again = Batch({}, [], [], knowledge=difference(quads(3.0, 3.0), quads(2.0, 3.0)))
    assert list(follower.repeated(iter([again]))) == [again]

    def coming() -> Iterator[Batch]:
        until(lambda: follower._fetched, "what the service says")
        yield Batch({}, [], [])
        yield Batch({}, [], [])

    first, second = follower.followed(coming())
    assert first.knowledge == difference(quads(2.0, 3.0), quads(1.0, 3.0)) and not second.knowledge


def test_things_are_fetched_again_while_a_server_runs(served: ThingsServer) -> None:
    """Each event is judged by the knowledge of its time, also after a kill. The service changes while the server is
    down; its new answer holds from the restart on."""
    high = "SELECT ?p ?l { ?e <urn:semcep:attribute/high/place> ?p ; <urn:semcep:attribute/high/level> ?l } ORDER BY ?l"
    limits = "SELECT ?l { ?t <urn:semcep:thing/limit> ?l } ORDER BY ?l"
    arguments = ["levels.cep", "--idle", "never", "--knowledge", f"{served.place}?every=1", "--state", "state"]
    arguments += ["--input", f"level={served.place}?every=0.1"]

    def fetched() -> int:
        return sum(query.get("$expand") == "Locations" for query in served.asked)

    for number, level in enumerate((3.5, 0.0), 1):
        served.enter(number, number, level, stream=7)
    server = Server(*arguments)
    assert server.rows(high, 1) == [["gauge 1", "3.5"]]
    change(served, 1, limit=9.0)
    change(served, 2, limit=1.0)
    before = fetched()
    until(lambda: fetched() > before + 1, "a fetch that is whole")
    for number, (level, datastream) in enumerate([(3.7, 7), (3.8, 8), (0.0, 8)], 3):
        served.enter(number, number, level, stream=datastream)
    assert server.rows(high, 2) == [["gauge 1", "3.5"], ["gauge 2", "3.8"]]
    assert server.rows(limits, 2) == [["1"], ["9"]], "who asks the knowledge gets what is known now"
    assert server.end(signal.SIGKILL) != 0
    change(served, 1, limit=2.0)
    server = Server(*arguments)
    assert server.rows(high, 2) == [["gauge 1", "3.5"], ["gauge 2", "3.8"]], "what was derived stays"
    before = fetched()
    until(lambda: fetched() > before + 1, "a fetch that is whole")
    for number, (level, datastream) in enumerate([(0.5, 8), (2.5, 7), (0.0, 8)], 6):
        served.enter(number, number, level, stream=datastream)
    assert server.rows(high, 3) == [["gauge 1", "2.5"], ["gauge 1", "3.5"], ["gauge 2", "3.8"]]
    assert server.rows(limits, 2) == [["1"], ["2"]]
    assert server.end(signal.SIGTERM) == 0


def test_a_server_that_revises_judges_by_the_knowledge_of_the_time(served: ThingsServer) -> None:
    """A record that comes late is judged by what was known of its time, also after a kill, however often Things were
    fetched since."""
    high = "SELECT ?p ?l { ?e <urn:semcep:attribute/high/place> ?p ; <urn:semcep:attribute/high/level> ?l } ORDER BY ?l"
    arguments = ["levels.cep", "--idle", "never", "--knowledge", f"{served.place}?every=1", "--state", "state"]
    arguments += ["--input", f"level={served.place}?every=0.1", "--revise", "30min", "--keep-history"]

    def fetched() -> int:
        return sum(query.get("$expand") == "Locations" for query in served.asked)

    served.enter(1, 10, 3.5, stream=7)
    server = Server(*arguments)
    assert server.rows(high, 1) == [["gauge 1", "3.5"]]
    change(served, 1, limit=9.0)
    before = fetched()
    until(lambda: fetched() > before + 1, "a fetch that is whole")
    served.enter(2, 20, 9.5, stream=7)
    served.enter(3, 21, 4.0, stream=7)
    served.enter(4, 5, 3.6, stream=7)  # late: the limit was 3 then
    assert server.rows(high, 3) == [["gauge 1", "3.5"], ["gauge 1", "3.6"], ["gauge 1", "9.5"]]
    assert server.end(signal.SIGKILL) != 0
    change(served, 1, limit=1.0)
    server = Server(*arguments)
    assert server.rows(high, 3)[0] == ["gauge 1", "3.5"], "what was derived stays"
    before = fetched()
    until(lambda: fetched() > before + 1, "a fetch that is whole")
    for number, (second, level) in enumerate([(15, 4.1), (6, 3.7), (30, 2.0)], 5):
        served.enter(number, second, level, stream=7)
    rows = [["gauge 1", level] for level in ("2", "3.5", "3.6", "3.7", "9.5")]
    assert server.rows(high, 5) == rows, "4.1 was below the limit then"
    assert server.end(signal.SIGTERM) == 0


def test_a_service_that_fails_is_asked_again_and_what_is_known_stays(served: ThingsServer) -> None:
    told: list[tuple[str, bool]] = []

    def log(event: str, text: str | None, level: str = "info", /, **fields: object) -> None:
        if event == "source":
            told.append((text or "", bool(fields["lost"])))
            served.broken = lambda: None

    known = Knowledge.of([])
    follower = ThingsFollower([served.place], known, None, True, log)
    served.broken = lambda: (503, "text/plain", b"be right back")

    def coming() -> Iterator[Batch]:
        yield Batch({}, [], [])
        until(lambda: follower._fetched, "what the service says")
        yield Batch({}, [], [])

    first, second = follower.followed(coming())
    assert not first.knowledge and b"gauge 1" in second.knowledge
    assert [gone for _, gone in told] == [True, False]
    assert "the server answers 503 Service Unavailable: be right back; semcep keeps the known ones" in told[0][0]


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (
            ["--input", "level=levels.jsonl", "--knowledge", "PLACE?every=60"],
            "but the input is files",
            "leave out `every`",
        ),
        (["--input", "level=levels.jsonl", "-k", "PLACE", "-k", "PLACE?every=60"], "is named twice", None),
        (["--input", "level=levels.jsonl", "-k", "PLACE?from=latest"], "`from` is an option of an input", "every"),
        (
            ["--input", "level=levels.jsonl", "-k", "PLACE?every=0"],
            "`every=0` is not a number of at least 1",
            "every=60",
        ),
        (
            ["--input", "level=levels.jsonl", "-k", "PLACE/Datastreams(7)"],
            "this is the address of one entity",
            "leave the entity out",
        ),
        (
            ["--input", "level=in", "--on", "spark", "--output", "out", "--checkpoint", "c", "-k", "PLACE"],
            "but knowledge is read from files",
            "fetch",
        ),
    ],
)
def test_what_is_refused(served: ThingsServer, words: list[str], message: str, hint: str | None) -> None:
    Path("levels.jsonl").write_text("")
    Path("in").mkdir()
    result = invoked(*(word.replace("PLACE", served.place) for word in words))
    assert result.exit_code == 2 and message in result.output, result.output
    assert hint is None or hint in result.output, result.output


def test_another_program_is_refused_while_things_may_change(served: ThingsServer) -> None:
    Path("tokens").write_text("ann editor " + "t" * 40 + "\n")
    Path("tokens").chmod(0o600)
    server = Server(
        "levels.cep",
        "--knowledge",
        f"{served.place}?every=60",
        "--input",
        f"level={served.place}",
        "--token-file",
        "tokens",
    )
    import httpx

    answer = httpx.put(
        f"{server.url}/program", content=LEVELS, headers={"Authorization": "Bearer " + "t" * 40}, timeout=60
    )
    assert answer.status_code == 409 and f"the Things of {served.place}, which may change" in answer.text, answer.text
    assert server.end(signal.SIGTERM) == 0


def test_changes_from_a_file_are_refused_beside_things_that_may_change(served: ThingsServer) -> None:
    Path("changes.nq").write_text("")
    words = ["--knowledge", served.place, "--knowledge-updates", "changes.nq", "--state", "state"]
    result = CliRunner().invoke(app, ["serve", "levels.cep", "--input", f"level={served.place}", *words])
    assert result.exit_code == 2 and "a snapshot already has the changes of a service's Things" in result.output
    assert "cep knowledge fetch" in result.output
