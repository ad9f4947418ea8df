"""Types of all columns, by inference to a fixpoint over the rules; every static type error ends here.

An undeclared derived event takes its types from its heads: int and float give float, other mixtures `any`. Types only grow, so the
sweeps end after at most three times as many as there are derived attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cep.conditions import Conditions, compile_conditions
from cep.errors import CepError, CepErrors, Source, Span
from cep.expressions import check
from cep.plan.algebra import (
    Aggregation,
    Deadline,
    Head,
    Join,
    Node,
    Scan,
    Select,
    Tick,
    Union,
)
from cep.plan.binarise import Binarised
from cep.schema import Attribute, Schema
from cep.syntax.ast import AggregateResult, Condition, Constant, Variable
from cep.typed import Typed, TypedConstant, a, coerced, common_type
from cep.values import Pool

UNKNOWN = "unknown"
TIMES = {"start()": "time", "end()": "time", "duration()": "duration"}
ORDERED = ("int", "float", "time", "duration", "any")


@dataclass(frozen=True, slots=True)
class Column:
    """A node's column: its type, and whether a value may be missing."""

    type: str
    optional: bool


@dataclass(slots=True)
class Typing:
    """Columns of every node, schemas of every event, typed head arguments."""

    columns: list[tuple[Column, ...]]
    schemas: dict[str, Schema]
    heads: list[tuple[Typed, ...]]


Compile = Callable[[Sequence[Condition], Mapping[str, str]], Conditions]


def infer(
    binarised: Binarised, schemas: Mapping[str, Schema], relations: Mapping[str, object], pool: Pool, source: Source
) -> Typing:
    """All types. Raises CepErrors with every type error and every condition that cannot be run."""
    return _Inference(binarised, dict(schemas), relations, pool, source).run()


