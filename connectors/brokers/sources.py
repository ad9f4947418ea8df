"""Live inputs whose connection may be lost. This module reports a loss, and opens the input again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from cep.connectors.ahead_limits import LIVE, AheadLimits
from cep.core.errors import CepError

if TYPE_CHECKING:
    from cep.connectors.brokers.messages import Messages

FIRST, LONGEST = 1.0, 30.0
"""The waits in seconds before attempts to reopen a lost source: the wait before the first attempt, and the longest
wait. Each wait is twice as long as the previous one, up to the longest."""


class SourceLost(CepError):
    """Raised if a live source is not available but may become available later."""


class SourceListener(Protocol):
    """A function that is notified when a source is lost, and when it is available again.

    `source`: the name of the source. `text`: the message. `lost`: False if the source is available again.
    """

    def __call__(self, source: str, text: str, /, *, lost: bool) -> None: ...


def _in_silence(source: str, text: str, /, *, lost: bool) -> None:
    """Accept a notification, and do nothing."""


class Sources:
    """The live inputs of a run. Any thread may read their state.

    - `lost`: for each input that is lost now, the reason of the loss. The keys are the names of the inputs.
    - `awaited`: the names of the inputs that have not been available so far.
    - `losses`: for each input, how often it was lost. The keys are the names of the inputs.
    - `lasting`: True if a pipe counts as live, and if a connection that the other side has closed counts as lost, not
      as ended. The address of a connection may define this differently.
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
        """Register a function that is called when a source is lost or available again. The function is called in the
        thread that reads the source."""
        self._listeners.append(listener)

    def expect(self, names: Iterable[str]) -> None:
        """Register the names of sources that will be opened later. They count as `awaited` until they are available."""
        self.awaited |= frozenset(names)

    def begin(self, name: str) -> None:
        """Register a source that was opened."""
        self.losses = {**self.losses, name: 0}

    def is_now(self, name: str, reason: str | None) -> None:
        """Set the reason why a source is lost, or None if it is available. Notify the listeners if the source was lost
        or has become available since the last call."""
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
        """The reason why no input can arrive at the moment. It is None if input can arrive."""

    def poll(self, most: int, seconds: float) -> Messages | None:
        """Return about `most` messages that arrive within `seconds`, or None if the source has ended.

        Raises SourceLost if the source is lost, and CepError if it fails for another reason.
        """

    def done(self) -> None:
        """Tell the source that all messages it has returned were processed."""

    def kept(self) -> None:
        """Tell the source that processed messages are stored on disk, so that it need not send them again."""

    def close(self) -> None: ...


class Reconnecting:
    """A source that is reopened whenever its connection is lost. A separate thread reopens it, so that other sources
    can be read meanwhile.

    - `source`: the open source, or the error of the attempt to open it.
    - `opened`: a function that opens the source after a position (see `Messages.place`). It raises CepError on failure.
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
    """Return the message of an error without the address. The name of the source contains the address already."""
    return error.message.partition(": ")[2] or error.message
