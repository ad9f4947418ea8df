"""The listener that computes changes of alerts after each round of the engine, and adds them to the outbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cep.connectors.alerts.handling import Handling
from cep.connectors.alerts.inhibition import Inhibition
from cep.connectors.alerts.lifecycle import AlertChange, AlertLifecycle, alert_fingerprints
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.revised_lifecycle import RevisedLifecycle
from cep.connectors.alerts.succeeding_lifecycle import SucceedingLifecycle, described
from cep.connectors.service import Round
from cep.core.time import BEGINNING
from cep.engine import Engine
from cep.rules.alert import Alert
from cep.succession import Successor


class Warn(Protocol):
    def __call__(self, text: str, /, **fields: object) -> None: ...


def _in_silence(text: str, /, **fields: object) -> None:
    """Accept a warning, and do nothing."""


class AlertListener:
    """A listener of a service that adds the alert changes of each round to the outbox in one transaction.

    Alerts that are open at the end of the input stay open, because nobody knows whether their condition continues.
    After a restart, the engine reads its input again or continues from a snapshot. In both cases, no change is added to
    the outbox twice.
    """

    def __init__(
        self, engine: Engine, outbox: Outbox, warn: Warn = _in_silence, handling: Handling | None = None
    ) -> None:
        """Listen to an engine that was created with `alerts=True`.

        `warn`: a function that is called once for each alert whose occurrences have an invalid place. `handling`: the
        actions of people on the alerts, or None if people cannot act on them.
        """
        self.handling = handling = handling or Handling(outbox)
        with handling.lock:
            self._begin(engine, outbox)
            handling.attach(self)
        self._warn = warn

    def _begin(self, engine: Engine, outbox: Outbox) -> None:
        meanings = engine.meanings()
        revised = engine.withdraws
        live, reached = ([], {}) if revised else outbox.begin(alert_fingerprints(engine.alerts, meanings))
        free = self.handling.free
        if isinstance(engine, Successor) and engine.former is not None:
            self.lifecycle: AlertLifecycle = SucceedingLifecycle(engine, engine.former, engine.since, free)
        else:
            self.lifecycle = AlertLifecycle(engine.alerts, *described(engine), live, reached, free)
        self.revised = RevisedLifecycle(self.lifecycle, outbox, self.handling) if revised else None
        self.inhibition = Inhibition(engine.alerts)
        self.inhibition.begin(live)
        self.outbox = outbox
        self.engine = engine
        self._reached = BEGINNING
        self._warned: set[str] = set()

    @property
    def alerts(self) -> Sequence[Alert]:
        """The ALERT statements of the program."""
        return self.lifecycle.alerts

    def adopt(self, change: AlertChange) -> None:
        """Store a change of an open alert that happened between two rounds, because of a person's action or a silence.
        Later changes continue from it."""
        if self.revised is not None:
            self.revised.adopt(change)
        elif (open_now := self.lifecycle.live.get(change.slot)) is not None and open_now.alert == change.alert:
            self.lifecycle.adopt(change)
            self.inhibition.remember(self.lifecycle.live[change.slot])

    def __call__(self, round: Round) -> None:
        with self.handling.lock:
            self.handling.look()
            self._take(round)
        for name in self.lifecycle.unplaced.keys() - self._warned:
            self._warned.add(name)
            self._warn(
                f"alert {name}: its coordinates are not a place on earth, so the alert is sent without an area",
                alert=name,
            )

    def _take(self, round: Round) -> None:
        if not round.ended:
            self._reached = max(self._reached, round.watermark)
        until = round.watermark
        if round.ended:
            ends = (end for table in round.alerts.values() if isinstance(end := table["end"].max(), int))
            until = min(until, max(self._reached, self.engine.latest, *ends))
        self.outbox.ended = round.ended
        if self.revised is not None:
            place = None if round.ended else (until, round.position)
            self.revised.take(round.alerts, round.recalled, until, min(round.stable, until), place, round.late)
        else:
            told = self.lifecycle.take(round.alerts, until)
            if self.inhibition:
                told = self.inhibition.follow(told)
            told = self.lifecycle.go_on(self.handling.follow(told))
            for change in told:
                self.inhibition.remember(change)
            fewer = self.lifecycle.fewer
            self.handling.hold(fewer)
            self.outbox.add(told, self.lifecycle.reached, fewer)
        self.handling.watermark = max(self.handling.watermark, until)
