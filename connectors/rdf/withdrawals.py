"""Withdrawal of occurrences from the store. Their triples are removed, but tombstones remain. The pages of occurrences
(`Page`) show these tombstones.

Each revision has its own graph, so that the default graph contains only valid occurrences. In the graph of a revision,
each withdrawn occurrence has an activity of the class `as:Delete`. An occurrence that is added again has an activity of
the class `as:Create`. If history is kept, this graph also contains the triples of withdrawn occurrences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyoxigraph as ox

from cep.connectors.rdf.quad_writer import QuadWriter
from cep.connectors.rdf.time_tree import BEGINNING, END, HERE, STAMP
from cep.connectors.rdf.vocabulary import AS, PROV, RDF, RDFS, XSD, EventVocabulary

DELETE, CREATE = ox.NamedNode(AS + "Delete"), ox.NamedNode(AS + "Create")
_TYPE, _OBJECT = ox.NamedNode(RDF + "type"), ox.NamedNode(AS + "object")
_ACTIVITY, _ENDED = ox.NamedNode(PROV + "Activity"), ox.NamedNode(PROV + "endedAtTime")
_BY, _AT = ox.NamedNode(PROV + "wasInvalidatedBy"), ox.NamedNode(PROV + "invalidatedAtTime")
_NOTE = ox.NamedNode(RDFS + "comment")
_TIME, _NUMBER = ox.NamedNode(XSD + "dateTime"), ox.NamedNode(XSD + "integer")


@dataclass(frozen=True, slots=True)
class StoreRevision:
    """The changes to the store in one step of the engine.

    - `time`: the event time that the run had reached, written as in the IRI of an instant.
    - `position`: the number of records that were processed.
    - `gone`: the ids of the withdrawn occurrences.
    - `come`: the ids of the new occurrences.
    - `text`: the triples of the new occurrences.
    - `keep`: True if withdrawn occurrences are kept as history.
    - `ended`: True if the input has ended.
    - `records`: the ids of the removed input records.
    """

    time: str
    position: int
    gone: tuple[str, ...]
    come: tuple[str, ...]
    text: bytes
    keep: bool
    ended: bool = False
    records: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[str, int]:
        """The sort key of the revision. It is the same in every run over the same input."""
        return self.time, self.position

    @property
    def name(self) -> str:
        return f"{self.time}/{self.position}"


class Withdrawals:
    """The withdrawals in a store, and their tombstones."""

    def __init__(self, writer: QuadWriter, vocabulary: EventVocabulary) -> None:
        self._writer, self._store, self._vocabulary = writer, writer.store, vocabulary
        self._reached = ox.NamedNode(vocabulary.revision())
        self._position = ox.NamedNode(vocabulary.position)

    @property
    def reached(self) -> tuple[str, int] | None:
        """The sort key of the last revision that was written, or None if no revision was written."""
        notes = (str(getattr(q.object, "value", "")) for q in self._store.quads_for_pattern(self._reached, _NOTE, None))
        places = ((time, int(position)) for time, _, position in (text.partition("/") for text in notes))
        return max(places, default=None)

    def withdraw(self, revision: StoreRevision) -> list[ox.NamedNode]:
        """Write a tombstone for each withdrawn occurrence. Return the IRIs of the occurrences and records to remove.

        Repeating an interrupted call does no harm.
        """
        quads: list[ox.Quad] = []
        going = [ox.NamedNode(self._vocabulary.event(id)) for id in revision.gone]
        records = [ox.NamedNode(self._vocabulary.reading(id)) for id in revision.records]
        for event in going:
            own = list(self._store.quads_for_pattern(event, None, None, HERE))
            if own:
                quads += self._tombstone(event, own, revision)
        for record in records if revision.keep else ():
            quads += self._kept(record, list(self._store.quads_for_pattern(record, None, None, HERE)), revision)
        self._writer.add(quads)
        return going + records

    def came(self, revision: StoreRevision) -> None:
        """Record which new occurrences of the revision had been withdrawn earlier. Call this after the revision's
        triples are written."""
        if next(self._store.quads_for_pattern(None, _OBJECT, None), None) is not None:
            quads: list[ox.Quad] = []
            for id in revision.come:
                event = ox.NamedNode(self._vocabulary.event(id))
                if (ends := self._ends(event)) and self._withdrawn(event, revision):
                    quads += self._change(event, CREATE, "added", ends, revision)
            self._writer.add(quads)
        if revision.ended:  # after a restart, other input may be earlier
            return
        note = ox.Quad(self._reached, _NOTE, ox.Literal(revision.name))
        self._writer.remove([q for q in self._store.quads_for_pattern(self._reached, _NOTE, None) if q != note])
        self._writer.add([note])

    def changes(self, instant: str) -> Iterator[str]:
        """Yield the IRIs of changes to occurrences that end at an instant.

        A change is the withdrawal of an occurrence, or the addition of an occurrence that had been withdrawn.
        """
        for quad in self._store.quads_for_pattern(None, END, ox.NamedNode(instant)):
            if quad.graph_name != HERE and isinstance(quad.subject, ox.NamedNode) and self._is_change(quad):
                yield quad.subject.value

    def described(self, change: str) -> Iterator[ox.Quad]:
        """Return all quads that describe a change. `change`: the IRI of the change."""
        return self._store.quads_for_pattern(ox.NamedNode(change), None, None)

    def forget(self, instants: Iterable[Any]) -> None:
        """Remove occurrences that expire at `instants`, and their tombstones, from the graphs of revisions.

        An occurrence expires with the instant of its end or, if it has none, of its beginning.
        """
        for instant in instants:
            ended = [q for q in self._store.quads_for_pattern(None, END, instant) if q.graph_name != HERE]
            began = [q for q in self._store.quads_for_pattern(None, BEGINNING, instant) if q.graph_name != HERE]
            for quad in (*ended, *filter(self._unended, began)):
                subject: Any = quad.subject
                self._writer.remove(list(self._store.quads_for_pattern(subject, None, None, quad.graph_name)))
                stamps = self._store.quads_for_pattern(None, STAMP, None, quad.graph_name)
                self._writer.remove([stamp for stamp in stamps if not self._timed(stamp)])

    def _unended(self, beginning: ox.Quad) -> bool:
        subject: Any = beginning.subject
        return next(self._store.quads_for_pattern(subject, END, None, beginning.graph_name), None) is None

    def _timed(self, stamp: ox.Quad) -> bool:
        """Return True if anything in the graph of a revision begins or ends at an instant.

        `stamp`: the quad in this graph that states the time of the instant.
        """
        assert isinstance(stamp.subject, ox.NamedNode), "instants have names"
        ways = (self._store.quads_for_pattern(None, way, stamp.subject, stamp.graph_name) for way in (BEGINNING, END))
        return any(next(way, None) is not None for way in ways)

    def _tombstone(self, event: ox.NamedNode, own: list[ox.Quad], revision: StoreRevision) -> Iterator[ox.Quad]:
        ends = [quad.object for quad in own if quad.predicate == END]
        begins = [quad.object for quad in own if quad.predicate == BEGINNING]
        if ends:
            yield from self._change(event, DELETE, "withdrawn", ends, revision)
        elif revision.keep:  # it was on no page; retention finds it by its beginning
            yield from self._change(event, DELETE, "withdrawn", begins, revision, BEGINNING)
        if revision.keep:
            yield from self._kept(event, own, revision)
            graph = ox.NamedNode(self._vocabulary.revision(revision.name))
            yield ox.Quad(event, _BY, self._activity(event, "withdrawn", revision), graph)

    def _kept(self, subject: ox.NamedNode, own: list[ox.Quad], revision: StoreRevision) -> Iterator[ox.Quad]:
        """Yield the triples of a withdrawn occurrence or record as quads in the graph of the revision. Also yield a
        quad that states the time of the withdrawal."""
        graph = ox.NamedNode(self._vocabulary.revision(revision.name))
        for quad in own:
            yield ox.Quad(quad.subject, quad.predicate, quad.object, graph)
            if quad.predicate in (BEGINNING, END):
                yield from self._stamps(quad.object, graph)
        if own:
            yield ox.Quad(subject, _AT, _moment(revision), graph)

    def _change(
        self,
        event: ox.NamedNode,
        kind: ox.NamedNode,
        word: str,
        times: Iterable[Any],
        revision: StoreRevision,
        which: ox.NamedNode = END,
    ) -> Iterator[ox.Quad]:
        graph, change = ox.NamedNode(self._vocabulary.revision(revision.name)), self._activity(event, word, revision)
        yield ox.Quad(change, _TYPE, kind, graph)
        yield ox.Quad(change, _TYPE, _ACTIVITY, graph)
        yield ox.Quad(change, _OBJECT, event, graph)
        yield ox.Quad(change, _ENDED, _moment(revision), graph)
        yield ox.Quad(change, self._position, ox.Literal(str(revision.position), datatype=_NUMBER), graph)
        for time in times:
            yield ox.Quad(change, which, time, graph)
            yield from self._stamps(time, graph)

    def _stamps(self, instant: Any, graph: ox.NamedNode) -> Iterator[ox.Quad]:
        for stamp in self._store.quads_for_pattern(instant, STAMP, None, HERE):
            yield ox.Quad(stamp.subject, stamp.predicate, stamp.object, graph)

    def _activity(self, event: ox.NamedNode, word: str, revision: StoreRevision) -> ox.NamedNode:
        return ox.NamedNode(f"{event.value}/{word}/{revision.name}")

    def _ends(self, event: ox.NamedNode) -> list[Any]:
        return [quad.object for quad in self._store.quads_for_pattern(event, END, None, HERE)]

    def _withdrawn(self, event: ox.NamedNode, revision: StoreRevision) -> bool:
        prefix = f"{event.value}/withdrawn/"
        for quad in self._store.quads_for_pattern(None, _OBJECT, event):
            name = str(getattr(quad.subject, "value", ""))
            if name.startswith(prefix):
                time, _, position = name.removeprefix(prefix).partition("/")
                if (time, int(position)) <= revision.place:
                    return True
        return False

    def _is_change(self, quad: ox.Quad) -> bool:
        return next(self._store.quads_for_pattern(quad.subject, _OBJECT, None, quad.graph_name), None) is not None


def _moment(revision: StoreRevision) -> ox.Literal:
    return ox.Literal(f"{revision.time.removesuffix('Z').rstrip('0').rstrip('.')}Z", datatype=_TIME)
