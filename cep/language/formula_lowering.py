"""Formulas, lowered: each to a pattern that binds of its variables those that something around it needs.

`ONCE p(X, Y)` for an X alone holds whatever Y is, and is kept for X alone. Below what asks of one value throughout
(HISTORICALLY, LASTING, AGGREGATE) all variables are kept. What each operator becomes is said where it is
(`cep/operators/`): its `lowered` asks this for its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from cep.core.errors import Span
from cep.core.fluents import FOREVER
from cep.language import recorded_fluents
from cep.language.fluents import Fluents
from cep.language.knowledge_patterns import KnowledgePatterns
from cep.language.lateness import Lateness
from cep.operators.holding import KIND
from cep.operators.supports import FormulaAtom, ProjectionPattern
from cep.plan.formula import Formula, Names, asked, asked_now, formulas
from cep.plan.pattern import Pattern, variables
from cep.rules.terms import Condition


class FormulaLowering:
    """Formulas whose names are resolved as patterns; their mistakes are reported to `fluents`."""

    def __init__(self, fluents: Fluents, known: KnowledgePatterns, lateness: Lateness) -> None:
        self.fluents, self.known, self.lateness, self.error = fluents, known, lateness, fluents.error
        self.cycle: Names = frozenset()
        self.now: Names = frozenset()
        self.late, self.lagging = 0, False

    def of_rule(self, formula: Formula, keep: Names, cycle: Names, now: Names, late: int, lagging: bool) -> Pattern:
        """Lower the formula of a rule that is known `late`.

        `cycle`: the fluents that it and its own define each other by; `now`: those of them that do so at the same time,
        which are not all where the cycle is `lagging`.
        """
        self.cycle, self.now, self.late, self.lagging = cycle, now, late, lagging
        return self.lowered(formula, keep, keep)

    def lowered(self, formula: Formula, keep: Names, outside: Names) -> Pattern:
        """The formula as a pattern that binds of its variables those to `keep`. `outside`: the names used around it."""
        before = self.cycle, self.now
        if self.waits and not _asks(formulas(formula), self.cycle):
            late, self.cycle, self.now = FOREVER, frozenset(), frozenset()
        elif self.now and not self.through(formula):
            late, self.now = self.within(self.late), frozenset()
        else:
            return formula.lowered(self, keep, outside)
        # A recursion asks of what comes in what holds, and is given it when all of it is known.
        made = formula.lowered(self, keep, outside)
        self.cycle, self.now = before
        return self.narrowed(made, variables(made), late, formula.span)

    @property
    def waits(self) -> bool:
        """Return True if all inputs of a cycle wait for the end of the stream, since some are known only then. The
        cycle runs then alone, and on it nothing is late."""
        return bool(self.cycle) and self.late >= FOREVER

    def late_of(self, formula: Formula) -> int:
        """See `cep.plan.formula.Lowering`."""
        return self.within(self.lateness.late_of(formula))

    def within(self, late: int) -> int:
        """Return the delay of something within its own cycle."""
        return 0 if self.waits else late

    def through(self, formula: Formula) -> bool:
        """Return True if a formula asks a fluent of the cycle; where the cycle lags, at the same time."""
        return _asks(asked_now(formula) if self.lagging else formulas(formula), self.now)

    def apart(self, parts: Sequence[Formula], make: Callable[[tuple[Formula, ...]], Formula]) -> list[Formula]:
        """The parts, in a recursion those that are not of the cycle as one."""
        outer = [part for part in parts if not self.through(part)]
        if not self.now or len(outer) < 2:
            return list(parts)
        return [make(tuple(outer)), *(part for part in parts if self.through(part))]

    def projected(self, pattern: Pattern, keep: Names, formula: Formula) -> Pattern:
        """The pattern with these variables alone."""
        mine = variables(pattern) - {KIND}
        return pattern if mine <= keep else self.narrowed(pattern, mine & keep, self.late_of(formula), formula.span)

    def narrowed(self, pattern: Pattern, names: Iterable[str], late: int, span: Span) -> Pattern:
        """Return the pattern projected on these variables: it holds while it does with any values of the others."""
        return ProjectionPattern(pattern, tuple(sorted(set(names) - {KIND})), late, 0, None, span)

    def closed(self, pattern: Pattern, edge: str, formula: Formula) -> Pattern:
        """The pattern of a formula with the ends at which it begins, or ends, as if they belonged to it."""
        names = tuple(sorted(variables(pattern) - {KIND}))
        return ProjectionPattern(pattern, names, self.late_of(formula), 0, None, formula.span, edge)

    def edges(self, name: str) -> str | None:
        """The table that says when a fluent begins and ends; None: it is an event."""
        return recorded_fluents.edges(name) if name in self.fluents.declared else None

    def conditions(self, conditions: Sequence[Condition]) -> tuple[Condition, ...]:
        """The conditions of a WHERE as they are asked."""
        uses = dict.fromkeys(asked(conditions), 2)
        made = tuple(self.known.condition(each, uses) for each in conditions)
        for each in made:
            self.fluents.elsewhere(each)
        return made

    def ask_knowledge(self, conditions: Sequence[Condition]) -> bool:
        """Return True if lowered conditions query the knowledge."""
        return self.known.asked_by(conditions)


def _asks(parts: Iterable[Formula], names: Names) -> bool:
    """Return True if some of these formulas are fluents, or events, of these names."""
    return any(each.name in names for each in parts if isinstance(each, FormulaAtom))
