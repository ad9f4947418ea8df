"""Tables of polars, pandas and Arrow in and out: the same events whatever holds the data."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep import CepError, Engine, Event, Iri, detect
from cep import engine as inner
from tests.frame_shapes import DAY, FOUND, FRAME, HOUR, PROGRAM, READ, Stream
from tests.long import examples


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
    assert [reason for *_, reason in found.dead.rows()] in (
        ["`wind` is missing: there is no value at `wind speed`"],
        ["wind: missing"],
    ), found.dead
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
    assert late == [] and late.dead.rows() == [("reading", 0, "late", "is late by 3 h: the watermark has passed it")]
    again = Engine.from_text(PROGRAM, lateness="1 h").restore(saved)
    assert [*again.advance(datetime(2024, 1, 1, 3)), *again.push(FRAME[4:]), *again.finish()] == FOUND[1:]
    wrong: Any
    for wrong in ("soon", 15, None, date(2024, 1, 1)):
        with pytest.raises(CepError) as refused:
            again.advance(wrong)
        assert refused.value.message == f"advance: `{wrong}` is not a time"
        assert refused.value.hint == "use a datetime, or a text such as 2024-05-01T08:00:00Z"


@pytest.mark.parametrize("workers", [None, 2])
@pytest.mark.parametrize("revise", [None, "1 s", "1 h"])
@pytest.mark.parametrize("shape", ["tables", "records", "in turn", "iterator", "events", "lists"])
def test_one_push_is_one_batch(shape: str, revise: str | None, workers: int | None) -> None:
    program = "event a(id: int) TIME time. event b(id: int) TIME time. ab(I) <- (a(I) SEQ b(I)) WITHIN 1 h."
    if workers is not None and revise is not None:
        return
    a, b = (pl.DataFrame({"time": times, "id": [1] * len(times)}) for times in ([0, 20, 40], [10, 30]))
    records = [{"type": name, "time": row[0], "id": 1} for name, each in (("a", a), ("b", b)) for row in each.rows()]
    shapes: dict[str, Any] = {
        "tables": {"a": a, "b": b},
        "records": records,
        "in turn": [{"a": a}, {"b": b}],
        "iterator": iter([{"a": a[1:]}, {"b": b}, {"a": a[:1]}]),
        "events": [Event(each["type"], (1,), each["time"] * 10**6, each["time"] * 10**6) for each in records],
        "lists": {"a": a.to_dicts(), "b": b.to_dicts()},
    }
    engine = Engine.from_text(program, revise=revise, workers=workers)
    found = [engine.push(shapes[shape]), engine.finish()]
    engine.stop()
    assert [each.dead.rows() for each in found] == [[], []]
    ends = sorted((event.start // 10**6, event.end // 10**6) for each in found for event in each)
    assert ends == [(0, 10), (0, 30), (20, 30)]
    late = engine.push({"b": b}) if workers is None else None
    assert late is None or {row[2] for row in late.dead.rows()} == {"late"}


def test_a_push_that_does_not_fit_is_not_taken_at_all() -> None:
    program = "event a(id: int) TIME time. event b(id: int) TIME time. ab(I) <- (a(I) SEQ b(I)) WITHIN 1 h."
    engine = Engine.from_text(program)
    a, b = pl.DataFrame({"time": [0], "id": [1]}), pl.DataFrame({"time": [10], "id": [1]})
    with pytest.raises(CepError, match="needs a column `id`"):
        engine.push({"a": a, "b": b.drop("id")})
    assert engine.watermark is None and engine.inner.state_rows == 0
    assert len(engine.push({"a": a, "b": b})) + len(engine.finish()) == 1


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
    why = "`wind` is missing: there is no value at `wind speed`"
    assert repr(found) == f"<3 derived events: gust 3\n1 row could not be read, the first is row 2: {why}>"


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


def test_lateness_takes_data_as_they_stand() -> None:
    backwards = FRAME.drop("unread").reverse()
    assert detect(PROGRAM, backwards, lateness="4 h") == FOUND
    found = detect(PROGRAM, (backwards[i : i + 1] for i in range(5)), lateness="2 h")
    assert found == FOUND[1:] and "late" in found.dead["code"].to_list()


def test_lateness_takes_the_tables_of_several_events_together() -> None:
    program = "event a(id: int) TIME time. event b(id: int) TIME time. ab(I) <- (a(I) SEQ b(I)) WITHIN 1 h."
    a, b = [{"time": t, "id": 1} for t in (0, 20, 40)], [{"time": t, "id": 1} for t in (10, 30)]
    tables = {"a": pl.DataFrame(a), "b": pl.DataFrame(b)}
    for data in ({"a": a, "b": b}, {"b": b, "a": a}, tables, [tables], iter([tables])):
        found = detect(program, data, lateness="0 s")
        assert found.counts == {"ab": 3} and found.dead.is_empty()
    later = {"a": pl.DataFrame({"time": [50, 35], "id": 1}), "b": pl.DataFrame({"time": [36, 60], "id": 1})}
    found = detect(program, iter([tables, later]), lateness="0 s")  # each dictionary moves time
    assert found.dead.select("event", "row", "code").rows() == [("a", 4, "late"), ("b", 2, "late")]
    assert detect(program, {"a": a[::-1]}, lateness="0 s").dead.height == 2  # rows of one event have an order


def test_lists_of_polars_become_events_beside_texts() -> None:
    program = """event r(id: string, s: float FROM "x[].s", who: string FROM "x[].who") TIME t.
    o(I, S, W) <- r(I, S, W)."""
    lists = [[{"s": 1.0, "who": "ann"}, {"s": 2.0, "who": "bob"}], [{"s": 3.0, "who": None}]]
    found = detect(program, pl.DataFrame({"id": ["u", "v"], "x": lists, "t": [1, 2]}))
    assert found["o"].select("i", "s", "w").rows() == [("u", 1.0, "ann"), ("u", 2.0, "bob")]
    plain = 'event r(id: string, s: string FROM "x[]") TIME t. o(I, S) <- r(I, S).'
    found = detect(plain, pl.DataFrame({"id": ["u", "v"], "x": [["a", "b"], ["c"]], "t": [1, 2]}))
    assert found["o"].select("i", "s").rows() == [("u", "a"), ("u", "b"), ("v", "c")]
