"""Rows looked at by key: where few left sides wait, only what may find a partner is searched, and nothing changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core.relation import END, FIRST, ORDER, START, Table
from cep.core.stable_order import stable_order, stable_order_of
from cep.engine import Engine
from cep.operators.goals.arrival import MANY, order_of_arrival, places
from cep.operators.goals.keys import MISSING, Keys
from cep.operators.goals.pairs import join, rows_by_key
from cep.operators.goals.pairs.rows_by_key import SharedRows, near
from cep.operators.goals.store import END as T_END
from cep.operators.goals.store import GONE, HEADER, HOT, NEXT, SLOT
from tests import reference
from tests.long import examples
from tests.programs import Program, contests, programs, recursions
from tests.test_equivalence import check, cut, in_order, run, start

NUMBERS = st.integers(0, 2**32 - 1)


@contextmanager
def always() -> Iterator[None]:
    """Rows are looked at by key however few come, and however many wait."""
    with patch.object(rows_by_key, "MANY", 0), patch.object(rows_by_key, "FEW", 0):
        yield


def table(random: np.random.Generator, count: int, keys: int) -> Table:
    """Random occurrences in order of arrival, of so many keys of two columns; some lack one."""
    found = np.zeros((FIRST + 2, count), np.int64)
    ends = np.sort(random.integers(0, 40, count))
    found[START], found[END] = ends - random.integers(0, 5, count), ends
    found[ORDER] = np.arange(count)
    found[FIRST:] = random.integers(0, keys, (2, count))
    found[FIRST:, random.random(count) < 0.1] = MISSING
    return found


@examples(300)
@given(NUMBERS, st.integers(1, 3), st.integers(0, 50))
def test_rows_that_may_find_a_partner(number: int, width: int, reach: int) -> None:
    random = np.random.default_rng(number)
    columns = np.arange(min(width, 2))
    right, left = table(random, int(random.integers(0, 60)), 3), table(random, int(random.integers(0, 20)), 4)
    before = table(random, int(random.integers(0, 20)), 4)
    keys = Keys(len(columns))
    slots = [keys.slots(each, columns) for each in (before, left)]
    hot, cold = np.zeros((before.shape[1], HOT), np.int64), np.zeros((before.shape[1], HEADER), np.int64)
    hot[:, T_END], hot[:, NEXT], cold[:, SLOT] = before[END], -1, slots[0]
    hot[random.random(len(hot)) < 0.2, NEXT] = GONE
    known = slots[0] >= 0
    waiting = hot[known], cold[known], int(known.sum())
    sides = [
        (tuple(each[FIRST + columns, n]), int(each[END, n]))
        for each, there in ((before, known & (hot[:, NEXT] != GONE)), (left, slots[1] >= 0))
        for n in np.flatnonzero(there)
    ]
    wanted = [
        n
        for n in range(right.shape[1])
        if any(key == tuple(right[FIRST + columns, n]) and 0 <= int(right[END, n]) - end <= reach for key, end in sides)
    ]
    found = near(SharedRows(), right, columns, keys, waiting, left, slots[1], reach)
    assert found[ORDER].tolist() == (list(range(right.shape[1])) if 2 * len(wanted) > right.shape[1] else wanted)


@examples(300)
@given(st.one_of(programs(), contests(), recursions()), st.data())
def test_programs_by_key(program: Program, data: st.DataObject) -> None:
    events = in_order(program.events)
    with always():
        actual = run(start(program), cut(data, events))
    check(reference.detect(program.text, events), actual, "by key (+) it is not the reference (-)")


RULES = """
event a(id: int, x: int) TIME time. event b(id: int, x: int) TIME time.
policy {policy}.
""" + "\n".join(
    f"ab(I, X, Y) <- (a(I, X) SEQ b(I, Y)) WITHIN 40 ms WHERE X >= {n}, X < {n + 5}." for n in range(0, 50, 5)
)


@pytest.mark.parametrize("policy", ["unrestricted", "recent", "chronological"])
def test_many_rules_over_one_event(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random, count = np.random.default_rng(7), 12_000
    events = {
        name: pl.DataFrame(
            {
                "id": random.integers(0, 20, count),
                "x": random.integers(0, 50, count),
                "time": np.sort(random.integers(0, 24_000_000, count)),
            }
        )
        for name in ("a", "b")
    }
    found, asked = [], list[bool]()

    def counted(waiting: int, right: Table) -> bool:
        asked.append(rows_by_key.are_few(waiting, right))
        return asked[-1]

    for way in (counted, lambda waiting, right: False):
        monkeypatch.setattr(join, "are_few", way)
        engine = Engine.from_text(RULES.format(policy=policy))
        cuts = range(0, count, 4000)
        pieces = [engine.push({name: each[at : at + 4000] for name, each in events.items()}) for at in cuts]
        found.append(pl.concat([each["ab"] for each in (*pieces, engine.close()) if "ab" in each]))
    assert any(asked) and found[0].height > count / 10
    assert found[0].equals(found[1])


@examples(300)
@given(NUMBERS, st.integers(0, 300), st.sampled_from([0.0, 0.01, 0.06, 0.5, 1.0]))
def test_places_where_something_is_true(number: int, count: int, share: float) -> None:
    mask = np.random.default_rng(number).random(count) < share
    assert places(mask).tolist() == np.flatnonzero(mask).tolist()


@examples(100)
@given(NUMBERS, st.integers(1, 6), st.integers(0, 3), st.integers(1, 2**40))
def test_pieces_that_go_up_are_merged(number: int, pieces: int, odd: int, high: int) -> None:
    """Equal values stay as they come, and single ones may be anywhere."""
    random = np.random.default_rng(number)
    sizes = [int(random.integers(0, 400)) for _ in range(pieces)] + [1] * odd
    values = np.concatenate([np.sort(random.integers(-high, high, size)) for size in sizes])
    assert (stable_order(values) == np.argsort(values, kind="stable")).all()
    assert (stable_order_of(values, values[::-1]) == np.lexsort((values[::-1], values))).all()


@examples(40)
@given(NUMBERS, st.sampled_from((1, 3, 40, MANY + 5)), st.sampled_from((2, 60, 300)))
def test_rows_that_end_together_are_merged_from_runs(seed: int, runs: int, length: int) -> None:
    """Each run ascends or descends, like the partners of one event, and some rows are equal."""
    random = np.random.default_rng(seed)
    values = [np.sort(random.integers(0, 50 * length, random.integers(1, length + 1))) for _ in range(runs)]
    starts = np.concatenate([each[:: random.choice((-1, 1))] for each in values])
    ends = np.sort(random.integers(0, 3, len(starts)))
    rows = np.stack([starts, ends, random.integers(0, 3, len(starts)), np.zeros(len(starts), np.int64)])
    assert (order_of_arrival(rows) == np.lexsort((rows[ORDER], rows[START], rows[END]))).all()
    mixed = np.ascontiguousarray(rows[:, random.permutation(len(starts))])
    assert (order_of_arrival(mixed) == np.lexsort((mixed[ORDER], mixed[START], mixed[END]))).all()
