"""`FOLD order`: of an hour that clocks show twice, the second pass begins where times go back; else it is counted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cep import Engine, detect
from cep.command import app
from cep.connectors.files import read
from cep.connectors.records.double_hours import OrderedTimes
from cep.core.errors import CepError

ZURICH = ZoneInfo("Europe/Zurich")
BEGIN = datetime(2024, 10, 26, 20, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PROGRAM = 'event r(x: int) TIME t FORMAT "%d.%m.%Y %H:%M" ZONE "Europe/Zurich" FOLD order.\nn(X) <- r(X).\n'


def ticks(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def clocks(moments: list[datetime]) -> list[str]:
    return [each.astimezone(ZURICH).strftime("%d.%m.%Y %H:%M") for each in moments]


def written(folder: Path, moments: list[datetime]) -> Path:
    """A CSV file; every third number has blanks, and is read by itself."""
    rows = [f"{clock},{' ' if x % 3 == 0 else ''}{x}" for x, clock in enumerate(clocks(moments))]
    path = folder / "r.csv"
    path.write_text("\n".join(["t,x", *rows]) + "\n")
    return path


@given(st.sets(st.integers(0, 12 * 60), min_size=1), st.lists(st.integers(0, 60), max_size=6))
def test_a_logger_that_writes_in_order_is_read_right_however_it_is_cut(minutes: set[int], cuts: list[int]) -> None:
    moments = [BEGIN + timedelta(minutes=each) for each in sorted(minutes)]
    shown = [each.astimezone(ZURICH).replace(tzinfo=None) for each in moments]
    pairs = list(zip(shown, shown[1:]))
    hour = datetime(2024, 10, 27, 2), datetime(2024, 10, 27, 3)
    first = [
        each
        for each, real in zip(shown, moments)
        if hour[0] <= each < hour[1] and real < datetime(2024, 10, 27, 1, tzinfo=UTC)
    ]
    second = [
        each
        for each, real in zip(shown, moments)
        if hour[0] <= each < hour[1] and real >= datetime(2024, 10, 27, 1, tzinfo=UTC)
    ]
    seen = any(a > b for a, b in pairs)
    expected = [ticks(each) for each in moments]
    if second and not seen:  # nothing tells which pass it was
        expected = [ticks(each.replace(tzinfo=ZURICH).astimezone(UTC)) for each in shown]
    assert seen == bool(first and second and min(second) < max(first))
    earlier = np.array([ticks(each.replace(tzinfo=ZURICH).astimezone(UTC)) for each in shown], np.int64)
    series = OrderedTimes("Europe/Zurich")
    found = [series.settled(part) for part in np.split(earlier, sorted(cut for cut in cuts if cut < len(earlier)))]
    assert np.concatenate(found).tolist() == expected


def test_files_of_any_block_and_frames_are_read_by_order(tmp_path: Path) -> None:
    moments = [BEGIN + timedelta(minutes=15 * each) for each in range(40)]
    expected = [ticks(each) for each in moments]
    path = written(tmp_path, moments)
    schemas = Engine.from_text(PROGRAM).inputs
    for chunk in (40, 100, 10**6):
        tables = [batch.tables["r"] for batch in read([str(path)], schemas, chunk=chunk) if batch.tables]
        assert pl.concat(tables)["start"].to_list() == expected
    frame = pl.DataFrame({"t": clocks(moments), "x": range(40)})
    records = [{"type": "r", **row} for row in frame.to_dicts()]
    for data in (frame, records, iter([frame[:19], frame[19:]]), {"r": frame}):
        assert detect(PROGRAM, data).tables["n"]["start"].to_list() == moments
    parquet = tmp_path / "r.parquet"
    frame.with_columns(pl.col("t").str.to_datetime("%d.%m.%Y %H:%M")).write_parquet(parquet)
    (batch,) = read([str(parquet)], Engine.from_text(PROGRAM.replace('FORMAT "%d.%m.%Y %H:%M"', "")).inputs)
    assert batch.tables["r"]["start"].to_list() == expected


def test_several_series_one_after_the_other_begin_anew() -> None:
    moments = [BEGIN + timedelta(minutes=15 * each) for each in range(40)] * 2
    frame = pl.DataFrame({"t": clocks(moments), "x": range(80)})
    found = detect(PROGRAM, frame).tables["n"].sort("x")
    assert found["start"].to_list() == moments


def test_what_says_its_instant_is_no_record_of_an_order(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    times = ["2024-10-27T02:30:00", "2024-10-27T02:10:00", "2024-10-27T02:10:00+01:00"]
    path.write_text("".join(f'{{"type": "r", "t": "{time}", "x": {x}}}\n' for x, time in enumerate(times)))
    schemas = Engine.from_text('event r(x: int) TIME t ZONE "Europe/Zurich" FOLD order.\nn(X) <- r(X).').inputs
    (batch,) = read([str(path)], schemas)
    assert batch.tables["r"]["start"].to_list() == [1_729_989_000_000_000, 1_729_991_400_000_000]
    assert [(one.line, "FOLD order" in one.reason) for one in batch.dead] == [(3, True)]
    with pytest.raises(CepError, match="messages have no order"):
        list(read(["mqtt://localhost/t"], schemas))
    with pytest.raises(CepError, match="needs all data from the beginning"):
        Engine.from_text(PROGRAM).push(pl.DataFrame({"t": ["27.10.2024 02:00"], "x": [1]}))


@pytest.mark.parametrize(
    ("clause", "shown"),
    [
        ("", "4 times that occur twice in Europe/Zurich (read as the earlier; FOLD chooses)"),
        (" FOLD earlier", None),
        (" FOLD later", None),
        (" FOLD order", None),
    ],
)
def test_times_that_are_there_twice_are_counted(tmp_path: Path, clause: str, shown: str | None) -> None:
    moments = [BEGIN + timedelta(minutes=30 * each) for each in range(20)]
    rules = tmp_path / "p.cep"
    rules.write_text(PROGRAM.replace(" FOLD order", clause))
    result = CliRunner().invoke(app, ["run", str(rules), "--input", str(written(tmp_path, moments))])
    assert result.exit_code == 0
    assert (shown in result.stderr) if shown else "twice" not in result.stderr


def test_times_with_offsets_are_in_no_doubt(tmp_path: Path) -> None:
    moments = [BEGIN + timedelta(minutes=30 * each) for each in range(20)]
    rules, path = tmp_path / "p.cep", tmp_path / "r.csv"
    rules.write_text('event r(x: int) TIME t ZONE "Europe/Zurich".\nn(X) <- r(X).')
    path.write_text("t,x\n" + "".join(f"{each.astimezone(ZURICH).isoformat()},1\n" for each in moments))
    result = CliRunner().invoke(app, ["run", str(rules), "--input", str(path)])
    assert result.exit_code == 0 and "20 records" in result.stderr and "twice" not in result.stderr


def test_meters_write_both_ends_of_an_interval(tmp_path: Path) -> None:
    """Of each column the clock goes back by itself: the quarter that ends the first pass is written 02:45 to 02:00."""
    moments = [BEGIN + timedelta(minutes=15 * each) for each in range(40)]
    begins, ends = clocks(moments[:-1]), clocks(moments[1:])
    rows = "".join(f"{begin},{end},{place}\n" for place, (begin, end) in enumerate(zip(begins, ends)))
    (tmp_path / "m.csv").write_text("von,bis,x\n" + rows)
    form = 'FORMAT "%d.%m.%Y %H:%M" ZONE "Europe/Zurich" FOLD order'
    schemas = Engine.from_text(f"event m(x: int) START von END bis {form}.\nn(X) <- m(X).\n").inputs
    for chunk in (40, 100, 10**6):
        batches = list(read([str(tmp_path / "m.csv")], schemas, chunk=chunk))
        table = pl.concat([batch.tables["m"] for batch in batches if batch.tables])
        assert table["start"].to_list() == [ticks(each) for each in moments[:-1]]
        assert table["end"].to_list() == [ticks(each) for each in moments[1:]]
    with pytest.raises(CepError, match="a fluent cannot have `FOLD order`"):
        Engine.from_text(f"fluent m(x: int) START von END bis {form}.\nn(X) <- e(X).\n")


def test_an_hour_that_ends_where_it_begins_on_the_clock_ends_in_the_second_pass(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text(
        "von,bis,x\n27.10.2024 01:00,27.10.2024 02:00,1\n27.10.2024 02:00,27.10.2024 02:00,2\n"
    )
    form = 'FORMAT "%d.%m.%Y %H:%M" ZONE "Europe/Zurich" FOLD order'
    schemas = Engine.from_text(f"event m(x: int) START von END bis {form}.\nn(X) <- m(X).\n").inputs
    (batch,) = read([str(tmp_path / "m.csv")], schemas)
    assert ((batch.tables["m"]["end"] - batch.tables["m"]["start"]) // 3_600_000_000).to_list() == [1, 1]


DAY, HOUR = "27.10.2024 ", 3_600_000_000
MIDNIGHT = 1_729_980_000_000_000
"""22:00Z, by which time Zurich has midnight."""


def hours_of(
    tmp_path: Path, rows: str, form: str = "csv", chunk: int = 10**6
) -> tuple[list[tuple[float, float]], list[str]]:
    """The intervals that are read, in hours after 22:00Z, and the remarks."""
    columns = "START von END bis" if form == "csv" else "START p END p"
    pattern = 'FORMAT "%d.%m.%Y %H:%M" ' if form == "csv" else ""
    schemas = Engine.from_text(
        f'event m(x: int) {columns} {pattern}ZONE "Europe/Zurich" FOLD order.\nn(X) <- m(X).\n'
    ).inputs
    path = tmp_path / f"m.{form}"
    if form == "csv":
        texts = [",".join(DAY + each for each in row.split("-")) for row in rows.split()]
        path.write_text("von,bis,x\n" + "".join(f"{text},{x}\n" for x, text in enumerate(texts)))
    else:
        texts = [f"2024-10-27T{row}" if row[0] != "P" else row.replace("/", "/2024-10-27T") for row in rows.split()]
        if form == "parquet":
            pl.DataFrame({"p": texts, "x": range(len(texts))}).write_parquet(path)
        else:
            path.write_text("".join(f'{{"p": "{text}", "x": {x}}}\n' for x, text in enumerate(texts)))
    batches = list(read([str(path)], schemas, chunk=chunk))
    table = pl.concat([batch.tables["m"] for batch in batches if batch.tables])
    found = [((start - MIDNIGHT) / HOUR, (end - MIDNIGHT) / HOUR) for start, end in table["start", "end"].rows()]
    return found, [remark for batch in batches for remark in batch.remarks]


def steps(first: float, size: float, count: int) -> list[tuple[float, float]]:
    return [(first + size * each, first + size * (each + 1)) for each in range(count)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("01:00-02:00 02:00-03:00 02:00-03:00 03:00-04:00", steps(1, 1, 4)),
        ("01:00-02:00 02:00-02:00 02:00-03:00 03:00-04:00", steps(1, 1, 4)),
        ("02:00-02:30 02:30-03:00 02:00-02:30 02:30-03:00", steps(2, 0.5, 4)),
        ("02:00-02:30 02:30-02:00 02:00-02:30 02:30-03:00", steps(2, 0.5, 4)),
        ("00:30-01:30 01:30-02:30 02:30-02:30 02:30-03:30", steps(0.5, 1, 4)),
        ("00:30-01:30 01:30-02:30 02:30-03:30 02:30-03:30 03:30-04:30", steps(0.5, 1, 5)),
        ("00:00-02:00 02:00-03:00 03:00-05:00", steps(0, 2, 3)),
        ("01:00-02:00 01:00-02:00 02:00-03:00 02:00-03:00 02:00-03:00 02:00-03:00", sorted(steps(1, 1, 3) * 2)),
        ("02:45-02:00 02:15-02:30", [(2.75, 3), (3.25, 3.5)]),
        ("01:00-02:00 02:00-02:00 02:00-03:00 01:00-02:00 02:00-02:00 02:00-03:00", steps(1, 1, 3) * 2),
    ],
)  # fmt: skip
def test_an_interval_begins_where_the_one_before_ended(tmp_path: Path, rows: str, expected: list[object]) -> None:
    for chunk in (40, 10**6):
        assert hours_of(tmp_path, rows, chunk=chunk) == (expected, [])


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("02:00/PT1H 02:30/PT1H 02:00/PT1H 02:30/PT1H", [(2, 3), (2.5, 3.5), (3, 4), (3.5, 4.5)]),
        (" ".join(f"02:{minute}/PT15M" for minute in ("00", "15", "30", "45") * 2), steps(2, 0.25, 8)),
        ("01:00/PT1H 02:00/PT1H 02:00/PT1H 03:00/PT1H", steps(1, 1, 4)),
        ("02:00/PT2H 03:00/PT2H", [(2, 4), (4, 6)]),
        ("01:30/PT1H 02:30 02:00 02:00/PT0S 02:30/PT30M", [(1.5, 2.5), (2.5, 2.5), (3, 3), (3, 3), (3.5, 4)]),
        ("PT1H/02:00 PT1H/02:00 PT1H/03:00", steps(1, 1, 3)),
    ],
)  # fmt: skip
def test_a_length_counts_from_the_start_in_its_pass(
    tmp_path: Path, form: str, rows: str, expected: list[object]
) -> None:
    for chunk in (40, 10**6):
        assert hours_of(tmp_path, rows, form, chunk) == (expected, [])


def test_intervals_that_nothing_settles_are_told(tmp_path: Path) -> None:
    found, (remark,) = hours_of(tmp_path, "02:00-03:00")
    assert found == [(2, 3)] and "one interval of `m`" in remark and "in which of the two hours" in remark
    found, (remark,) = hours_of(tmp_path, "02:10-03:20 05:00-06:00")
    assert found[0] == (2 + 1 / 6, 4 + 1 / 3) and "begins in the hour that comes twice" in remark


@given(st.data())
def test_meters_of_any_length_are_read_right(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Those that write the clock of their ends, and those that add their length to the clock of their starts."""
    size = data.draw(st.sampled_from([5, 10, 15, 20, 30, 60]))
    meters, apart = data.draw(st.integers(1, 3)), data.draw(st.booleans())
    adds = data.draw(st.booleans())
    begin = datetime(2024, 10, 26, 20, tzinfo=UTC)
    starts = [begin + timedelta(minutes=size * each) for each in range(10 * 60 // size)]
    starts = [each for each in starts for _ in range(meters)] if apart else starts * meters
    shown = [each.astimezone(ZURICH).replace(tzinfo=None) for each in starts]
    length = timedelta(minutes=size)
    ends = [each + length if adds else (real + length).astimezone(ZURICH) for each, real in zip(shown, starts)]
    rows = [f"{a:%d.%m.%Y %H:%M},{b:%d.%m.%Y %H:%M},{x}" for x, (a, b) in enumerate(zip(shown, ends))]
    path = tmp_path_factory.mktemp("m") / "m.csv"
    path.write_text("von,bis,x\n" + "\n".join(rows) + "\n")
    form = 'FORMAT "%d.%m.%Y %H:%M" ZONE "Europe/Zurich" FOLD order'
    schemas = Engine.from_text(f"event m(x: int) START von END bis {form}.\nn(X) <- m(X).\n").inputs
    chunk = data.draw(st.sampled_from([60, 500, 10**6]))
    table = pl.concat([each.tables["m"] for each in read([str(path)], schemas, chunk=chunk) if each.tables])
    assert table["start"].to_list() == [ticks(each) for each in starts]
    assert table["end"].to_list() == [ticks(each + length) for each in starts]
