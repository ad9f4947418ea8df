"""Partial matches: what waits in the rules of an event, how far it is, for what, until when; asking changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import httpx
import polars as pl
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

import cep
from cep.connectors.serving import partial
from cep.connectors.serving.fair_lock import FairLock
from cep.connectors.serving.guard import Limits
from cep.connectors.serving.people import People, Person, Role
from cep.core.errors import CepError
from cep.core.schema import CHANGE
from cep.engine import Engine, detect
from cep.events import Event, Iri
from cep.plan.plan import Plan
from tests.axe import bars
from tests.long import examples, seeds
from tests.page_server import CHROMIUM, MISSING, shown
from tests.programs import Program, programs
from tests.test_equivalence import types

SECOND = 1_000_000
MINUTE = 60 * SECOND
EIGHT = 1_714_550_400 * SECOND  # 2024-05-01T08:00:00Z
DECLARED = """
event reading(station: string, temp: float) TIME time.
event calm(station: string) TIME time.
event warning(station: string).
"""
READINGS = [("a", 7.2, 0), ("a", 7.4, 10), ("b", 7.5, 12), ("a", 8.1, 50)]


def at(minute: int) -> int:
    return EIGHT + minute * MINUTE


def running(rules: str, *calm: tuple[str, int], until: int = 50, **options: Any) -> Engine:
    """An engine that has taken the readings and those of calm, up to a minute after eight."""
    engine = Engine.from_text(DECLARED + rules, lateness=None, **options)
    engine.receive([Event("reading", (station, temp), at(m), at(m)) for station, temp, m in READINGS if m <= until])
    engine.receive([Event("calm", (station,), at(m), at(m)) for station, m in calm if m <= until])
    engine.advance(at(until))
    return engine


def texts(engine: Engine, **asked: Any) -> list[str]:
    before = engine.snapshot()
    found = str(engine.partial_matches("warning", **asked)).splitlines()
    assert engine.snapshot() == before, "asking changes nothing"
    return found


def test_a_chain_says_how_far_it_is() -> None:
    engine = running("warning(S) <- (reading(S, T) WHERE T > 7) TIMES 4 WITHIN 3 h.")
    found = engine.partial_matches("warning", {"station": "a"})
    assert [(each.have, each.of, each.start, each.end) for each in found] == [
        (3, 4, at(0), at(50)), (2, 4, at(0), at(10)), (2, 4, at(0), at(50)), (2, 4, at(10), at(50)),
        (1, 4, at(0), at(0)), (1, 4, at(10), at(10)), (1, 4, at(50), at(50)),
    ]  # fmt: skip
    first = found.matches[0]
    assert first.constituents == ('reading("a", 7.2)', 'reading("a", 7.4)', 'reading("a", 8.1)')
    assert first.values == {"S": "a", "T": 7.2, "T2": 7.4, "T3": 8.1} and (first.line, first.rule) == (5, "line 5")
    assert (first.until, first.left) == (at(180), 130 * MINUTE)
    assert str(first) == (
        'line 5: 3 of 4, reading("a", 7.2), reading("a", 7.4), reading("a", 8.1) 2024-05-01T08:00:00Z to '
        '2024-05-01T08:50:00Z; waits for reading("a", T) WHERE T > 7, 2 h 10 min left'
    )
    assert texts(engine, key={"S": "b"}) == [
        'line 5: 1 of 4, reading("b", 7.5) at 2024-05-01T08:12:00Z; waits for reading("b", T) WHERE T > 7, '
        "2 h 22 min left"
    ]
    assert texts(engine, key={"station": "c"}) == ["no partial match of warning"]
    short = engine.partial_matches("warning", limit=2)
    assert (len(short), short.more, str(short).splitlines()[-1]) == (2, 6, "and 6 more")
    assert list(short) == list(found)[:2]
    engine.advance(at(180))  # until then the first may still become one, and not longer
    assert next(each.start for each in engine.partial_matches("warning")) == at(10)


def test_both_sides_of_and_wait_and_unless_waits_for_nothing_to_come() -> None:
    rules = "warning(S) <- reading(S, T) AND calm(S) WITHIN 1 h.\nsilent: warning(S) <- reading(S, _) UNLESS calm(S) "
    engine = running(rules + "WITHIN 2 h.", ("c", 40), ("b", 45))
    assert texts(engine) == [
        'silent: 1 of 1, reading("a", _) at 2024-05-01T08:00:00Z; waits for no calm("a"), 1 h 10 min left',
        'silent: 1 of 1, reading("a", _) at 2024-05-01T08:10:00Z; waits for no calm("a"), 1 h 20 min left',
        'silent: 1 of 1, reading("a", _) at 2024-05-01T08:50:00Z; waits for no calm("a"), 2 h left',
        'line 5: 1 of 2, reading("a", 7.2) at 2024-05-01T08:00:00Z; waits for calm("a"), 10 min left',
        'line 5: 1 of 2, reading("a", 7.4) at 2024-05-01T08:10:00Z; waits for calm("a"), 20 min left',
        'line 5: 1 of 2, reading("b", 7.5) at 2024-05-01T08:12:00Z; waits for calm("b"), 22 min left',
        'line 5: 1 of 2, calm("c") at 2024-05-01T08:40:00Z; waits for reading("c", _), 50 min left',
        'line 5: 1 of 2, calm("b") at 2024-05-01T08:45:00Z; waits for reading("b", _), 55 min left',
        'line 5: 1 of 2, reading("a", 8.1) at 2024-05-01T08:50:00Z; waits for calm("a"), 1 h left',
    ]


def test_what_must_be_absent_ends_a_partial_match() -> None:
    rules = "warning(S) <- NOT(calm(S)).[reading(S, T), reading(S, U)] WHERE U > T + 5 WITHIN 2 h."
    assert [each.start for each in running(rules).partial_matches("warning")] == [at(0), at(10), at(12), at(50)]
    after = running(rules, ("a", 20), ("b", 12))  # not after the reading of b
    assert [each.start for each in after.partial_matches("warning")] == [at(12), at(50)]
    anything = "warning(S) <- NOT(calm(_)).[reading(S, T), reading(S, U)] WHERE U > T + 5 WITHIN 2 h."
    assert [each.start for each in running(anything, ("x", 20)).partial_matches("warning")] == [at(50)]


def test_outer_bounds_and_alternatives() -> None:
    rules = "warning(S) <- ((reading(S, _) UNLESS calm(S) WITHIN 1 h) SEQ (calm(S) OR reading(S, _))) WITHIN 90 min."
    engine = running(rules)
    found = engine.partial_matches("warning", {"S": "b"})
    assert [(each.have, each.of, each.waits_for, each.until) for each in found] == [(1, 2, 'no calm("b")', at(72))]
    engine.advance(at(72))
    (match,) = engine.partial_matches("warning", {"S": "b"})
    assert (match.have, match.of, match.until) == (1, 2, at(102)) and match.waits_for == "calm(S) OR reading(S, _)"
    late = running("warning(S) <- (reading(S, _) UNLESS calm(S) WITHIN 1 h) WITHIN 30 min.")
    assert not len(late.partial_matches("warning")), "such an UNLESS never stands"


def test_gaps_converted_keys_missing_values_and_iris() -> None:
    program = """
