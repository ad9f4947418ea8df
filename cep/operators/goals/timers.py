"""When time alone has something to do: for keys the code at which each is next looked at, the earliest first.

A heap of rows (code, key). A key may have more rows than one: what it waits for now is with the owner, who drops what
is not.
"""

from __future__ import annotations

from cep.core.kernels import njit


@njit(cache=True)
def _before(heap, i, j):  # type: ignore[no-untyped-def]
    return heap[i, 0] < heap[j, 0] or (heap[i, 0] == heap[j, 0] and heap[i, 1] < heap[j, 1])


@njit(cache=True)
def _swap(heap, i, j):  # type: ignore[no-untyped-def]
    for k in range(2):
        heap[i, k], heap[j, k] = heap[j, k], heap[i, k]


@njit(cache=True)
def put_timer(heap, count, code, key):  # type: ignore[no-untyped-def]
    """The heap of `count` rows, which has room for one more, with it."""
    heap[count, 0] = code
    heap[count, 1] = key
    i = count
    while i > 0 and _before(heap, i, (i - 1) // 2):
        _swap(heap, i, (i - 1) // 2)
        i = (i - 1) // 2


@njit(cache=True)
def drop_timer(heap, count):  # type: ignore[no-untyped-def]
    """The heap without its first; gives how many are left."""
    count -= 1
    _swap(heap, 0, count)
    i = 0
    while True:
        least = i
        for j in range(2 * i + 1, min(2 * i + 3, count)):
            if _before(heap, j, least):
                least = j
        if least == i:
            return count
        _swap(heap, i, least)
        i = least
