"""Retention: expired occurrences are removed in small steps, so that additions can be written between the steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import pyoxigraph as ox

from cep.connectors.rdf.quad_writer import QuadWriter
from cep.connectors.rdf.time_tree import BEGINNING, CONTAINS, END, HERE, INSIDE, TimeTree
from cep.connectors.rdf.vocabulary import PROV

_STEP = 50  # ends of events per step, about 5 ms of CPU
_DERIVED = ox.NamedNode(PROV + "wasDerivedFrom")


class Retention:
    """A remover of expired occurrences. It removes all occurrences that end in the same minute together.

    It processes each minute only once, because occurrences that have expired already are never added.
    """

    def __init__(self, writer: QuadWriter, spans: TimeTree) -> None:
        self._writer, self._store, self._spans = writer, writer.store, spans
        self._swept = ""
        self.forgotten: Callable[[Iterable[Any]], None] = lambda instants: None  # removes data that depends on instants

    def steps(self, until: str) -> Iterator[int]:
        """Remove the occurrences that end before the minute of `until` (the text of an instant), in small steps.

        After each step, yield the number of occurrences that it removed.
        """
        for hour in self._spans.hours(self._swept, until):
            for span in (hour, *self._spans.within(hour)):  # in old stores, hours contain instants
                name = self._spans.name(span)
                if self._swept[: len(name)] <= name < until[: len(name)]:
                    ends = self._ends(span)
                    while some := list(islice(ends, _STEP)):
                        events = [event for _, event in some if event is not None]
                        instants = dict.fromkeys(instant for instant, _ in some)
                        self.forgotten(instants)
                        self.drop(events, instants)
                        yield len(events)
                    self._tidy(span)
        self._swept = max(self._swept, until[:16])

    def _ends(self, span: ox.NamedNode) -> Iterator[tuple[Any, Any]]:
        """Yield (instant, None) for each instant in a span, and (instant, occurrence) for each end of an occurrence."""
        for inside in self._store.quads_for_pattern(span, INSIDE, None, HERE):
            yield inside.object, None
            for ended in self._store.quads_for_pattern(None, END, _named(inside.object), HERE):
                yield inside.object, ended.subject

    def drop(self, events: Sequence[Any], instants: Iterable[Any] = (), times: bool = True) -> None:
        """Remove all triples of the occurrences `events`.

        If a record was stored only as a constituent of these occurrences, remove it too. If `times` is True, also
        remove the instants at which the occurrences begin or end. `instants`: further instants to remove. An instant
        remains if another occurrence refers to it.
        """
        going = set(events)
        quads = [q for event in going for q in self._store.quads_for_pattern(event, None, None, HERE)]
        constituents = dict.fromkeys(quad.object for quad in quads if quad.predicate == _DERIVED)
        own = [q.object for q in quads if q.predicate in (BEGINNING, END)] if times else []
        free = [
            instant
            for instant in dict.fromkeys([*instants, *own])
            if not self._needed(instant, (BEGINNING, END), going)
        ]
        inside = [q for instant in free for q in self._store.quads_for_pattern(None, INSIDE, instant, HERE)]
        quads += [q for constituent in constituents for q in self._only_named(constituent, going)]
        quads += [*inside, *(q for instant in free for q in self._store.quads_for_pattern(instant, None, None, HERE))]
        self._writer.remove_triples(quads)
        for span in dict.fromkeys(quad.subject for quad in inside):
            self._tidy(span)

    def _only_named(self, constituent: Any, going: Collection[Any]) -> list[ox.Quad]:
        """Return the triples of a record that was stored only because it is a constituent of the occurrences `going`.

        Return an empty list if the store also contains the record for its own sake (with an end), or if another
        occurrence was derived from it.
        """
        quads = list(self._store.quads_for_pattern(constituent, None, None, HERE))
        if any(quad.predicate == END for quad in quads) or self._needed(constituent, (_DERIVED,), going):
            return []
        return quads

    def _needed(self, term: Any, properties: Sequence[ox.NamedNode], going: Collection[Any]) -> bool:
        """Return True if a subject that is not in `going` has `term` as the value of one of the properties."""
        users = (
            quad.subject
            for property in properties
            for quad in self._store.quads_for_pattern(None, property, term, HERE)
        )
        return any(user not in going for user in users)

    def _tidy(self, span: Any) -> None:
        for property in (INSIDE, CONTAINS):
            if next(self._store.quads_for_pattern(span, property, None, HERE), None) is not None:
                return
        around = self._spans.around(span)
        self._writer.remove([ox.Quad(around, CONTAINS, span)])
        if around != self._spans.days:
            self._tidy(around)


def _named(term: Any) -> ox.NamedNode:
    assert isinstance(term, ox.NamedNode), "instants have names"
    return term
