"""Timed changes of the knowledge. They are written as named graphs. For each graph, statements say from when to when
its triples hold.

In quads (N-Quads, TriG, JSON-LD), the default graph states the times of each named graph in PROV-O:

    <urn:1> prov:generatedAtTime "2013-02-08T18:00:00Z"^^xsd:dateTime .      its triples hold from this time
    <urn:1> prov:invalidatedAtTime "2013-02-09T06:00:00Z"^^xsd:dateTime .    they no longer hold from this time

If two graphs contain the same triple, the triple holds as long as one of the graphs is valid. A graph that has only the
second time removes its triples from all graphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyoxigraph as ox

from cep.core.errors import CepError, reason_of
from cep.core.literals import read_time
from cep.core.suggest import SURE, nearest
from cep.knowledge.change import labelled
from cep.knowledge.load import at, base_iri, files, open_rdf, rdf_format
from cep.knowledge.rdf.guarded_file import guarded
from cep.knowledge.rdf.namespaces import PROV
from cep.knowledge.rdf.nesting import TOO_DEEP, triples_too_deep
from cep.knowledge.rdf.parse_errors import plain, unreadable

FROM, UNTIL = PROV + "generatedAtTime", PROV + "invalidatedAtTime"
_HINT = (
    'the default graph says when: `<urn:1> <http://www.w3.org/ns/prov#generatedAtTime> "2013-02-08T18:00:00Z"'
    "^^<http://www.w3.org/2001/XMLSchema#dateTime> .`"
)


@dataclass(slots=True)
class Update:
    """A change at `time` (microseconds). It first removes the triples and quads `remove`, and then adds those of `add`.

    A triple in `remove` is removed from every graph, and a quad only from its own graph. `file`, `line`: the place from
    which the change was read. The line is 0 if it is unknown.
    """

    time: int
    add: list[ox.Quad] = field(default_factory=list)
    remove: list[ox.Quad | ox.Triple] = field(default_factory=list)
    file: str = ""
    line: int = 0

    def joined(self, other: Update) -> Update:
        """Combine two updates at the same time into one."""
        return Update(self.time, self.add + other.add, self.remove + other.remove, self.file, self.line)


@dataclass(frozen=True, slots=True)
class RefusedUpdate:
    """An update that was refused: its file and line, the reason, the code of the error, and the refused text."""

    file: str
    line: int
    reason: str
    code: str
    text: str | None


@dataclass(slots=True)
class TimedGraph:
    """A named graph that is valid from `begins` until `ends`, in microseconds. A time is None if it is unknown.

    `fresh`: the quads that are not yet part of a change. `brought`: the quads that earlier changes added.
    """

    line: int
    begins: int | None = None
    ends: int | None = None
    fresh: list[ox.Quad] = field(default_factory=list)
    brought: dict[ox.Quad, None] = field(default_factory=dict)
    about: ox.Quad | None = None  # another statement about it


def quads_of(line: bytes) -> Iterator[ox.Quad]:
    """Parse a line of N-Quads. Raises CepError if it is invalid, or if a triple is a term of another triple."""
    try:
        if triples_too_deep(line):
            raise CepError(TOO_DEEP, code="quad")
        for quad in ox.parse(line, ox.RdfFormat.N_QUADS):
            if isinstance(quad.object, ox.Triple):
                raise CepError("a triple is a term of another triple, which RDF 1.1 does not allow", code="quad")
            yield quad
    except SyntaxError as error:
        raise CepError(f"this is not N-Quads: {plain(error)}", code="quad") from None


class Graphs:
    """The named graphs of a file, by name, as far as they have been read. This class converts them to changes."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.known: dict[str, TimedGraph] = {}

    def take(self, quad: ox.Quad, line: int = 0) -> str:
        """Read the next quad. It is in a named graph, or states a time of a named graph. Return the name of this graph.

        Raises CepError if the quad states an invalid time, or a second time of the same kind.
        """
        if not isinstance(quad.graph_name, ox.DefaultGraph):
            name = str(quad.graph_name)
            self.known.setdefault(name, TimedGraph(line)).fresh.append(quad)
            return name
        name, word = str(quad.subject), quad.predicate.value
        time = self._time(quad) if word in (FROM, UNTIL) else None
        if time is None and word.startswith(PROV) and (near := _intended_name(word)):
            hint = f"did you mean `prov:{near}`?"
            raise self._refused(f"`prov:{word.removeprefix(PROV)}` is not a time of a graph", hint)
        graph = self.known.setdefault(name, TimedGraph(line))
        if time is None:
            graph.about = graph.about or quad
            return name
        before = graph.begins if word == FROM else graph.ends
        if before not in (None, time):
            hint = "use a graph of its own for each time"
            raise self._refused(f"the graph {name} has two times `prov:{word.removeprefix(PROV)}`", hint)
        if word == FROM:
            graph.begins = time
        else:
            graph.ends = time
        return name

    def settle(self, name: str) -> list[Update]:
        """Return the changes that result from the quads of a graph, without changes that an earlier call returned.

        Raises CepError if the graph has no time, or ends before it begins.
        """
        graph = self.known[name]
        begins, ends, fresh = graph.begins, graph.ends, graph.fresh
        if begins is None and ends is None:
            if fresh or graph.about is None:
                raise self._refused(f"the graph {name} has no time", _HINT)
            raise self._refused(f"{graph.about.triple} is in no graph, so it has no time", _HINT)
        if begins is not None and ends is not None and ends <= begins:
            hint = "its `prov:invalidatedAtTime` is to be later than its `prov:generatedAtTime`"
            raise self._refused(f"the graph {name} ends when it begins or before", hint)
        graph.fresh, updates = [], []
        if begins is None:
            if fresh:
                assert ends is not None, "a graph has a time"
                updates.append(Update(ends, [], [quad.triple for quad in fresh], self.file, graph.line))
            return updates
        if fresh:
            updates.append(Update(begins, fresh, [], self.file, graph.line))
            graph.brought |= dict.fromkeys(fresh)
        if ends is not None and graph.brought:
            updates.append(Update(ends, [], list(graph.brought), self.file, graph.line))
            graph.brought = {}
        return updates

    def _time(self, quad: ox.Quad) -> int:
        text = quad.object.value if isinstance(quad.object, ox.Literal) else ""
        try:
            return read_time(text)
        except CepError:
            hint = "a time is written `2013-02-08T18:00:00Z`"
            raise self._refused(f"`{text or quad.object}` is not a time", hint, "time") from None

    def _refused(self, reason: str, hint: str, code: str = "graph") -> CepError:
        return CepError(f"{self.file}: {reason}" if self.file else reason, hint=hint, code=code)


