"""The schedule of a machine. It finds the parts that have input, and those that are due because time has passed.

    begin, next, ran:  the events in a slice and its watermark -> the numbers of the parts to run, in order

So the cost of a step depends on what changes, not on the number of rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from heapq import heapify, heappop, heappush

from cep.plan.order import PlanUnit
from cep.runtime.constant_index import ConstantIndex, constant_indexes
from cep.runtime.machine_part import GivenTables, MachinePart, SingleGoal

SPARE = 64
"""A limit for entries of the heap whose due times are outdated. These entries are removed when the heap has more than
SPARE entries plus two per part that has due times."""


class Schedule:
    """The schedule of a machine's parts, which are identified by number.

    A part that has a unit in `following` depends on the knowledge and runs at every step. The due time of a part only
    changes when the part runs, and the schedule then reads it. If the state of goals changes in another way, the caller
    must call `forget`, so that the schedule reads all due times again.
    """

    def __init__(self, parts: Sequence[MachinePart], following: Collection[PlanUnit]) -> None:
        self.parts = parts
        self._readers: dict[PlanUnit, list[int]] = {}
        self._own: dict[str, list[int]] = {}
        self._always: list[int] = []
        self._timed: list[int] = []
        for number, part in enumerate(parts):
            takes = part.takes
            if takes.always or any(unit in following for unit, _ in part.goals_by_unit()):
                self._always.append(number)
                continue
            for unit in dict.fromkeys(takes.units):
                self._readers.setdefault(unit, []).append(number)
            for event in dict.fromkeys(takes.events):
                self._own.setdefault(event, []).append(number)
            if takes.timed:
                self._timed.append(number)
        self._is_timed = set(self._timed)
        self._gives = [dict.fromkeys(unit for unit in part.gives if unit in self._readers) for part in parts]
        self._indexes: dict[PlanUnit, list[ConstantIndex]] = {}
        for unit, readers in self._readers.items():
            tests = {number: part.tests for number in readers if isinstance(part := parts[number], SingleGoal)}
            self._indexes[unit], others = constant_indexes(tests)
            self._readers[unit] = [number for number in readers if number not in tests or number in others]
        self._due: dict[int, int | None] = {}
        self._times: list[tuple[int, int]] = []
        """A heap of pairs: a due time and the number of its part. Pairs that differ from `_due` are outdated."""
        self._known = False
        self._waiting: list[int] = []
        """A heap of the numbers of the parts that still have to run in the current slice. No number occurs twice."""
        self._there: set[int] = set()

    def forget(self) -> None:
        """Drop all due times, because they may have changed."""
        self._known = False

    def begin(self, events: Iterable[str], watermark: int) -> None:
        """Begin a slice. `events`: the events that have input in the slice. `watermark`: the watermark after the
        slice."""
        due_parts = set(self._always)
        for event in events:
            due_parts.update(self._own.get(event, ()))
        if not self._known:
            self._due = {number: self.parts[number].due() for number in self._timed}
            self._gather()
            self._known = True
        times = self._times
        while times and times[0][0] <= watermark:
            time, number = heappop(times)
            if self._due[number] == time:
                self._due[number] = None
                due_parts.add(number)
        self._there, self._waiting = due_parts, sorted(due_parts)

    def next(self) -> int | None:
        """Return the number of the part to run next, or None if no part is left."""
        return heappop(self._waiting) if self._waiting else None

    def ran(self, number: int, outputs: GivenTables) -> None:
        """Record that a part has run. `outputs`: the outputs of all parts that have run in the slice."""
        gives = self._gives[number]
        for unit in gives if len(gives) <= len(outputs) else [unit for unit in outputs if unit in gives]:
            table = outputs[unit]
            if table.shape[1]:
                for reader in self._readers[unit]:
                    if reader not in self._there:
                        self._there.add(reader)
                        heappush(self._waiting, reader)
                for index in self._indexes[unit]:
                    for reader, concerning in index.concerned(table):
                        outputs.concerning[self.parts[reader].unit] = concerning
                        heappush(self._waiting, reader)
        if number not in self._is_timed:
            return
        due = self.parts[number].due()
        if due != self._due[number]:
            self._due[number] = due
            if due is not None:
                heappush(self._times, (due, number))
                if len(self._times) > 2 * len(self._timed) + SPARE:
                    self._gather()

    def _gather(self) -> None:
        self._times = [(due, number) for number, due in self._due.items() if due is not None]
        heapify(self._times)
