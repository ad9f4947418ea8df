"""Schemas of events: attribute names, types, ranges, and the columns they come from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cep.core.fluents import FluentTable

CODED = ("string", "iri", "any")
"""The types whose values are held as codes of the pool (`cep.core.values`); the others are their own bits."""
ARRIVAL, TIE = "@order", "@tie"
"""Columns of a table besides its attributes, whose names have no `@`: a row's position in the input, and its place
among what one engine gave at once."""
NUMBER = "@number"
"""In tables between stages: how many equal occurrences come before a row."""
CHANGE = "@change"
"""A further one: 1 where a row comes or is added, -1 where it is withdrawn."""


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """The format of times: a `pattern` of strptime's directives, or as counts of a `unit` (`s` `ms` `us` `ns`)
    since 1970; neither: in ISO 8601, or as numbers of seconds. Durations are counts of a unit.

    `zone`: of times without an offset, None: UTC. `fold`: which one of a time that the zone has twice is meant:
    `later`, `earlier` (None: likewise, and nobody has said so), or the one that follows from the order of the records
    (`order`).
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
    """The format of an event's records, with its options: `csv(separator: ";")`."""

    name: str
    options: tuple[tuple[str, str], ...] = ()

    def option(self, name: str) -> str | None:
        return next((value for key, value in self.options if key == name), None)


@dataclass(frozen=True, slots=True)
class RecordTest:
    """A test of the value that a record has at `source`. `operator`: `exists`, `not exists`, or a comparison with
    `values`: `in` and `not in` with several, the others with one. A missing value only passes `not exists`; so does one
    of `missing`."""

    source: str
    operator: str
    values: tuple[int | float | str | bool, ...] = ()
    missing: tuple[int | float | str, ...] = field(default=(), compare=False)


When = tuple[tuple[RecordTest, ...], ...]
"""Alternatives, each of tests that a record passes together."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """`type` is int float string bool iri time duration or any (of an undeclared event).

    `low` and `high` bound the value, both included; microseconds for times and durations. `source` is the column
    it comes from, None: the one of its own name. `iri`: the property that it is in RDF. `format`: how a time or a
    duration is written. `missing`: numbers and texts that stand for a missing value. `quoted`: numbers may stand in
    quotes. How records are written is no part
    of what an event is: it takes no part in equality.
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
        """The message about a record without its value; it ends with the column or path if that has another name."""
        where = "" if self.source is None or self.source == self.name else f": there is no value at `{self.source}`"
        return f"`{self.name}` is missing{where}"


@dataclass(frozen=True, slots=True)
class Schema:
    """An event's attributes in order. `point`: every occurrence is an instant.

    `time`, or `start` and `end`, name the columns that hold the times, None: `time`, `start`, `end` themselves.
    `iri`: the class of its occurrences in RDF. `further`: columns of the time that stand behind the first, with a blank
    between them. `format`: how the times are written; `records`: how the records are. `fluent`: it is no event
    but a fluent, or what is known of one. `key`: attributes of which a later record of the same values and time
    replaces the earlier one. `when`: which records are this event, whatever else they are; None: a record says it.
    `strict`: a record that is no event is a dead letter. `distinct`: equal records are one event.
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
        """The attributes as people read them: of an event that nobody declared none is said to be missing."""
        return self.attributes if self.declared else tuple(replace(each, optional=False) for each in self.attributes)

    @property
    def key_places(self) -> tuple[int, ...] | None:
        """The positions of the key's attributes, or None without a key."""
        if self.key is None:
            return None
        names = [attribute.name for attribute in self.attributes]
        return tuple(map(names.index, self.key))
