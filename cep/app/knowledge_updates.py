"""Changes of the knowledge during a run. The engine applies them in order of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from heapq import heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import polars as pl

from cep.connectors.records.batch import DeadLetter
from cep.core.errors import CepError, reason_of
from cep.core.time import BEGINNING
from cep.engine import Engine

if TYPE_CHECKING:
    from pyoxigraph import Quad

    from cep.knowledge.arriving import Arriving
    from cep.knowledge.updates import Update


class Interruptible(Protocol):
    """An object that waits for input. The wait also ends if a `signal` arrives (see `cep.app.pipeline.Interrupt`)."""

    signal: int

    def next(self, batches: Iterator[bytes], /) -> bytes | None: ...


AHEAD = 64
"""The greatest number of changes per step of the engine, if the engine computes new tables for each change."""
TOGETHER = 1024
"""The greatest number of changes per step of the engine, if the engine computes the tables for all of them at once."""
LARGE = 1 << 24
"""The minimum size in bytes of an N-Quads file that is read as a stream."""
PIECE = 1 << 16
"""The number of bytes that are read from a stream at a time."""


class KnowledgeUpdates:
    """Changes of the knowledge from files and from streams.

    A change that cannot be applied is an error if it comes from a file, and a dead letter if it comes from a stream. A
    change from a stream is also a dead letter if it is late. From either source, a change is a dead letter if it
    changes the type of the values that a rule's graph pattern returns.
    """

    def __init__(self, read: Sequence[Update], streams: Sequence[Arriving] = ()) -> None:
        self._due: list[tuple[int, int, Update]] = []
        self._streams = streams
        self._count = 0
        self._dead: list[DeadLetter] = []
        self._most = AHEAD
        self._put(read)

    def begin(self, engine: Engine) -> None:
        """Prepare an engine for the run.

        If the engine was restored from a snapshot, apply all changes up to its watermark. If the files contain few
        changes and there are no streams, apply all changes now, so that errors are reported before the run. Raises
        CepError if a change cannot be applied.
        """
        changes = engine.changes
        if changes is not None and (engine.watermark > BEGINNING or changes.pending):
            self._go_on(engine)
        if len(self._due) <= AHEAD and not self._streams:
            self._apply(engine, [self._next() for _ in range(len({time for time, _, _ in self._due}))])

    def _go_on(self, engine: Engine) -> None:
        """Apply the changes up to the watermark of a restored engine, as the earlier run did. Changes that cannot be
        applied are refused again. Lines that a stream cannot parse are not reported again."""
        until = engine.watermark
        for stream in self._streams:
            while not stream.over and not stream.quiet and stream.now <= until:
                self._put(stream.read(lambda pieces: next(pieces, None)))
            stream.refused.clear()  # they were reported
        moments: list[list[Update]] = []
        while self._due and self._due[0][0] <= until:
            moments.append(self._next())
        try:
            engine.know(_engine_update(moment) for moment in moments)
        except CepError:
            known: list[tuple[int, object, object]] = []
            for moment in moments:
                try:
                    engine.know([*known, _engine_update(moment)])
                    known.append(_engine_update(moment))
                except CepError as error:
                    self._refuse(moment, error)
            engine.know(known)

    def bring(self, engine: Engine, until: int, interrupt: Interruptible) -> Iterator[dict[str, pl.DataFrame]]:
        """Advance the engine to `until`, and apply the changes up to this time. Yield the results of each step.

        Before that, wait for each stream until its changes have reached this time, it has ended, or it is silent. Stop
        if a signal ends the wait.
        """
        while True:
            behind = [
                stream for stream in self._streams if not stream.over and not stream.quiet and stream.now <= until
            ]
            first = min(behind, key=lambda follower: follower.now, default=None)
            reached = until if first is None else first.now - 1
            while (applied := self._apply_until(engine, reached)) is not None:
                yield engine.advance(max(applied, engine.watermark))
            if first is None:
                break
            self._put(first.read(interrupt.next))
            self._dead += [DeadLetter(*astuple(refusal)) for refusal in first.refused]
            first.refused.clear()
            if interrupt.signal:
                return
        for stream in self._streams:
            stream.quiet = False
        yield engine.advance(until)

    def take(self, engine: Engine, change: bytes) -> None:
        """Apply a change that has no time of its own. It takes effect just after the latest time of the records.

        If the change cannot be applied as a whole, it is applied subject by subject. Rejected parts are dead letters.
        """
        from cep.knowledge.change import Change

        time = max(engine.moving, engine.watermark) + 1
        remove, add = Change.read(change).parsed()
        try:
            engine.update(time, add, remove)
        except CepError:
            about: dict[str, Update] = {}
            for quad in remove:
                _about(about, time, quad).remove.append(quad)
            for quad in add:
                _about(about, time, quad).add.append(quad)
            for name in sorted(about):
                try:
                    engine.update(time, about[name].add, about[name].remove)
                except CepError as error:
                    self._note([about[name]], error)

    def take_dead(self) -> list[DeadLetter]:
        """Return the changes that were rejected since the last call."""
        dead, self._dead = self._dead, []
        return dead

    def _apply_until(self, engine: Engine, reached: int) -> int | None:
        """Apply the changes up to the time `reached`, but at most a limited number of changes.

        Returns the time of the last applied change, or None if no more changes are due.
        """
        moments: list[list[Update]] = []
        most = self._most
        while len(moments) < most and self._due and self._due[0][0] <= reached:
            moments.append(self._next())
        self._apply(engine, moments)
        return moments[-1][0].time if len(moments) == most else None

    def _next(self) -> list[Update]:
        """Remove the changes that have the earliest time, and return them in the order in which they were read."""
        time, _, first = heappop(self._due)
        changes = [first]
        while self._due and self._due[0][0] == time:
            changes.append(heappop(self._due)[2])
        return changes

    def _apply(self, engine: Engine, moments: list[list[Update]]) -> None:
        """Apply changes that are grouped by time. If that fails, apply each group separately to find invalid ones."""
        if not moments:
            return
        try:
            engine.updates(map(_engine_update, moments))
        except CepError:
            for changes in moments:
                try:
                    engine.update(*_engine_update(changes))
                except CepError as error:
                    self._refuse(changes, error)
        self._most = TOGETHER if engine.changes is not None and engine.changes.together else AHEAD

    def _refuse(self, changes: Sequence[Update], error: CepError) -> None:
        """Record changes of the same time that cannot be applied as dead letters, or raise `error` if it is fatal.

        The error is fatal if at least one of the changes comes from a file, unless the reason is that a graph pattern
        would return values of another type than before the change.
        """
        if error.code != "type" and not all(change.line for change in changes):
            raise error
        self._note(changes, error)

    def _note(self, changes: Sequence[Update], error: CepError) -> None:
        for change in changes:
            text = "".join(f"{quad} .\n" for quad in [*change.add, *change.remove])
            self._dead.append(DeadLetter(change.file, change.line, error.message, error.code, text.rstrip()))

    def _put(self, updates: Sequence[Update]) -> None:
        for update in updates:
            heappush(self._due, (update.time, self._count, update))
            self._count += 1


def _engine_update(changes: Sequence[Update]) -> tuple[int, object, object]:
    added, removed = (
        [quad for change in changes for quad in change.add],
        [quad for change in changes for quad in change.remove],
    )
    return changes[0].time, added, removed


def _about(updates: dict[str, Update], time: int, quad: Quad) -> Update:
    from cep.knowledge.updates import Update

    return updates.setdefault(str(quad.subject), Update(time, file=str(quad.graph_name).strip("<>")))


def knowledge_updates(engine: Engine, files: Sequence[str] | None, idle: float | None) -> KnowledgeUpdates:
    """Return the changes in files, prepared for the engine by `KnowledgeUpdates.begin`.

    Large N-Quads files, pipes and standard input are read as streams. All other files are read completely now.

    - `idle`: the seconds after which a stream counts as silent, or None.

    Raises CepError if a file cannot be read or a change cannot be applied.
    """
    if not files:
        updates = KnowledgeUpdates(())
        updates.begin(engine)
        return updates
    from cep.knowledge.arriving import Arriving
    from cep.knowledge.updates import read_updates

    if engine.changes is None:
        raise CepError("--knowledge-updates: there is no --knowledge to change", code="option")
    streams = [name for name in files if is_stream(name)]
    updates = KnowledgeUpdates(
        read_updates([name for name in files if name not in streams]),
        [Arriving(name, _pieces(name, idle)) for name in streams],
    )
    updates.begin(engine)
    return updates


def is_stream(name: str) -> bool:
    """Return True if the file of changes called `name` is read as a stream."""
    if name == "-":
        return True
    path = Path(name)
    if not path.exists() or path.is_dir():
        return False
    return not path.is_file() or (path.name.lower().endswith((".nq", ".nq.gz")) and path.stat().st_size > LARGE)


def _pieces(name: str, idle: float | None) -> Iterator[bytes]:
    # Yield whole lines as they arrive, and empty pieces while the stream is silent.
    from cep.connectors.formats.streams import ByteStream, whole_lines

    try:
        stream = ByteStream(name, idle=idle)
        lines = whole_lines(stream, PIECE)
        while True:
            quiet = stream.silent()
            while quiet:
                yield b""
                quiet = stream.empty()
            if (line := next(lines, None)) is None:
                break
            yield line[0]
        stream.close()
    except OSError as error:
        raise CepError(f"{name}: {reason_of(error)}", code="knowledge") from None
    if stream.damage is not None:
        raise CepError(f"{name}: the rest cannot be decompressed: {stream.damage}", code="knowledge")
