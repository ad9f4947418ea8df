"""Each record of each format becomes an event, or a dead letter. A list or a pack that is empty holds none."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cep.connectors.files import read
from cep.language.schemas import Schemas
from cep.language.syntax.parser import parse

MANY = settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 2 * 10**9), st.floats(-5, 5), st.text("aev:. \n", max_size=4)
)
VALUES = st.recursive(
    SCALARS, lambda each: st.lists(each, max_size=2) | st.dictionaries(st.sampled_from("envt"), each, max_size=2)
)


def counted(file: Path, declaration: str, text: str) -> int:
    """How many events and dead letters come of a file."""
    file.write_text(text, encoding="utf-8", newline="")
    schemas = Schemas(parse(declaration), {}).found
    batches = list(read([f"r={file}"], schemas))
    return sum(batch.rows + len(batch.dead) for batch in batches)


@MANY
@given(st.lists(st.dictionaries(st.sampled_from(["t", "x", "y", "args", "type"]), VALUES), min_size=1, max_size=6))
def test_json(tmp_path: Path, records: list[Any]) -> None:
    text = "".join(json.dumps(each) + "\n" for each in records)
    assert counted(tmp_path / "a.jsonl", "event r(x: float?, y: string?) TIME t.", text) == len(records)
    assert counted(tmp_path / "a.json", "event r(x: float?, y: string?) TIME t.", json.dumps(records)) == len(records)


@MANY
@given(st.lists(st.lists(st.text('a1,;." \n', max_size=4), min_size=2, max_size=4).filter(any), max_size=6))
def test_tables(tmp_path: Path, rows: list[list[str]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([["t", "x"], *rows])
    assert counted(tmp_path / "a.csv", "event r(x: float?) TIME t.", text.getvalue()) == len(rows)


LABELS = ["n", "v", "vs", "vb", "vd", "t", "u", "s", "e", "ver", "x"]


@MANY
@given(st.lists(st.dictionaries(st.sampled_from(LABELS), VALUES, max_size=4), min_size=1, max_size=5))
def test_senml(tmp_path: Path, records: list[Any]) -> None:
    text = "".join(json.dumps([each]) + "\n" for each in records)
    declaration = "event r(n: string, value: float) FORMAT senml."
    assert counted(tmp_path / "a.senml", declaration, text) == len(records)


@pytest.mark.long
def test_senml_of_many_records_at_once(tmp_path: Path) -> None:
    packs = [[{"n": "a", "v": 1, "t": 2**30 + number}] for number in range(2_000)]
    packs[700:700] = [[{}], [{"e": [{"n": "a", "v": 1}]}]]  # in a text that is read as a whole
    text = "".join(json.dumps(each) + "\n" for each in packs)
    assert counted(tmp_path / "a.senml", "event r(n: string, value: float) FORMAT senml.", text) == len(packs)


@MANY
@given(st.lists(st.dictionaries(st.sampled_from(["result", "phenomenonTime", "id"]), SCALARS), min_size=1, max_size=5))
def test_sensorthings(tmp_path: Path, records: list[Any]) -> None:
    declaration = "event r(result: float) FORMAT sensorthings."
    assert counted(tmp_path / "a.json", declaration, json.dumps({"value": records})) == len(records)


@MANY
@given(st.lists(st.text('m,a=1.i \\"x#', min_size=1, max_size=12), min_size=1, max_size=6))
def test_line_protocol(tmp_path: Path, lines: list[str]) -> None:
    expected = [line for line in lines if line.strip() and not line.lstrip(" ").startswith("#")]
    declaration = "event r(a: float?) FORMAT influx."
    assert counted(tmp_path / "a.lp", declaration, "\n".join(lines) + "\n") == len(expected)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"e": [{"n": "a", "v": 1}], "bn": "dev:"}, "SenML of the drafts before RFC 8428"),
        ({"e": 1}, "`e` is a number, no list of records"),
        ({}, "the record is empty"),
        ({"temp": 3}, "the record has no fields of SenML, only `temp`"),
    ],
)
def test_what_is_no_senml_says_so(tmp_path: Path, record: Any, said: str) -> None:
    for text in (json.dumps(record), json.dumps([record])):
        (tmp_path / "a.senml").write_text(text + "\n")
        schemas = Schemas(parse("event r(n: string, value: float) FORMAT senml."), {}).found
        (batch,) = read([f"r={tmp_path / 'a.senml'}"], schemas)
        (letter,) = batch.dead
        assert said in letter.reason and letter.code == "senml"
