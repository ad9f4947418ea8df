"""Goals without state (scan, select and union), and the goal that derives an event from the heads of its rules."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from copy import copy
from enum import Enum
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, bits, concat, contiguous, empty, rows
from cep.core.time import BEGINNING, Frontier
from cep.operators.goals.arrival import as_set, by_arrival, equal_before, first_places, places, take
from cep.operators.goals.contract import Arrays, Ints, Untimed
from cep.operators.goals.heads import Head, columns_of, project
from cep.operators.goals.in_family import InFamily, by_member, compared
from cep.operators.goals.in_rounds import InRounds
from cep.operators.goals.lineage import DERIVED, Lineage, numbers
from cep.operators.goals.state_tables import DeclaredState, StateTable
from cep.plan.types import TIMES, ColumnType
from cep.rules.conditions.column_tests import Tests, column_tests, equal_to, passing, passing_own
from cep.rules.conditions.conditions import Conditions
from cep.rules.expressions.evaluate import Evaluation, compile_expression, constant_value
from cep.rules.expressions.typed import Typed, TypedConstant, fitted
from cep.rules.terms import Comparison, Condition, Constant, Variable

if TYPE_CHECKING:
    from cep.operators import disjunction, event, where
    from cep.operators.build import GoalBuilder


class Memoryless(Untimed, InRounds, DeclaredState):
    """The part of the goal protocol that is trivial for goals without state.

    `passes_on`: True if the goal returns its input unchanged.
    """

    passes_on = False
    in_time = True

    def open_stretch(self, first: int, last: int, goes_on: bool = False) -> None:
        """Do nothing: the output does not depend on the stretch."""

    def shrink(self, inputs: Sequence[Table]) -> Table:
        return self.grow(inputs)

    def grow(self, inputs: Sequence[Table]) -> Table:
        return self.step(inputs, Frontier.at(BEGINNING))

    @abstractmethod
    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        """See `cep.operators.goals.contract`."""

    def evict(self, frontier: Frontier, wholly: bool = False) -> None:
        """Do nothing: there is no state."""

    def gather(self, members: Sequence[Self]) -> None:
        """Do nothing: there is no state."""

    def divide(self, members: Sequence[Self]) -> None:
        """Do nothing: there is no state."""

    def sizes(self, members: Sequence[Self]) -> Sequence[tuple[int, int]]:
        """Return zeros: there is no state."""
        return [self.size] * len(members)

    def _tables(self) -> dict[str, StateTable]:
        return {}

    def _state(self) -> Arrays:
        return {}

    def _become(self, state: Arrays) -> None:
        """Do nothing: there is no state."""

    @property
    def size(self) -> tuple[int, int]:
        return 0, 0


class ScanGoal(Memoryless, InFamily):
    """The goal of an event scan. It selects occurrences by constants and by equal arguments, and outputs chosen
    arguments."""

    def __init__(
        self,
        constants: Sequence[tuple[int, int | None]],
        equal: Sequence[tuple[Callable[[Table], NDArray[np.bool_]], tuple[int, int]]],
        chosen: Sequence[int],
        width: int,
    ) -> None:
        self.constants = constants
        self.tests = np.array([equal_to(FIRST + place, bits) for place, bits in constants], np.int64).reshape(-1, 5)
        self.equal, self.pairs = [test for test, _ in equal], tuple(pair for _, pair in equal)
        self.rows = np.array([*range(FIRST), *(FIRST + c for c in chosen)], np.int64)
        self.width = width
        self.whole = list(chosen) == list(range(width))
        self.passes_on = self.whole and not constants and not equal

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        table = passed(inputs[0], self.tests)
        for test in self.equal if rows(table) else ():
            table = kept(table, test(table))
        return table if self.whole else table[self.rows]

    def shape(self) -> Hashable:
        return self.pairs, tuple(self.rows.tolist()), self.width, compared(self.tests)

    def united(self, members: Sequence[ScanGoal]) -> ScanGoal:
        goal = copy(self)
        goal.rows, goal.tests = np.append(self.rows, FIRST + self.width), by_member([own.tests for own in members])
        return goal

    def skip_tests(self) -> None:
        self.tests = self.tests[:, :0]


class TickGoal(Memoryless):
    """The goal of a time point. It outputs one occurrence when the watermark reaches the time."""

    in_time = False

    def __init__(self, ticks: int) -> None:
        self.ticks = ticks
        self.done = False

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        if self.done or frontier.watermark < self.ticks:
            return empty(0)
        self.done = True
        return np.array([[self.ticks], [self.ticks], [-1], [0]], np.int64)

    def due(self) -> int | None:
        """Return the time point, or None if it has already been output."""
        return None if self.done else self.ticks

    def pending(self) -> int:
        """Return 1 until the time point was output, then 0."""
        return int(not self.done)

    def begin(self, frontier: Frontier) -> None:
        """Skip the time point if it is not after `frontier`."""
        self.done = self.ticks <= frontier.watermark

    def _tables(self) -> dict[str, StateTable]:
        return {"done": StateTable(width=1, clock=True, ranges={0: (0, 2)})}

    def _state(self) -> Arrays:
        return {"done": np.array([[int(self.done)]], np.int64)}

    def _become(self, state: Arrays) -> None:
        self.done = bool(state["done"][0, 0])


class SelectGoal(Memoryless, InFamily):
    """The goal of conditions. It outputs the occurrences for which the conditions hold. If the conditions bind
    variables, it outputs an occurrence once per answer.

    - `tests`: conditions that compare one column with a constant (see `cep.rules.conditions.column_tests`).
    - `conditions`: all other conditions, compiled. `asked`: the same conditions before they were compiled.
    - `within`: the greatest length of an occurrence in microseconds, or None.
    """

    def __init__(
        self,
        types: Sequence[str],
        tests: Tests,
        conditions: Conditions | None,
        binds: Sequence[str],
        within: int | None,
        asked: Sequence[Condition] = (),
    ) -> None:
        self.asked = tuple(asked)
        self.types = types
        self.tests = tests
        self.conditions = conditions
        self.binds = binds
        self.within = within
        self.lasting = conditions is not None and conditions.asks("duration()")

    def shape(self) -> Hashable:
        return None if self.binds else (tuple(self.types), self.within, self.asked, compared(self.tests))

    def united(self, members: Sequence[SelectGoal]) -> SelectGoal:
        goal = copy(self)
        goal.types, goal.tests = [*self.types, "int"], by_member([own.tests for own in members])
        return goal

    def skip_tests(self) -> None:
        self.tests = self.tests[:, :0]

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        table = passed(inputs[0], self.tests)
        if rows(table) and self.within is not None:
            table = kept(table, table[END] - table[START] <= self.within)
        if self.conditions is None:
            return table
        if not rows(table):
            return empty(len(self.types) + len(self.binds))
        named = columns_of(table, self.types, True, self.lasting)
        if not self.binds:
            return kept(table, self.conditions.holds(named, rows(table)))
        index, answers = self.conditions.answers(named, rows(table))
        wide = take(table, index)
        return np.concatenate([wide, *(bits(answers[name])[None, :] for name in self.binds)], axis=0)


def passed(table: Table, tests: Tests) -> Table:
    """Select the occurrences that pass the tests. In a family, each member has its own tests."""
    if not tests.shape[-2] or not rows(table):
        return table
    table = contiguous(table)
    index = passing(table, tests) if tests.ndim == 2 else passing_own(table, tests)
    return table if len(index) == rows(table) else picked(table, index)


def kept(table: Table, mask: NDArray[np.bool_]) -> Table:
    """Select the occurrences where `mask` is True."""
    count = np.count_nonzero(mask)
    return table if count == len(mask) else picked(table, places(mask) if count else NOWHERE)


def picked(table: Table, index: Ints) -> Table:
    """Select the occurrences at these indices."""
    if not len(index):
        return empty(len(table) - FIRST)
    selected: Table = take(table, index)
    return selected


NOWHERE: Ints = np.empty(0, np.int64)


class UnionGoal(Memoryless):
    """The goal of OR. It outputs the occurrences of both sides, with columns that are converted to common types."""

    def __init__(self, left: Sequence[Evaluation], right: Sequence[Evaluation], types: Sequence[Sequence[str]]) -> None:
        self.sides = (left, right)
        self.types = types

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        tables = [
            project(table, types, side)
            for table, types, side in zip(inputs, self.types, self.sides, strict=True)
            if rows(table)
        ]
        return by_arrival(concat(tables)) if tables else empty(len(self.sides[0]))


class Own(Enum):
    """The ways in which the goal of an event treats equal input records."""

    SET = "equal records are one"
    SEVERAL = "equal records are as many, and nobody asks for their numbers"
    NUMBERED = "equal records are as many, each with a number"
    HANDED = "occurrences of another stage, with the numbers that they have there"


class Project(Memoryless, InFamily):
    """The goal of an event. It outputs the event's input and the results of its rules, as a set.

    Equal occurrences are numbered from 0, and those that have the same number are merged. The numbers are stored in the
    column IDENTITY or, if there is a lineage, in the lineage.

    - `heads`: the heads of the event's rules, in program order.
    - `rules`: the rule number of each head. The lineage records rule numbers if there are several.
    - `own`: how equal input records are treated.
    - `passing`: the rules whose results keep the number of the row that the head reads.
    - `distinct`: True if the results of the heads are already a set.
    """

    def __init__(
        self,
        width: int,
        heads: Sequence[Head],
        rules: Sequence[int],
        own: Own,
        passing: Container[int] = (),
        lineage: Lineage | None = None,
        distinct: bool = False,
    ) -> None:
        self.width = width
        self.own = own
        self.passing = passing
        self.distinct = distinct
        self.bag = False  # True if the results of several rules may contain duplicates
        self.heads = heads
        self.rules = rules
        self.lineage = lineage
        self.several = len(heads) > 1
        self.merged, self.latest_equal, self.looks = 0, BEGINNING, False

    def shape(self) -> Hashable:
        if self.lineage is not None or self.bag:
            return None
        passing = tuple(rule in self.passing for rule in self.rules)
        return self.width, self.own, self.distinct, passing, tuple(tuple(head.types) for head in self.heads)

    def united(self, members: Sequence[Project]) -> Project:
        passing = [place for place, rule in enumerate(self.rules) if rule in self.passing]
        heads = [head.of_family() for head in self.heads]
        return Project(self.width + 1, heads, range(len(heads)), self.own, passing, None, self.distinct)

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        """Combine the event's own input, the first table, with the rows of its heads, one table per head."""
        tables = [self.taken(inputs[0])] if rows(inputs[0]) else []
        by: dict[int, int] = {}
        for table, head, rule in zip(inputs[1:], self.heads, self.rules, strict=True):
            if not rows(table):
                continue
            passes = rule in self.passing
            if self.lineage is not None:
                table = self._named(head(table), self.lineage, passes)
                by[len(tables)] = rule
            else:
                table = head(table) if passes else _unnumbered(head(table))
            tables.append(table)
        if not tables:
            return empty(self.width)
        own = bool(rows(inputs[0]))
        if len(tables) == 1 and (own or self.bag or self.distinct):
            return tables[0]
        if self.bag or (self.distinct and not own):
            return by_arrival(concat(tables))
        unique = self.as_set(tables)
        if self.lineage is not None and self.several:
            self._link(tables, by, unique, self.lineage)
        return unique

    def taken(self, table: Table) -> Table:
        if self.own is Own.SEVERAL and not self.looks:
            return table
        if self.own in (Own.SET, Own.HANDED):
            unique = self.as_set([table])
            self.merged += rows(table) - rows(unique)
            return unique
        before = equal_before(table)
        if before is None:
            return table
        self.latest_equal = max(self.latest_equal, int(table[END, before > 0].max()))
        if self.own is Own.SEVERAL:
            return table
        if self.lineage is not None:
            self.lineage.number(table[IDENTITY], before)
            return table
        table = table.copy()
        table[IDENTITY] = before
        return table

    def as_set(self, tables: Sequence[Table]) -> Table:
        """Merge tables into a set. Of occurrences that are equal and have the same number, the first to arrive is kept.

        If several of them arrive at the same position, the one whose input records arrived first is kept. If several
        come from these records, the kept occurrence gets the constituents of all of them. The lineage then does not
        depend on the order in which goals output these occurrences, which is different in buckets.
        """
        if self.lineage is None:
            return as_set(tables, self.own is not Own.SET)
        whole = by_arrival(concat(tables))
        words = self.numbered(whole)
        first = first_places(words, True)
        if len(first) == rows(whole):
            return whole
        _, kinds, counts = np.unique(words, axis=1, return_inverse=True, return_counts=True)
        kinds = kinds.reshape(-1)
        tied = np.flatnonzero(counts[kinds] > 1)
        tied = tied[np.argsort(kinds[tied], kind="stable")]
        records = self.lineage.places_of(whole[IDENTITY, tied])
        order = np.arange(rows(whole))
        ranked = sorted(range(len(tied)), key=lambda i: (kinds[tied[i]], records[i]))
        order[tied] = tied[ranked]
        same: dict[tuple[object, ...], int] = {}
        firsts = [same.setdefault((kinds[tied[i]], *records[i]), i) for i in ranked]
        self._unite(whole[IDENTITY, tied[firsts]], whole[IDENTITY, tied[ranked]], self.lineage)
        return whole[:, order[first]]

    def _unite(self, names: Ints, others: Ints, lineage: Lineage) -> None:
        """Add the constituents of the occurrences `others` to the corresponding occurrences `names`. Input records get
        no constituents."""
        apart = (names != others) & (names >= DERIVED)
        index, parts = lineage.parts_of(others[apart])
        lineage.link(names[apart][index], parts)

    def numbered(self, table: Table) -> Table:
        if self.lineage is not None or self.own is Own.SET:
            table = table.copy()
            table[IDENTITY] = 0 if self.own is Own.SET else numbers(table, self.lineage)
        return table

    def every(self, inputs: Sequence[Table]) -> Table:
        """Return all occurrences of the inputs, including equal ones, in any order and without new handles."""
        tables = [inputs[0]] if rows(inputs[0]) else []
        tables += [head(table) for table, head in zip(inputs[1:], self.heads, strict=True) if rows(table)]
        return concat(tables) if tables else empty(self.width)

    def without_last(self) -> Project:
        """Return the same goal without its last rule, which another goal evaluates."""
        own, passing = self.own, self.passing
        shorter = Project(self.width, self.heads[:-1], self.rules[:-1], own, passing, self.lineage, self.distinct)
        shorter.several = self.several
        return shorter

    def _named(self, table: Table, lineage: Lineage, passes: bool) -> Table:
        named = table.copy()
        names = lineage.name(named)
        lineage.link(names, table[IDENTITY])
        if passes:
            lineage.pass_on(names, table[IDENTITY])
        return named

    def _link(self, tables: Sequence[Table], by: Mapping[int, int], unique: Table, lineage: Lineage) -> None:
        """Record in the lineage which rules derived each occurrence in `unique`, the merged set.

        `by`: the rule of each table; a table of input records has none.
        """
        whole = concat(tables)
        rules = np.repeat([by.get(i, -1) for i in range(len(tables))], [rows(table) for table in tables])
        names = whole[IDENTITY]
        if rows(unique) < rows(whole):  # equal rows get the name of the one that was kept
            words = np.delete(self.numbered(whole), ORDER, axis=0)
            _, kinds = np.unique(words, axis=1, return_inverse=True)
            kinds = kinds.reshape(-1)
            first = np.isin(names, unique[IDENTITY])
            of = np.empty(rows(whole), np.int64)
            of[kinds[first]] = names[first]
            names = of[kinds]
        derived = (rules >= 0) & (names >= DERIVED)
        lineage.follow(names[derived], rules[derived])


