"""Clauses of an alert that change its life, and what receivers are sent of it; `test_alerts_oracle` tries them at
random."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from lxml import etree

from cep.app.pipeline import Interrupt, flow
from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.alerts.listener import AlertListener
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import OutboxEntry
from cep.connectors.receivers import alertmanager, atom, cap
from cep.connectors.receivers.document import Publisher, document
from cep.connectors.receivers.sender import Sender
from cep.connectors.records.batch import Batch
from cep.connectors.service import Service
from cep.core.errors import CepError
from cep.engine import Engine
from cep.events import Event
from cep.runtime.run_stats import RunStats
from cep.server.warming import NoDeadLetters
from tests.waiting import until

SECOND = 1_000_000
READINGS = "event reading(station: string, level: int) TIME time.\n"
FLOOD = f"""{READINGS}
fluent flood(station: string).
initiate flood(S) <- reading(S, L) WHERE L > 5.
terminate flood(S) <- reading(S, L) WHERE L < 3.
"""
ORIGIN = Publisher("p.cep")


class Served:
    """A program with its outbox, given records with a time in seconds, a station and a level."""

    def __init__(self, text: str, outbox: Outbox, blob: bytes | None = None, revise: int | None = None) -> None:
        engine = Engine.from_text(text, alerts=True, begins=True, lateness=0, revise=revise)
        self.engine = engine if blob is None else engine.restore(blob)
        self.outbox = outbox
        self.service = Service(self.engine, text, "p.cep", RunStats())
        self.service.listen(AlertListener(self.engine, outbox))

    def take(self, *records: tuple[int, str, int]) -> None:
        for second, station, level in records:
            at = second * SECOND
            derived = self.engine.push([Event("reading", (station, level), at, at)])
            self.service.take(Batch({}, [], []), derived)

    def changes(self) -> list[AlertChange]:
        return [entry.change for entry in self.outbox.after(0, 10_000)]


def life(text: str, *records: tuple[int, str, int]) -> list[str]:
    """The changes of a program's alerts, in short: the state, the time, the severity."""
    with closing(Outbox(None)) as outbox:
        served = Served(text, outbox)
        served.take(*records)
        return [f"{each.state} {each.time // SECOND} {each.severity}" for each in served.changes()]


def test_a_condition_that_ends_too_early_fires_nothing() -> None:
    text = FLOOD + 'ALERT a ON flood(S) TITLE "{S}" SEVERITY "Minor" AFTER 5 s.'
    assert life(text, (0, "a", 9), (4, "a", 0), (20, "b", 4)) == ["pending 0 Minor", "resolved 4 Minor"]


def test_a_condition_that_lasts_exactly_as_long_fires() -> None:
    text = FLOOD + 'ALERT a ON flood(S) TITLE "{S}" SEVERITY "Minor" AFTER 5 s.'
    lasting = life(text, (0, "a", 9), (5, "a", 0), (20, "b", 4))
    assert lasting == ["pending 0 Minor", "firing 5 Minor", "resolved 5 Minor"]


def test_an_alert_is_kept_over_a_short_break_and_escalates_meanwhile() -> None:
    text = FLOOD + 'ALERT a ON flood(S) TITLE "{S}" SEVERITY "Minor" AFTER 5 s KEEP 10 s ESCALATE "Severe" AFTER 8 s.'
    records = (0, "a", 9), (7, "a", 0), (12, "a", 9), (20, "a", 0), (29, "b", 4), (40, "b", 4)
    assert life(text, *records) == [
        "pending 0 Minor", "firing 5 Minor", "kept 7 Minor", "updated 12 Minor", "escalated 13 Severe",
        "kept 20 Severe", "resolved 30 Severe",
    ]  # fmt: skip


def test_on_events_a_gap_longer_than_for_begins_anew() -> None:
    text = READINGS + 'ALERT a ON reading(S, L) WHERE L > 5 TITLE "{S}" SEVERITY "Minor" FOR 4 s AFTER 6 s KEYED BY S.'
    records = (0, "a", 9), (3, "a", 9), (8, "a", 9), (11, "a", 9), (15, "a", 9), (30, "a", 0)
    assert life(text, *records) == [
        "pending 0 Minor", "pending 3 Minor", "resolved 7 Minor",
        "pending 8 Minor", "pending 11 Minor", "firing 15 Minor", "resolved 19 Minor",
    ]  # fmt: skip


