"""What is asked in SPARQL: knowledge and derived events in one Oxigraph store on disk, events for some time.

Imports little: it runs in a process of its own (connectors/rdf/worker.py).
"""

from __future__ import annotations

import io
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyoxigraph as ox

from cep.geodesy import geod
from connectors.rdf import beside
from connectors.rdf.words import DISTANCE, PROV, RDF, RDFS, TIME, Words

_INSIDE, _CONTAINS = ox.NamedNode(TIME + "inside"), ox.NamedNode(TIME + "intervalContains")
_BEGINNING, _END = ox.NamedNode(TIME + "hasBeginning"), ox.NamedNode(TIME + "hasEnd")
_DERIVED = ox.NamedNode(PROV + "wasDerivedFrom")
_MARK = ox.NamedNode(RDFS + "comment")
_TYPE, _ACTIVITY = ox.NamedNode(RDF + "type"), ox.NamedNode(PROV + "Activity")
_BY, _PLAN = ox.NamedNode(PROV + "wasGeneratedBy"), ox.NamedNode(PROV + "hadPlan")
_ASSOCIATION = ox.NamedNode(PROV + "qualifiedAssociation")
_HERE = ox.DefaultGraph()
_MANY = 6_000  # lines of a text from which on new files are faster than a transaction
_GONE = 20_000  # events from which on a store is filled anew rather than rid of them
_LOOKED = 4_000  # instants and what ends at them that are looked at for a page; where there are more, in smaller spans
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


