"""Selectivity: a query begins with the variables that have few values, and finds its events by these.

Of a million events of five thousand stations a query wants those of the ten of which it is known where they are.
Oxigraph does not know how often a property is there, and may begin with the events; given the values that a variable
can have at all, it begins with these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import pyoxigraph as ox

from cep.connectors.rdf.query_parts import Link, QueryParts
from cep.connectors.rdf.time_tree import HERE, count_matches

_RARE, _NAMED = 500, 2_000  # triples that are few; with a value that the query names


Few = Mapping[str, Sequence[Any]]
"""All values that variables can have (and what is blank, as a Link names it) of which there are few."""


@dataclass(frozen=True, slots=True)
class Selective:
    """The start of a query (named as in a Link), with all its possible values and the number of events they lead to."""

    start: str
    values: Sequence[Any]
    events: int

    def written(self, query: QueryParts) -> str:
        """The query that begins so; as it is where a value has no name, or what has it is no variable."""
        named = self.start.startswith("?") and not any(isinstance(value, ox.BlankNode) for value in self.values)
        return query.among(self.start, map(str, self.values)) if named else query.text


def rare(store: ox.Store, query: QueryParts, time: str, few: Few, most: int) -> Selective | None:
    """By what the fewest events are found; None: by all there is they are more than `most`. `time`: a variable."""
    events = query.events(time)
    found = [Selective(event, few[event], len(few[event])) for event in events if event in few]
    for link in query.links:
        if link.subject in events and link.object in few and link.object not in events:
            named = " ".join(str(value) for value in few[link.object] if not isinstance(value, ox.BlankNode))
            leads = count_matches(store, f"VALUES ?value {{ {named} }} ?event {link.property} ?value", most + 1)
            found.append(Selective(link.object, few[link.object], leads))
    return min((one for one in found if one.events <= most), key=lambda one: (one.events, one.start), default=None)


def scarce(store: ox.Store, links: Sequence[Link]) -> Few:
    """The variables that have few values, and these: from rare properties, and from triples of what is rare."""
    few: dict[str, Sequence[Any]] = {}
    for link in links:
        most = _RARE if link.value is None else _NAMED
        if count_matches(store, f"?subject {link.property} {link.value or '?object'}", most + 1) <= most:
            quads = list(store.quads_for_pattern(None, link.property, link.value, HERE))
            _fewer(few, link.subject, [quad.subject for quad in quads])
            _fewer(few, link.object, [quad.object for quad in quads])
    for _ in links:  # one may lead to the next
        for link in links:
            if link.object and link.subject in few and len(few[link.subject]) <= _RARE:
                said = (store.quads_for_pattern(term, link.property, None, HERE) for term in few[link.subject])
                quads = list(islice(chain.from_iterable(said), _RARE + 1))
                if len(quads) <= _RARE:
                    _fewer(few, link.object, [quad.object for quad in quads])
    return few


def _fewer(few: dict[str, Sequence[Any]], name: str, terms: Sequence[Any]) -> None:
    """Keep the smaller set of values if two triples restrict the same name."""
    some = sorted(set(terms), key=str)
    if name and (name not in few or len(some) < len(few[name])):
        few[name] = some
