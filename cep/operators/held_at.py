"""`p WHERE held(moving(V), T), not held(docked(V), start())`: tests of fluents at a time that an occurrence of p
determines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cep.core.literals import say_duration
from cep.operators.holding import Holding, HoldingPattern
from cep.plan.node import Node, NodeProperties
from cep.plan.pattern import Pattern, PatternProperties, variables
from cep.rules.expressions.typed import a
from cep.rules.pattern_text import Text
from cep.rules.terms import Variable

if TYPE_CHECKING:
    from cep.explain.judging import BoundValues
    from cep.explain.matching import Attempt, Matcher
    from cep.operators.build import GoalBuilder
    from cep.operators.goals.contract import Goal
    from cep.plan.render import Rendering
    from cep.plan.safety import Checker
    from cep.plan.types import ColumnType, Inference


@dataclass(frozen=True, slots=True)
class HeldAtPattern(HoldingPattern):
    """`pattern WHERE held(fluent, at)`, or `not held(...)`.

    - `variable`: the variable of the pattern that contains the time `at`.
    - `back`: the maximum number of microseconds by which this time precedes the occurrence's end. It is None if there
      is no limit.
    - `name`, `time`: the fluent and the time, as they are written in the program.
    """

    variable: str = ""
    back: int | None = None
    name: str = field(default="", compare=False)
    time: str = field(default="", compare=False)

    def describe(self) -> PatternProperties:
        return replace(HoldingPattern.describe(self), mentions=(Variable(self.variable, self.span),))

    def renamed(self, names: Mapping[str, str]) -> Pattern:
        renamed = HoldingPattern.renamed(self, names)
        assert isinstance(renamed, HeldAtPattern), "it stays one"
        return replace(renamed, variable=names.get(self.variable, self.variable))

    def check(self, checker: Checker, outside: frozenset[str]) -> None:
        bound = variables(self.pattern)
        if self.variable not in bound:
            checker.unbound(Variable(self.variable, self.span), self.pattern, bound, "")

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        return matcher.holding(self.pattern, self.fluent, self.negated, bound, self.variable)

    def node(
        self,
        left: int,
        right: int,
        key: tuple[tuple[int, int], ...],
        kind: int,
        take: tuple[int, ...],
        places: Mapping[str, int],
    ) -> Node:
        return HeldAt(
            left, right, key, kind, take, self.negated, len(places), self.name, self.time,
            time_column=places[self.variable], back=self.back,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class HeldAt(Holding):
    """The node of `held`. Unlike Holding, it tests the fluent at the time in the left side's column `time_column`.

    `back`: the maximum number of microseconds by which this time may precede the end of the occurrence. Other
    occurrences are dropped. `name`, `time`: the fluent and the time, as they are written in the program.
    """

    time_column: int = field(kw_only=True)
    back: int | None = field(kw_only=True)
    name: str = field(default="", compare=False)
    time: str = field(default="", compare=False)

    def describe(self) -> NodeProperties:
        properties = Holding.describe(self)
        return replace(properties, looks=(*properties.looks, (0, self.time_column)))

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        column_types = Holding.columns(self, inference, number)
        if self.time_column < len(column_types) and column_types[self.time_column].type not in ("time", "unknown"):
            inference.complain(
                f"`held` needs a time, but `{self.time}` is {a(column_types[self.time_column].type)}",
                inference.spans[number],
                f"`start()`, `end() - 5 s`, or an attribute that is declared a time; `time({self.time})` makes one",
            )
        return column_types

    def unbounded(self) -> tuple[str, str] | None:
        if self.back is not None:
            return None
        return (
            f"this `held` never forgets: it keeps all intervals of `{self.name}`, as nothing bounds how "
            f"far back `{self.time}` lies",
            f"add `{self.time} >= end() - 1 h`; a WITHIN also bounds times of the pattern",
        )

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        asked = f"{'not ' if self.negated else ''}held({sides[1].text}, {self.time})"
        return Text(f"{sides[0].text} WHERE {asked}", 0, True)

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        names = rendering.names[number]
        forgets = "never" if self.back is None else f"{say_duration(self.back)} after it has ended"
        return [
            ("key", ", ".join(names[c] for c, _ in self.key) or "none: all that held"),
            ("remembers", "what holds and what held"),
            ("forgets", "when it ends" if self.back == 0 else forgets),
        ]

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.fluents.held_at import held_at_of

        return held_at_of(self, builder)
