"""The goal of a fluent that reads records of intervals. It merges them into maximal intervals.

goal(F):  stores, for each tuple, the intervals that have not ended; returns the beginnings and ends of their union
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cep.core.array_capacity import filled_room, roomy
from cep.core.fluents import BEGINNING as BEGINNING_OF
from cep.core.fluents import BEGINS, BEGINS_AT, ENDING, ENDS, ENDS_AT, GIVEN, KINDS, WHOLE
from cep.core.interval_sets import INFINITE
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, contiguous, empty, rows
from cep.core.stable_order import ranks, stable_order, stable_order_of
from cep.core.time import BEGINNING, END_OF_TIME, Frontier
from cep.core.values import MISSING
from cep.operators.goals.arrival import by_arrival, take
from cep.operators.goals.contract import (
    Arrays,
    Bools,
    Goal,
    Ints,
    Lasting,
    demand,
)
from cep.operators.goals.fluents.recording_kernel import (
    C_END,
    C_NAME,
    C_ORDER,
    C_START,
    CELLS,
    I_END,
    I_ORDER,
    I_SLOT,
    I_WIDTH,
    N_BEGUN,
    N_ENDED,
    N_HELD,
    N_TIMERS,
    N_WIDTH,
    NEVER,
    NO_PIECES,
    NOTHING,
    T_TIMER,
    T_WIDTH,
    UNTIMED,
    Pieces,
    closed,
    ends_of,
    joined,
    joined_all,
    keep,
    maximal,
    next_end,
    over,
    put_rows,
    set_timers,
    time_by,
    time_of,
    within,
)
from cep.operators.goals.heads import codes_of
from cep.operators.goals.keys import Keys
from cep.operators.goals.lineage import Lineage
from cep.operators.goals.state_tables import NumberedState, StateTable, tuples_of
from cep.operators.goals.value_order import ValueOrder

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.recording import Recording

_OF_BEGINNING, _OF_END = [BEGINS, BEGINNING_OF], [ENDS, ENDING, WHOLE, GIVEN]
_TURN = np.zeros(KINDS, np.int64)
"""The order of output rows that one interval has at the same instant: for each kind of row, its position."""
FEW = 4
"""If there are at most this many known tuples per record of a step, the step scans all tuples."""
_TURN[[BEGINS, BEGINS_AT, BEGINNING_OF, ENDS, ENDS_AT, ENDING, WHOLE, GIVEN]] = [0, 0, 1, 2, 2, 3, 4, 5]


@dataclass(frozen=True, slots=True)
class RecordingSpec:
    """Columns of a recording goal. The input columns are `width` arguments, then the end, bounds and start of a record.

    - `codes`: the columns of pool codes.
    - `order`: the function that computes the order of arrival of ends, from the arguments.
    - `final`: True if no record can end the interval of another record.
    - `wanted`: the kinds of output rows that a reader needs.
    """

    width: int
    codes: tuple[int, ...]
    order: ValueOrder
    final: bool = False
    wanted: frozenset[int] = frozenset(range(KINDS))


class RecordingGoal(NumberedState, Lasting):
    def __init__(self, spec: RecordingSpec, lineage: Lineage | None = None) -> None:
        self.spec = spec
        self.lineage = lineage
        self.places = np.arange(spec.width)
        self.wanted = np.zeros(KINDS, np.bool_)
        self.wanted[list(spec.wanted)] = True
        self.wanted[BEGINS] |= self.wanted[BEGINS_AT]
        self.wanted[ENDS] |= self.wanted[ENDS_AT]
        self.done = BEGINNING
        self._clear()

    def _clear(self) -> None:
        """Start with an empty state.

        Intervals are stored in `cells` while every tuple has at most one interval, and otherwise in `held`.
        """
        self.keys = Keys(self.spec.width)
        self.held = NO_PIECES
        self.next = NEVER
        self.latest = BEGINNING
        self._empty()

    def _empty(self) -> None:
        self.cells, self.timers = np.empty((0, CELLS), np.int64), np.empty((0, T_WIDTH), np.int64)
        self.heap = np.empty((0, 2), np.int64)
        self.counts = np.zeros(N_WIDTH, np.int64)

    def begin(self, frontier: Frontier) -> None:
        self.done = frontier.watermark

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        records, watermark, width = contiguous(inputs[0]), frontier.watermark, self.spec.width
        slots = self.keys.slots(records, self.places, groups=True)
        ends = np.empty((2, rows(records)), np.int64)
        latest, closers, lasting, rising = ends_of(records, width, ends)
        self.latest = max(self.latest, int(latest))
        pieces = Pieces(slots, ends[0], ends[1], records[ORDER], records[IDENTITY])
        if self._one_each(closers + lasting > 0):
            if closers:
                pieces = pieces.at(records[FIRST + width + 2] == MISSING)
            edges = self._step_each(pieces if rising else pieces.at(stable_order(pieces.start)), watermark)
        else:
            edges = self._step_pieces(pieces, records[FIRST + width + 2] != MISSING, watermark)
        self.done = max(self.done, watermark)
        return edges

    def _one_each(self, unfinished: bool) -> bool:
        """Move all intervals to `cells` if every interval can be stored there. Return True if so.

        This requires that every tuple has at most one interval, and that no record can end this interval. `unfinished`:
        True if some new records have no end, or end other records.
        """
        if not self.spec.final and unfinished:
            return False
        if not len(self.held.slot):
            return True
        if not self.spec.final and (self.held.end == INFINITE).any():
            return False
        whole = maximal(self.held.with_(self._current()))
        if not (np.diff(whole.slot) > 0).all():
            return False
        self.held = NO_PIECES
        self._empty()
        self._reserve(len(whole.slot))
        keep(*whole, self.cells, self.timers, self.heap, self.counts)
        return True

    def _reserve(self, more: int) -> None:
        if self.keys.count > len(self.cells):
            cells: Ints = np.zeros((roomy(self.keys.count, 2 * len(self.cells)), CELLS), np.int64)
            timers: Ints = np.zeros((len(cells), T_WIDTH), np.int64)
            cells[:, C_END], timers[:, T_TIMER] = NOTHING, INFINITE
            cells[: len(self.cells)], timers[: len(self.cells)] = self.cells, self.timers
            self.cells, self.timers = cells, timers
        used = int(self.counts[N_HELD if self.counts[N_TIMERS] == UNTIMED else N_TIMERS])
        self.heap = filled_room(self.heap, used + more, 0)

    def _current(self) -> Pieces:
        slots = np.flatnonzero(self.cells[:, C_END] != NOTHING)
        cells = self.cells[slots]
        return Pieces(slots, *(cells[:, place].copy() for place in (C_START, C_END, C_ORDER, C_NAME)))

    def _all(self) -> Pieces:
        return self.held.with_(self._current()) if self.counts[N_HELD] else self.held

    def _step_each(self, pieces: Pieces, watermark: int) -> Table:
        known = self.keys.count
        self._reserve(len(pieces.slot))
        begun: Ints = np.empty((len(pieces.slot), I_WIDTH), np.int64)
        ended: Ints = np.empty((len(pieces.slot) + int(self.counts[N_HELD]), I_WIDTH), np.int64)
        taken = (*pieces, self.done, watermark, self.cells)
        if FEW * len(pieces.slot) >= known:
            joined_all(*taken, known, self.counts, begun, ended)
        else:
            if self.counts[N_TIMERS] == UNTIMED:
                set_timers(self.cells, self.timers, known, self.heap, self.counts)
            joined(*taken, self.timers, self.heap, self.counts, begun, ended)
        begun, ended = begun[: self.counts[N_BEGUN]], ended[: self.counts[N_ENDED]]
        ended[:, I_ORDER] = self._orders(ended[:, I_SLOT])
        self.next = time_of(int(next_end(self.cells, self.timers, self.heap, self.counts)))
        by_end = stable_order_of((ended[:, I_END] + 1) >> 1, ended[:, I_SLOT])
        wanted = self.wanted
        first, last = np.count_nonzero(wanted[_OF_BEGINNING]), np.count_nonzero(wanted[_OF_END])
        table = np.empty((FIRST + self.spec.width + 1, first * len(begun) + last * len(ended)), np.int64)
        if not put_rows(begun, ended, by_end, wanted, self.keys.known, _TURN, table):
            end = table[END]
            table = take(table, stable_order_of(ranks(end), table[START] - end, table[ORDER], _TURN[table[-1]]))
        return self._named(table) if rows(table) else empty(self.spec.width + 1)

    def _orders(self, slots: Ints) -> Ints:
        return self.spec.order(self.keys.known[slots].T)

    def _named(self, table: Table) -> Table:
        if self.lineage is not None:
            records = table[IDENTITY].copy()
            self.lineage.link(self.lineage.name(table), records)
        return table

    def _step_pieces(self, pieces: Pieces, closing: Bools, watermark: int) -> Table:
        """Process records that may have no end, and records that end others.

        `closing`: a mask of the records that end others. The intervals are stored in `held` afterwards.
        """
        if self.counts[N_HELD]:
            self.held = self._all()
        self._empty()
        touched = np.zeros(self.keys.count, np.bool_)
        touched[pieces.slot] = True
        touched[self.held.slot[over(self.held.end, watermark)]] = True
        mine = touched[self.held.slot]
        new, closers = pieces.at(~closing), pieces.at(closing)
        held = self.held.at(mine)
        every = held.with_(new) if self.spec.final else closed(held, new, closers)
        whole = maximal(every)
        ended = over(whole.end, watermark)
        edges = self._edges(whole, (whole.start >> 1) > self.done, ended)
        going = every.at(~ended[within(every, whole)])
        lasting = going.end == INFINITE
        self.held = self.held.at(~mine).with_(going.at(lasting)).with_(maximal(going.at(~lasting)))
        self.next = min((int(time_by(whole.end[~ended]).min()) if (~ended).any() else NEVER), self._least(~mine))
        return edges

    def _least(self, untouched: Bools) -> int:
        ends = self.held.end[: int(untouched.sum())]
        return int(time_by(ends).min()) if len(ends) else NEVER

    def _edges(self, whole: Pieces, begins: Bools, ended: Bools) -> Table:
        """Return the output rows of maximal intervals.

        `whole`: the maximal intervals. `begins`: a mask of the intervals whose beginning is new. `ended`: a mask of the
        intervals that have ended.
        """
        starts, stops = whole.start >> 1, time_by(whole.end)
        opening, closing = 1 - (whole.start & 1), 2 - 2 * (whole.end & 1)
        wanted = self.spec.wanted
        since, until = whole.at(begins), whole.at(ended)
        until = until._replace(order=self._orders(until.slot))
        first, last, begun = starts[begins], stops[ended], starts[ended]
        parts: list[tuple[Pieces, Ints, Ints, Ints | int]] = []
        if wanted & {BEGINS, BEGINS_AT}:
            parts.append((since, first, first, np.where(opening, BEGINS_AT, BEGINS)[begins]))
        if BEGINNING_OF in wanted:
            parts.append((since, first, first, BEGINNING_OF))
        if wanted & {ENDS, ENDS_AT}:
            parts.append((until, last, last, np.where(closing, ENDS, ENDS_AT)[ended]))
        if ENDING in wanted:
            parts.append((until, last, last, ENDING))
        if WHOLE in wanted:
            parts.append((until, begun, last, WHOLE))
        if GIVEN in wanted:
            parts.append((until._replace(order=(opening + closing)[ended]), begun, last, GIVEN))
        return self._table(parts)

    def _table(self, parts: Sequence[tuple[Pieces, Ints, Ints, Ints | int]], named: bool = True) -> Table:
        width = self.spec.width
        bounds = np.cumsum([0, *(len(start) for _, start, _, _ in parts)]).tolist()
        table = np.empty((FIRST + width + 1, bounds[-1]), np.int64)
        known = self.keys.known
        for (pieces, start, end, what), low, high in zip(parts, bounds, bounds[1:]):
            part = table[:, low:high]
            part[START], part[END], part[ORDER], part[IDENTITY] = start, end, pieces.order, pieces.name
            for column in range(width):
                part[FIRST + column] = known[pieces.slot, column]
            part[-1] = what
        if named and rows(table):
            self._named(table)
        return by_arrival(table)

    def open(self, ended: bool = True) -> Table:
        whole = maximal(self._all())
        if not len(whole.slot):
            return empty(self.spec.width)
        last = np.full(len(whole.slot), END_OF_TIME)
        bounds = 1 - (whole.start & 1)
        return self._table([(whole._replace(order=bounds), whole.start >> 1, last, GIVEN)], ended)[:-1]

    def due(self) -> int | None:
        return self.next if self.next < END_OF_TIME else None

    def pending(self) -> int:
        return int((self.held.end != INFINITE).sum() + self.counts[N_HELD])

    def _numbers(self) -> int:
        return self.keys.count

    def known_open(self) -> tuple[Ints, Ints]:
        held = self._all()
        held = held.at(held.end == INFINITE)
        return self.keys.known[held.slot], held.start >> 1

    # --- state ---

    def _state(self) -> Arrays:
        held = self._all()
        held = held.at(np.lexsort((held.order, held.end, held.start, held.slot)))
        return {
            "tuples": self.keys.known[held.slot],
            "pieces": np.stack(held[1:], axis=1),
            "done": np.array([[self.done]], np.int64),
        }

    def _tables(self) -> dict[str, StateTable]:
        width = self.spec.width
        return {
            "tuples": StateTable(width=width, keyed=tuples_of("tuples", range(width)), codes=self.spec.codes),
            "pieces": StateTable(width=4, beside="tuples", handles=(Pieces._fields.index("name") - 1,)),
            "done": StateTable(width=1, clock=True),
        }

    def _fits(self, state: Arrays) -> None:
        demand(bool((state["pieces"][:, 0] <= state["pieces"][:, 1]).all()))

    def _become(self, state: Arrays) -> None:
        self._clear()
        table = np.zeros((FIRST + self.spec.width, len(state["tuples"])), np.int64)
        table[FIRST:] = state["tuples"].T
        slots = self.keys.slots(table, self.places, groups=True)
        self.held = Pieces(slots, *(np.ascontiguousarray(column) for column in state["pieces"].T))
        self.done = int(state["done"][0, 0])
        whole = maximal(self.held)
        self.next = int(time_by(whole.end).min()) if len(whole.end) else NEVER
        ends = time_by(self.held.end[self.held.end != INFINITE])
        self.latest = int(ends.max(initial=BEGINNING))

    def codes(self) -> list[Ints]:
        return [self.keys.known[:, column] for column in self.spec.codes]

    def names(self) -> list[Ints]:
        return [self._all().name]

    @property
    def size(self) -> tuple[int, int]:
        arrays = (*self.held, self.cells, self.timers, self.heap)
        held = len(self.held.slot) + int(self.counts[N_HELD])
        return held, int(sum(array.nbytes for array in arrays) + self.keys.nbytes)


def recording_of(node: Recording, builder: GoalBuilder, number: int, kinds: Iterable[int]) -> Goal:
    """Return the goal of a Recording node.

    `number`: the node's number in the plan. `kinds`: the kinds of output rows that a reader needs.
    """
    types = builder.types(node.child)[: node.width]
    order = builder.order(number, types)
    spec = RecordingSpec(node.width, codes_of(types), order, bool(node.final), frozenset(kinds))
    return RecordingGoal(spec, builder.lineage)