event a(k: int, n: string?) TIME time.
event b(k: float) TIME time.
event c(i: iri) TIME time.
event d(i: iri) TIME time.
warning(K, N) <- a(K, N) SEQ[5 s, 10 s] b(K).
other(I) <- c(I) SEQ d(I).
"""
    engine = Engine.from_text(program, lateness=None)
    engine.receive([Event("a", (3, None), EIGHT, EIGHT), Event("c", (Iri("http://e/x"),), EIGHT, EIGHT)])
    engine.advance(EIGHT + SECOND)
    for key in ({"k": 3}, {"K": 3.0}, {"k": "3"}, {"n": None}):
        (match,) = engine.partial_matches("warning", key)
        assert (match.constituents, match.values) == (("a(3, null)",), {"K": 3, "N": None})
        assert (match.waits_for, match.left) == ("b(3)", 9 * SECOND)
    assert not len(engine.partial_matches("warning", {"k": 4}))
    for iri in (Iri("http://e/x"), "http://e/x"):
        (match,) = engine.partial_matches("other", {"I": iri})
        assert (match.values, match.waits_for) == ({"I": Iri("http://e/x")}, "d(<http://e/x>)")
        assert (match.until, match.left) == (None, None) and str(match).endswith("waits for d(<http://e/x>)")
    with pytest.raises(CepError, match="`K` is of type int, and `three` is not"):
        engine.partial_matches("warning", {"K": "three"})
    engine.advance(EIGHT + 10 * SECOND)
    assert not len(engine.partial_matches("warning"))


def test_a_number_for_a_text_is_refused() -> None:
    engine = running("warning(S) <- reading(S, _) SEQ calm(S).\n")
    with pytest.raises(CepError, match="`S` is of type string, and `3` is not") as caught:
        engine.partial_matches("warning", {"S": 3})
    assert caught.value.hint == 'use a text: `"3"`'


def test_a_head_with_constants_and_expressions() -> None:
    program = "event a(k: int) TIME time.\nwarning(K + 1, low) <- a(K) SEQ a(K).\nwarning(K, high) <- a(K) SEQ a(_)."
    engine = Engine.from_text(program, lateness=None)
    engine.push([Event("a", (3,), EIGHT, EIGHT)])
    engine.advance(EIGHT)
    first, second = engine.outputs["warning"].attributes
    assert [each.line for each in engine.partial_matches("warning", {second.name: "high"})] == [3]
    assert [each.line for each in engine.partial_matches("warning", {first.name: 9})] == [2], "it may be any number"


@pytest.mark.parametrize(
    ("event", "key", "message", "hint"),
    [
        ("warnin", {}, "no rule derives an event `warnin`", "did you mean `warning`?"),
        ("reading", {}, "`reading` is read, not derived", "rules derive `warning`, `count` and `open`"),
        ("warning", {"statio": "a"}, "`warning` has no attribute or variable `statio`", "did you mean `station`?"),
        ("open", {"statio": "a"}, "`open` has no attribute or variable `statio`", "did you mean `station`?"),
    ],
)
def test_what_has_none_is_refused(event: str, key: dict[str, str], message: str, hint: str) -> None:
    rules = """warning(S) <- reading(S, T) SEQ calm(S).
