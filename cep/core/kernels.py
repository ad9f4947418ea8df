"""Kernels: functions that numba compiles at their first call. numba itself is imported only then.

A kernel that was compiled before is loaded from the package, if a wheel or `make run` put it there, or from a cache
(see `cep.core.kernel_cache`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numba.core.dispatcher import Dispatcher

_making = Lock()


class Kernel:
    """A function that is compiled for each combination of argument types. It also has the attributes of numba's
    dispatcher."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self._options = options
        self._dispatcher: Dispatcher | None = None

    def __call__(self, *arguments: Any) -> Any:
        return (self._dispatcher or self._made())(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatcher or self._made(), name)

    @property
    def _numba_type_(self) -> Any:
        """The type by which numba knows this kernel when another kernel calls it."""
        return (self._dispatcher or self._made())._numba_type_

    def _made(self) -> Dispatcher:
        from cep.core.kernel_cache import dispatcher

        with _making:
            if self._dispatcher is None:
                self._dispatcher = dispatcher(self.py_func, self._options)
        return self._dispatcher


class Intrinsic:
    """A function that kernels can call, and that consists of LLVM instructions. `define`: as for
    `numba.extending.intrinsic`."""

    def __init__(self, define: Callable[..., Any]) -> None:
        self._define = define
        self._type: Any = None

    @property
    def _numba_type_(self) -> Any:
        if self._type is None:
            from numba.core import types
            from numba.core.typing.templates import make_intrinsic_template

            make: Any = make_intrinsic_template
            self._type = types.Function(make(self, self._define, self._define.__name__))
        return self._type


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that turns a function into a kernel. `options`: those of `numba.njit`. Kernels are cached.

    If a kernel calls another one with a constant, it uses the code that is compiled for the constant's type.
    """

    def made(function: Callable[..., Any]) -> Any:
        return Kernel(function, options)

    return made
