"""State by key: the rows of a store taken apart by key, and put together again.

A state is arrays as a snapshot has them: rows, and the keys that they name by number (`cep.operators.goals.store`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cep.core.time import Frontier
from cep.operators.goals.contract import Arrays, Bools, Ints, KeyedRows, StateKeys, Translation, to_arrow
from cep.operators.goals.store import ARRIVAL, BEGIN, END, HEADER, OTHER, SIDE, SLOT

ABSENT = 2
"""The input of a join that must not occur between."""


class KeyedState(ABC):
    """The part of the contract that is about the state as a whole and by key. An operator says how its state becomes
    arrays and back, how these are taken apart by key, and, where it is not their rows one after the other, how they
    are put together."""

    @abstractmethod
    def _state(self) -> Arrays:
        """The state as the arrays of its snapshot."""

    @abstractmethod
    def _read(self, batch: pa.RecordBatch) -> Arrays:
        """The arrays of a snapshot of the same operator. CepError: it cannot be one."""

    @abstractmethod
    def _become(self, state: Arrays) -> None:
        """Take these arrays on as the state."""

    @abstractmethod
    def evict(self, frontier: Frontier, wholly: bool = False) -> None:
        """See `cep.operators.goals.contract`."""

    @abstractmethod
    def _taken_apart(self, state: Arrays, keys: StateKeys) -> Parts:
        """These arrays by key."""

    def _put_together(self, one: Arrays, other: Arrays) -> Arrays:
        """The arrays of two states that have no key in common as those of one."""
        return {name: np.concatenate([one[name], other[name]]) for name in one}

    def begin(self, frontier: Frontier) -> None:  # noqa: B027
        """See `cep.operators.goals.contract`. Without occurrences there is nothing that time alone would make."""

    def snapshot(self) -> pa.RecordBatch:
        """See `cep.operators.goals.contract`."""
        return to_arrow(self._state())

    def restore(self, batch: pa.RecordBatch) -> None:
        """See `cep.operators.goals.contract`."""
        self._become(self._read(batch))

    def extract(self, keys: StateKeys) -> pa.RecordBatch:
        """See `cep.operators.goals.contract`."""
        parts = self._taken_apart(self._state(), keys)
        self._become(parts.staying)
        return to_arrow(parts.going)

    def replace(self, keys: StateKeys, state: pa.RecordBatch) -> None:
        """See `cep.operators.goals.contract`."""
        given = self._read(state)
        self._become(self._put_together(self._taken_apart(self._state(), keys).others, given))

    def as_arrays(self) -> Arrays:
        """See `cep.operators.goals.contract`."""
        return self._state()

    def needed_arrays(self, frontier: Frontier) -> Arrays:
        """See `cep.operators.goals.contract`."""
        self.evict(frontier, wholly=True)
        return self._state()

    def become_arrays(self, state: Arrays) -> None:
        """See `cep.operators.goals.contract`."""
        self._become(state)

    def part(self, state: Arrays, keys: StateKeys) -> Arrays:
        """See `cep.operators.goals.contract`."""
        return self._taken_apart(state, keys).going

    def others(self, state: Arrays, keys: StateKeys) -> Arrays:
        """See `cep.operators.goals.contract`."""
        return self._taken_apart(state, keys).others

    def together(self, one: Arrays, other: Arrays) -> Arrays:
        """See `cep.operators.goals.contract`."""
        return self._put_together(one, other)

    def rows_by_key(self, state: Arrays, keys: StateKeys) -> list[KeyedRows] | None:
        """See `cep.operators.goals.contract`. An operator that can tell says so."""
        return None


class StoredState(KeyedState):
    """A state that is a store."""

    def _taken_apart(self, state: Arrays, keys: StateKeys) -> Parts:
        return taken_apart(state, keys)

    def _put_together(self, one: Arrays, other: Arrays) -> Arrays:
        return put_together(one, other)

    def rows_by_key(self, state: Arrays, keys: StateKeys) -> list[KeyedRows]:
        """See `cep.operators.goals.contract`."""
        return stored_rows(state, keys)


class NumberedState(KeyedState):
    """A state of keys or tuples by number. Of many nothing is kept after a while: when the numbers given are some
    eight times the rows kept, all that is kept gets new ones."""

    watched = 1024
    """From how many numbers on the state is looked at."""

    @abstractmethod
    def _numbers(self) -> int:
        """How many numbers were given, of the kind that has most."""

    @property
    @abstractmethod
    def size(self) -> tuple[int, int]:
        """See `cep.operators.goals.contract`."""

    def needed_arrays(self, frontier: Frontier) -> Arrays:
        """See `cep.operators.goals.contract`. Numbers that stand for nothing are not among the arrays."""
        return self._state()

    def evict(self, frontier: Frontier, wholly: bool = False) -> None:
        """See `cep.operators.goals.contract`."""
        given = self._numbers()
        if not wholly:
            if given <= self.watched:
                return
            self.watched = max(8 * self.size[0], given + (given >> 2))  # what a look costs, new numbers pay for
            if given <= 8 * self.size[0]:
                return
        self._become(self._state())
        self.watched = max(1024, 8 * self._numbers())


@dataclass(frozen=True, slots=True)
class Parts:
    """A state by key, each part made when it is asked for: what goes with some keys; what stays when they go, and of it
    what is of other keys alone."""

    _going: Callable[[], Arrays]
    _staying: Callable[[], Arrays]
    _others: Callable[[], Arrays]

    @property
    def going(self) -> Arrays:
        return self._going()

    @property
    def staying(self) -> Arrays:
        return self._staying()

    @property
    def others(self) -> Arrays:
        return self._others()

    @classmethod
    def chosen(cls, choose: Callable[[Bools], Arrays], keys: StateKeys, side: int, going: Bools) -> Parts:
        """Of an input's rows, of which these are going."""
        return cls(lambda: choose(going), lambda: choose(keys.staying(side, going)), lambda: choose(~going))

    @classmethod
    def made(cls, going: Arrays, staying: Arrays, others: Arrays) -> Parts:
        return cls(lambda: going, lambda: staying, lambda: others)


