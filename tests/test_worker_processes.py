"""Worker processes as they are: started, killed, interrupted; and `cep run --workers`."""

from __future__ import annotations

import errno
import gc
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from cep import Engine
from cep.compile import CompileOptions, compiled
from cep.core.errors import CepError
from cep.runtime.options import EngineOptions
from cep.workers import chunk_readers, partitioned_engine, processes
from cep.workers.partitioned_engine import PartitionedEngine
from cep.workers.processes import WorkerProcesses
from tests.cli_runs import cep, events, here, jsonl, start
from tests.local_workers import LocalWorkers
from tests.waiting import pause, until

pytestmark = pytest.mark.usefixtures("folder")

RULES = """event reading(station: string, value: int in 0..99) TIME time.
rise(S, V, W) <- reading(S, V) SEQ reading(S, W) WHERE W > V + 60 POLICY recent.
mean(S, M) <- reading(S, V) AGGREGATE M = avg(V) OVER LAST 3 EVENTS BY S.
many(N) <- rise(_, _, _) AGGREGATE N = count() OVER LAST 1 min.
silent(S) <- reading(S, V) UNLESS reading(S, _) WITHIN 30 s.
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = here(tmp_path, monkeypatch)
    Path("rules.cep").write_text(RULES)
    return found


def records(count: int, seed: int = 1) -> list[dict[str, object]]:
    random = Random(seed)
    return [
        {"type": "reading", "time": i / 2, "station": f'"s{random.randrange(20)}",\n', "value": random.randrange(104)}
        for i in range(count)
    ]


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(processes: list[int], seconds: float = 20.0) -> bool:
    until = time.monotonic() + seconds
    while any(map(alive, processes)) and time.monotonic() < until:
        pause(0.05)
    return not any(map(alive, processes))


def workers_of(parent: int) -> list[int]:
    """Those of a process, by its children."""
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(each) for each in found if b"cep.workers.worker" in Path(f"/proc/{each}/cmdline").read_bytes()]


class SharedWorkers(WorkerProcesses):
    """For one engine after the other: closing leaves them."""

    def close(self) -> None:
        pass

    def end(self) -> None:
        super().close()


@pytest.fixture(scope="module")
def pool() -> Iterator[SharedWorkers]:
    made = SharedWorkers(2)
    yield made
    made.end()
    assert gone(made.numbers)


@pytest.fixture
def shared(pool: SharedWorkers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs with two workers have those of the pool."""

    def of_pool(count: int) -> SharedWorkers:
        assert count == len(pool)
        return pool

    monkeypatch.setattr(partitioned_engine, "WorkerProcesses", of_pool)
    monkeypatch.setattr(chunk_readers, "LEAST", 1)


