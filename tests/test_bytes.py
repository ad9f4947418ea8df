"""Bytes that are no text, and more of them than 32 bits can count: what is read is what single records say.

`SEMCEP_FUZZ=n`: n times as many.
"""

from __future__ import annotations

import gzip
import io
import json
import os
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cep.connectors.files import read
from cep.connectors.formats import streams
from cep.connectors.formats.jsonl import LineReader
from cep.connectors.records.header import bind
from cep.connectors.records.records import Record, decode, read_fields
from cep.connectors.records.values import Unreadable
from cep.core.schema import Schema
from cep.engine import Engine
from tests.record_lines import read_line
from tests.sink_log import enter

TRIES = 150 * max(1, int(os.environ.get("SEMCEP_FUZZ", "0")))
KINDS = ("string", "iri", "int", "float", "bool", "time", "duration")
PLAIN = {
    "string": ["a", "é", "漢字"],
    "iri": ["http://e.org/x", "urn:é"],
    "int": ["7", "-3"],
    "float": ["2.5", "12345678901234567.5"],
    "bool": ["true", "FALSE"],
    "time": ["5", "2024-05-01T08:00:00Z"],
    "duration": ["3", "2 h"],
}
ODD = bytes(range(0x80, 0x100)) + b"\x00 -.:e0a"


def schemas(kinds: list[str], optional: bool) -> dict[str, Schema]:
    attributes = ", ".join(f"v{n}: {kind}{'?' if optional else ''}" for n, kind in enumerate(kinds))
    return Engine.from_text(f"event a({attributes}) TIME t. x(V) <- a(V{', _' * (len(kinds) - 1)}).").inputs


def spoilt(random: Random, text: bytes) -> bytes:
    """Some bytes of a line are others, none of them one that cuts it."""
    raw = bytearray(text)
    for _ in range(random.choice([0, 1, 1, 2])):
        place = random.randrange(len(raw) + 1)
        if raw[place : place + 1] not in (b",", b'"', b"\n") and raw[max(0, place - 1) : place] != b'"':
            raw[place : place + random.randint(0, 1)] = bytes([random.choice(ODD)])
    return bytes(raw)


def found(table: pl.DataFrame | None) -> dict[int, str]:
    if table is None:
        return {}
    names = [name for name in table.columns if name not in ("start", "end", "@order")]
    rows = zip(*[table[name].to_list() for name in ("@order", "start", "end", *names)])
    return {order: alike((start, end, tuple(values))) for order, start, end, *values in rows}


def alike(values: Any) -> str:
    """As letters; within `any` 1 and 1.0 are one."""
    start, end, given = values
    numbers = [float(v) if isinstance(v, int) and not isinstance(v, bool) else v for v in given]
    return repr((start, end, numbers))


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_spoilt_lines_are_read_as_single_records_are(format: str, tmp_path: Path) -> None:
    for number in range(TRIES):
        random = Random(f"{format} {number}")
        kinds = [random.choice(KINDS) for _ in range(random.randint(1, 4))]
        known = schemas(kinds, random.random() < 0.7)
        names = ["t", *(f"v{n}" for n in range(len(kinds)))]
        lines = []
        for row in range(random.randint(1, 12)):
            values = [str(row), *(random.choice([*PLAIN[kind], ""]) for kind in kinds)]
            if format == "csv":
                quoted = [f'"{value}"' if random.random() < 0.2 else value for value in values]
                text = ",".join(quoted)
            else:
                text = json.dumps(dict(zip(names, values)), ensure_ascii=random.random() < 0.5)
            lines.append(spoilt(random, text.encode()))
        head = b",".join(name.encode() for name in names) + b"\n" if format == "csv" else b""
        path = tmp_path / f"a.{format}"
        path.write_bytes(head + b"\n".join(lines) + random.choice([b"", b"\n"]))
        tables: dict[int, str] = {}
        dead: dict[int, str] = {}
        for batch in read([f"a={path}"], known, chunk=random.choice([7, 40, 1 << 20])):
            tables |= found(batch.tables.get("a"))
            dead |= {one.line: one.code for one in batch.dead}
        expected: dict[int, str] = {}
        refused: dict[int, str] = {}
        bound = bind(str(path), known["a"], names) if format == "csv" else known["a"]
        for row, line in enumerate(lines):
            try:
                record = _fields(line, names, bound) if format == "csv" else read_line(line, known, "a", True)
                expected[row] = alike((record.start, record.end, record.values))
            except Unreadable as reason:
                refused[row + (2 if format == "csv" else 1)] = reason.code
        assert (tables, dead) == (expected, refused), (number, lines)


