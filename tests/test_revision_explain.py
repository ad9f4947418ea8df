"""The law of revision with lineage: what is there says what it comes from, and what is withdrawn what it came from."""

from __future__ import annotations

import json
import random
import re

import polars as pl
import pytest

from cep.core.errors import CepError
from cep.engine import Engine
from tests.keyed_programs import keyed
from tests.long import seeds
from tests.programs import contest, iteration, loop, program, recursion, window
from tests.test_equivalence import types
from tests.test_formulas import FEATURES, random_case
from tests.test_revision import check


@pytest.mark.parametrize("seed", seeds(300))
def test_the_law_with_what_events_come_from(seed: int) -> None:
    rng = random.Random(f"why {seed}")
    made = rng.choice([program, iteration, recursion, contest, window, loop, *[keyed] * 6])(rng)
    lines, keys = [], []
    for line in made.text.split("\n"):
        declared = re.match(r"event (\w+)\((\w+): .*\)(.*)\.$", line)
        if declared is not None and rng.random() < 0.4:
            keys.append(declared[1])
            line = f"{line[:-1]} KEY {declared[2]}."
        lines.append(line)
    text, length = "\n".join(lines), rng.choice((0, 1, 3, 20)) * 1_000_000
    try:
        check(text, made.events, rng, length, keys, types=types(made.events), max_derivations=2000, explain=True)
    except CepError as error:
        assert error.code == "recursion" or not _compiles(text, made.events), error


def _compiles(text: str, events: list) -> bool:
    try:
        Engine.from_text(text, types=types(events))
    except CepError:
        return False
    return True


@pytest.mark.parametrize("seed", seeds(60))
def test_the_law_with_what_fluents_come_from(seed: int) -> None:
    rng = random.Random(f"why {seed}")
    case = random_case(rng, FEATURES, rng.randint(0, 3), rng.randint(1, 3))
    check(case.program, case.events, rng, rng.choice((0, 3, 10, 100)), changes=seed % 3 == 0, explain=True)
