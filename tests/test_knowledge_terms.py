"""Terms and triples as numbers: what goes in comes back, by whatever door, and literals have the engine's values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdflib.term import BNode, Literal, URIRef

from cep.core.values import Pool
from cep.knowledge.rdf.interop import of_rdflib, to_rdflib
from cep.knowledge.rdf.namespaces import XSD
from cep.knowledge.rdf.terms import BLANK, IRI, LITERAL, NONE, Terms
from cep.knowledge.rdf.triples import TripleSet
from cep.rules.static.materialized import series_of
from tests.long import examples

letters = st.text(st.characters(exclude_categories=["Cs"]))
iris = st.text("abc/é-", max_size=6).map(lambda text: ox.NamedNode("http://ex.org/" + text))
labels = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,5}", fullmatch=True).map(ox.BlankNode)
literals = st.one_of(
    letters.map(ox.Literal),
    st.tuples(letters, st.sampled_from(["en", "en-us", "de"])).map(lambda t: ox.Literal(t[0], language=t[1])),
    st.tuples(letters, st.sampled_from([XSD + "integer", XSD + "string", "http://ex.org/é#type"])).map(
        lambda t: ox.Literal(t[0], datatype=ox.NamedNode(t[1]))
    ),
)
terms = st.one_of(iris, labels, literals)


@examples(100)
@given(st.lists(terms, max_size=30), st.lists(terms, max_size=30))
def test_a_term_has_one_id_by_every_door(first: list[Any], more: list[Any]) -> None:
    dictionary = Terms()
    ids = dictionary.ids(first)
    assert dictionary.tokens(pl.Series([str(term) for term in first], dtype=pl.String)).tolist() == ids.tolist()
    later = dictionary.tokens(pl.Series([str(term) for term in more], dtype=pl.String))
    assert len(dictionary) == len({*first, *more})
    everything, numbers = [*first, *more], [*ids.tolist(), *later.tolist()]
    for term, id in zip(everything, numbers):
        assert dictionary.term(id) == term
        assert dictionary.id_of(term) == dictionary.id_of(to_rdflib(term)) == id
        kind = {ox.NamedNode: IRI, ox.BlankNode: BLANK}.get(type(term), LITERAL)
        assert dictionary.kinds(np.array([id])).tolist() == [kind]
    assert dictionary.written(np.array(numbers, dtype=np.int64)).to_list() == [str(term) for term in everything]
    assert dictionary.texts(np.array([*numbers, NONE])).to_list() == [*(term.value for term in everything), None]


def test_columns_of_texts_are_terms_of_one_sort() -> None:
    dictionary = Terms()
    texts = pl.Series(["http://ex.org/a", "x", "x"])
    found = [
        dictionary.iris(texts),
        dictionary.tokens(pl.Series(["_:a", "_:x", "_:x"])),
        dictionary.literals(texts),
        dictionary.literals(texts, XSD + "token"),
        dictionary.literals(texts, language="EN"),
    ]
    assert [ids.tolist() for ids in found] == [[0, 1, 1], [2, 3, 3], [4, 5, 5], [6, 7, 7], [8, 9, 9]]
    assert dictionary.term(9) == ox.Literal("x", language="en")
    assert dictionary.id_of(Literal("x", lang="en")) == 9
    assert dictionary.id_of(Literal("x", datatype=URIRef(XSD + "string"))) == dictionary.id_of(Literal("x")) == 5
    assert dictionary.id_of(BNode("nothing")) == dictionary.id_of(Literal("x", lang="fr")) == NONE
    unknown = pl.Series(["<http://ex.org/b>", '"x"@en', None])
    assert dictionary.tokens(unknown, add=False).tolist() == [NONE, 9, NONE]
    with pytest.raises(TypeError, match="is not an RDF term"):
        dictionary.id_of(3.5)


@given(terms)
def test_rdflib_and_back(term: Any) -> None:
    assert of_rdflib(to_rdflib(term)) == term


VALUES = {
    "integer": {"1": 1, "+07": 7, "-0": 0, "9223372036854775807": 2**63 - 1, "9223372036854775808": None, "1.0": "1.0"},
    "unsignedByte": {"255": 255, "": "", " 1": " 1"},
    "decimal": {"1.50": 1.5, "-.5": -0.5, "3.": 3.0, "1e3": "1e3"},
    "double": {"1e3": 1000.0, "INF": None, "-INF": None, "NaN": None, "1E-7": 1e-7, "inf": "inf", "one": "one"},
    "float": {"0.1": 0.1, "16777217": 16777216.0, "1e39": None},
    "boolean": {"true": True, "1": True, "false": False, "0": False, "True": "True"},
    "dateTime": {
        "2013-02-08T18:00:00Z": datetime(2013, 2, 8, 18, tzinfo=UTC),
        "2013-02-08T18:00:00": datetime(2013, 2, 8, 18, tzinfo=UTC),
        "2013-02-08T18:00:00.25-05:00": datetime(2013, 2, 8, 23, 0, 0, 250_000, tzinfo=UTC),
        "2013-02-08T18:00:00.0000005Z": datetime(2013, 2, 8, 18, tzinfo=UTC),
        "2013-02-08T18:00:00.0000015Z": datetime(2013, 2, 8, 18, 0, 0, 2, tzinfo=UTC),
        "2013-02-08T24:00:00Z": datetime(2013, 2, 9, tzinfo=UTC),
        "1600-02-29T00:00:00Z": datetime(1600, 2, 29, tzinfo=UTC),
        "2013-02-29T18:00:00Z": "2013-02-29T18:00:00Z",
        "2013-02-08T25:00:00Z": "2013-02-08T25:00:00Z",
        "2013-02-08": "2013-02-08",
        "12013-02-08T00:00:00Z": None,
        "-0001-02-08T00:00:00Z": None,
    },
    "date": {
        "2024-02-29": datetime(2024, 2, 29, tzinfo=UTC),
        "2024-02-29+02:00": datetime(2024, 2, 28, 22, tzinfo=UTC),
        "2023-02-29": "2023-02-29",
    },
    "dayTimeDuration": {
        "P1DT2H3M4.5S": timedelta(days=1, hours=2, minutes=3, seconds=4.5),
        "-PT90M": timedelta(minutes=-90),
        "PT": "PT",
        "P": "P",
        "P1Y": "P1Y",
        "P999999999999999999D": None,
    },
    "duration": {"P2D": timedelta(days=2), "P1M": "P1M"},
    "gYear": {"2024": "2024"},
    "string": {"1": "1"},
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, forms in VALUES.items() for text in forms])
def test_literals_have_the_values_of_their_datatypes(name: str, text: str) -> None:
    dictionary, pool = Terms(), Pool()
    ids = dictionary.literals(pl.Series([text]), XSD + name)
    types, columns = dictionary.columns([ids], pool)
    (value,) = series_of(columns[0], types[0], pool).to_list()
    expected = VALUES[name][text]
    assert value == expected and type(value) is type(expected)


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), st.sampled_from(["", "Z", "+14:00", "-09:30"]))
def test_every_time_of_the_calendar_is_read(moment: datetime, zone: str) -> None:
    dictionary, pool = Terms(), Pool()
    ids = dictionary.literals(pl.Series([moment.isoformat() + zone]), XSD + "dateTime")
    ((type,), (column,)) = dictionary.columns([ids], pool)
    expected = datetime.fromisoformat(moment.isoformat() + (zone or "Z"))
    assert type == "time" and column[0] == (expected - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def test_a_column_has_the_type_of_all_its_values() -> None:
    dictionary, pool = Terms(), Pool()
    literal = {
        name: int(dictionary.literals(pl.Series([text]), XSD + name)[0])
        for name, text in {
            "integer": "1",
            "decimal": "1.5",
            "boolean": "true",
            "date": "1970-01-02",
            "long": "9007199254740993",
        }.items()
    }
    iri, node, text = (
        dictionary.iri("http://ex.org/a"),
        int(dictionary.ids([ox.BlankNode("n")])[0]),
        int(dictionary.literals(pl.Series(["x"]))[0]),
    )
    columns = {
        "int": [literal["integer"], literal["long"], NONE],
        "float": [literal["integer"], literal["decimal"], NONE],
        "any": [literal["long"], literal["decimal"]],  # whose integer is no float
        "iri": [iri, node],
        "string": [text],
        "time": [literal["date"], NONE],
        "bool": [literal["boolean"]],
    }
    for type, ids in columns.items():
        assert dictionary.columns([np.array(ids)], pool)[0] == (type,)
    mixed = np.array([literal["integer"], iri, node, text, literal["boolean"], literal["date"], NONE])
    ((type,), (column,)) = dictionary.columns([mixed], pool)
    assert type == "any"
    assert [str(value) for value in pool.decode_values(column)] == [
        "1",
        "http://ex.org/a",
        "_:n",
        "x",
        "True",
        "86400",
        "None",
    ]
    assert dictionary.columns([np.array([NONE])], pool)[0] == ("any",)


few = st.integers(0, 3)
rows = st.lists(st.tuples(few, few, few), max_size=40)


def table(triples: list[tuple[int, ...]]) -> TripleSet:
    matrix = np.array(triples, dtype=np.int64).reshape(-1, 3)
    return TripleSet.of(matrix[:, 0], matrix[:, 1], matrix[:, 2])


def listed(columns: tuple[Any, ...]) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in columns)))


@given(rows, st.tuples(*[st.none() | few] * 3))
def test_triples_are_found_by_any_of_their_terms(triples: list[tuple[int, ...]], asked: tuple[int | None, ...]) -> None:
    found = table(triples)
    assert listed(found.columns) == sorted(set(triples))
    expected = sorted(t for t in set(triples) if all(a is None or a == b for a, b in zip(asked, t)))
    assert sorted(listed(found.match(*asked))) == expected
    assert found.count(*asked) == len(expected)


@given(rows, rows, st.lists(st.integers(0, 2), max_size=3), st.booleans())
def test_more_and_fewer_triples(first: list[Any], second: list[Any], orders: list[int], small: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr("cep.knowledge.rdf.triples._FEW", 0)
            patch.setattr("cep.knowledge.rdf.triples._MANY", 0)
        one, two = table(first), table(second)
        for order in orders:
            one.ordered(order)
        for made, expected in ((one.plus(two), {*first, *second}), (one.minus(two), {*first} - {*second})):
            assert listed(made.columns) == sorted(expected)
            for order, places in enumerate(((0, 1, 2), (1, 2, 0), (2, 0, 1))):
                columns = made.ordered(order)
                assert listed(tuple(columns[p] for p in places)) == sorted(
                    tuple(triple[p] for p in places) for triple in expected
                )


@examples(100)
@given(rows, st.lists(st.tuples(st.booleans(), rows), max_size=6), few, few)
def test_many_small_changes_of_triples(first: list[Any], steps: list[tuple[bool, list[Any]]], s: int, p: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_FEW", "_MANY"):
            patch.setattr(f"cep.knowledge.rdf.triples.{name}", 0)
        made, expected = table(first), {*first}
        for more, changed in steps:
            made = made.plus(table(changed)) if more else made.minus(table(changed))
            expected = expected | {*changed} if more else expected - {*changed}
            assert len(made) == len(expected)
            asked = np.array([s, p], dtype=np.int64)
            for keys in ((asked, None, None), (None, asked, None), (asked, asked[::-1].copy(), None)):
                index, columns = made.found(*keys)
                wanted = [
                    (i, *triple)
                    for i in range(2)
                    for triple in sorted(expected)
                    if all(key is None or int(key[i]) == triple[place] for place, key in enumerate(keys))
                ]
                assert sorted(zip(index.tolist(), *(column.tolist() for column in columns))) == sorted(wanted)
                assert made.counts(*keys).tolist() == [sum(row[0] == i for row in wanted) for i in range(2)]
        assert listed(made.columns) == sorted(expected)
