"""Additions to numba: the conversion of floats to their bits and back, and kernels without reference counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from cep.core.kernels import Intrinsic, njit
from cep.core.prefetch import prefetch as prefetch


def _as_float(typing_context: Any, value: Any) -> Any:
    from llvmlite import ir
    from numba.core import types

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), code


def _as_bits(typing_context: Any, value: Any) -> Any:
    from llvmlite import ir
    from numba.core import types

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), code


# For kernels these are functions of values; the functions above receive numba types.
as_float: Callable[[Any], Any] = cast(Any, Intrinsic(_as_float))
as_bits: Callable[[Any], Any] = cast(Any, Intrinsic(_as_bits))


# Compiles a kernel that allocates no arrays, directly or indirectly. Without reference counts, passing an array to a
# function saves two atomic operations.
bare: Callable[[Callable[..., Any]], Any] = njit(_nrt=False)

# Compiles a function that is always inlined into such kernels.
inside: Callable[[Callable[..., Any]], Any] = njit(_nrt=False, forceinline=True)
