"""`/ldes`: derived events as a linked data event stream, in pages by time that never change once their hour is over."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pyoxigraph as ox
from fastapi import APIRouter, Request, Response
from starlette.responses import PlainTextResponse

from connectors.rdf.history import History
from connectors.rdf.words import LDES, PREFIXES, RDF, TIME, TREE, XSD
from connectors.serving.sparql import GRAPHS, negotiated

_PAGE = 500  # members
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORMATS = {
    "ttl": ox.RdfFormat.TURTLE,
    "nt": ox.RdfFormat.N_TRIPLES,
    "jsonld": ox.RdfFormat.JSON_LD,
    "rdf": ox.RdfFormat.RDF_XML,
}
_TYPES = {
    "ttl": "text/turtle",
    "nt": "application/n-triples",
    "jsonld": "application/ld+json",
    "rdf": "application/rdf+xml",
}
_NAMES = {**PREFIXES, "ldes": LDES, "tree": TREE}


def router(history: History, watermark: Callable[[], int], kept: str | None) -> APIRouter:
    """`kept`: how long events are kept, as an xsd:duration."""
    made = APIRouter()
    store, words = history.store, history.words

    async def view(request: Request) -> Response:
        """The days."""
        hours = await asyncio.wrap_future(store.look("hours"))
        days = sorted({hour[-13:-3] for hour in hours})
        here = str(request.base_url) + "ldes"
        lines = [*_stream(here), *_triple(here, TREE + "viewDescription", "_:view")]
        if kept is not None:
            lines += [
                f"_:view <{LDES}retentionPolicy> _:policy .",
                f"_:policy <{RDF}type> <{LDES}DurationAgoPolicy> .",
                f'_:policy <{TREE}value> "{kept}"^^<{XSD}duration> .',
            ]
        for day in days:
            begin = datetime.fromisoformat(day)
            lines += _relations(here, f"{here}/{day}", begin, begin + timedelta(days=1))
        return _answer(request, lines, False)

    async def page(request: Request, part: str, page: int = 1) -> Response:
        """A day's hours, or the members of an hour."""
        here = str(request.base_url) + "ldes"
        if not re.fullmatch(r"\d{4}-\d\d-\d\d(T\d\d)?", part) or not 1 <= page < 1_000_000:
            return PlainTextResponse("there is no such page\n", 404)
        try:
            begin = datetime.fromisoformat(part if "T" not in part else part + ":00")
        except ValueError:
            return PlainTextResponse("there is no such page\n", 404)
        if "T" not in part:
            hours = await asyncio.wrap_future(store.look("hours", part, part + "~"))
            if not hours:
                return PlainTextResponse("there is no such page\n", 404)
            lines = _stream(here)
            for hour in hours:
                start = datetime.fromisoformat(hour[-13:] + ":00")
                lines += _relations(f"{here}/{part}", f"{here}/{hour[-13:]}", start, start + timedelta(hours=1))
            return _answer(request, lines, False)
        found = [(when, name) for when, name in await asyncio.wrap_future(store.look("ending", part))
                 if name.startswith(words.event())]  # fmt: skip
        members = found[(page - 1) * _PAGE : page * _PAGE]
        if not members:
            return PlainTextResponse("there is no such page\n", 404)
        lines = [*_stream(here)]
        for _, member in members:
            lines += _triple(here, TREE + "member", f"<{member}>")
        if len(found) > page * _PAGE:
            address = f"{here}/{part}?page="
            this = f"{here}/{part}" if page == 1 else f"{address}{page}"
            lines += _relation(this, f"{address}{page + 1}", "GreaterThanOrEqualTo", found[page * _PAGE][0])
        told = await asyncio.wrap_future(store.look("described", [member for _, member in members]))
        end = begin.replace(tzinfo=UTC) + timedelta(hours=1)
        over = watermark() >= (end - _EPOCH) // timedelta(microseconds=1)
        return _answer(request, [*lines, told.decode()], over)

    made.add_api_route("/ldes", view, methods=["GET", "HEAD"], include_in_schema=False)
    made.add_api_route("/ldes/{part}", page, methods=["GET", "HEAD"], include_in_schema=False)
    return made


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
    """From a page to one whose members end at or after `begin`, and before `end`."""
    since, until = (f"{time.isoformat(timespec='microseconds')}Z" for time in (begin, end))
    return [*_relation(this, node, "GreaterThanOrEqualTo", since), *_relation(this, node, "LessThan", until)]


def _relation(this: str, node: str, kind: str, value: str) -> list[str]:
    name = re.sub(r"\W", "", f"{kind[0]}{node.rpartition('/')[2]}")
    return [
        f"<{this}> <{TREE}relation> _:{name} .",
        f"_:{name} <{RDF}type> <{TREE}{kind}Relation> .",
        f"_:{name} <{TREE}node> <{node}> .",
        f"_:{name} <{TREE}path> _:path{name} .",
        f'_:{name} <{TREE}value> "{value}"^^<{XSD}dateTime> .',  # as the store has times
        *_list(f"path{name}"),
    ]


def _answer(request: Request, lines: Sequence[str], over: bool) -> Response:
    format = negotiated(request.headers, GRAPHS)
    quads = ox.parse("\n".join(lines), ox.RdfFormat.N_TRIPLES, lenient=True)
    names = _NAMES if format in ("ttl", "rdf") else None
    body = ox.serialize((quad.triple for quad in quads), format=_FORMATS[format], prefixes=names)
    control = "public, max-age=604800, immutable" if over else "no-cache"
    return Response(body, media_type=_TYPES[format], headers={"Cache-Control": control, "Vary": "Accept"})
