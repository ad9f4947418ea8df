"""Kernels for tests: of several processes that need one for the first time, one compiles it and the others load it.

And in the checked run (`make checked`) an index below 0 is out of bounds as well.
"""

from __future__ import annotations

import fcntl
import os
from typing import Any

from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.types import intp
from numba.np import arrayobj


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


def strict() -> None:
    """From now on numba, which checks bounds, does not count from the end: -1 stands for no row, and is none."""

    def index(context: Any, builder: Any, type: Any, value: Any, size: Any) -> Any:
        return context.cast(builder, value, type, intp)

    arrayobj.fix_integer_index = index
