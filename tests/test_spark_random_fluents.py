"""Random programs of fluents and formulas on Spark, many as one: what one process writes, in 1, 2 and 7 buckets.

`SEMCEP_PROGRAMS=60` runs so many of them.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.engine import Engine
from cep.events import Event
from tests import reference_fluents as simple
from tests import spark_runs
from tests.formula_maker import FEATURES
from tests.spark_runs import deliver
from tests.test_fluents import as_events, random_model, random_records
from tests.test_formula_recursion import random_recursion
from tests.test_formulas import random_case
from tests.test_formulas_in_events import Program

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING),
    pytest.mark.xdist_group("spark"),
]

PROGRAMS = int(os.environ.get("SEMCEP_PROGRAMS", "8"))
LATENESS = 4000
"""Microseconds. The programs are made for a time in which a microsecond is a step: here a step is a millisecond, which
is what Spark's watermark counts."""

_NAME = re.compile(r"\b([a-z]\w*)\(")
_SPAN = re.compile(r"\b(\d+\.\d{6}) s\b")
_FUNCTIONS = {"held", "count", "sum", "max", "min", "avg", "start", "end", "duration"}


def programs(random: Random, number: int) -> tuple[str, list[Event]]:
    """So many random programs as one, each with names of its own, and the events of all."""
    texts: list[str] = []
    events: list[Event] = []
    for n in range(number):
        match n % 4:
            case 0:
                case = random_case(random, FEATURES - {"INF"}, random.choice((1, 2)), random.choice((1, 2, 3)))
                text, own = case.program, case.events
            case 1:
                asking = Program(random)
                text, own = asking.text, [Event(e, (k, x), t, t) for e, k, x, t in asking.records]
            case 2:
                text, own = simple.text(random_model(random)), as_events(random_records(random))
            case _:
                recursive, _ = random_recursion(random)
                text, own = recursive.program, recursive.events
        texts.append(_SPAN.sub(lambda found: f"{float(found[1]) * 1000:.6f} s", _NAME.sub(_renamed(n), text)))
        events += [replace(e, type=f"p{n}_{e.type}", start=e.start * 1000, end=e.end * 1000) for e in own]
    return "\n".join(texts), events


def _renamed(number: int):  # type: ignore[no-untyped-def]
    return lambda found: found[0] if found[1] in _FUNCTIONS else f"p{number}_{found[0]}"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["run", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("buckets", [1, 2, 7])
def test_random_programs(buckets: int, tmp_path: Path) -> None:
    spark_runs.spark()
    random = Random(f"fluents {buckets}")
    text, events = programs(random, PROGRAMS)
    (tmp_path / "p.cep").write_text(text)
    schemas = Engine.from_text(text).inputs
    arriving = sorted((e for e in events if e.type in schemas), key=lambda e: e.end + random.randrange(LATENESS + 1))
    (records,) = deliver(tmp_path / "in", arriving, 3, random, schemas)
    program = str(tmp_path / "p.cep")
    options = ["-i", records, "--lateness", "0.004 s"]
    changes = [["--changes"]] if buckets == 2 else [[], ["--changes"]][: 1 + (PROGRAMS > 8)]
    for number, more in enumerate(changes):
        expected = sorted(run(program, *options, *more).splitlines())
        out = tmp_path / f"out{number}"
        run(program, *options, *more, "--on", "spark", "--master", "local[2]", "--buckets", str(buckets),
            "--files", "1", "-o", str(out), "--checkpoint", str(tmp_path / f"state{number}"),
            "--output-format", "jsonl")  # fmt: skip
        found = sorted(line for path in out.rglob("*.jsonl") for line in path.read_text().splitlines())
        assert len(expected) > 100
        assert sorted(set(found) ^ set(expected)) == [] and found == expected
