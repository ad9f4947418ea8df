"""The state of fluents on Spark: runs that are killed and gone on with, and checkpoints that go on in other buckets.

`SEMCEP_KILLS=20` kills so often.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner, Result

from cep.command import app
from cep.core.compilation import Compilation
from tests import spark_runs
from tests.test_spark_kills import killed

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING),
    pytest.mark.xdist_group("spark"),
]

KILLS = int(os.environ.get("SEMCEP_KILLS", "2"))
RULES = """\
event velocity(vessel: string, speed: float) TIME time.
event ping(vessel: string) TIME time.
fluent moving(vessel: string).
fluent mode(vessel: string) = kind: string.
fluent near(vessel: string, other: string) START s END e.
fluent berth(vessel: string) = place: string START s END e.
fluent lonely(vessel: string).
fluent steady(vessel: string).
fluent heard(vessel: string).
fluent long(vessel: string).
fluent many(kind: string, number: int).
fluent beat(vessel: string).
initially mode(v3) = off.
initiate moving(V) <- velocity(V, S) WHERE S > 0.5.
terminate moving(V) <- velocity(V, S) WHERE S <= 0.5.
initiate mode(V) = fast <- velocity(V, S) WHERE S > 5, moving(V).
initiate mode(V) = slow <- velocity(V, S) WHERE S <= 5.
mode(V) = fast ENDS AFTER 40 s.
lonely(V) WHILE ONCE[0, 20 s] ping(V) AND NOT near(V, _).
steady(V) WHILE HISTORICALLY[0, 15 s] moving(V).
heard(V) WHILE moving(V) SINCE[0, 30 s] ping(V).
long(V) WHILE moving(V) LASTING >= 25 s.
many(K, N) WHILE mode(V) = K AGGREGATE N = count() BY K WHERE N >= 3.
beat(V) WHILE ping(V) OR ONCE[30 s, 30 s] beat(V).
trip(V, D) <- moving(V) WHERE D = duration().
halted(V) <- END OF moving(V) WHERE mode(V) = slow.
braked(V, K) <- velocity(V, S) WHERE S < 1, held(mode(V) = K, end() - 5 s), not held(moving(V), end() - 30 s).
met(V, B) <- ping(V) WHERE near(V, B).
left(V, P) <- END OF berth(V) = P.
"""
TYPES = {*"moving mode near berth lonely steady heard long many beat trip halted braked met left".split()}  # noqa: SIM905
VESSELS = [f"v{number}" for number in range(9)]


def part(folder: Path, number: int, random: Random, opened: list[dict[str, object]]) -> None:
    """A file of 60 s. Records of fluents that were `opened` in it or before are closed later."""
    rows: list[tuple[int, dict[str, object]]] = []
    for time in range(60 * number, 60 * number + 60):
        vessel = random.choice(VESSELS)
        what = random.random()
        if what < 0.5:
            rows.append(
                (time, {"type": "velocity", "time": time, "vessel": vessel, "speed": random.choice((0.1, 3, 9))})
            )
        elif what < 0.65:
            rows.append((time, {"type": "ping", "time": time, "vessel": vessel}))
        elif what < 0.8 and opened:
            found = opened.pop(random.randrange(len(opened)))
            rows.append((time, found | {"e": time}))  # it counts by its end, or the watermark has not passed its start
        else:
            extra = random.choice(({"type": "near", "other": random.choice(VESSELS)}, {"type": "berth", "place": "p"}))
            end = random.choice((None, time, time + 7, time + 90))
            row = {"vessel": vessel, "s": time, "e": end} | extra
            if end is None and not any({**row, "s": 0} == {**each, "s": 0} for each in opened):
                opened.append(row)
            rows.append(
                (time, row | ({"bounds": random.choice(("[]", "[)", "(]"))} if end not in (None, time) else {}))
            )
    folder.mkdir(exist_ok=True)
    lines = [json.dumps(row) + "\n" for _, row in sorted(rows, key=lambda row: row[0] + random.randrange(6))]
    (folder / f"{number}.jsonl").write_text("".join(lines))


def here(*arguments: str) -> list[str]:
    """What one process writes."""
    result = CliRunner().invoke(app, ["run", "rules.cep", "--input", "days", "--lateness", "5 s", *arguments])
    assert result.exit_code == 0, result.output
    lines = sorted(result.stdout.splitlines())
    assert {json.loads(line)["type"] for line in lines} == TYPES
    return lines


def written(folder: Path) -> list[str]:
    return sorted(line for file in folder.rglob("*.jsonl") for line in file.read_text().splitlines())


@pytest.mark.parametrize("changes", [[], ["--changes"]])
def test_killed_runs_give_every_interval_once(
    changes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    random, opened = Random(f"{KILLS} {changes}"), []
    Path("rules.cep").write_text(RULES)
    for number in range(KILLS + 2):
        part(Path("days"), number, random, opened)
    options = ["--output", "derived", "--checkpoint", "state", "--buckets", "3", "--output-format", "jsonl"]
    options += ["--files", "1", "--lateness", "5 s", "--master", "local[2]", *changes]
    options += ["--conf", "spark.python.authenticate.socketTimeout=60s"]  # of workers that start beside other tests
    command = [sys.executable, "-m", "cep", "run", "rules.cep", "--on", "spark", "--input", "days", *options]
    for _ in range(KILLS):
        killed(command, tmp_path / "state" / "spark", random)
    last = subprocess.run(command, capture_output=True, text=True, check=False)
    assert last.returncode == 0, last.stderr
    assert written(Path("derived")) == here(*changes)


def test_fluents_go_on_in_other_buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What holds with its value, its deadline, what formulas remember, open records, and how far the input has come."""
    spark_runs.spark()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    Path("rules.cep").write_text(RULES)
    random, opened = Random(4), []

    def run(*arguments: str) -> Result:
        options = ["--on", "spark", "--checkpoint", "state", "--input", "days", "--lateness", "5 s", "--output", "out"]
        options += ["--output-format", "jsonl", *arguments]
        return CliRunner().invoke(app, ["run", "rules.cep", *options], prog_name="cep")

    for number, count in enumerate((4, 7, 2)):
        part(Path("days"), number, random, opened)
        result = run("--once", "--buckets", str(count), *(["--migrate"] if number else []))
        assert result.exit_code == 0, result.stderr
        assert not number or ("their state: " in result.stderr and "new rules: " not in result.stderr), result.stderr
    refused = run("--once", "--buckets", "2", "--changes")
    assert refused.exit_code == 2 and "fluents: whole intervals before, `--changes` now" in refused.stderr
    assert run("--buckets", "2").exit_code == 0, "the end of the input"
    assert written(Path("out")) == here()
