"""Files: every format, odd files, pipes, and whole inputs in the order of time."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core.errors import CepError
from cep.core.schema import Attribute, Schema
from connectors.batch import Batch
from connectors.files import read, replay
from tests.long import examples

READING = Schema(
    "reading",
    (
        Attribute("station", "string", source="origin"),
        Attribute("wind", "float", source="wind_speed"),
        Attribute("gust", "float", optional=True),
    ),
    declared=True,
    point=True,
    time="time_hour",
)
TICK = Schema("tick", (Attribute("n", "int"),), declared=True, point=False)
LOOSE = Schema("loose", (Attribute("arg1", "any"),), declared=False, point=False)
BOTH = {"reading": READING, "tick": TICK}
TICKS = {"tick": TICK}


def rows(batches: Iterator[Batch] | list[Batch]) -> list[tuple[Any, ...]]:
    """(type, start, end, order, attributes...) of all batches, by order."""
    found = [(type, *row) for batch in batches for type, table in batch.tables.items() for row in table.rows()]
    return sorted(found, key=lambda row: row[3])


def dead(batches: list[Batch]) -> list[tuple[int, str]]:
    return [(record.line, record.code) for batch in batches for record in batch.dead]


def refusal(specs: list[str], schemas: dict[str, Schema], **options: Any) -> str:
    with pytest.raises(CepError) as caught:
        list(read(specs, schemas, **options))
    return str(caught.value)


# --- which files


def test_a_directory_a_pattern_and_files_in_turn(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"time": 1, "n": ord(name)}) + "\n")
    (tmp_path / "notes.txt").write_text("no events")
    letters = [97, 98, 99]
    assert [row[-1] for row in rows(read([str(tmp_path)], TICKS))] == letters
    assert [row[-1] for row in rows(read([f"{tmp_path}/?.jsonl"], TICKS))] == letters
    batches = list(read([f"tick={tmp_path}/c.jsonl", f"{tmp_path}/a.jsonl"], TICKS))
    assert [row[3:] for row in rows(batches)] == [(0, 99), (1, 97)]
    assert batches[1].origin("tick", 0) == (f"{tmp_path}/a.jsonl", 1, '{"time": 1, "n": 97}')
    assert [batch.bytes_read for batch in batches] == [21, 42]
    assert batches[0].total_bytes == 42


def test_what_cannot_be_read_at_all_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("time,n\n1,2\n")
    (tmp_path / "data.dat").write_text("")
    (tmp_path / "data.parquet").write_text("no parquet")
    (tmp_path / "empty").mkdir()
    assert f"data.cvs: no such file\nhint: did you mean `{tmp_path}/data.csv`?" in refusal(
        [f"{tmp_path}/data.cvs"], TICKS
    )
    assert "add `--format jsonl`" in refusal([f"{tmp_path}/data.dat"], TICKS)
    assert "no file in this directory ends in" in refusal([f"{tmp_path}/empty"], TICKS)
    assert f"no file matches\nhint: the folder `{tmp_path}` holds `data.csv`" in refusal([f"{tmp_path}/*.jsonl"], TICKS)
    assert "uses an input event `tik` (`tick` comes near)" in refusal([f"tik={tmp_path}/data.csv"], BOTH)
    assert "bind it: `reading=" in refusal([f"{tmp_path}/data.csv"], BOTH)
    assert "no Parquet file" in refusal([f"tick={tmp_path}/data.parquet"], BOTH)
    assert "`xml` is no format" in refusal([f"tick={tmp_path}/data.csv"], BOTH, format="xml")
    assert "standard input is named twice" in refusal(["-", "-"], BOTH)
    assert "cannot be read from standard input" in refusal(["tick=-"], BOTH, format="parquet")
    assert rows(read([f"{tmp_path}/data.csv"], TICKS)) == [("tick", 1_000000, 1_000000, 0, 2)]


def test_a_missing_column_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text("Origin,wind_sped,gust,time_hour\nEWR,1,2,3\n")
    assert str(path) in refusal([f"reading={path}"], BOTH)
    assert refusal([f"reading={path}"], BOTH).endswith(
        "reading needs columns `origin` (`Origin` comes near), `wind_speed` (`wind_sped` comes near)\n"
        "hint: the columns are Origin, wind_sped, gust, time_hour; a declaration names others with FROM and TIME"
    )
    path.write_text("time,v\n1,2\n")
    assert refusal([str(path)], {"loose": LOOSE}).endswith(
        "loose needs a column `arg1`\nhint: loose is not declared; declare it to have its values by name: "
        "`event loose(v: int) TIME time.`; the columns are time, v; a declaration names others with FROM and TIME"
    )
    path.write_text('time,fridge,temp,at\n2024-05-01 08:00,"milk, cold",4.1,x\n2024-05-01 08:10,,3,y\n')
    three = {"loose": replace(LOOSE, attributes=tuple(replace(LOOSE.attributes[0], name=f"arg{n}") for n in (1, 2, 3)))}
    assert "`event loose(fridge: string?, temp: float, at: string) TIME time.`" in refusal([str(path)], three)
    path.write_text("when,n,ok\n2024-05-01T08:00:00Z,1,true\n2024-05-01T08:10:00Z,,false\n")
    assert "`event loose(n: int?, ok: bool) TIME when.`" in refusal(
        [str(path)], {"loose": replace(LOOSE, attributes=three["loose"].attributes[:2])}
    )
    path.write_text("n,n,time\n1,2,3\n")
    assert "2 columns are called `n`" in refusal([str(path)], TICKS)
    path.write_text("n,start,time\n1,2,3\n")
    assert "both `time` and `start` give the time of tick" in refusal([str(path)], TICKS)
    path.write_text("n,start\n1,2\n")
    assert "tick needs a column `end` for the time" in refusal([str(path)], TICKS)
    path.write_text("\n1,2\n")
    assert "the first line is empty" in refusal([str(path)], TICKS)
    pl.DataFrame({"n": ["1"], "time": [1]}).write_parquet(tmp_path / "w.parquet")
    assert "the column `n` holds String; int wants whole numbers" in refusal([f"{tmp_path}/w.parquet"], TICKS)


# --- text


def test_text_that_is_not_utf8_says_what_makes_it_so(tmp_path: Path) -> None:
    path, text = tmp_path / "x.csv", "time,n,café\n1,2,é\n"
    for code in ("utf-16", "utf-16-le"):
        path.write_bytes(text.encode(code))
        assert "`iconv -f utf-16 -t utf-8`" in refusal([str(path)], TICKS)
    path.write_bytes(text.encode("latin1"))
    assert "`iconv -f latin1 -t utf-8`" in refusal([str(path)], TICKS)
    path.write_bytes(text.replace("café", "x").encode("latin1"))
    reasons = [letter.reason for batch in read([str(path)], TICKS) for letter in batch.dead]
    assert reasons == ["byte 5 of the line is not UTF-8; convert it: `iconv -f latin1 -t utf-8`"]


def test_odd_text_files(tmp_path: Path) -> None:
    lines = tmp_path / "x.jsonl"
    table = tmp_path / "x.csv"
    for path in (lines, table):
        for empty in (b"", b"\xef\xbb\xbf", b"\r\n"):
            if path == table and empty == b"\r\n":
                continue
            path.write_bytes(empty)
            assert rows(read([str(path)], TICKS)) == []
    table.write_bytes(b"time,n\r\n")
    assert rows(read([str(table)], TICKS)) == []
    expected = [("tick", 1_000000, 1_000000, 0, 2), ("tick", 3_000000, 3_000000, 1, 4)]
    lines.write_bytes(b'\xef\xbb\xbf{"time": 1, "n": 2}\r\n\r\n  \n{"time": 3, "n": 4}')
    table.write_bytes(b'\xef\xbb\xbftime,"n" ,"a ""b"""\r\n1,2,\r\n\r\n"3","4","x\ny"')
    for path in (lines, table):
        for chunk in (1, 2, 3, 7, 1000):
            assert rows(read([str(path)], TICKS, chunk=chunk)) == expected
    lines.write_bytes(b'{"time": 1, "n": 2}\n{"time": 1, "n": 2, "x": "\xff"}\n{"time": 3, "n": 4}\n')
    batches = list(read([str(lines)], TICKS))
    assert dead(batches) == [(2, "utf-8")]
    assert [row[3] for row in rows(batches)] == [0, 2]


