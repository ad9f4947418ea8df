"""Kernels for tests: of several processes that need one for the first time, one compiles it and the others load it."""

from __future__ import annotations

import fcntl
import os
from typing import Any

from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher


def once() -> None:
    """From now on this process waits for another that compiles what it needs itself."""
    compile, held = Dispatcher.compile, set[str]()

    def waiting(self: Any, signature: Any) -> Any:
        folder, name = self.stats.cache_path, f"{self.py_func.__module__}.{self.py_func.__qualname__}.lock"
        if folder is None or name in held:
            return compile(self, signature)
        with global_compiler_lock:  # first, as in all of its threads; kernels call each other in one direction
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, name), "w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                held.add(name)
                try:
                    return compile(self, signature)
                finally:
                    held.remove(name)

    Dispatcher.compile = waiting
