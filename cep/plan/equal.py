"""Find where a plan must count equal records, and where it only needs one of several equal records.

Equal input occurrences are numbered. A rule over one event passes these numbers on to its results, and so does an OR.
All other operators give each result the first number, so equal results are merged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cep.core.schema import Schema
from cep.plan.alerts import alert_tables
from cep.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class EqualRecords:
    """The treatment of equal records in a plan.

    - `several`: the events that may have equal occurrences.
    - `numbered`: the events in `several` for which a rule uses the numbers of equal occurrences.
    - `passing`: the indices of heads that pass these numbers on to their results.
    - `once`: the nodes that need only one of several equal occurrences. For each node, a flag per part, which is
      True if the part may have equal occurrences.
    """

    several: frozenset[str]
    numbered: frozenset[str]
    passing: frozenset[int]
    once: Mapping[int, tuple[bool, ...]]


def is_set(schema: Schema) -> bool:
    """Return True if an event or fluent is declared in such a way that equal occurrences are merged."""
    return schema.distinct or schema.key is not None or schema.fluent is not None


def equal_records(plan: Plan) -> EqualRecords:
    """Find where a plan must distinguish equal records. The result is cached in the plan."""
    if not plan.equal:
        plan.equal.append(_equal_records(plan))
    records: EqualRecords = plan.equal[0]
    return records


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
    """Return the nodes that may merge equal occurrences of their parts.

    This changes only how often each result of a node occurs, not which results occur. So it is allowed if no other node
    counts these results. Rule heads never count them, because they merge equal results.
    """
    counted: set[int] = set()
    for number in reversed(range(len(plan.nodes))):
        about = plan.nodes[number].properties()
        for place, part in enumerate(plan.nodes[number].parts):
            if place != about.negated and (number in counted or place not in about.uncounted):
                counted.add(part)
    facts = [node.properties() for node in plan.nodes]
    return {n for n, about in enumerate(facts) if about.uncounted and not about.keeps_equal and n not in counted}
