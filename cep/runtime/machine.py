"""The machine. It runs groups of goals in order, once per slice of the stream, and contains no code for particular
operators.

step:  for every group, outputs of the units that it reads -> its output
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from time import perf_counter_ns
from typing import TypeAlias, cast

import pyarrow as pa

from cep.core.errors import CepError
from cep.core.fluents import EDGES, OWN_END, RECORDS, TRANSITIONS
from cep.core.relation import Table, empty, rows
from cep.core.signals import stops
from cep.core.time import END_OF_TIME, Frontier
from cep.operators.build import GoalBuilder
from cep.operators.goals.contract import Arrays, EventGoal, Goal, Ints, Lasting, Translation, demand
from cep.operators.goals.in_rounds import InRounds
from cep.plan import order
from cep.plan.order import PlanUnit
from cep.plan.plan import Plan
from cep.runtime.attempts import Attempts
from cep.runtime.cycle_builder import CycleBuilder
from cep.runtime.family import Family, with_families
from cep.runtime.machine_part import GivenTables, MachinePart, SingleGoal, slices
from cep.runtime.run_stats import Count
from cep.runtime.schedule import Schedule

# The number of rows in a slice. It is small enough that waiting and arriving rows stay in the processor's cache. It is
# large, because each rule looks at its waiting rows in every slice.
SLICE = 131_072


CarriedState: TypeAlias = "tuple[Mapping[str, pa.RecordBatch], Translation, Translation | None]"
"""The states of another machine's goals, by name of the goal, and two translations. The first one translates pool
codes. The second one translates handles, and is None if handles stay as they are."""


class Machine:
    """All goals of a plan, with their states."""

    def __init__(
        self, plan: Plan, builder: GoalBuilder, fast_recursion: bool, max_derivations: int, families: bool = False
    ) -> None:
        """Create the goals. `families`: True if rules of the same shape over many events may run as one part (see
        `cep.runtime.family`)."""
        self.plan = plan
        self.builder = builder
        self.widths: dict[PlanUnit, int] = {i: len(columns) for i, columns in enumerate(plan.columns)}
        self.widths |= {name: len(schema.attributes) for name, schema in plan.schemas.items()}
        self.parts: list[MachinePart] = []
        self.families: list[Family] = []
        self.transitions: tuple[str, ...] = ()
        self.watched: dict[PlanUnit, list[Table]] = {}
        """The output of each watched unit. The caller removes the tables that it has processed."""
        self.given = plan.derived
        self.made: dict[PlanUnit, int] = dict.fromkeys(self.widths, 0)
        self.spent: dict[PlanUnit, int] = dict.fromkeys(self.widths, 0)
        self._alone = self.parts
        """The parts before they are grouped into families. Callers see the states of the goals in these parts."""
        cycles = CycleBuilder(
            plan, self.widths, self._single, max_derivations, fast_recursion and builder.lineage is None
        )
        for group in plan.groups:
            if not group.recursive:
                self.parts.append(self._single(group.units[0]))
                continue
            compiled = builder.cycle(group) if fast_recursion else None
            self.parts.append(cycles.cycle(group, dict(self._goals())) if compiled is None else compiled)
        self.same = self._passed_on()
        self._following = {unit for unit, goal in self._goals() if isinstance(goal, InRounds) and goal.follows}
        self.parts = with_families(self.parts, plan, builder.heads) if families else self.parts
        self.families = [part for part in self.parts if isinstance(part, Family)]
        self.schedule = Schedule(self.parts, self._following)
        self.attempts = Attempts(self.parts)
        self.nothing = {unit: empty(width) for unit, width in self.widths.items()}

    @property
    def given(self) -> tuple[str, ...]:
        """The events whose occurrences a step returns, in the order of the result."""
        return tuple(self._places)

    @given.setter
    def given(self, events: Sequence[str]) -> None:
        self._places = {event: place for place, event in enumerate(events)}

    def _single(self, unit: PlanUnit) -> SingleGoal:
        event = unit if isinstance(unit, str) else None
        goal = self.builder.event(unit) if isinstance(unit, str) else self.builder.node(unit)
        return SingleGoal(unit, goal, self._reads(unit), event, self.widths[unit])

    def _passed_on(self) -> dict[PlanUnit, PlanUnit]:
        """Return, for each unit that only passes on the output of another unit, that other unit.

        The goals that read such a unit now read the other unit directly, so the unit need not run. Units that a cycle
        reads are excluded.
        """
        cycles = {
            other for group in self.plan.groups if group.recursive for u in group.units for other in self._reads(u)
        }
        singles = [part for part in self.parts if isinstance(part, SingleGoal)]
        same: dict[PlanUnit, PlanUnit] = {}
        for part in singles:
            if getattr(part.goal, "passes_on", False) and part.unit not in cycles:
                (same[part.unit],) = part.reads
                part.reads = ()
        for part in singles:
            part.reads = tuple(same.get(unit, unit) for unit in part.reads)
        return same

    def _reads(self, unit: PlanUnit) -> tuple[PlanUnit, ...]:
        if isinstance(unit, str):
            return tuple(self.plan.heads[n].child for n in self.builder.heads.get(unit, ()))
        return tuple(order.reads(self.plan.nodes[unit]))

    def follows(self, unit: PlanUnit) -> bool:
        """Return True if a change of the knowledge may change the output of a unit."""
        return unit in self._following

    # --- stepping ---

    def _to_the_latest(self, inputs: Mapping[str, Table], frontier: Frontier) -> Frontier:
        """Return the frontier for a step. If the input ends with this step, the returned frontier contains the latest
        time of the input.

        Endless recursion stops at this time.
        """
        if frontier.watermark < END_OF_TIME:
            return frontier
        schemas = self.plan.schemas
        records = [
            name
            for name in inputs
            if name in schemas and (of := schemas[name].fluent) is not None and of.part == RECORDS
        ]
        ends = [int(inputs[name][OWN_END].max()) for name in records if rows(inputs[name])]
        latest = max([frontier.latest, *ends, *(goal.latest for _, goal in self.lasting())])
        return replace(frontier, latest=latest)

    def step(self, inputs: Mapping[str, Table], frontier: Frontier) -> dict[str, list[Table]]:
        """Process input events up to `frontier`. Return the new occurrences of each derived event, one table per slice.

        The input must be sorted by time, and all its rows must end after the last watermark. Events without new
        occurrences are omitted.
        """
        return self._step(inputs, frontier, None)

    def attempt(
        self, inputs: Mapping[str, Table], frontier: Frontier, back: Frontier, kept: bool = False
    ) -> dict[str, list[Table]]:
        """Process input events like `step`, in such a way that `take_back` can undo everything after the frontier
        `back`.

        All input rows after `back` must have the same end. `kept`: True to store the states that the goals have at
        `back` in `attempts.states`.
        """
        outputs = self._step(inputs, frontier, back, kept)
        if kept:
            self.attempts.keep_others()
        return outputs

    def take_back(self) -> None:
        """Undo the last step, which must be an attempt (see `attempts.there`). The rows that the step added to
        `watched` remain there."""
        self.attempts.take_back()
        self.schedule.forget()

    def _step(
        self, inputs: Mapping[str, Table], frontier: Frontier, back: Frontier | None, kept: bool = False
    ) -> dict[str, list[Table]]:
        collected: dict[str, list[Table]] = {}
        frontier = self._to_the_latest(inputs, frontier)
        for pieces, until in slices(inputs, frontier.watermark, SLICE):
            self.attempts.begin(back if until == frontier.watermark else None, kept)
            outputs = self._slice(pieces, frontier.until(until))
            ran = (event for event in outputs if isinstance(event, str) and event in self._places)
            for event in sorted(ran, key=self._places.__getitem__):
                if rows(outputs[event]):
                    collected.setdefault(event, []).append(outputs[event])
        if frontier.watermark >= END_OF_TIME and any((goal.due() or 0) > END_OF_TIME for _, goal in self._goals()):
            raise CepError(
                "a deadline lies beyond the end of time, 146 thousand years from 1970",
                hint="deadlines that follow from each other add up; a deadline that restarts itself never ends",
                code="time",
            )
        return collected

    def _slice(self, inputs: Mapping[str, Table], frontier: Frontier) -> dict[PlanUnit, Table]:
        outputs = GivenTables(self.nothing)
        row_counts, spent, schedule = self.made, self.spent, self.schedule
        began = perf_counter_ns()
        schedule.begin(inputs, frontier.watermark)
        attempt = self.attempts.run if self.attempts.there else None
        while (number := schedule.next()) is not None:
            stops.between()
            part = self.parts[number]
            if attempt is None:
                worked = part.run(inputs, outputs, frontier, row_counts)
            else:
                worked = attempt(part, inputs, outputs, frontier, row_counts)
            schedule.ran(number, outputs)
            if worked:
                now = perf_counter_ns()
                spent[part.unit] += now - began
                began = now
        for unit, tables in self.watched.items():
            if rows(outputs[unit]):
                tables.append(outputs[unit])
        return outputs

    @property
    def compiled(self) -> tuple[str, ...]:
        """The recursive events that specialized compiled kernels derive."""
        return tuple(part.compiled for part in self.parts if part.compiled is not None)

    def give_transitions(self) -> None:
        """Make all later steps also return the tables of transitions of simple fluents."""
        fluents = {head.event: self.plan.schemas[head.event].fluent for head in self.plan.heads}
        self.transitions = tuple(
            name for name, of in fluents.items() if of is not None and of.part == TRANSITIONS and not of.defined
        )
        self.given = (*self.plan.derived, *(name for name in self.transitions if name not in self.plan.derived))

    def open(self, ended: bool = True) -> dict[str, list[Table]]:
        """Return the open intervals of each fluent.

        `ended`: True if the input has ended. An open interval is then an occurrence with its own handle. Otherwise it
        has the handle of the transition that began it.
        """
        open_tables: dict[str, list[Table]] = {}
        fluents: dict[PlanUnit, list[str]] = {}
        for head in self.plan.heads:
            fluent = self.plan.schemas[head.event].fluent
            if fluent is not None and fluent.part == EDGES and fluent.name in self.plan.schemas:
                fluents.setdefault(head.child, []).append(fluent.name)
        for unit, goal in self._goals() if fluents else ():
            for name in fluents.get(unit, ()):
                table = cast(Lasting, goal).open(ended)
                if rows(table):
                    open_tables[name] = [table]
        return open_tables

    # --- state ---

    def take_counts(self) -> list[Count]:
        """Return the statistics of each unit since the last call. Units that neither ran nor store rows are omitted."""
        counted = {unit: other for part in self.parts for unit, other in part.counted_as.items()}
        sizes = {counted.get(unit, unit): size for unit, size in self._sizes().items()}
        for family in self.families:
            family.count(self.made, self.spent)
        self.made |= {unit: self.made[other] for unit, other in self.same.items()}
        counts = [Count(unit, self.made[unit], self.spent[unit], *sizes.get(unit, (0, 0))) for unit in self.widths]
        self.made = dict.fromkeys(self.made, 0)
        self.spent = dict.fromkeys(self.spent, 0)
        return [count for count in counts if count.produced or count.time or count.rows]

    def goals(self) -> list[tuple[PlanUnit, Goal]]:
        """Return every goal with its unit, in an order that depends on the plan alone.

        The caller may change the states of the goals until the next step. After the next step, it must call `touched`
        before it changes them.
        """
        goals = self._goals()
        self.touched()
        return goals

    def events(self) -> list[tuple[EventGoal, str]]:
        """Return the goals whose unit is an event, each with the event's name."""
        return [(goal, unit) for unit, goal in self._singles() if isinstance(unit, str) and isinstance(goal, EventGoal)]

    def lasting(self) -> list[tuple[PlanUnit, Lasting]]:
        """Return the goals whose results last (`Lasting`). The caller must not change their states. Families never
        contain such goals."""
        return [(unit, goal) for unit, goal in self._singles() if isinstance(goal, Lasting)]

    def touched(self) -> None:
        """Record that a caller has changed the states of goals, so that the machine reads them again."""
        self.attempts.begin(None)
        self.schedule.forget()
        for family in self.families:
            family.touched()

    def goals_by_unit(self) -> dict[PlanUnit, Goal]:
        """Return every goal by its unit. The caller must not change the goals' states."""
        return dict(self._goals())

    def _goals(self) -> list[tuple[PlanUnit, Goal]]:
        for family in self.families:
            family.spread()
        return list(self._singles())

    def _singles(self) -> Iterator[tuple[PlanUnit, Goal]]:
        """Yield every goal with its unit. The state of a goal that belongs to a family may be out of date."""
        return (unit_goal for part in self._alone for unit_goal in part.goals_by_unit())

    def evict(self, frontier: Frontier) -> None:
        """Drop all state that no later input can need. A step also drops such state, but only a part of it, and only in
        goals that have input."""
        for _, goal in self.goals():
            goal.evict(frontier, wholly=True)

    def snapshot(self) -> list[pa.RecordBatch]:
        return [goal.snapshot() for _, goal in self.goals()]

    def states(self) -> list[Arrays]:
        """Return the state of every goal as arrays. The goals may change these arrays later."""
        return [goal.as_arrays() for _, goal in self.goals()]

    def needed(self, frontier: Frontier) -> list[Arrays]:
        """Return the state of every goal as arrays. Omit state that no input after the frontier can need."""
        return [goal.needed_arrays(frontier) for _, goal in self.goals()]

    def restore(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Restore the states of a snapshot of the same plan. Raises CepError if a state does not fit its goal."""
        demand(len(batches) == len(self._goals()))
        for (_, goal), batch in zip(self.goals(), batches, strict=True):
            goal.restore(batch)

    def named(self, names: Mapping[PlanUnit, str]) -> dict[PlanUnit, str]:
        """Return the names of goals. `names`: the names of units. A goal has the name of its unit, except for a
        recursion that a compiled kernel runs."""
        return {**names, **{unit: name for part in self.parts for unit, name in part.goal_names(names).items()}}

    def carry(
        self,
        names: Sequence[str],
        states: Sequence[CarriedState],
        frontier: Frontier,
    ) -> None:
        """Restore each goal's state from the first of `states` that contains it. All other goals begin with an empty
        state at `frontier`.

        `names`: the names of the goals, in the order of `goals`.
        """
        for name, (_, goal) in zip(names, self.goals(), strict=True):
            for by_name, codes, handles in states:
                if name in by_name:
                    state = goal.recoded(by_name[name], codes)
                    goal.restore(state if handles is None else goal.renamed(state, handles))
                    break
            else:
                goal.begin(frontier)

    def codes(self) -> list[Ints]:
        return [codes for _, goal in self._goals() for codes in goal.codes()]

    def coded(self) -> list[Ints]:
        """Return the numbers in the goals' states that are used as pool codes. A restored state is valid only if they
        are all codes of the pool."""
        return [codes for _, goal in self._goals() for codes in goal.coded()]

    def names(self) -> list[Ints]:
        return [names for _, goal in self._goals() for names in goal.names()]

    @property
    def size(self) -> tuple[int, int]:
        """The number of occurrences that wait in the goals, and their size in bytes."""
        sizes = self._sizes().values()
        return sum(s[0] for s in sizes), sum(s[1] for s in sizes)

    def _sizes(self) -> dict[PlanUnit, tuple[int, int]]:
        sizes = {unit: size for family in self.families for unit, size in family.sizes().items()}
        return sizes | {unit: goal.size for unit, goal in self._singles() if unit not in sizes}
