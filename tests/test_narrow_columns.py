"""Whole numbers in fewer bytes: a table comes back as it was, whatever its columns are."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.connectors import arrow_bytes, narrow_columns
from cep.connectors.arrow_bytes import pack, unpack
from tests.long import examples

LEAST, MOST = -(2**63), 2**63 - 1
SPANS = (0, 1, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**63 - 1, 2**64 - 1)


@st.composite
def tables(draw: st.DrawFn) -> pl.DataFrame:
    """Columns whose numbers lie close together or far apart, at the ends of what there is; some repeat others, some
    lack values, and some are no numbers."""
    rows = draw(st.integers(0, 20))
    found: dict[str, pl.Series] = {}
    for number in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(("int", "again", "text", "word", "bool", "float", "time", "lacking", "mixed")))
        span = draw(st.sampled_from(SPANS))
        least = draw(st.sampled_from((LEAST, -5, 0, 10**15, MOST - span))) if span < 2**63 else LEAST
        least = max(LEAST, min(least, MOST - span))
        numbers = draw(
            st.lists(st.sampled_from((least, least + span // 2, least + span)), min_size=rows, max_size=rows)
        )
        name = f"c{number}"
        if kind == "again" and found:
            found[name] = draw(st.sampled_from(list(found.values()))).alias(name)
        elif kind in ("int", "again"):
            found[name] = pl.Series(name, numbers, pl.Int64)
        elif kind == "lacking":
            found[name] = pl.Series(name, [None, *numbers[1:]][:rows], pl.Int64)
        elif kind == "text":
            found[name] = pl.Series(name, list(map(str, numbers)), pl.Categorical)
        elif kind == "word":
            found[name] = pl.Series(name, [None, *map(str, numbers[1:])][:rows], pl.String)
        elif kind == "bool":
            found[name] = pl.Series(name, [None if each < 0 else each % 2 == 0 for each in numbers], pl.Boolean)
        elif kind == "float":
            found[name] = pl.Series(name, [float(each) for each in numbers])
        elif kind == "time":
            found[name] = pl.Series(name, [datetime(2026, 1, 1 + each % 28, tzinfo=UTC) for each in numbers])
        else:
            found[name] = pl.Series(name, [each if each % 2 else str(each) for each in numbers], pl.Object)
    return pl.DataFrame(list(found.values()))


@examples(400)
@given(tables())
def test_a_table_comes_back(table: pl.DataFrame) -> None:
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(narrow_columns, "ROWS", 1)
        patching.setattr(arrow_bytes, "ROWS", 1)
        by_arrow, narrow = pack(table), pack(table, narrow=True)
    small = pack(table)
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(arrow_bytes, "_SMALL", 0)
        found = unpack(by_arrow)
        others = [unpack(narrow), unpack(small)]
    others += [unpack(by_arrow), unpack(narrow), unpack(small)]
    assert {name: found[name].to_list() for name in table.columns} == table.to_dict(as_series=False)
    for other in others:
        assert other.schema == found.schema
        assert other.to_dict(as_series=False) == found.to_dict(as_series=False)


def test_parts_of_tables_come_back() -> None:
    table = pl.DataFrame({"id": range(5000), "word": [f"word {n}" for n in range(5000)]})
    for rows in (3, 1000, 2000):
        part = pl.concat([table[70 : 70 + rows], table[4000 : 4000 + rows // 2]], rechunk=False)
        assert unpack(pack(part)).equals(part) and unpack(pack(part, narrow=True)).equals(part)
        assert len(pack(part)) < 60 * part.height + 2000, "not the texts of the whole"


def test_rows_of_instants_take_a_third_of_the_bytes() -> None:
    random, rows = np.random.default_rng(3), 10_000
    times = np.arange(rows) * 1000 + 10**15
    table = pl.DataFrame(
        {"start": times, "end": times, "id": random.integers(0, 10**6, rows), "@order": (5 << 44) + np.arange(rows) * 2}
    )
    few = pack(table, narrow=True)
    assert 3 * len(few) < 1.1 * len(pack(table))
    assert unpack(few).equals(table)
    part = table[100:7000]  # that does not begin where its memory does
    assert unpack(pack(part, narrow=True)).equals(part)
