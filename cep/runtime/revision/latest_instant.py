"""The latest instant: events that come at the very time of the latest ones, as where times are whole seconds.

Results are given up to and with the latest time, so such an event is late by a moment. Where this has happened lately,
the state before that instant is kept. The instant is then run again from there, and not each key from further back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from cep.core.relation import Table
from cep.operators.goals.contract import kept
from cep.runtime.machine import Machine

Given = dict[str, list[Table]]

PATIENCE = 16
"""So many instants later it is not expected any more that one comes in pieces."""
SHORT, TIMES = 1 << 16, 8
"""Rows: of an instant of more, and of more than so many times those that come, each key is run again by itself."""


@dataclass(slots=True)
class LatestInstant:
    """`end`: the instant; `state`: of all goals just before it, None: it is not kept; `given`: what was given at it.
    `expected`: of how many instants more the states are to be kept."""

    end: int = 0
    state: list[pa.RecordBatch] | None = None
    given: Given = field(default_factory=dict)
    expected: int = 0

    def expect(self) -> None:
        """An instant has come in pieces: the next ones may, too."""
        self.expected = PATIENCE

    def begin(self, machine: Machine, end: int) -> None:
        """The machine is about to run this instant, and may have to run it again."""
        if not self.expected:
            self.forget()
        elif self.state is None or self.end != end:
            self.end, self.state = end, kept(machine.snapshot())
            self.expected -= 1

    def made(self, end: int, made: Given) -> None:
        """What the machine has given up to an instant."""
        if self.state is None or self.end != end:
            self.forget()
        else:
            self.given = made

    def forget(self) -> None:
        """It is another state now."""
        self.state, self.given = None, {}

    def state_before(self, end: int, changed: int, every: int) -> list[pa.RecordBatch] | None:
        """The state just before this instant, of so many rows of which so many changed, if it is to be run again."""
        return self.state if self.end == end and every <= max(SHORT, TIMES * changed) else None
