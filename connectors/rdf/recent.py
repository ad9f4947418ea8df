"""The index of time: a query that asks for a range of times, or for the newest, asks the spans of these alone.

Each instant is inside one minute, each minute in an hour, each hour in a day; so a query over the instants of all spans
that a range touches has the rows of the query over all of them, each as often. Where instants are told of that are in
no minute (of the knowledge, or of another way to write them), nothing is said, and the query is evaluated as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import pyoxigraph as ox

from connectors.rdf.question import Question
from connectors.rdf.ranges import Order, Range, Timed, timed
from connectors.rdf.spans import CONTAINS, HERE, INSIDE, Spans

_MINUTES, _HOURS = 240, 240  # spans of a kind that are asked for; of more, the next larger ones
_FEW = 2_000  # what a pattern may find for the query to be quick as it stands
_LOOKED = 20_000  # instants of a range that are counted against what a pattern finds
_LONGEST = 5_000  # minutes that a query is given
_FIRST, _MORE, _MOST = 50, 16, 200_000  # instants looked at for the newest rows; how many times more; where it ends
_INTO = [f"^{INSIDE}", f"^{INSIDE}/^{CONTAINS}", f"^{INSIDE}/^{CONTAINS}/^{CONTAINS}"]  # minutes, hours, days


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A query over a part of the events. `enough`: with so many rows it has those of the whole; None: it has them."""

    text: str
    enough: int | None = None


class Recent:
    """The index of a store."""

    def __init__(self, store: ox.Store, spans: Spans) -> None:
        self._store, self._spans = store, spans

    def whole(self) -> bool:
        """Whether all instants are in minutes, in days whose names are in order of time."""
        named = all(
            re.fullmatch(r"\d{4}-\d\d-\d\d", self._spans.name(day)) for day in self._spans.within(self._spans.days)
        )
        return named and not any(self._inside(hour, 1) for hour in self._spans.hours())  # as they were once

    def rewritten(self, question: Question) -> Iterator[Rewritten]:
        """What can be asked instead, in turn, until one has enough."""
        found = timed(question.text, dict(question.prefixes))
        if found is None:
            return
        if found.order is not None and found.order.variable in found.stamps:
            yield from self._newest(found, found.order)
            return
        bound = [name for name in found.stamps if found.ranges.get(name, Range()) != Range()]
        bound.sort(key=lambda name: found.ranges[name].since is None)
        if bound:
            yield from self._within(found, bound[0])

    def _within(self, found: Timed, variable: str) -> Iterator[Rewritten]:
        """All that is in a range."""
        asked = found.ranges[variable]
        spans = self._hours(asked, False)
        hours = list(islice(spans, _HOURS + 1))
        instants = (1 for hour in hours for minute in self._minutes(hour, asked) for _ in range(self._inside(minute)))
        if self._found(found, sum(islice(instants, _LOOKED))):
            return
        if len(hours) <= _HOURS:
            minutes = [minute for hour in hours[: _MINUTES // 60 + 1] for minute in self._minutes(hour, asked)]
            some, path = (minutes, _INTO[0]) if len(hours) <= _MINUTES // 60 else (hours, _INTO[1])
        else:
            some, path = list({self._spans.around(hour): None for hour in [*hours, *spans]}), _INTO[2]
        yield Rewritten(found.restricted(variable, path, map(str, some)))

    def _newest(self, found: Timed, order: Order) -> Iterator[Rewritten]:
        """The spans at one end, more and more of them."""
        wanted = order.limit + order.offset
        if wanted > _MOST // _MORE or self._found(found, _FEW):
            return
        asked = found.ranges.get(order.variable, Range())
        minutes: list[str] = []
        instants, goal = 0, max(_FIRST, 4 * wanted)
        for hour in self._hours(asked, order.down):
            for minute in self._minutes(hour, asked, order.down):
                minutes.append(str(minute))
                if len(minutes) > _LONGEST:
                    return
                instants += self._inside(minute, _MOST)
                if instants >= goal:
                    yield Rewritten(found.restricted(order.variable, _INTO[0], minutes), order.limit)
                    goal = instants * _MORE
                    if goal > _MOST:
                        return
        yield Rewritten(found.restricted(order.variable, _INTO[0], minutes))

    def _found(self, found: Timed, fewer: int) -> bool:
        """Whether a pattern that names a property and a value finds fewer: then the query begins with that."""
        for property, value in found.constants:
            if len(list(islice(self._store.quads_for_pattern(None, property, value, HERE), fewer))) < fewer:
                return True
        return False

    def _inside(self, span: ox.NamedNode, most: int = _LOOKED) -> int:
        return sum(1 for _ in islice(self._store.quads_for_pattern(span, INSIDE, None, HERE), most))

    def _hours(self, asked: Range, down: bool) -> Iterator[ox.NamedNode]:
        return self._spans.hours(asked.since or "", asked.until or "~", down)

    def _minutes(self, hour: ox.NamedNode, asked: Range, down: bool = False) -> Iterable[ox.NamedNode]:
        since, until = asked.since or "", asked.until or "~"
        return [each for each in self._spans.within(hour, down) if since <= self._spans.name(each) <= until]
