"""The reference interpreter's nodes, which list the occurrences of each pattern by brute force.

A node works instant by instant; an instant is everything that ends at the same time. `past`: occurrences of earlier
instants. `now`: those of this instant, in order of arrival. `fresh`: those of this round.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from cep.core.value_hashes import hash_words, orders
from cep.events import Event
from tests import reference_tree as p
from tests.reference_values import Env, equal, evaluate, key, kind, variables

if TYPE_CHECKING:
    from tests.reference import Run

RELATIONS = {
    "seq": lambda a, b, c, d: b < c,
    "and": lambda a, b, c, d: True,
    "par": lambda a, b, c, d: max(a, c) < min(b, d),
    "equals": lambda a, b, c, d: a == c and b == d,
    "meets": lambda a, b, c, d: b == c,
    "overlaps": lambda a, b, c, d: a < c < b < d,
    "during": lambda a, b, c, d: c < a and b < d,
    "starts": lambda a, b, c, d: a == c and b < d,
    "finishes": lambda a, b, c, d: b == d and c < a,
}
LEFT_IS_EARLIER = ("seq", "overlaps", "during", "starts")  # the left side ends before the right one does


@dataclass
class Occurrence:
    """`values` are the pattern's variables; for an event the arguments under their positions. `number`: of equal
    records each has its own, which events and OR pass on."""

    start: int
    end: int
    order: int
    values: Any
    number: int = 1

    def arrival(self) -> tuple[int, int]:
        """Within an instant; what is still equal stays as it was made."""
        return (self.start, self.order)


class Node:
    """What has occurrences; `keep` is what WITHIN and WHERE leave of them."""

    def __init__(self, run: Run, parts: list[Node], delayed: tuple[bool, ...], filters: list[Any], within: int | None):
        self.run, self.parts, self.filters, self.within = run, parts, filters, within
        # A part that only matters once its instant is over closes no cycle within an instant.
        self.delayed = delayed
        self.past: list[Occurrence] = []
        self.now: list[Occurrence] = []
        self.fresh: list[Occurrence] = []
        self.component: list[Node] = [self]

    def news(self, index: int, first: bool) -> list[Occurrence]:
        """What a part has for this round: all its instant in the first, unless it runs in the same rounds."""
        part = self.parts[index]
        if part.component is self.component and len(self.component) > 1:
            return part.fresh
        return part.now if first else []

    def keep(self, occurrence: Occurrence) -> bool:
        span = (occurrence.start, occurrence.end)
        if self.within is not None and span[1] - span[0] > self.within:
            return False
        return all(self.run.knowledge.solve(component, occurrence.values, span) for component in self.filters)

    def close_instant(self) -> None:
        self.past.extend(self.now)


class PatternNode(Node, ABC):
    """A pattern: `step` gives what it has new, from what its parts have new."""

    def columns(self) -> list[str]:
        """The variables that the pattern binds, in the order in which it binds them."""
        return list(dict.fromkeys(name for part in self.parts[:2] for name in part.columns()))

    def completing(self) -> list[Node]:
        """The parts that may complete the pattern."""
        return self.parts

    def events(self) -> set[str]:
        """The events that may complete the pattern."""
        return set().union(*(part.events() for part in self.completing()))

    def order(self, values: Env, columns: list[str]) -> int:
        """The order of a result that time completes, from the values that tell it from others."""
        return int(orders([words(values[name]) for name in columns], self.events(), 1)[0])

    def advance(self, time: int, first: bool) -> None:
        self.fresh = sorted((o for o in self.step(time, first) if self.keep(o)), key=Occurrence.arrival)
        self.now.extend(self.fresh)

    @abstractmethod
    def step(self, time: int, first: bool) -> list[Occurrence]:
        """What the node has new in a round of an instant; in the `first` it has all of its parts' instant."""


def words(value: Any) -> Any:
    """The hash of a value, as an array of one number."""
    return hash_words(pl.Series([value.n if isinstance(value, p.Ticks) else value], dtype=pl.Object), "any")


