"""Horizons: what each goal must remember, when it forgets it, and a warning for each that never does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cep.core.errors import Source, Warning
from cep.core.schema import Schema
from cep.plan.algebra import Aggregation, Deadline, Head, Join, Node, Scan, Select, Tick, Union
from cep.plan.binarise import Binarised
from cep.plan.lint.unsatisfiable import event_of, overlaps
from cep.plan.names import excerpt

WAITS_LEFT = ("SEQ", "DURING", "STARTS")  # the right side always completes: only the left one waits
SAME_INSTANT = ("EQUALS", "FINISHES")


@dataclass(frozen=True, slots=True)
class Horizon:
    """When a goal forgets an occurrence: `lasting` microseconds after its start (of an UNLESS or a window: its end), at
    once after its own `instant`, when a newer one under the same key has `superseded` it, when it is `paired`, or when
    `events` newer ones of its group have come. None and False where that does not make it forget.
    """

    lasting: int | None = None
    instant: bool = False
    superseded: bool = False
    paired: bool = False
    events: int | None = None

    @property
    def forgets(self) -> bool:
        """Whether everything is forgotten in the end. (What waits to be paired may wait for ever.)"""
        return self.lasting is not None or self.instant or self.superseded or self.events is not None


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


def horizon(node: Node, points: Sequence[bool]) -> Horizon | None:
    """The horizon of a goal; None where it remembers nothing. `points`: which nodes have only instants."""
    match node:
        case Join():
            point = points[node.right]
            return Horizon(
                node.within,
                node.relation in SAME_INSTANT or (node.relation == "MEETS" and point),
                node.policy == "recent" and node.relation == "SEQ" and point and _settled(node),
                node.policy == "chronological",
            )
        case Deadline():
            return Horizon(node.duration)
        case Aggregation():
            return Horizon(node.duration, events=node.events)
        case _:
            return None


def _settled(join: Join) -> bool:
    """Whether the absent side has no key that only the left knows: then a newer left side is as good as an older."""
    keys = {left for left, _ in join.key}
    return all(column in keys or column >= join.left_width for _, column in join.absent_key)


def warnings(binarised: Binarised, points: Sequence[bool], source: Source) -> list[Warning]:
    """A warning for each goal that never forgets, where it is first written, and each that never has anything."""
    idle = overlaps(binarised, points, source)
    found = {binarised.spans[number]: warning for number, warning in idle.items()}
    for number, node in enumerate(binarised.nodes):
        keeps = horizon(node, points)
        span = binarised.spans[number]
        if not isinstance(node, Join) or keeps is None or keeps.forgets or span in found:
            continue
        what = "NOT" if node.absent is not None else node.relation
        sides = [(node.left, "left")] if node.relation in WAITS_LEFT else [(node.left, "left"), (node.right, "right")]
        waiting = " and ".join(_waiting(binarised.nodes, *side) for side in sides)
        until = "until it is paired" if keeps.paired else "for ever"
        pattern = excerpt(source, span)
        hint = f"`({pattern}) WITHIN 1 h` bounds it" if pattern else "`(...) WITHIN 1 h` bounds it"
        last = event_of(binarised.nodes, node.right)
        if node.policy == "recent" and node.relation == "SEQ" and last is not None and _settled(node):
            hint += f"; so does TIME in the declaration of `{last}`, if it is an instant: then only the latest counts"
        message = f"this {what} never forgets: {waiting} waits {until}"
        found[span] = Warning(message, source, span, hint, "unbounded")
    return list(found.values())


def _waiting(nodes: Sequence[Node], number: int, side: str) -> str:
    """What waits on a side, by name where it is an event."""
    event = event_of(nodes, number)
    return f"everything on its {side}" if event is None else f"every `{event}`"
