"""A run on Spark that is killed in each of its phases gives, when it goes on, what one process gives.

`SEMCEP_KILLS=50` kills so often: in each phase that has a name, and the other times at any moment.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cep.spark.disk import SINK_LOG
from tests import spark_runs
from tests.cli_runs import jsonl, lines_of
from tests.killing import KillPoint, killed, killed_at_any_moment, ran
from tests.object_store import Bucket, served
from tests.test_spark_kills import KILLS

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING),
    pytest.mark.xdist_group("clusters"),  # beside the tests of one session
]

PROGRAM = """\
event reading(sensor: int, value: int).
event check(sensor: int).
fluent hot(sensor: int).
rise(S, A, B) <- (reading(S, A) SEQ reading(S, B)) WITHIN 20 s WHERE B > A + 14.
unseen(S, A, B) <- NOT(check(S)).[reading(S, A), reading(S, B)] WITHIN 15 s WHERE A > B + 14.
silent(S) <- reading(S, V) UNLESS reading(S, _) WITHIN 8 s WHERE V > 10.
total(S, N) <- reading(S, V) AGGREGATE N = sum(V) OVER LAST 10 s BY S WHERE N > 60.
initiate hot(S) <- reading(S, V) WHERE V > 16.
terminate hot(S) <- reading(S, V) WHERE V < 5.
many(N) <- rise(_, _, _) AGGREGATE N = count() OVER LAST 10 s.
"""

STATE = r"/buckets(-\d+)?/1-\d{4}-\d{8}$"
LOG = rf"/{SINK_LOG}/"

POINTS = {
    "a task takes what it is to do": KillPoint("rename", r"/handed/[0-9a-f]+\.\d+$"),
    "dead letters are half written": KillPoint("rename", r"/dead/[^/]*\.jsonl$", batches=3),  # one of three has some
    "a state is half written": KillPoint("rename", STATE),
    "one of two states is written": KillPoint("rename", STATE, nth=2),
    "what came is written, and not the state": KillPoint("rename", STATE, within="append", batches=3),
    "files of events are written": KillPoint("open", rf"{LOG}coming/part-"),
    "all is written but the note": KillPoint("rename", r"/buckets(-\d+)?/batch-\d{8}$"),
    "the note is written": KillPoint("open", rf"{LOG}\.note\.\d+\."),
    "the note of the sink is half written": KillPoint("rename", rf"{LOG}note\.\d+$"),
    "the micro-batch counts, and its files have no names": KillPoint("rename", r"/part-[^/]*$", within="_name"),
    "one of its files has its name": KillPoint("rename", r"/part-[^/]*$", within="_name", nth=2),
    "it has no entry in the log": KillPoint("rename", rf"{LOG}\d+$"),
    "the log is written as a whole": KillPoint("rename", rf"{LOG}\d+\.compact$", batches=12),
    "what the log repeats is removed": KillPoint("remove", rf"{LOG}\d+$", within="_forget", nth=2, batches=24),
    "Spark does not know that it is done": KillPoint("remove", r"/handed/", within="clear"),
    "the next one begins": KillPoint("rename", r"/handed/[0-9a-f]+\.\d+$", nth=4),
    "files are listed": KillPoint("open", r"/files\.jsonl$", within="append"),
    "logs of states are settled": KillPoint("rename", STATE, within="settle"),
    "one of them is": KillPoint("rename", STATE, within="settle", nth=2),
    "what is left is removed": KillPoint("open", rf"{LOG}\d+$", within="finish_batches"),
}
"""Phases in which all processes of a run are killed."""

LOST = {
    "a worker takes what it is to do": KillPoint("rename", r"/handed/[0-9a-f]+\.\d+$", alone=True),
    "a worker writes a state": KillPoint("rename", STATE, nth=2, alone=True),
    "a worker writes events": KillPoint("open", rf"{LOG}coming/part-", nth=2, alone=True),
    "a worker settles": KillPoint("rename", STATE, within="settle", alone=True),
    "who plans lists files": KillPoint("open", r"/files\.jsonl$", within="append", alone=True),
}
"""Where one process is, and the run goes on."""

RESIZED = {
    "the checkpoint is to have other buckets": KillPoint("rename", r"/semcep\.json$", within="_migrated"),
    "the first states of these": KillPoint("rename", r"/buckets-\d+/1-\d{4}-00000001$", nth=2),
    "they are, and are not told to the sink": KillPoint("open", rf"{LOG}\.note\.\d+\."),
}
"""Where a run goes on in another number of buckets."""

SHIPPED = {
    "a pack is read": KillPoint("open", r"/output/part-", within="ship"),
    "a file of the output gets its address": KillPoint("open", r"/output/part-", within="_publish"),
    "one of two has it": KillPoint("open", r"/output/part-", within="_publish", nth=2),
    "none is here any more": KillPoint("open", rf"{LOG}\d+$", within="_publish"),
    "it is told that they count": KillPoint("open", rf"{LOG}note\.\d+$", within="_publish", nth=2),
    "a micro-batch more counts": KillPoint("open", r"/output/part-", within="_publish", nth=4, batches=3),
}
"""Where a checkpoint is in an object store."""


class Story:
    """Records in files that come one after the other, and what one process makes of them."""

    def __init__(self, folder: Path, files: int, random: Random) -> None:
        self.folder, self.random = folder, random
        self.rules, self.input, pool = folder / "rules.cep", folder / "in", folder / "pool"
        self.rules.write_text(PROGRAM)
        self.input.mkdir()
        pool.mkdir()
        records = [self.record(n / 8) for n in range(1600 + 48 * files)]
        arriving = sorted(records, key=lambda record: record["time"] + random.random() * 3.9)
        self.waiting = []
        for number in range(files + 1):
            lines = arriving[:1600] if number == 0 else arriving[1552 + 48 * number : 1600 + 48 * number]
            text = jsonl(lines) + ("no record\n" if number % 3 == 0 else "")
            (pool / f"{number:04}.jsonl").write_text(text)
            self.waiting.append(pool / f"{number:04}.jsonl")
        self.letters = files // 3 + 1
        one = [sys.executable, "-m", "cep", "run", str(self.rules), "--input", str(pool), "--lateness", "4 s"]
        subprocess.run([*one, "--output", str(folder / "alone.jsonl")], check=True, capture_output=True)
        self.expected = lines_of((folder / "alone.jsonl").read_bytes())

    def record(self, time: float) -> dict[str, Any]:
        """A hot key has half of them."""
        sensor = 0 if self.random.random() < 0.5 else self.random.randrange(1, 40)
        if self.random.random() < 0.15:
            return {"type": "check", "time": time, "sensor": sensor}
        return {"type": "reading", "time": time, "sensor": sensor, "value": self.random.randrange(20)}

    def come(self, files: int) -> None:
        """So many more are there."""
        assert len(self.waiting) >= files, "there are more"
        for path in self.waiting[:files]:
            path.rename(self.input / path.name)
        del self.waiting[:files]

    def command(self, state: str, out: str, dead: str, *more: str) -> list[str]:
        command = [sys.executable, "-m", "cep", "run", str(self.rules), "--on", "spark", "--input", str(self.input)]
        command += ["--lateness", "4 s", "--master", "local[2]", "--files", "1", "--output-format", "jsonl"]
        return [*command, "--checkpoint", state, "--output", out, "--dead-letter", dead, *more]


def points(places: Mapping[str, KillPoint], number: int, random: Random) -> list[KillPoint]:
    """So many of them, each once before any comes again."""
    found: list[KillPoint] = []
    while len(found) < number:
        found += random.sample(list(places.values()), min(len(places), number - len(found)))
    return found


def test_killed_in_each_phase(tmp_path: Path) -> None:
    """And what a reader finds after each kill is a part of what is there in the end."""
    random, named = Random(KILLS), len(POINTS) + len(LOST)
    chosen = points(POINTS | LOST, min(KILLS, named), random)
    story = Story(tmp_path, sum(one.batches for one in chosen) + 2 * max(KILLS - named, 0) + 3, random)
    out, dead = tmp_path / "out", tmp_path / "dead"
    command = story.command(str(tmp_path / "state"), str(out), str(dead), "--once", "--buckets", "3")
    story.come(1)
    seen = 0
    for at in random.sample([*chosen, *[None] * max(KILLS - named, 0)], max(KILLS, len(chosen))):
        story.come(2 if at is None else at.batches)
        if at is None:
            killed_at_any_moment(command, {}, 6 + random.random() * 12)
        else:
            killed(command, {}, at)
        found = lines_of(*(file.read_bytes() for file in out.glob("part-*")))
        assert found <= story.expected and found.total() >= seen, at
        seen = found.total()
    ended(story, command, {}, out, dead)


def test_killed_where_the_buckets_become_others(tmp_path: Path) -> None:
    random = Random(KILLS)
    chosen = points(RESIZED, max(1, min(KILLS // 4, 6)), random)
    story = Story(tmp_path, sum(one.batches + 1 for one in chosen) + 4, random)
    out, dead = tmp_path / "out", tmp_path / "dead"
    command = story.command(str(tmp_path / "state"), str(out), str(dead), "--once")
    story.come(2)
    assert ran([*command, "--buckets", "3"], {})[0] == 0

    def another() -> list[str]:
        """The command, with another number of buckets than the checkpoint has: a kill may have left it as it was."""
        before = json.loads((tmp_path / "state" / "semcep.json").read_text())["buckets"]
        return [*command, "--buckets", str(random.choice([one for one in (3, 8, 64) if one != before]))]

    gone = KillPoint("rmtree", r"/buckets(-\d+)?$", within="retire")
    for at in chosen:
        story.come(at.batches)
        killed(another(), {}, at)
        story.come(1)
        next_one = another()
        assert ran(next_one, {})[0] == 0
        killed(next_one, {}, gone)
    ended(story, [*command, "--buckets", "5"], {}, out, dead)


def test_killed_where_it_is_put_in_an_object_store(tmp_path: Path) -> None:
    """Each of them on a machine of its own: nothing is there but what is in the bucket."""
    random, bucket = Random(KILLS), served()
    place = "s3://bucket"
    chosen = points(SHIPPED, max(1, min(KILLS // 3, 20)), random) + points(POINTS, KILLS // 5, random)
    story = Story(tmp_path, sum(one.batches for one in chosen) + 4, random)
    command = story.command(f"{place}/state", f"{place}/out", f"{place}/dead", "--once", "--buckets", "3")
    story.come(1)
    for number, at in enumerate(chosen):
        story.come(at.batches)
        machine = tmp_path / f"machine-{number}"
        machine.mkdir()
        killed(command, {**bucket.env, "TMPDIR": str(machine)}, at)
        found = lines_of(*(bucket.get(key) for key in bucket.keys("out/part-")))
        assert found <= story.expected, at
    ended(story, command, bucket.env, bucket, None)


def ended(story: Story, command: list[str], env: Mapping[str, str], out: Path | Bucket, dead: Path | None) -> None:
    """What came is gone on with to its end, and is what one process derives."""
    story.come(len(story.waiting))
    status, said = ran([one for one in command if one != "--once"], env)
    assert status == 0, said
    if isinstance(out, Bucket):
        found = lines_of(*(out.get(key) for key in out.keys("out/part-")))
        letters = [line for key in out.keys("dead/") for line in out.get(key).splitlines()]
    else:
        assert dead is not None
        found = lines_of(*(file.read_bytes() for file in out.glob("part-*")))
        letters = [line for file in dead.iterdir() for line in file.read_bytes().splitlines()]
    assert found == story.expected
    assert {json.loads(line)["type"] for line in found} == {"rise", "unseen", "silent", "total", "hot", "many"}
    assert [json.loads(line)["code"] for line in letters] == ["json"] * story.letters
