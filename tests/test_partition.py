"""How programs are split into stages, and that stages in buckets derive what one engine derives."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core.errors import CepError
from cep.core.schema import ARRIVAL, TIE, Attribute, Schema
from cep.engine import Engine, detect
from cep.events import Event, Iri, types_of
from cep.plan import partition as module
from cep.plan.partition import Stage, partition
from cep.runtime.buckets import buckets, deal, hash_words, merged_by_arrival, merged_identical
from tests.cases_format import FOLDER, difference, known, read_case
from tests.keyed_programs import keyed_programs
from tests.long import some
from tests.program_maker import SECOND
from tests.programs import Program
from tests.rounds import Buckets
from tests.test_cases import case_name
from tests.test_equivalence import ANY, LONG, check, cut, examples, in_order, run, start, types

CASES = [path for path in sorted(FOLDER.rglob("*.case")) if "error" not in read_case(path).sections]
COUNTS = st.sampled_from((1, 2, 7))


def split(text: str) -> list[str]:
    """The stages of a program, a line each: how it runs, its inputs with their ways, `->` what it makes (`*`: to be
    made one)."""
    return [line(stage) for stage in partition(Engine.from_text(text).plan)]


def line(stage: Stage) -> str:
    ways = {e: ",".join(map(str, r)) if isinstance(r, tuple) else r for e, r in sorted(stage.inputs.items())}
    inputs = [event if way == "single" else f"{event}[{way}]" for event, way in ways.items()]
    outputs = [f"{event}*" if event in stage.merged else event for event in stage.outputs]
    return " ".join(["keyed" if stage.keyed else "single", *inputs, "->", *outputs])


def reasons(text: str) -> list[str]:
    """Why rules of a program run in one place, each with its line."""
    plan = Engine.from_text(text).plan
    unsplit = [reason for stage in partition(plan) for reason in stage.reasons]
    return [f"{plan.rules.rules[reason.rule].span.line}: {reason.text}" for reason in unsplit]


def derived(program: str, events: list[Event], count: int, seed: int = 0, **options: Any) -> list[Event]:
    """What stages in so many buckets give."""
    return Buckets(program, count, Random(seed), **{"types": types_of(events)} | options).run([list(enumerate(events))])


# --- keys ---

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
        ["1: `r(X, Y) SEQ e(Y, Z)` joins on Y, its left side on X"],
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
        ["1: `(a(X) SEQ b(X, Y)) SEQ c(Y)` joins on Y, its left side on X"],
    ),
    "which is two rules, to run by two keys": (
        "two(X, Y) <- a(X) SEQ b(X, Y). three(X) <- two(X, Y) SEQ c(Y).",
        ["keyed a[0] b[0] -> two", "keyed c[0] two[1] -> three*"],
        [],
    ),
    "an event beside itself, the other way round": (
        "e(X) <- a(X, Y) SEQ a(Y, X).",
        ["single a -> e"],
        ["1: `a(X, Y) SEQ a(Y, X)` joins on X, Y, its two sides on different ones of them"],
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
            "1: what is absent in `NOT(a(_)).[a(X), b(X)]` does not share its key",
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


# --- small events beside large ones ---

RISE = "rise(S) <- reading(S, V) SEQ reading(S, W) WHERE W > V.\n"


@pytest.mark.parametrize(
    "rule",
    [
        "hit(S, A) <- reading(S, V) SEQ alarm(A) WITHIN 5 s.",
        "hit(S, A) <- reading(S, V) AND alarm(A) WHERE V > A.",
        "hit(S, A) <- alarm(A) SEQ reading(S, V) POLICY recent.",
        "hit(S) <- NOT(alarm(_)).[reading(S, V), reading(S, W)] POLICY chronological.",
        "hit(S) <- reading(S, V) UNLESS alarm(_) WITHIN 5 s.",
        "hit(S, A) <- reading(S, V) SEQ severe(A). severe(A) <- alarm(A) WHERE A > 3.",
        "hit(S, A) <- reading(S, V) SEQ (alarm(A) SEQ alarm(B)).",
    ],
)
def test_a_small_event_goes_to_every_bucket(rule: str) -> None:
    (stage,) = partition(Engine.from_text(RISE + rule).plan)
    assert stage.inputs == {"alarm": "broadcast", "reading": (0,)}


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        # An alarm that arrives would choose one reading of every bucket.
        ("hit(S, A) <- reading(S, V) SEQ alarm(A) POLICY recent.", "`recent` chooses"),
        ("hit(S, A) <- reading(S, V) AND alarm(A) POLICY recent.", "`recent` chooses"),
        # Each bucket would use up the alarm for itself.
        ("hit(S, A) <- alarm(A) SEQ reading(S, V) POLICY chronological.", "`chronological` chooses"),
        # Which alarms are large, as readings are.
        ("hit(S, A) <- reading(S, V) SEQ alarm(A). twice(A) <- alarm(A) SEQ alarm(A).", "every pair is tried"),
    ],
)
def test_but_not_where_that_would_change_what_is_chosen(rule: str, why: str) -> None:
    assert any(why in reason for reason in reasons(RISE + rule))


def test_of_two_events_without_a_key_neither_is_known_to_be_small() -> None:
    assert split("hit(S, A) <- alarm(A) SEQ reading(S, V).") == ["single alarm reading -> hit"]


def test_what_is_made_of_small_events_is_made_in_every_bucket_and_given_once() -> None:
    program = RISE + "hit(S, A) <- reading(S, V) SEQ severe(A). severe(A) <- alarm(A) WHERE A > 3."
    assert split(program) == ["keyed alarm[broadcast] reading[0] -> rise hit severe*"]
    events = [Event("reading", (s, 1), s, s) for s in range(5)] + [Event("alarm", (9,), 7, 7)]
    assert not difference(detect(program, events), derived(program, events, 4))


# --- the order of what is simultaneous ---

ORDERED = {
    # An alarm makes hits in several buckets, all of its order.
    "a small event completes": (
        RISE + "hit(S, A) <- reading(S, V) SEQ alarm(A).\n"
        "first(F) <- hit(S, A) AGGREGATE F = first(S) OVER LAST 2 EVENTS.",
        {"reading": 2, "alarm": 1},
        "hit",
        (0, 1),
    ),
    # Several of one b go to several buckets.
    "dealt again": (
        "both(S, R) <- a(S, R) AND b(S).\nnear(S, R) <- c(R) SEQ both(S, R).\n"
        "last(R, X) <- near(S, R) SEQ d(X) POLICY recent.",
        {"a": 2, "b": 1, "c": 1, "d": 1},
        "near",
        (10, 11),
    ),
    # One b completes an e in two stages.
    "two stages": (
        "e(X, P) <- a(X, P) SEQ b(X, Y).\ne(Y, P) <- c(Y, P) SEQ b(X, Y).\n"
        "last(P, F) <- e(X, P) AGGREGATE F = last(X) OVER LAST 10 EVENTS BY P.",
        {"a": 2, "b": 2, "c": 2},
        "e",
        (7, 11),
    ),
}


def crowded(arities: dict[str, int], seed: int) -> list[Event]:
    """Events of three instants."""
    random = Random(seed)
    events = []
    for _ in range(44):
        type = random.choice(list(arities))
        time = random.randrange(3) * SECOND
        events.append(Event(type, tuple(random.randrange(3) for _ in range(arities[type])), time, time))
    return in_order(events)


@pytest.mark.parametrize("title", ORDERED)
def test_where_a_goal_goes_by_an_order_that_buckets_lose(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would lose it runs in one place; the same rules in buckets would derive something else."""
    program, arities, event, seeds = ORDERED[title]
    assert any(f"the order of simultaneous `{event}`, which buckets would lose" in why for why in reasons(program))
    streams = [crowded(arities, seed) for seed in seeds]
    wanted = [detect(program, stream) for stream in streams]

    def wrong() -> int:
        runs = [derived(program, stream, 7) for stream in streams]
        return sum(bool(difference(one, other)) for one, other in zip(wanted, runs, strict=True))

    assert wrong() == 0
    monkeypatch.setattr(module, "_disordered", lambda *_: {})
    assert wrong() > 0


