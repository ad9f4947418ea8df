"""Conditions on a pattern, `p WHERE Wind > 15, near(S, T)`. The node of conditions also tests the pattern's WITHIN if
no other goal does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.plan.binarise import Component, canonical, components_of
from cep.plan.formula import OR, WHOLE, Formula, Lowering, Names, OverOne, asked, placed
from cep.plan.lint.ranges import Ranges, Searcher
from cep.plan.names import author_names, used_variables
from cep.plan.node import Node, NodeProperties
from cep.plan.pattern import Omission, Pattern, PatternProperties, variables
from cep.plan.render import restricted
from cep.plan.rule_edits import CONDITION, condition_text, span_of
from cep.rules.pattern_text import Text
from cep.rules.printing import print_conditions
from cep.rules.terms import (
    Call,
    Comparison,
    Condition,
    Expression,
    Predicate,
    condition_variables,
    each_condition,
    rename_condition,
)

if TYPE_CHECKING:
    from cep.explain.formulas import FormulaExtent, FormulaReader
    from cep.explain.gaps import FormulaGaps, Gap
    from cep.explain.judging import BoundValues
    from cep.explain.matching import Attempt, Matcher
    from cep.operators.build import GoalBuilder
    from cep.operators.goals.contract import Goal
    from cep.plan.binarise import Binariser
    from cep.plan.render import Rendering
    from cep.plan.safety import Checker
    from cep.plan.types import ColumnType, Inference

KIND = "'kind"
"""The variable of the column with the kind of change. It tells if a fluent or formula begins or ends."""


@dataclass(frozen=True, slots=True)
class RestrictedFormula(OverOne):
    """`formula WHERE conditions`."""

    formula: Formula
    conditions: tuple[Condition, ...]
    span: Span = field(default=NOWHERE, compare=False)

    def written(self) -> list[str]:
        return [name for condition in self.conditions for name in condition_variables(condition)]

    def bound(self) -> Names:
        return self.formula.bound() | asked(self.conditions)

    def text(self) -> tuple[str, int]:
        return f"{placed(self.formula, OR)} WHERE {print_conditions(self.conditions)}", WHOLE

    def lowered(self, lowering: Lowering, keep: Names, outside: Names) -> Pattern:
        conditions = lowering.conditions(self.conditions)
        for condition in conditions:
            if any(_times(side) for inner in each_condition([condition]) for side in _sides(inner)):
                lowering.error(
                    "a formula has no start and no end: it holds at single times",
                    condition.span,
                    "use LASTING for how long it holds, ONCE for how long ago it held",
                )
        names = asked(self.conditions)
        body = lowering.lowered(self.formula, self.formula.bound() & (keep | names), outside | names)
        late = lowering.late_of(self.formula) if lowering.ask_knowledge(conditions) else None
        return lowering.projected(SelectPattern(body, conditions, None, self.span, late), keep, self)


def _sides(condition: Comparison | Predicate) -> Sequence[Expression]:
    return condition.arguments if isinstance(condition, Predicate) else (condition.left, condition.right)


def _times(expression: Expression) -> bool:
    if not isinstance(expression, Call):
        return False
    if expression.function in ("start", "end", "duration") and not expression.arguments:
        return True
    return any(map(_times, expression.arguments))


@dataclass(frozen=True, slots=True)
class SelectPattern(Pattern):
    """`pattern WHERE conditions`.

    `late`: the delay of the formula in microseconds, if the pattern is a formula and the conditions query knowledge
    that may change; otherwise None.
    """

    pattern: Pattern
    conditions: tuple[Condition, ...]
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)
    late: int | None = None

    def describe(self) -> PatternProperties:
        return PatternProperties(
            (self.pattern,),
            through=(self.pattern,),
            binds=tuple(name for condition in self.conditions for name in condition_variables(condition)),
            mentions=tuple(used_variables(self.conditions)),
            conditions=self.conditions,
        )

    def renamed(self, names: Mapping[str, str]) -> Pattern:
        conditions = tuple(rename_condition(condition, names) for condition in self.conditions)
        return replace(self, pattern=self.pattern.renamed(names), conditions=conditions)

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        bound = variables(self.pattern)
        mine = [replace(component, late=self.late) for component in components_of(self.conditions, bound)]
        through = tuple(c for c in components if c.variables <= bound)
        above = tuple(c for c in components if not c.variables <= bound)
        policy = self.pattern.decider().properties().policy
        chronological = policy is not None and policy.name == "chronological"
        down = tuple(c for c in mine if not c.binds or chronological or self.pattern.belongs_below(c))
        node, places = self.pattern.lower(builder, down + through, bounded)
        answers = [condition for c in mine if c.binds for condition in c.conditions]
        if answers:
            binds: list[str] = []
            for condition in answers:
                for name in condition_variables(condition):
                    if name not in bound and name not in binds and name != "_":
                        binds.append(name)
            node = select(builder, node, places, answers, binds, None, self.span, self.late)
            places = places | {name: len(places) + i for i, name in enumerate(binds)}
        return decided(builder, node, places, above, self.span), places

    def decider(self) -> Pattern:
        return self.pattern.decider()

    def belongs_below(self, component: Component) -> bool:
        own = of_parts(component) and component.variables <= variables(self.pattern)
        return own and self.pattern.belongs_below(component)

    def check(self, checker: Checker, outside: frozenset[str]) -> None:
        checker.where(self.pattern, self.conditions, outside)

    def ranges(self, searcher: Searcher) -> Ranges:
        return searcher.where(self.pattern, self.conditions)

    def shortest(self) -> tuple[int, str] | None:
        return self.pattern.shortest()

    def omissions(self) -> Iterator[Omission]:
        for place, condition in enumerate(self.conditions):
            rest = (*self.conditions[:place], *self.conditions[place + 1 :])
            left = replace(self, conditions=rest) if rest else self.pattern
            yield left, span_of(condition, self.span), CONDITION, condition_text(condition)

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        return matcher.where(self, self.pattern, self.conditions, bound)

    def extents(self, reader: FormulaReader, bound: BoundValues) -> list[FormulaExtent]:
        return reader.where(self, self.pattern, self.conditions, bound)

    def lacks(self, gaps: FormulaGaps, bound: BoundValues, code: int) -> list[Gap]:
        return gaps.where(self.pattern, self.conditions, bound, code)


@dataclass(frozen=True, slots=True)
class Select(Node):
    """The node of conditions. It outputs the occurrences for which the conditions hold. If the conditions bind
    variables, it outputs an occurrence once per answer.

    - `binds`: the variables that the conditions bind.
    - `within`: the maximum length of an occurrence in microseconds, or None.
    - `kind`: the column with the kind of change, or None.
    - `late`: the delay of the formula in microseconds, or None. At watermark w, its changes up to time w - `late` are
      known.

    Only formulas whose conditions query knowledge that may change have a `kind` and a `late`. Output columns: the
    `width` input columns, then the variables in `binds`.
    """

    child: int
    conditions: tuple[Condition, ...]
    binds: tuple[str, ...]
    within: int | None
    width: int = field(default=0, compare=False)
    kind: int | None = None
    late: int | None = None

    def describe(self) -> NodeProperties:
        return NodeProperties(
            "WHERE",
            "filter",
            remembers=self.kind is not None,
            shows=(*(((0, column),) for column in range(self.width)), *(() for _ in self.binds)),
            conditions=self.conditions,
            completes=(0,),
            within=self.within,
            guessed=True,
            multiplies=bool(self.binds),
            selects=True,
            keeps_equal=(0,),
            uncounted=(0,),
            constituents=(0,),
        )

    def answered(self) -> tuple[str, ...]:
        return self.binds

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        return inference.answers(number, self.child, self.conditions, self.binds)

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        names = rendering.names[number]
        bound = dict(zip(self.binds, names[self.width :], strict=True))
        shown = author_names(self.conditions, names[: self.width], rendering.source) | bound
        return restricted(sides[0], self.within, self.conditions, shown)

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        if self.kind is None:
            return []
        return [("remembers", "what holds, and its answers"), ("forgets", "when it ends")]

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.fluents.restricted import restricted_of
        from cep.operators.goals.relational import select_of

        if self.kind is not None and builder.knowledge is not None:
            return restricted_of(self, builder, number)
        return select_of(self, builder)


def of_parts(component: Component) -> bool:
    """Return True if these conditions can be tested on parts of the pattern: they use variables, and no times."""
    return bool(component.variables) and not component.timed


def split(components: Iterable[Component]) -> tuple[tuple[Component, ...], tuple[Component, ...]]:
    """Divide conditions into those that can be tested on parts of the pattern (`of_parts`), and those that need the
    whole pattern."""
    every = tuple(components)
    return tuple(c for c in every if of_parts(c)), tuple(c for c in every if not of_parts(c))


def select(
    builder: Binariser,
    node: int,
    places: dict[str, int],
    conditions: Sequence[Condition],
    binds: Sequence[str],
    within: int | None,
    span: Span,
    late: int | None = None,
) -> int:
    """Add a node that filters the output of another node by conditions and a WITHIN. Return its number.

    - `places`: the column of each variable. `binds`: the variables that the conditions bind.
    - `within`: the maximum length of an occurrence, or None. `late`: see `SelectPattern`.
    """
    names = builder.done.names[node]
    renamed, bound = canonical(conditions, places, binds)
    kind = None if late is None else places[KIND]
    return builder.add(Select(node, renamed, bound, within, len(names), kind, late), (*names, *binds), span)


def decided(builder: Binariser, node: int, places: dict[str, int], components: Iterable[Component], span: Span) -> int:
    """Add a node for conditions above `node`, and return its number. Return `node` if there are no conditions."""
    every = tuple(components)
    conditions = [condition for c in every for condition in c.conditions]
    late = max((c.late for c in every if c.late is not None), default=None)
    return select(builder, node, places, conditions, (), None, span, late) if conditions else node


def added(
    builder: Binariser, node: Node, names: Sequence[str], components: Iterable[Component], span: Span
) -> tuple[int, dict[str, int]]:
    """Add a node and, above it, a node for the conditions, if there are any.

    `names`: the variables of the node's columns. Return the number of the upper node, and the column of each variable.
    """
    number = builder.add(node, names, span)
    places = {name: place for place, name in enumerate(names)}
    return decided(builder, number, places, components, span), places


def bounded_by(builder: Binariser, node: int, places: dict[str, int], pattern: Pattern) -> int:
    """Add a node for the pattern's WITHIN above `node`, and return its number. Return `node` if there is no WITHIN."""
    if pattern.within is None:
        return node
    return select(builder, node, places, (), (), pattern.within, pattern.span)
