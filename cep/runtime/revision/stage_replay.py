"""One stage of a program as a region: its rows by key, and its own machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from cep.core.errors import CepError
from cep.core.relation import FIRST, Table, contiguous, empty, rows
from cep.core.time import Frontier
from cep.core.values import Pool
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.contract import Bools, Goal, Ints
from cep.plan.order import PlanUnit
from cep.plan.partition import Stage, partition
from cep.plan.plan import Plan
from cep.plan.staged import needed, staged
from cep.runtime.keyed_stage import KeyedStage, KeySide
from cep.runtime.machine import Machine
from cep.runtime.revision.kept_state import States
from cep.runtime.revision.key_numbers import KeyNumbers
from cep.runtime.revision.knowledge_replay import Step
from cep.runtime.revision.region import Region
from cep.runtime.revision.row_window import RowWindow

Tables = dict[str, Table]


class StageReplay(Region):
    """`gives`: what of the outputs of the stage others see."""

    def __init__(
        self,
        whole: Machine,
        plan: Plan,
        stage: Stage,
        build: Callable[[Plan], Machine],
        pool: Pool,
        seen: Iterable[str],
    ) -> None:
        self.stage, self.plan = stage, plan
        self.gives = tuple(event for event in stage.outputs if event in seen)
        self.machine = build(staged(plan, stage.number) if stage.number else plan)
        self.machine.given = self.gives
        places = {unit: place for place, (unit, _) in enumerate(whole.goals())}
        inner = self.machine.plan
        origin = range(len(plan.nodes)) if inner.origin is None or not stage.number else inner.origin
        units: list[PlanUnit] = [u if isinstance(u, str) else origin[u] for u, _ in self.machine.goals()]
        kept = [number for number, (_, goal) in enumerate(self.machine.goals()) if goal.as_arrays()]
        own: list[Goal] = [self.machine.goals()[number][1] for number in kept]
        units = [units[number] for number in kept]
        theirs = {each for other in partition(plan) if other.number != stage.number for each in needed(plan, other)}
        alone = theirs.isdisjoint(needed(plan, stage)) if stage.number else True
        sides: list[tuple[KeySide, ...]] = []
        self.inputs: dict[str, KeySide | None] = {}
        self.outputs: dict[str, KeySide] = {}
        self.keyed = stage.keyed
        if stage.keyed:
            try:
                found = KeyedStage(plan, stage.number)
                chained = set(self.machine.compiled)
                sides = [found.sides(unit) if not isinstance(unit, str) or unit in chained else () for unit in units]
                self.inputs = {event: found.taken(event) for event in stage.inputs}
                self.outputs = {event: found.given(event) for event in self.gives if event not in stage.merged}
            except CepError:  # something in it is held of no key
                self.keyed = False
        super().__init__(stage.number, own, [places[unit] for unit in units], sides, KeyNumbers(pool), alone)

    # --- rows ---

    def keys_of(self, event: str, table: Table) -> Ints:
        """The numbers of the keys of rows of an input that goes by key."""
        side = self.inputs[event]
        assert side is not None and side.columns is not None, "it goes by key"
        return self.numbers.entered(side.types, _columns(table, side.columns))

    def taken(self, event: str, window: RowWindow, keys: Bools | None) -> Table:
        """The rows of an input that keys have, sorted by arrival; none where rows go by no key."""
        side = None if keys is None else self.inputs[event]
        if keys is not None and side is None:
            return empty(window.arguments)
        return self._of(window, side, keys)

    def given(self, event: str, window: RowWindow, keys: Bools | None) -> Table:
        """The rows that the stage has given for keys."""
        return self._of(window, None if keys is None else self.outputs[event], keys)

    def _of(self, window: RowWindow, side: KeySide | None, keys: Bools | None) -> Table:
        found = window.runs
        if side is not None and side.columns is not None:
            assert keys is not None, "all rows are of all keys"
            test, columns = self._of_keys(keys).test(side.types), side.columns
            found = [run[:, np.flatnonzero(test(_columns(run, columns)))] for run in found]
        found = [run for run in found if rows(run)]
        return by_arrival(contiguous(np.concatenate([empty(window.arguments), *found], axis=1)))

    # --- running ---

    def run(
        self, states: States, inputs: Tables, frontier: Frontier, step: Step
    ) -> tuple[dict[str, list[Table]], States]:
        """What the stage gives of inputs up to a frontier, and what its goals hold then; they take these states on."""
        for goal, state in zip(self.own, states, strict=True):
            goal.become_arrays(state)
        self.machine.touched()
        inputs = {event: table for event, table in sorted(inputs.items()) if rows(table)}
        return step(self.machine, inputs, frontier), [goal.needed_arrays(frontier) for goal in self.own]


def _columns(table: Table, columns: Sequence[int]) -> Ints:
    """The arguments of these numbers, a row an occurrence."""
    return table[[FIRST + column for column in columns]].T if len(columns) > 1 else table[FIRST + columns[0]][:, None]
