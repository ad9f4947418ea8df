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
from tests.formula_maker import FEATURES as ALL
from tests.formula_maker import Maker, furthest, text
from tests.long import seeds
from tests.reference_formulas import Formula, Relation, Rule, Timed, defined, needs, parts_of
from tests.reference_lagged import apart, defined_by_code, runs, whole_on_cycle
from tests.reference_times import Frame, stretches
from tests.test_fluents import random_model, random_records
from tests.test_formula_recursion import FEATURES, those, until
from tests.test_formulas import Case, interval, ordered, pushed

LATE = ALL - {"VALUES"}
"""The features of what comes into a cycle that may be known at the end of the input alone."""


def random_case(rng: random.Random, outside: frozenset[str] = frozenset()) -> tuple[Case, int]:
    """A case, and the latest end in its input. `outside`: the features of what comes into the cycle; where there are
    any, some of it is known at the end alone, and some is a fluent of other rules."""
    model = random_model(rng)
    while True:
        maker = Maker(rng, outside or FEATURES - {"INF"})
        before = maker.rules(rng.choice((0, 1)), rng.choice((1, 2))) if outside else []
        maker.features = FEATURES - {"INF"}
        rules = maker.recursion(rng.choice((1, 1, 2, 3)), rng.choice((1, 2, 2)), len({r.name for r in before}), outside)
        if not runs(rules) or (outside and not at_the_end([*before, *rules])):
            continue
        rules = [*before, *rules]
        if goes_back(simple.text(model) + "\n" + text(rules, maker.known)):
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


def at_the_end(rules: Sequence[Rule]) -> bool:
    """Return True if a cycle through NOT or AGGREGATE asks what is known at the end of the input alone."""

    def late(formula: Formula) -> bool:
        ahead = isinstance(formula, Timed) and formula.operator in ("EVENTUALLY", "ALWAYS", "UNTIL")
        return (ahead and formula.reach.high is None) or any(map(late, parts_of(formula)))

    known_late, needed = {rule.name for rule in rules if late(rule.formula)}, needs(rules)
    return any(needed[name] & known_late for name in whole_on_cycle(rules))


def goes_back(program: str) -> bool:
    """Whether every way round a cycle through NOT or AGGREGATE does, as is demanded."""
    try:
        compile(program)
    except CepError as error:
        assert "does not go back in time on every path" in str(error)
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
    with pytest.raises(CepError, match="a cycle through AND NOT does not go back in time on every path") as refused:
        compile(program)
    assert refused.value.hint == "every path of a cycle with AND NOT must go back by some time: `ONCE[1 s, 1 s] p(X)`"


def expected(model, rules: Sequence[Rule], records, trips, begun: int):  # type: ignore[no-untyped-def]
    intervals = simple.run(model, records).intervals
    times = [t for *_, s, e in [*intervals, *trips] for t in (s, e) if t is not None] + [t for *_, t in records]
    margin = furthest(rules) + 8
    ended = Frame(2 * (min(times) - margin), 2 * max(t for *_, t in [*records, *trips]) + 1)
    frame = Frame(ended.first, 2 * (max(times) + margin))
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
    """Formulas that ask nothing of a cycle are known at all times, and may look ahead."""
    names = sorted(dict.fromkeys(rule.name for rule in rules), key=lambda name: len(needed[name] | {name}))
    found: dict[str, Relation] = {}
    for name in names:
        if name in found:
            continue
        group = {name} | {other for other in needed[name] if name in needed[other]}
        own = [rule for rule in rules if rule.name in group]
        if group & whole:
            own, at_once = apart(own, {**known, **found}, {"trip": travelled}, frame)
            found |= defined_by_code(own, {**known, **found, **at_once}, {"trip": travelled}, ended, 2 * begun)
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


@pytest.mark.parametrize("seed", seeds(40))
def test_a_cycle_that_asks_what_is_known_at_the_end(seed: int) -> None:
    rng = random.Random(f"lagged at the end {seed}")
    case, latest = random_case(rng, LATE)
    assert those(holds(case.program, case.events), latest) == until(case.expected, latest), case.program
    assert those(pushed(case, rng), latest) == until(case.expected, latest), case.program


