"""A stretch of time in the window: the state at its beginning, and what came and was given in it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from cep.core.relation import Table
from cep.core.time import END_OF_TIME
from cep.runtime.revision.row_window import RowWindow

Windows = dict[str, RowWindow]

STRETCHES = 4
"""So many of them are as long as the window, at most."""
STATES = 4
"""One is longer, up to the window, until so many times the rows have come that goals hold: to keep the states costs
little then, beside what came."""


@dataclass(slots=True)
class Stretch:
    """From the watermark `since` on, to that of the next one: the `state` then, what came in, and what was given."""

    since: int
    state: list[pa.RecordBatch]
    inputs: Windows = field(default_factory=dict)
    given: Windows = field(default_factory=dict)

    def ends(self, until: int, length: int, held: int) -> bool:
        """Whether another one begins at `until`, where the window is of this length and goals hold so many rows."""
        if until - self.since < spacing(length):
            return False
        came = sum(window.size for window in self.inputs.values())
        return until - self.since >= length or came >= STATES * held


def spacing(length: int) -> int:
    """How long a stretch is, at least, in a window of this length."""
    return max(1, length // STRETCHES)


def cuts_between(since: int, until: int, length: int, latest: bool) -> list[int]:
    """Where stretches may begin on the way from a watermark to another, and this itself; `latest`: also the one just
    before its instant."""
    if until >= END_OF_TIME or until <= since:
        return [until] if until > since else []
    each = spacing(length)
    first = max(since, until - length - 2 * each) // each + 1
    cuts = list(range(first * each, until, each))
    if latest and until - 1 > max([since, *cuts[-1:]]):
        cuts.append(until - 1)
    return [*cuts, until]


def tables_of(windows: Windows) -> dict[str, Table]:
    """The rows of windows, by event."""
    return {event: window.all() for event, window in sorted(windows.items())}
