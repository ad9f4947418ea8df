"""Tables of polars, pandas and Arrow in and out: the same events whatever holds the data, and no copies of numbers."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cep
from cep import CepError, Derived, Engine, Event, Iri, detect
from cep import engine as inner
from connectors.frames import read_data
from tests.long import examples

PROGRAM = """
event reading(station: string FROM origin, wind: float FROM "wind speed", gusts: int?, calm: bool) TIME measured.
event gust(station: string, wind: float, gusts: int, calm: bool).
gust(S, W, N, C) <- reading(S, W, N, C) WHERE W > 10.
"""
HOUR = 3_600_000_000
FRAME = pl.DataFrame(
    {
        "origin": ["JFK", "LGA", "JFK", "EWR", "JFK"],
        "wind speed": [12.5, 3.0, None, 20.0, 11.0],
        "gusts": [1, 2, 3, None, 5],
        "calm": [True, False, True, False, False],
        "measured": pl.datetime_range(datetime(2024, 1, 1), datetime(2024, 1, 1, 4), "1h", eager=True, time_zone="UTC"),
    }
).with_columns(unread=pl.Series([object()] * 5, dtype=pl.Object), lists=pl.Series([[1], [2], [], None, [3]]))
READ = FRAME.drop("unread", "lists")
DAY = 1_704_067_200_000_000  # 2024-01-01
FOUND = [
    Event("gust", ("JFK", 12.5, 1, True), DAY, DAY),
    Event("gust", ("EWR", 20.0, None, False), DAY + 3 * HOUR, DAY + 3 * HOUR),
    Event("gust", ("JFK", 11.0, 5, False), DAY + 4 * HOUR, DAY + 4 * HOUR),
]


class Stream:
    """Something that only offers an Arrow stream."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class Array:
    """Something that only offers one Arrow array of structs."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self.batch.__arrow_c_array__(requested_schema)


def pandas_objects() -> pd.DataFrame:
    """Columns of Python objects with NaN and NaT for what is missing."""
    frame = READ.to_pandas()
    frame["origin"] = frame["origin"].astype(object)
    frame["calm"] = frame["calm"].astype(object)
    frame["gusts"] = frame["gusts"].astype(object)
    frame.loc[3, "gusts"] = float("nan")
    return frame


def pandas_nullable() -> pd.DataFrame:
    frame = READ.to_pandas()
    return frame.astype({"gusts": "Int64", "calm": "boolean", "wind speed": "Float64", "origin": "string"})


def records() -> list[dict[str, Any]]:
    return READ.to_dicts()


SHAPES: dict[str, Callable[[], Any]] = {
    "polars": lambda: FRAME,
    "polars lazy": lambda: FRAME.lazy(),
    "polars in another zone": lambda: FRAME.with_columns(pl.col("measured").dt.convert_time_zone("Europe/Zurich")),
    "polars without zone": lambda: FRAME.with_columns(pl.col("measured").dt.replace_time_zone(None)),
    "polars nanoseconds": lambda: FRAME.with_columns(pl.col("measured").dt.cast_time_unit("ns")),
    "polars ISO 8601": lambda: FRAME.with_columns(pl.col("measured").dt.to_string("iso:strict")),
    "polars seconds": lambda: FRAME.with_columns(pl.col("measured").dt.epoch("s")),
    "polars categories": lambda: FRAME.with_columns(pl.col("origin").cast(pl.Categorical)),
    "polars backwards": lambda: FRAME.drop("unread").reverse(),
    "polars pieces": lambda: [FRAME[:2], FRAME[2:2], FRAME[2:]],
    "polars generator": lambda: (FRAME[i : i + 1] for i in range(5)),
    "polars many chunks": lambda: pl.concat([READ[i : i + 1] for i in range(5)], rechunk=False),
    "by event": lambda: {"reading": FRAME},
    "by event in turn": lambda: iter([{"reading": FRAME[:3]}, {"reading": FRAME[3:]}]),
    "pandas": lambda: READ.to_pandas(),
    "pandas with times as index": lambda: READ.to_pandas().set_index("measured"),
    "pandas in another zone": lambda: READ.to_pandas().assign(
        measured=lambda frame: frame["measured"].dt.tz_convert("America/New_York")
    ),
    "pandas categories": lambda: READ.to_pandas().astype({"origin": "category"}),
    "pandas objects": pandas_objects,
    "pandas nullable": pandas_nullable,
    "pandas over Arrow": lambda: READ.to_pandas(use_pyarrow_extension_array=True),
    "pandas slice": lambda: pd.concat([READ.to_pandas(), READ.to_pandas()]).iloc[5:],
    "pyarrow table": lambda: READ.to_arrow(),
    "pyarrow dictionary": lambda: READ.to_arrow().set_column(
        0, "origin", READ.to_arrow()["origin"].combine_chunks().dictionary_encode()
    ),
    "pyarrow batch": lambda: READ.to_arrow().to_batches()[0],
    "pyarrow reader": lambda: READ.to_arrow().to_reader(max_chunksize=2),
    "pyarrow dataset": lambda: pyarrow.dataset.dataset(READ.to_arrow()),
    "pyarrow pieces": lambda: iter(READ.to_arrow().to_batches(max_chunksize=2)),
    "stream": lambda: Stream(READ.to_arrow()),
    "array": lambda: Array(READ.to_arrow().to_batches()[0]),
    "arrays": lambda: {name: READ[name].to_numpy() for name in READ.columns},
    "columns as lists": lambda: {name: READ[name].to_list() for name in READ.columns},
    "columns of polars": lambda: {name: READ[name] for name in READ.columns},
    "records": records,
    "records by event": lambda: {"reading": records()},
    "records in turn": lambda: iter(records()),
    "records of pandas": lambda: pandas_objects().to_dict("records"),
    "records with types": lambda: [{"type": "reading", **record} for record in records()],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_data_gives_the_same_events(shape: str) -> None:
    found = detect(PROGRAM, SHAPES[shape]())
    assert found == FOUND
    assert [reason for *_, reason in found.dead.rows()] in (["`wind` is missing"], ["wind: missing"]), found.dead
    if shape != "polars backwards":
        assert found.dead["row"].to_list() == [2]


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "polars backwards"])
def test_an_engine_takes_the_same_and_gives_it_piece_by_piece(shape: str) -> None:
    engine = Engine.from_text(PROGRAM, lateness="1 h")
    first, last = engine.push(SHAPES[shape]()), engine.finish()
    assert [*first, *last] == FOUND
    assert len(last) == 2, "what may still be as late as that waits"


def test_the_time_goes_on_with_what_is_pushed() -> None:
    engine = Engine.from_text(PROGRAM, lateness=timedelta(hours=1))
    assert engine.watermark is None
    assert engine.push(FRAME[:1]) == []
    assert engine.push(FRAME[1:4]) == FOUND[:1]
    assert engine.watermark == datetime(2024, 1, 1, 2, tzinfo=UTC) - timedelta(microseconds=1)
    saved = engine.snapshot()
    assert engine.advance("2024-01-01T03:00:00Z") == FOUND[1:2]
    late = engine.push(FRAME[:1])
    assert late == [] and late.dead.rows() == [("reading", 0, "late", "is late: the watermark has passed it")]
    again = Engine.from_text(PROGRAM, lateness="1 h").restore(saved)
    assert [*again.advance(datetime(2024, 1, 1, 3)), *again.push(FRAME[4:]), *again.finish()] == FOUND[1:]


def test_rows_that_became_no_event_have_come_before_the_next() -> None:
    """Of simultaneous events the last is the one that came last."""
    program = "event e(a: int) TIME t. f(A) <- e(X) AGGREGATE A = last(X) OVER LAST 1 s."
    engine = Engine.from_text(program, lateness="1 h")
    engine.push({"t": [None, None, None, 0], "a": [1, 1, 1, 1]})
    again = Engine.from_text(program, lateness="1 h").restore(engine.snapshot())
    for each in (engine, again):
        each.push([{"t": 0, "a": 2}])
        assert [event.args for event in each.finish()] == [(2,)]


def test_tables_out() -> None:
    found = detect(PROGRAM, FRAME)
    table = found["gust"]
    assert table.schema == {
        "start": pl.Datetime("us", "UTC"),
        "end": pl.Datetime("us", "UTC"),
        "station": pl.String(),
        "wind": pl.Float64(),
        "gusts": pl.Int64(),
        "calm": pl.Boolean(),
    }
    assert table.row(1) == (*[datetime(2024, 1, 1, 3, tzinfo=UTC)] * 2, "EWR", 20.0, None, False)
    assert found.to_polars().equals(table) and found.tables["gust"].equals(table)
    assert found.to_arrow().schema.field("start").type == pa.timestamp("us", "UTC")
    assert pl.DataFrame(found).equals(table)
    assert pa.table(found).num_rows == pa.RecordBatchReader.from_stream(found).read_all().num_rows == 3
    frame = found.to_pandas()
    assert str(frame["start"].dtype) == "datetime64[us, UTC]" and str(frame["gusts"].dtype) == "Int64"
    assert frame["gusts"].isna().tolist() == [False, True, False] and str(frame["calm"].dtype) == "bool"
    assert found[0] == FOUND[0] and list(found[1:]) == FOUND[1:] and len(found) == 3
    assert repr(found) == "<3 derived events: gust 3\n1 row became no event, the first is row 2: `wind` is missing>"


def test_no_data() -> None:
    empty = READ.clear()
    for data in ([], {}, iter([]), {"reading": []}, empty, empty.to_pandas(), empty.to_arrow(), empty.lazy(), [empty]):
        found = detect(PROGRAM, data)
        assert found == [] and found["gust"].is_empty() and found.counts == {"gust": 0} and found.dead.is_empty()


@examples(120)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from("xyz"), st.floats(0, 9) | st.none(), st.booleans())),
    st.sampled_from(["polars", "pandas", "pyarrow", "records", "arrays"]),
    st.lists(st.integers(0, 9)),
    st.booleans(),
)
def test_any_rows_cut_anywhere_are_the_events_they_say(
    rows: list[tuple[int, str, float | None, bool]], shape: str, cuts: list[int], later: bool
) -> None:
    """By the engine's own `detect`, of events; with a lateness that lets all of them wait, too."""
    program = """
    event e(key: string, value: float?, flag: bool FROM "Flag") TIME t.
    rising(K, A, B) <- e(K, A, _) SEQ e(K, B, F) WHERE B > A, F = true WITHIN 10 s.
    many(K, N) <- e(K, _, _) AGGREGATE N = count() OVER LAST 5 s BY K.
    """
    frame = pl.DataFrame(rows, schema=["t", "key", "value", "Flag"], orient="row").cast(
        {"t": pl.Int64, "key": pl.String, "value": pl.Float64, "Flag": pl.Boolean}
    )
    pieces, start = [], 0
    for length in [*cuts, len(rows)]:
        pieces.append(frame[start : start + length])
        start += length
    made = {
        "polars": lambda piece: piece,
        "pandas": lambda piece: piece.to_pandas(),
        "pyarrow": lambda piece: piece.to_arrow(),
        "records": lambda piece: piece.to_dicts(),
        "arrays": lambda piece: {name: piece[name].to_numpy() for name in piece.columns},
    }[shape]
    events = [Event("e", tuple(values), t * 1_000_000, t * 1_000_000) for t, *values in rows]
    found = detect(program, [made(piece) for piece in pieces], lateness="60 s" if later else None)
    assert found == inner.detect(program, events)


