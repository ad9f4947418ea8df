"""Which task of a job does what: a worker takes what it has the engines for.

Spark runs a task in any worker that is free. So what there is to do is not tied to tasks: each is a file in the folder
of what is handed on, and a task claims one by giving it its own name, at best one whose engines its worker has kept. A
task that is done again finds its claim.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

from cep.core import checksum
from cep.spark.disk import writing_to
from cep.spark.handed_blocks import lost_file
from cep.spark.tasks import TaskInput

Keeps = Callable[[int, int], int | None]
"""The version of the engine that this worker has of a bucket of a stage; None: it has none."""

Wants = tuple[int, tuple[tuple[int, int], ...]]
"""What a task input steps: a stage, and of each bucket the version."""


class Claims:
    """What there is to do in a job: files in a `folder`, and what each of them `wants`."""

    def __init__(self, folder: str, job: str, wants: Sequence[Wants]) -> None:
        self.folder, self.job, self.wants = folder, job, wants

    @classmethod
    def put(cls, folder: str, inputs: Sequence[TaskInput]) -> Claims:
        """Write what is to be done. CepError: it cannot be written."""
        job = uuid4().hex
        with writing_to("--checkpoint", Path(folder)):
            for number, one in enumerate(inputs):
                name = f"{job}-{number}"
                Path(folder, name).write_bytes(checksum.seal(pickle.dumps(one), of=job.encode()))
        wants = [(one.stage, tuple((bucket, each.version) for bucket, each in one.buckets.items())) for one in inputs]
        return cls(folder, job, wants)

    def claim(self, task: int, keeps: Keeps) -> TaskInput | None:
        """What the task of this number is to do; None: everything is claimed by others. CepError: it is not what was
        written."""
        mine = Path(self.folder, f"{self.job}.{task}")
        if mine.exists():
            return self._read(mine)
        kept = [sum(keeps(stage, bucket) == version for bucket, version in each) for stage, each in self.wants]
        for number in sorted(range(len(kept)), key=lambda number: (-kept[number], (number - task) % len(kept))):
            try:
                Path(self.folder, f"{self.job}-{number}").rename(mine)
            except FileNotFoundError:  # another has it
                continue
            return self._read(mine)
        return None

    def _read(self, path: Path) -> TaskInput:
        try:
            content = checksum.content(path.read_bytes(), of=self.job.encode())
        except checksum.Broken:
            raise lost_file(str(path)) from None
        found: TaskInput = pickle.loads(content)
        return found
