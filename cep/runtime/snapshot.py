"""The byte format of snapshots: a header in JSON, then Arrow streams. A checksum protects both."""

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

VERSION = 4

IN_PARTITIONS = " in partitions"
"""The suffix of a program's fingerprint in a snapshot of an engine with workers."""

_LENGTH = 8  # the size in bytes of the header's length


def save(header: Mapping[str, Any], batches: Sequence[pa.RecordBatch], program: str) -> bytes:
    """Encode a snapshot. `program`: the fingerprint of the program that the snapshot belongs to."""
    parts = [stream(batch) for batch in batches]
    known = {"version": VERSION, "program": program, "lengths": [len(part) for part in parts]}
    text = json.dumps({**header, **known}).encode()
    return checksum.seal(len(text).to_bytes(_LENGTH, "little"), text, *parts)


def load(blob: bytes, program: str | None) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
    """Decode a snapshot to its header and batches. `program`: the fingerprint of the program to which the snapshot must
    belong, or None to accept any program.

    Raises CepError if the snapshot belongs to another program or is damaged.
    """
    header, rest = _read(blob)
    lengths = header["lengths"]
    if header["program"] != (program or header["program"]):
        other = str(header["program"])
        if program is not None and (other == program + IN_PARTITIONS or other + IN_PARTITIONS == program):
            here, former = ("with", "without") if program.endswith(IN_PARTITIONS) else ("without", "with")
            hint = f"restore it {former} workers; an engine {here} them begins anew"
            raise CepError(f"the snapshot was made by an engine {former} workers", hint=hint, code="snapshot")
        raise CepError(
            "the snapshot belongs to another program",
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
    """Decode an Arrow stream that holds one batch. Raises CepError if the stream is damaged."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            batch = reader.read_next_batch()
        batch.validate(full=True)
    except (pa.ArrowException, StopIteration, OSError, ValueError) as error:
        raise damaged() from error
    return batch


def header(blob: bytes) -> dict[str, Any]:
    """Return the header of a snapshot. Raises CepError if the snapshot is damaged."""
    return _read(blob)[0]


def program_of(blob: bytes) -> str:
    """Return the fingerprint of the program to which a snapshot belongs. Raises CepError if the snapshot is damaged."""
    return str(_read(blob)[0]["program"])


@contextmanager
def restoring() -> Iterator[None]:
    """Convert errors inside a `with` block to the CepError for a damaged snapshot."""
    try:
        yield
    except (LookupError, TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        raise damaged() from error


def _read(blob: bytes) -> tuple[dict[str, Any], memoryview]:
    """Return the header of a snapshot and the bytes after the header.

    Raises CepError if the snapshot is damaged, or if its format has another version than this module writes.
    """
    try:
        whole = checksum.content(blob)
        start = _LENGTH + int.from_bytes(whole[:_LENGTH], "little")
        header = json.loads(bytes(whole[_LENGTH:start]))
        if header["version"] != VERSION:
            raise CepError(
                f"the snapshot has version {header['version']}, but this semcep reads version {VERSION}",
                hint="read it with the version of semcep that made it, or begin anew",
                code="snapshot",
            )
        if not isinstance(header["program"], str) or not all(isinstance(size, int) for size in header["lengths"]):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged() from error
    return header, whole[start:]


def program_fingerprint(
    text: str,
    policy: str | None,
    types: Mapping[str, Sequence[str]] | None,
    facts: Mapping[str, pl.DataFrame],
    knowledge: str | None,
) -> str:
    """Return the fingerprint of a program: a hash of its text and of everything else on which its state depends."""
    name = hashlib.sha256(json.dumps([text, policy, sorted((types or {}).items()), knowledge]).encode())
    for predicate, table in sorted(facts.items()):
        name.update(predicate.encode())
        name.update(table.write_ipc(None).getbuffer())
    return name.hexdigest()


def table_name(table: pl.DataFrame) -> str:
    return hashlib.sha256(table.write_ipc(None).getbuffer()).hexdigest()


def stream(batch: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


Fetch = Callable[[str], bytes]
"""A function that returns the bytes of the segment with a given name. It raises CepError if the segment is missing or
damaged."""


@dataclass(frozen=True, slots=True)
class SegmentedState:
    """A state that is stored in segments.

    - `head`: a snapshot of everything that is not in segments.
    - `names`: the names of the segments, in order.
    - `new`: the contents of the segments that the previous state did not have, by name.
    """

    head: bytes
    names: Sequence[str] = ()
    new: Mapping[str, bytes] = field(default_factory=dict)


class SegmentBook:
    """The segments of an engine's last stored state, by key. A segment of the next state is new if its key is not among
    them.

    If the new segments of a state could not be stored, the caller must use a new book for the next state.
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[object, str]] = {}
        self._now: dict[Hashable, tuple[object, str]] = {}
        self._new: dict[str, bytes] = {}

    def name(self, key: Hashable, of: object, batch: Callable[[], pa.RecordBatch]) -> str:
        """Return the name of a segment. If the segment is new, also encode its contents.

        - `key`: the key of the segment. As long as the segment is unchanged and `of` is alive, its key stays the same.
        - `of`: an object that the book keeps alive.
        - `batch`: a function that returns the contents.
        """
        known = self._now.get(key) or self._last.get(key)
        if known is None:
            data = stream(batch())
            name = checksum.digest(data).hex()
            self._new[name] = data
            known = of, name
        self._now[key] = known
        return known[1]

    def know(self, key: Hashable, of: object, name: str) -> None:
        """Record a segment that was read from storage, so that it does not count as new. `key`, `of`: the same as for
        the method `name`. `name`: the segment's name."""
        self._now[key] = of, name

    def taken(self) -> dict[str, bytes]:
        """Return the contents of the current state's new segments, by name, and begin the next state."""
        before = {name for _, name in self._last.values()}
        new = {name: data for name, data in self._new.items() if name not in before}
        self._last, self._now, self._new = self._now, {}, {}
        return new
