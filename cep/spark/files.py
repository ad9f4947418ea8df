"""The inputs as a stream: new files by name, each read where a worker runs, as in one process; live inputs beside."""

from __future__ import annotations

import json
import os
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from cep.errors import CepError
from cep.schema import Schema
from cep.spark.stopping import NAME as STOP
from connectors.inputs import Input, inputs, is_live

if TYPE_CHECKING:  # loaded by those that read alone: planners come and go
    import pyarrow as pa

    from cep.spark.live import Live
    from cep.spark.program import Program

PARCELS = "stage int, key int, event string, place long, source string, rows binary, time timestamp"
"""As `cep.spark.parcels` makes them."""


@dataclass(frozen=True, slots=True)
class Files:
    """Which files are read: `specs` as `connectors.inputs` has them, seen from `folder`, of the events of `schemas`;
    and which are no files, but `live`, by their places among the specs: of these about `most` messages at once.

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
    live: Mapping[int, Input] = field(default_factory=dict)
    most: int | None = None

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
        most: int | None = None,
    ) -> Files:
        """The files and live inputs of a program."""
        schemas = {name: program.schemas[name] for name in program.inputs}
        carried = pickle.dumps(program.bare())
        ticking, here = bool(program.ticking), os.getcwd()
        if len(specs) > SPECS:
            hint = "a folder or a pattern stands for all its files"
            raise CepError(f"--input: there are {len(specs)}, more than {SPECS}", hint=hint, code="input")
        each = {place: one for place, spec in enumerate(specs) for one in alive(schemas, spec, format)}
        return cls(carried, ticking, schemas, specs, here, format, journal, limit, closing, letters, each, most)


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


JOURNAL = "files.jsonl"
"""The file of a checkpoint that numbers the files."""

END_OF_INPUT, CALL = -1, -2
TWICE = 2
"""The end of the input is told so often in a run: the first time moves the watermark there, the second time is the
micro-batch that works up to it. Spark would make one without data for that, but not where a run was killed before it;
nor does the watermark move where a run was killed between the sink's commit and Spark's. So each run tells it anew."""

FILE_BITS = 22
"""A file's number is the place of its spec, and in so many bits its own place there; so has a partition of a topic."""
SPECS = 32
"""So many specs can be told apart in the order of rows."""


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
    """An offset is how many files of the journal were read, how often the end of the input was told, and where there
    are live inputs, the offset of each by its place."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._target: int | None = None
        self._ended: int | None = None  # how often the end was told before this run
        self._opened: dict[str, Live] | None = None

    @property
    def _lives(self) -> dict[str, Live]:
        """The live inputs, held open by the one that plans: Spark makes readers in other places as well."""
        if self._opened is None:
            self._opened = {}
            for place, one in self.files.live.items():
                from cep.spark.live import live

                folder = Path(self.files.journal).parent / f"input-{place}"
                self._opened[str(place)] = live(one, place << FILE_BITS, folder)
        return self._opened

    def __getstate__(self) -> dict[str, Any]:
        return {"files": self.files}  # workers read; what plans is not theirs

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"files": 0, "end": 0} | self._of_live({name: each.begin() for name, each in self._lives.items()})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.files.limit is None else ReadMaxFiles(self.files.limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = len(self._discover())
        for each in self._lives.values():
            each.target()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        if (Path(self.files.journal).parent / STOP).exists():
            return start
        there = len(self._discover()) if self._target is None else self._target
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else there
        files = max(start["files"], min(there, start["files"] + most))
        live = {name: each.latest(before(start, name, each), self._most(name)) for name, each in self._lives.items()}
        over = files >= there and all(each.reached(live[name]) for name, each in self._lives.items())
        if self._ended is None:
            self._ended = start["end"]
        end = min(start["end"] + 1, self._ended + TWICE) if self.files.closing and over else start["end"]
        return {"files": files, "end": end} | self._of_live(live)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        found: list[InputPartition] = [*Journal(self.files.journal).entries()[start["files"] : end["files"]]]
        for name, each in self._lives.items():
            found += each.pieces(before(start, name, each), before(end, name, each))
        if end["end"] > start["end"]:
            found.append(Some(END_OF_INPUT, None))
        if start == self.initialOffset() and self.files.ticking:
            found.append(Some(CALL, None))
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from cep.spark import reading

        program: Program = pickle.loads(self.files.program)
        if not isinstance(partition, Some):
            from cep.spark.pieces import Piece

            assert isinstance(partition, Piece), "the partitions are those of this source"
            yield from partition.read(program, self.files.letters)
        elif partition.number == CALL:
            yield reading.calls(program)
        elif partition.input is None:
            yield reading.end()
        else:
            yield from reading.parcels(program, partition.number, partition.input, self.files.letters)

    def commit(self, end: dict[str, Any]) -> None:
        for name, each in self._lives.items():
            each.commit(before(end, name, each))

    def stop(self) -> None:
        for each in (self._opened or {}).values():
            each.stop()

    def _most(self, name: str) -> int | None:
        address = self.files.live[int(name)].address
        assert address is not None, "a live input has an address"
        return None if self.files.most is None else int(address.number("limit", self.files.most, 1))

    def _of_live(self, offsets: dict[str, Any]) -> dict[str, Any]:
        return {"live": offsets} if offsets else {}

    def _discover(self) -> list[Some]:
        now: list[tuple[int, Input]] = []
        with chdir(self.files.folder):
            for place, spec in enumerate(self.files.specs):
                if place in self.files.live:
                    continue
                files = found(self.files.schemas, [spec], self.files.format, absent=("no-file", "no-files"))
                now += [(place, one) for one in files]  # perhaps none yet, or any more
        return Journal(self.files.journal).extend(now)


def found(
    schemas: Mapping[str, Schema], specs: Sequence[str], format: str | None, absent: Sequence[str] = ()
) -> list[Input]:
    """The files that are there now, of events of these schemas. CepError: see `connectors.inputs`; with a code of
    `absent` it is none: nothing is there."""
    files: list[Input] = []
    for spec in specs:
        try:
            files += [] if is_live(spec, schemas) else inputs([spec], schemas, format)
        except CepError as error:
            if error.code not in absent:
                raise
    return [replace(one, path=os.path.abspath(one.path)) for one in files]


def alive(schemas: Mapping[str, Schema], spec: str, format: str | None) -> list[Input]:
    """The live input that a spec is, if it is one. CepError: it is wrong, or cannot be read again."""
    if not is_live(spec, schemas):
        return []
    found = inputs([spec], schemas, format)
    for one in found:
        if one.address is not None and one.address.kind == "tcp":
            hint = (
                "send it to a broker (mqtt://, kafka://), or write it to files: `nc host port | split -l 10000 - in/`"
            )
            raise one.address.refused("a connection cannot be read again after a failure, as Spark has to", hint)
    return found


def before(offset: dict[str, Any], name: str, live: Live) -> Any:
    """The offset of a live input."""
    return offset.get("live", {}).get(name, live.begin())


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
