"""Schemas of events: the names, types and ranges of their attributes, and the input columns to read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cep.core.fluents import FluentTable

CODED = ("string", "iri", "any")
"""The types whose values are stored as codes of the pool (see `cep.core.values`). Values of other types are stored
directly."""
ARRIVAL, TIE = "@order", "@tie"
"""Columns of a table that are not attributes. The names of attributes contain no `@`.

ARRIVAL is a row's position in the input. TIE is its position among the rows that an engine returned in one step.
"""
NUMBER = "@number"
"""A column of tables that stages exchange. It contains, for each row, the number of equal occurrences before it."""
CHANGE = "@change"
"""The column that says how a row changes its table: 1 for an added row, -1 for a withdrawn one."""


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """The format of times: a `pattern` of strptime directives, or counts of a `unit` (`s` `ms` `us` `ns`) since 1970.

    Without either, times are in ISO 8601 or numbers of seconds. Durations are counts of a unit.

    - `zone`: the time zone of times without an offset. None means UTC.
    - `fold`: the choice between the two instants of a local time that occurs twice. It is `earlier`, `later`, or
      `order`, which chooses the instant that fits the order of the records. None means `earlier`.
    """

    pattern: str | None = None
    unit: str | None = None
    zone: str | None = None
    fold: str | None = None

    @property
    def later(self) -> bool:
        return self.fold == "later"


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """The format of an event's records, and its options: `csv(separator: ";")`."""

    name: str
    options: tuple[tuple[str, str], ...] = ()

    def option(self, name: str) -> str | None:
        return next((value for key, value in self.options if key == name), None)


@dataclass(frozen=True, slots=True)
class RecordTest:
    """A test of the value at `source` in a record.

    `operator`: `exists`, `not exists`, or a comparison with `values`. Only `in` and `not in` may have several values. A
    missing value passes only `not exists`. The values in `missing` count as missing.
    """

    source: str
    operator: str
    values: tuple[int | float | str | bool, ...] = ()
    missing: tuple[int | float | str, ...] = field(default=(), compare=False)


When = tuple[tuple[RecordTest, ...], ...]
"""Alternative groups of tests. A record passes if it passes all tests of at least one group."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of an event. `type`: int, float, string, bool, iri, time, duration, or any (of an undeclared event).

    - `low`, `high`: the least and the greatest value that is allowed, in microseconds for times and durations.
    - `source`: the input column. If it is None, it has the attribute's name.
    - `iri`: the RDF property.
    - `format`: the format of a time or a duration.
    - `missing`: numbers and texts that mean a missing value.
    - `quoted`: True if numbers may be in quotes.

    `==` ignores `format`, `missing` and `quoted`.
    """

    name: str
    type: str
    optional: bool = False
    low: int | float | None = None
    high: int | float | None = None
    source: str | None = None
    iri: str | None = None
    format: TimeFormat | None = field(default=None, compare=False)
    missing: tuple[int | float | str, ...] | None = field(default=None, compare=False)
    quoted: bool = field(default=False, compare=False)

    @property
    def lacking(self) -> str:
        """The message about a record that lacks this value. It names the column or path if that differs from the
        attribute."""
        where = "" if self.source is None or self.source == self.name else f": there is no value at `{self.source}`"
        return f"`{self.name}` is missing{where}"


@dataclass(frozen=True, slots=True)
class Schema:
    """An event's attributes in order, and how to read its records.

    - `point`: True if every occurrence is an instant.
    - `time`, or `start` and `end`: the input columns of times. None means columns of these names.
    - `further`: further columns that contain parts of the time. All texts are joined with blanks.
    - `iri`: the class of its occurrences in RDF.
    - `format`: the format of times. `records`: the format of records.
    - `fluent`: None for an event, otherwise the form of the fluent's table: intervals, or beginnings and ends.
    - `key`: the attributes of the KEY. A later record that has the same key and time replaces an earlier one.
    - `when`: the tests that select the records of this event. If it is None, each record contains the name of its
      event.
    - `strict`: True if a record that belongs to no event becomes a dead letter.
    - `distinct`: True if equal records count as one occurrence.
    """

    name: str
    attributes: tuple[Attribute, ...]
    declared: bool
    point: bool
    time: str | None = None
    start: str | None = None
    end: str | None = None
    iri: str | None = None
    further: tuple[str, ...] = field(default=(), compare=False)
    format: TimeFormat | None = field(default=None, compare=False)
    records: RecordFormat | None = field(default=None, compare=False)
    fluent: FluentTable | None = field(default=None, metadata={"later": True})
    key: tuple[str, ...] | None = field(default=None, compare=False)
    when: When | None = field(default=None, metadata={"later": True})
    strict: bool = field(default=False, compare=False)
    distinct: bool = field(default=False, compare=False)

    @property
    def tested(self) -> tuple[str, ...]:
        """The sources that WHEN tests, each once."""
        return tuple(dict.fromkeys(test.source for tests in self.when or () for test in tests))

    @property
    def shown(self) -> tuple[Attribute, ...]:
        """The attributes as messages show them. If the event is undeclared, none is marked as optional."""
        return (
            self.attributes
            if self.declared
            else tuple(replace(attribute, optional=False) for attribute in self.attributes)
        )

    @property
    def key_places(self) -> tuple[int, ...] | None:
        """The positions of the KEY's attributes, or None if the event has no KEY."""
        if self.key is None:
            return None
        names = [attribute.name for attribute in self.attributes]
        return tuple(map(names.index, self.key))
