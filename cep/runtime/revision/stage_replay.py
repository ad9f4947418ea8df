"""One stage of a program, run again for the keys that a change has: with the input as it was, and as it is.

Both ways begin with the state of these keys before the change. What they give tells what the change withdraws and adds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cep.core.errors import CepError
from cep.core.relation import FIRST, Table, contiguous, empty, rows
from cep.core.time import Frontier
from cep.core.values import Pool
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.contract import StateKeys, kept
from cep.plan.order import PlanUnit
from cep.plan.partition import Stage
from cep.plan.plan import Plan
from cep.plan.staged import staged
from cep.runtime.decode import values
from cep.runtime.keyed_stage import Key, KeyedStage, KeySide
from cep.runtime.machine import Machine
from cep.runtime.revision.knowledge_replay import Step
from cep.runtime.revision.row_window import without

Tables = dict[str, Table]
States = list[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Of an event: rows that were there and are no more, and rows that are there now."""

    going: Table
    coming: Table


class StageReplay:
    """`goals`: where the goals of the stage are among those of the whole program."""

    def __init__(self, whole: Machine, plan: Plan, stage: Stage, build: Callable[[Plan], Machine], pool: Pool) -> None:
        self.stage, self.pool = stage, pool
        self.plan = staged(plan, stage.number) if stage.number else plan
        self.old, self.new = build(self.plan), build(self.plan)
        for machine in (self.old, self.new):
            machine.given = stage.outputs
        places = {unit: place for place, (unit, _) in enumerate(whole.goals())}
        origin = range(len(plan.nodes)) if self.plan is plan or self.plan.origin is None else self.plan.origin
        units: list[PlanUnit] = [u if isinstance(u, str) else origin[u] for u, _ in self.new.goals()]
        self.goals = [places[unit] for unit in units]
        self.keyed: KeyedStage | None = None
        self.sides: list[tuple[KeySide, ...]] = []
        if stage.keyed:
            try:
                self.keyed = KeyedStage(plan, stage.number)
                chained = set(self.new.compiled)
                self.sides = [
                    self.keyed.sides(unit) if not isinstance(unit, str) or unit in chained else () for unit in units
                ]
            except CepError:  # something in it is held of no key
                self.keyed = None

    def keys(self, changes: Mapping[str, RowChanges]) -> set[Key] | None:
        """The keys that changed rows have; None: all."""
        if self.keyed is None or any(self.stage.inputs[event] == "broadcast" for event in changes):
            return None
        found: set[Key] = set()
        for event, each in changes.items():
            route = self.stage.inputs[event]
            if not isinstance(route, tuple):  # what is made of each row is made of it alone
                continue
            types = [self.plan.schemas[event].attributes[column].type for column in route]
            for table in (each.going, each.coming):
                columns = [values(table, column, type, self.pool) for column, type in zip(route, types)]
                found.update(zip(*columns))
        return found

    def apart(self, keys: set[Key] | None, states: Sequence[pa.RecordBatch]) -> tuple[States, States]:
        """Of states of the whole program those of the stage's goals: what is of these keys, and what is not."""
        own = [states[place] for place in self.goals]
        if keys is None:
            return own, []
        parts = [
            goal.apart(state, chosen) if chosen.columns else (state, state)
            for (_, goal), chosen, state in zip(self.new.goals(), self._chosen(keys), own, strict=True)
        ]
        return [going for going, _ in parts], [others for _, others in parts]

    def together(self, others: States, own: States) -> States:
        """The states of the stage's goals out of what `apart` took apart."""
        if not others:
            return own
        goals = [goal for _, goal in self.new.goals()]
        return [goal.together(*both) for goal, *both in zip(goals, others, own, strict=True)]

    def begin(self, states: States) -> None:
        """Both ways begin with these states."""
        self.old.restore(states)
        self.new.restore(states)

    def stretch(
        self, inputs: Tables, changes: Mapping[str, RowChanges], frontier: Frontier, steps: tuple[Step, Step]
    ) -> tuple[dict[str, list[Table]], dict[str, list[Table]]]:
        """What the stage gave and gives of inputs, which are as they are now, up to a frontier; each in `steps` of its
        own."""
        before = dict(inputs)
        for event, each in changes.items():
            kept = without(inputs.get(event, empty(len(each.going) - FIRST)), each.coming)
            before[event] = by_arrival(contiguous(np.concatenate([kept, each.going], axis=1)))
        was, now = steps
        return was(self.old, _some(before), frontier), now(self.new, _some(inputs), frontier)

    def taken(self, keys: set[Key] | None, event: str, table: Table, coming: Table | None) -> Table:
        """The rows of an input that the keys have; where rows go by no key those that are `coming`."""
        if keys is None or not rows(table):
            return table
        assert self.keyed is not None, "it has keys"
        side = self.keyed.taken(event)
        if side is None:
            return empty(len(table) - FIRST) if coming is None else coming
        if side.columns is None:
            return table
        mine = self.keyed.selection([side], keys, self.pool).among(0, contiguous(table[FIRST:].T))
        return contiguous(table[:, mine])

    def states(self) -> tuple[States, States]:
        """Those of both ways."""
        return kept(self.old.snapshot()), kept(self.new.snapshot())

    def _chosen(self, keys: set[Key]) -> list[StateKeys]:
        assert self.keyed is not None, "it has keys"
        return [self.keyed.selection(sides, keys, self.pool) for sides in self.sides]


def _some(tables: Tables) -> Tables:
    return {event: table for event, table in sorted(tables.items()) if rows(table)}
