"""Formulas that define a fluent by itself through NOT and AGGREGATE, where every way round goes back, against brute
force."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from cep.compile import compile
from cep.core.errors import CepError
from cep.engine import holds
from cep.events import Event
from tests import reference_fluents as simple
from tests.formula_maker import Maker, furthest, text
from tests.long import seeds
from tests.reference_formulas import Relation, Rule, defined, needs
from tests.reference_lagged import defined_by_code, runs, whole_on_cycle
from tests.reference_times import Frame, stretches
from tests.test_fluents import random_model, random_records
from tests.test_formula_recursion import FEATURES, those, until
from tests.test_formulas import Case, interval, ordered, pushed


def random_case(rng: random.Random) -> tuple[Case, int]:
    """A case, and the latest end in its input."""
    model = random_model(rng)
    while True:
        maker = Maker(rng, FEATURES - {"INF"})
        rules = maker.recursion(rng.choice((1, 1, 2, 3)), rng.choice((1, 2, 2)))
        if runs(rules) and goes_back(simple.text(model) + "\n" + text(rules, maker.known)):
            break
    records = [each for each in random_records(rng, 8) if each[3] <= 14] or [("a", "p", 1, 3)]
    events = [Event(e, (k, x), t, t) for e, k, x, t in records]
    trips = [(rng.choice("pqr"), rng.randint(0, 2), start, start + rng.choice((0, 1, 3)))
             for start in rng.choices(range(10), k=rng.randint(0, 3))]  # fmt: skip
    events += [Event("trip", (k, x), s, e) for k, x, s, e in trips]
    program = simple.text(model) + "\n" + text(rules, maker.known)
    latest = max(event.end for event in events)
    first = min(event.end for event in events)
    return Case(program, sorted(events, key=lambda e: e.end), expected(model, rules, records, trips, first)), latest


def goes_back(program: str) -> bool:
    """Whether every way round a cycle through NOT or AGGREGATE does, as is demanded."""
    try:
        compile(program)
    except CepError as error:
        assert "a way round that does not go back" in str(error)
        return False
    return True


def test_a_way_round_that_does_not_go_back_is_refused_beside_not() -> None:
    program = """event a(k: string).
    fluent g(k: string).
    fluent p(k: string).
    initiate g(K) <- a(K).
    p(K) WHILE g(K) AND NOT ONCE[1 s, 1 s] p(K).
    p(K) WHILE g(K) AND p(K).
    """
    with pytest.raises(CepError, match="a cycle through AND NOT has a way round that does not go back") as refused:
        compile(program)
    assert refused.value.hint == "with AND NOT on it every way round goes back by some time: `ONCE[1 s, 1 s] p(X)`"


def expected(model, rules: Sequence[Rule], records, trips, begun: int):  # type: ignore[no-untyped-def]
    intervals = simple.run(model, records).intervals
    times = [t for *_, s, e in [*intervals, *trips] for t in (s, e) if t is not None] + [t for *_, t in records]
    frame = Frame(2 * (min(times) - furthest(rules) - 8), 2 * max(t for *_, t in [*records, *trips]) + 1)
    given: dict[str, dict[tuple, set[int]]] = {name: {} for name in ("a", "b", *model.fluents)}
    for event, key, x, time in records:
        given[event].setdefault((key, x), set()).add(2 * time)
    for fluent, key, value, since, end in intervals:
        args = (key,) if value is None else (key, value)
        start = frame.first if since is None else 2 * since + 1
        last = frame.last if end is None else min(2 * end, frame.last)
        given[fluent].setdefault(args, set()).update(range(start, last + 1))
    travelled = {tuple(trip): frozenset(range(2 * trip[2], 2 * trip[3] + 1)) for trip in trips}
    known: dict[str, Relation] = {
        name: {args: frozenset(codes) for args, codes in each.items()} for name, each in given.items()
    }
    needed, whole = needs(rules), whole_on_cycle(rules)
    names = sorted(dict.fromkeys(rule.name for rule in rules), key=lambda name: len(needed[name] | {name}))
    found: dict[str, Relation] = {}
    for name in names:
        if name in found:
            continue
        group = {name} | {other for other in needed[name] if name in needed[other]}
        own = [rule for rule in rules if rule.name in group]
        if group & whole:
            found |= defined_by_code(own, {**known, **found}, {"trip": travelled}, frame, 2 * begun)
        else:
            found |= defined(own, {**known, **found}, {"trip": travelled}, frame)
    return ordered(
        interval(name, args, first, last, frame)
        for name, relation in found.items()
        for args, codes in relation.items()
        for first, last in stretches(codes)
    )


@pytest.mark.parametrize("seed", seeds(40))
def test_not_and_aggregate_on_a_cycle_that_goes_back(seed: int) -> None:
    rng = random.Random(f"lagged {seed}")
    case, latest = random_case(rng)
    assert those(holds(case.program, case.events), latest) == until(case.expected, latest), case.program
    assert those(pushed(case, rng), latest) == until(case.expected, latest), case.program


@pytest.mark.parametrize(
    ("since", "wanted"),
    [
        ("SINCE[1 s, 2 s]", [(0, 1, "(]"), (3, 4, "(]"), (6, 7, "(]")]),
        ("SINCE[2 s, 2 s]", [(0, 2, "(]"), (4, 6, "(]")]),
        ("SINCE(1 s, 2 s)", [(0, 1, "(]"), (3, 4, "[]"), (6, 7, "[]")]),
    ],
)
def test_the_right_of_since_goes_back_by_where_it_begins(since: str, wanted: list[tuple[int, int, str]]) -> None:
    program = f"""event a(k: string).
    fluent g(k: string).
    fluent p(k: string).
    initiate g(K) <- a(K).
    p(K) WHILE g(K) AND NOT (g(K) {since} p(K)).
    """
    found = holds(program, [Event("a", ("x",), 0, 0)], until=8_000_000)
    second = 1_000_000
    assert [(each.start, each.end, each.bounds) for each in found if each.type == "p"] == [
        (first * second, last * second, bounds) for first, last, bounds in wanted
    ]


def test_the_left_of_since_does_not_go_back() -> None:
    program = """event a(k: string).
    fluent g(k: string).
    fluent p(k: string).
    initiate g(K) <- a(K).
    p(K) WHILE g(K) AND NOT (p(K) SINCE[1 s, 2 s] g(K)).
    """
    with pytest.raises(CepError, match="NOT asks for all of it at the same time"):
        compile(program)
