"""Graph patterns: both ways to answer them agree with each other and with rdflib; what cannot be asked is said."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

import pyoxigraph as ox
import rdflib
from hypothesis import given
from rdflib.term import BNode, Literal, URIRef

from cep.background import Answers
from cep.errors import Source, Span
from cep.events import Iri
from cep.stored import series_of
from cep.syntax.ast import Graph
from cep.syntax.graphs import of_the_rule
from cep.values import Pool
from knowledge import patterns, rdf, sparql
from knowledge.graph import Knowledge
from tests import knowledge_maker as maker
from tests import reference_knowledge, reference_parser

logging.getLogger("rdflib.term").setLevel(logging.ERROR)  # it warns of ill-formed literals with a traceback

PROGRAM_LINE = 3


def graph(text: str, prefixes: tuple[tuple[str, str], ...] = maker.PREFIXES) -> Graph:
    """A pattern that stands in line 3, column 5 of a program."""
    lines = text.split("\n")
    last = len(lines[-1]) + (5 if len(lines) == 1 else 1)
    span = Span(PROGRAM_LINE, 5, PROGRAM_LINE + len(lines) - 1, last)
    return Graph(text, tuple(of_the_rule(text)), prefixes, False, span)


def source(text: str) -> Source:
    return Source(f"\n\n    {text}\n")


def rows(knowledge: Knowledge, text: str) -> list[tuple[Any, ...]]:
    """The answers of a pattern, in their order; values of different kinds are different."""
    return shown(knowledge.answers(graph(text), POOL, source(text)), POOL)


def shown(found: Answers, pool: Pool) -> list[tuple[Any, ...]]:
    columns = [series_of(c, t, pool).to_list() for c, t in zip(found.columns, found.types)]
    made = [
        tuple(plain(Iri(v) if t == "iri" and v is not None else v) for v, t in zip(row, found.types))
        for row in zip(*columns)
    ]
    return made if columns else [()] * found.rows


POOL = Pool()


def plain(value: Any) -> Any:
    """Times and durations as seconds, as a column of several kinds has them; booleans are no numbers."""
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, reference_parser.Ticks):
        return value.n / 1e6
    return (type(value).__name__, str(value)) if isinstance(value, bool | str) else value


def by_rdflib(data: rdflib.Dataset, text: str) -> set[tuple[Any, ...]]:
    """The same by rdflib's SPARQL."""
    names = list(of_the_rule(text))
    if not names:
        return {()} if data.query(f"ASK {text}", initNs=NAMESPACES).askAnswer else set()
    found = data.query(f"SELECT {' '.join('?' + n for n in names)} WHERE {text}", initNs=NAMESPACES)
    return {tuple(plain(of_rdflib(row[i])) for i in range(len(names))) for row in found}


NAMESPACES = {name: rdflib.Namespace(iri) for name, iri in maker.PREFIXES}


def of_rdflib(term: Any) -> Any:
    if term is None:
        return None
    if isinstance(term, Literal):
        kind = reference_knowledge.Term("literal", str(term), str(term.datatype or ""))
    else:
        kind = reference_knowledge.Term("iri", f"_:{term}" if isinstance(term, BNode) else str(term))
    return reference_knowledge.value(kind)


def both(lines: list[str], named: list[str]) -> tuple[Knowledge, rdflib.Dataset]:
    """Triples as knowledge and in rdflib, the named ones in a graph of their own."""
    data = rdflib.Dataset(default_union=True)
    quads = []
    for text, name in [*((line, None) for line in lines), *((line, "http://ex.org/g") for line in named)]:
        (triple,) = ox.parse(text, ox.RdfFormat.N_TRIPLES)
        quads.append(ox.Quad(*triple.triple, ox.NamedNode(name)) if name else triple)
        (data.graph(URIRef(name)) if name else data.default_graph).add(tuple(rdf.to_rdflib(t) for t in triple.triple))
    return Knowledge.of(quads), data


@given(lines=maker.knowledge, text=maker.basic())
def test_triples_are_joined_as_sparql_joins_them(lines: list[str], text: str) -> None:
    knowledge, data = both(lines, [])
    asked = graph(text)
    assert sparql.basic(text, dict(maker.PREFIXES)) is not None
    found = rows(knowledge, text)
    assert len(set(found)) == len(found)
    assert found == shown(patterns.by_sparql(asked, knowledge.store(), POOL, source(text)), POOL)
    assert set(found) == by_rdflib(data, text)


@given(lines=maker.knowledge, named=maker.knowledge, text=maker.patterns())
def test_every_pattern_has_the_answers_that_rdflib_gives(lines: list[str], named: list[str], text: str) -> None:
    knowledge, data = both(lines, named)
    found = rows(knowledge, text)
    assert len(set(found)) == len(found)
    assert set(found) == by_rdflib(data, text)
