"""The value pool: codes of equal values are equal, whatever the way and the order they came in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.core.values import MISSING, Pool
from cep.events import Iri
from tests.long import examples

texts = st.sampled_from(["", "a", "b", "snow", "é", "1"])
values: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), texts, texts.map(Iri), st.integers(-3, 3), st.integers(2**53 - 2, 2**53 + 2),
    st.sampled_from([0.5, 1.0, -0.0, 2.0**53, 1e300, -(2.0**63), 2.0**64]),
)  # fmt: skip


def kind(value: Any) -> Any:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value)


def test_kinds_are_distinct_and_numbers_equal_by_value() -> None:
    pool = Pool()
    codes = pool.encode_values([1, 1.0, True, "1", Iri("1"), -0.0, 0, 2**53 + 1, float(2**53)]).tolist()
    assert codes[0] == codes[1] and codes[5] == codes[6]
    assert len(set(codes)) == 7
    assert pool.decode_values(np.array(codes))[0] == 1
    assert isinstance(pool.value(pool.code(1.0)), int)


def test_what_is_no_value_is_missing() -> None:
    pool = Pool()
    assert set(pool.encode_values([None, float("nan"), float("inf"), 2**63, -(2**63)]).tolist()) == {MISSING}
    assert pool.code(None) == MISSING and pool.value(MISSING) is None
    assert pool.size == 0


@pytest.mark.parametrize("rows", [10, 5000])
@pytest.mark.parametrize("type", ["string", "iri"])
def test_texts_come_back(rows: int, type: str) -> None:
    pool, series = Pool(), pl.Series([None if i % 7 == 0 else f"text {i % 1500}" for i in range(rows)], dtype=pl.String)
    codes = pool.encode(series, type)
    assert pool.decode(codes, type).equals(series, check_names=False)
    assert pool.decode(codes[:3], type).to_list() == series[:3].to_list()
    expected = [None if text is None else Iri(text) if type == "iri" else text for text in series.to_list()]
    assert pool.decode_values(codes) == expected
    assert (pool.encode(series, type) == codes).all()
    assert not set(pool.encode(series, "string" if type == "iri" else "iri").tolist()) & set(codes.tolist()) - {MISSING}


def test_columns_of_all_kinds_use_one_compiled_kernel() -> None:
    """A further signature would be compiled in the first run after each installation."""
    from cep.core.hashtable import ids_of_one

    pool, rows = Pool(), range(2_000)
    for type in ("string", "iri"):
        pool.encode(pl.Series([f"t{row}" for row in rows]), type)
    pool.encode(pl.Series(rows), "any")
    pool.encode(pl.Series(map(float, rows)), "any")
    arrays = [argument for signature in ids_of_one.signatures for argument in signature if hasattr(argument, "ndim")]
    assert arrays and all(array.mutable for array in arrays)


@examples(20)
@given(st.integers(1, 40), st.integers(1, 3000), st.integers(0, 2**32))
def test_texts_with_equal_hashes_are_distinct(buckets: int, distinct: int, seed: int) -> None:
    """Many texts have the same first hash. Columns are pushed in turns, as strings and IRIs, and values are dropped."""
    rng, real = np.random.default_rng(seed), pl.Series.hash
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pl.Series, "hash", lambda s, n: real(s, n) % buckets if n == 1 else real(s, n))
        pool = Pool()
        for turn in range(6):
            numbers = rng.integers(0, distinct, rng.integers(1, 4_000))
            texts = [None if number % 11 == 10 else f"t{number}" for number in numbers.tolist()]
            type = "iri" if rng.random() < 0.5 else "string"
            codes = pool.encode(pl.Series(texts, dtype=pl.String), type)
            expected = [None if text is None else Iri(text) if type == "iri" else text for text in texts]
            assert pool.decode_values(codes) == expected
            assert pool.decode(codes, type).to_list() == texts
            pool.sweep([codes[: turn % 3 * 100]])


def test_numbers_with_the_bits_of_other_values_are_distinct() -> None:
    """Keys of ints and floats are told apart by their second words, whatever their bits."""
    pool, rows = Pool(), 2_000
    whole = np.arange(1, rows + 1)
    large = (whole ^ 0x1F83D9ABFB41BD6B ^ 0x5BE0CD19137E2179).view(np.float64)  # their keys equal those of the ints
    codes = pool.encode(pl.Series(whole), "any"), pool.encode(pl.Series(large), "any")
    assert pool.decode_values(codes[0]) == whole.tolist() and pool.decode_values(codes[1]) == large.tolist()


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        (pl.Series([1, None, 3]), pl.Series([1, None, 3])),
        (pl.Series([1, 2**64 - 1], dtype=pl.UInt64), pl.Series([1, None])),
        (pl.Series([1.5, 2.5, None, float("nan")]), pl.Series([1.5, 2.5, None, None])),
        (pl.Series([2.0, 3.0]), pl.Series([2, 3])),
        (pl.Series([True, None]), pl.Series([True, None])),
        (pl.Series(["a", None]), pl.Series(["a", None])),
        (pl.Series(["a", None], dtype=pl.Categorical), pl.Series(["a", None])),
        (pl.Series([None, None]), pl.Series([None, None])),
        (pl.Series([timedelta(seconds=2), None]), pl.Series([2, None])),
        (pl.Series([datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)]), pl.Series([1.5])),
    ],
)
def test_columns_of_any_type(series: pl.Series, expected: pl.Series) -> None:
    pool = Pool()
    assert pool.decode(pool.encode(series, "any"), "any").equals(expected)
    many = pl.concat([series] * 2000)
    assert pool.decode(pool.encode(many, "any"), "any").equals(pl.concat([expected] * 2000))


def test_mixed_columns_are_objects() -> None:
    pool = Pool()
    mixed = [1, "a", None, True, Iri("x"), 2.5]
    series = pool.decode(pool.encode(pl.Series(mixed, dtype=pl.Object), "any"), "any")
    assert series.dtype == pl.Object and series.to_list() == mixed
    assert pool.decode(pool.encode_values([Iri("x")]), "any").to_list() == [Iri("x")]
    assert pool.decode(pool.encode_values([2**53 + 1, 0.5]), "any").to_list() == [2**53 + 1, 0.5]


@examples(50)
@given(st.lists(values, max_size=12), st.booleans())
def test_equal_codes_are_equal_values(given_values: list[Any], many: bool) -> None:
    pool = Pool()
    pool.encode(pl.Series(["a", "b"] * (2000 if many else 1)), "string")
    codes = pool.encode_values(given_values).tolist()
    for a, x in zip(codes, given_values):
        for b, y in zip(codes, given_values):
            if x is not None and y is not None:
                assert (a == b) == (kind(x) == kind(y) and x == y)
        assert pool.value(a) == x and (x is None or kind(pool.value(a)) == kind(x))


@pytest.mark.parametrize("type", ["string", "iri", "any"])
@pytest.mark.parametrize("rows", [5, 5_000])
@pytest.mark.parametrize("missing", [False, True])
def test_categories_have_the_codes_of_their_texts(rows: int, type: str, missing: bool) -> None:
    names = [f"n{number}" for number in np.random.default_rng(rows).permutation(900).tolist()]
    texts: list[str | None] = [names[number * number % 700] for number in range(rows)]
    texts = [None if missing and number % 7 == 0 else text for number, text in enumerate(texts)]
    plain = pl.Series(texts, dtype=pl.String)
    pools = Pool(), Pool(), Pool()
    kinds = pl.String(), pl.Categorical(pl.Categories.random()), pl.Enum(sorted(names))
    codes = [pool.encode(plain.cast(kind), type).tolist() for pool, kind in zip(pools, kinds, strict=True)]
    assert codes[1] == codes[0] == codes[2]
    again = [pool.encode(plain.reverse().cast(kind), type).tolist() for pool, kind in zip(pools, kinds, strict=True)]
    assert again == [codes[0][::-1]] * 3


def test_a_few_rows_of_many_categories() -> None:
    known = pl.Series([f"n{number}" for number in range(50_000)])
    rows = known.reverse()[:2_000]
    kind = pl.Enum(known)
    pool = Pool()
    assert pool.encode(rows.cast(kind), "string").tolist() == pool.encode(rows, "string").tolist()
    assert pool.encode(rows.clear().cast(kind), "string").tolist() == []


@settings(max_examples=30, deadline=None)
@given(st.lists(st.one_of(st.integers(-5, 5), st.floats(-5, 5), st.sampled_from([2.0**53, 1e300])), max_size=10))
def test_columns_and_single_values_agree(numbers: list[float]) -> None:
    pool, column = Pool(), np.array(numbers, dtype=np.float64)
    single = pool.encode_values(column.tolist())
    assert (pool.encode_floats(column) == single).all()
    assert (pool.encode_floats(np.tile(column, 1100)) == np.tile(single, 1100)).all()
    assert pool.numbers(single).tolist() == column.tolist()


def test_views_for_arithmetic() -> None:
    pool = Pool()
    codes = pool.encode_values([3, 2.5, "a", True, None])
    assert pool.integers(codes).tolist() == [3, MISSING, MISSING, MISSING, MISSING]
    assert np.nan_to_num(pool.numbers(codes), nan=-1).tolist() == [3.0, 2.5, -1, -1, -1]
    assert pool.kinds(codes).tolist() == [1, 2, 4, 3, 0]


def test_sweep_forgets_what_is_not_live() -> None:
    pool = Pool()
    constant = pool.code("kept")
    series = pl.Series([f"id{i}" for i in range(3000)])
    codes = pool.encode(series, "string")
    before = pool.nbytes
    assert pool.sweep([codes[:10], np.array([MISSING])]) == 2990
    assert pool.size == 11 and pool.nbytes < before
    assert pool.decode_values(codes[:10]) == series[:10].to_list() and pool.value(constant) == "kept"
    again = pool.encode(pl.Series(["new", "id5", "id20"]), "string")
    assert again[1] == codes[5] and again[0] in codes.tolist() and pool.size == 13
    assert pool.decode(pool.encode(series, "string"), "string").equals(series)
    assert pool.decode_values(again) == ["new", "id5", "id20"]
    assert (pool.encode(series, "string")[5:6] == codes[5:6]).all()
    pinned = pool.encode_values(["pinned"])
    pool.pin(pinned)
    pool.sweep([])
    assert pool.decode_values(pinned) == ["pinned"] and pool.code("kept") == constant and pool.size == 2


@settings(max_examples=30, deadline=None)
@given(st.lists(values, max_size=12), st.lists(values, max_size=4), st.integers(0, 12))
def test_a_snapshot_gives_the_same_codes(given_values: list[Any], constants: list[Any], live: int) -> None:
    pool = Pool()
    for value in constants:
        pool.code(value)
    codes = pool.encode_values(given_values)[:live]
    pool.sweep([codes])
    frame = pool.dump([codes])
    again = Pool()
    for value in constants:  # a program read anew has met its constants in the same order
        again.code(value)
    translation = again.load(frame)
    assert (translation[translation != MISSING] == np.flatnonzero(translation != MISSING)).all()
    assert again.decode_values(codes) == pool.decode_values(codes)
    assert again.encode_values(given_values[:live]).tolist() == codes.tolist()
    assert again.code("something new") not in codes.tolist()
    assert again.size == pool.size + (again.code("something new") >= 0) and again.dump().height == again.size


def test_a_snapshot_of_another_program_is_translated() -> None:
    pool, other = Pool(), Pool()
    codes = pool.encode_values(["a", 1, 2.5, True, Iri("x")])
    other.encode_values(["b", "a"])
    translation = other.load(pool.dump())
    assert other.decode_values(translation[codes]) == ["a", 1, 2.5, True, Iri("x")]
    assert other.decode_values(other.encode_values(["b", "a"])) == ["b", "a"]