def test_what_is_derived_goes_in_again() -> None:
    found = detect(PROGRAM, FRAME)
    second = "event gust(station: string, wind: float). strong(S) <- gust(S, W) WHERE W >= 20."
    for data in (found, found.to_pandas(), found["gust"]):
        assert detect(second, data) == [Event("strong", ("EWR",), DAY + 3 * HOUR, DAY + 3 * HOUR)]
    assert detect("event gust(a: string, b: float, c: int?, d: bool). x(S) <- gust(S, _, _, _).", list(found))


def test_types_of_what_is_derived() -> None:
    program = """
    event e(t: time, d: duration, i: iri, s: string?) START begun END done.
    made(T, D, I, S, 1 + 1) <- e(T, D, I, S).
    never(T, D) <- made(T, D, _, _, _) WHERE D < 0 s.
    """
    data = {
        "t": [date(2024, 1, 2)],
        "d": [timedelta(minutes=1)],
        "i": ["http://example.org/a"],
        "s": [None],
        "begun": [datetime(2024, 1, 1)],
        "done": [datetime(2024, 1, 1, 1)],
    }
    for shape in (data, [{name: value for name, (value,) in data.items()}], pl.DataFrame(data), pd.DataFrame(data)):
        found = detect(program, shape)
        day = DAY + 24 * HOUR
        assert found == [Event("made", (day, 60_000_000, Iri("http://example.org/a"), None, 2), DAY, DAY + HOUR)]
        kinds = [pl.Datetime("us", "UTC")] * 2 + [pl.Datetime("us", "UTC"), pl.Duration("us")]
        assert found["made"].dtypes == [*kinds, pl.String, pl.String, pl.Int64]
        assert found["never"].dtypes == kinds and found["never"].is_empty()
        assert found["made"].row(0)[2:4] == (datetime(2024, 1, 2, tzinfo=UTC), timedelta(minutes=1))
        assert found.counts == {"made": 1, "never": 0}


