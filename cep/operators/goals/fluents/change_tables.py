"""Tables of changes: when tuples of a formula begin and end to hold, as occurrences go from goal to goal.

A row is an instant, START (END is when it is known, which is later of a fluent that is decided late), with a column
that says which code of the instant it is and whether the tuple holds from it on (`cep.core.fluents`: BEGINS, ENDS,
BEFORE, BEGINS_AT, ENDS_AT); rows of other kinds are no changes. Of one tuple changes take turns, and no two are at one
code. All changes up to the code that is decided have come; a formula that looks ahead gives its own late.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cep.core.fluents import BEFORE, BEGINS, BEGINS_AT, ENDS, ENDS_AT, FOREVER, SINCE_EVER
from cep.core.interval_sets import FAR, INFINITE
from cep.core.relation import END, FIRST, START, Table, concat, empty, rows
from cep.core.time import END_OF_TIME, Frontier
from cep.operators.goals.contract import Ints
from cep.operators.goals.fluents.changes import stable_order

NOTHING = -INFINITE - 1
"""Decided up to here: nothing."""
_CHANGES = np.isin(np.arange(16), (BEGINS, ENDS, BEFORE, BEGINS_AT, ENDS_AT))
_BEGIN = np.isin(np.arange(16), (BEGINS, BEFORE, BEGINS_AT)).astype(np.int64)
_AFTER = np.isin(np.arange(16), (BEGINS, ENDS)).astype(np.int64)


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
    kinds = table[kind_row]
    chosen = _CHANGES[kinds]
    if not chosen.all():
        table = np.ascontiguousarray(table[:, chosen])
        kinds = table[kind_row]
    code = 2 * table[START] + _AFTER[kinds]
    code[kinds == BEFORE] = -INFINITE
    return table, code, _BEGIN[kinds]


def put_changes(table: Table, kind_row: int, code: Ints, begins: Ints, delay: int = 0) -> None:
    """Write codes and what begins there into a table; it is known `delay` microseconds later."""
    ever = code == -INFINITE
    times = np.where(ever, SINCE_EVER, code >> 1)
    table[START], table[END] = times, times + delay if delay else times
    table[START + 2 : FIRST] = 0
    after = (code & 1) == 1
    kinds = np.where(begins == 1, np.where(after, BEGINS, BEGINS_AT), np.where(after, ENDS, ENDS_AT))
    table[kind_row] = np.where(ever, BEFORE, kinds)


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
        """Of each input the changes that are decided now, sorted by code."""
        until = decided(frontier, self.late)
        found = []
        first = INFINITE
        for number, (table, kind) in enumerate(zip(inputs, self.kinds, strict=True)):
            waiting = self.tables[number]
            if rows(waiting):
                table = concat([waiting, table])
            table, code, begins = changes_in(table, kind)
            if len(code) and int(code.max()) > until:
                ready = code <= until
                self.tables[number] = table[:, ~ready]
                first = min(first, int(code[~ready].min()))
                table, code, begins = table[:, ready], code[ready], begins[ready]
            else:
                self.tables[number] = empty(self.widths[number])
            if not sorted_rows(code):
                order = stable_order(code)
                table, code, begins = table[:, order], code[order], begins[order]
            found.append((np.ascontiguousarray(table), code, begins))
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


def phased(code: Ints, phase: Ints) -> Ints:
    """What sorts changes by code, at one code those of phase 0 before those of 1."""
    return 2 * np.maximum(code, -FAR - 1) + phase
