"""BLAKE2b in kernels (RFC 7693), as `hashlib.blake2b(message, digest_size=16)` without a key.

Vector instructions hash several messages at once, one in each lane.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from cep.core.kernels import Intrinsic, njit

Words = NDArray[np.uint64]

BLOCK = 128
"""The number of bytes in a block, which is 16 words."""

LANES = 8
"""The number of messages that are hashed at once."""

_PARAMETERS = 0x01010000 ^ 16
"""The parameter block: sequential mode, no key, a digest of 16 bytes."""
_VECTOR = (
    0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
    0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
)  # fmt: skip
_BEGIN: Words = np.array([_VECTOR[0] ^ _PARAMETERS, *_VECTOR[1:]], np.uint64)
"""The state of a hash before the first block."""
_TURNS = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
    (14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3),
    (11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4),
    (7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8),
    (9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13),
    (2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9),
    (12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11),
    (13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10),
    (6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5),
    (10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0),
)
_MIXED = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)  # fmt: skip
"""The words of the working state that are mixed with each other, in the order of a round."""

# Rows of the matrix of lanes, which has one column per message.
_STATE, _MESSAGE, _COUNT, _LAST, _HASHED, _ROWS = 0, 8, 24, 25, 26, 27
_NONE, _ALL = np.uint64(0), np.uint64(2**64 - 1)


def _compress(typing_context: Any, lanes: Any) -> Any:
    """Define the intrinsic that hashes one block of each message. Its argument is the matrix of lanes.

    The names are those of the RFC. The intrinsic consists of LLVM instructions, because numba would not use vector
    instructions here.
    """
    from llvmlite import ir
    from numba.core import types
    from numba.np import arrayobj

    make_array: Any = arrayobj.make_array
    word = ir.IntType(64)
    vector = ir.VectorType(word, LANES)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        matrix = make_array(signature.args[0])(context, builder, arguments[0])
        first = builder.bitcast(matrix.data, vector.as_pointer())

        def row(number: int) -> Any:
            return builder.gep(first, [word(number)])

        def load(number: int) -> Any:
            return builder.load(row(number), align=8)

        def same(value: int) -> Any:
            return ir.Constant(vector, [ir.Constant(word, value)] * LANES)

        def turned(value: Any, by: int) -> Any:
            return builder.or_(builder.lshr(value, same(by)), builder.shl(value, same(64 - by)))

        h, m = [load(_STATE + i) for i in range(8)], [load(_MESSAGE + i) for i in range(16)]
        v = [*h, *map(same, _VECTOR)]
        v[12], v[14] = builder.xor(v[12], load(_COUNT)), builder.xor(v[14], load(_LAST))
        for turn in (*_TURNS, *_TURNS[:2]):
            for number, (a, b, c, d) in enumerate(_MIXED):
                for place, by, other in ((2 * number, 32, 24), (2 * number + 1, 16, 63)):
                    v[a] = builder.add(builder.add(v[a], v[b]), m[turn[place]])
                    v[d] = turned(builder.xor(v[d], v[a]), by)
                    v[c] = builder.add(v[c], v[d])
                    v[b] = turned(builder.xor(v[b], v[c]), other)
        hashed = load(_HASHED)
        for i in range(8):
            mixed = builder.and_(hashed, builder.xor(v[i], v[i + 8]))
            builder.store(builder.xor(h[i], mixed), row(_STATE + i), align=8)
        return context.get_dummy_value()

    return types.void(lanes), code


# Kernels call it as a function with values. The code above receives the types of these values.
_compressed: Callable[[Any], None] = cast(Any, Intrinsic(_compress))


def lanes_of() -> Words:
    """Return a matrix of lanes for `digests`."""
    return np.zeros((_ROWS, LANES), np.uint64)


@njit(_nrt=False)
def digests(words, lengths, lanes):  # type: ignore[no-untyped-def]
    """Write the two words of each message's digest to the first two rows of `lanes` (see `lanes_of`).

    `words`: one message per row. `lengths`: the number of bytes of each message. The rest of a message's
    last block must be zero.
    """
    longest = 1
    for lane in range(LANES):
        for i in range(8):
            lanes[_STATE + i, lane] = _BEGIN[i]
        longest = max(longest, lengths[lane])
    for start in range(0, longest, BLOCK):
        for lane in range(LANES):
            left = lengths[lane] - start
            for i in range(16):
                lanes[_MESSAGE + i, lane] = words[lane, start // 8 + i]
            lanes[_COUNT, lane] = np.uint64(start + min(left, BLOCK))
            lanes[_LAST, lane] = _ALL if left <= BLOCK else _NONE
            lanes[_HASHED, lane] = _ALL if left > 0 or start == 0 else _NONE
        _compressed(lanes)
