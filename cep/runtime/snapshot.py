"""A state as bytes, and back: a header in JSON, then Arrow streams one after another."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from cep.errors import CepError

VERSION = 1


def save(header: Mapping[str, Any], batches: Sequence[pa.RecordBatch], program: str) -> bytes:
    """One blob; `program` is the fingerprint of the program that it belongs to."""
    parts = [_bytes(batch) for batch in batches]
    known = {"version": VERSION, "program": program, "lengths": [len(part) for part in parts]}
    text = json.dumps({**header, **known}).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


def load(blob: bytes, program: str | None) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
    """Header and batches. Raises CepError where the blob is of another program (None: any will do), or damaged."""
    try:
        start = 8 + int.from_bytes(blob[:8], "little")
        header = json.loads(blob[8:start])
        lengths = header["lengths"]
        version, known = header["version"], header["program"]
    except (ValueError, KeyError, TypeError) as error:
        raise CepError("this is no snapshot, or a damaged one", code="snapshot") from error
    if version != VERSION or known != (program or known):
        raise CepError(
            "the snapshot is of another program",
            hint="restore it with the rules, facts and knowledge it was made with",
            code="snapshot",
        )
    if start + sum(lengths) != len(blob):
        raise CepError("the snapshot is cut short", code="snapshot")
    batches = []
    for size in lengths:
        with pa.ipc.open_stream(blob[start : start + size]) as reader:
            batches.append(reader.read_next_batch())
        start += size
    return header, batches


def program_of(blob: bytes) -> str:
    """The fingerprint of the program that a blob belongs to, empty where it cannot be told."""
    try:
        return str(json.loads(blob[8 : 8 + int.from_bytes(blob[:8], "little")])["program"])
    except (ValueError, KeyError, TypeError):
        return ""


def fingerprint(
    text: str,
    policy: str | None,
    types: Mapping[str, Sequence[str]] | None,
    facts: Mapping[str, pl.DataFrame],
    knowledge: str | None,
) -> str:
    """A name for a program with all that its state depends on: a snapshot goes with the program that made it."""
    name = hashlib.sha256(json.dumps([text, policy, sorted((types or {}).items()), knowledge]).encode())
    for predicate, table in sorted(facts.items()):
        name.update(predicate.encode())
        name.update(table.write_ipc(None).getbuffer())
    return name.hexdigest()


def table_name(table: pl.DataFrame) -> str:
    """A name for what a table holds."""
    return hashlib.sha256(table.write_ipc(None).getbuffer()).hexdigest()


def _bytes(batch: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()
