"""How late fluents are known that look ahead, last, or hold while events go on; and what may not ask them then."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

from cep.core.errors import Span
from cep.core.fluents import FOREVER
from cep.core.literals import say_duration, write_duration
from cep.language.syntax import ast
from cep.rules.formulas import (
    FUTURE,
    Formula,
    FormulaAtom,
    LastingFormula,
    MetricFormula,
    MetricInterval,
    bound_variables,
    formula_parts,
)
from cep.rules.terms import (
    Variable,
)


class Lateness:
    """Of the fluents that `rules` define how late each is given, in microseconds. `error` reports a mistake."""

    def __init__(
        self, rules: Mapping[str, Sequence[ast.WhileRule]], declared: Container[str], error: Callable[..., None]
    ) -> None:
        self.rules, self.declared, self.error = rules, declared, error
        self.recursive: set[str] = set()
        self.found: dict[str, int] = {}

    def late(self, name: str) -> int:
        """How late a fluent is given, in microseconds."""
        if name not in self.found:
            self.found[name] = 0  # on a cycle, which is refused
            found = [0]
            for rule in self.rules.get(name, ()):
                ahead = [_high(box.within) for box in rule.boxes if box.operator == "HISTORICALLY"]
                found.append(min(FOREVER, self.late_of(rule.formula) + sum(ahead)))
            self.found[name] = max(found)
        return self.found[name]

    def of_cycle(self, names: Iterable[str]) -> None:
        """Fluents that are defined by each other are given when the last of what they ask is."""
        self.found |= dict.fromkeys(names, 0)
        late = [self.late_of(rule.formula) for name in names for rule in self.rules[name]]
        self.found |= dict.fromkeys(names, max(late))

    def late_of(self, formula: Formula) -> int:
        """The same of a formula."""
        if isinstance(formula, FormulaAtom):
            return self.late(formula.name) if formula.name in self.declared else formula.within or 0
        inner = max(self.late_of(part) for part in formula_parts(formula))
        match formula:
            case MetricFormula("UNTIL", (left, right), within) if bound_variables(left) != bound_variables(right):
                return min(FOREVER, inner + 2 * _high(within))  # `ever` looks ahead, too
            case MetricFormula(operator, _, within) if operator in FUTURE:
                return min(FOREVER, inner + _high(within))
            case LastingFormula(_, least, strictly):
                return inner + least + strictly
            case _:
                return inner

    def refuse(self, name: str, span: Span) -> None:
        """Refuse an event rule that asks a fluent which is decided late."""
        if name in self.recursive or not self.late(name):
            return
        hint = "what looks back is known in time"
        for each in self.everything(name):
            if isinstance(each, MetricFormula) and each.operator in FUTURE:
                hint = f"`{each.operator}` looks ahead; `{FUTURE[each.operator]}` looks back as far"
            elif isinstance(each, LastingFormula):
                hint = (
                    f"LASTING is known at the end alone; `HISTORICALLY[0, {write_duration(each.least)}] p` holds "
                    "when p has held so long"
                )
            elif isinstance(each, FormulaAtom) and each.within:
                hint = f"`{each.name}` is known when it ends: `BEGIN OF` a fluent, or an event of its beginning"
        after = "at the end of the input" if self.late(name) >= FOREVER else f"{say_duration(self.late(name))} later"
        self.error(f"whether `{name}` holds is known {after} only, and events do not wait for it", span, hint, "late")

    def everything(self, name: str) -> Iterator[Formula]:
        """All formulas of the rules of a fluent, and of the fluents that they speak of."""
        stack: list[Formula] = []
        for rule in self.rules.get(name, ()):
            stack.append(rule.formula)
            stack += [
                MetricFormula("EVENTUALLY", (), box.within) for box in rule.boxes if box.operator == "HISTORICALLY"
            ]
        while stack:
            each = stack.pop()
            yield each
            if isinstance(each, FormulaAtom):
                stack += [rule.formula for rule in self.rules.get(each.name, ())]
            stack += formula_parts(each)

    def whole(self, name: str) -> bool:
        """Whether a fluent's maximal intervals are known when they end: it is not late, or a LASTING over what is not
        and whose variables are all in the head. Then its occurrences are those of what it asks, the long ones."""
        if name in self.recursive or not self.late(name):
            return not self.late(name)
        rules = self.rules[name]
        if len(rules) != 1 or rules[0].boxes or not isinstance(rules[0].formula, LastingFormula):
            return False
        rule, inner = rules[0], rules[0].formula
        heads = [*rule.arguments, *([] if rule.value is None else [rule.value])]
        names = {each.name for each in heads if isinstance(each, Variable)}
        return not self.late_of(inner.formula) and "_" not in bound_variables(inner) and names == bound_variables(inner)


def _high(within: MetricInterval) -> int:
    return FOREVER if within.high is None else within.high
