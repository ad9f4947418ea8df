"""`--lateness-by` on Spark: what is late of each key, and what is derived, is as in one process that takes the same
micro-batches, in whatever buckets, and wherever the run is killed."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from typer.testing import Result

from cep.connectors.files import read
from cep.connectors.records.times import iso
from cep.core.compilation import Compilation
from cep.core.schema import CHANGE
from cep.engine import Engine
from tests import local_spark, spark_runs
from tests.cli_runs import cep, jsonl
from tests.killing import KillPoint, killed, ran
from tests.long import seeds, some
from tests.test_lateness_by import records
from tests.test_spark_any_file import Files, Killed, forget

PROGRAM = """\
event reading(sensor: string, value: int).
event door(open: bool).
fluent high(sensor: string).
rise(S, A, B) <- (reading(S, A) SEQ reading(S, B)) WITHIN 3 min WHERE B > A.
silent(S) <- reading(S, _) UNLESS reading(S, _) WITHIN 10 min.
many(N) <- reading(_, _) AGGREGATE N = count() OVER LAST 2 min.
opened(V) <- door(V).
initiate high(S) <- reading(S, V) WHERE V > 14.
terminate high(S) <- reading(S, V) WHERE V < 5.
"""
BASE = 1_700_000_000
COMMON = ["--input", "days", "--checkpoint", "state", "--output", "out", "--output-format", "jsonl", "--files", "1"]
COMMON += ["--dead-letter", "dead", "--lateness-by", "sensor"]
Row = tuple[object, ...]


def story(rng: Random, files: int, count: int) -> None:
    """Records of keys with clocks of many kinds, in files that each are a micro-batch."""
    Path("rules.cep").write_text(PROGRAM)
    for name in ("pool", "days"):
        Path(name).mkdir()
    coming: list[dict[str, Any]] = []
    for key, end in records(rng, count):
        time = BASE + end / 1e6
        one = {"type": "door", "open": rng.random() < 0.5} if key is None else {"type": "reading", "sensor": key}
        coming.append(one | {"time": time} | ({} if key is None else {"value": rng.randrange(20)}))
    cuts = sorted(rng.randrange(count + 1) for _ in range(files - 1))
    for number, (first, last) in enumerate(zip([0, *cuts], [*cuts, count], strict=True)):
        Path("pool", f"{number:03}.jsonl").write_text(jsonl(coming[first:last]))


def in_one_process(lateness: int, revise: int | None = None) -> tuple[Counter[Row], Counter[Row]]:
    """What is derived in the end, and where the late records are, file by file."""
    engine = Engine.from_text(PROGRAM, lateness=lateness, lateness_by="sensor", revise=revise)
    net, late = Counter[Row](), Counter[Row]()
    for path in sorted(Path("pool").iterdir()):
        for batch in read([str(path)], engine.inputs):
            count(net, engine.push(batch.tables))
            for row in engine.take_dead():
                assert row.code == "late"
                file, line, _ = batch.origin(row.type, row.row)
                late[Path(file or "").name, line, row.reason] += 1
    count(net, engine.close())
    return +net, late


def count(net: Counter[Row], tables: Mapping[str, pl.DataFrame]) -> None:
    for name, table in tables.items():
        changes = table[CHANGE].to_list() if CHANGE in table.columns else [1] * table.height
        plain = table.drop(CHANGE, "@id", "@number", strict=False)
        for (start, end, *args), sign in zip(plain.iter_rows(), changes, strict=True):
            net[name, *(None if t is None or abs(t) > 1 << 60 else iso(t) for t in (start, end)), *args] += sign


def there() -> Counter[Row]:
    net = Counter[Row]()
    for file in Path("out").glob("part-*"):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            sign = -1 if row.pop("@change", "add") == "withdraw" else 1
            rest = [value for name, value in row.items() if name not in ("type", "start", "end") and name[0] != "@"]
            net[row["type"], *(timed(row.get(name)) for name in ("start", "end")), *rest] += sign
    return +net


def timed(value: float | str | None) -> str | None:
    return value if value is None or isinstance(value, str) else iso(round(value * 1e6))


def letters() -> Counter[Row]:
    found = Counter[Row]()
    for file in Path("dead").glob("*.jsonl"):
        for line in file.read_text().splitlines():
            one = json.loads(line)
            found[Path(one["file"]).name, one["line"], one["reason"]] += 1
    return found


def on_spark(*more: str) -> Result:
    done = cep("run", "rules.cep", "--on", "spark", *COMMON, *more)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    local_spark.install(monkeypatch)
    return folder


def come(waiting: list[Path], files: int) -> None:
    for path in waiting[:files]:
        path.rename(Path("days", path.name))
    del waiting[:files]


@pytest.mark.parametrize("seed", some(range(24)))
def test_records_are_judged_as_in_one_process(seed: int, here: Path) -> None:
    """In other buckets at each start, the last but some of which is killed or ends of itself."""
    rng = Random(f"keys on Spark {seed}")
    lateness = rng.choice((0, 40, 900))
    revise = rng.choice((None, None, 1200))
    story(rng, rng.choice((4, 9)), rng.choice((60, 300)))
    derived, late = in_one_process(lateness * 1_000_000, None if revise is None else revise * 1_000_000)
    options = ["--lateness", f"{lateness} s", *([] if revise is None else ["--revise", f"{revise} s"])]
    waiting, buckets = sorted(Path("pool").iterdir()), rng.choice((1, 3, 8))
    while waiting:
        come(waiting, rng.choice((1, 2, 3)))
        if revise is None:  # else states stay in as many
            buckets = rng.choice((1, 3, 8))
        done = on_spark(*options, "--once", "--buckets", str(buckets))
        assert done.exit_code == 0, done.stderr
    done = on_spark(*options)
    assert done.exit_code == 0, done.stderr
    assert letters() == late
    assert there() == derived


@pytest.mark.parametrize("seed", seeds(100))
def test_many_more_are_judged_as_in_one_process(seed: int, here: Path) -> None:
    test_records_are_judged_as_in_one_process(1000 + seed, here)


@pytest.mark.parametrize("seed", seeds(24))
def test_killed_before_any_change_of_a_file(seed: int, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(f"keys killed {seed}")
    story(rng, 8, 300)
    derived, late = in_one_process(40_000_000)
    waiting, changed, kills, buckets = sorted(Path("pool").iterdir()), Files(monkeypatch, here, rng), 0, 3
    come(waiting, 1)
    while waiting or kills < 8:
        come(waiting, rng.choice((0, 0, 1, 2)))
        buckets = rng.choice((1, 3, 8)) if rng.random() < 0.2 else buckets
        changed.left = int(rng.expovariate(1 / 60))
        if ended(changed, "--lateness", "40 s", "--once", "--buckets", str(buckets)):
            kills += 1
            if rng.random() < 0.5:
                changed.cut_power()
        assert there() <= derived, kills
    done = on_spark("--lateness", "40 s")
    assert done.exit_code == 0, done.stderr
    assert letters() == late and there() == derived


def test_a_checkpoint_stays_with_its_keys(here: Path) -> None:
    """Other rules take the clocks over; another attribute, or none, is refused."""
    rng = Random(5)
    story(rng, 4, 200)
    derived, late = in_one_process(0)
    waiting = sorted(Path("pool").iterdir())
    come(waiting, 2)
    assert on_spark("--once").exit_code == 0
    for by, was in (("value", "sensor"), (None, "sensor")):
        asked = [*COMMON[:-2], *(["--lateness-by", by] if by else ["--lateness", "0s"])]
        for more in ([], ["--migrate"]):
            refused = cep("run", "rules.cep", "--on", "spark", *asked, "--once", *more)
            now = f"--lateness-by {by}" if by else "no --lateness-by"
            assert refused.exit_code == 2 and f"--lateness-by {was} before, {now} now" in refused.stderr
    come(waiting, 2)
    Path("rules.cep").write_text(PROGRAM + "another(S) <- reading(S, 77).\n")
    assert on_spark("--once", "--migrate").exit_code == 0
    assert on_spark().exit_code == 0
    assert letters() == late and there() == derived and late


@pytest.mark.parametrize(
    ("program", "by", "why"),
    [
        ("event a(k: int). x(K) <- a(K).", "q", "lateness by `q`: no input event has this attribute"),
        (
            "event a(k: int). fluent on(k: int). x(K) <- a(K) WHERE on(K).",
            "k",
            "on Spark, the records that end intervals of `on` are never late",
        ),
    ],
)
def test_what_cannot_be_judged_is_refused(program: str, by: str, why: str, here: Path) -> None:
    Path("rules.cep").write_text(program)
    Path("days").mkdir()
    refused = cep("run", "rules.cep", "--on", "spark", *COMMON[:-1], by)
    assert refused.exit_code == 2 and why in refused.stderr


def ended(changed: Files, *options: str) -> bool:
    """Return True if a run was killed; what it knew is gone with it."""
    try:
        done = on_spark(*options)
        assert done.exit_code == 0, done.stderr
    except Killed:
        done = None
    changed.left = None
    forget()
    return done is None


POINTS = {
    "the keys and times of a large file are read": KillPoint("open", r"/handed/", within="judge"),
    "it is judged": KillPoint("rename", r"/handed/[0-9a-f]+\.\d+$"),
    "the clocks are half written": KillPoint("rename", r"/clocks-\d{8}$", batches=3),
    "the clocks are written, and the note is not": KillPoint("rename", r"/buckets(-\d+)?/batch-\d{8}$"),
    "the note is written": KillPoint("open", r"/\.note\.\d+\."),
    "Spark does not know that it is done": KillPoint("remove", r"/handed/", within="clear"),
}


@pytest.mark.long
@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
@pytest.mark.xdist_group("clusters")
def test_killed_in_each_phase_on_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = Random(3)
    story(rng, sum(each.batches for each in POINTS.values()) + 2, 60_000)
    derived, late = in_one_process(40_000_000)
    command = [sys.executable, "-m", "cep", "run", "rules.cep", "--on", "spark", "--master", "local[2]", *COMMON]
    waiting = sorted(Path("pool").iterdir())
    for at in POINTS.values():
        come(waiting, at.batches)
        killed([*command, "--lateness", "40 s", "--once", "--buckets", "3"], {}, at)
        assert there() <= derived, at
    come(waiting, len(waiting))
    status, said = ran([*command, "--lateness", "40 s"], {})
    assert status == 0, said
    assert letters() == late and there() == derived and late
