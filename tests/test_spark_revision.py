"""The law of revision on Spark: after each micro-batch, what was added and not withdrawn is what one process gives.

The tasks of stages and of the last operator run here as workers run them, without Spark.
"""

from __future__ import annotations

import json
import pickle
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cep.compile import compiled, divided
from cep.core.errors import CepError
from cep.core.schema import ARRIVAL, CHANGE, TIE
from cep.engine import Engine
from cep.events import Event
from cep.runtime.buckets import merged_identical
from cep.runtime.fluent_records import as_records
from cep.runtime.options import EngineOptions
from tests.cases_format import known as known_graph
from tests.keyed_programs import keyed
from tests.long import seeds
from tests.programs import contest, loop, program, recursion, window
from tests.test_equivalence import types
from tests.test_formulas import FEATURES, random_case
from tests.test_lagged_recursion import random_case as lagged_case
from tests.test_revision import Change, Known, Rows, rows, tables
from tests.test_revision_knowledge import LOADED, Update, random_program, random_updates

pytest.importorskip("pyspark")

from cep.spark import bucket_store, stage_task, ways_task
from cep.spark.bucket_store import BucketStore
from cep.spark.program import ProgramOptions, ShippedProgram
from cep.spark.shuffle_blocks import (
    END,
    FIRSTS,
    WORLD,
    ChangeLine,
    bucket_keys,
    change_blocks,
    first_blocks,
    from_outside,
    latest_blocks,
    wake_ups,
)
from cep.spark.source.reading import file_blocks, first_ends, furthest, with_change
from cep.spark.stage_task import Row, StageTask, StageWork, begin
from cep.spark.state.bucket_states import BucketStates
from cep.spark.ways_task import WaysTask, WaysWork
from connectors.arrow_bytes import unpack
from connectors.inputs import inputs


@dataclass
class Store:
    """The state store of one operator: the version of each bucket, and when it is to be called again."""

    versions: dict[int, int] = field(default_factory=dict)
    timers: dict[int, set[int]] = field(default_factory=dict)
    key: int = 0

    def bucket_store(self) -> BucketStore:
        return BucketStore(
            lambda: self.versions.get(self.key, 0),
            lambda version: self.versions.update({self.key: version}),
            lambda time: self.timers.setdefault(self.key, set()).add(time),
        )


