"""The law of revision on Spark: after each micro-batch, what was added and not withdrawn is what one process gives.

The tasks of stages and of the last operator run here as workers run them, without Spark.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cep.core.errors import CepError
from cep.core.schema import CHANGE
from cep.engine import Engine
from cep.events import Event
from cep.runtime.fluent_records import as_records
from tests.cases_format import known as known_graph
from tests.keyed_programs import keyed
from tests.long import seeds
from tests.programs import contest, loop, program, recursion, window
from tests.test_equivalence import types
from tests.test_formulas import FEATURES, random_case
from tests.test_lagged_recursion import random_case as lagged_case
from tests.test_revision_knowledge import LOADED, random_program, random_updates

pytest.importorskip("pyspark")

from cep.spark.program import ProgramOptions, ShippedProgram
from cep.spark.shuffle_blocks import END, FIRSTS
from cep.spark.source.reading import with_change
from cep.spark.stage_task import begin
from tests.spark_operators import check, keyed_declarations, query


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
        ("change", 5, "`@change` is `add` or `withdraw`, or 1 or -1, not `gone`"),
        ("late", 4, "is late by 1.001 s: results for that time are final"),
        ("unknown-withdrawal", 3, "withdraws a record that does not exist"),
    ]
    (unknown,) = (letter for letter in letters if letter["code"] == "unknown-withdrawal")
    times = {"time": "1970-01-01T00:16:41Z"}
    assert unknown["record"] == {"type": "alarm", "sensor": "b", CHANGE: "withdraw"} | times


@pytest.mark.parametrize("buckets", (1, 2, 7))
def test_rows_that_tie_keep_their_order_where_a_micro_batch_advances_twice(buckets: int, tmp_path: Path) -> None:
    """Before records of a fluent are received, the engine is advanced: the late one then adds a row between others."""
    text = """
event a(k: string, v: int).
event c(k: string, v: int).
fluent h(v: int) START start END end.
d(K, 1) <- (a(K, V)) WHERE h(V).
d(K, 2) <- a(K, V).
policy recent.
s(K, V, W) <- (d(K, V) SEQ c(K, W)) WITHIN 1 s.
"""

    def at(times: list[int], order: int, **columns: Any) -> pl.DataFrame:
        places = range(order, order + len(times))
        return pl.DataFrame({"start": times, "end": times, "@order": places} | columns)

    first = {"a": at([5000, 8000], 0, k=["p", "p"], v=[0, 0])}
    second = {
        "c": at([12_000], 2, k=["p"], v=[7]),
        "h": at([4000], 3, v=[0], **{"@end": [20_000], "@bounds": ["[)"]}),
    }
    made = query(text, tmp_path, buckets, revise=60_000_000)
    net: Counter[tuple[Any, ...]] = Counter()
    for tables, watermark in ((first, 0), (second, 10), ({}, END // 1000)):
        records = as_records({event: with_change(table) for event, table in tables.items()}, made.program.records)
        assert isinstance(records, dict)
        for event, table in made.micro_batch(records, watermark).items():
            for *row, change in table.drop("@number", strict=False).rows():
                net[event, *row] += change
    other = Engine.from_text(text)
    frames = [other.push(first | second), other.close()]
    expected = Counter((event, *row) for tables in frames for event, table in tables.items() for row in table.rows())
    assert +net == expected and expected["s", 8000, 12_000, "p", 2, 7] == 1


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


@pytest.mark.parametrize("buckets, tried", [(2, (0, 1)), (7, (2, 3))])
def test_a_bucket_without_records_begins_with_those_of_others(
    buckets: int, tried: tuple[int, ...], tmp_path: Path
) -> None:
    engine = Engine.from_text(BLINKING, types={"a": ("string",), "b": ("string",)})
    assert engine.beginning
    program = ShippedProgram.of(engine, BLINKING, "p", ProgramOptions(), buckets)
    assert program.beginning and program.stages[0].keyed
    for seed in tried:
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
    with pytest.raises(CepError, match="one file has late records at more than 1,024 times"):
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
