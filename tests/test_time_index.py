"""A query by way of the index of time has the rows of the query as it stands, each as often, in the order wanted."""

from __future__ import annotations

import gc
import json
import random
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.connectors.rdf import selectivity, time_index, triples
from cep.connectors.rdf.evaluation import evaluate
from cep.connectors.rdf.question import QueryRefused, Question
from cep.connectors.rdf.ranges import timed
from cep.connectors.rdf.store import EventStore
from cep.connectors.rdf.time_index import TimeIndex
from cep.connectors.rdf.time_tree import TimeTree
from cep.connectors.rdf.vocabulary import PREFIXES, EventVocabulary
from cep.core.identity import identified
from cep.core.schema import Attribute, Schema
from tests.long import examples

EIGHT, MINUTE = 1_714_550_400_000_000, 60_000_000  # 2024-05-01T08:00:00Z
SCHEMAS = [
    Schema("warm", (Attribute("fridge", "string"), Attribute("temp", "int")), True, False),
    Schema("door", (Attribute("fridge", "string"),), True, False),
]
KNOWN = "".join(f'<urn:f{n}> <urn:name> "{name}" ; a <urn:Fridge> .\n' for n, name in enumerate("abc"))
END = "time:hasEnd/time:inXSDDateTimeStamp"

Rows = list[tuple[int, int, int, str, int]]  # kind, start and how long (in 5 s), fridge, temperature
rows = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.integers(0, 3_000),
        st.sampled_from([0, 0, 3, 40]),
        st.sampled_from("abc"),
        st.integers(0, 3),
    ),
    max_size=60,
)


def filled(made: Rows) -> tuple[ox.Store, TimeIndex]:
    """Events in memory, with what is known."""
    store = ox.Store()
    fill(store, made)
    return store, TimeIndex(store, TimeTree(store, EventVocabulary()))


def fill(store: ox.Store, made: Rows) -> None:
    for number, schema in enumerate(SCHEMAS):
        mine = [row for row in made if row[0] == number]
        columns: dict[str, Any] = {
            "start": [EIGHT + 5_000_000 * start for _, start, _, _, _ in mine],
            "end": [EIGHT + 5_000_000 * (start + long) for _, start, long, _, _ in mine],
            "fridge": [fridge for _, _, _, fridge, _ in mine],
        }
        if number == 0:
            columns["temp"] = [temp for *_, temp in mine]
        if mine:
            table = identified(pl.DataFrame(columns), schema, "p").unique("@id", maintain_order=True)
            store.load(
                triples.event_triples([triples.Derived(table, schema, None)], EventVocabulary()).encode(),
                ox.RdfFormat.N_TRIPLES,
                lenient=True,
            )
    store.load(KNOWN.encode(), ox.RdfFormat.TURTLE)


def moment(five: int) -> str:
    return str(pl.select(pl.lit(EIGHT + 5_000_000 * five).cast(pl.Datetime("us")).dt.to_string("iso:strict")).item())


@st.composite
def bounds(draw: Callable[..., Any], variable: str = "?t") -> str:
    """A comparison of a time with a moment, written in one of many ways; some say nothing."""
    time = moment(draw(st.integers(-50, 3_100)))[:19]
    value = draw(
        st.sampled_from(
            [
                f'"{time}Z"^^xsd:dateTime',
                f'"{time}.000001Z"^^xsd:dateTimeStamp',
                f'"{time}+02:00"^^<http://www.w3.org/2001/XMLSchema#dateTime>',
                f'"{time}Z"^^xsd:dateTime - "PT1H"^^xsd:dayTimeDuration',
                f'xsd:dateTime("{time}Z")',
                f'"{time}"^^xsd:dateTime',
                f'"{time[:10]}"^^xsd:date',
                f'"{time}Z"',
                "NOW()",
                "?u",
                "5",
            ]
        )
    )
    sign = draw(st.sampled_from(["<", "<=", ">", ">=", "=", ">", ">=", "!="]))
    return f"{variable} {sign} {value}" if draw(st.booleans()) else f"({value}) {sign} {variable}"


