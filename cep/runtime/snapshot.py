"""The state of an engine as bytes, and back: goals, values, what waits, the clock, in Arrow."""

from __future__ import annotations

import hashlib
import io
import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from cep.errors import CepError
from cep.goals.contract import from_arrow, to_arrow
from cep.table import FIRST, concat

if TYPE_CHECKING:
    from cep.engine import Engine

VERSION = 1


def save(engine: Engine) -> bytes:
    """Arrow streams one after another, each with its length before it; first a header in JSON."""
    parts = [batch_bytes(batch) for batch in engine.machine.snapshot()]
    waiting = {name: np.ascontiguousarray(concat(tables)) for name, tables in engine.clock.waiting.items()}
    sources = {name: np.ascontiguousarray(concat(tables)) for name, tables in engine.sources.items()}
    values = io.BytesIO()
    engine.pool.dump().write_ipc_stream(values)
    parts += [batch_bytes(to_arrow(waiting)), batch_bytes(to_arrow(sources)), values.getvalue()]
    if engine.lineage is not None:
        parts.append(batch_bytes(engine.lineage.snapshot()))
    header = {
        "version": VERSION,
        "program": fingerprint(engine),
        "explain": engine.lineage is not None,
        "position": engine.position,
        "watermark": engine.clock.watermark,
        "latest": engine.clock.latest,
        "lengths": [len(part) for part in parts],
    }
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


def load(engine: Engine, blob: bytes) -> None:
    """Take on a saved state. Raises CepError where it is of another program, or damaged."""
    try:
        length = int.from_bytes(blob[:8], "little")
        header = json.loads(blob[8 : 8 + length])
        lengths = header["lengths"]
    except (ValueError, KeyError, TypeError) as error:
        raise CepError("this is no snapshot, or a damaged one", code="snapshot") from error
    if header["version"] != VERSION or header["program"] != fingerprint(engine):
        raise CepError(
            "the snapshot is of another program", hint="restore it with the rules and facts it was made with", code="snapshot"
        )
    if header["explain"] != (engine.lineage is not None):
        raise CepError("the snapshot was made with another `explain`", hint="the same option on both", code="snapshot")
    parts, at = [], 8 + length
    for size in lengths:
        parts.append(blob[at : at + size])
        at += size
    if at != len(blob):
        raise CepError("the snapshot is cut short", code="snapshot")
    if engine.lineage is not None:
        engine.lineage.restore(read_batch(parts.pop()))
    values, sources, waiting = parts.pop(), read_batch(parts.pop()), read_batch(parts.pop())
    import polars as pl

    engine.pool.load(pl.read_ipc_stream(io.BytesIO(values)))
    engine.machine.restore([read_batch(part) for part in parts])
    engine.clock.waiting = {name: [table] for name, table in from_arrow(waiting).items() if table.shape[0] >= FIRST}
    engine.sources = {name: [table] for name, table in from_arrow(sources).items() if table.shape[0] >= FIRST}
    engine.clock.watermark, engine.clock.latest = header["watermark"], header["latest"]
    engine.position = header["position"]


def fingerprint(engine: Engine) -> str:
    """A name for the program: a snapshot goes with the program that made it."""
    return hashlib.sha256(engine.text.encode()).hexdigest()


def batch_bytes(batch: pa.RecordBatch) -> bytes:
    """One record batch as an Arrow stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def read_batch(part: bytes) -> pa.RecordBatch:
    """The record batch of such a stream."""
    with pa.ipc.open_stream(part) as reader:
        return reader.read_next_batch()
