"""Knowledge that changes: what is known from when on, ready in tables before its time comes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from cep.core.errors import CepError
from cep.core.values import MISSING, Areas, Ints, Pool
from cep.plan.algebra import Rules, Triples
from cep.rules.conditions import Column, Relation
from cep.rules.datalog import Statics, close
from cep.rules.materialized import CODED, MaterializedRelation, words
from cep.rules.typed import a
from cep.runtime.knowledge_source import Answers, KnowledgeSource, Known, Rows, answers, relation

_FIRST = -(2**62)

COMPACT = 64
"""Changes that are kept one by one before they are put together."""
STATES = 4
"""States of the past that are held when they have been asked for."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A change, and what there is from its time on: tables by predicate, the predicates offered besides, areas."""

    time: int
    change: bytes
    tables: Mapping[str, Rows]
    offers: Mapping[str, Relation]
    areas: Areas | None


@dataclass(slots=True)
class KnowledgeChanges:
    """The changes of the knowledge of one engine: those applied, and those whose time has not come.

    `facts`: the tables given from outside. The types of all tables stay what they were when the program was read.
    `past`: where it is remembered, what changed when, up to now; the first is the sum of all before it. `news`: what
    changed since whoever follows has taken it, None: nobody follows.
    """

    rules: Rules
    loaded: KnowledgeSource
    known: Known
    statics: Statics
    facts: Mapping[str, pl.DataFrame]
    pool: Pool
    pending: list[Moment] = field(default_factory=list)
    applied: list[bytes] = field(default_factory=list)
    present: dict[str, Rows] = field(default_factory=dict)  # of tables that were replaced
    past: list[tuple[int, bytes]] = field(default_factory=list)
    news: list[bytes] | None = None
    _seen: dict[int, tuple[KnowledgeSource, Moment]] = field(default_factory=dict)  # of the past, by place
    _remember: int = 0
    _answered: dict[str, tuple[Answers, Rows]] = field(default_factory=dict)  # last, by table
    _ahead: KnowledgeSource | None = None  # as it is after all pending changes

    # --- changes come ---

    def add(self, time: int, change: bytes) -> None:
        """Take a change that holds from `time` on. Raises CepError, and changes nothing, where it cannot be."""
        place = bisect_right(self.pending, time, key=lambda moment: moment.time)
        later = [(moment.time, moment.change) for moment in self.pending[place:]]
        background = self._ahead
        if background is None or later:
            background = self.loaded.fork()
            background.apply(self.loaded.merge([*self.applied, *(moment.change for moment in self.pending[:place])]))
        self._ahead = None  # until all has gone well
        made = self.pending[:place]
        present = self.pool.areas
        try:
            for when, each in [(time, change), *later]:
                background.apply(each)
                offers, self.pool.areas = background.relations(self.pool), background.areas()
                tables = self._tables(background, offers, made[-1].tables if made else self.present)
                made.append(Moment(when, each, tables, offers, self.pool.areas))
        finally:
            self.pool.areas = present
        self.pending, self._ahead = made, background

    def _tables(
        self, background: KnowledgeSource, offers: Mapping[str, Relation], before: Mapping[str, Rows]
    ) -> dict[str, Rows]:
        """All tables in a state of the knowledge; the same objects as `before` where nothing is different."""
        found: dict[str, Rows] = {}
        given: dict[str, Relation] = {}
        for name, asked in self.rules.asked.items():
            stored = self.known.tables[name]
            answered = answers(background, asked, self.pool, self.rules.source)
            if name in self._answered and self._answered[name][0] is answered and name in before:
                found[name] = self._kept(stored, self._answered[name][1], before[name])
                given |= self._given(name, found[name])
                continue
            columns = tuple(
                self._fitted(name, i, answered.columns[i], type, stored.types[i])
                for i, type in enumerate(answered.types)
            )
            found[name] = self._kept(stored, (columns, answered.rows), before.get(name))
            self._answered[name] = answered, found[name]
            given |= self._given(name, found[name])
        if self.rules.statics:
            given |= {name: each for name, each in offers.items() if name in self.known.offers}
            closed = close(self.rules.statics, self.facts, self.pool, self.rules.source, given=given)
            for name, table in closed.stored.items():
                old = self.statics.relations[name]
                if name not in given and isinstance(old, MaterializedRelation):
                    assert table.types == old.types, "what has no other types makes none"
                    rows: Rows = (tuple(table.column(i) for i in range(table.arity)), table.count)
                    found[name] = self._kept(old, rows, before.get(name))
        return found

    def _given(self, name: str, rows: Rows) -> dict[str, Relation]:
        """A table as static rules ask it, where there are any."""
        if not self.rules.statics:
            return {}
        table = MaterializedRelation(name, self.known.tables[name].types)
        table.add(*rows)
        return {name: relation(self.rules.asked[name], table)}

    def _kept(self, stored: MaterializedRelation, rows: Rows, before: Rows | None) -> Rows:
        if before is rows:
            return rows
        old = before or (tuple(stored.column(i) for i in range(stored.arity)), stored.count)
        if rows[1] == old[1] and np.array_equal(words(rows[0], rows[1]), words(old[0], old[1])):
            return old
        return rows

    def _fitted(self, name: str, place: int, column: Column, type: str, wanted: str) -> Column:
        fitted = refitted(column, type, wanted, self.pool)
        if fitted is not None:
            return fitted
        asked = self.rules.asked[name]
        if isinstance(asked, Triples):
            what, span = "a position of `triple`", asked.span
        else:
            what, span = f"`?{asked.variables[place]}` of the graph pattern", asked.span
        if (name, place) in self.known.supposed:
            message = f"after this change {what} is {a(type)}, and the rules take it as {a(wanted)}"
            hint = "the types of what is known stay as they were; without a value, what the rules make of it decides"
        else:
            message = f"after this change {what} is {a(type)}, and it was {a(wanted)} when it was read"
            hint = (
                "the types of what is known stay as they were: one value of the new kind in what is loaded allows both"
            )
        raise CepError(message, self.rules.source, span, hint, "type")

    # --- their time comes ---

    def due(self, watermark: int) -> list[int]:
        """The times up to `watermark` at which something changes, ascending."""
        return sorted({moment.time for moment in self.pending if moment.time <= watermark})

    def reach(self, time: int) -> None:
        """All that is known from `time` on is known now."""
        while self.pending and self.pending[0].time <= time:
            moment = self.pending.pop(0)
            self._show(moment)
            self._pass(moment.time, moment.change)
            self.applied.append(moment.change)
            if self.news is not None:
                self.news.append(moment.change)
            self._compact()

    def _compact(self) -> None:
        """Put changes together, those that are as many as all after them: each is taken up a few times, not always."""
        if len(self.applied) <= COMPACT:
            return
        place, after = len(self.applied) - 1, len(self.applied[-1])
        while place and (len(self.applied[place - 1]) <= 2 * after or place > COMPACT // 2):
            place -= 1
            after += len(self.applied[place])
        put = self.loaded.merge if place else self.loaded.net
        self.applied[place:] = [put(self.applied[place:])]

    # --- what was known before ---

    def remember(self, ticks: int) -> None:
        """From now on keep what was known in the last so many microseconds."""
        stored = {
            **self.known.tables,
            **{n: t for n, t in self.statics.relations.items() if isinstance(t, MaterializedRelation)},
        }
        for name, each in stored.items():
            self.present[name] = tuple(each.column(i) for i in range(each.arity)), each.count
        self.past = [(_FIRST, self.loaded.merge([]))]
        self._remember = ticks

    def place(self, time: int) -> int:
        """Which of `past` a time belongs to; the first where it was before all."""
        return max(0, bisect_right(self.past, time, key=lambda each: each[0]) - 1)

    def background(self, place: int) -> KnowledgeSource:
        """What was known from a time of `past` on."""
        return self._then(place)[0]

    @contextmanager
    def at(self, place: int) -> Iterator[None]:
        """In the block that is known which was known from a time of `past` on. No step is made there."""
        if place == len(self.past) - 1:
            yield
            return
        then = self._then(place)[1]
        offers = {name: each.relation for name, each in self.known.offers.items()}
        now = Moment(0, b"", dict(self.present), offers, self.pool.areas)
        self._show(then)
        try:
            yield
        finally:
            self._show(now)

    def _then(self, place: int) -> tuple[KnowledgeSource, Moment]:
        if place not in self._seen:
            if len(self._seen) == STATES:
                del self._seen[next(iter(self._seen))]
            time, change = self.past[place][0], self.loaded.merge([each for _, each in self.past[: place + 1]])
            background, areas = self.loaded.fork(), self.pool.areas
            background.apply(change)
            try:
                offers, self.pool.areas = background.relations(self.pool), background.areas()
                tables = self._tables(background, offers, self.present)
                self._seen[place] = background, Moment(time, change, tables, offers, self.pool.areas)
            finally:
                self.pool.areas = areas
        return self._seen[place]

    def _pass(self, time: int, change: bytes) -> None:
        if not self.past:
            return
        self._seen.clear()
        if time == MISSING:  # a snapshot's: of what was before it only the sum is known
            self.past = [(_FIRST, change)]
            return
        self.past.append((time, change))
        while len(self.past) > 1 and self.past[1][0] <= time - self._remember:
            self.past[:2] = [(self.past[1][0], self.loaded.merge([self.past[0][1], self.past[1][1]]))]

    def _show(self, moment: Moment) -> None:
        for name, rows in moment.tables.items():
            if rows is not self.present.get(name):
                stored = self.known.tables.get(name) or self.statics.relations[name]
                assert isinstance(stored, MaterializedRelation), "only tables are replaced"
                stored.replace(*rows)
                self.present[name] = rows
        for name, offered in self.known.offers.items():
            offered.relation = moment.offers[name]
        self.pool.areas = moment.areas

    # --- state ---

    def codes(self) -> list[Ints]:
        """The pool codes in tables that were replaced or will be."""
        found: list[Ints] = []
        past = (moment for _, moment in self._seen.values())
        for tables in (self.present, *(moment.tables for moment in (*past, *self.pending))):
            for name, (columns, _) in tables.items():
                found += [column for column, type in zip(columns, self._types(name)) if type in CODED]
        return found

    def _types(self, name: str) -> Sequence[str | None]:
        return (self.known.tables.get(name) or self.statics.relations[name]).types

    def snapshot(self) -> pa.RecordBatch:
        """All changes: those applied as one, at the time MISSING, then those to come."""
        applied = [(MISSING, self.loaded.net(self.applied))] if self.applied else []
        rows = applied + [(moment.time, moment.change) for moment in self.pending]
        return pa.RecordBatch.from_arrays(
            [pa.array([time for time, _ in rows], pa.int64()), pa.array([each for _, each in rows], pa.binary())],
            ["time", "change"],
        )

    def restore(self, batch: pa.RecordBatch) -> None:
        """Take on the changes of a snapshot over the same knowledge."""
        self.pending, self.applied, self._ahead = [], [], None
        changes = list(zip(batch["time"].to_pylist(), batch["change"].to_pylist()))
        if self.present and (not changes or changes[0][0] != MISSING):  # back to what was loaded
            changes.insert(0, (MISSING, self.loaded.merge([])))
        for time, change in changes:
            self.add(time, change)
            if time == MISSING:
                self.reach(MISSING)


def refitted(column: Column, type: str, wanted: str, pool: Pool) -> Column | None:
    """A column of a type as one of the type `wanted`; None where that does not hold all its values."""
    if type == wanted or (type in ("string", "iri") and wanted == "any"):
        return column
    absent: Any = np.isnan(column) if type == "float" else np.equal(column, MISSING)
    if absent.all():
        return np.full(len(column), np.nan) if wanted == "float" else np.full(len(column), MISSING)
    if wanted == "float" and type == "int":
        exact = absent | (np.abs(column) <= 2**53)
        return np.where(absent, np.nan, column.astype(np.float64)) if exact.all() else None
    if wanted == "int" and type == "float":  # 4.0 among whole numbers is 4
        exact = absent | ((np.floor(column) == column) & (np.abs(column) <= 2**53))
        return np.where(absent, MISSING, np.where(absent, 0, column).astype(np.int64)) if exact.all() else None
    if wanted != "any":
        return None
    if type == "float":
        return pool.encode_floats(column)
    if type == "bool":
        return pool.encode_bools(column)
    return pool.encode_ints(column) if type == "int" else pool.encode_ticks(column)
