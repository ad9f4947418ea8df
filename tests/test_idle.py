"""Idle inputs: time goes on by itself from where it had come, while nothing comes; what is earlier is late then."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl
import pytest

from cep.app.durations import idle_seconds
from cep.app.pipeline import Interrupt, flow
from cep.connectors.dead_letters import DeadLetters
from cep.connectors.idle import IdleTimer
from cep.connectors.records.batch import Batch, DeadLetter
from cep.core.errors import CepError
from cep.engine import Engine
from cep.events import Event
from cep.runtime.encode import RefusedRow
from cep.runtime.run_stats import RunStats
from tests.spark_runs import of_tables

SECOND = 1_000_000
PROGRAM = """event reading(room: string) TIME time.
event tick.
quiet(R) <- reading(R) UNLESS reading(R) WITHIN 10 s.
pair(R) <- (reading(R) SEQ tick) WITHIN 20 s.
many(N) <- reading(_) AGGREGATE N = count() OVER LAST 5 s.
noon <- 1970-01-01T00:01:00Z.
"""


class Hand:
    """A clock whose hand is moved."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


@pytest.mark.parametrize(("idle", "reported"), [(0.25, [0.25, 1.25, 2.25, 3.25]), (1.5, [1.5, 3.0]), (None, [])])
def test_a_silence_is_told_again_and_again(idle: float | None, reported: list[float]) -> None:
    hand = Hand()
    silence = IdleTimer(idle, hand)
    for _ in range(2):  # the second begins when something has come
        found = []
        for quarter in range(1, 16):
            hand.time += 0.25
            if silence.due():
                assert silence.length == quarter * SECOND // 4
                found.append(quarter / 4)
        assert found == reported
        silence.reset()
    assert silence.remaining == idle


def test_files_are_never_silent() -> None:
    assert idle_seconds("2 s", False) == 2
    with pytest.raises(CepError, match="the input is files"):
        idle_seconds("2 s", True)


def came(*seconds: int, room: str = "a") -> Batch:
    ends = [second * SECOND for second in seconds]
    table = pl.DataFrame({"start": ends, "end": ends, "@order": range(len(ends)), "room": [room] * len(ends)})
    return Batch({"reading": table}, [], [])


def silent(seconds: float) -> Batch:
    return Batch({}, [], [], silence=round(seconds * SECOND))


class Late:
    """Who collects what is late, and what is derived, each with the batch that brought it."""

    def __init__(self) -> None:
        self.found: list[tuple[int, Event]] = []
        self.late: list[tuple[int, int]] = []
        self.turn = 0

    def take(self, batch: Batch | None, tables: dict[str, pl.DataFrame]) -> None:
        self.found += [(self.turn, event) for event in of_tables(tables.items()) if event.type != "many"]

    def add(self, records: Iterable[DeadLetter]) -> None:
        assert not list(records)

    def reject(self, batch: Batch, refused: Sequence[RefusedRow]) -> None:
        for row in refused:
            assert row.code == "late"
            self.late.append((self.turn, batch.tables[row.type]["end"][row.row] // SECOND))


def run(lateness: int, batches: list[Batch]) -> tuple[Late, Engine]:
    engine, late, interrupt = Engine.from_text(PROGRAM, lateness=lateness * SECOND), Late(), Interrupt()

    def each() -> Iterable[Batch]:
        for late.turn, batch in enumerate(batches):
            yield batch
        interrupt.signal = 2  # it does not end

    flow(engine, iter(each()), RunStats(), late.take, late, interrupt)
    return late, engine


def test_deadlines_and_time_points_pass_in_silence_and_state_goes() -> None:
    batches = [silent(50), came(3), silent(4), silent(12), silent(30), silent(80), came(5, 90)]
    late, engine = run(2, batches)
    found = [(turn, event.type, event.end // SECOND) for turn, event in late.found]
    assert found == [(4, "quiet", 13), (5, "noon", 60)]  # turn 3: 3 + 12 s are not 2 s beyond 13 s
    assert late.late == [(6, 5)]
    assert engine.watermark == 90 * SECOND - 2 * SECOND - 1
    batches.pop()
    assert run(2, batches)[1].state_rows == 0


def test_time_goes_on_from_where_it_had_come() -> None:
    # What comes late, or is no later than the time told, does not take time back, nor stop it.
    late, engine = run(0, [came(10), silent(7), came(12), silent(1), came(18), silent(2), silent(4)])
    assert late.late == [(2, 12)]
    assert engine.watermark == 22 * SECOND - 1 and not late.found


def test_the_latest_instant_is_over_after_the_lateness() -> None:
    program = "event reading(room: string) TIME time. seen(R) <- reading(R)."
    engine, found, interrupt = Engine.from_text(program, lateness=3 * SECOND), Late(), Interrupt()
    batches = iter([came(10), silent(2), silent(3.000001)])
    flow(engine, batches, RunStats(), found.take, DeadLetters(None), interrupt)
    assert [event.end for _, event in found.found] == [10 * SECOND]


def test_a_pipe_falls_silent(tmp_path: Path) -> None:
    program = "event smoke(room: string). alone(R) <- smoke(R) UNLESS smoke(R) WITHIN 1 s."
    (tmp_path / "rules.cep").write_text(program)
    command = [sys.executable, "-m", "cep", "run", "rules.cep", "--input", "-", "--idle", "200 ms"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as running:
        assert running.stdin is not None and running.stdout is not None and running.stderr is not None

        def smoke(time: float, room: str) -> None:
            running.stdin.write(json.dumps({"type": "smoke", "time": time, "room": room}) + "\n")  # type: ignore[union-attr]

        smoke(1, "kitchen")
        assert json.loads(running.stdout.readline())["end"] == 2  # without another record
        smoke(1.5, "cellar")
        smoke(90, "kitchen")
        assert json.loads(running.stdout.readline())["end"] == 91
        running.stdin.close()
        reported = running.stderr.read()
    assert "3 records, 1 dead letter (1 late), 2 derived events" in reported, reported
