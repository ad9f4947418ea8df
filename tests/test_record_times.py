"""Times as records write them: patterns, epochs, two columns, zones; each reader against Python's own datetime."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cep.connectors.files import read
from cep.connectors.records.columns import text_cells, ticks
from cep.connectors.records.numbers import GOOD
from cep.connectors.records.times import FIRST, LAST, of_text
from cep.core.errors import CepError
from cep.core.schema import Schema, TimeFormat
from cep.core.time_pattern import of_pattern, parts
from cep.engine import Engine
from tests.long import examples

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
PATTERNS = [
    "%Y-%m-%d %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%m/%d/%Y %I:%M:%S %p",
    "%d-%b-%y %H:%M",
    "%A, %d %B %Y %H:%M:%S.%f",
    "%a %b %d %H:%M:%S UTC %Y",
    "%Y%m%d%H%M%S",
    "%Y-%m-%dT%H:%M:%S.%f%z",
    "%Y-%j",
    "%d.%m.%y",
    "%Y",
    "%Y%%%m",
]
ZONES = ["Europe/Zurich", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Casablanca", "UTC"]


def schema(program: str) -> dict[str, Schema]:
    engine = Engine.from_text(program + " found(X) <- r(X).")
    return {name: engine.plan.schemas[name] for name in engine.plan.inputs}


def fast(text: str, format: TimeFormat) -> int | None:
    """What the compiled reader makes of a text, None: it leaves it to the other."""
    found, states = ticks(text_cells(pl.Series([text])), 0, True, format)
    return int(found[0]) if states[0] == GOOD else None


def judged(text: str, format: TimeFormat) -> int | None:
    try:
        return of_text(text, format)
    except ValueError:
        return None


def by_library(text: str, pattern: str) -> int | None:
    try:
        found = datetime.strptime(text, pattern)
    except ValueError:
        return None
    return (found.replace(tzinfo=found.tzinfo or UTC) - EPOCH) // MICROSECOND


@examples(300)
@given(
    st.datetimes(datetime(1000, 1, 1), datetime(9998, 12, 31)),
    st.sampled_from(PATTERNS),
    st.integers(-23 * 60, 23 * 60),
    st.booleans(),
)
def test_what_the_library_writes_is_read_as_by_the_library(
    moment: datetime, pattern: str, offset: int, short: bool
) -> None:
    sign, size = "-" if offset < 0 else "+", abs(offset)
    zone = f"{sign}{size // 60:02}:{size % 60:02}"
    text = moment.strftime(pattern.replace("%z", "@")).replace("@", zone if short else zone.replace(":", ""))
    expected = by_library(text, pattern)
    assert expected is not None and FIRST <= expected <= LAST
    assert judged(text, TimeFormat(pattern)) == expected
    assert fast(text, TimeFormat(pattern)) == expected


@examples(300)
@given(st.text("0123456789./:- %TZAPMapmJanFebMonSundy+é", max_size=25), st.sampled_from(PATTERNS))
@example("1.2.2024 3:4", "%d.%m.%Y %H:%M")
@example("29.02.2023 03:04", "%d.%m.%Y %H:%M")
@example("2023-366", "%Y-%j")  # to the library the first day of the next year
@example("1122024", "%d%m%Y")
@example("20240230", "%Y%m%d")
def test_the_compiled_reader_takes_nothing_that_the_other_does_not(text: str, pattern: str) -> None:
    found = fast(text, TimeFormat(pattern))
    if found is not None:
        assert judged(text.strip(" \t"), TimeFormat(pattern)) == found
    full = {"%Y%m%d%H%M%S": 14, "%d%m%Y": 8}.get(pattern, 0)  # to the library digits may lack anywhere
    if sum(map(str.isdigit, text)) < full:
        assert judged(text, TimeFormat(pattern)) is None
    elif (known := by_library(text, pattern)) is not None and text.isascii() and "-366" not in text:
        assert judged(text, TimeFormat(pattern)) == known


@examples(300)
@given(st.integers(0, 4_102_444_800), st.sampled_from(ZONES), st.booleans(), st.integers(0, 999_999))
@example(1_711_848_600, "Europe/Zurich", False, 0)
@example(1_729_992_600, "Europe/Zurich", True, 0)
def test_local_times_are_those_of_zoneinfo(second: int, zone: str, later: bool, micros: int) -> None:
    clock = datetime(1970, 1, 1) + timedelta(seconds=second, microseconds=micros)
    there = clock.replace(tzinfo=ZoneInfo(zone), fold=int(later))
    instant = there.astimezone(UTC)
    exists = instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None) == clock
    expected = (instant - EPOCH) // MICROSECOND if exists else None
    for format, text in (
        (
            TimeFormat("%d.%m.%Y %H:%M:%S.%f", None, zone, "later" if later else None),
            clock.strftime("%d.%m.%Y %H:%M:%S.%f"),
        ),
        (TimeFormat(None, None, zone, "later" if later else None), clock.isoformat()),
    ):
        assert judged(text, format) == expected
        assert fast(text, format) == expected


@given(st.decimals(-(10**15), 10**15, places=4), st.sampled_from(["s", "ms", "us", "ns"]))
def test_counts_are_exact_and_round_half_to_even(count: object, unit: str) -> None:
    from fractions import Fraction

    exact = round(Fraction(str(count)) * {"s": 10**6, "ms": 10**3, "us": 1, "ns": Fraction(1, 1000)}[unit])
    expected = exact if FIRST <= exact <= LAST else None
    text = f"{count:f}"
    assert judged(text, TimeFormat(None, unit)) == expected
    assert fast(text, TimeFormat(None, unit)) in (expected, None)


def test_fractions_may_have_any_number_of_digits() -> None:
    for digits, micros in (("5", 500_000), ("1234565", 123_456), ("1234575", 123_458), ("123456789", 123_457)):
        text, format = f"2024-01-01 00:00:00.{digits}", TimeFormat("%Y-%m-%d %H:%M:%S.%f")
        assert judged(text, format) == fast(text, format) == 1_704_067_200_000_000 + micros


def test_the_parts_of_a_pattern() -> None:
    assert parts("%Y  %m%%x") == [("Y", ""), (" ", ""), ("m", ""), ("", "%"), ("", "x")]
    assert of_pattern("2024  3%X", "%Y  %m%%x") == (1_709_251_200_000_000, False)
    with pytest.raises(CepError, match="not a known directive"):
        parts("%q")


HEADER = "x,ts,day,clock\n"
ROWS = [  # a record in fields, and its instant by Zurich's clocks; None: they skip it
    (1, "31.03.2024 01:59", 1_711_846_740),
    (2, "31.03.2024 02:30", None),
    (3, "27.10.2024 02:30", 1_729_989_000),
    (4, "1.7.2024 8:05", 1_719_813_900),
    (5, "31.02.2024 08:00", None),
    (6, "2024-07-01", None),
]
ZURICH = 'TIME ts FORMAT "%d.%m.%Y %H:%M" ZONE "Europe/Zurich"'


def files(folder: Path) -> dict[str, Path]:
    """The rows in each format, `ts` as a whole, `day` and `clock` its parts."""
    split = [(x, ts, *(ts.split(" ") + [""])[:2]) for x, ts, _ in ROWS]
    (folder / "r.csv").write_text(HEADER + "".join(",".join(map(str, row)) + "\n" for row in split))
    json = [f'{{"x": {x}, "ts": "{ts}", "day": "{day}", "clock": "{clock}"}}\n' for x, ts, day, clock in split]
    (folder / "r.jsonl").write_text("".join(json))
    columns = {name: [row[i] for row in split] for i, name in enumerate(("x", "ts", "day", "clock"))}
    pq.write_table(pa.table(columns), folder / "r.parquet")
    return {name: folder / f"r.{name}" for name in ("csv", "jsonl", "parquet")}


def taken(path: Path, schemas: dict[str, Schema]) -> tuple[list[tuple[int, int]], list[tuple[int, str]]]:
    events, dead = [], []
    for batch in read([f"r={path}"], schemas):
        dead += [(one.line, one.code) for one in batch.dead]
        for table in batch.tables.values():
            events += list(zip(table["x"].to_list(), table["start"].to_list()))
    return events, dead


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_every_reader_reads_local_times(tmp_path: Path, format: str) -> None:
    path = files(tmp_path)[format]
    first = 2 if format == "csv" else 1
    good = [(x, second * 1_000_000) for x, _, second in ROWS if second is not None]
    bad = [(first + i, "time") for i, (_, _, second) in enumerate(ROWS) if second is None]
    assert taken(path, schema(f"event r(x: int) {ZURICH}.")) == (good, bad)
    later = [(x, at + (3600_000_000 if x == 3 else 0)) for x, at in good]
    assert taken(path, schema(f"event r(x: int) {ZURICH} FOLD later.")) == (later, bad)
    two = ZURICH.replace("ts", "day, clock")
    assert taken(path, schema(f"event r(x: int) {two}.")) == (good, bad)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_every_reader_reads_epochs(tmp_path: Path, unit: str) -> None:
    size = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    counts = [1_700_000_000 * size, 7_300_000_000, 0]
    (tmp_path / "r.csv").write_text("x,ts\n" + "".join(f"{i},{count}\n" for i, count in enumerate(counts)))
    (tmp_path / "r.jsonl").write_text("".join(f'{{"x": {i}, "ts": {count}}}\n' for i, count in enumerate(counts)))
    (tmp_path / "t.jsonl").write_text("".join(f'{{"x": {i}, "ts": "{count}"}}\n' for i, count in enumerate(counts)))
    pq.write_table(pa.table({"x": [0, 1, 2], "ts": counts}), tmp_path / "r.parquet")
    pq.write_table(pa.table({"x": [0, 1, 2], "ts": list(map(float, counts))}), tmp_path / "f.parquet")
    schemas = schema(f"event r(x: int) TIME ts FORMAT epoch {unit}.")
    expected = [(i, round(count * 1_000_000 / size)) for i, count in enumerate(counts)]
    for name in ("r.csv", "r.jsonl", "t.jsonl", "r.parquet", "f.parquet"):
        assert taken(tmp_path / name, schemas) == (expected, []), name


def test_a_number_beyond_2200_is_told_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("x,ts\n1,1700000000000\n2,7300000000\n")
    (tmp_path / "r.jsonl").write_text('{"x": 1, "ts": 1700000000000}\n{"x": 2, "ts": 7300000000}\n')
    pq.write_table(pa.table({"x": [1, 2], "ts": [1_700_000_000_000, 7_300_000_000]}), tmp_path / "r.parquet")
    for name in ("r.csv", "r.jsonl", "r.parquet"):
        (batch,) = read([f"r={tmp_path / name}"], schema("event r(x: int) TIME ts."))
        assert [one.code for one in batch.dead] == ["time", "time"]
        assert all("they are declared `FORMAT epoch ms`" in one.reason for one in batch.dead)
        assert "beyond the year 2200" in batch.dead[1].reason


def test_times_of_parquet_without_an_offset_are_those_of_the_zone(tmp_path: Path) -> None:
    clocks = [datetime(2024, 7, 1, 8), datetime(2024, 3, 31, 2, 30), datetime(2024, 10, 27, 2, 30)]
    table = pa.table({"x": [1, 2, 3], "ts": clocks, "at": pa.array(clocks, pa.timestamp("ms", "UTC"))})
    pq.write_table(table, tmp_path / "r.parquet")
    zurich = schema('event r(x: int) TIME ts ZONE "Europe/Zurich".')
    assert taken(tmp_path / "r.parquet", zurich) == (
        [(1, 1_719_813_600_000_000), (3, 1_729_989_000_000_000)],
        [(2, "time")],
    )
    absolute = schema('event r(x: int) TIME at ZONE "Europe/Zurich".')
    assert [at for _, at in taken(tmp_path / "r.parquet", absolute)[0]] == [
        (clock.replace(tzinfo=UTC) - EPOCH) // MICROSECOND for clock in clocks
    ]


def test_attributes_have_formats_of_their_own_and_the_zone_of_the_time(tmp_path: Path) -> None:
    program = (
        'event r(x: int, seen: time FORMAT "%d.%m.%Y", sent: time, took: duration FORMAT ms, far: time FORMAT epoch us)'
        ' TIME ts ZONE "Europe/Zurich".'
    )
    engine = Engine.from_text(program + " found(X) <- r(X, _, _, _, _).")
    schemas = {"r": engine.plan.schemas["r"]}
    (tmp_path / "r.csv").write_text(
        "x,ts,seen,sent,took,far\n1,2024-07-01T08:00:00,1.7.2024,2024-07-01T08:00:00Z,1500.5,7300000000000000\n"
    )
    (tmp_path / "r.jsonl").write_text(
        '{"x": 1, "ts": "2024-07-01T08:00:00", "seen": "1.7.2024", "sent": "2024-07-01T08:00:00Z", "took": 1500.5, '
        '"far": 7300000000000000}\n'
    )
    hour = 3_600_000_000
    for name in ("r.csv", "r.jsonl"):
        (batch,) = read([f"r={tmp_path / name}"], schemas)
        (row,) = batch.tables["r"].drop("@order", "end").rows(named=True)
        assert row == {
            "start": 1_719_792_000_000_000 + 6 * hour,
            "x": 1,
            "seen": 1_719_792_000_000_000 - 2 * hour,
            "sent": 1_719_792_000_000_000 + 8 * hour,
            "took": 1_500_500,
            "far": 7_300_000_000_000_000,
        }


def test_many_times_at_once_are_those_of_each() -> None:
    clocks = pl.datetime_range(datetime(2020, 1, 1), datetime(2026, 1, 1), "13h37m", eager=True)
    texts = clocks.dt.strftime("%Y-%m-%d %H:%M")
    for zone in ZONES:
        format = TimeFormat("%Y-%m-%d %H:%M", None, zone)
        found, states = ticks(text_cells(texts), 0, True, format)
        for row in range(0, len(texts), 97):
            assert (int(found[row]) if states[row] == GOOD else None) == judged(texts[row], format)
        assert np.count_nonzero(states != GOOD) < 10
