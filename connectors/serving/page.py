"""The live page at `/`, and its requests below `/api`: program, state, stream, event, station.

The page consists of plain ES modules next to this file. `cep.connectors.serving.vendor` downloads its libraries for
maps and charts. The HTML contains no inline script and no inline style, so the content security policy can forbid them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Header, HTTPException, Query, Request, Response
from starlette.responses import JSONResponse, StreamingResponse

from cep.connectors.alerts.alert_history import LOOKED_AT, alerts_at
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.rdf.vocabulary import EventVocabulary
from cep.connectors.receivers.document import STATUSES, document
from cep.connectors.serving.conditional import matches_etag
from cep.connectors.serving.login import COOKIE, logout_cookie
from cep.connectors.serving.openapi import route_responses
from cep.connectors.serving.outline import outline
from cep.connectors.serving.people import LOCAL, Person, Role, person_of, refuse_other_pages
from cep.connectors.serving.programs import ChangeRefused, ProgramVersions, Shown, Told
from cep.connectors.serving.scene import Scene

PAGE = Path(__file__).with_name("page")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SHOWN = 4_000
"""The maximum number of derived events in the initial state that the page loads."""
TAKEN_BACK = 100
"""The maximum number of withdrawn events in the initial state that the page loads."""
PULSE = 15.0
"""The number of seconds without changes after which the counters are sent again."""

_OBJECT = {"type": "object"}
_PACE = 0.1  # seconds between two messages to one client
_MOST = 1_000  # the number of events in one message
_CHANGES = 400  # changes of alerts in the first state of a page
_FAR = 2**60
_HANDLING = "Handling alerts"
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class _File:
    kind: str
    tag: str
    path: Path


def router(
    scene: Scene,
    outbox: Outbox | None = None,
    status: str = STATUSES[0],
    vocabulary: EventVocabulary | None = None,
    version: int = 1,
    local: bool = False,
    versions: ProgramVersions | None = None,
    receivers: Mapping[str, Sequence[str]] | None = None,
) -> APIRouter:
    """Return the routes of the live page.

    - `scene`: the state of the page. The caller must close it before it waits for the server's clients to
      disconnect.
    - `local`: True if the server has no tokens and is only reachable from this machine; then every client is a
      responder.
    - `versions`: the server's program and its shadow.
    - `receivers`: for each receiver in the file of routes, the addresses to which it sends alerts. The addresses
      under the empty name get every alert.
    """
    routes = APIRouter(tags=["page"], default_response_class=Response)
    files = _files()
    run = secrets.token_hex(4)  # numbers of another run are meaningless in this one
    described = outline(scene.service, vocabulary or EventVocabulary())

    modules = [name for name in files if name.endswith(".js") and "/" not in name and name != "theme.js"]
    first = ["<page/style.css>; rel=preload; as=style", "<page/theme.js>; rel=preload; as=script"]
    links = {"Link": ", ".join([*first, *(f"<page/{name}>; rel=modulepreload; fetchpriority=low" for name in modules)])}

    unchanged = "The answer is still the one that `If-None-Match` names."

    @routes.get(
        "/", responses=route_responses("text/html", _303="Redirects to the address without the token.", _304=unchanged)
    )
    async def page(request: Request) -> Response:
        """Return the live page."""
        return _sent(files["index.html"], request, links)

    kinds = {kind.partition(";")[0] for kind in _KINDS.values()}

    @routes.get(
        "/page/{name:path}", responses=route_responses(*sorted(kinds), _304=unchanged, _404="There is no such file.")
    )
    async def file(name: str, request: Request) -> Response:
        """Return a file of the page."""
        if name not in files:
            raise HTTPException(404, "there is no such file")
        return _sent(files[name], request)

    @routes.get("/api/program", responses=route_responses("application/json", json=_OBJECT))
    async def program(request: Request) -> Response:
        """Return the rules and their parts, and the panels of the page: map, charts, alerts."""
        features = {
            "map": "vendor/leaflet.js" in files,
            "charts": "vendor/uplot.js" in files,
            "handled": outbox is not None,
            "receivers": receivers or {},
            "rights": scene.gazette.rights,
            "person": _person(person_of(request), local),
            "session": person_of(request) is not None and COOKIE in request.cookies,
        }
        return _json(described | features | {"status": status, "version": version})

    @routes.post(
        "/logout", responses=route_responses("application/json", json=_OBJECT, _403="Another page sent the request.")
    )
    async def logout(request: Request) -> Response:
        """Delete the login cookie of the browser."""
        refuse_other_pages(request)
        answer = _json({"status": "logged out"})
        answer.headers["Set-Cookie"] = logout_cookie(request.scope)
        return answer

    @routes.get("/api/state", responses=route_responses("application/json", json=_OBJECT))
    def state() -> Response:
        """Return the current state of the page. `at`: the number of the state's last change. `stream` sends the changes
        after this number."""
        number, events, stations = scene.newest(SHOWN)
        rest: dict[str, Any] = {
            "at": f"{run}-{number}",
            "stations": stations,
            "numbers": scene.summary(),
            "version": version,
        }
        if outbox is not None:
            last = outbox.last
            entries = {entry.number: entry for entry in outbox.live()[-SHOWN:]}
            entries |= {entry.number: entry for entry in outbox.between(last - _CHANGES + 1, last)}
            rest["alerts"] = [document(entries[number].change, status) for number in sorted(entries)]
            rest["alerts_at"] = last
        text = json.dumps(rest, separators=(",", ":"))
        gone = b",".join(scene.withdrawn.newest(TAKEN_BACK))
        return Response(
            b'{"events":[%s],"withdrawn":[%s],%s' % (b",".join(events), gone, text[1:].encode()),
            media_type="application/json",
            headers={"Cache-Control": "no-store"},
        )

    @routes.get("/api/past", responses=route_responses("application/json", json=_OBJECT))
    def past(at: Annotated[int, Query(ge=-_FAR, le=_FAR)]) -> Response:
        """Return the alerts at event time `at` (microseconds since 1970), and the events that were withdrawn after this
        time.

        `cut`: the number of changes of alerts that were searched, if there are older changes. Otherwise null.
        """
        entries, more = ([], False) if outbox is None else alerts_at(outbox, at)
        answer: dict[str, Any] = {"alerts": [document(entry.change, status) for entry in entries]}
        answer |= {"withdrawn": scene.withdrawn_since(at), "cut": LOOKED_AT if more else None}
        return _json(answer)

    @routes.get("/api/shadow", responses=route_responses("application/json", json=_OBJECT))
    def shadow(request: Request, limit: Shown = 20, reasons: Told = 0) -> Response:
        """Return the answer of `/shadow`, or null if there is no shadow program. Also return why the client may not
        promote it."""
        shadowed = None
        with suppress(ChangeRefused):
            shadowed = None if versions is None else versions.shadow(limit, reasons)
        return _json({"shadow": shadowed, "refused": _refused(person_of(request), Role.EDITOR, "Promoting the shadow")})

    @routes.get("/api/stream", responses=route_responses("text/event-stream"))
    async def stream(
        after: Annotated[str, Query(max_length=40)] = "", last_event_id: Annotated[str, Header()] = ""
    ) -> Response:
        """Send Server-Sent Events. `news` contains changes. `reset` means that the client has missed too many changes
        and must load `state` again."""
        frames = _frames(scene, run, last_event_id or after)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(frames, media_type="text/event-stream", headers=headers)

    @routes.get(
        "/api/event/{id}", responses=route_responses("application/json", json=_OBJECT, _404="The event is not kept.")
    )
    def event(id: str) -> Response:
        """Return a derived event and, with lineage, the records from which it was derived."""
        document = scene.event(id)
        if document is None:
            raise HTTPException(404, "no event with this id is kept")
        return _json(document)

    @routes.get("/api/station", responses=route_responses("application/json", json=_OBJECT))
    def station(key: Annotated[str, Query(max_length=1_000)]) -> Response:
        """Return the latest record of each kind about a subject."""
        return _json({"key": key, "records": scene.readings.latest(key)})

    @routes.get(
        "/api/series",
        responses=route_responses("application/json", json=_OBJECT, _404="No input event has such an attribute."),
    )
    def series(
        event: Annotated[str, Query(max_length=1_000)],
        attribute: Annotated[str, Query(max_length=1_000)],
        key: Annotated[str, Query(max_length=1_000)],
        since: Annotated[int, Query(ge=-_FAR, le=_FAR)] = -_FAR,
        until: Annotated[int, Query(ge=-_FAR, le=_FAR)] = _FAR,
    ) -> Response:
        """Return the values of a numeric attribute of an input event about a subject, between two times (microseconds
        since 1970). The values just before and after are included. `held`: the time since which all records are in
        memory."""
        if not scene.readings.numeric(event, attribute):
            raise HTTPException(404, "no input event about a subject has such an attribute with numbers")
        values = scene.readings.series(event, attribute, key, since, until)
        return _json({"times": values.times, "values": values.values, "held": values.held})

    return routes


def _person(person: Person | None, local: bool) -> dict[str, str]:
    """Return the name of the person who uses the page, and the reason why this person may not handle alerts. The reason
    is "" if the person may handle alerts."""
    if person is None:
        return {"name": LOCAL if local else "", "refused": "" if local else _refused(None, Role.RESPONDER, _HANDLING)}
    return {"name": person.name, "refused": _refused(person, Role.RESPONDER, _HANDLING)}


def _refused(person: Person | None, role: Role, what: str) -> str:
    if person is None:
        return f"{what} needs a server with tokens (`--token-file`)."
    return "" if person.role >= role else f"{what} needs the role {role.title}; {person.name} is {person.role.title}."


async def _frames(scene: Scene, run: str, place: str) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n\n"
    number = _number(run, place)
    while not scene.closed:
        bell = scene.bell()
        news = None if number is None else scene.behind(number, _MOST)
        if news is None:
            yield b"event: reset\ndata: {}\n\n"
            return
        assert number is not None, "there is news of a place"
        more = news[0] < scene.number
        gone = b",".join(scene.taken_back(number, news[0]))
        number, events, stations = news
        rest = json.dumps({"stations": stations, "numbers": scene.summary()}, separators=(",", ":"))
        yield b'id: %s-%d\nevent: news\ndata: {"withdrawn":[%s],"events":[%s],%s\n\n' % (
            run.encode(), number, gone, b",".join(events), rest[1:].encode())  # fmt: skip
        await asyncio.sleep(_PACE)
        if not more and not scene.closed:
            try:
                await asyncio.wait_for(bell.wait(), PULSE)
            except TimeoutError:
                continue


def _number(run: str, place: str) -> int | None:
    """Return the number of the last change that a client has received, or None if it was received from another run.

    `run`: the id of this run. `place`: the client's position, which contains the id of the client's run.
    """
    name, _, number = place.partition("-")
    known = name == run and number.isascii() and number.isdecimal() and len(number) < 19
    return int(number) if known else None


def _files() -> dict[str, _File]:
    files = {}
    for path in sorted(PAGE.rglob("*")):
        if path.suffix in _KINDS and path.is_file():
            tag = hashlib.sha256(path.read_bytes()).hexdigest()[:20]
            files[path.relative_to(PAGE).as_posix()] = _File(_KINDS[path.suffix], f'"{tag}"', path)
    return files


def _sent(file: _File, request: Request, more: Mapping[str, str] | None = None) -> Response:
    headers = {"ETag": file.tag, "Cache-Control": "no-cache", "Content-Security-Policy": POLICY, **(more or {})}
    if matches_etag(request.headers, file.tag):
        return Response(status_code=304, headers=headers)
    return Response(file.path.read_bytes(), media_type=file.kind, headers=headers)


def _json(value: object) -> Response:
    return JSONResponse(value, headers={"Cache-Control": "no-store"})
