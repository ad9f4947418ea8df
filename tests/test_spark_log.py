"""What came for a bucket, written instead of its state: stepped again it makes the state, and stays as long as it is
needed."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from cep.command import app
from cep.compile import CompileOptions, compiled
from cep.core.compilation import Compilation
from cep.core.errors import CepError
from cep.core.schema import ARRIVAL
from cep.engine import Engine
from cep.events import Event
from cep.runtime import snapshot
from cep.runtime.options import EngineOptions
from tests import spark_runs
from tests.cases_format import known as known_graph
from tests.damage import cut, flipped
from tests.keyed_programs import keyed
from tests.long import seeds
from tests.programs import contest, loop, program, recursion, window
from tests.test_equivalence import types
from tests.test_formulas import FEATURES, random_case
from tests.test_lagged_recursion import random_case as lagged_case
from tests.test_revision_knowledge import LOADED, random_program, random_updates

pytest.importorskip("pyspark")

from cep.spark import stage_task
from cep.spark.program import ProgramOptions, ShippedProgram
from cep.spark.shuffle_blocks import ShuffleBlock
from cep.spark.state import delta_log
from cep.spark.state.bucket_states import (
    KEPT,
    BucketStates,
    batch_of,
    begin,
    log_place,
    read_state,
    remove_leftovers,
)
from cep.spark.state.delta_log import ENTRIES, Came
from cep.spark.whole_states import logged, settle
from tests.spark_operators import Query, check, keyed_declarations, query

_SPAN = re.compile(r"\b(\d+\.\d{6}) s\b")

ROWS = [ShuffleBlock(1, 2, "a", 7, "days/1.jsonl", b"rows of a", 0), ShuffleBlock(1, 2, "", 0, None, b"", 0)]


def names(folder: Path) -> list[int]:
    return [int(path.name[-8:]) for path in sorted(folder.glob("1-0002-*"))]


def test_a_log_lies_on_a_whole_state(tmp_path: Path) -> None:
    begin(tmp_path, "run")
    states = BucketStates(str(tmp_path), 1)
    assert not states.append(2, 1, Came(ROWS, 5), 10), "there is no state yet"
    states.write(2, 1, b"w" * 2000, 10)
    for version in range(2, 7):
        assert states.append(2, version, Came(ROWS, version), 10 * version)
    assert names(tmp_path) == [1, 2, 3, 4, 5, 6]
    assert states.log(2, 6) == (1, [Came(ROWS, version) for version in range(2, 7)])
    assert (
        states.log(2, 1) == (1, [])
        and read_state(tmp_path / "1-0002-00000001") == b"w" * 2000
        and batch_of(tmp_path / "1-0002-00000004") == 40
    )
    assert logged(tmp_path, {"1-0002": 6, "1-0003": 4}) == [(1, 2, 6)] and logged(tmp_path, {"1-0002": 1}) == []
    while states.append(2, (version := version + 1), Came(ROWS, 1), 10 * version):
        pass
    size = (tmp_path / "1-0002-00000006").stat().st_size
    assert version - 2 == (2000 + 48) // (size - 48), "no more than the whole one has"
    states.write(2, version, b"n" * 3000, 70)
    for more in range(1, KEPT):
        assert len(names(tmp_path)) == version + more - 1, "the log stays while a version lies on it that is kept"
        states.append(2, version + more, Came(ROWS, 1), 70 + more)
    assert names(tmp_path) == [version + n for n in range(KEPT)]
    remove_leftovers(tmp_path)
    assert names(tmp_path) == [version + n for n in range(KEPT)]
    states.settle(2, version + 2, b"settled")
    assert (
        batch_of(tmp_path / f"1-0002-{version + 2:08}") == 72
        and read_state(tmp_path / f"1-0002-{version + 2:08}") == b"settled"
    )
    assert states.log(2, version + 1)[0] == version, "what is done again begins there"


def test_what_is_broken_off_is_removed_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a log that nothing lies on any more, and what cannot be written leaves nothing."""
    states = BucketStates(str(tmp_path), 1)
    states.write(2, 1, b"w" * 2000, 1)
    for version in range(2, 7):
        assert states.append(2, version, Came(ROWS, version), version)
    for version in range(7, 7 + KEPT - 1):
        states.write(2, version, b"n" * 3000, version)
    unlink, left = Path.unlink, [2]

    def broken_off(path: Path, missing_ok: bool = False) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        unlink(path, missing_ok)

    last = 7 + KEPT - 1
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Path, "unlink", broken_off)
        states.write(2, last, b"n" * 3000, last)
    assert names(tmp_path) == list(range(3, last + 1)), "the oldest are gone"
    with monkeypatch.context() as patched, pytest.raises(CepError, match="cannot be written"):
        patched.setattr(os, "fsync", full)
        states.append(2, last + 1, Came(ROWS, 1), last + 1)
    assert names(tmp_path) == list(range(3, last + 1)) and not list(tmp_path.glob(".*"))
    assert states.append(2, last + 1, Came(ROWS, 1), last + 1)
    assert names(tmp_path) == list(range(last + 2 - KEPT, last + 2))


