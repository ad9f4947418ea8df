"""Incremental maintenance of static rules. After the input tables change, only affected rows are derived again.

A rule that is not recursive is evaluated on the changed rows of each table that it uses. For removed rows, it reads the
previous rows of the other tables. For added rows, it reads their current rows. The results are rows that may have
appeared or disappeared. The engine checks for each of them if it can be derived now (delete and rederive, Gupta,
Mumick, Subrahmanian 1993).

Some predicates are computed anew when one of their inputs changes: recursive predicates, predicates that have both
facts and rules, and predicates that call others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from cep.core.errors import CepError, Source
from cep.core.relation import Column
from cep.core.values import Pool
from cep.rules.conditions.conditions import Conditions, compile_conditions
from cep.rules.conditions.relations import Relation
from cep.rules.expressions.checking import check, compile_expression
from cep.rules.expressions.evaluate import Evaluation
from cep.rules.expressions.typed import grown
from cep.rules.static.datalog import close
from cep.rules.static.materialized import CountedColumns, MaterializedRelation, present
from cep.rules.static.rule_predicate import RulePredicate, enter, fit_head
from cep.rules.static.strata import Stratum, strata
from cep.rules.static.table_views import PreviousTable, TableWithConstants
from cep.rules.static.typed_facts import FactDeclaration
from cep.rules.terms import Predicate, StaticRule, without_alternatives

Edit = tuple[CountedColumns, CountedColumns]
"""The rows that are removed from a table, and the rows that are added to it."""


class Maintained:
    """The tables that static rules derive from input tables whose rows may change."""

    def __init__(
        self,
        rules: Sequence[StaticRule],
        facts: Mapping[str, pl.DataFrame],
        pool: Pool,
        source: Source | None,
        relations: Mapping[str, Relation],
        tables: Mapping[str, MaterializedRelation],
        declared: Mapping[str, FactDeclaration] | None = None,
    ) -> None:
        """Prepare the rules for incremental maintenance.

        - `relations`: all predicates that the rules derive or use. The tables of derived predicates already contain the
          rows that follow from the current input tables.
        - `tables`: the input tables, whose rows may change. They are also in `relations`.
        """
        rules = [alternative for rule in rules for alternative in without_alternatives(rule)]
        self.rules, self.facts, self.pool, self.source = rules, facts, pool, source
        self.relations, self.tables, self.declared = relations, tables, declared or {}
        self.derived: dict[str, MaterializedRelation] = {}
        for name in dict.fromkeys(rule.name for rule in rules):
            relation = relations[name]
            if isinstance(relation, MaterializedRelation):
                self.derived[name] = relation
        bodies: dict[str, list[StaticRule]] = {}
        for rule in rules:
            if rule.conditions:
                bodies.setdefault(rule.name, []).append(rule)
        self.bodies = bodies
        groups, _ = strata(list(dict.fromkeys(rule.name for rule in rules)), bodies)
        self._groups = [
            group for group in groups if any(name in self.derived and name in bodies for name in group.names)
        ]
        self._asked = {group.names: self._needs(group) for group in self._groups}
        self._single: dict[str, _Single | None] = {}

    def change(self, edits: Mapping[str, Edit], time: int, anew: bool = False) -> None:
        """Edit the input tables at the time `time`, and update the derived tables that depend on them.

        `anew`: True to compute all predicates anew, because other relations have changed too. Raises CepError if the
        rules do not terminate. The caller must then undo the edits.
        """
        for name, (gone, new) in edits.items():
            self.tables[name].edit(gone, new, self.pool, time)
        for group in self._groups:
            if anew:
                self._anew(group, time)
            elif any(table.changed for table in self._asked[group.names]):
                self._change(group, time)
        for table in (*self.tables.values(), *self.derived.values()):
            table.settle()

    def _needs(self, group: Stratum) -> list[MaterializedRelation]:
        """Return the tables that the rules of a group read, directly or through predicates that the rules call."""
        needed: dict[str, MaterializedRelation] = {}
        seen, queue = set(group.names), list(group.names)
        for name in queue:
            for predicate in _predicates(self.bodies.get(name, ())):
                if predicate.name in seen:
                    continue
                seen.add(predicate.name)
                table = _table(self.relations.get(predicate.name))
                if table is not None:
                    needed[predicate.name] = table
                elif predicate.name in self.bodies:
                    queue.append(predicate.name)
        return list(needed.values())

    def _change(self, group: Stratum, time: int) -> None:
        name = group.names[0]
        if name not in self._single:
            self._single[name] = None if group.recursive else self._entered(name)
        single = self._single[name]
        if single is None:
            self._anew(group, time)
        else:
            single.change(self.pool, time)

    def _anew(self, group: Stratum, time: int) -> None:
        """Compute the predicates of a group anew. Edit their tables where the new rows differ from the stored ones."""
        names = set(group.names)
        others = {name: relation for name, relation in self.relations.items() if name not in names}
        closed = close(
            [rule for rule in self.rules if rule.name in names],
            {name: table for name, table in self.facts.items() if name in names},
            self.pool, self.source, known=others,
            declared={name: declaration for name, declaration in self.declared.items() if name in names},
        )  # fmt: skip
        for name, closed_relation in closed.stored.items():
            if name in names:
                table = self.derived[name]
                assert closed_relation.types == table.types, "what has no other types makes none"
                table.edit(*edit_between(table, closed_relation.all()), self.pool, time)

    def _entered(self, name: str) -> _Single | None:
        """Return the rules of a predicate, prepared for incremental evaluation. Return None if the predicate must be
        computed anew instead."""
        facts = any(rule.name == name and not rule.conditions for rule in self.rules)
        called = any(
            not isinstance(self.relations.get(predicate.name), MaterializedRelation | TableWithConstants)
            and predicate.name in self.bodies
            for predicate in _predicates(self.bodies[name])
        )
        if facts or name in self.facts or called:
            return None
        try:
            return _Single(self, name)
        except (CepError, _Wider):
            return None


def edit_between(table: MaterializedRelation, rows: CountedColumns) -> Edit:
    """Return the edit that turns the rows of a table into `rows`."""
    other = MaterializedRelation(table.name, table.types)
    other.add(*rows)
    every, again = table.all(), table.repeated()
    gone = _chosen(every[0], ~other.has(*every))
    columns = tuple(np.concatenate(column_pair) for column_pair in zip(gone[0], again[0]))
    return (columns, gone[1] + again[1]), _chosen(rows[0], ~table.has(*rows))


def _chosen(columns: Sequence[Column], mask: Column) -> CountedColumns:
    return tuple(column[mask] for column in columns), int(mask.sum())


def _predicates(rules: Sequence[StaticRule]) -> Iterator[Predicate]:
    return (condition for rule in rules for condition in rule.conditions if isinstance(condition, Predicate))


def _table(relation: Relation | None) -> MaterializedRelation | None:
    if isinstance(relation, TableWithConstants) and isinstance(relation.table, MaterializedRelation):
        return relation.table
    return relation if isinstance(relation, MaterializedRelation) else None


@dataclass(frozen=True, slots=True)
class _EditEntry:
    """A rule, prepared for evaluation on the changed rows of one table that it uses.

    - `negated`: True if the table occurs under `not` in the rule.
    - `names`: for each column of the table, the variable that gets its values.
    - `former`, `former_head`: the other conditions and the head, for rows that are removed. They read the previous
      rows of tables.
    - `now`, `head`: the other conditions and the head, for rows that are added. They read the current rows of
      tables.
    """

    table: MaterializedRelation
    negated: bool
    names: Mapping[int, str]
    former: Conditions
    now: Conditions
    head: tuple[Evaluation, ...]
    former_head: tuple[Evaluation, ...]


class _Wider(Exception):
    """The error for a rule that would derive values of a type which the predicate's table cannot store."""


