"""`/docs`: the API documentation as a web page without scripts. It is generated from `/openapi.json`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fastapi import FastAPI
from starlette.responses import Response

POLICY = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'"


def documented(app: FastAPI) -> Response:
    """Return the API documentation as a web page."""
    text = "".join(_page(app.openapi()))
    return Response(text, media_type="text/html; charset=utf-8", headers={"Content-Security-Policy": POLICY})


def _page(document: Mapping[str, Any]) -> Iterator[str]:
    title = escape(document["info"]["title"])
    yield f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}: what is served</title>'
    yield '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="page/docs.css">'
    yield f'<link rel="icon" href="page/icon.svg"></head><body><main><h1>{title}</h1>'
    for part in document["info"]["description"].split("\n\n"):
        yield f"<p>{escape(part)}</p>"
    yield '<p><a href="openapi.json">openapi.json</a> says the same for programs.</p>'
    yield "<nav><ul>"
    for path, methods in document["paths"].items():
        for method in methods:
            yield f'<li><a href="#{_anchor(method, path)}">{method.upper()} {escape(path)}</a></li>'
    yield "</ul></nav>"
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield from _operation(path, method, operation)
    yield "</main></body></html>\n"


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f'<section id="{_anchor(method, path)}"><h2>{method.upper()} {escape(path)}</h2>'
    yield f"<p>{escape(operation.get('description') or operation.get('summary', ''))}</p>"
    if parameters := operation.get("parameters"):
        yield "<table><caption>Parameters</caption><tr><th>name</th><th>in</th><th>type</th><th></th></tr>"
        for parameter in parameters:
            description = parameter.get("description") or parameter["schema"].get("description", "")
            must = "required. " if parameter.get("required") else ""
            cells = (parameter["name"], parameter["in"], _type(parameter["schema"]), must + description)
            yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
        yield "</table>"
    if body := operation.get("requestBody"):
        yield f"<p>The body is {escape(', '.join(body['content']))}.</p>"
    yield "<table><caption>Answers</caption><tr><th>status</th><th>media types</th><th></th></tr>"
    for status, answer in operation["responses"].items():
        row = (status, ", ".join(answer.get("content", ())), answer["description"])
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
    yield "</table></section>"


def _type(schema: Mapping[str, Any]) -> str:
    kinds = [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
    texts = ["|".join(map(json.dumps, kind["enum"])) if "enum" in kind else kind.get("type", "any") for kind in kinds]
    limits = {name: schema[name] for name in ("minimum", "maximum", "default") if name in schema}
    return " or ".join(texts) + "".join(f", {name} {value}" for name, value in limits.items())


def _anchor(method: str, path: str) -> str:
    return escape(method + path.replace("/", "-").replace("{", "").replace("}", "").replace(":", ""), quote=True)
