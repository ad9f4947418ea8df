"""What numba lacks: a hint to the processor that a row will be read soon, the bits of a float as an integer, and
kernels without reference counts.

Waiting for memory is most of what a goal with many keys does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba.core import cgutils, imputils, types
from numba.extending import intrinsic
from numba.np import arrayobj

from cep.core.kernels import njit
from cep.core.tiers import stands_for

# numba's code generation has no types of its own.
make_array: Any = arrayobj.make_array
get_or_insert_function: Any = cgutils.get_or_insert_function
impl_ret_untracked: Any = imputils.impl_ret_untracked


def _prefetch(typing_context: Any, array: Any, row: Any) -> Any:
    """Start loading row `row` of a two-dimensional array; changes nothing, and any row number is safe."""
    signature = types.void(array, types.int64)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source = make_array(signature.args[0])(context, builder, arguments[0])
        stride = builder.extract_value(source.strides, 0)
        offset = builder.mul(arguments[1], stride)
        byte = ir.IntType(8).as_pointer()
        place = builder.gep(builder.bitcast(source.data, byte), [offset])
        kind = ir.FunctionType(ir.VoidType(), [byte, ir.IntType(32), ir.IntType(32), ir.IntType(32)])
        name = "llvm.prefetch.p0" if getattr(byte, "is_opaque", False) else "llvm.prefetch.p0i8"
        function = get_or_insert_function(builder.module, kind, name)
        flag = ir.IntType(32)
        builder.call(function, [place, flag(0), flag(3), flag(1)])
        return impl_ret_untracked(context, builder, types.void, context.get_dummy_value())

    return signature, code


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
prefetch: Callable[[Any, Any], None] = cast(Any, intrinsic(_prefetch))
as_float: Callable[[Any], Any] = cast(Any, intrinsic(_as_float))
as_bits: Callable[[Any], Any] = cast(Any, intrinsic(_as_bits))

stands_for(prefetch, lambda array, row: None)
stands_for(as_float, lambda value: np.int64(value).view(np.float64))
stands_for(as_bits, lambda value: np.float64(value).view(np.int64))

# A kernel that makes no array, nor calls one that does: without this each array that it gives to a function costs two
# atomic operations.
bare: Callable[[Callable[..., Any]], Any] = njit(cache=True, _nrt=False)
bare_linear: Callable[[Callable[..., Any]], Any] = njit(linear=True, cache=True, _nrt=False)

# A part of such kernels, in the midst of whose loops it stands: no call is made for it.
inside: Callable[[Callable[..., Any]], Any] = njit(cache=True, _nrt=False, forceinline=True)
