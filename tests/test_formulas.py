"""Defined fluents against the reference: random rules over events, simple fluents and each other, cuts and restores."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pytest

from cep.engine import Engine, holds
from cep.events import Event, Held
from cep.runtime.maximal_intervals import held_of
from tests import reference_fluents as simple
from tests.formula_maker import FEATURES, Maker, furthest, text
from tests.long import seeds
from tests.reference_formulas import And, Plain, Relation, Rule, Timed, Var, defined
from tests.reference_times import Codes, Frame, Reach, stretches
from tests.test_fluents import random_model, random_records

NOT_YET: frozenset[str] = frozenset()
"""What the engine does not run yet."""

Trip = tuple[str, int, int, int]


@dataclass(frozen=True)
class Case:
    """A program with its input, and what holds."""

    program: str
    events: list[Event]
    expected: list[Held]


def random_case(rng: random.Random, features: frozenset[str], count: int, depth: int) -> Case:
    model = random_model(rng)
    maker = Maker(rng, features)
    rules = maker.rules(count, depth)
    records = [each for each in random_records(rng, 25) if each[3] <= 40]
    trips = [(rng.choice("pqr"), rng.randint(0, 2), start, start + rng.choice((0, 1, 3, 7)))
             for start in rng.choices(range(30), k=rng.randint(0, 8))]  # fmt: skip
    events = [Event(e, (k, x), t, t) for e, k, x, t in records] + [Event("trip", (k, x), s, e) for k, x, s, e in trips]
    program = simple.text(model) + "\n" + text(rules, maker.known)
    return Case(program, sorted(events, key=lambda e: e.end), expected(model, rules, records, trips))


def expected(
    model: simple.Model,
    rules: Sequence[Rule],
    records: Sequence[tuple[str, str, int, int]],
    trips: Sequence[Trip],
    more: Collection[simple.Interval] = (),
) -> list[Held]:
    """What holds, sorted. `more`: intervals of another simple fluent, `z`."""
    intervals = simple.run(model, records).intervals | set(more)
    fluents = (*model.fluents, "z") if more else model.fluents
    times = [t for *_, s, e in [*intervals, *trips] for t in (s, e) if t is not None] + [t for *_, t in records]
    margin = furthest(rules) + 8
    frame = Frame(2 * (min(times, default=0) - margin), 2 * (max(times, default=0) + margin))
    given: dict[str, dict[tuple, set[int]]] = {name: {} for name in ("a", "b", *fluents)}
    for event, key, x, time in records:
        given[event].setdefault((key, x), set()).add(2 * time)
    for fluent, key, value, since, end in intervals:
        args = (key,) if value is None else (key, value)
        first = frame.first if since is None else 2 * since + 1
        last = frame.last if end is None else 2 * end
        given[fluent].setdefault(args, set()).update(range(first, last + 1))
    travelled: dict[tuple, Codes] = {(*trip,): frozenset(range(2 * trip[2], 2 * trip[3] + 1)) for trip in trips}
    known = {name: {args: frozenset(codes) for args, codes in each.items()} for name, each in given.items()}
    found: dict[str, Relation] = defined(rules, known, {"trip": travelled}, frame)
    shown = {**{name: known[name] for name in fluents}, **found}
    return ordered(
        interval(name, args, first, last, frame)
        for name, relation in shown.items()
        for args, codes in relation.items()
        for first, last in stretches(codes)
    )


def interval(name: str, args: tuple, first: int, last: int, frame: Frame) -> Held:
    start = None if first == frame.first else first // 2
    end = None if last == frame.last else (last + 1) // 2
    opened = "(" if start is None or first % 2 else "["
    closed = ")" if end is None or last % 2 else "]"
    return Held(name, args, start, end, opened + closed)


def ordered(found) -> list[Held]:  # type: ignore[no-untyped-def]
    def place(held: Held) -> tuple:
        return held.type, tuple((isinstance(v, str), v) for v in held.args), -1e9 if held.start is None else held.start

    return sorted(found, key=place)


def pushed(case: Case, rng: random.Random) -> list[Held]:
    """What an engine gives that gets the input in pieces and is restored now and then."""
    engine = Engine.from_text(case.program, lateness=0)
    tables = []
    rest = list(case.events)
    while rest:
        count = rng.randint(1, 6)
        if rng.random() < 0.3:
            engine = Engine.from_text(case.program, lateness=0).restore(engine.snapshot())
        tables.append(engine.push(rest[:count]))
        rest = rest[count:]
        if rng.random() < 0.2:
            engine.forget()
    tables.append(engine.close())
    return [held for each in tables for held in held_of(each, engine.plan.schemas, None, None)]


def check(case: Case, rng: random.Random) -> None:
    assert ordered(holds(case.program, case.events)) == case.expected, case.program
    assert ordered(pushed(case, rng)) == case.expected, case.program


@pytest.mark.parametrize("feature", sorted(FEATURES - NOT_YET))
@pytest.mark.parametrize("seed", seeds(4))
def test_each_operator(feature: str, seed: int) -> None:
    """By itself, over events and simple fluents."""
    rng = random.Random(f"{feature} {seed}")
    features = frozenset([feature]) | (frozenset(["ONCE"]) if feature == "INF" else frozenset())
    check(random_case(rng, features, 2, 1), rng)


@pytest.mark.parametrize("seed", seeds(80))
def test_rules_nested_at_will(seed: int) -> None:
    rng = random.Random(f"nested {seed}")
    check(random_case(rng, FEATURES - NOT_YET, rng.choice((1, 2, 3)), rng.choice((1, 2, 3))), rng)


def test_recursion_of_the_reference() -> None:
    """The least model: from each place to the next, two microseconds on, while the road is open."""
    x, y = Var("X"), Var("Y")
    on = Plain("road", (x, y))
    step = And((Timed("ONCE", Reach(2, 2, "[]"), (Plain("there", (x,)),)), on), (False, False))
    rules = [Rule("there", (x,), False, Plain("begins", (x,))), Rule("there", (y,), False, step)]
    frame = Frame(-10, 40)
    roads = {pair: frozenset(range(13)) for pair in (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"))}
    found = defined(rules, {"begins": {("a",): frozenset([2])}, "road": roads}, {}, frame)
    assert {args[0]: sorted(codes) for args, codes in found["there"].items()} == {"a": [2], "b": [6], "c": [10]}
