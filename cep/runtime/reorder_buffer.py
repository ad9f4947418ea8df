"""The reorder buffer. Occurrences wait in it until the watermark has passed them, and leave it in order of their
ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cep.core.relation import END, Table, concat, contiguous, rows, slice_until, span
from cep.core.time import BEGINNING as BEGINNING
from cep.core.time import END_OF_TIME as END_OF_TIME
from cep.core.time import Frontier
from cep.operators.goals.arrival import by_arrival
from cep.operators.goals.contract import demand
from cep.runtime.family import by_member
from cep.runtime.key_clocks import KeyClocks


class ReorderBuffer:
    """The watermark, and the occurrences that end after it.

    - `lateness`: how far out of order input may arrive, in microseconds. If it is None, only `release` moves the
      watermark.
    - `until`: the time up to which recursion into the future runs at the end of the input.
    - `start`: the time down to which recursion into the past runs at the end of the input.
    - `first`, `latest`: the earliest and the latest end of the occurrences that this buffer has received.
    - `begun`, `of_input`: the earliest and the latest end in the whole input, if it is distributed to several engines.
    - `clocks`: the clocks of keys (see `cep.runtime.key_clocks`), or None if all input has one clock.
    - `events`: the event types of each inlet, in the order of the family's members (see `cep.runtime.family`). Rows may
      arrive under the name of an inlet.

    The watermark promises that no occurrence will arrive that ends at or before it. After an occurrence that ends at t,
    the watermark is at least t - lateness - 1, because another occurrence may end at the same instant.
    """

    def __init__(
        self,
        lateness: int | None,
        until: int | None = None,
        start: int | None = None,
        clocks: KeyClocks | None = None,
    ) -> None:
        self.lateness = lateness
        self.until = BEGINNING if until is None else until
        self.start = END_OF_TIME if start is None else start
        self.watermark = BEGINNING
        self.latest = BEGINNING
        self.first = END_OF_TIME
        self.of_input: int | None = None
        self.begun = END_OF_TIME
        self._waiting: dict[str, list[Table]] = {}
        self.events: dict[str, list[str]] = {}
        self.clocks = clocks

    @property
    def waiting(self) -> dict[str, list[Table]]:
        """The waiting occurrences, by event."""
        for inlet in [name for name in self._waiting if name in self.events]:
            for table in self._waiting.pop(inlet):
                for member, own in by_member(table):
                    self._waiting.setdefault(self.events[inlet][member], []).append(contiguous(own))
        return self._waiting

    @waiting.setter
    def waiting(self, tables: dict[str, list[Table]]) -> None:
        self._waiting = tables

    def receive(self, tables: dict[str, Table]) -> None:
        """Add occurrences in any order. None of them may be late."""
        for name, table in tables.items():
            if rows(table):
                self._waiting.setdefault(name, []).append(table)
                self.count(*span(table))

    def count(self, first: int, last: int) -> None:
        """Record that occurrences have arrived. `first` and `last`: their earliest and latest end."""
        self.first, self.latest = min(self.first, first), max(self.latest, last)

    def frontier(self, watermark: int) -> Frontier:
        """Return the frontier for a watermark. At the end of the input, the frontier also contains the times at which
        endless recursion stops."""
        first = self.first if self.of_input is None else self.begun
        if watermark < END_OF_TIME:
            return Frontier.at(watermark, END_OF_TIME, first, min(first, self.start))
        latest = self.latest if self.of_input is None else self.of_input
        return Frontier.at(watermark, max(latest, self.until), first, min(first, self.start))

    def reached(self) -> int:
        """Return the time to which the watermark may move after the occurrences received so far."""
        if self.moving == BEGINNING or self.lateness is None:
            return self.watermark
        return max(self.watermark, self.moving - self.lateness - 1)

    @property
    def moving(self) -> int:
        """The time that the watermark follows: the latest end or, if keys have clocks, their current time."""
        return self.latest if self.clocks is None else self.clocks.time

    def release(self, watermark: int) -> dict[str, Table]:
        """Move the watermark. Return the occurrences that end at or before it, by event and sorted by arrival. They
        leave the buffer."""
        assert watermark >= self.watermark, "the watermark never goes back"
        self.watermark = watermark
        out: dict[str, Table] = {}
        for name in sorted(self._waiting):
            passed: list[Table] = []
            later: list[Table] = []
            for table in self._waiting[name]:
                passes = rows(table) and (table[END, 0] <= watermark or span(table)[0] <= watermark)
                (passed if passes else later).append(table)
            if not passed:
                continue
            table = by_arrival(concat(passed))
            stop = rows(table) if table[END, -1] <= watermark else slice_until(table, watermark)
            out[name] = table[:, :stop] if stop < rows(table) else table
            if stop < rows(table):
                later.insert(0, table[:, stop:].copy())
            if later:
                self._waiting[name] = later
            else:
                del self._waiting[name]
        return out

    @property
    def waiting_rows(self) -> int:
        return sum(rows(table) for tables in self._waiting.values() for table in tables)

    @property
    def waiting_bytes(self) -> int:
        return sum(table.nbytes for tables in self._waiting.values() for table in tables)

    def codes(self, coded: dict[str, list[int]]) -> list[NDArray[np.int64]]:
        """Return the pool codes in the waiting rows. `coded`: for each event, the indexes of the matrix rows that
        contain codes."""
        return [table[row] for name, tables in self.waiting.items() for table in tables for row in coded.get(name, ())]

    def fits(self, heights: Mapping[str, int]) -> None:
        """Raise CepError if a waiting table does not belong to a known event or has a wrong shape.

        `heights`: for each event, the number of rows that the matrix of its table must have.
        """
        for name, tables in self.waiting.items():
            demand(all(table.ndim == 2 and len(table) == heights.get(name) for table in tables))

    def snapshot(self) -> dict[str, Table]:
        return {name: concat(tables) for name, tables in self.waiting.items()}

    def times(self) -> dict[str, Any]:
        """Return the watermark and the times of the received occurrences, as `restore` expects them."""
        saved_times: dict[str, Any] = {"watermark": self.watermark, "latest": self.latest, "first": self.first}
        if self.clocks is not None:
            saved_times["clocks"] = self.clocks.save()
        return saved_times if self.of_input is None else saved_times | {"of_input": self.of_input, "begun": self.begun}

    def later(self, times: Mapping[str, Any]) -> None:
        """Combine the earliest and latest times of this buffer with those of another buffer. `times`: the result of
        the other buffer's `times`."""
        self.latest = max(self.latest, times["latest"])
        self.first = min(self.first, times["first"])
        if self.of_input is not None:
            self.of_input = max(self.of_input, times["of_input"])
            self.begun = min(self.begun, times["begun"])

    def restore(self, waiting: dict[str, Table], times: Mapping[str, Any]) -> None:
        """Restore the waiting rows, the watermark and the times of the received occurrences. Raises CepError if a time
        is not valid."""
        watermark, latest, first = times["watermark"], times["latest"], times["first"]
        of_input, begun = None, END_OF_TIME
        if self.of_input is not None:
            of_input, begun = times["of_input"], times["begun"]
        known = [time for time in (watermark, latest, first, of_input, begun) if time is not None]
        demand(all(isinstance(time, int) and BEGINNING <= time <= END_OF_TIME for time in known))
        demand(self.events.keys().isdisjoint(waiting))
        self.waiting = {name: [table] for name, table in waiting.items()}
        self.watermark, self.latest, self.first, self.of_input = watermark, latest, first, of_input
        self.begun = begun
        if self.clocks is not None and "clocks" in times:
            self.clocks.restore(times["clocks"])
