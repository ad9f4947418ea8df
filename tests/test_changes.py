"""Knowledge that changes: what holds from when on, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cep.core.errors import CepError
from cep.core.values import MISSING, Pool
from cep.engine import Engine
from cep.events import Event
from cep.runtime.knowledge_changes import refitted
from tests.cases_format import known, read_events, write_event
from tests.test_equivalence import rows

P = "PREFIX wt: <http://example.org/weather#>\n"
KNOWLEDGE = P + 'wt:jfk wt:code "JFK" ; wt:height 4 ; wt:near wt:lga . wt:lga wt:code "LGA" .'
HEIGHTS = P + "event a(s: string).\ne(S, H) <- a(S) WHERE { ?x wt:code ?S ; wt:height ?H }."
EVENTS = read_events('a("JFK") @ 1\na("JFK") @ 2\na("JFK") @ 3\na("LGA") @ 3')


def start(text: str, **options: Any) -> Engine:
    return Engine.from_text(text, knowledge=known(KNOWLEDGE), **options)


def given(engine: Engine, events: list[Event]) -> list[str]:
    return [write_event(event) for event in [*rows(engine.push(events)), *rows(engine.close())]]


def test_an_event_is_judged_by_what_is_known_when_it_ends() -> None:
    engine = start(HEIGHTS)
    engine.update(3_000_000, add=P + "wt:lga wt:height 6 .")
    engine.update(2_000_000, add=P + "wt:jfk wt:height 5 .", remove=P + "wt:jfk wt:height 4 .")  # in any order
    assert given(engine, EVENTS) == ['e("JFK", 4) @ 1', 'e("JFK", 5) @ 2', 'e("JFK", 5) @ 3', 'e("LGA", 6) @ 3']


def test_a_microsecond_decides() -> None:
    for time, height in ((2_000_000, 5), (2_000_001, 4)):
        engine = start(HEIGHTS)
        engine.update(time, P + "wt:jfk wt:height 5 .", P + "wt:jfk wt:height 4 .")
        assert given(engine, EVENTS[1:2]) == [f'e("JFK", {height}) @ 2']


def test_what_is_decided_is_not_judged_again() -> None:
    """The condition is one on the first event alone, which ends before the change; answers are those of the end."""
    text = (
        P
        + """
        event a(s: string).
        b(S) <- a(S) SEQ a(_) WHERE not { ?x wt:code ?S ; wt:height 5 }.
        c(S, H) <- a(S) SEQ a(_) WHERE { ?x wt:code ?S ; wt:height ?H }."""
    )
    engine = start(text)
    engine.update(2_000_000, P + "wt:jfk wt:height 5 .", P + "wt:jfk wt:height 4 .")
    assert given(engine, EVENTS[:2]) == ['b("JFK") @ [1, 2]', 'c("JFK", 5) @ [1, 2]']


def test_answers_at_a_deadline_are_those_of_the_deadline() -> None:
    text = (
        P
        + """
        event a(s: string).
        b(S, H) <- (a(S) UNLESS a(S) WITHIN 2) WHERE { ?x wt:code ?S ; wt:height ?H }."""
    )
    engine = start(text)
    engine.update(3_000_000, P + "wt:jfk wt:height 5 .", P + "wt:jfk wt:height 4 .")
    assert given(engine, EVENTS[:1]) == ['b("JFK", 5) @ [1, 3]']


def test_static_rules_follow() -> None:
    text = (
        P
        + """
        event a(s: string).
        reached(X, Y) :- triple(X, wt:near, Y).
        reached(X, Z) :- reached(X, Y), { ?Y wt:near ?Z }.
        high(S, Least) :- { ?x wt:code ?S ; wt:height ?H }, H >= Least.
        to(S, T) <- a(S) WHERE { ?X wt:code ?S }, reached(X, Y), { ?Y wt:code ?T }.
        tall(S) <- a(S) WHERE high(S, 5)."""
    )
    engine = start(text)
    engine.update(2_000_000, P + 'wt:lga wt:near wt:ewr . wt:ewr wt:code "EWR" ; wt:height 7 . wt:jfk wt:height 5 .')
    found = given(engine, EVENTS[:2])
    assert sorted(found) == ['tall("JFK") @ 2', 'to("JFK", "EWR") @ 2', 'to("JFK", "LGA") @ 1', 'to("JFK", "LGA") @ 2']


def test_a_late_update_is_refused() -> None:
    engine = start(HEIGHTS)
    engine.push(EVENTS[:2])
    with pytest.raises(CepError, match="late") as caught:
        engine.update(1_999_999, add=P + "wt:jfk wt:height 9 .")
    assert caught.value.code == "late"
    engine.update(2_000_000, add=P + "wt:jfk wt:height 5 .", remove=P + "wt:jfk wt:height 4 .")
    assert [write_event(event) for event in rows(engine.close())] == ['e("JFK", 5) @ 2']


def test_lateness_gives_updates_time_as_well() -> None:
    engine = start(HEIGHTS, lateness=2_000_000)
    engine.push(EVENTS)
    engine.update(1_500_000, add=P + "wt:jfk wt:height 5 .", remove=P + "wt:jfk wt:height 4 .")
    found = [write_event(event) for event in rows(engine.close())]
    assert found == ['e("JFK", 4) @ 1', 'e("JFK", 5) @ 2', 'e("JFK", 5) @ 3']


@pytest.mark.parametrize(("height", "kind"), [("4.5", "a float"), ('"high"', "a value of unknown type")])
def test_types_stay_as_they_were(height: str, kind: str) -> None:
    engine = start(HEIGHTS)
    with pytest.raises(CepError) as caught:
        engine.update(2_000_000, add=P + f"wt:jfk wt:height {height} .")
    assert caught.value.code == "type"
    assert f"after this change `?H` of the graph pattern is {kind}, but it was an int" in str(caught.value)
    engine.update(2_000_000, add=P + "wt:lga wt:height 6 .")  # nothing of it is left
    assert given(engine, EVENTS) == ['e("JFK", 4) @ 1', 'e("JFK", 4) @ 2', 'e("JFK", 4) @ 3', 'e("LGA", 6) @ 3']


def test_whole_numbers_of_another_type_fit() -> None:
    engine = start(HEIGHTS)
    engine.update(2_000_000, P + "wt:jfk wt:height 5.0 .", P + "wt:jfk wt:height 4 .")
    engine.update(3_000_000, P + "wt:jfk wt:height 6e0 .", P + "wt:jfk wt:height 5.0 .")
    assert given(engine, EVENTS)[:3] == ['e("JFK", 4) @ 1', 'e("JFK", 5) @ 2', 'e("JFK", 6) @ 3']


def test_what_has_no_value_yet_takes_the_type_that_is_declared() -> None:
    """M23: through static rules, undeclared events, equations, aggregates and arithmetic."""
    text = (
        P
        + """
        event a(s: string).
        event b(n: string, i: iri, h: int, t: time, ok: bool).
        event c(most: int).
        named(X, N) :- { ?X wt:name ?N }, { ?X wt:code ?C }.
        seen(X, N, H) <- a(_) WHERE named(X, M), N = M, { ?X wt:size ?H ; wt:kind ?K }, K != 2.
        b(N, X, H + 1, T, Ok) <- seen(X, N, H) WHERE { ?X wt:since ?T ; wt:good ?Ok }.
        c(Most) <- seen(_, _, H) AGGREGATE Most = max(H) OVER LAST 1 h."""
    )
    engine = start(text)
    found = {name: table.types for name, table in engine.changes.known.tables.items()} if engine.changes else {}
    assert list(found.values()) == [
        ("iri", "string"),
        ("iri", "string"),
        ("iri", "int", "any"),
        ("iri", "time", "bool"),
    ]
    all = 'wt:name "Kennedy" ; wt:size 3 ; wt:kind 1 ; wt:since "1970-01-01T00:00:09Z"^^<xsd:dateTime> ; wt:good true .'
    all = all.replace("xsd:", "http://www.w3.org/2001/XMLSchema#")
    engine.update(2_000_000, P + "wt:jfk " + all)
    jfk = "http://example.org/weather#jfk"
    assert sorted(given(engine, EVENTS[:2])) == [
        f'b("Kennedy", "{jfk}", 4, 9000000, true) @ 2',
        "c(3) @ 2",
        f'seen("{jfk}", "Kennedy", 3) @ 2',
    ]
    with pytest.raises(CepError) as caught:
        start(text).update(2_000_000, P + "wt:jfk " + all.replace('"Kennedy"', "5"))
    assert "`?N` of the graph pattern is an int, but the rules use it as a string" in str(caught.value)


def test_what_nothing_is_wanted_of_may_come_as_anything() -> None:
    engine = start(P + "event a(s: string).\ne(S, H) <- a(S) WHERE { ?x wt:code ?S ; wt:size ?H }.")
    engine.update(2_000_000, P + 'wt:jfk wt:size 3, "three" .')
    assert sorted(given(engine, EVENTS[:2])) == ['e("JFK", "three") @ 2', 'e("JFK", 3) @ 2']


def test_a_policy_goes_by_a_number_that_is_not_there_yet() -> None:
    text = P + (
        "event a(s: string).\ne(S, T) <- f(S, G) SEQ a(T) POLICY recent(by G).\n"
        "f(S, G) <- a(S) WHERE { ?x wt:code ?S ; wt:size ?G }."
    )
    engine = start(text)
    engine.update(0, P + "wt:jfk wt:size 3, 4 .")
    found = given(engine, EVENTS[:2])
    assert sorted(found)[0] == 'e("JFK", "JFK") @ [1, 2]' and 'f("JFK", 4.0) @ 2' in found


def test_what_is_wanted_as_two_types_is_refused_when_it_is_read() -> None:
    with pytest.raises(CepError, match="is declared"):
        start(
            P
            + """event a(s: string). event b(n: string). event c(n: int).
            b(N) <- a(_) WHERE { ?x wt:name ?N }.
            c(N) <- a(_) WHERE { ?x wt:name ?N }."""
        )


def test_what_is_no_rdf_is_refused_and_changes_nothing() -> None:
    engine = start(HEIGHTS)
    with pytest.raises(CepError):
        engine.update(2_000_000, add="wt:jfk wt:height")
    assert given(engine, EVENTS[:2]) == ['e("JFK", 4) @ 1', 'e("JFK", 4) @ 2']


def test_without_knowledge_there_is_nothing_to_change() -> None:
    with pytest.raises(CepError, match="no knowledge"):
        Engine.from_text("e <- a.").update(1, add="")


def test_the_knowledge_given_does_not_change() -> None:
    knowledge = known(KNOWLEDGE)
    before, size = knowledge.fingerprint, len(knowledge)
    engine = Engine.from_text(HEIGHTS, knowledge=knowledge)
    engine.update(0, remove=KNOWLEDGE)
    assert given(engine, EVENTS) == []
    assert (knowledge.fingerprint, len(knowledge)) == (before, size)


def test_a_snapshot_keeps_what_has_changed_and_what_will() -> None:
    engine = start(HEIGHTS)
    engine.update(2_000_000, P + "wt:jfk wt:height 5 .", P + "wt:jfk wt:height 4 .")
    engine.update(3_000_000, P + "wt:lga wt:height 6 .")
    first = [write_event(event) for event in rows(engine.push(EVENTS[:2]))] + [
        write_event(event) for event in rows(engine.advance(2_500_000))
    ]
    assert first == ['e("JFK", 4) @ 1', 'e("JFK", 5) @ 2']
    blob = engine.snapshot()
    again = start(HEIGHTS)
    again.update(0, P + "wt:jfk wt:height 77 .")
    again = again.restore(blob)
    assert again.snapshot() == blob
    assert given(again, EVENTS[2:]) == given(engine, EVENTS[2:]) == ['e("JFK", 5) @ 3', 'e("LGA", 6) @ 3']


def test_a_snapshot_of_other_knowledge_is_refused() -> None:
    blob = start(HEIGHTS).snapshot()
    with pytest.raises(CepError) as caught:
        Engine.from_text(HEIGHTS, knowledge=known(P + 'wt:jfk wt:code "JFK" ; wt:height 4 .')).restore(blob)
    assert caught.value.code == "snapshot"


def test_values_that_come_and_go_are_forgotten() -> None:
    text = P + "event a(s: string).\ne(S, N) <- a(S) WHERE { ?x wt:code ?S ; wt:name ?N }."
    engine = Engine.from_text(text, knowledge=known(KNOWLEDGE + ' wt:jfk wt:name "0" .'), lateness=None)
    found: list[Event] = []
    for second in range(1, 50):
        time = second * 1_000_000
        engine.update(time, P + f'wt:jfk wt:name "{second}" .', P + f'wt:jfk wt:name "{second - 1}" .')
        engine.push([Event("a", ("JFK",), time, time)])
        engine._parts.sweep_at = 1
        found += rows(engine.advance(time))
    assert [event.args for event in found] == [("JFK", str(second)) for second in range(1, 50)]
    assert engine.pool.size < 20


def test_many_changes_are_kept_as_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cep.runtime.knowledge_changes.COMPACT", 4)
    engine, times = start(HEIGHTS), range(1_000_000, 60_000_000, 1_000_000)
    for second, time in enumerate(times):
        old, new = (f"wt:jfk wt:height {second + n} ; wt:seen {second + n} ." for n in (4, 5))
        engine.update(time, P + new, P + old)
        engine.advance(time)
        assert engine.changes is not None and len(engine.changes.applied) <= 4
    again = Engine.from_text(HEIGHTS, knowledge=known(KNOWLEDGE), lateness=None).restore(engine.snapshot())
    for each in (engine, again):
        made = rows(each.push([Event("a", ("JFK",), 70_000_000, 70_000_000)])) + rows(each.close())
        assert [write_event(event) for event in made] == [f'e("JFK", {len(times) + 4}) @ 70']


@pytest.mark.parametrize(
    ("column", "type", "wanted", "fits"),
    [
        ([1, MISSING], "int", "float", True),
        ([2**53 + 1], "int", "float", False),
        ([0, 1], "bool", "any", True),
        ([1_500_000], "time", "any", True),
        ([MISSING], "int", "string", True),
        ([7], "int", "string", False),
    ],
)
def test_columns_in_the_types_they_had(column: list[int], type: str, wanted: str, fits: bool) -> None:
    pool = Pool()
    found = refitted(np.array(column, dtype=np.int64), type, wanted, pool)
    assert (found is not None) == fits
    if found is not None and wanted == "any":
        seconds = type in ("time", "duration")
        assert pool.decode_values(found) == [each / 1_000_000 if seconds else bool(each) for each in column]


GEO = "PREFIX geo: <http://www.w3.org/2003/01/geo/wgs84_pos#>\nPREFIX wt: <http://example.org/weather#>\n"


def test_places_that_come_are_near() -> None:
    text = "event a(lat: float, long: float).\nb(F) <- a(Lat, Long) WHERE near(Lat, Long, 50000, F, M)."
    engine = Engine.from_text(text, knowledge=known(GEO + "wt:jfk geo:lat 40.64 ; geo:long -73.78 ."))
    engine.update(2_000_000, add=GEO + "wt:lga geo:lat 40.78 ; geo:long -73.87 .")
    found = given(engine, [Event("a", (40.7, -73.8), time, time) for time in (1_000_000, 2_000_000)])
    jfk, lga = (f'b("http://example.org/weather#{name}")' for name in ("jfk", "lga"))
    assert sorted(found) == [f"{jfk} @ 1", f"{jfk} @ 2", f"{lga} @ 2"]


def test_a_predicate_of_the_knowledge_is_not_defined_again() -> None:
    with pytest.raises(CepError) as caught:
        start("e(X) <- a(X) WHERE near(X, X, X, _, _).\nnear(1, 2, 3, x, 4).\nnear(2, 3, 4, x, 5).")
    assert "`near` is already a predicate of the background knowledge" in str(caught.value)


def test_a_predicate_with_another_number_of_arguments_is_the_programs_own() -> None:
    engine = start("e(X) <- a(X) WHERE near(X, _).\nnear(1, 2).\nnear(2, 3).")
    engine.push([Event("a", (1,), 1, 1), Event("a", (3,), 1, 1)])
    engine.update(5, add="<urn:a> <urn:b> <urn:c> .")
    engine.push([Event("a", (2,), 9, 9)])
    assert engine.close()["e"]["x"].to_list() == [2]


def test_what_came_and_went_is_forgotten() -> None:
    """A long stream of changes is kept as what is different in the end from what was loaded."""
    engine = start(HEIGHTS, lateness=None)
    for second in range(1, 140):
        add, gone = (P + f"wt:jfk wt:height {height} ." for height in (second + 4, second + 3))
        engine.update(second * 1_000_000, add=add, remove=gone)
        engine.advance(second * 1_000_000)
    assert engine.changes is not None and not engine.changes.pending and len(engine.changes.applied) <= 65
    assert engine.changes.snapshot()["change"].to_pylist()[0].count(b"\n") == 2  # 4 goes, 143 comes
