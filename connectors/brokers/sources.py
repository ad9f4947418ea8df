"""Live inputs that are lost and come back: why they are lost, who is notified, and how they are reopened."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from cep.connectors.ahead_limits import LIVE, AheadLimits
from cep.connectors.brokers.messages import Messages
from cep.core.errors import CepError

FIRST, LONGEST = 1.0, 30.0
"""Seconds from the loss of a source to the first attempt to reopen it, and the greatest number between two attempts:
each wait is twice as long as the one before."""


class SourceLost(CepError):
    """A source is lost, and may come back."""


class SourceListener(Protocol):
    """Is notified of a source by its name: what has happened, and whether it is `lost`."""

    def __call__(self, source: str, text: str, /, *, lost: bool) -> None: ...


def _in_silence(source: str, text: str, /, *, lost: bool) -> None:
    """The default: no notice."""


class Sources:
    """The live inputs of a run, for any thread.

    `lost`: why each lost input is lost, by its name. `awaited`: inputs that have not been available since the start.
    `lasting`: a connection that the other side closes is lost, which is not the end of its input, unless its address
    says otherwise; a pipe is then live, too. `ahead`: how far records may be ahead of the clock.
    """

    def __init__(self, tell: SourceListener = _in_silence, lasting: bool = False, ahead: AheadLimits = LIVE) -> None:
        self.lasting = lasting
        self.ahead = ahead
        self.lost: Mapping[str, str] = {}
        self.awaited: frozenset[str] = frozenset()
        self.losses: Mapping[str, int] = {}
        self._tell = tell
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        """Register a function that is called when a source is lost or back, in the thread that reads."""
        self._listeners.append(listener)

    def expect(self, names: Iterable[str]) -> None:
        """Announce sources that will be opened; messages sent before a source first connects may be lost."""
        self.awaited |= frozenset(names)

    def begin(self, name: str) -> None:
        """Note that a source is opened."""
        self.losses = {**self.losses, name: 0}

    def is_now(self, name: str, reason: str | None) -> None:
        """Note why a source is lost; None: it is available. Listeners are notified of a change."""
        if reason is None and name in self.awaited:
            self.awaited -= {name}
        before = self.lost.get(name)
        if (before is None) is (reason is None):
            return
        rest = {other: why for other, why in self.lost.items() if other != name}
        self.lost = rest if reason is None else {**rest, name: reason}
        if reason is None:
            self._tell(name, "the source is there again", lost=False)
        else:
            self.losses = {**self.losses, name: self.losses[name] + 1}
            how = f"it is tried again after {FIRST:g} s, then ever less often, every {LONGEST:g} s at least"
            self._tell(name, f"the source is lost: {reason}; {how}", lost=True)
        for listener in self._listeners:
            listener()


class LiveSource(Protocol):
    """A source of messages."""

    @property
    def lost(self) -> str | None:
        """Return the reason why no input can arrive at present; None: it can."""

    def poll(self, most: int, seconds: float) -> Messages | None:
        """Return about `most` messages, within so many seconds; None: there will be no more. SourceLost: it is lost.
        CepError: it failed."""

    def done(self) -> None:
        """Note that everything polled so far is processed."""

    def kept(self) -> None:
        """Note that processed messages are on disk, so they need not come again."""

    def close(self) -> None: ...


class Reconnecting:
    """A source that is reopened whenever it is lost, in a thread of its own, so that others are read meanwhile.

    `source`: the open source, which is at a place (`Messages.place`), or why it could not be opened. `opened`: opens it
    after a place; CepError: it cannot.
    """

    def __init__(
        self,
        source: LiveSource | SourceLost,
        opened: Callable[[Mapping[int, int]], LiveSource],
        place: Mapping[int, int] | None = None,
    ) -> None:
        self._opened = opened
        self._place, self._coming = dict(place or {}), dict[int, int]()
        self._pause = FIRST
        self._source: LiveSource | None = None
        self._reason: str | None = None
        self._there = threading.Condition()
        self._closed = False
        if isinstance(source, SourceLost):
            self._gone(source)
        else:
            self._source = source

    @property
    def lost(self) -> str | None:
        return self._reason if self._source is None else self._source.lost

    def poll(self, most: int, seconds: float) -> Messages | None:
        with self._there:
            self._there.wait_for(lambda: self._source is not None, seconds)
            source = self._source
        if source is None:
            return Messages((), (), ())
        try:
            found = source.poll(most, seconds)
        except SourceLost as error:
            self._gone(error)
            return Messages((), (), ())
        if found is not None and len(found):
            self._coming, self._pause = dict(found.place), FIRST
        return found

    def done(self) -> None:
        self._place |= self._coming
        if self._source is not None:
            self._source.done()

    def kept(self) -> None:
        try:
            if self._source is not None:
                self._source.kept()
        except SourceLost as error:
            self._gone(error)

    def close(self) -> None:
        with self._there:
            self._closed = True
            source, self._source = self._source, None
            self._there.notify_all()
        if source is not None:
            source.close()

    def _gone(self, error: SourceLost) -> None:
        source, self._source = self._source, None
        self._reason = _why(error)
        if source is not None:
            source.close()
        threading.Thread(target=self._return, name="source", daemon=True).start()

    def _return(self) -> None:
        while True:
            with self._there:
                if self._there.wait_for(lambda: self._closed, self._pause):
                    return
            self._pause = min(2 * self._pause, LONGEST)
            try:
                source = self._opened(self._place)
            except CepError as error:
                self._reason = _why(error)
                continue
            with self._there:
                if not self._closed:
                    self._source = source
                    self._there.notify_all()
                    return
            source.close()
            return


def _why(error: CepError) -> str:
    """Return the reason of an error, without the address, which is the name of the source."""
    return error.message.partition(": ")[2] or error.message
