"""Many changes of the knowledge at once: each answer holds from when until when it would hold, one change at a time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core.errors import CepError
from cep.core.values import Pool
from cep.engine import Engine
from cep.events import Event, Iri
from cep.knowledge.graph import Knowledge
from cep.plan.algebra import Triples
from cep.rules.terms import Graph
from cep.runtime.knowledge_source import Answers, Spanned
from tests import knowledge_maker as maker
from tests.cases_format import known, write_event
from tests.test_equivalence import examples, rows
from tests.test_knowledge_change import ASKED, EX, Steps, changes, knowledge_of, quads
from tests.test_knowledge_patterns import graph as pattern
from tests.test_knowledge_patterns import shown, source

TRIPLES = [Triples((None, Iri(EX + "p"), None)), Triples((None, None, Iri(EX + "a"))), Triples((None, None, None))]


def asked_of(knowledge: Knowledge, asked: Graph | Triples, pool: Pool) -> list[tuple[Any, ...]]:
    if isinstance(asked, Triples):
        return shown(knowledge.triples(asked.fixed, pool), pool)
    return shown(knowledge.answers(asked, pool, source(asked.text)), pool)


def at(spanned: Spanned, time: int, pool: Pool) -> list[tuple[Any, ...]]:
    there = (spanned.since <= time) & (time < spanned.until)
    found = spanned.answers
    return shown(Answers(found.types, tuple(column[there] for column in found.columns), int(there.sum())), pool)


@examples(60)
@given(
    lines=st.lists(quads, min_size=4, max_size=15),
    steps=changes,
    text=maker.basic(),
    reasoning=st.sampled_from(["none", "none", "owlrl"]),
    apart=st.lists(st.integers(0, 2), min_size=5, max_size=5),
)
def test_answers_hold_from_when_until_when(
    lines: list[str], steps: Steps, text: str, reasoning: str, apart: list[int]
) -> None:
    if reasoning == "owlrl":  # to which a literal that is ill-formed is a contradiction
        lines = [line for line in lines if '"no"' not in line]
        steps = [([line for line in add if '"no"' not in line], remove) for add, remove in steps]
    knowledge, pool, now, changes_of = knowledge_of(set(lines), reasoning), Pool(), 0, []
    for (add, remove), wait in zip(steps, apart):
        now += wait
        gone = [sorted(lines)[one % len(lines)] if isinstance(one, int) else one for one in remove if lines]
        changes_of.append((now, knowledge.change("\n".join(add), "\n".join(gone))))
    basic = [pattern(each) for each in (text, *ASKED) if knowledge.by_difference(pattern(each))]
    asked = {f"{i}": each for i, each in enumerate([*basic, *TRIPLES])}
    for each in basic:
        asked_of(knowledge, each, pool)
    found = knowledge.over(changes_of, asked, pool)
    state = knowledge.fork()
    for time in range(-1, now + 1):
        for when, change in changes_of:
            if when == time:
                state.apply(change)
        for name, each in asked.items() if found else ():
            assert found is not None and at(found[1][name], time, pool) == asked_of(state, each, pool), (time, each)
    if found is not None:
        assert found[0].fingerprint == state.fingerprint  # type: ignore[attr-defined]
        for each in asked.values():
            assert asked_of(found[0], each, pool) == asked_of(state, each, pool)  # type: ignore[arg-type]


def test_what_changes_by_itself_is_known_at_once() -> None:
    """Literals that come and go infer nothing; where something is inferred, changes are made one by one."""
    rdfs = "http://www.w3.org/2000/01/rdf-schema#"
    some = f"<x:p> <{rdfs}domain> <x:C> . <x:p> <{rdfs}subPropertyOf> <x:q> . <x:a> a <x:C> ; <x:r> 1 ."
    knowledge, pool = Knowledge.of(ox.parse(some, ox.RdfFormat.TURTLE), "owlrl"), Pool()
    asked: dict[str, Graph | Triples] = {"t": Triples((None, None, None))}
    changes = [(time, knowledge.change(f"<x:a> <x:r> {time} .", f"<x:a> <x:r> {time - 1} .")) for time in (2, 3, 4)]
    assert knowledge.over(changes, asked, pool) is not None
    assert knowledge.over([*changes, (5, knowledge.change("<x:a> <x:p> 1 ."))], asked, pool) is None
    assert knowledge.over([(1, knowledge.change(f"<x:r> <{rdfs}domain> <x:D> ."))], asked, pool) is None


P = "PREFIX x: <urn:x:>\n"
RULES = (
    P
    + """event r(s: string, v: float).