class _Single:
    """The rules of one predicate, prepared for incremental evaluation. The constructor raises CepError or `_Wider` if
    this is impossible."""

    def __init__(self, of: Maintained, name: str) -> None:
        self.table = of.derived[name]
        rules = of.bodies[name]
        before = {key: _former(relation) for key, relation in of.relations.items()}
        self.entries = [
            self._entry(of, rule, i, table, before)
            for rule in rules
            for i, condition in enumerate(rule.conditions)
            if isinstance(condition, Predicate) and (table := _table(of.relations.get(condition.name))) is not None
        ]
        derived = RulePredicate(name, rules, of.relations, of.pool, of.source)
        self.derived = derived.probe(dict(enumerate(self.table.types)), ())

    def _entry(
        self, of: Maintained, rule: StaticRule, i: int, table: MaterializedRelation, before: Mapping[str, Relation]
    ) -> _EditEntry:
        condition = rule.conditions[i]
        assert isinstance(condition, Predicate), "it asks a table"
        relation = of.relations[condition.name]
        held = (
            relation.held if isinstance(relation, TableWithConstants) else range(table.arity)
        )  # the positions that the table has
        entry = enter(condition.arguments, list(held))
        names = {place: entry.names[column] for place, column in enumerate(held)}
        types = {name: table.types[place] for place, name in names.items()}
        rest = entry.conditions + rule.conditions[:i] + rule.conditions[i + 1 :]
        former, now = (
            compile_conditions(rest, types, relations, of.pool, of.source) for relations in (before, of.relations)
        )
        heads = []
        for conditions in (former, now):
            known = {**types, **conditions.binds}
            terms = [check(argument, known, of.source) for argument in rule.arguments]
            if any(grown(type, term.type) != type for term, type in zip(terms, self.table.types)):
                raise _Wider  # the entered table has more kinds of values than other conditions for the variable
            heads.append(
                tuple(compile_expression(fit_head(term, type), of.pool) for term, type in zip(terms, self.table.types))
            )
        return _EditEntry(table, condition.negated, names, former, now, heads[1], heads[0])

    def change(self, pool: Pool, time: int) -> None:
        """Update the predicate's table after the tables that its rules use have changed. `time`: the time at which the
        change takes effect."""
        touched = MaterializedRelation(self.table.name, self.table.types)
        for entry in self.entries:
            if entry.table.changed:
                gone, new = entry.table.difference()
                lost, won = (new, gone) if entry.negated else (gone, new)
                _derive(touched, entry.former, entry.former_head, entry.names, lost)
                _derive(touched, entry.now, entry.head, entry.names, won)
        if not touched.count:
            return
        columns, count = [touched.column(i) for i in range(touched.arity)], touched.count
        derived = self.derived.holds(columns, count)
        held = self.table.has(columns, count)
        self.table.edit(_chosen(columns, held & ~derived), _chosen(columns, ~held & derived), pool, time)


def _derive(
    into: MaterializedRelation,
    conditions: Conditions,
    head: Sequence[Evaluation],
    names: Mapping[int, str],
    rows: CountedColumns,
) -> None:
    if not rows[1]:
        return
    entry_columns = {name: rows[0][place] for place, name in names.items()}
    index, binds = conditions.answers(entry_columns, rows[1])
    columns = {name: column[index] for name, column in entry_columns.items()} | binds
    into.add(*present([head_part(columns, len(index)) for head_part in head], len(index)))


def _former(relation: Relation) -> Relation:
    table = _table(relation)
    if table is None:
        return relation
    return (
        TableWithConstants(PreviousTable(table), relation.fixed)
        if isinstance(relation, TableWithConstants)
        else PreviousTable(table)
    )