def read_updates(names: str | Path | Iterable[str | Path]) -> list[Update]:
    """Read files of quads. Return their changes sorted by time, at most one for each time.

    Raises CepError if a file cannot be read, a graph has no time or ends before it begins, or a triple is in no graph.
    """
    updates: dict[int, Update] = {}
    for source in files(names):
        for update in _updates(at(source)):
            before = updates.get(update.time)
            updates[update.time] = update if before is None else before.joined(update)
    return [updates[time] for time in sorted(updates)]


def _updates(path: Path | str) -> Iterator[Update]:
    format = rdf_format(path)
    if format is None or not format.supports_datasets:
        raise CepError(
            f"{path} is in a format without named graphs",
            hint="use a .nq, .trig or .jsonld file for changes",
            code="knowledge",
        )
    try:
        with open_rdf(path) as file:
            quads = labelled(list(ox.parse(guarded(file, str(path), format), format, base_iri=base_iri(path))))
    except SyntaxError as error:
        raise unreadable(error, str(path), format, lambda: open_rdf(path)) from None
    except (OSError, EOFError) as error:
        reason = reason_of(error)
        raise CepError(f"{path} cannot be read: {reason}", code="knowledge") from None
    graphs = Graphs(str(path))
    for quad in quads:
        graphs.take(quad)
    for name in graphs.known:
        yield from graphs.settle(name)


def _intended_name(word: str) -> str | None:
    return nearest(word.removeprefix(PROV), [name.removeprefix(PROV) for name in (FROM, UNTIL)], SURE)
