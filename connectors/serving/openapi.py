"""`/openapi.json`: the description of all routes. Routes use the helpers in this module to describe their responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from cep.connectors.serving.guard import OPEN

Responses = dict[int | str, dict[str, Any]]

TEXT = {"text/plain": {"schema": {"type": "string"}}}
ABOUT = """Query derived events, alerts and knowledge. Every GET route also answers HEAD, and every path
answers OPTIONS.

Answers are compressed for clients that accept gzip, and request bodies may be compressed (`Content-Encoding: gzip`). A
refusal is one sentence of plain text."""

_ALL: Mapping[int, str] = {
    413: "The body of the request is too large.",
    415: "The media type or the coding of the body is not supported.",
    421: "The server does not answer to this host name.",
    431: "The headers of the request are too large.",
}
_GUARDED: Mapping[int, str] = {
    401: "A token is required: `Authorization: Bearer`, the cookie that the form at `/` sets, or `?access_token=`.",
    429: "One client sent too many requests, or opened too many streams; `Retry-After` says when to try again.",
}
_SEVERAL: Mapping[int, str] = {406: "`Accept` matches none of the media types of the answer."}
_TOKENS = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "semcep"},
    "address": {"type": "apiKey", "in": "query", "name": "access_token"},
}


def route_responses(*kinds: str, json: Mapping[str, Any] | None = None, **refusals: str) -> Responses:
    """Describe the responses of a route.

    `kinds`: the media types. `json`: the schema of JSON. `refusals`: the reason of each error status (`_404="..."`).
    """
    schemas = {"application/json": dict(json or {})}
    content = {kind: {"schema": schemas.get(kind, {"type": "string"})} for kind in kinds}
    responses: Responses = {200: {"description": "The answer.", "content": content}}
    for status, why in refusals.items():
        number = int(status.lstrip("_"))
        responses[number] = {"description": why} if number < 400 else {"description": why, "content": TEXT}
    return responses


def query_parameter(name: str, why: str, example: str, several: bool = False) -> dict[str, Any]:
    """Describe a query parameter that a route reads from the request itself.

    `why`: the description. `several`: True if the parameter may be repeated.
    """
    element = {"type": "string", "minLength": 1, "example": example}
    schema = {"type": "array", "items": element} if several else element
    return {"name": name, "in": "query", "required": False, "description": why, "schema": schema}


def description(app: FastAPI, token: bool) -> Callable[[], dict[str, Any]]:
    """Return a replacement for `FastAPI.openapi`. It adds the error responses that all paths have.

    `token`: True if requests need a token.
    """

    def made() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title, version=app.version, description=ABOUT, routes=app.routes, servers=app.servers
            )
            for path, methods in document["paths"].items():
                for operation in methods.values():
                    _complete(path, operation, token)
            schemas = document.get("components", {}).get("schemas", {})
            for name in ("HTTPValidationError", "ValidationError"):  # this server's errors are sentences
                schemas.pop(name, None)
            if token:
                document.setdefault("components", {})["securitySchemes"] = _TOKENS
            app.openapi_schema = document
        return app.openapi_schema

    return made


def _complete(path: str, operation: dict[str, Any], token: bool) -> None:
    responses = operation["responses"]
    for status in [*responses]:
        if status == "422":
            responses[status] = {"description": "A parameter is missing or wrong.", "content": TEXT}
    guarded = path not in OPEN
    every = {**_ALL, **_SEVERAL, **(_GUARDED if guarded else {})}
    for number, why in every.items():
        if number != 401 or token:
            responses.setdefault(str(number), {"description": why, "content": TEXT})
    if "requestBody" in operation:
        responses.setdefault("408", {"description": "The body did not come in time.", "content": TEXT})
        responses.setdefault("400", {"description": "The body cannot be unpacked.", "content": TEXT})
    operation["responses"] = dict(sorted(responses.items()))
    if token and guarded:
        operation["security"] = [{name: []} for name in _TOKENS]
