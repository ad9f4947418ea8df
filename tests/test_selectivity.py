"""What few have, and what is near, is asked for first: the rows are those of the query as it stands."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.connectors.rdf import evaluation, place_index, selectivity, time_index
from cep.connectors.rdf.distance_filters import near
from cep.connectors.rdf.evaluation import evaluate
from cep.connectors.rdf.question import QueryRefused, Question
from cep.connectors.rdf.store import EventStore
from cep.connectors.rdf.time_index import TimeIndex
from cep.connectors.rdf.vocabulary import PREFIXES, EventVocabulary
from tests.long import examples
from tests.test_time_index import END, filled, moment

WGS84 = "http://www.w3.org/2003/01/geo/wgs84_pos#"
PLACES = {**PREFIXES, "wgs84": WGS84, "k": "urn:k:"}
FRIDGE = "<urn:semcep:attribute/warm/fridge>"
NUMBERS = [
    "48",
    "48.1",
    "48.15",
    "-48.15",
    "4.81e1",
    '"48.12"^^<http://www.w3.org/2001/XMLSchema#float>',
    '"48.1"',
    '"x"',
]
NUMBERS += [
    "540.05",
    "1e9",
    "179.95",
    "-179.95",
    "0",
    "89.9",
    "90.1",
    '"nan"',
    '"NaN"^^<http://www.w3.org/2001/XMLSchema#double>',
    "[]",
]
DISTANCE = "<urn:semcep:distance>"

Known = list[tuple[str, str, str, str]]  # what, its name, latitude and longitude
known = st.lists(
    st.tuples(
        st.sampled_from(["<urn:p1>", "<urn:p2>", "<urn:p3>", "_:b", "<urn:p4>", "<urn:p5>"]),
        st.sampled_from("abcd"),
        st.sampled_from(NUMBERS),
        st.sampled_from(NUMBERS),
    ),
    max_size=12,
)
events = st.lists(
    st.tuples(
        st.integers(0, 1), st.integers(0, 3_000), st.sampled_from([0, 3]), st.sampled_from("abc"), st.integers(0, 3)
    ),
    max_size=30,
)


def told_of(store: ox.Store, made: Known) -> None:
    lines = [
        f'{what} <urn:k:name> "{name}" ; <{WGS84}lat> {lat} ; <{WGS84}long> {long} .' for what, name, lat, long in made
    ]
    lines += [f"{what} a <urn:k:{'Fridge' if name == 'a' else 'Place'}> ." for what, name, _, _ in made]
    store.load("\n".join(lines).encode(), ox.RdfFormat.TURTLE)


ARGUMENTS = [
    "?lat, ?long, ?y, ?x",
    "?y,?x,?lat,?long",
    "48.1, 48, ?y, $x",
    "?y, ?x, -48.15, 179",
    "?lat, ?x, ?y, ?long",
]
EVENTS = [
    f"?e {FRIDGE} ?n ; {END} ?t .",
    f"[] {FRIDGE} ?n ; {END} ?t .",
    f"_:e {FRIDGE} ?n ; {END} ?t .",
    f"?e {FRIDGE} ?n ; time:hasEnd ?i . ?i time:inXSDDateTimeStamp ?t .",
    f'?e {FRIDGE} "a" ; {FRIDGE} ?n ; {END} ?t .',
]
HERE = [
    "?f k:name ?n .",
    "?f k:name ?n ; a k:Fridge .",
    "?f k:name ?n ; wgs84:lat ?lat ; wgs84:long ?long .",
    "[] k:name ?n ; wgs84:lat ?lat ; wgs84:long ?long .",
    "?f wgs84:lat ?lat ; wgs84:long ?long ; k:name ?n .",
]
THERE = [
    "?p wgs84:lat ?y ; wgs84:long ?x .",
    "?p wgs84:long ?x ; wgs84:lat ?y ; k:name ?m .",
    "",
    "{ ?p wgs84:lat ?y } ?p wgs84:long ?x .",
    "?p wgs84:lat ?y . ?q wgs84:long ?x .",
]
MORE = [
    "",
    "",
    "OPTIONAL { ?f k:none ?n }",
    "OPTIONAL { ?g k:name ?n }",
    "MINUS { ?g k:name ?n }",
    "BIND(1 AS ?one)",
    "OPTIONAL { ?p k:name ?n }",
    'VALUES ?n { "a" "b" }',
    "{ ?g k:name ?n }",
    "MINUS { ?p a k:Fridge }",
]


@st.composite
def filters(draw: Callable[..., Any]) -> str:
    name, arguments = draw(st.sampled_from([DISTANCE, "semcep:distance"])), draw(st.sampled_from(ARGUMENTS))
    call, metres = f"{name}({arguments})", draw(st.sampled_from(["0", "6000", "20000", "1e5", "12000000"]))
    held = draw(
        st.sampled_from(
            [
                f"{call} < {metres}",
                f"{metres} >= {call}",
                f"{call} <= {metres} && ?y > 40",
                f"{call} > {metres}",
                f"{call} < {metres} || ?y > 40",
                f"!({call} < {metres})",
                f"({call} < {metres})",
                f"{call} < {metres} + 1",
            ]
        )
    )
    return f"FILTER({held})"


@st.composite
def queries(draw: Callable[..., Any]) -> str:
    """Of events and of what is known, near each other, of few or many, in any order."""
    some = [draw(st.sampled_from(each)) for each in (EVENTS, HERE, THERE, MORE)]
    since = f'FILTER(?t > "{moment(draw(st.integers(0, 3_000)))[:19]}Z"^^xsd:dateTime)'
    parts = [*some, draw(filters()), draw(st.sampled_from(["", since]))]
    head = draw(st.sampled_from(["SELECT *", "SELECT ?t ?n", "SELECT DISTINCT ?p", "SELECT (COUNT(*) AS ?c)"]))
    order = (
        draw(st.sampled_from(["", " ORDER BY DESC(?t) LIMIT 3", " ORDER BY ?t LIMIT 20"]))
        if head[7:9] in ("*", "?t")
        else ""
    )
    return f"{head} {{ {' '.join(draw(st.permutations(parts)))} }}{order}"


def answer_of(store: ox.Store, text: str, index: TimeIndex | None) -> Any:
    """The answer, without what is left open."""
    try:
        answer = evaluate(store, Question(text, prefixes=tuple(PLACES.items())), index)
    except QueryRefused as error:
        return error.code
    rows = json.loads(answer.body)["results"]["bindings"]
    times = [row.get("t", {}).get("value", "") for row in rows]
    if "LIMIT" in text:
        return times, Counter(json.dumps(row, sort_keys=True) for row, time in zip(rows, times) if time != times[-1])
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


@examples(200)
@given(events, known, st.lists(queries(), min_size=1, max_size=12), st.integers(1, 12))
def test_rows_are_those_of_the_query_as_it_stands(made: Any, places: Known, texts: list[str], few: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in (
            (time_index, "_FIRST", 2),
            (time_index, "_MORE", 2),
            (selectivity, "_RARE", few),
            (selectivity, "_NAMED", few),
            (place_index, "_POINTS", few),
            (place_index, "_NEAR", 12),
            (place_index, "_PRODUCT", 12 if few % 2 else 1),
        ):
            patch.setattr(module, name, value)
        store, index = filled(made)
        told_of(store, places)
        for text in texts:
            found = answer_of(store, text, index)
            with pytest.MonkeyPatch.context() as plain:
                plain.setattr(evaluation, "near", lambda text, names: text)
                assert found == answer_of(store, text, None), text


def ways(index: TimeIndex, text: str) -> list[time_index.Rewritten]:
    return list(index.rewritten(Question(text, prefixes=tuple(PLACES.items()))))


def test_the_newest_of_those_few_that_are_known_begins_with_these() -> None:
    """Of many events: of what the query names, of what is known of few, and of what that leads to."""
    _, index = filled([(0, five, 0, f"f{five % 50}", 0) for five in range(3_000)])
    store = index._store
    store.update("DELETE WHERE { ?f <urn:name> ?n }")
    told_of(store, [(f"<urn:p{n}>", "a", "48", "16") for n in range(3)])
    store.load(b'<urn:p1> <urn:k:called> "f1" . <urn:p2> <urn:k:called> "f2" .', ox.RdfFormat.TURTLE)
    newest = f"SELECT ?f ?t {{ ?e {FRIDGE} ?n ; {END} ?t . ?f k:called ?n }} ORDER BY DESC(?t) LIMIT 5"
    begun = 'VALUES ?n { "f1" "f2" }'
    assert begun in ways(index, newest)[-1].text and ways(index, newest)[-1].enough is None
    again = newest.replace("k:called ?n", f"{FRIDGE} ?n ; a k:Fridge")  # events say it by the same property
    store.load(f'<urn:p1> {FRIDGE} "f1" . <urn:p2> {FRIDGE} "f2" .'.encode(), ox.RdfFormat.TURTLE)
    assert begun in ways(index, again)[-1].text
    last = newest.replace("?f k", f'FILTER(?t > "{moment(100)[:19]}Z"^^xsd:dateTime) ?f k').split(" ORDER")[0]
    assert [begun in way.text for way in ways(index, last)] == [True]
    for text in (newest, again, last):
        assert answer_of(store, text, index) == answer_of(store, text, None)
    for text in (
        newest.replace("?e <", "OPTIONAL { ?x k:none ?n } ?e <"),
        newest.replace("?f k", "FILTER(1 = 1) MINUS { } ?f k"),
    ):
        assert not any(begun in way.text for way in ways(index, text)), text


def test_what_is_near_is_looked_up_by_its_place() -> None:
    """By what is known of events in some time, or by numbers; whatever else has a place is not looked at."""
    draw = random.Random(5)
    store, index = filled([(0, five, 0, "abc"[five % 3], 0) for five in range(600)])
    told_of(
        store,
        [(f"<urn:p{n}>", "d", f"{draw.uniform(40, 50):.3f}", f"{draw.uniform(10, 20):.3f}") for n in range(2_000)],
    )
    told_of(store, [("<urn:a>", "a", "45", "15"), ("<urn:b>", "b", "46", "16")])
    there = f"?p wgs84:lat ?y ; wgs84:long ?x FILTER({DISTANCE}(?lat, ?long, ?y, ?x) < 20000)"
    since = f'FILTER(?t > "{moment(500)[:19]}Z"^^xsd:dateTime)'
    here = f"?e {FRIDGE} ?n ; {END} ?t {since} ?f k:name ?n ; wgs84:lat ?lat ; wgs84:long ?long ."
    text = f"SELECT DISTINCT ?p {{ {here} {there} }}"
    numbers = f"SELECT * {{ {there.replace('?lat, ?long', '45, 15.0')} }}"
    for query in (text, numbers):
        for way in ways(index, query):
            assert 2 <= way.text.count("<urn:p") < 40, "of 2,000 places"
        assert len(answer_of(store, query, index)) >= 3
        assert answer_of(store, query, index) == answer_of(store, query, None)
    text = numbers.replace("{ ?p", "{ OPTIONAL { ?q k:none ?p } ?p")
    assert not ways(index, text), "something may have looked at it before"
    assert "COALESCE(ABS((45) - (?y)) <= " in near(numbers, PLACES)
    assert near(numbers.replace("< 20000", "> 20000"), PLACES) == numbers.replace("< 20000", "> 20000")
    broken = Question("SELECT * {\n" + numbers[10:].replace("?p wgs84:long", "") + " }", prefixes=tuple(PLACES.items()))
    with pytest.raises(QueryRefused) as refused:
        evaluate(store, broken, index)
    assert "COALESCE" not in str(refused.value) and refused.value.code == "syntax"


def test_of_many_points_each_has_what_is_near_it() -> None:
    """Stations all over a country times places all over it: the pairs are said, not each that is near any."""
    draw = random.Random(6)

    def anywhere(kind: str, number: int, name: str) -> tuple[str, str, str, str]:
        return (f"<urn:{kind}{number}>", name, f"{draw.uniform(46, 49):.4f}", f"{draw.uniform(10, 15):.4f}")

    store, index = filled([(0, five, 0, f"f{five % 150}", 0) for five in range(600)])
    told_of(store, [anywhere("p", number, "d") for number in range(400)])
    told_of(store, [anywhere("s", number, f"f{number}") for number in range(150)])
    store.load("".join(f"<urn:s{number}> a <urn:k:Station> ." for number in range(150)).encode(), ox.RdfFormat.TURTLE)
    near = f"FILTER({DISTANCE}(?lat, ?long, ?y, ?x) < 20000)"
    here = f"?e {FRIDGE} ?n ; {END} ?t . ?f k:name ?n ; wgs84:lat ?lat ; wgs84:long ?long ."
    text = f"SELECT * {{ {here} ?p wgs84:lat ?y ; wgs84:long ?x {near} }}"
    few = text.replace("?f k:name", "?f a k:Station ; k:name")
    for query, start in ((few, "VALUES (?f ?p) { (<urn:"), (text, 'VALUES (?lat ?long ?p) { ("4')):
        (way,) = ways(index, query)
        assert start in way.text and 150 < way.text.count("<urn:p") < 1_500
        assert answer_of(store, query, index) == answer_of(store, query, None)
        assert len(answer_of(store, query, index)) > 600, "each event, and more"


def test_places_that_come_later_are_near_as_well(tmp_path: Path) -> None:
    """Those of the knowledge, learned, and of events."""
    store = EventStore(str(tmp_path / "store"), EventVocabulary())
    text = f"SELECT ?p {{ ?p wgs84:lat ?y ; wgs84:long ?x FILTER({DISTANCE}(45, 15, ?y, ?x) < 20000) }}"
    question = Question(text, table="csv", prefixes=tuple(PLACES.items()))

    def place(name: str) -> bytes:
        return "".join(f'<urn:{name}> <{WGS84}{way}> "{at}" .\n' for way, at in (("lat", 45), ("long", 15))).encode()

    def found() -> set[bytes]:
        return set(store.ask(question).body.split()[1:])

    assert found() == set()
    store.add(place("event"))
    assert found() == {b"urn:event"}
    store.learn(b"", place("learned"))
    assert found() == {b"urn:event", b"urn:learned"}
    for n in range(2 * place_index._READS):  # more often than it is worth while to read them again
        store.add(place(f"p{n}"))
        assert len(found()) == n + 3
    store.learn(place("learned"), b"")
    assert b"urn:learned" not in found()
    (tmp_path / "new.nq").write_bytes(place("known"))
    store.know("name", str(tmp_path / "new.nq"), store._known)
    assert found() == {b"urn:known"}
