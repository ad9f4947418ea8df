"""Conjunctions of conditions: put in an order in which every input is bound, then answered for whole columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from cep.core.errors import CepError, CepErrors, Mistakes, Source
from cep.core.schema import CODED
from cep.core.values import Ints, Pool
from cep.rules.binding_order import arrange, binding, is_test, names_of
from cep.rules.evaluate import Columns, Evaluation, may_miss, missing
from cep.rules.expressions import check, check_comparison, compile, compile_test
from cep.rules.relations import Column, Mask, Probe, Relation
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
from cep.rules.typed import Typed, TypedCall, TypedVariable, a, coerced, fitted, grown


@dataclass(slots=True)
class _Batch:
    """What is left of the rows after some steps: columns, the row each came from, and a mask not yet applied."""

    columns: dict[str, Column]
    rows: int
    index: Ints | None = None
    mask: Mask | None = None
    ends: Ints | None = None  # of the rows that there were at first

    def ended(self) -> Ints:
        """When the occurrence of each row ends."""
        assert self.ends is not None, "rules about occurrences know when they end"
        return self.ends if self.index is None else self.ends[self.index]

    def narrow(self, mask: Mask) -> None:
        self.mask = mask if self.mask is None else self.mask & mask

    def settle(self, live: Container[str]) -> None:
        """Apply the mask. Only `live` variables are kept."""
        if self.mask is None:
            return
        kept = np.flatnonzero(self.mask)
        self.mask = None
        if len(kept) < self.rows:
            self.take(kept, live)

    def take(self, kept: Ints, live: Container[str]) -> None:
        self.columns = {name: column[kept] for name, column in self.columns.items() if name in live}
        self.index = kept if self.index is None else self.index[kept]
        self.rows = len(kept)


Step = Callable[[_Batch], None]


@dataclass(frozen=True, slots=True)
class _Live:
    """The variables that some condition from place `since` on has, and those of `kept`. `last`: where each stands
    last."""

    last: Mapping[str, int]
    since: int
    kept: Container[str]

    def __contains__(self, name: object) -> bool:
        return self.last.get(name, -1) >= self.since or name in self.kept  # type: ignore[call-overload]


@dataclass(frozen=True, slots=True)
class Conditions:
    """A conjunction ready to run. `binds`: the variables it binds and their types, in the order of binding;
    `single`: never more than one answer a row; `optional`: which of `binds` may be missing."""

    order: tuple[Condition, ...]
    binds: Mapping[str, str]
    single: bool
    optional: frozenset[str]
    _steps: tuple[Step, ...]
    _tests: Callable[[], tuple[Step, ...]] = field(compare=False)
    _cache: list[tuple[Step, ...]] = field(default_factory=list, compare=False)

    def answers(self, columns: Columns, rows: int) -> tuple[Ints, dict[str, Column]]:
        """For each answer the row it belongs to (ascending), and a column for each bound variable beside it.

        Answers of one row are distinct; their order follows the conditions' and the order within relations.
        """
        batch = _run(self._steps, columns, rows)
        batch.settle(self.binds)
        index = np.arange(rows, dtype=np.int64) if batch.index is None else batch.index
        return index, {name: batch.columns[name] for name in self.binds}

    def holds(self, columns: Columns, rows: int) -> Mask:
        """Which rows have at least one answer."""
        if not self._cache:
            self._cache.append(self._steps if self.single else self._tests())
        batch = _run(self._cache[0], columns, rows)
        if batch.index is None:
            return np.ones(rows, dtype=np.bool_) if batch.mask is None else batch.mask
        batch.settle(())
        found = np.zeros(rows, dtype=np.bool_)
        found[batch.index] = True
        return found


def _run(steps: tuple[Step, ...], columns: Columns, rows: int) -> _Batch:
    batch = _Batch(dict(columns), rows, ends=columns.get("end()"))
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
    """A conjunction over variables of these types. Raises all its mistakes at once.

    `types` also holds `start()`, `end()`, `duration()` where they are known. `optional`: the variables that may be
    missing, None for all.
    """
    order = arrange(conditions, types, relations, source)
    builder = _Builder(order, types, relations, pool, source, optional)
    steps = builder.build(keep=True)
    tests = _Builder(order, types, relations, pool, source, optional)
    return Conditions(
        order, builder.binds, builder.single, frozenset(builder.missable.intersection(builder.binds)), steps,
        lambda: tests.build(keep=False),
    )  # fmt: skip


class _Builder:
    """Steps for conditions in order, while the types and what may be missing are followed."""

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

    def build(self, keep: bool) -> tuple[Step, ...]:
        """`keep`: all variables are wanted, not only those that later conditions use."""
        last = {name: place for place, condition in enumerate(self.order) for name in names_of(condition)}
        kept = self.binds if keep else ()
        for place, condition in enumerate(self.order):
            try:
                self.add(condition, _Live(last, place, kept), _Live(last, place + 1, kept), keep)
            except CepError as error:
                self.errors.add(error)
                for variable in binding(condition, self.types):
                    self.types[variable] = "any"  # one mistake is reported once
        if self.errors:
            raise self.errors[0] if len(self.errors) == 1 else CepErrors(self.errors)
        return tuple(self.steps)

    def add(self, condition: Condition, needed: _Live, live: _Live, keep: bool) -> None:
        """`needed`: what it and what follows it uses, `live`: what follows it."""
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

    def either(self, condition: Disjunction, needed: _Live, live: _Live, keep: bool) -> None:
        """Tests alone are one test; what binds or asks something is answered alternative by alternative."""
        fresh = binding(condition, self.types)
        leaves = list(each_condition([condition]))
        if not fresh and all(isinstance(each, Comparison) or is_test(each, self.relations) for each in leaves):
            call = as_expression(condition)
            if call is not None and all(name in self.types for name in expression_variables(call)):
                self.filter(check(call, self.types, self.source), False, needed)
                return
        optional = frozenset(self.missable)
        alternatives = [
            compile_conditions(inside, self.types, self.relations, self.pool, self.source, optional)
            for inside in condition.alternatives
        ]
        if not fresh or not (keep or any(name in live for name in fresh)):
            self.steps.append(_any_of(alternatives, needed))
            for name in fresh:
                self.bind(name, "any")
            return
        types: dict[str, str] = {}
        for name in fresh:
            for each in alternatives:
                types[name] = grown(types.get(name, each.binds[name]), each.binds[name])
        self.single = False
        converted = []
        for each in alternatives:
            typed = [coerced(TypedVariable(name, each.binds[name]), type) for name, type in types.items()]
            converted.append([compile(value, self.pool) for value in typed if value is not None])
        self.steps.append(_union(list(zip(alternatives, converted)), tuple(fresh), needed, live))
        for name, type in types.items():
            self.bind(name, type)
            self.missable.add(name)

    def filter(self, typed: Typed, negated: bool, needed: _Live) -> None:
        test = compile_test(typed, self.pool, self.missable, negated)
        dear = _dear(typed)

        def run(batch: _Batch) -> None:
            if dear:
                batch.settle(needed)
            batch.narrow(test(batch.columns, batch.rows))

        self.steps.append(run)

    def assign(self, name: str, typed: Typed, needed: _Live) -> None:
        value = compile(typed, self.pool, self.missable)
        checked, type = may_miss(typed, self.missable), typed.type
        dear = _dear(typed)

        def run(batch: _Batch) -> None:
            if dear:
                batch.settle(needed)
            column = value(batch.columns, batch.rows)
            batch.columns[name] = column
            if checked:  # `=` is false where a side is missing
                batch.narrow(~missing(column, type))

        self.steps.append(run)
        self.bind(name, type)

    def bind(self, name: str, type: str) -> None:
        self.types[name] = type
        if "#" not in name:  # the second of a variable that stands twice
            self.binds[name] = type

    def ask(self, predicate: Predicate, needed: _Live, live: _Live, keep: bool) -> None:
        names = Counter(argument.name for argument in predicate.arguments if isinstance(argument, Variable))
        relation = self.relations[predicate.name]
        bound: dict[int, Typed] = {}
        wanted: dict[int, str] = {}  # position -> variable it binds
        again: list[tuple[str, str]] = []  # a variable that stands twice: the second is compared
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
        arguments = [
            _Argument(
                compile(typed, self.pool, self.missable) if may_miss(typed, self.missable) and fit != typed else None,
                typed.type, compile(fit, self.pool, self.missable), fit.type, may_miss(fit, self.missable),
                may_miss(typed, self.missable),
            )
            for typed, fit in zip(bound.values(), fits)
        ]  # fmt: skip
        if predicate.negated or not wanted:
            self.steps.append(_semijoin(probe, arguments, predicate.negated, needed))
            return
        self.single = self.single and probe.single
        self.steps.append(_join(probe, arguments, tuple(wanted.values()), needed, live))
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
                ("string", "int"): f"`string({name})` gives the text of a number",
                ("int", "string"): f"`int({name})` gives the number that is written in a text",
                ("float", "string"): f"`float({name})` gives the number that is written in a text",
            }
        hint = hints.get((wanted, type))
        where = f"the {nth} argument of `{predicate.name.partition('(')[0]}`"
        if predicate.graph is not None:
            where = f"`?{predicate.graph.variables[place]}` of the graph pattern"
        message = f"{where} is {a(wanted)}, and {what}"
        return CepError(message, self.source, argument.span, hint, "type")


@dataclass(frozen=True, slots=True)
class _Argument:
    """A bound argument: as it is (None: where it is missing, the fitted one is), and fitted to the relation, which may
    miss a value that the relation cannot have."""

    given: Evaluation | None
    type: str
    fitted: Evaluation
    fitted_type: str
    may_miss: bool
    given_may_miss: bool


def _fit(typed: Typed, type: str | None) -> Typed:
    fit = typed if type is None else fitted(typed, type)
    assert fit is not None, "misfits have been reported"
    return fit


def _bound(arguments: list[_Argument], batch: _Batch) -> tuple[list[Column], Mask | None]:
    """The arguments' columns and where the relation can have them; None: everywhere."""
    columns: list[Column] = []
    fits: Mask | None = None
    for argument in arguments:
        column = argument.fitted(batch.columns, batch.rows)
        columns.append(column)
        if argument.may_miss:
            there = ~missing(column, argument.fitted_type)
            fits = there if fits is None else fits & there
    return columns, None if fits is None or fits.all() else fits


