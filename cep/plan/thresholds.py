"""The thresholds of a program, for charts of attribute values. A threshold is a constant with which a rule compares an
attribute.

The rule `warm(S, T) <- reading(S, T) WHERE T > 30` has the threshold 30 for the second attribute of `reading`. If
another rule copies the attribute from a further event, the threshold also applies to the attribute of that event.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cep.plan.algebra import Rule, Rules
from cep.plan.pattern import Pattern, patterns
from cep.rules.expressions.typed import MIRRORED
from cep.rules.terms import AggregateResult, Call, Comparison, Condition, Constant, Disjunction, Expression, Variable

NUMBERS = ("int", "float")
ALIKE = ("avg", "min", "max", "median", "percentile", "first", "last", "ewma")
"""Aggregate functions whose results have the same order of magnitude as their input values."""

Place = tuple[str, str]
"""The name of an event, and the name of one of its attributes."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A constant with which a rule compares an attribute of an event.

    - `aggregate`: the aggregate function whose result the rule compares, or "" if it compares the value itself.
    - `line`: the line of the rule.
    - `leads`: the events and the tables of alerts that depend on the rule.
    """

    event: str
    attribute: str
    operator: str
    value: int | float
    aggregate: str
    line: int
    leads: tuple[str, ...]


def thresholds(rules: Rules) -> list[Threshold]:
    """Return the thresholds of all rules, in program order."""
    copied: dict[Place, list[Place]] = defaultdict(list)
    uses: dict[str, set[str]] = defaultdict(set)
    direct: list[tuple[Place, Comparison, int | float, str, Rule]] = []
    for rule in rules.rules:
        parts = patterns(rule.body)
        bound = _bound(parts, rules)
        results = {result.variable: result for part in parts for result in part.properties().results}
        for event in {part.properties().event for part in parts} - {None}:
            uses[str(event)].add(rule.event)
        schema = rules.schemas.get(rule.event)
        for argument, attribute in zip(rule.arguments, schema.attributes if schema else (), strict=False):
            if isinstance(argument, Variable):
                copied[rule.event, attribute.name] += bound.get(argument.name, [])
        for comparison in _comparisons([condition for part in parts for condition in part.properties().conditions]):
            name, value = comparison.left, _number(comparison.right)
            if not isinstance(name, Variable) or value is None:
                continue
            places, aggregate = _of(name.name, bound, results)
            direct += [(place, comparison, value, aggregate, rule) for place in places]
    limits: dict[Threshold, None] = {}
    for place, comparison, value, aggregate, rule in direct:
        leads = _leads(rule.event, uses)
        for event, attribute_name in _sources(place, copied):
            limits[Threshold(event, attribute_name, comparison.operator, value, aggregate, rule.span.line, leads)] = (
                None
            )
    return list(limits)


def _bound(parts: Sequence[Pattern], rules: Rules) -> dict[str, list[Place]]:
    places: dict[str, list[Place]] = defaultdict(list)
    for part in parts:
        known = part.properties()
        schema = rules.schemas.get(known.event or "")
        for argument, attribute in zip(known.arguments, schema.attributes if schema else (), strict=False):
            if isinstance(argument, Variable) and attribute.type in (*NUMBERS, "any"):
                places[argument.name].append((known.event or "", attribute.name))
    return places


def _of(name: str, bound: Mapping[str, list[Place]], results: Mapping[str, AggregateResult]) -> tuple[list[Place], str]:
    result = results.get(name)
    if result is None:
        return bound.get(name, []), ""
    if result.function not in ALIKE or not isinstance(result.argument, Variable):
        return [], ""
    return bound.get(result.argument.name, []), result.function


def _comparisons(conditions: Sequence[Condition]) -> Iterator[Comparison]:
    for condition in conditions:
        if isinstance(condition, Disjunction):
            for alternative in condition.alternatives:
                yield from _comparisons(alternative)
        elif isinstance(condition, Comparison) and condition.operator != "!=":
            if _number(condition.left) is None:
                yield condition
            else:
                yield Comparison(MIRRORED[condition.operator], condition.right, condition.left, condition.span)


def _number(term: Expression) -> int | float | None:
    match term:
        case Constant(int() | float() as value, type) if type in NUMBERS:
            return value
        case Call("neg", (inner,)):
            negated = _number(inner)
            return None if negated is None else -negated
    return None


def _leads(event: str, uses: Mapping[str, set[str]]) -> tuple[str, ...]:
    reached, due = {event}, [event]
    while due:
        new = uses.get(due.pop(), set()) - reached
        reached |= new
        due += new
    return tuple(sorted(reached))


def _sources(place: Place, copied: Mapping[Place, list[Place]]) -> list[Place]:
    places = [place]
    for origin in places:
        places += [other for other in dict.fromkeys(copied.get(origin, ())) if other not in places]
    return places
