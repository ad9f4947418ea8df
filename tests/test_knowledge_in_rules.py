"""Random programs over random knowledge: every way of running the engine gives what the reference interpreter gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from hypothesis import given
from hypothesis import strategies as st

from cep.core.errors import CepError
from cep.engine import Engine, detect
from cep.events import Event, Iri
from tests import reference
from tests.cases_format import known
from tests.condition_maker import PREFIX
from tests.program_maker import SECOND
from tests.programs import Program, gone, programs, triple
from tests.reference_knowledge import Triple, read
from tests.test_equivalence import check, cut, examples, in_order, push, rows, run, types

KNOWING = st.one_of(
    programs(knowledge=True),
    programs(knowledge=True, policies=False),
    programs(knowledge=True, policies=False, aggregates=False),
)


loaded = lru_cache(maxsize=1)(known)  # engines share it, each with its own changes


def start(program: Program) -> Engine:
    return Engine.from_text(program.text, types=types(program.events), knowledge=loaded(program.knowledge))


def expected(program: Program, events: list[Event]) -> list[Event]:
    return reference.detect(program.text, events, knowledge={-math.inf: read(program.knowledge)})


def retyped(engine: Engine, events: list[Event]) -> list[Event]:
    """Events of tables, in which an IRI is its letters, with IRIs again."""
    types = {name: [each.type for each in schema.attributes] for name, schema in engine.outputs.items()}
    return [
        replace(event, args=tuple(Iri(x) if t == "iri" and x else x for x, t in zip(event.args, types[event.type])))
        for event in events
    ]


@examples(120)
@given(KNOWING)
def test_programs(program: Program) -> None:
    found = detect(program.text, program.events, knowledge=known(program.knowledge))
    check(expected(program, list(program.events)), found, "the engine (+) is not the reference (-)")


@examples(60)
@given(KNOWING)
def test_knowledge_that_comes_later(program: Program) -> None:
    """Patterns that have no answers yet take the types that the rules want (M23): what then comes fits, or is refused.

    Where it fits all is as if it had been loaded.
    """
    engine = Engine.from_text(program.text, types=types(program.events), knowledge=known(""))
    try:
        engine.update(-1_000_000_000, add=program.knowledge)
    except CepError as error:
        assert error.code == "type", error
        check(
            reference.detect(program.text, list(program.events), knowledge={-math.inf: []}),
            all_of(engine, program),
            "without it",
        )
        return
    check(expected(program, list(program.events)), all_of(engine, program), "later (+) it is not as if loaded (-)")


def all_of(engine: Engine, program: Program) -> list[Event]:
    return retyped(engine, [*push(engine, in_order(program.events)), *rows(engine.close())])


@examples(60)
@given(KNOWING, st.data())
def test_cuts(program: Program, data: st.DataObject) -> None:
    events = in_order(program.events)
    engine = start(program)
    found = retyped(engine, run(engine, cut(data, events)))
    check(expected(program, events), found, "in pieces (+) it is not the whole (-)")


@examples(60)
@given(KNOWING, st.data())
def test_snapshots(program: Program, data: st.DataObject) -> None:
    events = in_order(program.events)
    found: list[Event] = []
    engine = start(program)
    for piece in cut(data, events):
        found += push(engine, piece)
        engine = start(program).restore(engine.snapshot())
    found += rows(engine.close())
    check(expected(program, events), retyped(engine, found), "restored (+) it goes on otherwise (-)")


@st.composite
def changes(draw: st.DrawFn) -> tuple[tuple[int, str, str], ...]:
    """Updates: time, what comes, what goes."""
    random = draw(st.randoms(use_true_random=False))
    made = []
    for _ in range(random.randint(1, 4)):
        add = "\n".join([PREFIX, *(triple(random) for _ in range(random.randint(0, 6)))])
        remove = "\n".join([PREFIX, *(gone(random) for _ in range(random.randint(0, 3)))])
        made.append((random.randint(0, 12) * SECOND + random.choice((0, 0, 1, -1)), add, remove))
    return tuple(made)


def timeline(program: Program, updates: Sequence[tuple[int, str, str]]) -> dict[int | float, list[Triple]]:
    """The knowledge of each moment."""
    now = read(program.knowledge)
    found: dict[int | float, list[Triple]] = {-math.inf: now}
    for time, add, remove in sorted(updates, key=lambda update: update[0]):
        without = read(remove)
        now = list(dict.fromkeys([*(each for each in now if each not in without), *read(add)]))
        found[time] = now
    return found


@examples(50)
@given(KNOWING, changes(), st.data())
def test_changes(program: Program, updates: tuple[tuple[int, str, str], ...], data: st.DataObject) -> None:
    """Each event is judged by the knowledge of its time, wherever the input is cut, the run restored, updates come."""
    events = in_order(program.events)
    expected = reference.detect(program.text, events, knowledge=timeline(program, updates))
    waiting = data.draw(st.permutations(updates))
    waiting = waiting if len({time for time, *_ in waiting}) == len(waiting) else list(updates)
    found: list[Event] = []
    engine = start(program)
    for piece in cut(data, events):
        due = max([event.end for event in piece], default=-1)
        sent, rest = [], []
        for update in waiting:  # those that the piece brings the time of, and perhaps others
            (sent if update[0] < due + 2 or data.draw(st.booleans()) else rest).append(update)
        if data.draw(st.booleans()):
            engine.updates(sent)
        else:
            for update in sent:
                engine.update(*update)
        waiting = rest
        found += push(engine, piece)
        if data.draw(st.integers(0, 2)) == 0:
            blob = engine.snapshot()
            engine = start(program).restore(blob)
            assert engine.snapshot() == blob, "a snapshot restored is the same snapshot"
    for update in waiting:
        engine.update(*update)
    found += rows(engine.close())
    check(expected, retyped(engine, found), "with changes (+) it is not what each moment's knowledge gives (-)")
