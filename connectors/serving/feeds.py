"""Routes below `/feeds`, which publish the changes of alerts over HTTP."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Header, HTTPException, Query, Request, Response
from fastapi.responses import StreamingResponse

from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import OutboxEntry, RefusedEntry
from cep.connectors.alerts.text import rfc3339
from cep.connectors.receivers import atom, cap
from cep.connectors.receivers.document import SCHEMA, Publisher, document
from cep.connectors.receivers.sse import Stream
from cep.connectors.serving.conditional import matches_etag
from cep.connectors.serving.openapi import TEXT, Responses, route_responses
from cep.connectors.serving.people import Person, Role, acting

_ALERT = r"^[0-9a-f]{32}$"
_UNCHANGED, _NOBODY = "The answer is still the one that `If-None-Match` names.", "There is no such receiver."
_FOR_EVER = "public, max-age=31536000, immutable"

After = Annotated[int, Query(ge=0, lt=2**62, description="Return entries after this `number`.")]
Limit = Annotated[int, Query(ge=1, le=10_000, description="Largest number of entries to return.")]


def router(outbox: Outbox, origin: Publisher, stream: Stream, may_send: bool = True) -> APIRouter:
    """Return the routes below `/feeds`.

    `stream`: the stream of changes. The caller must close the stream before it waits for the server's clients to
    disconnect. `may_send`: True if, on a server without tokens, every client may send refused changes again.
    """
    routes = APIRouter(prefix="/feeds", tags=["alerts"])
    sends = Depends(acting(Role.RESPONDER, "sending again", may_send))
    feed, none = outbox.id.replace("-", "")[:12], "There is no such alert."

    @routes.get("")
    def feeds() -> dict[str, str]:
        """List the feeds."""
        return {
            "atom": "feeds/atom",
            "cap": "feeds/cap/{alert}",
            "events": "feeds/events",
            "alerts": "feeds/alerts",
            "receivers": "feeds/receivers",
        }

    def answered(request: Request, body: bytes, kind: str, control: str) -> Response:
        """Return a document, or status 304 if the client already has the document.

        The document's tag is a hash of its bytes. They contain the feed's name, so tags of different feeds differ.
        """
        headers = {"ETag": f'"{sha256(body).hexdigest()[:24]}"', "Cache-Control": control}
        if matches_etag(request.headers, headers["ETag"]):
            return Response(status_code=304, headers=headers)
        return Response(body, media_type=kind, headers=headers)

    @routes.get(
        "/atom",
        response_class=Response,
        responses=route_responses(
            "application/atom+xml", _304=_UNCHANGED, _404="There is no such page, or it is no longer kept."
        ),
    )
    def atom_feed(
        request: Request,
        page: Annotated[
            int | None, Query(ge=1, lt=2**62, description="The number of an archive document, from 1.")
        ] = None,
        of: Annotated[
            str | None, Query(max_length=40, description="The feed that the archive document belongs to.")
        ] = None,
    ) -> Response:
        """Return the newest changes as an Atom feed. Its link `prev-archive` leads to older changes (RFC 5005)."""
        if page is None:
            return answered(request, atom.newest_document(outbox, origin, feed), atom.TYPE, "no-cache")
        archived = atom.archive(outbox, origin, page, feed) if of in (None, feed) else None
        if archived is None:
            raise HTTPException(404, f"there is no page {page}")
        return answered(request, archived, atom.TYPE, "no-cache" if of is None else _FOR_EVER)

    messages = route_responses("application/cap+xml", _304=_UNCHANGED, _404=none)

    @routes.get("/cap/{alert}", response_class=Response, responses=messages)
    def cap_latest(request: Request, alert: str) -> Response:
        """Return the latest message about an alert in the Common Alerting Protocol 1.2."""
        return _cap(request, alert, None)

    @routes.get("/cap/{alert}/{revision}", response_class=Response, responses=messages)
    def cap_message(request: Request, alert: str, revision: int) -> Response:
        """Return one message about an alert. The first has the number 0."""
        return _cap(request, alert, revision)

    def _cap(request: Request, alert: str, revision: int | None) -> Response:
        cap_message = (
            cap.message(outbox, origin, alert, revision) if revision is None or 0 <= revision < 2**62 else None
        )
        if cap_message is None:
            raise HTTPException(404, "there is no such alert" if revision is None else "there is no such message")
        return answered(request, cap_message, cap.TYPE, "no-cache")

    @routes.get(
        "/events",
        response_class=StreamingResponse,
        responses=route_responses("text/event-stream", _400="`Last-Event-ID` is not a number."),
    )
    async def events(
        after: Annotated[
            int | None, Query(ge=0, lt=2**62, description="Send changes after this number; 0 sends all.")
        ] = None,
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> StreamingResponse:
        """Send every change as a Server-Sent Event when it is added. `Last-Event-ID` continues an interrupted
        stream."""
        number = after
        if last_event_id:
            if not (last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) < 19):
                raise HTTPException(400, "`Last-Event-ID` is not the number of an event")
            number = int(last_event_id)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        frames = stream.frames(stream.begin(number))
        return StreamingResponse(frames, media_type="text/event-stream", headers=headers)

    @routes.get("/alerts", responses=_listed(lost={"type": "array", "items": {"type": "string"}}))
    def alerts(after: After = 0, limit: Limit = 1000) -> list[dict[str, Any]]:
        """List the open alerts, oldest first. If sources are lost, each alert has the names of these sources in
        `lost`."""
        lost = {"lost": list(outbox.lost)} if outbox.lost else {}
        return [_numbered(entry, origin) | lost for entry in outbox.live(after, limit)]

    @routes.get("/alerts/{alert}", responses={**_listed(), 404: {"description": none, "content": TEXT}})
    def life(alert: str, after: After = 0, limit: Limit = 1000) -> list[dict[str, Any]]:
        """List the changes of an alert, in order."""
        entries = outbox.life(alert, after, limit)
        if not entries and outbox.revision(alert) is None:
            raise HTTPException(404, "there is no such alert")
        return [_numbered(entry, origin) for entry in entries]

    @routes.get("/receivers")
    def receivers() -> list[dict[str, Any]]:
        """List the progress of each receiver of alerts."""
        return [
            {
                "name": status.name,
                "cursor": status.cursor,
                "waiting": status.waiting,
                "dead": status.dead,
                "letters": f"feeds/receivers/{quote(status.name, safe='')}/dead",
            }
            for status in outbox.statuses()
        ]

    @routes.get("/receivers/{name:path}/dead", responses={404: {"description": _NOBODY, "content": TEXT}})
    def dead(name: str) -> list[dict[str, Any]]:
        """List the changes that a receiver finally refused, with the reason and the time."""
        if all(status.name != name for status in outbox.statuses()):
            raise HTTPException(404, "there is no such receiver; `feeds/receivers` names them")
        return [_letter(letter, origin) for letter in outbox.dead(name)]

    @routes.post(
        "/receivers/{name:path}/dead/retry",
        status_code=202,
        responses={
            403: {
                "description": "The request needs the role responder, or comes from a page of another server.",
                "content": TEXT,
            },
            404: {"description": _NOBODY, "content": TEXT},
        },
    )
    def retry(name: str, person: Person = sends) -> dict[str, int]:
        """Send each refused change again, once. Changes that are refused again stay in the list. `/feeds/actions`
        records who requested this."""
        if not outbox.serves(name):
            raise HTTPException(404, "there is no such receiver; `feeds/receivers` names them")
        return {"sent": outbox.retry(name, person.name)}

    return routes


def _listed(**more: Any) -> Responses:
    numbered = {"number": {"type": "integer", "minimum": 1}, **more}
    element = {**SCHEMA, "properties": {**SCHEMA["properties"], **numbered}}
    return route_responses("application/json", json={"type": "array", "items": element})


def _numbered(entry: OutboxEntry, origin: Publisher) -> dict[str, Any]:
    return {"number": entry.number, **document(entry.change, origin.status, origin.page(entry.change))}


def _letter(letter: RefusedEntry, origin: Publisher) -> dict[str, Any]:
    when = None if letter.time is None else rfc3339(letter.time)
    return {"reason": letter.reason, "when": when, "again": letter.again, **_numbered(letter.entry, origin)}
