"""A run on Spark that is killed before any change of a file, or whose machine loses power then, goes on unharmed.

Without Java (`tests/local_spark.py`): so hundreds of kills take as long as one of a whole run.
"""

from __future__ import annotations

import builtins
import errno
import gc
import io
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cep.command import app
from cep.core.compilation import Compilation
from tests import local_spark
from tests.cli_runs import jsonl, lines_of
from tests.local_spark import SparkFailed
from tests.long import seeds

pytest.importorskip("pyspark")

from cep.spark import multiplicity_task, stage_task, worker

PROGRAM = """\
event reading(sensor: int, value: int).
event check(sensor: int).
fluent hot(sensor: int).
rise(S, A, B) <- (reading(S, A) SEQ reading(S, B)) WITHIN 20 s WHERE B > A + 9.
unseen(S, A, B) <- NOT(check(S)).[reading(S, A), reading(S, B)] WITHIN 15 s WHERE A > B + 9.
silent(S) <- reading(S, V) UNLESS reading(S, _) WITHIN 8 s WHERE V > 10.
total(S, N) <- reading(S, V) AGGREGATE N = sum(V) OVER LAST 10 s BY S WHERE N > 40.
initiate hot(S) <- reading(S, V) WHERE V > 16.
terminate hot(S) <- reading(S, V) WHERE V < 5.
many(N) <- rise(_, _, _) AGGREGATE N = count() OVER LAST 10 s.
"""
REVISED = """\
event reading(sensor: int, n: int, value: int) KEY sensor, n.
rise(S, A, B) <- (reading(S, _, A) SEQ reading(S, _, B)) WITHIN 20 s WHERE B > A + 9.
any(B) <- rise(_, _, B).
any(V) <- reading(_, _, V) WHERE V > 17.
silent(S) <- reading(S, _, V) UNLESS reading(S, _, _) WITHIN 2 s WHERE V > 5.
many(N) <- rise(_, _, _) AGGREGATE N = count() OVER LAST 10 s.
"""


class Killed(BaseException):
    """The process is no more."""


BLOCK = 4096
"""Bytes of a file that are on disk together, or not."""


