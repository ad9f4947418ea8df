"""`/alerts` and `/silences`: the current alerts, and the actions of people on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse

from cep.connectors.alerts.handling import Conflict, Handling, Unknown
from cep.connectors.alerts.handling_tables import DONE, Recorded, RecordedAction
from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.alerts.matchers import LONGEST, Matcher, Matchers
from cep.connectors.alerts.outbox_entries import OutboxEntry
from cep.connectors.alerts.silences import LONGEST_COMMENT, Silence, silence
from cep.connectors.alerts.text import clean, rfc3339
from cep.connectors.receivers.document import SCHEMA, Publisher, document
from cep.connectors.receivers.routes import known_labels
from cep.connectors.serving.openapi import TEXT, Responses, route_responses
from cep.connectors.serving.people import People, Person, Role, acting
from cep.connectors.serving.request_errors import refuse_unknown_parameters
from cep.core.errors import CepError
from cep.core.suggest import did_you_mean
from cep.core.time import FARTHEST
from cep.rules.alert import SEVERITIES

State = Literal["pending", "firing", "kept", "resolved", "withdrawn"]
EPISODES = 20
"""The maximum number of earlier or later alerts of the same name and key that are listed with an alert."""

_PAGE = 500
_SAFE = {"Cache-Control": "no-store"}
_ONE = {"type": "object"}
_VIEW: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        **SCHEMA["properties"],
        "number": {"type": "integer", "minimum": 1},
        "state": {"type": "string", "enum": ["pending", "firing", "kept", "resolved", "withdrawn"]},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
_FULL = {
    **_VIEW,
    "properties": {
        **_VIEW["properties"],
        "changes": {"type": "array", "items": SCHEMA},
        "actions": {"type": "array", "items": _ONE},
        "episodes": {"type": "array", "items": _ONE},
    },
}
_MATCHER = {
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in ("name", "value")},
        **{name: {"type": "boolean"} for name in ("isRegex", "isEqual")},
    },
}
_SILENCE = {
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in ("id", "createdBy", "comment")},
        **{name: {"type": "string", "format": "date-time"} for name in ("startsAt", "endsAt", "updatedAt")},
        "status": {"type": "object", "properties": {"state": {"enum": ["pending", "active", "expired"]}}},
        "matchers": {"type": "array", "items": _MATCHER},
        "maintenance": {"type": "boolean"},
        "hides": {"type": "integer", "minimum": 0},
        "warnings": {"type": "array", "items": {"type": "string"}},
    },
}
_MANY: Callable[[Any], dict[str, Any]] = lambda schema: {"type": "array", "items": schema}  # noqa: E731
REFUSALS: Responses = {
    403: {
        "description": "The request needs the role responder, or comes from a page of another server.",
        "content": TEXT,
    },
    404: {"description": "There is no such alert, or no such silence.", "content": TEXT},
    409: {"description": "The state of the alert or silence does not allow it; nothing has changed.", "content": TEXT},
    422: {"description": "The body is not valid; nothing has changed.", "content": TEXT},
}

Comment = Annotated[str, Field(max_length=LONGEST_COMMENT)]


class Said(BaseModel):
    """A request body with a person's comment on an action."""

    model_config = ConfigDict(extra="forbid")
    comment: Comment = ""


class Assigned(Said):
    """A request body that names the person to whom an alert is assigned, or `null` for nobody."""

    to: Annotated[str, Field(max_length=64)] | None


class ClosedWith(Said):
    """A request body that closes an alert. The verdict is `true`, `false`, `duplicate` or `test`."""

    verdict: Annotated[str, Field(max_length=100)]


class MatcherBody(BaseModel):
    """A matcher as Alertmanager's API represents it."""

    name: Annotated[str, Field(max_length=LONGEST)]
    value: Annotated[str, Field(max_length=LONGEST)]
    isRegex: bool  # noqa: N815
    isEqual: bool = True  # noqa: N815


class Matching(BaseModel):
    """A list of matchers. Each is a text (`site=~"north.*"`) or an object."""

    matchers: Annotated[list[str | MatcherBody], Field(max_length=100)]

    def parsed(self) -> Matchers:
        """Parse the matchers. Raises CepError if a matcher is not valid."""
        matchers: list[Matcher] = []
        for matcher in self.matchers:
            if isinstance(matcher, str):
                matchers += Matchers.parse(matcher)
            else:
                sign: Any = (
                    ("=~" if matcher.isRegex else "=") if matcher.isEqual else ("!~" if matcher.isRegex else "!=")
                )
                matchers.append(Matcher(matcher.name, sign, matcher.value))
        return Matchers.of(matchers)


