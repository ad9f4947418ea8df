"""Comparisons of columns with constants, as integers that kernels can evaluate.

A test accepts the values in an interval. It consists of five integers:

- the row of the table that contains the tested column
- a mask that turns the bits of values into integers with the same order (`FLOATS`, or 0)
- the least value that passes
- the greatest value that passes
- 1 if the test is negated, so that the values outside the interval pass; otherwise 0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cep.core.errors import Source
from cep.core.kernels import njit
from cep.core.relation import END, FIRST, START
from cep.core.values import MISSING, Pool
from cep.rules.conditions.binding_order import names_of
from cep.rules.expressions.checking import check_comparison
from cep.rules.expressions.typed import MIRRORED, Typed, TypedCall, TypedConstant, TypedVariable
from cep.rules.terms import Comparison, Condition

ROW, MASK, LOW, HIGH, NEGATED = range(5)
FLOATS = 2**63 - 1
GREATEST = 2**63 - 1
INTEGERS, CODES = ("int", "time", "duration"), ("string", "iri", "bool")
TIMES = {"start()": START, "end()": END}

Tests = NDArray[np.int64]
NO_TESTS: Tests = np.empty((0, 5), np.int64)
Bounds = tuple[int, int]


@njit()
def passing(table, tests):  # type: ignore[no-untyped-def]
    """Return the indices of the occurrences that pass every test. `tests` must contain at least one test."""
    n = table.shape[1]
    index = np.empty(n + 1, np.int64)
    count = n
    for t in range(tests.shape[0]):
        row, mask, low, high, negated = tests[t, 0], tests[t, 1], tests[t, 2], tests[t, 3], tests[t, 4] != 0
        passed = 0
        for j in range(count):
            i = j if t == 0 else index[j]
            bits = table[row, i]
            key = bits ^ ((bits >> 63) & mask)
            index[passed] = i
            passed += ((key >= low) & (key <= high)) != negated
        count = passed
    return index[:count]


@njit()
def passing_own(table, tests):  # type: ignore[no-untyped-def]
    """Return the indices of the occurrences that pass all tests of their own member of a family.

    The last row of `table` contains, for each occurrence, the number of its member. `tests`: an array of shape
    (members, tests per member, 5).
    """
    n, last = table.shape[1], table.shape[0] - 1
    index = np.empty(n + 1, np.int64)
    passed = 0
    for i in range(n):
        member, passes = table[last, i], True
        for t in range(tests.shape[1]):
            bits = table[tests[member, t, 0], i]
            key = bits ^ ((bits >> 63) & tests[member, t, 1])
            inside = (key >= tests[member, t, 2]) & (key <= tests[member, t, 3])
            passes &= inside != (tests[member, t, 4] != 0)
        index[passed] = i
        passed += passes
    return index[:passed]


def column_tests(
    conditions: Sequence[Condition], types: Mapping[str, str], pool: Pool, source: Source | None
) -> tuple[Tests, list[Condition]]:
    """Split conditions into column tests and all other conditions. A test can read the columns `v0`, `v1`, ... and the
    times of an occurrence."""
    bounds: dict[tuple[int, int], Bounds] = {}
    negated: list[tuple[int, int, int, int, int]] = []
    others: list[Condition] = []
    for condition in conditions:
        comparison = None
        if isinstance(condition, Comparison) and all(name in types for name in names_of(condition)):
            comparison = _with_constant(check_comparison(condition, types, source))
        if comparison is None:
            others.append(condition)
            continue
        operator, column, constant = comparison
        row = TIMES[column.name] if column.name in TIMES else FIRST + int(column.name[1:])
        place = row, FLOATS if column.type == "float" else 0
        low, high = reach(place[1])
        if operator == "!=":
            negated.append((*place, *_bounds("=", column.type, constant, pool), 1))
        else:
            low, high = _bounds(operator, column.type, constant, pool)
        known = bounds.get(place, (low, high))
        bounds[place] = max(low, known[0]), min(high, known[1])
    tests = [*((*place, *interval, 0) for place, interval in bounds.items()), *negated]
    return np.array(tests, np.int64).reshape(len(tests), 5), others


def equal_to(row: int, bits: int | None) -> tuple[int, int, int, int, int]:
    """Return the test that a column has the value `bits`. `row`: the row of the table that contains the column.

    If `bits` is None, no value passes.
    """
    return (row, 0, 1, 0, 0) if bits is None else (row, 0, bits, bits, 0)


def _with_constant(comparison: TypedCall) -> tuple[str, TypedVariable, TypedConstant] | None:
    operator, (left, right) = comparison.function, comparison.arguments
    if isinstance(left, TypedConstant):
        operator, left, right = MIRRORED[operator], right, left
    column = _column(left, right)
    if column is None or not isinstance(right, TypedConstant) or column.name == "duration()":
        return None
    if column.type in CODES and operator not in ("=", "!="):
        return None
    return operator, column, right


def _column(side: Typed, other: Typed) -> TypedVariable | None:
    if isinstance(side, TypedCall) and side.function == "to_float" and abs(_number(other)) < 2**62:
        (side,) = side.arguments
        return side if isinstance(side, TypedVariable) and side.type == "int" else None
    numbers = isinstance(side, TypedVariable) and side.type in ("float", *INTEGERS, *CODES)
    return side if numbers and isinstance(side, TypedVariable) and side.type == other.type else None


def _number(typed: Typed) -> float:
    return float(typed.value) if isinstance(typed, TypedConstant) and typed.type == "float" else float("inf")


def reach(mask: int) -> Bounds:
    """Return the least and the greatest value that is not missing. `mask`: the mask that a test uses for the column."""
    return (_sorted(-np.inf), _sorted(np.inf)) if mask else (MISSING + 1, GREATEST)


def _sorted(number: float) -> int:
    bits = int(np.float64(number + 0.0).view(np.int64))
    return bits if bits >= 0 else bits ^ FLOATS


def _bounds(operator: str, type: str, constant: TypedConstant, pool: Pool) -> Bounds:
    """Return the least and the greatest value of a column for which a comparison is true. `type`: the type of the
    column."""
    least, greatest = reach(FLOATS if type == "float" else 0)
    below = above = 0
    """The greatest value that is not above the constant, and the least value that is not below it."""
    if type == "float":
        below = above = _sorted(float(constant.value))
    elif type in CODES:
        below = above = int(constant.value) if type == "bool" else pool.code(constant.value)
    else:
        below, above = int(np.floor(constant.value)), int(np.ceil(constant.value))
        if constant.type != "float":
            below = above = int(constant.value)
    match operator:
        case "=":
            least, greatest = max(least, above), min(greatest, below)
        case "<":
            greatest = above - 1
        case "<=":
            greatest = below
        case ">":
            least = below + 1
        case ">=":
            least = above
    return (least, greatest) if least <= greatest else (1, 0)
