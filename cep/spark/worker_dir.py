"""Folders of a worker that shares no folder with others. Its tasks use them in place of the folders of the checkpoint.

The state files of a task are downloaded before it runs. Files that a task has written are uploaded to the object store.
The driver receives their places and commits them. Recent files stay in the folder, so each is downloaded only once.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp

from cep.core.storage import objects
from cep.spark import worker
from cep.spark.multiplicity_task import drop_ways
from cep.spark.packs import Packed, Packs, pack_name
from cep.spark.shuffle_blocks import ShuffleBlock
from cep.spark.sink.commit_log import CommitLog, OutputFile
from cep.spark.stage_task import drop_engine
from cep.spark.state.bucket_states import BucketStates, begin, state_name
from cep.spark.tasks import QueryWork, TaskInput, TaskOutput, run_task

Files = Mapping[str, Packed]
"""The places of files, by the names of the files."""

_LOCAL = "SPARK_LOCAL_DIRS"
"""The environment variable that contains the paths of Spark's local folders on an executor. Spark removes these folders
when the executor ends."""

_STATE = re.compile(r"w?(\d+-\d{4})-(\d{8})")

_homes: dict[bytes, Home] = {}
"""The folders that this worker uses now, by the hash of the query's work."""


@dataclass(frozen=True, slots=True)
class TaskFound:
    """The result of a task, as it is sent to the driver.

    - `stage`: the stage of the task.
    - `output`: the task's output. Its only blocks are reports.
    - `states`: the files of each bucket's current state, by names such as `1-0003`.
    - `written`: the uploaded output files. `letters`: the uploaded dead-letter files.
    """

    stage: int
    output: TaskOutput
    states: Mapping[str, Files] = field(default_factory=dict)
    written: Files = field(default_factory=dict)
    letters: Files = field(default_factory=dict)


