"""Print nodes as rule text. The text shows what a goal computes, in the words of our language and with the author's
variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from cep.core.errors import Source
from cep.core.fluents import ENDED_ALL, INITIATED, RECORDED, TRANSITIONS
from cep.core.schema import Schema
from cep.plan.algebra import Head
from cep.plan.names import author_names, numbered, plain, used_variables
from cep.plan.node import Meeting, Node
from cep.plan.types import ColumnType
from cep.rules import pattern_text
from cep.rules.graph_text import on_one_line
from cep.rules.pattern_text import Text
from cep.rules.terms import (
    Condition,
    Constant,
    Disjunction,
    Expression,
    Predicate,
    Variable,
    rename_condition,
    rename_expression,
)

CHANGE = "'"
"""The first character in the names of columns that describe a change of a fluent."""
LONGEST = 160
"""The greatest number of characters of a graph pattern that are shown."""


class Rendering:
    """The text of a plan's nodes and heads. `labels`: the labels of the nodes that `cep plan` shows separately."""

    def __init__(
        self,
        nodes: Sequence[Node],
        names: Sequence[Sequence[str]],
        heads: Sequence[Head],
        schemas: Mapping[str, Schema],
        source: Source,
        instants: Sequence[bool] = (),
        columns: Sequence[Sequence[ColumnType]] = (),
    ) -> None:
        self.properties = [node.properties() for node in nodes]
        self.instants = instants
        self.nodes = nodes
        self.names = [numbered([plain(name) for name in name]) for name in names]
        self.heads = heads
        self.schemas = schemas
        self.source = source
        self.columns = columns
        self.labels: dict[int, str] = {}
        self.needed = self._needed()

    def _needed(self) -> list[set[int]]:
        needed: list[set[int]] = [set() for _ in self.nodes]
        for head in self.heads:
            needed[head.child] |= places_of(head.arguments)
        for number in reversed(range(len(self.nodes))):
            for child, columns in zip(self.nodes[number].parts, self.taken(number, needed[number]), strict=True):
                needed[child] |= columns
        return needed

    def taken(self, number: int, columns: set[int]) -> list[set[int]]:
        """Return, for each part of a node, the columns that the node reads to compute its own columns `columns`."""
        properties = self.properties[number]
        part_columns: list[set[int]] = [set() for _ in self.nodes[number].parts]
        own = columns | {column for _, column in properties.forbids} | places_of(properties.conditions)
        shown = [place for column in own if column < len(properties.shows) for place in properties.shows[column]]
        asked = [place for pair in properties.equal for place in pair] + [place for place, _ in properties.forbids]
        for part, column in (*shown, *properties.looks, *asked):
            part_columns[part].add(column)
        return part_columns

    # --- text ---

    def rule(self, head: Head) -> str:
        """Return the text of a rule: `event(arguments) <- body`. The body is the text or label of the head's node."""
        names = author_names((), self.names[head.child], self.source)
        arguments = [rename_expression(argument, names) for argument in head.arguments]
        head_text, arrow = pattern_text.event(head.event, arguments).text, "<-"
        fluent = self.schemas[head.event].fluent
        if fluent is not None and fluent.part == TRANSITIONS:
            *own, what = arguments[:-1] if fluent.defined else arguments  # the last argument numbers the rule
            value = own.pop() if fluent.valued else None
            head_text = pattern_text.held(fluent.name.removesuffix(RECORDED), own, value)
            if fluent.defined:
                arrow = "WHILE"
            elif isinstance(what, Constant) and what.value == ENDED_ALL:
                head_text = f"terminate {pattern_text.held(fluent.name, own, Variable('_'))}"
            elif isinstance(what, Constant):
                head_text = f"{'initiate' if what.value == INITIATED else 'terminate'} {head_text}"
        body = self.text(head.child) if head.child not in self.labels else self.reference(head.child)
        return f"{head_text} {arrow} {body.text}"

    def changes(self, event: str) -> bool:
        """Return True if the rules for a table derive the beginnings and ends of a fluent."""
        fluent = self.schemas[event].fluent
        return fluent is not None and fluent.part == TRANSITIONS

    def goal(self, number: int) -> str:
        """Return the text `g1(X) <- ...` of a node that has a label."""
        return f"{self.reference(number).text} <- {self.text(number).text}"

    def text(self, number: int) -> Text:
        """Return the text of a node. In this text, a node that is read is shown by its label, or by its event if it is
        a leaf."""
        return self.nodes[number].text(self, number, self.sides(number))

    def details(self, number: int) -> list[tuple[str, str]]:
        """Return further lines about a goal, as pairs of a label and a text."""
        return self.nodes[number].details(self, number, [side.text for side in self.sides(number)])

    def reference(self, number: int, names: Sequence[str] | None = None, shown: set[int] | None = None) -> Text:
        """Return the label of a node or, for a leaf, the text of its event, with arguments.

        `names`: the names of the node's columns. `shown`: the columns to show by name. All others are shown as `_`.
        """
        names = self.names[number] if names is None else names
        if self.properties[number].kind is None:
            return self.nodes[number].under(self, names)
        assert number in self.labels, "what several read, or a goal reads, has a label"
        shown = self.needed[number] if shown is None else shown
        arguments = [
            Variable(name if column in shown else "_")
            for column, name in enumerate(names)
            if column in self.needed[number] and not self.names[number][column].startswith(CHANGE)
        ]
        return pattern_text.event(self.labels[number], arguments)

    def sides(self, number: int) -> list[Text]:
        """Return the texts of the nodes that the node `number` reads. They name columns as the node `number` does."""
        shown = self.taken(number, self.needed[number])
        return [
            self.reference(part, names, columns)
            for part, names, columns in zip(self.nodes[number].parts, self.below(number), shown, strict=True)
        ]

    def below(self, number: int) -> list[list[str]]:
        """Return names for the columns of each part of a node.

        If a column of the node contains a part's column, or equals it, the part's column gets the same name. The part's
        other columns keep their own names if the node groups the rows of the part, and are anonymous otherwise.
        """
        properties, names = self.properties[number], self.names[number]
        part_names: list[list[str]] = [["_"] * len(self.names[part]) for part in self.nodes[number].parts]
        for name, places in zip(names, properties.shows):
            for part, column in places:
                part_names[part][column] = name
        for (left, mine), (other, theirs) in properties.equal:
            part_names[other][theirs] = part_names[left][mine]
        for (part, column), known in properties.forbids:
            part_names[part][column] = names[known]
        if properties.meeting is Meeting.GROUPS:
            inner = self.names[self.nodes[number].parts[0]]
            shown = {column for places in properties.shows for part, column in places if part == 0}
            free = [name for column, name in enumerate(inner) if column not in shown]
            own = iter(numbered([*names, *free])[len(names) :])
            part_names[0] = [name if column in shown else next(own) for column, name in enumerate(part_names[0])]
        return part_names

    def points(self, node: Node) -> list[bool]:
        return [self.instants[part] for part in node.parts]


