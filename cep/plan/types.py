"""Infer the types of all columns by a fixpoint over the rules, and report every static type error.

An undeclared derived event gets its types from the heads of its rules. Int and float are combined to float, other
mixtures to `any`. Groups of units are typed in running order. If a type in a cycle changes, the units that read it are
typed again. A type can only become more general.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from cep.core.errors import MOST, CepError, CepErrors, Source, Span
from cep.core.fluents import author_name
from cep.core.schema import Schema
from cep.core.values import Pool
from cep.plan.advice import advised, conversion
from cep.plan.algebra import Head
from cep.plan.binarise import Binarised
from cep.plan.names import author_names, excerpt
from cep.plan.order import Group, PlanUnit, settle
from cep.rules.conditions.conditions import Conditions, compile_conditions
from cep.rules.conditions.relations import Relation
from cep.rules.expressions.aggregates import example
from cep.rules.expressions.checking import check
from cep.rules.expressions.typed import Typed, a, coerced, common_type
from cep.rules.terms import (
    AggregateResult,
    Condition,
    Expression,
    Variable,
    condition_variables,
    expression_variables,
    rename_condition,
    rename_expression,
)

UNKNOWN = "unknown"
TIMES = {"start()": "time", "end()": "time", "duration()": "duration"}
ORDERED = ("int", "float", "time", "duration")
SUMMED = {
    "sum": ("numbers and durations", ("int", "float", "duration", "any")),
    "min": ("numbers, times and durations", (*ORDERED, "any")),
    "max": ("numbers, times and durations", (*ORDERED, "any")),
}


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a node's column. `optional`: True if values may be missing."""

    spelt_as: ClassVar[str] = "Column"
    type: str
    optional: bool


@dataclass(slots=True)
class Typing:
    """The result of type inference: the columns of each node, the schema of each event, and the typed arguments of each
    head."""

    columns: list[tuple[ColumnType, ...]]
    schemas: dict[str, Schema]
    heads: list[tuple[Typed, ...]]


def infer(
    binarised: Binarised,
    groups: Sequence[Group],
    schemas: Mapping[str, Schema],
    relations: Mapping[str, Relation],
    pool: Pool,
    source: Source,
    partial: bool = False,
) -> Typing:
    """Infer the types of all columns of a plan. Raises CepErrors with all type errors and conditions that cannot run.

    `partial`: True if rules with errors were left out, so that some types may be unknown.
    """
    return Inference(binarised, groups, dict(schemas), relations, pool, source, partial).run()


