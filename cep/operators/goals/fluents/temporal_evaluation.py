"""The temporal operators of formulas: of changes of what holds, step by step, the changes of what has held or will.

A `TemporalEvaluation` is that of one operator, for all tuples of its formula. It knows no plan: keys are dense numbers,
times are codes of `cep.core.interval_sets`. A step takes the changes of its inputs up to a code, up to which they are
decided then, and gives those of its result up to the code up to which that is decided in turn. What it costs follows
the changes and the tuples whose result changes with time alone, never how many tuples hold.

The operators are those of DatalogMTL. What is kept of a tuple is the intervals of its result that are not over yet:
of `[a, b]` at most b / (b - a) + 2, the bound of Wałęga, Kaminski and Cuenca Grau (*Reasoning over streaming data in
metric temporal Datalog*, AAAI 2019), however many changes came. Only a shift `[a, a]` keeps what came in its time, and
UNTIL, which no bound is known for, where the left began and the right held without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cep.core.interval_sets import INFINITE, Intervals, Reach, first_reached, reach
from cep.core.room import roomy
from cep.core.temporal_operators import LAST, TEMPORAL
from cep.operators.goals.contract import Bools
from cep.operators.goals.fluents.changes import Changes, Ints, by_code, no_changes
from cep.operators.goals.fluents.stretches import changes_against, stretch_of
from cep.operators.goals.fluents.temporal_kernels import (
    BEGUN,
    C_FREE,
    C_TIMERS,
    C_USED,
    C_WIDTH,
    CELLS,
    FLAGS,
    HEAD,
    LEFT,
    OPEN,
    OPENED,
    P_WIDTH,
    R_KIND,
    R_LEAST,
    R_WIDTH,
    RIGHT,
    TAIL,
    TIMER,
    WAITING,
    advance,
    due_keys,
    intervals_kept,
    keep_intervals,
    next_due,
    touch,
)

BEFORE_ALL = -INFINITE - 1
"""Decided up to here: nothing."""

Arrays = dict[str, Ints]


class TemporalEvaluation:
    """Of one operator.

    `operator`: a name of TEMPORAL; `by`: what is in its brackets, as `interval_sets.reach` gives it, also where it
    looks ahead. Of LASTING `least` microseconds, of `> d` d + 1. SINCE and UNTIL have two inputs, in the order in which
    they are written, all others one. `decided`, `given`: the codes up to which the inputs and the result are decided.
    """

    __slots__ = ("_by", "_counts", "_heap", "_pool", "_rule", "_state", "_watched", "decided", "given", "inputs")

    def __init__(self, operator: str, by: Reach | None = None, least: int = 0) -> None:
        row = TEMPORAL[operator]
        kind, ahead, self.inputs = row.kernel, row.ahead, row.inputs
        by = reach(0) if by is None else by
        assert by.low >= 0, "a reach is written with displacements from 0 on"
        self._by = by.mirrored if ahead else by
        self._rule: Ints = np.array([kind, self._by.low, self._by.high, least if kind == LAST else 0], np.int64)
        assert len(self._rule) == R_WIDTH
        self._clear()

    def _clear(self) -> None:
        self.decided = self.given = BEFORE_ALL
        self._state: Ints = np.empty((0, CELLS), np.int64)
        self._pool: Ints = np.empty((0, P_WIDTH), np.int64)
        self._heap: Ints = np.empty((0, 2), np.int64)
        self._counts: Ints = np.zeros(C_WIDTH, np.int64)
        self._counts[C_FREE] = -1
        self._watched = 1024

    def step(self, inputs: Sequence[Changes], decided: int, until: int | None = None) -> tuple[Changes, int]:
        """The changes of the result that are decided now and were not before, and the code up to which they are.

        `inputs`: their changes with codes above those of the last step, up to `decided`. The result is given up to
        there at most, or up to `until`, which may lie ahead: `ONCE[1 s, 1 s]` is known a second ahead. INFINITE: the
        inputs are decided for ever, and change no more.
        """
        assert len(inputs) == self.inputs and decided >= self.decided, "inputs go on"
        self.decided = decided
        self.given = max(self.given, min(self._known(decided), decided if until is None else until))
        left, right = inputs[0], inputs[-1] if self.inputs == 2 else no_changes()
        due: Ints = np.empty(int(self._counts[C_TIMERS]), np.int64)
        due = due[: due_keys(self._state, self._pool, self._heap, self._counts, self.given, due)]
        some = len(left.key) + len(right.key)
        if not some and not len(due):
            return no_changes(), self.given
        self._reserve(max((int(keys.max()) + 1 for keys in (left.key, right.key) if len(keys)), default=0), some)
        touched: Ints = np.empty(some + len(due), np.int64)
        count, room = 0, 2 * int(left.begins.sum() + right.begins.sum())
        for keys in (due, left.key, right.key):
            count, room = touch(self._state, keys, touched, count, room)
        self._heap = _grown(self._heap, int(self._counts[C_TIMERS]), count)
        made: Ints = np.empty((3, room), np.int64)
        given = advance(
            self._rule, *left, *right, touched[:count], self.given, self._state, self._pool, self._counts, self._heap,
            *made,
        )  # fmt: skip
        if self._counts[C_TIMERS] > self._watched:
            self._sweep()
        return by_code(*made[:, :given]), self.given

    def close(self, end: int = INFINITE) -> tuple[Changes, int]:
        """The inputs stay for ever as they are: what the result then is, up to `end`."""
        return self.step([no_changes()] * self.inputs, INFINITE, end)

    def due(self) -> int | None:
        """Up to where the inputs must be decided for the next change of the result, if they do not change; None: it
        does not change then, or at their end alone."""
        code = int(next_due(self._state, self._pool, self._heap, self._counts))
        if code == INFINITE or self._known(INFINITE - 1) < code:
            return None
        back = 2 * int(self._rule[R_LEAST]) if self._rule[R_KIND] == LAST else -min(self._by.low, 0)
        return next(d for d in range(max(code, code + back - 2), code + back + 3) if self._known(d) >= code)

    def begun(self) -> Ints:
        """The keys of which the result holds, as far as it was given."""
        return np.flatnonzero(self._state[:, FLAGS] & BEGUN)

    def changing(self, until: int) -> Ints:
        """The keys of which the result changes up to a code if the inputs do not, ascending."""
        return np.flatnonzero(self._state[:, TIMER] <= until)

    def holding(self, keys: Ints, side: int | None = None) -> Bools:
        """Of which keys the result holds, or an input (`side`), as far as that was given."""
        found = np.zeros(len(keys), np.bool_)
        known = keys < len(self._state)
        flag = BEGUN if side is None else (LEFT, RIGHT)[side] if self.inputs == 2 else OPEN
        found[known] = self._state[keys[known], FLAGS] & flag != 0
        return found

    def next_change(self) -> int:
        """At which code the result changes next if the inputs do not; INFINITE: never."""
        return int(next_due(self._state, self._pool, self._heap, self._counts))

    def ahead(self, keys: Ints, inputs: Sequence[Intervals], first: int, last: int) -> Intervals:
        """What the result is from `first` to `last` for these keys, ascending, where the inputs are that, sorted by
        key, and up to `first` what they were; it stays as it is. The keys of what is given are places in `keys`."""
        known = keys[keys < len(self._state)]
        flags = np.zeros(len(keys), np.int64)
        flags[: len(known)] = self._state[known, FLAGS]
        kept = self.snapshot(known[(flags[: len(known)] != 0) | (self._state[known, HEAD] >= 0)])
        other = TemporalEvaluation.of(self)
        other.restore(kept | {"key": np.searchsorted(keys, kept["key"])})
        sides = [LEFT, RIGHT] if self.inputs == 2 else [OPEN]
        changes = []
        for held, side in zip(inputs, sides, strict=True):
            placed = held._replace(key=np.searchsorted(keys, held.key))
            changes.append(changes_against(placed, np.flatnonzero(flags & side), first, last))
        made, _ = other.step(changes, last)
        return stretch_of(made, np.flatnonzero(flags & BEGUN), first, last)

    @classmethod
    def of(cls, other: TemporalEvaluation) -> TemporalEvaluation:
        """The same operator, anew."""
        made = cls.__new__(cls)
        made._by, made._rule, made.inputs = other._by, other._rule, other.inputs
        made._clear()
        return made

    def _known(self, decided: int) -> int:
        """Up to where the result is decided if the inputs are up to a code."""
        if decided >= INFINITE:
            return INFINITE
        if self._rule[R_KIND] == LAST:
            return min(2 * (((decided + 1) >> 1) - int(self._rule[R_LEAST])) + 1, decided)
        known = first_reached(decided + 1, self._by) - 1
        return min(known, decided) if self.inputs == 2 else known

    # --- what is kept ---

    @property
    def rows(self) -> int:
        """How many intervals are kept, and keys of which something is."""
        kept = self.kept()
        return int(self._state[kept, WAITING].sum()) + len(kept)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._state.nbytes + self._pool.nbytes + self._heap.nbytes

    def kept(self) -> Ints:
        """The keys of which something is kept, ascending: no other makes a difference, and their numbers are free."""
        return np.flatnonzero((self._state[:, FLAGS] != 0) | (self._state[:, HEAD] >= 0))

    def snapshot(self, keys: Ints | None = None) -> Arrays:
        """All that is kept, or of these keys: by `key`, its cells and how many of the `intervals` (rows of start and
        end, key by key) are its; `decided`: of the inputs and the result."""
        chosen = self.kept() if keys is None else keys
        intervals = np.empty((int(self._state[chosen, WAITING].sum()), 2), np.int64)
        intervals_kept(self._state, self._pool, chosen, intervals)
        return {
            "key": chosen,
            "cells": self._state[chosen][:, [FLAGS, OPENED, WAITING]],
            "intervals": intervals,
            "decided": np.array([self.decided, self.given], np.int64),
        }

    def restore(self, state: Mapping[str, Ints]) -> None:
        """Begins anew from a snapshot; its keys may have been given other numbers."""
        self._clear()
        self.decided, self.given = state["decided"].tolist()
        self.add(state)

    def add(self, state: Mapping[str, Ints]) -> None:
        """Keeps what a snapshot has of keys of which nothing is kept."""
        key, cells = state["key"], state["cells"]
        if not len(key):
            return
        self._reserve(int(key.max()) + 1, len(state["intervals"]))
        self._heap = _grown(self._heap, int(self._counts[C_TIMERS]), len(key))
        self._state[key[:, None], [FLAGS, OPENED, WAITING]] = cells
        keep_intervals(self._state, self._pool, self._heap, self._counts, key, state["intervals"])

    def drop(self, keys: Ints) -> None:
        """Keeps nothing of these keys any more."""
        left = np.setdiff1d(self.kept(), keys)
        self.restore(self.snapshot(left))

    def _reserve(self, keys: int, intervals: int) -> None:
        """Room for so many keys, and so many intervals more."""
        if keys > len(self._state):
            fresh: Ints = np.zeros((roomy(keys, 2 * len(self._state)), CELLS), np.int64)
            fresh[:, [HEAD, TAIL]], fresh[:, TIMER] = -1, INFINITE
            fresh[: len(self._state)] = self._state
            self._state = fresh
        self._pool = _grown(self._pool, int(self._counts[C_USED]), intervals)

    def _sweep(self) -> None:
        """Drops timers of what waits for another code now."""
        heap = np.unique(self._heap[: self._counts[C_TIMERS]], axis=0)  # sorted, it is a heap
        heap = heap[self._state[heap[:, 1], TIMER] == heap[:, 0]]
        self._heap[: len(heap)] = heap
        self._counts[C_TIMERS] = len(heap)
        self._watched = max(1024, 2 * len(heap))


def _grown(rows: Ints, used: int, more: int) -> Ints:
    """The first rows, with room for more."""
    if used + more <= len(rows):
        return rows
    grown: Ints = np.empty((roomy(used + more, 2 * len(rows)), rows.shape[1]), np.int64)
    grown[:used] = rows[:used]
    return grown
