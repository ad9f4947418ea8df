"""What is wrong with a table is told, with what to write instead."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from cep import CepError, Event, detect
from tests.frame_shapes import FRAME, PROGRAM, READ


def test_an_event_that_does_not_fit_is_told() -> None:
    events = [Event("other", (), 0, 0), Event("reading", ("JFK", 12.5, 1), 0, 0), Event("reading", ("JFK", 12.5), 1, 1)]
    reason = "must have 4 arguments"
    assert detect(PROGRAM, events).dead.rows() == [("reading", 1, "arity", reason), ("reading", 2, "arity", reason)]


def test_strict() -> None:
    with pytest.raises(CepError) as caught:
        detect(PROGRAM, FRAME, strict=True)
    assert str(caught.value) == "data: row 2 of reading: `wind` is missing: there is no value at `wind speed`"


TWO = "event a(x: int) TIME time. event b(x: int) TIME time. c(X) <- a(X) SEQ b(X)."
WRONG: dict[str, tuple[str, Any, str]] = {
    "a column by another name": (
        PROGRAM,
        READ.rename({"origin": "orign"}),
        "data: reading needs a column `origin` (did you mean `orign`?)\n"
        "hint: the columns are orign, wind speed, gusts, calm, measured; "
        "to read other columns, name them with FROM and TIME in the declaration",
    ),
    "a column of another type": (
        PROGRAM,
        {"reading": READ.with_columns(gusts=pl.lit("many"))},
        'data["reading"]: the column `gusts` holds String; int needs whole numbers\n'
        "hint: declare the attribute as what its column holds, or convert the column",
    ),
    "no event said": (
        TWO,
        pl.DataFrame({"time": [0], "x": [1]}),
        'data: the data do not say which event the rows are\nhint: name it: `{"a": data}`; input events are a, b',
    ),
    "another event": (
        TWO,
        {"aa": pl.DataFrame({"time": [0], "x": [1]})},
        "data: no pattern of the program uses an input event `aa` (did you mean `a`?)\nhint: input events are a, b",
    ),
    "nothing with columns": (PROGRAM, 5, "data: a `int` has no columns\nhint: data are"),
    "a file": (PROGRAM, "weather.csv", 'data: a `str` has no columns\nhint: read the file first: `pl.scan_csv("weat'),
    "numbers": (PROGRAM, [1, 2], "data: a `int` has no columns\nhint: data are"),
    "mixed records": (
        PROGRAM,
        [READ.row(0, named=True), 3],
        "data: number 1 is a `int`, not a record\nhint: all pieces",
    ),
    "mixed column": (
        PROGRAM,
        READ.to_pandas().assign(gusts=[1, "x", 2, 3, 4]),
        "data: the column `gusts` cannot be read: ",
    ),
    "objects of polars": (
        PROGRAM,
        FRAME.with_columns(gusts=pl.col("unread")),
        "data: the column `gusts` holds Python objects of unknown types\nhint: use one type for the column: ",
    ),
    "a column alone": (PROGRAM, READ["origin"], "data: a `polars.series.series.Series` has no columns\nhint: data are"),
    "a column of pandas": (
        PROGRAM,
        READ.to_pandas()["origin"],
        "data: a `pandas.Series` has no columns\nhint: data are",
    ),
    "a matrix": (PROGRAM, np.ones((2, 2)), "data: a `numpy.ndarray` has no columns\nhint: data are"),
    "an index without a name": (
        PROGRAM,
        READ.to_pandas().set_index("measured").rename_axis(None),
        "data: reading needs a column `measured` for the time\n"
        'hint: the index of times has no name, `data.rename_axis("measured")` gives it one; the columns are',
    ),
    "wide integers": (PROGRAM, READ.with_columns(pl.col("gusts").cast(pl.Int128)), "data: "),
    "lengths": (
        "event e(a: int) TIME t. f(A) <- e(A).",
        {"a": np.arange(3), "t": np.arange(4)},
        "data: the columns have different lengths: `t` has 4, `a` has 3",
    ),
    "a file for the program": (
        "rules.cep",
        FRAME,
        "`rules.cep` is the name of a file, not the text of a program\n"
        'hint: pass the file as a path: `detect(Path("rul',
    ),
    "a mistake in the program": ("f(X) <- e(X) SEQ .", FRAME, "<program>:1:18: expected"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_with_what_to_write(case: str) -> None:
    program, data, message = WRONG[case]
    with pytest.raises(CepError) as caught:
        detect(program, data)
    assert str(caught.value).startswith(message)


def test_which_table_is_meant_is_told() -> None:
    found = detect("c(X) <- a(X). d(X) <- a(X).", [Event("a", (1,), 0, 0)])
    for ask in (found.to_polars, found.to_arrow, found.to_pandas, found.__arrow_c_stream__):
        with pytest.raises(CepError, match="the program derives 2 events: say which one you mean"):
            ask()
    with pytest.raises(CepError) as caught:
        found["e"]
    assert str(caught.value) == "the program derives no event `e`\nhint: derived events are c, d"
    with pytest.raises(CepError, match="`soon` is not a valid duration"):
        detect("c(X) <- a(X).", [], lateness="soon")


NAMED = "event r(x: float) TIME ts.\nf(X) <- r(X).\n"


def _refused(data: Any) -> str:
    with pytest.raises(CepError) as caught:
        detect(NAMED, data)
    return f"{caught.value.message} | {caught.value.hint}"


def test_columns_that_are_called_alike_or_have_several_levels() -> None:
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    assert "2 columns are called `x`" in _refused(pd.DataFrame([[1, 2.0, 3.0]], columns=["ts", "x", "x"]))
    assert "r needs a column `x`" in _refused(pd.DataFrame([[1, 2.0, 3.0]], columns=["ts", "y", "y"]))
    levels = pd.DataFrame([[1, 2.0]], columns=pd.MultiIndex.from_tuples([("ts", ""), ("x", "C")]))
    assert "r needs columns `ts` for the time, `x` | its columns have 2 levels: `data.columns = " in _refused(levels)
    assert "the columns are 0, 1" in _refused(pd.DataFrame([[1, 2.0]]))
    for names, text in ((["ts", "x", "x"], "2 columns are called `x`"), (["ts", "y", "y"], "r needs a column `x`")):
        table = pa.Table.from_arrays([pa.array([1]), pa.array([2.0]), pa.array([3.0])], names=names)
        assert text in _refused(table)
    other = pd.DataFrame([[1, 2.0, 3.0, 4.0]], columns=["ts", "x", "y", "y"])  # which nobody reads
    assert detect(NAMED, other)["f"]["x"].to_list() == [2.0]


def test_the_hint_for_an_unnamed_index_names_the_time() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"x": [1.0]}, index=pd.to_datetime(["2024-05-01"]))
    assert '`data.rename_axis("ts")` gives it one' in _refused(frame)
    assert "rename_axis" not in _refused(frame.rename(columns={"x": "y"}).assign(ts=1))
    assert detect(NAMED, frame.rename_axis("ts"))["f"].height == 1


def test_many_times_that_cannot_be_read_are_an_error() -> None:
    frame = pl.DataFrame({"ts": ["soon"] * 200_000, "x": [1.0] * 200_000})
    assert "none of the 200,000 rows of r can be read: ts: `soon` is not an ISO 8601 time" in _refused(frame)
