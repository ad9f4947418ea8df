"""Lateness by key: each key is judged by its own latest time, and one wrong clock harms only itself."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

import cep
from cep.compile import CompileOptions, compiled
from cep.core.errors import CepError
from cep.core.time import BEGINNING
from cep.engine import Engine
from cep.events import Event
from cep.runtime.key_clocks import APART, KeyClocks
from cep.runtime.options import EngineOptions
from cep.workers.partitioned_engine import PartitionedEngine
from tests.cli_runs import cep as command
from tests.local_workers import LocalWorkers
from tests.long import seeds, some

MINUTE, DAY = 60_000_000, 86_400_000_000
PROGRAM = """\
event reading(sensor: string, value: int) TIME time.
event door(open: bool) TIME time.
rise(S, A, B) <- (reading(S, A) SEQ reading(S, B)) WITHIN 3 min WHERE B > A.
silent(S) <- reading(S, _) UNLESS reading(S, _) WITHIN 10 min.
many(N) <- reading(_, _) AGGREGATE N = count() OVER LAST 2 min.
opened(V) <- door(V).
"""


class Reference:
    """The same clocks as a table that is looked through for each record."""

    def __init__(self, lateness: int) -> None:
        self.lateness, self.apart = lateness, max(lateness, APART)
        self.latest: dict[str | None, int] = {}
        self.second, self.alone = BEGINNING, 0
        self.speaker: str | None = "none yet"
        self.mark = BEGINNING

    @property
    def time(self) -> int:
        if not self.latest:
            return BEGINNING
        furthest = max(self.latest.values())
        if self.second == BEGINNING:
            return furthest if self.alone >= self.apart else BEGINNING
        time = min(furthest, self.second + self.alone)
        self.latest = {name: each for name, each in self.latest.items() if each >= time - self.apart}
        return min(time, *self.latest.values())

    def late(self, key: str | None, end: int) -> int:
        own = self.latest.get(key, BEGINNING) - self.lateness - 1
        return max(self.mark, own) + 1 - end

    def take(self, key: str | None, end: int) -> None:
        before = self.latest.get(key)
        if before is not None and end <= before:
            return
        others = [each for name, each in self.latest.items() if name != key]
        goes_on = key == self.speaker and before is not None and all(before > each for each in others)
        self.latest[key] = end
        if others:
            self.second = max(self.second, sorted(self.latest.values())[-2])
        self.alone = self.alone + min(end - before, self.apart) if goes_on and before is not None else 0
        self.speaker = key

    def go_on(self) -> None:
        self.mark = max(self.mark, self.time - self.lateness - 1)


def records(rng: Random, count: int) -> Iterator[tuple[str | None, int]]:
    """Readings and doors of keys with clocks of many kinds: right, wrong, late, silent, frozen, fast."""
    keys = [f"s{number}" for number in range(rng.choice((1, 2, 3, 8)))]
    offset = {key: rng.choice((0, 0, 0, -MINUTE, -3 * MINUTE, 2 * DAY, -DAY)) for key in keys}
    speed = {key: rng.choice((1, 1, 1, 1, 0, 2, 1000)) for key in keys}
    now = 0
    for _ in range(count):
        now += rng.choice((0, 1, 20, 60, 240, 3600)) * 1_000_000
        key = rng.choice(keys[: rng.choice((1, len(keys)))])
        end = offset[key] + now * speed[key] - rng.choice((0, 0, 0, 30, 400)) * 1_000_000
        yield (None, now) if rng.random() < 0.1 else (key, end if rng.random() < 0.97 else end + DAY)


@pytest.mark.parametrize("seed", some(range(400)))
def test_what_is_late_is_what_the_definition_says(seed: int) -> None:
    rng = Random(seed)
    lateness = rng.choice((0, 40, 900)) * 1_000_000
    reference = Reference(lateness)
    engine = Engine.from_text(PROGRAM, lateness=lateness, lateness_by="sensor")
    coming = list(records(rng, rng.choice((5, 60, 300))))
    while coming:
        cut = rng.choice((1, 2, 9, 100))
        batch, coming = coming[:cut], coming[cut:]
        in_turn = rng.random() < 0.5
        dead = []
        marks = [] if in_turn else [reference.late(*each) for each in batch]
        for number, each in enumerate(batch):
            late = reference.late(*each) if in_turn else marks[number]
            if late > 0:
                dead.append(number)
                continue
            reference.take(*each)
            if in_turn:
                reference.go_on()
        reference.go_on()
        engine.receive([event(*each) for each in batch], in_turn=in_turn)
        engine.advance(engine.reached)
        assert sorted(row.row for row in engine.take_dead()) == dead
        assert engine.watermark == reference.mark
        if rng.random() < 0.2:
            saved = engine.snapshot()
            engine = Engine.from_text(PROGRAM, lateness=lateness, lateness_by="sensor").restore(saved)


def event(key: str | None, end: int) -> Event:
    return Event("door", (True,), end, end) if key is None else Event("reading", (key, 1), end, end)


def test_keys_that_fell_silent_are_forgotten() -> None:
    """What is held is bounded by the keys that are heard."""
    engine = Engine.from_text(PROGRAM, lateness=0, lateness_by="sensor")
    for turn in range(200):
        engine.push([Event("reading", (f"{turn}/{n}", n), *[(10 * turn + n % 9) * MINUTE] * 2) for n in range(90)])
    clocks = engine._buffer.clocks
    assert clocks is not None and clocks.ids.count < 3000 and not engine.take_dead()


# --- what it is for ---


def honest(rng: Random, count: int = 80) -> list[tuple[str, int, int]]:
    """Readings of three sensors in the order of their times."""
    return [(rng.choice("abc"), rng.randrange(9), number * 20_000_000) for number in range(count)]


def run(coming: list[tuple[str, int, int]], rng: Random, **options: Any) -> tuple[Counter[Any], Counter[str]]:
    """What is derived of honest sensors, and whose records were late."""
    engine = cep.Engine.from_text(PROGRAM, lateness_by="sensor", **options)
    dead: Counter[str] = Counter()
    found: list[cep.Derived] = []
    place = 0
    while place < len(coming):
        batch = coming[place : (place := place + rng.choice((1, 1, 3)))]
        table = pl.DataFrame(batch, ["sensor", "value", "time"], orient="row")
        found.append(engine.push({"reading": table.with_columns(pl.col("time").cast(pl.Datetime("us", "UTC")))}))
        dead.update(batch[row][0] for row in found[-1].dead["row"])
    found.append(engine.finish())
    engine.stop()
    net: Counter[Any] = Counter()
    for each in found:
        for name in ("rise", "silent"):
            for row in each[name].iter_rows(named=True):
                sign = row.pop("@change", 1)
                row.pop("@id", None)
                if row["s"] in "abc":
                    net[name, *row.values()] += sign
    return +net, dead


@pytest.mark.parametrize("options", [{}, {"lateness": "2 min"}, {"revise": "1 h"}, {"workers": 1}], ids=str)
@pytest.mark.parametrize("seed", some(range(6)))
def test_one_wrong_clock_harms_only_itself(seed: int, options: dict[str, Any]) -> None:
    rng = Random(seed)
    coming = honest(rng)
    want, dead = run(coming, rng, **options)
    assert not dead
    wrong = rng.choice((DAY, -DAY, -MINUTE, 400 * DAY))
    for _ in range(rng.choice((1, 5, 40))):
        place = rng.randrange(len(coming))
        coming.insert(place, ("wrong", 3, coming[place][2] + wrong))
    found, dead = run(coming, rng, **options)
    assert found == want and dead.keys() <= {"wrong"}


@pytest.mark.parametrize("seed", some(range(12)))
def test_the_order_of_arrival_does_not_matter_within_the_lateness(seed: int) -> None:
    rng = Random(seed)
    coming = honest(rng)
    want, _ = run(coming, rng)
    mixed = sorted(coming, key=lambda one: one[2] + rng.randrange(120_000_001))
    assert run(mixed, rng, lateness="2 min") == (want, Counter())


def test_keys_may_be_apart() -> None:
    """Three minutes behind the others, each in its own order: none is late."""
    coming = [(key, n, n * MINUTE - (key == "c") * 3 * MINUTE) for n in range(30) for key in "abc"]
    assert not run(coming, Random(1))[1]


def test_deadlines_of_silent_keys_pass_while_one_key_goes_on() -> None:
    engine = Engine.from_text(PROGRAM, lateness=0, lateness_by="sensor")
    told = []
    for minute in range(40):
        for key in "ab" if minute < 5 else "a":
            made = engine.push([event(key, minute * MINUTE)])
            told += [(minute, *row[1:]) for row in made.get("silent", pl.DataFrame()).iter_rows()]
    (one,) = told
    assert one[-1] == "b" and one[0] <= 16


def test_its_own_later_record_makes_a_record_late() -> None:
    engine = Engine.from_text(PROGRAM, lateness=0, lateness_by="sensor")
    engine.push([event("a", 0), event("b", 0), event("a", DAY)])
    engine.push([event("b", MINUTE), event("a", MINUTE)])
    (dead,) = engine.take_dead()
    assert dead.row == 1 and dead.reason.startswith("is late by 23 h 59 min") and "same `sensor`" in dead.reason


# --- where it is asked for ---


def test_an_attribute_that_is_not_there_is_refused() -> None:
    with pytest.raises(CepError, match="lateness by `senzor`: no input event has this attribute") as error:
        Engine.from_text(PROGRAM, lateness_by="senzor")
    assert error.value.hint == "did you mean `sensor`?"
    with pytest.raises(CepError, match="lateness by `n`: its types differ: int in `a`, string in `b`"):
        Engine.from_text("event a(n: int). event b(n: string). x(N) <- a(N). x(N) <- b(N).", lateness_by="n")
    saved = Engine.from_text(PROGRAM, lateness_by="sensor").snapshot()
    with pytest.raises(CepError, match="made with lateness by `sensor`, and not by `value`"):
        Engine.from_text(PROGRAM, lateness_by="value").restore(saved)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_a_run_judges_by_key(suffix: str, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [("wrong", 1, DAY), *((key, n, n * MINUTE) for n in range(20) for key in "ab"), ("wrong", 2, 21 * MINUTE)]
    table = pl.DataFrame(rows, ["sensor", "value", "time"], orient="row")
    table = table.with_columns((pl.col("time") // 1_000_000).cast(pl.Int64))
    written = {"jsonl": table.write_ndjson, "csv": table.write_csv, "parquet": table.write_parquet}
    written[suffix](f"in.{suffix}")
    Path("rules.cep").write_text(PROGRAM)
    asked = ["run", "rules.cep", "--input", f"reading=in.{suffix}", "--lateness-by", "sensor", "--batch", "7"]
    made = command(*asked, "--dead-letter", "dead.jsonl", "--workers", str(workers), "--only", "rise")
    letters = [json.loads(line) for line in Path("dead.jsonl").read_text().splitlines()]
    assert made.exit_code == 0 and len(made.stdout.splitlines()) >= 2 * 19, made.stderr
    assert [one["code"] for one in letters] == ["late"] and "jumped" not in made.stderr
    again = command(*asked[:-3], "senzor")
    assert again.exit_code == 2 and "did you mean `sensor`?" in again.stderr


def test_workers_judge_as_one_process(tmp_path: Path) -> None:
    for seed in range(10):
        rng = Random(seed)
        coming = [event(*each) for each in records(rng, 200)]
        program = compiled(PROGRAM, "<program>", CompileOptions())
        options = EngineOptions(lateness=0, lateness_by="sensor")
        one, many = Engine(program, options), PartitionedEngine(program, options, LocalWorkers(2))
        for first in range(0, len(coming), 20):
            for engine in (one, many):
                engine.receive(coming[first : first + 20], in_turn=True)
                engine.advance(engine.reached)
            assert one.watermark == many.watermark and one.take_dead() == many.take_dead()


def test_clocks_are_of_the_values_not_of_how_they_are_held() -> None:
    engine = Engine.from_text("x(N) <- a(N).", lateness_by="arg1")
    clocks = engine._buffer.clocks
    assert isinstance(clocks, KeyClocks)
    values = [1, 1.5, "a", None]
    events = [Event("a", (value,), 0, 0) for value in values]
    rows = pl.int_range(4, eager=True).to_numpy()
    table = {"a": pl.DataFrame({"arg1": pl.Series(values, dtype=pl.Object)})}
    assert clocks.words("a", events, rows).tolist() == clocks.words("a", table, rows).tolist()
    numbers = {"a": pl.DataFrame({"arg1": [1.0, 1.5]})}
    assert clocks.words("a", numbers, rows[:2]).tolist() == clocks.words("a", events, rows[:2]).tolist()


@pytest.mark.parametrize("seed", seeds(2000))
def test_many_more_are_late_as_the_definition_says(seed: int) -> None:
    test_what_is_late_is_what_the_definition_says(100_000 + seed)
