"""`cep infer`: the declaration that it prints is right, and reads the file that it was made from."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from cep.command import app
from cep.connectors.files import read
from cep.connectors.infer.types import guess
from cep.demos.run import weather
from cep.language.schemas import Schemas
from cep.language.syntax.parser import parse


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def cep(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), prog_name="cep")


def declared(file: str, text: str, *options: str) -> str:
    """What `cep infer` prints for a file of this text. A program of it reads every record of the file."""
    Path(file).write_text(text)
    result = cep("infer", file, *options)
    assert result.exit_code == 0, result.stderr
    reads_all(result.stdout, file)
    return result.stdout


def reads_all(printed: str, file: str, dead: int = 0) -> pl.DataFrame:
    """The records of a file as the declarations read them; there are so many dead letters."""
    named = Schemas(parse(printed), {})
    assert not list(named.errors)
    names = list(named.found)
    spec = file if len(names) > 1 else f"{names[0]}={file}"
    batches = list(read([spec], named.found))
    letters = [letter for batch in batches for letter in batch.dead]
    assert len(letters) == dead, letters
    return pl.concat([table for batch in batches for table in batch.tables.values()], how="diagonal_relaxed")


def test_a_table_as_europe_writes_it() -> None:
    text = (
        "# station export\nDatum;Uhrzeit;Station ID;Wind (m/s);gültig;Wert\n"
        "01.05.2024;08:00;S1;3,4;ja;12\n01.05.2024;08:10;S2;-999;nein;13\n13.05.2024;08:20;S3;3,9;ja;-\n"
    )
    assert declared("stations.csv", text, "--event", "reading") == (
        "% from 3 records\n"
        '% times have no offset and are read as UTC: ZONE "Europe/Zurich" says otherwise\n'
        "event reading(\n"
        '    station_id: string FROM "Station ID",  % "S1", "S2", "S3"\n'
        "    % 3.4 to 3.9; missing in 1 of 3\n"
        '    wind_m_s: float? FROM "Wind (m/s)" MISSING -999,\n'
        '    gultig: string FROM "gültig",          % "ja", "nein"\n'
        '    wert: int? FROM Wert MISSING "-"       % 12 to 13; missing in 1 of 3\n'
        ') TIME Datum, Uhrzeit FORMAT "%d.%m.%Y %H:%M" FORMAT csv(separator: ";", decimal: ",", comment: "#").\n'
    )


def test_nested_records_with_a_list_and_milliseconds() -> None:
    records = [
        {"ts": 1714550400000, "pump": {"id": "P1", "pressure": 3.2}, "tags": ["a"], "readings": [{"value": 3.4}]},
        {"ts": 1714550460000, "pump": {"id": "P2", "pressure": None}, "readings": [{"value": 3.5}, {"value": 50}]},
    ]
    assert declared("pumps.jsonl", "".join(json.dumps(each) + "\n" for each in records)) == (
        "% from 2 records, 3 events: the elements of `readings`\n"
        '% `tags[]` is left out: `FROM "tags[]"` makes an event of each element instead\n'
        "%   of those of `readings`\n"
        "event pumps(\n"
        '    pump_id: string FROM "pump.id",                % "P1", "P2"\n'
        '    pressure: float? FROM "pump.pressure",         % 3.2; missing in 2 of 3\n'
        '    readings_value: float FROM "readings[].value"  % 3.4 to 50\n'
        ") TIME ts FORMAT epoch ms.\n"
    )


def test_records_that_say_what_they_are() -> None:
    text = (
        '{"type": "door", "time": "2024-05-01T08:00:00Z", "open": true, "shopFloor": 3}\n'
        '{"type": "temp", "time": "2024-05-01T08:00:00Z", "celsius": 4, "end": "x"}\n'
        '{"type": "temp", "time": "2024-05-01T08:00:00Z", "celsius": "n/a"}\n'
    )
    assert declared("all.jsonl", text) == (
        "% from 1 record\nevent door(\n    open: bool,\n    shop_floor: int FROM shopFloor  % 3\n) TIME time.\n\n"
        '% from 2 records\nevent temp(\n    celsius: int? MISSING "n/a",  % 4; missing in 1 of 2\n'
        '    end_: string? FROM end        % "x"; missing in 1 of 2\n) TIME time.\n'
    )


def test_the_readings_of_the_demo_are_declared_as_they_are() -> None:
    data = weather().read_text(encoding="utf-8")
    printed = declared("weather.csv", data, "--records", "30000")
    assert "    wind_speed: float?,  % 0 to 1048.36; missing in 4 of 26115\n" in printed
    assert printed.endswith(") TIME time_hour.\n")


def test_parquet_and_what_is_compressed() -> None:
    times = [datetime(2024, 5, 1, tzinfo=UTC) + timedelta(hours=n) for n in range(3)]
    frame = pl.DataFrame({"seen": times, "left": [t + timedelta(minutes=5) for t in times], "Who": ["a", None, "b"]})
    frame = frame.with_columns(took=pl.duration(seconds=5), part=pl.Series([{"a": 1}] * 3))
    frame.rename({"seen": "started_at", "left": "ended_at"}).write_parquet("visits.parquet")
    printed = cep("infer", "visits.parquet").stdout
    assert "who: string? FROM Who" in printed and "took: duration" in printed
    assert 'a: int FROM "part.a"' in printed
    assert printed.endswith(") START started_at END ended_at.\n")
    reads_all(printed, "visits.parquet")
    Path("log.jsonl.gz").write_bytes(gzip.compress(b'{"time": 5, "level": "a"}\n'))
    assert "event log(" in cep("infer", "log.jsonl.gz").stdout


def test_lines_that_are_no_records_are_counted() -> None:
    Path("log.jsonl").write_text('{"time": 5, "level": "a"}\nbroken\n[1]\n')
    printed = cep("infer", "log.jsonl").stdout
    assert "% 2 lines are not records\n" in printed
    reads_all(printed, "log.jsonl", dead=2)


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("gone.csv", None, "gone.csv: no such file\n"),
        ("log.txt", "x", "log.txt: the format is not known from the name of the file\nhint: formats are "),
        (
            "empty.csv",
            "a,b\n",
            "empty.csv: the file has no records\n"
            "hint: use a file with records, from which the declaration is inferred\n",
        ),
        ("bad.jsonl", "{\n", "no line could be read as a record of JSON: bad JSON at character 2"),
        ("bad.parquet", "x", "cannot read bad.parquet: "),
        ("bad.csv.gz", "x", "cannot read bad.csv.gz: Not a gzipped file"),
        ("a.nq", "x", "a.nq: no declaration can be inferred from nquads\n"),
    ],
)
def test_files_of_which_nothing_can_be_said(file: str, text: str | None, said: str) -> None:
    if text is not None:
        Path(file).write_text(text)
    result = cep("infer", file)
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize(
    ("name", "column", "type", "more"),
    [
        ("id", ["007", "012"], "string", {}),
        ("n", ["1", "2", ""], "int", {"optional": True, "missing": ("",)}),
        ("x", ["1.5", "2e3"], "float", {}),
        ("flag", ["yes", "No"], "bool", {}),
        ("day", ["31/12/2023", "01/01/2024"], "time", {"day": True}),
        ("stamp", ["12/31/2023 11:05 PM"], "time", {"local": True}),
        ("time", ["1714550400", "1714550500"], "time", {}),
        ("level", ["1714550400", "1714550500"], "int", {}),
        ("at", ["Wed, 01 May 2024 08:00:00 +0200"], "time", {"local": False}),
        ("about", ["http://example.org/a", "http://example.org/b"], "iri", {}),
    ],
)
def test_columns(name: str, column: list[str], type: str, more: dict[str, Any]) -> None:
    found = guess(name, column, True)
    assert found.type == type
    for key, value in more.items():
        assert getattr(found, key) == value


PATTERNS = [
    "%d.%m.%Y %H:%M",
    "%m/%d/%Y %I:%M:%S %p",
    "%Y%m%d%H%M%S",
    "%d %b %Y %H:%M",
    "%Y-%m-%dT%H:%M:%S",
    "%Y/%m/%d %H:%M:%S",
]


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(PATTERNS),
    st.lists(st.datetimes(datetime(1991, 1, 1), datetime(2090, 1, 1)), min_size=4, max_size=12),
    st.lists(st.floats(-50, 50).map(lambda x: round(x, 2)), min_size=12, max_size=12),
    st.sampled_from([(",", "."), (";", ","), ("|", "."), ("\t", ".")]),
)
def test_what_was_written_is_read(
    pattern: str, times: list[datetime], numbers: list[float], marks: tuple[str, str]
) -> None:
    separator, point = marks
    times = [time.replace(microsecond=0, second=time.second if "%S" in pattern else 0) for time in times]
    rows = [
        separator.join([time.strftime(pattern), f"s{n % 3}", f"{number:.2f}".replace(".", point)])
        for n, (time, number) in enumerate(zip(times, numbers, strict=False))
    ]
    Path("x.csv").write_text(separator.join(["when", "station", "level"]) + "\n" + "\n".join(rows) + "\n")
    printed = cep("infer", "x.csv").stdout
    table = reads_all(printed, "x.csv")
    assert table["level"].to_list() == [round(number, 2) + 0.0 for number in numbers[: len(times)]]
    assert table["station"].to_list() == [f"s{n % 3}" for n in range(len(times))]
    if "it could also be" not in printed:
        expected = [int(time.replace(tzinfo=UTC).timestamp()) * 1_000_000 for time in times]
        assert table["start"].to_list() == expected


def inferred_of(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return CliRunner().invoke(app, ["infer", str(folder / name)]).output


def test_a_table_without_times_may_be_facts(tmp_path: Path) -> None:
    printed = inferred_of(tmp_path, "gauges.csv", "Name;Lon;Lat\nA;8,5;47,1\n")
    assert '% fact gauges(name: string, lon: float, lat: float) FORMAT csv(separator: ";", decimal: ",").' in printed
    assert "% fact" not in inferred_of(tmp_path, "gauges.csv", "Station Name,Lon\nA,8.5\n")  # no attribute's name
    assert "% fact" not in inferred_of(tmp_path, "gauges.csv", "time,Lon\n2024-05-01T08:00:00Z,8.5\n")


def test_comments_are_no_longer_than_a_terminal(tmp_path: Path) -> None:
    names = ",".join(f"a_rather_long_name_of_column_{number}" for number in range(5))
    values = ",".join(["words and words"] * 4)
    text = f"time,{names}\n" + "".join(f"2024-05-01T08:00:00Z,{values},{x}.5\n" for x in "129")
    lines = inferred_of(tmp_path, "long.csv", text).splitlines()
    assert len(lines) > 6 and all(len(line) <= 80 for line in lines if "%" in line), lines


def test_a_few_texts_among_numbers_are_told_of(tmp_path: Path) -> None:
    printed = inferred_of(
        tmp_path, "fridge.csv", "time,temp\n" + "2024-05-01T08:00:00Z,4.1\n" * 5 + "2024-05-01T08:10:00Z,broken\n"
    )
    told = " ".join(printed.replace("%", "").split())
    assert "temp: string" in told and '5 of 6 are numbers: as `float` the others ("broken") become dead letters' in told
    assert "numbers" not in inferred_of(tmp_path, "rooms.csv", "time,room\n1,12\n2,B14\n3,C2\n")


def test_knowledge_needs_no_declaration(tmp_path: Path) -> None:
    file = tmp_path / "stations.ttl"
    file.write_text("<http://a> <http://b> <http://c> .\n")
    result = CliRunner().invoke(app, ["infer", str(file)])
    assert result.exit_code == 2
    assert "this file holds knowledge, which has no records and needs no declaration" in result.stderr
    assert f"--knowledge {file}" in result.stderr
