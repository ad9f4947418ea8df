"""What supports tuples for a time that is known beforehand: it begins and ends at codes that wait in two queues.

put, pass on:  (code, tuple) at which something begins to support a tuple, or ends -> when tuples begin and end to hold
"""

from __future__ import annotations

import numpy as np

from cep.core.interval_sets import INFINITE
from cep.core.kernels import njit
from cep.core.room import filled_room
from cep.operators.goals.contract import Arrays, Ints
from cep.operators.goals.fluents.changes import Changes, no_changes

COUNT, BEFORE = range(2)
"""Of a tuple: how many things support it; how many did before the code at which it changes, -1: it does not."""


@njit()
def _passed(opening, closing, until, state, touched, key, code, begins):  # type: ignore[no-untyped-def]
    """Takes of both queues, sorted by code, the rows (code, tuple) up to a code; gives how many of each, and how many
    changes. Of one tuple all of a code are one. `state` has a row for each tuple; `touched` and what is made have room
    for as many as the rows of both."""
    n, m = len(opening), len(closing)
    i = j = made = 0
    while True:
        at = INFINITE
        if i < n:
            at = opening[i, 0]
        if j < m and closing[j, 0] < at:
            at = closing[j, 0]
        if at > until or at >= INFINITE:
            break
        some = 0
        while i < n and opening[i, 0] == at:
            slot = opening[i, 1]
            if state[slot, BEFORE] < 0:
                state[slot, BEFORE] = state[slot, COUNT]
                touched[some] = slot
                some += 1
            state[slot, COUNT] += 1
            i += 1
        while j < m and closing[j, 0] == at:
            slot = closing[j, 1]
            if state[slot, BEFORE] < 0:
                state[slot, BEFORE] = state[slot, COUNT]
                touched[some] = slot
                some += 1
            state[slot, COUNT] -= 1
            j += 1
        for t in range(some):
            slot = touched[t]
            before, now = state[slot, BEFORE] > 0, state[slot, COUNT] > 0
            state[slot, BEFORE] = -1
            if before != now:
                key[made], code[made], begins[made] = slot, at, 1 if now else 0
                made += 1
    return i, j, made


class PassingSupports:
    """Of tuples by number: what supports them and for how long. `opening`, `closing`: the queues, rows (code, tuple)
    sorted by code; each thing is in both of them until it has begun."""

    def __init__(self) -> None:
        self.state: Ints = np.empty((0, 2), np.int64)
        self._queues = [_Queue(), _Queue()]

    def put(self, code: Ints, slots: Ints, begins: bool) -> None:
        """Things begin to support tuples at these codes, or end to; none before those that came before."""
        self._queues[0 if begins else 1].put(code, slots)

    def pass_on(self, until: int, tuples: int) -> Changes:
        """What changes up to a code, where there are so many tuples."""
        if until < self.next_change() or self.next_change() >= INFINITE:
            return _NO_CHANGES
        opening, closing = (queue.rows for queue in self._queues)
        known = len(self.state)
        self.state = filled_room(self.state, tuples, 0)
        self.state[known:, BEFORE] = -1
        some = sum(int(rows[:, 0].searchsorted(until, "right")) for rows in (opening, closing) if len(rows))
        made: Ints = np.empty((4, some), np.int64)
        begun, ended, count = _passed(opening, closing, until, self.state, *made)
        for queue, gone in zip(self._queues, (begun, ended)):
            queue.drop(gone)
        return Changes(made[1, :count], made[2, :count], made[3, :count])

    def next_change(self) -> int:
        """The code at which something may change next; INFINITE: at none."""
        one, other = self._queues
        return min(one.next, other.next)

    @property
    def count(self) -> int:
        """How many rows wait."""
        return sum(len(queue.rows) for queue in self._queues)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return int(self.state.nbytes + sum(queue.nbytes for queue in self._queues))

    def held(self) -> Ints:
        """The tuples that something supports."""
        return np.flatnonzero(self.state[:, COUNT])

    def named(self, known: Ints) -> Arrays:
        """The state, where tuples are these: what is supported, how often; and the queues, a row each: code, tuple."""
        held = self.held()
        found = {"held": np.concatenate([self.state[held, :1], known[held]], axis=1)}
        for name, queue in zip(QUEUES, self._queues):
            found[name] = np.concatenate([queue.rows[:, :1], known[queue.rows[:, 1]]], axis=1)
        return found

    def become(self, held: Ints, counts: Ints, queues: list[tuple[Ints, Ints]]) -> None:
        """Take on a state: tuples by number, how often each is supported; of both queues codes and tuples."""
        self.__init__()  # type: ignore[misc]
        tuples = max((int(each.max()) + 1 for each in (held, *(slots for _, slots in queues)) if len(each)), default=0)
        self.state = filled_room(self.state, tuples, 0)
        self.state[:, BEFORE] = -1
        self.state[held, COUNT] = counts
        for (code, slots), queue in zip(queues, self._queues):
            queue.put(code, slots)


QUEUES = ("opening", "closing")
_NO_CHANGES = no_changes()


class _Queue:
    """Rows (code, tuple), the first first; `next`: its code, INFINITE where there is none."""

    def __init__(self) -> None:
        self._rows: Ints = np.empty((0, 2), np.int64)
        self._first = self._last = 0
        self.next = INFINITE

    @property
    def rows(self) -> Ints:
        return self._rows[self._first : self._last]

    @property
    def nbytes(self) -> int:
        return int(self._rows.nbytes)

    def put(self, code: Ints, slots: Ints) -> None:
        more = len(code)
        if self._last + more > len(self._rows):
            kept = self.rows
            if 2 * (len(kept) + more) > len(self._rows):
                larger: Ints = np.empty((2 * (len(kept) + more), 2), np.int64)
                larger[: len(kept)] = kept
                self._rows = larger
            else:
                self._rows[: len(kept)] = kept.copy()
            self._first, self._last = 0, len(kept)
        self._rows[self._last : self._last + more, 0] = code
        self._rows[self._last : self._last + more, 1] = slots
        self._last += more
        self._look()

    def drop(self, count: int) -> None:
        self._first += count
        self._look()

    def _look(self) -> None:
        self.next = int(self._rows[self._first, 0]) if self._first < self._last else INFINITE