class EventNode(Node):
    """An event's name: a set of (arguments, interval, number), of input events and of what rules give."""

    def __init__(self, run: Run, name: str) -> None:
        super().__init__(run, [], (), [], None)
        self.name = name
        self.heads: list[tuple[Any, ...]] = []
        self.seen: set[tuple[Any, ...]] = set()
        self.derived: list[Event] = []

    def events(self) -> set[str]:
        return {self.name}

    def admit(self, time: int, arriving: list[tuple[Occurrence, bool]]) -> None:
        self.fresh = []
        for occurrence, derived in sorted(arriving, key=lambda pair: pair[0].arrival()):
            if self.name in self.run.distinct:
                occurrence = replace(occurrence, number=1)
            values = tuple(key(value) for value in occurrence.values)
            identity = (occurrence.start, occurrence.end, values, occurrence.number)
            if identity not in self.seen:
                self.seen.add(identity)
                self.fresh.append(occurrence)
                if derived:
                    args = tuple(value.n if isinstance(value, p.Ticks) else value for value in occurrence.values)
                    self.derived.append(Event(self.name, args, occurrence.start, occurrence.end))
        self.now.extend(self.fresh)

    def inputs(self, time: int) -> list[tuple[Occurrence, bool]]:
        return [(occurrence, False) for occurrence in self.run.inputs.get((self.name, time), [])]

    def results(self, first: bool) -> list[tuple[Occurrence, bool]]:
        found = []
        for index, head in enumerate(self.heads):
            for o in self.news(index, first):
                values = tuple(evaluate(argument, o.values, (o.start, o.end)) for argument in head)
                found.append((replace(o, values=values), True))
        return found


class AtomNode(PatternNode):
    def __init__(self, run: Run, event: Node, arguments: tuple[Any, ...], filters: list[Any], within: int | None):
        super().__init__(run, [event], (False,), filters, within)
        self.arguments = arguments

    def columns(self) -> list[str]:
        return [name for name in dict.fromkeys(variables(self.arguments)) if not name.startswith("_#")]

    def step(self, time: int, first: bool) -> list[Occurrence]:
        found = []
        for event in self.news(0, first):
            values: Env = {}
            for argument, value in zip(self.arguments, event.values):
                if isinstance(argument, p.Const):
                    if not equal(argument.value, value):
                        break
                elif argument.name in values and not equal(values[argument.name], value):
                    break
                elif not argument.name.startswith("_#"):
                    values[argument.name] = value
            else:
                found.append(replace(event, values=values))
        return found


class PointNode(PatternNode):
    def __init__(self, run: Run, ticks: int, filters: list[Any], within: int | None) -> None:
        super().__init__(run, [], (), filters, within)
        self.ticks = ticks

    def step(self, time: int, first: bool) -> list[Occurrence]:
        return [Occurrence(time, time, -1, {})] if time == self.ticks else []


class OrNode(PatternNode):
    def columns(self) -> list[str]:
        left, right = (part.columns() for part in self.parts)
        return [name for name in left if name in right]

    def step(self, time: int, first: bool) -> list[Occurrence]:
        return self.news(0, first) + self.news(1, first)


