"""A run on Spark that is killed again and again, and goes on each time, gives what a run does that is left alone.

`SEMCEP_KILLS=20` kills so often.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from tests import spark_runs
from tests.cases_format import difference
from tests.spark_runs import alone, derived, job, write
from tests.test_spark import LATENESS, PROGRAMS, events

pytestmark = [
    pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING),
    pytest.mark.xdist_group("spark"),
]

KILLS = int(os.environ.get("SEMCEP_KILLS", "3"))


def test_killed_runs_lose_nothing_and_say_nothing_twice(tmp_path: Path) -> None:
    random = Random(KILLS)
    rules = tmp_path / "rules.cep"
    rules.write_text(PROGRAMS["stages"])
    inputs = write(tmp_path / "in", events("stages", random), 2 * KILLS + 2, random, LATENESS)
    options = ["--output", str(tmp_path / "derived"), "--checkpoint", str(tmp_path / "state"), "--buckets", "3"]
    options += ["--output-format", "jsonl", "--files", "1", "--lateness", "20 s", "--master", "local[2]"]
    command = [sys.executable, "-m", "cep", "run", str(rules), "--on", "spark", "--input", *inputs, *options]
    for _ in range(KILLS):
        killed(command, tmp_path / "state" / "spark", random)
    last = subprocess.run(command, capture_output=True, text=True, check=False)
    assert last.returncode == 0, last.stderr
    wanted = job(PROGRAMS["stages"], inputs, tmp_path)
    assert difference(alone(PROGRAMS["stages"], inputs, LATENESS), derived(wanted)) == ""


def killed(command: list[str], checkpoint: Path, random: Random) -> None:
    """Run, and kill at any moment of the next micro-batch or the one after it."""
    begun, done = checkpoint / "offsets", checkpoint / "commits"
    target = len(list(done.glob("[0-9]*"))) + random.randrange(2)
    run = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not (begun / str(target)).exists() and run.poll() is None:
            time.sleep(0.02)
        time.sleep(random.random() * 2)
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
