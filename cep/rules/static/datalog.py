"""Evaluation of static rules, stratum by stratum.

Most predicates become tables, by semi-naive evaluation. The rules of all other predicates are evaluated at each call.
"""

from __future__ import annotations

from collections import ChainMap, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from cep.core.errors import NOWHERE, CepError, CepErrors, Mistakes, Source, Span
from cep.core.relation import Column
from cep.core.schema import CODED
from cep.core.values import MISSING, Pool
from cep.rules.conditions.conditions import compile_conditions
from cep.rules.conditions.relations import Relation
from cep.rules.expressions.checking import check, variables
from cep.rules.expressions.evaluate import constant_value
from cep.rules.expressions.typed import TypedConstant, grown
from cep.rules.static.fixpoint import Fixpoint, entries
from cep.rules.static.materialized import MaterializedRelation, column_of, present, type_of
from cep.rules.static.rule_predicate import RulePredicate, enter, fit_head, order_of
from cep.rules.static.strata import strata
from cep.rules.static.typed_facts import DeclaredFacts, FactDeclaration
from cep.rules.terms import Expression, Predicate, StaticRule, Variable, normal_forms, without_alternatives

MAX_ROUNDS = 100_000
MAX_ROWS = 50_000_000
MOST_FORMS = 256
"""The maximum number of rules into which one rule with alternatives is expanded."""
DEEPEST = 50
"""The maximum depth of predicates that call each other."""


@dataclass(frozen=True, slots=True)
class Statics:
    """All static predicates of a program.

    `types`: for each predicate, the type of each position. None means any type.

    The owner of this object must tell the pool which codes the tables contain, so that the pool does not forget these
    codes.
    """

    relations: Mapping[str, Relation]

    @property
    def types(self) -> Mapping[str, tuple[str | None, ...]]:
        return {name: relation.types for name, relation in self.relations.items()}

    @property
    def stored(self) -> dict[str, MaterializedRelation]:
        return {
            name: relation for name, relation in self.relations.items() if isinstance(relation, MaterializedRelation)
        }

    def frame(self, name: str, pool: Pool) -> pl.DataFrame:
        """Return the rows of a predicate that is a table."""
        relation = self.relations[name]
        assert isinstance(relation, MaterializedRelation), f"`{name}` is called, it has no rows"
        return relation.frame(pool)


def close(
    rules: Sequence[StaticRule],
    tables: Mapping[str, pl.DataFrame],
    pool: Pool,
    source: Source | None = None,
    types: Mapping[str, Sequence[str]] | None = None,
    known: Mapping[str, Relation] | None = None,
    declared: Mapping[str, FactDeclaration] | None = None,
    max_rounds: int = MAX_ROUNDS,
    max_rows: int = MAX_ROWS,
) -> Statics:
    """Compute the least model of rules, facts and tables, with stratified negation. Raises CepError with all mistakes.

    Each column of a table is an argument. Nulls are missing values, and rules and facts derive no rows that have
    missing values.

    - `types`: the types of table columns that polars cannot represent (`iri`).
    - `known`: existing relations. No rule, fact or table may have the name of one of them.
    - `declared`: the declarations that facts and tables must match.
    - `max_rounds`: the maximum number of rounds of recursive rules that create new values.
    - `max_rows`: the maximum number of rows that a group of recursive rules derives.
    """
    return Closing(rules, tables, pool, source, types or {}, known or {}, declared or {}, max_rounds, max_rows).run()


