"""A builder that creates the goals of a plan. Each node becomes a goal that reads columns by number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

from cep.core.fluents import EDGES, TRANSITIONS
from cep.core.value_hashes import PoolWords
from cep.core.values import Pool
from cep.operators.event import Scan
from cep.operators.goals import relational
from cep.operators.goals.contract import Goal, KnowledgeOverTime
from cep.operators.goals.heads import Head
from cep.operators.goals.lineage import Lineage
from cep.operators.goals.pairs.rows_by_key import SharedRows
from cep.operators.goals.value_order import ValueOrder
from cep.operators.loop import Loop, loop_of
from cep.plan import types as planned
from cep.plan.equal import equal_records
from cep.plan.order import Group
from cep.plan.plan import Plan
from cep.plan.types import TIMES
from cep.rules.conditions.conditions import Conditions, compile_conditions
from cep.rules.conditions.relations import Relation
from cep.rules.expressions.evaluate import Evaluation, compile_expression
from cep.rules.expressions.typed import TypedConstant, TypedVariable, coerced, common_type, fitted
from cep.rules.terms import Condition


class GoalBuilder:
    """A builder of goals for the nodes of one plan. The goals share a pool, the static relations and the knowledge."""

    def __init__(
        self,
        plan: Plan,
        relations: Mapping[str, Relation],
        pool: Pool,
        lineage: Lineage | None,
        knowledge: KnowledgeOverTime | None = None,
    ) -> None:
        self.plan = plan
        self.knowledge = knowledge
        self.relations = relations
        self.pool = pool
        self.lineage = lineage
        self.shared_rows = SharedRows()
        self.words = PoolWords(pool)
        self.heads: dict[str, list[int]] = {}
        for number, head in enumerate(plan.heads):
            self.heads.setdefault(head.event, []).append(number)
        self.users = Counter(child for node in plan.nodes for child in node.parts)
        self.users.update(head.child for head in plan.heads)
        self.equal = equal_records(plan)
        self.on_cycles = frozenset(unit for group in plan.groups if group.recursive for unit in group.units)

    @cached_property
    def scans(self) -> dict[str, list[tuple[int, Scan]]]:
        scans: dict[str, list[tuple[int, Scan]]] = {}
        for number, node in enumerate(self.plan.nodes):
            if isinstance(node, Scan):
                scans.setdefault(node.event, []).append((number, node))
        return scans

    @cached_property
    def unread(self) -> frozenset[int]:
        """Return the nodes of fluents whose intervals no other node reads.

        Such nodes exist only if the program outputs the changes of fluents instead of their intervals.
        """
        plan = self.plan
        if not plan.changes or self.lineage is not None:
            return frozenset()
        read = self.scans.keys() | set(plan.derived)
        children = {head.child for head in plan.heads if head.event not in read}
        children -= {head.child for head in plan.heads if head.event in read}
        return frozenset(children - {part for node in plan.nodes for part in node.parts})

    @cached_property
    def _events(self) -> dict[int, list[str]]:
        events: dict[int, list[str]] = {}
        for head in self.plan.heads:
            events.setdefault(head.child, []).append(head.event)
        return events

    def events_of(self, number: int) -> list[str]:
        """Return the events that have a rule whose head reads the output of this node."""
        return list(dict.fromkeys(self._events.get(number, ())))

    def node(self, number: int) -> Goal:
        return self.plan.nodes[number].goal(self, number)

    def event(self, name: str) -> relational.Project:
        """Return the goal of an event. It combines the event's input with the results of the event's rules."""
        heads, rules = [], self.heads.get(name, [])
        for number in rules:
            head, arguments = self.plan.heads[number], self.plan.arguments[number]
            columns = None
            if all(isinstance(argument, TypedVariable | TypedConstant) for argument in arguments):
                columns = [
                    int(argument.name[1:]) if isinstance(argument, TypedVariable) else None for argument in arguments
                ]
            optional = self.optional(self.plan.columns[head.child])
            evaluations = [compile_expression(argument, self.pool, optional) for argument in arguments]
            heads.append(Head(self.types(head.child), evaluations, columns))
        distinct = self._changes_once(name, rules) or (
            len(rules) == 1 and self._given_once(self.plan.heads[rules[0]].child, heads[0].columns)
        )
        width, own = len(self.plan.schemas[name].attributes), self._own(name)
        return relational.Project(width, heads, rules, own, self.equal.passing, self.lineage, distinct)

    def _own(self, name: str) -> relational.Own:
        """Return how the goal of an event treats equal input records.

        If several equal records can occur and lineage is recorded, the records are numbered, because explanations show
        each one.
        """
        if name not in self.equal.several:
            return relational.Own.SET
        if name in self.plan.handed:
            return relational.Own.HANDED
        numbered = name in self.equal.numbered or self.lineage is not None
        return relational.Own.NUMBERED if numbered else relational.Own.SEVERAL

    def _given_once(self, child: int, columns: Sequence[int | None] | None) -> bool:
        """Return True if no two output rows of the node `child` are equal in these columns.

        That is so if the node never outputs equal rows, and `columns` includes all its columns.
        """
        every = set(range(len(self.plan.columns[child])))
        return columns is not None and every <= set(columns) and self.plan.nodes[child].properties().distinct

    def _changes_once(self, name: str, rules: Sequence[int]) -> bool:
        """Return True if all rows of a fluent's table of changes are distinct.

        That is so if each rule keeps all columns of its formula, and writes its own rule number into the row.
        """
        fluent = self.plan.schemas[name].fluent
        if fluent is None or not fluent.defined or fluent.part not in (EDGES, TRANSITIONS):
            return False
        heads = [self.plan.arguments[number] for number in rules]
        for number, arguments in zip(rules, heads):
            kept = {argument.name for argument in arguments if isinstance(argument, TypedVariable)}
            if len(kept) < len(self.plan.columns[self.plan.heads[number].child]):
                return False
        numbers = {head[-1].value for head in heads if isinstance(head[-1], TypedConstant)}
        return len(rules) == 1 or len(numbers) == len(rules)

    def cycle(self, group: Group) -> Loop | None:
        """Return the machine part in which one kernel evaluates a cycle of the plan, or None if no kernel can."""
        return loop_of(self, group)

    # --- pieces ---

    def order(self, number: int, types: Sequence[str]) -> ValueOrder:
        """Return a function that computes the order of arrival of a node's results that the passing of time completes.

        `types`: the types of the values that distinguish the results.
        """
        events, waiting, seen = set[str](), [number], set[int]()
        while waiting:
            if (part := waiting.pop()) in seen:
                continue
            seen.add(part)
            node = self.plan.nodes[part]
            waiting.extend(node.parts[place] for place in node.properties().completes)
            if isinstance(node, Scan):
                events.add(node.event)
        return ValueOrder(self.words, types, events)

    def types(self, number: int) -> list[str]:
        return self.plan.types(number)

    def optional(self, columns: Sequence[planned.ColumnType]) -> frozenset[str]:
        return frozenset(f"v{i}" for i, column in enumerate(columns) if column.optional)

    def conditions(self, conditions: Sequence[Condition], columns: Sequence[planned.ColumnType]) -> Conditions:
        types = {f"v{i}": column.type for i, column in enumerate(columns)} | TIMES
        return compile_conditions(conditions, types, self.relations, self.pool, self.plan.source)

    def converted(self, name: str, type: str, wanted: str) -> Evaluation:
        typed = coerced(TypedVariable(name, type), wanted)
        assert typed is not None, "a type only grows to one it fits"
        return compile_expression(typed, self.pool)

    def key(self, name: str, type: str, wanted: str) -> Evaluation:
        """Return an evaluation that converts a key column to the type `wanted`, so that equal values have equal bits.

        An integer that no float equals becomes a missing value, which joins with nothing.
        """
        typed = fitted(TypedVariable(name, type), wanted)
        assert typed is not None, "types that never join were refused"
        return compile_expression(typed, self.pool)

    def keys(
        self, pairs: Sequence[tuple[int, int]], left: Sequence[str], right: Sequence[str]
    ) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
        """Return the key columns of both sides of a join. Each is paired with the type in which it is compared."""
        mine, theirs = [], []
        for a, b in pairs:
            type = common_type(left[a], right[b])
            assert type is not None, "types that never join were refused"
            mine.append((a, type))
            theirs.append((b, type))
        return mine, theirs

    def widened_key(
        self, keys: Sequence[tuple[int, str]], types: list[str]
    ) -> tuple[tuple[int, ...], tuple[Evaluation, ...]]:
        """Return the key columns of one side, and the evaluations that convert key columns.

        A column needs conversion if the join compares it in a type that differs from the column's own type. The results
        of the evaluations are appended to the table as further columns.
        """
        places: list[int] = []
        added: list[Evaluation] = []
        for column, type in keys:
            if types[column] == type:
                places.append(column)
            else:
                places.append(len(types) + len(added))
                added.append(self.key(f"v{column}", types[column], type))
        return tuple(places), tuple(added)
