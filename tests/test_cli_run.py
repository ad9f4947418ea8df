"""`cep run`: what it reads, what it writes, and what its options do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from cep.app.terminal import announce_compiling
from cep.core.compilation import Compilation
from tests import cli_runs
from tests.cli_runs import COMPILING, EVENTS, FIRE, PROGRAM, cep, events, jsonl, start, without_compiling

here = pytest.fixture(autouse=True)(cli_runs.here)


def test_run_writes_derived_events() -> None:
    result = cep("run", "fire.cep", "--input", "events.jsonl")
    assert (result.exit_code, events(result.stdout)) == (0, [FIRE])
    assert result.stderr.startswith("3 records, 1 derived event: fire 1, ")


def test_run_reads_standard_input() -> None:
    with start("run", "fire.cep", "--input", "-", stdin=subprocess.PIPE) as running:
        out, _ = running.communicate(jsonl(EVENTS), timeout=300)
    assert (running.returncode, events(out)) == (0, [FIRE])


def test_run_reads_csv_and_parquet_of_one_event_each() -> None:
    Path("smoke.csv").write_text("time,room,level\n1,attic,NA\n")
    pl.DataFrame({"time": [4, 5], "room": ["attic", "cellar"], "temp": [80.5, 90.0]}).write_parquet("heat.parquet")
    result = cep("run", "fire.cep", "--input", "smoke=smoke.csv", "--input", "heat=heat.parquet")
    assert [(one["room"], one["temp"]) for one in events(result.stdout)] == [("attic", 80.5)], result.stderr


def test_run_reads_a_folder_and_a_pattern() -> None:
    Path("days").mkdir()
    for number, event in enumerate(EVENTS):
        Path(f"days/{number}.jsonl").write_text(jsonl([event]))
    for source in ("days", "days/*.jsonl"):
        assert events(cep("run", "fire.cep", "--input", source).stdout) == [FIRE]


def test_run_writes_files_by_their_suffix() -> None:
    cep("run", "fire.cep", "--input", "events.jsonl", "--output", "out.jsonl")
    assert events(Path("out.jsonl").read_text()) == [FIRE]
    for name, read in (("fire.csv", pl.read_csv), ("fire.parquet", pl.read_parquet)):
        result = cep("run", "fire.cep", "--input", "events.jsonl", "--output", name)
        assert (result.exit_code, result.stdout) == (0, "")
        assert read(name).select("room", "temp").rows() == [("attic", 80.5)]


def test_only_selects_what_is_written() -> None:
    Path("two.cep").write_text(PROGRAM + "hot(R) <- heat(R, T) WHERE T > 85.\n")
    result = cep("run", "two.cep", "--input", "events.jsonl", "--only", "hot")
    assert [one["type"] for one in events(result.stdout)] == ["hot"]
    assert "1 of 2 derived events written: hot 1, " in result.stderr


def test_files_are_sorted_unless_a_lateness_is_given() -> None:
    Path("events.jsonl").write_text(jsonl([EVENTS[1], EVENTS[2], EVENTS[0]]))
    assert events(cep("run", "fire.cep", "--input", "events.jsonl").stdout) == [FIRE]
    assert events(cep("run", "fire.cep", "--input", "events.jsonl", "--lateness", "10s").stdout) == [FIRE]
    result = cep("run", "fire.cep", "--input", "events.jsonl", "--lateness", "1 s")
    assert result.stdout == ""
    assert "1 dead letter (1 late)" in result.stderr


def test_explain_adds_what_an_event_comes_from() -> None:
    (found,) = events(cep("run", "fire.cep", "--input", "events.jsonl", "--explain").stdout)
    assert found["because"] == [
        {"type": "smoke", "start": 1, "end": 1, "room": "attic", "level": 3},
        {"type": "heat", "start": 4, "end": 4, "room": "attic", "temp": 80.5},
    ]


def test_explain_writes_times_as_the_input_does() -> None:
    Path("late.cep").write_text("event due(n: int, at: time, slack: duration).\nlate(N, T, S) <- due(N, T, S).\n")
    due = {"type": "due", "time": "2024-05-01T08:00:00Z", "n": 1, "at": "2024-05-01T07:59:58.5Z", "slack": "PT1.5S"}
    Path("due.jsonl").write_text(jsonl([due]))
    (found,) = events(cep("run", "late.cep", "--input", "due.jsonl", "--explain").stdout)
    (why,) = found["because"]
    assert (why["start"], why["end"]) == (found["start"], found["end"]) == (due["time"], due["time"])
    assert (why["at"], why["slack"]) == (found["t"], found["s"]) == (due["at"], 1.5)


def test_policy_changes_the_default() -> None:
    Path("ab.cep").write_text("event a(x: int).\nevent b(y: int).\ne(X, Y) <- (a(X) SEQ b(Y)) WITHIN 1 min.\n")
    Path("ab.jsonl").write_text(jsonl([{"type": t, "time": n, "args": [n]} for n, t in enumerate("aab")]))
    assert len(events(cep("run", "ab.cep", "--input", "ab.jsonl").stdout)) == 2
    result = cep("run", "ab.cep", "--input", "ab.jsonl", "--policy", "recent")
    assert [(one["x"], one["y"]) for one in events(result.stdout)] == [(1, 2)]


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_facts_come_from_tables(kind: str) -> None:
    Path("near.cep").write_text("event a(x: string).\nnext(Y) <- a(X) WHERE linked(X, Y).\n")
    Path("a.jsonl").write_text(jsonl([{"type": "a", "time": 1, "x": "attic"}]))
    table = pl.DataFrame({"from": ["attic", "hall"], "to": ["hall", "cellar"]})
    {"csv": table.write_csv, "parquet": table.write_parquet, "jsonl": table.write_ndjson}[kind](f"links.{kind}")
    result = cep("run", "near.cep", "--input", "a.jsonl", "--facts", f"linked=links.{kind}")
    assert [one["y"] for one in events(result.stdout)] == ["hall"], result.stderr
    for command in ("check", "plan"):
        assert cep(command, "near.cep").exit_code == 2
        assert cep(command, "near.cep", "--facts", f"linked=links.{kind}").exit_code == 0


@pytest.mark.parametrize("batch", ["1", "2", "100"])
def test_batches_change_nothing(batch: str) -> None:
    assert events(cep("run", "fire.cep", "--input", "events.jsonl", "--batch", batch).stdout) == [FIRE]


def test_outputs_are_tried_before_anything_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    for output in ("nowhere/out.jsonl", "out.xlsx"):
        result = cep("run", "fire.cep", "--input", "events.jsonl", "--output", output)
        assert result.exit_code == 2
        assert output in result.stderr and COMPILING not in result.stderr


@pytest.mark.long
def test_the_first_run_says_what_takes_so_long(tmp_path: Path) -> None:
    """With settings of numba that no kernels are brought for."""
    source = "event tick(n: int).\ntwice(N) <- tick(N) WHERE N > 0.\n"
    Path("tick.cep").write_text(source)
    Path("tick.jsonl").write_text(jsonl([{"type": "tick", "time": 1, "n": 1}]))
    said = []
    for _ in range(2):
        ran = subprocess.run(
            [sys.executable, "-m", "cep", "run", "tick.cep", "--input", "tick.jsonl"],
            env={
                **os.environ,
                "PYTHONPATH": str(Path(__file__).parent.parent),
                "NUMBA_CACHE_DIR": str(tmp_path / "kernels"),
                "NUMBA_OPT": "1",
            },
            capture_output=True,
            text=True,
        )
        assert [one["n"] for one in events(ran.stdout)] == [1]
        said.append(ran.stderr)
    assert said[0].startswith(f"{COMPILING}, once: about 30 s\n")
    assert COMPILING not in said[1]


def test_what_compiling_takes_is_told_while_it_lasts() -> None:
    compiling = Compilation()
    said: list[str | None] = []
    compiling.listener = lambda: said.append(compiling.state)
    assert compiling.state is None
    with compiling.one(), compiling.one():
        assert compiling.state == "compiling kernels: 0 in 0 s, usually about 30 s in all"
    assert compiling.state is None and compiling.kernels == 2
    compiling._before = 105.0  # a slow machine: the words do not contradict the numbers
    with compiling.one():
        assert compiling.state == "compiling kernels: 2 in 105 s, longer than the usual 30 s"
    assert said[0] == "compiling kernels: 0 in 0 s, usually about 30 s in all" and said[-1] is None


def test_the_first_kernel_and_those_that_it_calls_are_announced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiling, said = Compilation(), list[str]()
    monkeypatch.setattr("cep.core.compilation.compilation", compiling)
    announce_compiling(lambda event, text, level="info", **more: said.append(text))
    with compiling.one(), compiling.one(), compiling.one():
        pass
    assert said == ["compiling kernels, once: about 30 s"]


def test_no_folder_for_kernels_is_told() -> None:
    code = "from cep.core.kernel_cache import _Kept; _Kept._locator_classes.clear(); "
    code += "from cep.command import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", code, "run", "fire.cep", "--input", "events.jsonl"],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parent.parent),
            "NUMBA_CACHE_DIR": "fire.cep/below",
            "NUMBA_OPT": "1",
        },
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 2 and "NUMBA_CACHE_DIR" in ran.stderr and "Traceback" not in ran.stderr


def test_idle_ends_the_latest_instant() -> None:
    with start("run", "fire.cep", "--input", "-", "--idle", "200 ms", stdin=subprocess.PIPE) as running:
        assert running.stdin is not None and running.stdout is not None and running.stderr is not None
        for record in EVENTS[:2]:
            running.stdin.write(jsonl([record]))
            running.stdin.flush()
        assert json.loads(running.stdout.readline()) == FIRE  # without another record
        # the clock goes on from 4, and a busy machine takes its time: what comes next is half a minute ahead of it
        running.stdin.write(jsonl([EVENTS[1], {**EVENTS[0], "time": 34}, {**EVENTS[1], "time": 35}]))
        running.stdin.close()
        assert [one["start"] for one in events(running.stdout.read())] == [1, 34]
        messages = without_compiling(running.stderr.read())
    assert messages.startswith("5 records, 1 dead letter (1 late), 3 derived events"), messages


def test_a_runaway_recursion_is_stopped() -> None:
    Path("away.cep").write_text("event a(x: int).\np(X) <- a(X).\np(X + 1) <- p(X).\n")
    Path("a.jsonl").write_text('{"type": "a", "time": 1, "x": 1}\n')
    result = cep("run", "away.cep", "--input", "a.jsonl", "--max-derivations", "1000", "--output", "out.jsonl")
    assert result.exit_code == 2
    assert "a recursion does not end" in result.stderr and "`p`" in result.stderr
