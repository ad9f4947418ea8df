"""Formulas, lowered: each to a pattern that binds of its variables those that something around it needs.

`ONCE p(X, Y)` for an X alone holds whatever Y is, and is kept for X alone. Below what asks of one value throughout
(HISTORICALLY, LASTING, AGGREGATE) all variables are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cep.core.errors import Span
from cep.core.interval_sets import reach
from cep.core.suggest import did_you_mean
from cep.language.asking import Asking
from cep.language.fluents import Fluents
from cep.language.lateness import Lateness
from cep.language.recorded_fluents import edges
from cep.operators.conjunction import ConjunctionPattern
from cep.operators.either import Either
from cep.operators.event import Atom
from cep.operators.grouping import GroupingPattern
from cep.operators.holding import KIND
from cep.operators.supports import FormulaEventPattern, ProjectionPattern
from cep.operators.temporal import TemporalPattern
from cep.operators.where import SelectPattern
from cep.plan.pattern import Pattern, variables
from cep.rules.formulas import (
    AggregatedFormula,
    And,
    Formula,
    FormulaAtom,
    LastingFormula,
    MetricFormula,
    MetricInterval,
    Or,
    RestrictedFormula,
    asked,
    bound_variables,
    formula_atoms,
    formula_variables,
)
from cep.rules.terms import (
    Call,
    Comparison,
    Constant,
    Expression,
    Predicate,
    Variable,
    each_condition,
    expression_variables,
)

Names = frozenset[str]
_IN_ORDER = ("first", "last", "mode", "slope", "rate", "ewma")


class FormulaLowering:
    """Formulas whose names are resolved as patterns; their mistakes are reported to `fluents`."""

    def __init__(self, fluents: Fluents, asking: Asking, lateness: Lateness) -> None:
        self.fluents, self.asking, self.late_of = fluents, asking, lateness.late_of
        self.cycle: Names = frozenset()
        self.late = 0

    def error(self, message: str, span: Span, hint: str | None = None, code: str = "fluent") -> None:
        self.fluents.error(message, span, hint, code)

    def of_rule(self, formula: Formula, keep: Names, cycle: Names, late: int) -> Pattern:
        """What a rule says. `cycle`: the fluents that its own and it define each other by; `late`: how late it is."""
        self.cycle, self.late = cycle, late
        return self.lowered(formula, keep, keep)

    def lowered(self, formula: Formula, keep: Names, outside: Names) -> Pattern:
        """The formula as a pattern that binds of its variables those to `keep`. `outside`: the names used around it."""
        if not self.cycle or self.through(formula):
            return self.made(formula, keep, outside)
        # A recursion asks of what comes in what holds, and is given it when all of it is known.
        cycle, self.cycle = self.cycle, frozenset()
        made = self.made(formula, keep, outside)
        self.cycle = cycle
        return ProjectionPattern(made, tuple(sorted(variables(made) - {KIND})), self.late, 0, None, formula.span)

    def through(self, formula: Formula) -> bool:
        """Whether a formula asks a fluent of the cycle."""
        return any(each.name in self.cycle for each in formula_atoms(formula))

    def apart(self, parts: Sequence[Formula], make: Callable[[tuple[Formula, ...]], Formula]) -> list[Formula]:
        """The parts, in a recursion those that are not of the cycle as one."""
        outer = [part for part in parts if not self.through(part)]
        if not self.cycle or len(outer) < 2:
            return list(parts)
        return [make(tuple(outer)), *(part for part in parts if self.through(part))]

    def made(self, formula: Formula, keep: Names, outside: Names) -> Pattern:
        """The pattern itself."""
        match formula:
            case FormulaAtom():
                return self.atom(formula, keep)
            case And():
                return self.conjunction(formula, keep, outside)
            case Or():
                return self.alternatives(formula, keep, outside)
            case MetricFormula():
                return self.timed(formula, keep, outside)
            case LastingFormula(inner, least, strictly, span):
                body = self.lowered(inner, bound_variables(inner), outside)
                made = TemporalPattern(
                    "LASTING", body, None, None, least + strictly, (self.late_of(inner),), None, span
                )
                return self.projected(made, keep, formula)
            case RestrictedFormula():
                return self.restricted(formula, keep, outside)
            case AggregatedFormula():
                return self.aggregated(formula, keep, outside)

    def projected(self, pattern: Pattern, keep: Names, formula: Formula) -> Pattern:
        """The pattern with these variables alone."""
        mine = variables(pattern) - {KIND}
        if mine <= keep:
            return pattern
        return ProjectionPattern(pattern, tuple(sorted(mine & keep)), self.late_of(formula), 0, None, formula.span)

    def atom(self, formula: FormulaAtom, keep: Names) -> Pattern:
        arguments = formula.arguments
        values = tuple(each for each in arguments if isinstance(each, Variable | Constant))
        if formula.name not in self.fluents.declared:
            atom = Atom(formula.name, values, None, formula.span)
            names = tuple(sorted(bound_variables(formula) & keep))
            return FormulaEventPattern(atom, names, formula.within, None, formula.span)
        atom = Atom(edges(formula.name), (*values, Variable(KIND, formula.span)), None, formula.span)
        return self.projected(atom, keep, formula)

    def conjunction(self, formula: And, keep: Names, outside: Names) -> Pattern:
        positive = self.apart(
            [part for part, no in zip(formula.parts, formula.negated, strict=True) if not no],
            lambda outer: And(outer, (False,) * len(outer), formula.span),
        )
        absent = [part for part, no in zip(formula.parts, formula.negated, strict=True) if no]
        mine = [bound_variables(part) for part in positive]
        every = bound_variables(formula)
        speaks = [frozenset(formula_variables(part)) for part in absent]
        for part, names in zip(absent, speaks, strict=True):
            self.safe(part, names - every, outside)
        asked = keep.union(*speaks)
        made: Pattern | None = None
        late, done = 0, frozenset[str]()
        rest = list(range(len(positive)))
        while rest:
            following = next((n for n in rest if made is not None and mine[n] & done), rest[0])
            rest.remove(following)
            others = asked.union(*(mine[n] for n in range(len(positive)) if n != following))
            right = self.lowered(positive[following], mine[following] & others, outside | others)
            its = self.late_of(positive[following])
            made = right if made is None else ConjunctionPattern(made, right, False, (late, its), None, formula.span)
            late, done = max(late, its), done | mine[following]
        assert made is not None, "the first part is not negated"
        for part in absent:
            right = self.lowered(part, bound_variables(part) & every, outside | every)
            its = self.late_of(part)
            made = ConjunctionPattern(made, right, True, (late, its), None, formula.span)
            late = max(late, its)
        return self.projected(made, keep, formula)

    def safe(self, absent: Formula, loose: Names, outside: Names) -> None:
        """Refuse variables of what is absent that something around the conjunction speaks of, and it does not bind."""
        for name in sorted(loose & outside):
            self.error(
                f"`{name}` has no value: in these ANDs it occurs under NOT alone",
                absent.span,
                f"`{name}` in what holds: `p({name}) AND NOT q({name})`; parentheses close a chain of ANDs",
                "unsafe",
            )

    def alternatives(self, formula: Or, keep: Names, outside: Names) -> Pattern:
        mine = [frozenset(name for name in bound_variables(part) if "'" not in name) for part in formula.parts]
        every = frozenset[str]().union(*mine)
        for part, names in zip(formula.parts, mine, strict=True):
            if names != every:
                missing = ", ".join(f"`{name}`" for name in sorted(every - names))
                self.error(
                    f"both sides of an OR bind the same variables: this one lacks {missing}",
                    part.span,
                    "`_` for what only one side has, or two rules of the same fluent",
                    "unsafe",
                )
        own = every & keep
        own_parts = self.apart(formula.parts, lambda outer: Or(outer, formula.span))
        found = [self.lowered(part, own, outside) for part in own_parts]
        lates = [self.late_of(part) for part in own_parts]
        made = found[0]
        for right in found[1:]:
            made = Either(made, right, None, formula.span)
        return ProjectionPattern(made, tuple(sorted(own)), max(lates), 0, None, formula.span)

    def timed(self, formula: MetricFormula, keep: Names, outside: Names) -> Pattern:
        operator, within, span = formula.operator, formula.within, formula.span
        by = reach(within.low, within.high, within.bounds)
        right = formula.parts[-1]
        its = self.late_of(right)
        if len(formula.parts) == 1:
            own = bound_variables(right)
            own = own & keep if operator in ("ONCE", "EVENTUALLY") else own
            body = self.lowered(right, own, outside)
            return self.projected(TemporalPattern(operator, body, None, by, 0, (its,), None, span), keep, formula)
        left = formula.parts[0]
        mine, theirs = bound_variables(left), bound_variables(right)
        for name in sorted(mine - theirs):
            shown = "_" if "'" in name else name
            self.error(
                f"`{shown}` of the left of {operator} does not occur on its right",
                left.span,
                f"all variables of the left occur on the right; `p(X, _)` is a fluent of its own: `some(X) WHILE "
                f"p(X, _).`, and `some(X) {operator} q(X)`",
                "unsafe",
            )
        if mine - theirs:
            return self.lowered(right, keep, outside)
        body = self.lowered(right, theirs & (keep | mine), outside | mine)
        held = self.lowered(left, mine, outside | theirs)
        if variables(held) != variables(body):
            # the left is asked of each tuple of the right, of all that ever hold there
            ever = self.ever(right, theirs & (keep | mine), outside | mine, operator, within)
            late = max(self.late_of(left), self.late_of(ever[1]))
            held = ConjunctionPattern(
                held, ever[0], False, (self.late_of(left), self.late_of(ever[1])), None, left.span
            )
            if variables(held) != variables(body):
                held = ProjectionPattern(held, tuple(sorted(variables(body) - {KIND})), late, 0, None, left.span)
        else:
            late = self.late_of(left)
        return self.projected(TemporalPattern(operator, held, body, by, 0, (late, its), None, span), keep, formula)

    def ever(
        self, right: Formula, keep: Names, outside: Names, operator: str, within: MetricInterval
    ) -> tuple[Pattern, Formula]:
        """While a tuple of the right of SINCE or UNTIL may matter to its left."""
        again = MetricFormula(
            "EVENTUALLY" if operator == "UNTIL" else "ONCE", (right,), MetricInterval(0, within.high, _whole(within))
        )
        again = replace(again, span=right.span)
        return self.lowered(again, keep, outside), again

    def aggregated(self, formula: AggregatedFormula, keep: Names, outside: Names) -> Pattern:
        inner = bound_variables(formula.formula)
        known = sorted(name for name in inner if "'" not in name)
        for result in formula.results:
            if result.function in _IN_ORDER:
                self.error(
                    f"`{result.function}` goes by the order of time, and what holds at one time has none",
                    result.span,
                    "`count`, `sum`, `avg`, `min`, `max`, `stddev`, `median` or `percentile`",
                )
            if result.variable in inner or [each.variable for each in formula.results].count(result.variable) > 1:
                self.error(f"`{result.variable}` has a value already", result.span, "a new variable for each result")
            for name in [] if result.argument is None else expression_variables(result.argument):
                if name not in inner:
                    self.error(
                        f"`{name}` is not bound by the aggregated formula",
                        result.span,
                        did_you_mean(name, known) or f"it binds {', '.join(known) or 'nothing'}",
                        "unsafe",
                    )
        for each in formula.by:
            if each.name not in inner:
                self.error(
                    f"`{each.name}` is not bound by the aggregated formula",
                    each.span,
                    did_you_mean(each.name, known) or f"it binds {', '.join(known) or 'nothing'}",
                    "unsafe",
                )
        body = self.lowered(formula.formula, inner, outside | inner)
        late = self.late_of(formula.formula)
        return self.projected(
            GroupingPattern(body, formula.results, formula.by, late, None, formula.span), keep, formula
        )

    def restricted(self, formula: RestrictedFormula, keep: Names, outside: Names) -> Pattern:
        names = asked(formula.conditions)
        uses = dict.fromkeys(names, 2)
        conditions = tuple(self.asking.condition(each, uses) for each in formula.conditions)
        for each in conditions:
            self.fluents.elsewhere(each)
            if any(_times(side) for one in each_condition([each]) for side in _sides(one)):
                self.error(
                    "a formula has no start and no end: it holds at single times",
                    each.span,
                    "how long it holds is said by LASTING, how long ago by ONCE",
                )
        inner = formula.formula
        body = self.lowered(inner, bound_variables(inner) & (keep | names), outside | names)
        return self.projected(SelectPattern(body, conditions, None, formula.span), keep, formula)


def _sides(condition: Comparison | Predicate) -> Sequence[Expression]:
    return condition.arguments if isinstance(condition, Predicate) else (condition.left, condition.right)


def _times(expression: Expression) -> bool:
    if not isinstance(expression, Call):
        return False
    if expression.function in ("start", "end", "duration") and not expression.arguments:
        return True
    return any(map(_times, expression.arguments))


def _whole(within: MetricInterval) -> str:
    """The bounds of `[0, high]` that reach as far."""
    return "[" + within.bounds[1]
