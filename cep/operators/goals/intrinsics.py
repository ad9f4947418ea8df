"""What numba lacks: the bits of a float as an integer, and kernels without reference counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from cep.core.kernels import njit
from cep.core.prefetch import prefetch as prefetch
from cep.core.tiers import stands_for


def _as_float(typing_context: Any, value: Any) -> Any:
    """The float64 of these 64 bits."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), code


def _as_bits(typing_context: Any, value: Any) -> Any:
    """The 64 bits of a float64."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), code


# To a kernel they are functions; what they get there are values, not the types that the code above sees.
as_float: Callable[[Any], Any] = cast(Any, intrinsic(_as_float))
as_bits: Callable[[Any], Any] = cast(Any, intrinsic(_as_bits))

stands_for(as_float, lambda value: np.int64(value).view(np.float64))
stands_for(as_bits, lambda value: np.float64(value).view(np.int64))

# A kernel that makes no array, nor calls one that does: without this each array that it gives to a function costs two
# atomic operations.
bare: Callable[[Callable[..., Any]], Any] = njit(cache=True, _nrt=False)
bare_linear: Callable[[Callable[..., Any]], Any] = njit(linear=True, cache=True, _nrt=False)

# A part of such kernels, in the midst of whose loops it stands: no call is made for it.
inside: Callable[[Callable[..., Any]], Any] = njit(cache=True, _nrt=False, forceinline=True)
