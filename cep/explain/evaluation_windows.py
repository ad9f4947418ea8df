"""Explain windows of evaluation ticks: the times at which a remembered event or fluent is in a window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from cep.core.evaluation_ticks import WindowTicks
from cep.core.interval_sets import INFINITE, intersect
from cep.core.time import END_OF_TIME
from cep.explain.extents import FormulaExtent, When, set_of, when_of
from cep.explain.judging import BoundValues, Judge
from cep.explain.occurrences import Memory, Occurrence
from cep.plan.pattern import Pattern, atoms

if TYPE_CHECKING:
    from cep.operators.last_atoms import LastAtomsPattern

EVER = (-(2**62), 2**62)


ANY = 2**62
"""A value for the parameter `longest` of `Reader.of_event` that excludes no occurrence. A window contains an occurrence
if it contains the tick in which the occurrence ends. The duration of the occurrence does not matter."""


def stretch(window: WindowTicks, tick_number: int) -> tuple[int, int]:
    """Return the interval during which a window contains the tick `tick_number`, as a pair of time codes (see
    `cep.core.interval_sets`)."""
    ticks = np.array([tick_number])
    closes = int(window.closes(ticks)[0])
    return int(window.opens(ticks)[0]), INFINITE if closes >= INFINITE else closes - 1


class Reader(Protocol):
    """An object that computes the extents of formulas. The extents of a formula are the values and times for which it
    holds."""

    memory: Memory
    judge: Judge

    def extents(self, pattern: Pattern, bound: BoundValues) -> list[FormulaExtent]:
        """Return the extents of a formula, for all values and times for which it holds.

        `bound`: values that some variables must have.
        """

    def of_event(
        self, atom: Pattern, names: Sequence[str], longest: int | None, bound: BoundValues
    ) -> list[FormulaExtent]:
        """Return the extents of the event `atom`. As a formula, an event holds while it occurs.

        - `names`: the variables to keep.
        - `longest`: the greatest duration of an occurrence that counts. None means that only instants count.
        """


class WindowExtents:
    """An evaluator of windows. `reader`: the object that computes the extents of the formulas inside a window."""

    def __init__(self, reader: Reader) -> None:
        self.reader, self.memory, self.judge = reader, reader.memory, reader.judge

    def in_window(
        self, event: Pattern, names: Sequence[str], variable: str | None, window: WindowTicks, bound: BoundValues
    ) -> list[FormulaExtent]:
        """Return the times at which an occurrence of an event is in a window, as extents.

        `variable`: the variable that is bound to the tick in which the occurrence ends, or None.
        """
        extents = self.reader.of_event(event, names, ANY, bound)
        return self._by_tick(
            extents, variable, bound, window.tick, lambda occurrence: stretch(window, occurrence.end // window.tick)
        )

    @staticmethod
    def _by_tick(
        extents: Sequence[FormulaExtent],
        variable: str | None,
        bound: BoundValues,
        tick: int,
        seen: Callable[[Occurrence], tuple[int, int] | None],
    ) -> list[FormulaExtent]:
        """Convert the extents of an event to extents of a window over this event.

        - `variable`: the variable that is bound to the tick in which an occurrence ends, or None. If it is not None,
          there is one extent per tick.
        - `seen`: a function that returns the time during which an occurrence is in the window, or None if it never is.
        """
        windowed = []
        for extent in extents:
            groups: dict[int | None, list[Occurrence]] = {}
            for source in extent.sources:
                if seen(source) is not None and (
                    variable is None or variable not in bound or bound[variable][0] == source.end // tick
                ):
                    groups.setdefault(None if variable is None else source.end // tick, []).append(source)
            for number, sources in groups.items():
                own = (
                    extent.bound if variable is None or number is None else {**extent.bound, variable: (number, "int")}
                )
                when = when_of(set_of([codes for source in sources if (codes := seen(source)) is not None]))
                windowed.append(replace(extent, bound=own, when=when, sources=tuple(sources)))
        return [extent for extent in windowed if extent.when]

    def between_own_times(
        self, pattern: Pattern, inner: Pattern, variable: str, window: WindowTicks, bound: BoundValues
    ) -> list[FormulaExtent]:
        """Return the extents of the formula `inner`, cut to the ticks whose window contains the tick that `inner`
        binds.

        `variable`: the variable that contains this tick.
        """
        windowed = []
        for extent in self.reader.extents(inner, bound):
            number = extent.bound[variable][0]
            assert isinstance(number, int), "ticks are numbers"
            when = when_of(intersect(set_of(extent.when), set_of([stretch(window, number)])))
            windowed.append(FormulaExtent(pattern, extent.bound, when, ((extent, False),)))
        return [extent for extent in windowed if extent.when]

    def tick_by_tick(
        self, pattern: Pattern, inner: Pattern, variable: str, tick: int, bound: BoundValues
    ) -> list[FormulaExtent]:
        """Return one extent for each past tick at which `inner` holds. The extent binds `variable` to the number of the
        tick."""
        engine = self.memory.engine
        now = 2 * min(engine.watermark, END_OF_TIME)
        extents = []
        for extent in self.reader.extents(inner, bound):
            for number in self._ticks(extent.when, tick, min(now, 2 * engine.reached), bound.get(variable)):
                self.judge.check_limit()
                when = ((2 * number * tick, 2 * (number + 1) * tick - 1),)
                extents.append(
                    FormulaExtent(pattern, {**extent.bound, variable: (number, "int")}, when, ((extent, False),))
                )
        return extents

    @staticmethod
    def _ticks(when: When, tick: int, now: int, wanted: object) -> Iterable[int]:
        for first, last in when:
            numbers = range(-(-first // (2 * tick)), min(last, now) // (2 * tick) + 1)
            if wanted is None:
                yield from numbers
            elif isinstance(wanted, tuple) and wanted[0] in numbers:
                yield wanted[0]

    def from_first(
        self, pattern: Pattern, events: Pattern, variable: str, tick: int, bound: BoundValues
    ) -> list[FormulaExtent]:
        """Return an extent that begins at the tick of the first occurrence of `events` and never ends. It binds
        `variable` to the number of this tick."""
        names = [atom.properties().event for atom in atoms(events)]
        occurrences = [
            occurrence for name in names if name is not None for occurrence in self.memory.find(name, {}, *EVER)
        ]
        if not occurrences:
            return []
        number = min(occurrence.end for occurrence in occurrences) // tick
        if variable in bound and bound[variable][0] != number:
            return []
        return [FormulaExtent(pattern, {**bound, variable: (number, "int")}, ((2 * number * tick, INFINITE),))]

    def among_last(self, pattern: LastAtomsPattern, bound: BoundValues) -> list[FormulaExtent]:
        """Return the extents of an event while it is among the last arrivals. `pattern`: the window of tuples, which
        determines how arrivals are counted."""
        seen: dict[tuple[object, ...], None] = {}
        by_key: dict[tuple[object, ...], list[Occurrence]] = {}
        names = [arrival.event for arrival in pattern.arrivals]
        every = [occurrence for name in names for occurrence in self.memory.find(name, {}, *EVER)]
        for occurrence in sorted(every, key=lambda occurrence: (occurrence.end, occurrence.start, occurrence.order)):
            atom = (occurrence.event, occurrence.args, occurrence.end // pattern.tick)
            if atom not in seen:
                seen[atom] = None
                by_key.setdefault(tuple(occurrence.args[place] for place in pattern.by), []).append(occurrence)
        until: dict[tuple[object, ...], tuple[int, int]] = {}
        width = 2 * pattern.tick
        for arrived in by_key.values():
            starts = [occurrence.end // pattern.tick * width for occurrence in arrived]
            for place, occurrence in enumerate(arrived):
                last = place + pattern.atoms
                ends = starts[last] - 1 if last < len(starts) else INFINITE
                begins = starts[place]
                if pattern.oldest:
                    begins = starts[last - 1] if last - 1 < len(starts) else INFINITE
                if begins <= ends and begins < INFINITE:
                    until[occurrence.event, occurrence.args, occurrence.end // pattern.tick] = begins, ends

        def when(occurrence: Occurrence) -> tuple[int, int] | None:
            return until.get((occurrence.event, occurrence.args, occurrence.end // pattern.tick))

        if pattern.event is None:
            extents = [FormulaExtent(pattern, dict(bound), (), (), tuple(every))]
        else:
            extents = self.reader.of_event(pattern.event, pattern.names, ANY, bound)
        return self._by_tick(extents, pattern.variable, bound, pattern.tick, when)
