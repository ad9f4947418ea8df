"""Files: every format, odd files, and pipes."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.app.facts import read_facts
from cep.compile import CompileOptions, ReadProgram
from cep.connectors.files import read
from cep.core.errors import CepError
from cep.language.static_predicates import declarations_of
from tests.file_reading import BOTH, LOOSE, TICKS, dead, refusal, rows
from tests.long import examples


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
    assert "uses an input event `tik` (did you mean `tick`?)" in refusal([f"tik={tmp_path}/data.csv"], BOTH)
    assert "bind it: `reading=" in refusal([f"{tmp_path}/data.csv"], BOTH)
    assert "not a valid Parquet file" in refusal([f"tick={tmp_path}/data.parquet"], BOTH)
    assert "`xml` is not a format of the input" in refusal([f"tick={tmp_path}/data.csv"], BOTH, format="xml")
    assert "standard input is named twice" in refusal(["-", "-"], BOTH)
    assert "cannot be read from standard input" in refusal(["tick=-"], BOTH, format="parquet")
    assert rows(read([f"{tmp_path}/data.csv"], TICKS)) == [("tick", 1_000000, 1_000000, 0, 2)]


def test_a_missing_column_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text("Origin,wind_sped,gust,time_hour\nEWR,1,2,3\n")
    assert str(path) in refusal([f"reading={path}"], BOTH)
    assert refusal([f"reading={path}"], BOTH).endswith(
        "reading needs columns `origin` (did you mean `Origin`?), `wind_speed` (did you mean `wind_sped`?)\n"
        "hint: the columns are Origin, wind_sped, gust, time_hour; "
        "to read other columns, name them with FROM and TIME in the declaration"
    )
    path.write_text("time,v\n1,2\n")
    assert refusal([str(path)], {"loose": LOOSE}).endswith(
        "loose needs a column `arg1`\nhint: loose is not declared; declare it to have its values by name: "
        "`event loose(v: int) TIME time.`; the columns are time, v; "
        "to read other columns, name them with FROM and TIME in the declaration"
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
    assert "the column `n` holds String; int needs whole numbers" in refusal([f"{tmp_path}/w.parquet"], TICKS)


def test_text_that_is_not_utf8_says_what_makes_it_so(tmp_path: Path) -> None:
    path, text = tmp_path / "x.csv", "time,n,café\n1,2,é\n"
    for code in ("utf-16", "utf-16-le"):
        path.write_bytes(text.encode(code))
        assert 'declare it: `FORMAT csv(encoding: "utf-16")`' in refusal([str(path)], TICKS)
    path.write_bytes(text.encode("latin1"))
    assert 'declare it: `FORMAT csv(encoding: "latin1")`' in refusal([str(path)], TICKS)
    path.write_bytes(text.replace("café", "x").encode("latin1") + "2,3,€\n".encode("cp1252"))
    reasons = [letter.reason for batch in read([str(path)], TICKS) for letter in batch.dead]
    assert reasons == [
        'byte 5 of the line is not UTF-8; declare it: `FORMAT csv(encoding: "latin1")`',
        'byte 5 of the line is not UTF-8; declare it: `FORMAT csv(encoding: "cp1252")`',
    ]
    lines = tmp_path / "x.jsonl"
    lines.write_bytes('{"time": 1, "n": 2, "x": "é"}\n'.encode("latin1"))
    reasons = [letter.reason for batch in read([str(lines)], TICKS) for letter in batch.dead]
    assert reasons == ["byte 27 of the line is not UTF-8; convert it: `iconv -f latin1 -t utf-8`"]


@pytest.mark.parametrize("code", ["latin1", "utf-16"])
def test_facts_that_are_not_utf8_say_what_makes_them_so(tmp_path: Path, code: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes("name,n\né,2\n".encode(code))
    declared = 'fact x(name: string, n: int) FORMAT csv(encoding: "%s").'
    with pytest.raises(CepError) as caught:
        read_facts("x", path)
    assert f'declare it: `FORMAT csv(encoding: "{code}")`' in str(caught.value)
    fact = declarations_of(ReadProgram.of(declared % code, "x", CompileOptions()).tree)["x"]
    assert read_facts("x", path, fact).rows() == [("é", 2)]


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
    assert "this is not a gzip file; to read it uncompressed, remove `.gz` from its name" in refusal([str(path)], TICKS)


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
