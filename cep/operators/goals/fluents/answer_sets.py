"""The goal of answer sets at each tick. It reads facts, and outputs the atoms that the rules derive.

goal(F):  searches for an answer set whenever a fact begins or ends, and returns the differences

One search serves all ticks with the same facts. Rules that use the number of the tick are searched at every tick.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cep.core.interval_sets import INFINITE
from cep.core.logs import RunWarning
from cep.core.relation import FIRST, Column, Table, bits, empty
from cep.core.schema import CODED
from cep.core.stable_order import stable_order
from cep.core.time import END_OF_TIME, Frontier
from cep.core.values import MISSING, Pool
from cep.events import Value
from cep.operators.goals.contract import (
    Arrays,
    Goal,
    Ints,
    between,
)
from cep.operators.goals.fluents.answer_set_solver import AnswerSetSolver, Derived, Fact, Row, SolverLimits
from cep.operators.goals.fluents.changes import NOTHING, PendingChanges, decided, due, put_changes, waiting_table
from cep.operators.goals.lineage import Lineage
from cep.operators.goals.state_tables import DeclaredState, StateTable
from cep.rules.answer_set_rules import COUNTED, GIVEN_FIRST, AnswerSetRules, AnswerSetTables, Calculation
from cep.rules.expressions.checking import check, check_comparison
from cep.rules.expressions.evaluate import compile_expression
from cep.rules.printing import print_argument
from cep.rules.terms import Comparison, Constant

if TYPE_CHECKING:
    from cep.operators.answer_sets import AnswerSets
    from cep.operators.build import GoalBuilder

Line = tuple[int, ...]
"""The argument columns of a row, as they are stored in tables."""
Told = tuple[Derived | None, int]
"""The content of an output row. It is either a derived atom with the number of its answer set, or None with the count
of all answer sets."""
BEGUN, SEARCHED = range(2)
"""Indices into `AnswerSetGoal.clock`. BEGUN: the first tick of the stream. SEARCHED: the time code of the last search,
or NOTHING before the first search."""


@dataclass(frozen=True, slots=True)
class AnswerSetSpec:
    """Columns and limits of an answer-set operator.

    - `width`: the number of input columns.
    - `take`: the input columns that form a fact of the rules.
    - `kind`: the input column with the kind of change.
    - `every`: True if all answer sets are output.
    """

    width: int
    take: tuple[int, ...]
    kind: int
    rules: AnswerSetRules
    tables: AnswerSetTables
    every: bool
    late: int

    @property
    def given(self) -> int:
        """The number of columns of an output row."""
        return GIVEN_FIRST + len(self.tables.given_types)


class AnswerSetGoal(DeclaredState):
    def __init__(self, spec: AnswerSetSpec, pool: Pool, limits: SolverLimits, lineage: Lineage | None = None) -> None:
        self.spec, self.pool, self.limits, self.lineage = spec, pool, limits, lineage
        self.waiting = PendingChanges([spec.width], [spec.kind], [spec.late])
        self.calculate = calculator(spec.rules.calculations, pool)
        self._clear()

    def _clear(self) -> None:
        self.solver = AnswerSetSolver(self.spec.rules, self.calculate, self._written, self.limits)
        self.asked: dict[Line, Fact] = {}
        """The facts that hold now, by their input row. A fact of predicate 0 only says that the stream has begun."""
        self.lines: dict[Fact, Line] = {}
        """The input row of each fact that the solver knows."""
        self.given: set[Line] = set()
        self.told: dict[Told, Line] = {}
        """The current output rows, by their content. Rows that were loaded from a snapshot are missing."""
        self.last: frozenset[Derived] = frozenset()
        self.clock = [NOTHING, NOTHING]
        self.waiting.clear()

    # --- steps ---

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        ((table, code, begins),) = self.waiting.take(inputs, frontier)
        until = decided(frontier, self.spec.late)
        rows = table[[FIRST + column for column in self.spec.take]].T
        order = stable_order(code)
        changes: list[tuple[int, int, Line]] = []
        for now, places in self._instants(code[order], until, frontier.latest):
            for row in order[places]:
                self._take(tuple(rows[row].tolist()), bool(begins[row]), now)
            if self.clock[BEGUN] != NOTHING:
                changes += [(now, begun, line) for begun, line in self._changes(now)]
            self.clock[SEARCHED] = now
        if until >= INFINITE:
            self.clock[SEARCHED] = INFINITE
        return self._table(changes)

    def _instants(self, code: Ints, until: int, latest: int) -> Iterator[tuple[int, slice]]:
        """Yield the time codes at which to search, each with the slice of the changes at this code.

        - `code`: the time codes of the changes, in ascending order.
        - `until`: the code up to which the input is known.
        - `latest`: the time up to which ticks are evaluated after the end of the input, or END_OF_TIME if it is not
          known.
        """
        position = 0
        alone = until
        if until >= INFINITE:
            alone = 2 * latest + 1 if latest < END_OF_TIME else NOTHING
        while True:
            following = int(code[position]) if position < len(code) else INFINITE
            timed = self._next_tick()
            now = min(following, timed)
            if now >= INFINITE or (position == len(code) and now > alone):
                return
            last = int(np.searchsorted(code, now, "right")) if now == following else position
            yield now, slice(position, last)
            position = last

    def _next_tick(self) -> int:
        """Return the time code of the next tick at which time alone may change the answer set."""
        if not self.spec.rules.follows_ticks or NOTHING in self.clock or self.clock[SEARCHED] >= INFINITE:
            return INFINITE
        ticks = 2 * self.spec.tables.tick
        return (self.clock[SEARCHED] // ticks + 1) * ticks

    def _take(self, line: Line, begins: bool, now: int) -> None:
        if not begins:
            self.asked.pop(line, None)
            return
        self.asked[line] = fact = self._fact(line)
        self.lines[fact] = line
        if fact[0] == 0 and self.clock[BEGUN] == NOTHING:
            self.clock[BEGUN] = now // (2 * self.spec.tables.tick)

    def _changes(self, now: int) -> Iterator[tuple[bool, Line]]:
        """Search at a time code. Yield the output rows that end at this code, each with False, then those that begin,
        each with True."""
        tick = now // (2 * self.spec.tables.tick)
        facts = frozenset(fact for fact in self.asked.values() if fact[0])
        outcome = self.solver.solve(facts, self.last, self.clock[BEGUN], tick, self.spec.every)
        if len(self.lines) > 2 * (len(self.solver.known) + len(self.asked)) + 256:
            kept = {*self.solver.known, *self.asked.values()}
            self.lines = {fact: line for fact, line in self.lines.items() if fact in kept}
        if outcome.late:
            seconds = self.limits.seconds
            text = f"no answer stream was found within {seconds:g} s at tick {tick}: the last one stays; a longer "
            text += "`--solve-limit` may find one"
            warnings.warn(RunWarning("solve_limit", text, tick=tick, seconds=seconds), stacklevel=2)
            return
        if outcome.answers:
            self.last = outcome.answers[0]
        self.told = dict(self._told(outcome.answers))
        lines = set(self.told.values())
        yield from ((False, line) for line in sorted(self.given - lines))
        yield from ((True, line) for line in sorted(lines - self.given))
        self.given = lines

    def _told(self, answers: Sequence[frozenset[Derived]]) -> Iterator[tuple[Told, Line]]:
        count = None, len(answers)
        yield count, self.told.get(count) or self._count(len(answers))
        for place, answer in enumerate(answers, 1):
            number = place if self.spec.every else 0
            for derived in answer:
                yield (derived, number), self.told.get((derived, number)) or self._line(derived, number)

    def _count(self, many: int) -> Line:
        return (COUNTED, many, 0, *self._encoded(filler_values(self.spec.tables.given_types)))

    def _line(self, derived: Derived, number: int) -> Line:
        predicate, values, tick = derived
        places = filler_values(self.spec.tables.given_types)
        for place, value in zip(self.spec.tables.derived[predicate], values, strict=True):
            places[place] = value
        return (2 * predicate + (tick is not None), tick or 0, number, *self._encoded(places))

    def _encoded(self, values: Sequence[Value]) -> list[int]:
        types = self.spec.tables.given_types
        return [int(column_of([value], type, self.pool)[0]) for value, type in zip(values, types, strict=True)]

    def _fact(self, line: Line) -> Fact:
        tables = self.spec.tables
        return line[0], tuple(
            value_of(line[1 + place], tables.asked_types[place], self.pool) for place in tables.asked[line[0]]
        )

    def _written(self, derived: Derived) -> str:
        name = self.spec.rules.derived[derived[0]].name
        values = ", ".join(map(text_of, derived[1]))
        atom = f"{name}({values})" if values else name
        return atom if derived[2] is None else f"{atom}@{derived[2]}"

    def _table(self, changes: Sequence[tuple[int, int, Line]]) -> Table:
        if not changes:
            return empty(self.spec.given + 1)
        table = np.empty((FIRST + self.spec.given + 1, len(changes)), np.int64)
        table[FIRST:-1] = np.array([line for _, _, line in changes], np.int64).T
        code, begins = (np.array([change[column] for change in changes], np.int64) for column in range(2))
        put_changes(table, FIRST + self.spec.given, code, begins)
        if self.lineage is not None:
            self.lineage.name(table)
        return table

    def due(self) -> int | None:
        times = [self.waiting.due()]
        following = self._next_tick()
        if following < INFINITE:
            times.append(due(following, self.spec.late))
        return min((time for time in times if time is not None), default=None)

    def pending(self) -> int:
        return 2 * self.waiting.count + len(self.given)

    def evict(self, frontier: Frontier, wholly: bool = False) -> None:
        """Do nothing: facts are dropped when they end."""

    # --- state ---

    def _state(self) -> Arrays:
        last = [self._line(derived, 0) for derived in sorted(self.last, key=self._written)]
        known = [self.lines[fact] for fact in self.solver.known]
        return {
            "asked": _matrix(list(self.asked), len(self.spec.take)),
            "waiting": self.waiting.state()[0],
            "given": _matrix(sorted(self.given), self.spec.given),
            "last": _matrix(last, self.spec.given),
            "known": _matrix(known, len(self.spec.take)),
            "clock": np.array([self.clock], np.int64),
        }

    def _fits(self, state: Arrays) -> None:
        between(state["asked"][:, 0], 0, len(self.spec.rules.inputs))
        between(state["known"][:, 0], 0, len(self.spec.rules.inputs))
        between(state["last"][:, 0], 0, 2 * len(self.spec.rules.derived))

    def _become(self, state: Arrays) -> None:
        self._clear()
        for line in map(tuple, state["known"].tolist()):
            fact = self._fact(line)
            self.lines[fact] = line
        self.solver.become(list(self.lines))
        for line in map(tuple, state["asked"].tolist()):
            self.asked[line] = fact = self._fact(line)
            self.lines[fact] = line
        self.given = set(map(tuple, state["given"].tolist()))
        self.last = frozenset(self._derived(line) for line in state["last"].tolist())
        self.clock = state["clock"][0].tolist()
        self.waiting.become([state["waiting"]])

    def _derived(self, line: Sequence[int]) -> Derived:
        predicate, pinned = divmod(line[0], 2)
        tables = self.spec.tables
        values = (
            value_of(line[GIVEN_FIRST + place], tables.given_types[place], self.pool)
            for place in tables.derived[predicate]
        )
        return predicate, tuple(values), line[1] if pinned else None

    def _tables(self) -> dict[str, StateTable]:
        tables, take, width = self.spec.tables, self.spec.take, self.spec.width
        asked = tuple(1 + place for place, type in enumerate(tables.asked_types) if type in CODED)
        coded = tuple(GIVEN_FIRST + place for place, type in enumerate(tables.given_types) if type in CODED)
        waiting = waiting_table("waiting", width, self.spec.kind, [take[column] for column in asked])
        return {
            "asked": StateTable(width=len(take), codes=asked),
            "waiting": replace(waiting, keyed=()),
            "given": StateTable(width=self.spec.given, codes=coded),
            "last": StateTable(width=self.spec.given, codes=coded),
            "known": StateTable(width=len(take), codes=asked),
            "clock": StateTable(width=2, clock=True),
        }

    @property
    def size(self) -> tuple[int, int]:
        count = len(self.asked) + len(self.given) + self.waiting.count
        return count, 100 * count + 100 * len(self.solver.known)


def _matrix(lines: Sequence[Line], width: int) -> Ints:
    return np.array(lines, np.int64).reshape(len(lines), width)


# --- values ---


def filler_values(types: Sequence[str]) -> list[Value]:
    """Return one value of each type. These values fill table cells that have no content."""
    fillers: dict[str, Value] = {"string": "", "float": 0.0, "bool": False}
    return [fillers.get(type, 0) for type in types]


def value_of(number: int, type: str, pool: Pool) -> Value:
    """Convert the integer that a table stores to a Python value of this type."""
    if type in CODED:
        return pool.value(number)
    if type == "float":
        return float(np.int64(number).view(np.float64))
    return bool(number) if type == "bool" else number


def column_of(values: Sequence[Any], type: str, pool: Pool) -> Column:
    """Convert Python values to a table column. Floats become their bits."""
    if type in CODED:
        return pool.encode_values(values)
    if type == "float":
        return bits(np.array(values, np.float64))
    return np.array(values, np.int64)


def text_of(value: Value) -> str:
    return str(value) if not isinstance(value, str) else print_argument(Constant(value, "string"))


def calculator(calculations: Sequence[Calculation], pool: Pool) -> Callable[[int, Row], Value]:
    """Return a function that evaluates the calculations of rules.

    The returned function takes the number of a calculation, and the values of the calculation's variables.
    """
    known: dict[tuple[int, Row], Value] = {}
    compiled = []
    for calculation in calculations:
        types = dict(zip(calculation.variables, calculation.types, strict=True))
        typed = (
            check_comparison(calculation.of, types)
            if isinstance(calculation.of, Comparison)
            else check(calculation.of, types)
        )
        compiled.append((calculation, typed.type, compile_expression(typed, pool)))

    def calculate(number: int, values: Row) -> Value:
        key = (number, values)
        if key not in known:
            expression, type, evaluate = compiled[number]
            columns = {
                name: np.array([value], np.float64) if type == "float" else column_of([value], type, pool)
                for name, type, value in zip(expression.variables, expression.types, values, strict=True)
            }
            answer = evaluate(columns, 1)
            if len(known) > 100_000:
                known.clear()
            known[key] = _single(answer, type, pool)
        return known[key]

    return calculate


def _single(column: Column, type: str, pool: Pool) -> Value:
    if column.dtype == np.float64:
        return None if np.isnan(column[0]) else float(column[0])
    number = int(column[0])
    if number == MISSING:
        return None
    return number if type == "bool" else value_of(number, type, pool)


def answer_sets_of(node: AnswerSets, builder: GoalBuilder) -> Goal:
    width = len(builder.types(node.child))
    spec = AnswerSetSpec(width, node.take, node.kind, node.rules, node.tables, node.every, node.late)
    return AnswerSetGoal(spec, builder.pool, SolverLimits(node.seconds), builder.lineage)
