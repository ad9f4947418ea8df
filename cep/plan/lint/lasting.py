"""Warn about NOT and UNLESS whose negated event has intervals.

NOT and UNLESS exclude a match only if the negated occurrence lies entirely inside the tested time. An occurrence that
began earlier and only continues during this time is ignored, which an author may not expect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cep.core.errors import Source, Span, Warning
from cep.core.fluents import author_name
from cep.core.schema import Schema
from cep.plan.algebra import Head
from cep.plan.binarise import Binarised
from cep.plan.horizon import event_of
from cep.plan.node import Lasting, Meeting, Node

INSTANT, MADE, GIVEN = range(3)
"""Kinds of occurrences.

- INSTANT: instants. It also stands for an unknown kind.
- MADE: intervals that are matches of several events.
- GIVEN: intervals of an input that is declared with START and END.
"""


def lasting(
    binarised: Binarised, schemas: Mapping[str, Schema], inputs: frozenset[str], source: Source
) -> list[Warning]:
    """Return a warning for each NOT whose negated pattern has intervals, and for each UNLESS whose negated event is an
    input that has intervals."""
    kinds = _kinds(binarised.nodes, binarised.heads, schemas, inputs)
    remarks: dict[Span, Warning] = {}
    for number, node in enumerate(binarised.nodes):
        properties = node.properties()
        if properties.negated is None:
            continue
        absent = node.parts[properties.negated]
        if properties.meeting is Meeting.PAIRS and kinds[absent] != INSTANT:
            means = "lies wholly between the two"
        elif properties.meeting is Meeting.AGAINST and kinds[absent] == GIVEN:
            means = "ends before the deadline"
        else:
            continue
        event = event_of(binarised.nodes, absent)
        name = "one" if event is None else f"a `{author_name(event)}`"
        message = f"this {properties.word} does not see {name} that is going on, only one that {means}"
        span = binarised.spans[number]
        remarks.setdefault(span, Warning(message, source, span, node.going_on(), "lasting"))
    return list(remarks.values())


def _kinds(
    nodes: Sequence[Node], heads: Sequence[Head], schemas: Mapping[str, Schema], inputs: frozenset[str]
) -> list[int]:
    """Return the kind of each node's occurrences. All nodes start as INSTANT. The kinds are then updated from the rules
    and declarations until nothing changes."""
    events = {
        name: GIVEN if name in inputs and schema.start is not None else INSTANT for name, schema in schemas.items()
    }
    kinds = [INSTANT] * len(nodes)
    changed = True
    while changed:
        changed = False
        for number, node in enumerate(nodes):
            kind = _kind(node, kinds, events)
            changed = changed or kind != kinds[number]
            kinds[number] = kind
        for head in heads:
            if kinds[head.child] > events[head.event]:
                events[head.event] = kinds[head.child]
                changed = True
    return kinds


def _kind(node: Node, kinds: Sequence[int], events: Mapping[str, int]) -> int:
    properties = node.properties()
    if properties.event is not None:
        return events[properties.event]
    below = [kinds[node.parts[part]] for part in properties.completes]
    if properties.within == 0:
        return INSTANT
    match properties.lasting:
        case Lasting.MORE:
            return MADE
        case Lasting.AS_SHORTEST:
            return min(kinds[part] for part in node.parts)
        case Lasting.TOUCHING:
            return MADE if any(kinds[part] for part in node.parts[:2]) else INSTANT
        case Lasting.AS_LONGEST:
            return max(below, default=INSTANT)
