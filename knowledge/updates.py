"""Changes of knowledge with their times: named graphs that say from when and until when their triples hold.

In a file of quads (N-Quads, TriG, JSON-LD) the default graph gives each named graph its times by PROV-O:

    <urn:1> prov:generatedAtTime "2013-02-08T18:00:00Z"^^xsd:dateTime .      its triples hold from then on
    <urn:1> prov:invalidatedAtTime "2013-02-09T06:00:00Z"^^xsd:dateTime .    and from then on no more

What another graph says still holds when one ends. A graph with the second alone takes its triples from all graphs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyoxigraph as ox

from cep.errors import CepError
from cep.syntax.constants import read_time
from knowledge.namespaces import PROV
from knowledge.rdf.change import labelled
from knowledge.rdf.load import files, opened, rdf_format
from knowledge.rdf.unreadable import unreadable

FROM, UNTIL = PROV + "generatedAtTime", PROV + "invalidatedAtTime"
_HINT = (
    'the default graph says when: `<urn:1> <http://www.w3.org/ns/prov#generatedAtTime> "2013-02-08T18:00:00Z"'
    "^^<http://www.w3.org/2001/XMLSchema#dateTime> .`"
)


@dataclass(slots=True)
class Update:
    """From `time` on (microseconds) knowledge is without `remove`, and then with `add`. A triple that is removed goes
    from every graph, a quad from its own."""

    time: int
    add: list[ox.Quad] = field(default_factory=list)
    remove: list[ox.Quad | ox.Triple] = field(default_factory=list)


@dataclass(slots=True)
class _Timed:
    """A named graph of a file: its quads, and when they come and go (microseconds)."""

    quads: list[ox.Quad] = field(default_factory=list)
    begins: int | None = None
    ends: int | None = None


def read(names: str | Path | Iterable[str | Path]) -> list[Update]:
    """The changes in files of quads, sorted by time, one for each time. Raises CepError for what cannot be read, for a
    graph without a time, or one that ends before it begins, and for triples that are in no graph."""
    updates: dict[int, Update] = {}
    for source in files(names):
        for graph in _graphs(Path(source)):
            if graph.begins is not None:
                updates.setdefault(graph.begins, Update(graph.begins)).add.extend(graph.quads)
            if graph.ends is not None:
                gone = graph.quads if graph.begins is not None else [quad.triple for quad in graph.quads]
                updates.setdefault(graph.ends, Update(graph.ends)).remove.extend(gone)
    return [updates[time] for time in sorted(updates)]


def _graphs(path: Path) -> Iterable[_Timed]:
    format = rdf_format(path)
    if format is None or not format.supports_datasets:
        raise CepError(f"{path} holds no named graphs", hint="changes come as .nq, .trig or .jsonld", code="knowledge")
    graphs: dict[str, _Timed] = {}
    about: list[ox.Quad] = []
    try:
        with opened(path) as file:
            quads = labelled(list(ox.parse(file, format, base_iri=path.resolve().as_uri())))
    except SyntaxError as error:
        raise unreadable(error, str(path), format, lambda: opened(path)) from None
    except (OSError, EOFError) as error:
        raise CepError(f"{path} cannot be read: {str(error).lower()}", code="knowledge") from None
    for quad in quads:
        if isinstance(quad.graph_name, ox.DefaultGraph):
            about.append(quad)
        else:
            graphs.setdefault(str(quad.graph_name), _Timed()).quads.append(quad)
    for quad in about:
        graph = graphs.get(str(quad.subject))
        if graph is None:
            raise CepError(f"{path}: {quad.triple} is in no graph, so it has no time", hint=_HINT, code="knowledge")
        if quad.predicate.value == FROM:
            graph.begins = _time(path, quad)
        elif quad.predicate.value == UNTIL:
            graph.ends = _time(path, quad)
    for name, graph in graphs.items():
        if graph.begins is None and graph.ends is None:
            raise CepError(f"{path}: the graph {name} has no time", hint=_HINT, code="knowledge")
        if graph.begins is not None and graph.ends is not None and graph.ends <= graph.begins:
            told = f"{path}: the graph {name} ends when it begins or before"
            hint = "its `prov:invalidatedAtTime` is to be later than its `prov:generatedAtTime`"
            raise CepError(told, hint=hint, code="knowledge")
    return graphs.values()


def _time(path: Path, quad: ox.Quad) -> int:
    text = quad.object.value if isinstance(quad.object, ox.Literal) else ""
    try:
        return read_time(text)
    except CepError:
        told = f"{path}: `{text or quad.object}` is no time"
        raise CepError(told, hint="a time is written `2013-02-08T18:00:00Z`", code="knowledge") from None
