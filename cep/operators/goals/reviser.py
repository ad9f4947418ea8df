"""Revisers: they compute the changes of an operator's output from the changes of its input.

A reviser accompanies a goal, and keeps the goal's input within a window of time. `came` records input that arrived in
order, which the goal has already processed. `revise` receives changes of earlier input, together with new input. It
returns the changes of the output, and updates the goal's state. Changes are tables of changes
(`cep.operators.goals.keyed_rows`). Tables are bags here: a row may occur several times, and removing one leaves the
others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from cep.core.hashtable import KeySet
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, concat, contiguous, empty, rows
from cep.core.stable_order import stable_order
from cep.core.time import Frontier
from cep.operators.goals.arrival import as_set, by_arrival, first_of_equal
from cep.operators.goals.contract import Arrays, Bools, Goal, Ints
from cep.operators.goals.intrinsics import bare, inside
from cep.operators.goals.keyed_rows import KEY, ROW, KeyedRows, changes_of, parts_of, signed, words_of
from cep.operators.goals.keys import Keys
from cep.operators.goals.relational import Project

TOGETHER = 1024
"""Rows that arrive together are compared with each other if they form at most this many pairs."""


@dataclass(frozen=True, slots=True)
class Revised:
    """The changes of a goal's output. `keys`: the number of keys with changes of earlier input; 0 for goals without
    keys."""

    changes: Table
    keys: int = 0


class Reviser(Protocol):
    """The protocol of revisers, see the module. `remembers`: input that arrives in order must be passed to `came`."""

    remembers: bool

    def begin(self, state: Arrays, frontier: Frontier, length: int) -> None:
        """Begin with the goal's state at `frontier`. `length`: how far back changes may reach, in microseconds."""
        ...

    def came(self, inputs: Sequence[Table]) -> None:
        """Record input that arrived in order and that the goal has processed."""
        ...

    def revise(self, inputs: Sequence[Table], goal: Goal, since: int, frontier: Frontier) -> Revised:
        """Return the changes that follow from the inputs' changes, up to a frontier. `since`: the time reached before.

        Afterwards the goal's state is current for every key with changes. For other keys, the goal itself computes what
        time changes.
        """
        ...

    def forget(self, until: int) -> None:
        """Drop what is kept up to a time: no change can reach it any more."""
        ...

    def states_at(self, times: Sequence[int]) -> Sequence[Arrays]:
        """Return the states of the goal at these times, as `needed_arrays` does. Empty if no state is needed."""
        ...

    @property
    def keys(self) -> int:
        """The number of known keys, including keys without rows."""
        ...

    @property
    def nbytes(self) -> int: ...


class LinearReviser:
    """A reviser for stateless operators: each output row depends on one input row."""

    remembers = False
    keys = nbytes = 0

    def begin(self, state: Arrays, frontier: Frontier, length: int) -> None:
        """Do nothing: there is no state."""

    def came(self, inputs: Sequence[Table]) -> None:
        """Do nothing: the reviser needs no input."""

    def revise(self, inputs: Sequence[Table], goal: Goal, since: int, frontier: Frontier) -> Revised:
        """See `Reviser`. The results of a row are removed and added with it."""
        return Revised(goal.step(inputs, frontier))

    def forget(self, until: int) -> None:
        """Do nothing: there is no state."""

    def states_at(self, times: Sequence[int]) -> Sequence[Arrays]:
        """Return no states."""
        return ()


class RuleReviser(LinearReviser):
    """The reviser of an event whose occurrences are a bag: one for each derivation."""

    def revise(self, inputs: Sequence[Table], goal: Goal, since: int, frontier: Frontier) -> Revised:
        """See `Reviser`."""
        return Revised(cast(Project, goal).every(inputs))


class InputReviser(LinearReviser):
    """The reviser of an event that no rule derives. Its occurrences are a set.

    Equal records count once. Equal records of one push are added and removed together.
    """

    def revise(self, inputs: Sequence[Table], goal: Goal, since: int, frontier: Frontier) -> Revised:
        """See `Reviser`."""
        return Revised(signed(*(first_of_equal(by_arrival(table)) for table in parts_of(inputs[0]))))


