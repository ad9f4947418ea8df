"""A server of alerts for tests that kill it: `python -m tests.desk_server FOLDER PORT FEED...` runs the program of
`tests.desk` over levels that come on and on, and answers people on the port; it goes on where it was."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

import uvicorn

from connectors.receivers.senders import sending, targets
from tests.desk import ORIGIN, Desk
from tests.waiting import pause


def level(second: int) -> tuple[int, str, int]:
    """The reading of a second: sites flood one after the other, for some seconds each."""
    site = "abc"[second % 3]
    return second, site, 9 if second // 9 % 3 else 0


def serve(folder: Path, port: int, feeds: list[str]) -> None:
    desk = Desk(folder, clock=lambda: time.time_ns() // 1000)
    begun = desk.handling.watermark
    threading.Thread(target=desk.handling.run, daemon=True).start()
    server = uvicorn.Server(uvicorn.Config(desk.client.app, port=port, log_config=None, lifespan="off"))
    threading.Thread(target=server.run, daemon=True).start()
    with sending(desk.outbox, targets(feeds), ORIGIN, lambda name, text, **more: print(name, text, flush=True)):
        print("runs", flush=True)
        for second in count():
            desk.take(level(second))
            if second * 1_000_000 > begun:
                pause(0.01)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        serve(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
