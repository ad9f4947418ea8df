"""Speculative steps of a machine. The last instant of a speculative step can be undone.

Each part of the machine runs twice in such a step. The first half of the step ends just before the last instant, and
the second half is that instant. Before a goal runs in the second half, it makes a checkpoint (see
`cep.operators.goals.checkpoint`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cep.core.relation import END, Table, concat, contiguous, empty, rows, slice_until
from cep.core.time import Frontier
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.checkpoint import Checkpoint
from cep.operators.goals.contract import Arrays, Goal
from cep.plan.order import PlanUnit
from cep.runtime.machine_part import MachinePart, SingleGoal

Halves = tuple[Table, Table]
"""The two halves of a table: the rows up to the point to which the step can be undone, and the rows after it."""


class Attempts:
    """The speculative steps of a machine's parts."""

    def __init__(self, parts: Sequence[MachinePart]) -> None:
        self.parts = parts
        self._back: Frontier | None = None
        self._known: frozenset[PlanUnit] | None = None
        self._tried: list[tuple[Goal, Checkpoint]] = []
        self._states: dict[PlanUnit, Arrays] | None = None
        self._cut: dict[int, tuple[Table, Halves]] = {}
        """The two halves (`Halves`) of each table that was divided in this step, by the table's `id`."""
        self.apart: dict[PlanUnit, Halves] = {}
        """The two halves (`Halves`) of a unit's output, for units whose output cannot be divided by ends of rows."""

    @property
    def states(self) -> list[Arrays] | None:
        """The states of all goals before the instant that can be undone, as new arrays. It is None if `begin` was not
        told to keep states."""
        if self._back is None or self._states is None:
            return None
        return [self._states[unit] for part in self.parts for unit, _ in part.goals_by_unit()]

    @property
    def there(self) -> bool:
        """True if the last step can be undone."""
        return self._back is not None

    def begin(self, back: Frontier | None, kept: bool = False) -> None:
        """Prepare a step. `back`: the frontier to which the step can be undone, or None if it cannot be undone.

        `kept`: True to keep the states that the goals have at `back`.
        """
        self._back = back
        self._states = {} if kept else None
        self._tried.clear()
        self._cut.clear()
        self.apart.clear()

    def run(
        self,
        part: MachinePart,
        inputs: Mapping[str, Table],
        outputs: dict[PlanUnit, Table],
        frontier: Frontier,
        row_counts: dict[PlanUnit, int],
    ) -> bool:
        """Run a part twice, once for each half of the step. The arguments are those of `MachinePart.run`."""
        assert self._back is not None, "there is an attempt"
        if isinstance(part, SingleGoal):
            return self._single(part, inputs, outputs, self._back, frontier, row_counts)
        mine = {event: inputs[event] for event in part.takes.events if event in inputs}
        first, then = (
            ({event: self._halves(table)[half] for event, table in mine.items()}, _Half(outputs, self.given, half))
            for half in (0, 1)
        )
        part.run(*first, self._back, row_counts)
        for unit, goal in part.goals_by_unit():
            self._keep(unit, goal)
            self._tried.append((goal, goal.whole_checkpoint()))
        part.run(*then, frontier, row_counts)
        for unit in part.gives:
            self._give(unit, (first[1][unit], then[1][unit]), outputs)
        return True

    def _single(
        self,
        part: SingleGoal,
        inputs: Mapping[str, Table],
        outputs: dict[PlanUnit, Table],
        back: Frontier,
        frontier: Frontier,
        row_counts: dict[PlanUnit, int],
    ) -> bool:
        if part.unit in self._idle and self.apart.keys().isdisjoint(part.reads):
            return part.run(inputs, outputs, frontier, row_counts)
        halves = [self.given(unit, outputs[unit]) for unit in part.reads]
        if part.event is not None:
            halves.insert(0, self._halves(inputs.get(part.event, empty(part.width))))
        before, after = ([half[side] for half in halves] for side in (0, 1))
        goal, steps, worked = part.goal, [empty(part.width)] * 2, False
        if part.is_due(before, back):
            steps[0], worked = goal.step(before, back), True
        goal.evict(back)  # later, rows that the checkpoint refers to do not move
        self._keep(part.unit, goal)
        if part.is_due(after, frontier):
            self._tried.append((goal, goal.checkpoint(after, frontier)))
            steps[1], worked = goal.step(after, frontier), True
        self._give(part.unit, (steps[0], steps[1]), outputs)
        row_counts[part.unit] += rows(outputs[part.unit])
        return worked

    def take_back(self) -> None:
        assert self.there, "the last step was an attempt, and nobody has asked for what goals hold since"
        for goal, checkpoint in self._tried:
            goal.take_back(checkpoint)
        self.begin(None)

    def given(self, unit: PlanUnit, table: Table) -> Halves:
        """Return the two halves (`Halves`) of `table`, which is a unit's output in the last step."""
        return self.apart[unit] if unit in self.apart else self._halves(table)

    def _give(self, unit: PlanUnit, halves: Halves, outputs: dict[PlanUnit, Table]) -> None:
        assert self._back is not None, "there is an attempt"
        first, then = halves
        end = self._back.watermark
        if (rows(first) and first[END].max() > end) or (rows(then) and then[END].min() <= end):
            self.apart[unit] = halves
            outputs[unit] = by_arrival(concat(halves))
        else:
            outputs[unit] = concat(halves) if rows(first) and rows(then) else first if rows(first) else then

    def _halves(self, table: Table) -> Halves:
        """Divide a table at the frontier to which the step can be undone. Return the rows up to this frontier and the
        rows after it.

        Within a step, all calls with the same table return the same two tables.
        """
        if not rows(table):
            return table, table
        if id(table) not in self._cut:
            assert self._back is not None, "there is an attempt"
            stop = slice_until(table, self._back.watermark)
            self._cut[id(table)] = table, (contiguous(table[:, :stop]), contiguous(table[:, stop:]))
        return self._cut[id(table)][1]

    def keep_others(self) -> None:
        """Also keep the states of the goals that did not run in the last step. The step has not changed these
        states."""
        for part in self.parts:
            for unit, goal in part.goals_by_unit():
                if self._states is not None and unit not in self._states:
                    self._keep(unit, goal)

    def _keep(self, unit: PlanUnit, goal: Goal) -> None:
        if self._states is not None and self._back is not None:
            needed = goal.needed_arrays(self._back)
            self._states[unit] = {name: array.copy() for name, array in needed.items()}

    @property
    def _idle(self) -> frozenset[PlanUnit]:
        if self._known is None:
            singles = [part for part in self.parts if isinstance(part, SingleGoal)]
            self._known = frozenset(part.unit for part in singles if not part.goal.as_arrays())
        return self._known


class _Half(dict[PlanUnit, Table]):
    """The outputs of units in one half of a step. The part that runs adds the outputs of its own units. For other
    units, the mapping divides their output of the whole step."""

    def __init__(
        self, outputs: Mapping[PlanUnit, Table], give_halves: Callable[[PlanUnit, Table], Halves], half: int
    ) -> None:
        super().__init__()
        self.outputs, self.given, self.half = outputs, give_halves, half

    def __missing__(self, unit: PlanUnit) -> Table:
        return self.given(unit, self.outputs[unit])[self.half]
