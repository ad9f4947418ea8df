"""Worker processes. They are started once, execute requests in order, and end with the process that started them."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic

import polars as pl

from cep.core.errors import CepError, reason_of
from cep.core.signals import stops
from cep.workers.messages import ChunkFound, Failed, Head, Line
from cep.workers.packing import PackedTable, Tables
from cep.workers.shared_memory import shared_memory

_LOOK = 0.5
"""The seconds after which a wait for an answer is interrupted, to check whether the run must stop."""

_LEAVING = 2.0
"""The number of seconds within which all processes together must end. After this time, they are killed."""

Answer = tuple[int, Head, Tables]
Heard = tuple[int, Head | None, Tables]
"""The number of a worker, and the message that it has sent. The message is None if the worker has ended."""


class WorkerProcesses:
    """Worker processes, numbered from 0. Each worker executes and answers its requests in order."""

    def __init__(self, count: int) -> None:
        """Start `count` processes. If one cannot be started, end the others and raise CepError."""
        self._heard: SimpleQueue[Heard] = SimpleQueue()
        self._kept: deque[Answer] = deque()
        self._chunks: dict[int, tuple[ChunkFound, Tables]] = {}
        self._dropped: set[int] = set()
        self._started: list[_Started] = []
        self._end = weakref.finalize(self, _end, self._started)
        try:
            for number in range(count):
                self._started.append(_start(number, count, self._heard))
        except (OSError, RuntimeError) as error:  # RuntimeError: a thread cannot be started
            self.close()
            message = f"worker {len(self) + 1} of {count} cannot be started: {reason_of(error)}"
            hint = "use fewer `--workers`, or raise the limits of memory, processes and open files"
            raise CepError(message, hint=hint, code="worker") from error

    def __len__(self) -> int:
        return len(self._started)

    @property
    def numbers(self) -> list[int]:
        """The process ids of the workers."""
        return [worker.process.pid for worker in self._started]

    def tell(self, worker: int, head: Head, tables: Mapping[str, pl.DataFrame | PackedTable] | None = None) -> None:
        """Send a request to a worker. Raises CepError if the worker has ended."""
        if not self._end.alive:
            hint = "continue with a new engine of the program, restored from the last snapshot"
            raise CepError("the engine was stopped, and its workers have ended", hint=hint, code="stopped")
        try:
            self._started[worker].line.send(head, tables)
        except OSError:
            raise self._ended(worker) from None

    def hear(self, wait: bool = True) -> Answer | None:
        """Return the next answer of any worker. Chunks are not returned here, but by `chunk`.

        `wait`: if False, return None if no answer has arrived yet. Raises CepError if a worker has failed or ended.
        """
        if self._kept:
            return self._kept.popleft()
        while (answer := self.next(wait)) is not None and isinstance(answer[1], ChunkFound):
            self._keep(answer[1], answer[2])
        return answer

    def chunk(self, number: int) -> tuple[ChunkFound, Tables]:
        """Wait for the contents of a chunk that a worker was requested to read, and return them.

        Raises CepError if a worker has failed or ended.
        """
        while number not in self._chunks:
            answer = self.next()
            assert answer is not None, "it was waited for"
            if isinstance(answer[1], ChunkFound):
                self._keep(answer[1], answer[2])
            else:
                self._kept.append(answer)
        return self._chunks.pop(number)

    def drop_chunk(self, number: int) -> None:
        """Discard the contents of a chunk that are not needed, even if they have not arrived yet."""
        if self._chunks.pop(number, None) is None:
            self._dropped.add(number)

    def _keep(self, chunk: ChunkFound, tables: Tables) -> None:
        if chunk.number in self._dropped:
            self._dropped.remove(chunk.number)
        else:
            self._chunks[chunk.number] = chunk, tables

    def next(self, wait: bool = True) -> Answer | None:
        """Return the next answer of any worker to any request.

        `wait`: if False, return None if no answer has arrived yet. Raises CepError if a worker has failed or ended.
        """
        if not wait and self._heard.empty():
            return None
        worker, head, tables = self._await()
        if head is None:
            raise self._ended(worker)
        if isinstance(head, Failed):
            self.close()
            raise head.error()
        return worker, head, tables

    def _await(self) -> Heard:
        while True:
            try:
                return self._heard.get(timeout=_LOOK)
            except Empty:
                stops.between()

    def ask(self, heads: Sequence[Head]) -> list[Head]:
        """Send one request to each worker, and return their answers. No other answer may be outstanding."""
        for worker, head in enumerate(heads):
            self.tell(worker, head)
        answers: list[Head | None] = [None] * len(heads)
        for _ in heads:
            answer = self.hear()
            assert answer is not None, "it was waited for"
            answers[answer[0]] = answer[1]
        return [answer for answer in answers if answer is not None]

    def close(self) -> None:
        self._end()

    def _ended(self, worker: int) -> CepError:
        process = self._started[worker].process
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_LEAVING)
        count, status = len(self), process.returncode
        self.close()
        how = f"was ended by signal {-status}" if status is not None and status < 0 else f"ended with status {status}"
        hint = "the results so far are correct but incomplete; if memory ran out, use fewer workers"
        return CepError(f"worker {worker + 1} of {count} {how}", hint=hint, code="worker")


@dataclass(frozen=True, slots=True)
class _Started:
    """A worker process, and the connection to it."""

    process: subprocess.Popen[bytes]
    line: Line


def _start(number: int, count: int, heard: SimpleQueue[Heard]) -> _Started:
    """Start a worker process. Raises OSError if the system lacks resources; everything is then released."""
    root = str(Path(__file__).parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    threads = str(max(1, (os.cpu_count() or 1) // count))
    with contextlib.ExitStack() as always, contextlib.ExitStack() as failed:
        here, worker_end = socket.socketpair()
        always.callback(worker_end.close)
        failed.callback(here.close)
        for channel in (here, worker_end):
            for which in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                channel.setsockopt(socket.SOL_SOCKET, which, 1 << 22)
        memory = [memory_file for memory_file in (shared_memory(), shared_memory()) if memory_file is not None]
        for descriptor in memory:
            always.callback(os.close, descriptor)
        descriptors = [worker_end.fileno(), *(memory if len(memory) == 2 else [])]
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "cep.workers.worker", *map(str, descriptors)],
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            process_group=0,  # signals to the group of the main process must not reach the workers
            env={"POLARS_MAX_THREADS": threads, **os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        failed.callback(process.wait)
        failed.callback(process.kill)
        line = Line(here, *(memory if len(memory) == 2 else [None, None]))
        Thread(target=_listen, args=(number, line, heard), name=f"worker {number + 1}", daemon=True).start()
        failed.pop_all()
    return _Started(process, line)


def _listen(number: int, line: Line, heard: SimpleQueue[Heard]) -> None:
    try:
        while True:
            heard.put((number, *line.receive()))
    except Exception:  # the worker has ended or sent invalid data; the waiting thread must be told
        heard.put((number, None, {}))


def _end(started: list[_Started]) -> None:
    for worker in started:
        with contextlib.suppress(OSError):
            worker.line.socket.shutdown(socket.SHUT_RDWR)  # wakes the readers on both sides
    until = monotonic() + _LEAVING
    for worker in started:
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(max(0.0, until - monotonic()))
    for worker in started:
        worker.process.kill()  # has no effect on a process that has ended
    for worker in started:
        worker.process.wait()
        worker.line.socket.close()
