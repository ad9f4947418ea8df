"""A query on Spark whose workers share no folder, run in this process.

Tasks go to any worker. Some run twice, and some fail. Workers are lost, and so are objects that no manifest lists.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import polars as pl

from cep.core import checksum
from cep.core.errors import CepError
from cep.core.schema import ARRIVAL, TIE
from cep.spark import multiplicity_task, stage_task, tasks, worker_dir
from cep.spark.multiplicity_task import WaysWork
from cep.spark.packs import Packed, Packs
from cep.spark.program import ShippedProgram
from cep.spark.shuffle_blocks import ShuffleBlock
from cep.spark.shuffled_batch import Place, Sent, ShuffledBatch, StageJob, dealt
from cep.spark.sink.commit_log import OutputFile
from cep.spark.sink.file_sink import FileSinkOptions
from cep.spark.stage_task import StageWork
from cep.spark.state.batch_notes import BatchNote
from cep.spark.state.bucket_states import BucketStates
from cep.spark.tasks import QueryWork
from cep.spark.worker import Packed as PackedValue
from cep.spark.worker_dir import Files, TaskFound
from tests.spark_operators import Query

WORKERS = 3

_OF_WORKERS: tuple[dict[Any, Any], ...] = (
    stage_task._engines,
    multiplicity_task._known,
    worker_dir._homes,
)
"""What each worker process has for itself."""

Tables = list[tuple[str, pl.DataFrame]]


@dataclass(frozen=True)
class HeldPacks(Packs):
    """Packs in memory."""

    held: dict[str, bytes] = field(default_factory=dict)

    def read(self, one: Packed) -> bytes:
        data = self.held[one.pack][one.offset : one.offset + one.length]
        assert checksum.digest(data).hex() == one.digest
        return data

    def put(self, name: str, contents: Mapping[str, bytes]) -> dict[str, Packed]:
        found, size = dict[str, Packed](), 0
        for file, content in contents.items():
            found[file] = Packed(name, size, len(content), checksum.digest(content).hex())
            size += len(content)
        assert name not in self.held
        self.held[name] = b"".join(contents.values())
        return found


class Kept:
    """Where tasks write in place of files: `tables`."""

    tables: ClassVar[Tables] = []

    def __init__(self, options: FileSinkOptions) -> None:
        pass

    def write(self, rows: Iterable[tuple[str, pl.DataFrame]], task: int, batch: int) -> list[OutputFile]:
        Kept.tables = list(rows)
        return []


class ApartQuery(Query):
    def __init__(self, program: ShippedProgram, folder: Path, rng: random.Random, dead: str | None = None) -> None:
        self.program, self.rng, self.begun = program, rng, False
        run, none = str(folder), BucketStates("/nowhere", 0)
        stages = []
        for stage in program.stages:
            states = BucketStates("/nowhere", stage.number)
            stages.append(StageWork(program, stage.number, run, tuple(program.outputs), dead, states, None))
        counts = program.window is not None and program.merged
        ways = WaysWork(program, run, BucketStates(none.folder, len(stages) + 1)) if counts else None
        sink = FileSinkOptions("/nowhere", "jsonl", program.outputs, frozenset())
        self.sent: Any = SimpleNamespace(value=PackedValue.of(QueryWork(stages, ways, sink, None)))
        self.packs, self.note, self.batch = HeldPacks(""), BatchNote(), 0
        self.states: dict[str, Files] = {}
        self.workers = [[dict[Any, Any]() for _ in _OF_WORKERS] for _ in range(WORKERS)]

    @contextmanager
    def worker(self) -> Iterator[None]:
        """The block runs in some worker."""
        mine = self.rng.choice(self.workers)
        if self.rng.random() < self.lost:
            for each in mine[2].values():
                each.close()
            mine[:] = [{} for _ in _OF_WORKERS]
        for there, own in zip(_OF_WORKERS, mine, strict=True):
            there.clear()
            there.update(own)
        written, tasks.FileWriter = tasks.FileWriter, Kept  # type: ignore[misc, assignment]
        try:
            yield
        finally:
            tasks.FileWriter = written  # type: ignore[misc]
            mine[:] = [dict(there) for there in _OF_WORKERS]

    def passed(self, passing: Sequence[ShuffleBlock], watermark: int) -> dict[str, pl.DataFrame]:
        done, out = self.batch_of(passing, watermark), dict[str, list[pl.DataFrame]]()
        if self.rng.random() < 0.2:  # the driver is killed, or the micro-batch begins again
            done = self.batch_of(passing, watermark)
        made, tables = done
        self.note = self.note.after(made.versions, made.calls, made.reports)
        self.states |= made.states
        self.batch += 1
        used = {one.pack for files in self.states.values() for one in files.values()}
        for pack in self.packs.held.keys() - used:
            del self.packs.held[pack]
        for event, table in tables:
            out.setdefault(event, []).append(table.drop(ARRIVAL, TIE, strict=False))
        return {event: pl.concat(each, how="diagonal_relaxed") for event, each in out.items()}

    def batch_of(self, passing: Sequence[ShuffleBlock], watermark: int) -> tuple[ShuffledBatch, Tables]:
        """What a micro-batch makes, and what it writes."""
        place = Place(self.packs, self.batch, "run", "mark", dict(self.states))
        made = ShuffledBatch(self.sent.value.open(), self.batch, watermark, self.note, place)
        width, tables = self.rng.choice((1, 2, 3, 5)), Tables()
        blocks = self.rng.sample(passing, len(passing))
        came = {slot: [one for one in dealt(blocks, width) if one[0] == slot] for slot in range(width)}
        for job in made.jobs(width):
            following: dict[int, list[Sent]] = {slot: [] for slot in range(width)}
            for slot in range(width):
                given, written = self.task(job, slot, came[slot])
                tables += written
                for to, what in given:
                    following[to].append((to, what))
            came = {slot: self.rng.sample(each, len(each)) for slot, each in following.items()}
        for found in (what for each in came.values() for _, what in each):
            assert isinstance(found, TaskFound)
            made.took(found)
        return made, tables

    def task(self, job: StageJob, slot: int, came: Sequence[Sent]) -> tuple[list[Sent], Tables]:
        """What a task gives, and what it writes: it may be done twice, and either counts."""
        tries = []
        while len(tries) < 1 + (self.rng.random() < 0.2):
            with self.worker():
                Kept.tables = []
                if self.rng.random() < 0.1:
                    self.fails(job, slot, came)
                else:
                    tries.append((list(job.step(self.sent, slot, came)), Kept.tables))
        return self.rng.choice(tries)

    def fails(self, job: StageJob, slot: int, came: Sequence[Sent]) -> None:
        """It is done, but for what it puts."""

        def refuses(self: object, name: str, contents: object) -> None:
            raise CepError("the store does not answer")

        put, HeldPacks.put = HeldPacks.put, refuses  # type: ignore[method-assign, assignment]
        try:
            list(job.step(self.sent, slot, came))
        except CepError as error:
            assert error.message == "the store does not answer"
        finally:
            HeldPacks.put = put  # type: ignore[method-assign]
