"""No query, file of knowledge, shape or record makes the engine ask the network, or read a file that nobody named."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rdflib import Graph, URIRef
from typer.testing import CliRunner

from cep.command import app
from cep.core.errors import CepError
from cep.engine import Engine
from cep.knowledge.graph import Knowledge
from cep.knowledge.imports import missing_imports
from cep.knowledge.observations import NodeShape, observations
from cep.knowledge.shapes import validate
from tests.listening import Listener
from tests.test_federation import HIDDEN

RDF_XML = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/">{}</rdf:RDF>'
DESCRIBED = RDF_XML.format('<rdf:Description rdf:about="http://e/a"><e:p>&x;</e:p></rdf:Description>')


@pytest.fixture
def listener() -> Iterator[Listener]:
    one = Listener()
    yield one
    assert not one.come, "nobody asks"
    one.close()


@pytest.fixture
def places(listener: Listener, tmp_path: Path) -> list[str]:
    """An address and a file that must not be read."""
    secret = tmp_path / "secret.ttl"
    secret.write_text('<urn:secret> <urn:p> "SECRET" .')
    return [listener.url, secret.as_uri()]


@pytest.mark.parametrize("query", HIDDEN)
def test_a_query_asks_no_other_endpoint(listener: Listener, tmp_path: Path, query: str) -> None:
    text = query.replace("URL", listener.url)
    (tmp_path / "known.ttl").write_text("<a:a> <a:flag> true ; <a:end> <http://a:> .")
    known = Knowledge.load(tmp_path / "known.ttl")
    with pytest.raises(CepError, match="`SERVICE` queries another endpoint over the network, which a query cannot do"):
        known.query(text)
    asked = CliRunner().invoke(app, ("knowledge", "query", text, "-k", str(tmp_path / "known.ttl")))
    assert asked.exit_code == 2 and "`SERVICE` queries another endpoint over the network" in asked.stderr


def test_a_pattern_of_a_rule_asks_no_other_endpoint(listener: Listener, tmp_path: Path) -> None:
    (tmp_path / "known.ttl").write_text("<a:a> <a:b> <a:c> .")
    for pattern in ("SERVICESILENT<URL>{ ?X ?b ?c }", "?X <a:end> x:SERVICE<URL>{ ?X ?b ?c }"):
        rules = tmp_path / "rules.cep"
        body = pattern.replace("URL", listener.url)
        rules.write_text(f"PREFIX x: <http://a:>\nevent e(x: iri) TIME t.\nd(X) <- e(X) WHERE {{ {body} }}.\n")
        checked = CliRunner().invoke(app, ("check", str(rules), "-k", str(tmp_path / "known.ttl")))
        assert checked.exit_code == 2 and "SERVICE" in checked.stderr, pattern


def test_graphs_of_a_query_are_those_of_the_knowledge(places: list[str]) -> None:
    known = Knowledge.of(Graph())
    for place in places:
        for text in (f"FROM <{place}> {{ ?s ?p ?o }}", f"FROM NAMED <{place}> {{ GRAPH ?g {{ ?s ?p ?o }} }}"):
            assert len(known.query("SELECT * " + text)) == 0  # type: ignore[arg-type]
        assert len(known.query(f"DESCRIBE <{place}>")) == 0  # type: ignore[arg-type]
        with pytest.raises(CepError, match="cannot begin a query"):
            known.query(f"LOAD <{place}>")


def test_a_query_that_is_nested_too_deeply_is_an_error() -> None:
    with pytest.raises(CepError, match="more than 200 nested brackets"):
        Knowledge.of(Graph()).query("SELECT * " + "{" * 5000 + "}" * 5000)


LONG = {
    "plus": "SELECT * { ?s ?p ?o FILTER(1 = " + "+".join(["?o"] * 20_000) + ") }",
    "or": "SELECT * { ?s ?p ?o FILTER(" + "||".join(["?o"] * 20_000) + ") }",
    "not": "SELECT * { ?s ?p ?o FILTER(" + "!" * 20_000 + "?o) }",
    "union": "SELECT * { " + " UNION ".join(["{?s ?p ?o}"] * 20_000) + " }",
    "alternatives": "SELECT * { ?s " + "|".join(["<a:p>"] * 20_000) + " ?o }",
    "path": "SELECT * { ?s " + "/".join(["<a:p>"] * 20_000) + " ?o }",
    "optional": "SELECT * { " + " ".join(["OPTIONAL {?s ?p ?o}"] * 20_000) + " }",
    "filter": "SELECT * { ?s ?p ?o " + " ".join(["FILTER(?o)"] * 20_000) + " }",
    "bind": "SELECT * { ?s ?p ?o " + " ".join(f"BIND(1 AS ?x{n})" for n in range(20_000)) + " }",
    "as": "SELECT " + " ".join(f"(1 AS ?x{n})" for n in range(20_000)) + " { ?s ?p ?o }",
}


@pytest.mark.parametrize("name", LONG)
def test_a_query_that_is_too_long_for_a_stack_is_an_error(name: str) -> None:
    with pytest.raises(CepError, match="more than 2,000 operators, triples and clauses") as refused:
        Knowledge.of(Graph()).query(LONG[name])
    assert "VALUES" in (refused.value.hint or "")
    if name == "or":
        pattern = LONG[name].removeprefix("SELECT * ").replace("?s", "?S")
        with pytest.raises(CepError, match="the pattern has more than 2,000 operators"):
            Engine.from_text(f"e(S) <- a(S) WHERE {pattern}.", knowledge=Knowledge.of(Graph()))


def test_a_list_of_many_values_is_no_long_query() -> None:
    known = Knowledge.of(Graph())
    for values in (" ".join(map(str, range(20_000))), " ".join(f"<a:{n}>" for n in range(20_000))):
        assert len(known.query(f"SELECT * {{ VALUES ?x {{ {values} }} }}")) == 20_000  # type: ignore[arg-type]


def test_no_context_is_fetched(places: list[str], tmp_path: Path) -> None:
    file = tmp_path / "known.jsonld"
    for place in map(json.dumps, places):
        scoped = '{"x": {"@id": "ex:x", "@context": ' + place + "}}"
        for context in (place, f"[{place}]", '{"@import": ' + place + "}", scoped):
            text = '{"@context": ' + context + ', "@id": "ex:a", "x": {"@id": "ex:b"}}'
            file.write_text(text)
            with pytest.raises(CepError) as refused:
                Knowledge.load(file)
            assert (
                refused.value.hint == "write the context in the file itself: contexts are not fetched from the network"
            )
            (found,) = observations(text.encode(), "jsonld", [NodeShape("ex:A", ("ex:p",), (("ex:p",),))])
            assert "contexts are not fetched from the network" in str(found)


@pytest.mark.parametrize(
    "declared",
    [
        '<!DOCTYPE r SYSTEM "URL">',
        '<!DOCTYPE r PUBLIC "a" "URL">',
        '<!DOCTYPE r [<!ENTITY x SYSTEM "URL">]>',
        '<!DOCTYPE r [<!ENTITY x PUBLIC "a" "URL">]>',
        '<!DOCTYPE r [<!ENTITY % y SYSTEM "URL"> %y;]>',
    ],
)
def test_no_entity_is_fetched(places: list[str], tmp_path: Path, declared: str) -> None:
    file = tmp_path / "known.rdf"
    for place in places:
        file.write_text(declared.replace("URL", place) + DESCRIBED)
        with pytest.raises(CepError) as refused:
            Knowledge.load(file)
        assert "SECRET" not in str(refused.value) and str(file) in str(refused.value)


def test_imports_are_named_and_not_fetched(places: list[str], tmp_path: Path) -> None:
    owl = "http://www.w3.org/2002/07/owl#"
    for place in places:
        file = tmp_path / "known.ttl"
        file.write_text(f"<urn:o> a <{owl}Ontology> ; <{owl}imports> <{place}> .")
        for reasoning in ("none", "owlrl"):
            known = Knowledge.load(file, reasoning)
            assert missing_imports(known) == [place] and "SECRET" not in str(known.query("SELECT * { ?s ?p ?o }"))


def test_shapes_ask_the_knowledge_alone(places: list[str], tmp_path: Path) -> None:
    shapes = tmp_path / "shapes.ttl"
    data = Graph()
    data.add((URIRef("urn:a"), URIRef("http://www.w3.org/1999/02/22-rdf-syntax-ns#type"), URIRef("urn:C")))
    for place in places:
        for query in (
            f"SELECT $this FROM <{place}> {{ $this ?p ?o }}",
            f"SELECT $this FROM NAMED <{place}> {{ GRAPH ?g {{ $this ?p ?o }} }}",
            f"SELECT $this {{ SERVICE <{place}> {{ $this ?p ?o }} }}",
            f"SELECT $this {{ SERVICE#\n<{place}> {{ $this ?p ?o }} }}",
            f"SELECT $this {{ \\\\u0053ERVICE<{place}> {{ $this ?p ?o }} }}",
        ):
            shapes.write_text(
                "@prefix sh: <http://www.w3.org/ns/shacl#> . @prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
                f"<urn:S> a sh:NodeShape ; sh:targetClass <urn:C> ; sh:sparql [ sh:select '''{query}''' ] .\n"
                f"<urn:o> a owl:Ontology ; owl:imports <{place}> ; sh:shapesGraph <{place}> .\n"
            )
            with pytest.raises(
                CepError, match=re.escape("the shapes are not valid: their queries can read only the loaded knowledge")
            ):
                validate(data, shapes)
        shapes.write_text(
            "@prefix sh: <http://www.w3.org/ns/shacl#> . @prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
            f"<urn:S> a sh:NodeShape ; sh:targetClass <urn:C> ; sh:property [ sh:path <urn:q> ; sh:minCount 1 ] .\n"
            f"<urn:S> sh:js [ sh:jsLibrary [ sh:jsLibraryURL '{place}' ] ; sh:jsFunctionName 'f' ] .\n"
            f"<urn:o> a owl:Ontology ; owl:imports <{place}> ; sh:shapesGraph <{place}> .\n"
        )
        (problem,) = validate(data, shapes)
        assert "sh:minCount" in str(problem)
