"""Assignment of work to Spark tasks. A worker prefers work for which it still has the engines in memory.

Spark runs a task in any free worker, so a task's work is not fixed in advance. For each task input, the driver writes a
file into a shared folder. The file contains the position of the input in the job. A task claims an input by renaming
its file. It prefers an input whose engines its worker has kept. A repeated task finds the file of its earlier claim.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from cep.spark.disk import writing_to
from cep.spark.handed_blocks import lost_file
from cep.spark.tasks import TaskInput

Keeps = Callable[[int, int], int | None]
"""A function that takes the number of a stage and of a bucket. It returns the version of the engine that the calling
worker has in memory for this bucket, or None if it has none."""

Wants = tuple[int, tuple[tuple[int, int], ...]]
"""The description of a task input: its stage, and the version of the state of each of its buckets."""


class Claims:
    """The task inputs of a job, as files in `folder`. `wants`: a description of each input."""

    def __init__(self, folder: str, job: str, wants: Sequence[Wants]) -> None:
        self.folder, self.job, self.wants = folder, job, wants

    @classmethod
    def put(cls, folder: str, inputs: Sequence[TaskInput]) -> Claims:
        """Write one file for each task input of a job. Raises CepError if a file cannot be written."""
        job = uuid4().hex
        with writing_to("--checkpoint", Path(folder)):
            for place in range(len(inputs)):
                Path(folder, f"{job}-{place}").write_text(str(place))
        wants = [(ask.stage, tuple((bucket, part.version) for bucket, part in ask.buckets.items())) for ask in inputs]
        return cls(folder, job, wants)

    def claim(self, task: int, keeps: Keeps) -> int | None:
        """Claim a task input for the task with the number `task`. Return the input's position in the job.

        Returns None if all inputs are claimed. Raises CepError if the file of an earlier claim is damaged.
        """
        mine = Path(self.folder, f"{self.job}.{task}")
        with suppress(FileNotFoundError):
            return self._place(mine)
        kept = [sum(keeps(stage, bucket) == version for bucket, version in versions) for stage, versions in self.wants]
        for place in sorted(range(len(kept)), key=lambda place: (-kept[place], (place - task) % len(kept))):
            with suppress(FileNotFoundError):  # another task has claimed it
                Path(self.folder, f"{self.job}-{place}").rename(mine)
                return place
        return None

    def _place(self, claimed: Path) -> int:
        text = claimed.read_bytes()
        if not text.isdigit() or int(text) >= len(self.wants):
            raise lost_file(str(claimed))
        return int(text)
