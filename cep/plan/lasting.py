"""Absence of what lasts: `NOT` and `UNLESS` ask for an X that lies inside a time, not for none that goes on then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cep.core.errors import Source, Span, Warning
from cep.core.schema import Schema
from cep.plan.algebra import Aggregation, Deadline, Head, Join, Node, Scan, Select, Tick, Union
from cep.plan.binarise import Binarised
from cep.plan.lint.unsatisfiable import event_of

INSTANT, MADE, GIVEN = range(3)
"""What is known of occurrences: nothing or that they are instants; that they are made of several, one after the other;
that they are of an input declared with START and END."""
HINT = (
    "where none may be going on: `p UNLESS (p PAR x) WITHIN q`, of an instant DURING; docs/language.md has it under NOT"
)


def lasting(
    binarised: Binarised, schemas: Mapping[str, Schema], inputs: frozenset[str], source: Source
) -> list[Warning]:
    """A warning for each NOT of what has intervals, and each UNLESS of an input that has."""
    kinds = _kinds(binarised.nodes, binarised.heads, schemas, inputs)
    found: dict[Span, Warning] = {}
    for number, node in enumerate(binarised.nodes):
        if isinstance(node, Join) and node.absent is not None and kinds[node.absent] != INSTANT:
            what, means = "NOT", "lies wholly between the two"
        elif isinstance(node, Deadline) and kinds[node.absent] == GIVEN:
            what, means = "UNLESS", "ends before the deadline"
        else:
            continue
        assert node.absent is not None, "there is what is to be absent"
        event = event_of(binarised.nodes, node.absent)
        name = "one" if event is None else f"a `{event}`"
        message = f"this {what} does not see {name} that is going on, only one that {means}"
        span = binarised.spans[number]
        found.setdefault(span, Warning(message, source, span, HINT, "lasting"))
    return list(found.values())


def _kinds(
    nodes: Sequence[Node], heads: Sequence[Head], schemas: Mapping[str, Schema], inputs: frozenset[str]
) -> list[int]:
    """Which nodes surely have intervals: the least that rules and declarations say."""
    events = {
        name: GIVEN if name in inputs and schema.start is not None else INSTANT for name, schema in schemas.items()
    }
    made = [INSTANT] * len(nodes)
    changed = True
    while changed:
        changed = False
        for number, node in enumerate(nodes):
            kind = _kind(node, made, events)
            changed = changed or kind != made[number]
            made[number] = kind
        for head in heads:
            if made[head.child] > events[head.event]:
                events[head.event] = made[head.child]
                changed = True
    return made


def _kind(node: Node, made: Sequence[int], events: Mapping[str, int]) -> int:
    match node:
        case Scan():
            return events[node.event]
        case Tick():
            return INSTANT
        case Select(child):
            return INSTANT if node.within == 0 else made[child]
        case Union(left, right):
            return max(made[left], made[right])
        case Aggregation(child, _, count):
            return made[child] if count == 1 else MADE
        case Deadline():
            return MADE if node.duration else made[node.left]
        case Join("EQUALS", left, right):
            return min(made[left], made[right])
        case Join("MEETS", left, right):
            return MADE if max(made[left], made[right]) and node.within != 0 else INSTANT
        case Join():
            return INSTANT if node.within == 0 else MADE
