"""The tests of WHEN conditions, which decide from a record's values whether it is an event of a given type."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.connectors.records.paths import EACH, Path, from_message, path
from cep.connectors.records.values import Real
from cep.core.schema import RecordTest, Schema

Bools = NDArray[np.bool_]
_SIZES: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Tested(Protocol):
    """The values that several records have for one source. There is one value per record."""

    def there(self) -> Bools:
        """Return a mask of the records that have a value."""

    def texts(self) -> pl.Series:
        """Return the values that are texts. Other values become null."""

    def numbers(self) -> NDArray[np.float64]:
        """Return the values that are numbers, as floats. Other values become NaN."""

    def flags(self) -> tuple[Bools, Bools]:
        """Return a mask of the values that are `true`, and a mask of the values that are `false`."""


def passed(schema: Schema, values: Callable[[str], Tested]) -> Bools:
    """Return a mask of the records that satisfy the WHEN condition of an event type.

    `values`: a function that returns the values of the records for a source.
    """
    assert schema.when is not None, "there are tests"
    rows: Bools = np.logical_or.reduce([_together(tests, values) for tests in schema.when])
    return rows


def passed_before(
    schema: Schema, values: Callable[[str], Tested], known: Callable[[Path], bool], elements: Tested | None = None
) -> Bools | None:
    """Return a mask of the records that may satisfy the WHEN condition, judging only by some of its tests.

    - `values`: a function that returns the values of the records for a source.
    - `known`: a function that returns True for each path whose tests should be used.
    - `elements`: the values of the list whose elements contain the other tested values. A record without this list
      fails the tests on elements.

    Return None if all records may satisfy the condition.
    """
    assert schema.when is not None, "there are tests"
    rows: Bools | None = None
    for tests in schema.when:
        own = [test for test in tests if known(path(test.source)) and not from_message(test.source)]
        holds = _together(own, values) if own else None
        inside = any(EACH in path(test.source) and test.operator != "not exists" for test in tests)
        if inside and elements is not None:
            holds = elements.there() if holds is None else holds & elements.there()
        if holds is None:
            return None
        rows = holds if rows is None else rows | holds
    return rows


def _together(tests: Sequence[RecordTest], values: Callable[[str], Tested]) -> Bools:
    first, *others = tests
    rows = _passes(first, values(first.source))
    for test in others:
        rows = rows & _passes(test, values(test.source))
    return rows


def _passes(test: RecordTest, values: Tested) -> Bools:
    present = values.there()
    if test.missing:
        present = present & ~_equal(test.missing, values)
    match test.operator:
        case "exists":
            return present
        case "not exists":
            return ~present
        case "=" | "in":
            return present & _equal(test.values, values)
        case "!=" | "not in":
            return present & ~_equal(test.values, values)
    with np.errstate(invalid="ignore"):
        sizes: Bools = _SIZES[test.operator](values.numbers(), test.values[0])
    return present & sizes


def _equal(wanted: Sequence[int | float | str | bool], values: Tested) -> Bools:
    """Return a mask of the values that equal one of the constants `wanted`. A text never equals a number."""
    equal_any: Bools | None = None
    words = [value for value in wanted if isinstance(value, str)]
    flags = [value for value in wanted if isinstance(value, bool)]
    sizes = [float(value) for value in wanted if not isinstance(value, str | bool)]
    if words:
        equal_any = values.texts().is_in(words).fill_null(False).to_numpy()
    if sizes:
        equal = np.isin(values.numbers(), sizes)
        equal_any = equal if equal_any is None else equal_any | equal
    if flags:
        yes, no = values.flags()
        equal = (yes if True in flags else np.zeros_like(yes)) | (no if False in flags else np.zeros_like(no))
        equal_any = equal if equal_any is None else equal_any | equal
    assert equal_any is not None, "a test has values"
    return equal_any


class ColumnValues:
    """The values of one column of a table, as WHEN conditions test them."""

    def __init__(self, column: pl.Series) -> None:
        self._column = column

    def there(self) -> Bools:
        missing = self._column.is_null()
        if self._column.dtype.is_float():
            missing |= self._column.is_nan().fill_null(False)
        present: Bools = ~missing.to_numpy()
        return present

    def texts(self) -> pl.Series:
        kind = self._column.dtype
        if kind == pl.String or isinstance(kind, pl.Categorical | pl.Enum):
            return self._column.cast(pl.String)
        return pl.Series([None] * len(self._column), dtype=pl.String)

    def numbers(self) -> NDArray[np.float64]:
        if not self._column.dtype.is_numeric():
            return np.full(len(self._column), np.nan)
        numbers: NDArray[np.float64] = self._column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        return numbers

    def flags(self) -> tuple[Bools, Bools]:
        if self._column.dtype != pl.Boolean:
            none = np.zeros(len(self._column), np.bool_)
            return none, none
        return self._column.fill_null(False).to_numpy(), (~self._column).fill_null(False).to_numpy()


class JsonValues:
    """A single JSON value, as WHEN conditions test it. The value None counts as missing."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def there(self) -> Bools:
        return np.array([self._value is not None])

    def texts(self) -> pl.Series:
        text = self._value if isinstance(self._value, str) and not isinstance(self._value, Real) else None
        return pl.Series([text], dtype=pl.String)

    def numbers(self) -> NDArray[np.float64]:
        number = isinstance(self._value, Real | int) and not isinstance(self._value, bool)
        size = float(str(self._value)) if number else np.nan
        return np.array([size if np.isfinite(size) else np.nan])

    def flags(self) -> tuple[Bools, Bools]:
        return np.array([self._value is True]), np.array([self._value is False])
