"""Matching of expectations with derived rows, one to one. The expected values are parsed according to their types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from cep.connectors.records.times import of_duration
from cep.core.errors import mistakes_together
from cep.core.fluents import BOUNDS
from cep.core.literals import read_instant
from cep.core.prefixes import namespace
from cep.core.schema import Attribute, Schema
from cep.core.suggest import did_you_mean
from cep.diff.rows import FIRST, Row, sorted_rows
from cep.events import Iri
from cep.events import Value as EventValue
from cep.testing.rule_files import Expectation
from cep.testing.yaml_tree import Value

TIMES = {"start": (0,), "end": (1,), "time": (0, 1)}
HOLDS_TIMES = {"from": (0,), "until": (1,)}


@dataclass(frozen=True, slots=True)
class Wanted:
    """An expectation whose values have been parsed. `values`: these values, by the index of their column in a row."""

    expectation: Expectation | None
    values: Mapping[int, EventValue]
    tolerance: float

    def matches(self, row: Row) -> bool:
        return all(equal(value, row[place], self.tolerance) for place, value in self.values.items())

    def distance(self, row: Row) -> tuple[int, int]:
        """Return the distance of a row from the expectation, as a pair of numbers that is compared like a tuple.

        The first number counts wrong values: 2 for an attribute, 1 for a time. The second number is the sum of the
        differences of times, in microseconds.
        """
        differs = [place for place, value in self.values.items() if not equal(value, row[place], self.tolerance)]
        apart = sum(_apart(self.values[place], row[place]) for place in differs if place < 2)
        return sum(2 if place >= 2 else 1 for place in differs), apart


def _apart(wanted: EventValue, row: EventValue) -> int:
    return abs(wanted - row) if isinstance(wanted, int) and isinstance(row, int) else 1 << 62


def equal(wanted: EventValue, value: EventValue, tolerance: float) -> bool:
    """Return True if two values are equal. Floats may differ by the relative tolerance."""
    if isinstance(wanted, float) and isinstance(value, int | float) and not isinstance(value, bool):
        return wanted == value or abs(wanted - value) <= tolerance * max(abs(wanted), abs(value))
    if isinstance(wanted, bool) is not isinstance(value, bool):
        return False
    if isinstance(wanted, str) and isinstance(value, str):
        return str(wanted) == str(value)
    return wanted == value


class ValueReader:
    """A parser of expected values, which uses the attribute types of a program's events.

    `unit`: the unit of a time that is written as a bare number, in microseconds.
    """

    def __init__(self, prefixes: Iterable[tuple[str, str]], unit: Fraction | None, tolerance: float) -> None:
        self.prefixes, self.unit, self.tolerance = dict(prefixes), unit, tolerance

    def event(self, expectation: Expectation, schema: Schema) -> Wanted:
        """Parse the expected values of an event.

        Raises CepError if an attribute is unknown, or if a value does not have the attribute's type.
        """
        return self._wanted(expectation, schema, TIMES)

    def interval(self, expectation: Expectation, schema: Schema) -> Wanted:
        """Parse the expected values of a fluent's interval.

        Raises CepError if an attribute is unknown, or if a value does not have the attribute's type.
        """
        return self._wanted(expectation, schema, HOLDS_TIMES)

    def _wanted(self, expectation: Expectation, schema: Schema, times: Mapping[str, tuple[int, ...]]) -> Wanted:
        places = {attribute.name: FIRST + place for place, attribute in enumerate(schema.attributes)}
        values: dict[int, EventValue] = {}
        with mistakes_together() as wrong:
            for name, (key, value) in expectation.values.items():
                with wrong.kept():
                    values |= self._attribute(name, key, value, schema, places, times)
        return Wanted(expectation, values, self.tolerance)

    def _attribute(
        self,
        name: str,
        key: Value,
        value: Value,
        schema: Schema,
        places: Mapping[str, int],
        times: Mapping[str, tuple[int, ...]],
    ) -> dict[int, EventValue]:
        """Parse one expected value. Return it by the index of its column in a row. A `time` is returned for two
        columns, the start and the end.

        Raises CepError if the attribute is unknown, or if the value does not have the attribute's type.
        """
        if name in places:
            return {places[name]: self.value(value, schema.attributes[places[name] - FIRST])}
        if name in times:
            time = None if value.scalar is None else value.read(self.time, "a time, e.g. `2024-05-01 08:10`")
            return dict.fromkeys(times[name], time)
        if name == "bounds" and times is HOLDS_TIMES:
            return {FIRST + len(places): self._bounds(value)}
        names = [*places, *times]
        listed = ", ".join(f"`{name}`" for name in names)
        key.fail(f"`{schema.name}` has no attribute `{name}`", did_you_mean(name, names) or f"it has {listed}")

    def time(self, text: str) -> int:
        return read_instant(text, self.unit)

    def _bounds(self, value: Value) -> str:
        text = value.word("the bounds of an interval")
        if text not in BOUNDS:
            value.fail(
                f"`{text}` are not the bounds of an interval",
                f"use one of {', '.join(f'`{bound}`' for bound in BOUNDS)}",
            )
        return text

    def value(self, value: Value, attribute: Attribute) -> EventValue:
        """Convert an expected value to the type of an attribute. Raises CepError if this is not possible."""
        scalar = value.scalar
        if value.mapping is not None or value.items is not None:
            value.fail(f"`{attribute.name}` is one value, found {value.kind}")
        if scalar is None:
            return None
        match attribute.type:
            case "string":
                return value.word("a text")
            case "int" if isinstance(scalar, int) and not isinstance(scalar, bool):
                return scalar
            case "float" if isinstance(scalar, int | float) and not isinstance(scalar, bool):
                return float(scalar)
            case "bool" if isinstance(scalar, bool):
                return scalar
            case "time":
                return value.read(self.time, "a time, e.g. `2024-05-01 08:10`")
            case "duration":
                return value.read(of_duration, "a duration, e.g. `15 min`")
            case "iri":
                return self._iri(value)
            case "any" | "unknown":
                return scalar
        value.fail(f"`{attribute.name}` is of type {attribute.type}, but this is {value.kind}")

    def _iri(self, value: Value) -> Iri:
        text = value.word("an IRI").removeprefix("<").removesuffix(">")
        prefix, colon, local = text.partition(":")
        if not colon:
            value.fail(f"`{text}` is not an IRI", "`<http://example.org/pump>`, or with a prefix of the program")
        base = None if local.startswith("//") else namespace(prefix, self.prefixes)
        return Iri(text if base is None else base + local)


@dataclass(frozen=True, slots=True)
class Matched:
    """The result of matching: the expectations that no row satisfies, and the rows that no expectation matches."""

    missing: tuple[Wanted, ...]
    unexpected: tuple[Row, ...]


def match(wanted: Sequence[Wanted], rows: Sequence[Row]) -> Matched:
    """Match as many expectations and rows as possible, one to one. Source: augmenting paths (Berge 1957)."""
    fits = [[place for place, row in enumerate(rows) if expected.matches(row)] for expected in wanted]
    owner: dict[int, int] = {}  # by row, the expectation that is matched with it
    for number in range(len(wanted)):
        _augment(number, fits, owner)
    having = set(owner.values())
    return Matched(
        tuple(expected for number, expected in enumerate(wanted) if number not in having),
        tuple(row for place, row in enumerate(rows) if place not in owner),
    )


def _augment(first: int, fits: Sequence[Sequence[int]], owner: dict[int, int]) -> bool:
    """Assign a row to the expectation `first`, and reassign other expectations if necessary (an augmenting path).
    Returns False if this is impossible.

    - `fits`: for each expectation, the rows that satisfy it.
    - `owner`: for each row, the expectation to which it is assigned.
    """
    seen: set[int] = set()
    stack = [(first, iter(fits[first]))]
    taken: list[int] = []
    while stack:
        _, choices = stack[-1]
        row = next((choice for choice in choices if choice not in seen), None)
        if row is None:
            stack.pop()
            if taken:
                taken.pop()
            continue
        seen.add(row)
        taken.append(row)
        if row not in owner:
            owner |= {place: expected for (expected, _), place in zip(stack, taken)}
            return True
        stack.append((owner[row], iter(fits[owner[row]])))
    return False


def same_rows(rows: Counter[Row], other: Counter[Row], tolerance: float) -> bool:
    """Return True if two bags of rows are equal. Floats may differ by the relative tolerance."""
    if rows == other:
        return True
    if rows.total() != other.total():
        return False
    wanted = [Wanted(None, dict(enumerate(row)), tolerance) for row in (rows - other).elements()]
    left = match(wanted, sorted_rows(other - rows))
    return not left.missing and not left.unexpected


def nearest(wanted: Wanted, rows: Sequence[Row]) -> Row | None:
    """Return the row that differs least from an expectation. Returns None if there are no rows."""
    return min(rows, key=wanted.distance, default=None)
