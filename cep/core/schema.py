"""What an event's occurrences look like: attribute names, types, ranges, and the columns they come from."""

from __future__ import annotations

from dataclasses import dataclass

CODED = ("string", "iri", "any")
"""The types whose values are held as codes of the pool (`cep.core.values`); the others are their own bits."""
ARRIVAL, TIE = "@order", "@tie"
"""Columns of a table besides its attributes, whose names have no `@`: a row's position in the input, and its place
among what one engine gave at once."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """`type` is int float string bool iri time duration or any (of an undeclared event).

    `low` and `high` bound the value, both included; microseconds for times and durations. `source` is the column
    it comes from, None: the one of its own name. `iri`: the property that it is in RDF.
    """

    name: str
    type: str
    optional: bool = False
    low: int | float | None = None
    high: int | float | None = None
    source: str | None = None
    iri: str | None = None


@dataclass(frozen=True, slots=True)
class Schema:
    """An event's attributes in order. `point`: every occurrence is an instant.

    `time`, or `start` and `end`, name the columns that hold the times, None: `time`, `start`, `end` themselves.
    `iri`: the class of its occurrences in RDF.
    """

    name: str
    attributes: tuple[Attribute, ...]
    declared: bool
    point: bool
    time: str | None = None
    start: str | None = None
    end: str | None = None
    iri: str | None = None
