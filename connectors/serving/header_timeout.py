"""A time limit and a size limit for the first line and the headers of a request. uvicorn has no such limits.

The time starts when the connection is opened or, on a connection that is kept open, when the first byte of the next
request arrives. `guard` limits the time for bodies. uvicorn limits the time between two requests on a connection.
"""

from __future__ import annotations

import asyncio
import sys

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from cep.connectors.serving.guard import HEAD, SECONDS, too_long

_LATE = b"the headers of the request did not come in time\n"
_LONG = too_long(HEAD).encode()
_CLOSES = b"Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"


def protocol(seconds: float = SECONDS) -> type[H11Protocol]:
    """Return a protocol class for uvicorn, which creates an instance per connection. `seconds`: the time limit."""

    class Heads(H11Protocol):
        deadline: asyncio.TimerHandle | None = None
        begun = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            self.begun = True
            super().data_received(data)
            if self.cycle is not before:  # it is created when the headers are complete
                self._done()
            elif self.cycle is None or self.cycle.response_complete:
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._done()
            super().connection_lost(exc)

        def send_400_response(self, msg: str) -> None:
            """Answer input that is not HTTP, or a request whose first line and headers are larger than h11 allows."""
            error = sys.exc_info()[1]
            if isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == 431:
                self._respond(b"431 Request Header Fields Too Large", _LONG)
                self.transport.close()
            else:
                super().send_400_response(msg)

        def _respond(self, status: bytes, text: bytes) -> None:
            self.transport.write(b"HTTP/1.1 %s\r\n" % status + _CLOSES % len(text) + text)

        def _wait(self) -> None:
            if self.deadline is None and not self.transport.is_closing():
                self.deadline = self.loop.call_later(seconds, self._late)

        def _done(self) -> None:
            if self.deadline is not None:
                self.deadline.cancel()
            self.deadline, self.begun = None, False

        def _late(self) -> None:
            if self.transport.is_closing():
                return
            if self.begun and self.cycle is None:  # otherwise nothing was requested, or the request is answered
                self._respond(b"408 Request Timeout", _LATE)
            self.transport.close()

    return Heads
