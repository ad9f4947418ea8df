"""Heads of rules, which compute the arguments of derived occurrences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cep.core.relation import END, FIRST, START, Column, Table, bits, column, rows
from cep.core.schema import CODED
from cep.rules.expressions.evaluate import Columns, Evaluation


def others(keys: Sequence[tuple[int, str]], types: Sequence[str]) -> list[str]:
    """Return the types of the key columns that need conversion. Their converted versions are appended to the table."""
    return [type for column, type in keys if types[column] != type]


def codes_of(types: Sequence[str]) -> tuple[int, ...]:
    return tuple(i for i, type in enumerate(types) if type in CODED)


def columns_of(table: Table, types: Sequence[str], times: bool = False, lasting: bool = True) -> Columns:
    """Return the columns of a table by their canonical names (`v0`, `v1`, ...).

    `times`: True to include the start and the end. `lasting`: True to include the duration too.
    """
    named = {f"v{i}": column(table, i, type) for i, type in enumerate(types)}
    if times:
        named |= {"start()": table[START], "end()": table[END]}
        if lasting:
            named["duration()"] = table[END] - table[START]
    return named


def project(table: Table, types: Sequence[str], evaluations: Sequence[Evaluation]) -> Table:
    """Return the occurrences of a table with new arguments. Each evaluation computes one of the new arguments."""
    projected = np.empty((FIRST + len(evaluations), rows(table)), np.int64)
    projected[:FIRST] = table[:FIRST]
    named = columns_of(table, types, True, lasting=False)
    for i, evaluate in enumerate(evaluations):
        projected[FIRST + i] = bits(evaluate(named, rows(table)))
    return projected


class Head:
    """The head of a rule.

    - `types`: the types of the columns that the head reads.
    - `evaluations`: an evaluation for each argument.
    - `columns`: for each argument, the column that it copies, or None if the argument is a constant. If any argument
      must be computed, `columns` is None.
    """

    def __init__(
        self, types: Sequence[str], evaluations: Sequence[Evaluation], columns: Sequence[int | None] | None
    ) -> None:
        self.types, self.evaluations, self.columns = types, evaluations, columns
        self.whole = columns is not None and list(columns) == list(range(len(types)))
        if columns is not None:
            self.rows = np.array([*range(FIRST), *(START if c is None else FIRST + c for c in columns)], np.int64)
            places = [place for place, column in enumerate(columns) if column is None]
            self.constants = [(FIRST + place, int(bits(evaluations[place]({}, 1))[0])) for place in places]

    def of_family(self) -> Head:
        """Return this head for a family of goals (see `cep.operators.goals.in_family`). The new head
        also copies the column that says to which goal of the family a row belongs."""
        member = len(self.types)

        def evaluate(columns: Columns, count: int) -> Column:
            return columns[f"v{member}"]

        columns = None if self.columns is None else [*self.columns, member]
        return Head([*self.types, "int"], [*self.evaluations, evaluate], columns)

    def __call__(self, table: Table) -> Table:
        if self.whole:
            return table
        if self.columns is None:
            return project(table, self.types, self.evaluations)
        projected: Table = table.take(self.rows, axis=0)
        for row, value in self.constants:
            projected[row] = value
        return projected
