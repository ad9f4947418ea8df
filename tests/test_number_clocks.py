"""Times of day that are numbers, `5` for 00:05 and `1234`, beside a day: read as declared, found by infer, or told."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cep.command import app
from cep.connectors.files import read
from cep.connectors.records.columns import Cells, joined, text_cells, ticks
from cep.connectors.records.numbers import GOOD, NUMBER, STRING
from cep.connectors.records.records import read_times
from cep.connectors.records.values import Unreadable, text_time
from cep.core.schema import Schema, TimeFormat
from cep.engine import Engine
from cep.language.schemas import Schemas
from cep.language.syntax.parser import parse
from tests.long import examples

MAY = int(datetime(2024, 5, 1, tzinfo=UTC).timestamp()) * 1_000_000
MINUTE = 60_000_000


def rows(path: Path, declared: str) -> tuple[list[int], list[str]]:
    """The times and the reasons of dead letters that a file of records gives."""
    engine = Engine.from_text(f"event r(x: int) {declared}.\nfound(X) <- r(X).")
    times, reasons = [], []
    for batch in read([f"r={path}"], {name: engine.plan.schemas[name] for name in engine.plan.inputs}):
        times += [time for table in batch.tables.values() for time in table["start"]]
        reasons += [dead.reason for dead in batch.dead]
    return times, reasons


def written(folder: Path, suffix: str, columns: dict[str, list[object]]) -> Path:
    path = folder / f"r.{suffix}"
    frame = pd.DataFrame(columns)
    if suffix == "csv":
        frame.to_csv(path, index=False)
    elif suffix == "parquet":
        frame.to_parquet(path, index=False)
    else:
        keys = list(columns)
        lines = [dict(zip(keys, row)) for row in zip(*columns.values())]
        path.write_text("".join(json.dumps(each, default=str) + "\n" for each in lines))
    return path


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize(
    ("day", "form"), [("2024-05-01", "%Y-%m-%d"), (20240501, "%Y%m%d"), ("1 May 2024", "%d %b %Y")]
)
def test_numbers_beside_a_day_are_times_of_day(tmp_path: Path, suffix: str, day: object, form: str) -> None:
    path = written(tmp_path, suffix, {"d": [day] * 3, "c": [5, 730, 1234], "x": [1, 2, 3]})
    form = form.replace("%b", "%B") if suffix == "jsonl" else form
    times, reasons = rows(path, f'TIME d, c FORMAT "{form} %H%M"')
    assert (times, reasons) == ([MAY + 5 * MINUTE, MAY + 450 * MINUTE, MAY + 754 * MINUTE], [])
    hours = written(tmp_path, suffix, {"d": [day] * 2, "c": [0, 23], "x": [1, 2]})
    assert rows(hours, f'TIME d, c FORMAT "{form} %H"') == ([MAY, MAY + 23 * 60 * MINUTE], [])


@pytest.mark.long
@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_without_a_format_it_is_told_what_to_write(tmp_path: Path, suffix: str) -> None:
    days: list[object] = ["2024-05-01", "2024-05-01", "2024-05-01"]
    path = written(tmp_path, suffix, {"d": days, "c": [5, 1234, 123456], "x": [1, 2, 3]})
    times, (few, four, six) = rows(path, "TIME d, c")
    assert not times
    assert few.endswith('is declared, `FORMAT "%Y-%m-%d %H%M"` or `FORMAT "%Y-%m-%d %H"`')
    assert four.endswith('`2024-05-01 1234` is not an ISO 8601 time; a time of day that is a number is declared, '
                         '`FORMAT "%Y-%m-%d %H%M"`')  # fmt: skip
    assert six.endswith('is declared, `FORMAT "%Y-%m-%d %H%M%S"`')


def test_a_column_of_pandas_with_missing_values_is_of_floats(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    pd.DataFrame({"d": [20240501, 20240501.5, np.nan], "x": [1, 2, 3]}).to_parquet(path)
    reasons = ["d: `20240501.5` is not written `%Y%m%d`", "no time: `d` is missing"]
    assert rows(path, 'TIME d FORMAT "%Y%m%d"') == ([MAY], reasons)
    pd.DataFrame({"d": ["2024-05-01"] * 3, "c": [5, np.nan, 1.5], "x": [1, 2, 3]}).to_parquet(path)
    reasons = ["no time: `c` is missing", "d, c: `2024-05-01 1.5` is not written `%Y-%m-%d %H%M`"]
    assert rows(path, 'TIME d, c FORMAT "%Y-%m-%d %H%M"') == ([MAY + 5 * MINUTE], reasons)


FILES: dict[str, tuple[dict[str, list[object]], str]] = {
    "hhmm": ({"date": ["2024-05-01"] * 2, "time": [5, 1234]}, 'TIME date, time FORMAT "%Y-%m-%d %H%M"'),
    "seconds": ({"date": ["2024-05-01"] * 2, "clock": [5, 123456]}, 'TIME date, clock FORMAT "%Y-%m-%d %H%M%S"'),
    "hours": ({"date": [20240501] * 2, "hour": [0, 23]}, 'TIME date, hour FORMAT "%Y%m%d %H"'),
    "lost": ({"date": [1052024, 31122024], "uhrzeit": [630, 1234]}, 'TIME date, uhrzeit FORMAT "%d%m%Y %H%M"'),
    "day": ({"day": [20240501, 20240502]}, 'TIME day FORMAT "%Y%m%d"'),
}


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("kind", FILES)
def test_infer_finds_them(tmp_path: Path, suffix: str, kind: str) -> None:
    columns, behind = FILES[kind]
    path = written(tmp_path, suffix, {**columns, "x": [1, 2]})
    result = CliRunner().invoke(app, ["infer", str(path)])
    assert result.exit_code == 0 and result.stdout.rstrip().endswith(f") {behind}.")
    (batch,) = read([f"r={path}"], Schemas(parse(result.stdout), {}).found)
    assert batch.rows == 2 and not batch.dead


def test_infer_takes_no_number_for_a_time_of_day_that_is_none(tmp_path: Path) -> None:
    for name, values in (("time", [5, 1299]), ("hour", [1, 25]), ("level", [5, 1234]), ("time", [1, 2])):
        path = written(tmp_path, "csv", {"date": ["2024-05-01"] * 2, name: [*values]})
        assert ") TIME date.\n" in CliRunner().invoke(app, ["infer", str(path)]).stdout


def test_days_of_pandas_are_timestamps_at_midnight(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    pd.DataFrame({"date": pd.to_datetime(["2024-05-01", "2024-05-02"]), "time": ["05:30", "06:00"]}).to_parquet(path)
    assert ") TIME date, time.\n" in CliRunner().invoke(app, ["infer", str(path)]).stdout


def cells(days: list[str], clocks: list[str], kind: int, textual: bool) -> Cells:
    """Two columns of fields (of a table, or numbers of JSON)."""
    both = [text_cells(pl.Series(each)) for each in (days, clocks)]
    buffer = np.concatenate([each.buffer for each in both])
    offset = np.concatenate([both[0].offset, both[1].offset + len(both[0].buffer)]).astype(np.int32)
    length = np.concatenate([each.length for each in both])
    kinds = np.array([[STRING], [kind]], np.uint8).repeat(len(days), axis=1)
    return Cells(buffer, offset, length, kinds, textual)


@examples(200)
@given(
    st.lists(
        st.tuples(
            st.dates(date(1970, 1, 1), date(2068, 1, 1)),
            st.sampled_from(
                ["5", "0", "59", "730", "2359", "2400", "0005", "60", " 5 ", "-5", "x", "", "12:34", "123456", "99"]
            ),
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(["%Y-%m-%d %H%M", "%Y-%m-%d %H", "%d%m%Y %H%M%S", "%d %b %Y %H%M", "%d%m%Y %H:%M", "%Y %j %H%M"]),
    st.booleans(),
)
@example([(date(2024, 5, 1), "5")], "%d%m%Y %H%M%S", True)  # fmt: skip
def test_many_rows_are_read_as_single_ones(rows: list[tuple[date, str]], pattern: str, table: bool) -> None:
    form, schema = TimeFormat(pattern), Schema("r", (), True, True, "d", further=("c",), format=TimeFormat(pattern))
    days = [day.strftime(pattern.rpartition(" ")[0]).lstrip("0") for day, _ in rows]
    clocks = [clock for _, clock in rows]
    found, states = ticks(joined(cells(days, clocks, STRING if table else NUMBER, table), form, 2), 0, True, form)
    for row, (day, clock) in enumerate(zip(days, clocks)):
        number = int(clock) if not table and clock.strip().isdigit() and str(int(clock)) == clock else clock
        given = {"d": day, "c": number}
        try:
            single = read_times(given.get, schema, lambda key, text: text_time(key, text, form), table)[0]
        except Unreadable:
            single = None
        if number == clock and not table:
            continue  # numbers of JSON are written in one way
        assert (int(found[row]) if states[row] == GOOD else None) == single, (day, clock)


def test_a_time_of_day_of_two_digits_under_minutes_is_after_midnight() -> None:
    form = TimeFormat("%Y-%m-%d %H%M")
    found, states = ticks(joined(cells(["2024-05-01"], ["59"], STRING, True), form, 2), 0, True, form)
    assert states[0] == GOOD and found[0] == MAY + timedelta(minutes=59) // timedelta(microseconds=1)
