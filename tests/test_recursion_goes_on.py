"""A recursion of formulas goes on from what holds: what is added and what ends is followed, and no more."""

from __future__ import annotations

import random

import pytest

from cep.engine import Engine
from cep.events import Event
from cep.runtime.maximal_intervals import held_of
from tests.long import seeds
from tests.test_formula_recursion import random_recursion, those, until
from tests.test_formulas import pushed

PROGRAM = """event add(a: int, b: int) TIME t.
event cut(a: int, b: int) TIME t.
event shut(a: int) TIME t.
event open(a: int) TIME t.
fluent road(a: int, b: int).
fluent closed(a: int).
fluent reach(a: int, b: int).
initiate road(A, B) <- add(A, B).
terminate road(A, B) <- cut(A, B).
initiate closed(A) <- shut(A).
terminate closed(A) <- open(A).
reach(A, B) WHILE road(A, B) AND NOT closed(B).
reach(A, C) WHILE (reach(A, B) AND road(B, C)) AND NOT closed(C).
"""

FAR = 10**9
"""Later than all that any input has."""


@pytest.mark.parametrize("seed", seeds(60))
def test_formulas_without_time(seed: int) -> None:
    rng = random.Random(f"goes on {seed}")
    case, _ = random_recursion(rng, frozenset(["AND", "NOT", "OR", "WHERE"]))
    assert those(pushed(case, rng), FAR) == until(case.expected, FAR), case.program


@pytest.mark.parametrize("seed", seeds(20))
def test_what_is_reached_as_roads_come_and_go(seed: int) -> None:
    """Of few places, so that most lie in circles; each is reached between two events as the roads say then."""
    rng = random.Random(f"roads {seed}")
    places = range(rng.choice((3, 5)))
    roads: set[tuple[int, int]] = set()
    closed: set[int] = set()
    events, wanted = [], {}
    for time in range(rng.randint(10, 60)):
        kind, a, b = rng.choice(("add", "add", "cut", "cut", "shut", "open")), rng.choice(places), rng.choice(places)
        if kind in ("add", "cut"):
            events.append(Event(kind, (a, b), time, time))
            roads = roads | {(a, b)} if kind == "add" else roads - {(a, b)}
        else:
            events.append(Event(kind, (a,), time, time))
            closed = closed | {a} if kind == "shut" else closed - {a}
        wanted[time] = reached(roads, closed)
    engine = Engine.from_text(PROGRAM, lateness=0)
    tables = []
    while events:
        count = rng.choice((1, 1, 2, 5))
        tables.append(engine.push(events[:count]))
        events = events[count:]
        if rng.random() < 0.2:
            engine = Engine.from_text(PROGRAM, lateness=0).restore(engine.snapshot())
    tables.append(engine.close())
    held = [each for table in tables for each in held_of(table, engine.plan.schemas, None, None)]
    found: dict[int, set[tuple]] = {time: set() for time in wanted}
    for each in held:
        for time in found if each.type == "reach" else ():
            if (each.start is None or each.start <= time) and (each.end is None or time < each.end):
                assert each.args not in found[time], "an interval is maximal"
                found[time].add(each.args)
    assert found == wanted


def reached(roads: set[tuple[int, int]], closed: set[int]) -> set[tuple[int, int]]:
    found = {(a, b) for a, b in roads if b not in closed}
    while more := {(a, d) for a, b in found for c, d in roads if b == c and d not in closed} - found:
        found |= more
    return found


@pytest.mark.parametrize("before", ["", "b(V) <- BEGIN OF berth(V).\n"])
def test_the_end_of_a_record_that_no_cycle_asks_is_an_end_of_the_input(before: str) -> None:
    """Wherever the goal stands that keeps the record."""
    text = (
        "event ping(v: int) TIME t.\nfluent berth(v: int) START s END e.\nfluent beat(v: int).\n"
        f"{before}beat(V) WHILE ping(V) OR ONCE[30 ms, 30 ms] beat(V).\nc(V) <- END OF berth(V).\n"
    )
    engine = Engine.from_text(text)
    made = [engine.push([Event("ping", (1,), 1_000, 1_000), Event("berth", (2,), 154_000, 244_000)]), engine.close()]
    assert max(time for each in made if "beat" in each for time in each["beat"]["start"]) == 241_000
