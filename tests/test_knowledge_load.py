"""Loading: every format says the same; what cannot be read is said with line and column, and nothing is half-loaded."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyoxigraph as ox
import pytest
import rdflib
from hypothesis import given
from rdflib.compare import isomorphic

from cep.core.errors import CepError, CepErrors
from cep.knowledge.graph import Knowledge
from cep.knowledge.query import store
from cep.knowledge.rdf.terms import NONE
from tests import knowledge_maker as maker
from tests.test_equivalence import examples
from tests.test_knowledge_patterns import rows

EX = "http://ex.org/"
TURTLE = """
@prefix ex: <http://ex.org/> .
ex:jfk ex:name "Kennedy\\n\\"Intl\\"", "Kennedy"@en ; ex:lat 40.64 ; ex:open true ; ex:place [ ex:in _:ny ] .
_:ny ex:name "New York" ; ex:list (1 2.5 "é☃") .
"""


def graph_of(path: Path) -> rdflib.Graph:
    return Knowledge.load(path).rdflib()


@pytest.mark.parametrize(
    ("suffix", "format"),
    [
        (".ttl", "turtle"),
        (".nt", "nt"),
        (".rdf", "xml"),
        (".owl", "xml"),
        (".xml", "xml"),
        (".jsonld", "json-ld"),
        (".nq", "nt"),
        (".trig", "turtle"),
        (".ttl.gz", "turtle"),
    ],
)
def test_every_format_says_the_same(tmp_path: Path, suffix: str, format: str) -> None:
    expected = rdflib.Graph().parse(data=TURTLE, format="turtle")
    written = expected.serialize(format=format).encode()
    path = tmp_path / f"stations{suffix}"
    path.write_bytes(gzip.compress(written) if suffix.endswith(".gz") else written)
    assert isomorphic(graph_of(path), expected)


@examples(25)
@given(maker.knowledge)
def test_chunks_of_any_size_are_the_file(tmp_path: Path, lines: list[str]) -> None:
    path = tmp_path / "some.nt"
    path.write_text("\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cep.knowledge.load._CHUNK", 3)
        knowledge = Knowledge.load(path)
    assert {str(q.triple) for q in store.store_quads(knowledge.terms, knowledge.closed)} == {
        line[:-2] for line in lines
    }
    assert knowledge.fingerprint == Knowledge.of(ox.parse("\n".join(lines), ox.RdfFormat.N_TRIPLES)).fingerprint


def test_folders_and_patterns_stand_for_their_files(tmp_path: Path) -> None:
    (tmp_path / "b.ttl").write_text("<x:b> <x:p> 2 .")
    (tmp_path / "a.nt").write_text("<x:a> <x:p> <x:b> .")
    (tmp_path / "notes.md").write_text("no knowledge")
    whole = Knowledge.load(tmp_path)
    assert len(whole) == 2
    assert whole.fingerprint == Knowledge.load([tmp_path / "b.ttl", tmp_path / "a.nt"]).fingerprint
    assert len(Knowledge.load(str(tmp_path / "*.nt"))) == 1
    with pytest.raises(CepError, match=r"c\.ttl: no such file"):
        Knowledge.load(tmp_path / "c.ttl")
    with pytest.raises(CepError, match=r"notes.md does not have the suffix of a known format"):
        Knowledge.load(tmp_path / "notes.md")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CepError, match="has no files of knowledge"):
        Knowledge.load(tmp_path / "empty")


def test_blank_nodes_of_two_files_are_two_and_have_the_same_labels_each_time(tmp_path: Path) -> None:
    (tmp_path / "a.ttl").write_text("_:x <x:p> [ <x:q> 1 ] . _:b1 <x:q> 2 .")
    (tmp_path / "b.ttl").write_text("_:x <x:q> 3 . [] <x:q> 4 .")
    found = rows(Knowledge.load(tmp_path), "{ ?S <x:q> ?O }")
    assert [(node[1], number) for node, number in found] == [("_:b1", 1), ("_:b2", 2), ("_:b3", 3), ("_:b4", 4)]
    assert found == rows(Knowledge.load(tmp_path), "{ ?S <x:q> ?O }")


def test_named_graphs_are_part_of_the_whole_and_asked_by_graph(tmp_path: Path) -> None:
    (tmp_path / "a.trig").write_text('<x:a> <x:p> 1 . <x:g> { <x:a> <x:p> 2 } _:h { <x:a> <x:p> 1, "<x:a> <x:g>" }')
    knowledge = Knowledge.load(tmp_path / "a.trig")
    assert rows(knowledge, "{ <x:a> <x:p> ?O }") == [(1,), (2,), (("str", "<x:a> <x:g>"),)]
    assert rows(knowledge, "{ GRAPH ?G { <x:a> <x:p> ?o } }") == [(("Iri", "_:h"),), (("Iri", "x:g"),)]
    assert rows(knowledge, "{ GRAPH <x:g> { <x:a> <x:p> ?O } }") == [(2,)]


WRONG = {
    "a.ttl": (
        "@prefix ex: <http://e/> .\nex:a ex:b ex:c ;\n   wt:d 5 .",
        "a.ttl:3:4: this is not Turtle: the prefix wt: has not been declared\n       wt:d 5 .\n       ^^^^\n"
        "hint: declare it above: `@prefix wt: <http://...> .`",
    ),
    "b.ttl": ('<a:b> <a:c> "x"\n<a:b> <a:d> 3 .', "b.ttl:2:1: this is not Turtle: a dot is expected at the end"),
    "c.nt": ("<a:b> <a:c> <a:d> .\n<a:b> <a c> <a:d> .", "c.nt:2:7: this is not N-Triples: invalid IRI code point ' '"),
    "d.nq": ('<a:b> <a:c> "x" <a:g> .\n<a:b> <a:c> "x', "d.nq:2:13: this is not N-Quads: unexpected end of file"),
    "relative.nt": (
        "<b> <a:c> 1 .",
        "relative.nt:1:1: this is not N-Triples: no scheme found in an absolute IRI\n    <b> <a:c> 1 .\n    ^^^\n"
        "hint: an IRI is written in full, `<http://...>`: this format has no base for relative IRIs",
    ),
    "prefixed.nq": (
        "<a:b> ex:c <a:d> .",
        "prefixed.nq:1:7: this is not N-Quads: the predicate of a triple must be an IRI\n    <a:b> ex:c <a:d> .\n"
        "          ^^^^\nhint: a predicate is an IRI in full, `<http://...>`; neither prefixes nor `a` are known here",
    ),
    "e.rdf": (
        "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'>\n<a></b>",
        "e.rdf:2:6: this is not RDF",
    ),
    "f.rdf": (
        "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'>\n"
        "<rdf:Description rdf:about='x y'/></rdf:RDF>",
        "f.rdf:2:29: this is not RDF/XML: error while parsing IRI",
    ),
    "g.jsonld": (
        '{"@id": "a:b",\n "a:c": [1, }',
        "g.jsonld:2:13: this is not JSON-LD: unexpected closing curly bracket",
    ),
    "h.jsonld": ('{"@context": "http://schema.org/"}', "h.jsonld cannot be read: this is not JSON-LD: no LoadDocument"),
    "i.ttl": (b'<a:b> <a:c> "\xff" .', "i.ttl:1:14: this is not Turtle: invalid UTF-8"),
    "j.ttl.gz": (b"not compressed", "j.ttl.gz cannot be read: not a gzipped file"),
    "k.ttl": ("<a:b> <a:c> <<( <a:b> <a:c> <a:d> )>> .", "k.ttl cannot be read: a triple is a term of another triple"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_rdf_is_said_with_its_place(tmp_path: Path, name: str) -> None:
    text, message = WRONG[name]
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CepError) as refused:
        Knowledge.load(tmp_path / name)
    assert str(refused.value).startswith(f"{tmp_path}/{message}")


def test_the_first_mistake_of_every_file_is_said(tmp_path: Path) -> None:
    for name in ("a.ttl", "b.ttl"):
        (tmp_path / name).write_text(str(WRONG[name][0]))
    (tmp_path / "c.ttl").write_text("<a:b> <a:c> <a:d> .")
    with pytest.raises(CepErrors) as refused:
        Knowledge.load(tmp_path)
    assert len(refused.value.errors) == 2


def test_rdflib_graphs_and_triples_of_either_library_are_knowledge() -> None:
    graph = rdflib.Graph().parse(data=TURTLE, format="turtle")
    knowledge = Knowledge.of(graph)
    assert isomorphic(knowledge.rdflib(), graph)
    assert Knowledge.of(iter(graph)).fingerprint == knowledge.fingerprint
    assert Knowledge.of(store.store_quads(knowledge.terms, knowledge.asserted)).fingerprint == knowledge.fingerprint
    data = rdflib.Dataset()
    data.add((rdflib.URIRef("x:a"), rdflib.URIRef("x:p"), rdflib.Literal(1)))
    data.graph(rdflib.URIRef("x:g")).add((rdflib.URIRef("x:a"), rdflib.URIRef("x:p"), rdflib.Literal(2)))
    found = Knowledge.of(data)
    assert set(found.graphs) == {NONE, found.terms.id_of(rdflib.URIRef("x:g"))} and len(found) == 2
    for wrong in ("x:a", 5, [(rdflib.URIRef("x:a"), rdflib.URIRef("x:p"))], [("a", "b", "c")]):
        with pytest.raises(CepError):
            Knowledge.of(wrong)


def test_a_fingerprint_is_of_the_triples_and_the_reasoning() -> None:
    one, two = ("<x:a> <x:p> 1, 2 ; <x:q> <x:b> .", "<x:a> <x:q> <x:b> ; <x:p> 2, 1 .")
    prints = {
        text: Knowledge.of(ox.parse(text, ox.RdfFormat.TRIG)).fingerprint
        for text in (one, two, one + "<x:b> <x:p> 1 .", one.replace("2", '"2"'), f"<x:g> {{ {one} }}", "")
    }
    assert prints[one] == prints[two] and len(set(prints.values())) == 5
    assert Knowledge.of(ox.parse(one, ox.RdfFormat.TRIG), "rdfs").fingerprint != prints[one]


def test_a_kind_of_reasoning_that_there_is_not() -> None:
    with pytest.raises(CepError, match=r"^`owl` is not a kind of reasoning\nhint: did you mean `owlrl`\?$"):
        Knowledge.of([], "owl")
