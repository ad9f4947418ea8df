"""Revisers, which compute the changes of a goal's output from the changes of its input.

A reviser accompanies a goal, and stores the recent input of the goal. `came` records input that arrived in order, which
the goal has already processed. `revise` receives changes of earlier input, together with new input. It returns the
changes of the output, and updates the goal's state. The changes of input and output are tables of changes (see
`cep.operators.goals.keyed_rows`). Tables are bags here: a row may occur several times, and removing one copy leaves the
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
from cep.operators.goals.arrival import as_set, by_arrival
from cep.operators.goals.contract import Arrays, Bools, Goal, Ints
from cep.operators.goals.intrinsics import bare, inside
from cep.operators.goals.keyed_rows import KEY, R_END, ROW, KeyedRows, changes_of, parts_of, signed, words_of
from cep.operators.goals.keys import Keys
from cep.operators.goals.relational import Project

TOGETHER = 1024
"""The maximum number of pairs of rows that arrive together and are compared one by one."""


@dataclass(frozen=True, slots=True)
class Revised:
    """The changes of a goal's output.

    `keys`: the number of keys that have changes of earlier input; 0 for goals without keys.
    """

    changes: Table
    keys: int = 0


class Reviser(Protocol):
    """The protocol of revisers (see the module).

    `remembers`: True if `came` must be called for input that arrives in order.
    """

    remembers: bool

    def begin(self, state: Arrays, frontier: Frontier, length: int) -> None:
        """Start with the goal's state at `frontier`.

        `length`: how far changes of input may reach into the past, in microseconds.
        """
        ...

    def came(self, inputs: Sequence[Table]) -> None:
        """Record input that arrived in order and was processed by the goal."""
        ...

    def revise(self, inputs: Sequence[Table], goal: Goal, since: int, frontier: Frontier) -> Revised:
        """Return the changes of the output that follow from changes of the inputs, up to a frontier.

        `since`: the time that the goal had reached before. Afterwards the goal's state is up to date for every key that
        has changes. For all other keys, the goal's own `step` must still advance it.
        """
        ...

    def forget(self, until: int) -> None:
        """Drop stored rows that end at or before `until`. No change can affect them any more."""
        ...

    def states_at(self, times: Sequence[int]) -> Sequence[Arrays]:
        """Return the states that the goal had at these times, in the form of `needed_arrays`.

        The result is empty if the reviser can do without earlier states.
        """
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
        """See `Reviser`. If an input row is removed or added, so are the output rows that it produces."""
        return Revised(goal.step(inputs, frontier))

    def forget(self, until: int) -> None:
        """Do nothing: there is no state."""

    def states_at(self, times: Sequence[int]) -> Sequence[Arrays]:
        return ()


class RuleReviser(LinearReviser):
    """The reviser of an event whose output is a bag, in which an occurrence is repeated for each of its derivations."""

    def revise(self, inputs: Sequence[Table], goal: Goal, since: int, frontier: Frontier) -> Revised:
        return Revised(cast(Project, goal).every(inputs))


class InputReviser(LinearReviser):
    """The reviser of an event that no rule derives. Its output is a set, in which equal records count once.

    Equal records of one push are added and removed together.
    """

    def revise(self, inputs: Sequence[Table], goal: Goal, since: int, frontier: Frontier) -> Revised:
        return Revised(signed(*(as_set([table]) for table in parts_of(inputs[0]))))


class KeyedReviser:
    """The base class of revisers that store rows by key. `known`: the keys.

    By default, it needs no earlier states of the goal.
    """

    known: Keys
    sides: tuple[KeyedRows, ...]

    def forget(self, until: int) -> None:
        for side in self.sides:
            side.floor = until

    def states_at(self, times: Sequence[int]) -> Sequence[Arrays]:
        return ()

    @property
    def keys(self) -> int:
        return self.known.count

    @property
    def nbytes(self) -> int:
        return sum(side.nbytes for side in self.sides) + self.known.nbytes


class PairReviser(KeyedReviser):
    """The base class of revisers of two inputs. `columns`: the key columns of each input. `words`: the matrix rows that
    identify a row of each input (see `words_of`)."""

    columns: tuple[Ints, Ints]
    words: tuple[Ints, Ints]

    def changes(self, inputs: Sequence[Table]) -> list[Ints]:
        """Return the withdrawn and the added rows of each input (see `changes_of`), sorted by key and row."""
        slots = [self.known.slots(table, columns) for table, columns in zip(inputs, self.columns)]
        for side in self.sides:
            side.know(self.known.count)
        both = zip(inputs, slots, self.words)
        return [changes_of(table, keys, words, self.known.count) for table, keys, words in both]


class SetReviser(KeyedReviser):
    """The reviser of an event whose output is a set.

    It stores each distinct row with the multiplicities and the arrival orders of its derivations.
    """

    remembers = True

    def __init__(self, goal: Project) -> None:
        self.goal, self.width = goal, goal.width
        self.known = Keys(goal.width)
        self.columns = np.arange(goal.width)
        self.rows = KeyedRows(3)
        self.sides = (self.rows,)

    def begin(self, state: Arrays, frontier: Frontier, length: int) -> None:
        """Start without rows."""
        self.rows.length = length

    def came(self, inputs: Sequence[Table]) -> None:
        table = self.goal.every(inputs)
        if rows(table):
            self.rows.change(self._changes(table))

    def revise(self, inputs: Sequence[Table], goal: Goal, since: int, frontier: Frontier) -> Revised:
        """See `Reviser`. Only rows that end at or before `since` can equal a stored row."""
        table = self.goal.every(inputs)
        if not rows(table):
            return Revised(table)
        changes, ahead = self._changes(table), table[END] > since
        late = changes[changes[:, ROW + R_END] <= since]
        keys, ends = instants(late, late[:0])
        was = self._found(keys, ends)
        self.rows.change(changes)
        revised = apart(was, self._found(keys, ends))
        return Revised(concat([revised, as_set([table.compress(ahead, axis=1)])]))

    def _changes(self, table: Table) -> Ints:
        slots = self.known.slots(table, self.columns, groups=True)
        self.rows.know(self.known.count)
        return changes_of(table, slots, words_of(0), self.known.count)

    def _found(self, keys: Ints, ends: Ints) -> Table:
        """Return the occurrences that have one of these keys and end at the corresponding time. Equal occurrences are
        returned once."""
        matched, pairs = self.rows.at(keys, ends, True)
        table = np.zeros((FIRST + self.width, len(matched)), np.int64)
        table[END], table[START], table[ORDER] = matched.T
        table[FIRST:] = self.known.known[keys[pairs]].T
        return as_set([by_arrival(table)])


@bare
def _instants(left, other, keys, ends):  # type: ignore[no-untyped-def]
    """Write the distinct pairs of key and end that occur in two arrays of changes. Return their count."""
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
    """Return the distinct pairs of key and end that occur in two arrays of changes, sorted."""
    keys, ends = np.empty(len(left) + len(other), np.int64), np.empty(len(left) + len(other), np.int64)
    count = _instants(left, other, keys, ends)
    return keys[:count], ends[:count]


@bare
def _unmatched(was, now, ordered, since, once, goes, comes):  # type: ignore[no-untyped-def]
    """Clear the marks `goes` and `comes` of rows that both tables contain. Both tables must be sorted by arrival.

    Equal rows have equal times and equal values in the matrix rows from `since` on. `ordered`: True if they also have
    equal order numbers. `once`: True if a row matches all equal rows of the other table; False if it matches one.

    Return False if too many rows arrive together to compare each with each.
    """
    i = j = 0
    while i < was.shape[1] and j < now.shape[1]:
        turn = _turn(was, i, now, j, ordered)
        if turn:
            i += turn < 0
            j += turn > 0
            continue
        last, its_last = i + 1, j + 1
        while last < was.shape[1] and _turn(was, last, now, j, ordered) == 0:
            last += 1
        while its_last < now.shape[1] and _turn(was, i, now, its_last, ordered) == 0:
            its_last += 1
        if (last - i) * (its_last - j) > TOGETHER:
            return False
        for row in range(i, last):
            for other in range(j, its_last):
                if (once or comes[other]) and _equal(was, row, now, other, since):
                    goes[row] = comes[other] = False
                    if not once:
                        break
        i, j = last, its_last
    return True


@inside
def _turn(left, i, other, j, ordered):  # type: ignore[no-untyped-def]
    """Compare the arrival of row `i` of `left` with that of row `j` of `other`. Return -1 if it is earlier, 1 if later,
    else 0. `ordered`: True to compare order numbers, too."""
    for word in (END, START, ORDER):
        if left[word, i] != other[word, j] and (ordered or word != ORDER):
            return -1 if left[word, i] < other[word, j] else 1
    return 0


@inside
def _equal(left, i, other, j, since):  # type: ignore[no-untyped-def]
    for word in range(since, left.shape[0]):
        if left[word, i] != other[word, j]:
            return False
    return True


def unmatched(
    was: Table, now: Table, ordered: bool = True, since: int = FIRST, once: bool = False
) -> tuple[Bools, Bools] | None:
    """Return masks of the rows that only one of two tables contains. Both tables must be sorted by arrival.

    The other arguments are those of `_unmatched`. Return None if too many rows arrive together to compare each with
    each.
    """
    goes, comes = np.ones(rows(was), np.bool_), np.ones(rows(now), np.bool_)
    return (goes, comes) if _unmatched(was, now, ordered, since, once, goes, comes) else None


def apart(was: Table, now: Table) -> Table:
    """Return the changes that turn the table `was` into the table `now`."""
    if not rows(was) or not rows(now):
        return signed(was, now)
    was, now = contiguous(by_arrival(was)), contiguous(by_arrival(now))
    goes, comes = differing(was, now)
    return signed(was.compress(goes, axis=1), now.compress(comes, axis=1))


def differing(was: Table, now: Table) -> tuple[Bools, Bools]:
    """Return masks of the rows that only one of two tables contains. Both tables must be sorted by arrival."""
    if (masks := unmatched(was, now)) is not None:
        return masks
    words = [row for row in range(len(was)) if row != IDENTITY]
    kinds = KeySet(len(words))
    was_kinds, _ = kinds.insert(np.ascontiguousarray(was[words].T))
    other, _ = kinds.insert(np.ascontiguousarray(now[words].T))
    both = np.minimum(np.bincount(was_kinds, minlength=kinds.count), np.bincount(other, minlength=kinds.count))
    return _beyond(was_kinds, both), _beyond(other, both)


def _beyond(kinds: Ints, both: Ints) -> Bools:
    """Return a mask that is False for the first `both[kind]` rows of each kind. `kinds`: the kind of each row."""
    order = np.argsort(kinds, kind="stable")
    ordered = kinds[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    rank = np.empty(len(kinds), np.int64)
    rank[order] = np.arange(len(kinds)) - np.repeat(first, np.diff(first, append=len(kinds)))
    beyond: Bools = rank >= both[kinds]
    return beyond


def differing_keys(before: tuple[Ints, Ints], other: tuple[Ints, Ints], count: int) -> Bools:
    """Return a mask of the keys whose rows differ between two states.

    A state is an array with the key of each row, and an array of the rows. `count`: the number of keys.
    """
    differing = np.zeros(count, np.bool_)
    (mine, left), (theirs, right) = before, other
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    _find_differing(mine, stable_order(mine), left, theirs, stable_order(theirs), right, differing)
    return differing


@bare
def _find_differing(mine, order, left, theirs, their_order, right, differing):  # type: ignore[no-untyped-def]
    """Write True into `differing` for each key whose rows differ between two states.

    `mine`, `theirs`: the keys of the rows in each state. `order`, `their_order`: the rows, sorted by key.
    """
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
    """Concatenate tables that have `width` arguments."""
    filled = [table for table in tables if rows(table)]
    return concat(filled) if filled else empty(width)
