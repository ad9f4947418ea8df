"""Safety: every variable that is used is bound; what an OR binds, both its sides bind.

What needs types as well (conditions for which there is no order, values that never join) is found in `cep.plan.types`.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from cep.dialects.etalis import condition_variables
from cep.errors import CepError, CepErrors, Span, Warning
from cep.plan.algebra import Atom, Either, Given, Pair, Pattern, Point, Repeat, Rule, Rules, Unless, Window
from cep.plan.binarise import variables
from cep.syntax.ast import Call, Expression, Variable


def check(rules: Rules) -> list[Warning]:
    """Raises CepErrors with all that is unsafe; gives warnings about names that look mistaken."""
    errors: list[CepError] = []
    for rule in rules.rules:
        checker = _Checker(rules, rule)
        checker.rule()
        errors += checker.errors
    if errors:
        raise CepErrors(errors)
    return _strangers(rules)


class _Checker:
    def __init__(self, rules: Rules, rule: Rule) -> None:
        self.rules = rules
        self.of = rule
        self.errors: list[CepError] = []

    def error(self, message: str, span: Span, hint: str | None = None) -> None:
        self.errors.append(CepError(message, self.rules.source, span, hint, "unsafe"))

    def rule(self) -> None:
        self.pattern(self.of.body)
        bound = variables(self.of.body)
        for argument in self.of.arguments:
            for variable in _variables(argument):
                if variable.name == "_":
                    self.error("a head has no anonymous variable", variable.span, "a name, bound in the pattern")
                elif variable.name not in bound:
                    self.error(
                        f"`{variable.name}` of the head is not bound by the pattern",
                        variable.span,
                        self.unbound(variable.name, bound),
                    )
            for call in _calls(argument):
                if call.function in ("start", "end", "duration") and not call.arguments:
                    self.error(
                        f"`{call.function}()` stands in a WHERE only",
                        call.span,
                        f"bind it there: `... WHERE T = {call.function}()`, and write `T` in the head",
                    )

    def unbound(self, name: str, bound: Iterable[str]) -> str:
        if name in _everything(self.of.body):
            if any(isinstance(p, Window) for p in _patterns(self.of.body)):
                return f"an aggregate gives its results and the variables of BY only: `... BY {name}`"
            return f"`{name}` occurs only in what is absent, and so has no value"
        close = get_close_matches(name, sorted(bound), 1)
        if close:
            return f"did you mean `{close[0]}`?"
        return f"name it in an event, or bind it: `WHERE {name} = ...`"

    def pattern(self, pattern: Pattern) -> None:
        match pattern:
            case Pair():
                self.pattern(pattern.left)
                self.pattern(pattern.right)
                if pattern.absent is not None:
                    self.pattern(pattern.absent)
                by = pattern.policy.by
                if by is not None and by not in variables(self.of.body) and by not in _everything(self.of.body):
                    self.error(
                        f"the policy goes by `{by}`, which the rule does not have",
                        pattern.policy.span,
                        "a variable of one of the events",
                    )
            case Either(left, right, _, span):
                self.pattern(left)
                self.pattern(right)
                one, two = variables(left), variables(right)
                if one != two:
                    lacking = sorted(one ^ two)
                    side = "right" if lacking[0] in one else "left"
                    self.error(
                        f"both sides of an OR bind the same variables: the {side} one lacks `{lacking[0]}`",
                        span,
                        "`_` for what only one side has, or two rules with the same head",
                    )
            case Unless(left, absent):
                self.pattern(left)
                self.pattern(absent)
            case Repeat(links, _):
                self.pattern(links[0])
            case Window():
                self.pattern(pattern.pattern)
                self.window(pattern)
            case Given(inner):
                self.pattern(inner)
            case Atom() | Point():
                pass

    def window(self, window: Window) -> None:
        bound = variables(window.pattern)
        for variable in window.by:
            if variable.name not in bound:
                self.error(f"`{variable.name}` is not bound by the aggregated pattern", variable.span, _close(variable.name, bound))
        names: set[str] = set()
        for result in window.results:
            if result.variable in bound or result.variable in names:
                self.error(
                    f"`{result.variable}` has a value already", result.span, "a new variable for each result"
                )
            names.add(result.variable)
            for variable in [] if result.argument is None else _variables(result.argument):
                if variable.name not in bound:
                    self.error(
                        f"`{variable.name}` is not bound by the aggregated pattern",
                        variable.span,
                        _close(variable.name, bound),
                    )


def _close(name: str, bound: Iterable[str]) -> str | None:
    close = get_close_matches(name, sorted(bound), 1)
    return f"did you mean `{close[0]}`?" if close else None


def _patterns(pattern: Pattern) -> list[Pattern]:
    inner: list[Pattern] = []
    match pattern:
        case Pair():
            inner = [pattern.left, pattern.right] + ([] if pattern.absent is None else [pattern.absent])
        case Either(left, right):
            inner = [left, right]
        case Unless(left, absent):
            inner = [left, absent]
        case Repeat(links, _):
            inner = list(links)
        case Window() | Given():
            inner = [pattern.pattern]
        case _:
            pass
    return [pattern, *(p for i in inner for p in _patterns(i))]


def atoms(pattern: Pattern) -> list[Atom]:
    """All event patterns of a pattern, what is negated included."""
    return [p for p in _patterns(pattern) if isinstance(p, Atom)]


def _everything(pattern: Pattern) -> set[str]:
    names = {a.name for atom in atoms(pattern) for a in atom.arguments if isinstance(a, Variable)}
    for p in _patterns(pattern):
        if isinstance(p, Given):
            names |= {n for c in p.conditions for n in condition_variables(c)}
    return names


def _variables(expression: Expression) -> list[Variable]:
    if isinstance(expression, Variable):
        return [expression]
    return [v for a in expression.arguments for v in _variables(a)] if isinstance(expression, Call) else []


def _calls(expression: Expression) -> list[Call]:
    if not isinstance(expression, Call):
        return []
    return [expression, *(c for a in expression.arguments for c in _calls(a))]


def _strangers(rules: Rules) -> list[Warning]:
    """Undeclared events whose names are nearly those of known ones."""
    derived = {rule.event for rule in rules.rules}
    known = {name for name, schema in rules.schemas.items() if schema.declared} | derived
    warnings, seen = [], set()
    for rule in rules.rules:
        for atom in atoms(rule.body):
            if atom.event in known or atom.event in seen:
                continue
            seen.add(atom.event)
            close = get_close_matches(atom.event, sorted(known), 1, 0.75)
            if close:
                warnings.append(
                    Warning(
                        f"`{atom.event}` is neither declared nor derived",
                        rules.source,
                        atom.span,
                        f"did you mean `{close[0]}`? An input event of this name is read without types",
                        "stranger",
                    )
                )
    return warnings


