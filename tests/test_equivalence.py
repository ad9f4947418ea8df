"""Random programs and streams: every way of running the engine gives what the reference interpreter gives.

`SEMCEP_FUZZ=n` runs n times as many examples, new ones each time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from cep.engine import Engine, detect
from cep.events import Event
from tests import reference
from tests.cases_format import difference, same
from tests.long import examples
from tests.program_maker import SECOND
from tests.programs import Program, contests, iterations, loops, matchings, programs, recursions, windows

ANY = st.one_of(programs(), contests(), windows(), iterations(), loops(), recursions(), matchings())
LONG = 20 * SECOND  # a lateness that lets any order pass


def rows(output: Mapping[str, pl.DataFrame]) -> list[Event]:
    """What a push gives, as events."""
    return [
        Event(type, tuple(args), start, end)
        for type, table in output.items()
        for start, end, *args in table.iter_rows()
    ]


def types(events: Iterable[Event]) -> dict[str, tuple[str, ...]]:
    """The types of the generated events' arguments, known before the first batch as `detect` knows them."""
    names = {int: "int", float: "float", str: "string"}
    found: dict[str, tuple[str, ...]] = {}
    for event in events:
        if event.type not in found and None not in event.args:
            found[event.type] = tuple(names[type(value)] for value in event.args)
    return found


def start(program: Program, **options: Any) -> Engine:
    return Engine.from_text(program.text, types=types(program.events), **options)


def run(engine: Engine, batches: Iterable[Iterable[Event]]) -> list[Event]:
    found = [event for batch in batches for event in push(engine, batch)]
    found += rows(engine.close())
    assert not engine.take_dead(), "nothing of what is generated is refused"
    return found


def push(engine: Engine, batch: Iterable[Event]) -> list[Event]:
    """What a batch gives, of the events that the program reads."""
    return rows(engine.push([event for event in batch if event.type in engine.inputs]))


def check(expected: list[Event], actual: list[Event], what: str) -> None:
    """The same events, each once."""
    found = difference(expected, actual)
    assert not found, f"{what}:\n{found}"


def in_order(events: Iterable[Event]) -> list[Event]:
    """Sorted by (end, start), the order of arrival kept among equals."""
    return sorted(events, key=lambda event: (event.end, event.start))


def cut(data: st.DataObject, events: list[Event]) -> list[list[Event]]:
    """Consecutive pieces; an instant may be cut in two."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=4)))
    return [events[a:b] for a, b in zip([0, *cuts], [*cuts, len(events)])]


def check_reference(program: Program) -> None:
    expected = reference.detect(program.text, program.events)
    actual = detect(program.text, program.events)
    check(expected, actual, "the engine (+) is not the reference (-)")
    assert [(e.end, e.start, e.type) for e in actual] == [(e.end, e.start, e.type) for e in expected]


@examples(600)
@given(programs())
def test_programs(program: Program) -> None:
    check_reference(program)


@examples(350)
@given(programs(policies=False))
def test_programs_without_policies(program: Program) -> None:
    check_reference(program)


@examples(500)
@given(contests())
def test_contests(program: Program) -> None:
    check_reference(program)


@examples(300)
@given(windows())
def test_windows(program: Program) -> None:
    check_reference(program)


@examples(400)
@given(matchings())
def test_matchings(program: Program) -> None:
    check_reference(program)


@examples(300)
@given(iterations())
def test_iterations(program: Program) -> None:
    check_reference(program)


@examples(300)
@given(recursions())
def test_recursions(program: Program) -> None:
    check_reference(program)


@examples(400)
@given(ANY, st.data())
def test_cuts(program: Program, data: st.DataObject) -> None:
    events = in_order(program.events)
    expected = reference.detect(program.text, events)
    actual = run(start(program), cut(data, events))
    check(expected, actual, "in pieces (+) it is not the whole (-)")


@examples(300)
@given(ANY, st.data())
def test_snapshots(program: Program, data: st.DataObject) -> None:
    events = in_order(program.events)
    expected = reference.detect(program.text, events)
    found: list[Event] = []
    engine = start(program)
    for piece in cut(data, events):
        found += push(engine, piece)
        blob = engine.snapshot()
        engine = start(program).restore(blob)
        assert engine.snapshot() == blob, "a snapshot restored is the same snapshot"
    found += rows(engine.close())
    check(expected, found, "restored (+) it goes on otherwise (-)")


@examples(300)
@given(ANY, st.data())
def test_disorder(program: Program, data: st.DataObject) -> None:
    events = in_order(program.events)
    expected = reference.detect(program.text, events)
    shuffled = data.draw(st.permutations(events))
    if not program.any_order:  # what ends together keeps its order: it is the order of arrival (decision M2)
        together = {end: iter([event for event in events if event.end == end]) for end in {e.end for e in events}}
        shuffled = [next(together[event.end]) for event in shuffled]
    actual = run(start(program, lateness=LONG), cut(data, shuffled))
    check(expected, actual, "out of order (+) it is not what it is in order (-)")


@examples(300)
@given(loops())
def test_loops(program: Program) -> None:
    check_reference(program)
    engine = start(program)
    assert engine.chained == ("x",), "a kernel runs it"


@examples(250)
@given(st.one_of(iterations(), loops()))
def test_fast_recursion(program: Program) -> None:
    events = in_order(program.events)
    slow = run(start(program, fast_recursion=False), [events])
    fast = run(start(program), [events])
    check(slow, fast, "the kernel (+) is not the way slice by slice (-)")


@examples(200)
@given(ANY, st.data())
def test_watermarks(program: Program, data: st.DataObject) -> None:
    """Advancing between pushes gives everything up to the watermark at once, and nothing twice."""
    events = in_order(program.events)
    expected = reference.detect(program.text, events)
    engine = start(program)
    found: list[Event] = []
    for piece in cut(data, events):
        found += push(engine, piece)
        watermark = data.draw(st.integers(0, 14)) * SECOND
        later = [event.end for event in events if event.end > engine.watermark]
        watermark = min([watermark, *(end - 1 for end in later)])
        found += rows(engine.advance(watermark))
        engine.forget()  # as in a silence
        due = [event for event in expected if event.end <= engine.watermark]
        check(due, found, "at the watermark not (+) what is due (-)")
    found += rows(engine.close())
    check(expected, found, "with watermarks (+) it is not the whole (-)")


@examples(150)
@given(programs(policies=False, aggregates=False))
def test_lineage(program: Program) -> None:
    """Where nothing is absent, the input records that an event is explained by give that event again."""
    engine = start(program, explain=True)
    output = engine.push([event for event in in_order(program.events) if event.type in engine.inputs])
    closing = engine.close()
    for type, table in [*output.items(), *closing.items()]:
        for begin, end, *args, because in table.iter_rows():
            event = Event(type, tuple(args), begin, end)
            records = [tuple(record.values()) for record in json.loads(because)]
            inputs = [Event(name, tuple(values), a, b) for name, a, b, *values in records]
            assert {(x.type, x.args, x.start, x.end) for x in inputs} <= {
                (x.type, x.args, x.start, x.end) for x in program.events
            }
            if not program.negative:
                again = reference.detect(program.text, inputs)
                assert any(same(event, other) for other in again), f"{event} is not given by {inputs}"