class PairNode(PatternNode):
    """A goal: two sides with memory, a relation, a policy, and for NOT what must be absent (the third part)."""

    def __init__(
        self,
        run: Run,
        operator: str,
        parts: list[Node],
        shared: list[set[str]],
        policy: p.Choice,
        filters: list[Any],
        within: int | None,
        gap: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(run, parts, (operator in LEFT_IS_EARLIER, False, True)[: len(parts)], filters, within)
        self.relation = RELATIONS[operator]
        if gap is not None:
            self.relation = lambda a, b, c, d: b < c and gap[0] <= c - b <= gap[1]
        self.key, self.absent_key = shared
        self.policy = policy
        self.memory: tuple[list[Occurrence], list[Occurrence]] = ([], [])
        self.consumed: list[Occurrence] = []

    def completing(self) -> list[Node]:
        return self.parts[1 if self.delayed[0] else 0 : 2]

    def advance(self, time: int, first: bool) -> None:
        self.fresh = sorted(self.step(time, first), key=Occurrence.arrival)
        self.now.extend(self.fresh)

    def step(self, time: int, first: bool) -> list[Occurrence]:
        arriving = [(o, side) for side in (0, 1) if not self.delayed[side] for o in self.news(side, first)]
        found = []
        for occurrence, side in sorted(arriving, key=lambda pair: pair[0].arrival()):
            partners = []
            for other in self.memory[1 - side]:
                pair = self.pair(*((occurrence, other) if side == 0 else (other, occurrence)), order=occurrence.order)
                if pair is not None:
                    partners.append((other, pair))
            found.extend(self.choose(occurrence, partners))
            self.memory[side].append(occurrence)
        return found

    def close_instant(self) -> None:
        super().close_instant()
        for side in (0, 1):
            if self.delayed[side]:
                self.memory[side].extend(self.parts[side].now)

    def pair(self, left: Occurrence, right: Occurrence, order: int) -> Occurrence | None:
        """The two together, if join key, relation (absence included) and WITHIN allow it."""
        if not self.relation(left.start, left.end, right.start, right.end):
            return None
        start, end = min(left.start, right.start), max(left.end, right.end)
        if self.within is not None and end - start > self.within:
            return None
        if not all(equal(left.values[name], right.values[name]) for name in self.key):
            return None
        values = {**right.values, **left.values}
        if len(self.parts) == 3:
            for absent in self.parts[2].past:
                between = left.end < absent.start and absent.end < right.start
                if between and all(equal(absent.values[name], values[name]) for name in self.absent_key):
                    return None
        return Occurrence(start, end, order, values)

    def choose(self, arriving: Occurrence, pairs: list[tuple[Occurrence, Occurrence]]) -> list[Occurrence]:
        """`pairs` are (partner, the two together), partners in the order they arrived."""
        if self.policy.name == "unrestricted":
            return [pair for _, pair in pairs if self.keep(pair)]
        if self.policy.name == "recent":
            # Of the greatest rank the last to arrive.
            best = max(reversed(pairs), key=lambda found: (found[0].end, self.tie(found[0])), default=None)
            return [best[1]] if best is not None and self.keep(best[1]) else []
        pairs = [(other, pair) for other, pair in pairs if all(other is not o for o in self.consumed)]
        pairs = [(other, pair) for other, pair in pairs if self.keep(pair)]
        best = max(pairs, key=lambda found: (-found[0].end, self.tie(found[0])), default=None)
        if best is None:
            return []
        self.consumed += [arriving, best[0]]
        return [best[1]]

    def tie(self, partner: Occurrence) -> float:
        """Among partners of one end the greatest is taken."""
        tie = self.policy.tie or ("longest" if self.policy.name == "recent" else "shortest")
        if tie == "by":
            if self.policy.by in partner.values:
                value = partner.values[self.policy.by]
                value = value.n if isinstance(value, p.Ticks) else value
                return value if kind(value) == "number" else -math.inf
            tie = "longest" if self.policy.name == "recent" else "shortest"
        return partner.end - partner.start if tie == "longest" else partner.start - partner.end


class WhereNode(PatternNode):
    """Enumerates the answers of a WHERE. Where they were decided makes no difference here."""

    def __init__(self, run: Run, part: Node, conditions: tuple[Any, ...], filters: list[Any], within: int | None):
        super().__init__(run, [part], (False,), filters, within)
        self.conditions = conditions

    def columns(self) -> list[str]:
        return list(dict.fromkeys([*super().columns(), *variables(self.conditions)]))

    def step(self, time: int, first: bool) -> list[Occurrence]:
        return [
            replace(o, values=values)
            for o in self.news(0, first)
            for values in self.run.knowledge.solve(self.conditions, o.values, (o.start, o.end))
        ]


# Operators of other shapes: how each is read, and its node.
@dataclass
class Unless(p.Operator):
    left: Any
    absent: Any
    duration: int  # its WITHIN, which comes later
    filters: list[Any] = field(default_factory=list)
    decides = "left"

    def binds(self, parts: list[set[str]]) -> set[str]:
        return parts[0]

    def node(self, run: Run, parts: list[Node], shared: set[str], within: int | None) -> Node:
        return UnlessNode(run, parts, shared, self.duration, self.filters, within)


class UnlessNode(PatternNode):
    """`L UNLESS X WITHIN q`: at each deadline look back."""

    def __init__(self, run: Run, parts: list[Node], shared: set[str], q: int, filters: list[Any], within: int | None):
        super().__init__(run, parts, (q > 0, True), filters, within)
        self.key, self.q = shared, q

    def columns(self) -> list[str]:
        return self.parts[0].columns()

    def completing(self) -> list[Node]:
        return self.parts[:1]

    def step(self, time: int, first: bool) -> list[Occurrence]:
        left, absent = self.parts
        waiting = left.past if self.q > 0 else self.news(0, first)
        found = []
        for o in waiting:
            if o.end + self.q == time and not any(
                o.end < x.end < time and all(equal(o.values[name], x.values[name]) for name in self.key)
                for x in absent.past
            ):
                order = self.order(o.values, self.columns()) if self.q > 0 else o.order
                found.append(replace(o, end=time, order=order, number=1))
        return found

    def close_instant(self) -> None:
        super().close_instant()
        for o in self.parts[0].now if self.q > 0 else ():
            self.run.call_at(o.end + self.q)


PREFIXED: dict[str, Any] = {"not": p.Not}
"""The patterns that begin with a word, each with the class that reads them."""
