"""Records of a fluent, as when it begins and ends.

goal(F):  of each tuple the pieces in which it holds that are not over yet; joined, they are maximal intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from cep.core.fluents import BEGINNING as BEGINNING_OF
from cep.core.fluents import BEGINS, BEGINS_AT, ENDING, ENDS, ENDS_AT, GIVEN, KINDS, WHOLE
from cep.core.interval_sets import INFINITE, coalesce
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table, contiguous, empty, rows
from cep.core.time import BEGINNING, END_OF_TIME, Frontier
from cep.core.values import MISSING
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.coded_columns import codes_of
from cep.operators.goals.contract import (
    Arrays,
    Bools,
    Goal,
    Ints,
    StateKeys,
    Translation,
    demand,
    from_arrow,
    restored,
    to_arrow,
)
from cep.operators.goals.keyed_state import NumberedState, Parts
from cep.operators.goals.keys import Keys
from cep.operators.goals.lineage import Lineage

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.recording import Recording

NEVER = 2 * END_OF_TIME


class Pieces(NamedTuple):
    """Columns of one length: the slot of the tuple, codes of the ends (INFINITE: open), the order of arrival and the
    name of the record."""

    slot: Ints
    start: Ints
    end: Ints
    order: Ints
    name: Ints

    def at(self, chosen: Ints | Bools) -> Pieces:
        return Pieces(*(column[chosen] for column in self))

    def with_(self, other: Pieces) -> Pieces:
        return Pieces(*(np.concatenate(both) for both in zip(self, other)))


NO_PIECES = Pieces(*(np.empty(0, np.int64) for _ in range(5)))


@dataclass(frozen=True, slots=True)
class RecordingSpec:
    """`width` argument columns, then end, bounds and start of the records. `codes`: the columns of pool codes;
    `final`: no record closes another; `wanted`: which kinds of rows anything reads."""

    width: int
    codes: tuple[int, ...]
    final: bool = False
    wanted: frozenset[int] = frozenset(range(KINDS))


class RecordingGoal(NumberedState):
    """The goal of one Recording node."""

    def __init__(self, spec: RecordingSpec, lineage: Lineage | None = None) -> None:
        self.spec = spec
        self.lineage = lineage
        self.places = np.arange(spec.width)
        self.keys = Keys(spec.width)
        self.held = NO_PIECES
        self.done = BEGINNING
        self.next = NEVER
        self.latest = BEGINNING

    def begin(self, frontier: Frontier) -> None:
        self.done = frontier.watermark

    def step(self, inputs: Sequence[Table], frontier: Frontier) -> Table:
        records, watermark, width = contiguous(inputs[0]), frontier.watermark, self.spec.width
        slots = self.keys.slots(records, self.places, True, True)
        touched = np.zeros(self.keys.count, np.bool_)
        touched[slots] = True
        touched[self.held.slot[_over(self.held.end, watermark)]] = True
        mine = touched[self.held.slot]
        end, bounds, start = records[FIRST + width : FIRST + width + 3]
        self.latest = max(self.latest, int(end.max(initial=BEGINNING)))
        closing = start != MISSING
        pieces = Pieces(
            slots,
            2 * np.where(closing, start, records[START]) + 1 - (bounds & 1),
            np.where(end == MISSING, INFINITE, 2 * end - 1 + (bounds >> 1 & 1)),
            records[ORDER],
            records[IDENTITY],
        )
        new, closers = pieces.at(~closing), pieces.at(closing)
        held = self.held.at(mine)
        every = held.with_(new) if self.spec.final else _closed(held, new, closers)
        whole = _joined(every)
        ended = _over(whole.end, watermark)
        made = self._edges(whole, (whole.start >> 1) > self.done, ended)
        going = every.at(~ended[_within(every, whole)])
        lasting = going.end == INFINITE
        self.held = self.held.at(~mine).with_(going.at(lasting)).with_(_joined(going.at(~lasting)))
        self.next = min((int(_time(whole.end[~ended]).min()) if (~ended).any() else NEVER), self._least(~mine))
        self.done = max(self.done, watermark)
        return made

    def _least(self, untouched: Bools) -> int:
        ends = self.held.end[: int(untouched.sum())]
        return int(_time(ends).min()) if len(ends) else NEVER

    def _edges(self, whole: Pieces, begins: Bools, ended: Bools) -> Table:
        """The rows that tell of maximal intervals."""
        starts, stops = whole.start >> 1, _time(whole.end)
        opening, closing = 1 - (whole.start & 1), 2 - 2 * (whole.end & 1)
        wanted = self.spec.wanted
        since, until = whole.at(begins), whole.at(ended)
        first, last, begun = starts[begins], stops[ended], starts[ended]
        given: list[tuple[Pieces, Ints, Ints, Ints | int]] = []
        if wanted & {BEGINS, BEGINS_AT}:
            given.append((since, first, first, np.where(opening, BEGINS_AT, BEGINS)[begins]))
        if BEGINNING_OF in wanted:
            given.append((since, first, first, BEGINNING_OF))
        if wanted & {ENDS, ENDS_AT}:
            given.append((until, last, last, np.where(closing, ENDS, ENDS_AT)[ended]))
        if ENDING in wanted:
            given.append((until, last, last, ENDING))
        if WHOLE in wanted:
            given.append((until, begun, last, WHOLE))
        if GIVEN in wanted:
            given.append((until._replace(order=(opening + closing)[ended]), begun, last, GIVEN))
        return self._table(given)

    def _table(self, given: Sequence[tuple[Pieces, Ints, Ints, Ints | int]], named: bool = True) -> Table:
        width = self.spec.width
        bounds = np.cumsum([0, *(len(start) for _, start, _, _ in given)]).tolist()
        table = np.empty((FIRST + width + 1, bounds[-1]), np.int64)
        known = np.ascontiguousarray(self.keys.known.T)
        for (pieces, start, end, what), low, high in zip(given, bounds, bounds[1:]):
            part = table[:, low:high]
            part[START], part[END], part[ORDER], part[IDENTITY] = start, end, pieces.order, pieces.name
            for column in range(width):
                np.take(known[column], pieces.slot, out=part[FIRST + column])
            part[-1] = what
        if self.lineage is not None and named and rows(table):
            records = table[IDENTITY].copy()
            self.lineage.link(self.lineage.name(table), records)
        return by_arrival(table)

    def open(self, ended: bool = True) -> Table:
        """What still holds: its intervals, with an end after every time."""
        whole = _joined(self.held)
        if not len(whole.slot):
            return empty(self.spec.width)
        last = np.full(len(whole.slot), END_OF_TIME)
        bounds = 1 - (whole.start & 1)
        return self._table([(whole._replace(order=bounds), whole.start >> 1, last, GIVEN)], ended)[:-1]

    def due(self) -> int | None:
        """The earliest end that is known."""
        return self.next if self.next < END_OF_TIME else None

    def pending(self) -> int:
        """At most how many intervals end."""
        return int((self.held.end != INFINITE).sum())

    def _numbers(self) -> int:
        return self.keys.count

    def known_open(self) -> tuple[Ints, Ints]:
        """Records without an end: their arguments, a row each, and their starts."""
        held = self.held.at(self.held.end == INFINITE)
        return self.keys.known[held.slot], held.start >> 1

    # --- state ---

    def _state(self) -> Arrays:
        order = np.lexsort((self.held.order, self.held.end, self.held.start, self.held.slot))
        held = self.held.at(order)
        return {
            "tuples": self.keys.known[held.slot],
            "pieces": np.stack(held[1:], axis=1),
            "done": np.array([[self.done]], np.int64),
        }

    def _read(self, batch: pa.RecordBatch) -> Arrays:
        arrays = restored(batch, tuples=self.spec.width, pieces=4, done=1)
        demand(len(arrays["tuples"]) == len(arrays["pieces"]) and len(arrays["done"]) == 1)
        demand(bool((arrays["pieces"][:, 0] <= arrays["pieces"][:, 1]).all()))
        return arrays

    def _become(self, state: Arrays) -> None:
        self.keys = Keys(self.spec.width)
        table = np.zeros((FIRST + self.spec.width, len(state["tuples"])), np.int64)
        table[FIRST:] = state["tuples"].T
        slots = self.keys.slots(table, self.places, True, True)
        self.held = Pieces(slots, *(np.ascontiguousarray(column) for column in state["pieces"].T))
        self.done = int(state["done"][0, 0])
        whole = _joined(self.held)
        self.next = int(_time(whole.end).min()) if len(whole.end) else NEVER
        ends = _time(self.held.end[self.held.end != INFINITE])
        self.latest = int(ends.max(initial=BEGINNING))

    def _taken_apart(self, state: Arrays, keys: StateKeys) -> Parts:
        going = keys.going(0, state["tuples"])
        return Parts(_chosen(state, going), _chosen(state, keys.staying(0, going)), _chosen(state, ~going))

    def _put_together(self, one: Arrays, other: Arrays) -> Arrays:
        return super()._put_together(one, other) | {"done": np.maximum(one["done"], other["done"])}

    def recoded(self, state: pa.RecordBatch, codes: Translation) -> pa.RecordBatch:
        arrays = from_arrow(state)
        for column in self.spec.codes:
            if len(arrays["tuples"]):
                arrays["tuples"][:, column] = codes(arrays["tuples"][:, column])
        return to_arrow(arrays)

    def codes(self) -> list[Ints]:
        return [self.keys.known[:, column] for column in self.spec.codes]

    def coded(self) -> list[Ints]:
        return [self.keys.known[self.held.slot][:, column] for column in self.spec.codes]

    def names(self) -> list[Ints]:
        return [self.held.name]

    @property
    def size(self) -> tuple[int, int]:
        return len(self.held.slot), int(sum(column.nbytes for column in self.held) + self.keys.nbytes)


def _time(end: Ints) -> Ints:
    """The time of an end by its code; of one that is open none that there is."""
    return np.where(end == INFINITE, NEVER, (end + 1) >> 1)


def _over(end: Ints, watermark: int) -> Bools:
    over: Bools = (end != INFINITE) & (_time(end) <= watermark)
    return over


def _numbered(*columns: Ints) -> Ints:
    """A number for each row, in the order of their values and the same for equal ones."""
    order = np.lexsort(columns[::-1])
    changes = np.zeros(len(order), np.bool_)
    for column in columns:
        changes[1:] |= np.diff(column[order]) != 0
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(changes)
    return numbers


def _closed(held: Pieces, new: Pieces, closers: Pieces) -> Pieces:
    """All pieces, where an open one ends that a record of its tuple and start closes: one that came at its instant, or
    of those that came later the one that ends first."""
    every = held.with_(new)
    is_open = every.end == INFINITE
    if not is_open.any() or not (len(closers.slot) or len(new.slot)):
        return every
    n = len(every.slot)
    both = every.with_(closers)
    number = _numbered(both.slot, both.start >> 1)
    first = np.full(int(number.max()) + 1, INFINITE)
    np.minimum.at(first, number[n:], closers.end)
    at_once = np.zeros(len(first), np.bool_)
    at_once[number[len(held.slot) : n][new.end != INFINITE]] = True
    end = np.where(is_open, first[number[:n]], every.end)
    return every._replace(end=end).at(~(is_open & at_once[number[:n]]))


def _joined(pieces: Pieces) -> Pieces:
    """The maximal intervals, each with the order and name of its first piece."""
    made = coalesce(pieces.slot, pieces.start, pieces.end)
    order = np.lexsort((pieces.order, pieces.start, pieces.slot))
    ordered = pieces.at(order)
    if len(made.key) == len(order):  # none meets another
        return Pieces(made.key, made.start, made.end, ordered.order, ordered.name)
    both = _numbered(np.concatenate([ordered.slot, made.key]), np.concatenate([ordered.start, made.start]))
    firsts = np.searchsorted(both[: len(order)], both[len(order) :])
    return Pieces(made.key, made.start, made.end, ordered.order[firsts], ordered.name[firsts])


def _within(pieces: Pieces, whole: Pieces) -> Ints:
    """The maximal interval of each piece."""
    n = len(pieces.slot)
    if len(whole.slot) == n:  # each is one
        place = np.empty(n, np.int64)
        place[np.lexsort((pieces.start, pieces.slot))] = np.arange(n)
        return place
    both = _numbered(np.concatenate([pieces.slot, whole.slot]), np.concatenate([pieces.start, whole.start]))
    return np.searchsorted(both[n:], both[:n], side="right") - 1


def _chosen(state: Arrays, chosen: Bools) -> Arrays:
    return {"tuples": state["tuples"][chosen], "pieces": state["pieces"][chosen], "done": state["done"]}


def recording_of(node: Recording, builder: GoalBuilder, kinds: Iterable[int]) -> Goal:
    """The goal of a node, of whose rows somebody reads those of these kinds."""
    codes = codes_of(builder.types(node.child)[: node.width])
    return RecordingGoal(RecordingSpec(node.width, codes, bool(node.final), frozenset(kinds)), builder.lineage)