CASES = {
    "sorted": [],
    "late": ["--lateness", "5s", "--batch", "64"],
    "fields": ["--output-format", "csv"],
    "some": ["--only", "mean", "--output-format", "tsv", "--lateness", "1s"],
}


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("more", CASES.values(), ids=CASES)
def test_the_command_writes_what_it_writes_in_one_process(more: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Events in one order, dead letters, lateness. With small batches workers read chunks of the file."""
    Path("in.jsonl").write_text(jsonl(records(400)))
    outputs, asked = [], list[int]()
    ask = chunk_readers.WorkerReaders.ask
    monkeypatch.setattr(chunk_readers.WorkerReaders, "ask", lambda *args: asked.append(1) or ask(*args))
    for workers in ("1", "2"):
        Path(workers).mkdir()
        output = f"{workers}/" if "--output-format" in more else f"{workers}/all.jsonl"
        command = ["run", "rules.cep", "--input", "in.jsonl", "--output", output, "--workers", workers]
        result = cep(*command, "--dead-letter", f"dead{workers}.jsonl", *more)
        assert result.exit_code == 0, result.output
        written = {each.name: each.read_text() for each in Path(workers).iterdir()}
        outputs.append((written, Path(f"dead{workers}.jsonl").read_text()))
    assert outputs[0] == outputs[1] and bool(asked) == ("--batch" in more)
    assert len(outputs[0][0]) == (4 if more[:1] == ["--output-format"] else 1)
    assert all(len(text) > 100 for text in outputs[0][0].values()) and outputs[0][1]


INPUTS = {
    "none": [],
    "one": records(1),
    "refused": [{**each, "value": 500} for each in records(30)],
    "hot": [{**each, "station": "hot" if number % 20 else "cold"} for number, each in enumerate(records(300))],
}


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("given", INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_the_command_writes_the_same_of_nothing_and_of_one_key(given: list[dict[str, object]], suffix: str) -> None:
    """Whatever of the input comes to a worker, also where it is of one key, or nothing is taken."""
    Path("in.jsonl").write_text(jsonl(given))
    outputs = []
    for workers in ("1", "2"):
        Path(workers).mkdir()
        output = [f"--output={workers}/out.{suffix}", "--dead-letter", f"dead{workers}.jsonl", "--workers", workers]
        result = cep("run", "rules.cep", "--input", "in.jsonl", "--lateness", "2s", *output)
        assert result.exit_code == 0, result.output
        read = pl.read_parquet if suffix == "parquet" else pl.read_ndjson
        written = {
            each.name: read(each).rows() if each.stat().st_size else [] for each in sorted(Path(workers).iterdir())
        }
        outputs.append((written, Path(f"dead{workers}.jsonl").read_text()))
    assert outputs[0] == outputs[1] and len(outputs[0][0]) == (4 if suffix == "parquet" else 1)
    assert bool(outputs[0][1]) == any(int(str(each["value"])) > 99 for each in given)


def test_the_command_puts_right_in_workers() -> None:
    given = records(120)
    for number, each in enumerate(Random(3).sample(given, 30)):
        given.insert(given.index(each) + number, each | {"@change": "withdraw"})
    Path("in.jsonl").write_text(jsonl(Random(4).sample(given, len(given))))
    nets = []
    for workers in ("1", "2"):
        files = ["--output", f"out{workers}.jsonl", "--dead-letter", f"dead{workers}.jsonl"]
        run = ["run", "rules.cep", "--input", "in.jsonl", "--revise", "1min", "--batch", "40", "--workers", workers]
        assert cep(*run, *files).exit_code == 0
        net: Counter[str] = Counter()
        for row in events(Path(f"out{workers}.jsonl").read_text()):
            change = 1 if row.pop("@change") == "add" else -1
            net[json.dumps(row, sort_keys=True)] += change
        nets.append(+net)
    assert nets[0] == nets[1] and nets[0].total() > 10
    assert Path("dead1.jsonl").read_bytes() == Path("dead2.jsonl").read_bytes()
    assert "unknown-withdrawal" in Path("dead1.jsonl").read_text()


def test_the_command_says_what_workers_do_not_do() -> None:
    Path("in.jsonl").write_text(jsonl(records(9)))
    run = ["run", "rules.cep", "--input", "in.jsonl", "--workers", "2"]
    for more, message in (
        (["--explain", "--revise", "1h"], "workers: these rules run in 2 stages"),
        (["--on", "spark", "--output", "o", "--checkpoint", "c"], "--workers has no effect on Spark"),
    ):
        result = cep(*run, *more)
        assert result.exit_code == 2 and message in result.output.replace("\n", " "), result.output
    result = cep(*run[:-1], "1000")
    assert result.exit_code == 2 and "1000 workers are too many: this machine has " in result.output, result.output
    Path("one.cep").write_text("event reading(station: string). n(N) <- reading(S) AGGREGATE N = count() OVER LAST 5.")
    result = cep("run", "one.cep", "--input", "in.jsonl", "--workers", "2")
    assert result.exit_code == 0 and "warning: --workers: the program runs in one process" in result.output
    Path("one.lars").write_text("event reading(station: string). a :- reading(S) in [3]. b :- a always in [3].")
    result = cep("run", "one.lars", "--input", "in.jsonl", "--workers", "2")
    told = next(line for line in result.output.splitlines() if line.startswith("warning: --workers"))
    assert " BY" not in told, "LARS has none"


def test_a_worker_that_is_killed_is_an_error_and_nothing_is_left() -> None:
    engine = Engine.from_text(RULES, workers=2)
    assert isinstance(engine.inner, PartitionedEngine)
    numbers = engine.inner.processes
    engine.push(records(100))
    state = engine.snapshot()
    assert all(map(alive, numbers))
    os.kill(numbers[1], signal.SIGKILL)
    with pytest.raises(CepError, match="worker 2 of 2 was ended by signal 9") as caught:
        for seed in range(2, 60):
            engine.push([{**each, "time": float(str(each["time"])) + 50 * seed} for each in records(100, seed)])
    assert caught.value.code == "worker" and gone(numbers)
    options = EngineOptions(lateness=0)
    again = Engine(PartitionedEngine(compiled(RULES, "<program>", CompileOptions()), options, LocalWorkers(3)))
    one = Engine.from_text(RULES)
    one.push(records(100))
    rest = [{**each, "time": float(str(each["time"])) + 50} for each in records(100, 2)]
    assert again.restore(state).push(rest)["mean"].equals(one.push(rest)["mean"])


def open_files() -> set[str]:
    """The sockets that are open, and the memory that is shared with workers."""
    found = set()
    for number in os.listdir("/dev/fd"):
        with suppress(OSError):  # that of the listing itself
            found.add(os.readlink(f"/dev/fd/{number}") + f" as {number}")
    return {each for each in found if each.startswith(("socket:", "/memfd:"))}


@pytest.mark.parametrize("lacking", ["process", "memory"])
def test_a_worker_that_cannot_be_started_leaves_nothing(lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if lacking == "memory" and not hasattr(os, "memfd_create"):
        return  # a system without such memory sends all of it
    started: list[subprocess.Popen[bytes]] = []
    maps = count(1)
    popen, mapped = subprocess.Popen, mmap.mmap

    def process(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        if lacking == "process" and started:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        started.append(popen(*args, **options))
        return started[-1]

    def memory(*args: Any, **options: Any) -> mmap.mmap:
        if lacking == "memory" and next(maps) == 4:  # the first worker has two
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return mapped(*args, **options)

    monkeypatch.setattr(subprocess, "Popen", process)
    monkeypatch.setattr(mmap, "mmap", memory)
    gc.collect()
    before = open_files()
    with pytest.raises(CepError, match="worker 2 of 2 cannot be started: ") as caught:
        WorkerProcesses(2)
    assert caught.value.code == "worker" and str(caught.value.hint).startswith("use fewer `--workers`, or raise")
    assert len(started) == (1 if lacking == "process" else 2)
    assert all(each.returncode is not None for each in started)
    del caught
    gc.collect()
    until(lambda: open_files() <= before, "who listens to a worker has ended, and what it had open is closed")


def test_a_worker_without_its_memory_says_so() -> None:
    here, there = socket.socketpair()
    with here, there, open(os.devnull, "r+b") as no_memory:
        numbers = [there.fileno(), no_memory.fileno()]
        command = [sys.executable, "-m", "cep.workers.worker", *map(str, [*numbers, numbers[-1]])]
        done = subprocess.run(command, pass_fds=numbers, capture_output=True, check=False)
    assert done.returncode == 1 and b"OSError" in done.stderr


def test_workers_that_do_not_leave_are_ended_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_LEAVING", 0.2)
    engine = Engine.from_text(RULES, workers=2)
    assert isinstance(engine.inner, PartitionedEngine)
    numbers = engine.inner.processes
    engine.push(records(10))
    for each in numbers:
        os.kill(each, signal.SIGSTOP)
    engine.stop()
    assert not any(map(alive, numbers))
    with pytest.raises(CepError, match="the engine was stopped, and its workers have ended") as caught:
        engine.push(records(10))
    assert caught.value.code == "stopped"


def test_workers_end_with_their_engine() -> None:
    engine = Engine.from_text(RULES, workers=1)
    assert isinstance(engine.inner, PartitionedEngine)
    numbers = engine.inner.processes
    engine.push(records(10))
    del engine
    assert gone(numbers)


def running(*more: str) -> tuple[subprocess.Popen[str], list[int]]:
    """A run that reads standard input and has written something, and its workers."""
    command = ["run", "rules.cep", "--input", "-", "--lateness", "0", "--workers", "2", "--output", "out.jsonl", *more]
    run = start(*command, stdin=subprocess.PIPE)
    assert run.stdin is not None
    for number in range(4000):
        lines = [{**each, "time": float(str(each["time"])) + 50 * number} for each in records(100, number)]
        run.stdin.write(jsonl(lines))
        run.stdin.flush()
        if Path("out.jsonl").exists() and Path("out.jsonl").stat().st_size > 1000:
            break
        pause(0.05)
    processes = workers_of(run.pid)
    assert len(processes) == 2
    return run, processes


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_with_its_workers(number: signal.Signals) -> None:
    run, processes = running()
    run.send_signal(number)
    assert run.wait(60) == 128 + number
    assert gone(processes)
    written = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert written and {each["type"] for each in written} <= {"rise", "mean", "many", "silent"}


@pytest.mark.long
def test_a_run_that_is_killed_leaves_no_worker() -> None:
    run, processes = running()
    run.kill()
    run.wait(60)
    assert gone(processes)


@pytest.mark.long
@pytest.mark.parametrize("worker", [0, 1])
def test_a_run_whose_worker_is_killed_ends(worker: int) -> None:
    run, processes = running()
    os.kill(processes[worker], signal.SIGKILL)
    assert run.stdin is not None and run.stderr is not None
    try:
        for number in range(5000, 5400):
            run.stdin.write(jsonl([{**each, "time": 50.0 * number} for each in records(100, number)]))
            run.stdin.flush()
            pause(0.05)
    except BrokenPipeError:
        pass
    assert run.wait(60) == 2 and gone(processes)
    assert f"worker {worker + 1} of 2 was ended by signal 9" in run.stderr.read()
