"""Points on the earth are found by their distance as looking at all of them finds them."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cep.knowledge.point_index import LEAF, PointIndex, _sort
from cep.rules.expressions.geodesy import cartesian
from tests.long import examples


def points(random: Random, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Anywhere, and many at one place, at the poles and about the date line."""
    lat = [random.choice((random.uniform(-90, 90), 48.0, 90.0, -90.0)) for _ in range(count)]
    long = [random.choice((random.uniform(-180, 180), 16.0, 180.0, -180.0, 179.999)) for _ in range(count)]
    return np.array(lat, dtype=np.float64), np.array(long, dtype=np.float64)


def test_rows_are_sorted() -> None:
    random = np.random.default_rng(1)
    for count in (0, 1, 2, 24, 25, 26, 27, 100, 1000):
        for most in (2, 10, 2**62):
            rows = random.integers(-most, most, count + 4)
            wanted = np.concatenate([rows[:2], np.sort(rows[2:-2]), rows[-2:]])
            _sort(rows, 2, count + 2)
            assert rows.tolist() == wanted.tolist()


@examples(60)
@given(random=st.randoms(use_true_random=False))
def test_it_finds_what_a_look_at_all_finds(random: Random) -> None:
    count = random.choice((0, 1, 2, LEAF - 1, LEAF, LEAF + 1, 2 * LEAF, 2 * LEAF + 1, 500))
    lat, long = points(random, count)
    made = PointIndex(lat, long)
    assert made.count == count and made.nbytes >= 0
    asked_lat, asked_long = points(random, random.randrange(30))
    some = len(asked_lat)
    reach = np.array([random.choice((0.0, 1.0, 5e4, 2e6, 1.3e7, np.nan)) for _ in range(some)])
    asked_lat[: some // 4] = np.nan
    sure = reach * random.choice((0.0, 0.5, 1.0))
    index, found = made.within(asked_lat, asked_long, reach)
    apart = cartesian(asked_lat, asked_long)[:, None, :] - cartesian(lat, long)[None, :, :]
    squares = (apart * apart).sum(axis=2)
    with np.errstate(invalid="ignore"):
        near = squares <= (reach * reach)[:, None]
        nearer = squares < (sure * sure)[:, None]
    expected = np.argwhere(near)
    assert index.tolist() == expected[:, 0].tolist() and found.tolist() == expected[:, 1].tolist()
    wanted = np.where(nearer.any(axis=1), 2, np.where(near.any(axis=1), 1, 0))
    assert made.nearest_is(asked_lat, asked_long, sure, reach).tolist() == wanted.tolist()


def test_a_place_may_have_more_points_than_a_piece_has_room_for() -> None:
    count = 9000
    made = PointIndex(np.full(count, 48.0), np.full(count, 16.0))
    asked = np.array([48.0, 0.0, 48.0]), np.array([16.0, 0.0, 16.0]), np.array([1.0, 1.0, 1.0])
    pieces = list(made.pieces(*asked))
    assert [len(rows) for _, rows in pieces] == [count, count] and count > 1 << 12
    assert [set(index.tolist()) for index, _ in pieces] == [{0}, {2}]
    assert all(rows.tolist() == list(range(count)) for _, rows in pieces)