def full(file: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_log_has_so_many_versions(tmp_path: Path) -> None:
    states = BucketStates(str(tmp_path), 1)
    states.write(2, 1, bytes(1 << 20), 1)
    for version in range(2, 2 + ENTRIES):
        assert states.append(2, version, Came((), version), version)
    assert not states.append(2, 2 + ENTRIES, Came((), 1), 1)
    remove_leftovers(tmp_path)
    assert len(names(tmp_path)) == 1 + ENTRIES and len(states.log(2, 1 + ENTRIES)[1]) == ENTRIES


def test_a_damaged_log_is_told(tmp_path: Path) -> None:
    begin(tmp_path, "run")
    states = BucketStates(str(tmp_path), 1)
    states.write(2, 1, snapshot.save({"much": "w" * 2000}, [], "p"), 10)
    for version in range(2, 5):
        states.append(2, version, Came(ROWS, version), 10 * version)
    there = states.log(2, 4)

    def opened() -> object:
        return states.opened(2, states.log(2, 4)[0], lambda state, _: snapshot.load(state, "p"))

    for version in (2, 3, 4):
        path = tmp_path / f"1-0002-{version:08}"
        data = path.read_bytes()
        for damaged in [
            *(each for _, each in flipped(data, 150, random.Random(version))),
            *cut(data, random.Random(2)),
        ]:
            path.write_bytes(damaged)
            with pytest.raises(CepError, match=path.name):
                opened()
        path.write_bytes((tmp_path / "1-0002-00000001").read_bytes())
        with pytest.raises(CepError, match=path.name):
            opened()
        path.unlink()
        with pytest.raises(CepError, match=f"{path.name} is missing"):
            states.log(2, 4)
        path.write_bytes(data)
    assert states.log(2, 4) == there


@pytest.mark.parametrize("seed", seeds(60))
def test_random_programs_whose_workers_are_lost(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And logs of any length, long beside small states."""
    rng = random.Random(f"log {seed}")
    monkeypatch.setattr(Query, "lost", 0.4)
    monkeypatch.setattr(delta_log, "ENTRIES", rng.choice((2, 5, 100)))
    before = delta_log.LogPlace.of
    monkeypatch.setattr(
        delta_log.LogPlace, "of", lambda begins, size, version: before(begins, size if seed % 2 else 20 * size, version)
    )
    made = rng.choice([program, recursion, contest, window, loop, *[keyed] * 8])(rng)
    text, keys = keyed_declarations(made.text, rng)
    try:
        Engine.from_text(text, types=types(made.events))
    except CepError:
        return  # some of what is drawn is no program
    length, buckets = rng.choice((0, 3, 20)) * 1_000_000, (1, 2, 7)[seed % 3]
    try:
        check(
            text,
            made.events,
            rng,
            length,
            tmp_path,
            buckets,
            keys,
            False,
            types=types(made.events),
            max_derivations=2000,
        )
    except CepError as error:
        assert error.code == "recursion", "some of what is drawn goes on for ever"


@pytest.mark.parametrize("seed", seeds(60))
def test_random_fluents_and_changes_of_the_knowledge(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(f"other log {seed}")
    monkeypatch.setattr(Query, "lost", 0.5)
    before = delta_log.LogPlace.of
    monkeypatch.setattr(delta_log.LogPlace, "of", lambda begins, size, version: before(begins, 20 * size, version))
    length, buckets = rng.choice((0, 3, 10, 100)) * 1000, (1, 2, 7)[seed % 3]
    if rng.random() < 0.5:
        lagged = rng.random() < 0.3
        case = lagged_case(rng)[0] if lagged else random_case(rng, FEATURES - {"INF"}, rng.randint(0, 3), 2)
        text = _SPAN.sub(lambda found: f"{float(found[1]) * 1000:.6f} s", case.program)
        first = 9000 if lagged else 0
        events = [replace(one, start=one.start * 1000 + first, end=one.end * 1000 + first) for one in case.events]
        check(text, events, rng, length, tmp_path, buckets, (), False)
        return
    text = re.sub(r" KEY [^.\n]*(?=\.\n)", "", random_program(rng))
    events = []
    for _ in range(rng.randint(3, 14)):
        time, type = 1000 * rng.randint(1, 20), rng.choice(["r", "r", "q", "q", "near"])
        args = (f"S{rng.randint(0, 2)}",) if type == "near" else (f"S{rng.randint(0, 2)}", rng.randint(0, 3))
        events.append(Event(type, args, time, time))
    events.sort(key=lambda event: event.end)
    updates = random_updates(rng, 20)
    check(text, events, rng, length, tmp_path, buckets, (), False, updates, knowledge=known_graph(LOADED))


TEXT = """event a(id: int, x: int) TIME time. event b(id: int, x: int) TIME time.
pair(I, X, Y) <- (a(I, X) SEQ b(I, Y)) WITHIN 1 h.
quiet(I) <- a(I, _) UNLESS b(I, _) WITHIN 1 h.
sum(I, S) <- a(I, X) AGGREGATE S = sum(X) OVER LAST 1 h BY I.
"""


def came_at(rng: random.Random, time: int, count: int) -> dict[str, pl.DataFrame]:
    """So many records of the second that begins at a time (microseconds)."""
    found = {}
    for event in "ab":
        times = [time + rng.randrange(1_000_000) for _ in range(count)]
        columns: dict[str, Any] = {"start": times, "end": times, ARRIVAL: range(count)}
        columns |= {"id": [rng.randrange(20_000) for _ in times], "x": [rng.randrange(100) for _ in times]}
        found[event] = pl.DataFrame(columns)
    return found


def test_a_micro_batch_writes_what_came_for_a_large_state(tmp_path: Path) -> None:
    """And a state is whole again where others are to go on with it, by the program that was there."""
    rng, made = random.Random(1), query(TEXT, tmp_path, 2)
    engine = Engine.from_text(TEXT, lateness=None)
    wrote, given = [], list[str]()

    def written() -> int:
        return sum(path.stat().st_size for path in (tmp_path / "states").glob("1-*"))

    def step(number: int, count: int) -> None:
        tables = came_at(rng, number * 1_000_000, count)
        engine.receive(tables)
        for found in (made.micro_batch(tables, number * 1000), engine.advance(number * 1_000_000 - 1)):
            rows = {event: table.select(sorted(table.columns)).rows() for event, table in found.items()}
            given.append(repr(sorted((event, row) for event, each in rows.items() for row in each)))

    step(1, 20_000)
    step(2, 1)
    first = written()
    for number in range(3, 30):
        before = written()
        if number % 9 == 0:
            stage_task._engines.clear()
        step(number, 5)
        wrote.append(written() - before)
    assert given[::2] == given[1::2] and any(len(each) > 10 for each in given)
    assert first > 1_000_000 and 0 < max(wrote) < 12_000, wrote
    versions = {f"1-{bucket:04}": made.works[0][1].versions[bucket] for bucket in range(2)}
    states = tmp_path / "states"
    some = logged(states, versions)
    assert len(some) == 2
    shutil.copytree(states, tmp_path / "copy")
    settle(made.program, str(tmp_path / "copy"), some)
    assert not logged(tmp_path / "copy", versions)
    for name, version in versions.items():
        place = log_place(tmp_path / "copy" / f"{name}-{version:08}")
        assert place is not None and place.size > first / 4
    shutil.rmtree(states)
    (tmp_path / "copy").rename(states)
    stage_task._engines.clear()
    for number in range(30, 33):
        step(number, 500)
    assert given[::2] == given[1::2]


RULES = """event a(k: int, x: int). event b(k: int).
rise(K, X, Y) <- a(K, X) SEQ a(K, Y) WHERE Y > X WITHIN 1 h.
alone(K) <- a(K, X) UNLESS b(K) WITHIN 20 s WHERE X > 7.
"""


@pytest.mark.long
@pytest.mark.xdist_group("spark")
@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
def test_what_a_killed_run_left_as_a_log_goes_to_other_buckets_and_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark_runs.spark()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    Path("rules.cep").write_text(RULES)
    Path("facts.csv").write_text("n\n1\n")
    rng = random.Random(4)

    def run(*arguments: str, killed: bool = False) -> Result:
        options = ["--on", "spark", "--checkpoint", "state", "--input", "days", "--lateness", "5 s", "--output", "out"]
        options += ["--output-format", "jsonl", "--files", "1", *arguments]
        with monkeypatch.context() as patched:
            if killed:
                patched.setattr("cep.spark.whole_states.settle_on_spark", lambda *_: None)
            return CliRunner().invoke(app, ["run", "rules.cep", *options], prog_name="cep")

    def day(number: int, count: int) -> None:
        Path("days").mkdir(exist_ok=True)
        events: list[dict[str, Any]] = [
            {"type": "a", "time": 60 * number + n % 40, "k": rng.randrange(3000), "x": rng.randrange(11)}
            for n in range(count)
        ]
        events += [{"type": "b", "time": 60 * number + 41, "k": rng.randrange(3000)} for _ in range(count // 4)]
        events.sort(key=lambda event: event["time"])
        Path("days", f"{number}.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))

    def logs() -> int:
        folder = max(Path("state").glob("buckets*"))
        last = {path.name.rpartition("-")[0]: path for path in sorted(folder.glob("1-*"))}
        return len(logged(folder, {name: int(path.name[-8:]) for name, path in last.items()}))

    day(0, 6000)
    for number in range(1, 5):
        day(number, 20)
    result = run("--once", "--buckets", "2", killed=True)
    assert result.exit_code == 0 and logs() == 2, result.stderr
    day(5, 20)
    result = run("--once", "--buckets", "3", killed=True)
    assert "keep their state: line 2: rise, line 3: alone" in result.stderr and result.exit_code == 0, result.stderr
    day(6, 20)
    assert run("--once", killed=True).exit_code == 0 and logs() == 3
    Path("rules.cep").write_text(RULES + "low(K) <- a(K, 0).\n")
    day(7, 20)
    other = "other(K) <- a(K, X) WHERE facts(X).\n"
    assert "another program" in run("--once").stderr
    result = run("--once", "--migrate", killed=True)
    assert result.exit_code == 0, result.stderr
    day(8, 20)
    assert run("--once", killed=True).exit_code == 0 and logs() == 3
    Path("rules.cep").write_text(RULES + other)
    refused = run("--once", "--migrate", "--facts", "facts=facts.csv")
    assert "that must be processed again, but that run had other facts" in refused.stderr and refused.exit_code == 2, (
        refused.stderr
    )
    Path("rules.cep").write_text(RULES + "low(K) <- a(K, 0).\n")
    assert run("--once").exit_code == 0 and logs() == 0, "whole at its end"
    assert run().exit_code == 0, "the end of the input"
    Path("rules.cep").write_text(RULES)
    alone = ["run", "rules.cep", "--input", "days", "--lateness", "5 s", "--output", "alone.jsonl"]
    assert CliRunner().invoke(app, alone, prog_name="cep").exit_code == 0
    assert found(Path("out"), {"rise", "alone"}) == found(Path("alone.jsonl"), {"rise", "alone"})


def found(place: Path, events: set[str]) -> list[str]:
    """What was derived of these events, whatever the order."""
    files = [place] if place.is_file() else list(place.rglob("*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    mine = sorted(json.dumps(line, sort_keys=True) for line in lines if line["type"] in events)
    assert len(mine) > 500
    return mine


@pytest.mark.parametrize("limit", [None, 1_000_000])
def test_where_the_time_of_a_search_is_limited_states_are_whole(limit: int | None, tmp_path: Path) -> None:
    """Stepped again it might find something else than what was told."""
    text, running = "event a(n: int) TIME time.\nx(N) :- a(N) [2].\n", EngineOptions()
    compiling = CompileOptions(dialect="lars", solve_limit=limit)
    options = ProgramOptions(compiling=compiling, running=running)
    program = ShippedProgram.of(Engine(compiled(text, "p", compiling), running), text, "p", options, 1)
    begin(tmp_path, "run")
    task = stage_task.StageWork(program, 1, "r", ("x",), None, BucketStates(str(tmp_path), 1), None).task()
    for version in range(3):
        task.step(0, version, (), 10 + version, version)
    assert bool(logged(tmp_path, {"1-0000": 3})) == (limit is None)