def test_values_of_several_kinds_are_texts_in_tables() -> None:
    found = detect("b(X) <- a(X).", [Event("a", (1,), 0, 0), Event("a", ("x",), 1, 1), Event("a", (True,), 2, 2)])
    assert [event.args for event in found] == [(1,), ("x",), (True,)]
    assert found["b"]["x"].to_list() == ["1", "x", "true"] and pl.DataFrame(found).equals(found["b"])
    engine = Engine.from_text("b(X) <- a(X).")
    pieces = [engine.push([Event("a", (value,), time, time)])["b"]["x"].to_list() for time, value in enumerate("xyz")]
    assert pieces == [[], ["x"], ["y"]] and engine.finish()["b"]["x"].to_list() == ["z"]


def test_events_are_sorted_as_by_the_engine() -> None:
    events = [Event("a", (n % 7, f"x{n % 3}"), n % 5, n % 5 + n % 4) for n in range(60)]
    program = "b(X, Y) <- a(X, Y). c(X) <- a(X, _) SEQ a(X, _)."
    assert detect(program, events) == inner.detect(program, events)
    assert list(detect(program, iter(events))) == inner.detect(program, events)


def test_an_event_that_does_not_fit_is_told() -> None:
    events = [Event("other", (), 0, 0), Event("reading", ("JFK", 12.5, 1), 0, 0), Event("reading", ("JFK", 12.5), 1, 1)]
    reason = "must have 4 arguments"
    assert detect(PROGRAM, events).dead.rows() == [("reading", 1, "arity", reason), ("reading", 2, "arity", reason)]


