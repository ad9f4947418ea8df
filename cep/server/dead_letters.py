"""Log the dead letters of a server: the first one at once, and later ones as a count once per minute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from time import monotonic

from cep.connectors.dead_letters import DeadLetters
from cep.connectors.records.batch import Batch, DeadLetter
from cep.core.logs import Log
from cep.runtime.encode import RefusedRow
from cep.runtime.run_stats import REASONS, count, ranked

OFTEN = 60.0
"""The interval between two counts of dead letters in the log, in seconds."""


class LoggedDeadLetters(DeadLetters):
    """Dead letters that are also logged.

    - `path`: the file of the dead letters. If it is None, the log says how to keep dead letters.
    - `refused`: the number of rows that the engine refused, by code.
    - `late`: the number of rows that were refused because they were late, by event type.

    After each step of the engine, the server adds `refused` and `late` to the metrics and empties both.
    """

    def __init__(self, path: str | None, log: Log, clock: Callable[[], float] = monotonic) -> None:
        super().__init__(path)
        self.late: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._log, self._clock = log, clock
        self._hint = "; `--dead-letter FILE` keeps them" if path is None else ""
        self._reported, self._due = 0, 0.0

    def add(self, records: Iterable[DeadLetter]) -> None:
        """Add dead letters. Call this for every batch, even without dead letters, because a count may be due."""
        super().add(records)
        self._report()

    def reject(self, batch: Batch, refused: Sequence[RefusedRow]) -> None:
        self.refused.update(row.code for row in refused)
        self.late.update(row.type for row in refused if row.code == "late")
        super().reject(batch, refused)

    def _report(self) -> None:
        counts, first, total = self.counts, self.first, self.total
        if total == self._reported or first is None or (self._reported and self._clock() < self._due):
            return
        if not self._reported:
            file = "standard input" if first.file in ("-", "") else first.file
            text = f"one dead letter is {file}:{first.line}: {first.reason}{self._hint}"
            self._log("first_dead_letter", text, "warning", code=first.code)
        else:
            reasons = ", ".join(f"{number:,} {REASONS.get(code, code)}" for code, number in ranked(counts))
            self._log("dead_letters", f"{count(total, 'dead letter')} so far ({reasons})", "warning", dead=dict(counts))
        self._reported, self._due = total, self._clock() + OFTEN
