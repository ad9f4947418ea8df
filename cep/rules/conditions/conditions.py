"""Conjunctions of conditions. This module puts the conditions in binding order and evaluates them on whole columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cep.core.errors import CepError, CepErrors, Mistakes, Source
from cep.core.relation import Column
from cep.core.schema import CODED
from cep.core.values import Ints, Pool
from cep.rules.conditions.binding_order import arrange, binding, is_test, names_of
from cep.rules.conditions.condition_steps import Argument, BoundRows, Live, Step, any_of, join, semijoin, union
from cep.rules.conditions.relations import Mask, Probe, Relation
from cep.rules.expressions.checking import check, check_comparison, compile_expression, compile_test
from cep.rules.expressions.evaluate import Columns, may_miss, missing
from cep.rules.expressions.typed import Typed, TypedCall, TypedVariable, a, coerced, fitted, grown
from cep.rules.terms import (
    Call,
    Comparison,
    Condition,
    Disjunction,
    Expression,
    Predicate,
    Variable,
    as_expression,
    each_condition,
    expression_variables,
)


@dataclass(frozen=True, slots=True)
class Conditions:
    """A conjunction that is ready to run.

    - `order`: the conditions in binding order.
    - `binds`: the variables that the conjunction binds, in order, with their types.
    - `single`: True if there is never more than one answer for a row.
    - `optional`: the variables of `binds` whose value may be missing.
    """

    order: tuple[Condition, ...]
    binds: Mapping[str, str]
    single: bool
    optional: frozenset[str]
    _steps: tuple[Step, ...]
    _tests: Callable[[], tuple[Step, ...]] = field(compare=False)
    _probes: tuple[Probe, ...] = field(compare=False)
    _cache: list[tuple[Step, ...]] = field(default_factory=list, compare=False)

    def asks(self, name: str) -> bool:
        return any(name in names_of(condition) for condition in self.order)

    @property
    def timed(self) -> bool:
        """True if the conditions query a relation that changes with time (`Probe.timed`)."""
        return any(probe.timed for probe in self._probes)

    def answers(self, columns: Columns, rows: int) -> tuple[Ints, dict[str, Column]]:
        """Find the values of the variables that the conditions bind. Return the row number of each answer in ascending
        order, and a column for each of these variables.

        The answers for one row differ from each other. Their order depends only on the conditions and on the order of
        rows in relations.
        """
        batch = _run(self._steps, columns, rows)
        batch.settle(self.binds)
        index = np.arange(rows, dtype=np.int64) if batch.index is None else batch.index
        return index, {name: batch.columns[name] for name in self.binds}

    def holds(self, columns: Columns, rows: int) -> Mask:
        """Return a mask of the rows for which the conditions are true."""
        if not self._cache:
            self._cache.append(self._steps if self.single else self._tests())
        batch = _run(self._cache[0], columns, rows)
        if batch.index is None:
            return np.ones(rows, dtype=np.bool_) if batch.mask is None else batch.mask
        batch.settle(())
        holding = np.zeros(rows, dtype=np.bool_)
        holding[batch.index] = True
        return holding


def _run(steps: tuple[Step, ...], columns: Columns, rows: int) -> BoundRows:
    batch = BoundRows(dict(columns), rows, ends=columns.get("end()"))
    for step in steps:
        step(batch)
    return batch


def compile_conditions(
    conditions: Sequence[Condition],
    types: Mapping[str, str],
    relations: Mapping[str, Relation],
    pool: Pool,
    source: Source | None = None,
    optional: frozenset[str] | None = None,
) -> Conditions:
    """Compile a conjunction. Raises CepError with all mistakes.

    `types`: the types of the variables that are already bound, and of `start()`, `end()` and `duration()` if the
    conditions can use them. `optional`: the variables whose value may be missing. None means all.
    """
    order = arrange(conditions, types, relations, source)
    builder = _Builder(order, types, relations, pool, source, optional)
    steps = builder.build(keep=True)
    tests = _Builder(order, types, relations, pool, source, optional)
    return Conditions(
        order, builder.binds, builder.single, frozenset(builder.missable.intersection(builder.binds)), steps,
        lambda: tests.build(keep=False), tuple(builder.probes),
    )  # fmt: skip


class _Builder:
    """Builder of the steps for conditions in binding order. It keeps track of types, and of variables that may be
    missing."""

    def __init__(
        self,
        order: tuple[Condition, ...],
        types: Mapping[str, str],
        relations: Mapping[str, Relation],
        pool: Pool,
        source: Source | None,
        optional: frozenset[str] | None,
    ) -> None:
        self.order = order
        self.types = dict(types)
        self.relations = relations
        self.pool = pool
        self.source = source
        self.missable = set(types) if optional is None else set(optional)
        self.binds: dict[str, str] = {}
        self.single = True
        self.errors = Mistakes()
        self.steps: list[Step] = []
        self.probes: list[Probe] = []

    def build(self, keep: bool) -> tuple[Step, ...]:
        """Return the steps that evaluate the conditions.

        `keep`: True if the caller needs the values of all bound variables. Otherwise a value is kept only while later
        conditions use it.
        """
        last = {name: place for place, condition in enumerate(self.order) for name in names_of(condition)}
        kept = self.binds if keep else ()
        for place, condition in enumerate(self.order):
            try:
                self.add(condition, Live(last, place, kept), Live(last, place + 1, kept), keep)
            except CepError as error:
                self.errors.add(error)
                for variable in binding(condition, self.types):
                    self.types[variable] = "any"  # "any" avoids a second report of the same mistake
        if self.errors:
            raise self.errors[0] if len(self.errors) == 1 else CepErrors(self.errors)
        return tuple(self.steps)

    def add(self, condition: Condition, needed: Live, live: Live, keep: bool) -> None:
        """Add the step for a condition.

        - `needed`: the variables that this condition or a later one uses.
        - `live`: the variables that a later condition uses.
        - `keep`: True if the caller needs the values of all bound variables.
        """
        if isinstance(condition, Comparison):
            bound = binding(condition, self.types)
            if bound:
                value = condition.right if condition.left == Variable(bound[0]) else condition.left
                self.assign(bound[0], check(value, self.types, self.source), needed)
            else:
                self.filter(check_comparison(condition, self.types, self.source), False, needed)
        elif isinstance(condition, Disjunction):
            self.either(condition, needed, live, keep)
        elif is_test(condition, self.relations):
            call = Call(condition.name, condition.arguments, condition.span)
            self.filter(check(call, self.types, self.source), condition.negated, needed)
        else:
            self.ask(condition, needed, live, keep)

    def either(self, condition: Disjunction, needed: Live, live: Live, keep: bool) -> None:
        """Add the step for a disjunction. A disjunction of tests becomes one test. Otherwise one step evaluates all
        alternatives."""
        fresh = binding(condition, self.types)
        leaves = list(each_condition([condition]))
        if not fresh and all(isinstance(leaf, Comparison) or is_test(leaf, self.relations) for leaf in leaves):
            call = as_expression(condition)
            if call is not None and all(name in self.types for name in expression_variables(call)):
                self.filter(check(call, self.types, self.source), False, needed)
                return
        optional = frozenset(self.missable)
        alternatives = [
            compile_conditions(inside, self.types, self.relations, self.pool, self.source, optional)
            for inside in condition.alternatives
        ]
        self.probes += [probe for alternative in alternatives for probe in alternative._probes]
        if not fresh or not (keep or any(name in live for name in fresh)):
            self.steps.append(any_of(alternatives, needed))
            for name in fresh:
                self.bind(name, "any")
            return
        types: dict[str, str] = {}
        for name in fresh:
            for alternative in alternatives:
                types[name] = grown(types.get(name, alternative.binds[name]), alternative.binds[name])
        self.single = False
        converted = []
        for alternative in alternatives:
            typed = [coerced(TypedVariable(name, alternative.binds[name]), type) for name, type in types.items()]
            converted.append([compile_expression(value, self.pool) for value in typed if value is not None])
        self.steps.append(union(list(zip(alternatives, converted)), tuple(fresh), needed, live))
        for name, type in types.items():
            self.bind(name, type)
            self.missable.add(name)

    def filter(self, typed: Typed, negated: bool, needed: Live) -> None:
        test = compile_test(typed, self.pool, self.missable, negated)
        dear = _dear(typed)

        def run(batch: BoundRows) -> None:
            if dear:
                batch.settle(needed)
            batch.narrow(test(batch.columns, batch.rows))

        self.steps.append(run)

    def assign(self, name: str, typed: Typed, needed: Live) -> None:
        value = compile_expression(typed, self.pool, self.missable)
        checked, type = may_miss(typed, self.missable), typed.type
        dear = _dear(typed)

        def run(batch: BoundRows) -> None:
            if dear:
                batch.settle(needed)
            column = value(batch.columns, batch.rows)
            batch.columns[name] = column
            if checked:  # `=` is false if a side is missing
                batch.narrow(~missing(column, type))

        self.steps.append(run)
        self.bind(name, type)

    def bind(self, name: str, type: str) -> None:
        self.types[name] = type
        if "#" not in name:  # not the second occurrence of a variable in a predicate
            self.binds[name] = type

    def ask(self, predicate: Predicate, needed: Live, live: Live, keep: bool) -> None:
        names = Counter(argument.name for argument in predicate.arguments if isinstance(argument, Variable))
        relation = self.relations[predicate.name]
        bound: dict[int, Typed] = {}
        wanted: dict[int, str] = {}  # position -> the variable that it binds
        again: list[tuple[str, str]] = []  # the two names of a variable that occurs twice; their values are compared
        seen: set[str] = set()
        errors = Mistakes()
        for i, argument in enumerate(predicate.arguments):
            if isinstance(argument, Variable) and argument.name not in self.types:
                if argument.name == "_":
                    continue
                if argument.name in seen:
                    again.append((argument.name, f"{argument.name}#{i}"))
                    wanted[i] = f"{argument.name}#{i}"
                elif keep or argument.name in live or names[argument.name] > 1:
                    wanted[i] = argument.name
                    seen.add(argument.name)
                continue
            try:
                bound[i] = check(argument, self.types, self.source)
                wanted_type = relation.types[i]
                if wanted_type is not None and fitted(bound[i], wanted_type) is None:
                    errors.append(self.misfit(predicate, i, argument, bound[i].type, wanted_type))
            except CepError as error:
                errors.append(error)
        if errors:
            raise errors[0] if len(errors) == 1 else CepErrors(errors)
        fits = [_fit(typed, relation.types[i]) for i, typed in bound.items()]
        probe = relation.probe({i: fit.type for i, fit in zip(bound, fits)}, tuple(wanted))
        self.probes.append(probe)
        arguments = [
            Argument(
                compile_expression(typed, self.pool, self.missable)
                if may_miss(typed, self.missable) and fit != typed
                else None,
                typed.type, compile_expression(fit, self.pool, self.missable), fit.type, may_miss(fit, self.missable),
                may_miss(typed, self.missable),
            )
            for typed, fit in zip(bound.values(), fits)
        ]  # fmt: skip
        if predicate.negated or not wanted:
            self.steps.append(semijoin(probe, arguments, predicate.negated, needed))
            return
        self.single = self.single and probe.single
        self.steps.append(join(probe, arguments, tuple(wanted.values()), needed, live))
        for name, type in zip(wanted.values(), probe.types):
            self.bind(name, type)
            self.missable.add(name)
        for name, twin in again:
            sides = check_comparison(Comparison("=", Variable(name), Variable(twin)), self.types, self.source)
            self.filter(sides, False, live)
            del self.types[twin]

    def misfit(self, predicate: Predicate, place: int, argument: Expression, type: str, wanted: str) -> CepError:
        nth = ["first", "second", "third", "fourth", "fifth"][place] if place < 5 else f"{place + 1}th"
        what = f"`{argument.name}` is {a(type)}" if isinstance(argument, Variable) else f"this is {a(type)}"
        hints = {("iri", "string"): "an IRI is written `<...>` or `prefix:name`"}
        if isinstance(argument, Variable):
            name = argument.name
            hints = {
                ("iri", "string"): f'`iri("http://.../", {name})` makes an IRI of a text',
                ("string", "iri"): f"`string({name})` gives the text of an IRI",
                ("string", "int"): f"`string({name})` gives the text of a number{_table_of_numbers(predicate)}",
                ("int", "string"): f"`int({name})` gives the number that is written in a text",
                ("float", "string"): f"`float({name})` gives the number that is written in a text",
            }
        hint = hints.get((wanted, type))
        where = f"the {nth} argument of `{predicate.name.partition('(')[0]}`"
        if predicate.graph is not None:
            where = f"`?{predicate.graph.variables[place]}` of the graph pattern"
        message = f"{where} is {a(wanted)}, and {what}"
        return CepError(message, self.source, argument.span, hint, "type")


def _table_of_numbers(predicate: Predicate) -> str:
    if predicate.graph is not None or "(" in predicate.name:
        return ""
    return f"; `fact {predicate.name}(id: int, ..).` says which columns of a table are numbers"


def _fit(typed: Typed, type: str | None) -> Typed:
    fit = typed if type is None else fitted(typed, type)
    assert fit is not None, "misfits have been reported"
    return fit


def _dear(typed: Typed) -> bool:
    # Distances, text functions and values of unknown type are slow, so rows that have already failed are dropped first.
    if not isinstance(typed, TypedCall):
        return False
    coded = any(argument.type in CODED for argument in typed.arguments)
    dear = typed.function == "distance" or (coded and typed.function not in ("=", "!="))
    return dear or any(map(_dear, typed.arguments))
