"""Worker processes derive what one engine derives, in its order, with any number of them, stopped and restored."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cep.compile import CompileOptions, compiled
from cep.connectors.writing.unordered_rows import WrittenRows, in_order
from cep.connectors.writing.writers import written_rows
from cep.core.errors import CepError
from cep.engine import Engine
from cep.events import Event, types_of
from cep.plan.partition import partition
from cep.runtime.options import EngineOptions
from cep.workers import partitioned_engine
from cep.workers.messages import Made
from cep.workers.partitioned_engine import PartitionedEngine, dealt_engine
from cep.workers.rounds import Rounds
from tests.keyed_programs import keyed_programs
from tests.local_workers import LocalWorkers
from tests.long import examples, seeds
from tests.programs import Program
from tests.test_equivalence import in_order as events_in_order
from tests.tied_programs import tied

Frames = dict[str, pl.DataFrame]

MOST = 2000
"""Derivations of a recursion: what goes on for ever is soon refused."""


def engine(text: str, workers: int, types: Any = None, **options: Any) -> PartitionedEngine:
    """An engine whose workers are no processes."""
    program = compiled(text, "<program>", CompileOptions(types=types))
    return PartitionedEngine(program, EngineOptions(**options), LocalWorkers(workers))


def rows(frames: Frames) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of tables, what ties (one end and start) by its values."""
    found = {}
    for name, table in frames.items():
        given = table.rows()
        places = [(end, start) for start, end, *_ in given]
        assert places == sorted(places), f"{name} is out of order"
        found[name] = sorted(given, key=lambda row: (row[1], row[0], [(type(v).__name__, str(v)) for v in row[2:]]))
    return found


@examples(200, few=10)
@given(keyed_programs(), st.data())
def test_workers_derive_what_one_engine_derives(program: Program, data: st.DataObject) -> None:
    events = events_in_order(program.events)
    random, types = Random(data.draw(st.integers(0, 999))), types_of(events)
    lateness = random.choice((0, 0, 2_000_000))
    try:
        plan = compiled(program.text, "<program>", CompileOptions(types=types))
        one = Engine(plan, lateness=lateness, max_derivations=MOST)
    except CepError:
        assume(False)  # a type that no event of the stream gives
    count = random.choice((2, 3))
    many = engine(program.text, count, types, lateness=lateness, max_derivations=MOST)
    known = [event for event in events if event.type in one.plan.inputs]
    if random.random() < 0.4:
        random.shuffle(known)
    cuts = sorted(random.randrange(len(known) + 1) for _ in range(random.randrange(5)))
    for first, last in zip([0, *cuts], [*cuts, len(known)]):
        if not alike(lambda each, part=known[first:last]: each.push(part), many, one):
            return
        assert many.take_dead() == one.take_dead() and many.watermark == one.watermark
        if random.random() < 0.4:
            count, state = random.choice((2, 3)), many.snapshot()
            many = engine(program.text, count, types, lateness=lateness, max_derivations=MOST)
            try:
                many.restore(state)
            except CepError as error:
                assert error.code == "key"  # what has no key stays in so many partitions
                many = engine(program.text, 5 - count, types, lateness=lateness, max_derivations=MOST).restore(state)
            assert many.position == one.position
    if alike(lambda each: each.close(), many, one):
        assert many.close() == one.close() == {}


def alike(step: Callable[[Engine], Frames], many: Engine, one: Engine) -> bool:
    """Whether one engine gives something; then both give the same. What it refuses, since it goes on for ever, each
    worker may do for longer."""
    try:
        expected = rows(step(one))
    except CepError as error:
        assert "a recursion does not end" in error.message
        return False
    assert rows(step(many)) == expected
    return True


FLUENTS = """event go(person: string, place: string) TIME time.
event rest(person: string) TIME time.
fluent location(person: string) = place: string.
fluent resting(person: string).
initiate location(P) = X <- go(P, X).
initiate resting(P) <- rest(P).
terminate resting(P) <- go(P, _).
met(P, X) <- go(P, X) SEQ rest(P).
"""