high(S, L) <- r(S, V) WHERE { ?p x:code ?S ; x:level ?L }, V > L.
calm(S) <- r(S, V) WHERE not { ?p x:code ?S ; x:level ?l }.
first(S, L) <- (r(S, V) SEQ r(S, W)) WHERE { ?p x:code ?S ; x:level ?L ; x:kind ?K }, V < L.
still(S, L) <- (r(S, V) UNLESS r(S, W) WITHIN 3) WHERE { ?p x:code ?S ; x:level ?L }.
n(S, N) <- high(S, L) AGGREGATE N = count() OVER LAST 5 s BY S.
"""
)
LOADED = P + "".join(f'x:s{i} x:code "S{i}" ; x:level {i}.5 ; x:kind x:k .\n' for i in range(4))
moves = st.lists(
    st.tuples(st.integers(1, 20), st.integers(0, 3), st.integers(0, 6), st.sampled_from(["to", "more", "less"])),
    max_size=12,
)
readings = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 3), st.integers(0, 6)), max_size=25)


def changes_of(moves: list[tuple[int, int, int, str]]) -> list[tuple[int, str | None, str | None]]:
    made: list[tuple[int, str | None, str | None]] = []
    for time, station, level, kind in moves:
        here = P + f"x:s{station} x:level {level}.5 ."
        every = P + "".join(f"x:s{station} x:level {n}.5 .\n" for n in range(7))
        made.append((time * 500_000, None if kind == "less" else here, None if kind == "more" else every))
    return made


@examples(40)
@given(moves=moves, readings=readings, snapshot=st.booleans(), data=st.data())
def test_many_changes_in_one_push_are_those_of_one_push_a_change(
    moves: list[tuple[int, int, int, str]],
    readings: list[tuple[int, int, int]],
    snapshot: bool,
    data: st.DataObject,
) -> None:
    updates = changes_of(moves)
    events = [Event("r", (f"S{s}", v + 0.75), t * 500_000, t * 500_000) for t, s, v in sorted(readings)]
    one = Engine.from_text(RULES, knowledge=known(LOADED), lateness=None)
    expected: list[Event] = []
    one.receive(events)
    for time in sorted({time for time, _, _ in updates}):
        for update in updates:
            if update[0] == time:
                one.update(*update)
        expected += rows(one.advance(time))
    expected += rows(one.close())
    many = Engine.from_text(RULES, knowledge=known(LOADED), lateness=None)
    cut = data.draw(st.integers(0, len(updates)))
    many.updates(updates[:cut])
    many.updates(updates[cut:])
    many.receive(events)
    found = rows(many.advance(data.draw(st.integers(0, 10_000_000))))
    if snapshot:
        many = Engine.from_text(RULES, knowledge=known(LOADED), lateness=None).restore(many.snapshot())
    found += rows(many.close())
    assert Counter(map(write_event, found)) == Counter(map(write_event, expected))


def test_the_step_is_not_cut_by_changes_that_are_given_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine.from_text(RULES, knowledge=known(LOADED), lateness=None)
    engine.updates([(n * 1_000_000, P + f"x:s1 x:level {n}.25 .", None) for n in range(10, 0, -1)])
    steps: list[int] = []
    step = engine._machine.step
    monkeypatch.setattr(
        engine._machine, "step", lambda given, until: steps.append(until.watermark) or step(given, until)
    )
    engine.receive([Event("r", ("S1", 100.0), n * 1_000_000, n * 1_000_000) for n in range(12)])
    found = engine.close()
    assert len(steps) == 1
    assert found["high"].height == sum(1 + min(n, 10) for n in range(12))


def test_of_updates_given_at_once_all_are_taken_or_none() -> None:
    engine = Engine.from_text(RULES, knowledge=known(LOADED), lateness=None)
    good = [(n * 1_000_000, P + f"x:s1 x:level {n}.25 .", None) for n in range(1, 5)]
    with pytest.raises(CepError, match="it was a float"):
        engine.updates([*good, (9_000_000, P + 'x:s1 x:level "high" .', None)])
    assert engine.changes is not None and not engine.changes.pending
    engine.updates(good)
    with pytest.raises(CepError, match="it was a float"):
        engine.update(9_000_000, P + 'x:s1 x:level "high" .', None)
    assert len(engine.changes.pending) == 4
    engine.receive([Event("r", ("S1", 100.0), 3_000_000, 3_000_000)])
    assert sorted(engine.close()["high"]["l"].to_list()) == [1.25, 1.5, 2.25, 3.25]


def test_values_of_answers_that_come_later_are_kept() -> None:
    text = P + "event r(s: string).\nnoted(S, N) <- r(S) WHERE { ?p x:code ?S ; x:note ?N }."
    engine = Engine.from_text(text, knowledge=known(LOADED + 'x:s1 x:note "old" .'), lateness=None)
    engine.updates([(n * 1_000_000, P + f'x:s1 x:note "new {n}" .', None) for n in range(1, 5)])
    engine._parts.sweep_at = 0  # every push sweeps
    engine.receive([Event("r", ("S1",), n * 1_000_000, n * 1_000_000) for n in range(6)])
    found = [engine.advance(n * 1_000_000 + 1).get("noted") for n in range(6)]
    assert [0 if each is None else each.height for each in found] == [1, 2, 3, 4, 5, 5]
    assert found[-1] is not None and sorted(found[-1]["n"].to_list()) == [*(f"new {n}" for n in range(1, 5)), "old"]
