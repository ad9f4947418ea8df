"""Files as a stream: new ones by name, each read where a worker runs, by the readers of a run in one process."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from cep.errors import CepError
from cep.schema import Schema
from cep.spark.keys import keys
from cep.spark.letters import LINE_BITS, Letter, write
from cep.spark.parcels import END, PARCEL, Parcel, batch, calls, from_outside
from cep.spark.program import Program
from cep.spark.stopping import NAME as STOP
from connectors.batch import Batch, Block
from connectors.files import read
from connectors.inputs import Input, inputs

ROWS = 1 << 19
"""Rows of Parquet that are taken at a time."""


@dataclass(frozen=True, slots=True)
class Files:
    """Which files are read: `specs` as `connectors.inputs` has them. `journal`: the file that numbers them. `limit`:
    how many in a micro-batch. `closing`: when all are read the input ends. `letters`: the folder of dead letters."""

    program: Program
    specs: tuple[str, ...]
    format: str | None
    journal: str
    limit: int | None
    closing: bool
    letters: str | None


class FileSource(DataSource):
    """Parcels of the records of files, with the `time` that the watermark goes by."""

    files: Files

    @classmethod
    def name(cls) -> str:
        return "semcep_files"

    def schema(self) -> str:
        return f"{PARCEL}, time timestamp"

    def streamReader(self, schema: Any) -> FileReader:  # noqa: N802
        return FileReader(self.files)


def source(files: Files) -> type[DataSource]:
    """The data source of these files."""
    return type("FileSource", (FileSource,), {"files": files})


END_OF_INPUT, CALL = -1, -2
FILE_BITS = 22
"""A file's number is the place of its spec, and in so many bits its own place there."""


class Some(InputPartition):
    """A file to read, with its number; or what is told in its stead."""

    def __init__(self, number: int, input: Input | None) -> None:
        super().__init__((number, input))
        self.number, self.input = number, input

    @property
    def path(self) -> str:
        return "" if self.input is None else self.input.path

    def line(self) -> str:
        """As the journal has it."""
        one = self.input
        assert one is not None, "a journal holds files"
        fields = {"path": one.path, "format": one.format, "type": one.type, "bound": one.bound}
        return json.dumps({"number": self.number} | fields, ensure_ascii=False) + "\n"


class FileReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An offset is how many files of the journal were read, and whether the input ended with them."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._target: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"files": 0, "end": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.files.limit is None else ReadMaxFiles(self.files.limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = len(self._discover())

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        if (Path(self.files.journal).parent / STOP).exists():
            return start
        there = len(self._discover()) if self._target is None else self._target
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else there
        files = max(start["files"], min(there, start["files"] + most))
        end = 1 if self.files.closing and files >= there else start["end"]
        return {"files": files, "end": end}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        found = Journal(self.files.journal).entries()[start["files"] : end["files"]]
        if end["end"] > start["end"]:
            found.append(Some(END_OF_INPUT, None))
        if start == self.initialOffset() and self.files.program.ticking:
            found.append(Some(CALL, None))
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Some), "the partitions are those of this source"
        if partition.number == CALL:
            yield batch(calls(self.files.program))
        elif partition.input is None:
            yield batch([Parcel(-1, keys(1)[0], "", 0, None, b"", END)])
        else:
            yield from parcels(self.files, partition.number, partition.input)

    def _discover(self) -> list[Some]:
        now: list[tuple[int, Input]] = []
        for place, spec in enumerate(self.files.specs):
            with suppress(CepError):  # none is there yet, or any more: the start of the run has looked at the words
                now += [(place, one) for one in found(self.files.program, [spec], self.files.format)]
        return Journal(self.files.journal).extend(now)


def found(program: Program, specs: Sequence[str], format: str | None) -> list[Input]:
    """The files that are there now. CepError: see `connectors.inputs`."""
    schemas = {name: program.schemas[name] for name in program.inputs}
    return [replace(one, path=os.path.abspath(one.path)) for one in inputs(specs, schemas, format)]


class Journal:
    """The files in the order in which they are read, a line of JSON each. New ones are added by their names alone, so
    that folders of several events are read side by side; numbers go spec by spec, in each by time of coming."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def entries(self) -> list[Some]:
        if not self._path.exists():
            return []
        lines = [json.loads(line) for line in self._path.read_text(encoding="utf-8").splitlines()]
        return [Some(line.pop("number"), Input(**line)) for line in lines]

    def extend(self, now: Sequence[tuple[int, Input]]) -> list[Some]:
        """With those of `now`, each with the place of its spec, that are not yet in it; gives all."""
        entries = self.entries()
        known = {one.path for one in entries}
        following = Counter(one.number >> FILE_BITS for one in entries)
        new = []
        for place, one in now:
            if one.path not in known:
                known.add(one.path)
                new.append(Some((place << FILE_BITS) + following[place], one))
                following[place] += 1
        if new:
            entries += sorted(new, key=lambda one: (os.path.basename(one.path), one.number))
            made = self._path.with_suffix(".new")
            made.write_text("".join(one.line() for one in entries), encoding="utf-8")
            made.replace(self._path)
        return entries


def parcels(files: Files, number: int, input: Input) -> Iterator[pa.RecordBatch]:
    """The records of a file for the stages; what is no event is written to the dead letters."""
    schemas: Mapping[str, Schema] = {name: files.program.schemas[name] for name in files.program.inputs}
    spec = f"{input.type}={input.path}" if input.bound else input.path
    dead: list[Letter] = []
    for piece in read([spec], schemas, format=input.format, rows=ROWS):
        dead += [Letter(one.reason, one.code, one.file, one.line, one.text) for one in piece.dead]
        yield batch(from_outside(files.program, numbered(piece, number), number, input.path))
    write(files.letters, f"read-{number:08}", dead)


def numbered(piece: Batch, number: int) -> dict[str, pl.DataFrame]:
    """The tables of a batch, `order` by the number of the file and the line."""
    tables = {}
    for event, table in piece.tables.items():
        assert len(piece.blocks) == 1, "what is read as it comes is a block at a time"
        block: Block = piece.blocks[0]
        place = table["order"].to_numpy() - block.first
        lines = place + block.line if block.lines is None else block.lines[place]
        order = np.asarray(lines, np.int64) + (number << LINE_BITS)
        tables[event] = table.with_columns(pl.Series("order", order))
    return tables
