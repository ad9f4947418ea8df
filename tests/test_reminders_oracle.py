"""Reminders of random alerts are those that brute force says (`reference_reminders`).

People act on alerts, silences and inhibition hide some. The receiver is down now and then, or the server is killed.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from cep.connectors.alerts import outbox as outboxes
from cep.connectors.alerts.outbox_entries import OutboxEntry
from cep.connectors.receivers import sender as senders
from cep.connectors.receivers.notices import news
from cep.connectors.receivers.sender import Sender
from tests.alert_programs import alert_program, in_order
from tests.long import seeds
from tests.reference_alerts import Change, there
from tests.reference_reminders import Heard, due
from tests.test_alerts_oracle import SECOND
from tests.test_handling_oracle import Staff, StaffedServer, documents
from tests.test_what_is_sent import Receiver, nothing
from tests.told_alerts import Told
from tests.waiting import until


class Reminded:
    """A server whose receiver is looked at after every second of the wall clock. `people`: the receiver is for people,
    who are not told of further occurrences."""

    def __init__(self, server: StaffedServer, repeats: Mapping[str, int], people: bool) -> None:
        self.server, self.repeats, self.people = server, repeats, people
        self.receiver = Receiver()
        self.heard: dict[str, Heard] = {}
        self.seen: Counter[str] = Counter()
        self.begin()

    @property
    def now(self) -> int:
        return self.server.now // SECOND

    def begin(self) -> None:
        """Start the sender, at first or again."""
        outbox = self.server.outbox
        told = partial(news, outbox=outbox) if self.people else lambda change: True
        self.sender = Sender(outbox, "r", self.receiver, nothing, start=True, news=told)
        names = {entry.change.alert: entry.change.name for entry in outbox.after(0, 100_000)}
        for alert, heard in self.heard.items():
            if repeat := self.repeats[names[alert]]:
                heard.begin_again(repeat, self.now)

    def settle(self) -> None:
        """Let the receiver get what it is to get by now."""
        found = self.sender
        found._looked = -1e9
        for _ in range(3 if self.receiver.down else 12):
            found._resume = found._pause = 0.0
            found._step()
            until(lambda: not found._lanes._steps.qsize() and len(found._lanes._ended) == found._lanes.busy, "it ends")
        found._settle()
        found._acknowledge()

    def check(self, standing: Mapping[str, Change], staff: Staff) -> None:
        """AssertionError: the receiver was reminded of something else than it is to be. `standing`: the last change of
        each alert as brute force has it, by id."""
        before = len(self.receiver.given)
        self.settle()
        given = self.receiver.given[before:]
        latest: dict[str, OutboxEntry] = {}
        for entry in self.server.outbox.after(0, 100_000):
            latest[entry.change.alert] = entry
        for alert, entry in latest.items():
            mine = [each for each in given if each.change.alert == alert]
            reminders = [each for each in mine if each.reminder]
            now, repeat = standing[alert], self.repeats[entry.change.name]
            spans = staff.spans.get(alert, [])
            fires = now.fired is not None and now.state != "resolved"
            held = bool(spans) and spans[-1][1] is None
            hidden = now.inhibited or bool(staff.hiding(entry))
            if len(mine) > len(reminders) or self.receiver.down:
                assert not reminders, "news are no occasion for a reminder"
            else:
                wanted = due(self.heard.get(alert), repeat, self.now, fires, held, hidden)
                assert len(reminders) == wanted, (alert, self.now, repeat, self.heard.get(alert), now)
            self._note(alert, entry, mine)

    def _note(self, alert: str, latest: OutboxEntry, mine: Sequence[OutboxEntry]) -> None:
        for each in mine:
            heard = self.heard.setdefault(alert, Heard(self.now, self.now))
            heard.last = self.now
            if each.reminder:
                assert each.change.id == latest.change.id, "it says how the alert is, with the id of its last change"
                numbers = heard.reminders.setdefault(each.change.id, [])
                assert not numbers or each.reminder > numbers[-1], "each has a number of its own"
                numbers.append(each.reminder)
                self.seen["reminders"] += 1
            else:
                heard.change = self.now


def with_repeats(rng: random.Random, text: str) -> tuple[str, dict[str, int]]:
    """The program with REPEAT in most of its alerts; the seconds of each, 0: it has none."""
    repeats: dict[str, int] = {}

    def repeated(found: re.Match[str]) -> str:
        seconds = repeats[found[1]] = rng.choice((0, 1, 1, 2, 2, 3, 5))
        return f"{found[0][:-1]} REPEAT {seconds} s." if seconds else found[0]

    return re.sub(r"^ALERT (\w+) .*\.$", repeated, text, flags=re.M), repeats


@pytest.mark.parametrize("people", [False, True])
@pytest.mark.parametrize("seed", seeds(30))
def test_receivers_are_reminded(seed: int, people: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either the receiver is down now and then, or the server is killed."""
    rng = random.Random(seed)
    program = alert_program(random.Random(seed + 3))
    text, repeats = with_repeats(rng, program.text)
    server = StaffedServer(text, None, tmp_path / "alerts.db")
    for module in (senders, outboxes):
        monkeypatch.setattr(module, "_now", lambda: server.now)
    staff, told, came = Staff(rng, server), Told(SECOND), []
    watched, kills = Reminded(server, repeats, people), rng.random() < 0.5
    for batch in in_order(rng, program):
        server.take(batch)
        came += batch
        records, latest = there(came, None)
        assert latest is not None
        for _ in range(rng.randrange(1, 7)):
            for _ in range(rng.choice((0, 0, 0, 1))):
                staff.act()
            server.handling.tick()
            told.take(documents(server))
            held = {place: staff.spans[name] for place, name in told.names().items() if name in staff.spans}
            expected = program.changes(records, latest - 1, SECOND, acknowledged=held)
            told.check(expected)
            last = {(each.name, each.key, each.first): each for each in expected}
            watched.receiver.down = not kills and rng.random() < 0.25
            watched.check({name: last[place] for place, name in told.names().items()}, staff)
            server.now += SECOND
            server.handling.tick()
        if rng.random() < 0.1:
            server.keep()
        if kills and rng.random() < 0.2:
            server.kill(rng)
            watched.begin()
    server.outbox.close()