@st.composite
def queries(draw: Callable[..., Any]) -> str:
    """Of times: with ranges, orders and limits, and with what makes that these mean something else."""
    about = draw(
        st.sampled_from(
            [
                f"?e a ?class ; {END} ?t",
                f"?e {END} ?t ; a <urn:semcep:type/warm> ; <urn:semcep:attribute/warm/temp> ?v",
                "?e time:hasEnd ?i . ?i time:inXSDDateTimeStamp ?t",
                "?e time:hasEnd [ time:inXSDDateTimeStamp ?t ]",
                f"?e <http://www.w3.org/2006/time#hasBeginning>/time:inXSDDateTimeStamp ?u ; {END} ?t",
                f'?e <urn:semcep:attribute/warm/fridge> "a" ; {END} ?t',
                f"?e ?p ?name ; {END} ?t . ?f <urn:name> ?name",
                "?i time:inXSDDateTimeStamp ?t",
                f"?e (time:hasEnd|time:hasBeginning)/time:inXSDDateTimeStamp ?t ; {END} ?u",
                f"?e {END}* ?t",
                f"?e {END} ?t, ?u",
                f"?e {END} ?t . ?g {END} ?t FILTER(?e != ?g)",
            ]
        )
    )
    filters = draw(st.lists(bounds(), max_size=2))
    joined = draw(st.sampled_from([" && ", " && ", " || "])).join(filters)
    held = f" FILTER({draw(st.sampled_from(['', '', '!']))}({joined}))" if filters else ""
    more = draw(
        st.sampled_from(
            [
                "",
                "",
                " OPTIONAL { ?e <urn:semcep:attribute/warm/fridge> ?name }",
                " MINUS { ?e <urn:semcep:attribute/warm/temp> 2 }",
                " FILTER NOT EXISTS { ?e <urn:semcep:attribute/warm/temp> 1 }",
                " BIND(?t AS ?again)",
                " VALUES ?v { 1 2 }",
                f" {{ ?e {END} ?x {held.replace('?t', '?x')} }}",
                " GRAPH ?g { ?e ?q ?r }",
            ]
        )
    )
    group = f"{{ {about}{held}{more} }}" if draw(st.booleans()) else f"{{{held} {about} .{more} }}"
    if draw(st.integers(0, 5)) == 0:
        group = f"{{ {group} UNION {{ ?t a ?class }} }}"
    head = draw(
        st.sampled_from(
            ["SELECT *", "SELECT ?e ?t", "SELECT ?t", "SELECT DISTINCT ?t", "SELECT (COUNT(*) AS ?n)",
             "SELECT ?t WHERE",
             "SELECT (MAX(?t) AS ?n)", "ASK", "CONSTRUCT { ?e <urn:at> ?t }", "SELECT (STR(?t) AS ?text)"]
        )
    )  # fmt: skip
    order = draw(
        st.sampled_from(["", " ORDER BY DESC(?t)", " ORDER BY ?t", " ORDER BY ASC(?t) ?e", " ORDER BY DESC(?t) ?e"])
    )
    if head.startswith(("ASK", "SELECT (COUNT", "SELECT (MAX")):
        order = ""
    limit = draw(st.sampled_from(["", " LIMIT 3", " LIMIT 10 OFFSET 2", " OFFSET 1 LIMIT 1"])) if order else ""
    return f"{head} {group}{order}{limit}"


def answer_of(store: ox.Store, text: str, index: TimeIndex | None) -> tuple[Any, list[str]]:
    """The answer, without what is left open: in what order rows come, and which of those that are equal in what they
    are ordered by are among so many."""
    question = Question(text, prefixes=tuple(PREFIXES.items()), graph="nt")
    try:
        answer = evaluate(store, question, index)
    except QueryRefused as error:
        return error.code, []
    if answer.format != "json":
        return Counter(answer.body.splitlines()), []
    found = json.loads(answer.body)
    if "boolean" in found:
        return found["boolean"], []
    bindings = found["results"]["bindings"]
    times = [row.get("t", {}).get("value", "") for row in bindings] if "ORDER BY" in text else []
    some = Counter(json.dumps(row, sort_keys=True) for row in bindings)
    if "LIMIT" in text:
        cut = {times[0], times[-1]} if times else set()
        some = Counter(json.dumps(row, sort_keys=True) for row, time in zip(bindings, times) if time not in cut)
    return (sorted(found["head"]["vars"]), some, len(bindings)), times


@examples(150)
@given(rows, st.lists(queries(), min_size=1, max_size=12))
def test_rows_are_those_of_the_query_as_it_stands(made: Rows, texts: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time_index, "_FIRST", 2)  # so that few events are many
        patch.setattr(time_index, "_MORE", 3)
        patch.setattr(selectivity, "_RARE", 2)
        patch.setattr(selectivity, "_NAMED", 4)
        patch.setattr(time_index, "_HOURS", 3)
        patch.setattr(time_index, "_MINUTES", 120)
        store, index = filled(made)
        for text in texts:
            assert answer_of(store, text, index) == answer_of(store, text, None), text