class Query:
    """A query whose operators run here, one after another; now and then workers are lost, and their engines with
    them."""

    def __init__(self, program: ShippedProgram, folder: Path, rng: random.Random, dead: str | None = None) -> None:
        self.program, self.rng, self.dead = program, rng, dead
        folder.mkdir(parents=True, exist_ok=True)
        run = str(folder)
        works: list[StageWork | WaysWork] = [
            StageWork(program, s.number, run, tuple(program.outputs), dead, BucketStates(run, s.number), None)
            for s in program.stages
        ]
        if program.window is not None and program.merged:
            works.append(WaysWork(program, run, BucketStates(run, len(program.stages) + 1)))
        self.works = [(work, Store()) for work in works]
        self.begun = False

    def micro_batch(
        self, found: dict[str, pl.DataFrame], watermark: int, updates: Sequence[ChangeLine] = ()
    ) -> dict[str, pl.DataFrame]:
        """What the sink gets of records as tables, by event."""
        if self.rng.random() < 0.1:
            stage_task._engines.clear()
            ways_task._known.clear()
        blocks = list(from_outside(self.program, found, 0, None)) if found else []
        if updates:
            blocks += change_blocks(self.program, updates)
        if not self.begun:
            blocks += wake_ups(self.program)
        if self.program.unending and (latest := furthest(self.program, found)) is not None:
            blocks += latest_blocks(self.program, latest)
        if self.program.beginning and len(ends := first_ends(self.program, found)):
            blocks += first_blocks(self.program, ends.tolist())
        self.begun = True
        made = [(b.stage, b.key, b.event, b.place, b.source, b.rows) for b in blocks]
        return self.passed(
            [Row(stage=s, key=k, event=e, place=p, source=f, rows=r) for s, k, e, p, f, r in made], watermark
        )

    def read(self, number: int, path: Path, watermark: int) -> dict[str, pl.DataFrame]:
        """The same of a file."""
        (file,) = inputs([str(path)], self.program.inputs, None)
        read = file_blocks(self.program, number, file, self.dead)
        return self.passed([Row(**row) for batch in read for row in batch.drop_columns("time").to_pylist()], watermark)

    def passed(self, passing: list[Row], watermark: int) -> dict[str, pl.DataFrame]:
        """What the operators make of these blocks."""
        for work, store in self.works:
            passing = list(self.operator(work, store, passing, watermark))
        out: dict[str, list[pl.DataFrame]] = {}
        for row in passing:
            if row.stage == WORLD:
                out.setdefault(row.event, []).append(unpack(row.rows))
        return {event: pl.concat(each, how="diagonal_relaxed") for event, each in out.items()}

    def operator(
        self, work: StageWork | WaysWork, store: Store, passing: Sequence[Row], watermark: int
    ) -> Iterator[Row]:
        task: StageTask | WaysTask = work.task(store.bucket_store())
        by_key: dict[int, list[Row]] = {}
        for row in self.rng.sample(passing, len(passing)):
            by_key.setdefault(row.key, []).append(row)
        for store.key in sorted(by_key):
            yield from task.take(store.key, by_key[store.key], watermark)
        for store.key in bucket_keys(self.program.buckets):
            due = {time for time in store.timers.get(store.key, ()) if time <= watermark}
            if due:
                store.timers[store.key] -= due
                yield from task.call(store.key, watermark)


@pytest.fixture(autouse=True)
def micro_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (bucket_store, stage_task, ways_task):
        monkeypatch.setattr(module, "micro_batch", lambda: 0)