def test_pending_time_survives_a_start(tmp_path: Path) -> None:
    text = FLOOD + 'ALERT a ON flood(S) TITLE "{S}" SEVERITY "Minor" AFTER 10 s.'
    with closing(Outbox(tmp_path / "alerts.db")) as outbox:
        first = Served(text, outbox)
        first.take((0, "a", 9), (4, "b", 4))
        blob = first.engine.snapshot()
    with closing(Outbox(tmp_path / "alerts.db")) as outbox:
        second = Served(text, outbox, blob)
        second.take((8, "b", 4), (12, "b", 4))
        assert [f"{each.state} {each.time // SECOND}" for each in second.changes()] == ["pending 0", "firing 10"]


@pytest.mark.parametrize(
    "statement, message, hint",
    [
        ('ALERT a ON reading(S, L) TITLE "x".', "the alert `a` has no duration", "`FOR 3 h`"),
        (
            'ALERT a ON reading(S, L) TITLE "x" FOR 3 h KEEP 1 h.',
            "only alerts on fluents can have `KEEP`",
            "make `FOR` longer",
        ),
        (
            'ALERT a ON flood(S) TITLE "x" SEVERITY "Severe" ESCALATE "Minor" AFTER 1 h.',
            'an alert must escalate to a higher severity than "Severe", but this is "Minor"',
            "`Extreme`, `Severe`, `Moderate`",
        ),
        (
            'ALERT a ON flood(S) TITLE "x" ESCALATE "Minor" AFTER 1 h, "Severe" AFTER 30 min.',
            "this time is not later than the one before it",
            "count each time from when the alert fires",
        ),
        (
            'ALERT a ON reading(S, L) TITLE "x" FOR 3 h KEYED BY S LABELS level: L.',
            "`L` of the label `level` is not in the key of the alert",
            "`KEYED BY S, L`",
        ),
        ('ALERT a ON flood(S) TITLE "x" LABELS site: X.', "`X` of a label is not bound by the event", "name it in"),
        (
            'ALERT a ON flood(S) TITLE "x" LABELS severity: "high".',
            "every alert already has the label `severity`",
            "`alert_severity`",
        ),
        (
            'ALERT a ON flood(S) TITLE "x" RUNBOOK "http://x.org/{S}".',
            "a runbook must be an address that begins with `https://`",
            "the host cannot be a variable",
        ),
        ('ALERT a ON flood(S) TITLE "x" INHIBITED BY fload(S).', "there is no alert or fluent `fload`", "`flood`"),
        (
            'ALERT a ON flood(S) TITLE "x" INHIBITED BY reading(S, _).',
            "there is no alert or fluent `reading`",
            "an alert or a fluent",
        ),
        ('ALERT flood ON flood(S) TITLE "x" INHIBITED BY flood(S).', "`flood` is an alert and a fluent", "rename one"),
        (
            'ALERT a ON flood(S) TITLE "x" INHIBITED BY a(s: S).',
            "alerts inhibit each other in a circle: `a`, `a`",
            "remove one of them",
        ),
        (
            """ALERT a ON flood(S) TITLE "x" INHIBITED BY b(s: S). ALERT b ON flood(S) TITLE "x" INHIBITED BY c(S).
            ALERT c ON flood(S) TITLE "x" INHIBITED BY a.""",
            "alerts inhibit each other in a circle: `c`, `a`, `b`, `c`",
            "remove one of them",
        ),
        (
            'ALERT a ON flood(S) TITLE "x". ALERT b ON flood(S) TITLE "x" INHIBITED BY a(station: S).',
            "`station` is not in the key of the alert `a`",
            "`a(s: S)`",
        ),
        (
            'ALERT a ON flood(S) TITLE "x". ALERT b ON flood(S) TITLE "x" INHIBITED BY a(S, 3).',
            "the alert `a` has 1 in its key, but here it has 2",
            "`a` alone means any key",
        ),
        (
            'ALERT a ON reading(S, L) TITLE "x" FOR 1 h KEYED BY L INHIBITED BY flood(S).',
            "`S` of `INHIBITED BY` is not in the key of the alert",
            "`KEYED BY L, S`",
        ),
        (
            'ALERT a ON flood(S) TITLE "x". ALERT b ON flood(S) TITLE "x" INHIBITED BY a(s: S) = 3.',
            "an alert has no value to compare",
            "leave out the value: `INHIBITED BY a(..)`",
        ),
        (
            'ALERT a ON flood(S) TITLE "x" RUNBOOK "{S}".',
            "a runbook must be an address that begins with `https://`",
            "host",
        ),
        (
            'ALERT a ON flood(S) TITLE "x" RUNBOOK "https://{S}/x".',
            "a runbook must be an address that begins with `https://`",
            "host",
        ),
    ],
)
def test_a_clause_that_cannot_be_meant_is_a_mistake(statement: str, message: str, hint: str) -> None:
    with pytest.raises(CepError) as caught:
        Engine.from_text(FLOOD + statement)
    assert caught.value.message == message
    assert caught.value.hint is not None and hint in caught.value.hint and caught.value.span is not None


