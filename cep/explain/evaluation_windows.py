"""Explain windows of evaluation ticks: find the times at which a remembered event or fluent is in a window."""

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
"""The `longest` duration of events without a limit. In a window, an event belongs to the tick in which it ends."""


def stretch(window: WindowTicks, at: int) -> tuple[int, int]:
    """Return the interval, in codes of time, during which a window contains the tick `at`."""
    ticks = np.array([at])
    closes = int(window.closes(ticks)[0])
    return int(window.opens(ticks)[0]), INFINITE if closes >= INFINITE else closes - 1


class Reader(Protocol):
    """Finds the extents of formulas."""

    memory: Memory
    judge: Judge

    def extents(self, pattern: Pattern, bound: BoundValues) -> list[FormulaExtent]:
        """Return the values for which a formula holds at any time, each with its intervals. `bound`: values that are
        given."""

    def of_event(
        self, atom: Pattern, names: Sequence[str], longest: int | None, bound: BoundValues
    ) -> list[FormulaExtent]:
        """Return the extents of an event, which holds at its occurrences."""


class WindowExtents:
    """Finds the extents of windows. `reader` finds the extents of the formulas inside."""

    def __init__(self, reader: Reader) -> None:
        self.reader, self.memory, self.judge = reader, reader.memory, reader.judge

    def in_window(
        self, event: Pattern, names: Sequence[str], at: str | None, window: WindowTicks, bound: BoundValues
    ) -> list[FormulaExtent]:
        """Return the extents of an event while it is in a window. `at`: the variable for its tick, or None."""
        found = self.reader.of_event(event, names, ANY, bound)
        return self._by_tick(found, at, bound, window.tick, lambda one: stretch(window, one.end // window.tick))

    @staticmethod
    def _by_tick(
        found: Sequence[FormulaExtent],
        at: str | None,
        bound: BoundValues,
        tick: int,
        seen: Callable[[Occurrence], tuple[int, int] | None],
    ) -> list[FormulaExtent]:
        """Compute extents from the times at which occurrences are in the window, as returned by `seen`. If `at` names a
        variable for the tick, each tick has its own extent."""
        made = []
        for each in found:
            groups: dict[int | None, list[Occurrence]] = {}
            for one in each.sources:
                if seen(one) is not None and (at is None or at not in bound or bound[at][0] == one.end // tick):
                    groups.setdefault(None if at is None else one.end // tick, []).append(one)
            for number, sources in groups.items():
                own = each.bound if at is None or number is None else {**each.bound, at: (number, "int")}
                when = when_of(set_of([codes for one in sources if (codes := seen(one)) is not None]))
                made.append(replace(each, bound=own, when=when, sources=tuple(sources)))
        return [one for one in made if one.when]

    def between_own_times(
        self, given: Pattern, inner: Pattern, at: str, window: WindowTicks, bound: BoundValues
    ) -> list[FormulaExtent]:
        """Return the extents of a formula that binds its tick to the variable `at`, while that tick is in the
        window."""
        made = []
        for one in self.reader.extents(inner, bound):
            number = one.bound[at][0]
            assert isinstance(number, int), "ticks are numbers"
            when = when_of(intersect(set_of(one.when), set_of([stretch(window, number)])))
            made.append(FormulaExtent(given, one.bound, when, ((one, False),)))
        return [one for one in made if one.when]

    def tick_by_tick(
        self, given: Pattern, inner: Pattern, at: str, tick: int, bound: BoundValues
    ) -> list[FormulaExtent]:
        """Return an extent for each past tick at which a formula holds."""
        engine = self.memory.engine
        now = 2 * min(engine.watermark, END_OF_TIME)
        made = []
        for one in self.reader.extents(inner, bound):
            for number in self._ticks(one.when, tick, min(now, 2 * engine.reached), bound.get(at)):
                self.judge.check_limit()
                when = ((2 * number * tick, 2 * (number + 1) * tick - 1),)
                made.append(FormulaExtent(given, {**one.bound, at: (number, "int")}, when, ((one, False),)))
        return made

    @staticmethod
    def _ticks(when: When, tick: int, now: int, wanted: object) -> Iterable[int]:
        for first, last in when:
            numbers = range(-(-first // (2 * tick)), min(last, now) // (2 * tick) + 1)
            if wanted is None:
                yield from numbers
            elif isinstance(wanted, tuple) and wanted[0] in numbers:
                yield wanted[0]

    def from_first(
        self, given: Pattern, events: Pattern, at: str, tick: int, bound: BoundValues
    ) -> list[FormulaExtent]:
        """Return the extent from the tick of the first event on."""
        names = [each.properties().event for each in atoms(events)]
        found = [one for name in names if name is not None for one in self.memory.find(name, {}, *EVER)]
        if not found:
            return []
        number = min(one.end for one in found) // tick
        if at in bound and bound[at][0] != number:
            return []
        return [FormulaExtent(given, {**bound, at: (number, "int")}, ((2 * number * tick, INFINITE),))]

    def among_last(self, given: LastAtomsPattern, bound: BoundValues) -> list[FormulaExtent]:
        """Return the extents of an event while it is among the last arrivals."""
        seen: dict[tuple[object, ...], None] = {}
        by_key: dict[tuple[object, ...], list[Occurrence]] = {}
        names = [each.event for each in given.arrivals]
        every = [one for name in names for one in self.memory.find(name, {}, *EVER)]
        for one in sorted(every, key=lambda each: (each.end, each.start, each.order)):
            atom = (one.event, one.args, one.end // given.tick)
            if atom not in seen:
                seen[atom] = None
                by_key.setdefault(tuple(one.args[place] for place in given.by), []).append(one)
        until: dict[tuple[object, ...], tuple[int, int]] = {}
        width = 2 * given.tick
        for arrived in by_key.values():
            starts = [one.end // given.tick * width for one in arrived]
            for place, one in enumerate(arrived):
                last = place + given.atoms
                ends = starts[last] - 1 if last < len(starts) else INFINITE
                begins = starts[place]
                if given.oldest:
                    begins = starts[last - 1] if last - 1 < len(starts) else INFINITE
                if begins <= ends and begins < INFINITE:
                    until[one.event, one.args, one.end // given.tick] = begins, ends

        def when(one: Occurrence) -> tuple[int, int] | None:
            return until.get((one.event, one.args, one.end // given.tick))

        if given.event is None:
            found = [FormulaExtent(given, dict(bound), (), (), tuple(every))]
        else:
            found = self.reader.of_event(given.event, given.names, ANY, bound)
        return self._by_tick(found, given.at, bound, given.tick, when)