class _Inference:
    def __init__(
        self,
        binarised: Binarised,
        schemas: dict[str, Schema],
        relations: Mapping[str, object],
        pool: Pool,
        source: Source,
    ) -> None:
        self.nodes = binarised.nodes
        self.names = binarised.names
        self.spans = binarised.spans
        self.heads = binarised.heads
        self.schemas = schemas
        self.relations = relations
        self.pool = pool
        self.source = source
        self.columns: list[tuple[Column, ...]] = []
        self.errors: dict[tuple[str, Span | None], CepError] = {}
        self.final = False

    def run(self) -> Typing:
        while self.sweep():
            pass
        for name, schema in self.schemas.items():
            if any(x.type == UNKNOWN for x in schema.attributes):
                known = tuple(replace(x, type="any") if x.type == UNKNOWN else x for x in schema.attributes)
                self.schemas[name] = replace(schema, attributes=known)
        self.final = True
        self.sweep()
        heads = [self.head(head) for head in self.heads]
        if self.errors:
            raise CepErrors(list(self.errors.values()))
        return Typing(self.columns, self.schemas, heads)

    def error(self, error: CepError, node: int | None = None) -> None:
        if not self.final:
            return
        for one in error.errors if isinstance(error, CepErrors) else (error,):
            shown = one if node is None else _with_names(one, self.names[node])
            self.errors.setdefault((shown.message, shown.span), shown)

    def complain(self, message: str, span: Span, hint: str | None = None) -> None:
        self.error(CepError(message, self.source, span, hint, "type"))

    # --- sweeps ---

    def sweep(self) -> bool:
        """Types of all nodes from the events' types; whether an event's types grew."""
        self.columns = []
        for number, node in enumerate(self.nodes):
            self.columns.append(self.node(number, node))
        grew = False
        if self.final:
            return False
        for head in self.heads:
            schema = self.schemas[head.event]
            if schema.declared:
                continue
            found = self.head_columns(head)
            attributes = []
            for attribute, column in zip(schema.attributes, found, strict=True):
                type = _grown(attribute.type, column.type)
                attributes.append(attribute if type == attribute.type else replace(attribute, type=type))
            if tuple(attributes) != schema.attributes:
                self.schemas[head.event] = replace(schema, attributes=tuple(attributes))
                grew = True
        return grew

    def types(self, number: int, times: bool = False) -> dict[str, str]:
        types = {f"v{i}": column.type for i, column in enumerate(self.columns[number])}
        return types | TIMES if times else types

    def head_columns(self, head: Head) -> list[Column]:
        types = self.types(head.child)
        columns = []
        for argument in head.arguments:
            if isinstance(argument, Variable):
                columns.append(self.columns[head.child][int(argument.name[1:])])
                continue
            try:
                used = {t for v, t in types.items() if v in _names(argument)}
                columns.append(Column(UNKNOWN if UNKNOWN in used else check(argument, types, self.source).type, True))
            except CepError:
                columns.append(Column(UNKNOWN, True))
        return columns

    def head(self, head: Head) -> tuple[Typed, ...]:
        types = self.types(head.child)
        schema = self.schemas[head.event]
        typed: list[Typed] = []
        for argument, attribute in zip(head.arguments, schema.attributes, strict=True):
            try:
                value = check(argument, types, self.source)
            except CepError as error:
                self.error(error, head.child)
                continue
            fitted = coerced(value, attribute.type)
            if fitted is None:
                self.complain(
                    f"`{attribute.name}` of `{schema.name}` is declared {a(attribute.type)}, here it is {a(value.type)}",
                    argument.span,
                    f"declare it `{attribute.name}: {value.type}`, or convert: `int(X)`, `float(X)`, `string(X)`",
                )
                continue
            typed.append(fitted)
        return tuple(typed)

    # --- nodes ---

    def node(self, number: int, node: Node) -> tuple[Column, ...]:
        match node:
            case Scan():
                return self.scan(number, node)
            case Tick():
                return ()
            case Join():
                return self.join(number, node)
            case Union(left, right, order):
                return self.union(number, left, right, order)
            case Deadline():
                for mine, theirs in node.key:
                    self.meet(number, self.columns[node.left][mine], self.columns[node.absent][theirs], mine)
                return self.columns[node.left]
            case Select():
                return self.select(number, node)
            case Aggregation():
                return self.aggregation(node)

    def scan(self, number: int, scan: Scan) -> tuple[Column, ...]:
        attributes = self.schemas[scan.event].attributes
        for position, constant in scan.constants:
            self.constant(scan.event, attributes[position], constant)
        for first, second in scan.equal:
            one, two = attributes[first], attributes[second]
            if UNKNOWN not in (one.type, two.type) and common_type(one.type, two.type) is None:
                self.complain(
                    f"one variable for `{one.name}`, {a(one.type)}, and `{two.name}`, {a(two.type)}: never equal",
                    self.spans[number],
                    "two variables",
                )
        constrained = {p for pair in scan.equal for p in pair}
        return tuple(
            Column(attributes[p].type, attributes[p].optional and p not in constrained) for p in scan.take
        )

    def constant(self, event: str, attribute: Attribute, constant: Constant) -> None:
        if attribute.type != UNKNOWN and coerced(TypedConstant(constant.value, constant.type), attribute.type) is None:
            hint = None
            if attribute.type in ("int", "float") and constant.type == "string":
                hint = "a variable starts with an upper-case letter"
            elif attribute.type == "iri":
                hint = "an IRI is written `<http://...>` or `prefix:name`"
            self.complain(
                f"`{attribute.name}` of `{event}` is {a(attribute.type)}, this is {a(constant.type)}: never equal",
                constant.span,
                hint,
            )

    def meet(self, number: int, left: Column, right: Column, column: int) -> None:
        if UNKNOWN not in (left.type, right.type) and common_type(left.type, right.type) is None:
            name = self.names[number][column] if column < len(self.names[number]) else "the variable"
            self.complain(
                f"`{name}` is {a(left.type)} on one side and {a(right.type)} on the other: they never join",
                self.spans[number],
                "another variable on one side, or the same type in both declarations",
            )

    def join(self, number: int, join: Join) -> tuple[Column, ...]:
        left, right = self.columns[join.left], self.columns[join.right]
        for mine, theirs in join.key:
            self.meet(number, left[mine], right[theirs], mine)
        mine_only, theirs_only = {k for k, _ in join.key}, {k for _, k in join.key}
        columns = [Column(c.type, c.optional and i not in mine_only) for i, c in enumerate(left)]
        columns += [c for i, c in enumerate(right) if i not in theirs_only]
        if join.absent is not None:
            for theirs, mine in join.absent_key:
                self.meet(number, columns[mine], self.columns[join.absent][theirs], mine)
        for by, side in zip(join.by, (left, right), strict=True):
            if by is not None and side[by].type not in (*ORDERED[:-1], "any", UNKNOWN):
                self.complain(
                    f"a policy takes the greatest of numbers, times or durations, not {a(side[by].type)}",
                    self.spans[number],
                    "`recent(longest)`, `recent(shortest)`, or `recent(by V)` with a numeric V",
                )
            elif by is not None and side[by].type == "any":
                self.complain(
                    "a policy takes the greatest of numbers, times or durations: the type of this value is not known",
                    self.spans[number],
                    "declare the event: `event a(v: float).`",
                )
        if join.decide and self.final:
            self.conditions(number, join.decide, columns)
        return tuple(columns)

    def union(self, number: int, left: int, right: int, order: tuple[int, ...]) -> tuple[Column, ...]:
        columns = []
        for i, other in enumerate(order):
            one, two = self.columns[left][i], self.columns[right][other]
            type = _grown(one.type, two.type)
            columns.append(Column(type, one.optional or two.optional))
        return tuple(columns)

    def conditions(
        self, number: int, conditions: Sequence[Condition], columns: Sequence[Column]
    ) -> Conditions | None:
        types = {f"v{i}": column.type for i, column in enumerate(columns)} | TIMES
        try:
            return compile_conditions(conditions, types, self.relations, self.pool, self.source)  # type: ignore[arg-type]
        except CepError as error:
            self.error(error, number)
            return None

    def select(self, number: int, select: Select) -> tuple[Column, ...]:
        child = self.columns[select.child]
        if not select.binds:
            if self.final and select.conditions:
                self.conditions(number, select.conditions, child)
            return child
        if any(c.type == UNKNOWN for c in child):
            used = {name for c in select.conditions for name in _condition_names(c)}
            if any(c.type == UNKNOWN and f"v{i}" in used for i, c in enumerate(child)):
                return (*child, *(Column(UNKNOWN, True) for _ in select.binds))
        compiled = self.conditions(number, select.conditions, child)
        if compiled is None:
            return (*child, *(Column("any", True) for _ in select.binds))
        return (*child, *(Column(compiled.binds.get(name, "any"), True) for name in select.binds))

    def aggregation(self, node: Aggregation) -> tuple[Column, ...]:
        child = self.columns[node.child]
        columns = [Column(child[c].type, False) for c in node.by]
        return (*columns, *(self.result(node, result) for result in node.results))

    def result(self, node: Aggregation, result: AggregateResult) -> Column:
        if result.function == "count":
            return Column("int", False)
        assert result.argument is not None, "only count() has no argument (checked by the parser)"
        types = self.types(node.child)
        if UNKNOWN in {types[name] for name in _names(result.argument) if name in types}:
            return Column(UNKNOWN, True)
        try:
            type = check(result.argument, types, self.source).type
        except CepError as error:
            self.error(error, node.child)
            return Column("any", True)
        if result.function in ("first", "last"):
            return Column(type, True)
        good = {"sum": ("int", "float", "duration", "any"), "min": ORDERED, "max": ORDERED}
        if type not in good.get(result.function, ("int", "float", "any")):
            self.complain(
                f"`{result.function}` takes numbers, this is {a(type)}",
                result.argument.span,
                "`count(distinct X)`, `first(X)` and `last(X)` take any value"
                if type not in ("time", "duration")
                else "in seconds: `X / 1 s` of a duration is a number",
            )
            return Column("float", True)
        if result.function in ("avg", "stddev") or type == "any":
            return Column("float", True)
        return Column(type, True)


def _grown(old: str, new: str) -> str:
    if UNKNOWN in (old, new):
        return new if old == UNKNOWN else old
    if old == new:
        return old
    return "float" if {old, new} == {"int", "float"} else "any"


def _names(expression: object) -> set[str]:
    from cep.dialects.etalis import expression_variables

    return set(expression_variables(expression))  # type: ignore[arg-type]


def _condition_names(condition: Condition) -> set[str]:
    from cep.dialects.etalis import condition_variables

    return set(condition_variables(condition))


def _with_names(error: CepError, names: Sequence[str]) -> CepError:
    """The error with an author's variables in place of canonical names."""
    import re

    def name(match: re.Match[str]) -> str:
        place = int(match.group(1))
        return f"`{names[place]}`" if place < len(names) else match.group(0)

    message = re.sub(r"`v(\d+)`", name, error.message)
    hint = None if error.hint is None else re.sub(r"`v(\d+)`", name, error.hint)
    return CepError(message, error.source, error.span, hint, error.code)
