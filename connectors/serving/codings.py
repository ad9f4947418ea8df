"""gzip for requests and responses (RFC 9110, section 8.4). Responses are compressed if the client accepts this."""

from __future__ import annotations

import asyncio
import gzip
import zlib

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cep.connectors.serving.negotiation import takes_coding

LEAST = 1_000
"""The minimum size in bytes of a compressed response."""

_LEVEL = 5
_LARGE = 1 << 16  # the size in bytes from which another thread compresses
_NAMES = frozenset(("gzip", "x-gzip"))
_PLAIN = ("text/", "application/json", "application/xml", "image/svg+xml", "application/n-triples", "application/trig")


class Codings:
    """Middleware that decompresses requests and compresses responses. It refuses some requests with an error status:

    - 413: the body is larger than `most` bytes after decompression.
    - 415: the coding is not gzip.
    - 400: the data is damaged.
    """

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app, self.most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        names = [name.strip().lower() for name in ",".join(headers.getlist("content-encoding")).split(",")]
        names = [name for name in names if name not in ("", "identity")]
        if names:
            if len(names) > 1 or names[0] not in _NAMES:
                reason = (
                    f"the body of a request is sent as it is, or with `Content-Encoding: gzip`, not {names[0][:40]}\n"
                )
                await PlainTextResponse(reason, 415, {"Accept-Encoding": "gzip"})(scope, receive, send)
                return
            unpacked = gunzip(await _whole(receive), self.most)
            if isinstance(unpacked, PlainTextResponse):
                await unpacked(scope, receive, send)
                return
            kept = (b"content-encoding", b"content-length")
            length = (b"content-length", str(len(unpacked)).encode())
            scope = {**scope, "headers": [*(header for header in scope["headers"] if header[0] not in kept), length]}
            receive = _given(unpacked, receive)
        await self.app(scope, receive, _Packing(send, takes_coding(headers, "gzip")))


class _Packing:
    """A wrapper of `send` that compresses a response if the client accepts this.

    Small responses, responses that are not text, and responses that consist of several messages are sent uncompressed.
    """

    def __init__(self, send: Send, wanted: bool) -> None:
        self.send, self.wanted = send, wanted
        self.start: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            kind = Headers(raw=message["headers"]).get("content-type", "").partition(";")[0]
            plain = kind.startswith(_PLAIN) or kind.endswith(("+xml", "+json"))
            if plain and kind != "text/event-stream":
                self.start = message
                return
        elif self.start is not None:
            start, self.start = self.start, None
            message = await self._packed(start, message)
            await self.send(start)
        await self.send(message)

    async def _packed(self, start: Message, message: Message) -> Message:
        headers = MutableHeaders(raw=start["headers"])
        headers.add_vary_header("Accept-Encoding")
        start["headers"] = headers.raw
        body = message.get("body", b"")
        if not self.wanted or message.get("more_body", False) or len(body) < LEAST or "content-encoding" in headers:
            return message
        work = asyncio.to_thread(gzip.compress, body, _LEVEL, mtime=0) if len(body) > _LARGE else None
        body = gzip.compress(body, _LEVEL, mtime=0) if work is None else await work
        headers["Content-Encoding"], headers["Content-Length"] = "gzip", str(len(body))
        if headers.get("etag", "W/").startswith('"'):
            headers["ETag"] = f"W/{headers['etag']}"  # the bytes differ, so the tag is weak
        start["headers"] = headers.raw
        return {**message, "body": body}


def gunzip(data: bytes, most: int) -> bytes | PlainTextResponse:
    """Decompress gzip data. Return an error response if the result exceeds `most` bytes, or the data is damaged."""
    content = b""
    while data:
        decompressor = zlib.decompressobj(31)
        try:
            content += decompressor.decompress(data, most + 1 - len(content))
        except zlib.error as error:
            return PlainTextResponse(f"the body of the request is not gzip data: {error}\n", 400)
        if len(content) > most:
            return PlainTextResponse(f"the request has more than {most:,} bytes when it is unpacked\n", 413)
        if not decompressor.eof:
            return PlainTextResponse("the body of the request is not complete gzip data\n", 400)
        data = decompressor.unused_data
    return content


async def _whole(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _given(body: bytes, receive: Receive) -> Receive:
    left = [body]

    async def receive_body() -> Message:
        return {"type": "http.request", "body": left.pop()} if left else await receive()

    return receive_body
