"""`cep run --on spark --revise`, killed in the middle of revisions: nothing is added twice, and the net result is that
of one process over what there is in the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner

from cep.command import app
from tests import spark_runs
from tests.test_spark_kills import killed

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING),
    pytest.mark.xdist_group("spark"),
]

KILLS = int(os.environ.get("SEMCEP_KILLS", "2"))
PROGRAM = """
event reading(sensor: string, seq: int, temp: float) TIME time KEY sensor, seq.
event alarm(sensor: string) TIME time.
fluent heated(sensor: string).
hot(S, T) <- reading(S, _, T) WHERE T > 30.
bad(S) <- (hot(S, _) SEQ alarm(S)) WITHIN 20 s.
anywhere(T) <- hot(_, T).
anywhere(T) <- bad(_) SEQ hot(_, T) WITHIN 5 s.
many(N) <- hot(_, _) AGGREGATE N = count() OVER LAST 10 s.
initiate heated(S) <- hot(S, _).
terminate heated(S) <- reading(S, _, T) WHERE T <= 30.
"""
LOW = "low(S) <- reading(S, _, T) SEQ reading(S, _, U) WHERE U < T.\n"


def record(type: str, time: int, sensor: str, change: str | None = None, **values: Any) -> dict[str, Any]:
    made = {"type": type, "time": time, "sensor": sensor} | values
    return made if change is None else made | {"@change": change}


def arriving(random: Random, number: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Records as they come, up to 200 s late, some corrected or withdrawn; and those that are there in the end."""
    coming: list[tuple[int, dict[str, Any]]] = []
    there: list[dict[str, Any]] = []
    for n in range(number):
        sensor, time = random.choice("abcdef"), 1000 + n
        here = time + random.choice((0, 0, 0, random.randrange(120)))
        if random.random() < 0.3:
            one = record("alarm", time, sensor)
            again = record("alarm", time, sensor, "withdraw")
        else:
            one = record("reading", time, sensor, seq=n, temp=random.randrange(20, 40))
            again = record("reading", time, sensor, "withdraw", seq=n)
        coming.append((here, one))
        later, kind = here + 1 + random.randrange(80), random.random()
        if kind < 0.15:
            coming.append((later, again))
        elif kind < 0.3 and one["type"] == "reading":
            one = one | {"temp": random.randrange(20, 40)}
            coming.append((later, one))
            there.append(one)
        else:
            there.append(one)
        if kind > 0.95:
            coming.append((later, one))
    return [one for _, one in sorted(coming, key=lambda each: each[0])], there


def written(path: Path, records: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in records))


def run(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "cep", "run", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_killed_runs_add_nothing_twice_and_leave_what_one_process_gives(tmp_path: Path) -> None:
    random = Random(f"jsonl {KILLS}")
    rules, folder = tmp_path / "rules.cep", tmp_path / "in"
    rules.write_text(PROGRAM)
    folder.mkdir()
    coming, there = arriving(random, 200)
    files = KILLS + 3
    for number in range(files):
        written(folder / f"{number}.jsonl", coming[number * len(coming) // files : (number + 1) * len(coming) // files])
    written(tmp_path / "there.jsonl", there)
    out, state, net = (tmp_path / name for name in ("out", "state", "net"))
    options = ["--on", "spark", "--master", "local[2]", "--buckets", "7", "--files", "1"]
    options += ["-i", str(folder), "-o", str(out), "--output-format", "jsonl", "--checkpoint", str(state)]
    command = [str(rules), *options, "--revise", "210s", "--compact", str(net), "--strict"]
    for _ in range(KILLS):
        killed([sys.executable, "-m", "cep", "run", *command], state / "spark", random)
    run(*command)
    one_after_the_other(out)
    run(str(rules), "-i", str(tmp_path / "there.jsonl"), "-o", f"{tmp_path / 'alone'}/", "--output-format", "jsonl",
        "--lateness", "1h")  # fmt: skip
    for expected in sorted((tmp_path / "alone").iterdir()):
        assert known(net / expected.name) == known(expected), expected.name
    assert len(list(net.iterdir())) == 5


def test_a_run_goes_on_with_another_duration_and_other_rules(tmp_path: Path) -> None:
    """In one session; what was put right is told."""
    spark_runs.spark()
    random = Random("goes on")
    folder, out, net = (tmp_path / name for name in ("in", "out", "net"))
    folder.mkdir()
    coming, there = arriving(random, 120)
    later = [record("reading", 2000 + n, "a", seq=n, temp=25 + 10 * (n % 2)) for n in range(6)]
    for number, (rules, records, options) in enumerate(
        [
            (PROGRAM, coming[:80], ["--revise", "150s", "--once"]),
            (PROGRAM, coming[80:], ["--revise", "210s", "--once"]),
            (PROGRAM + LOW, later, ["--revise", "210s", "--migrate", "--compact", str(net)]),
        ]
    ):
        (tmp_path / "rules.cep").write_text(rules)
        written(folder / f"{number}.jsonl", records)
        command = ["run", str(tmp_path / "rules.cep"), "--on", "spark", "--buckets", "2", "-i", str(folder)]
        command += ["-o", str(out), "--output-format", "parquet", "--checkpoint", str(tmp_path / "state"), *options]
        done = CliRunner().invoke(app, [*command, "--log", "json"], prog_name="cep")
        assert done.exit_code == 0, (number, done.stderr)
        if number == 1:
            (stopped,) = [json.loads(line) for line in done.stderr.splitlines() if '"stop"' in line]
            put_right = stopped["revision"]
            assert min(put_right[name] for name in ("late", "revisions", "withdrawn", "keys_replayed")) > 0
            assert not stopped["dead"]
        if number == 2:
            assert "new rules: line 12: low" in done.stderr
    written(tmp_path / "there.jsonl", [*there, *later])
    run(str(tmp_path / "rules.cep"), "-i", str(tmp_path / "there.jsonl"), "-o", f"{tmp_path / 'alone'}/",
        "--output-format", "parquet", "--lateness", "1h")  # fmt: skip
    for event in ("anywhere", "bad", "heated", "hot", "many"):
        assert known(net / f"{event}.parquet") == known(tmp_path / "alone" / f"{event}.parquet"), event
    low, every = (set(known(place / "low.parquet")) for place in (net, tmp_path / "alone"))
    assert low < every and len(low) >= 3, "those of records that came when the rule was there"


def one_after_the_other(out: Path) -> None:
    """No row is added twice without a withdrawal between, none withdrawn that is not there; and some were."""
    lines = [row for file in out.glob("part-*") for row in rows(file)]
    lines.sort(key=lambda row: (row["@version"], row["@change"] == "add"))
    there: Counter[str] = Counter()
    for row in lines:
        text = json.dumps({name: value for name, value in row.items() if name not in ("@change", "@version")})
        there[text] += 1 if row["@change"] == "add" else -1
        assert there[text] in (0, 1), row
    assert sum(row["@change"] == "withdraw" for row in lines) > 10


def known(file: Path) -> list[str]:
    if file.suffix == ".jsonl":
        return sorted(map(str, rows(file)))
    import polars as pl

    return sorted(map(str, pl.read_parquet(file).iter_rows(named=True)))
