"""What late changes change: the stages that they reach are run again, for the keys that they have.

What a stage gives of a key then stands in the place of what it gave (`cep.runtime.revision.region`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from cep.core.relation import contiguous, empty, rows
from cep.core.values import Pool
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.contract import Bools
from cep.plan.partition import Route, Stage, partition
from cep.plan.plan import Plan
from cep.runtime.knowledge_changes import KnowledgeChanges
from cep.runtime.machine import Machine
from cep.runtime.revision.kept_state import KeptState, States
from cep.runtime.revision.knowledge_replay import KnowledgeReplay
from cep.runtime.revision.region import Due, Window, due_of
from cep.runtime.revision.row_changes import RowChanges, joined
from cep.runtime.revision.row_window import without
from cep.runtime.revision.stage_replay import StageReplay
from cep.runtime.revision.stretch import Given, Stretch, extend, window_of

WHOLE = 0
"""The number of all stages as one."""


@dataclass(slots=True)
class Revised:
    """What was given and what is given instead, by event; how many keys were run again, all of a stage as one."""

    old: Given = field(default_factory=dict)
    new: Given = field(default_factory=dict)
    keys: int = 0


class GoingBack:
    """The stages of a machine, to be run again. `build`: makes a machine for a part of the plan; `seen`: what stages
    give to others or is given out; `changes`: the knowledge as it changes; `lineage`: whether
    it is told what rows come from."""

    def __init__(
        self,
        plan: Plan,
        machine: Machine,
        build: Callable[[Plan], Machine],
        pool: Pool,
        changes: KnowledgeChanges | None,
        lineage: bool,
    ) -> None:
        self.plan, self.machine, self.build, self.pool = plan, machine, build, pool
        self.stages: tuple[Stage, ...] = partition(plan)
        rules = tuple(range(len(plan.heads)))
        made = tuple(dict.fromkeys(head.event for head in plan.heads))
        taken: dict[str, Route] = dict.fromkeys(sorted(plan.inputs), "single")
        self.whole = Stage(WHOLE, False, rules, taken, plan.inputs, made, frozenset(), ())
        handed = {event for stage in self.stages for event in stage.inputs if event not in stage.outside}
        self.lineage = lineage
        self.seen = tuple(event for event in made if lineage or event in handed or event in plan.derived)
        self.replays: dict[int, StageReplay] = {}
        self.knowledge = KnowledgeReplay(plan, (self.whole, *self.stages), changes)

    def revise(self, changes: Mapping[str, RowChanges], window: Window) -> Revised:
        """Run the stages again that changes of the input reach, which are in the window already."""
        changed, found = dict(changes), Revised()
        whole = self._merges(changed) or (
            self.lineage and len(self.stages) > 1
        )  # later stages are told of origins, too
        if whole:
            for stretch in window.stretches:
                self.settle(stretch.state)
        for stage in [self.whole] if whole else self.stages:
            mine = {event: each for event, each in changed.items() if event in stage.inputs}
            if mine or self.knowledge.reaches(stage):
                for event, each in self._again(stage, mine, window, found).items():
                    changed[event] = joined([*([changed[event]] if event in changed else []), each])
        if self.whole.number in self.replays:
            for stretch in window.stretches:
                self.settle(stretch.state)
        return found

    def settle(self, state: KeptState) -> None:
        """Put what late changes made of the states of some keys in their place."""
        for number in sorted(state.overlays):
            self.replays[number].settle(state)

    @property
    def numbered(self) -> int:
        """How many keys have numbers, of the stage with the most."""
        return max((replay.numbers.count for replay in self.replays.values()), default=0)

    def clear(self) -> None:
        """Forget the numbers of keys, which no state uses any more."""
        for replay in self.replays.values():
            replay.numbers.clear()

    def _merges(self, events: Iterable[str]) -> bool:
        """Whether these reach a stage that makes what others may make as well: what it no longer makes may stay."""
        reached = set(events)
        for stage in self.stages:
            if reached & stage.inputs.keys() or self.knowledge.reaches(stage):
                if stage.merged:
                    return True
                reached.update(stage.outputs)
        return False

    def _again(
        self, stage: Stage, changes: Mapping[str, RowChanges], window: Window, found: Revised
    ) -> dict[str, RowChanges]:
        """Run a stage again where its input changes; what that changes of what it gives."""
        replay, made = self._replay(stage), dict[str, list[RowChanges]]()
        due = self._due(replay, changes, window)
        to_the_end = self.knowledge.reaches(stage)  # what is known later may differ, too
        if to_the_end:
            due[window.place(self.knowledge.reached(stage, np.empty(0, np.int64))[0])] = None

        def run(number: int, keys: Bools | None, joining: Bools | None, before: States) -> States:
            stretch, until = window.stretches[number], window.until(number)
            inputs = {}
            for event in stage.inputs:
                windows = stretch.inputs if event in stage.outside else stretch.given
                if event in windows:
                    inputs[event] = replay.taken(event, windows[event], keys)
            step = self.knowledge.steps(stage, stretch.since)[1]
            tables, now = replay.run(before, inputs, window.frontier(until), step)
            for event, each in self._given(replay, stretch, keys, tables, found).items():
                made.setdefault(event, []).append(each)
            return now

        found.keys += replay.run_again(due, window, self.machine.goals(), run, to_the_end)
        return {event: joined(each) for event, each in made.items()}

    def _due(self, replay: StageReplay, changes: Mapping[str, RowChanges], window: Window) -> Due:
        """The stretches that changes are in."""
        routes = {event: replay.stage.inputs[event] for event in changes}
        numbered = []
        for event, each in changes.items():
            for table in (each.going, each.coming):
                for number, mine in window.places(table).items():
                    by_key = replay.keyed and isinstance(routes[event], tuple)
                    numbered.append((number, replay.keys_of(event, mine) if by_key else None))
        return due_of(numbered, replay.numbers.count)

    def _given(
        self, replay: StageReplay, stretch: Stretch, keys: Bools | None, tables: Given, found: Revised
    ) -> dict[str, RowChanges]:
        """Put what a stage gives in the place of what it gave in a stretch; the difference, by event."""
        changes = {}
        for event in replay.gives:
            none = empty(len(self.plan.schemas[event].attributes))
            was = replay.given(event, stretch.given[event], keys) if event in stretch.given else none
            now = by_arrival(contiguous(np.concatenate([none, *tables.get(event, ())], axis=1)))
            if np.array_equal(was, now):
                continue
            going, coming = (was, now) if self.lineage else (without(was, now), without(now, was))
            if not rows(going) and not rows(coming):
                continue
            extend(found.old, {event: [going]})
            extend(found.new, {event: [coming]})
            given = window_of(stretch.given, event, len(self.plan.schemas[event].attributes))
            given.drop(going)
            given.add(coming)
            changes[event] = RowChanges(going, coming)
        return changes

    def _replay(self, stage: Stage) -> StageReplay:
        if stage.number not in self.replays:
            self.replays[stage.number] = StageReplay(self.machine, self.plan, stage, self.build, self.pool, self.seen)
        return self.replays[stage.number]
