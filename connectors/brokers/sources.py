"""Live inputs that may be lost: why they are lost, who is notified, and how they are reopened."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from cep.connectors.ahead_limits import LIVE, AheadLimits
from cep.core.errors import CepError

if TYPE_CHECKING:
    from cep.connectors.brokers.messages import Messages

FIRST, LONGEST = 1.0, 30.0
"""The seconds before the first attempt to reopen a lost source, and the longest wait between two attempts. The waits
double from the first to the longest."""


class SourceLost(CepError):
    """Raised if a live source is lost and may come back."""


class SourceListener(Protocol):
    """A function that is notified when a source is lost or back.

    `source`: the name of the source. `text`: the message. `lost`: True if the source is lost, False if it is back.
    """

    def __call__(self, source: str, text: str, /, *, lost: bool) -> None: ...


def _in_silence(source: str, text: str, /, *, lost: bool) -> None:
    """Ignore a notice."""


class Sources:
    """The live inputs of a run. Any thread may read their state.

    - `lost`: the reason of the loss, by the name of a lost input.
    - `awaited`: the names of inputs that have never been available yet.
    - `losses`: how often each input was lost, by its name.
    - `lasting`: True if a pipe counts as live. A connection that the other side closes then counts as lost rather than
      ended, unless its address says otherwise.
    - `ahead`: the limits for record times that are ahead of the clock.
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
        """Register a function that is called when a source is lost or back. It is called in the thread that reads."""
        self._listeners.append(listener)

    def expect(self, names: Iterable[str]) -> None:
        """Announce sources that will be opened. Messages that are sent before the first connection may be lost."""
        self.awaited |= frozenset(names)

    def begin(self, name: str) -> None:
        """Register a source that was opened."""
        self.losses = {**self.losses, name: 0}

    def is_now(self, name: str, reason: str | None) -> None:
        """Set the reason why a source is lost, or None if it is available. Listeners are notified of a change."""
        if reason is None and name in self.awaited:
            self.awaited -= {name}
        before = self.lost.get(name)
        if (before is None) is (reason is None):
            return
        rest = {other: why for other, why in self.lost.items() if other != name}
        self.lost = rest if reason is None else {**rest, name: reason}
        if reason is None:
            self._tell(name, "the source is connected again", lost=False)
        else:
            self.losses = {**self.losses, name: self.losses[name] + 1}
            how = f"the next attempt is in {FIRST:g} s, later ones at growing intervals of at most {LONGEST:g} s"
            self._tell(name, f"the source is lost: {reason}; {how}", lost=True)
        for listener in self._listeners:
            listener()


class LiveSource(Protocol):
    """A source of messages that arrive while the program runs."""

    @property
    def lost(self) -> str | None:
        """The reason why no input can arrive at the moment, or None."""

    def poll(self, most: int, seconds: float) -> Messages | None:
        """Return about `most` messages that arrive within `seconds`, or None if the source has ended.

        Raises SourceLost if the source is lost, or CepError if it fails in another way.
        """

    def done(self) -> None:
        """Tell the source that all messages it has returned were processed."""

    def kept(self) -> None:
        """Tell the source that processed messages are stored on disk, so that it need not send them again."""

    def close(self) -> None: ...


class Reconnecting:
    """A source that is reopened whenever it is lost. A separate thread does this, so that other sources can be read.

    - `source`: the open source, or the error of the attempt to open it.
    - `opened`: a function that opens the source after a position (`Messages.place`). It raises CepError on failure.
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
        from cep.connectors.brokers.messages import Messages

        with self._there:
            self._there.wait_for(lambda: self._source is not None, seconds)
            source = self._source
        if source is None:
            return Messages((), (), ())
        try:
            messages = source.poll(most, seconds)
        except SourceLost as error:
            self._gone(error)
            return Messages((), (), ())
        if messages is not None and len(messages):
            self._coming, self._pause = dict(messages.place), FIRST
        return messages

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
    """Return the message of an error without the address, which the name of the source already contains."""
    return error.message.partition(": ")[2] or error.message