FEEDS = (
    FLOOD
    + """
ALERT high ON flood(S) TITLE "{S}" SEVERITY "Minor" AFTER 5 s ESCALATE "Severe" AFTER 10 s
    RUNBOOK "https://runbooks.example.org/flood?at={S}" LABELS team: "water", station: S, site: S.
"""
)
FLOODED = (0, "a/b c", 9), (5, "x", 4), (15, "x", 4), (20, "a/b c", 0), (21, "x", 4)


def flooded(outbox: Outbox) -> Sequence[OutboxEntry]:
    before = outbox.last
    Served(FEEDS, outbox).take(*FLOODED)
    entries = outbox.after(before)
    assert [entry.change.state for entry in entries] == ["pending", "firing", "escalated", "resolved"]
    return entries


class Taken:
    """A receiver of whatever comes."""

    most, lanes, states = 10, 1, False

    def __init__(self) -> None:
        self.changes: list[AlertChange] = []

    def key(self, entry: OutboxEntry) -> str:
        return entry.change.slot

    def give(self, entries: Sequence[OutboxEntry]) -> None:
        self.changes += [entry.change for entry in entries]

    def again(self, entry: OutboxEntry, now: AlertChange) -> None:
        self.changes.append(entry.change)

    def rest(self, outbox: Outbox, told: Callable[[], list[OutboxEntry]]) -> None:
        pass

    def close(self) -> None:
        pass


def test_receivers_are_sent_nothing_before_an_alert_fires() -> None:
    with closing(Outbox(None)) as outbox:
        Served(FLOOD + 'ALERT a ON flood(S) TITLE "{S}" AFTER 5 s.', outbox).take((0, "a", 9), (4, "a", 0), (9, "b", 4))
        flooded(outbox)
        taken = Taken()
        sent_until(outbox, taken, lambda: [one.cursor for one in outbox.statuses()] == [outbox.last])
        assert [change.state for change in taken.changes] == ["firing", "escalated", "resolved"]
        assert [one.waiting for one in outbox.statuses()] == [0]


def sent_until(outbox: Outbox, taken: Taken, done: Callable[[], bool]) -> None:
    """Send what is in the outbox, until something holds."""
    sender = Sender(outbox, "hook", taken, lambda *said, **more: None, start=True)
    sender.start()
    until(done, "what was to be sent")
    sender.stop()


def test_receivers_are_reminded_until_it_is_over(tmp_path: Path) -> None:
    """With the id of the last change, also after a start; not while it is inhibited."""
    text = WORKS.replace('"Minor" INHIBITED', '"Minor" REPEAT 1 s INHIBITED')
    with closing(Outbox(tmp_path / "alerts.db")) as outbox:
        served = Served(text, outbox)
        served.take((0, "a", 9), (1, "x", 5))
        blob, taken = served.engine.snapshot(), Taken()
        sent_until(outbox, taken, lambda: len(taken.changes) >= 3)
        assert len({change.id for change in taken.changes}) == 1
    with closing(Outbox(tmp_path / "alerts.db")) as outbox:
        served, taken = Served(text, outbox, blob), Taken()
        sent_until(outbox, taken, lambda: len(taken.changes) >= 2)
        assert {change.state for change in taken.changes} == {"firing"}
        served.take((2, "a", 4), (3, "x", 5))
        assert [change.state for change in served.changes()] == ["firing", "inhibited"]
        quiet, began = Taken(), time.monotonic()
        sent_until(outbox, quiet, lambda: time.monotonic() > began + 2.5)
        assert not quiet.changes
        served.take((4, "a", 0), (5, "x", 5))
        sent_until(outbox, quiet, lambda: bool(quiet.changes))
        assert [change.state for change in quiet.changes] == ["resolved"]


