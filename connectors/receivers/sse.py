"""Server-Sent Events: a stream of all changes, each of which is sent when it is added. After an interruption, a client
continues after the last event that it received."""

from __future__ import annotations

import asyncio
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncIterator
from itertools import islice
from operator import itemgetter

from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import OutboxEntry
from cep.connectors.receivers.document import Publisher, to_json

PULSE = 15.0
"""The number of seconds without an event after which a comment is sent, so that proxies keep the connection open."""

_NEWEST = 4096  # the number of entries kept as messages
_MOST = 500  # the number of entries sent at a time


class Stream:
    """The newest entries of the outbox as messages, formatted once for all clients. Clients wait for new messages."""

    def __init__(self, outbox: Outbox, origin: Publisher) -> None:
        self.outbox, self.origin = outbox, origin
        self.closed = False
        self.clients = 0
        self._lock = threading.Lock()
        self._newest: deque[tuple[int, bytes]] = deque(maxlen=_NEWEST)
        self._number = outbox.last
        self._waiting: dict[asyncio.AbstractEventLoop, asyncio.Event] = {}
        outbox.listen(self._came)

    def begin(self, after: int | None) -> int:
        """Return the number of the entry after which a client starts.

        `after`: the number that the client sent. If it is None, the client gets only new entries. If it is greater than
        the number of the last entry, the client gets all entries.
        """
        if after is None:
            return self.outbox.last
        return after if after <= self.outbox.last else 0

    async def frames(self, number: int) -> AsyncIterator[bytes]:
        """Yield the messages whose numbers are greater than `number`, and wait for further ones without end."""
        self.clients += 1
        try:
            yield b"retry: 2000\n\n"
            while not self.closed:
                bell = self._bell()
                ready = self._ready(number)
                if ready is None:
                    older = await asyncio.to_thread(self.outbox.after, number, _MOST)
                    ready = [(entry.number, sse_message(entry, self.origin)) for entry in older]
                if ready:
                    number = ready[-1][0]
                    yield b"".join(text for _, text in ready)
                    continue
                try:
                    await asyncio.wait_for(bell.wait(), PULSE)
                except TimeoutError:
                    yield b":\n\n"
        finally:
            self.clients -= 1

    def close(self) -> None:
        """End the stream of every client."""
        self.closed = True
        self._ring()

    def _bell(self) -> asyncio.Event:
        """Return an asyncio event of the running loop. The stream sets this event when the outbox has a new entry."""
        with self._lock:
            return self._waiting.setdefault(asyncio.get_running_loop(), asyncio.Event())

    def _ready(self, number: int) -> list[tuple[int, bytes]] | None:
        """Return some messages whose numbers are greater than `number`, in order. Return None if the first of them is
        no longer in memory."""
        with self._lock:
            if number >= self._number:
                return []
            if not self._newest or self._newest[0][0] > number + 1:
                return None
            first = bisect_right(self._newest, number, key=itemgetter(0))
            return list(islice(self._newest, first, first + _MOST))

    def _came(self) -> None:
        """Format new entries and notify the clients. The outbox calls this in the thread that adds the entries."""
        last = self.outbox.last
        few = self.clients and last - self._number <= _NEWEST
        entries = self.outbox.between(self._number + 1, last) if few else []
        added = [(entry.number, sse_message(entry, self.origin)) for entry in entries]
        with self._lock:
            if not few:  # new clients read the outbox
                self._newest.clear()
            self._newest.extend(added)
            self._number = last
        self._ring()

    def _ring(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for loop, bell in waiting.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(bell.set)


def sse_message(entry: OutboxEntry, origin: Publisher) -> bytes:
    """Return the message for an entry: its number, the alert's state as the type, and the document on one line."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (
        entry.number, entry.change.word.encode(), to_json(entry, origin))  # fmt: skip
