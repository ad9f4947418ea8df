"""What holds from before all times on, on both sides of a NOT and of an AND."""

from __future__ import annotations

import numpy as np
import pytest

from cep.core.interval_sets import FAR, INFINITE
from cep.core.stable_order import phased_order
from cep.engine import holds

DECLARED = """fluent p(x: int, y: int).
fluent q(x: int).
fluent h(x: int).
initially p(2, 2).
initially q(2).
"""


@pytest.mark.parametrize(
    "formula", ["p(X, _) AND NOT p(_, 2)", "p(X, _) AND NOT q(_)", "q(X) AND NOT p(X, X)", "q(X) AND NOT p(_, 2)"]
)
def test_what_is_never_absent_leaves_nothing(formula: str) -> None:
    assert [each for each in holds(f"{DECLARED}h(X) WHILE {formula}.", []) if each.type == "h"] == []


def test_both_hold_for_ever() -> None:
    (found,) = (each for each in holds(f"{DECLARED}h(X) WHILE q(X) AND p(_, 2).", []) if each.type == "h")
    assert (found.args, found.start, found.end) == ((2,), None, None)


def test_phases_of_codes_at_both_ends_of_time() -> None:
    codes = np.array([-INFINITE, -INFINITE, FAR, FAR, -FAR, -FAR, 0, 0, -INFINITE])
    phases = np.array([1, 0, 1, 0, 1, 0, 1, 0, 0])
    assert phased_order(codes, phases).tolist() == [1, 8, 0, 5, 4, 7, 6, 3, 2]
    few = np.array([0, 1, 8])
    assert phased_order(codes[few], phases[few]).tolist() == [1, 2, 0]
