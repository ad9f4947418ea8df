"""Revision by rerunning: after a late change, the affected stages run again for the affected keys.

The new output of a stage for a key replaces its old output (see `cep.runtime.revision.region`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cep.core.errors import CepError
from cep.core.relation import FIRST, Table, contiguous, empty, rows
from cep.core.time import BEGINNING, END_OF_TIME, Frontier
from cep.core.values import Pool
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.contract import Bools, Goal, Ints
from cep.plan.identity import identities, meanings
from cep.plan.order import PlanUnit
from cep.plan.partition import Route, Stage, partition
from cep.plan.plan import Plan
from cep.plan.staged import needed, staged
from cep.runtime.keyed_stage import KeyedStage, KeySide
from cep.runtime.knowledge_changes import KnowledgeChanges
from cep.runtime.machine import Machine
from cep.runtime.revision.key_numbers import KeyNumbers
from cep.runtime.revision.region import Due, Region, Window, due_of
from cep.runtime.revision.row_window import RowChanges, RowWindow, replaced
from cep.runtime.revision.window_segment import Given, KeptState, States, Stretch, by_stretch, extend, window_of


class KnowledgeReplay:
    """Changes of the knowledge that require a revision.

    - `changes`: the changes of the knowledge, or None if the knowledge does not change.
    - `asking`: the numbers of the stages that query the knowledge.
    """

    def __init__(self, plan: Plan, stages: Iterable[Stage], changes: KnowledgeChanges | None) -> None:
        self.changes = changes
        self.asking: frozenset[int] = frozenset()
        if changes is not None:
            changes.keep_from(BEGINNING, BEGINNING)
            self.asking = frozenset(
                stage.number for stage in stages if asks(staged(plan, stage.number) if stage.number else plan)
            )

    @property
    def late(self) -> bool:
        """True if changes of the knowledge have arrived late and the output does not reflect them yet."""
        return self.changes is not None and self.changes.first_late is not None

    def reaches(self, stage: Stage) -> bool:
        """Return True if late changes of the knowledge affect a stage, because the stage queries the knowledge."""
        return self.late and stage.number in self.asking

    def reached(self, stage: Stage, ends: Ints) -> tuple[int, int]:
        """Return the earliest and the latest time at which a stage's output may change in a revision.

        `ends`: the ends of the input rows that have changed.
        """
        first, last = (int(ends.min()), int(ends.max())) if len(ends) else (END_OF_TIME, BEGINNING)
        since = None if self.changes is None else self.changes.first_late
        return (first, last) if since is None or not self.reaches(stage) else (min(first, since), END_OF_TIME)

    def reflected(self, since: int, now: int) -> None:
        """Record that the output reflects all changes of the knowledge. `now`: the watermark.

        Also drop the knowledge of the time before `since`, which no later revision needs.
        """
        if self.changes is not None:
            self.changes.reflected()
            self.changes.reach(now)
            self.changes.keep_from(now, since)


def asks(plan: Plan) -> bool:
    """Return True if a plan queries knowledge that may change."""
    first_ids, other = (identities(plan, meanings(plan.rules, {}, name)) for name in ("one", "other"))
    return first_ids != other


Tables = dict[str, Table]

Change = tuple[str, RowChanges]
"""Changes of the rows of an event."""


class StageReplay(Region):
    """A stage that is rerun on a separate machine. `gives`: the events that the stage derives for other stages or for
    the output of the program."""

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
        theirs = {need for other in partition(plan) if other.number != stage.number for need in needed(plan, other)}
        alone = theirs.isdisjoint(needed(plan, stage)) if stage.number else True
        sides: list[tuple[KeySide, ...]] = []
        self.inputs: dict[str, KeySide | None] = {}
        self.outputs: dict[str, KeySide] = {}
        self.keyed = stage.keyed
        if stage.keyed:
            try:
                keyed = KeyedStage(plan, stage.number)
                chained = set(self.machine.compiled)
                sides = [keyed.sides(unit) if not isinstance(unit, str) or unit in chained else () for unit in units]
                self.inputs = {event: keyed.taken(event) for event in stage.inputs}
                self.outputs = {event: keyed.given(event) for event in self.gives if event not in stage.merged}
            except CepError:  # some state in it belongs to no key
                self.keyed = False
        super().__init__(stage.number, own, [places[unit] for unit in units], sides, KeyNumbers(pool), alone)

    # --- rows ---

    def keys_of(self, event: str, table: Table) -> Ints:
        """Return the key number of each row. The event must be an input that is distributed by key."""
        side = self.inputs[event]
        assert side is not None and side.columns is not None, "it goes by key"
        return self.numbers.entered(side.types, _columns(table, side.columns))

    def taken(self, event: str, window: RowWindow, keys: Bools | None) -> Table:
        """Return the rows of an input that belong to some keys, sorted by arrival. If `keys` is None, return all rows.

        If the input is not distributed by key, its rows belong to no key, and the result is empty unless `keys` is
        None.
        """
        side = None if keys is None else self.inputs[event]
        if keys is not None and side is None:
            return empty(window.arguments)
        return self._of(window, side, keys)

    def given(self, event: str, window: RowWindow, keys: Bools | None) -> Table:
        """Return the rows of an output window that belong to some keys. If `keys` is None, return all rows."""
        return self._of(window, None if keys is None else self.outputs[event], keys)

    def _of(self, window: RowWindow, side: KeySide | None, keys: Bools | None) -> Table:
        runs = window.runs
        if side is not None and side.columns is not None:
            assert keys is not None, "all rows are of all keys"
            test, columns = self._of_keys(keys).test(side.types), side.columns
            runs = [run[:, np.flatnonzero(test(_columns(run, columns)))] for run in runs]
        runs = [run for run in runs if rows(run)]
        return by_arrival(contiguous(np.concatenate([empty(window.arguments), *runs], axis=1)))

    # --- running ---

    def run(self, states: States, inputs: Tables, frontier: Frontier) -> tuple[dict[str, list[Table]], States]:
        """Run the stage, whose goals begin with `states`, up to a frontier. Return its output and the new states of its
        goals."""
        for goal, state in zip(self.own, states, strict=True):
            goal.become_arrays(state)
        self.machine.touched()
        inputs = {event: table for event, table in sorted(inputs.items()) if rows(table)}
        return self.machine.step(inputs, frontier), [goal.needed_arrays(frontier) for goal in self.own]


def _columns(table: Table, columns: Sequence[int]) -> Ints:
    return table[[FIRST + column for column in columns]].T if len(columns) > 1 else table[FIRST + columns[0]][:, None]


WHOLE = 0
"""The number of an artificial stage that combines all stages."""


@dataclass(slots=True)
class Revised:
    """The result of a revision: the old and the new output by event, and the number of keys that were rerun.

    A stage that is rerun for all keys at once counts as one key.
    """

    old: Given = field(default_factory=dict)
    new: Given = field(default_factory=dict)
    keys: int = 0


class GoingBack:
    """The stages of a machine, which can be rerun.

    - `build`: a function that builds a machine for a part of the plan.
    - `changes`: the changes of the knowledge.
    - `lineage`: True if the output has lineage.
    - `whole`: True to treat all stages as one stage. This is necessary if two stages may derive the same occurrence:
      if one of them withdraws it, the other one may still derive it.
    """

    def __init__(
        self,
        plan: Plan,
        machine: Machine,
        build: Callable[[Plan], Machine],
        pool: Pool,
        changes: KnowledgeChanges | None,
        lineage: bool,
        whole: bool,
    ) -> None:
        self.plan, self.machine, self.build, self.pool = plan, machine, build, pool
        derived_events = tuple(dict.fromkeys(head.event for head in plan.heads))
        self.stages: tuple[Stage, ...] = partition(plan)
        if whole:
            rules, routes = (
                tuple(range(len(plan.heads))),
                dict[str, Route](dict.fromkeys(sorted(plan.inputs), "single")),
            )
            self.stages = (Stage(WHOLE, False, rules, routes, plan.inputs, derived_events, frozenset(), ()),)
        self.handed = {event for stage in self.stages for event in stage.inputs if event not in stage.outside}
        self.lineage = lineage
        self.seen = tuple(event for event in derived_events if lineage or event in self.handed or event in plan.derived)
        self.replays: dict[int, StageReplay] = {}
        self.knowledge = KnowledgeReplay(plan, self.stages, changes)

    def revise(self, changes: Mapping[str, RowChanges], window: Window) -> Revised:
        """Rerun the stages that changes of the input affect. The input in `window` must already include the changes."""
        changed, revised = [*changes.items()], Revised()
        for stage in self.stages:
            mine = [change for change in changed if change[0] in stage.inputs]
            if mine or self.knowledge.reaches(stage):
                changed += self._again(stage, mine, window, revised)
        return revised

    def reorder(self, events: Collection[str], since: int, window: Window) -> None:
        """Rerun the stages that derive one of `events` for other stages, from the time `since` on. Their rows are then
        in the order in which a rerun derives them. All rows and states in `window` must be up to date.

        Incremental revision does not maintain the order of rows that tie.
        """
        for stage in self.stages:
            if not self.handed.isdisjoint(event for event in stage.outputs if event in events):
                replay = self._replay(stage)
                for number in range(window.place(since), len(window.stretches)):
                    before = replay.state(window.stretches[number].state, None)
                    self._run(replay, window, number, None, before, Revised())

    def settle(self, state: KeptState) -> None:
        """Apply the overlays of all stages to the stored state `state`."""
        for number in sorted(state.overlays):
            self.replays[number].settle(state)

    @property
    def numbered(self) -> int:
        """The largest number of keys that a stage knows."""
        return max((replay.numbers.count for replay in self.replays.values()), default=0)

    def clear(self) -> None:
        """Forget all keys. The caller must have applied all overlays before."""
        for replay in self.replays.values():
            replay.numbers.clear()

    def _again(self, stage: Stage, changes: Sequence[Change], window: Window, revised: Revised) -> list[Change]:
        """Rerun a stage for the keys and stretches in which its input has changed. Return the changes of its output,
        and add them to `revised`."""
        replay, output_changes = self._replay(stage), list[Change]()
        due = self._due(replay, changes, window)
        to_the_end = self.knowledge.reaches(stage)  # the knowledge may differ at later times, too
        if to_the_end:
            due[window.place(self.knowledge.reached(stage, np.empty(0, np.int64))[0])] = None

        def run(number: int, keys: Bools | None, before: States) -> States:
            more, now = self._run(replay, window, number, keys, before, revised)
            output_changes.extend(more)
            return now

        revised.keys += replay.run_again(due, window, self.machine.goals(), run, to_the_end)
        return output_changes

    def _run(
        self,
        replay: StageReplay,
        window: Window,
        number: int,
        keys: Bools | None,
        before: States,
        revised: Revised,
    ) -> tuple[list[Change], States]:
        """Rerun a stage for some keys in the stretch `number`, from the states `before`. Return the changes of its
        output, and the states at the end."""
        stage, stretch, inputs = replay.stage, window.stretches[number], Tables()
        for event in stage.inputs:
            windows = stretch.inputs if event in stage.outside else stretch.outputs
            if event in windows:
                inputs[event] = replay.taken(event, windows[event], keys)
        tables, now = replay.run(before, inputs, window.frontier(window.until(number)))
        return self._given(replay, stretch, keys, tables, revised), now

    def _due(self, replay: StageReplay, changes: Iterable[Change], window: Window) -> Due:
        numbered = []
        for event, row_changes in changes:
            by_key = replay.keyed and isinstance(replay.stage.inputs[event], tuple)
            for table in (row_changes.going, row_changes.coming):
                for number, mine in by_stretch(window.stretches, table):
                    numbered.append((number, replay.keys_of(event, mine) if by_key else None))
        return due_of(numbered, replay.numbers.count)

    def _given(
        self, replay: StageReplay, stretch: Stretch, keys: Bools | None, tables: Given, revised: Revised
    ) -> list[Change]:
        """Replace a stage's output in a stretch by `tables`. Return the difference between the old and the new output,
        and add it to `revised`."""
        changes = list[Change]()
        for event in replay.gives:
            none = empty(len(self.plan.schemas[event].attributes))
            was = replay.given(event, stretch.outputs[event], keys) if event in stretch.outputs else none
            if not rows(was) and event not in tables:
                continue
            now = by_arrival(contiguous(np.concatenate([none, *tables.get(event, ())], axis=1)))
            if np.array_equal(was, now):
                continue
            change = RowChanges(was, now) if self.lineage else replaced(was, now)
            if not rows(change.going) and not rows(change.coming):
                continue
            extend(revised.old, {event: [change.going]})
            extend(revised.new, {event: [change.coming]})
            event_window = window_of(stretch.outputs, event, len(self.plan.schemas[event].attributes))
            event_window.drop(change.going)
            event_window.add(change.coming)
            changes.append((event, change))
        return changes

    def _replay(self, stage: Stage) -> StageReplay:
        if stage.number not in self.replays:
            self.replays[stage.number] = StageReplay(self.machine, self.plan, stage, self.build, self.pool, self.seen)
        return self.replays[stage.number]
