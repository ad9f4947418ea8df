"""Data of which no row can be read are an error that says why; single such rows are told beside what is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from cep import CepError, Engine, detect

PROGRAM = "event r(x: float) TIME time.\nevent s(x: float) TIME time.\nb(X) <- r(X).\nc(X) <- s(X)."
WRONG = pl.DataFrame({"time": ["01/05/2024 08:00"] * 2_000, "x": [2.0] * 2_000})
MESSAGE = "data: none of the 2,000 rows of r can be read: time: `01/05/2024 08:00` is not an ISO 8601 time"


@pytest.mark.parametrize("shape", [pl.DataFrame, pl.DataFrame.to_pandas, pl.DataFrame.to_arrow, pl.DataFrame.to_dicts])
@pytest.mark.parametrize("lateness", [None, "1 h"])
def test_unreadable_times_are_an_error(shape: Callable[[pl.DataFrame], Any], lateness: str | None) -> None:
    with pytest.raises(CepError) as caught:
        detect(PROGRAM, {"r": shape(WRONG), "s": WRONG.with_columns(time=pl.lit(0))}, lateness=lateness)
    assert str(caught.value).startswith(MESSAGE) and "FORMAT" in str(caught.value)


@pytest.mark.long
def test_two_hundred_thousand_unreadable_times_are_an_error() -> None:
    with pytest.raises(CepError, match="none of the 200,000 rows of r can be read"):
        detect(PROGRAM, {"r": pl.concat([WRONG] * 100)})


def test_one_row_that_reads_is_enough() -> None:
    data = WRONG.with_columns(time=pl.when(pl.int_range(pl.len()) == 7).then(pl.lit("2024-05-01")).otherwise("time"))
    found = detect(PROGRAM, {"r": data})
    assert found.counts["b"] == 1 and found.dead.height == 1_999


def test_rows_that_are_wrong_in_several_ways_are_told_one_by_one() -> None:
    data = pl.DataFrame({"time": ["x", None], "x": [1.0, 2.0]})
    reasons = detect(PROGRAM, {"r": data}).dead["reason"].to_list()
    assert reasons == ["time: `x` is not an ISO 8601 time", "no time: `time` is missing"]


def test_a_stream_goes_on_after_a_push_that_cannot_be_read() -> None:
    engine = Engine.from_text(PROGRAM)
    assert engine.push({"r": WRONG.head(5)}).dead.height == 5
    assert engine.push({"r": pl.DataFrame({"time": ["2024-05-01"], "x": [1.0]})}).counts == {"b": 0, "c": 0}
    assert engine.finish().counts["b"] == 1
