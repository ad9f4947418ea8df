"""Collection of the blocks that a task sends to other tasks. Large amounts are written to a file of the shared folder,
and small amounts stay in memory."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from uuid import uuid4
from zlib import crc32

from cep.spark.disk import writing_to
from cep.spark.handed_blocks import FilePart, HandedBlocks

if TYPE_CHECKING:
    from cep.spark.shuffle_blocks import ShuffleBlock


class Outbox:
    """The blocks that a task sends to other tasks."""

    def __init__(self, folder: str | None, few: int) -> None:
        """Create an empty outbox.

        `folder`: the folder for a file. As soon as the blocks exceed `few` bytes, they are written to this file. If
        `folder` is None, all blocks stay in memory.
        """
        self._folder, self._few = folder, few
        self._here: list[ShuffleBlock] = []
        self.size = 0  # bytes of blocks that are in no file
        self._filed: list[ShuffleBlock] = []  # without their rows, which are at `_parts`
        self._parts: list[FilePart] = []
        self._file: BinaryIO | None = None

    def add(self, block: ShuffleBlock) -> None:
        """Add a block. Raises CepError if the file cannot be written."""
        self._here.append(block)
        self.size += len(block.rows)
        if self._folder is not None and self.size > self._few:
            self._write(self._folder)

    def close(self) -> HandedBlocks:
        if self._file is not None and self._folder is not None:
            self._write(self._folder)
            with writing_to("--checkpoint", Path(self._file.name).parent):
                self._file.close()
        return HandedBlocks.of([*self._filed, *self._here], self._parts)

    def _write(self, folder: str) -> None:
        with writing_to("--checkpoint", Path(folder)):
            if self._file is None:
                self._file = open(os.path.join(folder, uuid4().hex), "wb")  # noqa: SIM115 - closed by `close`
            for block in self._here:
                self._parts.append(FilePart(self._file.name, self._file.tell(), len(block.rows), crc32(block.rows)))
                self._file.write(block.rows)
                self._filed.append(replace(block, rows=b""))
        self._here, self.size = [], 0