ON_AND_OFF = """event b(k: int) TIME t.
event c(k: int) TIME t.
fluent s(k: int).
fluent d(k: int).
fluent back(k: int).
initiate s(K) <- b(K).
"""
LAGS = "d(K) WHILE s(K) AND NOT ONCE[2 s, 3 s] d(K).\n"


@pytest.mark.parametrize(
    "rule",
    [
        "d(K) WHILE EVENTUALLY[0, inf) (c(K) WHERE K > 5).",
        "d(K) WHILE s(K) UNTIL[1 s, inf) (c(K) WHERE K > 5).",
        "back(K) WHILE (c(K) WHERE K > 5) OR EVENTUALLY[1 s, 1 s] back(K).\nd(K) WHILE back(K).",
    ],
)
@pytest.mark.parametrize("end", [None, 23])
def test_not_counts_beside_a_rule_that_is_known_at_the_end(rule: str, end: int | None) -> None:
    second = 1_000_000
    events = [Event("b", (1,), 5 * second, 5 * second), Event("c", (1,), 20 * second, 20 * second)]
    times = {} if "back" not in rule and end is None else {"start": 0, "until": (end or 20) * second}
    found = [each for each in holds(ON_AND_OFF + LAGS + rule, events, **times) if each.type == "d"]
    last = [(20, 22)] if end else [] if times else [(20, None)]
    assert [(each.start, each.end) for each in found] == [
        (first * second, to and to * second) for first, to in [(5, 7), (10, 12), (15, 17), *last]
    ]


def test_a_cycle_that_goes_on_beside_a_rule_that_is_known_at_the_end() -> None:
    second = 1_000_000
    program = ON_AND_OFF + "d(K) WHILE b(K) OR ONCE[1 s, 1 s] d(K).\nd(K) WHILE EVENTUALLY[0, inf) (c(K) WHERE K > 5)."
    events = [Event("b", (1,), 5 * second, 5 * second), Event("c", (1,), 9 * second, 9 * second)]
    assert [each.start for each in holds(program, events) if each.type == "d"] == [n * second for n in range(5, 10)]


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


def test_what_an_or_leaves_out_on_the_left_of_since_is_not_missing_on_its_right() -> None:
    program = """event a(k: string, x: int) TIME t.
    fluent p(k: string).
    fluent q(k: string).
    p(K) WHILE (a(K, _) OR ONCE[0 s, 2 s] a(K, _)) AND NOT ONCE[3 s, 3 s] q(K).
    q(K) WHILE ((a(K, _) AND p(K)) OR (ONCE[0 s, 2 s] a(K, _))) SINCE[0 s, 2 s] p(K).
    """
    found = holds(program, [Event("a", ("x", 1), 0, 0)], until=6_000_000)
    assert [(each.type, each.start, each.end, each.bounds) for each in found] == [
        ("p", 0, 2_000_000, "[]"), ("q", 0, 2_000_000, "[]")
    ]  # fmt: skip


def test_the_left_of_since_does_not_go_back() -> None:
    program = """event a(k: string).
    fluent g(k: string).
    fluent p(k: string).
    initiate g(K) <- a(K).
    p(K) WHILE g(K) AND NOT (p(K) SINCE[1 s, 2 s] g(K)).
    """
    with pytest.raises(CepError, match="NOT must know all of it at the same time"):
        compile(program)


def test_a_tuple_that_held_only_before_the_first_time_of_the_input_is_not_output() -> None:
    program = """event b(k: string) TIME t.
    fluent g(k: string).
    fluent d(k: string).
    fluent e(k: string).
    initially g("p").
    terminate g(K) <- b(K).
    e(K) WHILE (b(K) AND g(K)) AND NOT d(K).
    d(K) WHILE EVENTUALLY[0 s, 5 s) EVENTUALLY(0 s, 3 s) g(K).
    d(K) WHILE b(K) SINCE[3 s, 6 s) e(K).
    """
    found = holds(program, [Event("b", ("p",), 8_000_000, 8_000_000)])
    assert [(each.type, each.start, each.end, each.bounds) for each in found if each.type in "de"] == [
        ("e", 8_000_000, 8_000_000, "[]")
    ]
