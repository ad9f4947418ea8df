"""Workers that share no folder: rows go through Spark's shuffle, states come from an object store and go there."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from cep.core.errors import CepError
from cep.engine import Engine
from tests.keyed_programs import keyed
from tests.long import seeds
from tests.programs import contest, loop, program, recursion, window
from tests.test_equivalence import types

pytest.importorskip("pyspark")

from tests.spark_apart import ApartQuery
from tests.spark_operators import check, keyed_declarations


@pytest.mark.parametrize("seed", seeds(60))
def test_the_law_on_random_programs(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever worker does a task, as often as it is done: after each micro-batch the output is that of one process."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))  # where workers make their folders
    rng = random.Random(seed)
    made = rng.choice([program, recursion, contest, window, loop, *[keyed] * 12])(rng)
    text, keys = keyed_declarations(made.text, rng)
    try:
        Engine.from_text(text, types=types(made.events))
    except CepError:
        return  # some of what is drawn is no program
    revise, length = bool(seed % 2), rng.choice((0, 1, 3, 20)) * 1_000_000
    more = {"kind": ApartQuery, "types": types(made.events), "max_derivations": 2000}
    try:
        check(text, made.events, rng, length, tmp_path, (1, 2, 7)[seed % 3], keys, revise, **more)
    except CepError as error:
        assert error.code == "recursion", "some of what is drawn goes on for ever"