def taken_apart(state: Arrays, keys: StateKeys) -> Parts:
    """The rows of a store by key."""
    cold = state["cold"]
    going, staying = np.zeros(len(cold), np.bool_), np.zeros(len(cold), np.bool_)
    for side in np.unique(cold[:, SIDE]).tolist():
        mine = cold[:, SIDE] == side
        going[mine] = keys.going(side, cold[mine, HEADER:])
        staying[mine] = keys.staying(side, going[mine])
    if "absent_keys" not in state:
        return Parts(lambda: chosen(state, going), lambda: chosen(state, staying), lambda: chosen(state, ~going))
    watched = len(keys.columns) > ABSENT
    known = state["absent_keys"][state["absent_cold"][:, SLOT]]
    away = keys.going(ABSENT, known) if watched else np.zeros(len(known), np.bool_)
    stays = keys.staying(ABSENT, away) if watched else ~away
    return Parts(
        lambda: chosen(state, going, away),
        lambda: chosen(state, staying, stays),
        lambda: chosen(state, ~going, ~away),
    )


def stored_rows(state: Arrays, keys: StateKeys) -> list[KeyedRows]:
    """The rows of a store with the numbers of their keys. Chains and slots are where rows are, not what they are."""
    times, cold = state["store" if "store" in state else "hot"][:, [BEGIN, END]], state["cold"]
    numbers = np.full(len(cold), -1)
    for side in np.unique(cold[:, SIDE]).tolist():
        mine = cold[:, SIDE] == side
        numbers[mine] = keys.numbered(side, cold[mine, HEADER:])
    own = cold.copy()
    own[:, SLOT], own[:, OTHER] = np.minimum(own[:, SLOT], 0), 0
    found = [(numbers, np.concatenate([times, own], axis=1))]
    if "absent_keys" in state:
        known = state["absent_keys"][state["absent_cold"][:, SLOT]]
        away = keys.numbered(ABSENT, known) if len(keys.columns) > ABSENT else np.full(len(known), -1)
        found.append((away, np.concatenate([state["absent_hot"][:, [BEGIN, END]], known], axis=1)))
    return found


