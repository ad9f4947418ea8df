"""The state of formulas: each key in its bucket, engines stopped and restored, keys moved to other buckets."""

from __future__ import annotations

import random

import pytest

from cep.core.time import END_OF_TIME
from cep.runtime.maximal_intervals import held_of
from cep.runtime.state_by_key import redeal
from tests.formula_maker import FEATURES
from tests.long import seeds
from tests.rounds import Buckets
from tests.test_formulas import ordered, random_case


@pytest.mark.parametrize("seed", seeds(40))
def test_formulas_by_key_in_buckets(seed: int) -> None:
    rng = random.Random(f"buckets {seed}")
    case = random_case(rng, FEATURES - {"INF"}, rng.choice((1, 2)), rng.choice((1, 2, 3)))
    buckets = Buckets(case.program, rng.choice((1, 2, 7)), rng)
    tables: list[dict] = []
    rest = list(enumerate(case.events))
    while rest:
        count = rng.randint(1, 8)
        batch, rest = rest[:count], rest[count:]
        tables.append(buckets.round(buckets.tables(batch), batch[-1][1].end - 1))
        for stage, engines in zip(buckets.stages, buckets.engines, strict=True):
            if stage.keyed and rng.random() < 0.3:
                after = [buckets.engine(stage) for _ in range(rng.randint(1, 4))]
                redeal(engines, after)
                engines[:] = after
    tables.append(buckets.round({}, END_OF_TIME))
    found = [held for each in tables for held in held_of(each, buckets.schemas, None, None)]
    assert ordered(found) == case.expected, case.program