def test_bad_lines_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('time,n\n1,2\n1\n1,2,3\n"1"x,2\n"open,2\n,5\n1,x\n1,"2"\n')
    for chunk in (1, 5, 1000):
        batches = list(read([str(path)], TICKS, chunk=chunk))
        assert dead(batches) == [(3, "row"), (4, "row"), (5, "row"), (6, "row"), (7, "time"), (8, "ill-typed")]
        assert [record.text for batch in batches for record in batch.dead][3] == '"open,2'
        assert [row[3:] for row in rows(batches)] == [(0, 2), (7, 2)]
        assert [batch.origin("tick", 0)[1:] for batch in batches if batch.rows][-1] in ((2, "1,2"), (9, '1,"2"'))


def test_a_line_without_end_is_not_held(tmp_path: Path) -> None:
    long = b'{"time": 1, "n": 2, "x": "' + b"y" * (20 << 20) + b'"}\n'
    lines = tmp_path / "x.jsonl"
    lines.write_bytes(b'{"time": 1, "n": 1}\n' + long + b'{"time": 1, "n": 3}\n')
    table = tmp_path / "x.csv"
    table.write_bytes(b"time,n\n1,1\n1," + b"2" * (20 << 20) + b"\n1,3\n")
    for path, line in ((lines, 2), (table, 3)):
        batches = list(read([str(path)], TICKS, chunk=1 << 22))
        assert dead(batches) == [(line, "long")]
        assert [row[3:] for row in rows(batches)] == [(0, 1), (2, 3)]
        assert batches[-1].origin("tick", batches[-1].tables["tick"].height - 1)[1] == line + 1