@pytest.mark.parametrize("options", [{}, {"changes": True}, {"begins": True}], ids=["intervals", "changes", "begins"])
@pytest.mark.parametrize("seed", range(3))
def test_fluents_are_given_as_by_one_engine(options: dict[str, Any], seed: int) -> None:
    random = Random(seed)
    one, many = Engine.from_text(FLUENTS, **options), engine(FLUENTS, 2, **options)
    time = 0
    for _ in range(6):
        batch = []
        for _ in range(random.randrange(12)):
            time += random.randrange(3) * 1_000_000
            person = f"p{random.randrange(5)}"
            batch.append(
                Event("rest", (person,), time, time)
                if random.random() < 0.4
                else Event("go", (person, f"x{random.randrange(3)}"), time, time)
            )
        assert sorted_rows(many.push(batch)) == sorted_rows(one.push(batch))
    assert sorted_rows(many.close()) == sorted_rows(one.close())
    assert many.outputs == one.outputs


def sorted_rows(frames: Frames) -> dict[str, tuple[list[str], list[str]]]:
    return {name: (table.columns, sorted(map(str, table.rows()))) for name, table in frames.items()}


RISE = (
    "event reading(s: string, v: int in 0..99).\nrise(S, V, W) <- reading(S, V) SEQ reading(S, W) WHERE W > V + 20.\n"
)


def readings(count: int, seed: int = 1) -> list[Event]:
    random = Random(seed)
    return [Event("reading", (f"s{random.randrange(9)}", random.randrange(100)), i, i) for i in range(count)]


def test_lineage_is_that_of_one_engine() -> None:
    one, many = Engine.from_text(RISE, explain=True), engine(RISE, 3, explain=True)
    found = [each.push(readings(60))["rise"] for each in (one, many)]
    assert found[0].equals(found[1]) and "because" in found[0].columns and found[0].height > 20
    one, many = Engine.from_text(RISE, explain=True), engine(RISE, 3, explain=True)
    for each in (one, many):
        each.set_lineage_columns("constituents")
    found = [each.push(readings(60))["rise"] for each in (one, many)]
    assert found[0].equals(found[1]) and "constituents" in found[0].columns


STAGES = """event a(k: int, v: int) TIME time.
pair(K, W) <- a(K, V) SEQ a(K, W) WITHIN 3 s.
fluent on(k: int).
initiate on(K) <- pair(K, 2).
terminate on(K) <- a(K, 0).
many(N) <- pair(_, _) AGGREGATE N = count() OVER LAST 3 s.
seen(V) <- a(K, V) WHERE on(K).
seen(V) <- pair(_, V) SEQ many(_) WITHIN 2 s.
"""


@pytest.mark.parametrize("columns", [("because",), ("constituents",), ("because", "constituents")], ids=str)
@pytest.mark.parametrize("seed", seeds(36))
def test_lineage_goes_through_stages(seed: int, columns: tuple[str, ...]) -> None:
    random = Random(seed)
    one, many = Engine.from_text(STAGES, explain=True), engine(STAGES, count := random.choice((2, 3)), explain=True)
    for each in (one, many):
        each.set_lineage_columns(*columns)
    time, found = 0, []
    for _ in range(random.randrange(2, 6)):
        batch = []
        for _ in range(random.randrange(1, 15)):
            time += random.randrange(2) * 1_000_000
            batch.append(Event("a", (random.randrange(4), random.randrange(3)), time, time))
        found.append([sorted_rows(each.push(batch)) for each in (one, many)])
        if random.random() < 0.4:
            many = engine(STAGES, count, explain=True).restore(many.snapshot())
            many.set_lineage_columns(*columns)
    found.append([sorted_rows(each.close()) for each in (one, many)])
    assert [given for _, given in found] == [given for given, _ in found]


TIES = """event a(k: int, v: int) TIME time.
event go(n: int) TIME time.
policy unrestricted.
pair(K, V) <- a(K, V) SEQ a(K, _) WITHIN 4 s.
due(V) <- pair(_, V) SEQ go(_) WITHIN 9 s.
due(V) <- go(_) AND pair(_, V) WITHIN 9 s.
again(V) <- due(V) SEQ due(V) WITHIN 9 s.
"""


