"""What is asked in SPARQL: knowledge and derived events in one Oxigraph store on disk, events for some time.

Imports little: it runs in a process of its own (connectors/rdf/worker.py).
"""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyoxigraph as ox

from cep.geodesy import geod
from connectors.rdf.words import DISTANCE, RDFS, TIME, Words

_INSIDE, _CONTAINS = ox.NamedNode(TIME + "inside"), ox.NamedNode(TIME + "intervalContains")
_BEGINNING, _END = ox.NamedNode(TIME + "hasBeginning"), ox.NamedNode(TIME + "hasEnd")
_MARK = ox.NamedNode(RDFS + "comment")
_HERE = ox.DefaultGraph()
_MANY = 6_000  # lines of a text from which on new files are faster than a transaction
_LOOSE = 1_000_000  # lines from which on files are merged, and half of all that was written

RESULTS = {
    "json": ox.QueryResultsFormat.JSON,
    "xml": ox.QueryResultsFormat.XML,
    "csv": ox.QueryResultsFormat.CSV,
    "tsv": ox.QueryResultsFormat.TSV,
}
GRAPHS = {
    "nt": ox.RdfFormat.N_TRIPLES,
    "ttl": ox.RdfFormat.TURTLE,
    "rdf": ox.RdfFormat.RDF_XML,
    "jsonld": ox.RdfFormat.JSON_LD,
}


@dataclass(frozen=True, slots=True)
class Question:
    """A query. `table` and `graph`: the formats of a table (or yes and no) and of triples. `default` and `named`: the
    graphs it is asked over, None: all there are. `seconds` and `bytes`: what it may take, and what its answer may."""

    text: str
    table: str = "json"
    graph: str = "ttl"
    default: tuple[str, ...] | None = None
    named: tuple[str, ...] | None = None
    prefixes: tuple[tuple[str, str], ...] = ()
    seconds: float = 10.0
    bytes: int = 1 << 26


@dataclass(frozen=True, slots=True)
class Answer:
    """`format` is that of `body`: a key of RESULTS or GRAPHS."""

    format: str
    body: bytes


