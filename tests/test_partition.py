"""How programs are split into stages, and that stages in buckets derive what one engine derives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cep.core.errors import CepError
from cep.engine import Engine, detect
from cep.events import Event
from cep.plan.partition import partition
from tests.cases_format import difference
from tests.partitions import crowded, derived, reasons, split
from tests.program_maker import SECOND
from tests.test_equivalence import in_order

SPLITS: dict[str, tuple[str, list[str], list[str]]] = {
    "rules that share a variable run by it": (
        """event reading(station: string, wind: float). event settling(station: string, n: int). policy recent.
        settling(S, 1) <- reading(S, W) WHERE W >= 15.
        settling(S, C + 1) <- settling(S, C) SEQ reading(S, W) WHERE W >= 15.
        warning(S, C) <- settling(S, C) WHERE C >= 4.
        calm(S) <- warning(S, _) UNLESS reading(S, _) WITHIN 1 h.
        mean(S, A) <- reading(S, W) AGGREGATE A = avg(W) OVER LAST 5 EVENTS BY S.""",
        ["keyed reading[0] settling[0] -> settling warning calm mean"],
        [],
    ),
    "what has no key runs later, on what was derived": (
        """warning(S) <- reading(S, V) SEQ reading(S, W) WHERE V < W.
        area(N) <- warning(S) AGGREGATE N = count() OVER LAST 1 h.
        alarm(N) <- area(N) WHERE N > 3.""",
        ["keyed reading[0] -> warning", "single warning -> area alarm"],
        ["2: `warning(S) AGGREGATE N = count() OVER LAST 1 h` has no BY: one window for all"],
    ),
    "what is joined on two variables has both as its key": (
        """e(R, S) <- a(R, S, X) SEQ b(R, S, Y).
        f(R, S, N) <- e(R, S) AGGREGATE N = count() OVER LAST 3 EVENTS BY R, S.""",
        ["keyed a[0,1] b[0,1] -> e f"],
        [],
    ),
    "but not where the derived event would lose its bucket": (
        "e(R) <- a(R, S, X) SEQ b(R, S, Y).",
        ["keyed a[0] b[0] -> e"],
        [],
    ),
    "the fewest stages": (
        """warning(S, R) <- reading(S, R, V) SEQ reading(S, R, W) WHERE V < W.
        region(R) <- warning(S, R) SEQ warning(T, R) WHERE S != T.""",
        ["keyed reading[1] -> warning region"],
        [],
    ),
    "another key of the same event is another stage": (
        """x(S, N) <- trade(S, B) AGGREGATE N = count() OVER LAST 1 h BY S.
        y(B, N) <- trade(S, B) AGGREGATE N = count() OVER LAST 1 h BY B.
        z(B) <- x(S, N) SEQ y(B, N).""",
        ["keyed trade[0] -> x", "keyed trade[1] -> y", "keyed x[1] y[1] -> z*"],
        [],
    ),
    "a derived event is dealt again": (
        """low(S, R) <- reading(S, R, V) SEQ reading(S, _, W) WHERE V < W.
        region(R) <- low(S, R) SEQ low(T, R) WHERE S != T.""",
        ["keyed reading[0] -> low", "keyed low[1] -> region"],
        [],
    ),
    "a filter needs no key": (
        """hot(V) <- reading(S, V) WHERE V > 30.
        some <- reading(_, _).""",
        ["keyed reading[1] -> hot some*"],
        [],
    ),
    "nor has an event without arguments one": ("some <- tick.", ["keyed tick[whole] -> some*"], []),
    "sides of an OR": (
        "e(X) <- (a(X) SEQ b(X)) OR c(_, X).",
        ["keyed a[0] b[0] c[1] -> e"],
        [],
    ),
    "records of a derived event go by the argument that is asked": (
        """event e(x: int, y: int). event a(x: int). event b(x: int).
        e(X, X) <- a(X) SEQ b(X).
        f(Y) <- e(_, Y) SEQ e(_, Y).""",
        ["keyed a[0] b[0] e[1] -> e f"],
        [],
    ),
    "what is everywhere is no part of what is not": (
        """rise(S) <- reading(S, V) SEQ reading(S, W) WHERE W > V.
        hit(S) <- reading(S, V) SEQ alarm(_).
        note(S) <- rise(S).
        note(1) <- alarm(_).
        seen(X) <- note(X) SEQ note(X).""",
        ["keyed alarm[broadcast] reading[0] -> rise hit note*", "keyed alarm[whole] -> note*", "keyed note[0] -> seen"],
        [],
    ),
    "TIMES": ("e(X) <- a(X, _) TIMES 3.", ["keyed a[0] -> e"], []),
    "what the WHERE says is equal": (
        "event a(x: int). event b(x: int). e(X, Y) <- a(X) SEQ b(Y) WHERE X = Y.",
        ["keyed a[0] b[0] -> e"],
        [],
    ),
    "but recent chooses before it asks": (
        "event a(x: int). event b(x: int). e(X, Y) <- a(X) SEQ b(Y) WHERE X = Y POLICY recent.",
        ["single a b -> e"],
        ["1: no variable is on both sides of `a(X) SEQ b(Y)`, and `recent` chooses among all"],
    ),
    "a recursion that keeps its key": (
        "r(X, Y) <- e(X, Y). r(X, Z) <- r(X, Y) SEQ e(X, Z).",
        ["keyed e[0] -> r"],
        [],
    ),
    "a recursion that does not": (
        "r(X, Y) <- e(X, Y). r(X, Z) <- r(X, Y) SEQ e(Y, Z).",
        ["single e -> r"],
        ["1: `r(X, Y) SEQ e(Y, Z)` joins on Y, but its left side is divided by X"],
    ),
    "a key that the head does not show": (
        """e(1) <- a(X) SEQ b(X).
        f(N) <- e(X) AGGREGATE N = count() OVER LAST 5 min BY X.""",
        ["keyed a[0] b[0] -> e*", "keyed e[0] -> f*"],
        [],
    ),
    "two keys in one rule": (
        "three(X) <- (a(X) SEQ b(X, Y)) SEQ c(Y).",
        ["single a b c -> three"],
        ["1: `(a(X) SEQ b(X, Y)) SEQ c(Y)` joins on Y, but its left side is divided by X"],
    ),
    "which is two rules, to run by two keys": (
        "two(X, Y) <- a(X) SEQ b(X, Y). three(X) <- two(X, Y) SEQ c(Y).",
        ["keyed a[0] b[0] -> two", "keyed c[0] two[1] -> three*"],
        [],
    ),
    "an event beside itself, the other way round": (
        "e(X) <- a(X, Y) SEQ a(Y, X).",
        ["single a -> e"],
        ["1: `a(X, Y) SEQ a(Y, X)` joins on X, Y, but its two sides are divided by different ones"],
    ),
    "a BY without the key": (
        "e(N) <- a(X, Y) SEQ b(X, Z) AGGREGATE N = count() OVER LAST 1 h BY Z.",
        ["single a b -> e"],
        ["1: the BY of `a(X, Y) SEQ b(X, Z) AGGREGATE N = count() OVER LAST 1 h BY Z` leaves out X"],
    ),
    "what must be absent has the key too": (
        "e(X) <- NOT(c(_, X)).[a(X), b(X)]. f(X) <- a(X) UNLESS c(_, X) WITHIN 1 h.",
        ["keyed a[0] b[0] c[1] -> e f"],
        [],
    ),
    "or it does not": (
        "e(X) <- NOT(a(_)).[a(X), b(X)]. f(X) <- a(X) UNLESS b(_) WITHIN 1 h.",
        ["single a b -> e f"],
        [
            "1: the absent part of `NOT(a(_)).[a(X), b(X)]` does not share its key",
            "1: no variable is on both sides of `a(X) UNLESS b(_) WITHIN 1 h`: any such event ends it",
        ],
    ),
    "time points": (
        "e(X) <- 5 SEQ a(X). f <- 7.",
        ["keyed a[0] -> e", "single -> f"],
        ["1: a time point has no key"],
    ),
    "a time is no number": (
        "event a(t: time). event b(x: int). e(T) <- a(T) SEQ b(T).",
        ["single a b -> e"],
        ["1: `a(T) SEQ b(T)` joins a time or duration with a number of seconds"],
    ),
    "a number that a conversion may change is no key": (
        "event e(x: float). event a(x: int). event b(x: int). e(X) <- a(X) SEQ b(X). f(X) <- e(X) SEQ e(X).",
        ["keyed a[0] b[0] e[0] -> e*", "keyed e[0] -> f"],
        [],
    ),
}


@pytest.mark.parametrize("title", SPLITS)
def test_split(title: str) -> None:
    program, stages, why = SPLITS[title]
    assert split(program) == stages
    assert reasons(program) == why


@pytest.mark.parametrize("title", SPLITS)
def test_split_derives_the_same(title: str) -> None:
    program = SPLITS[title][0]
    inputs = Engine.from_text(program).inputs
    makes = {"string": "uvw".__getitem__, "float": float, "time": SECOND.__mul__}
    events = [
        Event(event.type, tuple(makes.get(a.type, int)(v) for a, v in zip(inputs[event.type].attributes, event.args)),
              event.start, event.end)
        for seed in range(3)
        for event in crowded({name: len(schema.attributes) for name, schema in inputs.items()}, seed)
    ]  # fmt: skip
    wanted = detect(program, in_order(events))
    assert not difference(wanted, derived(program, in_order(events), 7))


def test_what_a_stage_takes_from_another_is_taken_as_it_was_made() -> None:
    """Ranges, missing values and instants are declared of records, not of what is derived."""
    program = """event a(k: string, x: int). event e(k: string, x: int in 0..5) TIME t.
        e(K, X * 10) <- a(K, X) SEQ a(K, Y).
        none(K, 1 / X) <- a(K, X) SEQ a(K, Y).
        last(K, X, Y) <- e(K, X) AND none(_, Y).
        sum(S) <- e(K, X) AGGREGATE S = sum(X) OVER LAST 1 h."""
    events = [Event("a", (key, x), t, t) for t, (key, x) in enumerate([("u", 1), ("v", 2), ("u", 0), ("v", 0)] * 2)]
    wanted = detect(program, events)
    assert {event.type for event in wanted} == {"e", "none", "last", "sum"}
    assert any(None in event.args for event in wanted)
    assert not difference(wanted, derived(program, events, 3))


def test_records_of_a_derived_event_go_where_it_is_made() -> None:
    program = """event low(s: int). event reading(s: int, v: int).
        low(S) <- reading(S, V) SEQ reading(S, W).
        all(N) <- low(S) AGGREGATE N = count() OVER LAST 1 h."""
    assert split(program) == ["keyed low[0] reading[0] -> low", "single low -> all"]
    events = [Event("reading", (s, 0), s, s) for s in (1, 2, 1)] + [Event("low", (s,), 9, 9) for s in (1, 2, 3)]
    found = derived(program, events, 2)
    assert not difference(detect(program, events), found)
    assert sum(event.type == "low" for event in found) == 3


def test_a_stage_goes_on_from_its_own_snapshot_only() -> None:
    program = "e(X) <- a(X) SEQ b(X). f(N) <- e(X) AGGREGATE N = count() OVER LAST 1 h."
    blob = Engine.from_text(program, stage=1).snapshot()
    Engine.from_text(program, stage=1).restore(blob)
    for other in ({"stage": 2}, {}):
        with pytest.raises(CepError, match="another program"):
            Engine.from_text(program, **other).restore(blob)


def test_a_stage_reads_its_inputs_and_makes_its_outputs() -> None:
    program = "e(X) <- a(X) SEQ b(X). f(N) <- e(X) AGGREGATE N = count() OVER LAST 1 h."
    first, second = (Engine.from_text(program, stage=number) for number in (1, 2))
    assert (list(first.inputs), list(first.outputs)) == (["a", "b"], ["e"])
    assert (list(second.inputs), list(second.outputs)) == (["e"], ["f"])
    with pytest.raises(ValueError, match="a program of 2 stages has no stage 3"):
        Engine.from_text(program, stage=3)


def test_a_plan_is_split_once_and_what_is_made_of_it_anew() -> None:
    plan = Engine.from_text("event a(k: int) TIME t. x(K) <- a(K) SEQ a(K).").plan
    assert partition(plan) is partition(plan)
    assert not replace(plan, begins=True).stages, "another plan may be split in another way"
