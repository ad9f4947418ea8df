"""Changes of knowledge with their times: named graphs that say from when and until when their triples hold.

In a file of quads (N-Quads, TriG, JSON-LD) the default graph gives each named graph its times by PROV-O:

    <urn:1> prov:generatedAtTime "2013-02-08T18:00:00Z"^^xsd:dateTime .      its triples hold from then on
    <urn:1> prov:invalidatedAtTime "2013-02-09T06:00:00Z"^^xsd:dateTime .    and from then on no more

A graph with the second alone takes away what was known before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyoxigraph as ox

from cep.errors import CepError
from cep.syntax.constants import read_time
from knowledge.load import files, opened, rdf_format
from knowledge.unreadable import unreadable

PROV = "http://www.w3.org/ns/prov#"
FROM, UNTIL = PROV + "generatedAtTime", PROV + "invalidatedAtTime"
_HINT = (
    'the default graph says when: `<urn:1> <http://www.w3.org/ns/prov#generatedAtTime> "2013-02-08T18:00:00Z"'
    "^^<http://www.w3.org/2001/XMLSchema#dateTime> .`"
)


@dataclass(slots=True)
class Update:
    """From `time` on (microseconds) knowledge is without the triples `remove`, and then with `add`."""

    time: int
    add: list[ox.Triple] = field(default_factory=list)
    remove: list[ox.Triple] = field(default_factory=list)


def read(names: str | Path | Iterable[str | Path]) -> list[Update]:
    """The changes in files of quads, sorted by time, one for each time. Raises CepError for what cannot be read, for a
    graph without a time and for triples that are in no graph."""
    updates: dict[int, Update] = {}
    for source in files(names):
        for time, adds, triples in _graphs(Path(source)):
            update = updates.setdefault(time, Update(time))
            (update.add if adds else update.remove).extend(triples)
    return [updates[time] for time in sorted(updates)]


def _graphs(path: Path) -> Iterable[tuple[int, bool, list[ox.Triple]]]:
    """For each time of each graph: the time, whether its triples hold from then on or no more, and the triples."""
    format = rdf_format(path)
    if format is None or not format.supports_datasets:
        raise CepError(f"{path} holds no named graphs", hint="changes come as .nq, .trig or .jsonld", code="knowledge")
    graphs: dict[str, list[ox.Triple]] = {}
    about: list[ox.Triple] = []
    try:
        with opened(path) as file:
            for quad in ox.parse(file, format, base_iri=path.resolve().as_uri()):
                if isinstance(quad.graph_name, ox.DefaultGraph):
                    about.append(quad.triple)
                else:
                    graphs.setdefault(str(quad.graph_name), []).append(quad.triple)
    except SyntaxError as error:
        raise unreadable(error, str(path), format, lambda: opened(path)) from None
    except (OSError, EOFError) as error:
        raise CepError(f"{path} cannot be read: {str(error).lower()}", code="knowledge") from None
    timed: set[str] = set()
    for triple in about:
        graph = str(triple.subject)
        if graph not in graphs:
            raise CepError(f"{path}: {triple} is in no graph, so it has no time", hint=_HINT, code="knowledge")
        if triple.predicate.value in (FROM, UNTIL):
            timed.add(graph)
            yield _time(path, triple), triple.predicate.value == FROM, graphs[graph]
    for graph in graphs:
        if graph not in timed:
            raise CepError(f"{path}: the graph {graph} has no time", hint=_HINT, code="knowledge")


def _time(path: Path, triple: ox.Triple) -> int:
    text = triple.object.value if isinstance(triple.object, ox.Literal) else ""
    try:
        return read_time(text)
    except CepError:
        told = f"{path}: `{text or triple.object}` is no time"
        raise CepError(told, hint="a time is written `2013-02-08T18:00:00Z`", code="knowledge") from None
