"""Horizons: how long each goal must remember, and a warning for each that never forgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cep.errors import Source, Warning
from cep.plan.algebra import Aggregation, Deadline, Head, Join, Node, Scan, Select, Tick, Union
from cep.plan.binarise import Binarised
from cep.schema import Schema

SAME_INSTANT = ("EQUALS", "FINISHES")


def points(
    nodes: Sequence[Node], heads: Sequence[Head], schemas: Mapping[str, Schema], inputs: frozenset[str]
) -> tuple[bool, ...]:
    """Which nodes have only instants: declared with TIME, time points, and what comes of one such event alone (M11)."""
    events = {name: schema.point if name in inputs else True for name, schema in schemas.items()}
    made = [True] * len(nodes)
    changed = True
    while changed:
        changed = False
        for number, node in enumerate(nodes):
            match node:
                case Scan():
                    point = events[node.event]
                case Tick():
                    point = True
                case Join("EQUALS", left, right):
                    point = made[left] or made[right]
                case Union(left, right):
                    point = made[left] and made[right]
                case Select(child):
                    point = made[child]
                case Aggregation(child, _, count):
                    point = count == 1 and made[child]
                case Join() | Deadline():
                    point = False
            changed = changed or point != made[number]
            made[number] = point
        for head in heads:
            if events[head.event] and not made[head.child]:
                events[head.event] = False
                changed = True
    return tuple(made)


def horizon(node: Node, nodes: Sequence[Node], points: Sequence[bool]) -> int | str | None:
    """How long a goal remembers: microseconds, `instant`, `superseded` (one an end and key is enough), `window` (a
    number of occurrences a group), None: for ever; also None for nodes without memory."""
    match node:
        case Join():
            if node.relation in SAME_INSTANT or (node.relation == "MEETS" and points[node.right]):
                return "instant"
            if node.within is not None:
                return node.within
            if node.policy == "recent" and node.relation == "SEQ" and points[node.right] and _settled(node):
                return "superseded"
            return None
        case Deadline():
            return node.duration
        case Aggregation():
            return "window" if node.duration is None else node.duration
        case _:
            return None


def _settled(join: Join) -> bool:
    """Whether the absent side has no key that only the left knows: then a newer left side is as good as an older."""
    keys = {left for left, _ in join.key}
    return all(column in keys or column >= join.left_width for _, column in join.absent_key)


def never_forgets(node: Node, nodes: Sequence[Node], points: Sequence[bool]) -> bool:
    """Whether a goal has no horizon."""
    return isinstance(node, Join) and horizon(node, nodes, points) is None


def warnings(binarised: Binarised, points: Sequence[bool], source: Source) -> list[Warning]:
    """A warning for each goal that never forgets, where it is first written."""
    found = []
    for number, node in enumerate(binarised.nodes):
        if not (isinstance(node, Join) and never_forgets(node, binarised.nodes, points)):
            continue
        if node.policy == "recent" and node.relation == "SEQ" and not points[node.right]:
            hint = (
                "`WITHIN` bounds it; or, where the right side is an instant, `event ...(...) TIME column` declares it so, "
                "and the newer supersedes the older"
            )
        else:
            hint = "`(...) WITHIN 1 h` bounds it; so does `POLICY recent` where only the latest counts"
        found.append(
            Warning(
                f"this {node.relation if node.absent is None else 'NOT'} never forgets: what waits, waits for ever",
                source,
                binarised.spans[number],
                hint,
                "unbounded",
            )
        )
    return found
