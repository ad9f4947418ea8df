"""The store that answers SPARQL queries: knowledge and derived occurrences in Oxigraph on disk.

This module imports little, because it runs in a separate process (connectors/rdf/store_worker.py).
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import pyoxigraph as ox

from cep.connectors.rdf import knowledge_files
from cep.connectors.rdf.evaluation import evaluate
from cep.connectors.rdf.quad_writer import MANY, QuadWriter
from cep.connectors.rdf.question import Answer, Page, QueryRefused, Question
from cep.connectors.rdf.retention import Retention
from cep.connectors.rdf.store_files import StoreFiles
from cep.connectors.rdf.time_index import TimeIndex
from cep.connectors.rdf.time_tree import BEGINNING, END, HERE, INSIDE, STAMP, TimeTree
from cep.connectors.rdf.vocabulary import PROV, RDF, RDFS, EventVocabulary
from cep.connectors.rdf.withdrawals import StoreRevision, Withdrawals

_MARK = ox.NamedNode(RDFS + "comment")
_TYPE, _ACTIVITY = ox.NamedNode(RDF + "type"), ox.NamedNode(PROV + "Activity")
_BY, _PLAN = ox.NamedNode(PROV + "wasGeneratedBy"), ox.NamedNode(PROV + "hadPlan")
_ASSOCIATION = ox.NamedNode(PROV + "qualifiedAssociation")
_GONE = 20_000  # with this many events, refilling the store is faster than removing them
_LOOKED = 4_000  # the maximum instants, and events at them, read for a page
_LOOSE = 1_000_000  # merge files after this many lines, if they are half of all lines
_STAMPED = f"{STAMP} ".encode()


class EventStore:
    """A store of knowledge and derived occurrences in the folder `path`."""

    def __init__(self, path: str, vocabulary: EventVocabulary) -> None:
        self.vocabulary = vocabulary
        self.files = StoreFiles(path)
        self.store = ox.Store(path)
        self._mark, self._meaning = (
            ox.NamedNode(vocabulary.base + "knowledge"),
            ox.NamedNode(vocabulary.base + "meaning"),
        )
        self._known, self._learned = f"{path}.nq", knowledge_files.StoreChangeLog(f"{path}.learned")
        self.spans = TimeTree(self.store, vocabulary)
        self.writer = QuadWriter(self.store, self.files)
        self._forgetting, self._recent = Retention(self.writer, self.spans), TimeIndex(self.store, self.spans)
        self._withdrawals = Withdrawals(self.writer, vocabulary)
        self._forgetting.forgotten = self._withdrawals.forget
        self._loose = self._lines = 0
        self._elsewhere = f"{path}.stamps"  # this file exists if some instants are written in other ways
        self._indexed = self._recent.whole() and not os.path.exists(self._elsewhere) and not self._has_times()

    def knows(self, name: str) -> bool:
        """Return True if the knowledge that has the fingerprint `name` is loaded."""
        return ox.Quad(self._mark, _MARK, ox.Literal(name)) in self.store

    def know(self, name: str, path: str, before: str) -> None:
        """Replace the knowledge in the store.

        - `name`: the fingerprint of the new knowledge.
        - `path`: an N-Quads file that contains the new knowledge. This call renames it to `before`.
        - `before`: the file that contains the previous knowledge. If it exists, only the differences are written to the
          store. If it is missing, all quads of the store are replaced.

        A load that was interrupted is completed at the next call. Raise Damaged if `before` is damaged.
        """
        marks = list(self.store.quads_for_pattern(self._mark, _MARK, None, HERE))
        if os.path.exists(path):  # otherwise it has replaced the earlier file already
            if marks and os.path.exists(before):
                if not knowledge_files.is_intact(before, set(map(_value, marks))):
                    raise knowledge_files.Damaged(before)
                gone, new = _different(before, path)
                self.writer.remove(list(_parsed(gone)))
                self.writer.add(_parsed(new))
            else:
                self.writer.replace(path)
            self.store.flush()
            os.replace(path, before)
            self._recent.grid.changed()
            self._indexed = self._indexed and not self._has_times()
        self.writer.remove(marks)
        notes = (name, *([knowledge_files.hash_path(before)] if os.path.exists(before) else []))
        self.writer.add([ox.Quad(self._mark, _MARK, ox.Literal(note)) for note in notes])
        self.store.flush()

    def learn(self, gone: bytes, come: bytes) -> None:
        """Remove and add quads of the knowledge. The change is logged beside the store, so `unlearn` can undo it."""
        self._learned.append(gone, come)
        self._indexed = self._indexed and not self._times(come)
        self._change(gone.splitlines(keepends=True), come.splitlines(keepends=True))

    def unlearn(self) -> None:
        """Undo all changes of the knowledge since it was loaded.

        If the first logged change of a quad is a removal, the loaded knowledge contained the quad, so the quad is added
        again. Repeating an interrupted call does no harm.
        """
        if not self._learned.path.exists():
            return
        first: dict[bytes, bytes] = {}
        for gone, come in self._learned.changes():
            for sign, lines in ((b"-", gone), (b"+", come)):
                for line in lines.splitlines(keepends=True):
                    first.setdefault(line, sign)
        self._change(*([line for line, sign in first.items() if sign == way] for way in (b"+", b"-")))
        self.store.flush()
        self._learned.remove()

    def _change(self, gone: Sequence[bytes], come: Sequence[bytes]) -> None:
        self.writer.remove(list(_parsed(gone)))
        self.writer.add(_parsed(come))
        self._recent.grid.changed(b"".join(come))

    def derive(self, rules: bytes, meanings: Mapping[str, str], again: bool) -> None:
        """Replace the descriptions of rules.

        - `rules`: the descriptions, in N-Triples.
        - `meanings`: for each event type, the fingerprint of its rules. The key is the IRI with which the IRIs of the
          type's PROV activities begin.
        - `again`: True if the rules will derive everything again. Then the store drops the occurrences of event types
          whose fingerprint has changed or that have no rules any more.
        """
        marks = list(self.store.quads_for_pattern(None, self._meaning, None, HERE))
        old = [f"{_of(q)}/" for q in marks if again and meanings.get(_of(q)) != _value(q)]
        activities = [_of(quad) for quad in self.store.quads_for_pattern(None, _TYPE, _ACTIVITY, HERE)]
        stale = [ox.NamedNode(activity) for activity in activities if f"{activity}/".startswith(tuple(old))]
        many = (q for activity_of in stale for q in self.store.quads_for_pattern(None, _BY, activity_of, HERE))
        if next(islice(many, _GONE, None), None) is not None and os.path.exists(self._known):
            known = list(self.store.quads_for_pattern(self._mark, _MARK, None, HERE))
            if not knowledge_files.is_intact(self._known, set(map(_value, known))):
                raise knowledge_files.Damaged(self._known)
            self.writer.replace(self._known)  # deriving the other events again is faster
            self.writer.add(known)
            stale, marks = [], []
        for activity in stale:
            events = [quad.subject for quad in self.store.quads_for_pattern(None, _BY, activity, HERE)]
            for start in range(0, len(events), MANY):
                self._forgetting.drop(events[start : start + MANY])
            by = self._objects(activity, _ASSOCIATION)
            for term in [activity, *by, *(plan for agent in by for plan in self._objects(agent, _PLAN))]:
                self.writer.remove_triples(list(self.store.quads_for_pattern(term, None, None, HERE)))
        self.writer.remove(marks if again else [q for q in marks if _of(q) in meanings])
        for subject in {line.split(b" ", 1)[0] for line in rules.splitlines()}:
            self.writer.remove_triples(list(self.store.quads_for_pattern(_named(subject), None, None, HERE)))
        self.writer.load(rules)
        self.writer.add(
            ox.Quad(ox.NamedNode(event), self._meaning, ox.Literal(name)) for event, name in meanings.items()
        )

    def add(self, text: bytes) -> None:
        """Add lines of N-Triples (connectors/rdf/triples.py). Triples that exist already are ignored."""
        lines = text.count(b"\n")
        if self._indexed and text.count(_STAMPED) > text.count(b"Z> " + _STAMPED):  # an attribute uses this property
            open(self._elsewhere, "wb").close()
            self._indexed = False
        self.writer.load(text)
        self._recent.grid.changed(text)
        self._loose, self._lines = self._loose + lines, self._lines + lines

    def revise(self, revision: StoreRevision) -> None:
        """Apply a revision: remove withdrawn occurrences, and add new ones."""
        self._forgetting.drop(self._withdrawals.withdraw(revision), times=False)
        if revision.text:
            self.add(revision.text)
        self._withdrawals.came(revision)

    def revised(self) -> tuple[str, int] | None:
        """Return the sort key of the last written revision (see `StoreRevision.place`), or None if there is none."""
        return self._withdrawals.reached

    @property
    def loose(self) -> bool:
        """True if many quads were written since the last call of `settle`, so that another call is worthwhile."""
        return self._loose >= max(_LOOSE, self._lines // 2)

    def settle(self) -> None:
        """Merge the store's files, which makes queries several times faster. Other threads may write and query."""
        if self._loose:
            self._loose = 0
            self.store.optimize()

    def _has_times(self) -> bool:
        for path in (self._known, self._learned.path):
            if os.path.exists(path) and os.path.getsize(path):
                with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
                    if self._times(text):
                        return True
        return False

    def _times(self, text: bytes | mmap.mmap) -> bool:
        return any(text.find(mark) >= 0 for mark in (_STAMPED, f"<{self.vocabulary.hour()}".encode()))

    def forget(self, until: str) -> Iterator[int]:
        """Remove the occurrences that end before the minute of `until`, in small steps.

        After each step, yield the number of occurrences that it removed. `until`: an instant such as
        `2013-02-08T21:00:00.000000Z`.
        """
        return self._forgetting.steps(until)

    def hours(self, since: str = "", until: str = "~") -> Iterator[ox.NamedNode]:
        """Yield, in order of time, the hours in which occurrences begin or end. `since`, `until`: the texts of two
        instants. Hours outside of the time between these instants are left out."""
        return self.spans.hours(since, until)

    def page(self, span: str, number: int, most: int, seconds: float) -> Page | None:
        """Return a page of the occurrences that end in an hour, a minute or a second, or None if there is no such page.

        - `span`: the name of the hour, minute or second (`2013-02-08T21:05:30`). Only a second may have more than one
          page.
        - `number`: the number of the page, from 1.
        - `most`: the maximum number of occurrences on the page.
        - `seconds`: the time limit. Raise QueryRefused if the call takes longer.

        The cost grows with the number of occurrences that end in this time, up to a bound. A page of a second costs as
        much as a page of its minute.
        """
        until = time.monotonic() + seconds
        within, whole = self.vocabulary.event(), len(span) < len("2013-02-08T21:05:30")
        if whole and number > 1:
            return None
        stamped: set[tuple[str, str]] = set()
        looked = 0
        for stamp in self._instants(span, until):
            looked += 1
            stamped.update((stamp, change) for change in self._withdrawals.changes(self.vocabulary.instant(stamp)))
            for quad in self.store.quads_for_pattern(None, END, ox.NamedNode(self.vocabulary.instant(stamp)), HERE):
                looked += 1
                if _iri(quad.subject).startswith(within):
                    stamped.add((stamp, _iri(quad.subject)))
                if whole and (len(stamped) > most or looked > _LOOKED):
                    return Page(parts=tuple(self._parts(span, until)))
                _in_time(until)
        ordered = sorted(stamped)
        members = tuple(name for _, name in ordered[(number - 1) * most : number * most])
        if not looked or (number > 1 and not members):
            return None
        triples = (quad.triple for quad in self.described(members))
        body = ox.serialize(triples, format=ox.RdfFormat.N_TRIPLES)
        assert body is not None, "without an output the text is given"
        return Page(members, body, ordered[number * most][0] if len(ordered) > number * most else None)

    def _instants(self, span: str, until: float) -> Iterator[str]:
        hour = ox.NamedNode(self.vocabulary.hour(span[:13]))
        minutes = self.spans.within(hour) if len(span) == 13 else [ox.NamedNode(self.vocabulary.hour(span[:16]))]
        start = self.vocabulary.instant()
        for part in (hour, *minutes):  # in old stores, hours contain instants
            for quad in self.store.quads_for_pattern(part, INSIDE, None, HERE):
                _in_time(until)
                stamp = _iri(quad.object).removeprefix(start)
                if stamp.startswith(span):
                    yield stamp

    def _parts(self, span: str, until: float) -> list[str]:
        if len(span) > 13:
            return sorted({stamp[:19] for stamp in self._instants(span, until)})
        hour, start = ox.NamedNode(self.vocabulary.hour(span)), self.vocabulary.hour()
        minutes = {minute.value.removeprefix(start) for minute in self.spans.within(hour)}
        once = (_iri(quad.object) for quad in self.store.quads_for_pattern(hour, INSIDE, None, HERE))
        return sorted(minutes | {instant.removeprefix(self.vocabulary.instant())[:16] for instant in once})

    def described(self, subjects: Iterable[str]) -> Iterator[ox.Quad]:
        """Yield all triples of some subjects, and then the triples of the instants at which they begin or end."""
        instants: dict[ox.NamedNode, None] = {}
        for subject in subjects:
            own = list(self.store.quads_for_pattern(ox.NamedNode(subject), None, None, HERE))
            for quad in own or self._withdrawals.described(subject):
                yield quad
                if quad.predicate in (BEGINNING, END):
                    instants[ox.NamedNode(_iri(quad.object))] = None
        for instant in instants:
            yield from self.store.quads_for_pattern(instant, None, None, HERE)

    def places(self) -> None:
        """Read the index of places before a fork evaluates a query that uses the index."""
        self._recent.grid.read()

    def ask(self, question: Question) -> Answer:
        """Evaluate a query. Raise QueryRefused if it cannot be answered."""
        return evaluate(self.store, question, self._recent if self._indexed else None)

    def _objects(self, subject: ox.NamedNode, property: ox.NamedNode) -> list[Any]:
        terms = (quad.object for quad in self.store.quads_for_pattern(subject, property, None, HERE))
        return sorted(terms, key=lambda term: term.value)


def _in_time(until: float) -> None:
    if time.monotonic() > until:
        raise QueryRefused("slow", "the page exceeded its time limit")


def _different(before: str, now: str) -> tuple[set[bytes], set[bytes]]:
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
