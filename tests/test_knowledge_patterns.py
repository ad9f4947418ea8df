"""Graph patterns: both ways to answer them agree with each other and with rdflib; what cannot be asked is said."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

import pyoxigraph as ox
import pytest
import rdflib
from hypothesis import given
from hypothesis import strategies as st
from owlrl import DeductiveClosure, OWLRL_Semantics
from rdflib.term import BNode, Literal, URIRef

from cep.core.errors import CepError, Source, Span
from cep.core.values import Pool
from cep.events import Iri
from cep.knowledge.graph import Knowledge
from cep.knowledge.query import graph_patterns, sparql
from cep.knowledge.rdf import interop
from cep.rules.graph_text import of_the_rule
from cep.rules.static.materialized import series_of
from cep.rules.terms import Graph
from cep.runtime.knowledge_source import Answers
from tests import knowledge_maker as maker
from tests import reference_knowledge, reference_tree
from tests.test_equivalence import examples

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
    if isinstance(value, reference_tree.Ticks):
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
        (data.graph(URIRef(name)) if name else data.default_graph).add(
            tuple(interop.to_rdflib(t) for t in triple.triple)
        )
    return Knowledge.of(quads), data


@examples(100)
@given(lines=maker.knowledge, text=maker.basic())
def test_triples_are_joined_as_sparql_joins_them(lines: list[str], text: str) -> None:
    knowledge, data = both(lines, [])
    asked = graph(text)
    assert sparql.basic(text, dict(maker.PREFIXES)) is not None
    found = rows(knowledge, text)
    assert len(set(found)) == len(found)
    assert found == shown(graph_patterns.by_sparql(asked, knowledge.store(), POOL, source(text)), POOL)
    assert set(found) == by_rdflib(data, text)


@examples(100)
@given(lines=maker.knowledge, named=maker.knowledge, text=maker.patterns())
def test_every_pattern_has_the_answers_that_rdflib_gives(lines: list[str], named: list[str], text: str) -> None:
    if "isNumeric" in text:  # rdflib takes "no"^^xsd:integer for a number, and SPARQL does not
        lines, named = ([line for line in some if '"no"' not in line] for some in (lines, named))
    knowledge, data = both(lines, named)
    found = rows(knowledge, text)
    assert len(set(found)) == len(found)
    assert set(found) == by_rdflib(data, text)


STATIONS = """
@prefix ex: <http://ex.org/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
ex:jfk ex:code "JFK" ; ex:lat 40.64 ; ex:sensor ex:s1, ex:s2 ; ex:label "Kennedy"@en .
ex:lga ex:code "LGA" ; ex:lat 40.78 ; ex:sensor ex:s3 .
ex:s1 a ex:Anemometer ; ex:height 10 . ex:s2 a ex:Thermometer ; ex:height 2.0 .
ex:s3 a ex:Anemometer ; ex:height "10.0"^^xsd:double .
"""


def stations() -> Knowledge:
    return Knowledge.of(ox.parse(STATIONS, ox.RdfFormat.TURTLE))


def words(text: str) -> list[tuple[Any, ...]]:
    """The answers as short texts: IRIs by their last part."""
    found = []
    for row in rows(stations(), text):
        found.append(tuple(v[1].rpartition("/")[2] if isinstance(v, tuple) else v for v in row))
    return found


def test_a_pattern_gives_each_answer_once_sorted_by_value() -> None:
    assert words("{ ?Station ex:code ?Code ; ex:sensor ?s }") == [("jfk", "JFK"), ("lga", "LGA")]
    assert words("{ ?s ex:height ?Height }") == [(2.0,), (10.0,)]
    assert words("{ ?S ex:lat ?lat FILTER(?lat > 40.7) }") == [("lga",)]


def test_a_variable_that_is_not_bound_is_a_missing_value() -> None:
    assert words("{ ?S ex:code ?c OPTIONAL { ?S ex:label ?Label } }") == [("jfk", "Kennedy"), ("lga", None)]


def test_numbers_of_one_type_are_one_term_however_they_are_written() -> None:
    knowledge = Knowledge.of(ox.parse("<x:a> <x:p> 1.50, 1.5, +01 . <x:b> <x:q> 1.500, 1 .", ox.RdfFormat.TURTLE))
    assert rows(knowledge, "{ ?s <x:p> ?N . ?t <x:q> ?N }") == [(1.0,), (1.5,)]
    assert rows(knowledge, "{ ?s <x:p> ?N FILTER EXISTS { ?t <x:q> ?N } }") == [(1.0,), (1.5,)]
    assert rows(knowledge, "{ ?S <x:q> 001 }") == [(("Iri", "x:b"),)]


def test_a_pattern_without_variables_of_the_rule_holds_or_not() -> None:
    assert words("{ ex:jfk ex:sensor [ a ex:Anemometer ] }") == [()]
    assert words("{ ex:lga ex:sensor/a ex:Thermometer }") == []
    assert words("{ ?s a ex:Barometer }") == []


def test_what_sparql_leaves_open_depends_on_the_triples_alone() -> None:
    text = "{ SELECT (GROUP_CONCAT(?c; separator=' ') AS ?Codes) (SAMPLE(?c) AS ?One) { ?s ex:code ?c } }"
    turned = Knowledge.of(reversed(list(ox.parse(STATIONS, ox.RdfFormat.TURTLE))))
    assert rows(turned, text) == rows(stations(), text)


WRONG = {
    "{ ?S ex:code ?C ?S ex:lat ?L }": ("3:21", "a `.` or `;` is missing before `?S`", "separated by ` .`"),
    "{ ?S ex:code ?C, ?S ex:lat ?L }": ("3:20", "`,` goes on with the same subject", "separate triples by ` .`"),
    "{ ?S ex:code ?C .\n  , ?S ex:lat ?L }": ("4:3", "`,` cannot separate triples in braces", "after `}`"),
    "{ ?S wt:code ?C }": ("3:10", "the prefix `wt:` is not declared", "PREFIX wt: <http://...>`, without a final dot"),
    "{ Station ex:code ?C }": ("3:7", "`Station` is not a term of SPARQL", "a variable is written `?Station`"),
    "{ ?S ex:code jfk }": ("3:18", "`jfk` is not a term of SPARQL", '"jfk"'),
    "{ ?S ex:lat ?L .\n ?L > 40 }": ("4:2", "a comparison between braces is a FILTER", "`FILTER(?X > 3)`"),
    "{ ?S ex:lat ?L, ?L > 40 }": ("3:21", "a comparison between braces is a FILTER", "{ ... }, X > 3"),
    "{ ?S ex:lat ?L FILTER ?L > 40 }": ("3:27", "`FILTER` takes its expression in `(...)`", "FILTER(?x > 3)"),
    "{ ?S ex:lat ?L FILTER(?L > ) }": ("3:34", "`}` cannot stand here", "and close all brackets"),
    "{ ?S ex:lat }": ("3:17", "a term is expected here, not `}`", "a triple is `?s ex:p ?o`"),
    "{ ?S <lat> ?L }": ("3:10", "`<lat>` is not a full IRI", "`<http://...>`"),
    "{ ?S ex:lat ?L OPTIONAL ?S }": ("3:29", "the pattern is expected here, in braces", "OPTIONAL {"),
    "{ SELECT ?S (COUNT(?c) AS ?N) { ?S ex:code ?c } }": ("3:53", "`}` cannot stand here", "GROUP BY ?s"),
    "{ ?s ex:lat ?l FILTER(?L > 40) }": ("3:27", "`?L` has no value in this pattern", "{ ... }, L > 3"),
    "{ ?S ex:lat ?l MINUS { ?S ex:code ?C } }": ("3:39", "`?C` has no value", "after the braces"),
    "{ SERVICE <http://a.org/> { ?S ex:lat ?L } }": (
        "3:7",
        "`SERVICE` queries another endpoint over the network",
        "--knowledge FILE",
    ),
    "{ ?S ex:since ?t FILTER(?t < NOW()) }": ("3:34", "`NOW()` returns a different value each time", "end() > T"),
    "{ ?S ex:lat ?l FILTER(ex:odd(?l)) }": ("3:5", "cannot be answered: the custom function", None),
}


@pytest.mark.parametrize("text", WRONG)
def test_a_pattern_that_cannot_be_asked_is_refused_where_it_is_wrong(text: str) -> None:
    place, message, hint = WRONG[text]
    with pytest.raises(CepError) as refused:
        rows(stations(), text)
    assert str(refused.value).startswith(f"<program>:{place}: ")
    assert message in refused.value.message and (hint is None or hint in (refused.value.hint or ""))


def many() -> Knowledge:
    """Two thousand stations with a sensor each."""
    lines = (f"<x:s{i}> <x:sensor> <x:n{i}> .\n<x:n{i}> <x:height> {i} ." for i in range(2000))
    return Knowledge.of(ox.parse("\n".join(lines), ox.RdfFormat.TURTLE))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{ ?S <x:sensor> ?N . ?M <x:height> ?H }", "3:26"),
        ("{ ?S <x:sensor>+ ?N . ?M <x:height> ?H }", "3:27"),
        ("{ ?S <x:sensor> ?n . { ?M <x:height> ?H } UNION { ?M <x:sensor> ?H } }", "3:26"),
        ("{ { ?S <x:sensor> ?N . ?M <x:height> ?H } }", "3:28"),
        ("{ { { ?S <x:sensor> ?N } { ?M <x:height> ?H } } }", "3:30"),
        ("{ ?S <x:sensor> ?N OPTIONAL { ?M <x:height> ?H } }", "3:24"),
        ("{ ?S <x:sensor> ?N OPTIONAL { ?S <x:sensor> ?M . ?N <x:height> ?H } }", "3:54"),
        ("{ ?S <x:sensor> ?N { { ?S <x:sensor> ?M . ?b <x:height> ?H } UNION { ?S <x:sensor> ?H } } }", "3:47"),
        ("{ ?S <x:sensor> ?N MINUS { ?S <x:sensor> ?m . ?n <x:height> ?h } }", "3:51"),
        ("{ ?S <x:sensor> ?N FILTER NOT EXISTS { ?a <x:sensor> ?m . ?b <x:height> ?h FILTER(?h < 0) } }", "3:63"),
        ("{ { SELECT ?S ?H { ?S <x:sensor> ?x . ?y <x:height> ?H } } }", "3:43"),
        ("{ { SELECT (COUNT(*) AS ?N) { ?s <x:sensor> ?x . ?y <x:height> ?h } } }", "3:54"),
        ("{ ?S <x:sensor> ?x . { SELECT ?H { ?y <x:height> ?H . ?x <x:sensor> ?y } } }", "3:26"),
    ],
)
def test_a_cross_product_is_refused_before_it_is_made(text: str, place: str) -> None:
    with pytest.raises(CepError, match=r"cross product of [48],000,000 answers") as refused:
        rows(many(), text)
    assert str(refused.value).startswith(f"<program>:{place}: ")
    assert "`{ ... }, { ... }`" in (refused.value.hint or "")


def test_a_small_product_and_one_that_a_filter_narrows_are_answered() -> None:
    assert len(rows(many(), "{ ?S <x:sensor> ?n . ?m <x:height> ?H FILTER(?H < 10) }")) == 20_000
    assert len(rows(many(), "{ ?S <x:sensor> <x:n7> . ?M <x:height> ?H }")) == 2000
    assert len(rows(many(), "{ ?s <x:sensor> ?N . ?m <x:height> ?H FILTER(?H = 7 && ?s = <x:s7>) }")) == 1


def test_parts_that_something_connects_are_no_product() -> None:
    knowledge = many()
    for count, text in {
        2000: "{ ?S <x:sensor> ?N { ?S <x:sensor> ?m . ?N <x:height> ?H } }",  # by the group around
        10: "{ { SELECT ?S ?H { ?S <x:sensor> ?a . ?b <x:height> ?H } LIMIT 10 } }",  # no more are made
        2001: "{ { ?S <x:sensor> <x:n1> . ?b <x:height> ?H } UNION { ?S <x:sensor> <x:n2> } }",  # one with each
        1: "{ ?S <x:sensor> <x:n1> OPTIONAL { ?S <x:sensor> ?N OPTIONAL { ?N <x:height> ?H } } }",
        3: "{ VALUES ?S { <x:s1> <x:s2> <x:s3> } FILTER EXISTS { ?S <x:sensor> ?m . ?a <x:height> ?b } }",
    }.items():
        assert len(rows(knowledge, text)) == count, text


def test_answers_that_come_too_often_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_patterns, "MOST_READ", 1999)
    with pytest.raises(CepError, match=r"^<program>:3:5: this pattern has more than 1,999 answers"):
        rows(many(), "{ ?s a?/<x:sensor> ?n BIND(1 AS ?N) }")
    monkeypatch.setattr(graph_patterns, "MOST_READ", 2000)
    assert rows(many(), "{ ?s <x:sensor> ?n BIND(1 AS ?N) }") == [(1,)]


def test_answers_are_the_same_in_whatever_pieces_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = (
        "{ ?s <x:sensor> ?n BIND(IF(?n = <x:n7>, 1, 2) AS ?N) }",
        "{ ?S a?/<x:sensor> ?N OPTIONAL { ?N <x:sensor> ?M } }",
        "{ ?s <x:sensor> ?n OPTIONAL { ?n <x:sensor> ?N } }",  # one that is not bound
        "{ ?s a?/<x:sensor> ?n BIND('né\\nt\\tx' AS ?N) FILTER(?n = <x:none>) }",
    )
    whole = [rows(many(), text) for text in texts]
    assert [len(each) for each in whole] == [2, 2000, 1, 0]
    monkeypatch.setattr("cep.knowledge.query.solutions._PIECE", 100)
    assert [rows(many(), text) for text in texts] == whole


def test_a_table_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_patterns, "MOST_CELLS", 3999)
    for text in ("{ ?S <x:sensor> ?N }", "{ ?S <x:sensor>+ ?N }"):
        with pytest.raises(CepError, match=r"has 2,000|has more than 1,999") as refused:
            rows(many(), text)
        assert str(refused.value).startswith("<program>:3:5: ")
    assert len(rows(many(), "{ ?S <x:sensor> ?n }")) == 2000


def test_a_filter_does_not_hide_that_there_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_patterns, "_ENDLESS", 1_000_000)
    with pytest.raises(CepError, match=r"has 8,000,000 answers"):
        rows(many(), "{ ?S ?p ?o . ?T ?p ?u FILTER(?S != ?T) }")
    assert len(rows(many(), "{ ?S ?p ?o . ?t ?p ?u FILTER(?S = <x:s1> && ?t = <x:s2>) }")) == 1
    with pytest.raises(CepError, match=r"has 8,000,000 answers"):
        rows(many(), "{ ?S <x:sensor> ?N { SELECT ?S { ?S ?p ?o . ?t ?p ?u FILTER(?S != ?t) } } }")
    assert len(rows(many(), "{ ?S ?p ?o . ?t ?p ?u VALUES (?S ?t) { (<x:s1> <x:s2>) } }")) == 1


def test_triples_are_asked_by_their_terms() -> None:
    knowledge, pool = stations(), Pool()
    found = knowledge.triples((None, Iri("http://ex.org/code"), None), pool)
    assert found.types == ("iri", "string")
    assert [row[1][1] for row in shown(found, pool)] == ["JFK", "LGA"]
    assert knowledge.triples((Iri("http://ex.org/nowhere"), None, None), pool).rows == 0
    assert (
        knowledge.triples((Iri("http://ex.org/s1"), Iri("http://ex.org/is"), Iri("http://ex.org/s1")), pool).rows == 0
    )


ONTOLOGY = """
@prefix ex: <http://ex.org/> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:p rdfs:subPropertyOf ex:q ; rdfs:domain ex:Origin . ex:r a owl:TransitiveProperty . ex:q owl:inverseOf ex:s .
ex:Origin rdfs:subClassOf ex:Place . ex:t owl:propertyChainAxiom (ex:p ex:r) . ex:u a owl:SymmetricProperty .
"""
INFERRED = [
    "{ ?A a ex:Place }",
    "{ ?A ex:q ?B . ?B ex:s ?C }",
    "{ ?A ex:r ?B ; ex:t ?C }",
    "{ ?A ex:u ?b FILTER NOT EXISTS { ?b ex:u ex:a } }",
    "{ ?A ex:t/ex:s ?B OPTIONAL { ?B a ex:Origin ; ex:r ?C } }",
    "{ { ?A ex:s ?B } UNION { ?B ex:t ?A } MINUS { ?A a ex:Place } }",
]
names = st.sampled_from([f"ex:{letter}" for letter in "abcd"])


@examples(8)
@given(st.lists(st.tuples(names, st.sampled_from(["ex:p", "ex:q", "ex:r", "ex:u"]), names), max_size=12))
def test_patterns_see_what_owlrl_infers(triples: list[tuple[str, str, str]]) -> None:
    text = ONTOLOGY + "".join(f"{' '.join(triple)} .\n" for triple in triples)
    knowledge = Knowledge.of(ox.parse(text, ox.RdfFormat.TURTLE), "owlrl")
    data = rdflib.Dataset(default_union=True)
    data.default_graph.parse(data=text, format="turtle")
    DeductiveClosure(OWLRL_Semantics).expand(data.default_graph)
    for pattern in INFERRED:
        assert set(rows(knowledge, pattern)) == by_rdflib(data, pattern)


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("{ ?X <x:says> <<( <x:a> <x:p> ?C )>> }", "<<"),
        ("{ << <x:a> <x:p> ?Y >> <x:q> 1 }", "<<"),
        ("{ <x:a> <x:p> <x:c> {| <x:q> ?Z |} }", "{|"),
        ("{ <x:a> <x:p> <x:c> ~ ?R }", "~"),
        ("{ ?X <x:p> ?T FILTER(isTriple(?T)) }", "isTriple"),
        ("{ ?X <x:p> ?T BIND(subject(?T) AS ?S) }", "subject"),
    ],
)
def test_triples_about_triples_are_refused(text: str, mark: str) -> None:
    knowledge = Knowledge.of(ox.parse("<x:a> <x:p> 1 .", ox.RdfFormat.TURTLE))
    with pytest.raises(CepError, match=r"which is RDF 1\.2 and not supported") as refused:
        rows(knowledge, text)
    assert refused.value.message.startswith(f"`{mark}`")


def test_names_and_texts_like_those_of_triples_about_triples_are_not() -> None:
    knowledge = Knowledge.of(ox.parse('<x:a> <x:p> "<<a~b{|" .', ox.RdfFormat.TURTLE))
    assert len(rows(knowledge, '{ ?subject <x:p> "<<a~b{|" FILTER(1<2) }')) == 1
