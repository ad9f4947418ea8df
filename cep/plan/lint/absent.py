"""Warn about a variable that occurs in a negated pattern and elsewhere in the rule, although the two occurrences are
not joined.

A negated pattern is joined only on the variables of the operator to which it belongs
(docs/decisions/2026-11-22-absent-variables.md).
"""

from __future__ import annotations

from collections.abc import Iterator

from cep.core.errors import Source, Warning
from cep.plan.algebra import Rule, Rules
from cep.plan.names import excerpt, used_variables
from cep.plan.pattern import Pattern, absent, mentioned, parts, patterns, variables
from cep.rules.terms import Variable


def unjoined(rules: Rules) -> list[Warning]:
    """Return a warning for each variable in a negated pattern that seems to be joined with the rest of the rule, but is
    not. The warning points to the variable's first use in the negated pattern."""
    remarks: list[Warning] = []
    for rule in rules.rules:
        if any(absent(pattern) for pattern in patterns(rule.body)):
            remarks += _WatchedRule(rule, rules.source).warnings()
    return remarks


class _WatchedRule:
    def __init__(self, rule: Rule, source: Source) -> None:
        self.rule = rule
        self.source = source
        self.seen: set[str] = set()

    def warnings(self) -> list[Warning]:
        heads = frozenset(variable.name for variable in used_variables(self.rule.arguments))
        return list(self.inside(self.rule.body, heads))

    def inside(self, pattern: Pattern, outside: frozenset[str]) -> Iterator[Warning]:
        """Yield the warnings about a pattern. `outside`: the variables of positive patterns in the rest of the rule."""
        here = outside | {variable.name for variable in pattern.properties().mentions}
        occurring = [_occurring(part) for part in parts(pattern)]
        for number, part in enumerate(parts(pattern)):
            yield from self.inside(part, here.union(*occurring[:number], *occurring[number + 1 :]))
        whole = here.union(*occurring)
        for part in absent(pattern):
            for variable in mentioned(part):
                if variable.name in whole - variables(pattern) - self.seen:
                    self.seen.add(variable.name)
                    yield self.warning(variable, pattern)
            yield from self.inside(part, whole)

    def warning(self, variable: Variable, pattern: Pattern) -> Warning:
        """Return a warning that a variable of a negated pattern is a new variable, although the rule has another one of
        this name."""
        beside = [text for part in parts(pattern) if (text := excerpt(self.source, part.span))]
        binding = " and ".join(f"`{text}`" for text in beside) or "stands beside it"
        binding += " bind" if len(beside) > 1 else " binds" if beside else ""
        name = variable.name
        message = f"this is not the `{name}` of the rest of the rule: the absent part joins only with what {binding}"
        hint = f"use `_` or another name if any value will do; for the same value, bind `{name}` there, too"
        return Warning(message, self.source, variable.span, hint, "absent")


def _occurring(pattern: Pattern) -> frozenset[str]:
    own = frozenset(variable.name for variable in pattern.properties().mentions)
    return own.union(*(_occurring(part) for part in parts(pattern)))
