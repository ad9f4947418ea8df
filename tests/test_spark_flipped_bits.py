"""A bit of a checkpoint on Spark that is not what was written: a run that goes on tells it, or derives the same.

Which files there are is found out of checkpoints that runs have made, so that a new kind of file is tried as well.
On Spark itself, and more of them without Java (`tests/local_spark.py`). `SEMCEP_FUZZ=n` flips n times as many bits.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cep.command import app
from cep.core.compilation import Compilation
from cep.spark.disk import SINK_LOG
from tests import local_spark, spark_runs
from tests.cli_runs import jsonl, lines_of
from tests.damage import flipped

pytestmark = pytest.mark.long

SPARK = [
    pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING),
    pytest.mark.xdist_group("spark"),
]

FLIPS = max(1, int(os.environ.get("SEMCEP_FUZZ", "1")))
"""Of each kind of file, and four times as many without Java."""

RULES = """\
PREFIX : <urn:>
event reading(sensor: int, value: int).
event bell(n: int).
fluent hot(sensor: int).
rise(S, A, B) <- (reading(S, A) SEQ reading(S, B)) WITHIN 20 s WHERE B > A + 9.
silent(S) <- reading(S, V) UNLESS reading(S, _) WITHIN 8 s WHERE V > 10.
high(S, F) <- reading(S, V) WHERE { ?s :number ?S ; :floor ?F }, F > 2, V > 8.
after(N, S) <- bell(N) SEQ reading(S, _) WITHIN 2 s WHERE S < 4.
initiate hot(S) <- reading(S, V) WHERE V > 16.
terminate hot(S) <- reading(S, V) WHERE V < 5.
many(N) <- rise(_, _, _) AGGREGATE N = count() OVER LAST 10 s.
"""
REVISED = """\
event reading(sensor: int, n: int, value: int) KEY sensor, n.
rise(S, A, B) <- (reading(S, _, A) SEQ reading(S, _, B)) WITHIN 20 s WHERE B > A + 9.
any(B) <- rise(_, _, B).
any(V) <- reading(_, _, V) WHERE V > 18.
many(N) <- rise(_, _, _) AGGREGATE N = count() OVER LAST 10 s.
"""
WHEN = '"{}"^^<http://www.w3.org/2001/XMLSchema#dateTime>'

MADE = {
    "files": {
        "state/semcep.json", "state/files.jsonl", "state/changes.jsonl", "state/buckets-N/run", "state/lock",
        "state/buckets-N/batch-N",
        "state/buckets-N/N-N-N", "state/spark-N/offsets/N", "state/spark-N/commits/N", "state/spark-N/metadata",
        "state/spark-N/offsets/.N.crc", "state/input-N/N.mail", f"out/{SINK_LOG}/N", f"out/{SINK_LOG}/N.compact",
        f"out/{SINK_LOG}/note.N", f"out/{SINK_LOG}/run",
    },
    "revised": {"state/buckets/wN-N-N-N", "state/buckets/N-N-N"},
}  # fmt: skip
"""Kinds of files that are there at least."""


class Run:
    """A run that goes on from a checkpoint in the folder at hand. `settles`: it leaves states whole at its end."""

    def __init__(self, rules: str, monkeypatch: pytest.MonkeyPatch, *options: str) -> None:
        Path("rules.cep").write_text(rules)
        Path("days").mkdir()
        self.monkeypatch, self.options, self.random = monkeypatch, options, Random(rules)

    def go(self, *more: str, settles: bool = False) -> Result:
        command = ["run", "rules.cep", "--on", "spark", "--input", "days", "--checkpoint", "state", "--output", "out"]
        command += ["--output-format", "jsonl", "--files", "1", "--once", "--dead-letter", "dead", *self.options, *more]
        with self.monkeypatch.context() as patched:
            if not settles:
                patched.setattr("cep.spark.whole_states.settle_on_spark", lambda *_: None)
            return CliRunner().invoke(app, command, prog_name="cep")

    def day(self, number: int, records: int, **fixed: Any) -> None:
        """A file of records, each within half a second after the one before it."""
        found = []
        for n in range(records):
            time = 1000 + 40 * number + 40 * n / records
            sensor, value = self.random.randrange(30), self.random.randrange(20)
            found.append({"type": "reading", "time": time, "sensor": sensor, "value": value, **fixed})
            if fixed:
                found[-1]["n"] = number * 10_000 + n
        Path("days", f"{number:03}.jsonl").write_text(jsonl(found) + "no record\n")


def there() -> Counter[str]:
    return lines_of(*(file.read_bytes() for file in Path("out").glob("part-*")))


def kinds() -> dict[str, list[Path]]:
    """The files of checkpoint and log of the sink, by what their names have in common."""
    found: dict[str, list[Path]] = {}
    for folder in (Path("state"), Path("out", SINK_LOG)):
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            found.setdefault(re.sub(r"[0-9a-f]{12,}|\d+", "N", str(path)), []).append(path)
    return found


@contextmanager
def ringing(lines: list[bytes]) -> Iterator[str]:
    """A server that sends these lines to the first who connects, and nothing to others; its address."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while not over.is_set():
                with suppress(OSError), server.accept()[0] as made:
                    while lines:
                        made.sendall(lines.pop(0))
                    while made.recv(1):
                        pass

        threading.Thread(target=serve, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}?quiet=0.2"
        over.set()


