"""State by key: the part of an engine's state that belongs to selected keys, as bytes.

The complete state of a key in a stage (see `cep.runtime.keyed_stage`) can be extracted. It can then be put into any
engine of the same stage.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from cep.core.errors import CepError
from cep.core.relation import FIRST, Table, concat, contiguous, empty, rows
from cep.core.schema import Schema
from cep.core.time import BEGINNING
from cep.core.values import MISSING, Ints
from cep.operators.goals.contract import Goal, Translation, demand, from_arrow, to_arrow
from cep.plan.partition import Stage
from cep.runtime import snapshot
from cep.runtime.buckets import KeyCounter, row_hashes
from cep.runtime.decode import table_frame
from cep.runtime.keyed_stage import HashedKeys, KeyedStage, KeySelection, KeySide
from cep.runtime.parts import EngineParts, coded


@dataclass(frozen=True, slots=True)
class StateByKey:
    """Access to the state of an engine by key. `program`: the fingerprint of the engine's program."""

    stage: KeyedStage
    parts: EngineParts
    program: str

    def check(self) -> None:
        """Raise CepError if the state of a goal has no key."""
        self._goals()

    def read(self, state: bytes) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        """Decode the result of `extract`.

        Raises CepError if it is damaged, belongs to another program or stage, or has another watermark than this
        engine. An engine without input accepts any watermark.
        """
        header, batches = snapshot.load(state, self.program)
        if not self._new() and header["watermark"] != self.parts.buffer.watermark:
            raise CepError(
                "the state of these keys has another watermark than the engine",
                hint="use `advance` to bring both to the same watermark",
                code="late",
            )
        return header, batches

    def extract(self, keys: KeySelection) -> bytes:
        """Remove the state and the waiting rows of `keys` from the engine, and return them as bytes."""
        goals = [(goal, self.stage.selection(sides, keys, self.parts.pool)) for goal, sides in self._goals()]
        waiting = {name: self._waiting(name, keys) for name in self.parts.buffer.waiting}
        states = [goal.extract(chosen) for goal, chosen in goals]
        self.parts.buffer.waiting = {name: staying for name, (_, staying) in waiting.items() if staying}
        gone = {name: going for name, (going, _) in waiting.items() if rows(going)}
        live = [
            gone[name][row] for name, places in coded(self.parts.plan.schemas).items() if name in gone for row in places
        ]

        def seen(codes: Ints) -> Ints:
            live.append(codes.copy())
            return codes

        for (goal, _), state in zip(goals, states, strict=True):
            goal.recoded(state, seen)
        values = self.parts.pool.dump(live).to_arrow().combine_chunks().to_batches()
        header = {"position": self.parts.position, **self.parts.buffer.times()}
        return snapshot.save(header | {"values": len(values)}, [*values, to_arrow(gone), *states], self.program)

    def replace(self, keys: KeySelection, header: Mapping[str, Any], batches: Sequence[pa.RecordBatch]) -> None:
        """Replace the state of `keys` in the engine. `header` and `batches`: the result of `read`."""
        if self._new():
            self.parts.buffer.restore({}, header)
        values, (waiting, *states) = batches[: header["values"]], batches[header["values"] :]
        moved = np.empty(0, np.int64)
        if values:
            moved = self.parts.pool.load(pl.from_arrow(pa.Table.from_batches(values)))  # type: ignore[arg-type]
        goals, codes = self._goals(), translation(moved)
        demand(len(states) == len(goals))
        tables = from_arrow(waiting)
        recode(tables, codes, coded(self.parts.plan.schemas))
        for (goal, sides), goal_state in zip(goals, states, strict=True):
            goal.replace(self.stage.selection(sides, keys, self.parts.pool), goal.recoded(goal_state, codes))
        for name in sorted(tables.keys() | self.parts.buffer.waiting.keys()):
            _, others = self._waiting(name, keys, True)
            self.parts.buffer.waiting[name] = [*others, *([tables[name]] if name in tables else [])]
            if not self.parts.buffer.waiting[name]:
                del self.parts.buffer.waiting[name]
        self.parts.buffer.later(header)
        self.parts.position = max(self.parts.position, header["position"])

    def _new(self) -> bool:
        return self.parts.buffer.watermark == self.parts.buffer.latest == BEGINNING

    def _goals(self) -> list[tuple[Goal, tuple[KeySide, ...]]]:
        goals, origin, chained = [], self.parts.plan.origin, set(self.parts.machine.compiled)
        for unit, goal in self.parts.machine.goals():
            if isinstance(unit, str):
                goals.append((goal, self.stage.sides(unit) if unit in chained else ()))
            else:
                goals.append((goal, self.stage.sides(unit if origin is None else origin[unit])))
        return goals

    def _waiting(self, name: str, keys: KeySelection, others: bool = False) -> tuple[Table, list[Table]]:
        """Return the waiting rows of an event that belong to `keys`, and the waiting rows that remain in the buffer.

        `others`: True to remove also rows that belong to all keys. By default, such rows remain.
        """
        schema, route = self.parts.plan.schemas[name], self.stage.stage.inputs[name]
        table = concat([empty(len(schema.attributes)), *self.parts.buffer.waiting.get(name, ())])
        if not rows(table):
            return table, []
        if route == "whole":  # no goal with state reads it
            mine = np.zeros(rows(table), np.bool_)
            if isinstance(keys, HashedKeys):
                mine = keys.whole(table_frame(table, schema, self.parts.pool), schema)
            others_rows = ~mine
        elif isinstance(route, tuple):
            side = KeySide(route, tuple(schema.attributes[column].type for column in route))
            (test,) = self.stage.selection([side], keys, self.parts.pool).tests
            mine = test(contiguous(table[[FIRST + column for column in route]].T))
            others_rows = ~mine
        else:  # its rows belong to every key
            mine = np.ones(rows(table), np.bool_)
            others_rows = ~mine if others else mine
        return table.compress(mine, axis=1), [table.compress(others_rows, axis=1)] if others_rows.any() else []


