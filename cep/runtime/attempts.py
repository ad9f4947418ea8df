"""A step of a machine whose last instant can be taken back: how each part that ran for it is what it was.

Goals that take a step back by themselves (`UndoableGoal`) do so at a cost by what changed. Of others the state is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cep.core.relation import Table, concat, contiguous, empty, rows, slice_until
from cep.core.time import Frontier
from cep.operators.goals.contract import Arrays, Goal, UndoableGoal
from cep.plan.order import PlanUnit
from cep.runtime.machine_part import MachinePart, SingleGoal


class Attempts:
    """Of the parts of a machine."""

    def __init__(self, parts: Sequence[MachinePart]) -> None:
        self.parts = parts
        self._back: Frontier | None = None
        self._known: dict[PlanUnit, UndoableGoal] | None = None
        self._idle: frozenset[PlanUnit] = frozenset()
        """Of these those that keep nothing."""
        self._tried: list[UndoableGoal] = []
        self._kept: list[tuple[Goal, Arrays]] = []
        self._states: dict[PlanUnit, Arrays] | None = None
        self._parts: dict[int, tuple[Table, Table, Table]] = {}
        """Tables, by what is the same one, and their parts."""

    @property
    def states(self) -> list[Arrays] | None:
        """What all goals held where the last step can be taken back to, if it was kept, as arrays of their own."""
        if self._back is None or self._states is None:
            return None
        return [self._states[unit] for part in self.parts for unit, _ in part.goals_by_unit()]

    @property
    def there(self) -> bool:
        """Whether the last step can be taken back."""
        return self._back is not None

    @property
    def in_one(self) -> bool:
        """Whether one step may go to the instant and on, since all goals take steps back."""
        return len(self._undoable) == len(self.parts)

    def begin(self, back: Frontier | None, kept: bool = False) -> None:
        """The machine is about to step so that it can be taken back to a frontier; None: it cannot be taken back.
        `kept`: the states that goals have there are kept."""
        self._back = back
        self._states = {} if kept else None
        self._tried.clear()
        self._kept.clear()
        self._parts.clear()

    def run(
        self,
        part: MachinePart,
        inputs: Mapping[str, Table],
        outputs: dict[PlanUnit, Table],
        frontier: Frontier,
        made: dict[PlanUnit, int],
    ) -> bool:
        """As `run` of a part, which runs once in the step."""
        undoable = self._undoable
        if part.unit not in undoable:
            for _, goal in part.goals_by_unit():
                self._kept.append((goal, {name: array.copy() for name, array in goal.as_arrays().items()}))
            return part.run(inputs, outputs, frontier, made)
        assert isinstance(part, SingleGoal), "no other part takes a step back"
        if part.unit in self._idle:
            return part.run(inputs, outputs, frontier, made)
        tables = part.taken(inputs, outputs)
        found = self._before(part, tables) if self.in_one else []
        assert self._back is not None, "there is an attempt"
        part.goal.evict(self._back)  # which none of the steps that are tried does
        self._keep(part.unit, part.goal)
        if part.is_due(tables, frontier):
            self._tried.append(undoable[part.unit])
            found.append(undoable[part.unit].attempt(tables, frontier))
        outputs[part.unit] = concat(found) if found else empty(part.width)
        made[part.unit] += rows(outputs[part.unit])
        return bool(found)

    def undo(self) -> None:
        """Take the last step back."""
        assert self.there, "the last step was an attempt, and nobody has asked for what goals hold since"
        for goal in self._tried:
            goal.undo()
        for each, state in self._kept:
            each.become_arrays(state)
        self.begin(None)

    def _before(self, part: SingleGoal, tables: list[Table]) -> list[Table]:
        """What is not taken back: it leaves the tables, and what a goal gives of it, if anything, is given."""
        assert self._back is not None, "there is an attempt"
        parts = [self._parted(table, self._back.watermark) for table in tables]
        before, tables[:] = [first for first, _ in parts], [later for _, later in parts]
        found = []
        if part.is_due(before, self._back):
            found.append(part.goal.step(before, self._back))
        return found

    def _parted(self, table: Table, end: int) -> tuple[Table, Table]:
        """The rows of a table up to a time, and the others: the same tables for all that read it."""
        if not rows(table):
            return table, table
        if id(table) not in self._parts:
            stop = slice_until(table, end)
            self._parts[id(table)] = table, contiguous(table[:, :stop]), contiguous(table[:, stop:])
        return self._parts[id(table)][1:]

    def keep_others(self) -> None:
        """Those goals that did nothing in the last step hold what they held before, too."""
        for part in self.parts:
            for unit, goal in part.goals_by_unit():
                if self._states is not None and unit not in self._states:
                    self._keep(unit, goal)

    def _keep(self, unit: PlanUnit, goal: Goal) -> None:
        if self._states is not None and self._back is not None:
            needed = goal.needed_arrays(self._back)
            self._states[unit] = {name: array.copy() for name, array in needed.items()}

    @property
    def _undoable(self) -> dict[PlanUnit, UndoableGoal]:
        """The goals that take a step back, by the unit of their parts."""
        if self._known is None:
            singles = [part for part in self.parts if isinstance(part, SingleGoal)]
            self._known = {part.unit: part.goal for part in singles if isinstance(part.goal, UndoableGoal)}
            self._idle = frozenset(unit for unit, goal in self._known.items() if not goal.as_arrays())
        return self._known
