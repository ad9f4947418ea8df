"""Files as a stream: new ones by name, each read where a worker runs, by the readers of a run in one process."""

from __future__ import annotations

import json
import os
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from cep.errors import CepError
from cep.schema import Schema
from cep.spark.stopping import NAME as STOP
from connectors.inputs import Input, inputs

if TYPE_CHECKING:  # loaded by those that read alone: planners come and go
    import pyarrow as pa

    from cep.spark.program import Program

PARCELS = "stage int, key int, event string, place long, source string, rows binary, time timestamp"
"""As `cep.spark.parcels` makes them."""


@dataclass(frozen=True, slots=True)
class Files:
    """Which files are read: `specs` as `connectors.inputs` has them, seen from `folder`, of the events of `schemas`.

    `program`: pickled, so that who only plans need not load it; `ticking`: whether some of its stages are to be
    called. `journal`: the file that numbers the files. `limit`: how many in a micro-batch. `closing`: when all are
    read the input ends. `letters`: the folder of dead letters.
    """

    program: bytes
    ticking: bool
    schemas: Mapping[str, Schema]
    specs: tuple[str, ...]
    folder: str
    format: str | None
    journal: str
    limit: int | None
    closing: bool
    letters: str | None

    @classmethod
    def of(
        cls,
        program: Program,
        specs: tuple[str, ...],
        format: str | None,
        journal: str,
        limit: int | None,
        closing: bool,
        letters: str | None,
    ) -> Files:
        """The files of a program."""
        schemas = {name: program.schemas[name] for name in program.inputs}
        carried = pickle.dumps(program.bare())
        ticking, here = bool(program.ticking), os.getcwd()
        return cls(carried, ticking, schemas, specs, here, format, journal, limit, closing, letters)


class FileSource(DataSource):
    """Parcels of the records of files, with the `time` that the watermark goes by."""

    files: Files

    @classmethod
    def name(cls) -> str:
        return "semcep_files"

    def schema(self) -> str:
        return PARCELS

    def streamReader(self, schema: Any) -> FileReader:  # noqa: N802
        return FileReader(self.files)


def source(files: Files) -> type[DataSource]:
    """The data source of these files."""
    return type("FileSource", (FileSource,), {"files": files})


END_OF_INPUT, CALL = -1, -2
CLOSED = 2
"""The end of the input is told twice: the first time moves the watermark there, the second time is the micro-batch that
works up to it. (Spark would make one without data for that, but not where a run was killed before it.)"""

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
    """An offset is how many files of the journal were read, and how often the end of the input was told."""

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
        end = min(start["end"] + 1, CLOSED) if self.files.closing and files >= there else start["end"]
        return {"files": files, "end": end}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        found = Journal(self.files.journal).entries()[start["files"] : end["files"]]
        if end["end"] > start["end"]:
            found.append(Some(END_OF_INPUT, None))
        if start == self.initialOffset() and self.files.ticking:
            found.append(Some(CALL, None))
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from cep.spark import reading

        assert isinstance(partition, Some), "the partitions are those of this source"
        program: Program = pickle.loads(self.files.program)
        if partition.number == CALL:
            yield reading.calls(program)
        elif partition.input is None:
            yield reading.end()
        else:
            yield from reading.parcels(program, partition.number, partition.input, self.files.letters)

    def _discover(self) -> list[Some]:
        now: list[tuple[int, Input]] = []
        with chdir(self.files.folder):
            for place, spec in enumerate(self.files.specs):
                with suppress(CepError):  # none is there yet, or any more: the start of the run has looked at them
                    now += [(place, one) for one in found(self.files.schemas, [spec], self.files.format)]
        return Journal(self.files.journal).extend(now)


def found(schemas: Mapping[str, Schema], specs: Sequence[str], format: str | None) -> list[Input]:
    """The files that are there now, of events of these schemas. CepError: see `connectors.inputs`."""
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
