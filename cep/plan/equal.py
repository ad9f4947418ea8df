"""Equal records are as many events: where they are told apart by their numbers, and where one of them is enough.

An input occurrence has a number among those equal to it. A rule over one event and OR pass it on; what any other
operator gives has the first number, so that it is a set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cep.core.schema import Schema
from cep.plan.alerts import alert_tables
from cep.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class EqualRecords:
    """`several`: the events of which equal occurrences may be there, `numbered`: those of them whose numbers somebody
    asks for; `passing`: the heads (by number) that pass numbers on; `once`: the nodes (by number) to which one of equal
    occurrences is enough, with which of their parts may have several."""

    several: frozenset[str]
    numbered: frozenset[str]
    passing: frozenset[int]
    once: Mapping[int, tuple[bool, ...]]


def is_set(schema: Schema) -> bool:
    """Return True if equal occurrences of an event or fluent are one by its declaration."""
    return schema.distinct or schema.key is not None or schema.fluent is not None


def equal_records(plan: Plan) -> EqualRecords:
    """Find where a plan tells equal records apart. It is found once for a plan."""
    if not plan.equal:
        plan.equal.append(_equal_records(plan))
    found: EqualRecords = plan.equal[0]
    return found


def _equal_records(plan: Plan) -> EqualRecords:
    nodes, tables = plan.nodes, alert_tables(plan.rules)
    sets = {name for name, schema in plan.schemas.items() if name in tables or is_set(schema)}
    keeping: list[frozenset[str]] = []
    for node in nodes:
        about = node.properties()
        if about.event is not None and not node.parts:
            keeping.append(frozenset([about.event]) - sets)
        else:
            keeping.append(frozenset().union(*(keeping[node.parts[part]] for part in about.keeps_equal)))
    heads = {number: head for number, head in enumerate(plan.heads) if head.event not in sets}
    several = set(plan.inputs - sets if plan.several is None else plan.several)
    passing: set[int] = set()
    while more := {number for number, head in heads.items() if keeping[head.child] & several} - passing:
        passing |= more
        several |= {heads[number].event for number in more}
    once = {n: tuple(bool(keeping[part] & several) for part in nodes[n].parts) for n in _once(plan)}
    asked = {head.event for head in plan.heads}
    asked = asked.union(*(keeping[plan.heads[number].child] for number in passing))
    asked = asked.union(*(keeping[part] for number in once for part in nodes[number].parts))
    return EqualRecords(frozenset(several), frozenset(several & asked), frozenset(passing), once)


def _once(plan: Plan) -> set[int]:
    """The nodes that give the same set whether equal occurrences come once or more, where nobody counts what they give.
    What heads make of it is made a set."""
    counted: set[int] = set()
    for number in reversed(range(len(plan.nodes))):
        about = plan.nodes[number].properties()
        for place, part in enumerate(plan.nodes[number].parts):
            if place != about.negated and (number in counted or place not in about.uncounted):
                counted.add(part)
    facts = [node.properties() for node in plan.nodes]
    return {n for n, about in enumerate(facts) if about.uncounted and not about.keeps_equal and n not in counted}