def test_tab_separated(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("n\ttime\n3.0\t2013-02-08\n")
    assert rows(read([str(tmp_path)], TICKS)) == [("tick", 1360281600_000000, 1360281600_000000, 0, 3)]


def test_compressed_and_damaged(tmp_path: Path) -> None:
    text = b"".join(b'{"time": %d, "n": %d}\n' % (i, i) for i in range(1000))
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(text))
    assert len(rows(read([str(path)], TICKS, chunk=1000))) == 1000
    path.write_bytes(gzip.compress(text)[:-1000])
    batches = list(read([str(path)], TICKS))
    found = rows(batches)
    assert dead(batches) == [(len(found) + 1, "gzip")]
    assert [row[-1] for row in found] == list(range(len(found)))
    (tmp_path / "x.jsonl.gz").write_bytes(text)
    assert "this is no gzip file; without `.gz` in its name it is read as it is" in refusal([str(path)], TICKS)


@examples(60)
@given(st.data())
def test_cuts_do_not_matter(data: st.DataObject) -> None:
    records = data.draw(
        st.lists(st.tuples(st.integers(0, 99), st.one_of(st.integers(), st.text(max_size=3))), max_size=12)
    )
    lines = "".join(json.dumps({"type": "loose", "time": time, "args": [value]}) + "\n" for time, value in records)
    schemas = {"loose": LOOSE}
    whole = list(read(["-"], schemas, stdin=io.BytesIO(lines.encode())))
    cut = list(read(["-"], schemas, stdin=io.BytesIO(lines.encode()), chunk=data.draw(st.integers(1, 100))))
    assert rows(whole) == rows(cut)
    assert [d for batch in whole for d in batch.dead] == [d for batch in cut for d in batch.dead]


@examples(150)
@given(st.text('1,,x"\n\n\r ', max_size=40), st.integers(1, 12))
def test_cuts_of_a_table_do_not_matter(text: str, chunk: int) -> None:
    data = ("time,n\n" + text).encode()
    whole = list(read(["-"], TICKS, format="csv", stdin=io.BytesIO(data)))
    cut = list(read(["-"], TICKS, format="csv", stdin=io.BytesIO(data), chunk=chunk))
    assert rows(whole) == rows(cut)
    assert [d for batch in whole for d in batch.dead] == [d for batch in cut for d in batch.dead]
    count = len(rows(whole)) + len(dead(whole))
    assert sum(block.count for batch in cut for block in batch.blocks) == count


