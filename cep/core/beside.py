"""A process that compiles kernels while this one runs them as Python, so that they are there when they are called next.

It reads which ones from a pipe, and what it compiles is in the cache. The pipe ends when the program does, however that
ends; then the process ends, too, whatever it was doing. It is in a group of its own, so Ctrl-C is the program's alone.
It has a lower priority, and nothing waits for it: without it all is the same, later.

Modules that take long to load are imported where they are used: the process is to hear the end while it starts, too.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

LENGTH = 4
"""Bytes of the length that a request begins with."""

_START = "import sys; sys.path[:] = {!r}; from cep.core.beside import main; main()"


class Beside:
    """The process, from this one's side; it starts when it is first asked."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._given_up = _cores() < 2

    def ask(self, kernel: Any, types: tuple[Any, ...] | None) -> None:
        """Let it compile a kernel for arguments of these types; None: it need not any more, this process does."""
        name = kernel.py_func.__qualname__
        if self._given_up or (types is None and self._process is None):
            return
        if getattr(sys.modules.get(kernel.__module__), name, None) is not kernel:
            return
        try:
            request = pickle.dumps((kernel.__module__, name, types and pickle.dumps(types)))
            request = len(request).to_bytes(LENGTH) + request
            if self._process is None:
                self._process = _started()
                atexit.register(self.end)
            assert self._process.stdin is not None, "it is a pipe"
            if self._process.stdin.write(request) != len(request):  # it reads nothing
                self.end()
        except Exception:  # types that cannot be written, no more processes, one that was killed: compile here, later
            self.end()

    def end(self) -> None:
        """End it now."""
        self._given_up = True
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None, "it is a pipe"
            with suppress(OSError):
                process.stdin.close()
            try:
                process.wait(1)
            except subprocess.TimeoutExpired:  # stopped from outside, or starved
                process.kill()
                process.wait()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _started() -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", _START.format(sys.path)],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    assert process.stdin is not None, "it is a pipe"
    os.set_blocking(process.stdin.fileno(), False)
    return process


def main() -> None:
    """The process itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(5)
    waiting: SimpleQueue[tuple[str, str, bytes]] = SimpleQueue()
    needless: set[tuple[str, str]] = set()
    saving = Lock()

    def read() -> None:
        with suppress(EOFError, OSError, pickle.UnpicklingError):
            while size := int.from_bytes(sys.stdin.buffer.read(LENGTH)):
                module, name, types = pickle.loads(sys.stdin.buffer.read(size))
                if types is None:
                    needless.add((module, name))
                else:
                    waiting.put((module, name, types))
        with saving:  # half a file would stay behind
            os._exit(0)

    Thread(target=read, daemon=True).start()
    from numba.core.caching import FunctionCache

    save = FunctionCache.save_overload

    def save_whole(self: Any, signature: Any, data: Any) -> None:
        with saving:
            save(self, signature, data)  # type: ignore[no-untyped-call]

    FunctionCache.save_overload = save_whole  # type: ignore[method-assign]
    while True:
        with suppress(Exception):  # the program meets it when it compiles the kernel
            module, name, types = waiting.get()
            kernel = getattr(import_module(module), name)
            signature = pickle.loads(types)
            if (module, name) not in needless:
                kernel.compile(signature)
                kernel._compile_for_args.spent.clear()
