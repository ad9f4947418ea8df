"""Events that are sent to every bucket because they are small, and goals that ask for an order."""

from __future__ import annotations

import pytest

from cep.engine import Engine, detect
from cep.events import Event
from cep.plan import partition as module
from cep.plan.partition import partition
from tests.cases_format import difference
from tests.partitions import crowded, derived, reasons, split

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