def _semijoin(probe: Probe, arguments: list[_Argument], negated: bool, needed: _Live) -> Step:
    def run(batch: _Batch) -> None:
        batch.settle(needed)
        columns, fits = _bound(arguments, batch)
        ends = batch.ended() if probe.timed else None
        if fits is None:
            found = probe.holds(columns, batch.rows, ends)
        else:
            rows = np.flatnonzero(fits)
            found = np.zeros(batch.rows, dtype=np.bool_)
            found[rows] = probe.holds([c[rows] for c in columns], len(rows), None if ends is None else ends[rows])
        if not negated:
            batch.narrow(found)
            return
        # What the relation cannot have is not in it; but of what is missing nothing is known.
        there = ~found
        for argument, column in zip(arguments, columns):
            if argument.given is not None:
                there &= ~missing(argument.given(batch.columns, batch.rows), argument.type)
            elif argument.given_may_miss:
                there &= ~missing(column, argument.type)
        batch.narrow(there)

    return run


def _join(probe: Probe, arguments: list[_Argument], names: tuple[str, ...], needed: _Live, live: _Live) -> Step:
    def run(batch: _Batch) -> None:
        batch.settle(needed)
        columns, fits = _bound(arguments, batch)
        ends = batch.ended() if probe.timed else None
        if fits is None:
            index, found = probe.answers(columns, batch.rows, ends)
        else:
            rows = np.flatnonzero(fits)
            ends = None if ends is None else ends[rows]
            index, found = probe.answers([column[rows] for column in columns], len(rows), ends)
            index = rows[index]
        batch.take(index, live)
        batch.columns.update(zip(names, found))

    return run


