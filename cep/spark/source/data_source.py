"""The source of a query: new files and live inputs. One process plans what to read, and workers read it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import chdir
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from cep.connectors.ahead_limits import LIVE, AheadLimits
from cep.connectors.inputs import Input, inputs, is_live
from cep.core.errors import CepError
from cep.core.schema import Schema
from cep.core.storage.urls import is_url
from cep.spark.disk import FILES, HANDED, INPUTS, STOP
from cep.spark.handover import COLUMNS, as_row, share
from cep.spark.source.control_messages import IdleWatermark, TimeReached, WaitingEvents, WakeUp
from cep.spark.source.file_list import FILE_BITS, SPECS, FileList
from cep.spark.source.knowledge_changes import ChangesMessage, FileChangeLog
from cep.spark.source.work_item import WorkItem, packed
from cep.spark.spark_files import ends_sent, last_ended, moved, next_watermark
from cep.spark.state.batch_notes import BatchNotes
from cep.spark.state.migration import FIRST, Generation
from cep.spark.worker import Packed

if TYPE_CHECKING:  # loaded only where files are read, because processes that plan start often
    import pyarrow as pa

    from cep.spark.job import Job
    from cep.spark.program import ShippedProgram
    from cep.spark.shuffle_blocks import ShuffleBlock
    from cep.spark.source.live import LiveInput


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOptions:
    """The options of a query's input. Durations are in microseconds.

    - `input_format`: the format of files.
    - `limit`: the maximum number of files in a micro-batch.
    - `closing`: True if the input ends when all files are read.
    - `most`: the approximate number of messages that a micro-batch reads from each live input.
    - `idle`: the time without input after which the watermark advances by the clock. If it is None, the watermark never
      advances by the clock.
    - `ahead`: how far the time of a record may be ahead of the clock.
    - `lateness`: how far out of order records may arrive. If it is None, no record is late before the end of the input.
    - `updates`: the sources of changes of the knowledge.
    - `generation`: the generation of the checkpoint.
    """

    input_format: str | None = None
    limit: int | None = None
    closing: bool = True
    most: int | None = None
    idle: int | None = None
    ahead: AheadLimits = LIVE
    lateness: int | None = None
    updates: tuple[str, ...] = ()
    generation: Generation = FIRST


@dataclass(frozen=True, slots=True)
class SparkSourceOptions(InputOptions):
    """The inputs of a query, and the options for planning and reading them.

    - `program`: the pickled program. A process that only plans need not load it.
    - `ticking`: True if some stages must run before the first row.
    - `schemas`: the schemas of the input events.
    - `specs`: the inputs as the user names them (`cep.connectors.inputs`), relative to `folder`.
    - `journal`: the path of the list of files.
    - `dead_letters`: the path prefix of dead-letter files.
    - `live`: the live inputs, by their positions among the specs.
    - `apart`: True if workers share no folder.
    - `by_key`: True if each key has its own clock, so that these clocks also move the watermark.
    - `tasks`: the number of tasks that run at once.
    - `waits`: states that contain waiting rows of events that only the new program reads, and the names of these
      events.
    """

    program: Packed[ShippedProgram]
    ticking: bool
    schemas: Mapping[str, Schema]
    specs: tuple[str, ...]
    folder: str
    journal: str
    dead_letters: str | None
    live: Mapping[int, Input]
    apart: bool
    by_key: bool
    tasks: int
    waits: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def of(
        cls, job: Job, closing: bool, tasks: int = 1, waits: tuple[tuple[str, tuple[str, ...]], ...] = ()
    ) -> SparkSourceOptions:
        """Return the options for the files and live inputs of a query.

        `waits`: see the class.
        """
        program, schemas = job.program, job.program.inputs
        if len(job.inputs) > SPECS:
            hint = "use a folder or a pattern, which stands for all its files"
            raise CepError(
                f"--input: {len(job.inputs)} inputs are more than the limit of {SPECS}", hint=hint, code="input"
            )
        live = {
            place: source_input
            for place, spec in enumerate(job.inputs)
            for source_input in alive(schemas, spec, job.input_format)
        }
        own = Packed.of(program.bare()), bool(program.ticking), schemas, job.inputs, os.getcwd()
        files = os.path.join(job.checkpoint, FILES), job.dead
        shared = {option.name: getattr(job, option.name) for option in fields(InputOptions)}
        shared |= {"closing": closing, "updates": tuple(map(os.path.abspath, job.updates))}
        return cls(*own, *files, live, job.apart, program.lateness_by is not None, tasks, waits, **shared)


class FileSource(DataSource):
    """A data source of Spark that reads files and live inputs.

    Each of its rows contains blocks of one work item, and the `time` that the watermark follows.
    """

    files: SparkSourceOptions

    @classmethod
    def name(cls) -> str:
        return "semcep_files"

    def schema(self) -> str:
        return COLUMNS

    def streamReader(self, schema: Any) -> FileReader:  # noqa: N802
        return FileReader(self.files)


def source(files: SparkSourceOptions) -> type[DataSource]:
    """Return a data source class for Spark that has these options."""
    return type("FileSource", (FileSource,), {"files": files})


TWICE = 2
"""The number of messages that a run sends at the end of the input.