@dataclass(frozen=True, slots=True)
class Page:
    """What ends in a span of time: `members`, the IRIs of some events in order of time, and `body`, all that is said of
    them, in N-Triples; `more`: the instant at which the next page goes on, None: it is the last. Where there is too
    much for a page there are only `parts`, the smaller spans to look at."""

    members: tuple[str, ...] = ()
    body: bytes = b""
    more: str | None = None
    parts: tuple[str, ...] = ()


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
        self._mark, self._meaning = ox.NamedNode(words.base + "knowledge"), ox.NamedNode(words.base + "meaning")
        self._known, self._learned = f"{path}.nq", f"{path}.learned"
        beside.mend(self._learned)
        self._loose = self._lines = 0

    def knows(self, name: str) -> bool:
        """Whether the knowledge of that name (its fingerprint) is loaded."""
        return ox.Quad(self._mark, _MARK, ox.Literal(name)) in self.store

    def know(self, name: str, path: str, before: str) -> None:
        """Knowledge by that name, a file of N-Quads, in place of that of before, which is in another: the file takes
        its place. Where there is none, in place of all that is there. What is broken off is done again the next time.
        """
        marks = list(self.store.quads_for_pattern(self._mark, _MARK, None, _HERE))
        if os.path.exists(path):  # else it has taken its place already
            if marks and os.path.exists(before):
                if not beside.sound(before, set(map(_value, marks))):
                    raise beside.Damaged(before)
                gone, new = _different(before, path)
                for quad in _parsed(gone):
                    self.store.remove(quad)
                self.store.bulk_extend(_parsed(new))
            else:
                self.store.clear()
                self.store.bulk_extend(ox.parse(path=path, format=ox.RdfFormat.N_QUADS, lenient=True))
            self.store.flush()
            os.replace(path, before)
        for quad in marks:
            self.store.remove(quad)
        for note in (name, *([beside.hashed(before)] if os.path.exists(before) else [])):
            self.store.add(ox.Quad(self._mark, _MARK, ox.Literal(note)))
        self.store.flush()

    def learn(self, gone: bytes, come: bytes) -> None:
        """A change of the knowledge: quads that go and come. It is noted beside the store, so that what was loaded can
        be had again (`unlearn`)."""
        beside.learn(self._learned, gone, come)
        self._change(gone.splitlines(keepends=True), come.splitlines(keepends=True))

    def unlearn(self) -> None:
        """Back to the knowledge that was loaded. Of a quad the first change that is noted says whether it was there;
        what is done twice, since a process ended in between, does not matter."""
        if not os.path.exists(self._learned):
            return
        first: dict[bytes, bytes] = {}
        for gone, come in beside.learned(self._learned):
            for sign, lines in ((b"-", gone), (b"+", come)):
                for line in lines.splitlines(keepends=True):
                    first.setdefault(line, sign)
        self._change(*([line for line, sign in first.items() if sign == way] for way in (b"+", b"-")))
        self.store.flush()
        os.unlink(self._learned)

    def _change(self, gone: Sequence[bytes], come: Sequence[bytes]) -> None:
        for quad in _parsed(gone):
            self.store.remove(quad)
        quads = _parsed(come)
        if len(come) < _MANY:
            self.store.extend(quads)
        else:
            self.store.bulk_extend(quads)

    def derive(self, rules: bytes, meant: Mapping[str, str], again: bool) -> None:
        """Rules, as triples, in place of what was said of them. `meant`: what each event means, by what the names of
        its activities begin with. `again`: they will derive all again, so that of events that meant something else, or
        are made no more, the occurrences go, and the rules."""
        marks = list(self.store.quads_for_pattern(None, self._meaning, None, _HERE))
        old = [f"{_of(q)}/" for q in marks if again and meant.get(_of(q)) != _value(q)]
        said = [_of(quad) for quad in self.store.quads_for_pattern(None, _TYPE, _ACTIVITY, _HERE)]
        stale = [ox.NamedNode(one) for one in said if f"{one}/".startswith(tuple(old))]
        many = (q for one in stale for q in self.store.quads_for_pattern(None, _BY, one, _HERE))
        if next(islice(many, _GONE, None), None) is not None and os.path.exists(self._known):
            known = list(self.store.quads_for_pattern(self._mark, _MARK, None, _HERE))
            if not beside.sound(self._known, set(map(_value, known))):
                raise beside.Damaged(self._known)
            self.store.clear()  # the others come again too, sooner than so many are taken out
            self.store.bulk_extend(ox.parse(path=self._known, format=ox.RdfFormat.N_QUADS, lenient=True))
            self.store.extend(known)
            stale, marks = [], []
        for activity in stale:
            made = [quad.subject for quad in self.store.quads_for_pattern(None, _BY, activity, _HERE)]
            for start in range(0, len(made), _MANY):
                self._drop(made[start : start + _MANY])
            by = self._objects(activity, _ASSOCIATION)
            for each in [activity, *by, *(plan for one in by for plan in self._objects(one, _PLAN))]:
                self._remove(list(self.store.quads_for_pattern(each, None, None, _HERE)))
        for quad in marks if again else [q for q in marks if _of(q) in meant]:
            self.store.remove(quad)
        for subject in {line.split(b" ", 1)[0] for line in rules.splitlines()}:
            self._remove(list(self.store.quads_for_pattern(_named(subject), None, None, _HERE)))
        self.store.load(rules, ox.RdfFormat.N_TRIPLES, lenient=True)
        self.store.extend(ox.Quad(ox.NamedNode(one), self._meaning, ox.Literal(name)) for one, name in meant.items())

    def add(self, text: bytes) -> None:
        """Triples (connectors/rdf/triples.py), also such as are there already."""
        lines = text.count(b"\n")
        load = self.store.bulk_load if lines >= _MANY else self.store.load
        load(text, ox.RdfFormat.N_TRIPLES, lenient=True)
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
            for span in (hour, *self._objects(hour, _CONTAINS)):  # hours held instants themselves once
                if span.value > self.words.hour(until):
                    continue
                over = [one for one in self._objects(span, _INSIDE) if one.value < self.words.instant(until)]
                ended = [q.subject for one in over for q in self.store.quads_for_pattern(None, _END, one, _HERE)]
                self._drop(ended, over)
                self._tidy(span)
                gone += len(ended)
        return gone

    def hours(self, since: str = "", until: str = "~") -> Iterator[ox.NamedNode]:
        """The hours in which events begin or end, in order, from one to before another (texts of instants)."""
        for day in self._objects(ox.NamedNode(self.words.days), _CONTAINS):
            if since[:10] <= day.value[-10:] <= until:
                for hour in self._objects(day, _CONTAINS):
                    if since[:13] <= hour.value[-13:] <= until:
                        yield hour

    def page(self, span: str, number: int, most: int, seconds: float) -> Page | None:
        """At most so many of the events that end in an hour, a minute or a second (`2013-02-08T21:05:30`); None: there
        is no such page. Only seconds have more than one (`number` counts from 1). What is looked at grows with what
        ends in the span, up to a bound; in a second, with what its minute holds. Raises Refused after these seconds.
        """
        until = time.monotonic() + seconds
        within, whole = self.words.event(), len(span) < len("2013-02-08T21:05:30")
        if whole and number > 1:
            return None
        found: set[tuple[str, str]] = set()
        looked = 0
        for stamp in self._instants(span, until):
            looked += 1
            for quad in self.store.quads_for_pattern(None, _END, ox.NamedNode(self.words.instant(stamp)), _HERE):
                looked += 1
                if _iri(quad.subject).startswith(within):
                    found.add((stamp, _iri(quad.subject)))
                if whole and (len(found) > most or looked > _LOOKED):
                    return Page(parts=tuple(self._parts(span, until)))
                _in_time(until)
        ordered = sorted(found)
        members = tuple(name for _, name in ordered[(number - 1) * most : number * most])
        if not looked or (number > 1 and not members):
            return None
        told = (quad.triple for quad in self.described(members))
        body = ox.serialize(told, format=ox.RdfFormat.N_TRIPLES)
        assert body is not None, "without an output the text is given"
        return Page(members, body, ordered[number * most][0] if len(ordered) > number * most else None)

    def _instants(self, span: str, until: float) -> Iterator[str]:
        """The instants in an hour, a minute or a second, in no order."""
        hour = ox.NamedNode(self.words.hour(span[:13]))
        minutes = self._objects(hour, _CONTAINS) if len(span) == 13 else [ox.NamedNode(self.words.hour(span[:16]))]
        start = self.words.instant()
        for each in (hour, *minutes):  # hours held instants themselves once
            for quad in self.store.quads_for_pattern(each, _INSIDE, None, _HERE):
                _in_time(until)
                stamp = _iri(quad.object).removeprefix(start)
                if stamp.startswith(span):
                    yield stamp

    def _parts(self, span: str, until: float) -> list[str]:
        """The minutes of an hour, the seconds of a minute, in which there are instants."""
        if len(span) > 13:
            return sorted({stamp[:19] for stamp in self._instants(span, until)})
        hour, start = ox.NamedNode(self.words.hour(span)), self.words.hour()
        minutes = {minute.value.removeprefix(start) for minute in self._objects(hour, _CONTAINS)}
        once = (_iri(quad.object) for quad in self.store.quads_for_pattern(hour, _INSIDE, None, _HERE))
        return sorted(minutes | {instant.removeprefix(self.words.instant())[:16] for instant in once})

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

    def _drop(self, events: Sequence[Any], instants: Sequence[Any] = ()) -> None:
        """Remove all that is said of events, and of their instants and of others that nothing needs any more."""
        quads = [q for event in events for q in self.store.quads_for_pattern(event, None, None, _HERE)]
        self._remove(quads)
        self._remove(list(self._unused(q.object for q in quads if q.predicate == _DERIVED)))
        times = [q.object for q in quads if q.predicate in (_BEGINNING, _END)]
        free = [one for one in dict.fromkeys([*instants, *times]) if not self._used(one)]
        inside = [q for one in free for q in self.store.quads_for_pattern(None, _INSIDE, one, _HERE)]
        self._remove([*inside, *(q for one in free for q in self.store.quads_for_pattern(one, None, None, _HERE))])
        for span in dict.fromkeys(quad.subject for quad in inside):
            self._tidy(span)

    def _unused(self, constituents: Iterable[Any]) -> Iterator[ox.Quad]:
        """What is said of records that were not stored for themselves, when nothing comes from them any more."""
        for one in dict.fromkeys(constituents):
            quads = list(self.store.quads_for_pattern(one, None, None, _HERE))
            if any(quad.predicate == _END for quad in quads):
                continue
            if next(self.store.quads_for_pattern(None, _DERIVED, one, _HERE), None) is None:
                yield from quads

    def _used(self, instant: Any) -> bool:
        return any(next(self.store.quads_for_pattern(None, p, instant, _HERE), None) for p in (_BEGINNING, _END))

    def _tidy(self, span: Any) -> None:
        """A minute in which there is nothing any more goes, and its hour, and its day."""
        for property in (_INSIDE, _CONTAINS):
            if next(self.store.quads_for_pattern(span, property, None, _HERE), None) is not None:
                return
        day = "T" not in span.value.removeprefix(self.words.hour())
        around = ox.NamedNode(self.words.days if day else span.value[:-3])
        self.store.remove(ox.Quad(around, _CONTAINS, span))
        if not day:
            self._tidy(around)

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


def _in_time(until: float) -> None:
    if time.monotonic() > until:
        raise Refused("slow", "the page took longer than it may")


def _different(before: str, now: str) -> tuple[set[bytes], set[bytes]]:
    """The lines that only the one, and only the other of two files has."""
    new = set()
    with open(before, "rb") as file:
        gone = set(file)
    with open(now, "rb") as file:
        for line in file:
            if line in gone:
                gone.remove(line)
            else:
                new.add(line)
    return gone, new


def _parsed(lines: Iterable[bytes]) -> Iterable[ox.Quad]:
    return ox.parse(b"".join(lines), ox.RdfFormat.N_QUADS, lenient=True)


def _named(term: bytes) -> ox.NamedNode:
    return ox.NamedNode(term.decode()[1:-1])


def _of(quad: ox.Quad) -> str:
    return _iri(quad.subject)


def _value(quad: ox.Quad) -> str:
    return str(getattr(quad.object, "value", ""))


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