class Files:
    """What changes files of a folder; after `left` changes nothing does, as in a process that was killed, or, where the
    disk is `full`, nothing that takes room. `dirty`: the files, by inode, that are not known to be on disk, but for so
    many bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, random: Random) -> None:
        self.folder, self.random = str(folder), random
        self.left: int | None = None
        self.full = False
        self.dirty: dict[int, int] = {}
        for name in ("replace", "rename", "unlink", "mkdir", "rmdir", "truncate"):
            monkeypatch.setattr(os, name, self.counting(getattr(os, name)))
        fsync, opened = os.fsync, io.open

        def synced(file: int) -> None:
            self.change(grows=True)
            fsync(file)
            self.dirty.pop(os.fstat(file).st_ino, None)

        def opening(path: Any, mode: str = "r", *more: Any, **named: Any) -> Any:
            if isinstance(path, int) or not set(mode) & set("wax+") or self.elsewhere(path):
                return opened(path, mode, *more, **named)
            self.change(grows=True)
            file = opened(path, mode, *more, **named)
            status = os.fstat(file.fileno())
            if status.st_size == 0 or status.st_ino not in self.dirty:
                self.dirty[status.st_ino] = status.st_size
            return file

        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(io, "open", opening)
        monkeypatch.setattr(builtins, "open", opening)

    def elsewhere(self, path: Any) -> bool:
        return not os.path.realpath(os.fspath(path)).startswith(self.folder)

    def counting(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def counted(path: Any, *more: Any, **named: Any) -> Any:
            if named.get("dir_fd") is not None or not self.elsewhere(path):
                self.change()
            return change(path, *more, **named)

        return counted

    def change(self, grows: bool = False) -> None:
        """One is about to be made, which takes room or does not."""
        if self.left is not None:
            self.left -= 1
            if self.left < 0 and self.full and grows:
                raise OSError(errno.ENOSPC, "No space left on device")
            if self.left < 0 and not self.full:
                raise Killed

    def cut_power(self) -> None:
        """What is not known to be on disk may be lost, but for some blocks."""
        for path in Path(self.folder).rglob("*"):
            if (
                path.is_file()
                and (known := self.dirty.get(path.stat().st_ino)) is not None
                and self.random.random() < 0.5
            ):
                size = path.stat().st_size
                kept = self.random.choice([known, *(at for at in range(BLOCK, size, BLOCK) if at > known)])
                with io.FileIO(path, "r+") as file:
                    file.truncate(min(size, kept))
        self.dirty.clear()


class Story:
    """Files that come, and the runs that go on."""

    def __init__(self, rules: str, random: Random, files: int, *options: str) -> None:
        self.random, self.options = random, options
        Path("rules.cep").write_text(rules)
        for folder in ("pool", "days"):
            Path(folder).mkdir()
        self.waiting = []
        coming = [(n / 4 + 1.9 * random.random(), self.record(n)) for n in range(40 * files)]
        for _, record in random.sample(coming, 8 * files if "KEY" in rules else 0):  # they are put right
            again = record | {"value": random.randrange(20)}
            coming.append((record["time"] + 2 + 16 * random.random(), again))
        arriving = [record for _, record in sorted(coming, key=lambda each: each[0])]
        for number in range(files):
            path = Path("pool", f"{number:03}.jsonl")
            lines = arriving[len(arriving) * number // files : len(arriving) * (number + 1) // files]
            path.write_text(jsonl(lines) + "no record\n" * (number % 3 == 0))
            self.waiting.append(path)

    def record(self, n: int) -> dict[str, Any]:
        sensor = 0 if self.random.random() < 0.4 else self.random.randrange(6)
        if "check" in Path("rules.cep").read_text() and self.random.random() < 0.15:
            return {"type": "check", "time": n / 4, "sensor": sensor}
        return {"type": "reading", "time": n / 4, "sensor": sensor, "n": n, "value": self.random.randrange(20)}

    def come(self, files: int) -> None:
        for path in self.waiting[:files]:
            path.rename(Path("days", path.name))
        del self.waiting[:files]

    def run(self, *more: str) -> Result:
        command = ["run", "rules.cep", "--on", "spark", "--input", "days", "--checkpoint", "state", "--output", "out"]
        command += ["--output-format", "jsonl", "--files", "1", "--dead-letter", "dead", *self.options, *more]
        done = CliRunner().invoke(app, command, prog_name="cep")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    def ended(self, changed: Files, *more: str) -> Result | None:
        """Such a run, None: it was killed, or Spark could not write; what it knew is gone with it."""
        try:
            done = self.run(*more)
        except Killed:
            done = None
        except SparkFailed:
            assert changed.full, "else nothing keeps it from its files"
            done = None
        changed.left = None
        forget()
        return done

    def killed(self, changed: Files, *more: str) -> bool:
        """Whether such a run was killed; else it has come to its end."""
        done = self.ended(changed, *more)
        assert done is None or done.exit_code == 0, done.stderr
        return done is None


def forget() -> None:
    """What a process knew is gone with it."""
    stage_task._engines.clear()
    multiplicity_task._known.clear()
    worker._unpickled.cache_clear()
    gc.collect()  # files that are still open


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    local_spark.install(monkeypatch)
    return folder


def one_process(lateness: str) -> Counter[str]:
    command = ["run", "rules.cep", "--input", "pool", "--lateness", lateness, "--output", "../alone.jsonl"]
    done = CliRunner().invoke(app, command, prog_name="cep")
    assert done.exit_code == 0, done.stderr
    return lines_of(Path("../alone.jsonl").read_bytes())


def there() -> Counter[str]:
    return lines_of(*(file.read_bytes() for file in Path("out").glob("part-*")))


@pytest.mark.parametrize("seed", seeds(24))
def test_killed_before_any_change_of_a_file(seed: int, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    story = Story(PROGRAM, random, 12, "--lateness", "4 s")
    expected = one_process("4 s")
    changed = Files(monkeypatch, here, random)
    buckets, kills, seen = 3, 0, 0
    story.come(1)
    while story.waiting or kills < 12:
        story.come(random.choice((0, 0, 1, 2)))
        buckets = random.choice((1, 3, 8)) if random.random() < 0.2 else buckets
        changed.left = int(random.expovariate(1 / 60))
        if story.killed(changed, "--once", "--buckets", str(buckets)):
            kills += 1
            if random.random() < 0.5:
                changed.cut_power()
        found = there()
        assert found <= expected and found.total() >= seen, kills
        seen = found.total()
    done = story.run()
    assert done.exit_code == 0, done.stderr
    assert there() == expected and len({json.loads(line)["type"] for line in expected}) == 6
    letters = [
        json.loads(line)["code"] for file in Path("dead").glob("*.jsonl") for line in file.read_text().splitlines()
    ]
    assert letters == ["json"] * 4


@pytest.mark.parametrize("seed", seeds(12))
def test_a_disk_that_is_full_from_any_change_on_is_told(seed: int, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And does no harm: with room again the same command goes on."""
    random = Random(f"full {seed}")
    story = Story(PROGRAM, random, 8, "--lateness", "4 s", "--buckets", "3")
    expected = one_process("4 s")
    changed = Files(monkeypatch, here, random)
    changed.full, told = True, 0
    story.come(1)
    while story.waiting or told < 4:
        story.come(random.choice((0, 1, 1, 2)))
        changed.left = int(random.expovariate(1 / 60))
        done = story.ended(changed, "--once")
        if done is None or done.exit_code:
            told += 1
            assert done is None or "o space left on device" in done.stderr, done.stderr
        found = there()
        assert found <= expected
    done = story.run()
    assert done.exit_code == 0, done.stderr
    assert there() == expected


@pytest.mark.parametrize("seed", seeds(12))
def test_killed_before_any_change_of_a_file_where_records_come_late(
    seed: int, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(f"late {seed}")
    story = Story(REVISED, random, 10, "--revise", "20 s", "--buckets", str(random.choice((1, 3))))
    expected = one_process("20 s")
    changed = Files(monkeypatch, here, random)
    kills = 0
    story.come(1)
    while story.waiting or kills < 8:
        story.come(random.choice((0, 0, 1, 2)))
        changed.left = int(random.expovariate(1 / 60))
        if story.killed(changed, "--once"):
            kills += 1
            if random.random() < 0.5:
                changed.cut_power()
        one_after_the_other(Path("out"))
    done = story.run("--compact", "net")
    assert done.exit_code == 0, done.stderr
    assert lines_of(*(file.read_bytes() for file in Path("net").iterdir())) == expected
    assert one_after_the_other(Path("out")) > 5


def one_after_the_other(out: Path) -> int:
    """No row is added twice without a withdrawal between, none withdrawn that is not there; how many were withdrawn."""
    rows = [json.loads(line) for file in out.glob("part-*") for line in file.read_text().splitlines()]
    rows.sort(key=lambda row: (row["@version"], row["@change"] == "add"))
    there: Counter[str] = Counter()
    for row in rows:
        there[row["@id"]] += 1 if row["@change"] == "add" else -1
        assert there[row["@id"]] in (0, 1), row
    return sum(row["@change"] == "withdraw" for row in rows)
