"""How an operator revises: from what changes in what it takes follows what changes in what it gives.

A reviser stands beside a goal, with what the goal took in a window of time. `came` tells it what the goal takes as time
goes on, which the goal has made its output of. `revise` tells it what comes into what was taken, and goes out of it; it
gives what comes into the output and goes out of it, and puts the goal's state right. Tables are bags here: a row may be
there more than once, and where one of several goes, the others stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cep.core.hashtable import KeySet
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, concat, contiguous, empty, rows
from cep.core.time import Frontier
from cep.operators.goals.arrival import as_set, by_arrival
from cep.operators.goals.contract import Arrays, Goal, Ints
from cep.operators.goals.keyed_rows import COMES, GOES, KEY, ROW, KeyedRows, as_rows, changes_of
from cep.operators.goals.keys import Keys
from cep.operators.goals.relational import Project


@dataclass(frozen=True, slots=True)
class Changed:
    """What goes out of a table, and what comes in. `keys`: how many keys that was done for, of operators that have
    some."""

    going: Table
    coming: Table
    keys: int = 0

    def __bool__(self) -> bool:
        return bool(rows(self.going) or rows(self.coming))


class Reviser(Protocol):
    """See the module. `remembers`: whether it is to be told what comes in order."""

    remembers: bool

    def begin(self, state: Arrays, frontier: Frontier) -> None:
        """Nothing has come since the goal had this state, when time had come to `frontier`."""
        ...

    def came(self, inputs: Sequence[Table]) -> None:
        """That has come in order, and the goal has taken it."""
        ...

    def revise(self, inputs: Sequence[Changed], goal: Goal, frontier: Frontier) -> Changed:
        """What follows from changes before a frontier. The goal's state is then that of now."""
        ...

    def forget(self, until: int) -> None:
        """Nothing at or before a time changes any more."""
        ...

    def states_at(self, times: Sequence[int]) -> Sequence[Arrays]:
        """The states of the goal when time had come to each of these, as `needed_arrays` gives them; none at all:
        whatever they were, nothing of them is needed."""
        ...

    @property
    def keys(self) -> int:
        """How many keys are known, of which there may be nothing any more."""
        ...

    @property
    def nbytes(self) -> int: ...


class LinearReviser:
    """Of a goal without memory that makes of each row what it makes of it, whatever others there are."""

    remembers = False
    keys = nbytes = 0

    def begin(self, state: Arrays, frontier: Frontier) -> None:
        """There is none."""

    def came(self, inputs: Sequence[Table]) -> None:
        """It is not asked for."""

    def revise(self, inputs: Sequence[Changed], goal: Goal, frontier: Frontier) -> Changed:
        """See `Reviser`."""
        going, coming = [each.going for each in inputs], [each.coming for each in inputs]
        return Changed(goal.step(going, frontier), goal.step(coming, frontier))

    def forget(self, until: int) -> None:
        """Nothing is kept."""

    def states_at(self, times: Sequence[int]) -> Sequence[Arrays]:
        """There are none."""
        return ()


class SetReviser:
    """Of an event whose occurrences are a set: rows are kept by what they are, each with the times and the order of
    arrival of all that are it."""

    remembers = True

    def __init__(self, goal: Project) -> None:
        self.width = goal.width
        self.known = Keys(goal.width)
        self.columns = np.arange(goal.width)
        self.rows = KeyedRows(3)
        self.bag = goal.as_bag()

    def begin(self, state: Arrays, frontier: Frontier) -> None:
        """There is none."""

    def came(self, inputs: Sequence[Table]) -> None:
        """See `Reviser`."""
        table = self.bag.step(inputs, Frontier.at(0))
        if rows(table):
            self.rows.change(self._changes([(table, COMES)]))

    def revise(self, inputs: Sequence[Changed], goal: Goal, frontier: Frontier) -> Changed:
        """See `Reviser`."""
        going = self.bag.step([each.going for each in inputs], frontier)
        coming = self.bag.step([each.coming for each in inputs], frontier)
        if not rows(going) and not rows(coming):
            return Changed(going, coming)
        changes = self._changes([(going, GOES), (coming, COMES)])
        keys, ends = instants(changes)
        was = self._found(keys, ends)
        self.rows.change(changes)
        return apart(was, self._found(keys, ends))

    def _changes(self, parts: Sequence[tuple[Table, int]]) -> Ints:
        made = [(self.known.slots(table, self.columns, True, True), as_rows(table)[:3], sign) for table, sign in parts]
        self.rows.know(self.known.count)
        return changes_of(made)

    def _found(self, keys: Ints, ends: Ints) -> Table:
        """The occurrences of these that have these ends, each once."""
        found, pairs = self.rows.at(keys, ends, True)
        table = np.zeros((FIRST + self.width, len(found)), np.int64)
        table[END], table[START], table[ORDER] = found.T
        table[FIRST:] = self.known.known[keys[pairs]].T
        return as_set([by_arrival(table)])

    def forget(self, until: int) -> None:
        """See `Reviser`."""
        self.rows.floor = until

    def states_at(self, times: Sequence[int]) -> Sequence[Arrays]:
        """There are none."""
        return ()

    @property
    def keys(self) -> int:
        """See `Reviser`."""
        return self.known.count

    @property
    def nbytes(self) -> int:
        """See `Reviser`."""
        return self.rows.nbytes + self.known.nbytes


def instants(changes: Ints) -> tuple[Ints, Ints]:
    """The keys of changes with the ends at which they have some, each once."""
    pairs = changes[:, [KEY, ROW]]
    first = np.ones(len(pairs), np.bool_)
    first[1:] = (pairs[1:] != pairs[:-1]).any(axis=1)
    pairs = pairs[first]
    return np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])


def apart(was: Table, now: Table, keys: int = 0) -> Changed:
    """What goes and what comes where the one table becomes the other."""
    if not rows(was) or not rows(now):
        return Changed(was, now, keys)
    words = [row for row in range(len(was)) if row != IDENTITY]
    kinds = KeySet(len(words))
    one, _ = kinds.insert(np.ascontiguousarray(was[words].T))
    other, _ = kinds.insert(np.ascontiguousarray(now[words].T))
    both = np.minimum(np.bincount(one, minlength=kinds.count), np.bincount(other, minlength=kinds.count))
    return Changed(_beyond(was, one, both), _beyond(now, other, both), keys)


def _beyond(table: Table, kinds: Ints, both: Ints) -> Table:
    """Of each kind of rows those behind so many."""
    order = np.argsort(kinds, kind="stable")
    ordered = kinds[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    rank = np.empty(len(kinds), np.int64)
    rank[order] = np.arange(len(kinds)) - np.repeat(first, np.diff(first, append=len(kinds)))
    return contiguous(table[:, rank >= both[kinds]])


def no_change(width: int) -> Changed:
    """Nothing of tables of so many arguments."""
    return Changed(empty(width), empty(width))


def concatenated(width: int, tables: Sequence[Table]) -> Table:
    """Tables one after the other, of so many arguments."""
    found = [table for table in tables if rows(table)]
    return concat(found) if found else empty(width)