@pytest.mark.parametrize("columns", [("because",), ("constituents",), ("because", "constituents")], ids=str)
@pytest.mark.parametrize("seed", seeds(24))
def test_of_equal_derivations_that_tie_the_same_is_named(seed: int, columns: tuple[str, ...]) -> None:
    """One `go` completes pairs of several keys, which are in different workers and derive equal rows."""
    random = Random(seed)
    one, many = Engine.from_text(TIES, explain=True), engine(TIES, random.choice((2, 3)), explain=True)
    for each in (one, many):
        each.set_lineage_columns(*columns)
    assert "broadcast" in {stage.inputs.get("go") for stage in partition(one.plan)}
    time, derived = 0, 0
    for _ in range(4):
        batch = []
        for _ in range(12):
            time += random.randrange(2) * 1_000_000
            values = (random.randrange(6), random.randrange(2))
            batch.append(Event("a", values, time, time) if random.random() < 0.8 else Event("go", (0,), time, time))
        given = [each.push(batch) for each in (one, many)]
        assert sorted_rows(given[1]) == sorted_rows(given[0])
        derived += sum(table.height for name, table in given[0].items() if name != "pair")
    assert derived > 10


@pytest.mark.parametrize("seed", seeds(120))
def test_explanations_of_equal_events_are_those_of_one_engine(seed: int) -> None:
    """Also where several derivations have the same records, but other constituents."""
    random = Random(seed)
    program = tied(random)
    columns = random.choice((("because",), ("constituents",), ("because", "constituents")))
    count = random.choice((2, 3))
    one, many = Engine.from_text(program.text, explain=True), engine(program.text, count, explain=True)
    cuts = sorted(random.randrange(len(program.events) + 1) for _ in range(random.randrange(5)))
    given: list[list[Any]] = [[], []]
    for first, last in zip([0, *cuts], [*cuts, None]):
        for place, each in enumerate((one, many)):
            each.set_lineage_columns(*columns)
            given[place].append(sorted_rows(each.push(program.events[first:last])))
        if random.random() < 0.4:
            many = engine(program.text, count, explain=True).restore(many.snapshot())
    for place, each in enumerate((one, many)):
        each.set_lineage_columns(*columns)
        given[place].append(sorted_rows(each.close()))
    assert given[1] == given[0]