class Home:
    """The folders that this worker uses for a query. `mark`: the name of the checkpoint."""

    def __init__(self, work: QueryWork, packs: Packs, mark: str) -> None:
        local = os.environ.get(_LOCAL, "").split(",")[0]
        if os.path.isdir(local):
            _remove_left(Path(local))
        self.root = Path(mkdtemp(prefix=f"semcep-{os.getpid()}-", dir=local if os.path.isdir(local) else None))
        self.states, self.output, self.dead = (self.root / name for name in ("states", "output", "dead"))
        begin(self.states, mark)
        self.output.mkdir()
        self.packs, self._sink = packs, work.sink.folder
        self.work = self._moved(work)
        self._entries: dict[str, Packed] = {}
        self._known: dict[str, Packed] = {}

    def _moved(self, work: QueryWork) -> QueryWork:
        def own(states: BucketStates) -> BucketStates:
            return replace(states, folder=str(self.states))

        stages = []
        for stage in work.stages:
            begin = stage.dead_letters and os.path.join(self.dead, os.path.basename(stage.dead_letters))
            stages.append(replace(stage, states=own(stage.states), dead_letters=begin))
        ways = work.ways and replace(work.ways, states=own(work.ways.states))
        return QueryWork(stages, ways, replace(work.sink, folder=str(self.output)), None)

    def run(
        self,
        asked: TaskInput,
        entries: Files,
        versions: Mapping[str, int],
        letters: Iterable[ShuffleBlock],
        number: int,
        run: str,
    ) -> tuple[TaskFound, list[ShuffleBlock]]:
        """Run a task. Return the result for the driver, and the blocks for other tasks.

        - `entries`: the places of the state files that the task needs.
        - `versions`: the versions of the states of all buckets, by names such as `1-0003`.
        - `letters`: blocks that contain parts of dead-letter files.
        - `number`: the number of the manifest that will commit the result. `run`: the name of the run that writes it.

        Raises CepError as `run_task` does, or if a file cannot be read or uploaded.
        """
        self._entries = dict(entries)
        self._sweep(versions)
        self._forget(asked)
        objects.at_once(self._bring, [*self._entries])
        for folder in (self.dead, CommitLog(self.output).coming("").parent):  # files of a failed task
            shutil.rmtree(folder, ignore_errors=True)
        self.dead.mkdir()
        for piece in sorted(letters, key=lambda piece: (piece.event, piece.place)):
            with (self.dead / piece.event).open("ab") as file:
                file.write(piece.rows)
        output = run_task(self.work, asked)
        return self._put(asked, output, number, run), list(output.handed)

    def _put(self, asked: TaskInput, output: TaskOutput, number: int, run: str) -> TaskFound:
        lies = {
            state_name(stage, bucket): BucketStates(str(self.states), stage).files(bucket, version)
            for bucket, version in output.versions.items()
            for stage in self.work.states_of(asked.stage)
        }
        fresh = [name for names in lies.values() for name in names if name not in self._entries]
        letters = sorted(path.name for path in self.dead.iterdir())
        contents = {name: (self.states / name).read_bytes() for name in fresh}
        contents |= {f"{self.dead.name}/{name}": (self.dead / name).read_bytes() for name in letters}
        packed = self.packs.put(pack_name(number, run), contents)
        self._entries |= (new := {name: packed[name] for name in fresh})
        self._known |= new
        written = dict[str, Packed]()
        files = list[OutputFile]()
        for file in output.files:
            name = str(Path(file.path).relative_to(self.output))
            pending = CommitLog(self.output).coming(name)
            written |= self.packs.put(pack_name(number, run), {name: pending.read_bytes()})
            pending.unlink()
            files.append(replace(file, path=os.path.join(self._sink, name)))
        told = replace(output, handed=(), files=files)
        states = {bucket: {name: self._entries[name] for name in names} for bucket, names in lies.items()}
        return TaskFound(
            asked.stage, told, states, written, {name: packed[f"{self.dead.name}/{name}"] for name in letters}
        )

    def _sweep(self, versions: Mapping[str, int]) -> None:
        """Remove local states if another worker has written newer versions of them."""
        newest = dict[str, int]()
        file_names = {path.name for path in self.states.iterdir()}
        self._known = {name: packed for name, packed in self._known.items() if name in file_names}
        matched = [(match, self.states / name) for name in sorted(file_names) if (match := _STATE.match(name))]
        for match, _ in matched:
            newest[match[1]] = max(newest.get(match[1], 0), int(match[2]))
        for match, path in matched:
            if newest[match[1]] < versions.get(self._stepped(match[1]), 0):
                path.unlink()
                self._known.pop(path.name, None)

    def _forget(self, asked: TaskInput) -> None:
        """Drop those engines of this worker whose state is not the committed one.

        Such engines exist if a task ran twice, and the results of the other worker were committed.
        """
        run = self.work.stages[0].run
        for bucket, bucket_input in asked.buckets.items():
            for number in self.work.states_of(asked.stage):
                name = f"{state_name(number, bucket)}-{bucket_input.version:08}"
                mine, counts = self._known.get(name), self._entries.get(name)
                if counts is None or mine is None or mine.digest != counts.digest:
                    drop_engine(run, number, bucket)
                    drop_ways(run, number, bucket)

    def _stepped(self, name: str) -> str:
        """Return the bucket, such as `1-0003`, whose task writes the state `name`."""
        stage, _, bucket = name.partition("-")
        count = len(self.work.stages)
        return f"{int(stage) - count}-{bucket}" if int(stage) > count + 1 else name

    def _bring(self, name: str) -> None:
        packed, path = self._entries[name], self.states / name
        if self._known.get(name) == packed and path.exists():
            return
        path.write_bytes(self.packs.read(packed))
        self._known[name] = packed

    def close(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


def _remove_left(local: Path) -> None:
    """Remove the folders that workers of this executor have left behind. A worker that still runs keeps its folder."""
    for path in local.glob("semcep-*-*"):
        pid = path.name.split("-")[1]
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            shutil.rmtree(path, ignore_errors=True)
        except (ValueError, PermissionError):  # the folder belongs to others
            continue


def home_of(work: worker.Packed[QueryWork], packs: Packs, mark: str) -> Home:
    """Return the folders that this worker uses for a query. Remove the folders of an earlier query."""
    if work.name not in _homes:
        for other in _homes.values():
            other.close()
        _homes.clear()
        _homes[work.name] = Home(work.open(), packs, mark)
    return _homes[work.name]
