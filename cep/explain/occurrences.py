"""What an engine remembers, one occurrence at a time: for questions of people, not for running."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, concat, empty
from cep.core.schema import Schema
from cep.core.values import MISSING, Ints, Pool
from cep.engine import Engine
from cep.events import Iri, Value
from cep.operators.goals.lineage import DERIVED
from cep.operators.goals.sorted_runs import found, holds
from cep.runtime.decode import values

LATEST = 2**62
"""Nothing ends later."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An occurrence of an event, its closed interval in microseconds. `order`: of an input record its number in the
    input, else that of the one that completed it. `name`: what lineage calls it."""

    event: str
    args: tuple[Value, ...]
    start: int
    end: int
    order: int = field(default=-1, compare=False)
    name: int = field(default=0, compare=False)


class Memory:
    """The occurrences that an engine with `remember` holds at this moment. Not to be asked while the engine steps."""

    def __init__(self, engine: Engine) -> None:
        assert engine.history is not None and engine.history.remember is not None, "the engine remembers"
        self.engine = engine
        self.history = engine.history
        self.schemas: Mapping[str, Schema] = engine.plan.schemas

    def find(
        self, event: str, fixed: Mapping[int, Value], since: int, until: int, most: int | None = None
    ) -> list[Occurrence]:
        """Those that end in [since, until] and have these arguments, by (end, start); of many the `most` latest."""
        return self._decoded(event, self._having(event, self._table(event, since, until), fixed), most)

    def after(self, event: str, fixed: Mapping[int, Value], time: int) -> Occurrence | None:
        """The first that ends after a time."""
        later = self._having(event, self._table(event, time + 1, LATEST), fixed)
        return next(iter(self._decoded(event, later[:, :1], None)), None)

    def named(self, event: str, names: Ints) -> list[Occurrence]:
        """Those with these names, by (end, start)."""
        names = np.unique(names)
        tables = [run[:, found(run, names, IDENTITY)[1]] for run in self._runs(event)]
        return self._decoded(event, _ordered(concat([empty(self._width(event)), *tables])), None)

    def parts(self, names: Ints) -> Ints:
        """The names of the constituents of what has these."""
        return np.unique(self.history.lineage.parts_of(np.unique(names))[1])

    def rules(self, occurrence: Occurrence) -> list[int]:
        """The numbers of the rules that made a derived one, where several make its event."""
        return [int(rule) for rule in self.history.lineage.rules_of(np.array([occurrence.name], np.int64))[1]]

    def is_input(self, occurrence: Occurrence) -> bool:
        """Whether it was a record of the input, by itself."""
        if occurrence.event not in self.engine.plan.derived:
            return True
        name = np.array([occurrence.name], np.int64)
        given = self.history.sources.get(occurrence.event, ())
        return occurrence.name < DERIVED and any(bool(holds(run[IDENTITY], name)[0]) for run in given)

    def records(self, name: int) -> list[Occurrence]:
        """The input records that what has this name goes back to."""
        _, inputs = self.history.lineage.inputs_of(np.array([name], np.int64))
        return [one for event in self.history.sources for one in self._given(event, inputs)]

    def _given(self, event: str, names: Ints) -> list[Occurrence]:
        tables = [run[:, found(run, names, IDENTITY)[1]] for run in self.history.sources[event]]
        return self._decoded(event, concat([empty(self._width(event)), *tables]), None)

    def _runs(self, event: str) -> Sequence[Table]:
        """All occurrences of an event; of an input that rules derive as well both: what is derived holds its own."""
        derived = event in self.engine.plan.derived
        return (self.history.derived if derived else self.history.sources).get(event, ())

    def _table(self, event: str, since: int, until: int) -> Table:
        """Those that end in [since, until], by (end, start)."""
        tables = [run[:, (run[END] >= since) & (run[END] <= until)] for run in self._runs(event)]
        return _ordered(concat([empty(self._width(event)), *tables]))

    def _width(self, event: str) -> int:
        return len(self.schemas[event].attributes)

    def _having(self, event: str, table: Table, fixed: Mapping[int, Value]) -> Table:
        for place, value in fixed.items():
            code = encoded([value], self.schemas[event].attributes[place].type, self.engine.pool)
            if code is None:
                return table[:, :0]
            table = table[:, table[FIRST + place] == code.view(np.int64)[0]]
        return table

    def _decoded(self, event: str, table: Table, most: int | None) -> list[Occurrence]:
        if most is not None:
            table = table[:, max(0, table.shape[1] - most) :]
        attributes = self.schemas[event].attributes
        columns = [values(table, i, a.type, self.engine.pool) for i, a in enumerate(attributes)]
        return [
            Occurrence(
                event,
                tuple(column[i] for column in columns),
                int(table[START, i]),
                int(table[END, i]),
                int(table[ORDER, i]),
                int(table[IDENTITY, i]),
            )
            for i in range(table.shape[1])
        ]


def _ordered(table: Table) -> Table:
    return table[:, np.lexsort((table[IDENTITY], table[START], table[END]))]


def encoded(column: Sequence[Value], type: str, pool: Pool) -> Ints | np.ndarray | None:
    """Values as the engine holds a column of this type; None where one is no value of it."""
    match type:
        case "float":
            if all(value is None or isinstance(value, int | float) for value in column):
                return np.array([np.nan if value is None else float(value) + 0.0 for value in column], np.float64)
            return None
        case "int" | "time" | "duration" | "bool":
            whole = (value is None or (isinstance(value, int | float) and value == int(value)) for value in column)
            return np.array([MISSING if v is None else int(v) for v in column], np.int64) if all(whole) else None
        case "string" | "iri":
            kind = Iri if type == "iri" else str
            fits = all(value is None or builtin(value) is kind for value in column)
            return pool.encode_values(column) if fits else None
        case _:
            return pool.encode_values(column)


builtin = type


def same(one: Value, other: Value) -> bool:
    """Whether values are equal in the language; what is missing is equal to nothing."""
    if one is None or other is None or isinstance(one, bool) != isinstance(other, bool):
        return False
    if isinstance(one, float) and isinstance(other, int | float):
        return one == other or abs(one - other) <= 1e-9 * max(abs(one), abs(other))  # sums may differ in their order
    return one == other