def test_strict() -> None:
    with pytest.raises(CepError) as caught:
        detect(PROGRAM, FRAME, strict=True)
    assert str(caught.value) == "data: row 2 of reading: `wind` is missing"


def test_lateness_takes_data_as_they_stand() -> None:
    backwards = FRAME.drop("unread").reverse()
    assert detect(PROGRAM, backwards, lateness="4 h") == FOUND
    found = detect(PROGRAM, (backwards[i : i + 1] for i in range(5)), lateness="2 h")
    assert found == FOUND[1:] and "late" in found.dead["code"].to_list()


def test_facts_of_any_library() -> None:
    program = """
    event reading(station: string) TIME time.
    hub(S) <- reading(S) WHERE large(S).
    """
    data = {"time": [0, 1], "station": ["JFK", "ISP"]}
    for facts in (pl.DataFrame({"s": ["JFK"]}), pd.DataFrame({"s": ["JFK"]}), pa.table({"s": ["JFK"]})):
        assert [event.args for event in detect(program, data, facts={"large": facts})] == [("JFK",)]
        engine = Engine.from_text(program, facts={"large": facts})
        assert [event.args for event in [*engine.push(data), *engine.finish()]] == [("JFK",)]


def test_numbers_of_numpy_in_records() -> None:
    program = "event e(a: int, b: float, c: duration, d: float?) TIME t. f(A, B, C, D) <- e(A, B, C, D)."
    record = {
        "t": np.datetime64("2024-01-01T00:00:00.5"),
        "a": np.int32(3),
        "b": np.float32(0.5),
        "c": np.timedelta64(90, "s"),
        "d": Decimal("1.5"),
    }
    missing = {"t": pd.Timestamp("2024-01-01T01:00:00+01:00"), "a": 1, "b": 2, "c": timedelta(days=-1), "d": pd.NA}
    assert [event.args for event in detect(program, [missing, record])] == [
        (1, 2.0, -86_400_000_000, None),
        (3, 0.5, 90_000_000, 1.5),
    ]


