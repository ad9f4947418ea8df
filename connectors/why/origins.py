"""The origins of input records. For each of the records that were read last, the module stores the file and the line
under the record's number."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

from cep.connectors.records.batch import Batch, Block
from cep.explain.occurrences import Occurrence

MOST = 1 << 22
"""The number of records whose origins a server remembers."""


class Origins:
    """The file and line of each record. Any thread may use this object.

    - `most`: the number of records whose origins are kept. None means all.
    - `begun`: the number of records that an earlier run of the engine has read. Their origins are unknown.
    - `names`: the original names of copied files, by the name of the copy.
    """

    def __init__(self, most: int | None = None, begun: int = 0, names: Mapping[str, str] | None = None) -> None:
        self.most, self.begun, self.names = most, begun, names or {}
        self.times: str | None = None
        self._blocks: deque[Block] = deque()
        self._records = 0
        self._lock = threading.Lock()

    def noted(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield the batches unchanged, and store the origins of their records."""
        for batch in batches:
            with self._lock:
                self.times = self.times or batch.times
                for block in batch.blocks:
                    if block.count and (not self._blocks or self._blocks[-1].beyond <= block.first):
                        self._add(block.without_text())
                while self.most is not None and self._blocks and self._records - self._blocks[0].count > self.most:
                    self._records -= self._blocks.popleft().count
            yield batch

    def _add(self, block: Block) -> None:
        self._records += block.count
        if self._blocks and (joined := self._blocks[-1].joined(block)) is not None:
            self._blocks[-1] = joined
        else:
            self._blocks.append(block)

    def __call__(self, record: Occurrence) -> tuple[str, int] | None:
        """Return the file and line of a record. Return None if this information was dropped."""
        with self._lock:
            if record.name <= self.begun:
                return None
            place = bisect_right(self._blocks, record.order, key=lambda block: block.first) - 1
            if place < 0 or record.order >= self._blocks[place].beyond:
                return None
            file, line = self._blocks[place].place(record.order)
            return self.names.get(file, file), line

    def named(self, record: Occurrence) -> tuple[str, int] | None:
        """Return the file name and line of a record, without folders, which exist only on this machine."""
        origin = self(record)
        return origin if origin is None or "://" in origin[0] else (Path(origin[0]).name, origin[1])
