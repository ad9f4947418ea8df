"""Timers: a queue of the time codes at which keys must be checked again, the earliest first.

The queue is a heap in which each row has four children, which are adjacent in memory. A row is (code, key) or, if rows
of equal code have an order, (code, turn, key). A key may have several rows; the owner of the heap decides which of them
is valid, and skips the others.
"""

from __future__ import annotations

from cep.operators.goals.intrinsics import bare, inside


@inside
def _set(heap, i, code, second, third):  # type: ignore[no-untyped-def]
    heap[i, 0], heap[i, 1] = code, second
    if third is not None:
        heap[i, 2] = third


@bare
def put_timer(heap, count, code, second, third=None):  # type: ignore[no-untyped-def]
    """Add a row to a heap of `count` rows, which must have room.

    If rows of equal code have an order, `second` is the turn and `third` is the key. Otherwise `second` is the key.
    """
    i = count
    while i > 0:
        above = (i - 1) >> 2
        first = code < heap[above, 0]
        if third is not None:
            first = first or (code == heap[above, 0] and second < heap[above, 1])
        if not first:
            break
        heap[i, 0], heap[i, 1] = heap[above, 0], heap[above, 1]
        if third is not None:
            heap[i, 2] = heap[above, 2]
        i = above
    _set(heap, i, code, second, third)


@bare
def _sift(heap, count, i, code, second, third):  # type: ignore[no-untyped-def]
    """Put a row at place `i` of the heap, or below if it is later than the children of this place."""
    while True:
        least, lowest = -1, code
        turn = second
        for j in range(4 * i + 1, min(4 * i + 5, count)):
            first = heap[j, 0] < lowest
            if third is not None:
                first = first or (heap[j, 0] == lowest and heap[j, 1] < turn)
            if first:
                least, lowest = j, heap[j, 0]
                if third is not None:
                    turn = heap[j, 1]
        if least < 0:
            break
        heap[i, 0], heap[i, 1] = lowest, heap[least, 1]
        if third is not None:
            heap[i, 2] = heap[least, 2]
        i = least
    _set(heap, i, code, second, third)


@bare
def drop_timer(heap, count, ordered=None):  # type: ignore[no-untyped-def]
    """Remove the first row of the heap, and return the new number of rows.

    `ordered`: True if rows of equal code have an order; otherwise None.
    """
    count -= 1
    if count:
        if ordered is None:
            _sift(heap, count, 0, heap[count, 0], heap[count, 1], None)
        else:
            _sift(heap, count, 0, heap[count, 0], heap[count, 1], heap[count, 2])
    return count


@bare
def order_timers(heap, count):  # type: ignore[no-untyped-def]
    """Turn rows (code, key) in any order into a heap, in place."""
    for i in range((count + 2) >> 2, -1, -1):
        if i < count:
            _sift(heap, count, i, heap[i, 0], heap[i, 1], None)
