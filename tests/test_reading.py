"""What a program costs before its first event grows in proportion to its text, whatever there is much of in it.

Work is counted, not timed: the calls of Python functions, and bytes at the peak.
"""

from __future__ import annotations

import sys
import tracemalloc
from math import log
from typing import Any

import pytest

from benchmarks.reading import KINDS, READING, read
from cep.core.errors import MOST, CepErrors
from cep.engine import Engine, detect
from cep.events import Event
from tests.long import some

GROWN = 1.25
"""The greatest exponent: what is sorted takes a little more than in proportion."""
ROOM = 40_000_000
"""Bytes that a machine asks for once (`cep.runtime.memory`), and some."""
PART = 0.16
"""Of the sizes of the benchmark."""
LETTERS = [kind for kind in KINDS if kind.startswith(("letters", "digits", "lines"))]
OTHERS = {
    "static rules that call each other": 1.0,
    "TIMES": 1.0,
    "rules in a ring": 0.5,
    "operators in a row": 0.2,
    "alternatives of OR": 0.2,
    "mistakes: names of attributes": 0.4,  # beyond the hundred that are reported
    "mistakes: predicates nearly known": 0.4,
}


def calls(text: str) -> int:
    """Functions called while a text is read, C's among them."""
    count = 0

    def called(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        read(text)
    finally:
        sys.setprofile(before)
    return count


def peak(text: str) -> int:
    """Bytes at the peak while a text is read."""
    tracemalloc.start()
    try:
        read(text)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", some(kind for kind in KINDS if kind not in LETTERS))
def test_four_times_as_much_takes_four_times_the_calls(kind: str) -> None:
    size, text = KINDS[kind]
    n = max(2, int(size * OTHERS.get(kind, PART)))
    read(text(n))  # what is loaded and compiled once is not counted
    few, many = calls(text(n)), calls(text(4 * n))
    assert log(many / few, 4) < GROWN, f"{few:,} calls for {n}, {many:,} for {4 * n}"


@pytest.mark.parametrize("kind", LETTERS)
def test_long_names_texts_and_comments_take_memory_in_proportion(kind: str) -> None:
    size, text = KINDS[kind]
    read(text(1000))
    assert peak(text(size)) < 40 * size + ROOM


def test_a_name_of_a_million_letters_is_read() -> None:
    name = "a" * 1_000_000
    assert peak(f"event e(x: int) TIME t. {name}(X) <- e(X). b(X) <- {name}(X).") < 100_000_000


def test_many_arguments_make_no_high_tree() -> None:
    values = ", ".join(f"X - {i}" for i in range(3000))
    rule = f"event e(x: int) TIME t. b(max({values}), min({values})) <- e(X)."
    assert detect(rule, [Event("e", (5000,), 0, 0)]) == [Event("b", (5000, 2001), 0, 0)]


def test_predicates_that_are_called_are_planned_once_for_each_way_of_calling() -> None:
    text = "event e(id: int) TIME t. p0(X) :- X > 0.\n"
    text += "".join(f"p{i + 1}(X) :- p{i}(X), p{i}(X + 1).\n" for i in range(30))
    assert calls(text) < 100_000


def test_predicates_that_are_called_call_others_so_deep_and_no_deeper() -> None:
    def chain(n: int) -> str:
        rules = "".join(f"p{i + 1}(X) :- p{i}(X), X != {i}.\n" for i in range(n))
        return f"event e(id: int) TIME t. p0(X) :- X > 0.\n{rules}b(I) <- e(I) WHERE p{n}(I)."

    events = [Event("e", (3,), 0, 0), Event("e", (77,), 1, 1)]
    assert detect(chain(49), events) == [Event("b", (77,), 1, 1)]
    assert read(chain(400)).endswith("`p50` depends on more than 50 levels of other predicates")


def test_times_within_times_is_refused_where_it_makes_too_many_events() -> None:
    text = "a(X)"
    for _ in range(7):
        text = f"({text} TIMES 100)"
    answer_text = read(f"event a(x: int) TIME t. o(1) <- {text} WITHIN 1 h.")
    assert answer_text.endswith("this TIMES makes a pattern of more than 20,000 events")
    assert read("event a(x: int) TIME t. o(1) <- ((a(X) TIMES 10) TIMES 10) WITHIN 1 h.").startswith("read")


def test_times_within_times_is_renamed_once_a_level() -> None:
    def nested(n: int) -> str:
        return f"event a(x: int) TIME t. o(1) <- {'(' * n}a(X){' TIMES 1)' * n} TIMES 2 WITHIN 1 h."

    assert calls(nested(16)) < 3 * calls(nested(8))
    events = [Event("a", (x,), x, x) for x in (1, 2, 3)]
    assert len(detect(nested(60), events)) == 3


def test_a_hundred_mistakes_are_told_and_then_no_more() -> None:
    wrong = "".join(f"r{i}(I) <- e(I, _, _, _) WHERE nothing{i}(I).\n" for i in range(1000))
    with pytest.raises(CepErrors) as raised:
        Engine.from_text(READING + wrong)
    assert len(raised.value.errors) == MOST
    assert str(raised.value).endswith("these are 100 mistakes; more are looked for when they are corrected")
    with pytest.raises(CepErrors) as raised:
        Engine.from_text(READING + "".join(wrong.splitlines(keepends=True)[:99]))
    assert len(raised.value.errors) == 99 and "corrected" not in str(raised.value)
