"""An event in a pattern, `sensor(ID, 3, W)`. Constants and repeated variables select some of its occurrences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from cep.core.errors import NOWHERE, Span
from cep.core.fluents import EDGES, RECORDED, author_name
from cep.operators.where import bounded_by, decided
from cep.plan.lint.ranges import Ranges, Searcher
from cep.plan.names import used_variables
from cep.plan.node import Node, NodeProperties
from cep.plan.pattern import Pattern, PatternProperties, renamer
from cep.rules import pattern_text
from cep.rules.expressions.spelling import respelling
from cep.rules.expressions.typed import TypedConstant, a, coerced, common_type
from cep.rules.pattern_text import Text
from cep.rules.terms import Constant, Expression, Variable

if TYPE_CHECKING:
    from cep.core.schema import Attribute
    from cep.explain.formulas import FormulaExtent, FormulaReader
    from cep.explain.gaps import FormulaGaps, Gap
    from cep.explain.judging import BoundValues
    from cep.explain.matching import Attempt, Matcher
    from cep.operators.build import GoalBuilder
    from cep.operators.goals.contract import Goal
    from cep.plan.binarise import Binariser, Component
    from cep.plan.render import Rendering
    from cep.plan.types import ColumnType, Inference


@dataclass(frozen=True, slots=True)
class Atom(Pattern):
    """An event with positional arguments: variables and constants."""

    event: str
    arguments: tuple[Variable | Constant, ...]
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def describe(self) -> PatternProperties:
        names = tuple(
            argument.name for argument in self.arguments if isinstance(argument, Variable) and argument.name != "_"
        )
        return PatternProperties(
            binds=names,
            mentions=tuple(used_variables(self.arguments)),
            event=self.event,
            arguments=self.arguments,
        )

    def renamed(self, names: Mapping[str, str]) -> Pattern:
        other = renamer(names)
        return replace(self, arguments=tuple(other(a) if isinstance(a, Variable) else a for a in self.arguments))

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        constants: list[tuple[int, Constant]] = []
        equal: list[tuple[int, int]] = []
        take: list[int] = []
        places: dict[str, int] = {}
        for position, argument in enumerate(self.arguments):
            if isinstance(argument, Constant):
                constants.append((position, argument))
            elif argument.name == "_":
                continue
            elif argument.name in places:
                equal.append((take[places[argument.name]], position))
            else:
                places[argument.name] = len(take)
                take.append(position)
        node = builder.add(Scan(self.event, tuple(constants), tuple(equal), tuple(take)), tuple(places), self.span)
        if self.within != bounded:
            node = bounded_by(builder, node, places, self)
        return decided(builder, node, places, components, self.span), places

    def ranges(self, searcher: Searcher) -> Ranges:
        return searcher.declared(self.event, self.arguments)

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        return matcher.of_event(self, bound)

    def extents(self, reader: FormulaReader, bound: BoundValues) -> list[FormulaExtent]:
        return reader.of_fluent(self, bound)

    def lacks(self, gaps: FormulaGaps, bound: BoundValues, code: int) -> list[Gap]:
        return gaps.of_atom(self, bound, code)


class WholeTable(Pattern):
    """The base class of patterns that read all rows of a table.

    `event`: the table's name. `names`: the variables for its columns.
    """

    __slots__ = ()
    event: str
    names: tuple[str, ...]

    def describe(self) -> PatternProperties:
        return PatternProperties(binds=self.names, event=self.event, goal=True)

    def renamed(self, names: Mapping[str, str]) -> Pattern:
        renamed: Any = self
        return cast(Pattern, replace(renamed, names=tuple(names.get(name, name) for name in self.names)))

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        return matcher.of_event(self, bound)


@dataclass(frozen=True, slots=True)
class Scan(Node):
    """The node of an event in a pattern. It selects occurrences by constants and by equal arguments.

    Output columns: the arguments in `take`.
    """

    event: str
    constants: tuple[tuple[int, Constant], ...]
    equal: tuple[tuple[int, int], ...]
    take: tuple[int, ...]

    def describe(self) -> NodeProperties:
        shows = ((),) * len(self.take)
        return NodeProperties(
            self.event,
            event=self.event,
            shows=shows,
            guessed=True,
        )

    def takes(self) -> tuple[int, ...]:
        return self.take

    def picks(self) -> bool:
        return bool(self.constants or self.equal)

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        attributes = inference.schemas[self.event].attributes
        for position, constant in self.constants:
            _constant(inference, self.event, attributes[position], constant)
        for first, second in self.equal:
            left, two = attributes[first], attributes[second]
            if "unknown" not in (left.type, two.type) and common_type(left.type, two.type) is None:
                name = inference.names[number][self.take.index(first)]
                inference.complain(
                    f"`{name}` is `{left.name}`, {a(left.type)}, and `{two.name}`, {a(two.type)}: never equal",
                    inference.spans[number],
                    "use another variable for one of them",
                )
        constrained = {p for pair in self.equal for p in pair}
        return tuple(
            inference.column(attributes[p].type, attributes[p].optional and p not in constrained) for p in self.take
        )

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        return self.under(rendering, rendering.names[number])

    def under(self, rendering: Rendering, names: Sequence[str]) -> Text:
        schema = rendering.schemas[self.event]
        arguments: list[Expression] = [Variable("_")] * len(schema.attributes)
        for position, constant in self.constants:
            arguments[position] = constant
        for column, position in enumerate(self.take):
            arguments[position] = Variable(names[column])
        for first, second in self.equal:
            arguments[second] = arguments[first]
        if schema.fluent is not None and schema.fluent.part == EDGES:
            return pattern_text.changing(schema.fluent.name.removesuffix(RECORDED), arguments, schema.fluent.valued)
        written = [i for i, argument in enumerate(arguments) if argument != Variable("_")]
        if not schema.declared or not written or len(arguments) - len(written) < 3:
            return pattern_text.event(self.event, arguments)
        attributes = [schema.attributes[i].name for i in written]
        return pattern_text.event(self.event, [arguments[i] for i in written], attributes)

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.relational import scan_of

        return scan_of(self, builder)


def _constant(inference: Inference, event: str, attribute: Attribute, constant: Constant) -> None:
    """Report a constant that can never equal the attribute at its position."""
    typed = TypedConstant(constant.value, constant.type)
    if attribute.type == "unknown" or coerced(typed, attribute.type) is not None:
        return
    hint = respelling(constant.value, attribute.type)
    if not hint and attribute.type in ("int", "float") and constant.type == "string":
        hint = "a variable starts with an upper-case letter"
    elif not hint and attribute.type == "iri":
        hint = "an IRI is written `<http://...>` or `prefix:name`"
    inference.complain(
        f"`{attribute.name}` of `{author_name(event)}` is {a(attribute.type)}, this is {a(constant.type)}: never equal",
        constant.span,
        hint or None,
    )
