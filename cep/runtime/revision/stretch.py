"""A stretch of time in the window: the state at its beginning, and what came and was given in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cep.core.relation import END, FIRST, Table
from cep.core.time import END_OF_TIME
from cep.runtime.revision.kept_state import KeptState
from cep.runtime.revision.row_window import RowWindow

Given = dict[str, list[Table]]
Windows = dict[str, RowWindow]

STRETCHES, RERUN, FEWEST = 16, 8, 4
"""So many of them are as long as the window, at most; so many where goals are run again one by one; so few where little
comes, or nothing is run again."""
LEAST_ROWS = 16_384
"""A stretch has at least so many rows of input, and twice as many as goals hold, or is a part of FEWEST."""


@dataclass(slots=True)
class Stretch:
    """From the watermark `since` on, to that of the next one: the `state` then, what came in, and what was given."""

    since: int
    state: KeptState
    inputs: Windows = field(default_factory=dict)
    given: Windows = field(default_factory=dict)

    @property
    def held(self) -> tuple[Windows, Windows]:
        """What came in and what was given."""
        return self.inputs, self.given

    def ends(self, until: int, watermark: int, length: int, held: Callable[[], int], parts: int | None = None) -> bool:
        """Whether another one begins at `until`, on the way to a watermark, where the window is of this length and
        goals hold so many rows. `parts`: a window has so many; None: by what comes."""
        long = until - self.since
        if long < spacing(length):
            return False
        if parts is not None:
            return long * parts >= length
        came = sum(window.size for window in self.inputs.values())
        return until < watermark or long * FEWEST >= length or (came >= LEAST_ROWS and came >= 2 * held())


def spacing(length: int) -> int:
    """How long a stretch is, at least, in a window of this length."""
    return max(1, length // STRETCHES)


def cuts_between(since: int, until: int, length: int) -> list[int]:
    """Where stretches may begin on the way from a watermark to another, and this itself."""
    if until >= END_OF_TIME or until <= since:
        return [until] if until > since else []
    each = spacing(length)
    cuts: list[int] = []
    if until - since >= 2 * each:
        cuts += range((max(since, until - length - 2 * each) // each + 1) * each, until, each)
    return [*cuts, until]


def put(stretches: Sequence[Stretch], event: str, table: Table, come: bool) -> None:
    """Take rows of an input event into or out of the stretches in which they end."""
    begins = np.array([each.since for each in stretches])
    numbers = np.searchsorted(begins, table[END], "left") - 1
    for number in np.unique(numbers).tolist():
        window_of(stretches[number].inputs, event, len(table) - FIRST).change(table[:, numbers == number], come)


def tables_of(windows: Windows) -> dict[str, Table]:
    """The rows of windows, by event."""
    return {event: window.all() for event, window in sorted(windows.items())}


def window_of(held: Windows, event: str, arguments: int) -> RowWindow:
    """The window of an event, a new one where there is none."""
    if event not in held:
        held[event] = RowWindow(arguments)
    return held[event]


def extend(made: Given, more: Mapping[str, Iterable[Table]]) -> None:
    """Add tables by event to others."""
    for name, tables in more.items():
        made.setdefault(name, []).extend(tables)
