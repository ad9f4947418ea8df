"""Safety: every variable that is used is bound; what an OR binds, both its sides bind.

What needs types as well (conditions for which there is no order, values that never join) is found in `cep.plan.types`.
"""

from __future__ import annotations

from collections.abc import Iterable

from cep.core.errors import CepError, Mistakes, Span
from cep.core.suggest import did_you_mean
from cep.plan.algebra import Either, Given, Pair, Pattern, Rule, Rules, Window
from cep.plan.binarise import variables
from cep.plan.names import excerpt, operands, used_variables
from cep.plan.patterns import absent, atoms, mentioned, parts, patterns
from cep.rules.binding_order import denied
from cep.rules.functions import TESTS
from cep.rules.graphs import variables as sparql_variables
from cep.rules.terms import Call, Comparison, Condition, Expression, PolicyChoice, Predicate, Variable


def unsafe(rules: Rules) -> tuple[frozenset[int], list[CepError]]:
    """The rules (by number) that cannot be planned, and all that is unsafe."""
    statics = frozenset(static.name for static in rules.statics)
    refused: set[int] = set()
    errors = Mistakes()
    for number, rule in enumerate(rules.rules):
        before = len(errors)
        _Checker(rules, rule, statics, errors)
        if len(errors) > before:
            refused.add(number)
    return frozenset(refused), [*errors, *_idle_policies(rules)]


class _Checker:
    """The mistakes of one rule."""

    def __init__(self, rules: Rules, rule: Rule, statics: frozenset[str], errors: Mistakes) -> None:
        self.rules = rules
        self.rule = rule
        self.statics = statics
        self.errors = errors
        self.pattern(rule.body, frozenset())
        self.head()

    def error(self, message: str, span: Span, hint: str | None = None) -> None:
        self.errors.append(CepError(message, self.rules.source, span, hint, "unsafe"))

    # --- the head ---

    def head(self) -> None:
        bound = variables(self.rule.body)
        complained: set[str] = set()
        for argument in self.rule.arguments:
            for variable in _anonymous(argument):
                self.error("`_` has no value in a head", variable.span, "a variable of the pattern, or a constant")
            for variable in used_variables([argument]):
                if variable.name not in bound and variable.name not in complained:
                    complained.add(variable.name)
                    self.unbound(variable, self.rule.body, bound, " of the head")
            for call in _calls(argument):
                if call.function in ("start", "end", "duration") and not call.arguments:
                    self.error(
                        f"`{call.function}()` stands in a WHERE only",
                        call.span,
                        f"bind it there: `... WHERE T = {call.function}()`, and write `T` in the head",
                    )

    # --- patterns ---

    def pattern(self, pattern: Pattern, outside: frozenset[str]) -> None:
        """`outside`: the variables of the rest, where the pattern is negated."""
        for part in parts(pattern):
            self.pattern(part, outside)
        for part in absent(pattern):
            self.pattern(part, variables(pattern))
        match pattern:
            case Pair():
                by = pattern.policy.by
                if by is not None and _inside(pattern.policy, self.rule) and by not in _names(self.rule.body):
                    self.error(
                        f"the policy goes by `{by}`, which the rule does not have",
                        pattern.policy.span,
                        did_you_mean(by, sorted(_written(_names(self.rule.body)))) or "a variable of one of the events",
                    )
            case Either():
                self.either(pattern)
            case Window():
                self.window(pattern)
            case Given():
                self.where(pattern, outside)
            case _:
                pass

    def either(self, either: Either) -> None:
        left, right = (_written(variables(side)) for side in (either.left, either.right))
        if left == right:
            return
        lacks = [(side, sorted(other - own)) for side, own, other in (("left", left, right), ("right", right, left))]
        told = ", ".join(f"the {side} one lacks {_listed(names)}" for side, names in lacks if names)
        written = [each.name for each in mentioned(self.rule.body)]
        written += [each.name for each in used_variables(self.rule.arguments)]
        if left - right and right - left:
            hint = "one name for the same on both sides, `_` for what only one side has"
        elif all(written.count(name) == 1 for name in left ^ right):
            hint = "`_` for what only one side has"
        else:
            hint = "two rules with the same head, one for each side"
        self.error(
            f"both sides of an OR bind the same variables: {told}",
            either.span,
            hint,
        )

    def window(self, window: Window) -> None:
        bound = variables(window.pattern)
        used = [v for r in window.results if r.argument is not None for v in used_variables([r.argument])]
        for variable in [*used, *window.by]:
            if variable.name not in bound:
                self.error(
                    f"`{variable.name}` is not bound by the aggregated pattern",
                    variable.span,
                    did_you_mean(variable.name, sorted(_written(bound)))
                    or f"it binds {_listed(sorted(_written(bound))) or 'nothing'}",
                )
        names: set[str] = set()
        for result in window.results:
            if result.variable in bound or result.variable in names:
                what = "another result" if result.variable in names else "the aggregated pattern"
                self.error(
                    f"`{result.variable}` has a value already, from {what}",
                    result.span,
                    "a new variable for each result",
                )
            names.add(result.variable)

    def where(self, given: Given, outside: frozenset[str]) -> None:
        """What neither the pattern binds nor any of the conditions could."""
        bound = variables(given.pattern)
        known = bound | {name for condition in given.conditions for name in self.bindable(condition)}
        negated = [c for c in given.conditions if isinstance(c, Predicate) and self.asks(c, True)]
        inside = {v.name: condition for condition in reversed(negated) for v in used_variables([condition])}
        complained: set[str] = set()
        for variable in used_variables(given.conditions):
            name = variable.name
            if name in known or name in complained:
                continue
            complained.add(name)
            if name in inside:
                self.error(f"`{name}` is not bound", variable.span, denied(inside[name], name))
            elif name in outside:
                self.error(
                    f"what is absent does not see `{name}` of the rest of the rule",
                    variable.span,
                    f"`{name}` among the arguments of what is absent joins the two",
                )
            else:
                self.unbound(variable, given.pattern, known, "")

    def bindable(self, condition: Condition) -> list[str]:
        """The variables that a condition might bind."""
        binds = condition.operator == "=" if isinstance(condition, Comparison) else self.asks(condition, False)
        return [side.name for side in operands(condition) if isinstance(side, Variable)] if binds else []

    def asks(self, condition: Condition, negated: bool) -> bool:
        """Whether a condition asks a static predicate, with or without `not`."""
        if isinstance(condition, Comparison) or condition.negated != negated:
            return False
        return condition.name in self.statics or condition.name not in TESTS

    # --- what to say ---

    def unbound(self, variable: Variable, pattern: Pattern, bound: Iterable[str], place: str) -> None:
        """A variable that has no value above `pattern`."""
        name = variable.name
        negated = [atom for each in patterns(pattern) for part in absent(each) for atom in atoms(part)]
        for atom in negated:
            if name in _names(atom):
                written = excerpt(self.rules.source, atom.span) or f"{atom.event}(...)"
                self.error(
                    f"`{name}`{place} has no value: it occurs only in what is absent",
                    variable.span,
                    f"a variable of what does occur; a condition on it goes inside: `{written} WHERE ...`",
                )
                return
        for each in patterns(pattern):
            if isinstance(each, Window) and name in variables(each.pattern):
                hint = f"`... BY {name}` makes it a group's"
                if not place:
                    hint += ", or the condition stands before AGGREGATE"
                self.error(f"`{name}`{place} has no value after AGGREGATE, which gives its results and the groups",
                           variable.span, hint)  # fmt: skip
                return
        close = self.local(name) or did_you_mean(name, sorted(_written(bound)))
        if place:
            hint = close or f"name it in the pattern, or bind it: `WHERE {name} = ...`"
            self.error(f"`{name}`{place} is not bound by the pattern", variable.span, hint)
        else:
            hint = (
                close or f"name it in the pattern, bind it with `{name} = ...`, or by a predicate that lists its values"
            )
            self.error(f"`{name}` is not bound", variable.span, hint)

    def local(self, name: str) -> str | None:
        """For a variable that is written in lower case in braces."""
        for each in patterns(self.rule.body):
            for condition in each.conditions if isinstance(each, Given) else ():
                if isinstance(condition, Predicate) and condition.graph is not None:
                    inside = [v for v in sparql_variables(condition.graph.text) if v.lower() == name.lower()]
                    if inside and name not in inside:
                        return f"`?{inside[0]}` is known in its braces only: write `?{name}` there"
        return None