def _seen(batch: _Batch) -> dict[str, Column]:
    """The columns of a batch, the ends of its occurrences among them."""
    return batch.columns if batch.ends is None else {**batch.columns, "end()": batch.ended()}


def _any_of(alternatives: Sequence[Conditions], needed: _Live) -> Step:
    """The rows for which an alternative holds; each is asked only of those for which none before does."""

    def run(batch: _Batch) -> None:
        batch.settle(needed)
        columns = _seen(batch)
        found = np.zeros(batch.rows, dtype=np.bool_)
        for alternative in alternatives:
            rows = np.flatnonzero(~found)
            if len(rows):
                found[rows] = alternative.holds({name: column[rows] for name, column in columns.items()}, len(rows))
        batch.narrow(found)

    return run


def _union(
    alternatives: Sequence[tuple[Conditions, Sequence[Evaluation]]],
    names: tuple[str, ...],
    needed: _Live,
    live: _Live,
) -> Step:
    """The answers of all alternatives, each once, in their order."""

    def run(batch: _Batch) -> None:
        batch.settle(needed)
        columns = _seen(batch)
        places: list[Ints] = []
        found: list[list[Column]] = []
        for alternative, converted in alternatives:
            index, binds = alternative.answers(columns, batch.rows)
            places.append(index)
            found.append([evaluate(binds, len(index)) for evaluate in converted])
        index = np.concatenate(places)
        merged = [np.concatenate(parts) for parts in zip(*found)]
        words = {f"{number}": column.view(np.int64) for number, column in enumerate([index, *merged])}
        first = pl.DataFrame(words).with_row_index("at").unique(list(words), keep="first", maintain_order=True)
        kept = first["at"].to_numpy().astype(np.int64)
        kept = kept[np.argsort(index[kept], kind="stable")]
        batch.take(index[kept], live)
        batch.columns.update(zip(names, (column[kept] for column in merged)))

    return run


def _dear(typed: Typed) -> bool:
    # Distances, work with texts and values of unknown kind: worth leaving out the rows that have already failed.
    if not isinstance(typed, TypedCall):
        return False
    coded = any(argument.type in CODED for argument in typed.arguments)
    dear = typed.function == "distance" or (coded and typed.function not in ("=", "!="))
    return dear or any(map(_dear, typed.arguments))
