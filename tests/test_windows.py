"""Windows of every form: their bounds, their state, values in their order; and that nothing depends on cuts, to the
last bit."""

from __future__ import annotations

import statistics
from bisect import insort
from datetime import UTC, datetime
from fractions import Fraction
from random import Random
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core.array_capacity import CHECKED
from cep.core.errors import CepError
from cep.core.time import Frontier
from cep.core.values import Pool
from cep.engine import Engine, detect
from cep.events import Event
from cep.operators.goals.windows import ordered_multiset
from cep.operators.goals.windows.order_labels import Labels
from cep.operators.goals.windows.ordered_multiset import NODE, SHARED, SPLITS
from cep.operators.goals.windows.sliding_aggregate import bounds_of
from cep.plan.explain import explain
from cep.rules.window_forms import DAY, MONDAY, WEEK, Over
from tests.long import examples
from tests.program_maker import SECOND
from tests.reference_windows import changes, local_window

HOUR = 3600 * SECOND
ZONES = (
    "Europe/Zurich", "America/Sao_Paulo", "America/Havana", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Cairo",
    "America/St_Johns", "Asia/Kathmandu",
)  # fmt: skip
LENGTHS = (DAY, 3 * DAY, 6 * HOUR, 2 * HOUR, 3 * HOUR // 2, HOUR, HOUR // 2, HOUR // 4)


@pytest.mark.parametrize("zone", ZONES)
def test_windows_by_the_clock_of_a_zone_are_those_of_the_definition(zone: str) -> None:
    random = Random(zone)
    near = [changes(zone)[i] for i in sorted(random.sample(range(len(changes(zone))), min(12, len(changes(zone)))))]
    times = sorted(
        {t + d for t in near for d in (-1, 0, random.randrange(-DAY, DAY), random.randrange(-HOUR, 3 * HOUR))}
    )
    for over in (*(Over("each", length, False, zone) for length in LENGTHS), Over("each", WEEK, True, zone)):
        starts, ends = bounds_of(over)(np.array(times, np.int64))
        found = list(zip(starts.tolist(), ends.tolist()))
        assert found == [local_window(zone, over.length, over.origin, time) for time in times], over


def test_days_of_a_zone_are_those_of_its_calendar() -> None:
    clock = ZoneInfo("Europe/Zurich")
    noons = [datetime(2024, 3, 1, 12, tzinfo=UTC).timestamp() + 86_400 * day for day in range(300)]
    starts, ends = bounds_of(Over("each", DAY, False, "Europe/Zurich"))(np.array(noons, np.int64) * SECOND)
    begins = [datetime.fromtimestamp(start // SECOND, clock) for start in starts.tolist()]
    assert {(each.hour, each.minute) for each in begins} == {(0, 0)}
    assert starts[1:].tolist() == (ends[:-1] + 1).tolist()
    lasting = ((ends + 1 - starts) // HOUR).tolist()
    assert sorted({hours: lasting.count(hours) for hours in lasting}.items()) == [(23, 1), (24, 298), (25, 1)]


def test_weeks_begin_on_monday() -> None:
    (start,), _ = bounds_of(Over("each", WEEK, True))(np.array([0]))
    assert start == MONDAY and datetime.fromtimestamp(start // SECOND, UTC).weekday() == 0


@pytest.mark.parametrize("frequency", [False, True])
@pytest.mark.parametrize("drift", [0, 1])
@examples(60)
@given(st.integers(0, 2**32), st.integers(1, 400), st.integers(0, 250))
def test_a_tree_of_values_has_them_in_order(drift: int, frequency: bool, seed: int, distinct: int, steps: int) -> None:
    random = Random(seed)
    nodes = np.empty((2 * SPLITS + 2 * steps, NODE), np.int64)
    shared = np.array([0, -1, *[0] * (SHARED - 2)], np.int64)
    root, known = -1, list[int]()
    for step in range(2 * steps):
        if known and (step >= steps or random.random() < 0.4):
            key = known.pop(random.randrange(len(known)) if random.random() < 0.5 else 0)
            root, times = ordered_multiset.remove(nodes, shared, root, key, frequency)
        else:
            key = random.randrange(distinct) - distinct // 2 + drift * step
            insort(known, key)
            root, times = ordered_multiset.add(nodes, shared, root, key, frequency)
        assert times == known.count(key)
        assert (root < 0) == (not known)
        if known and frequency:
            most = max(map(known.count, known))
            expected = min(each for each in known if known.count(each) == most)
            assert ordered_multiset.most_frequent(nodes, root) == (expected, most)
        elif known:
            rank = random.randrange(len(known))
            expected = known[min(rank + 1, len(known) - 1)]
            assert ordered_multiset.of_rank(nodes, root, rank) == (known[rank], expected)
    assert root < 0 or shared[ordered_multiset.USED] > 0


def test_what_leaves_a_tree_of_values_is_room_for_others() -> None:
    count, turns = 5000, 40 if CHECKED else 8
    nodes = np.empty((2000, NODE), np.int64)
    shared = np.array([0, -1, *[0] * (SHARED - 2)], np.int64)
    roots = [-1, -1]
    for turn in range(turns):
        for number in range(count):
            which = number % 2
            roots[which], _ = ordered_multiset.add(nodes, shared, roots[which], number * 7919 % 10007 + turn, False)
            if turn % 3 and number >= 100:
                old = (number - 100) * 7919 % 10007 + turn
                roots[which], _ = ordered_multiset.remove(nodes, shared, roots[which], old, False)
        for which in range(2):
            ordered_multiset.give_up(nodes, shared, roots[which])
            roots[which] = -1
    assert shared[ordered_multiset.USED] < 500


@examples(30)
@given(st.lists(st.lists(st.one_of(st.text("abü", max_size=3), st.integers(0, 3), st.booleans()), max_size=4)))
def test_labels_sort_as_values_do(batches: list[list[object]]) -> None:
    pool = Pool()
    labels, met = Labels(pool), list[int]()
    for batch in batches:
        codes = pool.encode_values(batch)  # type: ignore[arg-type]
        labels.meet(codes)
        met += codes.tolist()
    codes = np.array(sorted(set(met)), np.int64)
    order = codes[np.argsort(labels.of(codes))]
    values = [pool.value(code) for code in order.tolist()]
    kinds = [(isinstance(v, str), isinstance(v, bool)) for v in values]
    assert kinds == sorted(kinds)
    for kind in set(kinds):
        own = [v for v, k in zip(values, kinds) if k == kind]
        assert own == sorted(own)  # type: ignore[type-var]


def test_labels_that_have_no_room_between_them_are_made_anew() -> None:
    pool = Pool()
    labels = Labels(pool)
    codes = pool.encode_values(["a", *("b" * n for n in range(60, 0, -1))])
    moved = [labels.meet(codes[i : i + 1]) for i in range(len(codes))]
    assert any(moved)
    assert np.argsort(labels.of(codes)).tolist() == [0, *range(60, 0, -1)]


# --- to the last bit --------------------------------------------------------------------------------------------------

ALL = (
    "A = sum(X), B = avg(X), C = stddev(X), D = median(X), E = percentile(X, 95), F = mode(S), G = slope(X), "
    "H = rate(X), I = ewma(X, 3 s), J = count(distinct S), K = first(S), L = max(X)"
)
WINDOWS = (
    "LAST 70 EVENTS", "LAST 3 EVENTS", "LAST 20 s", "LAST 20 s EVERY 3 s", "EACH 7 s", "SESSION 500 ms",
    'EACH 1 d ZONE "Europe/Zurich"',
)  # fmt: skip
READING = "event a(k: int, x: float?, s: string?).\n"


def readings(count: int) -> list[Event]:
    random = Random(7)
    made, time = list[Event](), 0
    for _ in range(count):
        time += random.choice((0, 0, 1, 200_000, 700_000))
        x = None if random.random() < 0.1 else random.choice((random.gauss(0, 1e6), 1.5, 2.5))
        made.append(Event("a", (random.randrange(3), x, random.choice("uvwxyz")), time - random.choice((0, 5)), time))
    return made


def bits(made: dict[str, pl.DataFrame]) -> list[tuple[object, ...]]:
    return [
        tuple(each.hex() if isinstance(each, float) else each for each in row)
        for table in made.values()
        for row in table.iter_rows()
    ]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("by", ["", " BY K0"])
def test_results_are_the_same_to_the_last_bit_however_the_input_is_cut(window: str, by: str) -> None:
    head = f"e({'K0, ' * bool(by)}A, B, C, D, E, F, G, H, I, J, K, L)"
    program = f"{READING}{head} <- a(K0, X, S) AGGREGATE {ALL} OVER {window}{by}."
    events = readings(140)
    whole = Engine.from_text(program)
    expected = bits(whole.push(events)) + bits(whole.close())
    assert len(expected) > (0 if "d ZONE" in window else 2)
    for size in (1, 37):
        engine, found = Engine.from_text(program), list[tuple[object, ...]]()
        for at in range(0, len(events), size):
            found += bits(engine.push(events[at : at + size]))
            if at % 20 == 0 or size > 1:
                engine = Engine.from_text(program).restore(engine.snapshot())
        assert found + bits(engine.close()) == expected


@pytest.mark.parametrize("window", ["LAST 20 s", "LAST 5 EVENTS", "LAST 40 EVENTS"])
@pytest.mark.parametrize("numbers", [(0.1, 20.37, -3.5e6), (0.1, 1e12, -1e12, 0.75), (1, 2**40, 2**62, -(2**62))])
def test_sums_of_sliding_windows_are_exact(window: str, numbers: tuple[float, ...]) -> None:
    """The results are exact for values that can be subtracted and others, and for ascending starts and others.

    A rule has some of the functions, because all of a rule's windows lose their oldest value in the same way.
    """
    random, kind = Random(11), type(numbers[-1]).__name__
    events, time = list[Event](), 0
    for number in range(400):
        time += random.choice((0, 300_000, 700_000, 5 * SECOND))
        begin = time - random.choice((0, 0, 900_000) if number > 200 else (0,))
        x = None if random.random() < 0.1 else random.choice((*numbers, random.choice(numbers)))
        events.append(Event("a", (random.randrange(3), x), begin, time))
    functions = {"S": "sum(X)", "A": "avg(X)", "N": "count(X)", "L": "min(X)", "D": "count(distinct X)"}
    program = f"event a(k: int, x: {kind}?).\n"
    for chosen in (together := (*functions, "SAND", "SANDL")):
        results = ", ".join(f"{name} = {functions[name]}" for name in chosen)
        program += f"e{chosen}(K, {', '.join(chosen)}) <- a(K, X) AGGREGATE {results} OVER {window} BY K.\n"
    expected = []
    for key in range(3):
        own = sorted((e for e in events if e.args[0] == key), key=lambda e: (e.end, e.start))
        for end in sorted({event.end for event in own}):
            rows = [event for event in own if event.end <= end]
            rows = (
                rows[-int(window.split()[1]) :]
                if "EVENTS" in window
                else [e for e in rows if e.end > end - 20 * SECOND]
            )
            values = [event.args[1] for event in rows if event.args[1] is not None]
            total = sum(map(Fraction, values))
            summed = None if not values or (kind == "int" and abs(total) >= 2**63) else total
            mean = float(total) / len(values) if values else None
            expected.append(
                {
                    "S": summed if summed is None else type(numbers[-1])(summed),
                    "A": mean,
                    "N": len(values),
                    "L": min(values, default=None),
                    "D": len(set(values)),
                    "all": (key, min(event.start for event in rows), end),
                }
            )
    engine = Engine.from_text(program)
    found = engine.push(events[:200])
    engine = Engine.from_text(program).restore(engine.snapshot())
    later = [engine.push(events[200:]), engine.close()]
    for chosen in together:
        tables = [table[f"e{chosen}"] for table in (found, *later) if f"e{chosen}" in table]
        made = [(row[2], *row[:2], *row[3:]) for table in tables for row in table.iter_rows()]
        wanted = [(*row["all"], *(row[name] for name in chosen)) for row in expected]
        assert sorted(made, key=str) == sorted(wanted, key=str), chosen


@pytest.mark.parametrize("window", ["LAST 3 EVENTS", "LAST 40 EVENTS", "LAST 20 ms"])
@pytest.mark.parametrize("function", ["count()", "count(X)", "sum(K)", "sum(X)", "avg(X)"])
def test_single_results_are_those_of_windows_with_lineage(function: str, window: str) -> None:
    """Windows with lineage have no loop of their own. Instants have up to 150 results, so some must be sorted."""
    random, events, time = Random(5), list[Event](), 0
    for number in range(4_000):
        time += random.choice((0,) * 50 + (1_000, 30_000))
        begin = time - random.choice((0, 0, 40_000) if number > 2_500 else (0,))
        x = random.choice((1.5, 2.5, 1e-9, None) if number > 1_500 else (1.5, 2.5, None))
        events.append(Event("a", (random.randrange(300), x), begin, time))
    program = f"event a(k: int, x: float?).\ne(K, S) <- a(K, X) AGGREGATE S = {function} OVER {window} BY K.\n"
    plain, named = (Engine.from_text(program, explain=explain) for explain in (False, True))
    made = [plain.push(events), plain.close()]
    table = pl.concat([frames["e"] for frames in made if "e" in frames])
    wanted = [named.push(events), named.close()]
    assert table.equals(pl.concat([frames["e"] for frames in wanted if "e" in frames]).select(table.columns))
    assert table.equals(table.sort("end", "start", maintain_order=True))


def test_functions_are_those_of_the_libraries() -> None:
    numbers = [random.gauss(0, 9) for random in [Random(3)] for _ in range(50)]
    events = [Event("a", (x,), n * SECOND, n * SECOND) for n, x in enumerate(numbers)]
    for percent in (0, 10, 33.3, 50, 95, 99.9, 100):
        program = f"e(P) <- a(X) AGGREGATE P = percentile(X, {percent}) OVER LAST 20 EVENTS."
        expected = [float(np.percentile(numbers[max(0, n - 19) : n + 1], percent)) for n in range(50)]
        assert [event.args[0] for event in detect(program, events)] == pytest.approx(expected, rel=1e-12)
    program = "e(M, S) <- a(X) AGGREGATE M = median(X), S = slope(X) OVER LAST 20 s."
    found = [event.args for event in detect(program, events)]
    for n in range(1, 50):
        inside = range(max(0, n - 19), n + 1)
        values = [numbers[i] for i in inside]
        assert found[n][0] == statistics.median(values)
        assert found[n][1] == pytest.approx(statistics.linear_regression(list(inside), values).slope, rel=1e-9)


def test_a_slope_is_exact_far_from_1970_and_after_a_large_value() -> None:
    late = 1_700_000_000 * SECOND
    events = [Event("a", (1e15 if n == 0 else n / 8,), late + n, late + n) for n in range(40)]
    found = detect("e(S) <- a(X) AGGREGATE S = slope(X) OVER LAST 5 EVENTS.", events)
    assert [event.args[0] for event in found[10:]] == pytest.approx([125_000.0] * 30, rel=1e-9)


def test_a_percentile_between_the_farthest_floats_is_one() -> None:
    events = [Event("a", (x,), 0, n) for n, x in enumerate((-1.7e308, 1.7e308))]
    program = "e(M, P) <- a(X) AGGREGATE M = median(X), P = percentile(X, 25) OVER LAST 2 EVENTS."
    assert [event.args for event in detect(program, events)][1] == (0.0, pytest.approx(-0.85e308))


# --- state ------------------------------------------------------------------------------------------------------------


def size(engine: Engine) -> tuple[int, int]:
    return engine._parts.machine.size


@pytest.mark.parametrize("window", ["EACH 1 h", "SESSION 1 h", "LAST 2 s EVERY 1 s", "LAST 2 s"])
@pytest.mark.parametrize("function", ["avg(X)", "median(X)", "mode(S)"])
@pytest.mark.parametrize("count", [300, pytest.param(3000, marks=pytest.mark.long)])
def test_what_is_over_is_forgotten(window: str, function: str, count: int) -> None:
    engine = Engine.from_text(f"{READING}e(K, V) <- a(K, X, S) AGGREGATE V = {function} OVER {window} BY K.")
    for hour in range(6):
        base = hour * 3 * HOUR
        events = [
            Event("a", (n % 50, n / 7, f"{hour} {n}"), base + n * 10_000, base + n * 10_000) for n in range(count)
        ]
        engine.push(events)
    many = size(engine)
    engine.advance(20 * HOUR)
    engine._parts.machine.evict(Frontier.at(20 * HOUR))
    assert size(engine)[0] == 0 and size(engine)[1] < many[1]
    if function == "avg(X)" and "1 h" in window:
        assert many[0] == 50, "one running result a group"


def test_windows_end_as_time_goes_on_without_events() -> None:
    engine = Engine.from_text("event a(x: int). e(N) <- a(_) AGGREGATE N = count() OVER EACH 1 h.")
    assert not engine.push([Event("a", (1,), 0, 0)])
    assert not engine.advance(HOUR - 2)
    assert engine.advance(HOUR - 1)["e"].rows() == [(0, HOUR - 1, 1)]


@pytest.mark.parametrize("window", ["EACH 1 h", "SESSION 1 h", "LAST 2 h EVERY 1 h"])
def test_a_window_cannot_hold_its_own_result(window: str) -> None:
    with pytest.raises(CepError, match="an aggregate depends on its own result at the same instant"):
        Engine.from_text(f"event a(x: int). e(N) <- (a(N) OR e(N)) AGGREGATE N2 = count() OVER {window} BY N.")


def test_a_window_may_hold_what_its_result_led_to_later() -> None:
    program = """
        event a(x: int).
        e(N) <- x(_) AGGREGATE N = count() OVER EACH 5 s.
        x(1) <- a(_).
        x(2) <- e(_) SEQ a(_)."""
    events = [Event("a", (n,), n * SECOND, n * SECOND) for n in range(9)]
    assert [event.args for event in detect(program, events) if event.type == "e"] == [(5,), (8,)]


def test_the_plan_says_what_is_kept() -> None:
    program = "event a(x: float).\ne(V) <- a(X) AGGREGATE V = {} OVER {}."
    for function, window, kept, until in (
        ("avg(X)", "EACH 1 h", "one running result a group", "when its window is over"),
        ("median(X)", "EACH 1 week", "a(X) in the window", "when its window is over"),
        ("mode(X)", "SESSION 5 min", "a(X) in the window", "when its group has no event for 5 min"),
        ("avg(X)", "LAST 1 h EVERY 5 min", "a(X) in the window", "at the next multiple of 5 min after 1 h"),
    ):
        said = explain(Engine.from_text(program.format(function, window)).plan)
        assert f"OVER {window}" in " ".join(said.split())
        assert f"remembers  {kept}\n" in said and f"forgets    {until}\n" in said


@pytest.mark.parametrize("seed", range(6))
def test_a_result_depends_on_the_rows_of_its_window_to_the_last_bit(seed: int) -> None:
    rng, length = Random(f"own rows {seed}"), 20
    text = (
        "event a(v: float).\n"
        f"d(S, M, D) <- a(V) AGGREGATE S = sum(V), M = avg(V), D = stddev(V) OVER LAST {length / 1_000_000:.6f} s.\n"
    )
    inexact = rng.choice((0.02, 0.2, 1))
    events, now = list[Event](), 0
    for _ in range(200):
        now += rng.choice((0, 1, 1, 2, 3, rng.choice((1, 15, 30))))
        value = rng.random() * 10.0 ** rng.randint(-14, 14) if rng.random() < inexact else rng.random() + 1
        events.append(Event("a", (value,), now - rng.choice((0, 0, 0, rng.randint(0, 9))), now))

    def results(events: list[Event]) -> pl.DataFrame:
        after = Event("a", (0.0,), now + 100, now + 100)  # the results of an instant come with a later event
        return Engine.from_text(text).push([*events, after])["d"].select("end", "s", "m", "d")

    for row in results(events).rows():
        own = [event for event in events if row[0] - length < event.end <= row[0]]
        assert results(own).rows()[-1] == row
