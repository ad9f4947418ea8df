"""Assignment of work to tasks: a worker takes the work for which it has kept the engines.

Spark runs a task in any free worker, so work is not tied to tasks. Each task input is a file in a shared folder. A task
claims a file by renaming it, preferably one whose engines its worker has kept. A repeated task finds its earlier claim.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from cep.core import checksum
from cep.spark.disk import writing_to
from cep.spark.handed_blocks import HandedBlocks, lost_file
from cep.spark.tasks import BucketInput, TaskInput

_LENGTH = struct.Struct("<Q")

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
        """Write the task inputs of a job to files. CepError: they cannot be written."""
        job = uuid4().hex
        with writing_to("--checkpoint", Path(folder)):
            for number, one in enumerate(inputs):
                name = f"{job}-{number}"
                Path(folder, name).write_bytes(checksum.seal(_written(one), of=job.encode()))
        wants = [(one.stage, tuple((bucket, each.version) for bucket, each in one.buckets.items())) for one in inputs]
        return cls(folder, job, wants)

    def claim(self, task: int, keeps: Keeps) -> TaskInput | None:
        """Claim a task input for the task of this number. Return None if all are claimed. CepError: the file is
        damaged."""
        mine = Path(self.folder, f"{self.job}.{task}")
        if mine.exists():
            return self._read(mine)
        kept = [sum(keeps(stage, bucket) == version for bucket, version in each) for stage, each in self.wants]
        for number in sorted(range(len(kept)), key=lambda number: (-kept[number], (number - task) % len(kept))):
            try:
                Path(self.folder, f"{self.job}-{number}").rename(mine)
            except FileNotFoundError:  # another task has claimed it
                continue
            return self._read(mine)
        return None

    def _read(self, path: Path) -> TaskInput:
        try:
            return _task_input(checksum.content(path.read_bytes(), of=self.job.encode()))
        except (ValueError, TypeError, LookupError, RecursionError, struct.error):  # `checksum.Broken` is one of these
            raise lost_file(str(path)) from None


def _written(one: TaskInput) -> bytes:
    """Write a task input: the length of the head, the head in JSON, and the bytes of its blocks."""
    blocks, body = list[Any](), list[bytes]()
    for some in (one.world, *(each.blocks for each in one.buckets.values())):
        held = some if isinstance(some, HandedBlocks) else HandedBlocks.of(some)
        described, content = held.written()
        blocks.append(described)
        body += content
    versions = [(bucket, each.version) for bucket, each in one.buckets.items()]
    head = json.dumps([one.number, one.batch, one.stage, one.watermark, one.writes, versions, blocks]).encode()
    return b"".join([_LENGTH.pack(len(head)), head, *body])


def _task_input(content: memoryview) -> TaskInput:
    """Read a task input that `_written` wrote.

    ValueError, TypeError, LookupError, RecursionError, struct.error: the content is not a task input.
    """
    (length,), start = _LENGTH.unpack_from(content), _LENGTH.size
    number, batch, stage, watermark, writes, versions, blocks = json.loads(bytes(content[start : start + length]))
    body, found = content[start + length :], list[HandedBlocks]()
    for described in blocks:
        some, size = HandedBlocks.read(described, body)
        body = body[size:]
        found.append(some)
    world, *each = found
    buckets = {bucket: BucketInput(version, some) for (bucket, version), some in zip(versions, each, strict=True)}
    return TaskInput(number, batch, stage, watermark, buckets, world, writes)
