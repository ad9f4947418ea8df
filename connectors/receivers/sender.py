"""Send entries of the outbox to one receiver. Each is sent at least once, and entries of the same key are sent in
order."""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Protocol

from cep.connectors.alerts.handling import MACHINE
from cep.connectors.alerts.handling_tables import REMINDED, RecordedAction
from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import Closed, OutboxEntry, ReceiverCounts, RefusedEntry
from cep.connectors.alerts.text import JsonValue
from cep.connectors.receivers.groups import GroupOf, Groups
from cep.connectors.receivers.lanes import Lanes, Step, Then
from cep.connectors.receivers.position import Position
from cep.core.errors import CepError

ATTEMPTS = 20
"""The number of refusals after which the sender gives up an entry. The waits between these attempts are more than ten
minutes in total."""

_FIRST_WAIT, _LONGEST_WAIT = 0.1, 60.0
_LOOK = 0.5  # seconds until a sender notices that it must stop
_HELD = 10_000  # the greatest number of queued entries, large enough that a refused one rarely delays others


class ReportTrouble(Protocol):
    """A function that reports a problem with a receiver.

    `receiver`: the receiver's name. `text`: the message. `fields`: for the log: `alert`, `change` or `reason`.
    """

    def __call__(self, receiver: str, text: str, /, **fields: str) -> None: ...


class Unreachable(Exception):
    """Raised if the receiver does not answer, or asks the sender to wait. The sender then repeats the entries until the
    receiver accepts or refuses them.

    `wait`: the seconds that the receiver asks the sender to wait.
    """

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class ServerError(Unreachable):
    """Raised if the receiver answers with an error whose cause may be something other than the content. The sender then
    sends the entries again. It gives them up if the receiver accepts other entries, but refuses these."""


class DeliveryRefused(Exception):
    """Raised if the receiver refuses the content of an entry. The sender then repeats it a limited number of times."""


class _AloneNot(Exception):
    """Raised if the receiver fails to accept an entry, although it accepts the entry that follows."""


class Delivery(Protocol):
    """An object that sends entries to one receiver, in the receiver's protocol.

    - `most`: the maximum number of entries that are sent together.
    - `lanes`: the number of threads that may send at the same time.
    - `states`: True if the receiver needs only the current state of an alert, so that outdated changes are not
      sent after a failure.

    The methods that send raise Unreachable, ServerError or DeliveryRefused.
    """

    most: int
    lanes: int
    states: bool

    def key(self, entry: OutboxEntry) -> str:
        """Return the key of an entry. Entries that have the same key are sent in order."""

    def give(self, entries: Sequence[OutboxEntry]) -> None: ...

    def again(self, entry: OutboxEntry, now: AlertChange) -> None:
        """Send a dead letter again, because a person has requested it. `now`: the current change of the alert's key."""

    def rest(self, outbox: Outbox, told: Callable[[], list[OutboxEntry]]) -> None:
        """Do periodic work. The sender calls this every half second.

        `told`: a function that returns, for each open alert, the last change that the receiver was sent.
        """

    def close(self) -> None: ...


@dataclass(slots=True)
class _Trouble:
    """The failures of the first entry in a queue.

    - `answers`: the number of times that the receiver refused the entry.
    - `wait`: the seconds until the entry is sent again.
    - `since`: the number of steps that the sender had begun before the first failure.
    - `alone`: the number of entries at the front of the queue that are sent one by one.
    """

    since: int
    answers: int = 0
    wait: float = _FIRST_WAIT
    alone: int = 0


@dataclass(slots=True)
class _Waiting:
    """The queued entries of an alert.

    - `key`: the key of the queue that contains them.
    - `count`: the number of these entries.
    - `hushed`: the number below which entries of this alert will not be sent.
    """

    key: str
    count: int = 0
    hushed: int = 0


@dataclass(frozen=True, slots=True)
class _Reminder:
    """A reminder that will be sent at the wall-clock time `due`.

    `number`: the number of the reminder; 1 for the first reminder about a change.
    """

    due: int
    number: int


