"""Evaluation of queries by Oxigraph. A query that limits times is first rewritten, so that it uses the time index."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import pyoxigraph as ox

from cep.connectors.rdf.distance_filters import near
from cep.connectors.rdf.question import GRAPHS, RESULTS, Answer, QueryRefused, Question
from cep.connectors.rdf.time_index import Rewritten, TimeIndex
from cep.connectors.rdf.vocabulary import DISTANCE
from cep.rules.expressions.geodesy import geod


def evaluate(store: ox.Store, question: Question, recent: TimeIndex | None = None) -> Answer:
    """Evaluate a query. `recent`: the time index; None evaluates the query without it.

    Raise QueryRefused if the query is invalid or fails, or if its answer is too large or takes too long.
    """
    until = time.monotonic() + question.seconds
    try:
        whole = question.default is None and question.named is None
        with suppress(SyntaxError):  # then evaluate the original query, whose error has the right position
            for rewritten in recent.rewritten(question) if recent is not None and whole else ():
                if rewritten.enough is None or _filled(store, question, rewritten):
                    return _answer(store, question, rewritten.text, until)
        return _answer(store, question, question.text, until)
    except SyntaxError as error:
        raise QueryRefused("syntax", str(error)) from None
    except (ValueError, RuntimeError, OSError) as error:
        raise QueryRefused("failed", str(error)) from None


def _filled(store: ox.Store, question: Question, tried: Rewritten) -> bool:
    """Return True if the restricted query `tried` returns enough rows. Then the whole query returns the same rows."""
    rows: Iterable[Any] = _found(store, question, tried.text)
    return sum(1 for _ in rows) == tried.enough


def _answer(store: ox.Store, question: Question, text: str, until: float) -> Answer:
    out: Any = _Bounded(question.bytes, until)
    solutions = _found(store, question, text)
    if isinstance(solutions, ox.QueryTriples):
        names = {name: iri for name, iri in question.prefixes if name}
        format, kind = question.graph, GRAPHS[question.graph]
        ox.serialize(solutions, out, kind, prefixes=names if question.graph == "ttl" else None)
    else:
        format = question.table
        solutions.serialize(out, RESULTS[question.table])
    return Answer(format, b"".join(out.parts))


def _found(store: ox.Store, question: Question, text: str) -> Any:
    graphs: dict[str, Any] = {}
    if question.default is not None or question.named is not None:
        graphs["default_graph"] = [ox.NamedNode(iri) for iri in question.default or ()]
        graphs["named_graphs"] = [ox.NamedNode(iri) for iri in question.named or ()]
    names = dict(question.prefixes)
    with suppress(SyntaxError):  # then evaluate the original query, whose error has the right position
        return store.query(near(text, names), prefixes=names, custom_functions=_FUNCTIONS, **graphs)
    return store.query(text, prefixes=names, custom_functions=_FUNCTIONS, **graphs)


class _Bounded(io.RawIOBase):
    """A buffer for output, with a limit on its size and on the time until it is complete."""

    def __init__(self, most: int, until: float) -> None:
        super().__init__()
        self.parts: list[bytes] = []
        self._size = 0
        self._most, self._until = most, until

    def write(self, data: Any) -> int:
        self._size += len(data)
        if self._size > self._most:
            raise QueryRefused("large", f"the answer has more than {self._most:,} bytes; a LIMIT makes it smaller")
        if time.monotonic() > self._until:
            raise QueryRefused("slow", "the query exceeded its time limit")
        self.parts.append(bytes(data))
        return len(data)


def _distance(*terms: Any) -> ox.Literal | None:
    """Return the distance of two places in metres on the earth's ellipsoid. Rules compute distances in the same way.

    `terms`: latitude, longitude, latitude, longitude. Return None if the terms are not the coordinates of two places.
    """
    try:
        lat, long, other_lat, other_long = (float(term.value) for term in terms)
        metres = float(geod().inv(long, lat, other_long, other_lat)[2])
    except (ValueError, AttributeError):
        return None
    return ox.Literal(metres) if math.isfinite(metres) else None


_FUNCTIONS: dict[ox.NamedNode, Callable[..., Any]] = {ox.NamedNode(DISTANCE): _distance}
