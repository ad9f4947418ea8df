"""Read an engine's memory one occurrence at a time. This module serves explanations, and is too slow to run rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cep.core.fluents import (
    BEGINNING,
    BEGINS,
    BOUNDS,
    EDGES,
    ENDING,
    ENDS,
    HOLDS,
    LASTS,
    SINCE_EVER,
    WHOLE,
    FluentTable,
)
from cep.core.interval_sets import INFINITE, code
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, concat, empty
from cep.core.schema import Schema
from cep.core.time import END_OF_TIME
from cep.core.values import MISSING, Ints, Pool
from cep.engine import Engine
from cep.events import Iri, Value
from cep.operators.goals.arrival import first_of_equal
from cep.operators.goals.lineage import DERIVED
from cep.operators.goals.sorted_runs import found, holds
from cep.plan.equal import equal_records
from cep.runtime.decode import values

LATEST = 2**62
"""A time after the end of every occurrence."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An occurrence of an event, or an interval of a fluent. `start` and `end` are in microseconds. An occurrence
    includes both times.

    - `order`: the arrival number of the input record. For a derived event, it is the arrival number of the record that
      completed the event.
    - `name`: the handle of the occurrence in the lineage.
    - `number`: the number of equal occurrences that precede this one.
    - `bounds`: the brackets of a fluent's interval; empty for an event.

    An interval starts at SINCE_EVER if the fluent holds from before all time. It ends at END_OF_TIME if nothing has
    ended the fluent.
    """

    event: str
    args: tuple[Value, ...]
    start: int
    end: int
    order: int = field(default=-1, compare=False)
    name: int = field(default=0, compare=False)
    bounds: str = ""
    number: int = 0

    @property
    def codes(self) -> tuple[int, int]:
        """The time codes of the first and the last time at which the event occurs or the fluent holds (see
        `cep.core.interval_sets`)."""
        if not self.bounds:
            return 2 * self.start, 2 * self.end
        first = -INFINITE if self.start == SINCE_EVER else code(self.start, self.bounds[0] == "[", False)
        last = INFINITE if self.end == END_OF_TIME else code(self.end, self.bounds[1] == "]", True)
        return first, last


class Memory:
    """The occurrences that an engine with `remember` keeps. It must not be used while the engine is stepping."""

    def __init__(self, engine: Engine) -> None:
        assert engine.history is not None and engine.history.remember is not None, "the engine remembers"
        self.engine = engine
        self.history = engine.history
        self.schemas: Mapping[str, Schema] = engine.plan.schemas
        self.fluents = HeldIntervals(self)
        self._several = equal_records(engine.plan).several

    def find(
        self, event: str, fixed: Mapping[int, Value], since: int, until: int, most: int | None = None
    ) -> list[Occurrence]:
        """Return the occurrences of an event that end in [since, until], sorted by (end, start).

        - `fixed`: values that some arguments must have, by position.
        - `most`: the greatest number of occurrences to return. If there are more, the latest ones are returned. If it
          is None, return all.
        """
        if self.fluents.knows(event):
            occurrences = [row for row in self.fluents.rows(event, fixed) if since <= row.end <= until]
            return occurrences if most is None else occurrences[-most:]
        return self.decoded(event, self.having(event, self.table(event, since, until), fixed), most)

    def after(self, event: str, fixed: Mapping[int, Value], time: int) -> Occurrence | None:
        """Return the first occurrence of an event that ends after `time`. Returns None if there is no such occurrence.

        `fixed`: values that some arguments must have, by position.
        """
        if self.fluents.knows(event):
            return next(iter(self.find(event, fixed, time + 1, LATEST)), None)
        later = self.having(event, self.table(event, time + 1, LATEST), fixed)
        return next(iter(self.decoded(event, later[:, :1], None)), None)

    def named(self, event: str, names: Ints) -> list[Occurrence]:
        """Return the occurrences of an event whose handles are in `names`, sorted by (end, start)."""
        if self.fluents.knows(event):
            return self.fluents.rows(event, {})
        names = np.unique(names)
        tables = [run[:, found(run, names, IDENTITY)[1]] for run in self._runs(event)]
        return self.decoded(event, _ordered(concat([empty(self._width(event)), *tables])), None)

    def parts(self, names: Ints) -> Ints:
        return np.unique(self.history.lineage.parts_of(np.unique(names))[1])

    def rules(self, occurrence: Occurrence) -> list[int]:
        """Return the numbers of the rules that derived an occurrence. Empty if only one rule derives the event."""
        return [int(rule) for rule in self.history.lineage.rules_of(np.array([occurrence.name], np.int64))[1]]

    def is_input(self, occurrence: Occurrence) -> bool:
        """Return True if the occurrence was a record of the input."""
        if self.schemas[occurrence.event].fluent is not None:
            return False
        if occurrence.event not in self.engine.plan.derived:
            return True
        name = np.array([occurrence.name], np.int64)
        runs = self.history.sources.get(occurrence.event, ())
        return occurrence.name < DERIVED and any(bool(holds(run[IDENTITY], name)[0]) for run in runs)

    def records(self, name: int) -> list[Occurrence]:
        """Return the input records from which an occurrence was derived. `name`: the handle of the occurrence."""
        _, inputs = self.history.lineage.inputs_of(np.array([name], np.int64))
        records = [occurrence for event in self.history.sources for occurrence in self._given(event, inputs)]
        return sorted(records, key=lambda record: (record.end, record.start, record.order))

    def _given(self, event: str, names: Ints) -> list[Occurrence]:
        tables = [run[:, found(run, names, IDENTITY)[1]] for run in self.history.sources[event]]
        return self.decoded(event, concat([empty(self._width(event)), *tables]), None)

    def _runs(self, event: str) -> Sequence[Table]:
        """Return the tables that together contain all occurrences of an event.

        If rules also derive an input event, the tables contain its input records as well.
        """
        if event in self.history.transitions:
            return self.history.transitions[event]
        derived = event in self.engine.plan.derived
        return (self.history.derived if derived else self.history.sources).get(event, ())

    def table(self, event: str, since: int, until: int) -> Table:
        """Return the rows of an event that end in [since, until], sorted by (end, start).

        If equal input records of the event count as one, only the first of them is returned.
        """
        tables = [run[:, (run[END] >= since) & (run[END] <= until)] for run in self._runs(event)]
        rows = _ordered(concat([empty(self._width(event)), *tables]))
        return first_of_equal(rows) if event in self.history.sources and event not in self._several else rows

    def _width(self, event: str) -> int:
        return len(self.schemas[event].attributes)

    def having(self, event: str, table: Table, fixed: Mapping[int, Value]) -> Table:
        """Return the rows of `table` whose arguments have the values `fixed`, by position."""
        for place, value in fixed.items():
            code = encoded([value], self.schemas[event].attributes[place].type, self.engine.pool)
            if code is None:
                return table[:, :0]
            table = table[:, table[FIRST + place] == code.view(np.int64)[0]]
        return table

    def decoded(self, event: str, table: Table, most: int | None) -> list[Occurrence]:
        """Convert rows of an event to occurrences.

        `most`: the greatest number of occurrences to return. If there are more, the latest ones are returned. If it is
        None, return all.
        """
        if most is not None:
            table = table[:, max(0, table.shape[1] - most) :]
        attributes = self.schemas[event].attributes
        columns = [values(table, i, a.type, self.engine.pool) for i, a in enumerate(attributes)]
        numbers = [0] * table.shape[1]
        if event in self._several:
            numbers = self.history.lineage.numbers_of(table[IDENTITY]).tolist()
        return [
            Occurrence(
                event,
                tuple(column[i] for column in columns),
                int(table[START, i]),
                int(table[END, i]),
                int(table[ORDER, i]),
                int(table[IDENTITY, i]),
                number=numbers[i],
            )
            for i in range(table.shape[1])
        ]


class HeldIntervals:
    """The intervals of fluents that an engine with `remember` keeps, and their beginnings and ends."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.schemas = memory.schemas
        self._open: dict[str, Table] | None = None

    def knows(self, table: str) -> bool:
        """Return True if a table contains the intervals of a fluent, or its beginnings and ends."""
        fluent = self.schemas[table].fluent
        return fluent is not None and fluent.part in (HOLDS, EDGES)

    def of(self, table: str) -> str:
        """Return the name of the fluent to which a table belongs. A table that the operator LASTING uses belongs to the
        fluent whose duration LASTING tests."""
        fluent = self.schemas[table].fluent
        assert fluent is not None, "it is a fluent's"
        return fluent.name.removeprefix(LASTS)

    def rows(self, table: str, fixed: Mapping[int, Value]) -> list[Occurrence]:
        """Return the rows of a fluent's table. `fixed`: values that some arguments must have, by position.

        Some tables contain only intervals. Other tables also contain beginnings and ends. The last argument of their
        rows says which of the three a row is.
        """
        schema = self.schemas[table]
        assert schema.fluent is not None, "it is a fluent's"
        width = len(schema.attributes) - (schema.fluent.part == EDGES)
        own = {place: value for place, value in fixed.items() if place < width}
        held = self.intervals(self.of(table), own)
        if schema.fluent.part == HOLDS:
            return held
        occurrences: list[Occurrence] = []
        for interval in held:
            began, ended = interval.start != SINCE_EVER, interval.end != END_OF_TIME
            kinds = [
                (WHOLE, began and ended, interval.start, interval.end),
                (BEGINS, began, interval.start, interval.start),
            ]
            kinds += [(BEGINNING, began, interval.start, interval.start)]
            kinds += [(ENDS, ended, interval.end, interval.end), (ENDING, ended, interval.end, interval.end)]
            for kind, bounded, start, end in kinds:
                if bounded and fixed.get(width, kind) == kind:
                    end += schema.fluent.late  # an end is reported when it becomes known
                    occurrences.append(
                        Occurrence(table, (*interval.args, kind), start, end, interval.order, interval.name)
                    )
        return sorted(occurrences, key=lambda occurrence: (occurrence.end, occurrence.start))

    def intervals(self, name: str, fixed: Mapping[int, Value]) -> list[Occurrence]:
        """Return the maximal intervals of a fluent, sorted by (end, start).

        `fixed`: values that some arguments must have, by position.
        """
        memory, fluent = self.memory, self.schemas[name].fluent
        assert fluent is not None, "it is a fluent"
        if self._open is None:
            open_tables = memory.engine.open_intervals()
            self._open = {event: concat(tables) for event, tables in open_tables.items()}
        table = memory.table(name, -LATEST, END_OF_TIME - 1)
        if name in self._open:
            table = concat([table, self._open[name]])
        table = memory.having(name, table, fixed)
        rows = memory.decoded(name, table, None)
        return sorted(
            (self._interval(row, fluent, int(order)) for row, order in zip(rows, table[ORDER], strict=True)),
            key=lambda interval: (interval.end, interval.start),
        )

    def at(self, table: str, fixed: Mapping[int, Value], time: int) -> list[Occurrence]:
        """Return the intervals of a fluent that contain `time`.

        - `table`: a table of the fluent.
        - `fixed`: values that some arguments must have, by position.
        """
        held = self.intervals(self.of(table), fixed)
        return [interval for interval in held if interval.codes[0] <= 2 * time <= interval.codes[1]]

    def _interval(self, occurrence: Occurrence, fluent: FluentTable, order: int) -> Occurrence:
        still = occurrence.end == END_OF_TIME
        bounds = BOUNDS[order] if fluent.defined else "()" if still else "(]"
        return replace(occurrence, end=occurrence.end if still else occurrence.end - fluent.late, bounds=bounds)


def _ordered(table: Table) -> Table:
    return table[:, np.lexsort((table[IDENTITY], table[ORDER], table[START], table[END]))]


def encoded(column: Sequence[Value], type: str, pool: Pool) -> Ints | np.ndarray | None:
    """Encode values as a column of the engine. Returns None if a value does not have the attribute type `type`."""
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


def same(left: Value, other: Value) -> bool:
    """Return True if two values are equal in the language of rules. A missing value equals nothing.

    A float may differ from the other number by a relative error of 1e-9, because the engine may add numbers in a
    different order.
    """
    if left is None or other is None or isinstance(left, bool) != isinstance(other, bool):
        return False
    if isinstance(left, float) and isinstance(other, int | float):
        # sums may be added in another order
        return left == other or abs(left - other) <= 1e-9 * max(abs(left), abs(other))
    return left == other
