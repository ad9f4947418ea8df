"""A spatial index of points on the earth. It finds points by their straight-line distance from a place.

It is a tree of boxes in three-dimensional space, so the date line and the poles are not special cases.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cep.core.kernels import njit
from cep.core.values import Floats, Ints
from cep.rules.expressions.geodesy import cartesian

LEAF = 16  # the maximum number of points in a box that is not divided
MOST = 1 << 20  # the maximum number of rows in a piece


class PointIndex:
    """An index of points. A point is identified by its position in the arrays `lat` and `long`. Latitudes must be
    within 90 degrees."""

    __slots__ = ("_boxes", "_leaf", "_points", "_rows", "count")

    def __init__(self, lat: Floats, long: Floats) -> None:
        self.count = len(lat)
        points = cartesian(lat, long)
        assert not np.isnan(points).any(), "a place has a latitude"
        depth = max(0, (self.count - 1) // LEAF).bit_length()
        leaves = 1 << depth
        self._leaf = -(-self.count // leaves)
        # Copies of the last point fill up the last box. A search ignores them.
        rows = np.minimum(np.arange(leaves * self._leaf), max(0, self.count - 1))
        for level in range(depth):
            rows = _halved(points, rows.reshape(1 << level, -1)).reshape(-1)
        self._points = np.ascontiguousarray(points[rows])
        self._boxes = _boxes(self._points.reshape(leaves, self._leaf, 3)) if self.count else np.empty((0, 6))
        self._rows: Ints = rows

    @property
    def nbytes(self) -> int:
        return int(self._points.nbytes + self._boxes.nbytes + self._rows.nbytes)

    def within(self, lat: Floats, long: Floats, reach: Floats) -> tuple[Ints, Ints]:
        """Return all pairs of a place and a point whose straight-line distance is at most the `reach` of the place.

        `lat`, `long`: the places. `reach`: for each place, the maximum distance in metres. A reach of NaN matches
        nothing. The pairs are sorted by place, then by point.
        """
        pieces = list(self.pieces(lat, long, reach))
        return _joined([index for index, _ in pieces]), _joined([rows for _, rows in pieces])

    def pieces(self, lat: Floats, long: Floats, reach: Floats) -> Iterator[tuple[Ints, Ints]]:
        """Yield the result of `within` in pieces of at most MOST pairs.

        All pairs of one place are in the same piece. If a place has more than MOST pairs, its piece is larger.
        """
        asked, squares = cartesian(lat, long), reach * reach
        start, room = 0, min(max(1 << 12, 4 * len(lat)), MOST)
        while start < len(lat) and self.count:
            index, rows = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
            stop, size = _within(self._boxes, self._points, self._rows, self._leaf, asked, squares, start, index, rows)
            if stop > start:
                yield index[:size], rows[:size]
            room = room if stop > start else 2 * room  # a single place may have more points than fit
            start = stop

    def nearest_is(self, lat: Floats, long: Floats, sure: Floats, reach: Floats) -> Ints:
        """Return one number for each place: 2 if a point is nearer than `sure`, otherwise 1 if a point is at most
        `reach` away, otherwise 0.

        `lat`, `long`: the places. Distances are straight lines, in metres.
        """
        result: Ints = np.zeros(len(lat), dtype=np.int64)
        if self.count:
            _nearest_is(self._boxes, self._points, self._leaf, cartesian(lat, long), sure * sure, reach * reach, result)
        return result


def _joined(parts: list[Ints]) -> Ints:
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dtype=np.int64), *parts])


def _halved(points: Floats, blocks: Ints) -> Ints:
    """Divide each block of points into two halves along the block's longest dimension. `blocks`: row numbers in
    `points`."""
    inside = points[blocks]
    longest = (inside.max(axis=1) - inside.min(axis=1)).argmax(axis=1)
    places = np.take_along_axis(inside, longest[:, None, None], axis=2)[:, :, 0]
    half = np.argpartition(places, blocks.shape[1] // 2, axis=1)
    return np.take_along_axis(blocks, half, axis=1)


def _boxes(leaves: Floats) -> Floats:
    """Return the boxes of the tree, level by level from the top down. Each box of the lowest level surrounds the points
    of one leaf."""
    least, most = leaves.min(axis=1), leaves.max(axis=1)
    levels = [np.concatenate([least, most], axis=1)]
    while len(least) > 1:
        least, most = least.reshape(-1, 2, 3).min(axis=1), most.reshape(-1, 2, 3).max(axis=1)
        levels.append(np.concatenate([least, most], axis=1))
    return np.concatenate(levels[::-1])


def _compiled(function: Any) -> Any:
    return njit(boundscheck=False)(function)


def _square(boxes: Any, node: Any, x: Any, y: Any, z: Any) -> Any:
    # The square of the distance from a point to a box.
    dx = max(boxes[node, 0] - x, x - boxes[node, 3], 0.0)
    dy = max(boxes[node, 1] - y, y - boxes[node, 4], 0.0)
    dz = max(boxes[node, 2] - z, z - boxes[node, 5], 0.0)
    return dx * dx + dy * dy + dz * dz


_square = _compiled(_square)


def _next_leaf(boxes: Any, stack: Any, top: Any, x: Any, y: Any, z: Any, square: Any) -> Any:
    # Return the next leaf that is near enough (-1 if there is none), and the number of boxes that remain on the stack.
    # The stack has at most one box for each level of the tree, and one more. So 64 places suffice for 2 ** 60 points.
    inner = boxes.shape[0] // 2
    while top > 0:
        top -= 1
        node = stack[top]
        if _square(boxes, node, x, y, z) > square:
            continue
        if node >= inner:
            return node, top
        stack[top] = 2 * node + 2
        stack[top + 1] = 2 * node + 1
        top += 2
    return -1, 0


_next_leaf = _compiled(_next_leaf)


def _sort(rows: Any, first: Any, stop: Any) -> None:
    if stop - first > 24:
        rows[first:stop].sort()
        return
    for i in range(first + 1, stop):
        row = rows[i]
        j = i
        while j > first and rows[j - 1] > row:
            rows[j] = rows[j - 1]
            j -= 1
        rows[j] = row


_sort = _compiled(_sort)


def _within(
    boxes: Any, points: Any, rows: Any, leaf: Any, asked: Any, squares: Any, start: Any, index: Any, rows_found: Any
) -> Any:
    # Search around the places from `start` on, while the points fit into `index` and `rows_found`. Return the first
    # place that is left, and the number of points found.
    inner = boxes.shape[0] // 2
    stack = np.empty(64, np.int64)
    size = 0
    for i in range(start, asked.shape[0]):
        x, y, z, square = asked[i, 0], asked[i, 1], asked[i, 2], squares[i]
        first = size
        if not (x == x and square == square):
            continue
        stack[0] = 0
        node, top = _next_leaf(boxes, stack, 1, x, y, z, square)
        while node >= 0:
            for j in range((node - inner) * leaf, (node - inner + 1) * leaf):
                dx, dy, dz = points[j, 0] - x, points[j, 1] - y, points[j, 2] - z
                if dx * dx + dy * dy + dz * dz <= square:
                    if size == rows_found.shape[0]:
                        return i, first
                    index[size] = i
                    rows_found[size] = rows[j]
                    size += 1
            node, top = _next_leaf(boxes, stack, top, x, y, z, square)
        _sort(rows_found, first, size)
        kept = first
        for j in range(first, size):
            if j == first or rows_found[j] != rows_found[j - 1]:
                rows_found[kept] = rows_found[j]
                kept += 1
        size = kept
    return asked.shape[0], size


_within = _compiled(_within)


def _nearest_is(boxes: Any, points: Any, leaf: Any, asked: Any, sure: Any, squares: Any, result: Any) -> None:
    inner = boxes.shape[0] // 2
    stack = np.empty(64, np.int64)
    for i in range(asked.shape[0]):
        x, y, z, square = asked[i, 0], asked[i, 1], asked[i, 2], squares[i]
        if not (x == x and square == square):
            continue
        stack[0] = 0
        node, top = _next_leaf(boxes, stack, 1, x, y, z, square)
        while node >= 0:
            for j in range((node - inner) * leaf, (node - inner + 1) * leaf):
                dx, dy, dz = points[j, 0] - x, points[j, 1] - y, points[j, 2] - z
                apart = dx * dx + dy * dy + dz * dz
                if apart < sure[i]:
                    result[i] = 2
                    top = 0
                    break
                if apart <= square:
                    result[i] = 1
            node, top = _next_leaf(boxes, stack, top, x, y, z, square)


_nearest_is = _compiled(_nearest_is)