class Refused(Exception):
    """A question that has no answer. `code`: `syntax`, `service`, `large`, `slow`, `failed`."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class EventStore:
    """Quads at `path`, a folder."""

    def __init__(self, path: str, words: Words) -> None:
        self.words = words
        self.store = ox.Store(path)
        self._mark = ox.NamedNode(words.base + "knowledge")
        self._loose = self._lines = 0

    def knows(self, name: str) -> bool:
        """Whether the knowledge of that name (its fingerprint) is loaded."""
        return ox.Quad(self._mark, _MARK, ox.Literal(name)) in self.store

    def load(self, text: str) -> None:
        """Knowledge, as N-Quads."""
        self.store.bulk_load(text.encode(), ox.RdfFormat.N_QUADS, lenient=True)

    def call(self, name: str) -> None:
        """The knowledge that was loaded has that name."""
        self.store.add(ox.Quad(self._mark, _MARK, ox.Literal(name)))
        self.store.flush()

    def add(self, text: str) -> None:
        """Triples (connectors/rdf/triples.py), also such as are there already."""
        lines = text.count("\n")
        load = self.store.bulk_load if lines >= _MANY else self.store.load
        load(text.encode(), ox.RdfFormat.N_TRIPLES, lenient=True)
        self._loose, self._lines = self._loose + lines, self._lines + lines
        if self._loose >= max(_LOOSE, self._lines // 2):
            self.settle()

    def settle(self) -> None:
        """Merge the files that were written: queries are several times faster then."""
        if self._loose:
            self.store.optimize()
            self._loose = 0

    def forget(self, until: str) -> int:
        """Drop the events that end before `until`, an instant (`2013-02-08T21:00:00.000000Z`); how many."""
        gone = 0
        for hour in list(self.hours(until=until)):
            over = [one for one in self._objects(hour, _INSIDE) if one.value < self.words.instant(until)]
            ended = [q.subject for one in over for q in self.store.quads_for_pattern(None, _END, one, _HERE)]
            quads = [q for event in ended for q in self.store.quads_for_pattern(event, None, None, _HERE)]
            self._remove(quads)
            gone += len(ended)
            begun = [q.object for q in quads if q.predicate == _BEGINNING]
            free = [one for one in dict.fromkeys([*over, *begun]) if not self._used(one)]
            inside = [q for one in free for q in self.store.quads_for_pattern(None, _INSIDE, one, _HERE)]
            self._remove([*inside, *(q for one in free for q in self.store.quads_for_pattern(one, None, None, _HERE))])
            for each in dict.fromkeys([hour, *(quad.subject for quad in inside)]):
                self._tidy(each)
        return gone

    def hours(self, since: str = "", until: str = "~") -> Iterator[ox.NamedNode]:
        """The hours in which events begin or end, in order, from one to before another (texts of instants)."""
        for day in self._objects(ox.NamedNode(self.words.days), _CONTAINS):
            if since[:10] <= day.value[-10:] <= until:
                for hour in self._objects(day, _CONTAINS):
                    if since[:13] <= hour.value[-13:] <= until:
                        yield hour

    def ending(self, hour: str) -> list[tuple[str, str]]:
        """The events and readings that end in an hour (`2013-02-08T21`), each with its instant, in order of time."""
        found = []
        for instant in self._objects(ox.NamedNode(self.words.hour(hour)), _INSIDE):
            when = instant.value.removeprefix(self.words.instant())
            found += [(when, _iri(q.subject)) for q in self.store.quads_for_pattern(None, _END, instant, _HERE)]
        return sorted(found)

    def described(self, subjects: Iterable[str]) -> Iterator[ox.Quad]:
        """All that is said of some things, and the times of their instants."""
        instants: dict[ox.NamedNode, None] = {}
        for subject in subjects:
            for quad in self.store.quads_for_pattern(ox.NamedNode(subject), None, None, _HERE):
                yield quad
                if quad.predicate in (_BEGINNING, _END):
                    instants[ox.NamedNode(_iri(quad.object))] = None
        for instant in instants:
            yield from self.store.quads_for_pattern(instant, None, None, _HERE)

    def ask(self, question: Question) -> Answer:
        """Raises Refused."""
        until = time.monotonic() + question.seconds
        graphs: dict[str, Any] = {}
        out: Any = _Bounded(question.bytes, until)
        if question.default is not None or question.named is not None:
            graphs["default_graph"] = [ox.NamedNode(iri) for iri in question.default or ()]
            graphs["named_graphs"] = [ox.NamedNode(iri) for iri in question.named or ()]
        try:
            found = self.store.query(
                question.text, prefixes=dict(question.prefixes), custom_functions=_FUNCTIONS, **graphs
            )
            if isinstance(found, ox.QueryTriples):
                format, kind = question.graph, GRAPHS[question.graph]
                ox.serialize(found, out, kind, prefixes=_names(question) if question.graph == "ttl" else None)
            else:
                format = question.table
                found.serialize(out, RESULTS[question.table])
        except Refused:
            raise
        except SyntaxError as error:
            raise Refused("syntax", str(error)) from None
        except (ValueError, RuntimeError, OSError) as error:
            raise Refused("failed", str(error)) from None
        return Answer(format, b"".join(out.parts))

    def _remove(self, quads: Sequence[ox.Quad]) -> None:
        for start in range(0, len(quads), _MANY):
            text = " .\n".join(str(quad) for quad in quads[start : start + _MANY])
            self.store.update(f"DELETE DATA {{ {text} }}")

    def _used(self, instant: Any) -> bool:
        return any(next(self.store.quads_for_pattern(None, p, instant, _HERE), None) for p in (_BEGINNING, _END))

    def _tidy(self, hour: Any) -> None:
        """An hour in which there is nothing any more goes, and its day."""
        day, days = ox.NamedNode(hour.value[:-3]), ox.NamedNode(self.words.days)
        if not self._objects(hour, _INSIDE):
            self.store.remove(ox.Quad(day, _CONTAINS, hour))
            if not self._objects(day, _CONTAINS):
                self.store.remove(ox.Quad(days, _CONTAINS, day))

    def _objects(self, subject: ox.NamedNode, property: ox.NamedNode) -> list[Any]:
        found = (quad.object for quad in self.store.quads_for_pattern(subject, property, None, _HERE))
        return sorted(found, key=lambda term: term.value)


class _Bounded(io.RawIOBase):
    """Takes what is written, up to a size and a time."""

    def __init__(self, most: int, until: float) -> None:
        super().__init__()
        self.parts: list[bytes] = []
        self._size = 0
        self._most, self._until = most, until

    def write(self, data: Any) -> int:
        self._size += len(data)
        if self._size > self._most:
            raise Refused("large", f"the answer has more than {self._most:,} bytes; a LIMIT makes it smaller")
        if time.monotonic() > self._until:
            raise Refused("slow", "the query took longer than it may")
        self.parts.append(bytes(data))
        return len(data)


def _iri(term: Any) -> str:
    assert isinstance(term, ox.NamedNode), "events and instants have names"
    return term.value


def _names(question: Question) -> dict[str, str]:
    return {name: iri for name, iri in question.prefixes if name}


def _distance(*terms: Any) -> ox.Literal | None:
    """Metres on the earth's ellipsoid, as rules measure; nothing where the four are no numbers or no place."""
    try:
        lat, long, other_lat, other_long = (float(term.value) for term in terms)
        metres = float(geod().inv(long, lat, other_long, other_lat)[2])
    except (ValueError, AttributeError):
        return None
    return ox.Literal(metres) if math.isfinite(metres) else None


_FUNCTIONS: dict[ox.NamedNode, Callable[..., Any]] = {ox.NamedNode(DISTANCE): _distance}