class Inference:
    """The types inferred so far. Nodes use this object to compute the types of their columns (see `Node.columns`)."""

    def __init__(
        self,
        binarised: Binarised,
        groups: Sequence[Group],
        schemas: dict[str, Schema],
        relations: Mapping[str, Relation],
        pool: Pool,
        source: Source,
        partial: bool,
    ) -> None:
        self.partial = partial
        self.nodes = binarised.nodes
        self.names = binarised.names
        self.spans = binarised.spans
        self.heads = binarised.heads
        self.groups = groups
        self.heads_of: dict[str, list[Head]] = {}
        for head in self.heads:
            self.heads_of.setdefault(head.event, []).append(head)
        self.schemas = schemas
        self.relations = relations
        self.pool = pool
        self.source = source
        self.columns: list[tuple[ColumnType, ...]] = [() for _ in self.nodes]
        self.errors: dict[tuple[str, Span | None], CepError] = {}
        self.final = False

    def run(self) -> Typing:
        settle(self.groups, self.nodes, self.heads, self.grows)
        for name, schema in self.schemas.items():
            if any(x.type == UNKNOWN for x in schema.attributes):
                known = tuple(replace(x, type="any") if x.type == UNKNOWN else x for x in schema.attributes)
                self.schemas[name] = replace(schema, attributes=known)
        self.final = True
        for number, node in enumerate(self.nodes):
            self.columns[number] = node.columns(self, number)
        heads = [self.head(head) for head in self.heads]
        if self.errors:
            raise CepErrors(list(self.errors.values()))
        return Typing(self.columns, self.schemas, heads)

    def error(self, error: CepError) -> None:
        if not self.final:
            return
        for inner in error.errors if isinstance(error, CepErrors) else (error,):
            self.errors.setdefault((inner.message, inner.span), inner)
        if len(self.errors) >= MOST:
            raise CepErrors(list(self.errors.values()))

    def complain(self, message: str, span: Span, hint: str | None = None) -> None:
        self.error(CepError(message, self.source, span, hint, "type"))

    # --- the fixpoint ---

    def grows(self, unit: PlanUnit) -> bool:
        """Infer the types of a unit again. Return True if one of them has changed."""
        if isinstance(unit, int):
            before, self.columns[unit] = self.columns[unit], self.nodes[unit].columns(self, unit)
            return self.columns[unit] != before
        schema = self.schemas[unit]
        if schema.declared:
            return False
        types = [attribute.type for attribute in schema.attributes]
        for head in self.heads_of.get(unit, ()):
            types = [grown(old, new.type) for old, new in zip(types, self.head_columns(head), strict=True)]
        attributes = tuple(replace(attribute, type=type) for attribute, type in zip(schema.attributes, types))
        self.schemas[unit] = replace(schema, attributes=attributes)
        return attributes != schema.attributes

    def types(self, number: int) -> dict[str, str]:
        return {f"v{i}": column.type for i, column in enumerate(self.columns[number])}

    def head_columns(self, head: Head) -> list[ColumnType]:
        types = self.types(head.child)
        columns = []
        for argument in head.arguments:
            if isinstance(argument, Variable):
                columns.append(self.columns[head.child][int(argument.name[1:])])
                continue
            try:
                used = {types.get(name) for name in expression_variables(argument)}
                columns.append(
                    ColumnType(UNKNOWN if UNKNOWN in used else check(argument, types, self.source).type, True)
                )
            except CepError:
                columns.append(ColumnType(UNKNOWN, True))
        return columns

    def head(self, head: Head) -> tuple[Typed, ...]:
        types = self.types(head.child)
        schema = self.schemas[head.event]
        shown = schema.name if schema.fluent is None else schema.fluent.name
        typed: list[Typed] = []
        for argument, attribute in zip(head.arguments, schema.attributes, strict=True):
            value = self.checked(argument, types, self.names[head.child])
            if value is None:
                continue
            fitted = coerced(value, attribute.type)
            if fitted is None:
                self.complain(
                    f"`{attribute.name}` of `{shown}` is declared {a(attribute.type)}, but here it is {a(value.type)}",
                    argument.span,
                    conversion(argument, value.type, attribute, self.source),
                )
                continue
            typed.append(fitted)
        return tuple(typed)

    def checked(self, argument: Expression, types: Mapping[str, str], names: Sequence[str]) -> Typed | None:
        """Return an argument as a typed expression over columns. Report an error and return None if its types do not
        fit.

        `names`: the author's names of the columns, for error messages.
        """
        try:
            return check(argument, types, self.source)
        except CepError:
            named = author_names([argument], names, self.source)
            try:
                check(rename_expression(argument, named), _renamed(types, named), self.source)
            except CepError as in_words:
                error = in_words
            self.error(error)
            return None

    # --- what operators ask ---

    def column(self, type: str, optional: bool) -> ColumnType:
        return ColumnType(type, optional)

    def meet(self, number: int, left: tuple[int, int], right: tuple[int, int]) -> None:
        """Report an error if the two columns of a join key have types whose values can never be equal.

        `left`, `right`: each a node and one of its columns.
        """
        left_type, two = (self.columns[node][column].type for node, column in (left, right))
        if UNKNOWN in (left_type, two) or common_type(left_type, two) is not None:
            return
        both = [
            f"{a(type)} on the {side}" if (place := self.origin(*where)) is None else f"{a(type)} as {place}"
            for type, side, where in ((left_type, "left", left), (two, "right", right))
        ]
        self.complain(
            f"`{self.names[left[0]][left[1]]}` never joins: it is {both[0]} and {both[1]}",
            self.spans[number],
            "use the same type for both, or another variable for one of them",
        )

    def origin(self, number: int, column: int) -> str | None:
        """Describe the attribute from which a column gets its values, for error messages. Return None if the attribute
        is unknown."""
        node = self.nodes[number]
        properties = node.properties()
        if properties.event is not None:
            attribute = self.schemas[properties.event].attributes[node.takes()[column]]
            return f"`{attribute.name}` of `{author_name(properties.event)}`"
        if not properties.shows[column]:
            return None
        part, below = properties.shows[column][0]
        return self.origin(node.parts[part], below)

    def decided(self, number: int, conditions: Sequence[Condition], columns: Sequence[ColumnType]) -> None:
        """Check the conditions that a node decides over its columns. Before the final pass, when types may still
        change, do nothing."""
        if conditions and self.final:
            self.conditions(conditions, columns, self.names[number])

    def ranked(self, number: int, side: int, column: int) -> None:
        """Report an error if a policy ranks by a value that is not a number, a time or a duration."""
        type, name, place = self.columns[side][column].type, self.names[side][column], self.origin(side, column)
        if type == "any" and not self.partial:
            self.complain(
                f"the policy chooses by `{name}`, whose type is not known",
                self.spans[number],
                f"declare {place}: int, float, time or duration" if place else "`float(...)` gives a number",
            )
        elif type not in (*ORDERED, "any", UNKNOWN):
            self.complain(
                f"the policy chooses by `{name}`, {a(type)}, not a number, time or duration",
                self.spans[number],
                "use `(longest)`, `(shortest)` or a variable that is a number",
            )

    def conditions(
        self, conditions: Sequence[Condition], columns: Sequence[ColumnType], names: Sequence[str]
    ) -> Conditions | None:
        """Compile conditions over columns. Report an error and return None if this is not possible.

        `names`: the author's names of the columns, for error messages.
        """
        types = {f"v{i}": column.type for i, column in enumerate(columns)} | TIMES
        try:
            return compile_conditions(conditions, types, self.relations, self.pool, self.source)
        except CepError:
            named = author_names(conditions, names, self.source)
            written = [rename_condition(condition, named) for condition in conditions]
            try:
                compile_conditions(written, _renamed(types, named), self.relations, self.pool, self.source)
            except CepError as in_words:
                error = in_words
            for inner in error.errors if isinstance(error, CepErrors) else (error,):
                self.error(advised(inner, written, self.schemas, self.source))
            return None

    def answers(
        self, number: int, child: int, conditions: Sequence[Condition], binds: Sequence[str]
    ) -> tuple[ColumnType, ...]:
        """Return the types of a child node's columns, followed by the types of the variables `binds`, to which the
        conditions give values."""
        columns = self.columns[child]
        names = self.names[number][: len(columns)]
        if not binds:
            if self.final and conditions:
                self.conditions(conditions, columns, names)
            return columns
        if any(c.type == UNKNOWN for c in columns):
            used = {name for c in conditions for name in condition_variables(c)}
            if any(c.type == UNKNOWN and f"v{i}" in used for i, c in enumerate(columns)):
                return (*columns, *(ColumnType(UNKNOWN, True) for _ in binds))
        compiled = self.conditions(conditions, columns, names)
        if compiled is None:
            return (*columns, *(ColumnType("any", True) for _ in binds))
        return (*columns, *(ColumnType(compiled.binds.get(name, "any"), True) for name in binds))

    def result(self, child: int, result: AggregateResult) -> ColumnType:
        """Return the type of the column that contains the result of an aggregate over a node."""
        if result.function == "count":
            return ColumnType("int", False)
        assert result.argument is not None, "only count() has no argument (checked by the parser)"
        types = self.types(child)
        if UNKNOWN in {types[name] for name in expression_variables(result.argument) if name in types}:
            return ColumnType(UNKNOWN, True)
        typed = self.checked(result.argument, types, self.names[child])
        if typed is None:
            return ColumnType("any", True)
        type = typed.type
        if result.function in ("first", "last", "mode"):
            return ColumnType(type, True)
        takes, good = SUMMED.get(result.function, ("numbers", ("int", "float", "any")))
        if type not in good:
            written = excerpt(self.source, result.argument.span) or "X"
            hint = f"`count(distinct {written})`, `first({written})` and `last({written})` take any value"
            if type == "duration":
                hint = f"`{example(result.function, f'{written} / 1 s')}` takes its seconds, which are a number"
            elif type == "time":
                hint = "`min`, `max`, `first` and `last` take times"
            self.complain(f"`{result.function}` takes {takes}, but this is {a(type)}", result.argument.span, hint)
            return ColumnType("float", True)
        if result.function not in ("sum", "min", "max") or type == "any":
            return ColumnType("float", True)
        return ColumnType(type, True)


def grown(old: str, new: str) -> str:
    """Return the type of a column that contains values of the type `old` and values of the type `new`."""
    if UNKNOWN in (old, new):
        return new if old == UNKNOWN else old
    if old == new:
        return old
    return "float" if {old, new} == {"int", "float"} else "any"


def _renamed(types: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    return {names.get(name, name): type for name, type in types.items()}
