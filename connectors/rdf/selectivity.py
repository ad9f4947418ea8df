"""Selectivity: a query starts from variables that have few values, and reaches occurrences through these values.

For example, a query asks for the occurrences at stations that have a known place, and there are ten such stations.
Oxigraph does not know how frequent a property is, and may start from a million occurrences. If the query lists the ten
stations, Oxigraph starts from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import pyoxigraph as ox

from cep.connectors.rdf.query_parts import Link, QueryParts
from cep.connectors.rdf.time_tree import HERE, count_matches

_RARE, _NAMED = 500, 2_000  # the maximum number of rare triples; the same with a constant object


Few = Mapping[str, Sequence[Any]]
"""The variables of a query that have few values, each with all its values. A blank node of the query counts as a
variable. Variables are written as in `Link.subject`."""


@dataclass(frozen=True, slots=True)
class Selective:
    """A variable from which the evaluation of a query can start.

    - `start`: the variable, written as in `Link.subject`.
    - `values`: all values of the variable.
    - `events`: the number of occurrences that are connected to these values.
    """

    start: str
    values: Sequence[Any]
    events: int

    def written(self, query: QueryParts) -> str:
        """Return the query with a list (`VALUES`) of the variable's values. Return the query unchanged if the variable
        or a value is a blank node."""
        named = self.start.startswith("?") and not any(isinstance(value, ox.BlankNode) for value in self.values)
        return query.among(self.start, map(str, self.values)) if named else query.text


def rare(store: ox.Store, query: QueryParts, time: str, few: Few, most: int) -> Selective | None:
    """Return the variable whose values are connected to the fewest occurrences. `time`: the variable of their time.

    Return None if the values of every variable are connected to more than `most` occurrences.
    """
    events = query.events(time)
    candidates = [Selective(event, few[event], len(few[event])) for event in events if event in few]
    for link in query.links:
        if link.subject in events and link.object in few and link.object not in events:
            named = " ".join(str(value) for value in few[link.object] if not isinstance(value, ox.BlankNode))
            leads = count_matches(store, f"VALUES ?value {{ {named} }} ?event {link.property} ?value", most + 1)
            candidates.append(Selective(link.object, few[link.object], leads))
    return min(
        (candidate for candidate in candidates if candidate.events <= most),
        key=lambda candidate: (candidate.events, candidate.start),
        default=None,
    )


def scarce(store: ox.Store, links: Sequence[Link]) -> Few:
    """Return the variables that have few values, with these values.

    A variable has few values if few triples match its triple pattern. The object of a pattern also has few values if
    the subject has few values, and few triples of the property begin with these.
    """
    few: dict[str, Sequence[Any]] = {}
    for link in links:
        most = _RARE if link.value is None else _NAMED
        if count_matches(store, f"?subject {link.property} {link.value or '?object'}", most + 1) <= most:
            quads = list(store.quads_for_pattern(None, link.property, link.value, HERE))
            _fewer(few, link.subject, [quad.subject for quad in quads])
            _fewer(few, link.object, [quad.object for quad in quads])
    for _ in links:  # a variable may restrict the next one
        for link in links:
            if link.object and link.subject in few and len(few[link.subject]) <= _RARE:
                said = (store.quads_for_pattern(term, link.property, None, HERE) for term in few[link.subject])
                quads = list(islice(chain.from_iterable(said), _RARE + 1))
                if len(quads) <= _RARE:
                    _fewer(few, link.object, [quad.object for quad in quads])
    return few


def _fewer(few: dict[str, Sequence[Any]], name: str, terms: Sequence[Any]) -> None:
    some = sorted(set(terms), key=str)
    if name and (name not in few or len(some) < len(few[name])):
        few[name] = some
