"""Errors of requests as one sentence of plain text, also those of the web framework, which would send JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse

from connectors.alerts.text import clean
from connectors.serving.methods import RouteMethods

_SAID = {404: "Not Found", 405: "Method Not Allowed"}
"""The framework's own texts for a status."""


def in_sentences(app: FastAPI, paths: RouteMethods) -> None:
    """Every refusal of the framework is a sentence in plain text; of several mistakes each has a line. `paths`: what
    there is."""

    @app.exception_handler(RequestValidationError)
    async def wrong(request: Request, error: RequestValidationError) -> Response:
        return PlainTextResponse("".join(f"{line}\n" for line in parameter_errors(error.errors())), 422)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        sentence = str(error.detail)
        more = dict(error.headers or {})
        if sentence == _SAID.get(error.status_code):
            here = clean(request.url.path, 200)
            sentence = f"there is nothing at {here}"
            if error.status_code == 405:
                more["Allow"] = ", ".join(paths.methods(request.url.path.removeprefix(request.scope["root_path"])))
                sentence = f"{here} takes {more['Allow']} only"
        return PlainTextResponse(f"{sentence}\n", error.status_code, more)


def parameter_errors(errors: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each error, with its parameter: `at: this parameter is missing`."""
    lines = []
    for error in errors:
        name = clean(next((part for part in reversed(error["loc"]) if isinstance(part, str)), "body"), 80)
        message = str(error["msg"])
        if error["type"] == "json_invalid":
            lines.append(f"the body is not JSON: {error.get('ctx', {}).get('error', message)}")
            continue
        if error["type"] == "missing":
            lines.append(f"{name}: this parameter is missing")
        else:
            lines.append(f"{name}: `{clean(str(error.get('input')), 80)}`: {message[:1].lower()}{message[1:]}")
    return lines