def test_counting_is_not_a_matter_of_order() -> None:
    program = RISE + "hit(S, A) <- reading(S, V) SEQ alarm(A). many(A, N) <- hit(S, A) AGGREGATE N = count(), "
    program += "M = max(S) OVER LAST 1 h BY A."
    assert split(program) == ["keyed alarm[broadcast] reading[0] -> rise hit", "keyed hit[1] -> many"]


# --- a stage alone ---


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


# --- rows to buckets ---

VALUES = Schema("a", (Attribute("x", "any", True),), False, False)


def bucket(values: list[Any], type: str = "any", dtype: Any = None, count: int = 1 << 40) -> list[int]:
    schema = Schema("a", (Attribute("x", type, True),), False, False)
    return buckets(pl.DataFrame({"x": pl.Series(values, dtype=dtype)}), schema, (0,), count).tolist()


def test_a_value_has_the_same_bucket_however_it_comes() -> None:
    one = bucket([1])
    assert (
        one == bucket([1.0]) == bucket([1], "int", pl.UInt8) == bucket([1.0], "float") == bucket([1], "any", pl.Object)
    )
    text = bucket(["café"])
    assert text == bucket(["café"], "string", pl.Categorical) == bucket([Iri("café")], "any", pl.Object)
    assert bucket([0.0], "float") == bucket([-0.0], "float")
    assert bucket([None, None], "int", pl.Int64) == bucket([None, float("nan")], "float")
    second = pl.Series([1_000_000]).cast(pl.Datetime("us"))
    assert bucket(list(second)) == one and bucket(list(second), "time") == bucket([1_000_000], "time")
    mixed = bucket(["b", 2, 2.5, True, None], "any", pl.Object)
    assert mixed == bucket(["b"]) + bucket([2]) + bucket([2.5]) + one + bucket([None])


