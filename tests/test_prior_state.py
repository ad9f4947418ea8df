"""State of one program for another: what means the same goes on as if nothing had happened, the rest starts empty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import polars as pl
import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core.errors import CepError
from cep.engine import Engine
from cep.events import Event
from cep.explain.occurrences import Memory, Occurrence
from cep.knowledge.graph import Knowledge
from cep.language.syntax.ast import EventRule
from cep.language.syntax.parser import parse
from cep.language.syntax.printer import print_program
from cep.plan.partition import partition
from cep.runtime.prior_state import PriorState
from tests.keyed_programs import keyed_programs
from tests.program_maker import SECOND
from tests.programs import Program, iterations, programs, recursions
from tests.test_equivalence import LONG, check, cut, examples, in_order, push, rows, types

SEVERAL = st.one_of(programs(), keyed_programs(), iterations(), recursions())


def without(text: str, random: Random) -> str:
    """The program, perhaps without one of its rules."""
    program = parse(text)
    rules = [statement for statement in program.statements if isinstance(statement, EventRule)]
    gone = random.choice([None, *rules]) if len(rules) > 1 else None
    left = tuple(statement for statement in program.statements if statement is not gone)
    return print_program(replace(program, statements=left))


@examples(100)
@given(SEVERAL, st.data())
def test_what_means_the_same_goes_on(program: Program, data: st.DataObject) -> None:
    random = data.draw(st.randoms(use_true_random=False))
    options: dict[str, Any] = {"types": types(program.events), "lateness": random.choice((0, LONG // 10))}
    one, two = without(program.text, random), without(program.text, random)
    try:
        old, whole = Engine.from_text(one, **options), Engine.from_text(two, **options)
    except CepError:  # what is left may use what is gone
        return
    found: list[Event] = []
    expected: list[Event] = []
    pieces = cut(data, in_order(program.events))
    try:
        for piece in pieces[:-1]:
            found += push(old, piece)
            expected += push(whole, piece)
        new = Engine.from_text(two, before=PriorState(old.snapshot()), **options)
        found += push(new, pieces[-1]) + rows(new.close())
        expected += push(whole, pieces[-1]) + rows(whole.close())
    except CepError as error:  # a recursion without end
        assert error.code == "recursion", error
        return
    if old.chained != new.chained:  # a recursion run in another way starts empty, and says so
        return
    same = {event for event in new.outputs if old.named().get(event) == new.named()[event]}
    found, expected = ([event for event in events if event.type in same] for events in (found, expected))
    check(expected, found, "carried over (+) it is not what it was (-)")
    if one == two:
        assert same == set(new.outputs) and all(new.carried.values())


@examples(60)
@given(SEVERAL, st.data())
def test_lineage_goes_on(program: Program, data: st.DataObject) -> None:
    """Rules that mean the same, and those that are warm, know what their events come from, as if nothing had been."""
    random = data.draw(st.randoms(use_true_random=False))
    options: dict[str, Any] = {"types": types(program.events), "lateness": random.choice((0, LONG // 10))}
    options |= {"explain": True, "remember": 2**60}
    one, two = without(program.text, random), without(program.text, random)
    try:
        old, whole, warm = (Engine.from_text(text, **options) for text in (one, two, two))
    except CepError:  # what is left may use what is gone
        return
    if old.inputs.keys() != whole.inputs.keys():  # records without a number in the input are numbered as they are read
        return
    for engine in (old, whole, warm):
        engine.set_lineage_columns("because", "constituents")
    pieces = cut(data, in_order(program.events))
    try:
        for piece in pieces[:-1]:
            for engine in (old, whole, warm):
                push(engine, piece)
        prior = PriorState(old.state_for_another(), warm=PriorState(warm.snapshot()))
        new = Engine.from_text(two, before=prior, **options)
        new.set_lineage_columns("because", "constituents")
        remembered = {name: Memory(new).find(name, {}, -(2**62), 2**62) for name in new.outputs}
        before = {name: Memory(old).find(name, {}, -(2**62), 2**62) for name in old.outputs}
        found, expected = (told([engine.push(only(pieces[-1], engine)), engine.close()]) for engine in (new, whole))
    except CepError as error:  # a recursion without end
        assert error.code == "recursion", error
        return
    assert found == expected
    for name in new.outputs:
        if old.named().get(name) == new.named()[name] and not warm.plan.schemas[name].fluent:
            assert [(each, rules_of(new, each)) for each in remembered[name]] == [
                (each, rules_of(whole, each)) for each in before[name]
            ]


def only(events: list[Event], engine: Engine) -> list[Event]:
    """The events that a program reads."""
    return [event for event in events if event.type in engine.inputs]


def told(given: list[dict[str, pl.DataFrame]]) -> list[str]:
    """The rows of steps, with what they come from; records have other numbers in the input."""
    return sorted(f"{name} {row}" for tables in given for name, table in tables.items() for row in table.rows())


def rules_of(engine: Engine, occurrence: Occurrence) -> list[str]:
    """The rules that made what an engine remembers."""
    return [engine.plan.heads[rule].event for rule in Memory(engine).rules(occurrence)]


@examples(40)
@given(SEVERAL, st.data())
def test_to_the_same_program_nothing_changes(program: Program, data: st.DataObject) -> None:
    options = {"types": types(program.events)}
    try:
        engine = Engine.from_text(program.text, **options)
    except CepError:  # no event tells a type that a declaration needs
        return
    for piece in cut(data, in_order(program.events))[:-1]:
        push(engine, piece)
    blob = engine.snapshot()
    assert Engine.from_text(program.text, before=PriorState(blob), **options).snapshot() == blob
    for stage in partition(engine.plan):
        blob = Engine.from_text(program.text, stage=stage.number, **options).snapshot()
        again = Engine.from_text(program.text, stage=stage.number, before=PriorState(blob), **options)
        assert again.snapshot() == blob


READING = "event a(id: string, x: int)."
RISE = "rise(S) <- a(S, X) SEQ a(S, Y) WHERE Y > X."


def at(second: int, *args: Any, type: str = "a") -> Event:
    return Event(type, args, second * SECOND, second * SECOND)


def moved(old: str, new: str, events: list[Event], options: Mapping[str, Any] | None = None, **other: Any) -> Engine:
    """An engine of `new` that goes on from where one of `old` was after the events."""
    engine = Engine.from_text(old, **(options or {}))
    engine.push(events)
    return Engine.from_text(new, before=PriorState(engine.snapshot()), **{**(options or {}), **other})


@pytest.mark.parametrize(
    ("change", "goes_on"),
    [
        ("", True),
        ("# a remark, and\nother(S) <- a(S, 7).\n", True),
        ("names", True),
        ("Y > X", False),
        ("WITHIN", False),
        ("policy", False),
        ("declaration", False),
    ],
)
def test_what_is_the_same(change: str, goes_on: bool) -> None:
    old = f"{READING} {RISE}"
    new = {
        "names": "event a(id: string, x: int). rise(K) <- a(K, Old) SEQ a(K, New) WHERE New > Old.",
        "Y > X": old.replace("Y > X", "Y >= X"),
        "WITHIN": old.replace("WHERE", "WITHIN 5 s WHERE"),
        "policy": f"policy recent. {old}",
        "declaration": old.replace("x: int", "x: int in 0..9"),
    }.get(change, change + old)
    engine = moved(old, new, [at(1, "u", 1), at(2, "v", 2)])
    assert list(engine.carried.values()) == [goes_on]
    assert len(rows(engine.push([at(3, "u", 5)])) + rows(engine.close())) == goes_on


def test_values_keep_their_codes_beside_new_constants() -> None:
    new = f'{READING} first(S) <- a(S, 1) SEQ a("w", _). {RISE} second(S) <- a("v", _) SEQ a(S, _).'
    engine = moved(f"{READING} {RISE}", new, [at(1, "u", 1), at(2, "v", 2)])
    found = rows(engine.push([at(3, "w", 9), at(4, "v", 9), at(5, "w", 10)])) + rows(engine.close())
    # What ends last waits: a rule that is new sees it.
    assert sorted((event.type, *event.args, event.start // SECOND, event.end // SECOND) for event in found) == [
        ("rise", "v", 2, 4),
        ("rise", "w", 3, 5),
        ("second", "v", 2, 4),
        ("second", "w", 2, 3),
        ("second", "w", 2, 5),
        ("second", "w", 4, 5),
    ]


def test_time_points_that_have_passed_do_not_come() -> None:
    engine = moved(f"{READING} {RISE}", f"{READING} {RISE} early <- 2. late <- 9.", [at(5, "u", 1)])
    assert [event.type for event in rows(engine.close())] == ["late"]


def test_rules_that_ask_other_facts_start_empty() -> None:
    text = f'{READING} {RISE} known(S) <- (a(S, _) WHERE old(S)) SEQ a(S, _). old(S) :- given(S), S != "x".'
    tables = [{"given": pl.DataFrame({"id": ids})} for ids in (["u"], ["u", "v"])]
    other = moved(text, text, [at(1, "u", 1)], {"facts": tables[0]}, facts=tables[1])
    assert list(other.carried.values()) == [True, False]
    ruled = moved(text, text.replace('"x"', '"y"'), [at(1, "u", 1)], {"facts": tables[0]})
    assert list(ruled.carried.values()) == [True, False]


def test_knowledge_goes_on_with_its_changes() -> None:
    text = f"PREFIX : <urn:> {READING} tall(S) <- (a(S, _) WHERE {{ ?s :name ?S ; :tall true }}) SEQ a(S, _)."
    register = '<urn:u> <urn:name> "u" ; <urn:tall> true . <urn:v> <urn:name> "v" .'
    loaded = Knowledge.of(ox.parse(register, format=ox.RdfFormat.TURTLE))
    old = Engine.from_text(text, knowledge=loaded)
    tall = ox.Triple(ox.NamedNode("urn:v"), ox.NamedNode("urn:tall"), ox.Literal(True))
    old.update(2 * SECOND, add=[tall])
    old.update(9 * SECOND, remove=[tall])
    old.push([at(3, "v", 1), at(4, "u", 1)])
    blob = old.snapshot()
    new = Engine.from_text(f"{text} {RISE}", knowledge=loaded, before=PriorState(blob))
    assert new.carried == {"line 1: tall": True, "line 1: rise": False}
    found = rows(new.push([at(5, "v", 0), at(9, "v", 0), at(10, "v", 0)])) + rows(new.close())
    assert [event.end // SECOND for event in found] == [5, 9, 9, 10, 10]
    more = Knowledge.of(ox.parse(register + '<urn:w> <urn:name> "w" .', format=ox.RdfFormat.TURTLE))
    assert Engine.from_text(text, knowledge=more, before=PriorState(blob)).carried == {"line 1: tall": False}


def test_of_some_goals_only() -> None:
    text = f"{READING} {RISE} pair(S) <- a(S, X) SEQ a(S, X)."
    engine = Engine.from_text(text)
    engine.push([at(1, "u", 1), at(2, "u", 0)])
    (name,) = {name for rule, goals in engine.goals().items() if "rise" in rule for name in goals}
    new = Engine.from_text(text, before=PriorState(engine.snapshot(), frozenset({name})))
    assert new.carried == {"line 1: rise": True, "line 1: pair": False}


def test_what_cannot_be_carried() -> None:
    old = f"{READING} {RISE}"
    with pytest.raises(CepError, match="events `a` are waiting, but they have other attributes now"):
        moved(old, old.replace("x: int", "x: float"), [at(1, "u", 1)])
    for before, after in ((True, False), (False, True)):
        with pytest.raises(CepError, match="made with another `explain`"):
            moved(old, old, [], {"explain": before}, explain=after)
    stage = Engine.from_text(old, explain=True, stage=1)
    with pytest.raises(CepError, match="of a stage with lineage can only be restored by its own program"):
        Engine.from_text(old, explain=True, stage=1, before=PriorState(stage.snapshot()))
    with pytest.raises(CepError, match="not a snapshot, or it is damaged"):
        Engine.from_text(old, before=PriorState(b"nonsense"))


def test_names_of_what_is_meant_last() -> None:
    """States on disk are found by them."""
    engine = Engine.from_text(
        "event a(k: string, n: int) TIME t.\n"
        "event b(k: string).\n"
        "x(K, N + 1) <- (a(K, N) SEQ b(K)) WITHIN 1 h WHERE N > 2.\n"
        "y(K) <- x(K, _) UNLESS b(K) WITHIN 5 min.\n"
        "z(K, S) <- a(K, N) AGGREGATE S = sum(N) OVER LAST 10 min BY K.\n"
    )
    assert engine.meanings() == {"x": "56befe116edec7ed", "y": "97cdbc3400547f2c", "z": "7f93f30b4a2eca00"}
