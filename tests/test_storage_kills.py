"""A run over S3 that is killed at random moments, and begun anew: what is there in the end is there once, and whole."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli_runs import jsonl
from tests.object_store import Bucket, served
from tests.waiting import until

ROOT = str(Path(__file__).parent.parent)
COMMAND = (sys.executable, "-m", "cep", "run", "rules.cep")
PROGRAM = """\
event reading(sensor: int, value: int).
event rise(sensor: int, from: int, to: int).
rise(S, A, B) <- (reading(S, A) SEQ reading(S, B) WHERE B > A + 5) WITHIN 5 s.
"""


def run(bucket: Bucket, folder: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [*COMMAND, "--input", "s3://bucket/in/*.jsonl", *more]
    env = {**os.environ, **bucket.env, "PYTHONPATH": ROOT}
    return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@pytest.mark.long
def test_killed_runs_leave_nothing_and_the_next_one_all(tmp_path: Path) -> None:
    rng = random.Random(17)
    (tmp_path / "rules.cep").write_text(PROGRAM)
    bucket = served()
    for day in range(4):
        records = [
            {"type": "reading", "time": day * 1000 + n // 4, "sensor": n % 8, "value": rng.randrange(20)}
            for n in range(4_000)
        ]
        bucket.put(f"in/{day}.jsonl", jsonl(records))
    began = time.monotonic()
    assert run(bucket, tmp_path, "--output", "all.jsonl").wait() == 0
    takes = time.monotonic() - began
    expected = (tmp_path / "all.jsonl").read_bytes()
    assert expected.count(b"\n") > 100
    killed = 0
    for round in range(3):
        to = f"out/{round}.jsonl"
        for _ in range(3):
            one = run(bucket, tmp_path, "--output", f"s3://bucket/{to}", "--batch", "1000")
            try:
                one.wait(rng.uniform(0.1, 1.0) * takes)
                takes *= 0.8  # it has ended before: the first run took longer
            except subprocess.TimeoutExpired:
                one.kill()
                killed += 1
            one.wait()
            assert bucket.keys(to) == [] or bucket.get(to) == expected
        one = run(bucket, tmp_path, "--output", f"s3://bucket/{to}")
        assert one.wait() == 0, one.stderr and one.stderr.read()
        assert bucket.get(to) == expected
    assert killed > 3


def test_a_run_that_is_stopped_puts_what_there_is_and_one_that_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "rules.cep").write_text(PROGRAM)
    bucket = served()
    bucket.put("in/1.jsonl", jsonl([{"type": "reading", "time": n, "sensor": 1, "value": 9 * n} for n in range(9)]))
    env = {**os.environ, **bucket.env, "PYTHONPATH": ROOT}
    one = subprocess.Popen(
        [*COMMAND, "--input", "-", "--output", "s3://bucket/out.jsonl", "--lateness", "0", "--dead-letter", "dead"],
        cwd=tmp_path,
        env=env,
        stdin=subprocess.PIPE,
    )
    assert one.stdin is not None
    one.stdin.write(jsonl([{"type": "reading", "time": n, "sensor": 1, "value": 9 * n} for n in range(9)]).encode())
    one.stdin.write(b"no record\n")
    one.stdin.flush()
    dead = tmp_path / "dead"
    until(lambda: dead.exists() and dead.read_bytes(), "the dead letter")
    assert bucket.keys("out") == []
    one.send_signal(signal.SIGINT)
    assert one.wait(60) == 130
    assert bucket.get("out.jsonl").count(b"\n") == 25  # what ends with the last instant is open
    bucket.put("in/2.parquet", b"no parquet")
    failed = run(
        bucket,
        tmp_path,
        "--input",
        "s3://bucket/in/2.parquet",
        "--output",
        "s3://bucket/more.jsonl",
        "--lateness",
        "0",
    )
    assert failed.wait() == 2
    assert bucket.keys("more") == []
