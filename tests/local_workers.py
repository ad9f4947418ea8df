"""Workers that are no processes, for tests of many programs: all that is said goes through the same bytes."""

from __future__ import annotations

import socket
from collections import deque
from threading import Thread

from cep.core.errors import CepError
from cep.workers.messages import Begin, Failed, Head, Lineage, Tables, WriteRows, receive, send
from cep.workers.processes import Answer, WorkerProcesses
from cep.workers.worker import Worker


class LocalWorkers(WorkerProcesses):
    """So many of them, in this process. Each answers at once, and is heard when it is asked for."""

    def __init__(self, count: int) -> None:
        self.count, self.workers = count, dict[int, Worker]()
        self.answers: deque[tuple[int, Head, Tables]] = deque()
        self._kept, self._chunks, self._dropped = deque[Answer](), {}, set()

    def __len__(self) -> int:
        return self.count

    def tell(self, worker: int, head: Head, tables: Tables | None = None) -> None:
        head, tables = carried(head, tables)
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
            answer = self.workers[worker].answer(head, tables)
        except CepError as error:
            answer = Failed.of(error), {}
        self.answers.append((worker, *carried(*answer)))

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


def carried(head: Head, tables: Tables | None) -> tuple[Head, Tables]:
    """A message as it comes."""
    here, there = socket.socketpair()
    with here, there:
        sending = Thread(target=send, args=(here, head, tables))
        sending.start()
        found = receive(there)
        sending.join()
    return found
