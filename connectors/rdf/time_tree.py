"""A tree of days, hours and minutes above the instants in the store. Queries use it to find occurrences by time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyoxigraph as ox

from cep.connectors.rdf.vocabulary import TIME, EventVocabulary

INSIDE, CONTAINS = ox.NamedNode(TIME + "inside"), ox.NamedNode(TIME + "intervalContains")
BEGINNING, END = ox.NamedNode(TIME + "hasBeginning"), ox.NamedNode(TIME + "hasEnd")
STAMP = ox.NamedNode(TIME + "inXSDDateTimeStamp")
HERE = ox.DefaultGraph()


def count_matches(store: ox.Store, pattern: str, most: int) -> int:
    """Count the matches of a pattern, but stop at `most`. The matches themselves are not read."""
    solutions: Any = store.query(f"SELECT (COUNT(*) AS ?n) {{ SELECT * {{ {pattern} }} LIMIT {most} }}")
    return int(next(solutions)["n"].value)


class TimeTree:
    """A tree of spans of time in a store. Days contain hours, hours contain minutes, and minutes contain instants."""

    def __init__(self, store: ox.Store, vocabulary: EventVocabulary) -> None:
        self._store, self._vocabulary = store, vocabulary
        self.days = ox.NamedNode(vocabulary.days)

    def hours(self, since: str = "", until: str = "~", down: bool = False) -> Iterator[ox.NamedNode]:
        """Yield the hours in which occurrences begin or end, in order of time.

        `since`, `until`: the texts of two instants. Hours outside of the time between these instants are left out.
        `down`: True for reverse order.
        """
        for day in self.within(self.days, down):
            if since[:10] <= day.value[-10:] <= until:
                for hour in self.within(day, down):
                    if since[:13] <= hour.value[-13:] <= until:
                        yield hour

    def within(self, span: ox.NamedNode, down: bool = False) -> list[Any]:
        """Return the spans directly inside a larger span, in order of time. `down`: True for reverse order."""
        terms = (quad.object for quad in self._store.quads_for_pattern(span, CONTAINS, None, HERE))
        return sorted(terms, key=lambda term: term.value, reverse=down)

    def around(self, span: ox.NamedNode) -> ox.NamedNode:
        """Return the next larger span: the hour of a minute, the day of an hour, or the root for a day."""
        return self.days if "T" not in self.name(span) else ox.NamedNode(span.value[:-3])

    def name(self, span: ox.NamedNode) -> str:
        """Return the name of a span, such as `2013-02-08T21:05`, `2013-02-08T21` or `2013-02-08`."""
        return span.value.removeprefix(self._vocabulary.hour())
