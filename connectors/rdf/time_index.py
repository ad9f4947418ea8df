"""The time index. With it, a query for a range of times or for the newest occurrences reads only some hours or minutes.

Each instant is in one minute, each minute in an hour, and each hour in a day. So a query can be restricted to the
minutes, hours or days that its range touches. The result keeps the same rows, and the same number of copies of each
row. If an instant is outside of all minutes, queries are evaluated without the index. The knowledge may contain such
instants.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyoxigraph as ox

from cep.connectors.rdf.place_index import PlaceIndex
from cep.connectors.rdf.query_parts import Order, QueryParts, Range
from cep.connectors.rdf.question import Question
from cep.connectors.rdf.ranges import timed
from cep.connectors.rdf.selectivity import Few, rare, scarce
from cep.connectors.rdf.time_tree import CONTAINS, INSIDE, TimeTree, count_matches

_MINUTES, _HOURS = 240, 240  # the maximum spans in a query; beyond it, larger spans are used
_BY = 50_000  # the maximum number of events reached from rare values
_LOOKED = 20_000  # the maximum count of instants, for a comparison with matches of a pattern
_LONGEST = 5_000  # the maximum number of minutes in a query
_FIRST, _MORE, _MOST = 50, 16, 200_000  # instants for the newest rows: first try, factor of the next, limit
_INTO = [f"^{INSIDE}", f"^{INSIDE}/^{CONTAINS}", f"^{INSIDE}/^{CONTAINS}/^{CONTAINS}"]  # minutes, hours, days


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A query that reads a part of the occurrences.

    `enough`: if the query returns this number of rows, they are the rows of the whole query. If it is None, the query
    always returns the rows of the whole query.
    """

    text: str
    enough: int | None = None


class TimeIndex:
    def __init__(self, store: ox.Store, spans: TimeTree, grid: PlaceIndex | None = None) -> None:
        self._store, self._spans = store, spans
        self.grid = grid or PlaceIndex(store)

    def whole(self) -> bool:
        """Return True if the index can be used: each instant is in a minute, and the names of days sort by time.

        The result may be False for a store that an old version of this program wrote.
        """
        named = all(
            re.fullmatch(r"\d{4}-\d\d-\d\d", self._spans.name(day)) for day in self._spans.within(self._spans.days)
        )
        return named and not any(self._inside(hour, 1) for hour in self._spans.hours())  # old stores have these

    def rewritten(self, question: Question) -> Iterator[Rewritten]:
        """Yield restricted forms of a query, which the caller evaluates in turn until one returns enough rows."""
        query = timed(question.text, dict(question.prefixes))
        if query is None:
            return
        few = scarce(self._store, query.links)
        text = self.grid.among(query, few, self._rows)
        if text is not None:
            query = timed(text, dict(question.prefixes)) or query
        yield from self._of_times(query, few)
        if text is not None:
            yield Rewritten(text)

    def _rows(self, text: str) -> Iterable[Any]:
        query = timed(text, {})
        if query is not None:
            ways = self._of_times(query, scarce(self._store, query.links))
            text = next((rewritten.text for rewritten in ways if rewritten.enough is None), text)
        rows = self._store.query(text)
        assert isinstance(rows, ox.QuerySolutions), "it is a SELECT"
        return rows

    def _of_times(self, query: QueryParts, few: Few) -> Iterator[Rewritten]:
        if query.order is not None and query.order.variable in query.stamps:
            yield from self._newest(query, query.order, few)
            return
        bound = [name for name in query.stamps if query.ranges.get(name, Range()) != Range()]
        bound.sort(key=lambda name: query.ranges[name].since is None)
        if bound:
            yield from self._within(query, bound[0], few)

    def _within(self, query: QueryParts, variable: str, few: Few) -> Iterator[Rewritten]:
        """Yield one restricted form of a query, which reads only the range of a time variable."""
        times = query.ranges[variable]
        spans = self._hours(times, False)
        hours = list(islice(spans, _HOURS + 1))
        looked = [str(minute) for hour in hours for minute in self._minutes(hour, times)]
        instants = count_matches(
            self._store, f"VALUES ?minute {{ {' '.join(looked)} }} ?minute {INSIDE} ?instant", _LOOKED
        )
        if (begun := rare(self._store, query, variable, few, instants)) is not None:
            yield Rewritten(begun.written(query))
            return
        if len(hours) <= _HOURS:
            minutes = [minute for hour in hours[: _MINUTES // 60 + 1] for minute in self._minutes(hour, times)]
            some, path = (minutes, _INTO[0]) if len(hours) <= _MINUTES // 60 else (hours, _INTO[1])
        else:
            some, path = list({self._spans.around(hour): None for hour in [*hours, *spans]}), _INTO[2]
        yield Rewritten(query.restricted(variable, path, map(str, some)))

    def _newest(self, query: QueryParts, order: Order, few: Few) -> Iterator[Rewritten]:
        """Yield restricted forms of a query that requests the newest (or oldest) occurrences.

        The first form reads only the newest minutes. Each further form reads more minutes than the previous one.
        """
        times, name = query.ranges.get(order.variable, Range()), order.variable
        begun = rare(self._store, query, name, few, _BY)
        most = _MOST if begun is None else min(_MOST, begun.events // _MORE)
        minutes: list[str] = []
        instants, goal = 0, max(_FIRST, 4 * (order.limit + order.offset))
        spans = (minute for hour in self._hours(times, order.down) for minute in self._minutes(hour, times, order.down))
        while goal <= most:
            for minute in spans:
                minutes.append(str(minute))
                instants += self._inside(minute, _MOST)
                if instants >= goal or len(minutes) > _LONGEST:
                    break
            else:
                yield Rewritten(query.restricted(name, _INTO[0], minutes))
                return
            if len(minutes) > _LONGEST:
                break
            yield Rewritten(query.restricted(name, _INTO[0], minutes), order.limit)
            goal = instants * _MORE
        if begun is not None:
            yield Rewritten(begun.written(query))

    def _inside(self, span: ox.NamedNode, most: int = _LOOKED) -> int:
        return count_matches(self._store, f"{span} {INSIDE} ?instant", most)

    def _hours(self, times: Range, down: bool) -> Iterator[ox.NamedNode]:
        return self._spans.hours(times.since or "", times.until or "~", down)

    def _minutes(self, hour: ox.NamedNode, times: Range, down: bool = False) -> Iterable[ox.NamedNode]:
        since, until = times.since or "", times.until or "~"
        return [minute for minute in self._spans.within(hour, down) if since <= self._spans.name(minute) <= until]
