"""How far time has come, and what is late, where each key has a clock of its own (`lateness_by`).

Time is where two keys have come: one wrong clock moves it no further than others vouch for. While no other key goes on,
the furthest one moves it by what passes on its own clock, by APART at most from one record to the next; so deadlines
pass also when all others have fallen silent. The watermark waits for the slowest key, but for none that is more than
APART behind that time: it is silent, or its clock is wrong. See docs/decisions/2026-11-28-lateness-by-key.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from cep.core.array_capacity import roomy
from cep.core.errors import CepError
from cep.core.hashtable import KeySet
from cep.core.kernels import njit
from cep.core.relation import END, ORDER, Table
from cep.core.schema import Schema
from cep.core.suggest import did_you_mean
from cep.core.time import BEGINNING
from cep.core.values import MISSING, Ints
from cep.events import Event
from cep.operators.goals.contract import demand
from cep.runtime.buckets import hash_words

APART = 5 * 60_000_000
"""Microseconds that clocks may be apart at least; with a longer lateness, so much."""

SPARE = 1024
"""Keys that are silent are forgotten when there are as many, and so many more, as others."""

# Columns of `KeyClocks.keys`, and places of `KeyClocks.state`.
LATEST, HEAPED = 0, 1
LEADER, SECOND, ALONE, SPEAKER, WAITING, TIME = range(6)


class KeyClocks:
    """The clocks of the keys that are heard, and where time is.

    `by`: the attribute that is the key, `types`: its type in each event that has it; the rows of others are of one key.
    A key is a hash of its value, the same in every process. `keys`: by id the latest end of its records, and whether it
    is in the `heap`, of ids by that end as it was when they were put there. `state`: the key that is furthest, the end
    that a second key has come to, what has passed on the clock of the furthest while no other went on, the key that
    went on last, how many are in the heap, and the furthest that time was.
    """

    def __init__(self, by: str, lateness: int, schemas: Mapping[str, Schema]) -> None:
        """CepError: no event has the attribute, or two have it with other types."""
        self.by, self.lateness, self.apart = by, lateness, max(lateness, APART)
        self.types = {name: a.type for name, schema in schemas.items() for a in schema.attributes if a.name == by}
        if not self.types:
            known = sorted({a.name for schema in schemas.values() for a in schema.attributes})
            listed = ", ".join(f"`{name}`" for name in known) or "none"
            hint = did_you_mean(by, known) or f"the attributes of what is read: {listed}"
            raise CepError(f"lateness by `{by}`: no event that is read has such an attribute", hint=hint, code="option")
        if len(set(self.types.values())) > 1:
            each = ", ".join(f"{type} in `{name}`" for name, type in self.types.items())
            hint = "declare it with one type, so that a key is the same in all of them"
            raise CepError(f"lateness by `{by}`: its types differ: {each}", hint=hint, code="option")
        self.places = {name: [a.name for a in schemas[name].attributes].index(by) for name in self.types}
        self.ids = KeySet(1)
        self.keys: Ints = np.empty((0, 2), np.int64)
        self.heap: Ints = np.empty((0, 2), np.int64)
        self.state: Ints = np.array([-1, BEGINNING, 0, -1, 0, BEGINNING], np.int64)

    # --- keys ---

    def words(self, name: str, batch: Mapping[str, pl.DataFrame] | Sequence[Event], rows: Ints) -> Ints:
        """The keys of these rows of a pushed table, or of these events of one type."""
        if name not in self.types:
            return np.full(len(rows), MISSING)
        if isinstance(batch, Mapping):
            there = self.by in batch[name].columns
            return hash_words(batch[name][self.by][rows], self.types[name]) if there else np.full(len(rows), MISSING)
        values = [batch[row].args[self.places[name]] for row in rows.tolist()]
        return hash_words(pl.Series(values, dtype=pl.Object), self.types[name])

    # --- time ---

    @property
    def time(self) -> int:
        """The least that keys have come to that are waited for: what ends there or later may still come of each."""
        return int(_go_on(self.keys, self.heap, self.state, self.apart))

    def judge(
        self, tables: Mapping[str, Table], words: Mapping[str, Ints], passed: int, back: int, in_turn: bool
    ) -> dict[str, Ints]:
        """By how many microseconds each row is late, 0 or less where it is not; and take the times of those that are
        not. A row is late that ends at or before `passed`, or `back` or more before where time, or its own key, is
        before the push; with `in_turn` before the row."""
        ends = np.concatenate([np.empty(0, np.int64), *(table[END] for table in tables.values())])
        order = np.argsort(np.concatenate([ends[:0], *(table[ORDER] for table in tables.values())]), kind="stable")
        ids, _ = self.ids.insert(np.concatenate([ends[:0], *(words[name] for name in tables)])[order].reshape(-1, 1))
        self._make_room()
        ends = ends[order]
        late, found = np.empty(len(ends), np.int64), np.empty(len(ends), np.int64)
        _judge(ids, ends, passed, back, in_turn, self.keys, self.heap, self.state, self.apart, found)
        late[order] = found
        self._forget()
        stops = np.cumsum([table.shape[1] for table in tables.values()])
        return dict(zip(tables, np.split(late, stops[:-1]), strict=True)) if tables else {}

    def _make_room(self) -> None:
        known, count = len(self.keys), self.ids.count
        if count > known:
            room = roomy(count, 2 * known)
            keys, heap = np.empty((room, 2), np.int64), np.empty((room, 2), np.int64)
            keys[:known], keys[known:] = self.keys, (BEGINNING, 0)
            heap[:known] = self.heap
            self.keys, self.heap = keys, heap

    def _forget(self) -> None:
        """Free the room of keys that nothing waits for. A row that is late for such a key is also late for the
        watermark."""
        if self.ids.count < 2 * int(self.state[WAITING]) + SPARE:
            return
        kept = np.flatnonzero(self.keys[: self.ids.count, HEAPED])
        moved = np.full(self.ids.count, -1)
        moved[kept] = np.arange(len(kept))
        self._become(self.ids.rows[kept, 0], self.keys[kept, LATEST])
        for place in (LEADER, SPEAKER):
            self.state[place] = moved[self.state[place]] if self.state[place] >= 0 else -1

    def _become(self, words: Ints, latest: Ints) -> None:
        """Know just these keys, all of them in the heap."""
        self.ids.become(words.reshape(-1, 1).copy(), len(words))
        self.keys = np.stack([latest, np.ones(len(words), np.int64)], axis=1)
        order = np.argsort(latest, kind="stable")  # sorted is a heap
        self.heap = np.stack([latest[order], order], axis=1)
        self.state[WAITING] = len(words)

    # --- state ---

    def copy(self) -> KeyClocks:
        """The same clocks, which go on by themselves."""
        made = object.__new__(KeyClocks)
        made.by, made.lateness, made.apart, made.types, made.places = (
            self.by,
            self.lateness,
            self.apart,
            self.types,
            self.places,
        )
        made.ids, made.keys, made.heap, made.state = (
            self.ids.copy(),
            self.keys.copy(),
            self.heap.copy(),
            self.state.copy(),
        )
        return made

    def save(self) -> dict[str, Any]:
        """The state as JSON: of the keys that are waited for their words and latest ends."""
        kept = np.flatnonzero(self.keys[: self.ids.count, HEAPED])
        moved = {int(place): number for number, place in enumerate(kept)}
        state = self.state.tolist()
        state[LEADER], state[SPEAKER] = moved.get(state[LEADER], -1), moved.get(state[SPEAKER], -1)
        return {
            "by": self.by,
            "words": self.ids.rows[kept, 0].tolist(),
            "latest": self.keys[kept, LATEST].tolist(),
            "state": state,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `save` gave. CepError: it is of another key, or damaged."""
        if saved["by"] != self.by:
            message = f"the snapshot was made with lateness by `{saved['by']}`, and not by `{self.by}`"
            raise CepError(message, hint="the same attribute on both", code="snapshot")
        words, latest = np.array(saved["words"], np.int64), np.array(saved["latest"], np.int64)
        state = np.array(saved["state"], np.int64)
        demand(words.shape == latest.shape == (len(words),) and state.shape == self.state.shape)
        demand(bool((state[[LEADER, SPEAKER]] < max(len(words), 1)).all()) and (state[LEADER] >= 0) == (len(words) > 0))
        self.state = state
        self._become(words, latest)


