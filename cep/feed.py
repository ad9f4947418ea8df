"""Knowledge that changes while events come: each change is given to the engine when its time comes, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Protocol

import polars as pl

from cep.engine import Engine
from cep.errors import CepError
from connectors.batch import DeadRecord

if TYPE_CHECKING:
    from knowledge.arriving import Arriving
    from knowledge.updates import Update


class Patience(Protocol):
    """Awaits input, until `wished` says that it is enough."""

    wished: int

    def next(self, batches: Iterator[bytes], /) -> bytes | None: ...


AHEAD = 64
"""Changes that an engine holds before their time: each with the tables that it makes."""


class Feed:
    """Changes that were read, and those that arrive in streams.

    One that was read and cannot be is an error; one that arrives too late, or cannot be, is a dead letter.
    """

    def __init__(self, read: Sequence[Update], streams: Sequence[Arriving] = ()) -> None:
        self._due: list[tuple[int, int, Update]] = []
        self._streams = streams
        self._count = 0
        self._dead: list[DeadRecord] = []
        self._put(read)

    def begin(self, engine: Engine) -> None:
        """Few changes are given at once: what is wrong with them is told before the run. Raises CepError."""
        if len(self._due) <= AHEAD and not self._streams:
            while self._due:
                self._give(engine, self._next())

    def bring(self, engine: Engine, until: int, patience: Patience) -> Iterator[dict[str, pl.DataFrame]]:
        """Advance the engine to `until`, with the changes up to there; gives what that completes. Streams are awaited
        until they have come that far, have ended or are silent. Where the waiting is interrupted, it stops there.
        """
        while True:
            behind = [each for each in self._streams if not each.over and not each.quiet and each.now <= until]
            first = min(behind, key=lambda each: each.now, default=None)
            reached = until if first is None else first.now - 1
            while (given := self._give_up_to(engine, reached)) is not None:
                yield engine.advance(max(given, engine.watermark))
            if first is None:
                break
            self._put(first.read(patience.next))
            self._dead += [DeadRecord(*astuple(each)) for each in first.refused]
            first.refused.clear()
            if patience.wished:
                return
        for stream in self._streams:
            stream.quiet = False
        yield engine.advance(until)

    def take_dead(self) -> list[DeadRecord]:
        """The changes that were refused since the last call."""
        dead, self._dead = self._dead, []
        return dead

    def _give_up_to(self, engine: Engine, reached: int) -> int | None:
        """Give the changes up to a time, but no more than AHEAD; the time of the last, None where that were all."""
        for _ in range(AHEAD):
            if not self._due or self._due[0][0] > reached:
                return None
            changes = self._next()
            self._give(engine, changes)
        return changes[0].time

    def _next(self) -> list[Update]:
        """All changes of the next time, in the order in which they were told."""
        time, _, first = heappop(self._due)
        changes = [first]
        while self._due and self._due[0][0] == time:
            changes.append(heappop(self._due)[2])
        return changes

    def _give(self, engine: Engine, changes: list[Update]) -> None:
        add = [quad for each in changes for quad in each.add]
        remove = [quad for each in changes for quad in each.remove]
        try:
            engine.update(changes[0].time, add=add, remove=remove)
        except CepError as error:
            if not all(each.line for each in changes):
                raise
            for each in changes:
                text = "".join(f"{quad} .\n" for quad in [*each.add, *each.remove])
                self._dead.append(DeadRecord(each.file, each.line, error.message, error.code, text.rstrip()))

    def _put(self, updates: Sequence[Update]) -> None:
        for update in updates:
            heappush(self._due, (update.time, self._count, update))
            self._count += 1
