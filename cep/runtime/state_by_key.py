"""State by key: in which columns of which goal the key of a stage is, and what an engine holds of some keys as bytes.

A stage that runs in buckets (`cep.plan.partition`) deals rows by arguments; their values are the key. All that its
goals hold of a key can be taken out and put back, into the same engine or into another of the same stage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import polars as pl
import pyarrow as pa

from cep.core.errors import CepError
from cep.core.relation import FIRST, Table, bits, concat, contiguous, empty, rows
from cep.core.schema import CODED, Schema
from cep.core.time import BEGINNING
from cep.core.values import MISSING, Ints, Pool
from cep.events import Iri, Value
from cep.operators.goals.contract import Bools, Goal, StateKeys, Translation, demand, from_arrow, to_arrow
from cep.plan.copartitioning import EVERYWHERE, Copartitioned, KeyColumns, copartition
from cep.plan.dependencies import Dependencies
from cep.plan.node import Meeting
from cep.plan.order import PlanUnit
from cep.plan.partition import Stage, partition
from cep.plan.plan import Plan
from cep.rules.expressions.typed import common_type
from cep.runtime import snapshot
from cep.runtime.buckets import buckets, hashes
from cep.runtime.decode import decoded_series, table_frame
from cep.runtime.parts import EngineParts, coded

Key = tuple[Value, ...]
"""The values of the arguments by which rows are dealt, in the order of `Stage.inputs`."""


@dataclass(frozen=True, slots=True)
class Share:
    """The keys that are in all of these buckets, each (number, of how many): those of `((1, 4), (3, 8))` go from bucket
    1 to bucket 3 where there are to be 8 instead of 4."""

    buckets: tuple[tuple[int, int], ...]

    def holds(self, columns: Sequence[pl.Series], types: Sequence[str]) -> Bools:
        """Which keys, of these columns, are in it."""
        hashed, in_share = hashes(columns, types), np.ones(len(columns[0]), np.bool_)
        for number, count in self.buckets:
            in_share &= hashed % np.uint64(count) == number
        return in_share

    def whole(self, table: pl.DataFrame, schema: Schema) -> Bools:
        """The same of rows that are dealt by all that they are."""
        in_share = np.ones(table.height, np.bool_)
        for number, count in self.buckets:
            in_share &= buckets(table, schema, "whole", count) == number
        return in_share


KeySelection = Collection[Key] | Share


@dataclass(frozen=True, slots=True)
class _Side:
    """Of an input of a goal: the columns that hold the key, and the types in which they do; None: it is shared."""

    columns: tuple[int, ...] | None
    types: tuple[str, ...] = ()


class KeyedStage:
    """Where the key is in one stage of a plan, or in a program that is one stage. CepError: it runs by no key."""

    def __init__(self, plan: Plan, number: int | None) -> None:
        stages = partition(plan)
        self.plan, self.dependencies = plan, Dependencies(plan)
        self.stage: Stage = stages[(number or 1) - 1]
        if not self.stage.keyed or number == 0 or (number is None and len(stages) > 1):
            why = "; ".join(reason.text for stage in stages for reason in stage.reasons)
            raise CepError(
                "the program does not run by one key" + (f": {why}" if why else ""),
                hint="`cep plan` lists its stages; give the number of one that runs by key",
                code="key",
            )

    @cached_property
    def _ways(self) -> list[Copartitioned]:
        """Where everything is, for each value of the key."""
        routes = {event: route for event, route in self.stage.inputs.items() if isinstance(route, tuple)}
        everywhere = {event for event, route in self.stage.inputs.items() if route == "broadcast"}
        found = []
        for i in range(max(map(len, routes.values()), default=0)):
            places = {event: route[i] for event, route in routes.items() if len(route) > i}
            found.append(copartition(self.dependencies, self.stage.rules, places, everywhere, self.stage.inputs.keys()))
        return found

    def sides(self, unit: PlanUnit) -> tuple[_Side, ...]:
        """The inputs of a goal, by its number in the whole plan, or of a recursion by its event; none where it holds
        nothing. CepError: what it holds has no key."""
        if isinstance(unit, str):
            schema = self.plan.schemas[unit]
            places = [found.places[unit] for found in self._ways if unit in found.places]
            return (self._side(places, [a.type for a in schema.attributes], unit),)
        properties, parts = self.dependencies.properties[unit], self.plan.nodes[unit].parts
        if not properties.remembers:
            return ()
        ways = [found for found in self._ways if unit in found.nodes]
        made = []
        for part, child in enumerate(parts):
            if part == properties.negated and part not in properties.waits:
                if properties.meeting is Meeting.PAIRS:  # else what comes there is not kept
                    made.append(self._absent(unit, child, ways))
                continue
            places = [found.nodes[child] for found in ways]
            if properties.meeting is Meeting.GROUPS:
                by = {column for _, column in properties.groups}
                places = [EVERYWHERE if place is EVERYWHERE else place & by for place in places]
            made.append(self._side(places, self.dependencies.plan.types(child), unit))
        return tuple(made)

    def _side(self, places: Sequence[KeyColumns], types: Sequence[str], unit: PlanUnit) -> _Side:
        if places and places[0] is EVERYWHERE:
            return _Side(None)
        columns: list[int] = []
        for place in places:
            if not place:
                break
            columns.append(min(place))
        if not columns:
            raise self._without_key(unit)
        return _Side(tuple(columns), tuple(types[column] for column in columns))

    def _absent(self, unit: int, absent: int, ways: Sequence[Copartitioned]) -> _Side:
        """Of what must not occur between a pair: the columns are those of its own key, in its order."""
        if ways and ways[0].nodes[absent] is EVERYWHERE:
            return _Side(None)
        properties, own, theirs = (
            self.dependencies.properties[unit],
            self.dependencies.plan.types(absent),
            self.dependencies.plan.types(unit),
        )
        columns, types = [], []
        for found in ways:
            inside, outside = found.nodes[absent], found.nodes[unit]
            assert inside is not EVERYWHERE and outside is not EVERYWHERE, "both sides have a key"
            pairs = [each for each in self.dependencies.forbidden(unit) if each[0][1] in inside and each[1] in outside]
            if not pairs:
                break
            type = common_type(own[pairs[0][0][1]], theirs[pairs[0][1]])
            assert type is not None, "types that never join were refused"
            columns.append(properties.forbids.index(pairs[0]))
            types.append(type)
        if not columns:
            raise self._without_key(unit)
        return _Side(tuple(columns), tuple(types))

    def _without_key(self, unit: PlanUnit) -> CepError:
        what = f"`{unit}`" if isinstance(unit, str) else f"a goal of {', '.join(self._rules(unit))}"
        return CepError(f"what {what} holds has no key", hint="`cep plan` says how rows are dealt", code="key")

    def _rules(self, node: int) -> list[str]:
        rules = [self.plan.rules.rules[number] for number in sorted(self.plan.users[node])]
        return [f"`{rule.label}`" if rule.label else f"line {rule.span.line}" for rule in rules]

    def selection(self, sides: Sequence[_Side], keys: KeySelection, pool: Pool) -> StateKeys:
        """The keys as a goal sees them."""
        return StateKeys(tuple(side.columns for side in sides), tuple(_test(side.types, keys, pool) for side in sides))


def _test(types: Sequence[str], keys: KeySelection, pool: Pool) -> Callable[[Ints], Bools]:
    """Which rows of columns of these types are of these keys: of those that have so many values."""
    if isinstance(keys, Share):
        return lambda table: keys.holds(
            [decoded_series(table[:, i], type, pool) for i, type in enumerate(types)], types
        )
    encoded = [encoded_key(key, types, pool) for key in keys if len(key) == len(types)]
    known = [row for row in encoded if row is not None]
    wanted = np.array(known, np.int64).reshape(len(known), len(types))

    def among(table: Ints) -> Bools:
        if not len(wanted):
            return np.zeros(len(table), np.bool_)
        _, kinds = np.unique(np.concatenate([wanted, table]), axis=0, return_inverse=True)
        kinds = kinds.reshape(-1)
        return np.isin(kinds[len(wanted) :], kinds[: len(wanted)])

    return among


def encoded_key(key: Key, types: Sequence[str], pool: Pool) -> list[int] | None:
    """A key as columns of these types hold it; None: they hold no such values."""
    made = []
    for value, type in zip(key, types, strict=True):
        if value is None:
            made.append(int(bits(np.array([math.nan]))[0]) if type == "float" else MISSING)
        elif type in CODED:
            if type == "any" or (isinstance(value, str) and (type == "iri") == isinstance(value, Iri)):
                made.append(int(pool.encode_values([value])[0]))
            elif isinstance(value, str) and type == "iri":
                made.append(int(pool.encode_values([Iri(value)])[0]))
            else:
                return None
        elif isinstance(value, str):
            return None
        elif type == "float":
            made.append(int(bits(np.array([float(value)]))[0]))
        elif float(value).is_integer() and abs(value) < 2**63:
            made.append(int(value))
        else:
            return None
    return made


# --- out of an engine, and into one -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StateByKey:
    """The state of an engine by key. `program`: what its states are of."""

    stage: KeyedStage
    parts: EngineParts
    program: str

    def check(self) -> None:
        """CepError: some goal holds what has no key."""
        self._goals()

    def read(self, state: bytes) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        """What `extract` gave. CepError: it is of another program or stage, of another time, or damaged."""
        header, batches = snapshot.load(state, self.program)
        if not self._new() and header["watermark"] != self.parts.buffer.watermark:
            raise CepError(
                "the state of these keys is of another time than the engine's",
                hint="bring both to one watermark with `advance`",
                code="late",
            )
        return header, batches

    def extract(self, keys: KeySelection) -> bytes:
        """Take out what goals hold of these keys and what waits of them."""
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
        """Put what was read in the place of all that is held of these keys."""
        if self._new():
            self.parts.buffer.restore({}, header)
        values, (waiting, *states) = batches[: header["values"]], batches[header["values"] :]
        moved = np.empty(0, np.int64)
        if values:
            moved = self.parts.pool.load(pl.from_arrow(pa.Table.from_batches(values)))  # type: ignore[arg-type]
        goals, codes = self._goals(), translation(moved)
        demand(len(states) == len(goals))
        tables = from_arrow(waiting)
        for name, places in coded(self.parts.plan.schemas).items():
            for row in places if name in tables else ():
                tables[name][row] = codes(tables[name][row])
        for (goal, sides), each in zip(goals, states, strict=True):
            goal.replace(self.stage.selection(sides, keys, self.parts.pool), goal.recoded(each, codes))
        for name in sorted(tables.keys() | self.parts.buffer.waiting.keys()):
            _, others = self._waiting(name, keys, True)
            self.parts.buffer.waiting[name] = [*others, *([tables[name]] if name in tables else [])]
            if not self.parts.buffer.waiting[name]:
                del self.parts.buffer.waiting[name]
        self.parts.buffer.later(header)
        self.parts.position = max(self.parts.position, header["position"])

    def _new(self) -> bool:
        """Whether nothing has come yet."""
        return self.parts.buffer.watermark == self.parts.buffer.latest == BEGINNING

    def _goals(self) -> list[tuple[Goal, tuple[_Side, ...]]]:
        """The goals with their inputs."""
        found, origin, chained = [], self.parts.plan.origin, set(self.parts.machine.compiled)
        for unit, goal in self.parts.machine.goals():
            if isinstance(unit, str):
                found.append((goal, self.stage.sides(unit) if unit in chained else ()))
            else:
                found.append((goal, self.stage.sides(unit if origin is None else origin[unit])))
        return found

    def _waiting(self, name: str, keys: KeySelection, others: bool = False) -> tuple[Table, list[Table]]:
        """Of what waits of an event, what goes with these keys and what stays; `others`: only what is of other keys."""
        schema, route = self.parts.plan.schemas[name], self.stage.stage.inputs[name]
        tables = self.parts.buffer.waiting.get(name)
        if not tables:
            return empty(len(schema.attributes)), []
        table = concat(tables)
        if route == "whole":  # no goal that remembers takes it
            mine = np.zeros(rows(table), np.bool_)
            if isinstance(keys, Share):
                mine = keys.whole(table_frame(table, schema, self.parts.pool), schema)
            others_rows = ~mine
        else:
            columns = route if isinstance(route, tuple) else None
            side = _Side(columns, tuple(schema.attributes[column].type for column in columns or ()))
            chosen = self.stage.selection([side], keys, self.parts.pool)
            mine = chosen.going(0, contiguous(table[FIRST:].T))
            others_rows = ~mine if others else chosen.staying(0, mine)
        return contiguous(table[:, mine]), [contiguous(table[:, others_rows])] if others_rows.any() else []


def translation(moved: Ints) -> Translation:
    """Codes of another pool as those that `Pool.load` gave for them."""

    def translated(codes: Ints) -> Ints:
        known = (codes >= 0) & (codes < len(moved))
        found: Ints = np.where(known, np.append(moved, MISSING)[np.where(known, codes, -1)], MISSING)
        return found

    return translated


# --- from buckets to buckets ------------------------------------------------------------------------------------------


class Bucket(Protocol):
    """An engine, as far as it is asked here."""

    def extract(self, keys: KeySelection) -> bytes:
        """See `Engine.extract`."""
        ...

    def replace(self, keys: KeySelection, state: bytes) -> None:
        """See `Engine.replace`."""
        ...


def gather(before: Callable[[int], Bucket | None], of: int, into: Bucket, number: int, count: int) -> None:
    """The engine of bucket `number` of `count`, which is new, takes over all that the engines of `of` buckets hold of
    its keys: those of the rows that `deal` will give it. `before` gives such an engine, None where there was none; it
    keeps what belongs to every key."""
    for place in range(number % math.gcd(of, count), of, math.gcd(of, count)):  # no other has any of its keys
        if (one := before(place)) is not None:
            share = Share(((place, of), (number, count)))
            into.replace(share, one.extract(share))


def rebalance(before: Sequence[Bucket], after: Sequence[Bucket]) -> None:
    """All that the engines of a stage's buckets hold goes to the engines, which are new, of as many others as there are
    to be."""
    for number, one in enumerate(after):
        gather(before.__getitem__, len(before), one, number, len(after))