def _idle_policies(rules: Rules) -> list[CepError]:
    """Policy statements that go by a variable of no rule they hold for. (A goal without it takes the default, M3.)"""
    idle: dict[PolicyChoice, bool] = {}
    for rule in rules.rules:
        for each in patterns(rule.body):
            if isinstance(each, Pair) and each.policy.by is not None and not _inside(each.policy, rule):
                idle[each.policy] = idle.get(each.policy, True) and each.policy.by not in _names(rule.body)
    return [
        CepError(
            f"the policy goes by `{choice.by}`, which no rule after it has",
            rules.source,
            choice.span,
            "a variable of the events it chooses from",
            "unsafe",
        )
        for choice, wanted in idle.items()
        if wanted and (excerpt(rules.source, choice.span) or "").startswith(choice.name)
    ]


def _inside(choice: PolicyChoice, rule: Rule) -> bool:
    """Whether a policy is written in the rule itself."""
    begin, end = (rule.span.line, rule.span.column), (rule.span.end_line, rule.span.end_column)
    return begin <= (choice.span.line, choice.span.column) < end


def _written(names: Iterable[str]) -> set[str]:
    """Without those that stand for the variables of a TIMES."""
    return {name for name in names if "'" not in name}


def _names(pattern: Pattern) -> set[str]:
    return {variable.name for variable in mentioned(pattern)}


def _anonymous(expression: Expression) -> list[Variable]:
    if isinstance(expression, Variable):
        return [expression] if expression.name == "_" else []
    return [v for a in expression.arguments for v in _anonymous(a)] if isinstance(expression, Call) else []


def _calls(expression: Expression) -> list[Call]:
    if not isinstance(expression, Call):
        return []
    return [expression, *(call for argument in expression.arguments for call in _calls(argument))]


def _listed(names: list[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return "".join(quoted) if len(quoted) < 2 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
