"""Sorted runs, and lineage on them: the same as if all were one table."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cep.core.relation import Table
from cep.operators.goals import sorted_runs
from cep.operators.goals.lineage import DERIVED, Lineage
from tests.long import examples

SMALL = st.lists(st.integers(0, 30), max_size=20)


@examples(100)
@given(st.lists(SMALL, max_size=12), SMALL)
def test_pieces_are_found_as_in_one_table(pieces: list[list[int]], asked: list[int]) -> None:
    held: list[Table] = []
    every: list[tuple[int, int]] = []
    for piece in pieces:
        rows = [(key, len(every) + i) for i, key in enumerate(piece)]
        sorted_runs.put(held, np.array(rows, np.int64).reshape(-1, 2).T, 0)
        every += rows
    lengths = [run.shape[1] for run in held]
    assert sum(lengths) == len(every) and all(a >= 2 * b for a, b in zip(lengths, lengths[1:]))
    values = np.array(asked, np.int64)
    found = [(i, int(run[1, at])) for run in held for i, at in zip(*sorted_runs.found(run, values, 0))]
    assert sorted(found) == sorted((i, n) for i, value in enumerate(asked) for key, n in every if key == value)
    known = np.unique([key for key, _ in every]).astype(np.int64)
    assert sorted_runs.holds(known, values).tolist() == [value in known for value in asked]


@given(st.lists(st.tuples(st.integers(0, 9), SMALL), max_size=25), st.lists(st.integers(0, 24), max_size=5))
def test_what_led_to_what(steps: list[tuple[int, list[int]]], asked: list[int]) -> None:
    """Each whole is made of some inputs and of one whole before it; names grow with time."""
    lineage, parts = Lineage(lambda names: [[] for _ in names]), {}
    for n, (back, inputs) in enumerate(steps):
        mine = [1 + each for each in inputs] + [DERIVED + n - 1 - back] * (n > back)
        parts[DERIVED + n] = set(mine)
        lineage.link(np.full(len(mine), DERIVED + n), np.array(mine, np.int64))
    live = [DERIVED + n for n in asked if n < len(steps)]
    behind = set(live)
    for name in range(DERIVED + len(steps) - 1, DERIVED - 1, -1):
        behind |= parts[name] if name in behind else set()
    assert lineage.behind(np.array(live, np.int64)).tolist() == sorted(behind)
    index, inputs_of = lineage.inputs_of(np.array(live, np.int64))
    for place, name in enumerate(live):
        mine = lineage.behind(np.array([name]))
        assert inputs_of[index == place].tolist() == [each for each in mine.tolist() if each < DERIVED]
    assert lineage.keep(np.array(live, np.int64)).tolist() == sorted(behind)
    wholes, kept = lineage.edges()
    assert set(zip(wholes.tolist(), kept.tolist())) == {(w, p) for w in behind & parts.keys() for p in parts[w]}
