"""The journal of a run. Every batch is written to disk before it is processed, so that a killed run can continue
without losing input.

A journal belongs to a snapshot, and contains the batches after it. Each snapshot starts a new journal. The first record
of a journal contains the fingerprint of the snapshot and the positions of the sources at that time. Every other record
contains a batch.

The file is an `AppendLog`. If its last record is incomplete, this record is cut off. Its batch was neither processed
nor acknowledged to a source. Any other damage causes an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from cep.connectors.arrow_bytes import pack, unpack
from cep.connectors.input_history import EVENTS, InputHistory, JournalRecord, read_records
from cep.connectors.records.batch import Batch, Block, DeadLetter
from cep.core import checksum
from cep.core.append_log import RecordBytes, RecordLog
from cep.core.durable_files import sync_names, write_whole
from cep.core.errors import FULL, CepError, reason_of
from cep.core.schema import Schema
from cep.core.time import BEGINNING

_WHOLE = "everything written is complete, and the run continues from there"


_NOTHING: dict[str, Any] = {
    "tables": [], "rows": [], "dead": [], "blocks": [], "silence": 0, "source": "", "place": []
}  # fmt: skip


@dataclass(slots=True)
class JournalMark:
    """A position in the journal at which a snapshot is taken. The snapshot includes all batches before this position.
    It is saved later than it is taken.

    - `first`: the record number of the next record of the input.
    - `places`: for each source, its position at the mark.
    - `silence`: how long no input had arrived before the mark, in microseconds. 0 if the input was not silent.
    - `latest`: the latest end of a record before the mark.
    - `since`: the batches after the mark. For each of them: its head, the bytes of its tables, and the length of
      the silence that it reports, or 0.
    """

    first: int
    places: dict[str, dict[int, int]]
    silence: int
    latest: int = BEGINNING
    since: list[tuple[dict[str, Any], bytes, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Handover:
    """The transition from one version of a program to the next version.

    `version`: the number of the new version. `triples`: the last triples of the old version. `held`: for each fluent,
    the intervals that hold when the new version starts.
    """

    version: int
    triples: str
    held: Mapping[str, pl.DataFrame]

    @property
    def batch(self) -> Batch:
        """The first batch of the new version."""
        return Batch({}, [], [], handover=self.triples, held=self.held)


class Journal:
    """A folder that contains the snapshot of a program, and the journal of the batches after the snapshot.

    - `behind`: the number of records that the journal contained when it was opened.
    - `first`: the record number of the next record of the input.
    - `places`: for each source, the position after its last batch.
    - `whole`: True if all batches that the journal contained when it was opened have been replayed.
    - `version`: the number of the program's version to which the snapshot belongs.

    If `keeps` is True, the batches before the snapshot are kept in other files. `history` reads them.
    """

    def __init__(self, folder: Path, schemas: Mapping[str, Schema], keeps: bool = False) -> None:
        """Open the journal in a folder, or create it.

        `schemas`: the event types for which the input is read. Replayed batches contain the tables of other event types
        in the field `beside`. `keeps`: True to keep the batches that a snapshot replaces. Raises CepError if the
        journal or the snapshot is damaged or cannot be read, or if they do not belong together.
        """
        self.version = 1
        self._input = InputHistory(folder / "input") if keeps else None
        self._base = 0  # the number of batches before this journal
        self._saved, self._path, self._part = folder / "snapshot", folder / "journal", folder / "journal.part"
        self._schemas = {name: _fields(schema) for name, schema in schemas.items()}
        self.places: dict[str, dict[int, int]] = {}
        self.first = self.behind = 0
        # the length of the last batch's silence, and of the last silence included in the snapshot
        self._silence = self._before = 0
        self._left: list[JournalRecord] = []
        self._given = self._passed = 0  # the number of replayed batches that were returned, and that are processed
        self._replay = JournalMark(0, {}, 0)
        self._closed = False
        self._point: JournalMark | None = None
        try:
            self._log = self._opened(self._name())
            if self._input is not None:
                self._input.note_events(self._schemas, self._base + len(self._log) - 1)
            else:
                (folder / "input" / EVENTS).unlink(missing_ok=True)
        except OSError as error:
            raise _failed(self._path, error) from None
        self.whole = not self._left

    def snapshot(self) -> bytes:
        """Return the last snapshot. Return empty bytes if there is no snapshot yet."""
        return self._saved.read_bytes() if self._saved.is_file() else b""

    def replayed(self) -> Iterator[Batch]:
        """Yield the journal's batches, and then an empty batch that ends a silence. Without batches, yield nothing.

        This generator can only be used once.
        """
        for head, tables in self._left:
            self._given += 1
            yield self._batch(head, tables)
        if self._left:
            self._left, self.whole = [], True
            yield Batch({}, [], [])

    def add(self, batch: Batch) -> None:
        """Append a batch to the journal. The batch then survives a crash of this process.

        If the batch has a position in its source, it will be acknowledged to the source. So it is also protected from a
        crash of the machine. Raises CepError if the batch cannot be written.
        """
        if not self.whole or self._closed:  # it is one of the replayed batches, or the run is over
            return
        self._silence = batch.silence
        if not batch.silence:
            self._before = 0
        packed = {name: pack(table) for name, table in batch.tables.items()}
        head = {
            "tables": [(name, self._schemas[name], len(rows)) for name, rows in packed.items()],
            "rows": [table.height for table in batch.tables.values()],
            "dead": [astuple(letter) for letter in batch.dead],
            "blocks": [_placed(block) for block in batch.blocks],
            # A silence counts from its beginning, or from a snapshot in between.
            "silence": _silence(batch.silence, self._before),
            "source": batch.source,
            "place": list(batch.place.items()),
        }
        if batch.knowledge:
            head["knowledge"] = len(batch.knowledge)
        _note(self, batch)
        tables = b"".join([*packed.values(), batch.knowledge])
        if self._point is not None:
            self._point.since.append((head, tables, batch.silence))
        try:
            self._log.append([_encoded(head, tables)], sync=bool(batch.place))
        except OSError as error:
            raise _failed(self._path, error) from None

    def processed(self) -> None:
        """Record that all batches yielded by `replayed` so far are processed. The next snapshot may replace them."""
        for head, _ in self._left[self._passed : self._given]:
            _note(self._replay, self._batch({**head, "tables": []}, b""))
            self._replay.silence = head["silence"]
        self._passed = self._given

    def history(self, since: int, schemas: Mapping[str, Schema], from_time: int) -> Iterator[tuple[int, Batch]]:
        """Yield the processed batches from the number `since` on, each with the number of the batch after it.

        `schemas`: the event types whose tables are returned. `from_time`: the batches of a kept file are left out if
        all records of this file end before this time.
        """
        if self._input is None:
            return
        wanted = {name: _fields(schema) for name, schema in schemas.items()}
        for number, (head, tables) in self._input.records(since, from_time, self._path):
            yield number + 1, _batch(head, tables, wanted)

    def read_since(self, events: Iterable[str]) -> int:
        """Return the number of the first batch since which the input was read for all event types in `events`."""
        return 0 if self._input is None else self._input.read_since(events)

    def forget_input(self, before: int) -> None:
        """Delete each kept file in which all records end before the time `before`."""
        if self._input is not None:
            self._input.forget(before)

    def point(self, latest: int = BEGINNING) -> JournalMark:
        """Mark the current position, for a snapshot that is taken now and saved later. Return the mark.

        Until this snapshot is saved or another position is marked, all new batches are also held in memory. During a
        replay, the mark is placed before the batches that are not processed yet. `latest`: the latest end so far.
        """
        reached, silence = (self, self._silence) if self.whole else (self._replay, self._replay.silence)
        places = {source: dict(place) for source, place in reached.places.items()}
        left = [(head, tables, head["silence"]) for head, tables in self._left[self._passed :]]
        self._point = JournalMark(reached.first, places, silence, latest, left)
        return self._point

    def save(self, blob: bytes, point: JournalMark | None = None, handover: Handover | None = None) -> None:
        """Replace the snapshot, and start a new journal. Raises CepError if the snapshot cannot be written.

        - `blob`: the new snapshot.
        - `point`: the latest mark. The snapshot includes the batches before the mark, and the new journal contains the
          batches after it. If it is None, the snapshot includes all batches.
        - `handover`: the transition to a new version of the program, or None. It is stored together with the snapshot.
        """
        point = point or self.point()
        assert point is self._point, "what came between two points is not with the older one"
        passed = len(self._log) - 1 - len(point.since)
        try:
            log = self._begun(checksum.name(blob).hex(), point, passed, handover)
            if self._input is not None:
                self._input.keep(self._path, self._base, passed, point.latest)
            write_whole(self._saved, blob)  # from here on, the new journal is the valid one
            log.move(self._path)
            sync_names(self._saved.parent)
        except OSError as error:
            raise _failed(self._saved, error) from None
        self._log.close()
        self._log, self._point = log, None
        self._base += passed
        if handover is not None:
            self.version = handover.version
        self._before = point.silence if all(silence for *_, silence in point.since) else 0

    def close(self) -> None:
        self._closed = True
        self._log.close()

    def _name(self) -> str:
        blob = self.snapshot()
        try:
            if checksum.is_sealed(blob):
                checksum.content(blob)
        except checksum.Broken:
            hint = "restore the whole folder from a backup, or start afresh with another one"
            raise CepError(f"--state: {self._saved}: the file is damaged", hint=hint, code="state") from None
        return checksum.name(blob).hex()

    def _opened(self, name: str) -> RecordLog:
        """Open the journal that belongs to the snapshot. If it does not exist, create it.

        `name`: the fingerprint of the snapshot.
        """
        for path in (self._path, self._part):
            log, records, damaged = read_records(path)
            if records and records[0][0].get("follows") == name:
                if damaged:
                    raise _damaged(path, len(records))
                break
        else:
            if self._path.is_file():  # a journal gets its name after its first record is written
                raise _apart(self._path, self._saved) if read_records(self._path)[1] else _damaged(self._path, 0)
            self._base = 0 if self._input is None else self._input.beyond
            log = self._begun(name, JournalMark(self.first, self.places, 0), 0, None)
            log.move(self._path)
            return log
        begun, known = records[0]
        self.first, self.version, self._base = begun["first"], begun["version"], begun["base"]
        numbers: Iterator[Any] = iter(np.frombuffer(known, np.int64).reshape(-1, 2).tolist())
        self.places = {source: dict(islice(numbers, count)) for source, count in begun["places"]}
        self._replay = JournalMark(self.first, {source: dict(place) for source, place in self.places.items()}, 0)
        self._left = records[1:]
        for head, _ in self._left:
            batch = self._batch({**head, "tables": []}, b"")
            _note(self, batch)
            fit = [self._schemas.get(name) == fields for name, fields, _ in head["tables"]]
            self.behind += sum(rows for rows, fits in zip(head["rows"], fit) if fits)
            self.behind += sum(not letter.of_file for letter in batch.dead)
        log.move(self._path)
        log.append([])  # cuts off an incomplete record
        return log

    def _begun(self, name: str, point: JournalMark, passed: int, handover: Handover | None) -> RecordLog:
        """Write the journal that follows a snapshot. It does not replace the current journal yet.

        `name`: the fingerprint of the snapshot. `point`: the mark at which the snapshot was taken. `passed`: the number
        of batches between the previous snapshot and this snapshot.
        """
        places = [(source, len(place)) for source, place in point.places.items()]
        numbers = np.array([pair for place in point.places.values() for pair in place.items()], np.int64)
        version = self.version if handover is None else handover.version
        head = {"follows": name, "first": point.first, "places": places, "version": version}
        begun = _encoded({**head, "base": self._base + passed}, numbers.tobytes())
        taken = [] if handover is None else [_handed(handover)]
        return self._written([begun, *taken, *_since(point)])

    def _written(self, records: Sequence[RecordBytes]) -> RecordLog:
        self._part.unlink(missing_ok=True)
        log = RecordLog(self._part)
        log.append(records)
        return log

    def _batch(self, head: Mapping[str, Any], data: bytes) -> Batch:
        if "handover" in head and data:
            return _handover(head, data)
        return _batch(head, data, self._schemas, beside=True)


def _batch(head: Mapping[str, Any], data: bytes, schemas: Mapping[str, list[list[str]]], beside: bool = False) -> Batch:
    """Decode a batch from the journal, with the tables of the event types whose fields are the same in `schemas`.

    `beside`: True to keep all other tables in the field `beside` of the batch.
    """
    tables: dict[str, pl.DataFrame] = {}
    others: dict[str, pl.DataFrame] = {}
    start = 0
    for name, fields, size in head["tables"]:
        if schemas.get(name) == fields:
            tables[name] = unpack(data[start : start + size])
        elif beside:
            others[name] = unpack(data[start : start + size])
        start += size
    dead = [DeadLetter(*letter) for letter in head["dead"]]
    blocks = [_block(block) for block in head["blocks"]]
    place, silence = dict(head["place"]), head["silence"]
    known = data[start : start + head.get("knowledge", 0)]
    return Batch(
        tables, dead, blocks, silence=silence, source=head["source"], place=place, beside=others, knowledge=known
    )


def _handed(handover: Handover) -> RecordBytes:
    packed = {name: pack(table) for name, table in handover.held.items()}
    head = {
        **_NOTHING,
        "handover": [len(handover.triples.encode()), [(name, len(rows)) for name, rows in packed.items()]],
    }
    return _encoded(head, handover.triples.encode() + b"".join(packed.values()))


def _handover(head: Mapping[str, Any], data: bytes) -> Batch:
    start, tables = head["handover"]
    triples, held = data[:start].decode(), {}
    for name, size in tables:
        held[name] = unpack(data[start : start + size])
        start += size
    return Batch({}, [], [], handover=triples, held=held)


def _note(reached: Journal | JournalMark, batch: Batch) -> None:
    reached.first = max([reached.first, *(block.beyond for block in batch.blocks)])
    if batch.place:
        reached.places.setdefault(batch.source, {}).update(batch.place)


def _fields(schema: Schema) -> list[list[str]]:
    return [[attribute.name, attribute.type] for attribute in schema.attributes]


def _silence(length: int, before: int) -> int:
    """Return the part of a silence that lies after the snapshot, or 0 if there is no silence.

    `length`: the length of the whole silence. `before`: the length of its part before the snapshot.
    """
    return length and max(1, length - before)


def _since(point: JournalMark) -> Iterator[RecordBytes]:
    before = point.silence
    for head, tables, silence in point.since:
        before = before if silence else 0
        yield _encoded({**head, "silence": _silence(silence, before)}, tables)


def _encoded(head: Mapping[str, Any], tables: bytes) -> RecordBytes:
    return json.dumps(head, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"), tables


def _placed(block: Block) -> Sequence[Any]:
    lines = block.lines
    if lines is not None and len(lines) and (np.diff(lines) == 1).all():
        return block.file, block.first, block.count, int(lines[0]), None, block.times
    return block.file, block.first, block.count, block.line, None if lines is None else lines.tolist(), block.times


def _block(placed: Sequence[Any]) -> Block:
    file, first, count, line, lines, times = placed
    return Block(file, first, count, line, None if lines is None else np.array(lines, np.int64), times=times)


def _damaged(path: Path, number: int) -> CepError:
    hint = "restore the folder from a backup; or remove the file, to continue from the snapshot without the later input"
    return CepError(f"--state: {path}: record {number} is damaged", hint=hint, code="state")


def _apart(path: Path, snapshot: Path) -> CepError:
    hint = (
        "restore the folder from a backup; or remove the journal, to continue from the snapshot without the later input"
    )
    message = f"--state: {path} does not belong to {snapshot.name} beside it: one of them is damaged, missing or older"
    return CepError(message, hint=hint, code="state")


def _failed(path: Path, error: OSError) -> CepError:
    hint = f"make room there, and start again: {_WHOLE}" if error.errno in FULL else None
    return CepError(f"--state: {path}: {reason_of(error)}", hint=hint, code="state")