def recode(tables: Mapping[str, Table], codes: Translation, places: Mapping[str, Sequence[int]]) -> None:
    """Translate the pool codes in tables, which are stored by event. `places`: for each event, the indexes of the
    matrix rows that contain codes."""
    for name, table in tables.items():
        for row in places[name]:
            table[row] = codes(table[row])


def translation(moved: Ints) -> Translation:
    """Return a function that translates codes of another pool to codes of this pool. `moved`: the new code for each
    code of the other pool (see `Pool.load`)."""

    def translated(codes: Ints) -> Ints:
        known = (codes >= 0) & (codes < len(moved))
        new_codes: Ints = np.where(known, np.append(moved, MISSING)[np.where(known, codes, -1)], MISSING)
        return new_codes

    return translated


# --- from partitions to partitions ------------------------------------------------------------------------------------


class Bucket(Protocol):
    """The methods of an engine that this module uses."""

    def extract(self, keys: KeySelection) -> bytes: ...

    def replace(self, keys: KeySelection, state: bytes) -> None: ...


GROUPS = 1024


@dataclass(frozen=True, slots=True)
class KeyGroups(HashedKeys):
    """A selection of keys: those that belong to the key groups from `first` to `stop` - 1."""

    first: int
    stop: int

    def chosen(self, hashed: NDArray[np.uint64]) -> NDArray[np.bool_]:
        groups = groups_of(hashed)
        return (groups >= self.first) & (groups < self.stop)

    def __len__(self) -> int:
        return self.stop - self.first


def groups_of(hashed: NDArray[np.uint64]) -> Ints:
    """Return the key group of each hash (see `cep.core.value_hashes.hashes`)."""
    groups: Ints = (hashed & np.uint64(GROUPS - 1)).astype(np.int64)
    return groups


def first_group(partition: int, count: int) -> int:
    """Return the first key group of a partition. `count`: the number of partitions. If `partition` equals `count`,
    return the number of all key groups."""
    return -(-partition * GROUPS // count)


def groups_in(partition: int, count: int) -> KeyGroups:
    """Return the key groups of a partition, which are consecutive. `count`: the number of partitions. The numbers of
    groups of two partitions differ by at most one."""
    check_partitions(count)
    return KeyGroups(first_group(partition, count), first_group(partition + 1, count))


def check_partitions(count: int) -> None:
    """Raise CepError unless `count` is between 1 and the number of key groups."""
    if not 1 <= count <= GROUPS:
        raise CepError(
            f"{count} is not a valid number of workers or partitions", hint=f"use 1 to {GROUPS:,}", code="option"
        )


def partition_of(groups: Ints, count: int) -> Ints:
    """Return the partition of each key group. `count`: the number of partitions."""
    return groups * count // GROUPS


def deal_groups(
    stage: Stage,
    tables: Mapping[str, pl.DataFrame],
    schemas: Mapping[str, Schema],
    count: int,
    keys: KeyCounter | None = None,
) -> list[dict[str, pl.DataFrame]]:
    """Distribute rows to the partitions of a stage, without changing their order. Return the tables of each partition.

    Tables that are not inputs of the stage are ignored. `keys`: a counter for the rows that are distributed by key.
    """
    check_partitions(count)
    dealt: list[dict[str, pl.DataFrame]] = [{} for _ in range(count)]
    for event in sorted(stage.inputs.keys() & tables.keys()):
        table, route = tables[event], stage.inputs[event]
        if route == "single":
            dealt[0][event] = table
        elif route == "broadcast":
            for bucket in dealt:
                bucket[event] = table
        else:
            hashed = row_hashes(table, schemas[event], route)
            if keys is not None and isinstance(route, tuple):
                keys.take(event, [schemas[event].attributes[place].name for place in route], table, hashed)
            numbers = partition_of(groups_of(hashed), count)
            # Numpy sorts 16-bit numbers in linear time.
            numbers = numbers.astype(np.uint16) if count <= 1 << 16 else numbers
            order = np.argsort(numbers, kind="stable")
            table, stops = table[order], np.searchsorted(numbers[order], np.arange(count + 1)).tolist()
            for number, (first, last) in enumerate(zip(stops, stops[1:])):
                if first < last:
                    dealt[number][event] = table[first:last]
    return dealt


def gather(before: Callable[[int], Bucket | None], of: int, into: Bucket, number: int, count: int) -> None:
    """Fill a new engine with the state of its partition, which is taken from the engines of old partitions.

    - `before`: a function that returns the engine of an old partition, by number. It returns None if the partition
      has no engine.
    - `of`: the number of old partitions.
    - `into`: the new engine.
    - `number`: the partition of the new engine.
    - `count`: the number of new partitions.

    State that belongs to all keys also remains in the old engines. Raises CepError if the state of a goal has no key.
    """
    mine = groups_in(number, count)
    stops = [first_group(place + 1, of) for place in range(of)]
    for place in range(bisect_right(stops, mine.first), of):
        their_groups = groups_in(place, of)
        if their_groups.first >= mine.stop:
            break
        share = KeyGroups(max(mine.first, their_groups.first), min(mine.stop, their_groups.stop))
        if len(share) and (former_bucket := before(place)) is not None:
            into.replace(share, former_bucket.extract(share))


def redeal(before: Sequence[Bucket], after: Sequence[Bucket]) -> None:
    """Move the state of all partitions of a stage to new engines, whose number may differ from that of the old ones."""
    for number, bucket in enumerate(after):
        gather(before.__getitem__, len(before), bucket, number, len(after))
