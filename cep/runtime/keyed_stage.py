"""The partitioning key of a stage. This module finds the columns that contain the key in each goal, and selects rows by
key.

A stage that runs in buckets (see `cep.plan.partition`) distributes rows by the values of some of their arguments. These
values are the key.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.core.errors import CepError
from cep.core.hashtable import KeySet
from cep.core.relation import bits
from cep.core.schema import CODED, Schema
from cep.core.value_hashes import hashes
from cep.core.values import MISSING, Ints, Pool
from cep.events import Iri, Value
from cep.operators.goals.contract import Bools, StateKeys
from cep.plan.copartitioning import EVERYWHERE, Copartitioned, KeyColumns, copartition
from cep.plan.dependencies import Dependencies
from cep.plan.node import Meeting
from cep.plan.order import PlanUnit
from cep.plan.partition import Stage, partition
from cep.plan.plan import Plan
from cep.rules.expressions.typed import common_type
from cep.runtime.buckets import row_hashes
from cep.runtime.decode import decoded_series

Key = tuple[Value, ...]
"""A partitioning key: the values of the arguments by which rows are distributed, in the order of `Stage.inputs`."""


class HashedKeys(ABC):
    """A selection of keys by their hash (see `cep.core.value_hashes.hashes`)."""

    __slots__ = ()

    @abstractmethod
    def chosen(self, hashed: NDArray[np.uint64]) -> Bools:
        """Return a mask of the selected keys. `hashed`: the hashes of keys."""

    def holds(self, columns: Sequence[pl.Series], types: Sequence[str]) -> Bools:
        """Return a mask of the rows whose key is selected. `columns`, `types`: the key columns and their types."""
        return self.chosen(hashes(columns, types))

    def whole(self, table: pl.DataFrame, schema: Schema) -> Bools:
        """Return a mask of the rows whose hash is selected, for a table that is distributed by hashes of whole rows."""
        return self.chosen(row_hashes(table, schema, "whole"))


KeySelection = Collection[Key] | HashedKeys


@dataclass(frozen=True, slots=True)
class KeySide:
    """The columns that contain the key in one input of a goal, and the types of these columns. `columns` is None if the
    rows of this input have no key, so that every bucket receives all of them."""

    columns: tuple[int, ...] | None
    types: tuple[str, ...] = ()


class KeyedStage:
    """The key columns in one stage of a plan. `number`: the number of the stage. None means the only stage of the
    program.

    Raises CepError if the stage is not partitioned by one key, or if `number` is None and the program has several
    stages.
    """

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

    @classmethod
    def of(cls, plan: Plan, number: int | None) -> KeyedStage:
        """Return the keyed stage of a plan. It is computed once and shared by all engines of the plan."""
        if number not in plan.keyed:
            plan.keyed[number] = cls(plan, number)
        keyed: KeyedStage = plan.keyed[number]
        return keyed

    @cached_property
    def _ways(self) -> list[Copartitioned]:
        routes = {event: route for event, route in self.stage.inputs.items() if isinstance(route, tuple)}
        everywhere = {event for event, route in self.stage.inputs.items() if route == "broadcast"}
        ways = []
        for i in range(max(map(len, routes.values()), default=0)):
            places = {event: route[i] for event, route in routes.items() if len(route) > i}
            ways.append(copartition(self.dependencies, self.stage.rules, places, everywhere, self.stage.inputs.keys()))
        return ways

    def sides(self, unit: PlanUnit) -> tuple[KeySide, ...]:
        """Return the key columns of each input that a goal stores. The result is empty if the goal has no state.

        `unit`: the number of the goal in the plan of the whole program. If the state belongs to a recursive event, it
        is the name of the event.

        Raises CepError if the state has no key.
        """
        if isinstance(unit, str):
            schema = self.plan.schemas[unit]
            places = [way.places[unit] for way in self._ways if unit in way.places]
            return (self._side(places, [a.type for a in schema.attributes], unit),)
        properties, parts = self.dependencies.properties[unit], self.plan.nodes[unit].parts
        if not properties.remembers:
            return ()
        ways = [way for way in self._ways if unit in way.nodes]
        key_sides = []
        for part, child in enumerate(parts):
            if part == properties.negated and part not in properties.waits:
                if properties.meeting is Meeting.PAIRS:  # otherwise, the goal does not keep negated rows
                    key_sides.append(self._absent(unit, child, ways))
                continue
            places = [way.nodes[child] for way in ways]
            if properties.meeting is Meeting.GROUPS:
                by = {column for group, column in properties.groups if group == part}
                places = [EVERYWHERE if place is EVERYWHERE else place & by for place in places]
            key_sides.append(self._side(places, self.dependencies.plan.types(child), unit))
        return tuple(key_sides)

    def coming(self, unit: PlanUnit) -> KeySide:
        """Return the key columns of the rows that a unit outputs. Raises CepError if these rows have no key."""
        if not isinstance(unit, str):
            places = [way.nodes[unit] for way in self._ways if unit in way.nodes]
            return self._side(places, self.dependencies.plan.types(unit), unit)
        return self.given(unit) if any(unit in way.places for way in self._ways) else self.dealt(unit)

    def dealt(self, event: str) -> KeySide:
        """Return the key columns of an event's input records. Raises CepError if they are not distributed by key."""
        side = self.taken(event) if event in self.stage.inputs else None
        if side is None:
            raise self._without_key(event)
        return side

    def taken(self, event: str) -> KeySide | None:
        """Return the key columns of an input of the stage. Returns None if the input's rows are distributed by the hash
        of the whole row."""
        route = self.stage.inputs[event]
        if route == "whole":
            return None
        if not isinstance(route, tuple):
            return KeySide(None)
        return KeySide(route, tuple(self.plan.schemas[event].attributes[column].type for column in route))

    def given(self, event: str) -> KeySide:
        """Return the key columns of an event that the stage outputs. Raises CepError if its rows have no key."""
        types = [attribute.type for attribute in self.plan.schemas[event].attributes]
        return self._side([way.places[event] for way in self._ways if event in way.places], types, event)

    def _side(self, places: Sequence[KeyColumns], types: Sequence[str], unit: PlanUnit) -> KeySide:
        if places and places[0] is EVERYWHERE:
            return KeySide(None)
        columns: list[int] = []
        for place in places:
            if not place:
                break
            columns.append(min(place))
        if not columns:
            raise self._without_key(unit)
        return KeySide(tuple(columns), tuple(types[column] for column in columns))

    def _absent(self, unit: int, absent: int, ways: Sequence[Copartitioned]) -> KeySide:
        """Return the key columns of the negated input of a join, as positions in the join key.

        `absent`: the node of the negated input. `ways`: the location of each column of the key (`_ways`).
        """
        if ways and ways[0].nodes[absent] is EVERYWHERE:
            return KeySide(None)
        properties, own, theirs = (
            self.dependencies.properties[unit],
            self.dependencies.plan.types(absent),
            self.dependencies.plan.types(unit),
        )
        columns, types = [], []
        for way in ways:
            inside, outside = way.nodes[absent], way.nodes[unit]
            assert inside is not EVERYWHERE and outside is not EVERYWHERE, "both sides have a key"
            pairs = [pair for pair in self.dependencies.forbidden(unit) if pair[0][1] in inside and pair[1] in outside]
            if not pairs:
                break
            type = common_type(own[pairs[0][0][1]], theirs[pairs[0][1]])
            assert type is not None, "types that never join were refused"
            columns.append(properties.forbids.index(pairs[0]))
            types.append(type)
        if not columns:
            raise self._without_key(unit)
        return KeySide(tuple(columns), tuple(types))

    def _without_key(self, unit: PlanUnit) -> CepError:
        what = f"`{unit}`" if isinstance(unit, str) else f"a goal of {', '.join(self._rules(unit))}"
        return CepError(f"the state of {what} has no key", hint="`cep plan` shows how rows are distributed", code="key")

    def _rules(self, node: int) -> list[str]:
        rules = [self.plan.rules.rules[number] for number in sorted(self.plan.users[node])]
        return [f"`{rule.label}`" if rule.label else self.plan.source.line_name(rule.span.line) for rule in rules]

    def selection(self, sides: Sequence[KeySide], keys: KeySelection, pool: Pool) -> StateKeys:
        """Return the selected keys in the form that the methods of a goal's state expect. `sides`: the key columns of
        the goal's inputs."""
        return StateKeys(tuple(side.columns for side in sides), tuple(_test(side.types, keys, pool) for side in sides))