class Previewed(Matching):
    """A request body with the matchers of a silence that a person wants to preview."""

    model_config = ConfigDict(extra="forbid")


class NewSilence(Matching):
    """A request body that creates a silence. `startsAt` defaults to the current time."""

    id: Annotated[str, Field(max_length=100)] | None = None
    startsAt: datetime | None = None  # noqa: N815
    endsAt: datetime | None = None  # noqa: N815
    createdBy: Annotated[str, Field(max_length=200)] = ""  # noqa: N815
    comment: Comment = ""

    def made(self, by: str, now: int) -> Silence:
        """Convert the request to a silence. Raises CepError if it is not valid.

        `by`: the name of the person. `now`: the current time.
        """
        return silence(self.parsed(), _ticks(self.startsAt), _ticks(self.endsAt), by, self.comment, now)


class OwnSilence(NewSilence):
    """A request body that creates a silence, and refuses unknown fields.

    Otherwise, a misspelt `startAt` would make the silence begin at once.
    """

    model_config = ConfigDict(extra="forbid")


def _ticks(when: datetime | None) -> int | None:
    """Convert a time to microseconds since 1970. A time without time zone is in UTC."""
    if when is None:
        return None
    instant = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    seconds = (instant - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    return round(seconds * 1_000_000)


def doing(what: Callable[[], Any]) -> Any:
    """Call an action and return its result. Convert its errors to HTTPException."""
    try:
        return what()
    except Unknown as error:
        raise HTTPException(404, str(error.args[0])) from None
    except Conflict as error:
        raise HTTPException(409, str(error)) from None
    except CepError as error:
        if error.code == "failed":
            raise HTTPException(503, error.message) from None
        raise HTTPException(422, error.message + (f"; {error.hint}" if error.hint else "")) from None


def router(handling: Handling, origin: Publisher, local: bool = False, people: People | None = None) -> APIRouter:
    """Return the routes for alerts and silences.

    `local`: True if the server has no tokens and is only reachable from this machine; then every client is a responder.
    `people`: the people to whom alerts can be assigned. None means anybody.
    """
    routes = APIRouter(
        tags=["alerts"], default_response_class=Response, dependencies=[Depends(refuse_unknown_parameters)]
    )
    outbox = handling.outbox
    none = "There is no such alert."
    responder = Depends(acting(Role.RESPONDER, "handling alerts", local))

    def view(entry: OutboxEntry) -> dict[str, Any]:
        return alert_view(entry, handling, origin)

    def answered(document: object, status: int = 200) -> Response:
        return JSONResponse(document, status, headers=_SAFE)

    def ends(change: AlertChange) -> dict[str, str | None]:
        """Return two times of an alert as JSON members.

        - `over`: the end of the alert; null while the alert is open.
        - `closed`: the watermark at which a person first closed the alert; null if nobody has closed it. If the alert
          was reopened, earlier closings do not count.
        """
        life = [entry.change for entry in outbox.life(change.alert)]
        reopened = max((place for place, change in enumerate(life) if change.action == "reopened"), default=-1)
        closed = [change.time for change in life[reopened + 1 :] if change.action == "closed"]
        over = None if change.ended is None else rfc3339(change.ended)
        return {"over": over, "closed": rfc3339(closed[0]) if closed else None}

    def done(change: AlertChange) -> Response:
        entry = outbox.revision(change.alert)
        assert entry is not None, "it was written"
        return answered(view(entry))

    @routes.get("/alerts", responses=route_responses("application/json", json=_MANY(dict(_VIEW)), _422="A filter."))
    def alerts(
        state: Annotated[list[State] | None, Query(description="Default: all that are not over.")] = None,
        severity: Annotated[list[str] | None, Query(max_length=10)] = None,
        name: Annotated[list[str] | None, Query(max_length=100)] = None,
        matcher: Annotated[
            list[str] | None, Query(max_length=100, description='Matchers such as `site=~"north.*"`.')
        ] = None,
        assignee: Annotated[str | None, Query(max_length=64)] = None,
        acknowledged: Annotated[bool | None, Query()] = None,
        silenced: Annotated[bool | None, Query()] = None,
        inhibited: Annotated[bool | None, Query()] = None,
        text: Annotated[
            str | None, Query(max_length=200, description="Text to find in title, text, name or key.")
        ] = None,
        since: Annotated[datetime | None, Query(description="Only alerts that changed at or after this time.")] = None,
        before: Annotated[int | None, Query(ge=1, lt=2**62, description="Only alerts with a lower `number`.")] = None,
        limit: Annotated[int, Query(ge=1, le=10_000, description="Largest number to return.")] = 1_000,
    ) -> Response:
        """List alerts in their current state, latest change first."""
        matchers = doing(lambda: Matchers.parse_all(matcher or ()))
        unknown = [*_not_severities(severity or ()), *_not_alerts(name or (), handling), *doubts(matchers, handling)]
        if unknown:
            raise HTTPException(422, "\n".join(unknown))
        states, least = state or ["pending", "firing", "kept"], _ticks(since)
        severities = {word.lower() for word in severity or ()}
        words = (text or "").lower()

        def asked(change: AlertChange) -> bool:
            if standing(change) not in states or (severities and change.severity.lower() not in severities):
                return False
            if (name and change.name not in name) or (least is not None and change.time < least):
                return False
            for value, wanted in (
                (bool(change.acknowledged), acknowledged), (bool(change.silenced), silenced),
                (change.inhibited, inhibited),
            ):  # fmt: skip
                if wanted is not None and value is not wanted:
                    return False
            if assignee is not None and change.assignee != assignee:
                return False
            if words and words not in f"{change.title} {change.text} {change.name} {[*change.key.values()]}".lower():
                return False
            return not matchers or matchers.matches(handling.labels(change))

        views: list[dict[str, Any]] = []
        over = bool({"resolved", "withdrawn"} & {*states})
        for entry in _newest(handling, before, over):
            if asked(entry.change):
                views.append(view(entry))
                if len(views) == limit:
                    break
        return answered(views)

    @routes.get("/alerts/verdicts", responses=route_responses("application/json", json=_MANY(_ONE)))
    def verdicts(
        before: Annotated[int | None, Query(ge=1, lt=2**62)] = None,
        limit: Annotated[int, Query(ge=1, le=10_000)] = 1_000,
    ) -> Response:
        """List the alerts that have a verdict, latest change first. A backtest can use them as labels. Alerts that a
        revision withdrew are left out."""
        views = []
        for entry in _newest(handling, before, True):
            if entry.change.verdict and not entry.change.withdrawn:
                views.append(view(entry) | ends(entry.change))
                if len(views) == limit:
                    break
        return answered(views)

    @routes.get("/alerts/{alert}", responses=route_responses("application/json", json=_FULL, _404=none))
    def alert(
        alert: str,
        before: Annotated[
            int | None, Query(ge=1, lt=2**62, description="Return changes with a lower `number`.")
        ] = None,
        limit: Annotated[
            int, Query(ge=1, le=10_000, description="Return only the latest changes, at most this many.")
        ] = 1_000,
    ) -> Response:
        """Return an alert in its current state. Also return its last changes in order, including the actions of people,
        and other alerts that have the same key."""
        entry = outbox.revision(alert)
        if entry is None:
            raise HTTPException(404, "there is no such alert")
        changes = [_numbered(entry, origin) for entry in outbox.last_of(alert, before, limit)]
        others = [
            episode for episode in outbox.episodes(entry.change.slot, EPISODES + 1) if episode.change.alert != alert
        ]
        more = {
            "changes": changes,
            "actions": [change for change in changes if change["action"]],
            "episodes": [_episode(other) for other in others[:EPISODES]],
        }
        return answered(view(entry) | more)

    answers = {**route_responses("application/json", json=dict(_VIEW)), **REFUSALS}

    @routes.post("/alerts/{alert}/acknowledge", responses=answers)
    def acknowledge(alert: str, said: Said | None = None, person: Person = responder) -> Response:
        """Acknowledge an alert: it no longer escalates, and reminders stop."""
        return done(doing(lambda: handling.acknowledge(alert, person.name, (said or Said()).comment)))

    @routes.delete("/alerts/{alert}/acknowledge", responses=answers)
    def unacknowledge(alert: str, said: Said | None = None, person: Person = responder) -> Response:
        """Withdraw an acknowledgement: the alert escalates again, and reminders resume."""
        return done(doing(lambda: handling.unacknowledge(alert, person.name, (said or Said()).comment)))

    @routes.post("/alerts/{alert}/assign", responses=answers)
    def assign(alert: str, said: Assigned, person: Person = responder) -> Response:
        """Assign an alert to a person. `null` removes the assignee."""
        name = (said.to or "").strip()
        if name and people is not None and name not in people.names:
            hint = did_you_mean(name, people.names) or f"there are {', '.join(people.names[:20])}"
            raise HTTPException(422, f"nobody in the file of tokens is called `{clean(name, 40)}`; {hint}")
        return done(doing(lambda: handling.assign(alert, person.name, said.to or "", said.comment)))

    @routes.post("/alerts/{alert}/comment", responses=answers)
    def comment(alert: str, said: Said, person: Person = responder) -> Response:
        """Comment on an alert."""
        return done(doing(lambda: handling.comment(alert, person.name, said.comment)))

    @routes.post("/alerts/{alert}/close", responses=answers)
    def close(alert: str, said: ClosedWith, person: Person = responder) -> Response:
        """Close an alert with a verdict: `true`, `false`, `duplicate` or `test`."""
        return done(doing(lambda: handling.close(alert, person.name, said.verdict, said.comment)))

    @routes.delete("/alerts/{alert}/close", responses=answers)
    def reopen(alert: str, said: Said | None = None, person: Person = responder) -> Response:
        """Remove the verdict on an alert."""
        return done(doing(lambda: handling.reopen(alert, person.name, (said or Said()).comment)))

    @routes.get(
        "/silences",
        responses=route_responses("application/json", json=_MANY(_SILENCE), _422="A parameter is not known."),
    )
    def silences() -> Response:
        """List the silences and maintenance windows: active, pending, then expired ones."""
        listed, hidden = handling.silences(), handling.hidden()
        return answered([silence_view(silence, handling, hidden) for silence in listed])

    @routes.post("/silences", responses={**route_responses("application/json", json=_SILENCE), **REFUSALS})
    def silenced(new: OwnSilence, person: Person = responder) -> Response:
        """Silence alerts from now or `startsAt` until `endsAt`. With an `id`, change the silence that has this id."""

        def add() -> Silence:
            return handling.add(new.made(person.name, handling.clock()), person.name, new.id or "")

        new_silence: Silence = doing(add)
        warnings = doubts(new_silence.matchers, handling)
        return answered(silence_view(new_silence, handling, handling.hidden()) | {"warnings": warnings})

    @routes.post("/silences/preview", responses={**route_responses("application/json", json=_MANY(dict(_VIEW)))})
    def preview(asked: Previewed) -> Response:
        """List the open alerts that a silence with these matchers would hide now."""
        changes = handling.hidden_by(doing(asked.parsed))
        entries = [outbox.revision(change.alert) for change in changes]
        return answered([view(entry) for entry in entries if entry is not None])

    @routes.get(
        "/silences/{id}", responses=route_responses("application/json", json=_SILENCE, _404="There is no such silence.")
    )
    def one_silence(id: str) -> Response:
        """Return a silence."""
        return answered(silence_view(doing(lambda: handling.silence(id)), handling, handling.hidden()))

    @routes.delete("/silences/{id}", responses={**route_responses("application/json", json=_SILENCE), **REFUSALS})
    def unsilence(id: str, said: Said | None = None, person: Person = responder) -> Response:
        """End a silence now."""
        ended: Silence = doing(lambda: handling.expire(id, person.name, (said or Said()).comment))
        return answered(silence_view(ended, handling, handling.hidden()))

    @routes.get("/feeds/actions", responses=route_responses("application/json", json=_MANY(_ONE)))
    def actions(
        action: Annotated[
            list[Recorded] | None, Query(max_length=20, description="Default: all but `reminded`, the reminders.")
        ] = None,
        by: Annotated[list[str] | None, Query(max_length=100, description="Names of people.")] = None,
        alert: Annotated[list[str] | None, Query(max_length=100, description="Ids of alerts.")] = None,
        after: Annotated[int, Query(ge=0, lt=2**62, description="Return entries after this `number`.")] = 0,
        limit: Annotated[int, Query(ge=1, le=10_000, description="Largest number to return.")] = 1_000,
    ) -> Response:
        """List the actions of people, in order. `action=reminded` lists the reminders that receivers accepted."""
        recorded = outbox.actions(after, limit, action=action or DONE, person=by or (), alert=alert or ())
        return answered([action_view(recorded_action) for recorded_action in recorded])

    return routes


def _not_severities(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        if word.title() not in SEVERITIES:
            hint = did_you_mean(word, SEVERITIES) or f"use one of {', '.join(SEVERITIES)}"
            yield f"no alert has the severity `{clean(word, 40)}`; {hint}"


def _not_alerts(names: Sequence[str], handling: Handling) -> Iterator[str]:
    known = [alert.name for alert in handling.alerts if not alert.hidden]
    for name in names:
        if (
            known
            and name not in known
            and not any(entry.change.name == name for entry in _newest(handling, None, True))
        ):
            hint = did_you_mean(name, known) or f"there are {', '.join(known[:20])}"
            yield f"the program has no ALERT `{clean(name, 40)}`; {hint}"


def doubts(matchers: Matchers, handling: Handling) -> list[str]:
    """Return the reasons why matchers probably match nothing.

    The reasons are unknown severities, unknown alert names, and labels that no alert has.
    """
    texts = [matchers.doubt] if matchers.doubt else []
    if not handling.alerts:
        return texts
    texts += _not_alerts(
        [matcher.value for matcher in matchers if (matcher.name, matcher.operator) == ("alertname", "=")], handling
    )
    known = known_labels(handling.alerts, Publisher(handling.program, status=handling.status))
    if rest := [matcher.name for matcher in matchers if matcher.name not in known]:
        known |= {name for change in handling.hidden_by(Matchers()) for name in handling.labels(change)}
        for name in rest:
            if name not in known:
                hint = did_you_mean(name, sorted(known)) or f"there are {', '.join(sorted(known)[:20])}"
                texts.append(f"no alert of the program has the label `{clean(name, 40)}`; {hint}")
    return texts


def _newest(handling: Handling, before: int | None, over: bool) -> Iterator[OutboxEntry]:
    if not over:
        yield from (entry for entry in reversed(handling.outbox.live()) if before is None or entry.number < before)
        return
    while entries := handling.outbox.latest(before, _PAGE):
        yield from entries
        before = entries[-1].number


def standing(change: AlertChange) -> State:
    """Return the state of an alert after its last change `change`."""
    if change.state == "resolved":
        return "withdrawn" if change.withdrawn else "resolved"
    if change.fired is None:
        return "pending"
    return "kept" if change.keeping else "firing"


def alert_view(entry: OutboxEntry, handling: Handling, origin: Publisher) -> dict[str, Any]:
    """Return the current state of an alert as JSON. `labels` contains all labels that matchers can compare."""
    change = entry.change
    return {
        **document(change, origin.status, origin.page(change)),
        "number": entry.number,
        "state": standing(change),
        "labels": handling.labels(change),
    }


def _numbered(entry: OutboxEntry, origin: Publisher) -> dict[str, Any]:
    when = None if entry.recorded is None else rfc3339(entry.recorded)
    return {"number": entry.number, "when": when, **document(entry.change, origin.status, origin.page(entry.change))}


def _episode(entry: OutboxEntry) -> dict[str, Any]:
    change = entry.change
    return {
        "alert": change.alert,
        "state": standing(change),
        "severity": change.severity,
        "title": change.title,
        "start": rfc3339(change.start),
        "fired": None if change.fired is None else rfc3339(change.fired),
        "over": None if change.ended is None else rfc3339(change.ended),
        "occurrences": change.occurrences,
        "acknowledged": change.acknowledged,
        "verdict": change.verdict,
    }


def silence_view(silence: Silence, handling: Handling, hidden: Mapping[str, int]) -> dict[str, Any]:
    """Return a silence as JSON, with the number of open alerts that it hides now.

    `hidden`: for each silence, the number of open alerts that it hides.
    """
    more = {"maintenance": silence.maintenance, "hides": hidden.get(silence.id, 0)}
    return {**silence.document(handling.clock()), **more}


def action_view(action: RecordedAction) -> dict[str, Any]:
    """Return a recorded action as JSON."""
    return {
        "number": action.number,
        "when": rfc3339(action.recorded),
        "watermark": rfc3339(action.watermark) if action.watermark > -FARTHEST else None,
        "by": action.person,
        "action": action.action,
        "alert": action.alert,
        "silence": action.silence,
        "change": action.change,
        **action.details,
    }
