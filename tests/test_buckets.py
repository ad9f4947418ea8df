"""The word of a value and the bucket of a row, by the kernels and as said in plain Python."""

from __future__ import annotations

from functools import reduce
from random import Random

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core import value_hashes as module
from cep.core.schema import Attribute, Schema
from cep.core.value_hashes import hash_words
from cep.runtime.buckets import buckets
from tests.long import examples

ALL = 2**64 - 1
LETTERS = ("", "a", "abcdefg", "abcdefgh", "abcdefghi", "a" * 16, "x" * 100, "ü€😀", "\0", "\0\0")


def mixed(hashed: int, value: int) -> int:
    h = (hashed ^ value) & ALL
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        h = ((h ^ (h >> 33)) * factor) & ALL
    return h ^ (h >> 33)


def spelt(text: str) -> int:
    letters = text.encode()
    pieces = [int.from_bytes(letters[at : at + 8], "little") for at in range(0, len(letters), 8)]
    return reduce(mixed, pieces, mixed(int(module._TEXT), len(letters)))


@examples(60)
@given(st.lists(st.one_of(st.none(), st.text(max_size=20), st.sampled_from(LETTERS)), max_size=12), st.integers(0, 3))
def test_texts_go_by_their_letters(texts: list[str | None], skipped: int) -> None:
    series = pl.Series(texts, dtype=pl.String)[skipped:]  # which begins within its buffers
    found = hash_words(series, "string").astype(np.uint64).tolist()
    assert found == [2**63 if text is None else spelt(text) for text in texts[skipped:]]


@pytest.mark.parametrize("count", [1, 2, 7])
@examples(40)
@given(random=st.randoms(use_true_random=False))
def test_rows_are_dealt_by_their_words(count: int, random: Random) -> None:
    schema = Schema("e", (Attribute("s", "string"), Attribute("n", "int")), True, False)
    rows = [(random.choice(LETTERS), random.randrange(-3, 3), at) for at in range(random.randrange(20))]
    table = pl.DataFrame(rows, schema={"s": pl.String, "n": pl.Int64, "at": pl.Int64}, orient="row")
    expected = [mixed(mixed(0, n & ALL), spelt(s)) % count for s, n, _ in rows]
    assert buckets(table, schema, (1, 0), count).tolist() == expected
