"""Conjunctions whose sides share all their columns: as those of any columns, with missing values and restores."""

from __future__ import annotations

import numpy as np
import pytest

from cep.core.fluents import BEGINS, BEGINS_AT, ENDS, ENDS_AT
from cep.core.relation import END, FIRST, START, Table
from cep.core.time import Frontier
from cep.core.values import MISSING
from cep.operators.goals.fluents.conjunction import (
    ConjunctionGoal,
    ConjunctionSpec,
    MatchedConjunctionGoal,
    Side,
    matches,
)

TIMES = 60


def changes(random: np.random.Generator, late: int) -> Table:
    """Of some pairs of numbers, one of which may be missing, when they begin and end to hold."""
    rows = []
    for one in (1, 2, 3, MISSING):
        for two in (1, 2, MISSING):
            codes = np.flatnonzero(random.random(2 * TIMES) < random.choice((0.0, 0.05, 0.3)))
            for turn, code in enumerate(codes.tolist()):
                kinds = (ENDS_AT, ENDS) if turn % 2 else (BEGINS_AT, BEGINS)
                rows.append((code // 2, code // 2 + late, 0, 0, one, two, kinds[code % 2]))
    rows.sort(key=lambda row: (row[1], row[0]))
    return np.array(rows, np.int64).reshape(-1, 7).T.copy()


def given(tables: list[Table]) -> list[tuple[int, ...]]:
    return sorted(tuple(row) for table in tables for row in np.delete(table, [2, 3], axis=0).T.tolist())


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_as_conjunctions_of_any_columns(seed: int, negated: bool) -> None:
    random = np.random.default_rng(seed)
    lates = (0, int(random.choice((0, 3))))
    left, right = changes(random, lates[0]), changes(random, lates[1])
    right[[FIRST, FIRST + 1]] = right[[FIRST + 1, FIRST]]  # the other way round
    shown = () if negated else ((), (0, 1))[seed % 2]
    spec = ConjunctionSpec(Side(3, 2, (0, 1), (), (0, 1)), Side(3, 2, (1, 0), (), shown), negated, lates)
    assert matches(spec)
    found: list[list[Table]] = [[], []]
    goals = [ConjunctionGoal(spec), MatchedConjunctionGoal(spec)]
    done = -1
    while done < TIMES + 5:
        until = done + int(random.integers(1, 20))
        again = random.random() < 0.3
        for number, goal in enumerate(goals):
            pieces = [table[:, (table[END] > done) & (table[END] <= until)] for table in (left, right)]
            found[number].append(goal.step(pieces, Frontier.at(until)))
            if again:
                goal.restore(goal.snapshot())
                goal.evict(Frontier.at(until), wholly=True)
        assert goals[0].pending() == 0 or goals[1].pending() > 0
        assert goals[0].size[0] == goals[1].size[0] and goals[0].due() == goals[1].due()
        done = until
    for tables in found:
        for table in tables:
            assert (np.diff(table[START]) >= 0).all()
    assert given(found[0]) == given(found[1])
    assert given(found[0])
