"""A state as bytes, sealed, and back: a header in JSON, then Arrow streams one after another."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa

from cep.core import checksum
from cep.core.errors import CepError
from cep.operators.goals.contract import DAMAGED as DAMAGED
from cep.operators.goals.contract import damaged

VERSION = 3

IN_PARTITIONS = " in partitions"
"""Behind the fingerprint of a program: the snapshot is of an engine with workers."""

_LENGTH = 8  # bytes of the header's own length


def save(header: Mapping[str, Any], batches: Sequence[pa.RecordBatch], program: str) -> bytes:
    """One blob; `program` is the fingerprint of the program that it belongs to."""
    parts = [stream(batch) for batch in batches]
    known = {"version": VERSION, "program": program, "lengths": [len(part) for part in parts]}
    text = json.dumps({**header, **known}).encode()
    return checksum.seal(len(text).to_bytes(_LENGTH, "little"), text, *parts)


def load(blob: bytes, program: str | None) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
    """Header and batches. Raises CepError where the blob is of another program (None: any will do), or damaged."""
    header, rest = _read(blob)
    lengths = header["lengths"]
    if header["program"] != (program or header["program"]):
        other = str(header["program"])
        if program is not None and (other == program + IN_PARTITIONS or other + IN_PARTITIONS == program):
            here, there = ("with", "without") if program.endswith(IN_PARTITIONS) else ("without", "with")
            hint = f"restore it {there} workers; an engine {here} them begins anew"
            raise CepError(f"the snapshot is of an engine {there} workers", hint=hint, code="snapshot")
        raise CepError(
            "the snapshot is of another program",
            hint="restore it with the rules, facts and knowledge it was made with",
            code="snapshot",
        )
    if sum(lengths) != len(rest):
        raise damaged()
    batches, start = [], 0
    for size in lengths:
        batches.append(streamed(rest[start : start + size]))
        start += size
    return header, batches


def streamed(data: bytes | memoryview) -> pa.RecordBatch:
    """The batch of a stream. CepError: it is damaged."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            batch = reader.read_next_batch()
        batch.validate(full=True)
    except (pa.ArrowException, StopIteration, OSError, ValueError) as error:
        raise damaged() from error
    return batch


def header(blob: bytes) -> dict[str, Any]:
    """Return the header of a snapshot. Raises CepError if it is damaged."""
    return _read(blob)[0]


def program_of(blob: bytes) -> str:
    """The fingerprint of the program that a blob belongs to. CepError: it is damaged."""
    return str(_read(blob)[0]["program"])


@contextmanager
def restoring() -> Iterator[None]:
    """Turn errors of the block into the CepError for a damaged snapshot."""
    try:
        yield
    except (LookupError, TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        raise damaged() from error


def _read(blob: bytes) -> tuple[dict[str, Any], memoryview]:
    """The header and what is behind it, once it is known to be what was written."""
    try:
        whole = checksum.content(blob)
        start = _LENGTH + int.from_bytes(whole[:_LENGTH], "little")
        found = json.loads(bytes(whole[_LENGTH:start]))
        if found["version"] != VERSION:
            raise CepError(
                f"the snapshot is of version {found['version']}, and this reads version {VERSION}",
                hint="read it with the version of semcep that made it, or begin anew",
                code="snapshot",
            )
        if not isinstance(found["program"], str) or not all(isinstance(size, int) for size in found["lengths"]):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged() from error
    return found, whole[start:]


def program_fingerprint(
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


def stream(batch: pa.RecordBatch) -> bytes:
    """A batch as an Arrow stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


Fetch = Callable[[str], bytes]
"""The bytes of the segment of a name. CepError: there is none, or it is damaged."""


@dataclass(frozen=True, slots=True)
class SegmentedState:
    """`head`: a snapshot without what is in segments; their `names`, in order; `new`: the bytes of those that the state
    before had not."""

    head: bytes
    names: Sequence[str] = ()
    new: Mapping[str, bytes] = field(default_factory=dict)


class SegmentBook:
    """The segments of the last state, by what they were made of, and so of those of the next one those that are new.
    Whoever does not keep what is new goes on with another book."""

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[object, str]] = {}
        self._now: dict[Hashable, tuple[object, str]] = {}
        self._new: dict[str, bytes] = {}

    def name(self, key: Hashable, of: object, batch: Callable[[], pa.RecordBatch]) -> str:
        """The name of a segment. `key`: equal while it is the same, as `of` is kept; `batch`: what is in it."""
        known = self._now.get(key) or self._last.get(key)
        if known is None:
            data = stream(batch())
            name = checksum.digest(data).hex()
            self._new[name] = data
            known = of, name
        self._now[key] = known
        return known[1]

    def know(self, key: Hashable, of: object, name: str) -> None:
        """The segment of this name was read, and is that."""
        self._now[key] = of, name

    def taken(self) -> dict[str, bytes]:
        """The new segments of the state that was made; the next one begins."""
        before = {name for _, name in self._last.values()}
        new = {name: data for name, data in self._new.items() if name not in before}
        self._last, self._now, self._new = self._now, {}, {}
        return new