def test_a_pipe_hands_over_what_has_arrived(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    proceed = threading.Event()

    def feed() -> None:
        with open(pipe, "wb", buffering=0) as out:
            out.write(b'{"time": 1, "n": 1}\n{"time": 2,')
            assert proceed.wait(300)
            out.write(b' "n": 2}\n')

    feeder = threading.Thread(target=feed)
    feeder.start()
    batches = read([str(pipe)], TICKS, format="jsonl")
    assert rows([next(batches)]) == [("tick", 1_000000, 1_000000, 0, 1)]
    proceed.set()
    assert rows(batches) == [("tick", 2_000000, 2_000000, 1, 2)]
    feeder.join()


@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_a_silent_pipe_is_told_while_it_is_silent(tmp_path: Path, format: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    proceed = threading.Event()
    first, second = (b'{"time": 1, "n": 1}\n{"ti', b'me": 2, "n": 2}\n')
    if format == "csv":
        first, second = b"time,n\n1,1\n2", b",2\n"

    def feed() -> None:
        with open(pipe, "wb", buffering=0) as out:
            out.write(first)
            assert proceed.wait(300)
            out.write(second)

    feeder = threading.Thread(target=feed)
    feeder.start()
    batches = read([str(pipe)], TICKS, format=format, idle=0.2)
    assert rows([next(batches)]) == [("tick", 1_000000, 1_000000, 0, 1)]
    for least in (200_000, 1_200_000):
        silent = next(batches)
        assert silent.silence >= least and (silent.rows, silent.dead) == (0, [])
    proceed.set()
    assert rows([batch for batch in batches if not batch.silence]) == [("tick", 2_000000, 2_000000, 1, 2)]
    feeder.join()


def test_how_times_are_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"time": 1, "n": 1}\n')
    (tmp_path / "y.csv").write_text("time,n\n2013-02-08,1\n")
    (tmp_path / "z.jsonl").write_text("{}\n")
    assert [batch.times for batch in read([str(tmp_path)], TICKS)] == ["seconds", "iso", None]


# --- parquet


def test_parquet_columns_of_every_kind(tmp_path: Path) -> None:
    types = ["int", "int", "float", "float", "string", "string", "bool", "time", "time", "duration", "duration", "iri"]
    types += ["any", "int"]
    schema = Schema(
        "e",
        tuple(Attribute(name, type, optional=True) for name, type in zip("iwfdscbtquvran", types)),
        declared=True,
        point=True,
    )
    moment = datetime(2013, 2, 8, 18, 0, 0, 5, tzinfo=UTC)
    ticks = 1360346400_000005
    pl.DataFrame(
        {
            "time": pl.Series([moment, moment, None], dtype=pl.Datetime("ns", "America/New_York")),
            "i": pl.Series([1, None, 3], dtype=pl.UInt8),
            "w": [1.0, 2.5, 3.0],
            "f": [1, 2, 3],
            "d": pl.Series([Decimal("1.5"), None, None], dtype=pl.Decimal(10, 2)),
            "s": ["x", "y", "z"],
            "c": pl.Series(["x", "y", "z"], dtype=pl.Categorical),
            "b": [True, False, None],
            "t": [date(1970, 1, 2)] * 3,
            "q": ["2013-02-08T18:00:00.000005Z"] * 3,
            "u": [timedelta(seconds=1.5)] * 3,
            "v": [0.1] * 3,
            "r": ["http://e.org/x"] * 3,
            "a": [True, None, False],
            "n": pl.Series([None] * 3, dtype=pl.Null),
        }
    ).write_parquet(tmp_path / "x.parquet")
    batches = list(read([str(tmp_path)], {"e": schema}))
    day = 86400_000000
    expected: tuple[Any, ...] = ("e", ticks, ticks, 0, 1, 1, 1.0, 1.5, "x", "x", True, day, ticks, 1_500000, 100000)
    expected += ("http://e.org/x", True, None)
    assert rows(batches) == [expected]
    assert dead(batches) == [(2, "ill-typed"), (3, "time")]
    assert batches[0].origin("e", 0) == (f"{tmp_path}/x.parquet", 1, None)
    assert batches[0].times == "iso"
    kinds = [str(column.dtype) for column in batches[0].tables["e"].get_columns()]
    assert kinds[:10] == ["Int64"] * 5 + ["Float64"] * 2 + ["String"] * 2 + ["Boolean"]
    assert kinds[10:] == ["Int64"] * 4 + ["String", "Boolean", "Int64"]


def test_parquet_times_are_exact_or_refused(tmp_path: Path) -> None:
    def ends(column: pl.Series) -> list[int]:
        pl.DataFrame({"time": column, "n": [1] * len(column)}).write_parquet(tmp_path / "x.parquet")
        return [row[2] for row in rows(read([str(tmp_path)], TICKS))]

    assert ends(pl.Series([1360346400.123456, 0.0000005, float("nan"), 1e30])) == [1360346400_123456, 0]
    assert ends(pl.Series([1, -(2**63), 2**62])) == [1_000000]
    assert ends(pl.Series([1500, 500, 501, -500, -1500]).cast(pl.Datetime("ns"))) == [2, 0, 1, 0, -2]
    assert ends(pl.Series([7]).cast(pl.Datetime("ms"))) == [7000]
    assert ends(pl.Series([253402300800000]).cast(pl.Datetime("ms"))) == []
    assert reasons(pl.Series([253402300800000]).cast(pl.Datetime("ms")), tmp_path) == [
        "time: is no time of the years 1 to 9999"
    ]
    milliseconds = "is no time of the years 1 to 9999: seconds since 1970 are expected, this looks like milliseconds"
    milliseconds += "; they are declared `FORMAT epoch ms`"
    assert reasons(pl.Series([1714554000000, 5]), tmp_path) == [f"time: `1714554000000` {milliseconds}"]
    assert reasons(pl.Series([1714554000000.5]), tmp_path) == [f"time: `1714554000000.5` {milliseconds}"]
    assert reasons(pl.Series([Decimal("1714554000000.5")]), tmp_path) == [f"time: `1714554000000.5` {milliseconds}"]
    assert ends(pl.Series([Decimal("1360346400.1234565")])) == [1360346400_123456]
    assert ends(pl.Series(["2013-02-08T18:00:00+01:00", "12"])) == [1360342800_000000]
    assert "time wants datetimes" in refusal_of_column(pl.Series([True]), tmp_path)


def reasons(column: pl.Series, folder: Path) -> list[str]:
    pl.DataFrame({"time": column, "n": [1] * len(column)}).write_parquet(folder / "x.parquet")
    return [record.reason for batch in read([str(folder)], TICKS) for record in batch.dead]


def refusal_of_column(column: pl.Series, folder: Path) -> str:
    pl.DataFrame({"time": column, "n": [1] * len(column)}).write_parquet(folder / "x.parquet")
    return refusal([str(folder)], TICKS)


def test_parquet_comes_in_slices(tmp_path: Path) -> None:
    pl.DataFrame({"time": range(10), "n": range(10), "more": ["x"] * 10}).write_parquet(tmp_path / "x.parquet")
    batches = list(read([str(tmp_path)], TICKS, rows=4))
    assert [batch.rows for batch in batches] == [4, 4, 2]
    assert [row[3:] for row in rows(batches)] == [(i, i) for i in range(10)]
    assert batches[1].origin("tick", 2)[1] == 7
    assert batches[-1].bytes_read == batches[-1].total_bytes == (tmp_path / "x.parquet").stat().st_size


# --- replay


def test_replay_merges_by_end_and_then_input_order(tmp_path: Path) -> None:
    by_station = "origin,wind_speed,gust,time_hour\nA,1,NA,1\nA,1,NA,3\nA,1,NA,5\nB,1,NA,1\nB,1,NA,4\nbad\n"
    (tmp_path / "w.csv").write_text(by_station)
    (tmp_path / "t.jsonl").write_text(
        '{"type": "tick", "time": 9, "n": 1}\n'
        '{"type": "tick", "start": 0, "end": 3, "n": 2}\n'
        '{"type": "tick", "time": 4, "n": 3}\n'
    )
    batches = list(replay([f"{tmp_path}/t.jsonl", f"reading={tmp_path}/w.csv"], BOTH, rows=2))
    seconds = 1_000000
    assert [batch.watermark for batch in batches] == [seconds, 3 * seconds, 4 * seconds, 9 * seconds]
    found = [
        {type: [(row[1] // seconds, row[2]) for row in table.rows()] for type, table in batch.tables.items()}
        for batch in batches
    ]
    assert found == [
        {"reading": [(1, 3), (1, 6)]},
        {"reading": [(3, 4)], "tick": [(3, 1)]},
        {"reading": [(4, 7)], "tick": [(4, 2)]},
        {"reading": [(5, 5)], "tick": [(9, 0)]},
    ]
    assert dead(batches) == [(7, "row")]
    assert batches[2].origin("reading", 0) == (f"{tmp_path}/w.csv", 6, "B,1,NA,4")
    assert batches[1].origin("tick", 0)[1:] == (2, '{"type": "tick", "start": 0, "end": 3, "n": 2}')
    assert batches[-1].bytes_read == batches[-1].total_bytes


@examples(60)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 9), st.sampled_from([1, 2.5, "x", True, None])), max_size=9), max_size=3
    ),
    st.data(),
)
def test_replay_is_the_input_sorted(
    tmp_path_factory: Any, files: list[list[tuple[int, Any]]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("replay")
    specs = []
    for i, records in enumerate(files):
        specs.append(str(folder / f"{i}.jsonl"))
        text = "".join(json.dumps({"type": "loose", "time": time, "args": [value]}) + "\n" for time, value in records)
        Path(specs[-1]).write_text(text)
    schemas = {"loose": LOOSE, "tick": TICK}
    chunk = data.draw(st.integers(1, 200))
    large = data.draw(st.sampled_from([-1, 1 << 30]))
    batches = list(replay(specs, schemas, chunk=chunk, rows=data.draw(st.integers(1, 9)), large=large))
    found = [row for batch in batches for table in batch.tables.values() for row in table.rows()]
    expected = sorted(rows(read(specs, schemas)), key=lambda row: row[2])
    assert sorted(found, key=lambda row: (row[1], row[2])) == [row[1:] for row in expected]
    latest = -1
    for batch in batches:
        ends = [end for table in batch.tables.values() for end in table["end"].to_list()]
        assert all(end > latest for end in ends), "nothing is late"
        assert batch.watermark is not None or not found
        latest = max(latest, batch.watermark if batch.watermark is not None else -1)


def test_a_large_input_in_order_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(f'{{"time": {i // 3}, "n": {i}}}\n' for i in range(300)))
    batches = list(replay([str(path)], TICKS, chunk=500, large=0))
    assert len(batches) > 10
    assert all(len(batch.blocks) == 1 for batch in batches)
    assert [row[-1] for batch in batches for row in batch.tables["tick"].rows()] == list(range(300))
    with path.open("a") as out:
        out.write('{"time": 0, "n": 300}\n')
    held = list(replay([str(path)], TICKS, chunk=500, large=0))
    assert [row[-1] for row in held[0].tables["tick"].rows()][:4] == [0, 1, 2, 300]
    path.write_text('{"time": 5, "n": 1}\n{"time": 4, "args": [2]}\n')
    assert [row[-1] for row in next(replay([str(path)], TICKS, chunk=20, large=0)).tables["tick"].rows()] == [2, 1]


def test_a_pipe_is_replayed_as_it_comes() -> None:
    batches = list(replay(["-"], TICKS, stdin=io.BytesIO(b'{"time": 5, "n": 1}\n{"time": 4, "n": 2}\n')))
    assert [batch.watermark for batch in batches] == [None]
    assert [row[-1] for row in rows(batches)] == [1, 2]
