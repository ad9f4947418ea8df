"""Tables of changes: when tuples of a formula begin and end to hold, as occurrences go from goal to goal.

A row is an instant, START (END is when it is known, which is later of a fluent that is decided late), with a column
that says which code of the instant it is and whether the tuple holds from it on (`cep.core.fluents`: BEGINS, ENDS,
BEFORE, BEGINS_AT, ENDS_AT); rows of other kinds are no changes. Of one tuple changes take turns, and no two are at one
code. All changes up to the code that is decided have come; a formula that looks ahead gives its own late.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from cep.core.fluents import BEFORE, BEGINS, BEGINS_AT, ENDS, ENDS_AT, FOREVER, KINDS, SINCE_EVER
from cep.core.interval_sets import FAR, INFINITE
from cep.core.kernels import njit
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, concat, contiguous, empty, rows
from cep.core.time import END_OF_TIME, Frontier
from cep.operators.goals.arrival import take
from cep.operators.goals.contract import Ints
from cep.operators.goals.state_tables import StateTable, tuples_of

NOTHING = -INFINITE - 1
"""Decided up to here: nothing."""
_NONE: Ints = np.empty(0, np.int64)
_LATER, _BEGIN, _CHANGE, _EVER = 1, 2, 4, 8
"""Of a kind of rows: from just after the instant on; it begins; it is a change at all; from before all time on."""
_CHANGES = np.zeros(KINDS, np.int64)
_CHANGES[[BEGINS, BEGINS_AT, ENDS, ENDS_AT]] = _CHANGE
_CHANGES[[BEGINS, BEGINS_AT]] |= _BEGIN
_CHANGES[[BEGINS, ENDS]] |= _LATER
_CHANGES[BEFORE] = _CHANGE | _BEGIN | _EVER


def decided(frontier: Frontier, late: int) -> int:
    """Up to which code all is decided that is given so late."""
    if frontier.watermark >= END_OF_TIME:
        return INFINITE
    return NOTHING if late >= FOREVER else max(2 * (frontier.watermark - late) + 1 - frontier.half, -FAR)


def due(code: int, late: int) -> int:
    """When a code is decided, of what is given so late."""
    if late >= FOREVER or code >= INFINITE:
        return END_OF_TIME
    return max(code, -FAR) // 2 + late


def delay_of(late: int) -> int:
    """How much later than its time a change is known, that is given so late; of what is known at the end of the input
    alone the rows have their own times."""
    return 0 if late >= FOREVER else late


def changes_in(table: Table, kind_row: int) -> tuple[Table, Ints, Ints]:
    """The changes of a table, their codes, and whether the tuple holds from there on."""
    places, code, begins, _ = _changes(table, kind_row)
    return (table if len(code) == rows(table) else take(contiguous(table), places)), code, begins


def _changes(table: Table, kind_row: int) -> tuple[Ints, Ints, Ints, int]:
    """Where the changes of a table are, their codes, whether the tuple holds from there on, and the last code; NOTHING
    without any."""
    made = np.empty((3, rows(table)), np.int64)
    count, last = _codes(contiguous(table), kind_row, _CHANGES, made)
    if count == made.shape[1]:
        return made[0], made[1], made[2], last
    return made[0, :count], made[1, :count], made[2, :count], last


@njit()
def _codes(table, kind_row, kinds, made):  # type: ignore[no-untyped-def]
    """Places, codes and beginnings of the changes among the rows, which are as many at most; gives how many, and the
    last code. No row is written before as many were read."""
    count, last = 0, NOTHING
    for i in range(table.shape[1]):
        change = kinds[table[kind_row, i]]
        made[0, count] = i
        made[1, count] = -INFINITE if change & _EVER else 2 * table[START, i] + (change & _LATER)
        made[2, count] = change >> 1 & 1
        last = max(last, made[1, count] if change & _CHANGE else NOTHING)
        count += change >> 2 & 1
    return count, last


@njit()
def _arguments(table, places):  # type: ignore[no-untyped-def]
    """A table with the arguments of these rows, and nothing else."""
    made = np.empty((table.shape[0], len(places)), np.int64)
    for row in range(FIRST, table.shape[0]):
        for i in range(len(places)):
            made[row, i] = table[row, places[i]]
    return made


def put_changes(table: Table, kind_row: int, code: Ints, begins: Ints, delay: int = 0) -> None:
    """Write codes and what begins there into a table; it is known `delay` microseconds later."""
    _put(table, kind_row, code, begins, delay)


@njit()
def _put(table, kind_row, code, begins, delay):  # type: ignore[no-untyped-def]
    """A row of `code` for each of the table."""
    for i in range(table.shape[1]):
        at = code[i]
        later = at & 1
        time = at >> 1
        kind = (BEGINS if later else BEGINS_AT) if begins[i] == 1 else (ENDS if later else ENDS_AT)
        if at == -INFINITE:
            time, kind = SINCE_EVER, BEFORE
        table[START, i], table[END, i] = time, time + delay
        table[ORDER, i] = table[IDENTITY, i] = 0
        table[kind_row, i] = kind


@njit()
def put_tuples(table, first, known, keys, column):  # type: ignore[no-untyped-def]
    """Into the columns from `first` on those of the tuples of these numbers, from `column` on: a key for each row of
    the table."""
    for at in range(column, known.shape[1]):
        for i in range(len(keys)):
            table[first + at - column, i] = known[keys[i], at]


def waiting_table(
    name: str, width: int, kind: int, codes: Iterable[int], input: int = 0, columns: Sequence[int] | None = None
) -> StateTable:
    """The table of the changes of an input that wait (`PendingChanges.state`): a time, then its columns, of which those
    of pool codes are `codes`. `columns`: their numbers in the input, where some of it is left out; of what says what a
    change is no key is made."""
    keyed = tuples_of(name, range(width) if columns is None else columns, input, first=1)
    return StateTable(
        width=1 + width, keyed=keyed, codes=tuple(1 + column for column in codes), ranges={1 + kind: (0, KINDS)}
    )


class PendingChanges:
    """The inputs of a goal of formulas, of which some may be decided later than others: what is decided in all of them
    goes on, and the rest waits.

    `widths`: their argument columns; `kinds`: which of these says what a change is; `lates`: how late each is given.
    """

    def __init__(self, widths: Sequence[int], kinds: Sequence[int], lates: Sequence[int]) -> None:
        self.widths = tuple(widths)
        self.kinds = tuple(FIRST + kind for kind in kinds)
        self.late = max(lates)
        self.tables: list[Table] = []
        self.clear()

    def clear(self) -> None:
        self.tables = [empty(width) for width in self.widths]
        self._first: int | None = None

    def take(self, inputs: Sequence[Table], frontier: Frontier) -> list[tuple[Table, Ints, Ints]]:
        """Of each input the changes that are decided now, in order of arrival, so almost in that of their codes: the
        arguments (of the tables nothing else counts), codes, and what begins."""
        until = decided(frontier, self.late)
        found = []
        first = INFINITE
        for number, (table, kind) in enumerate(zip(inputs, self.kinds, strict=True)):
            waiting = self.tables[number]
            if rows(waiting):
                table = concat([waiting, table])
                self.tables[number] = empty(self.widths[number])
            elif not rows(table):
                found.append((table, _NONE, _NONE))
                continue
            table = contiguous(table)
            places, code, begins, last = _changes(table, kind)
            if last > until:
                ready = code <= until
                self.tables[number] = table[:, places[~ready]]
                first = min(first, int(code[~ready].min()))
                places, code, begins = places[ready], code[ready], begins[ready]
            if len(code) < rows(table):
                table = _arguments(table, places)
            found.append((table, code, begins))
        self._first = None if first == INFINITE else first
        return found

    def due(self) -> int | None:
        """When what waits first is decided."""
        return None if self._first is None else due(self._first, self.late)

    def become(self, tables: Sequence[Ints]) -> None:
        """Wait with these, a row each: its time, then its columns."""
        self.clear()
        for number, table in enumerate(tables):
            made = np.zeros((FIRST + self.widths[number], len(table)), np.int64)
            made[START] = made[END] = table[:, 0]
            made[FIRST:] = table[:, 1:].T
            self.tables[number] = made
            if len(table):
                code = int(changes_in(made, self.kinds[number])[1].min())
                self._first = code if self._first is None else min(self._first, code)

    def state(self) -> list[Ints]:
        """What waits, a row each."""
        return [np.concatenate([table[[START]], table[FIRST:]]).T for table in self.tables]

    @property
    def count(self) -> int:
        return sum(rows(table) for table in self.tables)


def sorted_rows(code: NDArray[np.int64]) -> bool:
    """Whether codes go up already."""
    return len(code) < 2 or bool((code[1:] >= code[:-1]).all())
