"""Sets of intervals: every operator against its definition, instant by instant, and the laws between them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core import interval_sets as sets
from cep.core.interval_sets import INFINITE, Intervals, Reach, reach
from tests.long import examples

LAST = 12
"""Codes go from 0 to this in most tests: times 0 to 6, and the gaps between."""
PART = Fraction(1, 8)
TIMES = [step * PART for step in range(-4, LAST * 4 + 5)]

rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, LAST), st.integers(-1, 5)), max_size=12)
ranges = st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from(["[]", "[)", "(]", "()"]))


def made(of: list[tuple[int, int, int]]) -> Intervals:
    key, start, length = np.array(of, np.int64).reshape(-1, 3).T
    return sets.coalesce(key, start, np.minimum(start + length, LAST))


def codes(held: Intervals) -> set[tuple[int, int]]:
    """Every code of every key; infinite ends go a little way past the frame."""
    return {
        (key, code)
        for key, start, end in zip(*(column.tolist() for column in held), strict=True)
        for code in range(max(start, -40), min(end, 60) + 1)
    }


def code_of(time: Fraction) -> int:
    return int(2 * time) if time.denominator == 1 else 2 * (time.numerator // time.denominator) + 1


def lies(gap: Fraction, low: int, high: int | None, bounds: str) -> bool:
    above = gap >= low if bounds[0] == "[" else gap > low
    return above and (high is None or (gap <= high if bounds[1] == "]" else gap < high))


def is_maximal(held: Intervals) -> None:
    key, start, end = held
    assert key.dtype == start.dtype == end.dtype == np.int64
    assert (start <= end).all()
    follows = key[1:] == key[:-1]
    assert (key[1:] >= key[:-1]).all()
    assert (start[1:][follows] > end[:-1][follows] + 1).all()


def holding(held: Intervals) -> set[tuple[int, int]]:
    is_maximal(held)
    return codes(held)


@given(rows, rows)
def test_sets(one: list[tuple[int, int, int]], other: list[tuple[int, int, int]]) -> None:
    left, right = made(one), made(other)
    assert holding(left) == {(k, c) for k, s, n in one for c in range(s, min(s + n, LAST) + 1)}
    assert holding(sets.union(left, right)) == codes(left) | codes(right)
    assert holding(sets.intersect(left, right)) == codes(left) & codes(right)
    assert holding(sets.subtract(left, right)) == codes(left) - codes(right)


@examples(100)
@given(rows, rows, ranges)
def test_metric_operators(
    one: list[tuple[int, int, int]], other: list[tuple[int, int, int]], of: tuple[int, int, str]
) -> None:
    low, wide, bounds = of
    if wide == 0 and bounds != "[]":
        return
    high = low + wide
    by = reach(low, high, bounds)
    left, right = made(one), made(other)
    p, q = codes(left), codes(right)
    once, always, held_since, held_until, ever, box = (set() for _ in range(6))
    whole = [Fraction(code, 2) for code in range(-1, 2 * LAST + 2)]
    for key in range(3):
        for time in whole:
            near = [t for t in TIMES_WIDE if lies(time - t, low, high, bounds)]
            after = [t for t in TIMES_WIDE if lies(t - time, low, high, bounds)]
            at = (key, code_of(time))
            if any((key, code_of(t)) in p for t in near):
                once.add(at)
            if all((key, code_of(t)) in p for t in near):
                always.add(at)
            if any((key, code_of(t)) in p for t in after):
                ever.add(at)
            if all((key, code_of(t)) in p for t in after):
                box.add(at)
            if any((key, code_of(t)) in q and between(p, key, t, time) for t in near):
                held_since.add(at)
            if any((key, code_of(t)) in q and between(p, key, time, t) for t in after):
                held_until.add(at)
    frame = {(key, code_of(time)) for key in range(3) for time in whole}
    assert holding(sets.dilate(left, by)) & frame == once
    assert holding(sets.erode(left, by)) & frame == always
    assert holding(sets.dilate(left, by.mirrored)) & frame == ever
    assert holding(sets.erode(left, by.mirrored)) & frame == box
    assert holding(sets.since(left, right, by)) & frame == held_since
    assert holding(sets.until(left, right, by)) & frame == held_until


TIMES_WIDE = [step * PART for step in range(-80, LAST * 8 + 81)]


def between(p: set[tuple[int, int]], key: int, first: Fraction, last: Fraction) -> bool:
    """Whether it holds at all times strictly between."""
    low = code_of(first) + (first.denominator == 1)
    high = code_of(last) - (last.denominator == 1)
    return first == last or all((key, code) in p for code in range(low, high + 1))


@given(rows, st.integers(0, 4), st.booleans())
def test_lasting(one: list[tuple[int, int, int]], least: int, strictly: bool) -> None:
    held = made(one)
    long = [
        (k, s, e)
        for k, s, e in zip(*(column.tolist() for column in held), strict=True)
        if (gap := Fraction(e + e % 2, 2) - Fraction(s - s % 2, 2)) > least or (gap == least and not strictly)
    ]
    made_long = sets.lasting(held, least, strictly)
    assert list(zip(*(column.tolist() for column in made_long), strict=True)) == long


@given(rows, rows, ranges)
def test_laws(one: list[tuple[int, int, int]], other: list[tuple[int, int, int]], of: tuple[int, int, str]) -> None:
    low, wide, bounds = of
    by = reach(low, low + wide, bounds if wide else "[]")
    left, right = made(one), made(other)
    frame = made([(key, 0, LAST) for key in range(3)])

    def same(a: Intervals, b: Intervals) -> bool:
        return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))

    def outside(a: Intervals) -> Intervals:
        return sets.subtract(frame, a)

    assert same(sets.coalesce(*left), left)
    assert same(sets.union(left, left), left)
    assert same(sets.intersect(left, left), left)
    assert same(outside(sets.union(left, right)), sets.intersect(outside(left), outside(right)))
    assert same(outside(sets.intersect(left, right)), sets.union(outside(left), outside(right)))
    # dilation is the lower adjoint of erosion by the mirrored reach (Serra, Image Analysis, 1982)
    inside = sets.subtract(sets.dilate(left, by), right)
    assert (not len(inside.key)) == (not len(sets.subtract(left, sets.erode(right, by.mirrored)).key))
    # over the whole line, what was not always so was once otherwise
    line = Intervals(np.arange(3), np.full(3, -INFINITE), np.full(3, INFINITE))
    assert same(sets.subtract(line, sets.erode(left, by)), sets.dilate(sets.subtract(line, left), by))
    # whatever time cuts the input in two, both parts together give the same
    for cut in range(0, LAST, 3):
        parts = [
            made([(k, s, min(n, cut - s)) for k, s, n in one if s <= cut]),
            made([(k, max(s, cut + 1), s + n - max(s, cut + 1)) for k, s, n in one]),
        ]
        assert same(sets.union(sets.dilate(parts[0], by), sets.dilate(parts[1], by)), sets.dilate(left, by))


def test_ends_without_end() -> None:
    def one(start: int, end: int) -> Intervals:
        return Intervals(*(np.array([each], np.int64) for each in (0, start, end)))

    def ends(held: Intervals) -> list[tuple[int, int]]:
        return list(zip(held.start.tolist(), held.end.tolist(), strict=True))

    ever, until = one(-INFINITE, INFINITE), one(-INFINITE, 20)
    since = one(21, INFINITE)
    for by in (reach(0), reach(3), reach(2, 5), reach(2, 5, "()")):
        for each in (by, by.mirrored):
            assert ends(sets.dilate(ever, each)) == ends(sets.erode(ever, each)) == ends(ever)
    assert ends(sets.dilate(until, reach(0))) == ends(ever)
    assert ends(sets.dilate(since, reach(3))) == [(27, INFINITE)]
    assert ends(sets.erode(until, reach(3))) == [(-INFINITE, 26)]
    assert ends(sets.erode(since, reach(3))) == []
    assert ends(sets.erode(since, reach(3).mirrored)) == [(15, INFINITE)]
    assert ends(sets.since(ever, one(4, 5), reach(2))) == [(8, INFINITE)]
    assert ends(sets.lasting(since, 2**60)) == ends(since)
    far = 2**61
    assert ends(sets.dilate(one(far, far), reach(0, 2**60))) == [(far, far)]
    assert ends(sets.subtract(ever, one(5, INFINITE))) == [(-INFINITE, 4)]


def test_a_reach_that_has_nothing() -> None:
    with pytest.raises(ValueError, match=r"no displacement lies in \(2, 2\]"):
        reach(2, 2, "(]")
    assert reach(2, 2) == Reach(4, 4)
