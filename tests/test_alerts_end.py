"""The end of the input: what is open stays as it is then, and no feed tells of a time that has not come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
from fastapi import FastAPI
from starlette.testclient import TestClient

from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.alerts.listener import AlertListener
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.sse import Stream
from cep.connectors.records.batch import Batch
from cep.connectors.service import Service
from cep.connectors.serving.feeds import router
from cep.engine import Engine
from cep.runtime.run_stats import RunStats
from tests.serving import EIGHT, MINUTE

RULES = """
event reading(room: string, temp: float) TIME time.
hot(R, T) <- reading(R, T) WHERE T > 30.
ALERT heat ON hot(r: R) TITLE "{R}" FOR 6 h KEYED BY R.
ALERT short ON hot(r: R) TITLE "{R} for a moment" FOR 1 min KEYED BY R.
"""


def ended(*readings: tuple[int, str, float], before: Outbox | None = None) -> Outbox:
    """What alerts are told of when a program has read these (minute, room, degrees), and its input has ended."""
    engine = Engine.from_text(RULES, alerts=True)
    outbox = before or Outbox(None)
    service = Service(engine, RULES, "p.cep", RunStats())
    service.listen(AlertListener(engine, outbox))
    for minute, room, degrees in readings:
        at = [EIGHT + minute * MINUTE]
        row = {"start": at, "end": at, "room": [room], "temp": [degrees], "@order": [minute]}
        tables = {"reading": pl.DataFrame(row)}
        service.take(Batch(tables, [], []), engine.push(tables))
    service.take(None, engine.close())
    return outbox


def states(outbox: Outbox) -> list[tuple[str, str, int]]:
    changes: list[AlertChange] = [entry.change for entry in outbox.after(0)]
    return [(one.title, one.state, (one.time - EIGHT) // MINUTE) for one in changes]


def test_what_lasts_longer_than_the_input_is_not_resolved_by_its_end() -> None:
    outbox = ended((0, "attic", 40.0), (10, "cellar", 40.0), (20, "attic", 20.0))
    assert states(outbox) == [
        ("attic", "firing", 0),
        ("attic for a moment", "firing", 0),
        ("attic for a moment", "resolved", 1),
        ("cellar", "firing", 10),
        ("cellar for a moment", "firing", 10),
        ("cellar for a moment", "resolved", 11),
    ]
    assert outbox.ended and outbox.open == 2
    app = FastAPI()
    app.include_router(router(outbox, Publisher("p.cep"), Stream(outbox, Publisher("p.cep"))))
    client, last = TestClient(app), datetime(2024, 5, 1, 8, 20, tzinfo=UTC)
    open_now = client.get("/feeds/alerts").json()
    assert {one["state"] for one in open_now} == {"firing"}
    until = [datetime.fromisoformat(one["until"]) - datetime.fromisoformat(one["end"]) for one in open_now]
    assert until == [timedelta(hours=6)] * 2, "active until then"
    for one in open_now:
        for change in client.get(f"/feeds/alerts/{one['alert']}").json():
            assert datetime.fromisoformat(change["time"]) <= last
        assert "<msgType>Alert<" in client.get(f"/feeds/cap/{one['alert']}").text
    assert "(resolved)" in client.get("/feeds/atom").text


def test_more_input_after_a_start_goes_on_with_what_was_open() -> None:
    """The input is read again from its beginning, as files are; nothing comes twice."""
    first = [(0, "attic", 40.0), (10, "attic", 20.0)]
    outbox = ended(*first)
    ended(*first, (30, "attic", 50.0), (400, "attic", 20.0), before=outbox)
    assert [one for one in states(outbox) if one[0] == "attic"] == [
        ("attic", "firing", 0),
        ("attic", "updated", 30),
        ("attic", "resolved", 390),
    ]
    assert outbox.open == 0