def check(
    text: str,
    events: Sequence[Event],
    rng: random.Random,
    length: int,
    folder: Path,
    buckets: int,
    keys: Iterable[str] = (),
    revise: bool = True,
    updates: Sequence[Update] = (),
    **options: object,
) -> int:
    """Events in any order, some twice, some withdrawn, in micro-batches; gives how many rows were withdrawn. Without
    `revise` the watermark is as far behind, and records are replaced while they wait for it."""
    compiling, running = divided(options)
    made = compiled(text, "<program>", compiling)
    running = replace(running, revise=length if revise else None)
    engine = Engine(made, running)
    pickled = None if compiling.knowledge is None else pickle.dumps(compiling.knowledge)
    shipped = ProgramOptions.of(compiling, pickled, replace(running, changes=False))
    query = Query(ShippedProgram.of(engine, text, "<program>", shipped, buckets), folder, rng)
    events = [event for event in events if event.type in engine.inputs]
    if rng.random() < 0.5:
        events = rng.sample(events, len(events))
    changes: list[Change | Update] = []
    for number, event in enumerate(events):
        changes.append((event, 1))
        if engine.revises and rng.random() < 0.3:
            changes.append((rng.choice(events[: number + 1]), -1))
        if engine.revises and rng.random() < 0.1:
            changes.append((event, 1))
    for update in updates:
        changes.insert(rng.randint(0, len(changes)), update)
    learnt: list[Update] = []
    known, net, withdrawn, at = Known(length, keys), Rows(), 0, 0
    latest, watermark = -(2**62), 0
    while watermark < END // 1000:
        piece = list(enumerate(changes))[at : at + rng.choice((0, 1, 1, 2, 3, 5, 9))]
        new = [each for _, each in piece if len(each) == 3]
        piece = [(position, each) for position, each in piece if len(each) == 2]
        over = at == len(changes)
        at += len(piece) + len(new)
        if over:
            watermark = END // 1000
        until = watermark * 1000 - 1 if watermark > 0 else -(2**62)
        known.latest = until if revise else until + length
        for position, change in piece:
            known.take(position, change)
            known.latest = until if revise else until + length  # all of a micro-batch are judged by the one watermark
        found = tables(engine, piece)
        if engine.revises:
            found = {event: with_change(table) for event, table in found.items()}
        else:
            found = {event: table.drop(CHANGE) for event, table in found.items()}
        if query.program.records:
            found = as_records(found, query.program.records)  # type: ignore[assignment]
        learnt += [update for update in new if update[0] > until - query.program.known]
        given = query.micro_batch(
            found, watermark, [(update[0], engine.changes.loaded.change(*update[1:]).decode(), "", 0) for update in new]
        )
        assert all((CHANGE in table.columns) is revise for table in given.values())
        if not revise:
            given = {event: with_change(merged_identical([placed(table)])) for event, table in given.items()}
        net.subtract(changed(given, -1))
        net.update(changed(given, 1))
        withdrawn += changed(given, -1).total()
        assert set(net.values()) <= {0, 1}, "no row is added twice, and none withdrawn that is not there"
        other = Engine(made, replace(running, revise=None, lateness=None))
        other.receive(known.in_order())
        other.updates(sorted(learnt, key=lambda update: update[0]))
        told = other.close() if over else other.advance(until) if watermark > 0 else {}
        assert +net == ordered(told), (text, changes[:at], length)
        latest = max([latest, *(event.end for _, (event, _) in piece)])
        watermark = max(watermark, (latest - (0 if revise else length)) // 1000, 0)
    return withdrawn


def placed(table: pl.DataFrame) -> pl.DataFrame:
    """The table with places, which those of the sink have not."""
    return table.with_columns(pl.lit(0).alias(ARRIVAL), pl.lit(0).alias(TIE))


def changed(given: dict[str, pl.DataFrame], sign: int) -> Rows:
    return ordered({event: t.filter(pl.col(CHANGE) == sign).drop(CHANGE) for event, t in given.items()})


def ordered(frames: dict[str, pl.DataFrame]) -> Rows:
    """Rows whatever the order of their columns."""
    return rows({event: table.select(sorted(table.columns)) for event, table in frames.items()})


def keyed_declarations(text: str, rng: random.Random) -> tuple[str, list[str]]:
    """The program with the first arguments of some events as their KEY."""
    lines, keys = [], []
    for line in text.split("\n"):
        declared = re.match(r"event (\w+)\((\w+): .*\)(.*)\.$", line)
        if declared is not None and rng.random() < 0.4:
            keys.append(declared[1])
            line = f"{line[:-1]} KEY {declared[2]}."
        lines.append(line)
    return "\n".join(lines), keys


@pytest.mark.parametrize("seed", seeds(60))
def test_the_law_on_random_programs_of_events(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    made = rng.choice([program, recursion, contest, window, loop, *[keyed] * 12])(rng)
    text, keys = keyed_declarations(made.text, rng)
    try:
        Engine.from_text(text, types=types(made.events))
    except CepError:
        return  # some of what is drawn is no program
    length, buckets = rng.choice((0, 1, 3, 20)) * 1_000_000, (1, 2, 7)[seed % 3]
    try:
        check(text, made.events, rng, length, tmp_path, buckets, keys, types=types(made.events), max_derivations=2000)
    except CepError as error:
        assert error.code == "recursion", "some of what is drawn goes on for ever"


@pytest.mark.parametrize("seed", seeds(24))
def test_records_of_a_key_replace_those_that_wait_in_buckets(seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"keys {seed}")
    made = keyed(rng)
    text, keys = keyed_declarations(made.text, rng)
    try:
        engine = Engine.from_text(text, types=types(made.events))
    except CepError:
        return
    if engine.revises:
        length, buckets = rng.choice((0, 3, 20)) * 1_000_000, (1, 2, 7)[seed % 3]
        check(text, made.events, rng, length, tmp_path, buckets, keys, False, types=types(made.events))


READINGS = """
event reading(sensor: string, seq: int, temp: float) TIME time KEY sensor, seq.
event alarm(sensor: string) TIME time.
hot(S, T) <- reading(S, _, T) WHERE T > 30.
bad(S) <- hot(S, _) SEQ alarm(S).
many(N) <- hot(_, _) AGGREGATE N = count() OVER LAST 100 s.
"""


def query(text: str, folder: Path, buckets: int, **options: Any) -> Query:
    running = EngineOptions(**options)
    shipped = ShippedProgram.of(Engine.from_text(text, **options), text, "p", ProgramOptions(running=running), buckets)
    return Query(shipped, folder / "states", random.Random(1), str(folder / "dead-"))


def record(type: str, time: int, sensor: str, change: str | None = None, **values: Any) -> str:
    made = {"type": type, "time": time, "sensor": sensor} | values
    return json.dumps(made | ({} if change is None else {CHANGE: change})) + "\n"


def test_what_cannot_be_withdrawn_any_more_or_never_was_is_a_dead_letter(tmp_path: Path) -> None:
    made = query(READINGS, tmp_path, 2, revise=60_000_000)
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    first.write_text(record("reading", 1000, "a", seq=1, temp=31) + record("alarm", 1001, "a"))
    second.write_text(
        record("reading", 1000, "a", "withdraw", seq=1)
        + record("alarm", 1001, "a", "withdraw")
        + record("alarm", 1001, "b", "withdraw")
        + record("reading", 940, "a", seq=1, temp=31)
        + record("alarm", 1001, "b", "gone")
    )
    assert not made.read(0, first, 0)
    added = made.micro_batch({}, 1_001_001)
    assert {event: table[CHANGE].to_list() for event, table in added.items()} == {"bad": [1], "hot": [1], "many": [1]}
    withdrawn = made.read(1, second, 1_001_001)
    assert {event: table[CHANGE].to_list() for event, table in withdrawn.items()} == {event: [-1] for event in added}
    letters = [json.loads(text) for file in tmp_path.glob("dead-*") for text in file.read_text().splitlines()]
    assert sorted((letter["code"], letter["line"], letter["reason"]) for letter in letters) == [
        ("change", 5, "`@change` is `add` or `withdraw`, and not `gone`"),
        ("late", 4, "is late: what ended so long ago is final"),
        ("unknown-withdrawal", 3, "withdraws a record that is not there"),
    ]
    (unknown,) = (letter for letter in letters if letter["code"] == "unknown-withdrawal")
    times = {"time": "1970-01-01T00:16:41Z"}
    assert unknown["record"] == {"type": "alarm", "sensor": "b", CHANGE: "withdraw"} | times


def test_records_of_one_key_meet_in_one_bucket(tmp_path: Path) -> None:
    """Whatever the rules deal them by: where that is no part of the KEY, there is one bucket."""
    texts = {
        "hot <- reading(_, _, T) WHERE T > 30.": ((0, 1), 7),
        "two(S) <- reading(S, _, T) SEQ reading(S, _, U) WHERE U > T.": ((0,), 7),
        "same(T) <- reading(_, _, T) SEQ reading(_, _, T).": ((2,), 1),
    }
    for rule, expected in texts.items():
        text = f"{READINGS.splitlines()[1]}\n{rule}"
        program = query(text, tmp_path, 7, revise=1).program
        (stage,) = program.stages
        assert (stage.inputs["reading"], program.count(stage)) == expected


_SPAN = re.compile(r"\b(\d+\.\d{6}) s\b")


@pytest.mark.parametrize("seed", seeds(15))
def test_the_law_on_fluents(seed: int, tmp_path: Path) -> None:
    """The programs are made for a time in which a microsecond is a step; here it is a millisecond, as Spark's."""
    rng = random.Random(seed)
    case = random_case(rng, FEATURES - {"INF"}, rng.randint(0, 3), rng.randint(1, 3))
    text = _SPAN.sub(lambda found: f"{float(found[1]) * 1000:.6f} s", case.program)
    events = [replace(event, start=event.start * 1000, end=event.end * 1000) for event in case.events]
    length = rng.choice((0, 3, 10, 100)) * 1000
    check(text, events, rng, length, tmp_path, (1, 2, 7)[seed % 3], changes=seed % 3 == 0)


@pytest.mark.parametrize("seed", seeds(24))
def test_a_cycle_through_not_begins_with_the_input_of_all_buckets(seed: int, tmp_path: Path) -> None:
    """Late records do not begin it."""
    rng = random.Random(f"begins {seed}")
    case, _ = lagged_case(rng)
    text = _SPAN.sub(lambda found: f"{float(found[1]) * 1000:.6f} s", case.program)
    events = [replace(event, start=event.start * 1000 + 9000, end=event.end * 1000 + 9000) for event in case.events]
    check(text, events, rng, rng.choice((0, 3, 9)) * 1000, tmp_path, (1, 2, 7)[seed % 3], (), False)


BLINKING = """
event a(k: string).
event b(k: string).
fluent g(k: string).
fluent on(k: string).
initially g("p").
initially g("q").
terminate g(K) <- b(K).
on(K) WHILE g(K) AND NOT ONCE[2 s, 2 s] on(K).
"""


@pytest.mark.parametrize("buckets", [2, 7])
def test_a_bucket_without_records_begins_with_those_of_others(buckets: int, tmp_path: Path) -> None:
    engine = Engine.from_text(BLINKING, types={"a": ("string",), "b": ("string",)})
    assert engine.beginning
    program = ShippedProgram.of(engine, BLINKING, "p", ProgramOptions(), buckets)
    assert program.beginning and program.stages[0].keyed
    for seed in range(4):
        rng = random.Random(seed)
        times = [rng.randrange(20, 60) * 1_000_000 for _ in range(6)]
        events = [Event("a", (rng.choice("pr"),), time, time) for time in times]
        events.append(Event("b", ("q",), 70_000_000, 70_000_000))
        check(BLINKING, events, rng, rng.choice((3, 50)) * 1_000_000, tmp_path / str(seed), buckets, (), False)


def test_late_records_that_hide_where_the_input_begins_are_told() -> None:
    engine = Engine.from_text(BLINKING, stage=1, lateness=None)
    begin(engine, [10, 20, 30], 15)
    assert engine.begun_by(20) and not engine.begun_by(19)
    begin(engine, [*range(FIRSTS + 1)], 5000)
    other = Engine.from_text(BLINKING, stage=1, lateness=None)
    begin(other, [1, 2], 15)
    with pytest.raises(CepError, match="more than 1,024 times of late records"):
        begin(other, [*range(FIRSTS + 1)], 5000)


@pytest.mark.parametrize("seed", seeds(40))
def test_the_law_where_the_knowledge_changes(seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"knowledge {seed}")
    text = random_program(rng)
    events = []
    for _ in range(rng.randint(3, 14)):
        time, type = 1000 * rng.randint(1, 20), rng.choice(["r", "r", "q", "q", "near"])
        args = (f"S{rng.randint(0, 2)}",) if type == "near" else (f"S{rng.randint(0, 2)}", rng.randint(0, 3))
        events.append(Event(type, args, time, time))
    events.sort(key=lambda event: event.end)
    keys, length = ["r"] if "KEY" in text else [], 1000 * rng.choice((0, 2, 5, 30))
    updates, background = random_updates(rng, 20), known_graph(LOADED)
    buckets, revise = (1, 2, 7)[seed % 3], seed % 4 < 3 or not keys
    check(text, events, rng, length, tmp_path, buckets, keys, revise, updates, knowledge=background)