@njit(_nrt=False)
def _sift(heap, place, count):  # type: ignore[no-untyped-def]
    """Move an entry down to where both below it are later."""
    time, key = heap[place, 0], heap[place, 1]
    while True:
        below = 2 * place + 1
        if below >= count:
            break
        if below + 1 < count and heap[below + 1, 0] < heap[below, 0]:
            below += 1
        if heap[below, 0] >= time:
            break
        heap[place, 0], heap[place, 1] = heap[below, 0], heap[below, 1]
        place = below
    heap[place, 0], heap[place, 1] = time, key


@njit(_nrt=False)
def _reached(keys, heap, state, apart):  # type: ignore[no-untyped-def]
    """Return the least time that the keys that are waited for have come to; forget keys that are not waited for.

    The heap has each key once, by an end that it has passed, perhaps, since."""
    leader = state[LEADER]
    if leader < 0:
        return BEGINNING
    time = keys[leader, LATEST]
    if state[SECOND] == BEGINNING:
        return time if state[ALONE] >= apart else BEGINNING
    time = min(time, state[SECOND] + state[ALONE])
    while True:  # the furthest key is always in it
        key = heap[0, 1]
        if heap[0, 0] < keys[key, LATEST]:
            heap[0, 0] = keys[key, LATEST]
        elif heap[0, 0] < time - apart:
            keys[key, LATEST], keys[key, HEAPED] = BEGINNING, 0
            state[WAITING] -= 1
            heap[0, 0], heap[0, 1] = heap[state[WAITING], 0], heap[state[WAITING], 1]
        else:
            return min(time, heap[0, 0])
        _sift(heap, 0, state[WAITING])