def address(column: pl.Series) -> int:
    return int(column.to_arrow().buffers()[1].address)


@pytest.mark.parametrize("shape", ["polars", "pandas", "pyarrow", "stream", "arrays"])
def test_numbers_and_times_are_not_copied(shape: str) -> None:
    """Tables that an engine is given lie where the data lie: integers, floats, timestamps of microseconds."""
    n = 1000
    arrays = {
        "time": np.arange(n).astype("datetime64[us]"),
        "a": np.arange(n),
        "b": np.linspace(0, 1, n),
    }
    table = pa.table(arrays)
    given: Any = {
        "polars": lambda: pl.DataFrame(pl.from_arrow(table)),
        "pandas": lambda: pd.DataFrame(arrays),
        "pyarrow": lambda: table,
        "stream": lambda: Stream(table),
        "arrays": lambda: arrays,
    }[shape]()
    engine = inner.Engine.from_text("event e(a: int, b: float) TIME time. f(A, B) <- e(A, B).")
    (batch,) = read_data(given, engine.inputs, "e")
    if shape == "pandas":
        places = [given[name].to_numpy().ctypes.data for name in arrays]
    else:
        places = [array.ctypes.data for array in arrays.values()]
    read = batch.tables["e"]
    assert [address(read[name]) for name in ("start", "a", "b")] == places
    assert address(read["end"]) == places[0]


def test_what_is_derived_is_not_copied_on_its_way_out() -> None:
    data = {"time": list(range(100)), "a": list(range(100))}
    found = detect("event e(a: int) TIME time. f(A) <- e(A).", data)
    assert (
        address(found._given["f"]["a"])
        == address(found["f"]["a"])
        == found.to_arrow()["a"].chunk(0).buffers()[1].address
    )
    assert address(found._given["f"]["start"]) == address(found["f"]["start"])