def _test(types: Sequence[str], keys: KeySelection, pool: Pool) -> Callable[[Ints], Bools]:
    """Return a function that takes rows of key columns and returns a mask of the rows whose key is selected. Keys that
    have more or fewer values than `types` are ignored."""
    if isinstance(keys, HashedKeys):
        return lambda table: keys.holds(
            [decoded_series(table[:, i], type, pool) for i, type in enumerate(types)], types
        )
    encoded = [encoded_key(key, types, pool) for key in keys if len(key) == len(types)]
    known = [row for row in encoded if row is not None]
    wanted = KeySet(len(types))
    wanted.insert(np.array(known, np.int64).reshape(len(known), len(types)))
    return lambda table: wanted.find(table) >= 0


def encoded_key(key: Key, types: Sequence[str], pool: Pool) -> list[int] | None:
    """Encode the values of a key. `types`: the types of the key columns. Returns None if a value does not fit its
    type."""
    words = []
    for value, type in zip(key, types, strict=True):
        if value is None:
            words.append(int(bits(np.array([math.nan]))[0]) if type == "float" else MISSING)
        elif type in CODED:
            if type == "any" or (isinstance(value, str) and (type == "iri") == isinstance(value, Iri)):
                words.append(int(pool.encode_values([value])[0]))
            elif isinstance(value, str) and type == "iri":
                words.append(int(pool.encode_values([Iri(value)])[0]))
            else:
                return None
        elif isinstance(value, str):
            return None
        elif type == "float":
            words.append(int(bits(np.array([float(value)]))[0]))
        elif float(value).is_integer() and abs(value) < 2**63:
            words.append(int(value))
        else:
            return None
    return words
