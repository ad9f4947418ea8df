"""What `cep infer` prints compiles, and reads the file that it was made from: no dead letters but broken records."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cep.command import app
from cep.connectors.files import read
from cep.language.schemas import Schemas
from cep.language.syntax.parser import parse
from tests.long import examples


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def reads(file: str, dead: int = 0) -> tuple[str, int]:
    """What is printed for a file, and how many events a run of it reads."""
    result = CliRunner().invoke(app, ["infer", file], prog_name="cep")
    assert result.exit_code == 0, result.stderr
    names = [line[6 : line.index("(")] for line in result.stdout.splitlines() if line.startswith("event ")]
    named = Schemas(parse(result.stdout), {})
    assert not list(named.errors), result.stdout
    schemas = named.found
    batches = list(read([file if len(names) > 1 else f"{names[0]}={file}"], schemas))
    letters = [letter for batch in batches for letter in batch.dead]
    assert len(letters) == dead, (result.stdout, letters)
    return result.stdout, sum(batch.rows for batch in batches)


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
KEYS = st.one_of(
    st.sampled_from(
        ["id", "value", "pump", "a.b", "a", "b", "type", "in", "Temp (C)", "time_", "n", "key", "end", "x[]"]
    ),
    WORDS,
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1000, 1000),
    st.sampled_from(
        [-999, -9999, 2**63, 2**64, -(2**63), 1714554000123, "1714554000123", "n/a", "-", "2024-05-01", ""]
    ),
    st.floats(allow_nan=False, allow_infinity=False),
    WORDS,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=6,
)
MOMENTS = st.datetimes(datetime(1991, 1, 1), datetime(2090, 1, 1))
CLOCKS = st.sampled_from(["iso", "local", "ms", "text", "s", "%d.%m.%Y %H:%M:%S"])


def clock(moment: datetime, how: str) -> Any:
    at = int(moment.replace(tzinfo=UTC).timestamp())
    match how:
        case "iso":
            return moment.isoformat() + "Z"
        case "local":
            return moment.isoformat(" ", "seconds")
        case "ms":
            return at * 1000
        case "text":
            return str(at * 1000)
        case "s":
            return at
    return moment.strftime(how)


@examples(60)
@given(
    st.lists(st.tuples(MOMENTS, st.dictionaries(KEYS, VALUES, max_size=4)), min_size=1, max_size=6),
    CLOCKS,
    st.sampled_from(["lines", "list", "pretty"]),
)
def test_json(rows: list[tuple[datetime, dict[str, Any]]], how: str, form: str) -> None:
    records = [{"ts": clock(moment, how), "unit": "bar", **record} for moment, record in rows]
    for record in records:
        record.pop("args", None)
    if form == "lines":
        text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in records)
    elif form == "list":
        text = json.dumps(records, indent=1)
    else:
        text = "\n".join(json.dumps(each, indent=2) for each in records) + "\n"
    Path("x.json").write_text(text, encoding="utf-8")
    printed, events = reads("x.json")
    assert events == len(records) or "the elements of" in printed


@examples(60)
@given(
    st.lists(
        st.tuples(MOMENTS, st.lists(st.dictionaries(st.sampled_from("abc"), SCALARS, max_size=3), max_size=4)),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(["samples", "s.t"]),
)
def test_json_with_lists_of_every_length(rows: list[tuple[datetime, list[Any]]], name: str) -> None:
    records = [{"t": clock(at, "ms"), name: samples, "tags": ["x"] * len(samples)} for at, samples in rows]
    Path("x.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    printed, events = reads("x.jsonl")
    total = sum(len(samples) for _, samples in rows)
    if name == "samples" and any(samples for _, samples in rows):
        assert f"% from {len(rows)} record" in printed
        assert events == (total if "the elements of" in printed else len(rows)), printed
    else:
        assert events == len(rows)


FIELDS = st.one_of(
    st.sampled_from(
        ["", "NA", "n/a", " - ", "-999", "1.234,5", "1,234.5", "1,5", "1.5", "007", "yes", "no", "1e400", "x y"]
    ),
    st.integers(-(2**64), 2**64).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.text(st.characters(codec="utf-8", exclude_characters='\0\r\n"#'), max_size=5),
    st.sampled_from(["http://a.example/b", "urn:x", " http://a", "http://a|b"]),
)


@examples(60)
@given(
    st.data(),
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters='\0\r\n"#'), max_size=5), min_size=1, max_size=4),
    st.sampled_from(",;\t|"),
    st.sampled_from(["local", "iso", "%d.%m.%Y %H:%M:%S"]),
)
def test_csv(data: st.DataObject, names: list[str], separator: str, how: str) -> None:
    rows = data.draw(st.lists(st.tuples(MOMENTS, *[FIELDS] * len(names)), min_size=1, max_size=6))
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(["stamp", *names])
    writer.writerows([clock(moment, how), *fields] for moment, *fields in rows)
    Path("x.csv").write_text(text.getvalue(), encoding="utf-8", newline="")
    assert reads("x.csv")[1] == len(rows)


COLUMNS = st.sampled_from(
    [
        (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
        (pa.uint64(), st.integers(0, 2**64 - 1)),
        (pa.float64(), st.floats()),
        (pa.decimal128(10, 2), st.decimals(-1000, 1000, places=2)),
        (pa.string(), WORDS),
        (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "b"])),
        (pa.bool_(), st.booleans()),
        (pa.date32(), st.dates(date(1990, 1, 1), date(2090, 1, 1))),
        (pa.timestamp("ns"), MOMENTS.map(lambda at: at.replace(microsecond=7))),
        (pa.time64("us"), st.times()),
        (pa.duration("us"), st.timedeltas(timedelta(-(10**8)), timedelta(10**8))),
        (pa.binary(), st.binary(max_size=3)),
        (pa.null(), st.none()),
        (pa.map_(pa.string(), pa.int64()), st.just([("a", 1)])),
    ]
)


@st.composite
def types(draw: st.DrawFn, deep: int = 2) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    how = draw(st.integers(0, 4)) if deep else 0
    if how == 3:
        inner = [
            (name, draw(types(deep - 1))) for name in draw(st.sets(st.sampled_from(["v", "id", "a.b"]), min_size=1))
        ]
        fields = {name: strategy for name, (_, strategy) in inner}
        return pa.struct([(name, kind) for name, (kind, _) in inner]), st.fixed_dictionaries(fields)
    if how == 4:
        kind, strategy = draw(types(deep - 1))
        return pa.list_(kind), st.lists(strategy, max_size=4)
    return draw(COLUMNS)


@examples(60)
@given(st.data())
def test_parquet(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 5))
    stamp = data.draw(st.sampled_from([pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.timestamp("ns")]))
    moments = data.draw(st.lists(MOMENTS.map(lambda at: at.replace(microsecond=0)), min_size=size, max_size=size))
    columns = {"__index_level_0__": pa.array(moments, stamp)}
    for name in data.draw(st.sets(st.sampled_from(["a", "b c", "D", "e.f"]), max_size=3)):
        kind, strategy = data.draw(types())
        values = data.draw(st.lists(st.one_of(st.none(), strategy), min_size=size, max_size=size))
        columns[name] = pa.array(values, kind)
    pq.write_table(pa.table(columns), "x.parquet")
    printed, events = reads("x.parquet")
    assert events == size or "the elements of" in printed
    assert ("ZONE" in printed) == (stamp.tz is None)


@pytest.mark.parametrize(
    ("days", "clocks", "form"),
    [
        ([date(2024, 5, 1)] * 2, [time(5, 0, 0, 120000), time(12)], ") TIME d, c.\n"),
        (["2024-05-01"] * 2, ["05:00:00.12", "12:00:00"], ") TIME d, c.\n"),
        (["01.05.2024"] * 2, ["05:00:00.12", "12:00:00.0"], ') TIME d, c FORMAT "%d.%m.%Y %H:%M:%S.%f".\n'),
    ],
)
def test_parquet_with_a_day_and_a_clock_that_has_parts_of_seconds(
    days: list[Any], clocks: list[Any], form: str
) -> None:
    pq.write_table(pa.table({"d": days, "c": clocks, "n": [1, 2]}), "x.parquet")
    printed, events = reads("x.parquet")
    assert printed.endswith(form) and events == 2
    batches = list(read(["x=x.parquet"], Schemas(parse(printed), {}).found))
    ticks = [int(moment.timestamp() * 1000) * 1000 for moment in (
        datetime(2024, 5, 1, 5, 0, 0, 120000, tzinfo=UTC), datetime(2024, 5, 1, 12, tzinfo=UTC))]  # fmt: skip
    assert [tick for batch in batches for tick in batch.tables["x"]["start"].cast(int)] == ticks


def test_an_index_of_pandas_without_a_name() -> None:
    index = pd.date_range("2024-05-01", periods=3, freq="5min")
    frame = pd.DataFrame({"sensor": ["a", "b", "a"], "value": [1.5, 2, 3]}, index=index)
    frame.to_csv("x.csv")
    printed, events = reads("x.csv")
    assert printed.endswith(') TIME "".\n') and events == 3
    frame.to_parquet("x.parquet")
    printed, events = reads("x.parquet")
    assert printed.endswith(") TIME __index_level_0__.\n") and events == 3
    frame.reset_index(names="t").to_csv("x.csv")  # the numbers of the rows have no name then
    printed, events = reads("x.csv")
    assert 'FROM ""' in printed and printed.endswith(") TIME t.\n") and events == 3
