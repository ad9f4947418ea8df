"""Clients that take their time: half a request is not waited for for ever, and who only listens is left alone."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from cep.connectors.serving import header_timeout
from cep.connectors.serving.guard import HEAD, Guard, Limits
from tests.waiting import turn, until

SECONDS = 0.3
HALF_HEADERS = b"GET /feeds/events HTTP/1.1\r\nHost: here\r\nX-Slow: "
HALF_BODY = b"POST /sparql HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\nquery="
WHOLE = b"GET /word HTTP/1.1\r\nHost: here\r\n\r\n"
STREAM = b"GET /feeds/events HTTP/1.1\r\nHost: here\r\n\r\n"


@contextmanager
def guarded(over: threading.Event) -> Iterator[int]:
    """The port of a server that tells how long a body is, or what comes in a stream until it is over."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/feeds/events":
            await StreamingResponse(_until(over), media_type="text/event-stream")(scope, receive, send)
        else:
            body = await Request(scope, receive).body()
            await PlainTextResponse(f"{len(body)} bytes")(scope, receive, send)

    config = uvicorn.Config(
        Guard(app, Limits(rate=0, seconds=SECONDS)),
        lifespan="off",
        log_config=None,
        http=header_timeout.protocol(SECONDS),
        h11_max_incomplete_event_size=HEAD,
        timeout_keep_alive=600,  # it is not that which lets anybody go
    )
    server = uvicorn.Server(config)
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        over.set()
        server.should_exit = True
        thread.join()


async def _until(over: threading.Event) -> AsyncIterator[bytes]:
    while not over.is_set():
        yield b": still here\n\n"
        await turn(0.01)


def _opened(port: int, *parts: bytes) -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", port), timeout=120)
    for part in parts:
        opened.sendall(part)
    return opened


def _rest(opened: socket.socket) -> bytes:
    """All until the server lets go."""
    with opened:
        return b"".join(iter(lambda: opened.recv(1 << 16), b""))


def test_half_a_request_is_not_waited_for() -> None:
    over = threading.Event()
    with guarded(over) as port:
        listening = _opened(port, STREAM)
        assert b" 200 " in listening.recv(1 << 16)

        # a request that never comes, half its headers, half its body; one after another that was answered
        nothing, *headers = [_opened(port), *(_opened(port, HALF_HEADERS) for _ in range(20))]
        assert _rest(nothing) == b""
        for each in headers:
            answer = _rest(each)
            assert answer.startswith(b"HTTP/1.1 408 ") and answer.endswith(
                b"headers of the request did not come in time\n"
            )
        answer = _rest(_opened(port, HALF_BODY))
        assert answer.startswith(b"HTTP/1.1 408 ") and b"connection: close" in answer.lower()
        assert answer.endswith(b"the body of the request did not come in time\n")
        kept = _opened(port, WHOLE)
        said = b""
        while not said.endswith(b"0 bytes"):
            said += kept.recv(1 << 16)
        kept.sendall(HALF_HEADERS)
        assert _rest(kept) == b""

        # bytes one by one do not put it off
        slow = _opened(port, b"GET /word HTTP/1.1\r\nX-Slow: ")
        slow.settimeout(0.02)

        def answered() -> bytes | None:
            slow.sendall(b"x")
            try:
                return slow.recv(1 << 16)
            except TimeoutError:
                return None

        answer = until(answered, "an answer")
        assert answer.startswith(b"HTTP/1.1 408 ")
        slow.close()

        # who is in time is answered, and a stream goes on: it has been open longer than all of them
        assert (
            _rest(_opened(port, HALF_BODY, b"x" * 94, WHOLE.replace(b"here", b"here\r\nConnection: close"))).count(
                b" 200 "
            )
            == 2
        )
        assert b"still here" in listening.recv(1 << 20)
        listening.close()
