"""`/partial`: the partial matches of an event. They are read from the running engine between two batches."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from cep.connectors.records.times import iso
from cep.connectors.serving.fair_lock import FairLock
from cep.connectors.serving.openapi import route_responses
from cep.core.errors import CepError
from cep.core.time import FARTHEST
from cep.engine import Engine
from cep.runtime.partial_matches import PartialMatch

MOST = 1_000
"""The maximum number of partial matches in a response."""
_STATUS = {"unknown": 404}
_NO_STORE = {"Cache-Control": "no-store"}
_TIME = {"type": ["string", "null"]}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_MATCH = {
    "type": "object",
    "properties": {
        "rule": {"type": "string"},
        "line": {"type": "integer"},
        "have": {"type": "integer"},
        "of": {"type": "integer"},
        "constituents": _TEXTS,
        "start": _TIME,
        "end": _TIME,
        "values": {"type": "object"},
        "waits_for": {"type": "string"},
        "until": _TIME,
        "seconds_left": {"type": ["number", "null"]},
        "text": {"type": "string"},
    },
}
_ANSWER = {
    "type": "object",
    "properties": {
        "event": {"type": "string"},
        "watermark": _TIME,
        "matches": {"type": "array", "items": _MATCH},
        "more": {"type": "integer"},
    },
}


def router(engine: Engine | None, lock: FairLock, seconds: float = 10.0) -> APIRouter:
    """Return the routes of `/partial`.

    - `engine`: the running engine. It is None if the program runs on Spark; then every response says that partial
      matches are not available.
    - `lock`: the lock that is held while the engine is read.
    - `seconds`: the maximum time for which a request waits for the lock.
    """
    routes = APIRouter(tags=["why"], default_response_class=Response)

    @routes.get(
        "/partial",
        responses=route_responses(
            "application/json",
            json=_ANSWER,
            _400="A value is not of the type of its attribute.",
            _404="There is no such event, attribute or variable.",
            _409="The program runs on Spark.",
            _503="The program is busy; `Retry-After` says when to ask again.",
        ),
    )
    def partial(
        request: Request,
        event: Annotated[str, Query(max_length=1_000)],
        limit: Annotated[int, Query(ge=0, le=MOST)] = 100,
    ) -> Response:
        """List the partial matches of a derived event, those closest to completion first. Other parameters select the
        matches by values of the event's attributes, or of variables of its rules."""
        if engine is None:
            return _refused("the program runs on Spark, which keeps what waits in its own state", 409)
        key = {name: value for name, value in request.query_params.items() if name not in ("event", "limit")}
        if not lock.acquire(timeout=seconds):
            return _refused("the program is busy", 503, {"Retry-After": "5"})
        try:
            partials = engine.partial_matches(event, key, limit)
        except CepError as error:
            return _refused(str(error), _STATUS.get(error.code, 400))
        finally:
            lock.release()
        answer = {
            "event": partials.event,
            "watermark": _time(partials.watermark),
            "matches": [_match(partial) for partial in partials],
            "more": partials.more,
        }
        return JSONResponse(answer, headers=_NO_STORE)

    return routes


def _match(match: PartialMatch) -> dict[str, Any]:
    return {
        "rule": match.rule,
        "line": match.line,
        "have": match.have,
        "of": match.of,
        "constituents": match.constituents,
        "start": _time(match.start),
        "end": _time(match.end),
        "values": {name: str(value) if isinstance(value, str) else value for name, value in match.values.items()},
        "waits_for": match.waits_for,
        "until": None if match.until is None else _time(match.until),
        "seconds_left": None if match.left is None else match.left / 1_000_000,
        "text": str(match),
    }


def _time(ticks: int) -> str | None:
    return iso(ticks) if -FARTHEST < ticks < FARTHEST else None


def _refused(text: str, status: int, headers: dict[str, str] | None = None) -> Response:
    return PlainTextResponse(f"{text}\n", status, _NO_STORE | (headers or {}))