TWO = "event a(x: int) TIME time. event b(x: int) TIME time. c(X) <- a(X) SEQ b(X)."
WRONG: dict[str, tuple[str, Any, str]] = {
    "a column by another name": (
        PROGRAM,
        READ.rename({"origin": "orign"}),
        "data: reading needs a column `origin` (`orign` comes near)\n"
        "hint: the columns are orign, wind speed, gusts, calm, measured; a declaration names others with FROM and TIME",
    ),
    "a column of another type": (
        PROGRAM,
        {"reading": READ.with_columns(gusts=pl.lit("many"))},
        'data["reading"]: the column `gusts` holds String; int wants whole numbers\n'
        "hint: declare the attribute as what its column holds, or convert the column",
    ),
    "no event said": (
        TWO,
        pl.DataFrame({"time": [0], "x": [1]}),
        'data: it is not said which event the rows are\nhint: name it: `{"a": data}`; input events are a, b',
    ),
    "another event": (
        TWO,
        {"aa": pl.DataFrame({"time": [0], "x": [1]})},
        "data: no pattern of the program uses an input event `aa` (`a` comes near)\nhint: input events are a, b",
    ),
    "nothing with columns": (PROGRAM, 5, "data: a `int` has no columns\nhint: data are"),
    "a file": (PROGRAM, "weather.csv", 'data: a `str` has no columns\nhint: read the file first: `pl.scan_csv("weat'),
    "numbers": (PROGRAM, [1, 2], "data: a `int` has no columns\nhint: data are"),
    "mixed records": (PROGRAM, [READ.row(0, named=True), 3], "data: number 1 is a `int`, no record\nhint: all pieces"),
    "mixed column": (
        PROGRAM,
        READ.to_pandas().assign(gusts=[1, "x", 2, 3, 4]),
        "data: the column `gusts` cannot be read: ",
    ),
    "objects of polars": (
        PROGRAM,
        FRAME.with_columns(gusts=pl.col("unread")),
        "data: the column `gusts` holds Python objects, of which no type is known\nhint: one type a column: ",
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
        'hint: the index of times has no name, `data.rename_axis("time")` gives it one; the columns are',
    ),
    "wide integers": (PROGRAM, READ.with_columns(pl.col("gusts").cast(pl.Int128)), "data: "),
    "lengths": (
        "event e(a: int) TIME t. f(A) <- e(A).",
        {"a": np.arange(3), "t": np.arange(4)},
        "data: the columns are not of one length: `t` has 4, `a` has 3",
    ),
    "a file for the program": (
        "rules.cep",
        FRAME,
        '`rules.cep` is no program, but the name of a file\nhint: a file is named by its path: `detect(Path("rul',
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
        with pytest.raises(CepError, match="the program derives 2 events, it is not said which is meant"):
            ask()
    with pytest.raises(CepError) as caught:
        found["e"]
    assert str(caught.value) == "the program derives no event `e`\nhint: derived events are c, d"
    with pytest.raises(CepError, match="`soon` is no duration"):
        detect("c(X) <- a(X).", [], lateness="soon")


def test_a_program_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rules.cep"
    path.write_text(PROGRAM)
    assert detect(path, FRAME) == FOUND
    assert Engine.from_file(path).push(FRAME) == FOUND[:2]
    path.write_text("f(X) <- ")
    for read in (lambda: detect(path, FRAME), lambda: Engine.from_file(path)):
        with pytest.raises(CepError) as caught:
            read()
        assert str(caught.value).startswith(f"{path}:1:")


def test_importing_costs_nothing() -> None:
    script = """
import sys
import cep
heavy = {"numba", "numpy", "polars", "pyarrow", "pandas", "pyspark", "rdflib"}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
from cep import Event
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
from cep import Engine, detect
detect("b(X) <- a(X).", [Event("a", (1,), 0, 0)])
assert not {"pandas", "pyspark", "rdflib"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    assert set(cep.__all__) <= set(dir(cep))
    for name in cep.__all__:
        assert getattr(cep, name).__name__ == name
    with pytest.raises(AttributeError):
        cep.nothing  # noqa: B018
    typed = ast.parse(Path(cep.__file__).read_text(encoding="utf-8"))
    declared = {
        name.name: node.module for node in ast.walk(typed) if isinstance(node, ast.ImportFrom) for name in node.names
    }
    assert {name: declared[name] for name in cep.__all__} == cep._HOMES, "types and values come from one place"
    assert Path(cep.__file__).with_name("py.typed").exists(), "checkers of types look at an installed package"
    assert isinstance(detect("b(X) <- a(X).", []), Derived)


def test_lists_of_polars_become_events_beside_texts() -> None:
    program = """event r(id: string, s: float FROM "x[].s", who: string FROM "x[].who") TIME t.
    o(I, S, W) <- r(I, S, W)."""
    lists = [[{"s": 1.0, "who": "ann"}, {"s": 2.0, "who": "bob"}], [{"s": 3.0, "who": None}]]
    found = detect(program, pl.DataFrame({"id": ["u", "v"], "x": lists, "t": [1, 2]}))
    assert found["o"].select("i", "s", "w").rows() == [("u", 1.0, "ann"), ("u", 2.0, "bob")]
    plain = 'event r(id: string, s: string FROM "x[]") TIME t. o(I, S) <- r(I, S).'
    found = detect(plain, pl.DataFrame({"id": ["u", "v"], "x": [["a", "b"], ["c"]], "t": [1, 2]}))
    assert found["o"].select("i", "s").rows() == [("u", "a"), ("u", "b"), ("v", "c")]
