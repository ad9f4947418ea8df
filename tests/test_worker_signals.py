"""Runs of files whose workers write rows, ended in the middle: what is there is the beginning of the whole."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.cli_runs import start
from tests.test_worker_processes import gone, workers_of
from tests.waiting import pause

pytestmark = pytest.mark.long

RULES = """event reading(station: int, value: int) TIME time.
rise(S, V, W) <- reading(S, V) SEQ reading(S, W) WHERE W > V + 90 POLICY recent.
mean(S, M) <- (reading(S, V) AGGREGATE M = avg(V) OVER LAST 3 EVENTS BY S) WHERE M > 80.
many(N) <- rise(_, _, _) AGGREGATE N = count() OVER LAST 1 min.
"""
EACH = """event reading(station: int, value: int) TIME time.
each(S, M) <- reading(S, V) AGGREGATE M = max(V) OVER LAST 1 EVENTS BY S.
"""
ROWS = 4_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The rules, their input, and what one process makes of it."""
    made = tmp_path_factory.mktemp("signals")
    made.joinpath("rules.cep").write_text(RULES)
    made.joinpath("each.cep").write_text(EACH)
    random = np.random.default_rng(1)
    values = {"station": random.integers(0, 50, ROWS), "value": random.integers(0, 100, ROWS)}
    pl.DataFrame({"time": np.arange(ROWS) / 100, **values}).write_csv(made / "in.csv")
    yield made


@pytest.fixture(scope="module")
def whole(folder: Path) -> bytes:
    run = start(*command(folder, "whole.jsonl", 1))
    assert run.wait(500) == 0
    return folder.joinpath("whole.jsonl").read_bytes()


def command(folder: Path, output: str, workers: int, rules: str = "rules.cep") -> list[str]:
    asked = ["run", str(folder / rules), "--input", f"reading={folder / 'in.csv'}", "--lateness", "0"]
    asked += ["--batch", "20000"]
    return [*asked, "--workers", str(workers), "--output", str(folder / output)]


def under_way(folder: Path, output: str) -> tuple[subprocess.Popen[str], list[int]]:
    """A run that has written something and is not over, and its workers."""
    folder.joinpath(output).unlink(missing_ok=True)
    run = start(*command(folder, output, 2))
    return run, waited(run, folder / output, 1)


def waited(run: subprocess.Popen[str], output: Path, least: int) -> list[int]:
    """The workers of a run, when it has written so many bytes."""
    while not (output.exists() and output.stat().st_size >= least):
        assert run.poll() is None, run.communicate()
        pause(0.01)
    return workers_of(run.pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_the_beginning_and_no_worker(
    number: signal.Signals, folder: Path, whole: bytes
) -> None:
    run, workers = under_way(folder, "ended.jsonl")
    assert len(workers) == 2
    run.send_signal(number)
    assert run.wait(120) == (-9 if number == signal.SIGKILL else 128 + number)
    assert gone(workers)
    written = folder.joinpath("ended.jsonl").read_bytes()
    assert 0 < len(written) < len(whole) and whole.startswith(written)
    assert written.endswith(b"\n") or number == signal.SIGKILL


@pytest.mark.parametrize(("worker", "number"), [(0, signal.SIGKILL), (1, signal.SIGKILL), (1, signal.SIGTERM)])
def test_a_run_whose_worker_is_ended_leaves_the_beginning(
    worker: int, number: signal.Signals, folder: Path, whole: bytes
) -> None:
    run, workers = under_way(folder, "lost.jsonl")
    os.kill(workers[worker], number)
    _, told = run.communicate(timeout=120)
    assert run.returncode == 2 and f"worker {worker + 1} of 2 was ended by signal {int(number)}" in told
    assert gone(workers)
    written = folder.joinpath("lost.jsonl").read_bytes()
    assert written.endswith(b"\n") and len(written) < len(whole) and whole.startswith(written)


def test_an_interrupt_of_workers_alone_is_none(folder: Path, whole: bytes) -> None:
    run, workers = under_way(folder, "through.jsonl")
    for each in workers:
        os.kill(each, signal.SIGINT)
    assert run.wait(300) == 0
    assert folder.joinpath("through.jsonl").read_bytes() == whole


@pytest.mark.parametrize("worker", [None, 0])
def test_parquet_is_whole_where_a_run_is_ended(worker: int | None, folder: Path) -> None:
    """A thread writes it; what is there is a file that can be read."""
    output = folder / "out.parquet"
    output.unlink(missing_ok=True)
    run = start(*command(folder, output.name, 2, "each.cep"))
    workers = waited(run, output, 1 << 16)
    run.send_signal(signal.SIGINT) if worker is None else os.kill(workers[worker], signal.SIGKILL)
    assert run.wait(120) == (130 if worker is None else 2) and gone(workers)
    found, read = pl.read_parquet(output), pl.read_csv(folder / "in.csv")
    assert 1 << 17 < found.height < ROWS
    assert found["s"].equals(read["station"][: found.height]) and found["m"].equals(read["value"][: found.height])