def _unnumbered(table: Table) -> Table:
    if table[IDENTITY].max(initial=0) == 0:
        return table
    table = table.copy()
    table[IDENTITY] = 0
    return table


def scan_of(scan: event.Scan, builder: GoalBuilder) -> ScanGoal:
    attributes = builder.plan.schemas[scan.event].attributes
    constants: list[tuple[int, int | None]] = []
    for position, constant in scan.constants:
        typed = fitted(TypedConstant(constant.value, constant.type), attributes[position].type)
        known = typed is not None and constant_value(typed) is not None
        constants.append((position, _bits(builder, typed) if typed is not None and known else None))
    types = [a.type for a in attributes]
    equal = []
    for left, two in scan.equal:
        test = _test(builder, [Comparison("=", Variable(f"v{left}"), Variable(f"v{two}"))], types)
        equal.append((test, (left, two)))
    return ScanGoal(constants, equal, scan.take, len(attributes))


def constant_bits(builder: GoalBuilder, constant: Constant, type: str) -> int:
    """Return the bits that represent a constant in a column of this type."""
    typed = fitted(TypedConstant(constant.value, constant.type), type)
    assert typed is not None, "constants of another type were refused"
    return _bits(builder, typed)


def _bits(builder: GoalBuilder, typed: Typed) -> int:
    column = compile_expression(typed, builder.pool)({}, 1)
    return int(bits(column)[0])