@pytest.mark.parametrize("columns", [("because",), ("constituents",)], ids=str)
def test_texts_of_records_are_sent_if_they_are_wanted(
    columns: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them, workers only send the positions of records, by which equal rows are compared."""
    sent, taken = list[str](), Rounds._take

    def noted(rounds: Rounds, worker: int, step: Made, tables: Frames) -> None:
        sent.extend(text for table in tables.values() for text in table["because"])
        taken(rounds, worker, step, tables)

    monkeypatch.setattr(Rounds, "_take", noted)
    many = engine(TIES, 2, explain=True)
    many.set_lineage_columns(*columns)
    given = many.push([Event("a", (7, 1), 0, 0), Event("a", (7, 1), 1, 1), Event("go", (0,), 5, 5)])
    assert given["pair"].columns[-1] == columns[0] and len(sent) == 1
    assert ("type" in sent[0]) is (columns == ("because",))


def test_rows_that_do_not_fit_are_refused_in_the_order_of_one_engine() -> None:
    table = pl.DataFrame(
        {
            "start": [5, 6, 7, 1, 9, 8],
            "end": [5, 6, 3, 1, 9, 8],
            "s": ["a", None, "b", "c", "a", "b"],
            "v": [1, 2, 3, 4, 500, 90],
            "@order": [0, 1, 2, 3, 4, 5],
        }
    )
    one, many = Engine.from_text(RISE, lateness=2), engine(RISE, 2, lateness=2)
    for each in (one, many):
        each.receive({"reading": table}, in_turn=True)
        each.advance(each.reached)
    refused = many.take_dead()
    assert refused == one.take_dead() and {each.code for each in refused} == {"missing", "interval", "late", "range"}
    assert many.watermark == one.watermark and many.latest == one.latest
    with pytest.raises(CepError, match="does not read an event `other`"):
        many.push({"other": table})
    assert rows(many.close()) == rows(one.close())


@pytest.mark.parametrize("lateness", [0, 5, 1000])
@pytest.mark.parametrize("seed", seeds(36))
def test_tables_are_taken_as_by_one_engine(seed: int, lateness: int) -> None:
    """Tables of which every row fits at a glance, and such of which one does not, in any order of their columns."""
    random, text = Random(seed), RISE + "long(S) <- span(S, _, _) AND reading(S, _) WITHIN 20."
    text += " event span(s: string, w: int in 0..99, f: float?)."
    one, many = Engine.from_text(text, lateness=lateness), engine(text, 2, lateness=lateness)
    time = position = 0
    for _ in range(5):
        tables = {}
        for name in random.sample(["reading", "span"], random.randrange(1, 3)):
            count = random.randrange(1, 9)
            odd = random.random() < 0.4
            starts = [time + random.randrange(9) for _ in range(count)]
            starts = starts if odd else sorted(starts)
            columns: dict[str, Any] = {"s": [f"s{random.randrange(3)}" for _ in starts]}
            if name == "reading":
                columns |= {"start": pl.Series(starts), "v": [random.randrange(100 + odd) for _ in starts]}
                columns["end"] = columns["start"]
            else:
                columns["start"] = starts
                columns["end"] = [each + random.randrange(4) for each in starts]
                columns["w"] = [random.randrange(100 + odd) for _ in starts]
                if random.random() < 0.7:
                    columns["f"] = [random.choice((1.5, None)) if odd else 2.5 for _ in starts]
            table = pl.DataFrame(columns)
            tables[name] = table.select(random.sample(table.columns, len(table.columns)))
        if random.random() < 0.5:  # numbered by whoever read them
            places = random.sample(range(position, position + 40), 20)
            places = places if random.random() < 0.5 else sorted(places)
            tables = {
                name: table.with_columns(pl.Series("@order", places[i * 10 : i * 10 + table.height]))
                for i, (name, table) in enumerate(tables.items())
            }
            position += 40
        time += random.randrange(12)
        if random.random() < 0.3:
            for each in (one, many):
                each.receive(tables)
            continue
        assert rows(many.push(tables)) == rows(one.push(tables))
        assert many.take_dead() == one.take_dead() and many.watermark == one.watermark
        assert many.position == one.position
    assert rows(many.close()) == rows(one.close()) and many.take_dead() == one.take_dead()


def test_what_is_given_may_come_with_later_calls() -> None:
    one, many = Engine.from_text(RISE), engine(RISE, 2)
    many.run_ahead(2)
    expected, found = [], []
    for i in range(8):
        batch = [Event(e.type, e.args, e.start + 100 * i, e.end + 100 * i) for e in readings(40, i)]
        expected += one.push(batch)["rise"].rows()
        found += [row for table in many.push(batch).values() for row in table.rows()]
    found += [row for table in many.outstanding().values() for row in table.rows()]
    assert found == expected and many.outstanding() == {}
    assert many.state_rows == one.state_rows and many.state_bytes > 0
    sums = [{c.unit: (c.produced, c.rows) for c in each.take_counts()} for each in (one, many)]
    assert sums[0] == sums[1] and all(not count.produced for count in many.take_counts())


@pytest.mark.parametrize("seed", seeds(60))
def test_rounds_of_many_batches_give_what_batches_give(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a round waits for; also where one key has nearly all, and where a batch has nothing."""
    random = Random(seed)
    monkeypatch.setattr(partitioned_engine, "ROUND", random.choice((1, 20, 200)))
    text = RISE + "mean(S, M) <- reading(S, V) AGGREGATE M = avg(V) OVER LAST 3 EVENTS BY S.\n"
    text += "many(N) <- rise(_, _, _) AGGREGATE N = count() OVER LAST 50.\n"
    lateness, count = random.choice((0, 3, 40)), random.choice((2, 3, 5))
    one, many = Engine.from_text(text, lateness=lateness), engine(text, count, lateness=lateness)
    many.run_ahead(random.randrange(1, 4))
    if random.random() < 0.5:
        many.write_rows({"mean": one.outputs["mean"], "many": one.outputs["many"]}, "jsonl", "iso")
    written = [dict[str, list[Any]]() for _ in range(2)]

    def take(number: int, made: Frames) -> None:
        for name, table in made.items():
            if isinstance(table, WrittenRows):
                lines = b"".join(in_order([(table.parts, table.order)])).decode().splitlines(keepends=True)
                found = [*zip(table["start"], table["end"], lines, strict=True)]
            elif number == 0 and name in ("mean", "many") and many_writes:
                texts = written_rows(name, table, one.outputs[name], "jsonl", "iso")
                lines = b"".join(in_order([([texts], np.arange(table.height))])).decode().splitlines(keepends=True)
                found = [*zip(table["start"], table["end"], lines, strict=True)]
            else:
                found = table.rows()
            written[number].setdefault(name, []).extend(found)

    many_writes = bool(many._processes.workers[0].rows)  # type: ignore[attr-defined]
    time = 0
    for _ in range(random.randrange(1, 12)):
        batch = []
        for _ in range(random.choice((0, 1, 30))):
            time += random.randrange(2)
            station = "hot" if random.random() < 0.8 else f"s{random.randrange(20)}"
            at = time - random.randrange(6)
            batch.append(Event("reading", (station, random.randrange(110)), at, at))
        for number, each in enumerate((one, many)):
            take(number, each.push(batch))
        assert one.take_dead() == many.take_dead() and one.watermark == many.watermark
        if random.random() < 0.2:
            take(1, many.outstanding())
            assert written[0] == written[1] and many.state_rows == one.state_rows
    for number, each in enumerate((one, many)):
        take(number, each.close())
    assert written[0] == written[1]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (RISE, {"remember": 5}, "workers: remembering events for explanations needs one process"),
        (
            RISE + "n(N) <- rise(_, _, _) AGGREGATE N = count() OVER LAST 5.",
            {"explain": True, "revise": 5},
            "in 2 stages",
        ),
        ("x(V) <- reading(S, V) SEQ reading(S, _).", {"explain": True, "revise": 5}, "may derive an event in several"),
    ],
)
def test_what_workers_do_not_do_is_said(text: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(CepError, match=message):
        engine(text, 2, types={"reading": ("string", "int")}, **options)


def test_a_program_without_a_key_runs_in_one_process() -> None:
    text, told = "event a(k: int). x(N) <- a(K) AGGREGATE N = count() OVER LAST 5.", list[str]()
    found = dealt_engine(compiled(text, "<program>", CompileOptions()), EngineOptions(), 2, told.append)
    assert type(found) is Engine and "has no BY" in told[0]
    with pytest.raises(CepError, match="1025 is not a valid number of workers or partitions"):
        dealt_engine(compiled(RISE, "<program>", CompileOptions()), EngineOptions(), 1025, print)


def test_snapshots_with_and_without_workers_are_told_apart() -> None:
    one, many = Engine.from_text(RISE), engine(RISE, 2)
    assert many.goes_on(many.snapshot()) and not one.goes_on(many.snapshot())
    with pytest.raises(CepError, match="the snapshot was made by an engine with workers"):
        one.restore(many.snapshot())
    with pytest.raises(CepError, match="the snapshot was made by an engine without workers"):
        many.restore(one.snapshot())


def test_a_mistake_in_a_worker_is_that_of_the_program() -> None:
    text = "event a(k: int). x(K, 0) <- a(K). x(K, N + 1) <- x(K, N)."
    many = engine(text, 2, max_derivations=50)
    with pytest.raises(CepError, match="51 occurrences in 51 rounds") as caught:
        many.push([Event("a", (1,), 5, 5), Event("a", (1,), 6, 6)])
    assert caught.value.code == "recursion"
    with pytest.raises(CepError, match="stopped in the middle"):
        many.push([])
