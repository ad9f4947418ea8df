"""Ctrl-C and SIGTERM at any moment: no crash, no traceback, 130 or 143, and what was written is whole.

`SEMCEP_STOPS=200`: so many moments; `SEMCEP_STOPS_ROWS`: of so many records.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.waiting import pause, until

MOMENTS = int(os.environ.get("SEMCEP_STOPS", "10"))
ROWS = int(os.environ.get("SEMCEP_STOPS_ROWS", "300000"))
RULES = """
event reading(station: string, v: float) TIME t.
high(S, V) <- reading(S, V) WHERE V > 90.
pair(S, V + W) <- high(S, V) SEQ high(S, W) WITHIN 10 min.
"""
BEGIN = "import os; from cep.__main__ import main; os.write(2, b'begun\\n'); main()"
"""The command, which tells that it has begun."""
COMMANDS = {
    "run": ["run", "rules.cep", "-i", "readings.csv", "-o", "out.jsonl", "--dead-letter", "dead.jsonl"],
    "compressed": ["run", "rules.cep", "-i", "readings.csv", "-o", "out.csv", "--dead-letter", "dead.jsonl"],
    "lateness": ["run", "rules.cep", "-i", "readings.csv", "-o", "out.jsonl", "--lateness", "1min", "--batch", "9000"],
    "explain": ["explain", "rules.cep", "high(s1)", "-i", "readings.csv"],
    "check": ["check", "rules.cep"],
    "knowledge": ["knowledge", "query", "SELECT ?s { ?s ?p ?o }", "-k", "known.ttl"],
    "demo": ["demo", "fire"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("stops")
    generator = np.random.default_rng(7)
    stations, values = generator.integers(0, 40, ROWS), generator.integers(0, 1000, ROWS) / 10
    with (made / "readings.csv").open("w") as file:
        file.write("station,v,t\n")
        file.writelines(f"s{s},{v},{t}\n" for t, (s, v) in enumerate(zip(stations.tolist(), values.tolist())))
    (made / "rules.cep").write_text(RULES)
    (made / "known.ttl").write_text("".join(f"<urn:s{n}> <urn:p> {n} .\n" for n in range(2000)))
    return made


def begun(arguments: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    """A command that has begun."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    running = subprocess.Popen(
        [sys.executable, "-c", BEGIN, *arguments], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stderr is not None
    assert running.stderr.readline() == b"begun\n"
    return running


def moments(name: str, count: int) -> Iterator[float]:
    """Parts of the time that a command takes, the same in each run."""
    generator = random.Random(name)
    for _ in range(count):
        yield generator.random()


def stopped(name: str, folder: Path, count: int, number: signal.Signals) -> list[tuple[int, bytes, bytes]]:
    """How a command ends when it is stopped so many times, at random moments, before it has ended."""
    arguments = COMMANDS[name]
    began = time.monotonic()
    begun(arguments, folder).communicate()
    lasts = time.monotonic() - began
    ended = []
    while len(ended) < count:
        for part in moments(f"{name} {number} {len(ended)}", count - len(ended)):
            running = begun(arguments, folder)
            pause(part * lasts)
            if running.poll() is None:
                running.send_signal(number)
                out, errors = running.communicate(timeout=300)
                ended.append((running.returncode, out, errors))
                whole(folder)
            else:
                running.communicate()
                lasts *= 0.9
    return ended