class Closing:
    def __init__(
        self,
        rules: Sequence[StaticRule],
        tables: Mapping[str, pl.DataFrame],
        pool: Pool,
        source: Source | None,
        types: Mapping[str, Sequence[str]],
        known_relations: Mapping[str, Relation],
        declared: Mapping[str, FactDeclaration],
        max_rounds: int,
        max_rows: int,
    ) -> None:
        self.tables = dict(tables)
        self.pool = pool
        self.source = source
        self.given_types = dict(types)
        self.max_rounds = max_rounds
        self.max_rows = max_rows
        self.relations: dict[str, Relation] = dict(known_relations)
        self.errors = Mistakes()
        self.rules: dict[str, list[StaticRule]] = {}  # rules with a body
        self.facts: dict[str, list[StaticRule]] = {}
        self.arity: dict[str, int] = {name: table.width for name, table in tables.items()}
        self.arity |= {name: len(declaration.attributes) for name, declaration in declared.items()}
        for rule in rules:
            if self.arity.setdefault(rule.name, len(rule.arguments)) != len(rule.arguments):
                self.errors.append(self.other_arity(rule))
            elif rule.conditions:
                self.rules.setdefault(rule.name, []).extend(self.forms(rule))
            elif (variable := next((v for x in rule.arguments for v in _all_variables(x)), None)) is not None:
                self.errors.append(self.not_a_fact(rule, variable))
            else:
                self.facts.setdefault(rule.name, []).append(rule)
        self.declared = {
            name: DeclaredFacts(declaration, self.facts.get(name, ()), tables.get(name), source)
            for name, declaration in declared.items()
        }
        for name, held in self.declared.items():
            self.errors += held.errors
            self.given_types[name] = held.types
            if held.table is not None:
                self.tables[name] = held.table

    def forms(self, rule: StaticRule) -> list[StaticRule]:
        if normal_forms(rule.conditions) > MOST_FORMS:
            hint = "give the alternatives a rule of their own: `warm(X) :- (...).`, and ask it: `warm(X)`"
            self.errors.append(self.error(
                f"the alternatives of this rule make more than {MOST_FORMS} rules", rule.span, hint, "size"
            ))  # fmt: skip
            return []
        return without_alternatives(rule)

    def error(self, message: str, span: Span, hint: str | None, code: str) -> CepError:
        return CepError(message, self.source, span, hint, code)

    def other_arity(self, rule: StaticRule) -> CepError:
        arity, argument_count = self.arity[rule.name], len(rule.arguments)
        noun = "argument" if arity == 1 else "arguments"
        message = f"`{rule.name}` has {arity} {noun} elsewhere, but {argument_count} here"
        return self.error(message, rule.span, "a predicate has the same number of arguments everywhere", "arity")

    def not_a_fact(self, rule: StaticRule, variable: Variable) -> CepError:
        name = variable.name
        hint = f"bind it in a rule: `{rule.name}({name}) :- ...`; a name in lower case is a constant"
        return self.error(f"a fact cannot have variables, and `{name}` is one", variable.span, hint, "unsafe")

    def run(self) -> Statics:
        if self.errors:
            raise _together(self.errors)
        for name, arity in self.arity.items():  # makes every name known; each relation is replaced later
            self.relations[name] = MaterializedRelation(name, ("any",) * arity)
        groups, cycles = strata(list(self.arity), self.rules)
        for cycle in cycles:
            self.errors.append(self.not_stratified(cycle))
        if self.errors:
            raise _together(self.errors)
        for group in groups:
            try:
                self.close_group(group.names, group.recursive)
            except CepError as error:
                self.errors.add(error)
        if self.errors:
            raise _together(self.errors)
        return Statics(self.relations)

    def not_stratified(self, cycle: Sequence[tuple[str, Predicate]]) -> CepError:
        names = [name for name, _ in cycle]
        path = " needs ".join(
            f"`not {predicate.name}`" if predicate.negated else f"`{predicate.name}`" for _, predicate in cycle
        )
        negated = next(predicate for _, predicate in cycle if predicate.negated)
        message = f"`{names[0]}` depends on its own absence (not stratified): `{names[0]}` needs {path}"
        return self.error(message, negated.span, "a predicate under `not` must not depend on this rule", "stratified")

    # --- one predicate, or several that depend on each other

    def close_group(self, names: Sequence[str], recursive: bool) -> None:
        rules = [rule for name in names for rule in self.rules.get(name, ())]
        called = [rule for rule in rules if not self.stands_alone(rule, recursive)]
        if called:
            self.call(names[0])
            return
        stored = self.typed_tables(names, rules)
        self.relations.update(stored)
        for table in stored.values():
            self.load(table)
        if rules:
            Fixpoint(self, stored, rules, recursive).run()

    def stands_alone(self, rule: StaticRule, recursive: bool) -> bool:
        """Return True if the body of a rule binds all variables of the head. Then the rule's results can be stored in a
        table.

        Raises CepError if the body cannot be evaluated even if the head's variables have values. Also raises CepError
        if the rule is recursive and its body does not bind all variables of the head.
        """
        head = [variable for argument in rule.arguments for variable in _all_variables(argument)]
        try:
            known = order_of(rule, enter(rule.arguments, ()), self.relations, self.source)[1]
        except CepError:
            order_of(rule, enter(rule.arguments, range(len(rule.arguments))), self.relations, self.source)
            if recursive:
                raise
            return False
        free = [variable for variable in head if variable.name not in known]
        if recursive and free:
            name = free[0].name
            message = f"`{rule.name}` is recursive, so its body must bind `{name}` of its head"
            hint = f"bind it with a predicate that lists the values: `... :- value({name}), ...`"
            raise self.error(message, free[0].span, hint, "unsafe")
        return not free

    def call(self, name: str) -> None:
        rules = self.rules[name]
        if name in self.facts or name in self.tables:
            table = self.typed_tables([name], [])[name]
            self.load(table)
            listed = f"{name}#facts"  # no author can write this name
            self.relations[listed] = table
            arguments = tuple(Variable(f"X{i}") for i in range(self.arity[name]))
            rules = [StaticRule(name, arguments, (Predicate(listed, arguments),)), *rules]
        called = RulePredicate(name, rules, self.relations, self.pool, self.source)
        if called.depth > DEEPEST:
            message = f"`{name}` depends on more than {DEEPEST} levels of other predicates"
            hint = "use facts, or a predicate that lists the values, in the body of one of them"
            raise self.error(message, rules[0].span, hint, "deep")
        self.relations[name] = called
        called.probe(dict.fromkeys(range(called.arity), "any"), ())  # reports its mistakes, even if it is never called

    # --- types and rows of facts

    def typed_tables(self, names: Sequence[str], rules: Sequence[StaticRule]) -> dict[str, MaterializedRelation]:
        """Create an empty table for each predicate. A fixpoint over facts, tables and rules infers the types."""
        types: dict[str, list[str | None]] = {name: [None] * self.arity[name] for name in names}
        for name in names:
            if name in self.declared:
                types[name] = list(self.declared[name].types)
                continue
            for i, type in enumerate(self.table_types(name)):
                if type is not None:
                    types[name][i] = grown(types[name][i], type)
            for fact in self.facts.get(name, ()):
                for i, argument in enumerate(fact.arguments):
                    types[name][i] = grown(types[name][i], check(argument, {}, self.source).type)
        while True:
            errors = self.grow_types(types, rules)
            if errors:
                raise _together(errors)
            if not any(None in row for row in types.values()):
                return {
                    name: MaterializedRelation(name, [type or "any" for type in row]) for name, row in types.items()
                }
            for row in types.values():  # a column that stays empty may contain any type
                row[:] = [type or "any" for type in row]

    def grow_types(self, types: Mapping[str, list[str | None]], rules: Sequence[StaticRule]) -> list[CepError]:
        """Widen the column types in `types` until they include all values that the rules derive. Return the type errors
        of the rules."""
        errors: dict[int, list[CepError]] = {}
        tables = {name: MaterializedRelation(name, [type or "any" for type in row]) for name, row in types.items()}
        relations = ChainMap[str, Relation](dict(tables), self.relations)
        needs = [[condition for condition in rule.conditions if isinstance(condition, Predicate)] for rule in rules]
        readers: dict[str, list[int]] = {}
        for number, predicates in enumerate(needs):
            for name in dict.fromkeys(predicate.name for predicate in predicates if predicate.name in types):
                readers.setdefault(name, []).append(number)
        queue, waiting = deque(range(len(rules))), set(range(len(rules)))
        while queue:
            number = queue.popleft()
            waiting.remove(number)
            rule, errors[number] = rules[number], []
            if any(None in types[p.name] for p in needs[number] if p.name in types and not p.negated):
                continue  # the types of an empty table are not known yet
            row = types[rule.name]
            before = list(row)
            for entry in entries(rule, tables):
                try:
                    compiled = compile_conditions(entry.conditions, entry.types, relations, self.pool, self.source)
                    known = {**entry.types, **compiled.binds}
                    typed = [check(argument, known, self.source) for argument in rule.arguments]
                    if rule.name in self.declared:
                        self.declared[rule.name].made(rule, typed)
                        continue
                    head_types = [expression.type for expression in typed]
                except CepError as error:
                    errors[number].append(error)
                    continue
                row[:] = [grown(old, new) for old, new in zip(row, head_types)]
            if row != before:
                relations[rule.name] = tables[rule.name] = MaterializedRelation(
                    rule.name, [type or "any" for type in row]
                )
                again = [reader for reader in readers.get(rule.name, ()) if reader not in waiting]
                waiting.update(again)
                queue += again
        return [error for number in range(len(rules)) for error in errors[number]]

    def table_types(self, name: str) -> Sequence[str | None]:
        if name in self.given_types:
            return self.given_types[name]
        return [type_of(dtype) for dtype in self.tables[name].dtypes] if name in self.tables else ()

    def load(self, stored: MaterializedRelation) -> None:
        """Add the facts of a predicate to its table, then the rows of its input table."""
        facts = self.facts.get(stored.name, [])
        columns: list[Column] = []
        for i, type in enumerate(stored.types):
            values = [self.value(fact.arguments[i], type) for fact in facts]
            if type in CODED:
                columns.append(self.pool.encode_values(values))
            elif type == "float":
                columns.append(np.array([np.nan if value is None else value for value in values], dtype=np.float64))
            else:
                columns.append(np.array([MISSING if value is None else value for value in values], dtype=np.int64))
        stored.add(*present(columns, len(facts)))
        if stored.name in self.tables:
            table = self.tables[stored.name]
            types = self.table_types(stored.name)
            stored.add([self.column(*parts) for parts in zip(table.iter_columns(), types, stored.types)], table.height)

    def column(self, series: pl.Series, table_type: str | None, type: str) -> Column:
        if type == "any":
            return self.pool.encode(series, "iri" if table_type == "iri" else "any")
        return column_of(series, type, self.pool)

    def value(self, argument: Expression, type: str) -> int | float | str | bool | None:
        typed = fit_head(check(argument, {}, self.source), type)
        return typed.value if isinstance(typed, TypedConstant) else constant_value(typed)


def _all_variables(expression: Expression) -> list[Variable]:
    if isinstance(expression, Variable):
        return [expression]
    return variables(expression)


def _together(errors: list[CepError]) -> CepError:
    unique: dict[tuple[str, Span], CepError] = {}
    for error in errors:
        unique.setdefault((error.message, error.span or NOWHERE), error)
    return next(iter(unique.values())) if len(unique) == 1 else CepErrors(list(unique.values()))
