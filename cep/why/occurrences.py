"""What an engine remembers, one occurrence at a time: for questions of people, not for running."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cep.engine import Engine
from cep.events import Iri, Value
from cep.goals.lineage import DERIVED
from cep.runtime.outlet import values
from cep.schema import Schema
from cep.table import END, FIRST, IDENTITY, ORDER, START, Table, concat, empty
from cep.values import MISSING, Ints, Pool


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An occurrence of an event, its closed interval in microseconds. `order`: of an input record its number in the
    input, else that of the one that completed it. `name`: what lineage calls it; several may have one name."""

    event: str
    args: tuple[Value, ...]
    start: int
    end: int
    order: int = field(default=-1, compare=False)
    name: int = field(default=0, compare=False)


class Memory:
    """The occurrences that an engine with `remember` holds at this moment. Not to be asked while the engine steps."""

    def __init__(self, engine: Engine) -> None:
        assert engine.remember is not None and engine.lineage is not None, "the engine was told to remember"
        self.engine = engine
        self.lineage = engine.lineage
        self.schemas: Mapping[str, Schema] = engine.plan.schemas
        self._tables: dict[str, Table] = {}

    def table(self, event: str) -> Table:
        """All occurrences of an event by (end, start); an input that rules derive as well has both."""
        if event not in self._tables:
            made, given = self.engine.kept.get(event, ()), self.engine.sources.get(event, ())
            # What is derived holds the event's own input too.
            found = concat([*made]) if event in self.engine.plan.derived and made else empty(self._width(event))
            if event not in self.engine.plan.derived and given:
                found = concat([*given])
            self._tables[event] = found[:, np.lexsort((found[START], found[END]))]
        return self._tables[event]

    def find(
        self, event: str, fixed: Mapping[int, Value], since: int, until: int, most: int | None = None
    ) -> list[Occurrence]:
        """Those that end in [since, until] and have these arguments, by (end, start); of many the `most` latest."""
        table = self.table(event)
        first = int(np.searchsorted(table[END], since, side="left"))
        last = int(np.searchsorted(table[END], until, side="right"))
        return self._decoded(event, self._having(event, table[:, first:last], fixed), most)

    def after(self, event: str, fixed: Mapping[int, Value], time: int) -> Occurrence | None:
        """The first that ends after a time."""
        table = self.table(event)
        later = table[:, int(np.searchsorted(table[END], time, side="right")) :]
        found = self._having(event, later, fixed)[:, :1]
        return next(iter(self._decoded(event, found, None)), None)

    def named(self, event: str, names: Ints) -> list[Occurrence]:
        """Those with these names, by (end, start)."""
        table = self.table(event)
        return self._decoded(event, table[:, np.isin(table[IDENTITY], names)], None)

    def parts(self, names: Ints) -> Ints:
        """The names of the constituents of what has these."""
        wholes, parts = self.lineage.edges()
        places = [slice(*np.searchsorted(wholes, [name, name + 1])) for name in np.unique(names)]
        return np.unique(np.concatenate([np.empty(0, np.int64), *(parts[place] for place in places)]))

    def is_input(self, occurrence: Occurrence) -> bool:
        """Whether it was a record of the input, by itself."""
        if occurrence.event not in self.engine.plan.derived:
            return True
        given = self.engine.sources.get(occurrence.event, ())
        return occurrence.name < DERIVED and any(bool((t[IDENTITY] == occurrence.name).any()) for t in given)

    def records(self, name: int) -> list[Occurrence]:
        """The input records that what has this name goes back to."""
        _, inputs = self.lineage.inputs_of(np.array([name], np.int64))
        return [one for event in self.engine.sources for one in self._given(event, inputs)]

    def _given(self, event: str, names: Ints) -> list[Occurrence]:
        given = self.engine.sources[event]
        table = concat([*given]) if given else empty(self._width(event))
        return self._decoded(event, table[:, np.isin(table[IDENTITY], names)], None)

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
