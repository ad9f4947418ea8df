"""Safety of rules. Each variable that a rule uses must have a value. Both sides of an OR must bind the same variables
for the rest of the rule.

`cep.plan.types` finds mistakes that depend on types: conditions for which there is no order of evaluation, and values
that can never be joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cep.core.errors import CepError, Mistakes, Span
from cep.core.suggest import did_you_mean
from cep.plan.algebra import Rule, Rules
from cep.plan.names import excerpt, operands, used_variables
from cep.plan.pattern import Pattern, absent, atoms, conditions, mentioned, parts, patterns, variables
from cep.rules.conditions.binding_order import EVERY, denied
from cep.rules.expressions.functions import TESTS
from cep.rules.graph_text import variables as sparql_variables
from cep.rules.terms import (
    Call,
    Comparison,
    Condition,
    Constant,
    Disjunction,
    Expression,
    PolicyChoice,
    Predicate,
    Variable,
    each_condition,
)


def unsafe(rules: Rules) -> tuple[frozenset[int], list[CepError]]:
    """Return the numbers of the rules that have errors and cannot be planned, and all errors in the rules."""
    statics = frozenset(static.name for static in rules.statics)
    refused: set[int] = set()
    errors = Mistakes()
    for number, rule in enumerate(rules.rules):
        before = len(errors)
        Checker(rules, rule, statics, errors)
        if len(errors) > before:
            refused.add(number)
    return frozenset(refused), [*errors, *_idle_policies(rules)]


class Checker:
    """A check of one rule. It collects the mistakes of the rule."""

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
                self.error("`_` has no value in a head", variable.span, "use a variable of the pattern, or a constant")
            for variable in used_variables([argument]):
                if variable.name not in bound and variable.name not in complained:
                    complained.add(variable.name)
                    self.unbound(variable, self.rule.body, bound, " of the head")
            for call in _calls(argument):
                if call.function in ("start", "end", "duration") and not call.arguments:
                    self.error(
                        f"`{call.function}()` can be used only in a WHERE",
                        call.span,
                        f"bind it there: `... WHERE T = {call.function}()`, and write `T` in the head",
                    )

    # --- patterns ---

    def pattern(self, pattern: Pattern, outside: frozenset[str]) -> None:
        """Check a pattern. `outside`: if the pattern is negated, the variables of the rest of the rule."""
        for part in parts(pattern):
            self.pattern(part, outside)
        for part in absent(pattern):
            self.pattern(part, variables(pattern))
        pattern.check(self, outside)

    # --- what operators ask ---

    @property
    def names(self) -> set[str]:
        return _names(self.rule.body)

    @property
    def written_names(self) -> set[str]:
        return self.written(self.names)

    @property
    def head_variables(self) -> list[Variable]:
        return list(used_variables(self.rule.arguments))

    def writes(self, choice: PolicyChoice) -> bool:
        """Return True if the author wrote a policy in the rule itself, and not in a policy statement before it."""
        return _inside(choice, self.rule)

    def written(self, names: Iterable[str]) -> set[str]:
        """Return those of `names` that the author wrote. Names that are generated for a TIMES are left out."""
        return _written(names)

    def listed(self, names: list[str]) -> str:
        return _listed(names)

    def where(self, pattern: Pattern, conditions: Sequence[Condition], outside: frozenset[str]) -> None:
        """Report each variable in conditions that neither the pattern nor any condition can bind.

        `outside`: if the pattern is negated, the variables of the rest of the rule.
        """
        bound = variables(pattern)
        known = bound | {name for condition in conditions for name in self.bindable(condition)}
        single = list(each_condition(conditions))
        negated = [c for c in single if isinstance(c, Predicate) and self.asks(c, True)]
        some = {name for condition in single for name in self.bindable(condition)}
        inside = {v.name: condition for condition in reversed(negated) for v in used_variables([condition])}
        complained: set[str] = set()
        for variable in used_variables(conditions):
            name = variable.name
            if name in known or name in complained:
                continue
            complained.add(name)
            if name in some:
                self.error(f"`{name}` is not bound by every alternative", variable.span, EVERY.format(name))
            elif name in inside:
                self.error(f"`{name}` is not bound", variable.span, denied(inside[name], name))
            elif name in outside:
                self.error(
                    f"an absent part cannot use `{name}` of the rest of the rule",
                    variable.span,
                    f"use `{name}` as an argument of the absent event, which joins the two",
                )
            else:
                self.unbound(variable, pattern, known, "")

    def bindable(self, condition: Condition) -> list[str]:
        """Return the variables to which a condition might give a value.

        A disjunction might bind its local variables, and the variables that each of its alternatives might bind.
        """
        if isinstance(condition, Disjunction):
            alternatives = [
                {name for inner in inside for name in self.bindable(inner)} for inside in condition.alternatives
            ]
            return sorted(
                set[str].intersection(*alternatives) | set[str]().union(*alternatives).intersection(_local(condition))
            )
        binds = condition.operator == "=" if isinstance(condition, Comparison) else self.asks(condition, False)
        return [side.name for side in operands(condition) if isinstance(side, Variable)] if binds else []

    def asks(self, condition: Condition, negated: bool) -> bool:
        """Return True if a condition looks up a static predicate.

        `negated`: True to accept only conditions that have a `not`, False to accept only conditions without `not`.
        """
        if not isinstance(condition, Predicate) or condition.negated != negated:
            return False
        return condition.name in self.statics or condition.name not in TESTS

    # --- what to say ---

    def unbound(self, variable: Variable, pattern: Pattern, bound: Iterable[str], place: str) -> None:
        """Report a variable that `pattern` does not bind.

        `place`: a phrase for the message that says where the variable is used. It may be empty.
        """
        name = variable.name
        negated = [atom for pattern in patterns(pattern) for part in absent(pattern) for atom in atoms(part)]
        for atom in negated:
            if name in _names(atom):
                written = excerpt(self.rules.source, atom.span) or f"{atom.properties().event}(...)"
                self.error(
                    f"`{name}`{place} has no value: it occurs only in an absent part",
                    variable.span,
                    f"use a variable of an event that occurs; put a condition on it inside: `{written} WHERE ...`",
                )
                return
        for inner in patterns(pattern):
            properties = inner.properties()
            if properties.results and name in variables(properties.parts[0]):
                hint = f"group by it: `... BY {name}`"
                if not place:
                    hint += f", or put the condition before {properties.word}"
                message = (
                    f"`{name}`{place} has no value after {properties.word}, which keeps only its results and the groups"
                )
                self.error(message, variable.span, hint)
                return
        close = self.local(name) or _constant(name, pattern) or did_you_mean(name, sorted(_written(bound)))
        if place:
            hint = close or f"name it in the pattern, or bind it: `WHERE {name} = ...`"
            self.error(f"`{name}`{place} is not bound by the pattern", variable.span, hint)
        else:
            hint = (
                close or f"name it in the pattern, bind it with `{name} = ...`, or by a predicate that lists its values"
            )
            self.error(f"`{name}` is not bound", variable.span, hint)

    def local(self, name: str) -> str | None:
        """Return a hint if a graph pattern of the rule contains the variable `name` in other upper and lower case.
        Otherwise return None."""
        for condition in each_condition(conditions(self.rule.body)):
            if isinstance(condition, Predicate) and condition.graph is not None:
                inside = [v for v in sparql_variables(condition.graph.text) if v.lower() == name.lower()]
                if inside and name not in inside:
                    return f"`?{inside[0]}` is known only in its braces: write `?{name}` there"
        return None


def _idle_policies(rules: Rules) -> list[CepError]:
    """Return an error for each policy statement that ranks by a variable which no rule after the statement has.

    A goal that lacks the variable uses the default policy, so the statement would have no effect.
    """
    idle: dict[PolicyChoice, bool] = {}
    for rule in rules.rules:
        for pattern in patterns(rule.body):
            policy = pattern.properties().policy
            if policy is not None and policy.by is not None and not _inside(policy, rule):
                idle[policy] = idle.get(policy, True) and policy.by not in _names(rule.body)
    return [
        CepError(
            f"the policy chooses by `{choice.by}`, which no rule after it has",
            rules.source,
            choice.span,
            "use a variable of the events it chooses from",
            "unsafe",
        )
        for choice, wanted in idle.items()
        if wanted and (excerpt(rules.source, choice.span) or "").startswith(choice.name)
    ]


def _local(condition: Disjunction) -> set[str]:
    deeper = (
        condition
        for conditions in condition.alternatives
        for condition in conditions
        if isinstance(condition, Disjunction)
    )
    return set(condition.local).union(*map(_local, deeper))


def _inside(choice: PolicyChoice, rule: Rule) -> bool:
    begin, end = (rule.span.line, rule.span.column), (rule.span.end_line, rule.span.end_column)
    return begin <= (choice.span.line, choice.span.column) < end


def _written(names: Iterable[str]) -> set[str]:
    return {name for name in names if "'" not in name}


def _constant(name: str, pattern: Pattern) -> str | None:
    for atom in atoms(pattern):
        for argument in atom.properties().arguments:
            if isinstance(argument, Constant) and argument.type == "string":
                text = str(argument.value)
                if text != name and text[:1].upper() + text[1:] == name:
                    return f"`{text}` is a constant; a variable begins with a capital: `{name}`"
    return None


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
