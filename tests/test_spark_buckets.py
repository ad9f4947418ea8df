"""`--buckets`: a checkpoint goes on in more buckets, or fewer, and derives what one process does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cep.command import app
from cep.core.compilation import Compilation
from cep.engine import Engine
from cep.spark import resuming
from cep.spark.program import ProgramOptions, ShippedProgram
from tests import spark_runs

pytestmark = pytest.mark.xdist_group("spark")

RULES = """\
event a(k: string, x: int).
event b(k: string).
event alarm(level: int).
rise(K, X, Y) <- a(K, X) SEQ a(K, Y) WHERE Y > X WITHIN 1 h.
alone(K) <- a(K, X) UNLESS b(K) WITHIN 20 s WHERE X > 7.
many(K, N) <- a(K, _) AGGREGATE N = count() OVER LAST 1 min BY K.
warned(K, L) <- alarm(L) SEQ b(K).
"""
KEYS = [f"k{n}" for n in range(9)]


def test_why_states_cannot_go_to_other_buckets() -> None:
    def why(text: str) -> list[str]:
        return resuming._unsplit(ShippedProgram.of(Engine.from_text(text), text, "p.cep", ProgramOptions(), 16))

    assert why(RULES) == []
    anywhere = """e(K, K) <- NOT(c(K, L)).[c(K, X), a(K, X)].
    f(Y + 1) <- (((e(X, X) OR b(_, X)) STARTS (a(_, Y) WHERE q(Y))) WHERE q(X), start() != 4).
    q(1). q(2)."""
    (reason,) = why(anywhere)
    assert reason == "--buckets: stage 2: the state of a goal of line 2 has no key"


@pytest.mark.long
@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
def test_a_checkpoint_goes_on_in_other_buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_runs.spark()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    Path("days").mkdir()
    Path("rules.cep").write_text(RULES)

    def run(*arguments: str) -> Result:
        options = ["--on", "spark", "--checkpoint", "state", "--input", "days", "--lateness", "5 s", "--output", "out"]
        options += ["--output-format", "jsonl", *arguments]
        return CliRunner().invoke(app, ["run", "rules.cep", *options], prog_name="cep")

    def day(number: int) -> None:
        records: list[dict[str, Any]] = [{"type": "alarm", "time": 30 * number, "level": number}]
        for place, key in enumerate(KEYS):
            time = 30 * number + place
            records.append({"type": "a", "time": time, "k": key, "x": (7 * place + 5 * number) % 11})
            if (place + number) % 3 == 0:
                records.append({"type": "b", "time": time + 10, "k": key})
        records.sort(key=lambda record: record["time"])
        Path("days", f"{number}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))

    for number, count in enumerate((4, 6, 3, 3)):
        arguments = ["--buckets", str(count)]
        day(number)
        if number in (1, 2):
            result = run("--once", *arguments)
            assert "state: line 4: rise, line 5: alone, line 6: many, line 7: warned" in result.stderr, result.stderr
        else:
            result = run("--once", *arguments)
        assert result.exit_code == 0, result.stderr
    assert run("--buckets", "3").exit_code == 0, "the end of the input"
    alone = ["run", "rules.cep", "--input", "days", "--lateness", "5 s", "--output", "alone.jsonl"]
    assert CliRunner().invoke(app, alone, prog_name="cep").exit_code == 0
    assert found(Path("out")) == found(Path("alone.jsonl"))


def found(place: Path) -> list[str]:
    """What was derived, whatever its order and the order of its fields."""
    files = [place] if place.is_file() else list(place.rglob("*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert len(lines) > 50
    return sorted(json.dumps(line, sort_keys=True) for line in lines)
