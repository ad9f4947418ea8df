"""A server of alerts for tests that kill it: `python -m tests.alert_server STATE FEED... [routes=FILE]`.

It runs a program over events that arrive a second apart, and sends alerts to the given receivers. It prints `done` when
all receivers have everything.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import polars as pl

from cep.connectors.alerts.lifecycle import AlertChange, AlertLifecycle, alert_fingerprints
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.routes import Routes
from cep.connectors.receivers.senders import sending, targets
from cep.core.time import END_OF_TIME
from tests.test_alerts import TABLES, tables
from tests.waiting import pause, until

ORIGIN = Publisher("storm.cep", sender="alerts@example.org")
SECONDS = 60
ROWS = [(0, key, at, 0, 4) for at in range(SECONDS) for key in ("kewr", "kjfk") if at % 7 and (at // 13) % 2 == 0]
ROWS += [(1, "kewr", at, 0, 4) for at in range(0, SECONDS, 9)]


def rounds() -> Iterator[tuple[dict[str, pl.DataFrame], int]]:
    for second in range(SECONDS):
        yield tables(ROWS, second - 1, second), second * 1_000_000
    yield {}, END_OF_TIME


def expected() -> list[AlertChange]:
    """What every receiver is to be sent."""
    schemas = {alert.table: TABLES.plan.schemas[alert.table] for alert in TABLES.alerts}
    lives = AlertLifecycle(TABLES.alerts, schemas, TABLES.inputs, TABLES.meanings())
    return [change for given, watermark in rounds() for change in lives.take(given, watermark)]


def serve(state: Path, words: list[str]) -> None:
    files = [word.removeprefix("routes=") for word in words if word.startswith("routes=")]
    feeds = [word for word in words if not word.startswith("routes=")]
    routes = Routes.read(Path(files[0])) if files else None
    outbox = Outbox(state)
    live, reached = outbox.begin(alert_fingerprints(TABLES.alerts, TABLES.meanings()))
    schemas = {alert.table: TABLES.plan.schemas[alert.table] for alert in TABLES.alerts}
    lives = AlertLifecycle(TABLES.alerts, schemas, TABLES.inputs, TABLES.meanings(), live, reached)
    with sending(
        outbox, targets(feeds, routes), ORIGIN, lambda name, text, **more: print(name, text, flush=True), routes
    ):
        print("runs", flush=True)
        for given, watermark in rounds():
            outbox.add(lives.take(given, watermark), lives.reached)
            pause(0.02)
        until(lambda: not any(one.waiting for one in outbox.statuses()), "all is reported", every=0.05)
    outbox.close()
    print("done", flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        serve(Path(sys.argv[1]), sys.argv[2:])
