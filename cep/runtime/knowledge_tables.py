"""The tables of a program after a change of the knowledge: rows that go and come, or whole new tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from cep.core.errors import CepError
from cep.core.relation import Column
from cep.core.values import MISSING, Areas, Ints, Pool
from cep.plan.algebra import Rules, Triples
from cep.rules.conditions.relations import Relation
from cep.rules.expressions.typed import a
from cep.rules.static.datalog import Statics
from cep.rules.static.maintained import Edit, Maintained, edit_between
from cep.rules.static.materialized import CountedColumns, MaterializedRelation, words
from cep.runtime.knowledge_source import Answers, KnowledgeSource, ProgramKnowledge, pattern_answers, relation
from cep.runtime.prepared_change import PreparedChange


class KnowledgeTables:
    """The tables as they are after the last change that was taken, of which the next one is the difference.

    Types of tables stay what they were when the program was read. After the first change the rows of static rules come
    in the order of their values, so that it does not matter by which changes they came there.
    """

    def __init__(
        self, rules: Rules, known: ProgramKnowledge, statics: Statics, facts: Mapping[str, pl.DataFrame], pool: Pool
    ) -> None:
        self.rules, self.known, self.statics, self.facts, self.pool = rules, known, statics, facts, pool
        self.forget()

    def forget(self) -> None:
        """The next change is of another state than the last."""
        self._follows = False
        self._maintained: Maintained | None = None
        self._whole: dict[str, tuple[Answers, CountedColumns]] = {}  # of what was last asked anew
        self._offers: Mapping[str, Relation] = {}
        self._areas: Areas | None = None

    def moment(self, time: int, change: bytes, background: KnowledgeSource) -> PreparedChange:
        """A change that the background has just taken. Raises CepError where a table cannot have its answers."""
        areas, follows = background.areas(), self._follows
        if not follows or areas != self._areas:
            self._offers, self._areas = background.relations(self.pool), areas
            follows = follows and not self.rules.statics
        self._follows = False  # until all has gone well
        if not follows:
            made = self._anew(background)
            edits: dict[str, Edit] = {}
        else:
            made, edits = self._differences(background)
        self._follows = True
        return PreparedChange(time, change, made, self._offers, areas, edits)

    def whole(self, time: int, change: bytes, background: KnowledgeSource) -> PreparedChange:
        """All tables in another state of the knowledge."""
        made = KnowledgeTables(self.rules, self.known, self.statics, self.facts, self.pool)
        return made.moment(time, change, background)

    def codes(self) -> list[Ints]:
        """The pool codes of tables that are kept here."""
        if self._maintained is None:
            return []
        tables = (*self._maintained.tables.values(), *self._maintained.derived.values())
        return [column for table in tables for column in table.codes()]

    def _anew(self, background: KnowledgeSource) -> dict[str, CountedColumns]:
        self._whole = {}
        made = {name: self._query(name, background)[1] for name in self.rules.asked}
        if self.rules.statics:
            tables = {name: MaterializedRelation(name, self.known.tables[name].types) for name in made}
            for name, table in tables.items():
                table.add(*made[name])
            relations = {name: relation(self.rules.asked[name], table) for name, table in tables.items()}
            relations |= {name: each for name, each in self._offers.items() if name in self.known.offers}
            maintained = self._closed(relations, tables)
            for name, table in maintained.derived.items():
                assert table.types == self.statics.relations[name].types, "what has no other types makes none"
                made[name] = maintained.rows(name)
            self._maintained = maintained
        return made

    def _closed(self, relations: Mapping[str, Relation], tables: Mapping[str, MaterializedRelation]) -> Maintained:
        present, self.pool.areas = self.pool.areas, self._areas
        try:
            return Maintained(
                self.rules.statics, self.facts, self.pool, self.rules.source, relations, tables, self.rules.declared
            )
        finally:
            self.pool.areas = present

    def _differences(self, background: KnowledgeSource) -> tuple[dict[str, CountedColumns], dict[str, Edit]]:
        whole: dict[str, CountedColumns] = {}
        edits: dict[str, Edit] = {}
        for name in self.rules.asked:
            found = self._difference(name, background)
            if found is None:
                before = self._whole.get(name)
                answered, rows = self._query(name, background)
                if before is None or (before[0] is not answered and not _equal(before[1], rows)):
                    whole[name] = rows
            elif found[0][1] or found[1][1]:
                edits[name] = found
                self._whole.pop(name, None)
        maintained = self._maintained
        if maintained is not None and (whole or edits):
            edits |= {name: edit_between(maintained.tables[name], rows) for name, rows in whole.items()}
            present, self.pool.areas = self.pool.areas, self._areas
            try:
                edits |= maintained.change(edits)
            finally:
                self.pool.areas = present
            whole = {}
        return whole, edits

    def _difference(self, name: str, background: KnowledgeSource) -> Edit | None:
        """What a change took from a table, and what it brought; None where its answers are to be asked for."""
        found = background.difference(self.rules.asked[name], self.pool)
        if found is None:
            return None
        fitted: list[CountedColumns] = []
        for each in found:
            columns: list[Column] = []
            for column, type, wanted in zip(each.columns, each.types, self.known.tables[name].types):
                same_type = refitted(column, type, wanted, self.pool)
                if same_type is None:
                    return None
                columns.append(same_type)
            fitted.append((columns, each.rows))
        return fitted[0], fitted[1]

    def _query(self, name: str, background: KnowledgeSource) -> tuple[Answers, CountedColumns]:
        """All answers of a pattern, or triples, as the rows of its table."""
        pattern, stored = self.rules.asked[name], self.known.tables[name]
        answered = pattern_answers(background, pattern, self.pool, self.rules.source)
        columns = tuple(
            self._fitted(name, i, answered.columns[i], type, stored.types[i]) for i, type in enumerate(answered.types)
        )
        self._whole[name] = answered, (columns, answered.rows)
        return self._whole[name]

    def _fitted(self, name: str, place: int, column: Column, type: str, wanted: str) -> Column:
        fitted = refitted(column, type, wanted, self.pool)
        if fitted is not None:
            return fitted
        pattern = self.rules.asked[name]
        if isinstance(pattern, Triples):
            what, span = "a position of `triple`", pattern.span
        else:
            what, span = f"`?{pattern.variables[place]}` of the graph pattern", pattern.span
        if (name, place) in self.known.supposed:
            message = f"after this change {what} is {a(type)}, and the rules take it as {a(wanted)}"
            hint = "the types of what is known stay as they were; without a value, what the rules make of it decides"
        else:
            message = f"after this change {what} is {a(type)}, and it was {a(wanted)} when it was read"
            hint = (
                "the types of what is known stay as they were: one value of the new kind in what is loaded allows both"
            )
        raise CepError(message, self.rules.source, span, hint, "type")


def _equal(some: CountedColumns, others: CountedColumns) -> bool:
    return some[1] == others[1] and np.array_equal(words(*some), words(*others))


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
