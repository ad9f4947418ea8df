"""Assignment of work to tasks: a worker takes the work for which it has kept the engines.

Spark runs a task in any free worker, so work is not tied to tasks. Each task input has a file in a shared folder; the
file contains the input's place in the job. A task claims an input by renaming its file, preferably an input whose
engines its worker has kept. A repeated task finds its earlier claim.
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
"""A function that returns the version of the engine that this worker keeps for a stage and a bucket, or None."""

Wants = tuple[int, tuple[tuple[int, int], ...]]
"""The stage of a task input, and the buckets with the versions of their states."""


class Claims:
    """The task inputs of a job: files in a `folder`, and the engine states that each of them `wants`."""

    def __init__(self, folder: str, job: str, wants: Sequence[Wants]) -> None:
        self.folder, self.job, self.wants = folder, job, wants

    @classmethod
    def put(cls, folder: str, inputs: Sequence[TaskInput]) -> Claims:
        """Write the files of a job. CepError: they cannot be written."""
        job = uuid4().hex
        with writing_to("--checkpoint", Path(folder)):
            for place in range(len(inputs)):
                Path(folder, f"{job}-{place}").write_text(str(place))
        wants = [(ask.stage, tuple((bucket, part.version) for bucket, part in ask.buckets.items())) for ask in inputs]
        return cls(folder, job, wants)

    def claim(self, task: int, keeps: Keeps) -> int | None:
        """Claim a task input for the task of this number, and return the input's place in the job.

        None: all inputs are claimed. CepError: the file of an earlier claim is damaged.
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
