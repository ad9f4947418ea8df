"""Additions to numba: a float's bits as an integer, and kernels without reference counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from cep.core.kernels import Intrinsic, njit
from cep.core.prefetch import prefetch as prefetch


def _as_float(typing_context: Any, value: Any) -> Any:
    """The float64 of these 64 bits."""
    from llvmlite import ir
    from numba.core import types

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), code


def _as_bits(typing_context: Any, value: Any) -> Any:
    """The 64 bits of a float64."""
    from llvmlite import ir
    from numba.core import types

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), code


# To a kernel they are functions; what they get there are values, not the types that the code above sees.
as_float: Callable[[Any], Any] = cast(Any, Intrinsic(_as_float))
as_bits: Callable[[Any], Any] = cast(Any, Intrinsic(_as_bits))


# A kernel that makes no array, nor calls one that does: without this each array that it gives to a function costs two
# atomic operations.
bare: Callable[[Callable[..., Any]], Any] = njit(_nrt=False)

# A part of such kernels, in the midst of whose loops it stands: no call is made for it.
inside: Callable[[Callable[..., Any]], Any] = njit(_nrt=False, forceinline=True)