def shown_name(schema: Schema) -> str:
    return schema.name if schema.fluent is None else schema.fluent.name.removesuffix(RECORDED)


def restricted(pattern: Text, within: int | None, conditions: Iterable[Condition], names: Mapping[str, str]) -> Text:
    """Return the text of a pattern, followed by its WITHIN and its WHERE if it has them. `names`: for each canonical
    name of a variable, the author's name."""
    if within is not None:
        pattern = pattern_text.within(pattern, within)
    written = tuple(_plain(rename_condition(condition, names)) for condition in conditions)
    return pattern_text.where(pattern, written) if written else pattern


def _plain(condition: Condition) -> Condition:
    if isinstance(condition, Disjunction):
        inside = tuple(tuple(map(_plain, alternative)) for alternative in condition.alternatives)
        return replace(condition, alternatives=inside)
    if not isinstance(condition, Predicate):
        return condition
    if condition.graph is None:
        return replace(condition, name=condition.name.partition("(")[0])
    pairs = zip(condition.graph.variables, condition.arguments, strict=True)
    names = {name: argument.name for name, argument in pairs if isinstance(argument, Variable) and argument.name != "_"}
    return replace(condition, graph=replace(condition.graph, text=on_one_line(condition.graph.text, names, LONGEST)))


def places_of(uses: Iterable[Expression | Condition]) -> set[int]:
    """Return the positions of the columns whose canonical names occur in expressions or conditions."""
    return {int(v.name[1:]) for v in used_variables(uses) if v.name[0] == "v" and v.name[1:].isdigit()}


def listed(words: Sequence[str]) -> str:
    """Return words as a list in prose: `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def counted(number: int, what: str) -> str:
    """Return a number with its noun in singular or plural: `2 rules`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
