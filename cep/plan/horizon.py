"""Horizons: the time for which each goal must remember its input. A goal that never forgets causes a warning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cep.core.errors import CepError, Source, Warning
from cep.core.fluents import TIMES_OF, author_name
from cep.core.literals import say_duration
from cep.core.schema import Schema
from cep.plan.algebra import Head
from cep.plan.binarise import Binarised
from cep.plan.names import excerpt
from cep.plan.node import Node

_HOUR = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Horizon:
    """The conditions under which a goal forgets an occurrence. The goal forgets it as soon as one of these conditions
    is true. A condition does not apply if its field is None or False.

    - `lasting`: the number of microseconds since the occurrence's start; for UNLESS and windows, since its end
    - `reach`: the number of microseconds since the occurrence's end
    - `instant`: True to forget the occurrence directly after its instant
    - `superseded`: True to forget it when a newer occurrence with the same key arrives
    - `paired`: True to forget it when it is paired
    - `events`: the number of newer occurrences of the same group after which it is forgotten, however long that
      takes. The state is then bounded by the number of groups and not by time, so `Node.memory` returns None.
    """

    lasting: int | None = None
    instant: bool = False
    superseded: bool = False
    paired: bool = False
    events: int | None = None
    reach: int | None = None

    @property
    def forgets(self) -> bool:
        """True if the goal eventually forgets every occurrence that does not wait for a partner."""
        bounded = self.lasting is not None or self.reach is not None or self.events is not None
        return bounded or self.instant or self.superseded

    def text(self, key: str) -> str:
        """Describe in words when the goal forgets an occurrence. `key`: the variables on which the goal joins."""
        if self.instant:
            return "at once after its instant"
        ways = [f"after {say_duration(ticks)}" for ticks in (self.lasting, self.reach) if ticks is not None]
        if self.superseded:
            ways.append(f"when a newer one{f' of the same {key}' if key else ''} supersedes it")
        if self.paired:
            ways.append("when it is paired")
        if not self.forgets:
            return f"{ways[0]}, else never" if ways else "never"
        return ", or ".join(ways)


def points(
    nodes: Sequence[Node], heads: Sequence[Head], schemas: Mapping[str, Schema], inputs: frozenset[str]
) -> tuple[bool, ...]:
    """Return, for each node, True if all its occurrences are instants.

    Input events are instants if they are declared with TIME. Fixed points in time are instants. The results of a node
    are instants if they are derived from instants only.
    """
    events = {name: schema.point if name in inputs else True for name, schema in schemas.items()}
    instants = [True] * len(nodes)
    changed = True
    while changed:
        changed = False
        for number, node in enumerate(nodes):
            event = node.properties().event
            point = events[event] if event is not None else node.instants([instants[part] for part in node.parts])
            changed = changed or point != instants[number]
            instants[number] = point
        for head in heads:
            if events[head.event] and not instants[head.child]:
                events[head.event] = False
                changed = True
    return tuple(instants)


def horizon(node: Node, points: Sequence[bool]) -> Horizon | None:
    """Return the horizon of a goal. Return None if the goal remembers nothing. `points`: for each node, True if all its
    occurrences are instants."""
    return node.horizon([points[part] for part in node.parts])


def refused(binarised: Binarised, points: Sequence[bool], source: Source) -> list[CepError]:
    """Return an error for each node that needs instants but reads intervals, or needs intervals but reads instants."""
    errors = []
    for number, node in enumerate(binarised.nodes):
        wrong = node.refused([points[part] for part in node.parts])
        if wrong is not None:
            errors.append(CepError(wrong[0], source, binarised.spans[number], wrong[1], "instants"))
    return errors


def warnings(binarised: Binarised, points: Sequence[bool], source: Source) -> list[Warning]:
    """Return a warning for each goal that never forgets its input, and for each goal that can never derive anything."""
    remarks = {}
    for number, node in enumerate(binarised.nodes):
        span = binarised.spans[number]
        if (wrong := _impossible(binarised.nodes, node, points)) is not None:
            remarks[span] = Warning(wrong[0], source, span, wrong[1], "never")
        if (said := node.unbounded()) is not None and span not in remarks:
            remarks[span] = Warning(said[0], source, span, said[1], "unbounded")
        keeps = horizon(node, points)
        if keeps is None or keeps.forgets or span in remarks:
            continue
        properties = node.properties()
        sides = [(node.parts[part], ("left", "right")[part]) for part in properties.waits]
        waiting = " and ".join(_waiting(binarised.nodes, *side) for side in sides)
        until = "until it is paired" if keeps.paired else "for ever"
        pattern = excerpt(source, span) or "..."
        last = event_of(binarised.nodes, node.parts[-1])
        of_instants = node.horizon([True] * len(node.parts))
        windows = [length for part in node.parts if (length := _window(binarised, part)) is not None]
        hint = f"`({pattern}) WITHIN 1 h` bounds it"
        if windows:
            hours = 1 - -sum(windows) // _HOUR
            hint = f"`({pattern}) WITHIN {hours} h` bounds it: it leaves room for both windows and an hour between them"
        if last is not None and not last.startswith(TIMES_OF) and of_instants is not None and of_instants.forgets:
            instant = f"TIME in the declaration of `{last}`, if it is an instant"
            if of_instants.superseded:
                hint = (
                    f"{instant}, keeps only the latest; otherwise `({pattern}) WITHIN 7 d`, if older ones do not count"
                )
            else:
                hint += f"; so does {instant}"
        message = f"this {properties.word} never forgets: {waiting} waits {until}"
        remarks[span] = Warning(message, source, span, hint, "unbounded")
    return list(remarks.values())


def _window(binarised: Binarised, number: int) -> int | None:
    """Return the greatest length in microseconds of the windows that derive the event of a node. Return None if no
    window with a fixed length derives it."""
    event = event_of(binarised.nodes, number)
    lengths = [_length(binarised.nodes, head.child) for head in binarised.heads if head.event == event]
    return max((length for length in lengths if length is not None), default=None)


def _length(nodes: Sequence[Node], number: int) -> int | None:
    node = nodes[number]
    while node.properties().selects:
        node = nodes[node.parts[0]]
    return node.window()


def _impossible(nodes: Sequence[Node], node: Node, points: Sequence[bool]) -> tuple[str, str] | None:
    wrong = node.impossible([points[part] for part in node.parts])
    if wrong is None:
        return None
    part, why, hint = wrong
    name = event_of(nodes, node.parts[part])
    who = f"`{author_name(name)}` is an instant" if name else f"the {('left', 'right')[part]} side is an instant"
    return f"this {node.properties().word} never occurs: {who} and {why}", hint


def _waiting(nodes: Sequence[Node], number: int, side: str) -> str:
    event = event_of(nodes, number)
    if event is None:
        return f"everything on its {side}"
    name = author_name(event)
    return f"every beginning and end of `{name}`" if event.startswith(TIMES_OF) else f"every `{name}`"


def event_of(nodes: Sequence[Node], number: int) -> str | None:
    """Return the event whose occurrences a node returns unchanged. The node may filter them. Return None for any other
    node."""
    node = nodes[number]
    while node.properties().selects:
        node = nodes[node.parts[0]]
    return node.properties().event
