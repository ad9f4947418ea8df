"""`/ldes`: derived events as a linked data event stream. Each page covers a period of time. A page no longer changes
after the end of its period."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pyoxigraph as ox
from fastapi import APIRouter, Request, Response
from starlette.responses import PlainTextResponse

from cep.connectors.rdf.compact import to_json_ld
from cep.connectors.rdf.history import StoreListener
from cep.connectors.rdf.question import Page, QueryRefused
from cep.connectors.rdf.vocabulary import LDES, PREFIXES, RDF, TIME, TREE, XSD
from cep.connectors.serving.guard import client_of
from cep.connectors.serving.negotiation import negotiated
from cep.connectors.serving.openapi import route_responses
from cep.connectors.serving.sparql import GRAPHS, STATUS, await_answer

_PAGE = 500  # the number of members per page
_LASTING = {10: timedelta(days=1), 13: timedelta(hours=1), 16: timedelta(minutes=1), 19: timedelta(seconds=1)}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORMATS = {
    "ttl": ox.RdfFormat.TURTLE,
    "nt": ox.RdfFormat.N_TRIPLES,
    "rdf": ox.RdfFormat.RDF_XML,
}
_TYPES = {
    "ttl": "text/turtle",
    "nt": "application/n-triples",
    "jsonld": "application/ld+json",
    "rdf": "application/rdf+xml",
}
_NAMES = {**PREFIXES, "ldes": LDES, "tree": TREE}


def router(history: StoreListener, retention: str | None) -> APIRouter:
    """Return the routes of `/ldes`. `retention`: the duration for which events are kept, as an xsd:duration. It is None
    if they are kept for ever."""
    routes = APIRouter(tags=["events"], default_response_class=Response)
    store = history.store

    async def view(request: Request) -> Response:
        """Return the first page, which lists the days."""
        try:
            hours = await await_answer(request, store.hours(client=client_of(request.scope)))
        except QueryRefused as error:
            return _refused(error)
        days = sorted({hour[-13:-3] for hour in hours})
        here = str(request.base_url) + "ldes"
        lines = [*_stream(here), *_triple(here, TREE + "viewDescription", "_:view")]
        if retention is not None:
            lines += [
                f"_:view <{LDES}retentionPolicy> _:policy .",
                f"_:policy <{RDF}type> <{LDES}DurationAgoPolicy> .",
                f'_:policy <{TREE}value> "{retention}"^^<{XSD}duration> .',
            ]
        for day in days:
            begin = datetime.fromisoformat(day)
            lines += _relations(here, f"{here}/{day}", begin, begin + timedelta(days=1))
        return _answer(request, lines, False)

    async def page(request: Request, part: str, page: int = 1) -> Response:
        """Return a page: the hours of a day, or the members of an hour, minute or second, possibly split into several
        pages."""
        here = str(request.base_url) + "ldes"
        if not re.fullmatch(r"(?a:\d{4}-\d\d-\d\d(T\d\d(:\d\d(:\d\d)?)?)?)", part) or not 1 <= page < 1_000_000:
            return PlainTextResponse("there is no such page\n", 404)
        try:
            end = datetime.fromisoformat(part).replace(tzinfo=UTC) + _LASTING[len(part)]
        except (ValueError, OverflowError):
            return PlainTextResponse("there is no such page\n", 404)
        over = history.reached >= (end - _EPOCH) // timedelta(microseconds=1)  # must be read before the contents
        try:
            if "T" in part:
                content = await await_answer(request, store.page(part, page, _PAGE, client_of(request.scope)))
            else:
                hours = await await_answer(request, store.hours(part, part + "~", client_of(request.scope)))
                content = Page(parts=tuple(hour[-13:] for hour in hours)) if hours else None
        except QueryRefused as error:
            return _refused(error)
        if content is None:
            return PlainTextResponse("there is no such page\n", 404)
        lines = [*_stream(here)]
        for span in content.parts:
            start = datetime.fromisoformat(span)
            lines += _relations(f"{here}/{part}", f"{here}/{span}", start, start + _LASTING[len(span)])
        for member in content.members:
            lines += _triple(here, TREE + "member", f"<{member}>")
        if content.more is not None:
            address = f"{here}/{part}?page="
            this = f"{here}/{part}" if page == 1 else f"{address}{page}"
            lines += _relation(this, f"{address}{page + 1}", "GreaterThanOrEqualTo", content.more)
        return _answer(request, [*lines, content.body.decode()], over and "T" in part)

    busy = "The answer takes too long, or too many requests wait; `Retry-After` says when to ask again."
    responses = route_responses(*GRAPHS, _404="There is no such page.", _500="The store failed.", _503=busy)
    routes.add_api_route(
        "/ldes", view, methods=["GET"], responses=route_responses(*GRAPHS, _500="The store failed.", _503=busy)
    )
    routes.add_api_route("/ldes/{part}", page, methods=["GET"], responses=responses)
    return routes


def _stream(here: str) -> list[str]:
    return [
        f"<{here}#events> <{RDF}type> <{LDES}EventStream> .",
        f"<{here}#events> <{TREE}view> <{here}> .",
        f"<{here}#events> <{LDES}timestampPath> _:path .",
        *_list("path"),
    ]


def _list(name: str) -> list[str]:
    return [
        f"_:{name} <{RDF}first> <{TIME}hasEnd> .",
        f"_:{name} <{RDF}rest> _:{name}2 .",
        f"_:{name}2 <{RDF}first> <{TIME}inXSDDateTimeStamp> .",
        f"_:{name}2 <{RDF}rest> <{RDF}nil> .",
    ]


def _triple(here: str, property: str, object: str) -> list[str]:
    subject = here + "#events" if property == TREE + "member" else here
    return [f"<{subject}> <{property}> {object} ."]


def _relations(this: str, node: str, begin: datetime, end: datetime) -> list[str]:
    since, until = (f"{time.isoformat(timespec='microseconds')}Z" for time in (begin, end))
    return [*_relation(this, node, "GreaterThanOrEqualTo", since), *_relation(this, node, "LessThan", until)]


def _relation(this: str, node: str, kind: str, value: str) -> list[str]:
    name = re.sub(r"\W", "", f"{kind[0]}{node.rpartition('/')[2]}")
    return [
        f"<{this}> <{TREE}relation> _:{name} .",
        f"_:{name} <{RDF}type> <{TREE}{kind}Relation> .",
        f"_:{name} <{TREE}node> <{node}> .",
        f"_:{name} <{TREE}path> _:path{name} .",
        f'_:{name} <{TREE}value> "{value}"^^<{XSD}dateTime> .',  # in the store's format of times
        *_list(f"path{name}"),
    ]


def _refused(error: QueryRefused) -> Response:
    more = {"Retry-After": "5"} if STATUS[error.code] == 503 else None
    return PlainTextResponse(f"{error}\n", STATUS[error.code], more)


def _answer(request: Request, lines: Sequence[str], over: bool) -> Response:
    format = negotiated(request.headers, GRAPHS)
    if not format:
        return PlainTextResponse(f"pages are {', '.join(GRAPHS)}\n", 406, {"Vary": "Accept"})
    quads = ox.parse("\n".join(lines), ox.RdfFormat.N_TRIPLES, lenient=True)
    triples = (quad.triple for quad in quads)
    names = _NAMES if format in ("ttl", "rdf") else None
    body = (
        to_json_ld(triples, _NAMES)
        if format == "jsonld"
        else ox.serialize(triples, format=_FORMATS[format], prefixes=names)
    )
    control = "public, max-age=604800, immutable" if over else "no-cache"
    return Response(body, media_type=_TYPES[format], headers={"Cache-Control": control, "Vary": "Accept"})
