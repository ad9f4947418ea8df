"""The schedule of a machine: the parts that have input, and those whose time has come.

begin, next, ran:  the events that come in a slice and its watermark -> the numbers of these parts, in their order

What a step costs goes by what changes, not by how many rules there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from heapq import heapify, heappop, heappush

from cep.plan.order import PlanUnit
from cep.runtime.constant_index import ConstantIndex, constant_indexes
from cep.runtime.machine_part import GivenTables, MachinePart, SingleGoal

SPARE = 64
"""Times that are no longer those of their parts are looked for when they are so many more than the parts."""


class Schedule:
    """The parts of a machine, by number; those with units that follow the knowledge (`following`) run at every step.
    When time makes something of what waits in a part changes only when it runs, and it is asked then; where somebody
    else changes the state of goals, `forget` has all of them asked."""

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
        self._gives = [tuple(unit for unit in part.gives if unit in self._readers) for part in parts]
        self._indexes: dict[PlanUnit, list[ConstantIndex]] = {}
        for unit, readers in self._readers.items():
            tests = {number: part.tests for number in readers if isinstance(part := parts[number], SingleGoal)}
            self._indexes[unit], others = constant_indexes(tests)
            self._readers[unit] = [number for number in readers if number not in tests or number in others]
        self._due: dict[int, int | None] = {}
        self._times: list[tuple[int, int]] = []
        """A heap of times and parts; that of a part counts where it is the part's in `_due`."""
        self._known = False
        self._waiting: list[int] = []
        """A heap of the parts that have something to do in this slice, each once."""
        self._there: set[int] = set()

    def forget(self) -> None:
        """The times of all parts may be others."""
        self._known = False

    def begin(self, events: Iterable[str], watermark: int) -> None:
        """A slice begins, in which these events come and time goes on to a watermark."""
        found = set(self._always)
        for event in events:
            found.update(self._own.get(event, ()))
        if not self._known:
            self._due = {number: self.parts[number].due() for number in self._timed}
            self._gather()
            self._known = True
        times = self._times
        while times and times[0][0] <= watermark:
            time, number = heappop(times)
            if self._due[number] == time:
                self._due[number] = None
                found.add(number)
        self._there, self._waiting = found, sorted(found)

    def next(self) -> int | None:
        """The part that runs now; None: nothing is left to do."""
        return heappop(self._waiting) if self._waiting else None

    def ran(self, number: int, outputs: GivenTables) -> None:
        """A part has run; these are the outputs so far."""
        for unit in self._gives[number]:
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
