"""A prefetch instruction for kernels, which loads memory into the cache in advance. numba has no such instruction.

Hash tables, and goals that have many keys, spend most of their time waiting for memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from cep.core.kernels import Intrinsic


def _prefetch(typing_context: Any, array: Any, row: Any) -> Any:
    """Define the intrinsic that loads row `row` of a matrix into the processor's cache. Any row number is safe."""
    from llvmlite import ir
    from numba.core import cgutils, imputils, types
    from numba.np import arrayobj

    # numba's code generation has no type annotations.
    make_array: Any = arrayobj.make_array
    get_or_insert_function: Any = cgutils.get_or_insert_function
    impl_ret_untracked: Any = imputils.impl_ret_untracked
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


# Kernels call it as a function with values. The code above receives the types of these values.
prefetch: Callable[[Any, Any], None] = cast(Any, Intrinsic(_prefetch))