class Sender:
    """A thread that sends entries to a receiver. After `halt` or `stop`, it finishes the steps in progress.

    There is one queue per key. The sender sends the first entries of a queue as one step. When this step has ended, it
    sends the next entries. If the receiver does not answer, the sender tries one queue repeatedly, and doubles the wait
    after each attempt. If the receiver refuses an entry, the sender continues to send the queues of other keys.

    - `wants`: a function that returns True for changes that belong to this receiver.
    - `news`: a function that returns True for changes of which the receiver is notified.
    - `group_of`: a function that returns the group of a change, for messages to people. If it is set, there is one
      queue per group, and `Delivery.key` is not used.
    """

    def __init__(
        self,
        outbox: Outbox,
        name: str,
        delivery: Delivery,
        report: ReportTrouble,
        attempts: int = ATTEMPTS,
        start: bool = False,
        wants: Callable[[AlertChange], bool] = lambda change: True,
        group_of: GroupOf | None = None,
        news: Callable[[AlertChange], bool] = lambda change: True,
    ) -> None:
        self.outbox, self.name, self.delivery, self._wants, self._news = outbox, name, delivery, wants, news
        cursor, ahead = outbox.receiver(name, start), outbox.ahead(name)
        self.position = Position(cursor, ahead)
        self._groups: Groups | None = None

        def has(entry_number: int) -> bool:
            return entry_number <= cursor or any(low <= entry_number <= high for low, high in ahead)

        if group_of is not None:
            self._groups = Groups(outbox, name, group_of, has, wants)
        self._counts = outbox.counts.setdefault(name, ReceiverCounts())
        self._read, self._held = self.position.cursor, 0
        self._attempts, self._report = attempts, report
        self._queues: dict[str, deque[OutboxEntry]] = {}
        self._ready: deque[str] = deque()  # the keys whose first entries can be sent
        self._later: list[tuple[float, str]] = []  # the keys that wait, each with its time
        self._troubles: dict[str, _Trouble] = {}
        self._begun = self._taken = 0  # the number of steps begun, and of the last successful one
        self._reported = self._failing = False
        self._behind = True  # queued entries may have arrived already, before this start or before a failure
        self._pause, self._resume = 0.0, 0.0
        self._looked = -_LOOK
        self._resting = self._repeating = False
        self._waiting: dict[str, _Waiting] = {}  # by alert
        self._following: dict[str, list[OutboxEntry]] = {}  # by alert: changes that wait for others that are being sent
        self._doubtful: set[str] = set()  # keys of queues that may contain entries which will not be sent
        self._unsent = outbox.unsent(name)  # by alert: the first revision dropped since the last message
        self._reminders: dict[str, _Reminder] = {}  # by alert
        self._await_reminders(has)
        self._bell, self._stopping = threading.Event(), threading.Event()
        self._lanes = Lanes(delivery.lanes, f"feed {name}", self._bell)
        self._thread = threading.Thread(target=self._run, name=f"feed {name}", daemon=True)
        outbox.listen(self._bell.set)

    def start(self) -> None:
        self._thread.start()

    def halt(self) -> None:
        """Ask the sender to stop, and return without waiting for its end."""
        self._stopping.set()
        self._bell.set()

    def stop(self, seconds: float = 5.0) -> None:
        self.halt()
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._until(self._step, "the outbox cannot be read: {}; nothing is sent until it can be read again")
                self._bell.wait(self._patience())
                self._bell.clear()
            self._lanes.close()
            while self._lanes.busy:
                self._bell.wait(_LOOK)
                self._bell.clear()
                self._settle()
            self._acknowledge()
        # the outbox was closed while the receiver was slow; the entries are sent again after the next start
        except Closed:
            pass
        finally:
            self.delivery.close()

    def _step(self) -> None:
        self._settle()
        self._fill()
        self._give()
        self._acknowledge()

    def _settle(self) -> None:
        for then, error in self._lanes.finished():
            if isinstance(error, Closed):
                raise error
            then(error)

    def _acknowledge(self) -> None:
        position = self.position
        if position.changed:
            noted = self._note(
                lambda: self.outbox.acknowledge(self.name, position.cursor, position.ahead(), self._unsent)
            )
            position.changed = not noted
            if noted and self._groups is not None:
                self._note(self._groups.settle)

    def _patience(self) -> float:
        """Return the number of seconds after which to look for work again."""
        now = time.monotonic()
        times = [self._resume] if self._resume > now else [due for due, _ in self._later[:1]]
        return min([_LOOK, *(max(0.0, due - now) for due in times)])

    def _fill(self) -> None:
        """Read new entries from the outbox and append them to the queues."""
        self._follow()
        while self._held < _HELD and self.outbox.last > self._read:
            entries = self.outbox.after(self._read, min(500, _HELD - self._held))
            for entry in entries:
                self._read = entry.number
                change = entry.change
                if change.quiet:
                    self._hush(entry)
                if not self.position.take(entry.number):
                    continue
                if change.quiet or not self._wanted(change):
                    self.position.done(entry.number)
                    continue
                self._queue(entry)
                waiting = self._waiting[change.alert]
                reminder = self._reminders.get(change.alert)
                late = waiting.count > 1 and reminder is not None and reminder.due <= _now()
                if late or (change.over and change.alert in self._unsent):
                    self._doubtful.add(waiting.key)
            if self._behind and self.delivery.states and not self._lanes.busy:
                self._leave_out()
            if not entries:
                break
        if not self._queues and not self._failing:
            self._behind = False

    def _leave_out(self) -> None:
        """Remove queued entries except the last one of each alert. So the receiver is sent no outdated state.

        The end of an alert always remains, because the receiver may know the alert as open.
        """
        for key, queue in self._queues.items():
            last = {entry.change.alert: entry.number for entry in queue}
            self._queues[key] = deque(entry for entry in queue if entry.number == last[entry.change.alert])
            self._gone([entry for entry in queue if entry.number < last[entry.change.alert]])

    def _wanted(self, change: AlertChange) -> bool:
        return not (change.remark and self.delivery.states) and self._wants(change) and self._news(change)

    def _drop(self, entries: Sequence[OutboxEntry]) -> None:
        for entry in entries:
            if entry.change.over:
                self._unsent.pop(entry.change.alert, None)
            elif not entry.reminder:
                self._unsent.setdefault(entry.change.alert, entry.change.revision)
        self._gone(entries)

    def _gone(self, entries: Sequence[OutboxEntry]) -> None:
        for entry in entries:
            self.position.done(entry.number)
            waiting = self._waiting[entry.change.alert]
            waiting.count -= 1
            if not waiting.count:
                del self._waiting[entry.change.alert]
        self._held -= len(entries)

    def _sift(self, key: str) -> bool:
        """Remove the entries from a queue that should not be sent. Return True if any were removed.

        These entries are:

        - changes of alerts that were silenced or inhibited after the changes were queued,
        - the end of an alert of which the receiver was never notified,
        - reminders about alerts that have changed after the reminder was queued.
        """
        queue = self._queues[key]
        if self.outbox.last > self._read:  # not all entries were read, because so many are waiting
            for entry in islice(queue, self.delivery.most):
                latest = self.outbox.revision(entry.change.alert)
                if latest is not None and latest.number > self._read and latest.change.quiet:
                    self._hush(latest)
        if key not in self._doubtful:
            return False
        unsent, told = dict(self._unsent), set[str]()
        last = {entry.change.alert: entry.number for entry in queue}
        kept, dropped = deque[OutboxEntry](), []
        for entry in queue:
            change = entry.change
            if entry.reminder and entry.number < last[change.alert]:
                dropped.append(entry)
            elif entry.number < self._waiting[change.alert].hushed:
                unsent.setdefault(change.alert, change.revision)
                dropped.append(entry)
            elif (
                change.over
                and not self.delivery.states  # for states, the receiver may have the alert even if it did not answer
                and change.alert in unsent
                and change.alert not in told
                and self._last_told(change, unsent[change.alert]) is None
            ):
                dropped.append(entry)
            else:
                told.add(change.alert)
                kept.append(entry)
        self._doubtful.discard(key)
        if not dropped:
            return False
        if kept and kept[0] is queue[0]:
            self._queues[key] = kept
        else:
            self._troubles.pop(key, None)
            del self._queues[key]
            if kept:
                self._queues[key] = kept
        self._drop(dropped)
        if self._groups is not None:
            self._groups.drop(key, dropped)
        return True

    def _hush(self, entry: OutboxEntry) -> None:
        """Record that queued changes of an alert will not be sent, because `entry` silences or inhibits the alert."""
        waiting = self._waiting.get(entry.change.alert)
        if waiting is not None:
            waiting.hushed = entry.number
            self._doubtful.add(waiting.key)

    def _last_told(
        self, change: AlertChange, before: int, has: Callable[[int], bool] = lambda number: True
    ) -> OutboxEntry | None:
        """Return the last change of an alert that the receiver was sent. Return None if it was sent no change.

        `before`: only changes that have a smaller revision are considered. `has`: a function that takes the number of
        an entry. It returns True if the receiver has accepted the entry.
        """
        for entry in self.outbox.loud(change.alert, before):
            if has(entry.number) and self._wanted(entry.change):
                return entry
        return None

    def _told_of(self, sent: int, unsent: Mapping[str, int]) -> list[OutboxEntry]:
        """Return, for each open alert, the last change that the receiver was sent.

        `sent`: the number up to which the receiver has accepted all entries, except those in `unsent`. `unsent`: for
        each alert, the first revision that the receiver was not sent.
        """
        entries: list[OutboxEntry] = []
        for latest in self.outbox.live():
            change = latest.change
            if latest.number <= sent and not change.over and self._wants(change):
                told = self._last_told(change, unsent.get(change.alert, change.revision + 1))
                entries += [] if told is None else [told]
        return entries

    def _give(self) -> None:
        """Begin steps while threads are free. If the receiver does not answer, begin a single step when the next
        attempt is due."""
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            self._ready.append(heapq.heappop(self._later)[1])
        if now < self._resume:
            return
        if self._behind and self.delivery.states and not self._lanes.busy:
            self._leave_out()
        if now - self._looked >= _LOOK and self._free():
            self._look(now)
        while self._ready and self._free():
            key = self._ready[0]
            if self._sift(key):
                self._ready.popleft()
                if key in self._queues:
                    self._line_up(key)
                continue
            trouble = self._troubles.get(key)
            entries = list(islice(self._queues[key], self.delivery.most))
            if self._groups is not None:
                entries = self._groups.batch(key, entries, _now())
            if trouble is not None and trouble.alone:
                if self._groups is not None:
                    self._groups.send_alone(key)
                entries = [replace(entries[0], group=None)]
            self._ready.popleft()
            self._give_first(key, entries)

    def _give_first(self, key: str, entries: Sequence[OutboxEntry]) -> None:
        number = self._begun + 1
        self._begin(lambda: self.delivery.give(entries), lambda error: self._given(key, entries, number, error))

    def _free(self) -> bool:
        return self._lanes.busy < (1 if self._failing else self.delivery.lanes)

    def _look(self, now: float) -> None:
        self._looked = now
        self._remind()
        letter = None if self._repeating else self.outbox.next_retry(self.name)
        if letter is not None:
            self._repeat(letter)
        if not self._resting and self._free():
            self._resting = True
            told = partial(self._told_of, self.position.cursor, dict(self._unsent))
            self._begin(lambda: self.delivery.rest(self.outbox, told), self._rested)

    def _await_reminders(self, has: Callable[[int], bool]) -> None:
        """Schedule reminders of open alerts when the sender starts.

        `has`: a function that takes the number of an entry. It returns True if the receiver has accepted the entry.
        """
        for latest in [] if self.delivery.states else self.outbox.live():
            change = latest.change
            if not change.repeat or not self._wants(change):
                continue
            told = self._last_told(change, self._unsent.get(change.alert, change.revision + 1), has)
            if told is not None and told.recorded is not None:
                self._heard(change, told.recorded)

    def _heard(self, change: AlertChange, when: int, number: int = 0) -> None:
        """Schedule the next reminder of an alert after the receiver was notified of it.

        `when`: the wall-clock time of the notification. `number`: the number of the sent reminder, or 0 for a change.
        """
        if not change.repeat or change.over or self.delivery.states:
            self._reminders.pop(change.alert, None)
            return
        passed = max(0, _now() - when) // change.repeat + 1
        self._reminders[change.alert] = _Reminder(when + passed * change.repeat, number + passed)

    def _remind(self) -> None:
        """Queue a reminder of each open alert that is due for one. The reminder shows the alert's current state."""
        now = _now()
        for alert, reminder in list(self._reminders.items()):
            if reminder.due > now or alert in self._waiting or self.outbox.ended:
                continue
            latest = self.outbox.revision(alert)
            if latest is None or latest.change.over or not latest.change.repeat or not self._wants(latest.change):
                del self._reminders[alert]
            elif latest.change.quiet or latest.change.acknowledged:
                self._heard(latest.change, reminder.due, reminder.number)  # it may be due again next time
            elif latest.number <= self._read:
                self._queue(replace(latest, recorded=now, reminder=reminder.number))

    def _queue(self, entry: OutboxEntry) -> None:
        key = self.delivery.key(entry) if self._groups is None else self._groups.key(entry)
        waiting = self._waiting.setdefault(entry.change.alert, _Waiting(key))
        waiting.count += 1
        self._held += 1
        if entry.change.alert in self._following:
            self._following[entry.change.alert].append(entry)
        elif self._groups is not None and waiting.key != key:
            self._regroup(self._groups, entry, key, waiting)
        else:
            new = key not in self._queues
            self._queues.setdefault(key, deque()).append(entry)
            if new:
                self._line_up(key)

    def _regroup(self, groups: Groups, entry: OutboxEntry, key: str, waiting: _Waiting) -> None:
        """Move the queued changes of an alert to the group of its newest change, `entry`.

        If some of these changes are being sent, the move takes place when their step has ended.
        """
        alert, begun = entry.change.alert, groups.begun(waiting.key)
        queue = self._queues[waiting.key]
        moved = [queued for queued in queue if queued.change.alert == alert and queued.number not in begun]
        if moved:
            rest = [queued for queued in queue if queued.change.alert != alert or queued.number in begun]
            self._set_queue(groups, waiting.key, rest)
        self._following[alert] = [*moved, entry]
        self._follow()

    def _follow(self) -> None:
        """Complete the moves that `_regroup` has begun: append the moved changes to the queue of their new group.

        The changes of an alert are appended only when the old group is not sending any change of the alert.
        """
        for alert, entries in list(self._following.items()):
            waiting = self._waiting[alert]
            if waiting.count > len(entries):
                continue
            assert self._groups is not None, "they were in another group"
            del self._following[alert]
            key = waiting.key = self._groups.key(entries[-1])
            self._doubtful.add(key)
            self._set_queue(self._groups, key, [*self._queues.get(key, ()), *entries])

    def _set_queue(self, groups: Groups, key: str, entries: Sequence[OutboxEntry]) -> None:
        """Replace the queue of a group. The entries that are being sent come first. The other entries follow in the
        order of the outbox."""
        begun = groups.begun(key)
        first = [entry for entry in entries if entry.number in begun]
        rest = sorted((entry for entry in entries if entry.number not in begun), key=lambda entry: entry.number)
        self._queues[key] = deque([*first, *rest])
        if first:
            return  # it is being sent, or waits for a retry
        if key in self._ready:
            self._ready.remove(key)
        self._later = [timed for timed in self._later if timed[1] != key]
        heapq.heapify(self._later)
        if rest:
            self._line_up(key)
        else:
            del self._queues[key]

    def _line_up(self, key: str) -> None:
        """Mark a queue as ready, or schedule it for the time at which the next message of its group is due."""
        seconds = 0.0 if self._groups is None else (self._groups.due(key, self._queues[key]) - _now()) / 1_000_000
        if seconds > 0:
            heapq.heappush(self._later, (time.monotonic() + seconds, key))
        else:
            self._ready.append(key)

    def _rested(self, error: Exception | None) -> None:
        self._resting = False
        if error is not None:
            self._fail(error)
        elif not self._lanes.busy and self._failing and not self._queues:
            self._answers(0)

    def _begin(self, step: Step, then: Then) -> None:
        self._begun += 1
        self._lanes.begin(step, then)

    def _given(self, key: str, entries: Sequence[OutboxEntry], number: int, error: Exception | None) -> None:
        """Process the result of step `number`, which sent the first entries of a queue.

        `error`: the exception that the step raised, or None.
        """
        if error is None:
            self._answers(number)
            self._counts.delivered += len(entries)
            self._finish(key, len(entries))
            return
        trouble = self._troubles.setdefault(key, _Trouble(self._begun))
        self._fail(error, known=trouble.answers > 0)
        if isinstance(error, _AloneNot):
            self._give_up(key, entries[0], str(error))
        elif not _may_be_content(error):
            self._ready.append(key)
        elif len(entries) > 1 and (isinstance(error, DeliveryRefused) or trouble.answers + 1 >= self._attempts):
            trouble.answers, trouble.alone = 0, len(entries)  # find out which one failed
            self._ready.appendleft(key)
        else:
            trouble.answers += 1
            self._refused(key, entries[0], trouble, error)

    def _refused(self, key: str, entry: OutboxEntry, trouble: _Trouble, error: Exception) -> None:
        """Give up a refused entry, or schedule it to be sent again. The entry is the first one of its queue."""
        following = list(islice(self._queues[key], 1, 2))
        if trouble.answers < self._attempts:
            self._wait(key, trouble)
        elif isinstance(error, DeliveryRefused):
            self._give_up(key, entry, str(error))
        elif self._taken > trouble.since:
            self._give_up(key, entry, f"{error}, while it accepts others")
        elif following:
            number = self._begun + 1
            self._begin(
                lambda: self._give_beyond(entry, following[0]),
                lambda error: self._given(key, [entry], number, error),
            )
        else:
            self._wait(key, trouble)

    def _give_beyond(self, entry: OutboxEntry, following: OutboxEntry) -> None:
        """Send the entry that follows a failed entry in its queue, then send the failed entry again.

        Raises _AloneNot if the receiver accepts the following entry but not the failed one.
        """
        self.delivery.give([following])
        try:
            self.delivery.give([entry])
        except Exception as error:
            if _may_be_content(error):
                raise _AloneNot(f"{error}, while it accepts the next one") from None
            raise

    def _wait(self, key: str, trouble: _Trouble) -> None:
        heapq.heappush(self._later, (time.monotonic() + trouble.wait, key))
        trouble.wait = min(2 * trouble.wait, _LONGEST_WAIT)

    def _fail(self, error: Exception, known: bool = False) -> None:
        """Count a failure. If the receiver does not answer, schedule the next attempt.

        If several attempts fail in succession, only the first failure is reported. `known`: True if the entry has
        failed before.
        """
        self._counts.failures += 1
        self._counts.failing = True
        if not self._reported and not known:
            reason = str(error) or type(error).__name__
            self._report(self.name, f"{reason}; trying again", reason=reason)
            self._reported = True
        self._behind = True
        if isinstance(error, Unreachable):
            now = time.monotonic()
            if now >= self._resume:  # otherwise, other steps have failed at the same time
                self._pause = min(max(2 * self._pause, _FIRST_WAIT), _LONGEST_WAIT)
            self._failing, self._resume = True, max(self._resume, now + max(self._pause, error.wait))

    def _answers(self, number: int) -> None:
        """Record that the receiver has accepted the entries of step `number`. Others are then sent without waiting."""
        self._counts.failing = False
        self._taken = max(self._taken, number)
        self._failing = self._behind = False
        self._pause = self._resume = 0.0
        if self._reported:
            self._report(self.name, "answers again")
        self._reported = False

    def _finish(self, key: str, count: int, taken: bool = True) -> None:
        """Remove the first entries of a queue, because the receiver has accepted them or they were given up.

        `taken`: True if the receiver has accepted them.
        """
        queue = self._queues[key]
        entries = [queue.popleft() for _ in range(count)]
        for entry in entries:
            self._unsent.pop(entry.change.alert, None)
            self._heard(entry.change, _now(), entry.reminder)
        self._gone(entries)
        if taken and (reminders := [self._reminded(entry) for entry in entries if entry.reminder]):
            self._note(lambda: self.outbox.act([], *reminders))
        if self._groups is not None:
            self._groups.done(key, entries)
        trouble = self._troubles.pop(key, None)
        if trouble is not None and trouble.alone > 1:
            self._troubles[key] = _Trouble(self._begun, alone=trouble.alone - 1)
        if queue:
            self._line_up(key)
        else:
            del self._queues[key]

    def _reminded(self, entry: OutboxEntry) -> RecordedAction:
        details: dict[str, JsonValue] = {"receiver": self.name, "reminder": entry.reminder, "id": entry.change.id}
        return RecordedAction(
            _now(), self.outbox.farthest(), MACHINE, REMINDED, entry.change.alert, None, None, details
        )

    def _give_up(self, key: str, entry: OutboxEntry, reason: str) -> None:
        if self._bury(entry, reason):
            self._finish(key, 1, taken=False)

    def _bury(self, entry: OutboxEntry, reason: str) -> bool:
        """Turn an entry into a dead letter, and report this. A reminder does not become a dead letter, because another
        reminder follows. It is only reported.

        Returns False if the sender had to stop before the dead letter was recorded.
        """
        if not entry.reminder and not self._note(lambda: self.outbox.reject(self.name, entry.number, reason)):
            return False
        change = entry.change
        text = f"gave up on {f'reminder {entry.reminder} of ' if entry.reminder else ''}{change.id}: {reason}"
        self._report(self.name, text, alert=change.alert, change=change.id, reason=reason)
        return True

    def _repeat(self, letter: RefusedEntry) -> None:
        """Send a dead letter again. If this fails, the outbox records the new reason."""
        entry = letter.entry
        now = self.outbox.standing(entry.change)

        def then(error: Exception | None) -> None:
            self._repeating = False
            self._looked = -_LOOK  # check for further dead letters at once
            if error is None:
                self._counts.delivered += 1
                self._note(lambda: self.outbox.delivered(self.name, entry.number))
            else:
                self._fail(error)
                self._bury(entry, str(error) or type(error).__name__)

        if self.delivery.states and any(
            queued.change.slot == now.slot for queue in self._queues.values() for queued in queue
        ):
            then(None)  # the current state is sent anyway, after what is still queued
            return
        self._repeating = True
        self._begin(lambda: self.delivery.again(entry, now), then)

    def _note(self, write: Step) -> bool:
        """Write the receiver's progress to the outbox. Return False if the sender has to stop.

        While the disk cannot be written, the sender sends nothing, because it would send it again after a restart.
        """
        return self._until(
            write, "the position of the receiver cannot be stored: {}; nothing more is sent until it can"
        )

    def _until(self, step: Step, trouble: str) -> bool:
        """Repeat a step until it succeeds, and return True. Return False if the sender is stopped first.

        The first failure and the recovery are reported.
        """
        wait = _FIRST_WAIT
        while True:
            try:
                step()
            except Closed:
                raise
            except Exception as error:  # if the thread ended, nothing would be reported
                reason = error.message if isinstance(error, CepError) else str(error) or type(error).__name__
                if wait == _FIRST_WAIT:
                    self._report(self.name, trouble.format(reason), reason=reason)
                if self._stopping.wait(wait):
                    return False
                wait = min(2 * wait, _LONGEST_WAIT)
                continue
            if wait > _FIRST_WAIT:
                self._report(self.name, "the outbox works again")
            return True


def _now() -> int:
    return time.time_ns() // 1000


def _may_be_content(failed: Exception) -> bool:
    return isinstance(failed, ServerError) or not isinstance(failed, Unreachable)
