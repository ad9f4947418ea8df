"""Support for HEAD and OPTIONS on every path, and a list of the methods that a path supports."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class RouteMethods:
    """The methods that each path of an application supports."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._routes = [route for route in routes if isinstance(route, Route)]

    def methods(self, path: str) -> list[str]:
        """Return the methods of a path. For `*`, return the methods of all paths."""
        allowed = {
            method
            for route in self._routes
            if path == "*" or route.path_regex.match(path)
            for method in route.methods or ()
        }
        return sorted({*allowed, "OPTIONS", *(["HEAD"] if "GET" in allowed else [])}) if allowed else []


class ClientGone(OSError):
    """Raised if the client has disconnected."""


class Methods:
    """Middleware for an application that has only GET and POST routes.

    It answers a HEAD request like a GET request, but without the body. It answers OPTIONS with the methods of the path.
    """

    def __init__(self, app: ASGIApp, paths: RouteMethods) -> None:
        self.app, self.paths = app, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope.get("method")
        if scope["type"] != "http" or method not in ("HEAD", "OPTIONS"):
            await self.app(scope, receive, send)
        elif method == "HEAD":
            await self._head(scope, receive, send)
        else:
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            allowed = self.paths.methods(path)
            response = PlainTextResponse(f"there is nothing at {path[:200]}\n", 404)
            await (Response(None, 204, {"Allow": ", ".join(allowed)}) if allowed else response)(scope, receive, send)

    async def _head(self, scope: Scope, receive: Receive, send: Send) -> None:
        over = False

        async def without_body(message: Message) -> None:
            nonlocal over
            if message["type"] == "http.response.start":
                await send(message)
                if message["status"] == 200 and _endless(message):
                    over = True
                    await send({"type": "http.response.body", "body": b""})
                    raise ClientGone
            elif not over and not message.get("more_body", False):
                over = True
                await send({"type": "http.response.body", "body": b""})

        try:
            await self.app({**scope, "method": "GET"}, receive, without_body)
        except (ClientGone, ClientDisconnect):
            if not over:
                raise


def _endless(message: Message) -> bool:
    return Headers(raw=message["headers"]).get("content-type", "").startswith("text/event-stream")
