"""A segment of the revision window: the state at its beginning, and its input and output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cep.core.relation import END, FIRST, Table
from cep.core.time import END_OF_TIME
from cep.operators.goals.contract import Arrays, Bools
from cep.runtime.revision.row_window import RowWindow


@dataclass(frozen=True, slots=True)
class RevisionWindow:
    """In microseconds: `length`: how far behind the watermark what changes may be; `behind`: how far the watermark is
    behind the latest time. `final`: what is given is never withdrawn. `handed`: of a stage, what others hand on."""

    length: int
    behind: int
    final: bool
    handed: frozenset[str] | None = None


States = list[Arrays]


@dataclass(slots=True)
class Overlay:
    """The states of a stage's goals for these keys, by number (`cep.runtime.revision.key_numbers`); None: for all."""

    keys: Bools | None
    states: States


@dataclass(slots=True)
class KeptState:
    """`base`: the states of all goals; `overlays`, by the number of a stage: what is to be in their place. Stages may
    share goals: each sees what it has made of them itself."""

    base: States
    overlays: dict[int, Overlay] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        held = [self.base, *(overlay.states for overlay in self.overlays.values())]
        return sum(array.nbytes for states in held for state in states for array in state.values())


def copied(states: States) -> States:
    """States of goals that go on, as copies: goals change the arrays in place."""
    return [{name: array.copy() for name, array in state.items()} for state in states]


Given = dict[str, list[Table]]
Windows = dict[str, RowWindow]

STRETCHES, FEWEST = 16, 4
"""So many of them are as long as the window, at most; so few where little comes, or late rows go through as changes."""
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
        """The input and the output that are kept."""
        return self.inputs, self.given

    def ends(self, until: int, watermark: int, length: int, held: Callable[[], int], parts: int | None = None) -> bool:
        """Return True if the next stretch begins at `until`, on the way to a watermark.

        `length`: the window's; `held`: counts the rows that goals hold. `parts`: the number of stretches in a window
        (None: it depends on the input).
        """
        long = until - self.since
        if long < spacing(length):
            return False
        if parts is not None:
            return long * parts >= length
        came = sum(window.size for window in self.inputs.values())
        return until < watermark or long * FEWEST >= length or (came >= LEAST_ROWS and came >= 2 * held())


def spacing(length: int) -> int:
    """Return the least length of a stretch in a window of this length."""
    return max(1, length // STRETCHES)


def cuts_between(since: int, until: int, length: int) -> list[int]:
    """Return the times at which stretches may begin between two watermarks, and the later watermark."""
    if until >= END_OF_TIME or until <= since:
        return [until] if until > since else []
    each = spacing(length)
    cuts: list[int] = []
    if until - since >= 2 * each:
        cuts += range((max(since, until - length - 2 * each) // each + 1) * each, until, each)
    return [*cuts, until]


def put(stretches: Sequence[Stretch], event: str, table: Table, come: bool) -> None:
    """Add rows of an input event to the stretches in which they end, or remove them."""
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


PATIENCE = 16
"""The number of instants after which an instant is no longer expected to arrive in pieces."""
SHORT, TIMES = 1 << 16, 8
"""Rows: of an instant of more, and of more than so many times those that come, each key is run again by itself."""


@dataclass(slots=True)
class LatestInstant:
    """`end`: the instant that can be taken back. `expected`: of how many instants more it is to be so. `stretch_ends`:
    a stretch is to end just before the next one. `goes_on`: more of it has come, and waits to be run again with it."""

    end: int | None = None
    expected: int = 0
    stretch_ends: bool = False
    goes_on: bool = False

    def expect(self) -> None:
        """An instant has come in pieces: the next ones may, too."""
        self.expected = PATIENCE

    def begins(self, end: int, since: int) -> bool:
        """The machine is about to step up to this instant so that it can be taken back; whether the stretch that began
        at `since` is to end just before it."""
        if self.end != end:
            self.end = end
            self.expected -= 1
        return self.stretch_ends and since < end - 1

    def forget(self) -> None:
        """Record that there is nothing to undo."""
        self.end = None

    def is_short(self, changed: int, every: int) -> bool:
        """Return True if it is cheaper to run the instant again. `changed` of its `every` rows have changed."""
        return every <= max(SHORT, TIMES * changed)
