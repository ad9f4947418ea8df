"""Kernels: functions that numba compiles, each when it is first called. Until then numba is not even imported.

A kernel that was compiled before is loaded: from the package, where a wheel or `make run` has put it, or from a cache
(`cep.core.kernel_cache`).
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
    """A function that is compiled for each tuple of argument types it is called with. Other attributes than these are
    those of numba's dispatcher."""

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
        """The type numba gives the kernel where another kernel calls it."""
        return (self._dispatcher or self._made())._numba_type_

    def _made(self) -> Dispatcher:
        from cep.core.kernel_cache import dispatcher

        with _making:
            if self._dispatcher is None:
                self._dispatcher = dispatcher(self.py_func, self._options)
        return self._dispatcher


class Intrinsic:
    """A function that kernels call and LLVM instructions implement. `define` is as for `numba.extending.intrinsic`."""

    def __init__(self, define: Callable[..., Any]) -> None:
        self._define = define
        self._type: Any = None

    @property
    def _numba_type_(self) -> Any:
        if self._type is None:
            from numba.core import types
            from numba.core.typing.templates import make_intrinsic_template

            made: Any = make_intrinsic_template
            self._type = types.Function(made(self, self._define, self._define.__name__))
        return self._type


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a kernel. `options` are those of `numba.njit`; it is always cached.

    A kernel that calls another with a constant uses the one compiled for numbers of that type.
    """

    def made(function: Callable[..., Any]) -> Any:
        return Kernel(function, options)

    return made
