"""Which of several media types a client wants (RFC 9110, section 12.5.1): for all that is served, by one reading."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from connectors.serving.guard import STREAMS

_PARTS = re.compile(r'(?:[^,"]+|"[^"]*")+')
_OPTIONS = re.compile(r'(?:[^;"]+|"[^"]*")+')
_WEIGHT = re.compile(r"\d?\.?\d{0,9}")


def negotiated(headers: Headers, known: Mapping[str, str], otherwise: str = "") -> str:
    """Of the formats by media type the one that `Accept` wants most, of equals the first; `otherwise` where it wants
    none of them. No `Accept` takes any."""
    wishes = ranges(headers.getlist("accept"))
    best, chosen = 0.0, otherwise
    for kind, format in known.items():
        if (weight := _weight_of(kind, wishes)) > best:
            best, chosen = weight, format
    return chosen


def ranges(lines: Sequence[str]) -> list[tuple[str, float]] | None:
    """The media ranges of `Accept` with their weights; parameters do not matter. None: there are none."""
    text = ",".join(lines)
    if not text.strip():
        return None
    found = []
    for part in _PARTS.findall(text):
        kind, *options = (option.strip() for option in _OPTIONS.findall(part) or [""])
        given = (option.partition("=") for option in options)
        weights = [_number(value) for name, _, value in given if name.strip().lower() == "q"]
        if kind:
            found.append((kind.lower(), weights[0] if weights else 1.0))
    return found


def takes(headers: Headers, kind: str) -> bool:
    """Whether a media type is one that `Accept` takes."""
    return _weight_of(kind.partition(";")[0].strip().lower(), ranges(headers.getlist("accept"))) > 0


def _weight_of(kind: str, wishes: Sequence[tuple[str, float]] | None) -> float:
    """That of the most specific range which the type is in."""
    if wishes is None:
        return 1.0
    fitting = [(-wish.count("*"), weight) for wish, weight in wishes if _fits(kind, wish)]
    exact = max((each for each, _ in fitting), default=0)
    return max((weight for each, weight in fitting if each == exact), default=0.0)


def _fits(kind: str, wish: str) -> bool:
    return wish in (kind, "*/*", "*") or (wish.endswith("/*") and kind.startswith(wish[:-1]))


def _number(text: str) -> float:
    """A weight from 0 to 1, also `.5`; 0 where it is none."""
    text = text.strip()
    if not _WEIGHT.fullmatch(text) or not any(map(str.isdigit, text)):
        return 0.0
    found = float(text)
    return found if found <= 1 else 0.0


class Acceptable:
    """A layer around an application: what a client does not take is not sent, but 406. Errors are sent in any case."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path in STREAMS and not takes(headers, "text/event-stream"):
            await _refusal("text/event-stream")(scope, receive, send)
            return
        refused = False

        async def accepted(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start" and 200 <= message["status"] < 300:
                kind = Headers(raw=message["headers"]).get("content-type", "")
                if kind and not _told(message) and not takes(headers, kind):
                    refused = True
                    await _refusal(kind.partition(";")[0])(scope, receive, send)
            if not refused:
                await send(message)

        await self.app(scope, receive, accepted)


def _told(message: Message) -> bool:
    """Whether the answer was chosen for this client already."""
    return "accept" in Headers(raw=message["headers"]).get("vary", "").lower().replace(" ", "").split(",")


def _refusal(kind: str) -> PlainTextResponse:
    return PlainTextResponse(f"the answer is {kind}, which `Accept` does not take\n", 406, {"Vary": "Accept"})


def takes_coding(headers: Headers, name: str) -> bool:
    """Whether a content coding is one that `Accept-Encoding` takes."""
    wishes = dict(ranges(headers.getlist("accept-encoding")) or ())
    return max(wishes.get(name, wishes.get("*", 0.0)), wishes.get(f"x-{name}", 0.0)) > 0
