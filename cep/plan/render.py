"""Nodes as rule text again: what a goal does, in the words of the language and in the author's variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from cep.core.errors import Source
from cep.core.schema import Schema
from cep.language.syntax import ast
from cep.language.syntax.printer import print_pattern
from cep.plan.algebra import Aggregation, Deadline, Head, Join, Node, Scan, Select, Tick, Union, children
from cep.plan.names import author_names, distinct, used_variables
from cep.rules.graphs import on_one_line
from cep.rules.terms import Condition, Expression, Predicate, Variable, rename_condition, rename_expression

LONGEST = 160
"""Characters of a graph pattern that are shown."""


class Written:
    """The nodes of a plan and their heads, with a label for every node that is shown by itself."""

    def __init__(
        self,
        nodes: Sequence[Node],
        names: Sequence[Sequence[str]],
        heads: Sequence[Head],
        schemas: Mapping[str, Schema],
        source: Source,
    ) -> None:
        self.nodes = nodes
        self.names = [distinct(each) for each in names]
        self.heads = heads
        self.schemas = schemas
        self.source = source
        self.labels: dict[int, str] = {}
        self.needed = self._needed()

    def _needed(self) -> list[set[int]]:
        """The columns of every node that something above it looks at."""
        needed: list[set[int]] = [set() for _ in self.nodes]
        for head in self.heads:
            needed[head.child] |= _places(head.arguments)
        for number in reversed(range(len(self.nodes))):
            for child, columns in zip(children(self.nodes[number]), self.taken(number, needed[number]), strict=True):
                needed[child] |= columns
        return needed

    def taken(self, number: int, wanted: set[int]) -> list[set[int]]:
        """The columns that a node needs of each child when `wanted` are wanted of it."""
        node = self.nodes[number]
        match node:
            case Join():
                wanted = wanted | _places(node.decide) | {column for _, column in node.absent_key}
                left = {c for c in wanted if c < node.left_width} | {c for c, _ in node.key}
                own = [r for r in range(len(self.names[node.right])) if r not in {c for _, c in node.key}]
                right = {own[c - node.left_width] for c in wanted if c >= node.left_width} | {c for _, c in node.key}
                left |= {c for c in node.by[:1] if c is not None}
                right |= {c for c in node.by[1:] if c is not None}
                absent = [] if node.absent is None else [{c for c, _ in node.absent_key}]
                return [left, right, *absent]
            case Union():
                return [wanted, {node.right_columns[c] for c in wanted}]
            case Deadline():
                return [wanted | {c for c, _ in node.key}, {c for _, c in node.key}]
            case Select():
                width = len(self.names[node.child])
                return [{c for c in wanted if c < width} | _places(node.conditions)]
            case Aggregation():
                return [set(node.by) | _places(r.argument for r in node.results if r.argument is not None)]
            case Scan() | Tick():
                return []

    # --- text ---

    def rule(self, head: Head) -> str:
        """`event(arguments) <- body`; the body is what the head's node is where it has no label."""
        names = author_names((), self.names[head.child], self.source)
        arguments = tuple(rename_expression(argument, names) for argument in head.arguments)
        made = print_pattern(ast.EventPattern(head.event, arguments))
        pattern = self.pattern if head.child not in self.labels else self.reference
        return f"{made} <- {print_pattern(pattern(head.child))}"

    def goal(self, number: int) -> str:
        """`g1(X) <- ...` of a node with a label."""
        return f"{print_pattern(self.reference(number))} <- {print_pattern(self.pattern(number))}"

    def reference(self, number: int, names: Sequence[str] | None = None, shown: set[int] | None = None) -> ast.Pattern:
        """A node by its label, an event as it is, under `names` for its columns; what is not `shown` is anonymous."""
        names = self.names[number] if names is None else names
        node = self.nodes[number]
        match node:
            case Scan():
                return self._atom(node, names)
            case Tick(ticks):
                return ast.TimePoint(ticks)
        assert number in self.labels, "what several read, or a goal reads, has a label"
        shown = self.needed[number] if shown is None else shown
        arguments = tuple(
            Variable(name if column in shown else "_")
            for column, name in enumerate(names)
            if column in self.needed[number]
        )
        return ast.EventPattern(self.labels[number], arguments)

    def _atom(self, scan: Scan, names: Sequence[str]) -> ast.Pattern:
        schema = self.schemas[scan.event]
        arguments: list[Expression] = [Variable("_")] * len(schema.attributes)
        for position, constant in scan.constants:
            arguments[position] = constant
        for column, position in enumerate(scan.take):
            arguments[position] = Variable(names[column])
        for first, second in scan.equal:
            arguments[second] = arguments[first]
        placed = ast.EventPattern(scan.event, tuple(arguments))
        there = [i for i, each in enumerate(arguments) if each != Variable("_")]
        if not schema.declared or not there or len(arguments) - len(there) < 3:
            return placed
        attributes = tuple(schema.attributes[i].name for i in there)
        return ast.EventPattern(scan.event, tuple(arguments[i] for i in there), attributes)

    def sides(self, number: int) -> list[ast.Pattern]:
        """What a node reads, under the names it has there."""
        node, names = self.nodes[number], self.names[number]
        shown = self.taken(number, self.needed[number])
        under: list[Sequence[str]]
        match node:
            case Join():
                under = [names[: node.left_width], self.right_names(node, names)]
                if node.absent is not None:
                    under.append(self._placed(node.absent, [(theirs, names[mine]) for theirs, mine in node.absent_key]))
            case Union():
                under = [names, self._placed(node.right, list(zip(node.right_columns, names, strict=True)))]
            case Deadline():
                under = [names, self._placed(node.absent, [(theirs, names[mine]) for mine, theirs in node.key])]
            case Select():
                under = [names[: len(self.names[node.child])]]
            case Aggregation():
                under = [self._grouped(node, names)]
            case Scan() | Tick():
                under = []
        sides = zip(children(node), under, shown, strict=True)
        return [self.reference(child, mine, columns) for child, mine, columns in sides]

    def pattern(self, number: int) -> ast.Pattern:
        """What a node is, in terms of those it reads."""
        node, names, sides = self.nodes[number], self.names[number], self.sides(number)
        match node:
            case Scan() | Tick():
                return self.reference(number)
            case Join():
                pattern: ast.Pattern = ast.Binary(node.relation, sides[0], sides[1])
                if node.absent is not None:
                    pattern = ast.Not(sides[2], sides[0], sides[1])
                return _restricted(pattern, node.within, node.decide, author_names(node.decide, names, self.source))
            case Union():
                return ast.Binary("OR", sides[0], sides[1])
            case Deadline():
                return ast.Unless(sides[0], sides[1], node.duration)
            case Select():
                width = len(names) - len(node.binds)
                bound = dict(zip(node.binds, names[width:], strict=True))
                made = author_names(node.conditions, names[:width], self.source) | bound
                return _restricted(sides[0], node.within, node.conditions, made)
            case Aggregation():
                inner = author_names((), self._grouped(node, names), self.source)
                results = tuple(
                    replace(
                        result,
                        variable=name,
                        argument=None if result.argument is None else rename_expression(result.argument, inner),
                    )
                    for result, name in zip(node.results, names[len(node.by) :], strict=True)
                )
                by = tuple(Variable(name) for name in names[: len(node.by)])
                return ast.Aggregate(sides[0], results, node.events, node.duration, by)

    def _placed(self, number: int, places: Sequence[tuple[int, str]]) -> list[str]:
        """Names for a node's columns, those of `places`; the others are anonymous."""
        names = ["_"] * len(self.names[number])
        for column, name in places:
            names[column] = name
        return names

    def _grouped(self, node: Aggregation, names: Sequence[str]) -> list[str]:
        """Names for the columns of what is aggregated: those of the groups are the aggregate's, no other is."""
        groups = dict(zip(node.by, names, strict=False))
        inner = self.names[node.child]
        own = iter(distinct([*names, *(name for c, name in enumerate(inner) if c not in groups)])[len(names) :])
        return [groups[c] if c in groups else next(own) for c in range(len(inner))]

    def right_names(self, join: Join, names: Sequence[str]) -> list[str]:
        """The names of a join's columns for those of its right side."""
        keys = {right: names[left] for left, right in join.key}
        own = iter(names[join.left_width :])
        return [keys[c] if c in keys else next(own) for c in range(len(self.names[join.right]))]


def _restricted(
    pattern: ast.Pattern, within: int | None, conditions: Iterable[Condition], names: Mapping[str, str]
) -> ast.Pattern:
    if within is not None:
        pattern = ast.Within(pattern, within)
    written = tuple(_plain(rename_condition(condition, names)) for condition in conditions)
    return ast.Where(pattern, written) if written else pattern


def _plain(condition: Condition) -> Condition:
    """A condition as an author would write it: a graph pattern on one line and in the names of the rule."""
    if not isinstance(condition, Predicate):
        return condition
    if condition.graph is None:
        return replace(condition, name=condition.name.partition("(")[0])
    given = zip(condition.graph.variables, condition.arguments, strict=True)
    names = {name: each.name for name, each in given if isinstance(each, Variable) and each.name != "_"}
    return replace(condition, graph=replace(condition.graph, text=on_one_line(condition.graph.text, names, LONGEST)))


def _places(uses: Iterable[Expression | Condition]) -> set[int]:
    """The columns that canonical names stand for."""
    return {int(v.name[1:]) for v in used_variables(uses) if v.name[0] == "v" and v.name[1:].isdigit()}
