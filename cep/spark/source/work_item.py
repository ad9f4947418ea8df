"""Work items: parts of the input of a micro-batch. One process plans them, and workers read them."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from cep.connectors.ahead_limits import AheadLimits
from cep.core.storage.urls import is_url
from cep.spark.handover import FEW
from cep.spark.source.file_list import ListedFile

if TYPE_CHECKING:  # loaded only where files are read, because processes that plan start often
    from cep.spark.program import ShippedProgram
    from cep.spark.shuffle_blocks import ShuffleBlock

TASK_BYTES = 1 << 25
"""The maximum number of bytes that one task reads from several files, so that tasks take similar times."""
OPENING = 1 << 16
"""The cost of opening, distributing and reporting a file. The unit is the cost of reading one byte."""


class WorkItem(InputPartition, ABC):
    """A part of the input of a micro-batch.

    - `clock`: the wall-clock time at which the item was planned, or None if the times of records are not compared with
      the clock.
    - `few`: the number of bytes that the item's task may send through the driver.
    """

    clock: int | None = None
    few = FEW

    @abstractmethod
    def read(self, program: ShippedProgram, dead_letters: str | None, ahead: AheadLimits) -> Iterator[ShuffleBlock]:
        """Read the item in a worker, and yield its records as shuffle blocks.

        `dead_letters`: the path prefix of dead-letter files. `ahead`: how far records may be ahead of the clock.
        """


class FilePack(WorkItem):
    """Files that one task reads, one after the other."""

    def __init__(self, files: Sequence[ListedFile]) -> None:
        super().__init__(None)
        self.files = files

    def read(self, program: ShippedProgram, dead_letters: str | None, ahead: AheadLimits) -> Iterator[ShuffleBlock]:
        from cep.spark.source.reading import file_blocks

        for file in self.files:
            yield from file_blocks(
                program, file.number, file.input, dead_letters, file.readable, (ahead.files, self.clock)
            )


def packed(files: Sequence[ListedFile], tasks: int) -> list[FilePack]:
    """Divide files among tasks, without changing their order. All tasks read about the same number of bytes.

    `tasks`: the number of tasks that run at once. If there are enough files, each of these tasks gets at least one. A
    task reads at most `TASK_BYTES`, unless a single file is larger.
    """
    costs = [_cost(file.path) for file in files]
    most = min(TASK_BYTES, max(-(-sum(costs) // tasks), 1))
    packs, room = list[list[ListedFile]](), 0
    for file, cost in zip(files, costs):
        if cost > room:
            packs.append([])
            room = most
        packs[-1].append(file)
        room -= cost
    return [FilePack(pack) for pack in packs]


def _cost(path: str) -> int:
    """Return the cost of reading a file, in bytes. It is the sum of the file's size and the cost of opening it. A file
    at a URL counts as `TASK_BYTES`."""
    if is_url(path):
        return TASK_BYTES
    with suppress(OSError):
        return os.stat(path).st_size + OPENING
    return OPENING
