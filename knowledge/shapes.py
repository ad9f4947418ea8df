"""Validation of registers of stations against SHACL shapes. The result lists the violations of each node."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyshacl
from pyshacl.errors import ReportableRuntimeError
from rdflib import RDF, SH, XSD, BNode, Graph, Literal, URIRef
from rdflib.collection import Collection

from cep.core.errors import CepError
from cep.core.prefixes import PREFIXES
from cep.core.suggest import SURE, nearest
from cep.knowledge.data_graph import data_graph, rdflib_graph
from cep.knowledge.load import at, files, is_service, load, open_rdf, rdf_format, subjects
from cep.knowledge.query.federation import unescaped
from cep.knowledge.query.sparql import tokens
from cep.knowledge.rdf.terms import NONE, Terms
from cep.knowledge.report import prefixes
from cep.knowledge.shape_comparisons import PAIRS, RANGES, without_order

if TYPE_CHECKING:
    from rdflib.term import Node

    from cep.knowledge.graph import Knowledge

STATIONS = Path(__file__).parent.parent / "ontologies" / "stations.shapes.ttl"
"""The shapes to which a register of weather stations must conform."""

SOSA = "http://www.w3.org/ns/sosa/"
OBSERVES = URIRef(SOSA + "observes")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d+)?|\.\d+)")


@dataclass(frozen=True, slots=True, order=True)
class ValidationResult:
    """A violation of a shape.

    - `focus`: the node that violates the shape.
    - `path`: the property path from the node to the values; it may be empty.
    - `values`: the values at the end of the path, if any.
    - `reason`: the requirement that these values violate.
    - `warning`: True if the shape is only a warning (sh:Warning or sh:Info).
    - `place`: the file that describes the node, with the line if it is known.
    """

    focus: str
    path: str
    values: tuple[str, ...]
    reason: str
    warning: bool = False
    place: str = ""

    def __str__(self) -> str:
        values_text = f": found {', '.join(self.values)}" if self.values else ""
        where = f"{self.place}: " if self.place else ""
        where += "warning: " if self.warning else ""
        return f"{where}{self.focus}: {self.reason}" + (f" ({self.path}{values_text})" if self.path else values_text)


def validate(data: Knowledge | Graph, shapes: Path = STATIONS) -> list[ValidationResult]:
    """Return the violations of the shapes, sorted by node, path and reason. `data`: knowledge, or an rdflib graph.

    Inferred triples count too. Only the targets of shapes are checked, which takes about a millisecond per station.
    Raises CepError if the file contains no shapes, or uses terms that SHACL does not define.
    """
    rules = _read(shapes)
    graph = data if isinstance(data, Graph) else data_graph(data.terms, data.closed, rules)
    try:
        _, report, _ = pyshacl.validate(graph, shacl_graph=rules, inplace=graph is not data)
    except (ReportableRuntimeError, re.error) as error:
        raise _refused(shapes, str(error).splitlines()[0]) from None
    if not isinstance(report, Graph):
        raise _refused(shapes, str(report))
    return _problems(report, graph, rules)


def stations(data: Knowledge) -> int:
    """Count the stations: all things that are a sosa:Platform or host something."""
    kind, hosts = data.terms.id_of(URIRef(SOSA + "Platform")), data.terms.id_of(URIRef(SOSA + "hosts"))
    known = [data.closed.match(p=data.terms.id_of(RDF.type), o=kind)[0]] if kind != NONE else []
    known += [data.closed.match(p=hosts)[0]] if hosts != NONE else []
    return len(np.unique(np.concatenate(known))) if known else 0


def undescribed_properties(data: Knowledge) -> list[ValidationResult]:
    """Return a warning for each observed property that no triple describes.

    If no property is described at all, return a single warning.
    """
    ids = data.terms.id_of(OBSERVES)
    asserted = data.asserted
    observed = np.unique(asserted.match(p=ids)[2]) if ids != NONE else np.empty(0, np.int64)
    undescribed = [candidate for candidate in observed.tolist() if not asserted.count(s=candidate)]
    kind = data.terms.id_of(URIRef(SOSA + "ObservableProperty"))
    defined = (
        np.unique(asserted.match(p=data.terms.id_of(RDF.type), o=kind)[0]) if kind != NONE else np.empty(0, np.int64)
    )
    names = [str(data.terms.term(int(known_id))) for known_id in defined]
    if not undescribed:
        return []
    if not names and len(undescribed) == len(observed):
        reason = "the knowledge does not define what sensors observe: load the ontology that defines it, too"
        return [ValidationResult("sosa:observes", "", (), reason, True)]
    problems = []
    for predicate in undescribed:
        name = str(data.terms.term(predicate))
        near = nearest(name, names, SURE)
        suggestion = f", did you mean {near}?" if near else ""
        problems.append(ValidationResult(name, "", (), f"sensors observe it, but nothing defines it{suggestion}", True))
    return sorted(problems)


def with_files(problems: Sequence[ValidationResult], names: Sequence[str]) -> list[ValidationResult]:
    """Add to each result the file that describes its node. `names`: the loaded files.

    Registers of places are not searched.
    """
    wanted = {problem.focus for problem in problems}
    places: dict[str, str] = {}
    for file in files(name for name in names if not is_service(name)):
        path = at(file)
        if rdf_format(path) is None or not wanted - places.keys():
            continue
        subject_iris, prefixes = subjects(path, wanted - places.keys())
        places |= {focus: f"{path}{_line(path, focus, prefixes)}" for focus in subject_iris}
    return [replace(problem, place=places.get(problem.focus, "")) for problem in problems]


def _line(path: Path | str, focus: str, prefixes: Mapping[str, str]) -> str:
    iri = focus[1:-1]
    forms = [focus, *(f"{name}:{iri.removeprefix(base)}" for name, base in prefixes.items() if iri.startswith(base))]
    with open_rdf(path) as file:
        for number, line in enumerate(file, 1):
            first = line.split(maxsplit=1)[:1]
            if first and first[0].decode(errors="replace") in forms:
                return f":{number}"
    return ""


def _read(path: Path) -> Graph:
    terms = Terms()
    read = load(path, terms)  # it reports errors in the file with their position
    shapes = rdflib_graph(terms, [(read.s, read.p, read.o)])
    for prefix, iri in {**PREFIXES, **prefixes([str(path)])}.items():
        shapes.bind(prefix, iri, replace=True)
    words = {word for triple in shapes for word in triple if isinstance(word, URIRef) and word.startswith(str(SH))}
    for word in sorted(words - {URIRef(str(SH))}):
        if word not in SH:
            raise _refused(path, f"SHACL has no word `{_name(word, shapes)}`")
    if not words:
        raise _refused(path, "the file has no shapes")
    queries = [str(query) for word in (SH.select, SH.ask, SH.construct) for query in shapes.objects(None, word)]
    for token in (token for query in sorted(queries) for token in tokens(unescaped(query)) if token.kind == "word"):
        if token.text.lower() == "from" or "service" in token.text.lower():
            raise _refused(path, f"their queries can read only the loaded knowledge, so `{token.text}` is not allowed")
    return shapes


def _refused(path: Path, reason: str) -> CepError:
    return CepError(
        f"{path}: the shapes are not valid: {reason}", hint="see https://www.w3.org/TR/shacl/", code="shape"
    )


def _problems(report: Graph, data: Graph, shapes: Graph) -> list[ValidationResult]:
    problems: set[ValidationResult] = set()
    for result in report.objects(None, SH.result):
        focus, path = report.value(result, SH.focusNode), report.value(result, SH.resultPath)
        values = list(report.objects(result, SH.value))
        if not values and focus is not None and path is not None:
            values = _at(focus, path, report, data)
        problems.add(
            ValidationResult(
                "" if focus is None else focus.n3(),
                "" if path is None else _path(path, report, shapes),
                tuple(sorted(_name(value, shapes) for value in values)),
                _reason(result, report, shapes, data),
                report.value(result, SH.resultSeverity) in (SH.Warning, SH.Info),
            )
        )
    return sorted(problems)


def _reason(result: Node, report: Graph, shapes: Graph, data: Graph) -> str:
    """Return the message that explains a violation.

    This is the message of the shape or of the shape's query. If neither has a message, it is composed of the violated
    parameter and, if values cannot be compared, the reason.
    """
    shape, component = report.value(result, SH.sourceShape), report.value(result, SH.sourceConstraintComponent)
    query = report.value(result, SH.sourceConstraint)
    if shape is None or any(shapes.value(node, SH.message) is not None for node in (shape, query)):
        return str(report.value(result, SH.resultMessage))
    name = str(component).removeprefix(str(SH)).removesuffix("ConstraintComponent")
    parameter = SH.sparql if name == "SPARQL" else URIRef(f"{SH}{name[:1].lower()}{name[1:]}")
    wanted = shapes.value(shape, parameter)
    value = "" if wanted is None or isinstance(wanted, BNode) else " " + _name(wanted, shapes)
    reason = f"it does not fit {_name(parameter, shapes)}{value}"
    focus_value, focus = report.value(result, SH.value), report.value(result, SH.focusNode)
    others = [wanted] if parameter in RANGES else data.objects(focus, wanted) if parameter in PAIRS else ()
    why = (without_order(focus_value, other) for other in others if focus_value is not None and other is not None)
    return ": ".join([reason, *sorted({reason_text for reason_text in why if reason_text is not None})])


def _at(focus: Node, path: Node, report: Graph, data: Graph) -> list[Node]:
    # Return the values at a path of one step forward or back; longer paths have too many to show.
    if isinstance(path, URIRef):
        return list(data.objects(focus, path))
    inverse = report.value(path, SH.inversePath)
    return list(data.subjects(inverse, focus)) if isinstance(inverse, URIRef) else []


def _path(path: Node, report: Graph, shapes: Graph) -> str:
    """Return a property path as text in the notation of SPARQL."""
    if isinstance(path, URIRef):
        return _name(path, shapes)
    several = report.value(path, SH.alternativePath)
    if several is not None:
        return " | ".join(_path(choice, report, shapes) for choice in Collection(report, several))
    inverse = report.value(path, SH.inversePath)
    if inverse is not None:
        return "^" + _path(inverse, report, shapes)
    for repeated, sign in ((SH.zeroOrMorePath, "*"), (SH.oneOrMorePath, "+"), (SH.zeroOrOnePath, "?")):
        step = report.value(path, repeated)
        if step is not None:
            return _path(step, report, shapes) + sign
    return " / ".join(_path(part, report, shapes) for part in Collection(report, path))


def _name(node: Node, shapes: Graph) -> str:
    # Write a node with the prefixes of the shapes' file, and a number as in Turtle.
    if isinstance(node, Literal) and node.datatype in (XSD.integer, XSD.decimal) and _NUMBER.fullmatch(str(node)):
        return str(node)
    return node.n3(shapes.namespace_manager)