@pytest.mark.parametrize("seed", range(2))
def test_the_newest_are_the_newest_of_all(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among so many events that a few minutes have enough of them, mostly."""
    monkeypatch.setattr(selectivity, "_RARE", 2)
    monkeypatch.setattr(selectivity, "_NAMED", 4)
    draw = random.Random(seed)
    made = [
        (draw.randrange(2), draw.randrange(3_000), draw.choice([0, 0, 3, 40]), draw.choice("abc"), draw.randrange(4))
        for _ in range(300)
    ]
    store, index = filled(made)
    before = f'FILTER(?t < "{moment(1_500)[:19]}Z"^^xsd:dateTime)'
    enough = 0
    for about, more, order in product(
        (f"?e a ?class ; {END} ?t", "?e time:hasEnd ?i . ?i time:inXSDDateTimeStamp ?t", f"?e ?p ?n ; {END} ?t"),
        ("", "OPTIONAL { ?e <urn:semcep:attribute/warm/temp> ?v }", "MINUS { ?e a <urn:semcep:type/door> }", before),
        ("DESC(?t) LIMIT 3", "?t LIMIT 5 OFFSET 2", "ASC(?t) ?e LIMIT 20", "DESC(?t) ?e LIMIT 400"),
    ):
        text = f"SELECT * {{ {about} {more} }} ORDER BY {order}"
        enough += any(each.enough for each in ways(index, text))
        assert answer_of(store, text, index) == answer_of(store, text, None), text
    assert enough > 24, "of 48"


def ways(index: TimeIndex, text: str) -> list[time_index.Rewritten]:
    return list(index.rewritten(Question(text, prefixes=tuple(PREFIXES.items()))))


def test_a_range_and_the_newest_are_asked_of_their_minutes_alone() -> None:
    _, store = filled([(0, five, 0, "a", five) for five in range(0, 3_000, 6)])
    since = f'FILTER(?t > "{moment(2_940)[:19]}Z"^^xsd:dateTime)'
    last = f"SELECT * {{ ?e a ?class ; {END} ?t {since} }}"
    (one,) = ways(store, last)
    assert one.enough is None and one.text.count("urn:semcep:hour/") == 5 and "SELECT ?" in one.text
    (now,) = ways(store, last.replace(since, 'FILTER(NOW() - "P1D"^^xsd:dayTimeDuration <= ?t)'))
    assert "urn:semcep:hour/" not in now.text, "nothing is so new"
    first, *_ = ways(store, f"SELECT ?e ?t {{ ?e {END} ?t }} ORDER BY DESC(?t) LIMIT 5")
    assert first.enough == 5 and first.text.count("urn:semcep:hour/") < 30
    for text in (  # what is not surely understood stays as it is
        last.replace("FILTER", "GRAPH ?g { ?a ?b ?c } FILTER"),
        last.replace("SELECT *", "SELECT * FROM <urn:g>"),
        last.replace("FILTER(", "FILTER(?t = ?t || "),
        last.replace("?class", "\\u003Curn:x>"),
        last.replace("a ?class", "<urn:semcep:attribute/warm/temp> ?v") + "} {",
        last.replace("{ ?e", "{ { SELECT * { ?x ?y ?z } } ?e"),
        last.replace("SELECT *", "DESCRIBE ?e"),
        f"SELECT ?e {{ ?e {END} ?t FILTER(?t<:y)FILTER?v#>\n }}",
        f"SELECT (COUNT(*) AS ?n) {{ ?e {END} ?t }} ORDER BY DESC(?n) LIMIT 5",
        f"SELECT DISTINCT ?t {{ ?e {END} ?t }} ORDER BY DESC(?t) LIMIT 5",
    ):
        assert not ways(store, text), text


def test_times_of_others_make_that_the_index_is_not_asked(tmp_path: Path) -> None:
    """Of the knowledge, loaded or learned later, also after another start, and of attributes that are called so."""
    time = b'<urn:i> <http://www.w3.org/2006/time#inXSDDateTimeStamp> "2024-05-01T09:00:00Z"^^<urn:t> .\n'
    text = f"SELECT ?e ?t {{ ?e {END} ?t }} ORDER BY DESC(?t) LIMIT 1"

    def learned(store: EventStore) -> None:
        store.learn(b"", time)

    def known(store: EventStore) -> None:
        new = tmp_path / "new.nq"
        new.write_bytes(time)
        store.know("name", str(new), store._known)

    def added(store: EventStore) -> None:
        store.add(time)

    for number, change in enumerate((learned, known, added)):
        store = EventStore(str(tmp_path / str(number)), EventVocabulary())
        fill(store.store, [(0, 1, 0, "a", 1)])
        assert store._indexed and ways(store._recent, text)
        change(store)
        assert not store._indexed, change.__name__
        del store
        gc.collect()  # a store refers to itself
        assert not EventStore(str(tmp_path / str(number)), EventVocabulary())._indexed, change.__name__


@given(st.text("?t<>=&|!(){}[].;,:/^*+-#'\" \nFILTERa1", max_size=50))
def test_no_text_is_read_otherwise_than_it_is(text: str) -> None:
    """Whatever stands there: it is understood as Oxigraph does, or not at all."""
    query = f"SELECT ?e {{ ?e {END} ?t . {text} }}"
    found = timed(query, PREFIXES)
    if found is not None:
        store, index = filled([(0, 1, 0, "a", 1), (1, 700, 3, "b", 1)])
        assert answer_of(store, query, index) == answer_of(store, query, None), query
