"""Random programs on Spark that go on in another number of buckets at each start: they derive what one process does.

`SEMCEP_PROGRAMS=200` runs so many of them on Spark itself; others are run without Java (`tests/local_spark.py`).
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cep.compile import CompileOptions
from cep.engine import Engine
from cep.spark import resuming
from cep.spark.driver.query import StopRequest, run_query
from cep.spark.job import Job, start
from cep.spark.program import ProgramOptions, ShippedProgram
from cep.spark.whole_states import settle_on_spark
from tests import spark_runs
from tests.cases_format import difference
from tests.local_spark import LocalSpark
from tests.long import seeds
from tests.spark_runs import alone, deliver, derived, job
from tests.test_spark import LATENESS
from tests.together import One, Together, generated

PROGRAMS = int(os.environ.get("SEMCEP_PROGRAMS", "12"))
EACH = 25  # programs of one run
COUNTS = (1, 3, 8, 64)


def movable(random: Random, number: int) -> Together:
    """So many random programs that hold nothing without a key where they run by key: others stay in as many buckets."""
    found: list[One] = []
    while len(found) < number:
        (one,) = generated(random, 1).ones
        options = ProgramOptions(compiling=CompileOptions(types=one.types))
        program = ShippedProgram.of(Engine.from_text(one.text, types=one.types), one.text, "p", options, 3)
        if program.inputs and any(stage.keyed for stage in program.stages) and not resuming._unsplit(program):
            found.append(one)
    return Together(found)


def went_on(wanted: Job) -> Job:
    """The query as it goes on from its checkpoint, in so many buckets from now on."""
    program = wanted.program
    engine = Engine.from_text(program.text, types=program.options.compiling.types)
    with ExitStack() as locks:
        return resuming.opened(engine, wanted, locks)[0]


def run(spark: Any, wanted: Job, settles: bool) -> None:
    """`settles`: states are whole at its end, as of a run that is not killed."""
    stop, folder = StopRequest(Path(wanted.checkpoint)), Path(wanted.checkpoint)
    count = lambda: len(list(folder.glob("**/commits/[0-9]*")))  # noqa: E731
    run_query(lambda: start(spark, wanted), stop, False, count, lambda *_, **more: None)
    if settles:
        settle_on_spark(spark, wanted, pytest.fail)


def check(spark: Any, programs: Together, random: Random, folder: Path) -> None:
    """What they derive in 1, 3, 8 and 64 buckets, one after the other, is what one process derives."""
    schemas = Engine.from_text(programs.text, types=programs.types).inputs
    arriving = programs.arriving(random, LATENESS)
    expected = programs.derived(arriving)
    counts = [*random.sample(COUNTS, len(COUNTS)), random.choice(COUNTS)]
    (given,) = deliver(folder / "pool", arriving, 2 * len(counts), random, schemas)
    pool, days = sorted(Path(given).iterdir()), folder / "days"
    assert difference(expected, alone(programs.text, [given], LATENESS, types=programs.types)) == ""
    days.mkdir()
    for turn, count in enumerate(counts):
        for path in pool[2 * turn : 2 * turn + 2]:
            path.rename(days / path.name)
        closing, inputs = turn == len(counts) - 1, [str(days)]
        asked = job(programs.text, inputs, folder, count, programs.types, lateness=LATENESS, limit=1, closing=closing)
        wanted = went_on(asked)
        assert wanted.program.buckets == count
        run(spark, wanted, random.random() < 0.5)
    assert difference(expected, derived(wanted)) == "", counts


@pytest.mark.parametrize("seed", seeds(24))
def test_random_programs_go_on_in_other_buckets(seed: int, tmp_path: Path) -> None:
    random = Random(f"resized {seed}")
    check(LocalSpark(), movable(random, 4), random, tmp_path)


@pytest.mark.long
@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("seed", range(-(-PROGRAMS // EACH)))
def test_random_programs_go_on_in_other_buckets_on_spark(seed: int, tmp_path: Path) -> None:
    random = Random(f"resized on Spark {seed}")
    check(spark_runs.spark(), movable(random, min(EACH, PROGRAMS)), random, tmp_path)
