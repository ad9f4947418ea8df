"""Conditions that compare the two sides of a join: equalities and inequalities that the search for partners can use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cep.core.errors import Source
from cep.rules.expressions.checking import check
from cep.rules.expressions.typed import TICKS, Typed, common_type, fitted
from cep.rules.terms import Comparison, Condition, rename_expression

ORDERS = ("<", "<=", ">", ">=")
MOST_ORDERS = 4
"""The maximum number of inequalities that the search for partners uses. All others are tested on each pair."""
SORTED = ("int", "float", *TICKS)
"""Types whose values have the same order as their bits."""


def searched(
    between: Mapping[Condition, Comparison],
    left: Sequence[str],
    right: Sequence[str],
    own: Sequence[int],
    source: Source,
) -> dict[Condition, tuple[str, Typed, Typed]]:
    """Return the conditions that the search for partners can use, each with its operator and its two sides.

    Each `=` becomes a part of the join key. Up to MOST_ORDERS inequalities that compare values of the types SORTED use
    an index. Both sides of a condition have the same type and are expressions over the columns of the join's inputs.

    - `between`: the conditions that compare an expression over the left input with one over the right input.
    - `left`, `right`: the column types of the two inputs.
    - `own`: the columns of the right input that follow the left columns in the join's output.
    """
    theirs = {f"v{len(left) + i}": f"v{column}" for i, column in enumerate(own)}
    types = [{f"v{i}": type for i, type in enumerate(side)} for side in (left, right)]
    by_condition: dict[Condition, tuple[str, Typed, Typed]] = {}
    orders = 0
    for condition, comparison in between.items():
        both = comparison.left, rename_expression(comparison.right, theirs)
        left_side, other = (check(side, known, source) for side, known in zip(both, types, strict=True))
        if comparison.operator == "=":
            common = common_type(left_side.type, other.type)
            assert common is not None, "what never compares was refused"
            mine, yours = fitted(left_side, common), fitted(other, common)
            assert mine is not None and yours is not None, "what has a common type fits it"
            by_condition[condition] = "=", mine, yours
        elif comparison.operator in ORDERS and left_side.type == other.type in SORTED and orders < MOST_ORDERS:
            orders += 1
            by_condition[condition] = comparison.operator, left_side, other
    return by_condition
