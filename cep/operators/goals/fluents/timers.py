"""When time alone has something to do: for keys the code at which each is next looked at, the earliest first.

A heap of rows (code, key), four below each: those of a row are next to each other in memory. A key may have more rows
than one: what it waits for now is with the owner, who drops what is not.
"""

from __future__ import annotations

from cep.core.kernels import njit


@njit(cache=True)
def put_timer(heap, count, code, key):  # type: ignore[no-untyped-def]
    """Into the heap of `count` rows, which has room for one more."""
    i = count
    while i > 0 and code < heap[(i - 1) >> 2, 0]:
        above = (i - 1) >> 2
        heap[i, 0], heap[i, 1] = heap[above, 0], heap[above, 1]
        i = above
    heap[i, 0], heap[i, 1] = code, key


@njit(cache=True)
def _sift(heap, count, i, code, key):  # type: ignore[no-untyped-def]
    """A row that belongs at `i` or below."""
    while True:
        least, lowest = -1, code
        for j in range(4 * i + 1, min(4 * i + 5, count)):
            if heap[j, 0] < lowest:
                least, lowest = j, heap[j, 0]
        if least < 0:
            break
        heap[i, 0], heap[i, 1] = lowest, heap[least, 1]
        i = least
    heap[i, 0], heap[i, 1] = code, key


@njit(cache=True)
def drop_timer(heap, count):  # type: ignore[no-untyped-def]
    """The heap without its first; gives how many are left."""
    count -= 1
    if count:
        _sift(heap, count, 0, heap[count, 0], heap[count, 1])
    return count


@njit(linear=True, cache=True)
def order_timers(heap, count):  # type: ignore[no-untyped-def]
    """Makes rows in any order a heap."""
    for i in range((count + 2) >> 2, -1, -1):
        if i < count:
            _sift(heap, count, i, heap[i, 0], heap[i, 1])
