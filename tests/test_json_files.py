"""JSON files that are a list, or hold records over several lines, mean what the same records a line each mean."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cep.connectors.files import read, replay
from cep.connectors.formats.json_files import in_lines
from cep.connectors.records.batch import Batch
from cep.language.schemas import Schemas
from cep.language.syntax.parser import parse

SCHEMAS = Schemas(parse('event r(x: float?, s: string? FROM "a.s") TIME t.'), {}).found
VALUES = st.one_of(st.none(), st.floats(-9, 9), st.text(max_size=5), st.lists(st.integers(), max_size=2))
RECORDS = st.fixed_dictionaries({"t": st.integers(0, 10**9), "x": VALUES, "a": st.fixed_dictionaries({"s": VALUES})})
FORMS = st.sampled_from([(1, None), (None, None), (4, (",", ":")), (0, (" ,", " : "))])


def found(batches: list[Batch]) -> tuple[list[Any], list[tuple[int, str]], list[Any]]:
    """The events, the dead letters, and the records that blocks say these are of."""
    tables = [batch.tables["r"] for batch in batches if "r" in batch.tables]
    rows = pl.concat(tables).drop("@order").rows() if tables else []
    dead = [(letter.line, letter.code) for batch in batches for letter in batch.dead]
    texts = [
        json.loads(batch.origin("r", row)[2] or "") for batch in batches for row in range(batch.rows) if batch.blocks
    ]
    return rows, dead, texts


@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(st.lists(RECORDS, min_size=1, max_size=8), FORMS, st.sampled_from([7, 64, 1 << 20]), st.booleans())
def test_a_list_and_objects_over_lines_are_read_as_lines_are(
    tmp_path: Path, records: list[Any], form: tuple[Any, Any], chunk: int, alone: bool
) -> None:
    indent, marks = form
    lines, other = tmp_path / "lines.jsonl", tmp_path / "other.json"
    lines.write_text("".join(json.dumps(each) + "\n" for each in records))
    dumped = [json.dumps(each, indent=indent or 1, separators=marks) for each in records]
    other.write_text("\n".join(dumped) if alone else json.dumps(records, indent=indent, separators=marks))
    assert in_lines(other.read_bytes(), True) is False
    expected, dead, _ = found(list(read([f"r={lines}"], SCHEMAS)))
    rows, letters, texts = found(list(read([f"r={other}"], SCHEMAS, chunk=chunk)))
    assert rows == expected
    assert [code for _, code in letters] == [code for _, code in dead]
    bad = {line for line, _ in dead}
    assert texts == [record for line, record in enumerate(records, 1) if line not in bad]
    if alone:
        begins = [number for number, line in enumerate(other.read_text().split("\n"), 1) if line == "{"]
        assert [line for line, _ in letters] == [begins[line - 1] for line, _ in dead]


@pytest.mark.parametrize(
    ("text", "read_", "dead"),
    [
        ('[{"t": 1}, 7, [2], {"t": 2}]', 2, [(1, "object"), (1, "object")]),
        ('[\n{"t": 1},\n{"t": }\n,{"t": 3}\n]\n', 2, [(3, "json")]),
        ('[{"t": 1},\n {"t": 2},', 2, [(2, "json")]),
        ('[{"t": 1},\n {"t": 2, "a', 1, [(2, "json"), (2, "json")]),
        ('[{"t": 1, "a": {"s": "[{,\\n}]"}}]', 1, []),
        ('{\n"t": 1}{"t": 2}\n', 0, [(1, "json")]),
        ("[]", 0, []),
        ('{"t": 1}\n{"t": \n{"t": 3}\n', 2, [(2, "json")]),
        ('{"t": \n{"t": 3}\n', 1, [(1, "json")]),
        ('[1]\n{"t": 3}\n', 1, [(1, "object")]),
    ],
)
def test_what_is_broken_is_a_dead_letter(tmp_path: Path, text: str, read_: int, dead: list[Any]) -> None:
    for name, data in (("a.json", text.encode()), ("a.json.gz", gzip.compress(text.encode()))):
        (tmp_path / name).write_bytes(data)
        batches = list(replay([f"r={tmp_path / name}"], SCHEMAS))
        assert sum(batch.rows for batch in batches) == read_
        assert [(letter.line, letter.code) for batch in batches for letter in batch.dead] == dead