def test_the_bucket_of_a_value_never_changes() -> None:
    """A checkpoint outlives the version that wrote it."""
    texts = ["", "a", "KJFK", "a text of more than eight letters"]
    assert bucket(texts, count=1000) == [205, 504, 877, 108]
    assert bucket([0, 1, -1, 2**62], count=1000) == [0, 604, 289, 72]
    assert bucket([0.5, 1e300], count=1000) == [613, 846]
    assert bucket([None], count=1000) == [707]


@given(st.lists(st.text(), min_size=1))
def test_equal_texts_have_equal_words(texts: list[str]) -> None:
    found = hash_words(pl.Series(texts, dtype=pl.String), "string").tolist()
    assert len(set(zip(texts, found))) == len(set(texts)) == len(set(found))


def test_every_row_is_dealt_once_or_to_all() -> None:
    schema = Schema("a", (Attribute("x", "int"), Attribute("y", "int")), True, False)
    rows = [(t % 7, t % 3) for t in range(1000)]
    table = pl.DataFrame(
        {"start": range(1000), "end": range(1000), "x": [x for x, _ in rows], "y": [y for _, y in rows]}
    )
    for route in ((0,), (1, 0), "whole", "broadcast", "single"):
        stage = Stage(1, True, (), {"a": route}, frozenset({"a"}), (), frozenset(), ())
        dealt = [tables.get("a") for tables in deal(stage, {"a": table, "b": table}, {"a": schema}, 4)]
        parts = [part for part in dealt if part is not None]
        assert all(part["start"].is_sorted() for part in parts)
        if route == "broadcast":
            assert all(part.equals(table) for part in parts) and len(parts) == 4
            continue
        assert sorted(t for part in parts for t in part["start"]) == list(range(1000))
        if isinstance(route, tuple):
            names = [schema.attributes[position].name for position in route]
            keys = [set(part.select(names).rows()) for part in parts]
            assert sum(map(len, keys)) == len(set().union(*keys))
        if route == "whole":
            assert all(150 < part.height < 350 for part in parts)


def test_what_buckets_give_is_put_in_order_and_made_one() -> None:
    place = {"start": [1, 1], "end": [2, 2], ARRIVAL: [3, 3], TIE: [0, 1]}
    one = pl.DataFrame(place | {"x": pl.Series([1, "u"], dtype=pl.Object)})[[1, 0]]
    two = pl.DataFrame(place | {"x": pl.Series([None, None], dtype=pl.Null), ARRIVAL: [2, 9]})
    three = pl.DataFrame(place | {"x": [1.0, 2.5], "end": [1, 2]})
    assert merged_by_arrival([one]).rows() == [(1, 2, 3, 1), (1, 2, 3, "u")]
    assert merged_by_arrival([three, one, two]).drop("start").rows() == [
        (1, 3, 1.0), (2, 2, None), (2, 3, 1), (2, 3, 2.5), (2, 3, "u"), (2, 9, None)
    ]  # fmt: skip
    assert merged_identical([one, two, three, one]).rows() == [
        (1, 2, "u"),
        (1, 2, 1),
        (1, 2, None),
        (1, 1, 1.0),
        (1, 2, 2.5),
    ]


# --- the same as one engine ---


@pytest.mark.parametrize("path", some(CASES), ids=case_name)
def test_cases(path: Path) -> None:
    case = read_case(path)
    options: dict[str, Any] = {"policy": case.policy}
    if case.knowledge is not None:
        options["knowledge"] = known(case.knowledge)
    wanted = detect(case.program, case.events, **options)
    for count in (1, 2, 7):
        found = derived(case.program, case.events, count, count, **options)
        check(wanted, found, f"in {count} buckets (+) it is not what it is in one engine (-)")


def check_buckets(program: Program, count: int, data: st.DataObject) -> None:
    events = in_order(program.events)
    try:
        wanted = run(start(program), [events])
    except CepError:  # a recursion without end, of which each bucket has but a part
        return
    random = data.draw(st.randoms(use_true_random=False))
    arriving, lateness = [*enumerate(events)], 0
    if data.draw(st.booleans()):
        arriving, lateness = random.sample(arriving, len(arriving)), LONG
    found = Buckets(program.text, count, random, types=types(events)).run(cut(data, arriving), lateness)
    check(wanted, found, f"in {count} buckets (+) it is not what it is in one engine (-)")


@examples(40)
@given(keyed_programs(), COUNTS, st.data())
def test_keyed_programs(program: Program, count: int, data: st.DataObject) -> None:
    check_buckets(program, count, data)


@examples(20)
@given(keyed_programs(policies=False), COUNTS, st.data())
def test_keyed_programs_without_policies(program: Program, count: int, data: st.DataObject) -> None:
    check_buckets(program, count, data)


@examples(40)
@given(ANY, COUNTS, st.data())
def test_any_programs(program: Program, count: int, data: st.DataObject) -> None:
    check_buckets(program, count, data)
