"""The specification of a join, in which variables are replaced by columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cep.core import interval_relations
from cep.core.relation import Table, rows
from cep.operators.goals.heads import codes_of, columns_of, others
from cep.operators.goals.pairs import pairing
from cep.operators.goals.pairs.bytecode import LEFT, RIGHT, Code, compile_stack
from cep.operators.goals.pairs.pairing import bounds_of
from cep.operators.goals.store import FOREVER
from cep.plan.join_conditions import ORDERS, searched
from cep.plan.types import TIMES, ColumnType
from cep.rules.expressions.checking import check
from cep.rules.expressions.evaluate import Evaluation, compile_expression
from cep.rules.expressions.typed import TypedVariable
from cep.rules.terms import (
    Comparison,
    Condition,
    as_expression,
    each_condition,
    expression_variables,
)

Ints = NDArray[np.int64]

if TYPE_CHECKING:
    from cep.operators import pair
    from cep.operators.build import GoalBuilder


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """A join, in which variables are replaced by columns.

    - `left_key`, `right_key`: the argument columns of the two sides that must be equal: first those of shared
      variables, then those of equations that are part of the key.
    - `take_left`, `take_right`: the output columns of each side.
    - `within`: the greatest length of a pair in microseconds. It is None if there is no limit.
    - `point`: True if every occurrence on the right side is an instant.
    - `gap`: the bounds of `SEQ[g, h]`.
    - `by`: the column of each side that `recent(by V)` compares, or -1.
    - `absent_key`: the key columns of the negated side.
    - `absent_from`: for each column in `absent_key`, the column that it must equal: (0, column of the left side) or
      (1, column of the right side).
    - `orders`: inequalities that the search for partners uses (see `cep.plan.join_conditions`).
    - `tested`: the conditions that the search does not use.
    - `stack`: the conditions in `tested` as bytecode for the kernel.
    - `test`: the conditions in `tested` as a function of a table, if there is no bytecode, or if the policy chooses a
      partner before they are tested.
    """

    relation: str
    policy: str
    tie: str
    within: int | None
    point: bool
    left_width: int
    right_width: int
    left_key: tuple[int, ...]
    right_key: tuple[int, ...]
    take_left: tuple[int, ...]
    take_right: tuple[int, ...]
    left_codes: tuple[int, ...]
    right_codes: tuple[int, ...]
    absent_key: tuple[int, ...] = ()
    absent_from: tuple[tuple[int, int], ...] = ()
    absent: bool = False
    by: tuple[int, int] = (-1, -1)
    by_float: bool = False
    gap: tuple[int, int] | None = None
    orders: tuple[tuple[int, int, int, bool], ...] = ()
    tested: tuple[Condition, ...] = ()
    stack: tuple[Code, Code] | None = field(default=None, compare=False)
    test: Callable[[Table], NDArray[np.bool_]] | None = field(default=None, compare=False)

    @property
    def absence(self) -> int:
        """Return how the kernel must test the negated side: one of the cases of `cep.operators.goals.pairs.pairing`."""
        if not self.absent:
            return pairing.NO_ABSENCE
        # Find what provides every column of the negated key: the join key, the right, the left, or only both together.
        right_of = dict(zip(self.left_key, self.right_key, strict=True))
        left_of = {r: left for left, r in right_of.items()}
        common = all(c in right_of if side == 0 else c in left_of for side, c in self.absent_from)
        if common:
            return pairing.ABSENT_COMMON
        if all(side == 1 or c in right_of for side, c in self.absent_from):
            return pairing.ABSENT_RIGHT
        if all(side == 0 or c in left_of for side, c in self.absent_from):
            return pairing.ABSENT_LEFT
        return pairing.ABSENT_BOTH

    def of_family(self) -> JoinSpec:
        """Return the specification of a family's join (see `cep.operators.goals.in_family`).

        The member becomes part of the join key. It also becomes an additional output column, which is copied from the
        right side.
        """
        left, right = self.left_width, self.right_width
        return replace(
            self,
            left_width=left + 1,
            right_width=right + 1,
            left_key=(*self.left_key, left),
            right_key=(*self.right_key, right),
            take_right=(*self.take_right, right),
        )

    def numbers(self, external: bool, keep_right: bool, supersedes: bool, reach_left: int, reach_right: int) -> Ints:
        """Return an array of numbers that describes the join, for the kernels (`pair_input`).

        - `external`: True if the caller chooses the partner, not the kernel.
        - `keep_right`: True if right rows are stored too.
        - `supersedes`: True if a newer left row replaces older ones of its key.
        - `reach_left`, `reach_right`: how long after its end a stored row can find partners, in microseconds.
        """
        relation = interval_relations.relation_named(self.relation, self.gap)
        least_gap, most_gap = relation.gap
        numbers = np.zeros(pairing.SPEC, np.int64)
        for place, value in (
            (pairing.S_POLICY, pairing.POLICIES["unrestricted" if external else self.policy]),
            (pairing.S_TIE, pairing.TIES[self.tie]),
            (pairing.S_WITHIN, FOREVER if self.within is None else self.within),
            (pairing.S_POINT, int(self.point)),
            (pairing.S_STORE_RIGHT, int(keep_right)),
            (pairing.S_ABSENCE, self.absence),
            (pairing.S_BY_LEFT, self.by[0]),
            (pairing.S_BY_RIGHT, self.by[1]),
            (pairing.S_BY_FLOAT, int(self.by_float)),
            (pairing.S_WIDTH_LEFT, self.left_width),
            (pairing.S_WIDTH_RIGHT, self.right_width),
            (pairing.S_SUPERSEDES, int(supersedes)),
            (pairing.S_REACH_LEFT, reach_left),
            (pairing.S_REACH_RIGHT, reach_right),
            (pairing.S_LEAST_GAP, least_gap),
            (pairing.S_MOST_GAP, most_gap),
            *enumerate(bounds_of(relation), pairing.S_BOUNDS),
            (pairing.S_ORDERS, len(self.orders)),
            *enumerate((int(cell) for order in self.orders for cell in order), pairing.S_ORDERS + 1),
        ):
            numbers[place] = value
        return numbers


def places_of(node: pair.Join, builder: GoalBuilder) -> dict[str, tuple[int, int]]:
    """Return, for the bytecode, the side and the column from which each output column is copied."""
    left = len(builder.plan.columns[node.left])
    places = {f"v{i}": (LEFT, i) for i in range(left)}
    return places | {f"v{left + i}": (RIGHT, column) for i, column in enumerate(node.own)}


def spec_of(
    node: pair.Join, builder: GoalBuilder, matching: bool = True
) -> tuple[JoinSpec, bool, tuple[tuple[Evaluation, ...], ...]]:
    """Return three values: the specification of a join, True if the kernel can test the join's conditions, and the
    evaluations that convert key columns.

    There is one tuple of evaluations for each input: the left, the right and the negated one. The results are appended
    to the input as columns. `matching`: True if conditions may become keys.
    """
    plan = builder.plan
    left, right = builder.types(node.left), builder.types(node.right)
    mine, theirs = builder.keys(node.key, left, right)
    left_key, left_added = builder.widened_key(mine, left)
    right_key, right_added = builder.widened_key(theirs, right)
    keys = [*left_key], [*right_key]
    compared = searched(node.between, left, right, node.own, plan.source) if matching else {}
    places = places_of(node, builder)
    out = [*left, *(right[column] for column in node.own)]
    absent_key: tuple[int, ...] = ()
    absent_added: tuple[Evaluation, ...] = ()
    absent_from: list[tuple[int, int]] = []
    extra: tuple[list[Evaluation], list[Evaluation]] = ([], [])
    further: tuple[list[str], list[str]] = ([], [])
    orders: list[tuple[int, int, int, bool]] = []
    for operator, *both in compared.values():
        columns = []
        for typed, types, added, own, kinds in zip(both, (left, right), (left_added, right_added), extra, further):
            if isinstance(typed, TypedVariable):
                columns.append(int(typed.name[1:]))
                continue
            columns.append(len(types) + len(added) + len(own))
            own.append(compile_expression(typed, builder.pool))
            kinds.append(typed.type)
        if operator == "=":
            keys[0].append(columns[0])
            keys[1].append(columns[1])
        else:
            orders.append((ORDERS.index(operator), columns[0], columns[1], both[0].type == "float"))
    if node.absent is not None:
        absent = builder.types(node.absent)
        wanted, _ = builder.keys(node.absent_key, absent, out)
        absent_key, absent_added = builder.widened_key(wanted, absent)
        for (_, type), (_, column) in zip(wanted, node.absent_key, strict=True):
            side, place = places[f"v{column}"]
            types, added = (left, left_added) if side == LEFT else (right, right_added)
            if types[place] != type:
                extra[side].append(builder.key(f"v{place}", types[place], type))
                further[side].append(type)
                place = len(types) + len(added) + len(extra[side]) - 1
            absent_from.append((side, place))
    stack, test, decided = None, None, True
    tested = [condition for condition in node.decide if condition not in compared]
    if tested:
        compiled = builder.conditions(tested, [ColumnType(type, True) for type in out])
        if all(isinstance(c, Comparison) for c in each_condition(tested)) and not compiled.binds:
            types_out = {f"v{i}": type for i, type in enumerate(out)} | TIMES
            calls = [call for c in compiled.order if (call := as_expression(c)) is not None]
            if all(name in types_out for call in calls for name in expression_variables(call)):
                stack = compile_stack(
                    [check(call, types_out, plan.source) for call in calls], places, builder.pool.code, True
                )
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
        left_key=tuple(keys[0]),
        right_key=tuple(keys[1]),
        take_left=tuple(range(len(left))),
        take_right=tuple(node.own),
        left_codes=codes_of([*left, *others(mine, left), *further[0]]),
        right_codes=codes_of([*right, *others(theirs, right), *further[1]]),
        absent_key=absent_key,
        absent_from=tuple(absent_from),
        absent=node.absent is not None,
        by=(by[0], by[1]),
        by_float="float" in by_types,
        gap=node.gap,
        orders=tuple(orders),
        tested=tuple(tested),
        stack=stack,
        test=test,
    )
    return spec, decided, ((*left_added, *extra[0]), (*right_added, *extra[1]), absent_added)
