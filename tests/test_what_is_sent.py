"""What receivers are sent of alerts that change while something waits: silences, inhibitions, reminders, starts."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import OutboxEntry
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.groups import Group
from cep.connectors.receivers.notices import news
from cep.connectors.receivers.sender import DeliveryRefused, ReportTrouble, Sender, Unreachable
from cep.connectors.receivers.senders import sending, targets
from tests.alert_feeds import WHOLE
from tests.long import seeds
from tests.mail_server import mail_server
from tests.waiting import pause, until

ORIGIN = Publisher("storm.cep", sender="alerts@example.org")
FIRST = replace(WHOLE[0], severity="Minor")
QUIET: Sequence[dict[str, Any]] = ({"action": "silenced", "silenced": ["s"]}, {"state": "inhibited", "inhibited": True})
LOUD: Sequence[dict[str, Any]] = ({"action": "unsilenced", "silenced": []}, {"state": "updated", "inhibited": False})


def nothing(name: str, text: str, /, **fields: str) -> None:
    """A report that nobody reads."""


def later(change: AlertChange, **fields: Any) -> AlertChange:
    """The next change of an alert."""
    usual: dict[str, Any] = {"state": "updated", "action": "", "by": ""}
    return replace(change, revision=change.revision + 1, **usual | fields)


@dataclass
class Receiver:
    """Takes entries unless it is `down`. `given`: those that it has taken."""

    most: int = 100
    lanes: int = 1
    states: bool = False
    down: bool = False
    given: list[OutboxEntry] = field(default_factory=list)
    tried: threading.Event = field(default_factory=threading.Event)
    refuses: Callable[[OutboxEntry], bool] = lambda entry: False
    open: list[str] = field(default_factory=list)

    def key(self, entry: OutboxEntry) -> str:
        return entry.change.slot

    def give(self, entries: Sequence[OutboxEntry]) -> None:
        self.tried.set()
        if self.down:
            raise Unreachable("it is down")
        if any(map(self.refuses, entries)):
            raise DeliveryRefused("no")
        self.given += entries

    def again(self, entry: OutboxEntry, now: AlertChange) -> None:
        raise AssertionError("nobody has asked for it")

    def rest(self, outbox: Outbox, told: Callable[[], list[OutboxEntry]]) -> None:
        self.open = [entry.change.id for entry in told()]

    def close(self) -> None:
        """It holds nothing."""

    def words(self) -> list[str]:
        return [entry.change.word for entry in self.given]


@contextmanager
def sender(outbox: Outbox, receiver: Receiver, wait: float = 0.0, report: ReportTrouble = nothing) -> Any:
    def group(change: AlertChange) -> Group:
        return Group(change.slot, int(wait * 1_000_000))

    told = partial(news, outbox=outbox)
    found = Sender(outbox, "r", receiver, report, start=True, attempts=1, group_of=group if wait else None, news=told)
    found.start()
    try:
        yield found
    finally:
        found.stop()


def has_all(outbox: Outbox) -> None:
    until(lambda: outbox.receiver("r") == outbox.last, "it has all")


@pytest.mark.parametrize("quiet, loud", [*zip(QUIET, LOUD)])
def test_what_waits_in_a_group_is_silenced_or_inhibited(quiet: dict[str, Any], loud: dict[str, Any]) -> None:
    outbox, receiver = Outbox(None), Receiver()
    hidden = later(FIRST, **quiet)
    other = replace(FIRST, alert="b" * 32, slot="b")
    with sender(outbox, receiver, wait=0.7):
        outbox.add([FIRST, other], {})
        pause(0.1)
        outbox.add([hidden], {})
        has_all(outbox)
        assert [entry.change.alert for entry in receiver.given] == [other.alert]
        outbox.add([later(hidden, **loud)], {})
        has_all(outbox)
        assert receiver.given[1].change == later(hidden, **loud), "it is told of what still fires"


@pytest.mark.parametrize("quiet", QUIET)
def test_what_waits_for_a_receiver_that_is_down(quiet: dict[str, Any], tmp_path: Path) -> None:
    """Nor is it told of the end of what it was not told of, also after a start."""
    path = tmp_path / "alerts.db"
    outbox, receiver = Outbox(path), Receiver(down=True)
    hidden = later(FIRST, **quiet)
    with sender(outbox, receiver):
        outbox.add([FIRST], {})
        assert receiver.tried.wait(30)
        outbox.add([hidden], {})
        receiver.down = False
        has_all(outbox)
        assert not receiver.given and outbox.unsent("r") == {FIRST.alert: 0}
    outbox.close()
    outbox = Outbox(path)
    with sender(outbox, receiver):
        outbox.add([later(hidden, state="resolved", silenced=[], inhibited=False)], {})
        has_all(outbox)
        assert not receiver.given
        until(lambda: not outbox.unsent("r"), "nothing is kept of it")


def test_the_end_of_an_alert_that_was_told_before_it_was_silenced() -> None:
    outbox, receiver = Outbox(None), Receiver()
    with sender(outbox, receiver):
        outbox.add([FIRST], {})
        has_all(outbox)
        receiver.down = True
        graver = later(FIRST, state="escalated")
        outbox.add([graver, hidden := later(graver, **QUIET[0])], {})
        outbox.add([later(hidden, state="resolved", silenced=[])], {})
        receiver.down = False
        has_all(outbox)
    assert receiver.words() == ["firing", "resolved"]


def test_an_alertmanager_goes_on_with_what_was_sent_before() -> None:
    """What is silenced here is open there as it was; what was never sent is not."""
    outbox, receiver = Outbox(None), Receiver(states=True)
    with sender(outbox, receiver):
        outbox.add([FIRST, replace(FIRST, alert="b" * 32, slot="b", sent=None, silenced=["s"])], {})
        has_all(outbox)
        outbox.add([hidden := later(FIRST, **QUIET[0])], {})
        outbox.add([graver := later(hidden, state="escalated", severity="Severe")], {})
        has_all(outbox)
        until(lambda: receiver.open == [FIRST.id], "it is open")
        outbox.add([loud := later(graver, **LOUD[0])], {})
        until(lambda: receiver.open == [loud.id], "it is as it is by then")
        receiver.down = True
        worse = later(loud, state="escalated", severity="Extreme")
        outbox.add([worse, later(worse, **QUIET[1])], {})
        receiver.down = False
        has_all(outbox)
        until(lambda: receiver.open == [loud.id], "what waited was not sent")
    assert receiver.given[-1].change == loud


def test_an_alertmanager_goes_on_with_its_own_alerts() -> None:
    """Those that no route leads to it are not sent again either."""
    outbox, receiver = Outbox(None), Receiver(states=True)
    found = Sender(outbox, "r", receiver, nothing, start=True, wants=lambda change: change.slot == "b")
    outbox.add([FIRST, other := replace(FIRST, alert="b" * 32, slot="b")], {})
    found.start()
    until(lambda: receiver.open == [other.id], "it is open")
    found.stop()


def test_reminders_go_on_after_further_occurrences(tmp_path: Path) -> None:
    """Each is a message of its own in the thread of the alert; not while somebody has it, and not when it is over."""
    path = tmp_path / "alerts.db"
    outbox = Outbox(path)
    with mail_server() as (taken, port):
        feed = f"smtp://localhost:{port}/team@example.org#private=yes&tls=none"
        first = replace(FIRST, repeat=300_000)

        def reminders(more: int) -> list[str]:
            before = len(taken.messages)
            until(lambda: len(taken.messages) >= before + more, "reminders come")
            assert all(one["Subject"].startswith("Reminder (") for one in taken.messages[before:])
            return [one["X-Semcep-Changes"].partition(".")[0] for one in taken.messages[before:]]

        with sending(outbox, targets([feed]), ORIGIN, nothing):
            outbox.add([first], {})
            taken.messages.at_least(1)
            again = later(first, title="Blizzard, again")
            outbox.add([again], {})
            assert {*reminders(3)} == {again.id}
            assert "Blizzard, again" in taken.messages[-1]["Subject"], "as it is by then"
        outbox.close()
        outbox = Outbox(path)
        with sending(outbox, targets([feed]), ORIGIN, nothing):
            assert {*reminders(2)} == {again.id}
            outbox.add([mine := later(again, action="acknowledged", acknowledged="ann", by="ann")], {})
            until(lambda: taken.messages[-1]["Subject"].startswith("Acknowledged"), "it is told")
            outbox.add([seen := later(mine)], {})
            before = len(taken.messages)
            pause(1.2)
            assert len(taken.messages) == before, "somebody has it"
            outbox.add([back := later(seen, action="unacknowledged", acknowledged="", by="ann")], {})
            until(lambda: len(taken.messages) == before + 1, "it is told")
            assert {*reminders(2)} == {back.id}
            outbox.add([later(back, state="resolved")], {})
            until(lambda: taken.messages[-1]["Subject"].startswith("Resolved"), "it is told")
            before = len(taken.messages)
            pause(1.2)
            assert len(taken.messages) == before, "it is over"
        told = [(one.person, one.action, one.details["id"]) for one in outbox.actions()]
        sent = [one["X-Semcep-Changes"] for one in taken.messages if one["Subject"].startswith("Reminder (")]
        assert all("." in name for name in sent), "a reminder is named with its number"
        assert told == [("semcep", "reminded", name.partition(".")[0]) for name in sent], "reminders are in the journal"
        ids = [one["Message-ID"] for one in taken.messages]
        assert len({*ids}) == len(ids) and {one["References"] for one in taken.messages[1:]} == {ids[0]}


def test_a_reminder_that_waits_gives_way_to_news() -> None:
    outbox, receiver = Outbox(None), Receiver()
    with sender(outbox, receiver) as found:
        outbox.add([first := replace(FIRST, repeat=200_000)], {})
        until(lambda: len(receiver.given) >= 2, "it is reminded")
        receiver.down = True
        until(lambda: found._failing, "a reminder waits")
        outbox.add([mine := later(first, action="acknowledged", acknowledged="ann", by="ann")], {})
        until(lambda: found._read == outbox.last, "it is read")
        before = len(receiver.given)
        receiver.down = False
        until(lambda: receiver.given[-1].change == mine, "it is told")
    assert len(receiver.given) == before + 1


def test_a_reminder_that_is_refused_is_no_dead_letter() -> None:
    """Sent again on demand it would come as the change, which the receiver has; the next reminder comes anyway."""
    outbox, receiver, told = Outbox(None), Receiver(refuses=lambda entry: entry.reminder == 2), list[str]()
    with sender(outbox, receiver, report=lambda name, text, /, **more: told.append(text)):
        outbox.add([first := replace(FIRST, repeat=200_000)], {})
        until(lambda: any(entry.reminder > 2 for entry in receiver.given), "it is reminded again")
    assert all(entry.reminder != 2 for entry in receiver.given) and outbox.dead("r") == []
    assert [text for text in told if text.startswith("gave up")] == [f"gave up on reminder 2 of {first.id}: no"]
    assert 2 not in {action.details["reminder"] for action in outbox.actions()}, "it was not reminded then"


@pytest.mark.long
@pytest.mark.parametrize("seed", seeds(20))
def test_random_lives_of_alerts(seed: int, tmp_path: Path) -> None:
    """Changes, silences, a receiver that is down now and then, and starts: nothing is sent while it is quiet, what was
    not is not missing, all is in order, and an end is told to those who were told of the alert."""
    chance = random.Random(seed)
    outbox, receiver = Outbox(tmp_path / "alerts.db"), Receiver()

    def begin() -> Sender:
        told = partial(news, outbox=outbox)
        return Sender(outbox, "r", receiver, nothing, start=True, news=told)

    def settle(found: Sender) -> None:
        """Work off what can be."""
        for _ in range(3 if receiver.down else 20):
            found._resume = 0.0
            found._step()
            until(lambda: not found._lanes._steps.qsize() and len(found._lanes._ended) == found._lanes.busy, "it ends")
        found._settle()
        found._acknowledge()

    found, last, number = begin(), dict[str, AlertChange](), 0
    waiting: dict[str, list[AlertChange]] = {}  # by alert, what the receiver is to be sent
    told: set[str] = set()
    for _ in range(120):
        slot = chance.choice("abc")
        before = last.get(slot)
        if before is None:
            number += 1
            change = replace(FIRST, alert=f"{number:032x}", slot=slot)
        else:
            quiet = bool(before.silenced) or before.inhibited
            change = chance.choice(
                [
                    later(before, state="escalated"),
                    later(before, action="commented", by="ann", comment="x"),
                    later(before, **(LOUD[0] if before.silenced else QUIET[0])),
                    later(before, **(LOUD[1] if before.inhibited else QUIET[1])),
                    later(before),
                    later(before, state="resolved", silenced=[], inhibited=False),
                ]
            )
        outbox.add([change], {})
        if before is None or change.over:
            quiet = False
        wanted = waiting.setdefault(change.alert, [])
        if change.quiet:
            wanted.clear()
        elif change.over:
            if wanted or change.alert in told:
                wanted.append(change)
        elif change.word != "updated" or quiet:
            wanted.append(change)
        if change.over:
            del last[slot]
        else:
            last[slot] = change
        receiver.down = chance.random() < 0.4
        if chance.random() < 0.1:  # what was not noted is sent again
            found = begin()
        have = len(receiver.given)
        settle(found)
        sent = [entry.change for entry in receiver.given[have:]]
        for alert, rest in waiting.items():
            mine = [each for each in sent if each.alert == alert]
            if receiver.down:
                assert not mine
            else:
                assert mine == rest, (mine, rest)
                rest.clear()
                told |= {alert} if mine else set()
    assert receiver.given
