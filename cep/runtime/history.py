"""History: the records and occurrences that led to later occurrences. The columns `because` and `constituents` and the
module `cep.explain` use it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

from cep.core.fluents import BOUNDS, RECORD_BOUNDS, RECORD_END, RECORD_START, RECORDS
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, concat, rows
from cep.core.schema import NUMBER, Schema
from cep.core.values import Pool
from cep.events import Value
from cep.operators.goals import sorted_runs
from cep.operators.goals.contract import Ints, demand, from_arrow, to_arrow
from cep.operators.goals.lineage import DERIVED, Lineage, Places
from cep.plan.plan import Plan
from cep.runtime.decode import DerivedTables, values

BECAUSE, CONSTITUENTS = "because", "constituents"
"""The output columns that describe the origin of occurrences."""
Piece = tuple[int, int, int, str]
"""A record or an occurrence: its end, start, order, and text."""
WrittenText: TypeAlias = "Callable[[str, int, int, Sequence[Value], int], str]"
"""A function that formats an event. Its arguments are the event's name, start, end, arguments, and the number of equal
events before it."""
MOST = 1 << 16
"""The number of stored occurrences and edges at which the history begins to search for entries to drop."""


class OccurrenceHistory:
    """The records and occurrences that may be needed to explain other occurrences.

    - `sources`: the records of the input, by event, in runs sorted by handle.
    - `derived`: the derived occurrences, in the same form.
    - `transitions`: the transitions of simple fluents, by table.
    - `lineage`: the edges from each occurrence to the records and occurrences from which it was derived.
    - `remember`: the history contains everything that ended in the last `remember` microseconds. If it is None, the
      history contains only the origins of rows that still wait.
    - `wanted_columns`: which of the columns `because` and `constituents` the output has.
    """

    def __init__(self, remember: int | None) -> None:
        self.remember = remember
        self.wanted_columns: tuple[str, ...] = (BECAUSE,)
        self.lineage = Lineage(self.places_of)
        self.sources: dict[str, list[Table]] = {}
        self.derived: dict[str, list[Table]] = {}
        self.transitions: dict[str, list[Table]] = {}
        self._look_at = MOST

    def add_records(self, released: Mapping[str, Table]) -> None:
        """Add records that the reorder buffer has released."""
        for name, table in released.items():
            sorted_runs.put(self.sources.setdefault(name, []), table, IDENTITY)

    def add_derived(self, derived_tables: DerivedTables) -> None:
        """Add derived occurrences, if they are remembered or the output has the column `constituents`."""
        if self._keeps_derived:
            for name, tables in derived_tables.items():
                sorted_runs.put(self.derived.setdefault(name, []), concat(tables), IDENTITY)

    @property
    def _keeps_derived(self) -> bool:
        return self.remember is not None or CONSTITUENTS in self.wanted_columns

    def add_transitions(self, transition_tables: DerivedTables) -> None:
        for name, tables in transition_tables.items():
            sorted_runs.put(self.transitions.setdefault(name, []), concat(tables), IDENTITY)

    def withdraw(self, records: Ints, derived: Ints) -> None:
        """Drop records and derived occurrences by handle. The entries from which they were derived stay until `forget`.

        `records`, `derived`: the handles, sorted.
        """
        for names, by_event in ((records, self.sources), (derived, self.derived), (derived, self.transitions)):
            for event, tables in by_event.items() if len(names) else ():
                gone = [sorted_runs.holds(names, table[IDENTITY]) for table in tables]
                if any(map(np.any, gone)):
                    by_event[event] = []
                    for table, mask in zip(tables, gone, strict=True):
                        sorted_runs.put(by_event[event], table.compress(~mask, axis=1), IDENTITY)

    def columns(self, event: str, table: Table, plan: Plan, pool: Pool) -> list[pl.Series]:
        """Return those of the columns `because` and `constituents` that the output has, for occurrences of an event."""
        lineage_columns = []
        if BECAUSE in self.wanted_columns:
            lineage_columns.append(self.because(table, plan.schemas, pool))
        if CONSTITUENTS in self.wanted_columns:
            lineage_columns.append(self.constituents(event, table, plan, pool))
        return lineage_columns

    def places_of(self, names: Ints) -> list[Places]:
        """Return the positions of the input records from which each occurrence was derived, sorted. `names`: the
        handles of the occurrences."""
        roots, inputs = self.lineage.inputs_of(names)
        by_name = self._places(np.unique(inputs))
        places: list[set[tuple[int, int, int]]] = [set() for _ in names]
        for root, name in zip(roots.tolist(), inputs.tolist(), strict=True):
            places[root].update(by_name[name])
        return list(map(sorted, places))

    def _places(self, names: Ints) -> dict[int, Places]:
        """Return the positions of the records from which each input of this engine comes, by handle. `names`: the
        handles.

        The input of a stage may be an occurrence that another stage derived from several records.
        """
        places = {}
        for table in (table for tables in self.sources.values() for table in tables):
            chosen = table[:, sorted_runs.found(table, names, IDENTITY)[1]]
            for name, *place in chosen[[IDENTITY, END, START, ORDER]].T.tolist():
                places[name] = [(place[0], place[1], place[2])]
        return places

    def because(self, table: Table, schemas: Mapping[str, Schema], pool: Pool) -> pl.Series:
        """Return the input records from which each occurrence was derived, as JSON: type, start and end in
        microseconds, arguments."""
        roots, inputs = self.lineage.inputs_of(table[IDENTITY])
        records = self.records(np.unique(inputs), schemas, pool)
        return pl.Series(BECAUSE, [f"[{text}]" for text in _listed(rows(table), roots, inputs, records)], pl.String)

    def records(self, names: Ints, schemas: Mapping[str, Schema], pool: Pool) -> dict[int, Piece]:
        """Return input records in the format of `because`, by handle. `names`: the handles of the wanted records."""

        def written(name: str, start: int, end: int, arguments: Sequence[Value], _: int) -> str:
            fluent, attributes = schemas[name].fluent, [attribute.name for attribute in schemas[name].attributes]
            said: dict[str, Value] = {"type": name, "start": start, "end": end}
            said |= dict(zip(attributes, arguments, strict=True))
            if fluent is not None and fluent.part == RECORDS:
                own_end, own_start, bounds = (said.pop(key) for key in (RECORD_END, RECORD_START, RECORD_BOUNDS))
                said |= {"type": fluent.name, "end": own_end, "bounds": BOUNDS[int(bounds or 0)]}
                said |= {} if own_start is None else {"start": own_start}
            return json.dumps(said)

        return self._written(self.sources, names, schemas, pool, written)

    def constituents(self, event: str, table: Table, plan: Plan, pool: Pool) -> pl.Series:
        """Return the rules and the direct constituents of each occurrence, as JSON.

        The format is `[rules, [[recorded, event, [start, end, arguments], number], ...]]`. `recorded` is true for an
        input record. `number` is the number of equal constituents before this one.
        """
        rules, roots, parts, texts = self.made_of(event, table, plan, pool)
        listed = _listed(rows(table), roots, parts, texts)
        return pl.Series(CONSTITUENTS, [f"[{own}, [{pieces}]]" for own, pieces in zip(rules, listed)], pl.String)

    def made_of(
        self, event: str, table: Table, plan: Plan, pool: Pool, handed: Collection[str] = ()
    ) -> tuple[list[list[int]], Ints, Ints, dict[int, Piece]]:
        """Return the direct constituents of the occurrences in `table`.

        `handed`: the events that other stages derived. The result has four parts:

        - the rules of each occurrence
        - for each constituent, the row in `table` of the occurrence that has it
        - for each constituent, its handle
        - the texts of all constituents, by handle
        """
        names = table[IDENTITY]
        roots, parts = self._parts(names)

        def written(record: bool) -> WrittenText:
            def text(name: str, start: int, end: int, arguments: Sequence[Value], number: int) -> str:
                return json.dumps([record and name not in handed, name, [start, end, *arguments], number])

            return text

        needed = np.unique(parts)
        inputs, derived = needed[needed < DERIVED], needed[needed >= DERIVED]
        texts = self._written(self.sources, inputs, plan.schemas, pool, written(True))
        texts |= self._written(self.derived, derived, plan.schemas, pool, written(False))
        heads = [number for number, head in enumerate(plan.heads) if head.event == event]
        rules: list[list[int]] = [heads[:1] if name >= DERIVED else [] for name in names.tolist()]
        if len(heads) > 1:
            rules = [[] for _ in rules]
            for root, rule in zip(*(column.tolist() for column in self.lineage.rules_of(names))):
                rules[root].append(rule)
        return rules, roots, parts, texts

    def _parts(self, names: Ints) -> tuple[Ints, Ints]:
        """Return the direct constituents of the occurrences that have the handles `names`, without duplicates.

        The result is two arrays of equal length: an index into `names`, and the handle of a constituent. An input
        record is its own constituent. A constituent that is no longer stored is replaced by its own constituents.
        """
        inputs = np.flatnonzero((names < DERIVED) & (names != 0))
        pair_tables = [np.stack([inputs, names[inputs]])]
        roots, current = self.lineage.parts_of(names)
        while len(current):
            whole = current < DERIVED
            for tables in self.derived.values():
                for run in tables:
                    whole |= sorted_runs.holds(run[IDENTITY], current)
            pair_tables.append(np.stack([roots[whole], current[whole]]))
            index, parts = self.lineage.parts_of(current[~whole])
            both = np.unique(np.stack([roots[~whole][index], parts]), axis=1)
            roots, current = both[0], both[1]
        pairs: Table = np.unique(np.concatenate(pair_tables, axis=1), axis=1)
        return pairs[0], pairs[1]

    def _written(
        self,
        tables_by_event: Mapping[str, Sequence[Table]],
        names: Ints,
        schemas: Mapping[str, Schema],
        pool: Pool,
        written: WrittenText,
    ) -> dict[int, Piece]:
        """Return those stored occurrences whose handles are in `names`. The result is the end, start, order and text of
        each occurrence, by handle."""
        pieces: dict[int, Piece] = {}
        for event, tables in tables_by_event.items():
            attributes = schemas[event].attributes
            for table in tables:
                chosen = table[:, sorted_runs.found(table, names, IDENTITY)[1]]
                columns = [values(chosen, i, a.type, pool) for i, a in enumerate(attributes)]
                starts, ends, orders, mine = (chosen[row].tolist() for row in (START, END, ORDER, IDENTITY))
                numbers = self.lineage.numbers_of(chosen[IDENTITY]).tolist()
                for i, name in enumerate(mine):
                    text = written(event, starts[i], ends[i], [column[i] for column in columns], numbers[i])
                    pieces[name] = ends[i], starts[i], orders[i], text
        return pieces

    def tables(self) -> Iterable[tuple[str, Sequence[Table]]]:
        return (*self.sources.items(), *self.derived.items(), *self.transitions.items())

    @property
    def nbytes(self) -> int:
        """The bytes of the stored tables and edges."""
        return sum(table.nbytes for _, tables in self.tables() for table in tables) + 16 * self.lineage.size

    def forget(self, waiting: Callable[[], Sequence[Ints]], now: int) -> None:
        """Drop all records and occurrences from which no waiting row was derived. `waiting`: a function that returns
        the handles of the waiting rows.

        Nothing is dropped until the history has doubled in size since this method last dropped something. If `remember`
        is set, occurrences that ended in the `remember` microseconds before `now` are also kept.
        """
        size = sum(rows(table) for _, tables in self.tables() for table in tables)
        if self.lineage.size + size <= self._look_at:
            return
        live = [np.empty(0, np.int64), *waiting()]
        if self.remember is not None:
            since = now - self.remember
            live += [table[IDENTITY, table[END] >= since] for _, tables in self.tables() for table in tables]
        needed = self.lineage.keep(np.concatenate(live))
        self.keep_only(needed)
        for tables_by_name in (self.sources, self.derived, self.transitions):
            for name, tables in tables_by_name.items():
                tables_by_name[name] = []
                for table in tables:
                    sorted_runs.put(tables_by_name[name], _those(table, needed), IDENTITY)
        self._look_at = max(MOST, 2 * (self.lineage.size + len(needed)))

    def keep_only(self, needed: Ints) -> None:
        """Drop additional data about all handles except `needed`. Subclasses that store such data override this."""

    def snapshot(self, waiting: Sequence[Ints], whole: bool = False) -> list[pa.RecordBatch]:
        """Return the records and edges from which the rows with the handles `waiting` were derived, as batches for a
        snapshot.

        If the history contains derived occurrences, the batches contain them too. `whole`: True to return the whole
        history.
        """
        besides = [table[IDENTITY] for _, tables in self.tables() for table in tables] if whole else []
        needed = self.lineage.behind(np.concatenate([np.empty(0, np.int64), *waiting, *besides]))
        records = {_RECORDS + name: _those(concat(tables), needed) for name, tables in self.sources.items() if tables}
        if whole or self._keeps_derived:
            records |= {
                _DERIVED + name: _those(concat(tables), needed) for name, tables in self.derived.items() if tables
            }
        records |= {
            _TURNS + name: _those(concat(tables), needed) for name, tables in self.transitions.items() if tables
        }
        return [to_arrow(records), self.lineage.snapshot(needed)]

    def take_on(self, batches: list[pa.RecordBatch]) -> None:
        """Restore the history from the last batches of a snapshot. Remove these batches from the list."""
        lineage, records = batches.pop(), batches.pop()
        self.lineage.restore(lineage)
        self.sources, self.derived, self.transitions = {}, {}, {}
        kept = {_RECORDS: self.sources, _DERIVED: self.derived, _TURNS: self.transitions}
        for name, table in from_arrow(records).items():
            demand(table.ndim == 2 and len(table) >= FIRST and name[:1] in kept)
            sorted_runs.put(kept[name[0]].setdefault(name[1:], []), table, IDENTITY)

    def take_over(self, other: OccurrenceHistory) -> None:
        self.sources, self.derived, self.transitions = (
            {name: [*runs] for name, runs in tables.items()}
            for tables in (other.sources, other.derived, other.transitions)
        )
        self.lineage.restore(other.lineage.snapshot())

    def fits(self, schemas: Mapping[str, Schema], waiting: Sequence[Ints]) -> None:
        """Check a restored history. Raises CepError if it does not fit these events, or if it lacks a record from which
        a row in `waiting` was derived."""
        for name, tables in self.tables():
            demand(name in schemas)
            demand(all(len(table) == FIRST + len(schemas[name].attributes) for table in tables))
        behind = self.lineage.behind(np.concatenate([np.empty(0, np.int64), *waiting]))
        inputs = behind[(behind < DERIVED) & (behind != 0)]
        known = [table[IDENTITY] for tables in self.sources.values() for table in tables]
        demand(bool(np.isin(inputs, np.concatenate([np.empty(0, np.int64), *known])).all()))


_RECORDS, _DERIVED, _TURNS = "<", ">", "|"  # in a snapshot, a prefix of event names for each kind of rows


def _listed(count: int, roots: Ints, names: Ints, texts: Mapping[int, Piece]) -> list[str]:
    pieces: list[list[Piece]] = [[] for _ in range(count)]
    for root, name in zip(roots.tolist(), names.tolist(), strict=True):
        pieces[root].append(texts[name])
    return [", ".join(text for *_, text in sorted(row_pieces)) for row_pieces in pieces]


def _those(table: Table, names: Ints) -> Table:
    return table.compress(sorted_runs.holds(names, table[IDENTITY]), axis=1)


class StageHistory(OccurrenceHistory):
    """The history of a stage.

    - `handed`: the events that other stages derived.
    - `hidden`: tables of fluents that do not count as occurrences.
    - `rules`: for each rule of the stage, its number in the whole program.

    A piece is the list [end, start, order, text], which describes a record or an occurrence. The column `because` holds
    a list of pieces. It is always output, because equal rows are compared by it; the texts are empty if the column is
    not wanted. The column `constituents` holds a list of rules and a list of pieces. `told` and `told_constituents`
    convert these columns to the format of the program's engine.
    """

    def __init__(
        self, remember: int | None, handed: frozenset[str], hidden: frozenset[str], rules: Sequence[int]
    ) -> None:
        super().__init__(remember)
        self.handed, self.hidden, self.rules = handed, hidden, rules
        self.origins: dict[int, str] = {}
        self.parts: dict[int, str] = {}

    def add_derived(self, derived_tables: DerivedTables) -> None:
        super().add_derived({name: tables for name, tables in derived_tables.items() if name not in self.hidden})

    def hand(self, event: str, first: int, table: pl.DataFrame) -> None:
        """Add the origins of rows that another stage derived. `first`: the handle of the first row.

        The table may have the columns `because` and `constituents`, and a column with the number of equal rows before
        each row.
        """
        if NUMBER in table.columns:
            self.lineage.number(np.arange(first, first + table.height), table[NUMBER].to_numpy())
        if BECAUSE in table.columns:
            self.origins.update(enumerate(table[BECAUSE].to_list(), first))
        if CONSTITUENTS in table.columns:
            for name, text in enumerate(table[CONSTITUENTS].to_list(), first):
                rules, pieces = json.loads(text)
                if event in self.hidden or not rules:  # a row without rules is an input record
                    self.parts[name] = json.dumps(pieces)

    def _places(self, names: Ints) -> dict[int, Places]:
        places = super()._places(names)
        return places | {name: places_in(self.origins[name]) for name in names.tolist() if name in self.origins}

    def columns(self, event: str, table: Table, plan: Plan, pool: Pool) -> list[pl.Series]:
        lineage_columns = super().columns(event, table, plan, pool)
        if BECAUSE in self.wanted_columns:
            return lineage_columns
        pieces = [[(*place, "") for place in places] for places in self.places_of(table[IDENTITY])]
        return [pl.Series(BECAUSE, map(json.dumps, pieces), pl.String), *lineage_columns]

    def because(self, table: Table, schemas: Mapping[str, Schema], pool: Pool) -> pl.Series:
        roots, inputs = self.lineage.inputs_of(table[IDENTITY])
        own = np.unique(inputs)
        texts = self.records(own[[name not in self.origins for name in own.tolist()]], schemas, pool)
        pieces: list[set[Piece]] = [set() for _ in range(rows(table))]
        for root, name in zip(roots.tolist(), inputs.tolist(), strict=True):
            pieces[root] |= set(map(_piece, json.loads(self.origins[name]))) if name in self.origins else {texts[name]}
        return pl.Series(BECAUSE, [json.dumps(sorted(row_pieces)) for row_pieces in pieces], pl.String)

    def constituents(self, event: str, table: Table, plan: Plan, pool: Pool) -> pl.Series:
        rules, roots, parts, texts = self.made_of(event, table, plan, pool, self.handed)
        pieces: list[list[Piece]] = [[] for _ in range(rows(table))]
        for root, name in zip(roots.tolist(), parts.tolist(), strict=True):
            pieces[root] += map(_piece, json.loads(self.parts[name])) if name in self.parts else [texts[name]]
        listed = [
            json.dumps([[self.rules[rule] for rule in own], sorted(set(row_pieces))])
            for own, row_pieces in zip(rules, pieces, strict=True)
        ]
        return pl.Series(CONSTITUENTS, listed, pl.String)

    def keep_only(self, needed: Ints) -> None:
        held = set(needed.tolist())
        self.origins = {name: origin for name, origin in self.origins.items() if name in held}
        self.parts = {name: part for name, part in self.parts.items() if name in held}

    def snapshot(self, waiting: Sequence[Ints], whole: bool = False) -> list[pa.RecordBatch]:
        needed = set(self.lineage.behind(np.concatenate([np.empty(0, np.int64), *waiting])).tolist())
        return [*(_batch(texts, needed) for texts in (self.origins, self.parts)), *super().snapshot(waiting, whole)]

    def take_on(self, batches: list[pa.RecordBatch]) -> None:
        super().take_on(batches)
        self.parts, self.origins = _held(batches.pop()), _held(batches.pop())


def _batch(texts: Mapping[int, str], needed: Set[int]) -> pa.RecordBatch:
    names = sorted(texts.keys() & needed)
    columns = [pa.array(names, pa.int64()), pa.array([texts[name] for name in names], pa.large_string())]
    return pa.RecordBatch.from_arrays(columns, ["name", "pieces"])


def _held(batch: pa.RecordBatch) -> dict[int, str]:
    demand(batch.schema.names == ["name", "pieces"])
    return dict(zip(batch["name"].to_pylist(), batch["pieces"].to_pylist(), strict=True))


def united(made_of: Sequence[str], same: Collection[str]) -> str:
    """Combine the `constituents` texts of several derivations of one occurrence. The result has the rules of all
    derivations. `same`: the texts of the derivations whose constituents the result has."""
    rules = {rule for text in made_of for rule in json.loads(text)[0]}
    pieces = {_piece(piece) for text in same for piece in json.loads(text)[1]}
    return json.dumps([sorted(rules), sorted(pieces)])


def places_in(because: str) -> Places:
    """Return the positions of the records in a stage's `because` text."""
    return [(end, start, order) for end, start, order, _ in json.loads(because)]


def told(because: str) -> str:
    """Convert a stage's `because` text to the format of an engine that runs the whole program."""
    return f"[{', '.join(text for *_, text in json.loads(because))}]"


def told_constituents(made_of: str) -> str:
    """Convert a stage's `constituents` text to the format of an engine that runs the whole program."""
    rules, pieces = json.loads(made_of)
    return f"[{rules}, [{', '.join(text for *_, text in pieces)}]]"


def _piece(read: Sequence[object]) -> Piece:
    end, start, order, text = read
    assert isinstance(end, int) and isinstance(start, int) and isinstance(order, int)
    return end, start, order, str(text)