def _test(
    builder: GoalBuilder, conditions: Sequence[Condition], types: Sequence[str]
) -> Callable[[Table], NDArray[np.bool_]]:
    columns = [ColumnType(type, True) for type in types]
    compiled = builder.conditions(conditions, columns)

    def test(table: Table) -> NDArray[np.bool_]:
        return compiled.holds(columns_of(table, types, True), rows(table))

    return test


def select_of(node: where.Select, builder: GoalBuilder) -> SelectGoal:
    types, columns = builder.types(node.child), builder.plan.columns[node.child]
    named = {f"v{place}": type for place, type in enumerate(types)} | TIMES
    tests, others = column_tests(node.conditions, named, builder.pool, builder.plan.source)
    compiled = builder.conditions(others, columns) if others else None
    return SelectGoal(types, tests, compiled, node.binds, node.within, others)


def union_of(node: disjunction.Union, builder: GoalBuilder, number: int) -> UnionGoal:
    left, right, wanted = node.left, node.right, builder.types(number)
    sides: list[list[Evaluation]] = []
    for child, columns in zip((left, right), zip(*node.pairs()) if wanted else ((), ()), strict=True):
        types = builder.types(child)
        sides.append([builder.converted(f"v{c}", types[c], wanted[i]) for i, c in enumerate(columns)])
    return UnionGoal(sides[0], sides[1], (builder.types(left), builder.types(right)))
