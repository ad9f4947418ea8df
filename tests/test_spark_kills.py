"""A run on Spark to which anything happens gives, when it goes on, what a run gives that is left alone.

`SEMCEP_KILLS=20` kills so often.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryFile

import pytest

from cep.core.errors import CepError
from cep.spark.driver.query import TRIES, StopRequest
from cep.spark.job import start
from cep.spark.sink.file_sink import agree, finish_batches
from tests import spark_runs
from tests.cases_format import difference
from tests.spark_runs import alone, derived, distributed, job, write
from tests.test_spark import LATENESS, PROGRAMS, events
from tests.waiting import pause, until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING),
    pytest.mark.xdist_group("spark"),
]

KILLS = int(os.environ.get("SEMCEP_KILLS", "2"))
STAGES = PROGRAMS["stages"]


def test_killed_runs_lose_nothing_and_say_nothing_twice(tmp_path: Path) -> None:
    random = Random(KILLS)
    rules = tmp_path / "rules.cep"
    rules.write_text(STAGES)
    inputs = write(tmp_path / "in", events("stages", random), KILLS + 2, random, LATENESS)
    options = ["--output", str(tmp_path / "derived"), "--checkpoint", str(tmp_path / "state"), "--buckets", "3"]
    options += ["--output-format", "jsonl", "--files", "1", "--lateness", "4 s", "--master", "local[2]"]
    options += ["--conf", "spark.hadoop.fs.defaultFS=hdfs://127.0.0.1:1"]  # a cluster's, of which nothing is wanted
    command = [sys.executable, "-m", "cep", "run", str(rules), "--on", "spark", "--input", *inputs, *options]
    for _ in range(KILLS):
        killed(command, tmp_path / "state" / "spark", random)
    last = subprocess.run(command, capture_output=True, text=True, check=False)
    assert last.returncode == 0, last.stderr
    wanted = job(STAGES, inputs, tmp_path)
    assert difference(alone(STAGES, inputs, LATENESS), derived(wanted)) == ""


def killed(command: list[str], checkpoint: Path, random: Random) -> None:
    """Run, and kill at any moment of the next micro-batch or the one after it."""
    begun, done = checkpoint / "offsets", checkpoint / "commits"
    target = len(list(done.glob("[0-9]*"))) + random.randrange(2)
    with TemporaryFile() as said:
        run = subprocess.Popen(command, start_new_session=True, stdout=said, stderr=said)
        try:
            until(lambda: (begun / str(target)).exists() or run.poll() is not None, "the micro-batch begins", 600)
            pause(random.random() * 2)
            if run.poll() is not None:  # so fast that it is at its end
                said.seek(0)
                assert run.returncode == 0, said.read().decode()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()


def test_killed_workers_and_micro_batches_done_again_do_no_harm(tmp_path: Path) -> None:
    """The processes in which an executor runs Python are killed: its task fails, and is done again, or the query is.

    Then micro-batches are done again as if killed when the state was written, when the sink was as well, and before the
    last two had begun; and with Spark's logs of an older copy, which a run refuses: it would take other input for what
    counts already."""
    random = Random(9)
    inputs = write(tmp_path / "in", events("stages", random), 4, random, LATENESS)
    wanted = job(STAGES, inputs, tmp_path, 3, lateness=LATENESS, limit=1)
    expected = alone(STAGES, inputs, LATENESS)
    spark_runs.spark()
    left, failed = [KILLS], 0
    over = threading.Event()

    def kill() -> None:
        while left[0] and not over.wait(0.2 + random.random()):
            if found := workers():
                with suppress(ProcessLookupError):
                    os.kill(random.choice(found), signal.SIGKILL)
                    left[0] -= 1

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        while True:
            finish_batches(Path(wanted.output))
            stop = StopRequest(Path(wanted.checkpoint))
            try:
                stop.wait(stop.begun(lambda: start(spark_runs.spark(), wanted)), False)
                break
            except CepError as error:
                assert "the query has failed: " in str(error)
                failed += 1
                assert failed < KILLS + TRIES, "and some because the machine was busy"
    finally:
        over.set()
        killer.join()
    finish_batches(Path(wanted.output))
    assert left[0] < KILLS
    assert difference(expected, derived(wanted)) == ""

    spark, sink = Path(wanted.checkpoint) / "spark", Path(wanted.output) / "_spark_metadata"
    for batches, logs in [(1, [spark / "commits"]), (1, [spark / "commits", sink]),
                          (2, [spark / "commits", sink, spark / "offsets"])]:  # fmt: skip
        last = max(int(file.name) for file in (spark / "commits").glob("[0-9]*"))
        for number in range(last, last - batches, -1):
            for log in logs:
                (log / str(number)).unlink(missing_ok=True)
                (log / f".{number}.crc").unlink(missing_ok=True)
                (log / f"note.{number}").unlink(missing_ok=True)
        finish_batches(Path(wanted.output))
        again = distributed(wanted)
        finish_batches(Path(wanted.output))
        assert difference(expected, derived(wanted)) == "", (batches, logs, len(again))
    last = max(int(file.name) for file in (spark / "commits").glob("[0-9]*"))
    for log in (spark / "commits", spark / "offsets"):  # of an older copy: Spark would count from there, and take more
        for number in range(last - 1, last + 1):
            (log / str(number)).unlink(missing_ok=True)
    with pytest.raises(CepError, match=f"ends with micro-batch {last - 2}, but {last} is written"):
        agree(spark, Path(wanted.output))


def workers() -> list[int]:
    """The Python workers of the session's executor: what its daemons have started."""
    parents = {}
    daemons = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if b"pyspark.daemon" in (folder / "cmdline").read_bytes():
                daemons.add(int(folder.name))
        except OSError:  # it has gone
            pass

    def ours(pid: int) -> bool:
        while pid > 1 and pid != os.getpid():
            pid = parents.get(pid, 0)
        return pid > 1

    return [pid for pid, parent in parents.items() if pid in daemons and parent in daemons and ours(pid)]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of a megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here: that takes root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=False)


def test_a_full_disk_is_said_and_does_no_harm(small: Path, tmp_path: Path) -> None:
    random = Random(11)
    inputs = write(tmp_path / "in", events("stages", random), 2, random, LATENESS)
    wanted = job(STAGES, inputs, small, 3, lateness=LATENESS, limit=1)
    wanted = replace(wanted, checkpoint=str(tmp_path / "state"))
    Path(wanted.checkpoint).mkdir()
    ballast = small / "ballast"
    ballast.write_bytes(b"x" * (shutil.disk_usage(small).free - 4096))
    with pytest.raises(CepError, match=r"the query has failed: --output: .*no space left on device"):
        distributed(wanted)
    ballast.unlink()
    finish_batches(Path(wanted.output))
    assert difference(alone(STAGES, inputs, LATENESS), distributed(wanted)) == ""