def of_files(monkeypatch: pytest.MonkeyPatch, place: str) -> Run:
    """A checkpoint that has states as logs, others as they were before in other buckets, messages and changes of the
    knowledge."""
    Path("known.ttl").write_text("".join(f"<urn:s{n}> <urn:number> {n} ; <urn:floor> {n % 5} .\n" for n in range(30)))
    Path("changes").mkdir()
    options = ["--input", f"bell={place}", "--lateness", "4 s", "--knowledge", "known.ttl", "--knowledge-updates"]
    run = Run(RULES, monkeypatch, *options, "changes")
    for number, buckets in enumerate((2, 2, 3)):
        for each in range(5):
            run.day(5 * number + each, 600 if (number, each) == (0, 0) else 30)
        graph, time = f"<urn:g{number}>", WHEN.format(f"1970-01-01T00:{20 + 3 * number}:00Z")
        Path("changes", f"{number}.nq").write_text(
            f"{graph} <https://w3id.org/semcep#validFrom> {time} .\n<urn:s{number}> <urn:floor> 9 {graph} .\n"
        )
        done = run.go("--buckets", str(buckets), settles=number == 0)
        assert done.exit_code == 0, done.stderr
    run.options = (*run.options, "--buckets", "3")
    return run


def of_revision(monkeypatch: pytest.MonkeyPatch) -> Run:
    run = Run(REVISED, monkeypatch, "--revise", "60s", "--buckets", "2")
    for number in range(4):
        run.day(number, 400 if number == 0 else 60, n=0)
    done = run.go()
    assert done.exit_code == 0, done.stderr
    return run


@pytest.mark.parametrize("story", ["files", "revised"])
@pytest.mark.parametrize("java", [False, pytest.param(True, marks=SPARK)])
def test_flipped_bits_are_told_or_harmless(
    story: str, java: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flips = FLIPS if java else 4 * FLIPS
    if java:
        spark_runs.spark()
    else:
        local_spark.install(monkeypatch)
    here, copy = tmp_path / "here", tmp_path / "copy"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    bells = [json.dumps({"type": "bell", "time": 1000 + 7 * n, "n": n}).encode() + b"\n" for n in range(60)]
    with ringing(bells) as place:
        run = of_files(monkeypatch, place) if story == "files" else of_revision(monkeypatch)
        assert there().total() > 100 and MADE[story] <= kinds().keys()
        run.day(20, 40, **({"n": 0} if story == "revised" else {}))
        shutil.copytree(".", copy)
        done = run.go()
        assert done.exit_code == 0, done.stderr
        expected, told = there(), Counter[str]()
        for kind, path in damaged(copy, Random(story), flips):
            result = run.go()
            if tells(result, path):
                told[kind] += 1
            else:
                assert result.exit_code == 0 and there() == expected, (kind, path, result.stderr)
    assert sum(count == flips for count in told.values()) > len(MADE[story]) / 2, told


def damaged(copy: Path, random: Random, flips: int) -> Iterator[tuple[str, Path]]:
    """The folder at hand as its copy, but for a bit of a file: of each kind of file some bits."""
    restore(copy)
    filled = {kind: [path for path in paths if path.stat().st_size] for kind, paths in kinds().items()}
    for kind, paths in filled.items():
        for path in random.choices(paths, k=flips) if paths else ():
            restore(copy)
            ((_, data),) = flipped(path.read_bytes(), 1, random)
            path.write_bytes(data)
            yield kind, path


def restore(copy: Path) -> None:
    for name in ("state", "out", "dead"):
        shutil.rmtree(name)
        shutil.copytree(copy / name, name)


def tells(result: Result, path: Path) -> bool:
    """Whether a run has ended with what it says of a file."""
    if result.exit_code not in (2, 3):
        return False
    name = path.name.removeprefix(".").removesuffix(".crc")
    return name in result.stderr and "damaged" in result.stderr