class KeyedReviser:
    """A reviser that keeps rows of `known` keys in one or more stores, and by default needs no states."""

    known: Keys
    sides: tuple[KeyedRows, ...]

    def forget(self, until: int) -> None:
        """See `Reviser`."""
        for side in self.sides:
            side.floor = until

    def states_at(self, times: Sequence[int]) -> Sequence[Arrays]:
        """Return no states."""
        return ()

    @property
    def keys(self) -> int:
        """See `Reviser`."""
        return self.known.count

    @property
    def nbytes(self) -> int:
        """See `Reviser`."""
        return sum(side.nbytes for side in self.sides) + self.known.nbytes


class SetReviser(KeyedReviser):
    """The reviser of an event whose occurrences are a set.

    It keeps the distinct rows, each with the multiplicities and the arrival orders of its derivations.
    """

    remembers = True

    def __init__(self, goal: Project) -> None:
        self.goal, self.width = goal, goal.width
        self.known = Keys(goal.width)
        self.columns = np.arange(goal.width)
        self.rows = KeyedRows(3)
        self.sides = (self.rows,)

    def begin(self, state: Arrays, frontier: Frontier, length: int) -> None:
        """Begin without rows."""
        self.rows.length = length

    def came(self, inputs: Sequence[Table]) -> None:
        """See `Reviser`."""
        table = self.goal.every(inputs)
        if rows(table):
            self.rows.change(self._changes(table))

    def revise(self, inputs: Sequence[Table], goal: Goal, since: int, frontier: Frontier) -> Revised:
        """See `Reviser`."""
        table = self.goal.every(inputs)
        if not rows(table):
            return Revised(table)
        changes = self._changes(table)
        keys, ends = instants(changes, changes[:0])
        was = self._found(keys, ends)
        self.rows.change(changes)
        return Revised(apart(was, self._found(keys, ends)))

    def _changes(self, table: Table) -> Ints:
        slots = self.known.slots(table, self.columns, groups=True)
        self.rows.know(self.known.count)
        return changes_of(table, slots, words_of(0), self.known.count)

    def _found(self, keys: Ints, ends: Ints) -> Table:
        """Return the occurrences of these keys with these ends, each once."""
        matched, pairs = self.rows.at(keys, ends, True)
        table = np.zeros((FIRST + self.width, len(matched)), np.int64)
        table[END], table[START], table[ORDER] = matched.T
        table[FIRST:] = self.known.known[keys[pairs]].T
        return as_set([by_arrival(table)])


@bare
def _instants(left, other, keys, ends):  # type: ignore[no-untyped-def]
    """Write the distinct pairs of key and end in two lists of changes. Return their count."""
    i = j = count = 0
    while i < left.shape[0] or j < other.shape[0]:
        first = j == other.shape[0]
        if i < left.shape[0] and not first:
            first = left[i, KEY] < other[j, KEY] or (left[i, KEY] == other[j, KEY] and left[i, ROW] <= other[j, ROW])
        key = left[i, KEY] if first else other[j, KEY]
        end = left[i, ROW] if first else other[j, ROW]
        if count == 0 or keys[count - 1] != key or ends[count - 1] != end:
            keys[count], ends[count] = key, end
            count += 1
        i += first
        j += not first
    return count


def instants(left: Ints, other: Ints) -> tuple[Ints, Ints]:
    """Return the distinct pairs of key and end in two lists of changes, sorted."""
    keys, ends = np.empty(len(left) + len(other), np.int64), np.empty(len(left) + len(other), np.int64)
    count = _instants(left, other, keys, ends)
    return keys[:count], ends[:count]


