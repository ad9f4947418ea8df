"""Tables as loggers write them: without a header, with lines before and below it, times in several columns."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.connectors.files import read
from cep.connectors.records.patterns import compiled, read_patterns
from cep.connectors.records.times import of_text
from cep.core.errors import CepError
from cep.core.schema import Schema, TimeFormat
from cep.engine import Engine
from cep.language.syntax.parser import parse
from cep.language.syntax.printer import print_statement
from tests.cli_runs import cep
from tests.long import examples


def schema(declaration: str) -> dict[str, Schema]:
    return {"r": Engine.from_text(f"{declaration}\nx(V) <- r(v: V).\n").plan.schemas["r"]}


def at(text: str) -> int:
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )


def rows(path: Path, declaration: str, chunk: int = 1 << 24) -> list[tuple[object, ...]]:
    batches = list(read([str(path)], schema(declaration), chunk=chunk))
    assert not any(batch.dead for batch in batches)
    return [row for batch in batches for row in batch.tables["r"].select("start", "v").rows()]


LOGGER = """\
"TOA5","CR1000","1234"
"TIMESTAMP","RECORD","AirTC_Avg"
"TS","RN","Deg C"
"","","Avg"
"2024-05-01 23:50:00",0,12.5
"2024-05-01 24:00:00",1,13
"""


@pytest.mark.parametrize("chunk", [4, 1 << 24])
def test_lines_before_the_header_and_rows_of_units_are_no_records(tmp_path: Path, chunk: int) -> None:
    declaration = "event r(v: float FROM AirTC_Avg) TIME TIMESTAMP FORMAT csv(skip: 1, units: 2)."
    expected = [(at("2024-05-01T23:50"), 12.5), (at("2024-05-02"), 13.0)]
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbf" + LOGGER.replace("\n", "\r\n").encode())
    assert rows(tmp_path / "t.csv", declaration, chunk) == expected
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(LOGGER.encode()))
    assert rows(tmp_path / "t.csv.gz", declaration, chunk) == expected


@pytest.mark.parametrize("chunk", [3, 1 << 24])
def test_a_table_without_a_header_has_its_names_declared(tmp_path: Path, chunk: int) -> None:
    text = "// a comment\n2024,5,1,1,x,7.5\n//\n2024,5,1,24,/,8.5\n"
    (tmp_path / "t.csv").write_text(text)
    declaration = 'event r(v: float) TIME y, m, d, h FORMAT "%Y %m %d %H" '
    declaration += 'FORMAT csv(columns: "y, m, d, h,, v", comment: "//").'
    assert rows(tmp_path / "t.csv", declaration, chunk) == [(at("2024-05-01T01:00"), 7.5), (at("2024-05-02"), 8.5)]


def test_rows_that_do_not_fit_and_columns_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("1,2\n1,2,3\nx,4\n")
    Path("p.cep").write_text('event r(v: int) TIME t FORMAT csv(columns: "t, v").\nx(V) <- r(V).\n')
    result = cep("run", "p.cep", "--input", "t.csv", "--dead-letter", "dead.jsonl")
    assert result.stdout.count("\n") == 1
    assert [json.loads(line)["line"] for line in Path("dead.jsonl").read_text().splitlines()] == [2, 3]
    Path("p.cep").write_text('event r(v: int) TIME t FORMAT csv(columns: "t, w").\nx(V) <- r(V).\n')
    assert "r needs a column `v`" in cep("run", "p.cep", "--input", "t.csv").stderr
    Path("p.cep").write_text("event r(v: int) TIME t FORMAT csv(skip: 9).\nx(V) <- r(V).\n")
    assert "nothing in `t.csv`" in cep("run", "p.cep", "--input", "t.csv").stderr


def test_a_time_in_parts_is_read_from_json_and_parquet(tmp_path: Path) -> None:
    declaration = 'event r(v: float) TIME day.y, day.m, hour FORMAT "%Y %m %H".'
    (tmp_path / "t.jsonl").write_text('{"day": {"y": 2024, "m": 5}, "hour": 24, "v": 1}\n')
    assert rows(tmp_path / "t.jsonl", declaration) == [(at("2024-05-02"), 1.0)]
    table = pl.DataFrame({"y": [2024], "m": ["05"], "d": [1], "h": [7], "v": [1.0]})
    table.write_parquet(tmp_path / "t.parquet")
    declaration = 'event r(v: float) TIME y, m, d, h FORMAT "%Y %m %d %H".'
    assert rows(tmp_path / "t.parquet", declaration) == [(at("2024-05-01T07:00"), 1.0)]


texts = st.one_of(
    st.from_regex(r"(0?[0-9]|1[0-9]|2[0-5]):(00|59|30)(\.0*[0-9]?)?", fullmatch=True),
    st.sampled_from(["24:00", "24:00.0000001", "24:00.0000005", "24:00.0000006", "24:00.000001", "24:01"]),
)


@examples(200)
@given(st.lists(st.tuples(texts, st.sampled_from(["2024-02-29", "2023-12-31", "9999-12-31"])), min_size=1, max_size=5))
def test_the_hour_24_is_the_next_midnight_for_many_as_for_one(given: list[tuple[str, str]]) -> None:
    pattern = "%Y-%m-%d %H:%M.%f"
    words = [f"{day} {clock}{'' if '.' in clock else '.0'}" for clock, day in given]
    data = np.frombuffer("".join(words).encode(), np.uint8)
    length = np.array([len(word) for word in words], np.int32)
    where = data, (np.cumsum(length) - length).astype(np.int32), length, np.full(len(words), 3, np.uint8)
    values, _, states = read_patterns(*where, compiled(pattern), 0, 0, True)
    for word, value, state in zip(words, values.tolist(), states.tolist()):
        try:
            one: int | None = of_text(word, TimeFormat(pattern))
        except ValueError:
            one = None
        assert (value if state == 1 else None) == one, word


def test_no_other_time_is_after_24() -> None:
    assert of_text("31.12.2024 24:00", TimeFormat("%d.%m.%Y %H:%M")) == at("2025-01-01")
    with pytest.raises(ValueError, match="24:00 is its end"):
        of_text("31.12.2024 24:01", TimeFormat("%d.%m.%Y %H:%M"))


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("TIME a, b, c", "the time has 3 columns, but no FORMAT"),
        ('TIME a, b, c FORMAT "%Y %m"', "the time has 3 columns, but a FORMAT of 2"),
        ("TIME a, b FORMAT epoch s", "reads the time from a single column"),
        ('TIME a FORMAT csv(skip: "x")', "`x` is not a number of lines before the header"),
        ('TIME a FORMAT csv(columns: ", ")', "`columns` names no column"),
        ('TIME a FORMAT csv(columns: "a", units: 1)', "`units` needs a header, but `columns` replaces the header"),
        ('TIME a FORMAT csv(comment: "")', "a comment mark must be ASCII characters"),
        ('TIME a FORMAT csv(header: "a")', "expected an option, found `header`"),
    ],
)
def test_layouts_that_are_wrong_are_refused(clause: str, message: str) -> None:
    with pytest.raises(CepError) as caught:
        parse(f"event r(v: int) {clause}.")
    assert message in caught.value.message


def test_a_layout_is_printed_as_it_is_read() -> None:
    text = 'event r(v: int) TIME y, m, d FORMAT "%Y %m %d" FORMAT csv(skip: "2", comment: "//").'
    (statement,) = parse(text.replace('"2"', "2")).statements
    assert print_statement(statement) == text
