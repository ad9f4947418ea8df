"""Middleware around the whole application that controls access and limits the rate of requests."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from ipaddress import IPv4Address, ip_network
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cep.connectors.serving.login import CHALLENGE, COOKIE, log_in, login_cookie, login_form, login_reason, wants_form
from cep.connectors.serving.people import People, Person
from cep.core.ip import canonical_host, inner

_ALWAYS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
OPEN = frozenset(("/health", "/ready"))
"""The paths that need no token, and whose requests the rate limit does not count."""
STREAMS = frozenset(("/api/stream", "/feeds/events", "/sparql/subscribe"))
"""The paths whose responses are endless streams. A client may keep only a limited number of them open."""
QUERIES = "/sparql"
"""The path of queries. Until a response begins, the server checks whether the client still has access."""
UNKNOWN = "the token is not known\n"
MANY = 200
"""The default number of streams that a client on another machine may keep open."""
HEAD = 1 << 18
"""The maximum size of a request's first line and headers, in bytes."""
SECONDS = 30.0
"""The number of seconds within which a request's headers must arrive, and then its body."""

USER = "x-forwarded-user"
"""The header in which a proxy sends the user's name."""

_CLIENTS = 10_000  # clients whose rate is remembered
_HERE = "this machine"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of requests.

    - `people`: the people who have tokens. If it is None, requests need no token.
    - `rate`: the requests per second that a client may send, with bursts of twice as many; 0: no limit.
    - `body`: the maximum size of a body in bytes.
    - `head`: the maximum size of the first line and headers in bytes.
    - `hosts`: the permitted host names of the server; empty: any.
    - `seconds`: the time limit for the body of a request.
    - `streams`: the number of streams that a client may keep open; 0: no limit. If it is None, a client on another
      machine may keep MANY streams open. Clients on this machine then have no limit, because one of them may be a proxy
      that does not name its clients.
    - `proxies`: the addresses of the proxies whose header `X-Forwarded-User` is trusted.
    """

    people: People | None = None
    rate: float = 100.0
    body: int = 1 << 20
    head: int = HEAD
    hosts: frozenset[str] = frozenset()
    streams: int | None = None
    seconds: float = SECONDS
    proxies: frozenset[str] = frozenset()


class Guard:
    """Middleware that refuses requests with status 400, 401, 408, 413, 421, 429 or 431.

    A program sends its token in the header `Authorization: Bearer`. A browser sends a cookie, which the login form or
    `?access_token=` sets. The cookie's value is computed from the token and does not reveal the token. If the address
    of the page `/` contains a valid token, the response redirects the browser to the address without the token. Routes
    call `people.person_of` to get the person who has the token.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits = app, limits
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            assert scope["type"] == "lifespan", "there are no websockets"
            await self.app(scope, receive, send)
            return
        headers, limits = Headers(scope=scope), self.limits
        token_in_address = _token_in_address(scope)
        root, client = scope.get("root_path", ""), client_of(scope)
        path = scope["path"].removeprefix(root)
        free, endless, reading = path in OPEN, path in STREAMS, scope["method"] in ("GET", "HEAD")
        person = None

        def admitted(people: People) -> Person | None:
            return people.by_name(user) if user else self._person(people, headers, token_in_address)

        if limits.people is not None:
            users = _users(headers) if peer_of(scope) in limits.proxies else []
            if len(users) > 1:  # a client may have sent one, which the proxy did not remove
                await PlainTextResponse("there are several X-Forwarded-User headers\n", 400)(scope, receive, send)
                return
            user = users[0] if users else ""
            person = admitted(limits.people)
        unknown = limits.people is not None and person is None
        form = limits.people is not None and path == "/" and scope["method"] == "POST"
        refused: Response | None = None
        if limits.hosts and _host(headers.get("host", "")) not in limits.hosts:
            refused = PlainTextResponse(
                "this server does not answer to this host name; add the name with `--allow-host`\n", 421
            )
        elif not free and limits.rate and not self._may(client):
            refused = PlainTextResponse("too many requests\n", 429, {"Retry-After": "1"})
        elif not free and unknown and not form and scope["method"] != "OPTIONS":
            if path == "/" and wants_form(scope):
                refused = login_form(login_reason(scope, bool(_cookie(headers)), bool(token_in_address)))
            else:
                brought = _bearer(headers) or token_in_address or _cookie(headers)
                refused = PlainTextResponse(UNKNOWN if brought else "a token is needed\n", 401, CHALLENGE)
        elif _head(scope) > limits.head:
            refused = PlainTextResponse(too_long(limits.head), 431, {"Connection": "close"})
        elif _length(headers) > limits.body:
            refused = PlainTextResponse(f"the request has more than {limits.body:,} bytes\n", 413)
        elif endless and (most := self._streams(client)) and self._open[client] >= most:
            reason = f"this address has {most:,} streams open, which is the limit; `--streams` sets it\n"
            refused = PlainTextResponse(reason, 429, {"Retry-After": "30"})
        if refused is None and form and limits.people is not None:
            refused = await log_in(limits.people, Request(scope, receive), limits.seconds)
        if refused is not None:
            await refused(scope, receive, send)
            return
        cookie = None
        if limits.people is not None and token_in_address is not None and limits.people.with_token(token_in_address):
            cookie = login_cookie(token_in_address, scope)
        if cookie is not None and path == "/":  # the token must not stay in the address
            await Response(None, 303, {"Location": "./", "Set-Cookie": cookie, **_ALWAYS})(scope, receive, send)
            return
        size, whole, begun = 0, False, False
        over: Response | None = None
        until = asyncio.get_running_loop().time() + limits.seconds

        async def measured() -> Message:
            nonlocal size, whole, over
            try:
                # afterwards, wait for the client to disconnect
                async with asyncio.timeout_at(None if whole else until):
                    message = await receive()
            except TimeoutError:
                if not begun:
                    late = "the body of the request did not come in time\n"
                    over = PlainTextResponse(late, 408, {"Connection": "close"})
                    return {"type": "http.disconnect"}
                message = await receive()  # the body is no longer needed
            size += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if size > limits.body:
                over = PlainTextResponse(f"the request has more than {limits.body:,} bytes\n", 413)
                return {"type": "http.disconnect"}
            return message

        async def answered(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in _ALWAYS.items():
                    headers.setdefault(name, value)
                if cookie is not None:
                    headers.append("Set-Cookie", cookie)
            await send(message)

        scope.setdefault("state", {})["person"] = person
        self._open[client] += endless
        revocable: AbstractAsyncContextManager[None] = nullcontext()
        if (people := limits.people) is not None and person is not None and (endless or path == QUERIES or reading):

            def revoked() -> bool:
                now = admitted(people)
                if now is None:
                    return endless or not begun
                return endless and now.role < person.role

            revocable = _until(people, revoked)
        try:
            async with revocable:
                await self.app(scope, measured, answered)
        except _Revoked:
            if begun:  # a client that reconnects is refused, or has fewer rights
                await send({"type": "http.response.body", "body": b""})
            else:
                await PlainTextResponse(UNKNOWN, 401, CHALLENGE)(scope, receive, send)
        except Exception:
            if over is None or begun:
                raise
            await over(scope, receive, send)
        finally:
            self._open[client] -= endless
            if not self._open[client]:
                del self._open[client]

    @staticmethod
    def _person(people: People, headers: Headers, token_in_address: str | None) -> Person | None:
        return (
            people.with_token(_bearer(headers))
            or people.with_token(token_in_address or "")
            or people.with_cookie(_cookie(headers))
        )

    def _streams(self, client: str) -> int:
        """Return the number of streams that a client may keep open; 0: no limit."""
        if self.limits.streams is None:
            return 0 if client == _HERE else MANY
        return self.limits.streams

    def _may(self, client: str) -> bool:
        """Return True if the client may send a request now.

        The number of requests that the client may send grows by `rate` per second, up to twice `rate`.
        """
        now, most = time.monotonic(), 2 * self.limits.rate
        left, last = self._left.pop(client, (most, now))
        left = min(most, left + (now - last) * self.limits.rate)
        self._left[client] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > _CLIENTS:
            self._left.popitem(last=False)
        return left >= 1


class _Revoked(Exception):
    """Raised when a client loses the right to a response while the response is sent."""


@asynccontextmanager
async def _until(people: People, revoked: Callable[[], bool]) -> AsyncIterator[None]:
    """Run the enclosed block. When the people and their tokens are replaced and `revoked` returns True, cancel the
    block and raise _Revoked."""
    loop, limit = asyncio.get_running_loop(), asyncio.timeout(None)
    running = True

    def check() -> None:
        nonlocal running
        if running and revoked():
            running = False
            limit.reschedule(loop.time())

    def replaced() -> None:
        with suppress(RuntimeError):  # the loop is closing
            loop.call_soon_threadsafe(check)

    try:
        async with limit:
            with people.listening(replaced):
                check()  # they may have changed since the request was admitted
                yield
            running = False
    except TimeoutError:
        if limit.expired():
            raise _Revoked from None
        raise
    finally:
        running = False


class RememberPeer:
    """Middleware that stores the address from which the connection comes.

    It must run before the middleware that trusts proxies, which replaces the address by the one in a header.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["peer"] = (scope.get("client") or ("", 0))[0]
        await self.app(scope, receive, send)


def peer_of(scope: Scope) -> str:
    """Return the address from which the connection comes. It may be the address of a proxy."""
    host = scope.get("state", {}).get("peer", "")
    try:
        return str(inner(host))
    except ValueError:
        return str(host)


def client_of(scope: Scope) -> str:
    """Return the client to which a request is attributed when requests are counted. This is an IPv4 address, or a /64
    network for IPv6. All addresses of this machine itself count as one client."""
    host = (scope.get("client") or ("", 0))[0]
    try:
        address = inner(host)
    except ValueError:
        return str(host)
    if address.is_loopback:
        return _HERE
    return str(address if isinstance(address, IPv4Address) else ip_network((address, 64), strict=False))


def _users(headers: Headers) -> list[str]:
    return [header.encode("latin-1").decode("utf-8", "replace").strip() for header in headers.getlist(USER)]


def _bearer(headers: Headers) -> str:
    kind, _, value = headers.get("authorization", "").partition(" ")
    return value.strip() if kind.lower() == "bearer" else ""


def _token_in_address(scope: Scope) -> str | None:
    values = parse_qs(scope["query_string"].decode("latin-1")).get("access_token", [])
    text = values[0] if values else ""
    return text if text.isascii() and text.isprintable() and not set(text) & set(' ";,\\') and text else None


def _cookie(headers: Headers) -> str:
    try:
        morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if morsel is None else morsel.value


def _host(text: str) -> str:
    return canonical_host(text.rsplit(":", 1)[0] if not text.endswith("]") else text)


def _head(scope: Scope) -> int:
    query = len(scope["query_string"])
    line = len(scope["method"]) + len(scope.get("raw_path") or scope["path"]) + query + bool(query) + 14
    return line + sum(len(name) + len(value) + 4 for name, value in scope["headers"])


def too_long(most: int) -> str:
    return f"the headers of the request have more than {most:,} bytes\n"


def _length(headers: Headers) -> int:
    text = headers.get("content-length", "0")
    return int(text) if text.isdigit() and len(text) < 20 else 0
