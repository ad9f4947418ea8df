"""A group of people on call, for tests: a program with alerts, a clock that tests set, and the routes that people
use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from prometheus_client import CollectorRegistry
from starlette.testclient import TestClient

from cep.connectors.alerts.handling import Handling
from cep.connectors.alerts.listener import AlertListener
from cep.connectors.alerts.maintenance import MaintenanceCalendar
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.text import rfc3339
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.sse import Stream
from cep.connectors.records.batch import Batch
from cep.connectors.service import Service
from cep.connectors.serving import alertmanager_api, alerts, feeds
from cep.connectors.serving.app import application
from cep.connectors.serving.guard import Limits, RememberPeer
from cep.connectors.serving.people import read_people
from cep.engine import Engine
from cep.events import Event
from cep.runtime.run_stats import RunStats
from tests.ports import free_port
from tests.waiting import until

SECOND = 1_000_000
BEGIN = 1_796_000_000 * SECOND  # of the clock
PROGRAM = """event level(site: string, cm: int) TIME time.
fluent high(site: string).
initiate high(S) <- level(S, L) WHERE L > 5.
terminate high(S) <- level(S, L) WHERE L < 3.
ALERT flood ON high(S) SEVERITY "Minor" TITLE "Flood at {S}" KEYED BY S LABELS team: "water"
  ESCALATE "Severe" AFTER 10 s, "Extreme" AFTER 20 s.
"""
ORIGIN = Publisher("flood.cep", address="https://example.org/")
ANN, BEN, WALL = "a" * 16, "b" * 16, "w" * 16
TOKENS = f"ann editor {ANN}\nben responder {BEN}\nwall viewer {WALL}\ncat responder -\n"


class Desk:
    """See above. `now`: what the clock says, microseconds of Unix time."""

    def __init__(
        self,
        folder: Path,
        calendar: MaintenanceCalendar | None = None,
        revise: int | None = None,
        clock: Callable[[], int] | None = None,
        program: str | None = None,
    ) -> None:
        self.program = program or PROGRAM
        self.folder, self.calendar, self.revise = folder, calendar, revise
        self.now, self.clock = BEGIN, clock or (lambda: self.now)
        self.pushed: list[tuple[int, str, int]] = []
        tokens = folder / "tokens"
        tokens.write_text(TOKENS)
        tokens.chmod(0o600)
        self.people = read_people(tokens)
        self.start()

    def start(self) -> None:
        self.engine = Engine.from_text(self.program, alerts=True, begins=True, lateness=0, revise=self.revise)
        self.outbox = Outbox(self.folder / "alerts.db")
        self.handling = Handling(self.outbox, ORIGIN.title, ORIGIN.status, self.calendar, self.clock)
        self.handling.tick()
        self.service = Service(self.engine, self.program, "flood.cep", RunStats())
        self.service.listen(AlertListener(self.engine, self.outbox, handling=self.handling))
        inhibitors = {each.name: each.inhibitor for each in self.engine.alerts}
        routers = [
            alerts.router(self.handling, ORIGIN, people=self.people),
            alertmanager_api.router(self.handling, ORIGIN, None, inhibitors),
            feeds.router(self.outbox, ORIGIN, Stream(self.outbox, ORIGIN), False),
        ]
        limits = Limits(self.people, 0, proxies=frozenset(("testclient",)))
        app = application(
            routers, limits, title="t", trouble=lambda: None, registry=CollectorRegistry(auto_describe=False)
        )
        self.client = TestClient(RememberPeer(app))

    def restart(self) -> None:
        """End, and begin again with all records."""
        self.outbox.close()
        self.start()
        for record in self.pushed:
            self._push(record)

    def take(self, *records: tuple[int, str, int]) -> None:
        """Records with a second, a site and a level."""
        self.pushed += records
        for record in records:
            self._push(record)

    def _push(self, record: tuple[int, str, int]) -> None:
        second, site, cm = record
        derived = self.engine.push([Event("level", (site, cm), second * SECOND, second * SECOND)])
        self.service.take(Batch({}, [], []), derived)

    def ask(self, method: str, path: str, body: object = None, token: str = BEN, status: int = 200) -> Any:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = self.client.request(method, path, json=body, headers=headers)
        assert answer.status_code == status, answer.text
        return answer.json() if "json" in answer.headers.get("content-type", "") else answer.text

    def alert(self, site: str = "a") -> str:
        """The id of a site's open alert."""
        (found,) = [each["alert"] for each in self.ask("GET", "/alerts") if each["key"]["site"] == site]
        assert isinstance(found, str)
        return found

    def told(self, site: str = "a") -> list[str]:
        """All changes of a site, in short; the watermark is a microsecond before the latest record."""
        changes = [entry.change for entry in self.outbox.after(0, 10_000) if entry.change.key["site"] == site]
        return [f"{each.word} {(each.time + 1) // SECOND} {each.severity}" for each in changes]

    def sent(self, site: str = "a") -> list[str]:
        """Those of them that receivers are sent."""
        changes = [entry.change for entry in self.outbox.after(0, 10_000) if entry.change.key["site"] == site]
        return [each.word for each in changes if not each.quiet]

    @contextmanager
    def served(self) -> Iterator[str]:
        """The address of a server of the same routes."""
        port = free_port()
        server = uvicorn.Server(uvicorn.Config(self.client.app, port=port, log_config=None, lifespan="off"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        until(lambda: server.started, "the server listens")
        yield f"http://127.0.0.1:{port}"
        server.should_exit = True
        thread.join()


def at(second: int) -> str:
    """A time of the clock, counted from its begin."""
    return rfc3339(BEGIN + second * SECOND)