def test_cap_begins_with_the_alert_that_fires() -> None:
    with closing(Outbox(None)) as outbox:
        pending, firing, escalated, over = (entry.change for entry in flooded(outbox))
        assert cap.message(outbox, ORIGIN, pending.alert, 0) is None
        kinds, references = [], []
        for change in (firing, escalated, over):
            message = cap.message(outbox, ORIGIN, change.alert, change.revision)
            assert message is not None
            root = etree.fromstring(message)
            kinds.append(root.findtext("{*}msgType"))
            references.append([one.split(",")[1] for one in (root.findtext("{*}references") or "").split()])
            assert root.findtext("{*}info/{*}web") == "https://runbooks.example.org/flood?at=a%2Fb%20c"
        assert kinds == ["Alert", "Update", "Cancel"]
        assert references == [[], [firing.id], [firing.id, escalated.id]]


def test_atom_links_to_a_message_and_to_the_runbook() -> None:
    with closing(Outbox(None)) as outbox:
        flooded(outbox)
        entries = etree.fromstring(atom.newest_document(outbox, ORIGIN)).findall("{*}entry")
        links = [[(link.get("rel"), link.get("title")) for link in entry.findall("{*}link")] for entry in entries]
        assert links == [[("alternate", None), ("related", "Runbook")]] * 3 + [[("related", "Runbook")]]


def test_alertmanager_knows_an_alert_by_its_labels() -> None:
    """The labels are of the key, and the alert with a severity of before is over."""
    with closing(Outbox(None)) as outbox:
        _, firing, escalated, _ = (entry.change for entry in flooded(outbox))
        made = alertmanager.alertmanager_alert(firing, ORIGIN, 30 * SECOND, 60)
        assert made["labels"] == {
            "alertname": "high", "severity": "minor", "program": "p.cep",
            "team": "water", "station": "a/b c", "site": "a/b c",
        }  # fmt: skip
        annotations = made["annotations"]
        assert isinstance(annotations, dict)
        assert annotations["runbook_url"] == "https://runbooks.example.org/flood?at=a%2Fb%20c"
        former = alertmanager.former(escalated)
        assert [(each.severity, each.over) for each in former] == [("Minor", True)]


WORKS = (
    FLOOD
    + """
fluent works(station: string).
initiate works(S) <- reading(S, L) WHERE L = 4.
terminate works(S) <- reading(S, L) WHERE L = 3.
ALERT high ON flood(S) TITLE "{S}" SEVERITY "Minor" INHIBITED BY works(S).
"""
)


