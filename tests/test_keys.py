"""Sets of keys and chains of rows: ids in order of first appearance, rows of a group in the order they came."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cep.core.chains import Chains
from cep.core.hashtable import MISSING, KeySet, id_of
from tests.long import examples

words = st.sampled_from([0, 1, 2, -1, 2**63 - 1, -(2**63), 2**32, 2**33])
batches = st.lists(st.lists(st.tuples(words, words), max_size=12), max_size=4)


@examples(50)
@given(batches, st.lists(st.tuples(words, words), max_size=6))
def test_ids_are_those_of_a_dictionary(
    given_batches: list[list[tuple[int, int]]], asked: list[tuple[int, int]]
) -> None:
    keys, known = KeySet(2), dict[tuple[int, int], int]()
    for batch in given_batches:
        before = len(known)
        expected = [known.setdefault(key, len(known)) for key in batch]
        ids, fresh = keys.insert(np.array(batch, dtype=np.int64).reshape(-1, 2))
        assert ids.tolist() == expected
        assert [batch[i] for i in fresh] == list(known)[before:]
    assert keys.count == len(known) and [tuple(row) for row in keys.rows.tolist()] == list(known)
    found = keys.find(np.array(asked, dtype=np.int64).reshape(-1, 2))
    assert found.tolist() == [known.get(key, -1) for key in asked]


single_batches = st.lists(st.lists(words, max_size=12), max_size=4)


@examples(50)
@given(single_batches, st.lists(words, max_size=6))
def test_so_are_those_of_single_words_close_together_or_far_apart(
    given_batches: list[list[int]], asked: list[int]
) -> None:
    keys, known = KeySet(1), dict[int, int]()
    for batch in given_batches:
        expected = [known.setdefault(key, len(known)) for key in batch]
        assert keys.insert(np.array(batch, dtype=np.int64).reshape(-1, 1))[0].tolist() == expected
    again = KeySet.of(keys.rows.copy(), keys.count)
    expected = [known.get(key, -1) for key in asked]
    for found in (keys, again):
        assert found.find(np.array(asked, dtype=np.int64).reshape(-1, 1)).tolist() == expected
        assert [int(id_of(np.array([key]), found.index, found.table)) for key in asked if key != MISSING] == [
            known.get(key, -1) for key in asked if key != MISSING
        ]


def test_many_keys_with_many_repetitions() -> None:
    column = np.arange(100_000, dtype=np.int64) * 7919 % 30_011
    keys = KeySet(1)
    ids, fresh = keys.insert(column.reshape(-1, 1))
    assert keys.count == 30_011 and fresh.tolist() == list(range(30_011))
    assert (keys.rows[ids, 0] == column).all()
    assert (keys.find(column.reshape(-1, 1)) == ids).all()


@examples(50)
@given(st.lists(st.lists(st.integers(0, 40), max_size=10), max_size=5), st.lists(st.integers(-1, 40), max_size=6))
def test_chains_keep_the_order_of_rows(given_batches: list[list[int]], asked: list[int]) -> None:
    chains, rows = Chains(), list[int]()
    for batch in given_batches:
        chains.append(np.array(batch, dtype=np.int64), 41)
        rows += batch
    if not given_batches:
        chains.append(np.empty(0, dtype=np.int64), 41)
    index, found = chains.expand(np.array(asked, dtype=np.int64))
    expected = [(i, row) for i, group in enumerate(asked) for row, other in enumerate(rows) if other == group]
    assert list(zip(index.tolist(), found.tolist())) == expected
