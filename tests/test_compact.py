"""JSON-LD with a context: the same triples, whoever reads it."""

from __future__ import annotations

import json

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdflib import Graph
from rdflib.compare import isomorphic

from cep.connectors.rdf.compact import to_json_ld
from cep.connectors.rdf.vocabulary import RDF, XSD

PREFIXES = {
    "k": "http://k.example/",
    "kk": "http://k.example/a#",
    "rdf": RDF,
    "xsd": XSD,
    "urn": "http://u.example/",
    "w": "http://k.example/a",
}

_iris = st.sampled_from(
    [
        ox.NamedNode(iri)
        for iri in (
            "http://k.example/a",
            "http://k.example/a#b",
            "http://k.example///c",
            "urn:k:a",
            "k:a",
            "http://u.example/x",
        )
    ]
)
_blank = st.sampled_from([ox.BlankNode(name) for name in "abcd"])
_rdf = st.sampled_from([ox.NamedNode(RDF + name) for name in ("type", "first", "rest")])
_nil = st.just(ox.NamedNode(RDF + "nil"))
_literals = st.one_of(
    st.text('a"\\é\n:', max_size=3).map(ox.Literal),
    st.text("ab", max_size=2).map(lambda text: ox.Literal(text, language="de")),
    st.sampled_from(["1", "-7", "01", "+1", "12345678901234567890", "x"]).map(
        lambda n: ox.Literal(n, datatype=ox.NamedNode(XSD + "integer"))
    ),
    st.sampled_from(["true", "1", "no"]).map(lambda b: ox.Literal(b, datatype=ox.NamedNode(XSD + "boolean"))),
    st.sampled_from(["1.5", "1e3"]).map(lambda d: ox.Literal(d, datatype=ox.NamedNode(XSD + "double"))),
)
_triples = st.lists(
    st.builds(ox.Triple, st.one_of(_iris, _blank), st.one_of(_iris, _rdf), st.one_of(_iris, _blank, _nil, _literals)),
    max_size=9,
)


@given(_triples)
def test_the_same_triples(triples: list[ox.Triple]) -> None:
    text = to_json_ld(triples, PREFIXES)
    again = [quad.triple for quad in ox.parse(text, ox.RdfFormat.JSON_LD)]
    assert _canonical(again) == _canonical(triples), text.decode()


def _canonical(triples: list[ox.Triple]) -> ox.Dataset:
    made = ox.Dataset(ox.Quad(*triple) for triple in triples)
    made.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    return made


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated")
def test_as_people_read_it() -> None:
    text = """@prefix k: <http://k.example/> . @prefix kk: <http://k.example/a#> .
        k:milk a k:Fridge, kk:Thing ; k:limit 7 ; k:open false ; k:name "Milch"@de, "milk" ; k:near k:fish ;
            k:parts ( k:door [ k:name "lamp" ; k:watts 1.5 ] ) .
        _:one k:near _:two . _:two k:near _:one . _:shared k:of k:milk .
        k:fish k:has _:shared . k:milk k:has _:shared ."""
    made = to_json_ld((quad.triple for quad in ox.parse(text, ox.RdfFormat.TURTLE)), PREFIXES)
    log = json.loads(made)
    assert log["@context"] == {name: PREFIXES[name] for name in ("k", "kk", "xsd")}
    shared = log["@graph"][0]["k:has"]["@id"]
    assert log["@graph"][0] == {
        "@id": "k:milk",
        "@type": ["k:Fridge", "kk:Thing"],
        "k:limit": 7,
        "k:open": False,
        "k:name": [{"@value": "Milch", "@language": "de"}, "milk"],
        "k:near": {"@id": "k:fish"},
        "k:parts": {
            "@list": [{"@id": "k:door"}, {"k:name": "lamp", "k:watts": {"@value": "1.5", "@type": "xsd:decimal"}}]
        },
        "k:has": {"@id": shared},
    }
    assert len(log["@graph"]) == 5 and shared.startswith("_:")
    assert isomorphic(Graph().parse(data=made, format="json-ld"), Graph().parse(data=text, format="turtle"))
