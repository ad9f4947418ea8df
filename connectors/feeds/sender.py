"""A sender: a thread that carries entries of the outbox to one receiver, in order, each at least once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from connectors.alerts.life import Change
from connectors.alerts.outbox import Closed, Entry, Outbox, RefusedEntry

ATTEMPTS = 20
"""Answers that refuse an entry, after which it is given up: the waits between them are more than ten minutes."""

_FIRST_WAIT, _LONGEST_WAIT = 0.1, 60.0
_LOOK = 0.5  # seconds in which a sender notices that it is to stop


class Tell(Protocol):
    """Gets what is to be known of a receiver: its name, and what is with it; `fields`: `alert`, `change`, `reason`."""

    def __call__(self, receiver: str, text: str, /, **fields: str) -> None: ...


class Unreachable(Exception):
    """The receiver did not answer, or asked to wait (`wait` seconds): the entries are sent again, without an end."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class Troubled(Unreachable):
    """The receiver answered with trouble that may be its own: sent again, without an end; unless it takes the next."""


class Refused(Exception):
    """The receiver does not want this: sent again, so many times."""


class Delivery(Protocol):
    """How entries go to one receiver, up to `most` at once. Raises Unreachable, Troubled or Refused."""

    most: int

    def give(self, entries: Sequence[Entry]) -> None: ...

    def again(self, entry: Entry, now: Change) -> None:
        """An entry of before, on demand; `now`: what holds of its key by now."""

    def rest(self, outbox: Outbox) -> None:
        """Called when there is nothing to give, at least every half second."""

    def close(self) -> None: ...


class Sender:
    """Begins with `start`; `halt` and `stop` let it finish what is on its way."""

    def __init__(
        self,
        outbox: Outbox,
        name: str,
        delivery: Delivery,
        tell: Tell,
        attempts: int = ATTEMPTS,
        start: bool = False,
    ) -> None:
        self.outbox = outbox
        self.name = name
        self.delivery = delivery
        self.cursor = outbox.receiver(name, start)
        self._attempts = attempts
        self._tell = tell
        self._stopping = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name=f"feed {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def halt(self) -> None:
        """It is to stop; nobody waits for it."""
        self._stopping.set()

    def stop(self, seconds: float = 5.0) -> None:
        self._stopping.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                if letter := self.outbox.called(self.name):
                    self._again(letter)
                elif self.outbox.wait(self.cursor, _LOOK):
                    self._give(self.outbox.after(self.cursor, self.delivery.most))
                else:
                    self._try(lambda: self.delivery.rest(self.outbox))
        except Closed:  # while the receiver took its time: it is sent again after the next start
            pass
        finally:
            self.delivery.close()

    def _give(self, entries: Sequence[Entry]) -> None:
        """Until the receiver has them, they are given up, or it is to stop."""
        answers, waits = 0, _FIRST_WAIT
        while not self._stopping.is_set():
            failed = self._try(lambda: self.delivery.give(entries))
            if failed is None:
                self.outbox.taken(self.name, entries[-1].number)
                self.cursor = entries[-1].number
                return
            if _about_it(failed):
                answers += 1
                if len(entries) > 1 and (isinstance(failed, Refused) or answers >= self._attempts):  # which of them?
                    for entry in entries:
                        self._give([entry])
                    return
                if answers >= self._attempts and (reason := self._given_up(entries[-1], failed)):
                    self._bury(entries[-1], reason)
                    return
            pause = max(waits, failed.wait if isinstance(failed, Unreachable) else 0.0)
            waits = min(2 * waits, _LONGEST_WAIT)
            self._stopping.wait(pause)

    def _given_up(self, entry: Entry, failed: Exception) -> str | None:
        """Why an entry is never going to be taken: it is refused, or the receiver takes the next, and this one still
        not."""
        if isinstance(failed, Refused):
            return str(failed)
        following = self.outbox.after(entry.number, 1)
        if not following or self._try(lambda: self.delivery.give(following)) is not None:
            return None
        still = self._try(lambda: self.delivery.give([entry]))
        return f"{still}, and it takes the next one" if still is not None and _about_it(still) else None

    def _bury(self, entry: Entry, reason: str) -> None:
        self.outbox.refused(self.name, entry.number, reason)
        self.cursor = max(self.cursor, entry.number)
        change = entry.change
        self._tell(self.name, f"gave up on {change.id}: {reason}", alert=change.alert, change=change.id, reason=reason)

    def _again(self, letter: RefusedEntry) -> None:
        """A dead letter once more, on demand; what goes wrong now is why it stays one."""
        now = self.outbox.standing(letter.entry.change)
        failed = self._try(lambda: self.delivery.again(letter.entry, now))
        if failed is None:
            self.outbox.settled(self.name, letter.entry.number)
        else:
            self._bury(letter.entry, str(failed) or type(failed).__name__)

    def _try(self, step: Callable[[], None]) -> Exception | None:
        """What went wrong; the first time in a row it is told, and when it is right again."""
        try:
            step()
        except Closed:
            raise
        except Exception as error:  # also what no one thought of: a thread that is gone would tell nobody
            if not self._failing:
                reason = str(error) or type(error).__name__
                self._tell(self.name, f"{reason}; trying again", reason=reason)
            self._failing = True
            return error
        if self._failing:
            self._tell(self.name, "answers again")
        self._failing = False
        return None


def _about_it(failed: Exception) -> bool:
    """Whether what went wrong may lie in what was sent."""
    return isinstance(failed, Troubled) or not isinstance(failed, Unreachable)
