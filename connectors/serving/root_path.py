"""Support for a proxy that publishes the server below a path, such as `https://example.org/semcep/` for
`http://127.0.0.1:8000/`."""

from __future__ import annotations

import re

from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from cep.core.errors import CepError

_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*")


def root(text: str) -> str:
    """Return a path like `/semcep` without its final slash, or "" for `/`. Raises CepError if it is not a path."""
    path = text.rstrip("/")
    if not _PATH.fullmatch(path) or {"..", "."} & set(path.split("/")):
        hint = "use the path that browsers request, with a leading slash: `--root-path /semcep`"
        raise CepError(f"--root-path: `{text[:80]}` is not a path", hint=hint, code="option")
    return path


class RootPath:
    """Middleware that sets the path below which a proxy publishes the application, so that links work behind the proxy.

    The proxy may remove the path from requests (`proxy_pass http://127.0.0.1:8000/;`) or leave it. Clients that connect
    directly do not use the path. A request for the path itself is redirected to the page.
    """

    def __init__(self, app: ASGIApp, path: str) -> None:
        self.app, self.path = app, path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self.path:
            await self.app(scope, receive, send)
            return
        path: str = scope["path"]
        if path == self.path:
            query = scope["query_string"].decode("latin-1")
            await RedirectResponse(f"{self.path}/{'?' if query else ''}{query}", 308)(scope, receive, send)
            return
        whole = path if path.startswith(self.path + "/") else self.path + path
        await self.app({**scope, "root_path": self.path, "path": whole}, receive, send)
