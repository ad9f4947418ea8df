"""Workers that run in this process, for tests of many programs. All messages are serialised as between processes."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Mapping
from threading import Thread

import polars as pl

from cep.core.errors import CepError
from cep.workers.messages import Begin, Failed, Head, Line, Lineage, WriteRows
from cep.workers.packing import PackedTable, Tables
from cep.workers.processes import Answer, WorkerProcesses
from cep.workers.shared_memory import shared_memory
from cep.workers.worker import Worker


class LocalWorkers(WorkerProcesses):
    """So many of them, in this process. Each answers at once, and is heard when it is asked for."""

    def __init__(self, count: int) -> None:
        self.count, self.workers = count, dict[int, Worker]()
        self.answers: deque[tuple[int, Head, Tables]] = deque()
        self._kept, self._chunks, self._dropped = deque[Answer](), {}, set()
        self.lines = [lines() for _ in range(count)]

    def __len__(self) -> int:
        return self.count

    def tell(self, worker: int, head: Head, tables: Mapping[str, pl.DataFrame | PackedTable] | None = None) -> None:
        here, there = self.lines[worker]
        head, taken = carried(here, there, head, tables)
        try:
            if isinstance(head, Begin):
                self.workers[worker] = Worker(head.program, head.running, head.stages)
                return
            if isinstance(head, Lineage):
                self.workers[worker].give_lineage(head.columns)
                return
            if isinstance(head, WriteRows):
                self.workers[worker].rows = head
                return
            answer: tuple[Head, Mapping[str, pl.DataFrame | PackedTable]] = self.workers[worker].answer(head, taken)
        except CepError as error:
            answer = Failed.of(error), {}
        self.answers.append((worker, *carried(there, here, *answer)))

    def next(self, wait: bool = True) -> tuple[int, Head, Tables] | None:
        if not self.answers:
            assert not wait, "something is waited for that nobody says"
            return None
        worker, head, tables = self.answers.popleft()
        if isinstance(head, Failed):
            self.answers.clear()
            raise head.error()
        return worker, head, tables

    def close(self) -> None:
        self.workers.clear()


def lines() -> tuple[Line, Line]:
    """Both ends of one, where there is one."""
    memory = shared_memory(), shared_memory()
    ends = socket.socketpair()
    made = Line(ends[0], *memory), Line(ends[1], *reversed(memory))
    for each in memory:
        if each is not None:
            os.close(each)
    return made


def carried(
    here: Line, there: Line, head: Head, tables: Mapping[str, pl.DataFrame | PackedTable] | None
) -> tuple[Head, Tables]:
    """A message as it comes."""
    sending = Thread(target=here.send, args=(head, tables))
    sending.start()
    found = there.receive()
    sending.join()
    return found