def whole(folder: Path) -> None:
    """What was written is whole lines."""
    for name in ("out.jsonl", "dead.jsonl"):
        if (folder / name).exists():
            text = (folder / name).read_text()
            assert not text or text.endswith("\n")
            for line in text.splitlines()[-3:]:
                json.loads(line)
    for path in folder.glob("out.*.csv"):
        text = path.read_text()
        assert not text or (text.endswith("\n") and text.splitlines()[-1].count(",") == text.splitlines()[0].count(","))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "check" else [pytest.mark.long]) for name in COMMANDS]
)
def test_ctrl_c_at_any_moment_is_130(name: str, folder: Path) -> None:
    count = MOMENTS if name == "run" else max(2, MOMENTS // 5)
    ended = stopped(name, folder, count, signal.SIGINT)
    odd = [
        (status, errors)
        for status, _, errors in ended
        if b"Traceback" in errors
        or b"rror" in errors
        or (status != 130 and not (status == 0 and (name in ("check", "demo") or b" records, " in errors)))
    ]  # 0: all was written and said before the signal came
    assert not odd, f"{len(odd)} of {count}: {odd[:3]}"
    assert any(status == 130 for status, _, _ in ended)


@pytest.mark.long
def test_sigterm_at_any_moment_is_143(folder: Path) -> None:
    ended = stopped("run", folder, max(2, MOMENTS // 5), signal.SIGTERM)
    assert {status for status, _, _ in ended} == {143}


@pytest.mark.long
def test_a_second_one_ends_it_at_once(folder: Path) -> None:
    for part in moments("twice", max(2, MOMENTS // 5)):
        running = begun(COMMANDS["run"], folder)
        pause(part)
        for _ in range(20):
            running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=300)
        assert (running.returncode, b"Traceback" in errors) == (130, False)
        whole(folder)


@pytest.mark.parametrize(
    "waiting",
    [
        ["-i", "-"],
        pytest.param(["-i", "-", "--format", "csv"], marks=pytest.mark.long),
        ["-i", "fifo", "--format", "jsonl"],
        pytest.param(["-i", "fifo.gz", "--format", "jsonl"], marks=pytest.mark.long),
        pytest.param(
            ["-i", "readings.csv", "--lateness", "1min", "-k", "known.ttl", "--knowledge-updates", "-"],
            marks=pytest.mark.long,
        ),
        pytest.param(["-i", "rate://1?start=2024-01-01T00:00:00Z"], marks=pytest.mark.long),
    ],
)
def test_what_waits_for_input_is_woken(waiting: list[str], tmp_path: Path) -> None:
    (tmp_path / "rules.cep").write_text("event reading(v: int).\nhigh(V) <- reading(V).\n")
    (tmp_path / "known.ttl").write_text("<urn:a> <urn:b> 1 .\n")
    (tmp_path / "readings.csv").write_text("time,v\n1,2\n")
    for name in ("fifo", "fifo.gz"):
        os.mkfifo(tmp_path / name)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    whole = [sys.executable, "-c", BEGIN, "run", "rules.cep", *waiting, "--metrics", "0"]
    with subprocess.Popen(
        whole, cwd=tmp_path, env=env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as running:
        assert running.stderr is not None
        while b"metrics" not in (line := running.stderr.readline()):
            assert line, "it has ended"
        pause(0.5)  # it reads, by then; no sign tells so
        running.send_signal(signal.SIGINT)
        assert running.wait(300) == 130
        errors = running.stderr.read()
        assert b"Traceback" not in errors and b"stopped" in errors


@pytest.mark.long
def test_a_run_ends_while_one_line_of_gigabytes_is_read(tmp_path: Path) -> None:
    """Also while it looks at the first record, to write times as the input does."""
    (tmp_path / "rules.cep").write_text(RULES)
    with (tmp_path / "one.jsonl").open("wb") as file:
        file.truncate(64 << 30)  # it takes no room
    command = begun(["run", "rules.cep", "-i", "reading=one.jsonl", "-o", "out.jsonl"], tmp_path)
    pause(8)
    command.send_signal(signal.SIGTERM)
    assert command.wait(30) == 128 + signal.SIGTERM


ROUNDS = """
event a(k: int) TIME t.
p(K) <- a(K) UNLESS q(K) WITHIN 1 s.
q(K) <- p(K) SEQ a(K) WITHIN 5 s.
"""
"""A recursion that goes on instant by instant: some minutes for 200,000 records."""


@pytest.mark.long
@pytest.mark.parametrize("workers", [[], ["--workers", "2"]])
def test_a_batch_of_two_hundred_thousand_records_is_left_half_done(workers: list[str], tmp_path: Path) -> None:
    (tmp_path / "rules.cep").write_text(ROUNDS)
    with (tmp_path / "a.jsonl").open("w") as file:
        file.write("no record\n")  # dead letters are written before the step
        file.writelines(f'{{"k": {t % 7}, "t": {t}}}\n' for t in range(200_000))
    arguments = ["run", "rules.cep", "-i", "a=a.jsonl", "-o", "out.jsonl", "--dead-letter", "dead.jsonl"]
    command = begun([*arguments, "--lateness", "1s", "--batch", "200001", *workers], tmp_path)
    dead = tmp_path / "dead.jsonl"
    until(lambda: dead.exists() and dead.stat().st_size, "the batch was read")
    command.send_signal(signal.SIGTERM)
    began = time.monotonic()
    _, errors = command.communicate(timeout=300)
    assert command.returncode == 128 + signal.SIGTERM
    assert time.monotonic() - began < 60
    if workers:  # they go on while the next batch is read
        assert (
            b"workers were still busy with the last batches" in errors
            or b"semcep did not process the end of the input" in errors
        )
    else:
        assert b"a batch was left unfinished: 200,000 of its records are not counted" in errors
        assert b"stopped: 1 record, 1 dead letter" in errors
    assert (tmp_path / "out.jsonl").read_text() == ""