def _fields(line: bytes, names: list[str], schema: Schema) -> Record:
    parts = decode(line).split(",")
    return read_fields({name: part.strip('"') for name, part in zip(names, parts)}, schema)


def test_the_line_of_the_report(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"t,v0\n0,\xe9\n1,true\n")
    (batch,) = read([str(tmp_path / "a.csv")], {"a": schemas(["bool"], True)["a"]})
    assert [(one.line, one.code) for one in batch.dead] == [(2, "utf-8")]
    assert batch.tables["a"]["v0"].to_list() == [True]


@pytest.mark.parametrize("kind", ["string", "iri"])
@pytest.mark.parametrize("dictionary", [False, True])
def test_texts_of_parquet_that_are_none_are_dead_letters(kind: str, dictionary: bool, tmp_path: Path) -> None:
    raw = pa.array([b"urn:a", b"\xe9", None, b"urn:\xc3\xa9"], pa.binary())
    column = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    column = column.dictionary_encode() if dictionary else column
    pq.write_table(pa.table({"t": [0, 1, 2, 3], "v0": column}), tmp_path / "a.parquet")
    (batch,) = read([str(tmp_path / "a.parquet")], {"a": schemas([kind], True)["a"]})
    assert [(one.line, one.code) for one in batch.dead] == [(2, "utf-8")]
    assert batch.tables["a"]["v0"].to_list() == ["urn:a", None, "urn:é"]


