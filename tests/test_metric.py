"""The temporal operators as they go step by step: against their definitions by points and gaps, whatever the cuts, with
restores; and that they keep no more than they need."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from benchmarks import metric as benchmark
from benchmarks.intervals import changes_of, intervals_of
from cep.core.interval_sets import INFINITE, Intervals, Reach, coalesce, reach
from cep.core.metric_operators import TEMPORAL
from cep.core.stable_order import stable_order
from cep.operators.goals.fluents.changes import Changes, by_code, no_changes
from cep.operators.goals.fluents.temporal_evaluation import BEFORE_ALL, TemporalEvaluation
from tests.long import seeds

TWO = ("SINCE", "UNTIL")
KEYS = 3
FIRST, LAST = -6, 14
"""Times, in microseconds, at which inputs change; they are constant before and after."""
LOW, HIGH = -18, 28
"""Between these times results are compared."""
FAR = 4 * 48
"""How far in quarters a reach without end is tried: beyond it nothing changes."""

Rows = list[tuple[int, int, int]]


def changes(rows: Rows) -> Changes:
    """Rows (key, code, begins) in any order."""
    key, code, begins = np.array(sorted(rows, key=lambda row: (row[1], row[0])), np.int64).reshape(-1, 3).T.copy()
    return Changes(key, code, begins)


def random_held(rng: random.Random) -> Intervals:
    """Maximal intervals of the keys, some without beginning or end."""
    rows = []
    for key in range(KEYS):
        for _ in range(rng.choice((0, 1, 2, 5))):
            start = rng.randint(2 * FIRST, 2 * LAST)
            rows.append((key, start, min(start + rng.choice((0, 0, 1, 2, 5, 12, 30)), 2 * LAST)))
        if rng.random() < 0.2:
            rows.append((key, -INFINITE, rng.randint(2 * FIRST, 2 * LAST)))
        if rng.random() < 0.2:
            rows.append((key, rng.randint(2 * FIRST, 2 * LAST), INFINITE))
    key, start, end = np.array(rows, np.int64).reshape(-1, 3).T
    return coalesce(key, start, end)


def random_reach(rng: random.Random) -> tuple[int, int | None, str]:
    low = rng.choice((0, 0, 0, 1, 2, 5))
    high = rng.choice((low, low + 1, low + 2, low + 7, None))
    bounds = "[]" if high == low else rng.choice(("[]", "[)", "(]", "()"))
    return low, high, bounds


class Held:
    """What holds of a key, by quarters of microseconds: the point t is 4t, the time after it 4t + 1 to 4t + 3."""

    def __init__(self, held: Intervals, key: int) -> None:
        chosen = held.key == key
        self.ends = list(zip(held.start[chosen].tolist(), held.end[chosen].tolist(), strict=True))
        self.at = {q: self._at(q) for q in range(4 * LOW - FAR - 8, 4 * HIGH + FAR + 8)}

    def _at(self, quarter: int) -> bool:
        code = 2 * (quarter // 4) + (quarter % 4 > 0)
        return any(start <= code <= end for start, end in self.ends)


def by_definition(
    operator: str, p: Held, q: Held | None, of: tuple[int, int | None, str], least: int, quarter: int
) -> bool:
    low, high, bounds = of
    first = 4 * low + (bounds[0] == "(")
    last = FAR if high is None else 4 * high - (bounds[1] == ")")
    near = range(first, last + 1)
    match operator:
        case "ONCE":
            return any(p.at[quarter - d] for d in near)
        case "HISTORICALLY":
            return all(p.at[quarter - d] for d in near)
        case "EVENTUALLY":
            return any(p.at[quarter + d] for d in near)
        case "ALWAYS":
            return all(p.at[quarter + d] for d in near)
        case "SINCE" | "UNTIL":
            step = -1 if operator == "SINCE" else 1
            for d in range(last + 1):
                between = min(quarter + step * d, quarter + step * (d - 1)) // 4 * 4 + 2
                if d and not p.at[between]:
                    return False  # not even up to the next quarter
                if d in near and q.at[quarter + step * d]:
                    return True
                if d and not p.at[quarter + step * d]:
                    return False
            return False
        case _:
            if not p.at[quarter]:
                return False
            first = last = quarter
            while p.at.get(first - 1):
                first -= 1
            while p.at.get(last + 1):
                last += 1
            ends = first - 1 not in p.at or last + 1 not in p.at
            return ends or -(-last // 4) - first // 4 >= least


def expected(operator: str, held: list[Intervals], of: tuple[int, int | None, str], least: int) -> set[tuple[int, int]]:
    found = set()
    for key in range(KEYS):
        p, q = Held(held[0], key), Held(held[1], key) if len(held) > 1 else None
        for code in range(2 * LOW, 2 * HIGH):
            quarter = 4 * (code // 2) + 2 * (code % 2)
            if by_definition(operator, p, q, of, least, quarter):
                found.add((key, code))
    return found


def between(every: Changes, after: int, decided: int) -> Changes:
    some = (every.code > after) & (every.code <= decided)
    return Changes(*(column[some] for column in every))


def renumbered(given: Changes, numbers: np.ndarray) -> Changes:
    """With other keys, and in the order of those."""
    key, code, begins = numbers[given.key], given.code, given.begins
    order = np.lexsort((key, code))
    return Changes(key[order], code[order], begins[order])


@pytest.mark.parametrize("operator", TEMPORAL)
@pytest.mark.parametrize("seed", seeds(20))
def test_by_points_and_gaps_however_the_input_is_cut(operator: str, seed: int) -> None:
    rng = random.Random(f"{operator} {seed}")
    for _ in range(4):
        held = [random_held(rng) for _ in range(2 if operator in TWO else 1)]
        of, least = random_reach(rng), rng.randint(0, 8)
        by = reach(*of)
        wanted = expected(operator, held, of, least)
        once, _ = TemporalEvaluation(operator, by, least).step([changes_of(each) for each in held], INFINITE)
        check(once, wanted)
        assert_same(stepped(rng, operator, by, least, held), once)


def check(given: Changes, wanted: set[tuple[int, int]]) -> None:
    assert_turns(given)
    key, start, end = intervals_of(given)
    found = {
        (k, code)
        for k, s, e in zip(key.tolist(), start.tolist(), end.tolist(), strict=True)
        for code in range(max(s, 2 * LOW), min(e, 2 * HIGH - 1) + 1)
    }
    assert found == wanted


def assert_turns(given: Changes) -> None:
    """Sorted by code, then key; of one key beginnings and ends take turns, at different codes."""
    places = list(zip(given.code.tolist(), given.key.tolist(), strict=True))
    assert places == sorted(set(places))
    for key in range(KEYS):
        begins = given.begins[given.key == key].tolist()
        assert begins == [1 - i % 2 for i in range(len(begins))]


def assert_same(one: Changes, other: Changes) -> None:
    for a, b in zip(one, other, strict=True):
        assert a.tolist() == b.tolist()


def stepped(rng: random.Random, operator: str, by: Reach, least: int, held: list[Intervals]) -> Changes:
    """The same in steps that end anywhere, with restores, keys that are given other numbers, and keys moved away and
    back."""
    metric = TemporalEvaluation(operator, by, least)
    numbers = np.arange(KEYS + 2)
    inputs = [changes_of(each) for each in held]
    cuts = sorted(rng.choices(range(2 * FIRST - 4, 2 * LAST + 30), k=rng.randint(0, 25)))
    parts, decided, given = [], BEFORE_ALL, BEFORE_ALL
    due = metric.due()
    for cut in [*cuts, INFINITE]:
        step = [between(each, decided, cut) for each in inputs]
        quiet = not any(len(each.key) for each in step)
        ahead = rng.choice((None, None, cut + rng.randint(0, 12))) if cut < INFINITE else None
        made, known = metric.step([renumbered(each, numbers) for each in step], cut, ahead)
        back = np.argsort(numbers)
        parts.append(renumbered(made, back) if len(made.key) else made)
        assert known >= given, "what is decided stays so"
        assert ((made.code > given) & (made.code <= known)).all()
        if quiet and ahead is None and cut < INFINITE:
            assert (due is not None and due <= cut) == (len(made.key) > 0)
        decided, given, due = cut, known, metric.due()
        if rng.random() < 0.3:
            state = metric.snapshot()
            numbers = np.array(rng.sample(range(KEYS + 2), KEYS + 2))
            state["key"] = numbers[back[state["key"]]]
            metric = TemporalEvaluation(operator, by, least)
            metric.restore(state)
            assert due == metric.due()
        if rng.random() < 0.2:
            going = np.array(sorted(rng.sample(range(KEYS + 2), 2)))
            going = np.intersect1d(going, metric.kept())
            taken, rows = metric.snapshot(going), metric.rows
            metric.drop(going)
            assert not set(metric.kept()) & set(going)
            metric.add(taken)
            assert metric.rows == rows
    assert given == INFINITE
    return Changes(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def points(times: list[int], key: int = 0) -> Changes:
    return changes([(key, 2 * t + odd, 1 - odd) for t in times for odd in (0, 1)])


@pytest.mark.parametrize("every", [1_000_000, 100_000, 10_000])
def test_a_reach_back_keeps_few_intervals_however_often_its_input_holds(every: int) -> None:
    """P at every so many microseconds under ONCE[0, 2 s], and HISTORICALLY[0, 2 s] of that."""
    once, always = (
        TemporalEvaluation("ONCE", reach(0, 2_000_000)),
        TemporalEvaluation("HISTORICALLY", reach(0, 2_000_000)),
    )
    times = list(range(0, 12_000_000, every))
    most, parts = 0, []
    for now in range(0, 12_000_000, 500_000):
        some = points([t for t in times if now <= t < now + 500_000])
        made, decided = once.step([some], 2 * (now + 500_000) - 1)
        parts.append(always.step([made], decided)[0])
        most = max(most, once.rows, always.rows)
    parts.append(always.step([once.close()[0]], INFINITE)[0])
    assert most == 2, "a key and an interval of it"
    assert once.rows == always.rows == 0
    held = intervals_of(Changes(*(np.concatenate(columns) for columns in zip(*parts, strict=True))))
    assert [column.tolist() for column in held] == [[0], [4_000_000], [2 * (times[-1] + 2_000_000)]]


@pytest.mark.parametrize("operator", [each for each in TEMPORAL if each != "LASTING"])
@pytest.mark.parametrize("of", [(3, 10), (0, 10), (9, 10), (0, None)])
def test_what_is_kept_is_bounded(operator: str, of: tuple[int, int | None]) -> None:
    """Of [a, b] at most b / (b - a) + 2 intervals, and the key."""
    rng = random.Random(1)
    low, high = of
    if high is None and TEMPORAL[operator].ahead:
        high = 40
    metric = TemporalEvaluation(operator, reach(low, high))
    bound = 1 + (2 if high is None else high / (high - low) + 2)
    right = points(sorted(rng.sample(range(800), 400)))
    often = [] if operator == "UNTIL" else [(0, 2 * t + odd, odd) for t in range(7, 800, 31) for odd in (0, 1)]
    left = changes([(0, -INFINITE, 1), *often])
    inputs = [left, right] if metric.inputs == 2 else [left if operator in ("HISTORICALLY", "ALWAYS") else right]
    decided = BEFORE_ALL
    for cut in range(1, 1600, 2):
        metric.step([between(each, decided, cut) for each in inputs], cut)
        assert metric.rows <= bound
        decided = cut


def test_timers_of_what_waits_for_something_else_go() -> None:
    """An input that ends and begins again and again before HISTORICALLY can hold: one timer a key, about."""
    metric = TemporalEvaluation("SINCE", reach(0, 1_000_000))
    for t in range(0, 40_000, 8):
        left = [(0, 2 * t, 1), (0, 2 * t + 8, 0)]
        metric.step([changes(left), points([t + 1])], 2 * t + 15)
    assert metric.nbytes < 100_000
    metric = TemporalEvaluation("ONCE", reach(0, 1000))
    for t in range(200):
        metric.step([changes([(key, 20 * t + odd, 1 - odd) for key in range(50) for odd in (0, 1)])], 20 * t + 5)
    assert metric.nbytes < 100_000 and metric.rows == 100


def test_what_lasts_for_ever() -> None:
    """ONCE without end keeps the tuple; HISTORICALLY without end what has always held, until it does not."""
    once = TemporalEvaluation("ONCE", reach(2))
    made, _ = once.step([changes([(0, 4, 1), (0, 5, 0), (1, 6, 1), (1, 9, 0)])], 20)
    assert [column.tolist() for column in made] == [[0, 1], [8, 10], [1, 1]]
    assert once.due() is None and once.kept().tolist() == [0, 1]
    always = TemporalEvaluation("HISTORICALLY", reach(0))
    made, _ = always.step([changes([(0, -INFINITE, 1), (0, 8, 0), (0, 9, 1), (1, 4, 1)])], 20)
    assert [column.tolist() for column in made] == [[0, 0], [-INFINITE, 8], [1, 0]]
    assert not len(always.kept())


def test_infinite_ahead_waits_for_the_end() -> None:
    ever = TemporalEvaluation("EVENTUALLY", reach(1))
    made, known = ever.step([changes([(0, 4, 1), (0, 5, 0)])], 20)
    assert not len(made.key) and known == BEFORE_ALL and ever.due() is None
    made, known = ever.close()
    assert known == INFINITE
    assert [column.tolist() for column in made] == [[0, 0], [-INFINITE, 3], [1, 0]]


def test_an_end_that_is_given() -> None:
    """What goes on by itself is given as far as is asked for."""
    metric = TemporalEvaluation("ONCE", reach(5, 5))
    metric.step([points([0, 4])], 9)
    made, known = metric.close(15)
    assert known == 15 and made.code.tolist() == [10, 11]
    made, known = metric.step([no_changes()], INFINITE)
    assert known == INFINITE and made.code.tolist() == [18, 19]


def test_sorting_words() -> None:
    rng = np.random.default_rng(3)
    for span in (3, 5000, 2**40, 2**60):
        values = rng.integers(-span, span, 20_000)
        values[rng.integers(0, 20_000, 50)] = -INFINITE
        values[rng.integers(0, 20_000, 50)] = INFINITE
        assert (stable_order(values) == np.argsort(values, kind="stable")).all()
    assert stable_order(np.full(5000, INFINITE)).tolist() == list(range(5000))


def test_changes_are_those_of_intervals() -> None:
    rng = random.Random(4)
    for _ in range(50):
        held = random_held(rng)
        given = changes_of(held)
        assert [c.tolist() for c in intervals_of(given)] == [c.tolist() for c in held]
        order = np.lexsort((given.code, given.key))
        assert_same(by_code(*(column[order] for column in given)), given)


def test_many_keys_at_once_as_one_by_one() -> None:
    """More rows than are compared when they are sorted."""
    rng = np.random.default_rng(5)
    for operator in TEMPORAL:
        inputs = []
        for _ in range(2 if operator in TWO else 1):
            start = rng.integers(0, 5_000, 9000)
            inputs.append(changes_of(coalesce(rng.integers(0, 400, 9000), start, start + rng.integers(0, 300, 9000))))
        whole, _ = TemporalEvaluation(operator, reach(3, 40), 20).step(inputs, INFINITE)
        metric, parts, decided = TemporalEvaluation(operator, reach(3, 40), 20), [], BEFORE_ALL
        for cut in (1001, 1002, 3001, INFINITE):
            parts.append(metric.step([between(each, decided, cut) for each in inputs], cut)[0])
            decided = cut
        assert_same(Changes(*(np.concatenate(columns) for columns in zip(*parts, strict=True))), whole)
        assert all(a <= b for a, b in pairwise(whole.code.tolist()))


@pytest.mark.parametrize("name", benchmark.NAMES)
def test_what_is_measured_is_what_the_loops_give(name: str) -> None:
    given = benchmark.inputs(name, 400, 5)
    loop = benchmark.looped(name, benchmark.as_rows(given), 5)
    assert benchmark.sums(benchmark.stepped(name, given, 5)) == benchmark.sums_of(loop)
    assert loop