The first message moves the watermark to the end. The second message causes the micro-batch that processes everything up
to this watermark. Each run sends both again, because the previous run may have been killed at any point.
"""


class FileReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader that plans what a micro-batch reads, and reads it in workers. An offset of this source contains:

    - `files`: the number of files in the list that were read.
    - `end`: how often the end of the input was sent.
    - `live`: the offset of each live input, by its position among the inputs.
    - `time`: the event time that was sent while there was no input. A repeated micro-batch sends the same time.
    - `changes`: the number of entries in the log of knowledge changes that were sent.
    - `moved`: the number of the last micro-batch, if it has moved the watermark and no input has arrived since. This
      entry causes another micro-batch, which processes the rows that waited for the watermark.
    - `clock`: the time of planning (microseconds), if records are compared with the clock. A repeated micro-batch uses
      the same time.
    - `generation`: after a migration, the number of the new generation.
    """

    def __init__(self, files: SparkSourceOptions) -> None:
        self.files = files
        self._folder = Path(files.journal).parent
        self._journal = FileList(files.journal)
        self._changes = FileChangeLog(self._folder, files.updates)
        self._target: int | None = None
        self._ended: int | None = None  # how often the end was sent before this run
        self._over = False  # True if the end was sent: later rows would be late
        self._opened: dict[str, LiveInput] | None = None
        self._idle_watermark: IdleWatermark | None = None

    @property
    def _live_inputs(self) -> dict[str, LiveInput]:
        """The live inputs, which are opened when they are first used. Spark also creates readers in other processes,
        but only the planning process uses this property."""
        if self._opened is None:
            self._opened = {}
            for place, source_input in self.files.live.items():
                from cep.spark.source.live import live_input

                folder = Path(self.files.journal).parent / f"{INPUTS}{place}"
                self._opened[str(place)] = live_input(source_input, place << FILE_BITS, folder)
        return self._opened

    def __getstate__(self) -> dict[str, Any]:
        return {"files": self.files, "_folder": self._folder}  # workers only need these, to read

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        if self.files.generation.start is not None:
            return self.files.generation.start.offset
        return {"files": 0, "end": 0} | self._of_live({name: live.begin() for name, live in self._live_inputs.items()})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.files.limit is None else ReadMaxFiles(self.files.limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._over = self.files.closing and ends_sent(self.files.generation.spark(self._folder)) > 0
        if self._over:
            self._target = len(self._journal)
            return
        self._target, _ = self.discover(), self._changes.look(last=self.files.closing)
        for live_input in self._live_inputs.values():
            live_input.target()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        if (self._folder / STOP).exists():
            return start | self._moved()
        if self._begins(start):
            # Spark counts anew, so `moved` would stand for another micro-batch.
            carried = {name: value for name, value in start.items() if name != "moved"}
            return carried | {"generation": self.files.generation.number}
        file_count = self.discover() if self._target is None else self._target
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else file_count
        files = max(start["files"], min(file_count, start["files"] + most))
        live = {name: live_offset(start, name, source) for name, source in self._live_inputs.items()}
        if not self._over:
            live = {name: source.latest(live[name], self._most(name)) for name, source in self._live_inputs.items()}
        over = self._over or all(source.reached(live[name]) for name, source in self._live_inputs.items())
        over = over and files >= file_count
        if self._ended is None:
            self._ended = start["end"]
        end = min(start["end"] + 1, self._ended + TWICE) if self.files.closing and over else start["end"]
        following = start | {"files": files, "end": end} | self._of_live(live)
        following |= self._clock(start, following)
        following |= self._idle_time(following != start)
        changes = self._changes.look() if self._target is None else len(self._changes)
        following |= {"changes": changes} if changes else {}
        return following | (self._moved() if following == start else {})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[WorkItem]:
        if self._begins(start):
            return self._carried()
        files = [entry.seen() for entry in self._journal.entries(start["files"], end["files"])]
        work: list[WorkItem] = [*packed(files, self.files.tasks)]
        for name, source in self._live_inputs.items():
            work += source.work_items(live_offset(start, name, source), live_offset(end, name, source))
        if end["end"] > start["end"]:
            work.append(TimeReached(None))
        if (time := end.get("time")) != start.get("time"):
            work.append(TimeReached(time))
        if (first := start.get("changes", 0)) < end.get("changes", 0):
            work.append(ChangesMessage(first, self._changes.lines(first, end["changes"])))
        if start == self.initialOffset() and self.files.ticking:
            work.append(WakeUp())
        for work_item in work:
            work_item.clock, work_item.few = end.get("clock"), share(len(work))
        return work

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, WorkItem), "the partitions are those of this source"
        folder = None if self.files.apart else str(self._folder / HANDED)
        return as_row(lambda begin: self.blocks(partition, begin), self.files.dead_letters, folder, partition.few)

    def blocks(self, item: WorkItem, dead_letters: str | None) -> Iterator[ShuffleBlock]:
        """Yield a work item's rows as blocks for the buckets. `dead_letters`: the path prefix of dead-letter files."""
        return item.read(self.files.program.open(), dead_letters, self.files.ahead)

    def commit(self, end: dict[str, Any]) -> None:
        for name, source in self._live_inputs.items():
            source.commit(live_offset(end, name, source))

    def stop(self) -> None:
        for source in (self._opened or {}).values():
            source.stop()

    def _most(self, name: str) -> int | None:
        address = self.files.live[int(name)].address
        assert address is not None, "a live input has an address"
        return None if self.files.most is None else int(address.number("limit", self.files.most, 1))

    def _of_live(self, offsets: dict[str, Any]) -> dict[str, Any]:
        return {"live": offsets} if offsets else {}

    def _clock(self, start: dict[str, Any], following: dict[str, Any]) -> dict[str, Any]:
        """Return the entry `clock` of the offset `following`, which is the current time. Returns an empty dictionary
        unless new records must be compared with the clock."""
        ahead = self.files.ahead
        live = ahead.live is not None and following.get("live") != start.get("live")
        files = ahead.files is not None and following["files"] != start["files"]
        return {"clock": time.time_ns() // 1000} if live or files else {}

    def _moved(self) -> dict[str, Any]:
        """Return the entry `moved` of an offset, which is the number of the last micro-batch. Returns an empty
        dictionary if that micro-batch has not moved the watermark."""
        own = self.files.generation.spark(self._folder)
        done = moved(own)
        if done is None and self.files.by_key and (ended := last_ended(own)) is not None and self._notes.moved(ended):
            done = ended
        return {} if done is None else {"moved": done}

    @property
    def _notes(self) -> BatchNotes:
        return BatchNotes(self.files.generation.states(self._folder))

    def _watermark(self) -> int | None:
        """Return the watermark of the next micro-batch in microseconds. Returns None if there is no watermark yet."""
        own = self.files.generation.spark(self._folder)
        ended = last_ended(own) if self.files.by_key else None
        reached = 0 if ended is None else self._notes.after(ended).reached * 1000
        return max(next_watermark(own) or 0, reached) or None

    def _begins(self, start: dict[str, Any]) -> bool:
        generation = self.files.generation
        return generation.start is not None and start.get("generation") != generation.number

    def _carried(self) -> list[WorkItem]:
        """Return the work items of the first micro-batch after a migration.

        They make every bucket run, and send the watermark and the rows that wait for it.
        """
        generation = self.files.generation
        assert generation.start is not None, "it takes something over"
        folder = generation.before(self._folder)
        work_items: list[WorkItem] = [WakeUp(every=True)]
        if watermark := generation.start.watermark:
            late = -(-(self.files.lateness or 0) // 1000)
            work_items.append(TimeReached((watermark + late) * 1000))
        waiting = [*generation.start.waiting(folder), *self.files.waits]
        return [*work_items, *(WaitingEvents(state, events) for state, events in waiting)]

    def _idle_time(self, something_came: bool) -> dict[str, Any]:
        """Return the entry `time` of an offset, which is the event time to send while there is no input. Returns an
        empty dictionary if no time is to be sent. `something_came`: True if input has arrived."""
        if self.files.idle is None:
            return {}
        if self._idle_watermark is None:
            self._idle_watermark = IdleWatermark(
                self.files.idle, self.files.lateness or 0, self.files.generation.spark(self._folder), self._watermark
            )
        if something_came:
            self._idle_watermark.reset()
        time = self._idle_watermark.due()
        return {} if time is None else {"time": time}

    def discover(self) -> int:
        """Add new files to the list. Return the number of files in the list. Raises the CepErrors of
        `cep.connectors.inputs`."""
        now: list[tuple[int, Input]] = []
        known, absent = self._journal.known, ("no-file", "no-files")  # a file may not exist yet, or no longer
        with chdir(self.files.folder):
            for place, spec in enumerate(self.files.specs):
                if place in self.files.live:
                    continue
                files = new_files(self.files.schemas, [spec], self.files.input_format, absent, known, unsure=True)
                now += [(place, file) for file in files]
        return self._journal.extend(now)


def new_files(
    schemas: Mapping[str, Schema],
    specs: Sequence[str],
    format: str | None,
    absent: Sequence[str] = (),
    known: Set[str] = frozenset(),
    unsure: bool = False,
) -> list[Input]:
    """Return the existing files of the specs whose paths are not in `known`.

    - `absent`: the codes of errors that are ignored, because they only mean that no file exists yet.
    - `unsure`: the parameter of `cep.connectors.inputs.inputs`, whose CepErrors are raised.
    """
    files: list[Input] = []
    for spec in specs:
        try:
            files += [] if is_live(spec, schemas) else inputs([spec], schemas, format, known, unsure)
        except CepError as error:
            if error.code not in absent:
                raise
    return [file if is_url(file.path) else replace(file, path=os.path.abspath(file.path)) for file in files]


def alive(schemas: Mapping[str, Schema], spec: str, format: str | None) -> list[Input]:
    """Return the live input that a spec names, or an empty list if it names files. Raises CepError if it is invalid."""
    if not is_live(spec, schemas):
        return []
    live_inputs = inputs([spec], schemas, format)
    for live_input in live_inputs:
        if live_input.address is not None and live_input.address.kind == "tcp" and live_input.format == "nquads":
            hint = "use `format=jsonld`, with one observation in each line"
            raise live_input.address.refused(
                "a line of N-Quads is not a whole record, and Spark reads each line by itself", hint
            )
    return live_inputs


def live_offset(offset: dict[str, Any], name: str, live: LiveInput) -> Any:
    """Return the part of an offset that belongs to the live input `name`."""
    return offset.get("live", {}).get(name, live.begin())