fluent open(station: string).
initiate open(S) <- reading(S, _).
terminate open(S) <- calm(S).
count(S) <- calm(S).
count(S) <- count(S) SEQ reading(S, _).
"""
    engine = running(rules)
    with pytest.raises(CepError, match=message) as caught:
        engine.partial_matches(event, key)
    assert hint in (caught.value.hint or "")


def test_an_event_that_is_derived_from_itself_is_one_constituent() -> None:
    rules = "grows: warning(S) <- warning(S) SEQ reading(S, T) WHERE T > 8 WITHIN 2 h.\nwarning(S) <- calm(S)."
    for more in ("", "\nother(S) <- warning(S) SEQ calm(S)."):
        found = running(rules + more, ("a", 5), ("b", 6)).partial_matches("warning")
        assert [(each.have, each.of, each.start, each.end) for each in found] == [
            (1, 2, at(5), at(5)), (1, 2, at(5), at(50)), (1, 2, at(6), at(6)),
        ]  # fmt: skip
        assert [each.waits_for for each in found] == [f'reading("{k}", T) WHERE T > 8' for k in "aab"]
        assert [each.constituents for each in found] == [(f'warning("{k}")',) for k in "aab"]
        assert [each.left for each in found] == [75 * MINUTE, 75 * MINUTE, 76 * MINUTE]


FLUENTS = """
fluent hot(station: string).
initiate hot(S) <- reading(S, T) SEQ reading(S, U) WHERE U > T, T > 7 WITHIN 1 h.
terminate hot(S) <- calm(S).
fluent state(station: string) = level: string.
initiate state(S) = "high" <- reading(S, T) WHERE T > 7.3.
state(S) = high BECOMES low AFTER 30 min.
state(S) = low ENDS AFTER 2 h.
fluent alone(station: string).
alone(S) WHILE hot(S) AND state(S) = low.
fluent quiet(station: string).
quiet(S) WHILE state(S) = high AND NOT hot(S).
fluent lasting(station: string).
lasting(S) WHILE HISTORICALLY[0, 2 h] hot(S).
fluent long(station: string).
long(S) WHILE hot(S) LASTING >= 1 h.
fluent later(station: string).
later(S) WHILE ONCE[20 min, 1 h] state(S) = high.
warning(S) <- reading(S, _) SEQ calm(S) WHERE hot(S) WITHIN 1 h.
"""


def test_fluents_say_what_they_wait_for() -> None:
    early, late = running(FLUENTS, ("c", 20), until=20), running(FLUENTS, ("c", 20), until=45)

    def said(engine: Engine, fluent: str, **key: str) -> list[str]:
        return str(engine.partial_matches(fluent, key)).replace("2024-05-01T", "").splitlines()

    assert said(late, "hot", station="b") == [
        'line 7: 1 of 2, reading("b", 7.5) at 08:12:00Z; waits for reading("b", _), 27 min left'
    ]
    assert said(early, "state", station="a", level="high") == [
        'line 9: 1 of 1, state("a") = "high" at 08:10:00Z; waits for state("a") = "high" BECOMES "low" AFTER '
        "30 min, 20 min left"
    ]
    assert said(late, "state", station="b", level="low") == [
        'line 9: 1 of 1, state("b") = "low" at 08:42:00Z; waits for state("b") = "low" ENDS AFTER 2 h, 1 h 57 min left'
    ]
    assert said(late, "state", level="high") == ["no partial match of state"]
    assert said(early, "alone") == ['line 14: 1 of 2, hot("a") at 08:20:00Z; waits for state("a") = low']
    assert said(late, "alone") == ['line 14: 1 of 2, state("b") = low at 08:45:00Z; waits for hot("b")']
    assert said(early, "quiet") == ['line 16: 1 of 1, state("a") = high at 08:20:00Z; waits for no hot("a")']
    assert said(late, "lasting") == [
        'line 18: 1 of 1, hot("a") at 08:10:00Z; waits for HISTORICALLY[0 s, 2 h] (hot("a")), 1 h 25 min left'
    ]
    assert said(late, "long") == [
        'line 20: 1 of 1, hot("a") at 08:10:00Z; waits for (hot("a")) LASTING >= 1 h, 25 min left'
    ]
    assert said(early, "later", station="b") == [
        'line 22: 1 of 1, state("b") = high at 08:12:00Z; waits for ONCE[20 min, 1 h] (state("b") = high), 12 min left'
    ]
    assert said(late, "warning", S="b") == [
        'line 23: 1 of 2, reading("b", _) at 08:12:00Z; waits for calm("b"), 27 min left'
    ]


TIMED = """
event a(k: int) TIME t.
event b(k: int) TIME t.
fluent p(k: int).
initiate p(K) <- a(K).
terminate p(K) <- b(K).
p(K) ENDS AFTER 9 s.
fluent kept(k: int).
kept(K) WHILE HISTORICALLY[1 s, 3 s] p(K).
fluent recent(k: int).
recent(K) WHILE ONCE[2 s, 4 s] p(K).
fluent since(k: int).
since(K) WHILE p(K) SINCE[2 s, 4 s] a(K).
fluent long(k: int).
long(K) WHILE p(K) LASTING >= 3 s.
fluent only(k: int).
only(K) WHILE p(K) AND NOT recent(K).
"""


@pytest.mark.parametrize("seed", seeds(60))
def test_what_time_alone_brings_is_listed_with_its_time(seed: int) -> None:
    random = Random(seed)
    engine = Engine.from_text(TIMED, lateness=None)
    now = EIGHT
    for _ in range(30):
        now += random.randrange(3) * SECOND
        engine.receive([Event(random.choice("aab"), (random.randrange(3),), now, now)])
        engine.advance(now)
        blob = engine.snapshot()
        listed = {
            name: {(each.values.get("K", each.values.get("k")), each.start, each.until)
                   for each in engine.partial_matches(name, limit=1_000) if each.until is not None}
            for name in ("kept", "recent", "since", "long", "p")
        }  # fmt: skip
        assert engine.snapshot() == blob
        due = {key: until for key, _, until in listed["p"]}
        later = Engine.from_text(TIMED, lateness=None).restore(blob)
        held = {name: set(table["k"]) for name, table in later.held_now().items()}
        ends = later.advance(now + 100 * SECOND)
        for name in ("kept", "recent", "since"):
            rows = ends[name].iter_rows(named=True) if name in ends else ()
            begins = {(row["k"], row["start"]) for row in rows if row["start"] > now}
            ends_before = {
                (key, until) for key, _, until in listed[name] if name == "since" and until > due.get(key, 0)
            }
            assert {(key, until) for key, _, until in listed[name]} - ends_before == begins, (name, now)
        rows = ends["long"].iter_rows(named=True) if "long" in ends else ()
        assert {(key, start) for key, start, _ in listed["long"]} == {
            (row["k"], row["start"]) for row in rows if row["start"] + 3 * SECOND > now
        }
        assert all(until == start + 3 * SECOND for _, start, until in listed["long"])
        rows = ends["p"].iter_rows(named=True) if "p" in ends else ()
        assert listed["p"] == {(row["k"], row["start"], row["end"]) for row in rows}
        blocked = {each.values["K"] for each in engine.partial_matches("only", limit=1_000)}
        assert blocked == held.get("p", set()) & held.get("recent", set())


DEALT = """
event a(k: int, x: int) TIME t.
event b(k: int, x: int) TIME t.
event c(x: int) TIME t.
chain(K, X, Y) <- (a(K, X) SEQ b(K, Y) SEQ a(K, _)) WITHIN 9 s.
left(K, X) <- a(K, X) UNLESS b(K, Y) WITHIN 4 s.
any(K, X) <- c(X) AND b(K, X) WITHIN 6 s.
two(X) <- a(_, X) SEQ c(X) WITHIN 5 s.
more(K) <- chain(K, _, _).
more(K) <- more(K) SEQ b(K, X) WHERE X > 0 WITHIN 8 s.
fluent on(k: int).
initiate on(K) <- a(K, X) SEQ a(K, X) WITHIN 5 s.
terminate on(K) <- b(K, _).
on(K) ENDS AFTER 6 s.
fluent off(k: int).
initiate off(K) <- b(K, _).
terminate off(K) <- a(K, _).
fluent both(k: int).
both(K) WHILE on(K) AND off(K).
fluent long(k: int).
long(K) WHILE HISTORICALLY[0, 3 s] off(K).
"""


@pytest.mark.parametrize("seed", seeds(12))
def test_workers_list_what_one_process_does(seed: int) -> None:
    random = Random(seed)
    engines = [cep.Engine.from_text(DEALT), cep.Engine.from_text(DEALT, workers=3)]
    try:
        for second in range(0, 40, 4):
            rows: dict[str, list[dict[str, Any]]] = {"a": [], "b": [], "c": []}
            for _ in range(12):
                name, time = random.choice("abc"), (EIGHT + (second + random.randrange(4)) * SECOND) / 1e6
                key = {} if name == "c" else {"k": random.randrange(4)}
                rows[name].append({"t": time, **key, "x": random.randrange(3)})
            for name in rows:
                rows[name].sort(key=lambda row: row["t"])
            for engine in engines:
                engine.push(rows)
                engine.advance(f"2024-05-01T08:00:{second + 3:02}Z")
            for event in ("chain", "left", "any", "two", "more", "on", "off", "both", "long"):
                for key in ({}, {"k": 1}) if event != "two" else ({}, {"X": 1}):
                    for limit in (3, 1_000):
                        one, several = (engine.partial_matches(event, key, limit) for engine in engines)
                        assert several == one, (event, key, limit)
    finally:
        engines[1].stop()


def test_workers_go_on_after_a_question_that_is_refused() -> None:
    engine = cep.Engine.from_text(DEALT, workers=2)
    try:
        engine.push({"a": [{"t": EIGHT / 1e6, "k": 1, "x": 1}]})
        engine.advance("2024-05-01T08:00:00Z")
        with pytest.raises(CepError, match="`K` is of type int, and `one` is not"):
            engine.partial_matches("left", {"k": "one"})
        assert len(engine.partial_matches("left", {"k": 1})) == 1
    finally:
        engine.stop()


KEYED = """
event a(k: int, n: int, x: int) TIME t KEY k, n.
event b(k: int, n: int, x: int) TIME t KEY k, n.
chain(K, X, Y, Z) <- (a(K, _, X) SEQ b(K, _, Y) SEQ a(K, _, Z)) WITHIN 9 s WHERE Y > X.
left(K, X) <- a(K, _, X) UNLESS b(K, _, Y) WITHIN 4 s.
both(K, X, Y) <- a(K, _, X) AND b(K, _, Y) WITHIN 6 s WHERE X > 1.
warm(K, X) <- chain(K, X, _, _) SEQ b(K, _, _) WITHIN 20 s.
"""


@pytest.mark.parametrize("seed", seeds(40))
@pytest.mark.parametrize("revise", [None, 8 * SECOND])
def test_what_came_late_was_corrected_or_withdrawn_waits_as_if_it_had_come_in_order(
    seed: int, revise: int | None
) -> None:
    random = Random(seed)
    behind = 8 * SECOND if revise is None else 0
    engine = Engine.from_text(KEYED, lateness=behind, revise=revise)
    net: dict[tuple[str, int, int, int], int] = {}
    latest = EIGHT
    for number in range(60):
        second = max(0, number // 2 - random.choice((0, 0, 0, 1, 3, 5)))
        latest = max(latest, EIGHT + second * SECOND)
        name, key = random.choice("ab"), random.randrange(2)
        place = (name, key, random.randrange(3), EIGHT + second * SECOND)
        table = pl.DataFrame(
            {"start": [place[3]], "end": [place[3]], "k": [key], "n": [place[2]], "x": [0], CHANGE: [1]}
        )
        if place in net and random.random() < 0.4:
            engine.push({name: table.with_columns(pl.lit(-1).alias(CHANGE))})
            del net[place]
        else:
            net[place] = random.randrange(4)
            engine.push({name: table.with_columns(x=pl.lit(net[place]))})
        assert not engine.take_dead()
        if number % 7 == 6:
            now = engine.watermark
            events = [Event(name, (k, n, x), time, time) for (name, k, n, time), x in net.items() if time <= now]
            plain = Engine.from_text(KEYED, lateness=None, corrected=True)
            plain.push(sorted(events, key=lambda each: each.end))
            plain.advance(now)
            for asked in ("chain", "left", "both", "warm"):
                found = Counter(map(str, engine.partial_matches(asked, limit=10_000)))
                wanted = Counter(map(str, plain.partial_matches(asked, limit=10_000)))
                assert found == wanted, asked


def test_the_engine_for_data() -> None:
    engine = cep.Engine.from_text(DECLARED + "warning(S) <- reading(S, T) SEQ calm(S) WITHIN 1 h.")
    engine.push({"reading": [{"time": datetime(2024, 5, 1, 8, tzinfo=UTC), "station": "a", "temp": 8.5}]})
    engine.advance("2024-05-01T08:00:00Z")
    assert str(engine.partial_matches("warning", {"station": "a"})) == (
        'line 5: 1 of 2, reading("a", 8.5) at 2024-05-01T08:00:00Z; waits for calm("a"), 1 h left'
    )
    engine.push({"reading": [{"time": "2024-05-01T08:10:00Z", "station": "b", "temp": 8.5}]})
    assert str(engine.partial_matches("warning")).endswith('waits for calm("a"), 50 min left'), "a microsecond is none"
    engine.finish()
    assert str(engine.partial_matches("warning")) == "no partial match of warning"


# --- random ---


def chains(random: Random) -> Iterator[tuple[str, int, int]]:
    """Events of a chain of three, by second, with a key."""
    for second in range(12):
        for _ in range(random.choice((0, 1, 1, 2))):
            yield random.choice("abc"), random.randrange(2), second


@pytest.mark.parametrize("seed", seeds(60))
def test_chains_are_those_of_brute_force_and_the_missing_event_makes_the_match(seed: int) -> None:
    random = Random(seed)
    within = random.choice((3, 5, 8))
    program = f"warning(K, X, Y, Z) <- (a(K, X) SEQ b(K, Y) SEQ c(K, Z)) WITHIN {within} s."
    events = [
        Event(name, (key, number), EIGHT + s * SECOND, EIGHT + s * SECOND)
        for number, (name, key, s) in enumerate(chains(random))
    ]
    now = EIGHT + random.randrange(12) * SECOND
    schema = dict.fromkeys("abc", ("int", "int"))
    engine = Engine.from_text(program, lateness=None, types=schema)
    came = [each for each in events if each.end <= now]
    engine.receive(came)
    engine.advance(now)
    by = {name: [each for each in came if each.type == name] for name in "abc"}
    alone = [(one,) for one in by["a"]]
    pairs = [(one, two) for one in by["a"] for two in by["b"] if one.args[0] == two.args[0] and one.end < two.start]
    wanted = Counter(
        (len(part), part[0].start, part[-1].end, tuple(each.args[1] for each in part))
        for part in (*alone, *pairs)
        if part[0].start + within * SECOND > now
    )
    found = engine.partial_matches("warning", limit=1_000)
    numbers = ("X", "Y")
    assert wanted == Counter(
        (m.have, m.start, m.end, tuple(m.values[n] for n in numbers if n in m.values)) for m in found
    )
    assert [3 - match.have for match in found] == sorted(3 - match.have for match in found)
    blob = engine.snapshot()
    again = Engine.from_text(program, lateness=None, types=schema).restore(blob)
    assert again.partial_matches("warning", limit=1_000) == found, "the same after a restart"
    for match in found:
        assert match.until == match.start + within * SECOND and match.left == match.until - now
        missing = "bc"[match.have - 1 :]
        for last, makes in ((match.until, match.left >= len(missing)), (match.until + 1, False)):
            if last - len(missing) < now:
                continue
            other = Engine.from_text(program, lateness=None, types=schema).restore(blob)
            times = [last - len(missing) + 1 + place for place in range(len(missing))]
            more = [Event(n, (match.values["K"], 99), t, t) for n, t in zip(missing, times, strict=True)]
            other.receive(more)
            rows = other.advance(last).get("warning")
            own = {} if rows is None else Counter(zip(rows["start"], rows[rows.columns[3]], rows["end"]))
            assert ((match.start, match.values["X"], last) in own) is makes, (match, last)


def asked(plan: Plan, number: int) -> set[str]:
    """The events that a node is made of."""
    event = plan.nodes[number].properties().event
    return set().union({event} if event else (), *(asked(plan, part) for part in plan.nodes[number].parts))


@examples(300)
@given(programs(aggregates=False), st.integers(-1, 12))
def test_what_is_derived_later_waits_before(program: Program, second: int) -> None:
    """Of events that happen at instants: what has begun, and is derived after a moment, is a partial match then."""
    now = second * SECOND
    given_types = types(program.events)
    engine = Engine.from_text(program.text, lateness=None, types=given_types)
    read = [each for each in program.events if each.type in engine.inputs and each.end <= now]
    engine.receive(read)
    engine.take_dead()
    engine.advance(now)
    blob = engine.snapshot()
    found = {event: engine.partial_matches(event, limit=10_000) for event in engine.outputs}
    assert engine.snapshot() == blob
    again = Engine.from_text(program.text, lateness=None, types=given_types).restore(blob)
    assert {event: again.partial_matches(event, limit=10_000) for event in engine.outputs} == found
    for matches in found.values():
        for match in matches:
            assert 1 <= match.have <= match.of and match.start <= match.end <= now and len(match.constituents) > 0
            assert match.until is None or match.until > now
    if any(each.start != each.end for each in program.events):
        return
    for event in detect(program.text, program.events):
        heads = [head for head in engine.plan.heads if head.event == event.type]
        if any(asked(engine.plan, head.child) & engine.outputs.keys() for head in heads):
            continue
        if event.start <= now < event.end and any(each.start == event.start for each in read):
            names = [attribute.name for attribute in engine.outputs[event.type].attributes]
            of_key = engine.partial_matches(event.type, dict(zip(names, event.args, strict=True)), limit=10_000)
            assert event.start in {match.start for match in of_key}, (event, str(found[event.type]))


# --- served ---

PROGRAM = """
event reading(station: string, temp: float, y: float?, x: float?) TIME time.
event warning(station: string).
warning(S) <- (reading(S, T, _, _) WHERE T > 30) TIMES 3 WITHIN 1 h.
"""


def test_it_is_asked_over_http_by_viewers(tmp_path: Path) -> None:
    token = "a-secret-of-the-house"
    people = People({Person("wall", Role.VIEWER): token})
    with shown(tmp_path, PROGRAM, limits=Limits(people, rate=0)) as one:
        assert httpx.get(one.url + "/partial?event=warning").status_code == 401
        with httpx.Client(base_url=one.url, headers={"Authorization": f"Bearer {token}"}) as client:
            assert client.get("/partial?event=warning").json()["matches"] == []
            one.push((0, "vie", 31), (60, "vie", 36.5), (60, "grz", 32), (90, "vie", 20))
            answer = client.get("/partial", params={"event": "warning", "station": "vie", "limit": 1})
            assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
            assert answer.json() == {
                "event": "warning",
                "watermark": "2024-05-01T08:01:30Z",
                "matches": [
                    {
                        "rule": "line 4",
                        "line": 4,
                        "have": 2,
                        "of": 3,
                        "constituents": ['reading("vie", 31.0, _, _)', 'reading("vie", 36.5, _, _)'],
                        "start": "2024-05-01T08:00:00Z",
                        "end": "2024-05-01T08:01:00Z",
                        "values": {"S": "vie", "T": 31.0, "T2": 36.5},
                        "waits_for": 'reading("vie", T, _, _) WHERE T > 30',
                        "until": "2024-05-01T09:00:00Z",
                        "seconds_left": 3510.0,
                        "text": 'line 4: 2 of 3, reading("vie", 31.0, _, _), '
                        'reading("vie", 36.5, _, _) 2024-05-01T08:00:00Z to 2024-05-01T08:01:00Z; waits for '
                        'reading("vie", T, _, _) WHERE T > 30, 58 min 30 s left',
                    }
                ],
                "more": 2,
            }
            for place, status, said in (
                ("event=warnin", 404, "did you mean `warning`?"),
                ("event=warning&staton=vie", 404, "did you mean `station`?"),
                ("event=warning&T=hot", 400, "`T` is of type float"),
                ("event=warning&limit=-1", 422, "limit"),
                ("station=vie", 422, "event"),
            ):
                refused = client.get(f"/partial?{place}")
                assert refused.status_code == status and said in refused.text, refused.text


def test_a_job_on_spark_and_a_busy_program_are_told() -> None:
    engine = running("warning(S) <- reading(S, T) SEQ calm(S) WITHIN 1 h.")
    busy = FairLock()
    busy.acquire()
    for router, status, said in (
        (partial.router(None, FairLock()), 409, "the program runs on Spark"),
        (partial.router(engine, busy, 0.01), 503, "the program is busy"),
    ):
        app = FastAPI()
        app.include_router(router)
        answer = TestClient(app).get("/partial?event=warning")
        assert (answer.status_code, said in answer.text) == (status, True)


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.xdist_group("chromium")
def test_the_page_tells_what_waits(tmp_path: Path) -> None:
    from playwright.sync_api import expect, sync_playwright

    with shown(tmp_path, PROGRAM) as one, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(120_000)
        expect.set_options(timeout=120_000)
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(f"{one.url}/")
        expect(page.locator("#connection")).to_have_text("live")
        page.get_by_role("tab", name="Rules").click()
        page.locator(".rule[data-event=warning] summary").click()
        button = page.get_by_role("button", name="What waits?")
        button.click()
        expect(page.locator(".waits li")).to_have_text("Nothing waits for warning.")
        one.push((0, "<b>vie", 31), (60, "<b>vie", 36.5), (90, "grz", 20))
        button.click()
        rows = page.locator(".waits li")
        expect(rows).to_have_count(3)
        expect(rows.first).to_have_text(
            '2 of 3 reading("<b>vie", 31.0, _, _), reading("<b>vie", 36.5, _, _) at 2024-05-01 08:01 waits for '
            'reading("<b>vie", T, _, _) WHERE T > 30 until 2024-05-01 09:00'
        )
        assert bars(page) == [] and wrong == []
        browser.close()