@bare
def _unmatched(was, now, goes, comes):  # type: ignore[no-untyped-def]
    """Clear the marks of rows that both tables contain. Both tables are sorted by arrival.

    Returns False if too many rows arrive together to compare each with each.
    """
    i = j = 0
    while i < was.shape[1] and j < now.shape[1]:
        turn = _turn(was, i, now, j)
        if turn:
            i += turn < 0
            j += turn > 0
            continue
        last, its_last = i + 1, j + 1
        while last < was.shape[1] and _turn(was, last, now, j) == 0:
            last += 1
        while its_last < now.shape[1] and _turn(was, i, now, its_last) == 0:
            its_last += 1
        if (last - i) * (its_last - j) > TOGETHER:
            return False
        for row in range(i, last):
            for other in range(j, its_last):
                if comes[other] and _equal(was, row, now, other):
                    goes[row] = comes[other] = False
                    break
        i, j = last, its_last
    return True


@inside
def _turn(left, i, other, j):  # type: ignore[no-untyped-def]
    """Return -1 if the row of the first table arrives before that of the second, 1 if after it, and 0 if neither."""
    for word in (END, START, ORDER):
        if left[word, i] != other[word, j]:
            return -1 if left[word, i] < other[word, j] else 1
    return 0


@inside
def _equal(left, i, other, j):  # type: ignore[no-untyped-def]
    """Return True if two rows have the same arguments."""
    for word in range(FIRST, left.shape[0]):
        if left[word, i] != other[word, j]:
            return False
    return True


def apart(was: Table, now: Table) -> Table:
    """Return the changes that turn one table into the other."""
    if not rows(was) or not rows(now):
        return signed(was, now)
    was, now = contiguous(by_arrival(was)), contiguous(by_arrival(now))
    goes, comes = np.ones(rows(was), np.bool_), np.ones(rows(now), np.bool_)
    if _unmatched(was, now, goes, comes):
        return signed(was.compress(goes, axis=1), now.compress(comes, axis=1))
    words = [row for row in range(len(was)) if row != IDENTITY]
    kinds = KeySet(len(words))
    was_kinds, _ = kinds.insert(np.ascontiguousarray(was[words].T))
    other, _ = kinds.insert(np.ascontiguousarray(now[words].T))
    both = np.minimum(np.bincount(was_kinds, minlength=kinds.count), np.bincount(other, minlength=kinds.count))
    return signed(_beyond(was, was_kinds, both), _beyond(now, other, both))


def _beyond(table: Table, kinds: Ints, both: Ints) -> Table:
    """Drop the first `both[kind]` rows of each kind. Equal rows are of one kind; `kinds` holds the kind of each row."""
    order = np.argsort(kinds, kind="stable")
    ordered = kinds[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    rank = np.empty(len(kinds), np.int64)
    rank[order] = np.arange(len(kinds)) - np.repeat(first, np.diff(first, append=len(kinds)))
    return table.compress(rank >= both[kinds], axis=1)


def differing_keys(before: tuple[Ints, Ints], other: tuple[Ints, Ints], count: int) -> Bools:
    """Return a mask of the keys whose rows differ between two states. Both are (key of each row, rows)."""
    differing = np.zeros(count, np.bool_)
    (mine, left), (theirs, right) = before, other
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    _find_differing(mine, stable_order(mine), left, theirs, stable_order(theirs), right, differing)
    return differing


@bare
def _find_differing(mine, order, left, theirs, their_order, right, differing):  # type: ignore[no-untyped-def]
    """Mark the keys whose rows differ. The orders sort the rows of both states by key."""
    i = j = 0
    while i < len(order) or j < len(their_order):
        if j == len(their_order) or (i < len(order) and mine[order[i]] < theirs[their_order[j]]):
            key, same_row, i = mine[order[i]], False, i + 1
        elif i == len(order) or mine[order[i]] > theirs[their_order[j]]:
            key, same_row, j = theirs[their_order[j]], False, j + 1
        else:
            key, same_row = mine[order[i]], True
            for word in range(left.shape[1]):
                same_row &= left[order[i], word] == right[their_order[j], word]
            i, j = i + 1, j + 1
        if key >= 0 and not same_row:
            differing[key] = True


def concatenated(width: int, tables: Sequence[Table]) -> Table:
    """Concatenate tables with `width` arguments."""
    filled = [table for table in tables if rows(table)]
    return concat(filled) if filled else empty(width)
