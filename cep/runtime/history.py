"""What was taken and made, and what led to what: for `because`, and for `cep.why`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from cep.events import Value
from cep.goals import runs
from cep.goals.contract import Ints, from_arrow, to_arrow
from cep.goals.lineage import Lineage
from cep.runtime.outlet import Made, values
from cep.schema import Schema
from cep.table import END, IDENTITY, ORDER, START, Table, concat, rows
from cep.values import Pool

MOST = 1 << 16
"""So much may be kept before it is looked through."""


class History:
    """`sources`: records taken, `kept`: occurrences made, by event in runs sorted by name; `lineage`: which made which.

    Kept is what something still waiting goes back to, and with `remember` what ended in the last so many microseconds.
    """

    def __init__(self, remember: int | None) -> None:
        self.remember = remember
        self.lineage = Lineage()
        self.sources: dict[str, list[Table]] = {}
        self.kept: dict[str, list[Table]] = {}
        self._look_at = MOST

    def took(self, released: Mapping[str, Table]) -> None:
        """Records go into the goals."""
        for name, table in released.items():
            runs.put(self.sources.setdefault(name, []), table, IDENTITY)

    def made(self, made: Made) -> None:
        """Occurrences come out of them."""
        if self.remember is not None:
            for name, tables in made.items():
                runs.put(self.kept.setdefault(name, []), concat(tables), IDENTITY)

    def because(self, table: Table, schemas: Mapping[str, Schema], pool: Pool) -> pl.Series:
        """For each occurrence the input records it goes back to, as JSON: type, start, end in microseconds,
        arguments."""
        roots, inputs = self.lineage.inputs_of(table[IDENTITY])
        records: dict[int, tuple[int, int, int, str]] = {}
        needed = np.unique(inputs)
        for name, tables in self.sources.items():
            attributes = schemas[name].attributes
            for source in tables:
                chosen = source[:, runs.found(source, needed, IDENTITY)[1]]
                columns = [values(chosen, i, a.type, pool) for i, a in enumerate(attributes)]
                for i in range(rows(chosen)):
                    record: dict[str, Value] = {
                        "type": name,
                        "start": int(chosen[START, i]),
                        "end": int(chosen[END, i]),
                    }
                    record |= {a.name: c[i] for a, c in zip(attributes, columns, strict=True)}
                    place = (int(chosen[END, i]), int(chosen[START, i]), int(chosen[ORDER, i]))
                    records[int(chosen[IDENTITY, i])] = (*place, json.dumps(record))
        found: list[list[tuple[int, int, int, str]]] = [[] for _ in range(rows(table))]
        for root, source_name in zip(roots.tolist(), inputs.tolist(), strict=True):
            found[root].append(records[source_name])
        return pl.Series(
            "because", [f"[{', '.join(text for *_, text in sorted(each))}]" for each in found], dtype=pl.String
        )

    def tables(self) -> Iterable[tuple[str, Sequence[Table]]]:
        """All that is kept, by event."""
        return (*self.sources.items(), *self.kept.items())

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept, and of which made which."""
        return sum(table.nbytes for _, tables in self.tables() for table in tables) + 16 * self.lineage.size

    def forget(self, waiting: Callable[[], Sequence[Ints]], now: int) -> None:
        """Drop what nothing goes back to of what is `waiting`, by names, when there is twice as much as after the last
        time. `now`: of what ended after it less `remember`, nothing."""
        kept = sum(rows(table) for _, tables in self.tables() for table in tables)
        if self.lineage.size + kept <= self._look_at:
            return
        live = [np.empty(0, np.int64), *waiting()]
        if self.remember is not None:
            since = now - self.remember
            live += [table[IDENTITY, table[END] >= since] for _, tables in self.tables() for table in tables]
        needed = self.lineage.keep(np.concatenate(live))
        for each in (self.sources, self.kept):
            for name, tables in each.items():
                each[name] = []
                for table in tables:
                    runs.put(each[name], _those(table, needed), IDENTITY)
        self._look_at = max(MOST, 2 * (self.lineage.size + len(needed)))

    def snapshot(self, waiting: Sequence[Ints]) -> list[pa.RecordBatch]:
        """What is `waiting`, by names, goes back to: the records, and which made which."""
        needed = self.lineage.behind(np.concatenate([np.empty(0, np.int64), *waiting]))
        records = {name: _those(concat(tables), needed) for name, tables in self.sources.items() if tables}
        return [to_arrow(records), self.lineage.snapshot(needed)]

    def restore(self, records: pa.RecordBatch, lineage: pa.RecordBatch) -> None:
        """Take on what a snapshot holds."""
        self.lineage.restore(lineage)
        self.sources = {}
        self.took(from_arrow(records))


def _those(table: Table, names: Ints) -> Table:
    """The rows of these sorted names."""
    return np.ascontiguousarray(table[:, runs.holds(names, table[IDENTITY])])