@njit(_nrt=False)
def _go_on(keys, heap, state, apart):  # type: ignore[no-untyped-def]
    """The furthest that time was until now: where the furthest key is wrong, others may put it back."""
    state[TIME] = max(state[TIME], _reached(keys, heap, state, apart))
    return state[TIME]


@njit(_nrt=False)
def _hear(key, end, keys, heap, state, apart):  # type: ignore[no-untyped-def]
    """Record the end of a key's row that is not late. The heap has room for all keys."""
    before = keys[key, LATEST]
    if end <= before:
        return
    keys[key, LATEST] = end
    leader = state[LEADER]
    if leader < 0 or (key != leader and end > keys[leader, LATEST]):
        if leader >= 0:
            state[SECOND] = max(state[SECOND], keys[leader, LATEST])
        state[LEADER] = key
    elif key != leader:
        state[SECOND] = max(state[SECOND], end)
    if key == leader and key == state[SPEAKER]:
        state[ALONE] += min(end - before, apart)
    else:
        state[ALONE] = 0
    state[SPEAKER] = key
    if keys[key, HEAPED] == 0:
        keys[key, HEAPED] = 1
        place = state[WAITING]
        state[WAITING] += 1
        while place > 0 and heap[(place - 1) // 2, 0] > end:
            above = (place - 1) // 2
            heap[place, 0], heap[place, 1] = heap[above, 0], heap[above, 1]
            place = above
        heap[place, 0], heap[place, 1] = end, key


@njit(_nrt=False)
def _judge(ids, ends, passed, back, in_turn, keys, heap, state, apart, late):  # type: ignore[no-untyped-def]
    """By how much each row is late, in their order; and take those that are not."""
    mark = max(passed, _go_on(keys, heap, state, apart) - back)
    if not in_turn:
        for i in range(ids.shape[0]):
            late[i] = max(mark, keys[ids[i], LATEST] - back) + 1 - ends[i]
        for i in range(ids.shape[0]):
            if late[i] <= 0:
                _hear(ids[i], ends[i], keys, heap, state, apart)
        return
    for i in range(ids.shape[0]):
        late[i] = max(mark, keys[ids[i], LATEST] - back) + 1 - ends[i]
        if late[i] <= 0:
            _hear(ids[i], ends[i], keys, heap, state, apart)
            mark = max(mark, _go_on(keys, heap, state, apart) - back)
