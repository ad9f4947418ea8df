"""Error responses as plain text, one sentence per error. They replace the framework's errors, which are JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse

from cep.connectors.alerts.text import clean
from cep.connectors.serving.methods import RouteMethods
from cep.core.suggest import did_you_mean

_SAID = {404: "Not Found", 405: "Method Not Allowed"}
"""The texts that the framework sends for these statuses, unless a route has set another text."""


def in_sentences(app: FastAPI, paths: RouteMethods) -> None:
    """Replace the framework's error responses by plain text, with one line per mistake.

    `paths`: the methods of each path. The response to an error 405 lists these methods.
    """

    @app.exception_handler(RequestValidationError)
    async def wrong(request: Request, error: RequestValidationError) -> Response:
        errors = error.errors()
        lines = parameter_errors(errors, _body_fields(request))
        if any(error["loc"] == ("body",) for error in errors) and not _says_json(request):
            lines = ["the body is not read as JSON; the request needs the header `Content-Type: application/json`"]
        return PlainTextResponse("".join(f"{line}\n" for line in lines), 422)

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


def _body_fields(request: Request) -> list[str]:
    fields: list[str] = []
    dependant = getattr(request.scope.get("route"), "dependant", None)
    for param in () if dependant is None else dependant.body_params:
        annotation = param.field_info.annotation
        for model in get_args(annotation) or (annotation,):
            fields += getattr(model, "model_fields", ())
    return fields


def _says_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def refuse_unknown_parameters(request: Request) -> None:
    """Raise HTTPException (422) if the address has an unknown parameter, which FastAPI would ignore."""
    known = [query_param.alias for query_param in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if name not in known:
            hint = did_you_mean(name, known) or (f"there are {', '.join(known)}" if known else "there are none here")
            raise HTTPException(422, f"the parameter `{clean(name, 80)}` is not known; {hint}")


def parameter_errors(errors: Sequence[Mapping[str, Any]], known: Sequence[str] = ()) -> list[str]:
    """Return a line for each error, such as `at: this parameter is missing`.

    `errors`: the errors that FastAPI reports. `known`: the names of the fields in the body.
    """
    lines = []
    for error in errors:
        name = clean(next((part for part in reversed(error["loc"]) if isinstance(part, str)), "body"), 80)
        message = str(error["msg"])
        if error["type"] == "json_invalid":
            lines.append(f"the body is not JSON: {error.get('ctx', {}).get('error', message)}")
            continue
        if error["type"] == "missing":
            lines.append(f"{name}: this parameter is missing")
        elif error["type"] == "extra_forbidden":
            hint = did_you_mean(name, known) or (f"there are {', '.join(known)}" if known else "")
            lines.append(f"`{name}` is not known here{hint and f'; {hint}'}")
        else:
            lines.append(f"{name}: `{clean(str(error.get('input')), 80)}` {_reason(error)}")
    return list(dict.fromkeys(lines))


_REASONS = {
    "literal_error": "is not one of {expected}",
    "enum": "is not one of {expected}",
    "int": "is not a whole number",
    "float": "is not a number",
    "decimal": "is not a number",
    "bool": "is not `true` or `false`",
    "datetime": "is not a valid time, such as `2026-12-01T06:00:00Z`",
    "string_type": "is not a text",
    "string_too_long": "has more than {max_length} characters",
    "string_too_short": "has fewer than {min_length} characters",
    "too_long": "has more than {max_length} items",
    "greater_than_equal": "is less than {ge}",
    "greater_than": "is not more than {gt}",
    "less_than_equal": "is more than {le}",
    "less_than": "is not less than {lt}",
    "list": "is not a list",
    "model": "is not an object",
    "dict": "is not an object",
}
"""The texts that replace the messages of pydantic, by the type of the error or its first word."""


def _reason(error: Mapping[str, Any]) -> str:
    kind, values = error["type"], dict(error.get("ctx", {}))
    if "expected" in values:
        values["expected"] = str(values["expected"]).replace("'", "`").replace(" or ", ", ")
    said = _REASONS.get(kind) or _REASONS.get(kind.partition("_")[0])
    message = str(error["msg"])
    return said.format(**values) if said else f"is not valid: {message[:1].lower()}{message[1:]}"
