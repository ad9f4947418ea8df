"""The progress of time, and the lateness of rows, if each key has its own clock (`lateness_by`).

The current time is a time that at least two keys have reached, so a single wrong clock cannot advance it. If only the
key with the latest clock sends records, the current time advances by as much as this clock, by at most APART per
record. So deadlines pass even if all other keys are silent.

The watermark is the time of the slowest key. Keys that are more than APART behind the current time are ignored: they
are silent, or their clock is wrong. See docs/decisions/2026-11-28-lateness-by-key.md.
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
from cep.core.value_hashes import hash_words
from cep.core.values import MISSING, Ints
from cep.events import Event
from cep.operators.goals.contract import demand

APART = 5 * 60_000_000
"""The tolerated difference between the clocks of keys, in microseconds. If the lateness is longer than this, the
tolerated difference is the lateness."""

SPARE = 1024
"""A limit for silent keys. They are forgotten when there are more than SPARE plus the number of the other keys."""

# Columns of `KeyClocks.keys`, and places of `KeyClocks.state`.
LATEST, HEAPED = 0, 1
LEADER, SECOND, ALONE, SPEAKER, WAITING, TIME = range(6)


class KeyClocks:
    """The clocks of all keys, and the current time.

    - `by`: the attribute whose values are the keys.
    - `types`: the type of this attribute in each event that has it. All rows of other events share one key.
    - `keys`: one row per key id: the latest end of the key's records, and 1 if the key is in the `heap`.
    - `heap`: the ids of keys, ordered by an end that may be out of date.

    A key is stored as a hash of the attribute's value. The hash is the same in every process.

    `state` contains six numbers:

    - the id of the key with the latest end
    - the latest end of all other keys
    - how far the key with the latest end has advanced since another key last sent a record
    - the id of the key that sent the last record
    - the size of the heap
    - the greatest watermark so far
    """

    def __init__(self, by: str, lateness: int, schemas: Mapping[str, Schema]) -> None:
        """Set up clocks without keys.

        Raises CepError if no event has the attribute, or if its types differ between events.
        """
        self.by, self.lateness, self.apart = by, lateness, max(lateness, APART)
        self.types = {name: a.type for name, schema in schemas.items() for a in schema.attributes if a.name == by}
        if not self.types:
            known = sorted({a.name for schema in schemas.values() for a in schema.attributes})
            listed = ", ".join(f"`{name}`" for name in known) or "none"
            hint = did_you_mean(by, known) or f"the attributes of input events: {listed}"
            raise CepError(f"lateness by `{by}`: no input event has this attribute", hint=hint, code="option")
        if len(set(self.types.values())) > 1:
            told_types = ", ".join(f"{type} in `{name}`" for name, type in self.types.items())
            hint = "declare it with the same type in all events"
            raise CepError(f"lateness by `{by}`: its types differ: {told_types}", hint=hint, code="option")
        self.places = {name: [a.name for a in schemas[name].attributes].index(by) for name in self.types}
        self.ids = KeySet(1)
        self.keys: Ints = np.empty((0, 2), np.int64)
        self.heap: Ints = np.empty((0, 2), np.int64)
        self.state: Ints = np.array([-1, BEGINNING, 0, -1, 0, BEGINNING], np.int64)

    # --- keys ---

    def words(self, name: str, batch: Mapping[str, pl.DataFrame] | Sequence[Event], rows: Ints) -> Ints:
        """Return the hashed keys of pushed rows of one event type. `rows`: the positions of these rows in the pushed
        table."""
        if name not in self.types:
            return np.full(len(rows), MISSING)
        if isinstance(batch, Mapping):
            known = self.by in batch[name].columns
            return hash_words(batch[name][self.by][rows], self.types[name]) if known else np.full(len(rows), MISSING)
        values = [batch[row].args[self.places[name]] for row in rows.tolist()]
        return hash_words(pl.Series(values, dtype=pl.Object), self.types[name])

    # --- time ---

    @property
    def time(self) -> int:
        """The current watermark. Every key that is not ignored has reached this time."""
        return int(_go_on(self.keys, self.heap, self.state, self.apart))

    def judge(
        self, tables: Mapping[str, Table], words: Mapping[str, Ints], passed: int, back: int, in_turn: bool
    ) -> dict[str, Ints]:
        """Return the lateness of each row in microseconds. It is 0 or less for a row that is not late. Rows that are
        not late advance the clocks.

        A row is late if it ends at or before `passed`. It is also late if it ends at least `back` microseconds before
        the watermark or before its own key's clock. `in_turn`: True to compare each row with the clocks just before
        this row. Otherwise, all rows are compared with the clocks before the push.
        """
        ends = np.concatenate([np.empty(0, np.int64), *(table[END] for table in tables.values())])
        order = np.argsort(np.concatenate([ends[:0], *(table[ORDER] for table in tables.values())]), kind="stable")
        ids, _ = self.ids.insert(np.concatenate([ends[:0], *(words[name] for name in tables)])[order].reshape(-1, 1))
        self._make_room()
        ends = ends[order]
        late, judged = np.empty(len(ends), np.int64), np.empty(len(ends), np.int64)
        _judge(ids, ends, passed, back, in_turn, self.keys, self.heap, self.state, self.apart, judged)
        late[order] = judged
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
        """Free the memory of ignored keys, once there are many of them.

        This does not change which rows are late. A row that is late by the clock of an ignored key is also late by the
        watermark.
        """
        if self.ids.count < 2 * int(self.state[WAITING]) + SPARE:
            return
        kept = np.flatnonzero(self.keys[: self.ids.count, HEAPED])
        moved = np.full(self.ids.count, -1)
        moved[kept] = np.arange(len(kept))
        self._become(self.ids.rows[kept, 0], self.keys[kept, LATEST])
        for place in (LEADER, SPEAKER):
            self.state[place] = moved[self.state[place]] if self.state[place] >= 0 else -1

    def _become(self, words: Ints, latest: Ints) -> None:
        self.ids.become(words.reshape(-1, 1).copy(), len(words))
        self.keys = np.stack([latest, np.ones(len(words), np.int64)], axis=1)
        order = np.argsort(latest, kind="stable")  # a sorted array is a heap
        self.heap = np.stack([latest[order], order], axis=1)
        self.state[WAITING] = len(words)

    # --- state ---

    def copy(self) -> KeyClocks:
        copied = object.__new__(KeyClocks)
        copied.by, copied.lateness, copied.apart, copied.types, copied.places = (
            self.by,
            self.lateness,
            self.apart,
            self.types,
            self.places,
        )
        copied.ids, copied.keys, copied.heap, copied.state = (
            self.ids.copy(),
            self.keys.copy(),
            self.heap.copy(),
            self.state.copy(),
        )
        return copied

    def save(self) -> dict[str, Any]:
        """Return the clocks in a form that can be written as JSON. Ignored keys are omitted."""
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
        """Restore the clocks that `save` returned. Raises CepError if they are damaged, or if they belong to another
        attribute."""
        if saved["by"] != self.by:
            message = f"the snapshot was made with lateness by `{saved['by']}`, and not by `{self.by}`"
            raise CepError(message, hint="use the same attribute as for the snapshot", code="snapshot")
        words, latest = np.array(saved["words"], np.int64), np.array(saved["latest"], np.int64)
        state = np.array(saved["state"], np.int64)
        demand(words.shape == latest.shape == (len(words),) and state.shape == self.state.shape)
        demand(bool((state[[LEADER, SPEAKER]] < max(len(words), 1)).all()) and (state[LEADER] >= 0) == (len(words) > 0))
        self.state = state
        self._become(words, latest)


@njit(_nrt=False)
def _sift(heap, place, count):  # type: ignore[no-untyped-def]
    """Move the heap entry at `place` down until both of its children are later. `count`: the size of the heap."""
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
    """Return the earliest of the keys' latest ends, but at most the current time. Keys that are more than `apart`
    behind the current time are ignored.

    The heap contains each key once, with an end that may be out of date.
    """
    leader = state[LEADER]
    if leader < 0:
        return BEGINNING
    time = keys[leader, LATEST]
    if state[SECOND] == BEGINNING:
        return time if state[ALONE] >= apart else BEGINNING
    time = min(time, state[SECOND] + state[ALONE])
    while True:  # it ends, because the furthest key is always in the heap
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
    state[TIME] = max(state[TIME], _reached(keys, heap, state, apart))
    return state[TIME]


@njit(_nrt=False)
def _hear(key, end, keys, heap, state, apart):  # type: ignore[no-untyped-def]
    """Record the end of a row of `key`. The row must not be late. The heap must have room for all keys."""
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
    """Compute the lateness of rows in their order. Rows that are not late advance the clocks."""
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
