"""BLAKE2b in kernels (RFC 7693), as `hashlib.blake2b(message, digest_size=16)` without a key."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cep.core.kernels import njit

Words = NDArray[np.uint64]

BLOCK = 128
"""The number of bytes in a block, which is 16 words."""

_PARAMETERS = np.uint64(0x01010000 ^ 16)
"""The parameter block: sequential mode, no key, a digest of 16 bytes."""
_BEGIN: Words = np.array(
    [
        0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
        0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
    ],
    np.uint64,
)  # fmt: skip
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
_ORDER: Words = np.array([*_TURNS, *_TURNS[:2]], np.uint64)
"""The order of the message words in each of twelve rounds. The array is unsigned, so no index counts from the end."""


@njit(_nrt=False, forceinline=True)
def _mixed(a, b, c, d, word, other):  # type: ignore[no-untyped-def]
    a = a + b + word
    d = d ^ a
    d = (d >> np.uint64(32)) | (d << np.uint64(32))
    c = c + d
    b = b ^ c
    b = (b >> np.uint64(24)) | (b << np.uint64(40))
    a = a + b + other
    d = d ^ a
    d = (d >> np.uint64(16)) | (d << np.uint64(48))
    c = c + d
    b = b ^ c
    b = (b >> np.uint64(63)) | (b << np.uint64(1))
    return a, b, c, d


@njit(_nrt=False)
def digest(words, length):  # type: ignore[no-untyped-def]
    """Return the two words of the digest of the first `length` bytes of `words`.

    The rest of the last block must be zero. In the code, `h` is the state of the hash, and each round mixes it into
    `v`.
    """
    h0, h1, h2, h3 = _BEGIN[0] ^ _PARAMETERS, _BEGIN[1], _BEGIN[2], _BEGIN[3]
    h4, h5, h6, h7 = _BEGIN[4], _BEGIN[5], _BEGIN[6], _BEGIN[7]
    blocks = max(1, (length + BLOCK - 1) // BLOCK)
    for block in range(blocks):
        m = words[16 * block : 16 * block + 16]
        last = block + 1 == blocks
        count = np.uint64(length if last else BLOCK * (block + 1))
        v0, v1, v2, v3, v4, v5, v6, v7 = h0, h1, h2, h3, h4, h5, h6, h7
        v8, v9, v10, v11, v12, v13, v14, v15 = (
            _BEGIN[0], _BEGIN[1], _BEGIN[2], _BEGIN[3], _BEGIN[4] ^ count, _BEGIN[5], _BEGIN[6], _BEGIN[7],
        )  # fmt: skip
        if last:
            v14 = ~v14
        for turn in range(12):
            order = _ORDER[turn]
            v0, v4, v8, v12 = _mixed(v0, v4, v8, v12, m[order[0]], m[order[1]])
            v1, v5, v9, v13 = _mixed(v1, v5, v9, v13, m[order[2]], m[order[3]])
            v2, v6, v10, v14 = _mixed(v2, v6, v10, v14, m[order[4]], m[order[5]])
            v3, v7, v11, v15 = _mixed(v3, v7, v11, v15, m[order[6]], m[order[7]])
            v0, v5, v10, v15 = _mixed(v0, v5, v10, v15, m[order[8]], m[order[9]])
            v1, v6, v11, v12 = _mixed(v1, v6, v11, v12, m[order[10]], m[order[11]])
            v2, v7, v8, v13 = _mixed(v2, v7, v8, v13, m[order[12]], m[order[13]])
            v3, v4, v9, v14 = _mixed(v3, v4, v9, v14, m[order[14]], m[order[15]])
        h0, h1, h2, h3 = h0 ^ v0 ^ v8, h1 ^ v1 ^ v9, h2 ^ v2 ^ v10, h3 ^ v3 ^ v11
        h4, h5, h6, h7 = h4 ^ v4 ^ v12, h5 ^ v5 ^ v13, h6 ^ v6 ^ v14, h7 ^ v7 ^ v15
    return h0, h1
