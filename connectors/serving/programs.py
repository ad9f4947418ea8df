"""`/program`: the running program and its versions. Clients can replace the program."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, PlainTextResponse

from cep.connectors.records.times import iso
from cep.connectors.serving.openapi import TEXT, Responses, route_responses
from cep.connectors.serving.people import Person, Role, requires

_VERSION: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "version": {"type": "integer", "minimum": 1},
        "author": {"type": "string"},
        "time": {"type": "string", "format": "date-time"},
        "from": {"type": ["string", "null"], "format": "date-time"},
        "seen": {"type": ["string", "null"], "format": "date-time"},
        "running": {"type": "boolean"},
        "restores": {"type": "integer", "minimum": 1},
    },
    "required": ["version", "author", "time", "from", "seen", "running"],
}
_FULL = {**_VERSION, "properties": {**_VERSION["properties"], "files": {"type": "object"}}}
_PARAMETERS: Mapping[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "value": {"type": "string"},
            "default": {"type": "string"},
            "source": {"type": "string", "enum": ["program", "command line"]},
        },
        "required": ["name", "value", "default", "source"],
    },
}
_RUNNING = {**_FULL, "properties": {**_FULL["properties"], "parameters": _PARAMETERS}}
_TAKEN = {
    "type": "object",
    "properties": {
        **_VERSION["properties"],
        "same": {"type": "boolean"},
        "parameters": _PARAMETERS,
        **{name: {"type": "array", "items": {"type": "string"}} for name in ("kept", "warmed", "cut", "warnings")},
        "tests": {"type": "integer"},
    },
}
_CHANGES: Responses = {
    403: {"description": "The request needs the role editor, or comes from a page of another server.", "content": TEXT},
    409: {
        "description": "The program cannot change now, or not while it runs; nothing has changed.",
        "content": TEXT,
    },
    422: {
        "description": "The program has mistakes or no rules, or its tests fail; nothing has changed.",
        "content": TEXT,
    },
}
_NONE: Responses = {404: {"description": "There is no shadow program.", "content": TEXT}}
_SHADOW: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "files": {"type": "object"},
        "since": {"type": ["string", "null"], "format": "date-time"},
        "until": {"type": ["string", "null"], "format": "date-time"},
        "failed": {"type": ["string", "null"]},
        "parameters": {"type": "array", "items": {"type": "object"}},
        "explained": {"type": "boolean"},
        "events": {"type": "object"},
        "differences": {"type": "array", "items": {"type": "object"}},
        "warnings": {"type": "array", "items": {"type": "string"}},
    },
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "text/plain": {"schema": {"type": "string"}},
            "application/json": {"schema": {"type": "object", "additionalProperties": {"type": "string"}}},
        },
    }
}
Editor = Annotated[Person, Depends(requires(Role.EDITOR, "changing the program"))]


Shown = Annotated[
    int, Query(ge=0, le=1_000, description="Return the latest differences of each kind and event, at most this many.")
]
Told = Annotated[
    int,
    Query(ge=0, le=100, description="With `--explain`: return reasons for the latest differences, at most this many."),
]


class ChangeRefused(Exception):
    """Raised if the program cannot be changed. The message is the reason.

    `status`: the HTTP status. `busy`: True if a later attempt may succeed.
    """

    def __init__(self, status: int, text: str, busy: bool = False) -> None:
        super().__init__(text)
        self.status, self.busy = status, busy


class ProgramVersions(Protocol):
    """The versions of a server's program. The methods raise ChangeRefused if they cannot perform the change."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the program's source files."""

    def running(self) -> dict[str, Any]:
        """Return the running version, with the texts of its files and its parameters."""

    def history(self) -> list[dict[str, Any]]:
        """Return all versions, newest first, without the texts of their files."""

    def version(self, number: int) -> dict[str, Any]:
        """Return the version with this number, with the texts of its files."""

    def change(self, texts: Mapping[str, str], author: str) -> dict[str, Any]:
        """Replace the program. Return the new version.

        `texts`: the text of each file, by name. `author`: the name of the person who replaces it.
        """

    def restore(self, number: int, author: str) -> dict[str, Any]:
        """Replace the program by an earlier version. Return the new version, which has the texts of the earlier one."""

    def shadow(self, first: int, told: int) -> dict[str, Any]:
        """Return the shadow program, and the latest differences between its results and those of the running program.

        `first`: the maximum number of differences per kind and event. `told`: for each kind and event, the number of
        differences that include their reasons.
        """

    def begin_shadow(self, texts: Mapping[str, str], author: str) -> dict[str, Any]:
        """Run another program on the same input, as the shadow. Its results are not published."""

    def end_shadow(self, author: str) -> None:
        """Stop the shadow program."""

    def promote(self, author: str) -> dict[str, Any]:
        """Replace the running program by the shadow program."""


def router(versions: ProgramVersions) -> APIRouter:
    """Return the routes below `/program`."""
    routes = APIRouter(prefix="/program", tags=["program"], default_response_class=Response)
    unknown = {"_404": "There is no such version."}

    def answered(document: object) -> Response:
        return JSONResponse(document, headers={"Cache-Control": "no-store"})

    @routes.get("", responses=route_responses("application/json", json=_RUNNING))
    def running() -> Response:
        """Return the running program: its files, their author, its parameters, and the time from which the program
        derives events."""
        return answered(versions.running())

    @routes.put(
        "",
        responses={**route_responses("application/json", json=_TAKEN), **_CHANGES},
        openapi_extra=_BODY,
    )
    async def change(request: Request, person: Editor) -> Response:
        """Replace the program. The body is its text, or a JSON object with the texts of its files by name."""
        texts = _texts(await request.body(), request.headers.get("content-type", ""), versions.names)
        return await _changed(versions.change, texts, person.name)

    @routes.get(
        "/history", responses=route_responses("application/json", json={"type": "array", "items": dict(_VERSION)})
    )
    def history() -> Response:
        """List all versions, newest first."""
        return answered(versions.history())

    @routes.get("/history/{number}", responses=route_responses("application/json", json=_FULL, **unknown))
    def version(number: int) -> Response:
        """Return a version with its files."""
        try:
            return answered(versions.version(number))
        except ChangeRefused as error:
            raise HTTPException(error.status, str(error)) from None

    @routes.post(
        "/history/{number}/restore",
        responses={**route_responses("application/json", json=_TAKEN, **unknown), **_CHANGES},
    )
    async def restore(number: int, person: Editor) -> Response:
        """Replace the program by an earlier version. The texts of the earlier version become a new version."""
        return await _changed(versions.restore, number, person.name)

    return routes


def shadow_router(versions: ProgramVersions) -> APIRouter:
    """Return the routes below `/shadow`."""
    routes = APIRouter(prefix="/shadow", tags=["program"], default_response_class=Response)
    none = {"_404": "There is no shadow program."}

    @routes.get("", responses=route_responses("application/json", json=_SHADOW, **none))
    def shadow(limit: Shown = 20, reasons: Told = 1) -> Response:
        """List three kinds of events: those that only the shadow derives (appeared), those that only the program
        derives (gone), and those that both derive with different times or values (moved)."""
        try:
            return JSONResponse(versions.shadow(limit, reasons), headers={"Cache-Control": "no-store"})
        except ChangeRefused as error:
            raise HTTPException(error.status, str(error)) from None

    @routes.put(
        "",
        responses={**route_responses("application/json", json=_SHADOW), **_CHANGES},
        openapi_extra=_BODY,
    )
    async def begin(request: Request, person: Editor) -> Response:
        """Run another program on the same input without publishing its results. The body is its text, or a JSON object
        with the texts of its files."""
        texts = _texts(await request.body(), request.headers.get("content-type", ""), versions.names)
        return await _changed(versions.begin_shadow, texts, person.name)

    @routes.delete("", status_code=204, responses={**_CHANGES, **_NONE})
    def end(person: Editor) -> Response:
        """Stop the shadow, the program that runs on trial beside the served one."""
        try:
            versions.end_shadow(person.name)
        except ChangeRefused as error:
            raise HTTPException(error.status, str(error)) from None
        return Response(None, 204)

    @routes.post("/promote", responses={**route_responses("application/json", json=_TAKEN, **none), **_CHANGES})
    async def promote(person: Editor) -> Response:
        """Replace the program by the shadow."""
        return await _changed(versions.promote, person.name)

    return routes


async def _changed(change: Any, *what: Any) -> Response:
    try:
        return JSONResponse(await run_in_threadpool(change, *what), headers={"Cache-Control": "no-store"})
    except ChangeRefused as error:
        return PlainTextResponse(f"{error}\n", error.status)


def _texts(body: bytes, kind: str, names: tuple[str, ...]) -> Mapping[str, str]:
    """Return the program's texts in a request body, by file name. Raises HTTPException if the body is not valid."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise HTTPException(422, "the program is not text in UTF-8") from None
    if kind.partition(";")[0].strip() == "application/json":
        try:
            texts = json.loads(text)
        except ValueError as error:
            raise HTTPException(422, f"the body is not JSON: {error}") from None
        if not isinstance(texts, dict) or not all(isinstance(file_text, str) for file_text in texts.values()):
            raise HTTPException(422, "the body is not a JSON object that maps names of files to texts")
        if texts.keys() != set(names):
            raise HTTPException(422, f"the program has the files {', '.join(names)}: send the text of each")
        return texts
    if len(names) > 1:
        raise HTTPException(
            422, f"the program has several files: send JSON with the text of each, by {', '.join(names)}"
        )
    return {names[0]: text}


def version_time(time: int | None) -> str | None:
    """Format an event time for a response. None stays None."""
    return None if time is None or abs(time) > 2**60 else iso(time)
