"""LARS on Spark, beside rules of events: by key, and in one place where all that comes in counts; each row once."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cep.command import app
from tests import spark_runs

pytestmark = pytest.mark.xdist_group("spark")

RULES = """event reading(room: string, level: int) TIME time.
event visit(room: string) TIME time.
high(R, L) <- reading(R, L) WHERE L > 2.
after(R) <- BEGIN OF calm(R) SEQ visit(R) WITHIN 20 s.
inside(R) <- visit(R) WHERE chosen(R).
"""
POLICIES = """warm(R) :- high(R, L) in [3].
calm(R) :- reading(R, L) in [3], not warm(R).
last(R) :- reading(R, L) in [3 #].
own(R, L) :- reading(R, L) in [2 #] by R.
chosen(R) :- warm(R), not denied(R).
denied(R) :- warm(R), not chosen(R).
:- chosen(r1), chosen(r2).
"""


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["run", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def written(folder: Path) -> list[str]:
    (folder / "rules.cep").write_text(RULES)
    (folder / "policies.lars").write_text(POLICIES)
    (folder / "in").mkdir()
    rng = random.Random(7)
    for number in range(2):
        lines = []
        for second in range(number * 60, number * 60 + 60):
            room = f"r{rng.randrange(5)}"
            row = {"type": "reading", "room": room, "level": rng.randrange(5)}
            row = row if rng.random() < 0.7 else {"type": "visit", "room": room}
            lines.append(json.dumps(row | {"time": second}) + "\n")
        (folder / "in" / f"{number}.jsonl").write_text("".join(lines))
    return [str(folder / "rules.cep"), str(folder / "policies.lars"), "-i", str(folder / "in")]


@pytest.mark.long
@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
@pytest.mark.parametrize("mode", ["changes", "intervals"])
def test_as_in_one_process(tmp_path: Path, mode: str) -> None:
    spark_runs.spark()
    program = written(tmp_path)
    expected = sorted(run(*program, "--output-mode", mode).splitlines())
    for name in ("high", "after", "inside", "warm", "calm", "last", "own", "chosen"):
        assert any(f'"type": "{name}"' in line for line in expected), name
    for buckets in ("3",):
        out = tmp_path / f"out{buckets}"
        said = ("--output-mode", mode) if mode == "intervals" else ()  # changes are what LARS writes
        run(*program, "--on", "spark", "--master", "local[2]", "--buckets", buckets, "-o", str(out),
            "--checkpoint", str(tmp_path / f"state{buckets}"), "--output-format", "jsonl", *said)  # fmt: skip
        found = [line for path in out.rglob("*.jsonl") for line in path.read_text().splitlines()]
        assert sorted(found) == expected


@pytest.mark.parametrize("mode", ["all", "new"])
def test_answers_at_ticks_are_refchosen(tmp_path: Path, mode: str) -> None:
    program = written(tmp_path)
    options = ("--on", "spark", "-o", str(tmp_path / "out"), "--checkpoint", str(tmp_path / "state"))
    result = CliRunner().invoke(app, ["run", *program, *options, "--output-mode", mode, "--output-every", "5s"])
    assert result.exit_code == 2
    assert f"--output-mode {mode}: Spark cannot write answers tick by tick" in result.output
