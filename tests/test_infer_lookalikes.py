"""Records that look like those of SenML, SensorThings or line protocol, and are plain: infer declares them so."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cep.command import app
from cep.language.schemas import Schemas
from cep.language.syntax.parser import parse
from tests.long import examples
from tests.test_infer_reads import here, reads

__all__ = ["here"]


def infers(file: str) -> str | None:
    """What is printed for a file, None: it is refused, by a message with a hint or a reason."""
    result = CliRunner().invoke(app, ["infer", file], prog_name="cep")
    assert result.exit_code in (0, 2) and (result.exception is None or isinstance(result.exception, SystemExit))
    assert result.exit_code == 0 or result.stderr.strip()
    return result.stdout if result.exit_code == 0 else None


def declared(printed: str) -> None:
    """What is printed compiles."""
    assert not list(Schemas(parse(printed), {}).errors), printed


ISO = "2024-05-01T08:00:00Z"
PLAIN: dict[str, Any] = {
    "a time of SensorThings": [{"phenomenonTime": ISO, "value": 5, "unit": "m"}] * 3,
    "a list of values": [{"ts": ISO, "value": [{"x": 1}, {"x": 2}]}] * 3,
    "numbers as values": [{"ts": ISO, "value": [1, 2, 3, 4, 5]}] * 3,
    "an array of data": [{"ts": ISO, "dataArray": [[1, 2], [3, 4]], "x": 1}] * 3,
    "components and an array": [{"ts": ISO, "components": ["a"], "dataArray": [1, 2]}] * 3,
    "names and values": [{"n": "p", "v": 1.5, "ts": 1714554000000}] * 3,
    "counts called n": [{"n": 5, "t": 1714554000, "v": 1}] * 3,
    "a version": [{"bver": 5, "ts": ISO, "n": "x"}] * 3,
    "a unit and a name": [{"u": "m", "n": "x", "d": "2024-05-01", "v": 3}] * 3,
    "fields of a point": [{"measurement": "cpu", "tags": {"host": "a"}, "fields": {"v": 1}, "time": ISO}] * 3,
}


@pytest.mark.parametrize("form", ["lines", "list", "one"])
@pytest.mark.parametrize("kind", PLAIN)
def test_plain_records_that_look_like_those_of_sensors(kind: str, form: str) -> None:
    records = PLAIN[kind]
    text = "".join(json.dumps(each) + "\n" for each in records) if form == "lines" else json.dumps(records)
    if form == "one":
        text = json.dumps(records[0], indent=1)
    Path("x.json").write_text(text)
    printed, events = reads("x.json")
    assert "FORMAT sen" not in printed and events, printed


def test_those_of_sensors_are_known_by_less_than_all_of_their_fields() -> None:
    for records, form in (
        ([{"phenomenonTime": ISO, "result": {"a": 1}}], "sensorthings"),
        ([{"phenomenonTime": ISO, "@iot.id": 1, "value": 2}], "sensorthings"),
        ([{"components": ["phenomenonTime", "result"], "dataArray": [[ISO, 1]]}], "sensorthings"),
        ([{"bn": "urn:x:", "bt": 1714554000, "n": "a", "v": 1, "xx": 2}], "senml"),
    ):
        Path("x.json").write_text(json.dumps(records))
        assert f"FORMAT {form}" in reads("x.json")[0]


KEYS = st.sampled_from(
    ["n", "bn", "v", "vs", "u", "t", "bt", "s", "value", "result", "phenomenonTime", "resultTime", "Datastream",
     "@iot.id", "@iot.nextLink", "dataArray", "components", "type", "args", "time"]
)  # fmt: skip
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 2_000_000_000), st.sampled_from([ISO, "a", "m", "1.5", ""]),
              st.floats(-5, 5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=5,
)  # fmt: skip


@examples(120)
@given(
    st.lists(st.dictionaries(KEYS, VALUES, min_size=1, max_size=5), min_size=1, max_size=4),
    st.sampled_from(["lines", "list", "page", "one"]),
)
@example([{"n": "a", "v": 1}, {"x": 2}], "list")
@example([{"n": None, "args": [[]]}], "lines")
@example([{"phenomenonTime": ISO, "result": 1}, {"result": 2}], "page")
def test_any_mixture_of_their_keys_is_read_or_told(records: list[dict[str, Any]], form: str) -> None:
    text = json.dumps(records if form == "list" else {"value": records} if form == "page" else records[0])
    if form == "lines":
        text = "".join(json.dumps(each) + "\n" for each in records)
    Path("x.json").write_text(text)
    printed = infers("x.json")
    if printed is not None and printed.count("\nevent ") == 1:
        declared(printed)


@examples(60)
@given(
    st.lists(st.sampled_from(["cpu", "host=a", "v=1", "b c", "time", "x,y=1 z=2", "#a", "1714554000000000000"]),
             min_size=1, max_size=4, unique=True),
    st.lists(st.sampled_from(["cpu,host=a v=1 1714554000000000000", "v=1i", "a=b", "1.5", ""]), min_size=1, max_size=4),
    st.sampled_from(["x.csv", "x.txt"]),
)  # fmt: skip
def test_tables_that_look_like_line_protocol(names: list[str], fields: list[str], file: str) -> None:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["stamp", *names])
    rows.writerows([ISO, *[field] * len(names)] for field in fields)
    Path(file).write_text(text.getvalue())
    if file == "x.csv":
        assert reads(file)[1] == len(fields)
    else:
        printed = infers(file)
        assert printed is None or "FORMAT influx" not in printed, printed
