"""The delay of a fluent: the time until its value is known, because its formulas look ahead or depend on later input.

The module also decides which fluents event rules may use.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

from cep.core.errors import Span
from cep.core.fluents import FOREVER
from cep.core.literals import say_duration
from cep.language.syntax import ast
from cep.operators.supports import FormulaAtom
from cep.operators.temporal import headed
from cep.plan.formula import Formula, formulas
from cep.rules.terms import Variable


class Lateness:
    """The delays of the fluents that `rules` define, in microseconds. `error`: a function that reports a mistake."""

    def __init__(
        self,
        rules: Mapping[str, Sequence[ast.WhileRule]],
        declared: Container[str],
        error: Callable[..., None],
        answered: Container[str] = (),
    ) -> None:
        """Store the arguments. The delay of a fluent is calculated when a method first needs it.

        `answered`: the fluents that LARS derives. Event rules read these fluents at the end of a tick.
        """
        self.rules, self.declared, self.error, self.answered = rules, declared, error, answered
        self.recursive: set[str] = set()
        self.found: dict[str, int] = {}

    def late(self, name: str) -> int:
        if name not in self.found:
            self.found[name] = 0  # stops the recursion on a cycle, which is refused
            delays = [0]
            delays += [min(FOREVER, self.late_of(whole(rule))) for rule in self.rules.get(name, ())]
            self.found[name] = max(delays)
        return self.found[name]

    def of_cycle(self, names: Iterable[str], ahead: bool) -> None:
        """Set the delay of fluents that depend on each other. All of them get the longest delay of their rules.

        `ahead`: True if the fluents depend on later events. Then they are known only at the end of the input.
        """
        self.found |= dict.fromkeys(names, FOREVER if ahead else 0)
        late = [self.late_of(whole(rule)) for name in names for rule in self.rules[name]]
        self.found |= dict.fromkeys(names, max(late))

    def late_of(self, formula: Formula) -> int:
        return formula.late(self)

    def refuse(self, name: str, span: Span) -> None:
        """Report the use of the fluent `name` in an event rule if its value is not known in time."""
        if name in self.recursive or self.in_time(name):
            return
        hint = "what looks back is known in time"
        for formula in self.everything(name):
            hint = formula.why_late() or hint
        after = "at the end of the input" if self.late(name) >= FOREVER else f"{say_duration(self.late(name))} later"
        self.error(f"`{name}` is known only {after}, and events do not wait for it", span, hint, "late")

    def in_time(self, name: str, seen: frozenset[str] = frozenset()) -> bool:
        """Return True if event rules may use a fluent. The fluent must have no delay, or only the delay of a tick of
        LARS."""
        if not self.late(name) or name in self.answered:
            return True
        if not self.answered or name in seen or self.late(name) >= FOREVER:
            return False
        asked = [formula for rule in self.rules.get(name, ()) for formula in formulas(whole(rule))]
        if any(formula.why_late() for formula in asked):
            return False
        inside = {
            formula.name for formula in asked if isinstance(formula, FormulaAtom) and formula.name in self.declared
        }
        return all(self.in_time(inner_name, seen | {name}) for inner_name in inside)

    def everything(self, name: str) -> Iterator[Formula]:
        """Yield all formulas in the rules of a fluent, and in the rules of all fluents on which it depends."""
        stack, seen = [whole(rule) for rule in self.rules.get(name, ())], {name}
        while stack:
            formula = stack.pop()
            yield formula
            if isinstance(formula, FormulaAtom) and formula.name not in seen:
                seen.add(formula.name)
                stack += [whole(rule) for rule in self.rules.get(formula.name, ())]
            stack += formula.inside()

    def whole(self, name: str) -> bool:
        """Return True if each maximal interval of a fluent is known when the interval ends.

        This is true if the fluent has no delay, or if it has a single rule that selects the long intervals of a formula
        without delay (LASTING), and the head of this rule has all variables of the formula.
        """
        if name in self.recursive or not self.late(name):
            return not self.late(name)
        rules = self.rules[name]
        if len(rules) != 1 or rules[0].boxes or (long := rules[0].formula.long()) is None:
            return False
        rule, inner = rules[0], long[0]
        heads = [*rule.arguments, *([] if rule.value is None else [rule.value])]
        names = {head.name for head in heads if isinstance(head, Variable)}
        return not self.late_of(inner) and "_" not in inner.bound() and names == inner.bound()


def whole(rule: ast.WhileRule) -> Formula:
    """Return the formula of a rule, with the temporal operators of its head applied to it."""
    formula = rule.formula
    for box in reversed(rule.boxes):
        formula = headed(box.operator, box.within, formula, rule.span)
    return formula
