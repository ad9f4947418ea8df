"""Evaluation of a query in a forked process, which can be killed. The query reads the store as of the fork.

A query may run for long, overflow its stack, or use up memory. All of that affects only the fork. A fork has a single
thread. If another thread of the parent process holds a lock of Oxigraph at the time of the fork, the fork waits
forever. A fork never sleeps otherwise. So if a fork sleeps, it is replaced by another fork.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cep.connectors.rdf.question import QueryRefused

_LOOK = 50  # milliseconds between checks of a silent process
_LONG = 1.0  # seconds after which a query gets the lowest priority
_TRIES = 10  # the maximum number of consecutive forks that wait for a lock
_NICENESS = 10
_PARENT_ENDS = 1  # prctl
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
FULL = "the system cannot start another process now"
BROKE = "the query exceeds its memory limit, or is nested too deeply"


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition for forks. A process may fork only while `ready()` returns True, and must hold the lock of `shut`
    during the fork.

    The condition variable `shut` is notified whenever the result of `ready()` changes.
    """

    ready: Callable[[], bool] = lambda: True
    shut: threading.Condition = field(default_factory=threading.Condition)


class QueryProcess:
    """A query that runs in a fork. Another thread may end it, even before it begins."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = 0
        self._ended = False

    def answer(self, work: Callable[[], Any], gate: Gate, until: float, memory: int, shut: Sequence[int]) -> Any:
        """Run `work` in a fork and return its result.

        - `gate`: the condition under which this process may fork.
        - `until`: the deadline.
        - `memory`: the bytes that the fork may use in addition to the memory of this process; 0: no limit.
        - `shut`: the file descriptors to close in the fork.

        Raise QueryRefused if `work` raises an error, or exceeds the time or the memory.
        """
        for _ in range(_TRIES):
            with gate.shut:
                if not gate.shut.wait_for(gate.ready, max(0.0, until - time.monotonic())):
                    raise QueryRefused("slow", "the knowledge is being loaded")
                reading = self._begin(work, until, memory, shut)
            try:
                message = self._read(reading, until)
            finally:
                os.close(reading)
                self._kill(reap=True)
            if message is None:
                continue
            if not message:
                raise QueryRefused("failed", BROKE)
            try:
                kind, value = pickle.loads(message)
            except (pickle.UnpicklingError, EOFError):  # the process ended before its answer was complete
                raise QueryRefused("failed", BROKE) from None
            if kind == "refused":
                raise QueryRefused(*value)
            return value
        raise QueryRefused("failed", "the store is too busy for a query")

    def _begin(self, work: Callable[[], Any], until: float, memory: int, shut: Sequence[int]) -> int:
        """Fork a child that runs `work`. Return the file descriptor from which this process reads the answer."""
        with self._lock:
            if self._ended:
                raise QueryRefused("slow", "nobody waits for the answer")
            try:
                reading, writing = os.pipe()
            except OSError:
                raise QueryRefused("busy", FULL) from None
            parent = os.getpid()
            try:
                self._process = os.fork()
            except OSError:
                os.close(reading)
                os.close(writing)
                raise QueryRefused("busy", FULL) from None
            if self._process == 0:
                _run_child(work, writing, (*shut, reading), until, memory, parent)
            os.close(writing)  # before another fork inherits it and keeps it open
        return reading

    def end(self) -> None:
        """Kill the query's process, because nobody waits for the answer any more."""
        with self._lock:
            self._ended = True
        self._kill()

    def _read(self, reading: int, until: float) -> bytes | None:
        """Read everything that the fork writes. Return None if the fork waits for a lock that is never released."""
        parts: list[bytes] = []
        began, before, slow = time.monotonic(), -1, False
        ready = select.poll()
        ready.register(reading, select.POLLIN)
        while True:
            if ready.poll(_LOOK):
                part = os.read(reading, 1 << 20)
                if not part:
                    return b"".join(parts)
                parts.append(part)
                continue
            now = time.monotonic()
            if now > until:
                raise QueryRefused("slow", "the query exceeded its time limit")
            if not slow and now - began > _LONG:
                slow = True
                with suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, self._process, _NICENESS)
            asleep = _sleeping_since(self._process)
            if asleep is not None and asleep == before:
                return None
            before = -1 if asleep is None else asleep

    def _kill(self, reap: bool = False) -> None:
        with self._lock:
            if self._process:
                os.kill(self._process, signal.SIGKILL)
                if reap:
                    os.waitpid(self._process, 0)
                    self._process = 0


def _sleeping_since(process: int) -> int | None:
    """Return the CPU ticks that a process has used, if it sleeps. Return None if it runs, or waits for a disk."""
    try:
        with open(f"/proc/{process}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[11]) + int(fields[12]) if fields[0] == "S" else None


def _run_child(
    work: Callable[[], Any], writing: int, shut: Sequence[int], until: float, memory: int, parent: int
) -> None:
    """Run a query in the fork, send its result to the parent process, and exit."""
    try:
        end_with(parent)
        for descriptor in shut:
            os.close(descriptor)
        _limit(until, memory)
        try:
            message = "done", work()
        except QueryRefused as error:
            message = "refused", (error.code, str(error))
        except Exception as error:
            message = "refused", ("failed", f"{type(error).__name__}: {error}")
        text = memoryview(pickle.dumps(message))
        while text:
            text = text[os.write(writing, text) :]
    finally:
        os._exit(0)


def end_with(parent: int) -> None:
    """Let the system kill this process when its parent ends. If memory is used up, Linux kills this process first."""
    if _PRCTL is not None:
        _PRCTL(_PARENT_ENDS, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != parent:  # the parent ended before that
        os._exit(0)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def _limit(until: float, memory: int) -> None:
    """Limit the CPU time and the memory of this process. The limits end the process soon, even if the system cannot
    kill it when its parent ends."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        seconds = int(max(0.0, until - time.monotonic())) + 2
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if memory:
            with open("/proc/self/statm") as file:
                had = int(file.read().split()[5]) * resource.getpagesize()
            most = min(had + memory, resource.getrlimit(resource.RLIMIT_DATA)[1] % (1 << 63))
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
