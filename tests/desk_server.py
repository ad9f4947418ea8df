"""A server of alerts for tests that kill it: `python -m tests.desk_server FOLDER PORT FEED...`.

It runs the program of `tests.desk`, with one alert that is pending at first and one that this inhibits. Levels arrive
until the folder contains a file `enough`. The server answers people on the port, and resumes after a restart. A file
`routes.toml` in the folder contains further receivers.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import uvicorn

from cep.connectors.receivers.routes import Routes
from cep.connectors.receivers.senders import sending, targets
from tests.desk import ORIGIN, PROGRAM, SECOND, Desk
from tests.waiting import pause

LASTING = """ALERT lasting ON high(S) SEVERITY "Moderate" TITLE "Flood lasts at {S}" KEYED BY S AFTER 7 s KEEP 4 s
  REPEAT 1 s.
ALERT damp ON high(S) SEVERITY "Minor" TITLE "Damp at {S}" KEYED BY S KEEP 7 s INHIBITED BY lasting(s: S).
"""


def level(second: int) -> tuple[int, str, int]:
    """The reading of a second: sites flood one after the other, for some seconds each."""
    site = "abc"[second % 3]
    return second, site, 9 if second // 9 % 3 else 0


def report(name: str, text: str, /, **fields: str) -> None:
    print(name, text, flush=True)


def serve(folder: Path, port: int, feeds: list[str]) -> None:
    desk = Desk(folder, clock=lambda: time.time_ns() // 1000, program=PROGRAM + LASTING)
    origin = replace(ORIGIN, sender="alerts@example.org")
    begun = desk.handling.watermark
    routes = Routes.read(folder / "routes.toml") if (folder / "routes.toml").exists() else None
    threading.Thread(target=desk.handling.run, daemon=True).start()
    server = uvicorn.Server(uvicorn.Config(desk.client.app, port=port, log_config=None, lifespan="off"))
    threading.Thread(target=server.run, daemon=True).start()
    with sending(desk.outbox, targets(feeds, routes), origin, report, routes):
        print("runs", flush=True)
        for second in count():
            while (folder / "enough").exists() and second * SECOND > begun:
                pause(0.1)
            desk.take(level(second))
            if second * SECOND > begun:
                pause(0.01)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        serve(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
