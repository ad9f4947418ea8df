"""Heads of rules: compute the arguments of derived occurrences from a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cep.core.relation import END, FIRST, START, Column, Table, bits, column, rows
from cep.core.schema import CODED
from cep.rules.expressions.evaluate import Columns, Evaluation


def others(keys: Sequence[tuple[int, str]], types: Sequence[str]) -> list[str]:
    """Return the types of the converted key columns, which are appended to the table."""
    return [type for column, type in keys if types[column] != type]


def codes_of(types: Sequence[str]) -> tuple[int, ...]:
    return tuple(i for i, type in enumerate(types) if type in CODED)


def columns_of(table: Table, types: Sequence[str], times: bool = False, lasting: bool = True) -> Columns:
    """Return a table's columns by canonical name. `times`: include start and end; `lasting`: include the duration
    too."""
    named = {f"v{i}": column(table, i, type) for i, type in enumerate(types)}
    if times:
        named |= {"start()": table[START], "end()": table[END]}
        if lasting:
            named["duration()"] = table[END] - table[START]
    return named


def project(table: Table, types: Sequence[str], evaluations: Sequence[Evaluation]) -> Table:
    """Return the same occurrences with other arguments, one per evaluation."""
    projected = np.empty((FIRST + len(evaluations), rows(table)), np.int64)
    projected[:FIRST] = table[:FIRST]
    named = columns_of(table, types)
    for i, evaluate in enumerate(evaluations):
        projected[FIRST + i] = bits(evaluate(named, rows(table)))
    return projected


class Head:
    """The head of a rule, over a table with columns of these `types`: an evaluation for each argument.

    `columns`: if every argument is a column or a constant, the column of each (None: a constant); otherwise None.
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
        """Return the head of a family (`cep.operators.goals.in_family`), which also passes on the member."""
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
