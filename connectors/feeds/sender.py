"""A sender: a thread that carries entries of the outbox to one receiver, in order, each at least once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from cep.core.errors import CepError
from connectors.alerts.lifecycle import AlertChange
from connectors.alerts.outbox import Outbox
from connectors.alerts.outbox_entries import Closed, OutboxEntry, RefusedEntry

ATTEMPTS = 20
"""Answers that refuse an entry, after which it is given up: the waits between them are more than ten minutes."""

_FIRST_WAIT, _LONGEST_WAIT = 0.1, 60.0
_LOOK = 0.5  # seconds in which a sender notices that it is to stop


class ReportTrouble(Protocol):
    """Reports trouble with a receiver: its name, and a text; `fields`: `alert`, `change`, `reason`."""

    def __call__(self, receiver: str, text: str, /, **fields: str) -> None: ...


class Unreachable(Exception):
    """The receiver did not answer, or asked to wait (`wait` seconds): the entries are sent again, without an end."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class ServerError(Unreachable):
    """The receiver answered with an error that may be its own: sent again, unless it takes the next one."""


class DeliveryRefused(Exception):
    """The receiver does not want this: sent again, so many times."""


class Delivery(Protocol):
    """How entries go to one receiver, up to `most` at once. Raises Unreachable, ServerError or Refused."""

    most: int

    def give(self, entries: Sequence[OutboxEntry]) -> None: ...

    def again(self, entry: OutboxEntry, now: AlertChange) -> None:
        """An entry of before, on demand; `now`: what holds of its key by now."""

    def rest(self, outbox: Outbox) -> None:
        """Called when there is nothing to give, at least every half second."""

    def close(self) -> None: ...


class Sender:
    """A thread: `start` begins it; after `halt` or `stop` it finishes the delivery at hand."""

    def __init__(
        self,
        outbox: Outbox,
        name: str,
        delivery: Delivery,
        report: ReportTrouble,
        attempts: int = ATTEMPTS,
        start: bool = False,
    ) -> None:
        self.outbox = outbox
        self.name = name
        self.delivery = delivery
        self.cursor = outbox.receiver(name, start)
        self._attempts = attempts
        self._report = report
        self._stopping = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name=f"feed {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def halt(self) -> None:
        """Ask it to stop, without waiting."""
        self._stopping.set()

    def stop(self, seconds: float = 5.0) -> None:
        self._stopping.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._until(self._next, "the outbox cannot be read: {}; nothing is sent until it can")
        except Closed:  # while the receiver took its time: it is sent again after the next start
            pass
        finally:
            self.delivery.close()

    def _next(self) -> None:
        """What is to be sent next, or nothing for a while."""
        if letter := self.outbox.next_retry(self.name):
            self._again(letter)
        elif self.outbox.wait(self.cursor, _LOOK):
            self._give(self.outbox.after(self.cursor, self.delivery.most))
        else:
            self._try(lambda: self.delivery.rest(self.outbox))

    def _note(self, write: Callable[[], None]) -> None:
        """Write how far the receiver is. Where the disk takes nothing, nothing else is sent meanwhile: it would come
        twice after the next start."""
        self._until(write, "how far it is cannot be noted: {}; nothing more is sent until it can")

    def _until(self, step: Callable[[], None], trouble: str) -> None:
        """Repeat a step until it succeeds or the sender is stopped. The first failure is reported, and the recovery."""
        wait = _FIRST_WAIT
        while True:
            try:
                step()
            except Closed:
                raise
            except Exception as error:  # a thread that ended would report nothing
                reason = error.message if isinstance(error, CepError) else str(error) or type(error).__name__
                if wait == _FIRST_WAIT:
                    self._report(self.name, trouble.format(reason), reason=reason)
                if self._stopping.wait(wait):
                    return
                wait = min(2 * wait, _LONGEST_WAIT)
                continue
            if wait > _FIRST_WAIT:
                self._report(self.name, "the outbox works again")
            return

    def _give(self, entries: Sequence[OutboxEntry]) -> None:
        """Send entries until the receiver has them, they are given up, or the sender is stopped."""
        answers, waits = 0, _FIRST_WAIT
        while not self._stopping.is_set():
            failed = self._try(lambda: self.delivery.give(entries))
            if failed is None:
                self._note(lambda: self.outbox.acknowledge(self.name, entries[-1].number))
                self.cursor = entries[-1].number
                return
            if _may_be_content(failed):
                answers += 1
                if len(entries) > 1 and (
                    isinstance(failed, DeliveryRefused) or answers >= self._attempts
                ):  # which of them?
                    for entry in entries:
                        self._give([entry])
                    return
                if answers >= self._attempts and (reason := self._given_up(entries[-1], failed)):
                    self._give_up(entries[-1], reason)
                    return
            pause = max(waits, failed.wait if isinstance(failed, Unreachable) else 0.0)
            waits = min(2 * waits, _LONGEST_WAIT)
            self._stopping.wait(pause)

    def _given_up(self, entry: OutboxEntry, failed: Exception) -> str | None:
        """Why an entry is given up: it is refused, or the receiver takes the next one, and this one still
        not."""
        if isinstance(failed, DeliveryRefused):
            return str(failed)
        following = self.outbox.after(entry.number, 1)
        if not following or self._try(lambda: self.delivery.give(following)) is not None:
            return None
        still = self._try(lambda: self.delivery.give([entry]))
        return f"{still}, and it takes the next one" if still is not None and _may_be_content(still) else None

    def _give_up(self, entry: OutboxEntry, reason: str) -> None:
        self._note(lambda: self.outbox.reject(self.name, entry.number, reason))
        self.cursor = max(self.cursor, entry.number)
        change = entry.change
        self._report(
            self.name, f"gave up on {change.id}: {reason}", alert=change.alert, change=change.id, reason=reason
        )

    def _again(self, letter: RefusedEntry) -> None:
        """Send a dead letter again, on demand; if that fails, the failure is its new reason."""
        now = self.outbox.standing(letter.entry.change)
        failed = self._try(lambda: self.delivery.again(letter.entry, now))
        if failed is None:
            self._note(lambda: self.outbox.delivered(self.name, letter.entry.number))
        else:
            self._give_up(letter.entry, str(failed) or type(failed).__name__)

    def _try(self, step: Callable[[], None]) -> Exception | None:
        """The failure of a step, if it failed; the first one in a row is reported, and the recovery."""
        try:
            step()
        except Closed:
            raise
        except Exception as error:  # also an unexpected one: a thread that ended would report nothing
            if not self._failing:
                reason = str(error) or type(error).__name__
                self._report(self.name, f"{reason}; trying again", reason=reason)
            self._failing = True
            return error
        if self._failing:
            self._report(self.name, "answers again")
        self._failing = False
        return None


def _may_be_content(failed: Exception) -> bool:
    """Whether what went wrong may lie in what was sent."""
    return isinstance(failed, ServerError) or not isinstance(failed, Unreachable)