def test_receivers_get_what_still_fires_when_inhibition_ends() -> None:
    """What inhibits an alert that was sent ends that it is sent; that it is over is always sent."""
    with closing(Outbox(None)) as outbox:
        served = Served(WORKS, outbox)
        served.take((0, "a", 4), (2, "a", 9), (4, "a", 3), (6, "a", 4), (8, "a", 0), (9, "x", 5))
        served.take((10, "b", 4), (11, "b", 9), (12, "b", 0), (13, "x", 5))
        said = [(c.key["station"], c.state, c.time // SECOND, c.inhibited, c.quiet) for c in served.changes()]
        assert said == [
            ("a", "firing", 2, True, True),
            ("a", "firing", 4, False, False),
            ("a", "inhibited", 6, True, True),
            ("a", "resolved", 8, True, False),
            ("b", "firing", 11, True, True),
            ("b", "resolved", 12, True, True),
        ]
        first, _, _, over = served.changes()[:4]
        assert (
            cap.message(outbox, ORIGIN, first.alert, 0) is None and cap.message(outbox, ORIGIN, first.alert, 2) is None
        )
        message = cap.message(outbox, ORIGIN, over.alert)
        assert message is not None
        root = etree.fromstring(message)
        assert root.findtext("{*}msgType") == "Cancel"
        assert [one.split(",")[1] for one in (root.findtext("{*}references") or "").split()] == [f"{over.alert}-1"]


def test_what_inhibits_is_known_after_a_start(tmp_path: Path) -> None:
    """The fluent began before the snapshot, and is told to nobody."""
    with closing(Outbox(tmp_path / "alerts.db")) as outbox:
        first = Served(WORKS, outbox)
        first.take((0, "a", 4), (1, "x", 5))
        assert not first.changes() and [change.hidden for change in outbox.hidden()] == [True]
        blob = first.engine.snapshot()
    with closing(Outbox(tmp_path / "alerts.db")) as outbox:
        second = Served(WORKS, outbox, blob)
        second.take((2, "a", 9), (5, "a", 3), (6, "x", 5))
        assert [(c.state, c.time // SECOND, c.inhibited) for c in second.changes()] == [
            ("firing", 2, True), ("firing", 5, False)]  # fmt: skip
        assert not outbox.hidden()


INITIAL = (
    FLOOD
    + """
fluent works(station: string).
fluent mode(station: string) = m: string.
fluent quiet(station: string).
initially works("a").
initially mode("a") = "off".
terminate works(S) <- reading(S, L) WHERE L = 3.
initiate mode(S) = "on" <- reading(S, L) WHERE L = 3.
quiet(S) WHILE works(S) AND NOT flood("x").
ALERT high ON flood(S) TITLE "{S}" SEVERITY "Minor" INHIBITED BY """
)


@pytest.mark.parametrize("inhibitor", ["works(S)", 'mode(S) = "off"', "mode(S) = _", "quiet(S)"])
@pytest.mark.parametrize("revised", [False, True])
def test_what_holds_initially_inhibits(inhibitor: str, revised: bool, tmp_path: Path) -> None:
    """Until it ends, also after a start from a snapshot and from nothing; other keys are not inhibited."""
    text = f"{INITIAL}{inhibitor}."
    expected = [("a", "firing", 2, True), ("b", "firing", 3, False), ("a", "firing", 5, False)]
    if inhibitor == "mode(S) = _":  # one value begins when the other ends
        expected = expected[:2]
    revise = 4 * SECOND if revised else None
    for kept in (False, True):
        with closing(Outbox(tmp_path / f"{kept}.db")) as outbox:
            first = Served(text, outbox, revise=revise)
            first.take((2, "a", 9), (3, "b", 9), (4, "x", 4))
            blob = first.engine.snapshot()
        with closing(Outbox(tmp_path / f"{kept}.db")) as outbox:
            second = Served(text, outbox, blob if kept else None, revise)
            if not kept:
                second.take((2, "a", 9), (3, "b", 9), (4, "x", 4))
            second.take((5, "a", 3), (20, "x", 4))
            found = [(c.key["station"], c.state, c.time // SECOND, c.inhibited) for c in second.changes()]
            assert found == expected


def test_occurrences_of_alerts_are_not_counted_as_events() -> None:
    """The summary of a run names what rules derive."""
    engine = Engine.from_text(WORKS, alerts=True, begins=True, lateness=0)
    columns = {"start": [0, SECOND], "end": [0, SECOND], "station": ["a", "a"], "level": [4, 9]}
    stats, batch = RunStats(), Batch({"reading": pl.DataFrame(columns)}, [], [])
    seen: list[str] = []
    flow(engine, iter([batch]), stats, lambda batch, derived: seen.extend(derived), NoDeadLetters(), Interrupt())
    assert {"alert high", "alert high inhibited", "flood", "works"} <= {*seen}
    assert stats.derived.keys() == {"flood", "works"}


def test_what_holds_initially_fires_nothing() -> None:
    text = f'{INITIAL}works(S).\nALERT closed ON works(S) TITLE "{{S}}".'
    assert life(text, (2, "b", 9), (5, "a", 3), (6, "x", 4)) == ["firing 2 Minor"]


def test_an_alert_without_its_inhibitor_is_sent_after_a_start(tmp_path: Path) -> None:
    """The program has changed: nothing inhibits the alert any more."""
    text = WORKS.replace("L = 4", "L = 60")
    with closing(Outbox(tmp_path / "alerts.db")) as outbox:
        Served(WORKS, outbox).take((0, "a", 4), (2, "a", 9), (3, "x", 5))
    with closing(Outbox(tmp_path / "alerts.db")) as outbox:
        second = Served(text, outbox)
        second.take((4, "x", 5))
        assert [(c.state, c.time // SECOND, c.quiet) for c in second.changes()] == [
            ("firing", 2, True), ("firing", 2, False)]  # fmt: skip


def test_json_says_when_it_fired() -> None:
    with closing(Outbox(None)) as outbox:
        told = [document(entry.change) for entry in flooded(outbox)]
        assert [each["fired"] for each in told] == [None, *["1970-01-01T00:00:05Z"] * 3]
        assert {each["labels"]["team"] for each in told} == {"water"}
