"""The reference interpreter: the meaning of a program by brute force over lists. It shares no code with the engine,
except the hash of values that orders results which time completes.

`reference_parser` parses the text and `reference_patterns` prepares it. `reference_conditions` evaluates conditions.
Every pattern becomes a node of `reference_nodes` or `reference_windows`. Here the nodes run. Nodes that depend on each
other within an instant run in rounds; all others process an instant as a whole.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from cep.events import Event
from tests import reference_tree as p
from tests.reference_conditions import Knowledge
from tests.reference_knowledge import Triple, localised
from tests.reference_nodes import (
    AtomNode,
    EventNode,
    Node,
    Occurrence,
    OrNode,
    PairNode,
    PointNode,
    WhereNode,
)
from tests.reference_parser import parse
from tests.reference_patterns import binds, expand, place
from tests.reference_values import key, variables

MOST_ROUNDS = 1000


def detect(
    program: str,
    events: Iterable[Event],
    policy: str | None = None,
    knowledge: Mapping[int | float, list[Triple]] | None = None,
) -> list[Event]:
    """All derived events, by (end, start, type, arguments). `policy` is the default where the program states none.

    `knowledge`: from each time on (microseconds) the triples that are known.
    """
    read = parse(program, policy)
    rules = ([localised(rule) for rule in rules] for rules in (read.event_rules, read.static_rules))
    return Run(p.Program(read.declarations, *rules), list(events), knowledge or {}).run()


def sort_key(event: Event) -> tuple[Any, ...]:
    return (event.end, event.start, event.type, tuple(key(value) for value in event.args))


class Run:
    """One program over one list of events, from the first instant to the last."""

    def __init__(self, program: p.Program, events: list[Event], knowledge: Mapping[int | float, list[Triple]]) -> None:
        timeline = {-math.inf: [], **knowledge}
        self.timeline = {time: Knowledge(program.static_rules, timeline[time]) for time in sorted(timeline)}
        self.nodes: list[Node] = []
        self.events: dict[str, EventNode] = {}
        self.attributes = attribute_names(program)
        self.agenda: list[int] = []
        self.inputs: dict[tuple[str, int], list[Occurrence]] = {}
        self.distinct = {name for name, each in program.declarations.items() if each.distinct}
        equal: Counter[tuple[Any, ...]] = Counter()
        types = {name: [t for _, t in d.attributes] for name, d in program.declarations.items()}
        for order, event in enumerate(events):
            values = tuple(read(value, t) for value, t in zip(event.args, types.get(event.type, ["any"] * 99)))
            kind = (event.type, event.start, event.end, tuple(map(key, values)))
            equal[kind] += 1
            occurrence = Occurrence(event.start, event.end, order, values, equal[kind])
            self.inputs.setdefault((event.type, event.end), []).append(occurrence)
            self.call_at(event.end)
        for rule in program.event_rules:
            body = rule.body
            expand(body, set(variables(rule.arguments)))
            place(body)
            head = self.event(rule.name)
            head.parts.append(self.build(body, None, rule.policy))
            head.delayed += (False,)
            head.heads.append(rule.arguments)
        self.components = in_order(self.nodes)

    def call_at(self, time: int) -> None:
        heapq.heappush(self.agenda, time)

    def add(self, node: Any) -> Any:
        self.nodes.append(node)
        return node

    def event(self, name: str) -> EventNode:
        if name not in self.events:
            self.events[name] = self.add(EventNode(self, name))
        return self.events[name]

    def build(self, pattern: Any, within: int | None, policy: p.Choice) -> Node:
        """The node of a pattern inside a WITHIN and under a policy."""
        match pattern:
            case p.Within():
                return self.build(pattern.pattern, least(within, pattern.duration), policy)
            case p.Policy():
                return self.build(pattern.pattern, within, pattern.choice)
            case p.Times():
                top = self.build(pattern.pattern, within, policy)
                if pattern.count == 1:  # there is no goal of its own, and below it nothing is decided
                    return self.add(WhereNode(self, top, (), pattern.filters, within))
                top.filters.extend(pattern.filters)
                return top
            case p.Atom():
                arguments = pattern.arguments
                if pattern.names is not None:
                    given = dict(zip(pattern.names, arguments))
                    arguments = tuple(given.get(name, p.Var("_#")) for name in self.attributes[pattern.name])
                return self.add(AtomNode(self, self.event(pattern.name), arguments, pattern.filters, within))
            case p.Point():
                self.call_at(pattern.ticks)
                return self.add(PointNode(self, pattern.ticks, pattern.filters, within))
            case p.Where():
                part = self.build(pattern.pattern, within, policy)
                return self.add(WhereNode(self, part, pattern.conditions, pattern.filters, within))
            case p.Operator():
                parts = [self.build(part, within, policy) for part in pattern.parts()]
                shared = set.intersection(*map(binds, pattern.parts()))
                return self.add(pattern.node(self, parts, shared, within))
            case p.Pair(operator="or"):
                parts = [self.build(side, within, policy) for side in (pattern.left, pattern.right)]
                return self.add(OrNode(self, parts, (False, False), pattern.filters, within))
            case p.Pair(operator="cnot"):
                absent = self.build(pattern.right, within, policy)
                sequence = pattern.left
                while not isinstance(sequence, p.Pair):
                    if isinstance(sequence, p.Within):
                        within = least(within, sequence.duration)
                    else:
                        policy = sequence.choice
                    sequence = sequence.pattern
                filters = sequence.filters + pattern.filters
                sides = sequence.left, sequence.right
                return self.pair("seq", *sides, pattern.right, absent, filters, within, policy, sequence.gap)
            case p.Not():
                absent = self.build(pattern.absent, within, policy)
                return self.pair(
                    "seq", pattern.left, pattern.right, pattern.absent, absent, pattern.filters, within, policy
                )
            case p.Pair():
                return self.pair(
                    pattern.operator,
                    pattern.left,
                    pattern.right,
                    None,
                    None,
                    pattern.filters,
                    within,
                    policy,
                    pattern.gap,
                )
        raise AssertionError(f"no node for {pattern}")

    def pair(
        self,
        operator: str,
        left: Any,
        right: Any,
        absent: Any,
        absent_node: Node | None,
        filters: list[Any],
        within: int | None,
        policy: p.Choice,
        gap: tuple[int, int] | None = None,
    ) -> Node:
        parts = [self.build(left, within, policy), self.build(right, within, policy)]
        shared = [binds(left) & binds(right), set()]
        if absent_node is not None:
            parts.append(absent_node)
            shared[1] = binds(absent) & (binds(left) | binds(right))
        return self.add(PairNode(self, operator, parts, shared, policy, filters, within, gap))

    def run(self) -> list[Event]:
        while self.agenda:
            time = heapq.heappop(self.agenda)
            while self.agenda and self.agenda[0] == time:
                heapq.heappop(self.agenda)
            self.knowledge = self.timeline[max(since for since in self.timeline if since <= time)]
            for node in self.nodes:
                node.now, node.fresh = [], []
            for component in self.components:
                if len(component) > 1:
                    self.rounds(component, time)
                elif isinstance(component[0], EventNode):
                    component[0].admit(time, component[0].inputs(time) + component[0].results(first=True))
                else:
                    component[0].advance(time, first=True)
            for component in self.components:
                for node in component:
                    if len(component) > 1:  # who stands outside sees the instant whole
                        node.now.sort(key=Occurrence.arrival)
                    node.close_instant()
        return sorted((event for node in self.events.values() for event in node.derived), key=sort_key)

    def rounds(self, component: list[Node], time: int) -> None:
        names = [node for node in component if isinstance(node, EventNode)]
        for name in names:
            name.admit(time, name.inputs(time))
        for round_number in range(MOST_ROUNDS):
            for node in component:
                if not isinstance(node, EventNode):
                    node.advance(time, first=round_number == 0)
            for name in names:
                name.admit(time, name.results(first=round_number == 0))
            if not any(name.fresh for name in names):
                break
        else:
            raise RuntimeError("a recursion goes on for ever")
        for node in component:
            node.now.sort(key=Occurrence.arrival)


def in_order(nodes: list[Node]) -> list[list[Node]]:
    """The strongly connected components of dependence within an instant, parts first; within one, parts before
    the patterns made of them, and events last."""
    parts = {id(n): [part for part, late in zip(n.parts, n.delayed) if not late] for n in nodes}
    # Reachability is all a small graph needs.
    reach: dict[int, set[int]] = {}
    for node in nodes:
        found: set[int] = set()
        stack = list(parts[id(node)])
        while stack:
            part = stack.pop()
            if id(part) not in found:
                found.add(id(part))
                stack.extend(parts[id(part)])
        reach[id(node)] = found
    done: set[int] = set()
    result = []
    while len(done) < len(nodes):
        for node in nodes:
            mates = [m for m in nodes if m is node or (id(m) in reach[id(node)] and id(node) in reach[id(m)])]
            inside = {id(m) for m in mates}
            if id(node) not in done and reach[id(node)] - inside <= done:
                for mate in mates:
                    mate.component = mates
                # Nodes are built parts first, so the patterns among the mates are in order as they stand.
                result.append(mates)
                done |= inside
    return result


def least(within: int | None, duration: int) -> int:
    return duration if within is None else min(within, duration)


def read(value: Any, declared: str) -> Any:
    """An input value as its declared type has it."""
    if value is None:
        return None
    if declared in ("time", "duration"):
        return p.Ticks(declared, value)
    return float(value) if declared == "float" else value


def attribute_names(program: p.Program) -> dict[str, list[str]]:
    """Attribute names of declared events, and of derived ones after their variables (decision M10)."""
    names = {name: [attribute for attribute, _ in d.attributes] for name, d in program.declarations.items()}
    for rule in program.event_rules:
        if rule.name in names:
            continue
        named = next((other.names for other in program.event_rules if other.name == rule.name and other.names), None)
        if named:
            names[rule.name] = list(named)
            continue
        taken = ["type", "time", "start", "end", "args"]
        heads = [other.arguments for other in program.event_rules if other.name == rule.name]
        names[rule.name] = []
        for position in range(len(rule.arguments)):
            first = next((head[position] for head in heads if isinstance(head[position], p.Var)), None)
            name = first.name.lower() if first is not None else ""
            if not name or name in taken or name.startswith("_"):
                name = f"arg{position + 1}"
            taken.append(name)
            names[rule.name].append(name)
    return names
