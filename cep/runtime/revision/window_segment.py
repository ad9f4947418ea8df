"""The parts of a revision window: stretches of time, each with its input, its output, and the state at its
beginning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cep.core.relation import END, FIRST, Table, rows
from cep.core.time import END_OF_TIME
from cep.operators.goals.contract import Arrays, Bools
from cep.runtime.revision.row_window import RowWindow


@dataclass(frozen=True, slots=True)
class RevisionWindow:
    """The extent of a revision window.

    - `length`: how far behind the watermark input may change, in microseconds.
    - `behind`: how far the watermark is behind the latest time, in microseconds.
    - `final`: True to output only final results, which are never withdrawn.
    - `handed`: for a stage, the events that other stages derive. It is None if the plan is that of a whole program.
    """

    length: int
    behind: int
    final: bool
    handed: frozenset[str] | None = None


States = list[Arrays]


@dataclass(slots=True)
class Overlay:
    """States of a stage's goals that replace stored states for some keys.

    `keys`: a mask over key numbers (see `cep.runtime.revision.key_numbers`), or None for all keys.
    """

    keys: Bools | None
    states: States


@dataclass(slots=True)
class KeptState:
    """The stored state of all goals at one time.

    - `base`: the states of all goals.
    - `overlays`: for each stage, by number, the states that replace those in `base`.

    Several stages may contain the same goal. Each stage only sees its own replacements of the goal's state.
    """

    base: States
    overlays: dict[int, Overlay] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        held = [self.base, *(overlay.states for overlay in self.overlays.values())]
        return sum(array.nbytes for states in held for state in states for array in state.values())


def copied(states: States) -> States:
    """Copy the states of goals, because goals change the arrays of their states in place."""
    return [{name: array.copy() for name, array in state.items()} for state in states]


Given = dict[str, list[Table]]
Windows = dict[str, RowWindow]

STRETCHES, FEWEST = 16, 4
"""The maximum and the minimum number of stretches per window.

With sparse input, and during incremental revision, the window has the minimum number, or fewer if the state is large.
"""
LEAST_ROWS = 16_384
"""The minimum number of input rows in a stretch. The rows of a stretch also take at least twice as much memory as the
stored state.

A stretch whose length is 1/FEWEST of the window may have fewer rows. Its input rows or its output rows take at least as
much memory as the state.
"""


@dataclass(slots=True)
class Stretch:
    """A stretch of time in the window, from the watermark `since` to the `since` of the next stretch.

    - `state`: the stored state at the beginning of the stretch.
    - `inputs`, `outputs`: the input rows and the output rows of the stretch, by event.
    """

    since: int
    state: KeptState
    inputs: Windows = field(default_factory=dict)
    outputs: Windows = field(default_factory=dict)

    @property
    def held(self) -> tuple[Windows, Windows]:
        """The input rows and the output rows, by event."""
        return self.inputs, self.outputs

    def ends(self, until: int, watermark: int, length: int, parts: int | None = None) -> bool:
        """Return True if this stretch should end at `until`. The machine can stop at this time before it reaches
        `watermark`.

        - `length`: the length of the window.
        - `parts`: the number of stretches per window, or None if it depends on the input.
        """
        long = until - self.since
        if long < spacing(length):
            return False
        size, output = (sum(window.nbytes for window in windows.values()) for windows in self.held)
        state = self.state.nbytes
        if max(size, output) < state:  # another copy of the state would cost more than the rows
            return False
        if parts is not None:
            return long * parts >= length
        if until < watermark or long * FEWEST >= length:
            return True
        return size >= 2 * state and sum(window.size for window in self.inputs.values()) >= LEAST_ROWS


def spacing(length: int) -> int:
    """Return the minimum length of a stretch. `length`: the length of the window."""
    return max(1, length // STRETCHES)


def cuts_between(since: int, until: int, length: int) -> list[int]:
    """Return the times after `since` and before `until` at which stretches may begin, and then `until` itself. Both
    times are watermarks. `length`: the length of the window."""
    if until >= END_OF_TIME or until <= since:
        return [until] if until > since else []
    step = spacing(length)
    cuts: list[int] = []
    if until - since >= 2 * step:
        cuts += range((max(since, until - length - 2 * step) // step + 1) * step, until, step)
    return [*cuts, until]


def put(stretches: Sequence[Stretch], event: str, table: Table, come: bool) -> None:
    """Add rows of an input event to the stretches in which they end. If `come` is False, remove them."""
    for number, mine in by_stretch(stretches, table):
        window_of(stretches[number].inputs, event, len(table) - FIRST).change(mine, come)


def by_stretch(stretches: Sequence[Stretch], table: Table) -> Iterator[tuple[int, Table]]:
    """Split a table by stretch. Yield the number of each stretch that has rows, and a copy of the rows that end in it.

    Rows before the first stretch are left out.
    """
    if rows(table):
        numbers = np.searchsorted([stretch.since for stretch in stretches], table[END], "left") - 1
        for number in np.unique(numbers).tolist() if rows(table) > 1 else numbers.tolist():
            if number >= 0:
                yield number, table.compress(numbers == number, axis=1)


def tables_of(windows: Windows) -> dict[str, Table]:
    return {event: window.all() for event, window in sorted(windows.items())}


def window_of(held: Windows, event: str, arguments: int) -> RowWindow:
    """Return the row window of an event. Create it if it does not exist."""
    if event not in held:
        held[event] = RowWindow(arguments)
    return held[event]


def extend(tables_by_name: Given, more: Mapping[str, Iterable[Table]]) -> None:
    """Append tables to the lists in `tables_by_name`."""
    for name, tables in more.items():
        tables_by_name.setdefault(name, []).extend(tables)


PATIENCE = 16
"""A number of instants. If the rows of an instant have arrived in several pushes, each of the next PATIENCE instants is
run so that it can be undone."""
SHORT, TIMES = 1 << 16, 8
"""Limits for the choice between rerunning all rows of an instant and revising it. An instant of at most SHORT rows is
always rerun. A larger instant is rerun if at least 1/TIMES of its rows have changed."""


@dataclass(slots=True)
class LatestInstant:
    """The latest instant of the stream. The machine may be able to undo it.

    - `end`: the time of the instant. It is None if nothing can be undone.
    - `expected`: the number of further instants that are run so that they can be undone.
    - `stretch_ends`: True if a stretch must end just before the next instant.
    - `goes_on`: True if more rows of the instant have arrived and wait until the instant runs again.
    """

    end: int | None = None
    expected: int = 0
    stretch_ends: bool = False
    goes_on: bool = False

    def expect(self) -> None:
        """Record that the rows of an instant arrived in several pushes. The next instants may then arrive in the same
        way."""
        self.expected = PATIENCE

    def begins(self, end: int, since: int) -> bool:
        """Record that the machine is about to run the instant `end` so that it can be undone.

        Return True if the stretch that began at `since` must end just before the instant.
        """
        if self.end != end:
            self.end = end
            self.expected -= 1
        return self.stretch_ends and since < end - 1

    def forget(self) -> None:
        """Record that no instant can be undone now."""
        self.end = None

    def is_short(self, changed: int, every: int) -> bool:
        """Return True if it is cheaper to rerun all rows of the instant than to revise it.

        `changed`: the number of rows of the instant that have changed. `every`: the number of all rows of the instant.
        """
        return every <= max(SHORT, TIMES * changed)
