"""Fluents that formulas define by themselves: random rules against the reference, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from cep.core.errors import CepError
from cep.core.time import END_OF_TIME
from cep.engine import Engine, holds
from cep.events import Event, Held
from cep.runtime.maximal_intervals import held_of
from tests import reference_fluents as simple
from tests.formula_maker import Maker, furthest, text
from tests.long import seeds
from tests.reference_formulas import Aggregate, And, Formula, Rule, defined, needs, parts_of, plain_names
from tests.reference_times import Frame, stretches
from tests.rounds import Buckets
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


def random_recursion(rng: random.Random, features: frozenset[str] = FEATURES) -> tuple[Case, int]:
    """A case, and the latest end in its input."""
    model = random_model(rng)
    while True:
        maker = Maker(rng, features)
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
    return Case(program, sorted(events, key=lambda e: e.end), expected(model, rules, records, trips)), latest


def expected(model, rules, records, trips) -> list[Held]:  # type: ignore[no-untyped-def]
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
    return ordered(
        (
            interval(name, args, first, last, frame)
            for name, relation in found.items()
            for args, codes in relation.items()
            for first, last in stretches(codes)
        )
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


def those(held: Iterable[Held], latest: int) -> list[Held]:
    """What formulas define."""
    return until((each for each in held if each.type.startswith("d")), latest)


@pytest.mark.parametrize("seed", seeds(60))
def test_recursion(seed: int) -> None:
    """What never ends goes on to the latest time in the input, so that all is looked at to there."""
    rng = random.Random(f"recursion {seed}")
    case, latest = random_recursion(rng)
    assert those(holds(case.program, case.events), latest) == until(case.expected, latest), case.program
    assert those(pushed(case, rng), latest) == until(case.expected, latest), case.program


@pytest.mark.parametrize("seed", seeds(20))
def test_recursion_in_buckets(seed: int) -> None:
    """What goes on by itself goes to the latest time in the input, which no bucket has seen by itself."""
    rng = random.Random(f"buckets {seed}")
    case, latest = random_recursion(rng)
    buckets = Buckets(case.program, rng.choice((1, 2, 7)), rng)
    tables: list[dict] = []
    rest = list(enumerate(case.events))
    while rest:
        count = rng.randint(1, 8)
        batch, rest = rest[:count], rest[count:]
        tables.append(buckets.round(buckets.tables(batch), batch[-1][1].end - 1))
    tables.append(buckets.round({}, END_OF_TIME))
    found = [held for each in tables for held in held_of(each, buckets.schemas, None, None)]
    assert those(found, latest) == until(case.expected, latest), case.program


ENDLESS = "event e(k: string) TIME t.\nfluent p(k: string).\np(K) WHILE e(K) OR ONCE[1 s, 1 s] p(K)."


@pytest.mark.parametrize("until", [3_000_000, 7_000_000, None])
def test_what_goes_on_by_itself_goes_to_the_latest_time_or_until(until: int | None) -> None:
    events = [Event("e", ("a",), 0, 0), Event("e", ("b",), 4_000_000, 4_000_000)]
    found = holds(ENDLESS, events, until=until)
    last = 4 if until is None else until // 1_000_000
    assert [each.start for each in found if each.args == ("a",)] == [n * 1_000_000 for n in range(last + 1)]


def test_not_goes_on_by_itself_until_a_time() -> None:
    """On for a second from each instant at which it is off, as lights are."""
    program = """event start(k: string) TIME t.
    fluent on(k: string).
    fluent running(k: string).
    initiate running(K) <- start(K).
    on(K) WHILE running(K) AND NOT ONCE[1 s, 1 s] on(K)."""
    found = holds(program, [Event("start", ("a",), 0, 0)], until=5_500_000)
    assert [(each.start, each.end) for each in found if each.type == "on"] == [
        (0, 1_000_000), (2_000_000, 3_000_000), (4_000_000, 5_000_000)
    ]  # fmt: skip


def test_what_begins_with_the_input_is_refused_where_its_first_time_is_not_known() -> None:
    program = """event start(k: string) TIME t.
    fluent on(k: string).
    fluent running(k: string).
    initiate running(K) <- start(K).
    on(K) WHILE running(K) AND NOT ONCE[1 s, 1 s] on(K)."""
    with pytest.raises(CepError, match="lies on a cycle, which begins with the first event: Spark has no first event"):
        Engine.from_text(program).refuse_beginning("Spark")
