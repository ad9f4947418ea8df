"""Warn about conditions that have no effect: an equation that only gives a value to a variable which is not used
elsewhere, or a graph pattern that contains no variable of the rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from cep.core.errors import Source, Warning
from cep.core.suggest import nearest
from cep.plan.algebra import Rules
from cep.plan.names import excerpt, used_variables
from cep.plan.pattern import mentioned, patterns, policies
from cep.rules.graph_text import variables as sparql_variables
from cep.rules.terms import Comparison, Condition, Constant, Expression, Predicate, Variable, each_condition


def unused(rules: Rules) -> list[Warning]:
    """Return warnings about the conditions of event rules and static rules that have no effect."""
    remarks: list[Warning] = []
    for rule in rules.rules:
        times = Counter(
            used_variable.name for used_variable in (*used_variables(rule.arguments), *mentioned(rule.body))
        )
        times.update(policy.by for policy in policies(rule.body) if policy.by)
        for pattern in patterns(rule.body):
            remarks += _unused(pattern.properties().conditions, times, rules.source)
    for static in rules.statics:
        times = Counter(used_variable.name for used_variable in used_variables((*static.arguments, *static.conditions)))
        remarks += _unused(static.conditions, times, rules.source)
    return remarks


def _unused(conditions: Sequence[Condition], times: Counter[str], source: Source) -> Iterator[Warning]:
    for condition in each_condition(conditions):
        if isinstance(condition, Comparison):
            if condition.operator == "=":
                yield from _given(condition, times, source)
        elif condition.graph is not None:
            yield from _apart(condition, times, source)


def _given(condition: Comparison, times: Counter[str], source: Source) -> Iterator[Warning]:
    for side, other in ((condition.left, condition.right), (condition.right, condition.left)):
        if not isinstance(side, Variable) or side.name.startswith("_") or times[side.name] != 1:
            continue
        written = excerpt(source, condition.span) or f"{side.name} = ..."
        message = f"`{side.name}` is used nowhere else, so `{written}` decides nothing"
        yield Warning(message, source, side.span, _meant(side.name, other, times), "idle")


def _meant(name: str, other: Expression, times: Counter[str]) -> str:
    if isinstance(other, Variable):
        near = nearest(name, [known for known in times if known not in (name, other.name)])
        return f'a text stands in quotes: `"{name}"`' + (f"; or did you mean `{near}`?" if near else "")
    if isinstance(other, Constant):
        return f"`{name}` is a new variable here; it is used in the head or in another condition, or left out"
    return f"use `{name}` in the head or in another condition, or leave it out"


def _apart(condition: Predicate, times: Counter[str], source: Source) -> Iterator[Warning]:
    """Warn about a graph pattern that uses no variable of the rule, or that writes a variable of the rule in other
    upper and lower case."""
    assert condition.graph is not None, "it stands in braces"
    inside = sparql_variables(condition.graph.text)
    shared = {name for name in inside if times[name] > 1}
    others = [name for name in times if name not in inside and "'" not in name]
    slips = [(local, meant) for local in inside if (meant := _capital(local, others, shared))]
    for local, meant in slips:
        message = f"`?{local}` is known only in these braces: it is not the rule's `{meant}`"
        hint = f"write `?{meant}` if it is the same"
        yield Warning(message, source, condition.span, hint, "apart")
    if slips or shared or not inside:
        return
    near = {local: meant for local in inside if len(local) > 2 and (meant := nearest(local, others))}
    hint = "a variable of the rule is written with an upper-case letter: `?Fridge` is the rule's `Fridge`"
    for local, meant in list(near.items())[:1]:
        hint = f"write `?{meant}` if `?{local}` is the same as `{meant}` of the rule"
    message = "these braces have no variable of the rule, so their result is the same for every event"
    yield Warning(message, source, condition.span, hint, "apart")


def _capital(local: str, others: Collection[str], shared: Collection[str]) -> str | None:
    """Return the rule's variable that differs from `local` only in upper and lower case. None if there is none."""
    if local in shared:
        return None
    return next((name for name in others if name.lower() == local.lower() and name != local), None)
