"""On a cluster of two executors on this machine, of which one is killed in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

import polars as pl
import pytest

from tests import spark_runs
from tests.spark_runs import alone, write
from tests.test_spark import LATENESS, PROGRAMS, events
from tests.waiting import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING),
    pytest.mark.xdist_group("clusters"),  # beside the tests of one session
]


def test_an_executor_is_killed(tmp_path: Path) -> None:
    """A recursion and what comes of it, as Parquet: derived once, also where the tasks of a lost machine are done
    again on the other one."""
    random = Random(11)
    rules, derived, state = tmp_path / "rules.cep", tmp_path / "derived", tmp_path / "state"
    rules.write_text(PROGRAMS["blizzard"])
    inputs = write(tmp_path / "in", events("blizzard", random), 4, random, LATENESS)
    expected = alone(PROGRAMS["blizzard"], inputs, LATENESS)
    command = [sys.executable, "-m", "cep", "run", str(rules), "--on", "spark", "--input", *inputs]
    command += ["--output", str(derived), "--checkpoint", str(state), "--buckets", "3", "--files", "1"]
    command += ["--lateness", "4 s", "--master", "local-cluster[2,1,1024]"]
    command += ["--conf", f"spark.executor.extraJavaOptions={os.environ['SPARK_SUBMIT_OPTS']}"]
    with (tmp_path / "said").open("wb") as said:
        run = subprocess.Popen(command, start_new_session=True, stdout=said, stderr=said)
        begun = state / "spark" / "offsets" / "1"
        until(lambda: run.poll() is not None or (begun.exists() and executors(run.pid)), "executors", 600, every=0.1)
        killed = executors(run.pid)
        if killed:
            os.kill(random.choice(killed), signal.SIGKILL)
        run.wait()
    assert run.returncode == 0 and killed, (tmp_path / "said").read_text()
    rows = []
    for event, columns in (("settling", ["station", "n"]), ("warning", ["s", "c"]), ("passed", ["s"])):
        table = pl.concat([pl.read_parquet(file) for file in derived.glob(f"type={event}/*.parquet")])
        times = [pl.col(name).dt.epoch("us") for name in ("start", "end")]
        rows += [(event, *row) for row in table.select(*times, *columns).rows()]
    assert sorted(rows) == sorted((e.type, e.start, e.end, *e.args) for e in expected)


def executors(run: int) -> list[int]:
    """The processes of a run's executors: those of its session."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"CoarseGrainedExecutorBackend" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return [pid for pid in found if _session(pid) == run]


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0
