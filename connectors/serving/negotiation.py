"""Content negotiation (RFC 9110, section 12.5.1). It chooses the media type that a client prefers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cep.connectors.serving.guard import STREAMS

_PARTS = re.compile(r'(?:[^,"]+|"[^"]*")+')
_OPTIONS = re.compile(r'(?:[^;"]+|"[^"]*")+')
_WEIGHT = re.compile(r"\d?\.?\d{0,9}")


def negotiated(headers: Headers, known: Mapping[str, str], otherwise: str = "") -> str:
    """Return the format that the header `Accept` prefers. Among equally preferred formats, return the first in `known`.

    `known`: the format of each media type. If the client accepts none of these media types, return `otherwise`. If
    there is no header `Accept`, the client accepts all of them.
    """
    accepts = ranges(headers.getlist("accept"))
    best, chosen = 0.0, otherwise
    for kind, format in known.items():
        if (weight := _weight_of(kind, accepts)) > best:
            best, chosen = weight, format
    return chosen


def ranges(lines: Sequence[str]) -> list[tuple[str, float]] | None:
    """Parse the media ranges of a header `Accept`, each with its weight. Other parameters are dropped.

    `lines`: the values of the header. Return None if the header is missing or empty.
    """
    text = ",".join(lines)
    if not text.strip():
        return None
    accepted = []
    for part in _PARTS.findall(text):
        kind, *options = (option.strip() for option in _OPTIONS.findall(part) or [""])
        parameters = (option.partition("=") for option in options)
        weights = [_number(value) for name, _, value in parameters if name.strip().lower() == "q"]
        if kind:
            accepted.append((kind.lower(), weights[0] if weights else 1.0))
    return accepted


def accepts(headers: Headers, kind: str) -> bool:
    """Return True if the header `Accept` includes the media type."""
    return _weight_of(kind.partition(";")[0].strip().lower(), ranges(headers.getlist("accept"))) > 0


def _weight_of(kind: str, accepts: Sequence[tuple[str, float]] | None) -> float:
    if accepts is None:
        return 1.0
    fitting = [(-media_range.count("*"), weight) for media_range, weight in accepts if _fits(kind, media_range)]
    exact = max((specificity for specificity, _ in fitting), default=0)
    return max((weight for specificity, weight in fitting if specificity == exact), default=0.0)


def _fits(kind: str, media_range: str) -> bool:
    return media_range in (kind, "*/*", "*") or (media_range.endswith("/*") and kind.startswith(media_range[:-1]))


def _number(text: str) -> float:
    text = text.strip()
    if not _WEIGHT.fullmatch(text) or not any(map(str.isdigit, text)):
        return 0.0
    weight = float(text)
    return weight if weight <= 1 else 0.0


class Acceptable:
    """Middleware that replaces a response by an error 406 if the client does not accept its media type.

    Error responses are always sent.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path in STREAMS and not accepts(headers, "text/event-stream"):
            await _refusal("text/event-stream")(scope, receive, send)
            return
        refused = False

        async def accepted(message: Message) -> None:
            nonlocal refused
            begins, status = message["type"] == "http.response.start", message.get("status", 0)
            if begins and (200 <= status < 300 or status == 304) and not _already_negotiated(message):
                kind = Headers(raw=message["headers"]).get("content-type", "")
                if kind and not accepts(headers, kind):
                    refused = True
                    await _refusal(kind.partition(";")[0])(scope, receive, send)
                else:  # another `Accept` would lead to another answer
                    MutableHeaders(scope=message).add_vary_header("Accept")
            if not refused:
                await send(message)

        await self.app(scope, receive, accepted)


def _already_negotiated(message: Message) -> bool:
    return "accept" in Headers(raw=message["headers"]).get("vary", "").lower().replace(" ", "").split(",")


def _refusal(kind: str) -> PlainTextResponse:
    return PlainTextResponse(f"the answer is {kind}, which `Accept` does not allow\n", 406, {"Vary": "Accept"})


def takes_coding(headers: Headers, name: str) -> bool:
    """Return True if the header `Accept-Encoding` includes the content coding `name`."""
    accepts = dict(ranges(headers.getlist("accept-encoding")) or ())
    return max(accepts.get(name, accepts.get("*", 0.0)), accepts.get(f"x-{name}", 0.0)) > 0
