"""The reference interpreter keeps the laws that follow from the language reference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core import interval_relations
from cep.events import Event, Iri
from tests import reference_tree as p
from tests.cases_format import difference, read_event, sort_key, write_event
from tests.long import examples
from tests.program_maker import LAST_SECOND, SECOND
from tests.programs import Program, iterations, programs, recursions
from tests.reference import detect
from tests.reference_parser import parse


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    """Events a, b, c with one number each, intervals among them."""
    events = []
    for _ in range(draw(st.integers(0, 10))):
        end = draw(st.integers(0, LAST_SECOND))
        start = max(0, end - draw(st.sampled_from((0, 0, 1, 3))))
        events.append(Event(draw(st.sampled_from("abc")), (draw(st.integers(0, 2)),), start * SECOND, end * SECOND))
    return events


def derived(program: str, events: list[Event], policy: str | None = None) -> list[tuple[object, ...]]:
    return [(event.args, event.start, event.end) for event in detect(program, events, policy)]


# Two ways to say the same.
SAME = [
    ("e(X) <- a(X) TIMES 3.", "e(X) <- a(X) SEQ a(X) SEQ a(X)."),
    ("e <- a(X) TIMES 3.", "e <- a(_) SEQ a(_) SEQ a(_)."),
    ("e(X, Y) <- (a(X) SEQ b(Y)).4.", "e(X, Y) <- a(X) SEQ b(Y) WITHIN 4 s."),
    ("e(X, Y) <- a(X) SEQ b(Y) WITHIN 4.", "e(X, Y) <- a(X) SEQ b(Y) WHERE duration() <= 4."),
    ("e(X, Y) <- (a(X) SEQ b(Y)) CNOT c(X).", "e(X, Y) <- NOT(c(X)).[a(X), b(Y)]."),
    ("e(X) <- a(X) OR b(X).", "e(X) <- a(X). e(X) <- b(X)."),
    ("e(X, Y) <- a(X) AND b(Y).", "e(X, Y) <- b(Y) AND a(X)."),
    ("e(X, Y) <- a(X) PAR b(Y).", "e(X, Y) <- b(Y) PAR a(X)."),
    ("e(X) <- a(X) EQUALS b(X).", "e(X) <- b(X) EQUALS a(X)."),
    ("e(X, X) <- a(X) SEQ b(X).", "e(X, Y) <- a(X) SEQ b(Y) WHERE X = Y."),
    ("e(X, Y, Z) <- a(X) SEQ b(Y) SEQ c(Z).", "e(X, Y, Z) <- a(X) SEQ (b(Y) SEQ c(Z))."),
    ("e(N) <- a(_) AGGREGATE N = count() OVER LAST 99 s.", "e(N) <- a(X) AGGREGATE N = count() OVER LAST 99 EVENTS."),
    ("e <- a(X) UNLESS b(X) WITHIN 0.", "event a(x: int) DISTINCT. e <- a(_)."),
]


@pytest.mark.parametrize("pair", SAME, ids=lambda pair: pair[0])
@examples(40)
@given(events=streams())
def test_two_ways_to_say_the_same(pair: tuple[str, str], events: list[Event]) -> None:
    assert derived(pair[0], events) == derived(pair[1], events)


RELATIONS = [*interval_relations.RELATIONS, "SEQ[1, 3]"]


@pytest.mark.parametrize("relation", RELATIONS)
@examples(40)
@given(events=streams(), policy=st.sampled_from(("recent", "chronological", "recent(shortest)", "recent(by X)")))
def test_a_policy_chooses_among_pairs(relation: str, events: list[Event], policy: str) -> None:
    program = f"e(X, Y) <- a(X) {relation} b(Y)."
    chosen, every = derived(program, events, policy), derived(program, events)
    assert set(chosen) <= set(every)
    assert bool(chosen) == bool(every), "some partner is chosen where there is one"


@examples(40)
@given(events=streams())
def test_chronological_spends_each_event_once(events: list[Event]) -> None:
    unique = {(event.end, event.start): event for event in events}
    program = "e(S, T) <- (a(_) WHERE S = end()) SEQ (b(_) WHERE T = end())."
    found = [args for args, *_ in derived(program, list(unique.values()), "chronological")]
    by_end = [sum(1 for e in unique.values() if (e.type, e.end) == ("a", end)) for end, _ in found]
    assert all(sum(1 for end, _ in found if end == pair[0]) <= most for pair, most in zip(found, by_end))


@examples(40)
@given(events=streams())
def test_absence_divides_the_sequences(events: list[Event]) -> None:
    absent = derived("e(X, Y) <- NOT(c(_)).[a(X), b(Y)].", events)
    present = derived("e(X, Y) <- a(X) SEQ c(_) SEQ b(Y).", events)
    assert set(absent) | set(present) == set(derived("e(X, Y) <- a(X) SEQ b(Y).", events))


@examples(100)
@given(program=programs(policies=False, aggregates=False), order=st.randoms(use_true_random=False))
def test_without_policy_the_order_of_arrival_does_not_matter(program: Program, order: object) -> None:
    shuffled = list(program.events)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert not difference(detect(program.text, program.events), detect(program.text, shuffled))


@examples(100)
@given(program=st.one_of(programs(), iterations(), recursions()), cut=st.integers(0, LAST_SECOND))
def test_the_future_does_not_change_the_past(program: Program, cut: int) -> None:
    limit = cut * SECOND
    known = [event for event in program.events if event.end <= limit]
    past = [event for event in detect(program.text, program.events) if event.end <= limit]
    assert past == [event for event in detect(program.text, known) if event.end <= limit]


@examples(100)
@given(program=st.one_of(programs(), iterations(), recursions()))
def test_results_are_sorted_sets(program: Program) -> None:
    distinct = list({(event.type, event.args, event.start, event.end): event for event in program.events}.values())
    keys = [sort_key(event) for event in detect(program.text, distinct)]
    assert keys == sorted(set(keys))


def test_a_recursion_that_goes_on_for_ever_is_noticed() -> None:
    with pytest.raises(RuntimeError):
        detect("n(X) <- a(X). n(X + 1) <- n(X).", [Event("a", (1,), 0, 0)])


def test_reading() -> None:
    program = parse(
        "PREFIX w: <http://w.org/>\nevent a(x: int? in 0..9 FROM c, y: time) TIME t.\n"
        'one: e(X, w:k) <- a(y: X, x: -2) WHERE X > PT1H30M, not q(X), Y = "a\\"b" .\nq(1) :- p.\n'
    )
    assert program.declarations["a"].attributes == [("x", "int"), ("y", "time")]
    assert program.event_rules[0].arguments == (p.Var("X"), p.Const(Iri("http://w.org/k")))
    where = program.event_rules[0].body
    assert where.pattern == p.Atom("a", (p.Var("X"), p.Const(-2)), ("y", "x"))
    assert where.conditions == (
        p.Comparison(">", p.Var("X"), p.Const(p.Ticks("duration", 5400 * SECOND))),
        p.Predicate("q", (p.Var("X"),), negated=True),
        p.Comparison("=", p.Var("Y"), p.Const('a"b')),
    )
    assert program.static_rules[0] == p.StaticRule("q", (p.Const(1),), (p.Predicate("p", ()),))


@pytest.mark.parametrize(
    "line", ["a @ 1", 'b(1, "x", _, true, 2.5, <http://x.org/>) @ [-1.5, 2]', "c(-3) @ 0.000001", "d(1e+16) @ 7"]
)
def test_events_as_text(line: str) -> None:
    assert write_event(read_event(line)) == line
