"""From plan to goals: every node becomes its goal, columns and conditions resolved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cep.core.intervals import RELATIONS
from cep.core.relation import Table, bits, rows
from cep.core.values import Pool
from cep.operators.aggregate import Aggregation
from cep.operators.either import Union
from cep.operators.event import Scan
from cep.operators.goals import relational
from cep.operators.goals.aggregate import AggregateSpec, SlidingAggregate, kind_of
from cep.operators.goals.bytecode import LEFT, RIGHT, Code, compile_stack
from cep.operators.goals.contract import Goal, Ints
from cep.operators.goals.join import Join
from cep.operators.goals.join_spec import JoinSpec
from cep.operators.goals.lineage import Lineage
from cep.operators.goals.linear_recursion import LinearRecursion
from cep.operators.goals.relational import Evaluation, columns_of
from cep.operators.goals.unless import AbsenceDeadline, DeadlineSpec
from cep.operators.goals.widened import Widened, widened
from cep.operators.pair import Join as JoinNode
from cep.operators.unless import Deadline
from cep.operators.where import Select
from cep.plan import types as planned
from cep.plan.plan import Plan
from cep.plan.types import TIMES
from cep.rules.conditions import Conditions, compile_conditions
from cep.rules.evaluate import compile, constant_value
from cep.rules.expressions import check, check_comparison
from cep.rules.relations import Relation
from cep.rules.terms import Comparison, Condition, Variable
from cep.rules.typed import Typed, TypedConstant, TypedVariable, coerced, common_type, fitted

CODED = ("string", "iri", "any")


class Builder:
    """Goals for the nodes of one plan, over one pool and the static relations."""

    def __init__(self, plan: Plan, relations: Mapping[str, Relation], pool: Pool, lineage: Lineage | None) -> None:
        self.plan = plan
        self.relations = relations
        self.pool = pool
        self.lineage = lineage
        self.heads: dict[str, list[int]] = {}
        for number, head in enumerate(plan.heads):
            self.heads.setdefault(head.event, []).append(number)
        self.users = Counter(child for node in plan.nodes for child in node.parts)
        self.users.update(head.child for head in plan.heads)

    def node(self, number: int) -> Goal:
        """The goal of a node."""
        return self.plan.nodes[number].goal(self, number)  # type: ignore[no-any-return]

    def event(self, name: str) -> Goal:
        """The goal that makes the occurrences of an event, of its input and of its heads' tables."""
        heads, rules = [], self.heads.get(name, [])
        for number in rules:
            head, arguments = self.plan.heads[number], self.plan.arguments[number]
            plain: list[int] | None = []
            for argument in arguments:
                if plain is not None and isinstance(argument, TypedVariable):
                    plain.append(int(argument.name[1:]))
                else:
                    plain = None
            optional = self._optional(self.plan.columns[head.child])
            evaluations = [compile(argument, self.pool, optional) for argument in arguments]
            heads.append((self._types(head.child), evaluations, plain))
        return relational.Project(len(self.plan.schemas[name].attributes), heads, rules, self.lineage)

    def chain(self, event: str) -> tuple[LinearRecursion, int, int] | None:
        """The compiled form of a recursive event, where it has one: the goal, the join node it replaces, the head's
        number.

        It has one where its last rule is `x(...) <- x(...) SEQ a(...) WHERE ...`, the key stays the key, and
        conditions and head are arithmetic; and no other rule of it is recursive.
        """
        plan = self.plan
        mine = self.heads[event]
        head = plan.heads[mine[-1]]
        node = plan.nodes[head.child]
        if not isinstance(node, JoinNode) or node.interval_relation != RELATIONS["SEQ"] or node.absent is not None:
            return None
        scan = plan.nodes[node.left]
        width = len(plan.schemas[event].attributes)
        if not isinstance(scan, Scan) or scan.event != event or scan.constants or scan.equal:
            return None
        if self.users[head.child] > 1:
            return None
        spec, decided, widenings = self._join(node)
        if not decided or any(widenings):
            return None
        places = self._places(node)
        programs: list[tuple[Code, Code]] = []
        for position, argument in enumerate(plan.arguments[mine[-1]]):
            made = compile_stack([argument], places, self.pool.code, False)
            if made is None:
                return None
            programs.append(made)
            if position in scan.take and scan.take.index(position) in spec.left_key:
                column = scan.take.index(position)
                if not (isinstance(argument, TypedVariable) and argument.name == f"v{column}"):
                    return None
        if any(scan.take[k] >= width for k in spec.left_key):
            return None
        # The store holds whole events: key and takes are those of the event's own arguments.
        whole = JoinSpec(
            relation="SEQ",
            policy=spec.policy,
            tie=spec.tie,
            within=spec.within,
            point=spec.point,
            left_width=width,
            right_width=spec.right_width,
            left_key=tuple(scan.take[k] for k in spec.left_key),
            right_key=spec.right_key,
            take_left=tuple(range(width)),
            take_right=(),
            left_codes=tuple(i for i, a in enumerate(plan.schemas[event].attributes) if a.type in CODED),
            right_codes=(),
            by=(scan.take[spec.by[0]] if spec.by[0] >= 0 else -1, spec.by[1]),
            by_float=spec.by_float,
            stack=None if spec.stack is None else (_moved(spec.stack[0], scan.take), spec.stack[1]),
        )
        moved = [(_moved(code, scan.take), literals) for code, literals in programs]
        return LinearRecursion(whole, moved, self.lineage, mine[-1]), head.child, mine[-1]

    # --- pieces ---

    def _types(self, number: int) -> list[str]:
        return [column.type for column in self.plan.columns[number]]

    def _optional(self, columns: Sequence[planned.Column]) -> frozenset[str]:
        return frozenset(f"v{i}" for i, column in enumerate(columns) if column.optional)

    def _conditions(self, conditions: Sequence[Condition], columns: Sequence[planned.Column]) -> Conditions:
        types = {f"v{i}": column.type for i, column in enumerate(columns)} | TIMES
        return compile_conditions(conditions, types, self.relations, self.pool, self.plan.source)

    def scan(self, scan: Scan) -> Goal:
        attributes = self.plan.schemas[scan.event].attributes
        constants: list[tuple[int, int | None]] = []
        for position, constant in scan.constants:
            typed = fitted(TypedConstant(constant.value, constant.type), attributes[position].type)
            there = typed is not None and constant_value(typed) is not None
            constants.append((position, self._bits(typed) if typed is not None and there else None))
        types = [a.type for a in attributes]
        equal = []
        for one, two in scan.equal:
            test = self._test([Comparison("=", Variable(f"v{one}"), Variable(f"v{two}"))], types)
            equal.append((test, two))
        return relational.Scan(constants, equal, scan.take, len(attributes))

    def _bits(self, typed: Typed) -> int:
        column = compile(typed, self.pool)({}, 1)
        return int(bits(column)[0])

    def _test(self, conditions: Sequence[Condition], types: Sequence[str]) -> Callable[[Table], NDArray[np.bool_]]:
        columns = [planned.Column(type, True) for type in types]
        compiled = self._conditions(conditions, columns)

        def test(table: Table) -> NDArray[np.bool_]:
            return compiled.holds(columns_of(table, types, True), rows(table))

        return test

    def tick(self, ticks: int) -> Goal:
        return relational.Tick(ticks)

    def select(self, node: Select) -> Goal:
        compiled = self._conditions(node.conditions, self.plan.columns[node.child]) if node.conditions else None
        return relational.Select(self._types(node.child), compiled, node.binds, node.within)

    def join(self, node: JoinNode) -> Goal:
        spec, _, widenings = self._join(node)
        return widened(Join(spec, self.lineage), widenings, [self._types(part) for part in node.parts])

    def union(self, node: Union, number: int) -> Goal:
        left, right, order = node.left, node.right, node.right_columns
        wanted = self._types(number)
        sides: list[list[Evaluation]] = []
        for child, columns in ((left, range(len(order))), (right, order)):
            types = self._types(child)
            sides.append([self._converted(f"v{c}", types[c], wanted[i]) for i, c in enumerate(columns)])
        return relational.Union(sides[0], sides[1], (self._types(left), self._types(right)))

    def _converted(self, name: str, type: str, wanted: str) -> Evaluation:
        typed = coerced(TypedVariable(name, type), wanted)
        assert typed is not None, "a type only grows to one it fits"
        return compile(typed, self.pool)

    def _key(self, name: str, type: str, wanted: str) -> Evaluation:
        """A column converted to be compared by its bits: an int that no float is becomes missing and joins nothing."""
        typed = fitted(TypedVariable(name, type), wanted)
        assert typed is not None, "types that never join were refused"
        return compile(typed, self.pool)

    def _keys(
        self, pairs: Sequence[tuple[int, int]], left: Sequence[str], right: Sequence[str]
    ) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
        """For each key column its place on both sides, and the type in which the two compare."""
        mine, theirs = [], []
        for a, b in pairs:
            type = common_type(left[a], right[b])
            assert type is not None, "types that never join were refused"
            mine.append((a, type))
            theirs.append((b, type))
        return mine, theirs

    def _widened_key(
        self, keys: Sequence[tuple[int, str]], types: list[str]
    ) -> tuple[tuple[int, ...], tuple[Evaluation, ...]]:
        """Key columns, and evaluations to append as columns where the type is another than the column's own."""
        places: list[int] = []
        added: list[Evaluation] = []
        for column, type in keys:
            if types[column] == type:
                places.append(column)
            else:
                places.append(len(types) + len(added))
                added.append(self._key(f"v{column}", types[column], type))
        return tuple(places), tuple(added)

    def deadline(self, node: Deadline) -> Goal:
        left, absent = self._types(node.left), self._types(node.absent)
        mine, theirs = self._keys(node.key, left, absent)
        left_key, left_added = self._widened_key(mine, left)
        absent_key, absent_added = self._widened_key(theirs, absent)
        if left_added:
            # The output is the left side itself; a converted key is dropped again.
            inner = AbsenceDeadline(
                DeadlineSpec(
                    node.duration,
                    len(left) + len(left_added),
                    left_key,
                    absent_key,
                    _codes([*left, *_others(mine, left)]),
                ),
                self.lineage,
            )
            wide = Widened(inner, (left_added, absent_added), (left, absent))
            wide.drop = len(left_added)
            return wide
        spec = DeadlineSpec(node.duration, len(left), left_key, absent_key, _codes(left))
        return widened(AbsenceDeadline(spec, self.lineage), ((), absent_added), (left, absent))

    def aggregation(self, node: Aggregation) -> Goal:
        types = self._types(node.child)
        names = {f"v{i}": type for i, type in enumerate(types)}
        kinds, coded = [], []
        evaluations: list[Evaluation | None] = []
        for k, result in enumerate(node.results):
            if result.argument is None:
                kinds.append(kind_of("count", "", False))
                evaluations.append(None)
                continue
            typed = check(result.argument, names, self.plan.source)
            wanted = typed.type
            if result.function in ("avg", "stddev") or (
                typed.type == "any" and result.function in ("sum", "min", "max")
            ):
                wanted = "float"
            fitted = coerced(typed, wanted)
            assert fitted is not None, "arguments that are no numbers were refused"
            kinds.append(kind_of(result.function, wanted, result.distinct))
            evaluations.append(compile(fitted, self.pool))
            if wanted in CODED:
                coded.append(k)

        def values(table: Table) -> Ints:
            named = columns_of(table, types)
            made = np.zeros((len(evaluations), rows(table)), np.int64)
            for k, evaluate in enumerate(evaluations):
                if evaluate is not None:
                    made[k] = bits(evaluate(named, rows(table)))
            return made

        by_codes = tuple(i for i, c in enumerate(node.by) if types[c] in CODED)
        spec = AggregateSpec(
            node.events or 0, node.duration or 0, node.by, by_codes, tuple(kinds), values, tuple(coded)
        )
        return SlidingAggregate(spec, self.lineage)

    def _places(self, node: JoinNode) -> dict[str, tuple[int, int]]:
        """Output columns as (side, column), for the stack machine."""
        left = len(self.plan.columns[node.left])
        places = {f"v{i}": (LEFT, i) for i in range(left)}
        taken = {r for _, r in node.key}
        own = [r for r in range(len(self.plan.columns[node.right])) if r not in taken]
        return places | {f"v{left + i}": (RIGHT, r) for i, r in enumerate(own)}

    def _join(self, node: JoinNode) -> tuple[JoinSpec, bool, tuple[tuple[Evaluation, ...], ...]]:
        """The join resolved, whether its conditions are the stack machine's (or it has none), and the converted key
        columns that its left, right and absent inputs get appended."""
        plan = self.plan
        left, right = self._types(node.left), self._types(node.right)
        mine, theirs = self._keys(node.key, left, right)
        left_key, left_added = self._widened_key(mine, left)
        right_key, right_added = self._widened_key(theirs, right)
        taken = {r for _, r in node.key}
        places = self._places(node)
        out = [*left, *(right[r] for r in range(len(right)) if r not in taken)]
        absent_key: tuple[int, ...] = ()
        absent_added: tuple[Evaluation, ...] = ()
        absent_from: list[tuple[int, int]] = []
        extra: tuple[list[Evaluation], list[Evaluation]] = ([], [])
        further: tuple[list[str], list[str]] = ([], [])
        if node.absent is not None:
            absent = self._types(node.absent)
            wanted, _ = self._keys(node.absent_key, absent, out)
            absent_key, absent_added = self._widened_key(wanted, absent)
            for (_, type), (_, column) in zip(wanted, node.absent_key, strict=True):
                side, place = places[f"v{column}"]
                types, added = (left, left_added) if side == LEFT else (right, right_added)
                if types[place] != type:
                    extra[side].append(self._key(f"v{place}", types[place], type))
                    further[side].append(type)
                    place = len(types) + len(added) + len(extra[side]) - 1
                absent_from.append((side, place))
        stack, test, decided = None, None, True
        if node.decide:
            compiled = self._conditions(node.decide, [planned.Column(type, True) for type in out])
            if all(isinstance(c, Comparison) for c in node.decide) and not compiled.binds:
                types_out = {f"v{i}": type for i, type in enumerate(out)} | TIMES
                tests = [
                    check_comparison(c, types_out, plan.source) for c in compiled.order if isinstance(c, Comparison)
                ]
                stack = compile_stack(tests, places, self.pool.code, True)
            decided = stack is not None

            def decide(table: Table) -> NDArray[np.bool_]:
                return compiled.holds(columns_of(table, out, True), rows(table))

            test = decide
        by = tuple(-1 if column is None else column for column in node.by)
        by_types = {types[c] for types, c in zip((left, right), node.by, strict=True) if c is not None}
        spec = JoinSpec(
            relation=node.relation,
            policy=node.policy,
            tie=node.tie,
            within=node.within,
            point=plan.points[node.right],
            left_width=len(left) + len(left_added) + len(extra[0]),
            right_width=len(right) + len(right_added) + len(extra[1]),
            left_key=left_key,
            right_key=right_key,
            take_left=tuple(range(len(left))),
            take_right=tuple(r for r in range(len(right)) if r not in taken),
            left_codes=_codes([*left, *_others(mine, left), *further[0]]),
            right_codes=_codes([*right, *_others(theirs, right), *further[1]]),
            absent_key=absent_key,
            absent_from=tuple(absent_from),
            absent=node.absent is not None,
            by=(by[0], by[1]),
            by_float="float" in by_types,
            gap=node.gap,
            stack=stack,
            test=test,
        )
        return spec, decided, ((*left_added, *extra[0]), (*right_added, *extra[1]), absent_added)


def _others(keys: Sequence[tuple[int, str]], types: Sequence[str]) -> list[str]:
    """The types of the key columns that are converted, which are appended."""
    return [type for column, type in keys if types[column] != type]


def _codes(types: Sequence[str]) -> tuple[int, ...]:
    return tuple(i for i, type in enumerate(types) if type in CODED)


def _moved(code: Code, take: Sequence[int]) -> Code:
    """A program over a scan's columns as one over the event's arguments (left sides only)."""
    moved = code.copy()
    for row in moved:
        if row[0] == LEFT:
            row[1] = take[row[1]]
    return moved
