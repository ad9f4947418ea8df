"""Waiting for events in tests. Events in threads of this process are awaited as they happen (`Received`, `Started`).

The effects of another process are polled (`until`). No other module of the tests sleeps (`tests/test_waiting.py`).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from socket import socket
from typing import TypeVar

import uvicorn

PATIENCE = 240.0
"""Seconds, of a machine that has much else to do."""
_LOOK = 0.01

T = TypeVar("T")


def until(met: Callable[[], T], what: str, seconds: float = PATIENCE, every: float = _LOOK) -> T:
    """What `met` gives as soon as that is true; it is asked every so many seconds. `what` says what did not come."""
    end = time.monotonic() + seconds
    while not (found := met()):
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(every)
    return found


def pause(seconds: float) -> None:
    """Lets a moment pass that chance has picked, or that is what is tested: nothing tells that it is over."""
    time.sleep(seconds)


async def turn(seconds: float = 0.0) -> None:
    """Lets other tasks go on."""
    await asyncio.sleep(seconds)


class Received(list[T]):
    """What came so far to a thread that calls `append`."""

    def __init__(self) -> None:
        super().__init__()
        self._more = threading.Condition()

    def append(self, one: T) -> None:
        with self._more:
            super().append(one)
            self._more.notify_all()

    def wait(self, met: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
        """Until it is so; looked at whenever one more has come."""
        with self._more:
            assert self._more.wait_for(met, seconds), f"not within {seconds:g} s, {len(self)} have come: {what}"

    def at_least(self, number: int) -> None:
        """Until so many have come."""
        self.wait(lambda: len(self) >= number, f"{number} in all")


class Started(uvicorn.Server):
    """A server in a thread of its own, which answers when this is made."""

    def __init__(self, config: uvicorn.Config, *sockets: socket) -> None:
        super().__init__(config)
        self._there = threading.Event()
        self.thread = threading.Thread(target=self.run, kwargs={"sockets": list(sockets) or None}, daemon=True)
        self.thread.start()
        assert self._there.wait(PATIENCE), "the server has started"

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        self._there.set()
