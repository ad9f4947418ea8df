"""Dead letters while a server runs: the first is told when it comes, how many there are now and then."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic

from cep.app.program_thread import ServedDeadLetters
from cep.core.logs import Log
from cep.runtime.run_stats import REASONS, count, ranked
from connectors.batch import Batch, DeadLetter
from connectors.dead_letters import DeadLetters

OFTEN = 60.0
"""Seconds between two times that they are counted."""


class ReportedDeadLetters(ServedDeadLetters):
    """Letters that a log is told of. `kept`: they are in a file, so there is no need to say how to see them all."""

    def __init__(self, letters: DeadLetters, log: Log, kept: bool, clock: Callable[[], float] = monotonic) -> None:
        super().__init__(letters)
        self._log, self._kept, self._clock = log, kept, clock
        self._told, self._due = 0, 0.0

    def add(self, records: Iterable[DeadLetter]) -> None:
        """Asked for every batch, also where it has none: what came since the last time is told then."""
        super().add(records)
        self._tell()

    def reject(self, batch: Batch, type: str, row: int, code: str, reason: str) -> None:
        super().reject(batch, type, row, code, reason)
        if not self._told:
            self._tell()

    def _tell(self) -> None:
        counts, first = self._letters.counts, self._letters.first
        total = counts.total()
        if total == self._told or first is None or (self._told and self._clock() < self._due):
            return
        if not self._told:
            file = "standard input" if first.file in ("-", "") else first.file
            hint = "" if self._kept else "; `--dead-letter FILE` keeps them"
            text = f"the first dead letter is {file}:{first.line}: {first.reason}{hint}"
            self._log("first_dead_letter", text, "warning", code=first.code)
        else:
            reasons = ", ".join(f"{number:,} {REASONS.get(code, code)}" for code, number in ranked(counts))
            self._log("dead_letters", f"{count(total, 'dead letter')} by now ({reasons})", "warning", dead=dict(counts))
        self._told, self._due = total, self._clock() + OFTEN
