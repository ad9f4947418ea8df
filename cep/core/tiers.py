"""Kernels in two tiers: Python itself runs one for as long as that takes less time than to compile it.

To compile a kernel takes from a tenth of a second to some seconds, and a first program on a few records needs thirty of
them. Python runs the same text a hundred times slower, which on a few records is nothing. So a kernel that is not in
the cache yet runs as Python, call after call, until what it has taken so, and will likely take now, is what compiling
it takes; then it is compiled. What it has taken counts over all runs (`cep.core.kernel_files`). What it gives is the
same: integers of 64 bits that wrap, floats, arrays written in place.

`SEMCEP_KERNELS=compiled` compiles each at its first call (the benchmarks, the checked run), `SEMCEP_KERNELS=python`
none.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import isqrt
from time import thread_time
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher

from cep.core.kernel_files import TimeSpent, time_spent
from cep.core.room import CHECKED
from cep.core.signals import stops

STARTING, COMPILING, SORTING = 0.1, 0.5e-3, 1.7
"""Seconds that a kernel takes to compile, a byte of Python's code in it, and a sort that it calls, about."""
RUNNING = 5e-9
"""Seconds that a byte of Python's code takes for each row, about, before the kernel has run."""
QUADRATIC = 1e-6
"""Seconds for each pair of rows: how slow a kernel may turn out that compares every row with every other."""

MODE = "compiled" if CHECKED else os.environ.get("SEMCEP_KERNELS", "")

_compile: Any = Dispatcher._compile_for_args  # type: ignore[attr-defined]
_beforehand: list[Callable[[], None]] = []
_stand_ins: dict[int, tuple[Any, Callable[..., Any]]] = {}
_twins: dict[int, tuple[Any, Callable[..., Any]]] = {}  # with their kernels: an id is of one as long as it lives


def compile_at_once() -> None:
    """From now on compile each kernel at its first call: where a stream is live, it is not to pause for that later."""
    global MODE
    MODE = MODE or "compiled"


def tell(beforehand: Callable[[], None]) -> None:
    """Call this once, before the first kernel is compiled that this process needs."""
    _beforehand[:] = [beforehand]


def stands_for(intrinsic: Any, function: Callable[..., Any]) -> None:
    """What Python does where a kernel calls the intrinsic."""
    _stand_ins[id(intrinsic)] = intrinsic, function


class Wide(np.ndarray[Any, Any]):
    """An array of narrow integers whose numbers are int64 once they are read, as they are to a compiled kernel."""

    def __getitem__(self, place: Any) -> Any:
        value = super().__getitem__(place)
        return np.int64(value) if isinstance(value, np.integer) else value


