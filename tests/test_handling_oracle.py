"""What people do with random alerts: who has them, what escalates and what is silent is what brute force says, with
`--revise` too, and after kills."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from cep.connectors.alerts.handling import MACHINE, Conflict, Handling
from cep.connectors.alerts.listener import AlertListener
from cep.connectors.alerts.matchers import Matchers
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import OutboxEntry
from cep.connectors.alerts.silences import silence
from cep.connectors.receivers.document import document
from cep.connectors.service import Service
from cep.engine import Engine
from cep.runtime.run_stats import RunStats
from tests.alert_programs import AlertProgram, alert_program, batches, in_order
from tests.long import seeds
from tests.reference_alerts import there
from tests.test_alerts_oracle import SECOND, Server
from tests.told_alerts import Told


class StaffedServer(Server):
    """A server of alerts with people, and a clock of its own."""

    now = 1_000 * SECOND

    def begin(self, blob: bytes | None) -> None:
        revise = None if self.window is None else self.window * SECOND
        engine = Engine.from_text(self.text, alerts=True, begins=True, lateness=0, revise=revise)
        self.engine = engine if blob is None else engine.restore(blob)
        self.outbox = Outbox(self.place)
        self.handling = Handling(self.outbox, "p.cep", clock=lambda: self.now)
        self.handling.tick()
        self.service = Service(self.engine, self.text, "p.cep", RunStats())
        self.service.listen(AlertListener(self.engine, self.outbox, handling=self.handling))


class Staff:
    """People who act at random, and what they remember of it."""

    def __init__(self, rng: random.Random, server: StaffedServer) -> None:
        self.rng, self.server = rng, server
        self.spans: dict[str, list[tuple[float, float | None]]] = {}
        self.done: list[tuple[str, str]] = []
        self.silences: list[tuple[str, int, int, Matchers]] = []

    def act(self) -> None:
        """Do something with an alert, or with silences."""
        rng, server, handling = self.rng, self.server, self.server.handling
        changes = [entry.change for entry in server.outbox.after(0, 100_000)]
        drawn = rng.random()
        if drawn < 0.2:
            matchers = Matchers.parse(rng.choice(("s=a", 's=~"a|b"', "severity=Severe", "alertname=x0")))
            begin, end = sorted(rng.sample(range(12), 2))
            new = silence(matchers, server.now + begin * SECOND, server.now + end * SECOND, "ann", "", server.now)
            handling.add(new, "ann")
            self.silences.append((new.id, new.starts, new.ends, matchers))
        elif drawn < 0.3 and self.silences:
            place = rng.randrange(len(self.silences))
            id, starts, _, matchers = self.silences[place]
            try:
                handling.expire(id, "ben")
            except Conflict:
                return
            self.silences[place] = id, min(starts, server.now), server.now, matchers
        elif changes:
            self._handle(rng.choice(changes[-8:]).alert)

    def _handle(self, alert: str) -> None:
        handling, by = self.server.handling, self.rng.choice(("ann", "ben"))
        action = self.rng.choice(("acknowledge", "acknowledge", "unacknowledge", "close", "assign", "comment"))
        text = f"{len(self.done)}"
        spans = self.spans.get(alert, [])
        held = bool(spans) and spans[-1][1] is None
        try:
            match action:
                case "acknowledge":
                    change = handling.acknowledge(alert, by, text)
                case "unacknowledge":
                    change = handling.unacknowledge(alert, by, text)
                    self.spans[alert] = [*spans[:-1], (spans[-1][0], change.time / SECOND)]
                case "close":
                    change = handling.close(alert, by, self.rng.choice(("true", "false")), text)
                case "assign":
                    change = handling.assign(alert, by, by, text)
                case _:
                    change = handling.comment(alert, by, text)
        except Conflict:
            return
        if action in ("acknowledge", "close") and not held:
            self.spans[alert] = [*spans, (change.time / SECOND, None)]
        self.done.append((alert, change.action))

    def hiding(self, entry: OutboxEntry) -> list[str]:
        """The silences that hide an alert now."""
        labels, now = self.server.handling.labels(entry.change), self.server.now
        return sorted(
            id for id, starts, ends, matchers in self.silences if starts <= now < ends and matchers.matches(labels)
        )

    def inherit(self, before: int) -> None:
        """Look at what came behind a number: who has an alert that was withdrawn has the one that lasts at its time.
        AssertionError: nobody has it."""
        entries = self.server.outbox.after(before, 100_000)
        last = {entry.change.alert: entry.change for entry in entries}
        for change in (entry.change for entry in entries):
            if change.action == "acknowledged" and change.by == MACHINE:
                spans = self.spans[change.comment.split()[-1]]
                self.spans[change.alert] = [*self.spans.get(change.alert, []), spans[-1]]
        for old in [change for change in last.values() if change.withdrawn and change.acknowledged]:
            for new in last.values():
                if new.slot == old.slot and new.state != "resolved" and new.start <= old.end and old.start <= new.end:
                    assert new.acknowledged, "what it takes the place of somebody had"

    def check(self) -> None:
        """AssertionError: an action is missing or in another order, an alert is somebody else's, or what receivers are
        sent is not what is neither silenced nor inhibited."""
        outbox = self.server.outbox
        entries = outbox.after(0, 100_000)
        acted = [(each.change.alert, each.change.action) for each in entries if each.change.remark]
        assert acted == [(each.alert, each.action) for each in outbox.actions() if each.alert is not None]
        mine = [e.change for e in entries if e.change.remark and e.change.by != MACHINE]
        assert [(each.alert, each.action) for each in mine] == self.done
        owners: dict[str, tuple[str, str, str]] = {}
        for entry in entries:
            change = entry.change
            has, assignee, verdict = owners.get(change.alert, ("", "", ""))
            by = change.by
            if by == MACHINE and change.remark:  # it takes the place of another one
                by, theirs, judged = owners[change.comment.split()[-1]]
                by, verdict = (
                    (theirs, verdict)
                    if change.action == "assigned"
                    else (by, judged if change.action == "closed" else verdict)
                )
            if change.action in ("acknowledged", "unacknowledged"):
                has = by if change.action == "acknowledged" else ""
            if change.action == "assigned":
                assignee = by
            if change.action == "closed" and change.by != MACHINE:
                verdict, has = change.verdict, has or ("" if change.state == "resolved" else change.by)
            owners[change.alert] = has, assignee, verdict
            assert (change.acknowledged, change.assignee, change.verdict) == owners[change.alert]
        for entry in outbox.live():
            change = entry.change
            assert change.silenced == self.hiding(entry)
            assert change.quiet == (change.fired is None or change.inhibited or bool(change.silenced))


def documents(server: StaffedServer) -> list[dict[str, Any]]:
    """The changes that rules made, numbered without those of people and silences."""
    numbers: dict[str, int] = {}
    found = []
    for entry in server.outbox.after(0, 100_000):
        if not entry.change.action:
            number = numbers.get(entry.change.alert, 0)
            numbers[entry.change.alert] = number + 1
            made = document(entry.change)
            for name in ("acknowledged", "assignee", "verdict", "silenced", "comment", "by"):
                del made[name]
            found.append(made | {"revision": number, "id": f"{entry.change.alert}-{number}"})
    return found


def _run(seed: int, place: Path, program: AlertProgram, window: int | None, ordered: bool) -> None:
    rng = random.Random(seed)
    server = StaffedServer(program.text, window, place / "alerts.db")
    staff, told, came = Staff(rng, server), Told(SECOND), []
    for batch in in_order(rng, program) if ordered else batches(rng, program, window or 0):
        number = server.outbox.last
        server.take(batch)
        staff.inherit(number)
        came += batch
        if rng.random() < 0.1:
            server.keep()
        records, latest = there(came, window)
        assert latest is not None
        until = latest - (0 if window is not None else 1)
        told.take(documents(server))
        names = {name: place for place, name in told.names().items()}
        held = {names[alert]: spans for alert, spans in staff.spans.items() if alert in names}
        told.check(program.changes(records, until, SECOND, acknowledged=held))
        server.handling.tick()
        staff.check()
        for _ in range(rng.choice((0, 1, 2))):
            staff.act()
        server.now += rng.choice((0, 1, 3)) * SECOND
        server.handling.tick()
        if rng.random() < 0.15:
            server.kill(rng)
        staff.check()
    server.outbox.close()


@pytest.mark.parametrize("seed", seeds(40))
def test_in_order(seed: int, tmp_path: Path) -> None:
    _run(seed, tmp_path, alert_program(random.Random(seed + 1)), None, True)


@pytest.mark.parametrize("seed", seeds(40))
def test_with_revision(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed + 7)
    _run(seed, tmp_path, alert_program(rng), rng.choice((3, 8, 20, 60)), False)
