"""A sender: a thread that carries entries of the outbox to one receiver, in order, each at least once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from connectors.alerts.outbox import Entry, Outbox

Tell = Callable[[str, str], None]
"""Gets what is to be known of a receiver: its name, and a sentence."""

_FIRST_WAIT, _LONGEST_WAIT = 0.1, 60.0
_LOOK = 0.5  # seconds in which a sender notices that it is to stop


class Unreachable(Exception):
    """The receiver did not answer, or asked to wait (`wait` seconds): the entries are sent again, without an end."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class Refused(Exception):
    """The receiver answered and did not take it: sent again, so many times."""


class Delivery(Protocol):
    """How entries go to one receiver, up to `most` at once. Raises Unreachable or Refused."""

    most: int

    def give(self, entries: Sequence[Entry]) -> None: ...

    def rest(self, outbox: Outbox) -> None:
        """Called when there is nothing to give, at least every half second."""

    def close(self) -> None: ...


class Sender:
    """Begins with `start`; `stop` lets it finish what is on its way."""

    def __init__(
        self, outbox: Outbox, name: str, delivery: Delivery, tell: Tell, attempts: int = 8, start: bool = False
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

    def stop(self, seconds: float = 5.0) -> None:
        self._stopping.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                if self.outbox.wait(self.cursor, _LOOK):
                    self._give(self.outbox.after(self.cursor, self.delivery.most))
                else:
                    self._try(lambda: self.delivery.rest(self.outbox))
        finally:
            self.delivery.close()

    def _give(self, entries: Sequence[Entry]) -> None:
        """Until the receiver has them, has refused them so many times, or it is to stop."""
        refusals, waits = 0, _FIRST_WAIT
        while not self._stopping.is_set():
            failed = self._try(lambda: self.delivery.give(entries))
            if failed is None:
                self.outbox.taken(self.name, entries[-1].number)
                self.cursor = entries[-1].number
                return
            if isinstance(failed, Refused):
                if len(entries) > 1:  # which of them?
                    for entry in entries:
                        self._give([entry])
                    return
                refusals += 1
                if refusals >= self._attempts:
                    self.outbox.refused(self.name, entries[-1].number, str(failed))
                    self.cursor = entries[-1].number
                    self._tell(self.name, f"gave up on {entries[-1].change.id}: {failed}")
                    return
            pause = max(waits, failed.wait if isinstance(failed, Unreachable) else 0.0)
            waits = min(2 * waits, _LONGEST_WAIT)
            self._stopping.wait(pause)

    def _try(self, step: Callable[[], None]) -> Exception | None:
        """What went wrong; the first time in a row it is told, and when it is right again."""
        try:
            step()
        except Exception as error:  # also what no one thought of: a thread that is gone would tell nobody
            if not self._failing:
                self._tell(self.name, f"{error or type(error).__name__}; trying again")
            self._failing = True
            return error
        if self._failing:
            self._tell(self.name, "answers again")
        self._failing = False
        return None