class Tiered:
    """What a kernel asks when it is called with types that it has not been compiled for in this process.

    `linear`: its time grows with the rows of its arrays and no faster. `rows`: how many it has had as Python; `spent`:
    how long that took.
    """

    __slots__ = ("_budget", "_code", "_kernel", "_linear", "_seen", "_spent", "_twin", "rows")

    def __init__(self, kernel: Dispatcher, linear: bool) -> None:
        self._kernel, self._linear = kernel, linear
        self._code, self._budget = 0, 0.0
        self._twin: Callable[..., Any] | None = None
        self._spent: TimeSpent | None = None
        self._seen: dict[tuple[Any, ...], int] = {}
        self.rows = 0

    @property
    def spent(self) -> TimeSpent:
        """How long Python has run it."""
        if self._spent is None:
            self._spent = time_spent(self._kernel)
        return self._spent

    def __call__(self, *given: Any, **named: Any) -> Any:
        """What the kernel then calls: itself as compiled now, or as Python."""
        if not named and self._quick(given):
            return self._run
        if not self._cached(given):
            while _beforehand:
                _beforehand.pop()()
            stops.between()  # to compile some hundred takes a minute
            self.spent.clear()
        with _no_collection():
            return _compile(self._kernel, *given, **named)

    def _quick(self, given: tuple[Any, ...]) -> bool:
        if MODE:
            return MODE == "python"
        if not self._code:
            codes = _codes(self._kernel, {}).values()
            self._code = sum(len(code.co_code) for code in codes)
            self._budget = STARTING + COMPILING * self._code + SORTING * any(map(_sorts, codes))
        rows = _rows(given)
        likely = rows * (self.spent.seconds / self.rows if self.rows > 1000 else RUNNING * self._code)
        if self.spent.total + likely > self._budget:
            return False
        if not self._linear and rows > isqrt(int(self._budget / QUADRATIC)):
            return False
        return not self._cached(given)

    def _run(self, *given: Any) -> Any:
        """The call as Python."""
        if self._twin is None:
            self._twin = _twin(self._kernel)
        began = thread_time()
        with np.errstate(all="ignore"):
            made = self._twin(*map(_taken, given))
        self.spent.add(thread_time() - began)
        self.rows += _rows(given)
        return _made(made)

    def _cached(self, given: tuple[Any, ...]) -> bool:
        """Whether an earlier run, or another process, has compiled the kernel for these."""
        with suppress(AttributeError, OSError):  # a kernel that is not kept, or has no index yet
            kernel: Any = self._kernel
            kept, types = kernel._cache, tuple(map(kernel.typeof_pyval, given))
            changed = os.stat(kept._cache_file._index_path).st_mtime_ns
            if self._seen.get(types) != changed:  # since it was not in there
                if kept._index_key(types, kernel.targetctx.codegen()) in kept._cache_file._load_index():
                    return True
                self._seen[types] = changed
        return False


@contextmanager
def _no_collection() -> Iterator[None]:
    """To compile makes many objects that are in use, which Python would look through again and again: an eighth of the
    time it takes."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _sorts(code: CodeType) -> bool:
    return "sort" in code.co_names or "argsort" in code.co_names


def _rows(given: tuple[Any, ...]) -> int:
    """How many rows the largest array of a call has; of text, a row is some letters."""
    arrays = (each for one in given for each in (one if isinstance(one, tuple) else (one,)))
    return max((max(each.shape) * each.itemsize // 8 + 1 for each in arrays if isinstance(each, np.ndarray)), default=0)


def _taken(value: Any) -> Any:
    """An argument as a compiled kernel takes it."""
    if isinstance(value, np.ndarray):
        return value.view(Wide) if value.dtype.kind in "iu" and value.dtype.itemsize < 8 else value
    if isinstance(value, int) and not isinstance(value, bool):
        return np.int64(value)
    return value


def _made(value: Any) -> Any:
    """A result as a compiled kernel gives it."""
    if isinstance(value, tuple):
        return tuple(map(_made, value))
    if isinstance(value, np.ndarray):
        return value.view(np.ndarray)
    return value.item() if isinstance(value, np.generic) else value


def _twin(kernel: Any) -> Callable[..., Any]:
    """The kernel's function, which calls those of the kernels that it calls."""
    if id(kernel) not in _twins:
        function = kernel.py_func
        names = dict(function.__globals__)
        made = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
        _twins[id(kernel)] = kernel, made
        for name in function.__code__.co_names:
            value = names.get(name)
            if id(value) in _stand_ins:
                names[name] = _stand_ins[id(value)][1]
            elif isinstance(value, Dispatcher):
                names[name] = _twin(value)
    return _twins[id(kernel)][1]


def _codes(kernel: Any, found: dict[int, CodeType]) -> dict[int, CodeType]:
    """The code of a kernel and of all that it calls."""
    if id(kernel) not in found:
        function = kernel.py_func
        found[id(kernel)] = function.__code__
        for name in function.__code__.co_names:
            value = function.__globals__.get(name)
            if isinstance(value, Dispatcher):
                _codes(value, found)
    return found
