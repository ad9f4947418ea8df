"""Lowering of formulas. The pattern for a formula binds only those of its variables that the rest of the rule needs.

If the rule needs only X, `ONCE p(X, Y)` holds for any Y, so the engine keeps one state per X. Operators that test one
value throughout (HISTORICALLY, LASTING, AGGREGATE) keep all variables. The modules in `cep/operators/` describe the
pattern of each operator. Their `lowered` methods call this module for the operands.
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
    """Lowering of formulas to patterns. `fluents` resolves the names in the formulas and collects the mistakes."""

    def __init__(self, fluents: Fluents, known: KnowledgePatterns, lateness: Lateness) -> None:
        self.fluents, self.known, self.lateness, self.error = fluents, known, lateness, fluents.error
        self.cycle: Names = frozenset()
        self.now: Names = frozenset()
        self.late, self.lagging = 0, False

    def of_rule(self, formula: Formula, keep: Names, cycle: Names, now: Names, late: int, lagging: bool) -> Pattern:
        """Lower the formula of a rule whose results have a delay of `late` microseconds.

        - `keep`: the variables that the pattern must bind.
        - `cycle`: the fluents that depend on the rule's fluent and that the rule's fluent depends on.
        - `now`: the fluents of the cycle that depend on each other without a delay. If `lagging` is False, `now`
          contains all fluents of the cycle.
        - `lagging`: True if a rule of the cycle contains NOT or AGGREGATE.
        """
        self.cycle, self.now, self.late, self.lagging = cycle, now, late, lagging
        return self.lowered(formula, keep, keep)

    def lowered(self, formula: Formula, keep: Names, outside: Names) -> Pattern:
        """Lower a formula to a pattern that binds the variables in `keep`.

        `outside`: the variables that the rest of the rule uses.
        """
        before = self.cycle, self.now
        if self.waits and not _asks(formulas(formula), self.cycle):
            late, self.cycle, self.now = FOREVER, frozenset(), frozenset()
        elif self.now and not self.through(formula):
            late, self.now = self.within(self.late), frozenset()
        else:
            return formula.lowered(self, keep, outside)
        # This part is an input of a recursion, which uses its intervals when they are complete.
        pattern = formula.lowered(self, keep, outside)
        self.cycle, self.now = before
        return self.narrowed(pattern, variables(pattern), late, formula.span)

    @property
    def waits(self) -> bool:
        """Return True if the rule belongs to a cycle whose results are known only at the end of the stream. Its
        formulas then need no delays."""
        return bool(self.cycle) and self.late >= FOREVER

    def late_of(self, formula: Formula) -> int:
        """Return the delay of a formula in microseconds. See `cep.plan.formula.Lowering`."""
        return self.within(self.lateness.late_of(formula))

    def within(self, late: int) -> int:
        """Return `late`, or 0 if the rule belongs to a cycle whose results are known only at the end of the stream."""
        return 0 if self.waits else late

    def through(self, formula: Formula) -> bool:
        """Return True if a formula uses a fluent of the cycle. If the cycle contains NOT or AGGREGATE, ignore fluents
        that the formula uses with a delay."""
        return _asks(asked_now(formula) if self.lagging else formulas(formula), self.now)

    def apart(self, parts: Sequence[Formula], make: Callable[[tuple[Formula, ...]], Formula]) -> list[Formula]:
        """Combine all formulas of `parts` that do not use a fluent of the cycle into one formula, by `make`. Return
        this formula and the remaining parts. If the rule is not recursive, return `parts` unchanged."""
        outer = [part for part in parts if not self.through(part)]
        if not self.now or len(outer) < 2:
            return list(parts)
        return [make(tuple(outer)), *(part for part in parts if self.through(part))]

    def projected(self, pattern: Pattern, keep: Names, formula: Formula) -> Pattern:
        """Return the pattern of a formula, reduced to the variables in `keep`."""
        mine = variables(pattern) - {KIND}
        return pattern if mine <= keep else self.narrowed(pattern, mine & keep, self.late_of(formula), formula.span)

    def narrowed(self, pattern: Pattern, names: Iterable[str], late: int, span: Span) -> Pattern:
        """Return a pattern that binds only `names`. The new pattern holds while `pattern` holds for some values of its
        other variables."""
        return ProjectionPattern(pattern, tuple(sorted(set(names) - {KIND})), late, 0, None, span)

    def closed(self, pattern: Pattern, edge: str, formula: Formula) -> Pattern:
        """Extend each interval of a pattern by the instant at which the interval begins or ends. `edge`: `begin` or
        `end`, to select this instant."""
        names = tuple(sorted(variables(pattern) - {KIND}))
        return ProjectionPattern(pattern, names, self.late_of(formula), 0, None, formula.span, edge)

    def edges(self, name: str) -> str | None:
        """Return the name of the table that contains the beginnings and ends of the fluent `name`. Return None if
        `name` is an event."""
        return recorded_fluents.edges(name) if name in self.fluents.declared else None

    def conditions(self, conditions: Sequence[Condition]) -> tuple[Condition, ...]:
        """Lower the conditions of a WHERE. Report a mistake for each fluent that a condition uses where it cannot be
        tested."""
        uses = dict.fromkeys(asked(conditions), 2)
        lowered = tuple(self.known.condition(condition, uses) for condition in conditions)
        for condition in lowered:
            self.fluents.elsewhere(condition)
        return lowered

    def ask_knowledge(self, conditions: Sequence[Condition]) -> bool:
        return self.known.asked_by(conditions)


def _asks(parts: Iterable[Formula], names: Names) -> bool:
    return any(part.name in names for part in parts if isinstance(part, FormulaAtom))
