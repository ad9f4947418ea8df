"""The goal of events in a window of ticks. An event holds at the evaluation ticks whose window contains its own tick.

goal(E):  returns each tuple of E, perhaps with its tick, while one of its events is in the window
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cep.core.array_capacity import filled_room
from cep.core.evaluation_ticks import WindowTicks
from cep.core.interval_sets import INFINITE
from cep.core.kernels import njit
from cep.core.relation import END, FIRST, Table, contiguous, empty, rows
from cep.core.time import Frontier
from cep.operators.goals.contract import Arrays, Goal, Ints, demand
from cep.operators.goals.fluents.changes import Changes, decided, due, no_changes, put_changes, put_tuples
from cep.operators.goals.heads import codes_of
from cep.operators.goals.keys import Keys
from cep.operators.goals.lineage import Lineage
from cep.operators.goals.state_tables import NumberedState, StateTable, tuples_of

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.ticks import FirstTick
    from cep.operators.windowed_event import WindowedEvent

COUNT, BEFORE = range(2)
"""Columns of a tuple: the number of its supports, and their number before the current code (-1: unchanged)."""


@njit()
def _passed(opening, closing, until, state, touched, key, code, begins):  # type: ignore[no-untyped-def]
    """Process the beginnings and ends of supports up to the code `until`, and output the changes of tuples.

    - `opening`, `closing`: the queues of beginnings and ends, as rows (code, tuple) sorted by code.
    - `state`: a row for each tuple.
    - `touched`, `key`, `code`, `begins`: buffers that must have room for as many rows as both queues have.

    Return the number of rows processed in each queue, and the number of output changes. A tuple changes at most once
    per code.
    """
    n, m = len(opening), len(closing)
    i = j = written = 0
    while True:
        time = INFINITE
        if i < n:
            time = opening[i, 0]
        if j < m and closing[j, 0] < time:
            time = closing[j, 0]
        if time > until or time >= INFINITE:
            break
        some = 0
        while i < n and opening[i, 0] == time:
            slot = opening[i, 1]
            if state[slot, BEFORE] < 0:
                state[slot, BEFORE] = state[slot, COUNT]
                touched[some] = slot
                some += 1
            state[slot, COUNT] += 1
            i += 1
        while j < m and closing[j, 0] == time:
            slot = closing[j, 1]
            if state[slot, BEFORE] < 0:
                state[slot, BEFORE] = state[slot, COUNT]
                touched[some] = slot
                some += 1
            state[slot, COUNT] -= 1
            j += 1
        for t in range(some):
            slot = touched[t]
            before, now = state[slot, BEFORE] > 0, state[slot, COUNT] > 0
            state[slot, BEFORE] = -1
            if before != now:
                key[written], code[written], begins[written] = slot, time, 1 if now else 0
                written += 1
    return i, j, written


class PassingSupports:
    """Supports of numbered tuples. Both the beginning and the end of a support are known in advance.

    `opening`, `closing`: the queues of beginnings and ends, as rows (code, tuple) sorted by code. A support is in both
    queues until it begins.
    """

    def __init__(self) -> None:
        self.state: Ints = np.empty((0, 2), np.int64)
        self._queues = [_Queue(), _Queue()]

    def put(self, code: Ints, slots: Ints, begins: bool) -> None:
        """Add the beginnings of supports or, if `begins` is False, their ends.

        Codes must not decrease from call to call.
        """
        self._queues[0 if begins else 1].put(code, slots)

    def pass_on(self, until: int, tuples: int) -> Changes:
        """Return the changes of tuples up to the code `until`. `tuples`: the number of known tuples."""
        if until < self.next_change() or self.next_change() >= INFINITE:
            return _NO_CHANGES
        opening, closing = (queue.rows for queue in self._queues)
        known = len(self.state)
        self.state = filled_room(self.state, tuples, 0)
        self.state[known:, BEFORE] = -1
        some = sum(int(rows[:, 0].searchsorted(until, "right")) for rows in (opening, closing) if len(rows))
        changes: Ints = np.empty((4, some), np.int64)
        begun, ended, count = _passed(opening, closing, until, self.state, *changes)
        for queue, gone in zip(self._queues, (begun, ended)):
            queue.drop(gone)
        return Changes(changes[1, :count], changes[2, :count], changes[3, :count])

    def next_change(self) -> int:
        """Return the time code at which a tuple may next change. It is INFINITE if no tuple will change."""
        opening, other = self._queues
        return min(opening.next, other.next)

    @property
    def count(self) -> int:
        """Return the number of beginnings and ends that have not been processed."""
        return sum(len(queue.rows) for queue in self._queues)

    @property
    def nbytes(self) -> int:
        return int(self.state.nbytes + sum(queue.nbytes for queue in self._queues))

    def held(self) -> Ints:
        """Return the numbers of the tuples that have a support."""
        return np.flatnonzero(self.state[:, COUNT])

    def named(self, known: Ints) -> Arrays:
        """Return the state, with the values of tuples (`known`) instead of their numbers.

        The first array contains the tuples that have supports, each after the number of its supports. The other two
        arrays are the queues.
        """
        held = self.held()
        arrays = {"held": np.concatenate([self.state[held, :1], known[held]], axis=1)}
        for name, queue in zip(QUEUES, self._queues):
            arrays[name] = np.concatenate([queue.rows[:, :1], known[queue.rows[:, 1]]], axis=1)
        return arrays

    def become(self, held: Ints, counts: Ints, queues: list[tuple[Ints, Ints]]) -> None:
        """Load a state.

        - `held`: the numbers of tuples that have supports. `counts`: the number of supports of each tuple.
        - `queues`: for beginnings and for ends, the codes and the tuples.
        """
        self.__init__()  # type: ignore[misc]
        tuples = max(
            (int(numbers.max()) + 1 for numbers in (held, *(slots for _, slots in queues)) if len(numbers)), default=0
        )
        self.state = filled_room(self.state, tuples, 0)
        self.state[:, BEFORE] = -1
        self.state[held, COUNT] = counts
        for (code, slots), queue in zip(queues, self._queues):
            queue.put(code, slots)


QUEUES = ("opening", "closing")
_NO_CHANGES = no_changes()


class _Queue:
    """A queue of rows (code, tuple). `next`: the code of the first row, or INFINITE."""

    def __init__(self) -> None:
        self._rows: Ints = np.empty((0, 2), np.int64)
        self._first = self._last = 0
        self.next = INFINITE

    @property
    def rows(self) -> Ints:
        return self._rows[self._first : self._last]

    @property
    def nbytes(self) -> int:
        return int(self._rows.nbytes)

    def put(self, code: Ints, slots: Ints) -> None:
        more = len(code)
        if self._last + more > len(self._rows):
            kept = self.rows
            if 2 * (len(kept) + more) > len(self._rows):
                larger: Ints = np.empty((2 * (len(kept) + more), 2), np.int64)
                larger[: len(kept)] = kept
                self._rows = larger
            else:
                self._rows[: len(kept)] = kept.copy()
            self._first, self._last = 0, len(kept)
        self._rows[self._last : self._last + more, 0] = code
        self._rows[self._last : self._last + more, 1] = slots
        self._last += more
        self._look()

    def drop(self, count: int) -> None:
        self._first += count
        self._look()

    def _look(self) -> None:
        self.next = int(self._rows[self._first, 0]) if self._first < self._last else INFINITE


@dataclass(frozen=True, slots=True)
class PassingSpec:
    """Columns and options of a goal of tuples that hold while their events are in a window.

    - `width`: the number of input columns. `take`: the columns that form a tuple. `codes`: the columns of pool codes.
    - `numbered`: True if the tick is appended to the tuple.
    - `late`: the delay of the input in microseconds. `delay`: the delay of the output rows.
    """

    width: int
    take: tuple[int, ...]
    numbered: bool
    codes: tuple[int, ...]
    late: int
    delay: int = 0

    @property
    def columns(self) -> int:
        """Return the number of columns of a tuple, including the tick if there is one."""
        return len(self.take) + self.numbered


class PassingGoal(NumberedState):
    """The base class of goals whose tuples hold while they have supports, and the end of each support is known in
    advance."""

    def __init__(self, spec: PassingSpec, lineage: Lineage | None = None) -> None:
        self.spec, self.lineage = spec, lineage
        self.columns, self.take = np.arange(spec.columns), FIRST + np.array(spec.take, np.int64)
        self._clear()

    def _clear(self) -> None:
        self.tuples = Keys(self.spec.columns)
        self.passing = PassingSupports()

    def _slots(self, table: Table, ticks: Ints) -> Ints:
        atoms = np.empty((FIRST + self.spec.columns, rows(table)), np.int64)
        atoms[FIRST : FIRST + len(self.take)] = table.take(self.take, axis=0)
        if self.spec.numbered:
            atoms[-1] = ticks
        return self.tuples.slots(atoms, self.columns, groups=True)

    def _pass_on(self, frontier: Frontier) -> Table:
        changes = self.passing.pass_on(decided(frontier, self.spec.late), self.tuples.count)
        if not len(changes.key):
            return empty(self.spec.columns + 1)
        table = np.empty((FIRST + self.spec.columns + 1, len(changes.key)), np.int64)
        put_tuples(table, FIRST, self.tuples.known, changes.key, 0)
        put_changes(table, FIRST + self.spec.columns, changes.code, changes.begins, self.spec.delay)
        if self.lineage is not None:
            self.lineage.name(table)
        return table

    def due(self) -> int | None:
        code = self.passing.next_change()
        return None if code >= INFINITE else due(code, self.spec.late)

    def pending(self) -> int:
        return self.passing.count

    def _numbers(self) -> int:
        return self.tuples.count

    # --- state ---

    def _state(self) -> Arrays:
        return self.passing.named(self.tuples.known)

    def _tables(self) -> dict[str, StateTable]:
        spec = self.spec
        own: dict[str, Any] = {"width": 1 + spec.columns, "codes": tuple(1 + column for column in spec.codes)}
        tables = {name: StateTable(keyed=tuples_of(name, spec.take, first=1), **own) for name in ("held", *QUEUES)}
        return tables | {name: replace(tables[name], order=((name, 0),)) for name in QUEUES}

    def _fits(self, state: Arrays) -> None:
        demand(bool((state["held"][:, 0] > 0).all()))
        for name in QUEUES:
            demand(bool((np.diff(state[name][:, 0]) >= 0).all()))

    def _become(self, state: Arrays) -> None:
        self._clear()
        parts = [self._named(state[name][:, 1:]) for name in ("held", *QUEUES)]
        held, opening, closing = parts
        queues = [(state[name][:, 0], slots) for name, slots in zip(QUEUES, (opening, closing))]
        self.passing.become(held, state["held"][:, 0], queues)

    def _named(self, tuples: Ints) -> Ints:
        table = np.zeros((FIRST + self.spec.columns, len(tuples)), np.int64)
        table[FIRST:] = tuples.T
        return self.tuples.slots(table, self.columns, groups=True)

    def codes(self) -> list[Ints]:
        return [self.tuples.known[:, column] for column in self.spec.codes]

    @property
    def size(self) -> tuple[int, int]:
        return self.passing.count + len(self.passing.held()), int(self.passing.nbytes + self.tuples.nbytes)


class WindowedEventGoal(PassingGoal):
    def __init__(self, spec: PassingSpec, window: WindowTicks, lineage: Lineage | None = None) -> None:
        super().__init__(spec, lineage)
        self.window = window

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        table = contiguous(inputs[0])
        if rows(table):
            ticks = table[END] // self.window.tick
            slots = self._slots(table, ticks)
            self.passing.put(self.window.opens(ticks), slots, True)
            if self.window.last is not None:
                self.passing.put(self.window.closes(ticks), slots, False)
        return self._pass_on(frontier)


def windowed_event_of(node: WindowedEvent, builder: GoalBuilder) -> Goal:
    types = builder.types(node.child)
    codes = codes_of([types[column] for column in node.take])
    spec = PassingSpec(len(types), node.take, node.numbered, codes, node.ticks.late, node.delay)
    return WindowedEventGoal(spec, node.ticks, builder.lineage)


class FirstTickGoal(PassingGoal):
    def __init__(self, width: int, tick: int) -> None:
        super().__init__(PassingSpec(width, (), True, (), tick - 1))
        self.window = WindowTicks(tick, 0, None)

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        table = inputs[0]
        if rows(table) and not self.tuples.count:
            ticks = np.array([int(table[END].min()) // self.window.tick])
            self.passing.put(self.window.opens(ticks), self._slots(table[:, :1], ticks), True)
        return self._pass_on(frontier)


def first_tick_of(node: FirstTick, builder: GoalBuilder) -> Goal:
    return FirstTickGoal(len(builder.types(node.child)), node.tick)
