"""The goal of `p WHERE conditions` in formulas, if the conditions query knowledge that changes.

 goal(P):  joins each tuple of p with the answers of the conditions. When a tuple begins or ends, so do its answers.
           When the knowledge changes, the goal ends old answers and begins new ones, for all tuples that hold.

A change of the knowledge at time t applies from t on, including t itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cep.core.array_capacity import filled_room
from cep.core.fluents import BEGINS
from cep.core.interval_sets import INFINITE
from cep.core.relation import END, FIRST, START, Table, bits, concat, empty, rows
from cep.core.stable_order import stable_order
from cep.core.time import Frontier
from cep.operators.goals.contract import (
    Arrays,
    Goal,
    Ints,
    KnowledgeOverTime,
)
from cep.operators.goals.fluents.changes import (
    NOTHING,
    PendingChanges,
    clipped,
    decided,
    due,
    in_order,
    put_changes,
    waiting_table,
)
from cep.operators.goals.heads import codes_of, columns_of
from cep.operators.goals.in_rounds import InRounds
from cep.operators.goals.keys import Keys
from cep.operators.goals.lineage import Lineage
from cep.operators.goals.state_tables import NumberedState, StateTable, tuples_of
from cep.rules.conditions.conditions import Conditions

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.where import Select


@dataclass(frozen=True, slots=True)
class RestrictedSpec:
    """The columns and conditions of a RestrictedGoal.

    - `types`: the types of the input columns. `kind`: the input column with the kind of change.
    - `binds`: the variables that the conditions bind. `bound`: their types.
    - `late`: the delay of the input in microseconds. At watermark w, its changes up to time w - `late` are known.
    """

    types: tuple[str, ...]
    kind: int
    conditions: Conditions
    binds: tuple[str, ...]
    bound: tuple[str, ...]
    late: int

    @property
    def width(self) -> int:
        return len(self.types)

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(column for column in range(self.width) if column != self.kind)


class RestrictedGoal(NumberedState, InRounds):
    """The goal of one Select node of a formula.

    For each tuple that holds, the goal stores the answers of the conditions. These answers come from the knowledge as
    of the time `decided`.
    """

    follows = True

    def __init__(self, spec: RestrictedSpec, knowledge: KnowledgeOverTime, lineage: Lineage | None = None) -> None:
        self.spec, self.knowledge, self.lineage = spec, knowledge, lineage
        self.columns = np.array(spec.columns, np.int64)
        self.waiting = PendingChanges([spec.width], [spec.kind], [spec.late])
        self.decided = NOTHING
        self._clear()

    def _clear(self) -> None:
        self.tuples = Keys(len(self.columns))
        self.holds = np.zeros(0, np.int64)
        self._forget_answers()
        self.waiting.clear()

    def _forget_answers(self) -> None:
        self.first, self.many = np.full(len(self.holds), -1), np.zeros(len(self.holds), np.int64)
        self._answers, self.count = np.empty((0, len(self.spec.binds)), np.int64), 0

    @property
    def answers(self) -> Ints:
        """Return the stored values of the variables that the conditions bind, one row per answer."""
        return self._answers[: self.count]

    def begin(self, frontier: Frontier) -> None:
        self.decided = decided(frontier, self.spec.late)

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        ((table, code, begins),) = self.waiting.take(inputs, frontier)
        until = max(decided(frontier, self.spec.late), self.decided)
        slots, code, begins = in_order(self.tuples.slots(table, self.columns, groups=True), code, begins)
        self._reserve()
        tables: list[Table] = []
        position = 0
        for time in self._changes(self.decided, until):
            stop = int(np.searchsorted(code, 2 * time))
            tables.append(self._changed(slots[position:stop], code[position:stop], begins[position:stop]))
            position = int(np.searchsorted(code, 2 * time, "right"))
            tables.append(self._known_anew(2 * time, slots[stop:position], begins[stop:position]))
        tables.append(self._changed(slots[position:], code[position:], begins[position:]))
        self.decided = until
        joined = concat([piece for piece in tables if rows(piece)] or tables[:1])
        if self.lineage is not None and rows(joined):
            self.lineage.name(joined)
        return joined

    def _changes(self, after: int, until: int) -> list[int]:
        """Return the times at which the knowledge changes. `after`, `until`: time codes; `until` is included."""
        return self.knowledge.changed(after >> 1, until >> 1)

    def _changed(self, slots: Ints, code: Ints, begins: Ints) -> Table:
        """Return the output for changes of tuples. The knowledge must stay the same from the first of these changes to
        the last."""
        if not len(slots):
            return empty(self.spec.width + len(self.spec.binds))
        self._ask(slots, int(code[0]) >> 1)
        order = stable_order(slots)
        state = np.where(
            np.r_[True, slots[order][1:] != slots[order][:-1]], self.holds[slots[order]], 1 - begins[order]
        )
        turns = np.empty(len(slots), np.bool_)
        turns[order] = state != begins[order]  # ends of tuples that do not hold have no effect
        slots, code, begins = slots[turns], code[turns], begins[turns]
        self.holds[slots] = begins  # the last change of each tuple counts
        return self._rows(slots, code, begins)

    def _known_anew(self, code: int, slots: Ints, begins: Ints) -> Table:
        """Return the output for a change of the knowledge: the answers that end, and the answers that begin.

        `slots`, `begins`: the tuples that change at the same time code, and for each 1 if it begins, 0 if it ends.
        """
        before = np.flatnonzero(self.holds[: self.tuples.count])
        ended, went = self._answers_of(before)
        self.holds[slots] = begins
        self._forget_answers()
        after = np.flatnonzero(self.holds[: self.tuples.count])
        self._ask(after, code >> 1)
        begun, gained = self._answers_of(after)
        both = np.concatenate([np.column_stack([ended, went]), np.column_stack([begun, gained])])
        if not len(both):
            return empty(self.spec.width + len(self.spec.binds))
        _, first, times = np.unique(both, axis=0, return_index=True, return_counts=True)
        chosen = np.sort(first[times == 1])
        new = (chosen >= len(ended)).astype(np.int64)
        return self._table(both[chosen, 0], both[chosen, 1:], np.full(len(chosen), code), new)

    def _ask(self, slots: Ints, time: int) -> None:
        """Compute and store the answers of the tuples `slots`, from the knowledge as of `time`."""
        fresh = np.unique(slots[self.first[slots] < 0])
        if not len(fresh):
            return
        table = self._tuples(self.tuples.known[fresh])
        table[START] = table[END] = time
        index, answers = self._answered(table)
        self.first[fresh] = self.count + np.searchsorted(index, np.arange(len(fresh)))
        self.many[fresh] = np.bincount(index, minlength=len(fresh))
        self._answers = filled_room(self._answers, self.count + len(answers), 0)
        self._answers[self.count : self.count + len(answers)] = answers
        self.count += len(answers)

    def _answered(self, table: Table) -> tuple[Ints, Ints]:
        """Return the answers of the conditions for the rows of `table`, as two arrays. The first contains the row index
        of each answer. The second contains the values that the answer binds."""
        named = columns_of(table, self.spec.types, True)
        if not self.spec.binds:
            index = np.flatnonzero(self.spec.conditions.holds(named, rows(table)))
            return index, np.empty((len(index), 0), np.int64)
        index, columns = self.spec.conditions.answers(named, rows(table))
        answers = np.column_stack([bits(columns[name]) for name in self.spec.binds])
        return index, answers.reshape(len(index), len(self.spec.binds))

    def _answers_of(self, slots: Ints) -> tuple[Ints, Ints]:
        many = self.many[slots]
        ends = np.cumsum(many)
        places = np.repeat(self.first[slots] - ends + many, many) + np.arange(int(ends[-1]) if len(ends) else 0)
        return np.repeat(slots, many), self.answers[places]

    def _rows(self, slots: Ints, code: Ints, begins: Ints) -> Table:
        many = self.many[slots]
        of, answers = self._answers_of(slots)
        return self._table(of, answers, np.repeat(code, many), np.repeat(begins, many))

    def _table(self, slots: Ints, answers: Ints, code: Ints, begins: Ints) -> Table:
        table = np.empty((FIRST + self.spec.width + len(self.spec.binds), len(slots)), np.int64)
        table[FIRST + self.columns] = self.tuples.known[slots].T
        table[FIRST + self.spec.width :] = answers.T
        put_changes(table, FIRST + self.spec.kind, code, begins)
        return table

    def _tuples(self, known: Ints) -> Table:
        table = np.zeros((FIRST + self.spec.width, len(known)), np.int64)
        table[FIRST + self.columns] = known.T
        return table

    def _reserve(self) -> None:
        more = self.tuples.count - len(self.holds)
        if more > 0:
            more += len(self.holds)  # doubles, so that it rarely grows
            self.holds = np.concatenate([self.holds, np.zeros(more, np.int64)])
            self.first = np.concatenate([self.first, np.full(more, -1)])
            self.many = np.concatenate([self.many, np.zeros(more, np.int64)])

    # --- in a recursion ---

    def open_stretch(self, first: int, last: int, goes_on: bool = False) -> None:
        self.stretch = (first, last)

    def shrink(self, inputs: Sequence[Table]) -> Table:
        return self.grow(inputs)

    def grow(self, inputs: Sequence[Table]) -> Table:
        """Return the answers of new intervals.

        Each interval is cut where the knowledge changes, because the parts may have different answers.
        """
        first, last = self.stretch
        cuts = [first, *(2 * time for time in self._changes(first, last)), last + 1]
        tables = [self._grown(clipped(inputs[0], since, next - 1)) for since, next in zip(cuts, cuts[1:])]
        return concat(tables)

    def _grown(self, table: Table) -> Table:
        if not rows(table):
            return empty(self.spec.width + len(self.spec.binds))
        asked = table.copy()
        asked[START] = asked[END] = table[START] >> 1
        index, answers = self._answered(asked)
        joined = np.concatenate([table[:, index], answers.T])
        joined[FIRST + self.spec.kind] = BEGINS
        return joined

    def next_change(self) -> int:
        changes = self._changes(self.decided, INFINITE)
        return 2 * changes[0] if changes and self.holds.any() else INFINITE

    # --- time ---

    def due(self) -> int | None:
        waits, changes = self.waiting.due(), self.next_change()
        times = [] if waits is None else [waits]
        times += [] if changes == INFINITE else [due(changes, self.spec.late)]
        return min(times) if times else None

    def pending(self) -> int:
        return self.waiting.count + self.count

    def _numbers(self) -> int:
        return max(self.tuples.count, self.count)

    # --- state ---

    def _state(self) -> Arrays:
        held = np.flatnonzero(self.holds[: self.tuples.count])
        return {
            "tuples": self.tuples.known[held],
            "many": self.many[held].reshape(-1, 1),
            "answers": self._answers_of(held)[1],
            "waiting": self.waiting.state()[0],
            "decided": np.array([[self.decided]], np.int64),
        }

    def _tables(self) -> dict[str, StateTable]:
        spec = self.spec
        mine = codes_of(spec.types)
        codes = tuple(spec.columns.index(column) for column in mine)
        return {
            "tuples": StateTable(
                distinct=True, width=spec.width - 1, keyed=tuples_of("tuples", spec.columns), codes=codes
            ),
            "many": StateTable(width=1, beside="tuples"),
            "answers": StateTable(width=len(spec.binds), counted=("many", 0), codes=codes_of(spec.bound)),
            "waiting": waiting_table("waiting", spec.width, spec.kind, mine),
            "decided": StateTable(width=1, clock=True),
        }

    def _become(self, state: Arrays) -> None:
        self._clear()
        count = len(state["tuples"])
        self.tuples.become(state["tuples"].copy(), count)
        self.holds = np.ones(count, np.int64)
        self.many = state["many"].reshape(-1).copy()
        self.first = np.cumsum(self.many) - self.many
        self._answers, self.count = state["answers"].copy(), len(state["answers"])
        self.waiting.become([state["waiting"]])
        self.decided = int(state["decided"][0, 0])

    def codes(self) -> list[Ints]:
        live = {"tuples": self.tuples.known, "answers": self.answers, "waiting": self.waiting.state()[0]}
        return [array[:, column] for name, array in live.items() for column in self.tables[name].codes]

    @property
    def size(self) -> tuple[int, int]:
        arrays = sum(array.nbytes for array in (self.holds, self.first, self.many, self._answers))
        return int(self.holds.sum()) + self.waiting.count, int(arrays + self.tuples.nbytes)


def restricted_of(node: Select, builder: GoalBuilder, number: int) -> Goal:
    """Return the goal of a Select node whose conditions query knowledge that changes."""
    assert node.kind is not None and node.late is not None and builder.knowledge is not None, "they ask what changes"
    types = tuple(builder.types(node.child))
    conditions = builder.conditions(node.conditions, builder.plan.columns[node.child])
    bound = tuple(builder.types(number)[len(types) :])
    builder.knowledge.follow(node.late)
    spec = RestrictedSpec(types, node.kind, conditions, node.binds, bound, node.late)
    return RestrictedGoal(spec, builder.knowledge, builder.lineage)
