"""Fluents that formulas define by themselves: random rules against the reference, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from cep.engine import holds
from cep.events import Event, Held
from tests import reference_fluents as simple
from tests.formula_maker import Maker, furthest, text
from tests.long import seeds
from tests.reference_formulas import Aggregate, And, Formula, Rule, defined, needs, parts_of, plain_names
from tests.reference_times import Frame, stretches
from tests.test_fluents import random_model, random_records
from tests.test_formulas import Case, interval, ordered, pushed

FEATURES = frozenset("AND NOT OR ONCE HISTORICALLY SINCE WHERE AGGREGATE WITHIN BOXES INF".split())  # noqa: SIM905
"""What looks back."""


def monotone(rules: Sequence[Rule]) -> bool:
    """Whether some fluent is of its own cycle, and no cycle goes through NOT or AGGREGATE."""
    cycles = needs(rules)

    def fine(formula: Formula, cycle: set[str]) -> bool:
        own = parts_of(formula)
        shut = own if isinstance(formula, Aggregate) else ()
        if isinstance(formula, And):
            shut = tuple(part for part, no in zip(own, formula.negated, strict=True) if no)
        return not any(cycle & set(plain_names(part)) for part in shut) and all(fine(part, cycle) for part in own)

    mutual = {name: {other for other in cycles[name] if name in cycles[other]} for name in cycles}
    return any(mutual.values()) and all(fine(rule.formula, mutual[rule.name]) for rule in rules)


def random_recursion(rng: random.Random) -> tuple[Case, int]:
    """A case, and the latest end in its input."""
    model = random_model(rng)
    while True:
        maker = Maker(rng, FEATURES)
        rules = maker.recursion(rng.choice((1, 1, 2, 3)), rng.choice((1, 2, 2)))
        if monotone(rules):
            break
    records = [each for each in random_records(rng, 12) if each[3] <= 20]
    events = [Event(e, (k, x), t, t) for e, k, x, t in records]
    trips = [(rng.choice("pqr"), rng.randint(0, 2), start, start + rng.choice((0, 1, 3, 7)))
             for start in rng.choices(range(14), k=rng.randint(0, 4))]  # fmt: skip
    events += [Event("trip", (k, x), s, e) for k, x, s, e in trips]
    program = simple.text(model) + "\n" + text(rules, maker.known)
    latest = max((event.end for event in events), default=0)
    return Case(program, sorted(events, key=lambda e: e.end), expected(model, rules, records, trips, latest)), latest


def expected(model, rules, records, trips, latest) -> list[Held]:  # type: ignore[no-untyped-def]
    intervals = simple.run(model, records).intervals
    times = [t for *_, s, e in [*intervals, *trips] for t in (s, e) if t is not None] + [t for *_, t in records]
    margin = furthest(rules) + 8
    frame = Frame(2 * (min(times, default=0) - margin), 2 * (max(times, default=0) + margin))
    given: dict[str, dict[tuple, set[int]]] = {name: {} for name in ("a", "b", *model.fluents)}
    for event, key, x, time in records:
        given[event].setdefault((key, x), set()).add(2 * time)
    for fluent, key, value, since, end in intervals:
        args = (key,) if value is None else (key, value)
        first = frame.first if since is None else 2 * since + 1
        given[fluent].setdefault(args, set()).update(range(first, (frame.last if end is None else 2 * end) + 1))
    travelled = {tuple(trip): frozenset(range(2 * trip[2], 2 * trip[3] + 1)) for trip in trips}
    known = {name: {args: frozenset(codes) for args, codes in each.items()} for name, each in given.items()}
    found = defined(rules, known, {"trip": travelled}, frame)
    return until(
        (
            interval(name, args, first, last, frame)
            for name, relation in found.items()
            for args, codes in relation.items()
            for first, last in stretches(codes)
        ),
        latest,
    )


def until(held: Iterable[Held], latest: int) -> list[Held]:
    """What holds up to a time; of all that holds there the end is left out."""
    made = []
    for each in held:
        if each.start is not None and (each.start, each.bounds[0] != "[") > (latest, False):
            continue
        if each.end is None or each.end > latest or (each.end == latest and each.bounds[1] == "]"):
            each = replace(each, end=None, bounds=each.bounds[0] + ")")
        made.append(each)
    return ordered(made)


@pytest.mark.parametrize("seed", seeds(60))
def test_recursion(seed: int) -> None:
    rng = random.Random(f"recursion {seed}")
    case, latest = random_recursion(rng)
    fluents = {each.type for each in case.expected} | {f"d{n}" for n in range(3)}

    def those(held: list[Held]) -> list[Held]:
        return until((each for each in held if each.type in fluents), latest)

    assert those(holds(case.program, case.events)) == case.expected, case.program
    assert those(pushed(case, rng)) == case.expected, case.program
