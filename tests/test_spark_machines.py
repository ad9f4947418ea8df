"""On a cluster of two machines that share no folder, with checkpoint, input, output and dead letters in a bucket."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("obstore")

from cep.core import checksum
from tests import spark_runs
from tests.damage import flipped
from tests.machines import Machines, machines
from tests.object_store import Bucket, served
from tests.test_spark import LATENESS, PROGRAMS, events
from tests.waiting import pause, until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING),
    pytest.mark.xdist_group("clusters"),  # beside the tests of one session
]

ROOT = str(Path(__file__).parent.parent)
PATIENCE = 900.0


@dataclass
class Cluster:
    """`env`: what a driver needs."""

    machines: Machines
    bucket: Bucket
    env: dict[str, str]

    def begun(self, rules: str, *more: str) -> subprocess.Popen[str]:
        """A run on a driver's machine of its own."""
        folder = self.machines.driver()
        (folder / "rules.cep").write_text(rules)
        command = [sys.executable, "-m", "cep", "run", str(folder / "rules.cep"), "--on", "spark", "--input"]
        command += ["s3://bucket/in", "--files", "1", "--lateness", "4 s", "--buckets", "3", "--master"]
        command += [self.machines.master, "--checkpoint", "s3://bucket/state", "--output", "s3://bucket/out"]
        command += ["--dead-letter", "s3://bucket/dead", "--output-format", "jsonl"]
        command += ["--conf", "spark.executor.memory=512m", "--conf", "spark.driver.host=127.0.0.1", *more]
        env = self.env | {"TMPDIR": str(folder)}
        with (folder / "said").open("wb") as said:
            made = subprocess.Popen(command, start_new_session=True, stdout=said, stderr=said, env=env, text=True)
        made.said = folder / "said"  # type: ignore[attr-defined]
        return made

    def ended(self, run: subprocess.Popen[str]) -> tuple[int, str]:
        """Status and what it said."""
        status = run.wait(PATIENCE)
        return status, run.said.read_text()  # type: ignore[attr-defined]

    def until_counts(self, number: int, *runs: subprocess.Popen[str]) -> None:
        """Until there are so many manifests, or one of the runs has ended."""
        until(lambda: self.count() >= number or any(run.poll() is not None for run in runs), "it counts", PATIENCE)

    def count(self) -> int:
        return max((int(key.rpartition("/")[2]) + 1 for key in self.bucket.keys("state/manifests/")), default=0)

    def given(self) -> list[str]:
        """The derived events."""
        return ordered(line for key in self.bucket.keys("out/part-") for line in self.bucket.get(key).splitlines())

    def letters(self) -> list[str]:
        """The codes of the dead letters."""
        keys = self.bucket.keys("dead/")
        return [json.loads(line)["code"] for key in keys for line in self.bucket.get(key).splitlines()]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    bucket = served()
    env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | bucket.env
    with machines(tmp_path / "machines", env | {"PYTHONPATH": ROOT}) as found:
        yield Cluster(found, bucket, env | {"PYTHONPATH": ROOT})


def files(folder: Path, name: str, number: int, rng: random.Random) -> list[Path]:
    """Events of a program of that name in so many files."""
    spark_runs.write(folder, events(name, rng), number, rng, LATENESS)
    return sorted(folder.iterdir())


def alone(rules: str, folder: Path, *more: str) -> list[str]:
    """What one process derives of the files."""
    (folder / "rules.cep").write_text(rules)
    command = [sys.executable, "-m", "cep", "run", str(folder / "rules.cep"), "--input", str(folder / "*.jsonl")]
    command += ["--lateness", "4 s", "--output", str(folder / "alone"), *more]
    subprocess.run(command, check=True, capture_output=True)
    return ordered((folder / "alone").read_bytes().splitlines())


def ordered(lines: Sequence[bytes] | Iterator[bytes]) -> list[str]:
    return sorted(json.dumps(json.loads(line), sort_keys=True) for line in lines)


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def test_machines_and_drivers_are_lost(cluster: Cluster, tmp_path: Path) -> None:
    """An executor is killed, then the driver; the next one is on another machine, and has nothing but the bucket. Three
    stages, so what one makes goes to others."""
    rng = random.Random(5)
    rules, there = PROGRAMS["stages"], files(tmp_path / "in", "stages", 7, rng)
    expected = alone(rules, tmp_path / "in")
    for file in there:
        cluster.bucket.put(f"in/{file.name}", file.read_bytes())
    cluster.bucket.put("in/bad.jsonl", "no record\n")
    first = cluster.begun(rules)
    try:
        cluster.until_counts(2, first)
        for pid in cluster.machines.executors()[:1]:
            os.kill(pid, signal.SIGKILL)
        cluster.until_counts(4, first)
        pause(rng.random() * 2)
        assert first.poll() is None, cluster.ended(first)
    finally:
        kill(first.pid)
    status, said = cluster.ended(cluster.begun(rules))
    assert status == 0, said
    assert cluster.given() == expected and len(expected) > 50
    assert cluster.letters() == ["json"]
    assert len(cluster.bucket.keys("state/manifests/")) == 2


def test_of_two_runs_one_ends_and_damage_is_told(cluster: Cluster, tmp_path: Path) -> None:
    """Both on one checkpoint. Then what states are in has a bit flipped: the next run says so, and with the bits as
    they were goes on, on the cluster and on one machine."""
    rng = random.Random(7)
    rules, there = PROGRAMS["seq"], files(tmp_path / "in", "seq", 6, rng)
    expected = alone(rules, tmp_path / "in")
    for file in there[:4]:
        cluster.bucket.put(f"in/{file.name}", file.read_bytes())
    one = "--conf", "spark.cores.max=1"
    first = cluster.begun(rules, "--once", *one)
    try:
        cluster.until_counts(1, first)
        second = cluster.begun(rules, "--once", *one)
        ends = [cluster.ended(first), cluster.ended(second)]
    finally:
        kill(first.pid)
    statuses = {status for status, _ in ends}
    assert statuses <= {0, 2, 3} and 0 in statuses, ends  # 2: while the second one read the checkpoint
    assert all("another run has taken over s3://bucket/state" in said for status, said in ends if status), ends
    cluster.bucket.put(f"in/{there[4].name}", there[4].read_bytes())
    manifest_key = cluster.bucket.keys("state/manifests/")[-1]
    manifest = cluster.bucket.get(manifest_key)
    known = json.loads(bytes(checksum.content(manifest, manifest_key.rpartition("/")[2].encode())))["files"]
    names = [name for name in known if name.startswith("checkpoint/buckets/1-0")]
    packs = {known[name][0]: cluster.bucket.get(f"state/packs/{known[name][0]}") for name in names}
    assert packs and all(len(pack.split("-")) == 3 for pack in packs), "tasks have put them"
    for pack, data in packs.items():
        for _, damaged in flipped(data, 1, rng):
            cluster.bucket.put(f"state/packs/{pack}", damaged)
    status, said = cluster.ended(cluster.begun(rules, "--once"))
    assert status == 3 and "is damaged" in said and "s3://bucket/state/packs/" in said, said
    for pack, data in packs.items():
        cluster.bucket.put(f"state/packs/{pack}", data)
    status, said = cluster.ended(cluster.begun(rules, "--once"))
    assert status == 0, said
    cluster.bucket.put(f"in/{there[5].name}", there[5].read_bytes())
    status, said = cluster.ended(cluster.begun(rules, "--master", "local[2]"))
    assert status == 0, said
    assert cluster.given() == expected and len(expected) > 5