@pytest.mark.parametrize("format", ["nquads", "jsonld"])
def test_spoilt_observations_are_dead_letters_or_told(format: str, tmp_path: Path) -> None:
    text = """
    PREFIX sosa: <http://www.w3.org/ns/sosa/>
    event reading(s: iri FROM sosa:madeBySensor, v: float FROM sosa:hasSimpleResult) AS sosa:Observation
      TIME sosa:resultTime. x(S) <- reading(S, _).
    """
    known = Engine.from_text(text).inputs
    sosa, xsd = "http://www.w3.org/ns/sosa/", "http://www.w3.org/2001/XMLSchema#"
    for number in range(TRIES // 3):
        random = Random(number)
        if format == "nquads":
            whole = f"""<urn:o> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{sosa}Observation> .
<urn:o> <{sosa}resultTime> "2024-05-01T08:00:00Z"^^<{xsd}dateTime> .
<urn:o> <{sosa}madeBySensor> <urn:é> .
<urn:o> <{sosa}hasSimpleResult> "1.5"^^<{xsd}double> .
"""
        else:
            result = {"@type": f"{sosa}Observation", f"{sosa}resultTime": "2024-05-01T08:00:00Z"}
            whole = json.dumps({**result, f"{sosa}madeBySensor": {"@id": "urn:é"}, f"{sosa}hasSimpleResult": 1.5})
        path = tmp_path / f"o.{'nq' if format == 'nquads' else 'jsonld'}"
        raw = bytearray(whole.encode())
        raw[random.randrange(len(raw))] = random.choice(ODD)
        path.write_bytes(raw)
        for batch in read([str(path)], known):
            assert all(one.reason for one in batch.dead)


def test_blocks_are_bounded_whatever_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a block places are numbers of 32 bits: no block is as large as that."""
    known = schemas(["string", "int"], False)
    rows = [(n, f"k{n % 7}", n) for n in range(2000)]
    csv = "t,v0,v1\n" + "".join(f"{t},{k},{v}\n" for t, k, v in rows)
    jsonl = "".join(json.dumps({"t": t, "v0": k, "v1": v}) + "\n" for t, k, v in rows)
    monkeypatch.setattr(streams, "MOST", 1000)
    for suffix, text in (("csv", csv), ("jsonl", jsonl)):
        plain, packed = tmp_path / f"a.{suffix}", tmp_path / f"a.{suffix}.gz"
        plain.write_text(text)
        packed.write_bytes(gzip.compress(text.encode()))
        for source in (f"a={plain}", f"a={packed}"):
            batches = list(read([source], known, chunk=1 << 40))
            assert max(len(block.data or b"") for batch in batches for block in batch.blocks) < 1200
            got = [row for batch in batches for row in batch.tables["a"].select("start", "v0", "v1").rows()]
            assert got == [(t * 1_000_000, k, v) for t, k, v in rows]


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_a_line_longer_than_any_record_is_one_dead_letter(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = schemas(["string"], False)
    head = b"t,v0\n" if format == "csv" else b""
    good = b"3,a\n" if format == "csv" else b'{"t": 3, "v0": "a"}\n'
    long = b"x" * (3 * streams.LONGEST + 5)
    (tmp_path / f"a.{format}.gz").write_bytes(gzip.compress(head + long + b"\n" + good, 1))
    batches = list(read([f"a={tmp_path}/a.{format}.gz"], known))
    assert [one.code for batch in batches for one in batch.dead] == ["long"]
    assert sum(batch.rows for batch in batches) == 1
    assert max(len(block.data or b"") for batch in batches for block in batch.blocks) < len(long)


@pytest.mark.parametrize("chunk", [1 << 40, 1 << 24, 5_000_000])
@pytest.mark.parametrize("format", ["csv", "jsonl", "list"])
def test_a_line_may_be_as_long_as_the_document_says(format: str, chunk: int, tmp_path: Path) -> None:
    """Wherever it stands in a file, and however much is read at once."""
    known = schemas(["string"], False)
    begin, end = ("3,", "") if format == "csv" else ('{"t": 3, "v0": "', '"}')

    def line(length: int) -> str:
        return begin + "x" * (length - len(begin) - len(end)) + end

    for length, codes in ((streams.LONGEST, []), (streams.LONGEST + 1, ["long"])):
        file = tmp_path / f"a.{'json' if format == 'list' else format}"
        lines = [line(30), line(100), line(length), *([line(30)] if format != "list" else [])]
        text = "[" + ",".join(lines) + "]" if format == "list" else "\n".join(lines)
        file.write_text(("t,v0\n" if format == "csv" else "") + text)
        batches = list(read([f"a={file}"], known, chunk=chunk))
        assert [one.code for batch in batches for one in batch.dead] == codes
        assert sum(batch.rows for batch in batches) == len(lines) - len(codes)


def test_files_of_a_sink_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cep.spark.sink import reader

    schema = Engine.from_text("event a(k: string, n: int). x(K, N) <- a(K, N).").outputs
    lines = [{"type": "x", "start": n, "end": n, "k": f"k{n % 3}", "n": n} for n in range(3000)]
    (tmp_path / "part-0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    enter(tmp_path, "0", [json.dumps({"path": (tmp_path / "part-0.jsonl").as_uri(), "batch": 0})])
    sizes: list[int] = []
    before = LineReader.read

    def noted(self: LineReader, file: str, data: bytes, *more: int) -> Any:
        sizes.append(len(data))
        return before(self, file, data, *more)

    monkeypatch.setattr(LineReader, "read", noted)
    monkeypatch.setattr(reader, "CHUNK", 4096)
    (batch,) = reader.SinkReader(str(tmp_path), schema).new()
    assert batch.tables["x"]["n"].to_list() == list(range(3000)) and max(sizes) < 8192
    assert batch.origin("x", 2999)[1:] == (3000, json.dumps(lines[-1]))
    assert all(block.data is None for block in batch.blocks)


def test_what_a_pipe_gives_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST", 100)
    assert len(streams.ByteStream("-", io.BytesIO(b"x" * 1000)).read(1 << 40)) == 100