def recoded(
    state: Arrays,
    codes: Translation,
    columns: Sequence[Sequence[int]],
    keys: Sequence[tuple[int, int]],
    absent: Sequence[tuple[int, int]] = (),
) -> Arrays:
    """The state with other pool codes: in the `columns` of each side that hold codes, and in the keys, whose columns
    are those (side, column), wherever these do."""
    coded = {(side, column) for side, each in enumerate(columns) for column in each}
    cold = state["cold"]
    for side, column in sorted(coded):
        mine = cold[:, SIDE] == side
        if mine.any():
            cold[mine, HEADER + column] = codes(cold[mine, HEADER + column])
    for name, places in (("keys", keys), ("absent_keys", absent)):
        for place, known in enumerate(places):
            if known in coded:
                state[name][:, place] = codes(state[name][:, place])
    return state


def chosen(state: Arrays, rows: Bools, absent: Bools | None = None) -> Arrays:
    """The state of these rows alone (and of these of what is to be absent), with the keys that they name."""
    hot = "store" if "store" in state else "hot"
    cold = state["cold"][rows]
    keys, cold[:, SLOT] = _named(state["keys"], cold[:, SLOT])
    made = {hot: state[hot][rows], "cold": cold, "keys": keys}
    if absent is not None:
        away = state["absent_cold"][absent]
        both = np.concatenate([away[:, SLOT], cold[:, OTHER]])
        keys, both = _named(state["absent_keys"], both)
        away[:, SLOT], cold[:, OTHER] = both[: len(away)], both[len(away) :]
        made |= {"absent_hot": state["absent_hot"][absent], "absent_cold": away, "absent_keys": keys}
    return made


def put_together(one: Arrays, other: Arrays) -> Arrays:
    """Two states that have no row in common as one. Rows are in order of arrival, as those of each were; of rows that
    arrived alike those of `one` are first."""
    keys, mine, theirs = _together(one["keys"], other["keys"])
    first, second = one["cold"].copy(), other["cold"].copy()
    first[:, SLOT], second[:, SLOT] = _at(mine, first[:, SLOT]), _at(theirs, second[:, SLOT])
    made = {"keys": keys}
    if "absent_keys" in one:
        made["absent_keys"], mine, theirs = _together(one["absent_keys"], other["absent_keys"])
        first[:, OTHER], second[:, OTHER] = _at(mine, first[:, OTHER]), _at(theirs, second[:, OTHER])
        away, more = one["absent_cold"].copy(), other["absent_cold"].copy()
        away[:, SLOT], more[:, SLOT] = _at(mine, away[:, SLOT]), _at(theirs, more[:, SLOT])
        both = np.concatenate([one["absent_hot"], other["absent_hot"]])
        # What began last so far is written as each one's start: rows of one key are in their order already.
        order = np.argsort(both[:, END], kind="stable")
        made |= {"absent_hot": both[order], "absent_cold": np.concatenate([away, more])[order]}
    hot = "store" if "store" in one else "hot"
    both, cold = np.concatenate([one[hot], other[hot]]), np.concatenate([first, second])
    order = np.lexsort((cold[:, ARRIVAL], both[:, BEGIN], both[:, END]))
    return made | {hot: both[order], "cold": cold[order]}


def _named(keys: Ints, slots: Ints) -> tuple[Ints, Ints]:
    """The keys that these slots name, and their numbers among them; a negative slot names none."""
    if not len(slots):
        return keys[:0], slots
    used, numbers = np.unique(slots, return_inverse=True)
    none = int(np.searchsorted(used, 0))
    return keys[used[none:]], np.where(slots < 0, slots, numbers.reshape(-1) - none)


def _together(one: Ints, other: Ints) -> tuple[Ints, Ints, Ints]:
    """Keys of both, each once, and the numbers in them of either's."""
    both = np.concatenate([one, other])
    if not both.shape[1]:  # one key at most, of no column
        return both[:1], np.zeros(len(one), np.int64), np.zeros(len(other), np.int64)
    keys, numbers = np.unique(both, axis=0, return_inverse=True)
    numbers = numbers.reshape(-1)
    return keys, numbers[: len(one)], numbers[len(one) :]


def _at(numbers: Ints, slots: Ints) -> Ints:
    moved = slots.copy()
    moved[slots >= 0] = numbers[slots[slots >= 0]]
    return moved
