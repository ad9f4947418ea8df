"""`/api/v2`: the API of Alertmanager, for clients such as amtool, Grafana and karma. Clients cannot create alerts,
because rules derive them.

The schema is `api/v2/openapi.yaml` of Alertmanager 0.34, with the fields that are required since version 0.28.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Response
from starlette.responses import JSONResponse

from cep.connectors.alerts.handling import Conflict, Handling, Unknown
from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.alerts.matchers import IGNORE_CASE, Matcher, Matchers
from cep.connectors.alerts.outbox_entries import OutboxEntry
from cep.connectors.alerts.silences import Silence
from cep.connectors.alerts.text import rfc3339
from cep.connectors.receivers.alertmanager import starts_at
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.routes import EACH, Route, Routes
from cep.connectors.serving.alerts import NewSilence, doing
from cep.connectors.serving.openapi import TEXT, Responses, route_responses
from cep.connectors.serving.people import Person, Role, acting
from cep.core.errors import CepError
from cep.rules.alert import Inhibitor

OPEN_FOR = 300 * 1_000_000
"""The API states that an open alert ends this many microseconds later. Clients ask again before that time."""

NOBODY = "nobody"
"""The name of the only receiver if the server sends no alerts."""

Yes = Annotated[bool, Query()]
Filter = Annotated[list[str] | None, Query(max_length=100, description='Matchers, as `site=~"north.*"`.')]
_LIST = {"type": "array", "items": {"type": "object"}}
_STRING = {"application/json": {"schema": {"type": "string"}}}
_BAD: Responses = {400: {"description": "A filter or a silence is not valid.", "content": _STRING}}


def router(
    handling: Handling,
    origin: Publisher,
    routes: Routes | None = None,
    inhibitors: Mapping[str, Inhibitor | None] | None = None,
    feeds: Sequence[str] = (),
    local: bool = False,
) -> APIRouter:
    """Return the routes of the API.

    - `routes`: the configuration that assigns alerts to receivers. If it is None, every receiver gets all alerts,
      grouped by name.
    - `inhibitors`: for each alert name, the inhibitor of these alerts.
    - `feeds`: the receivers that get all alerts in addition to those of `routes`.
    - `local`: True if the server has no tokens and is only reachable from this machine. Then every client may create
      silences.
    """
    api = APIRouter(prefix="/api/v2", tags=["alertmanager"], default_response_class=Response)
    responder = Depends(acting(Role.RESPONDER, "silencing alerts", local))
    outbox, begun = handling.outbox, time.time_ns() // 1000

    def names() -> list[str]:
        if routes is not None:
            return [*routes.receivers, *feeds]
        return [status.name for status in outbox.statuses() if outbox.serves(status.name)] or [NOBODY]

    def sent_to(labels: Mapping[str, str]) -> list[tuple[str, dict[str, str]]]:
        """Return the receivers of an alert that has these labels. Each receiver has the labels of the group in which it
        receives the alert."""
        if routes is None:
            return [(name, {"alertname": labels["alertname"]}) for name in names()]
        receivers = {name: {"alertname": labels["alertname"]} for name in feeds}
        for route in routes.reached(labels):
            by = sorted(labels) if route.group_by is None else route.group_by
            receivers.setdefault(route.receiver, {name: labels.get(name, "") for name in by})
        return [*receivers.items()]

    def inhibited_by(change: AlertChange, firing: Sequence[AlertChange]) -> list[str]:
        """Return the fingerprints of the alerts that inhibit an alert. `change`: the alert's last change.

        The result is the name of the inhibitor if it is a fluent or a hidden alert, the text "inhibited" if the
        inhibitor is unknown, and an empty list if the alert is not inhibited.
        """
        inhibitor = (inhibitors or {}).get(change.name)
        if not change.inhibited or inhibitor is None:
            return ["inhibited"] if change.inhibited else []
        wanted = {mine: change.key.get(own) for mine, own in inhibitor.equal} | dict(inhibitor.values)
        sources_of = [
            fingerprint(change)
            for change in firing
            if change.name == inhibitor.alert and all(change.key.get(name) == value for name, value in wanted.items())
        ]
        return sources_of or [inhibitor.alert]

    def listed(
        filters: list[str] | None,
        receiver: str | None,
        receiver_matchers: list[str] | None,
        active: bool,
        silenced: bool,
        inhibited: bool,
    ) -> list[tuple[dict[str, Any], list[tuple[str, dict[str, str]]]]]:
        """Return the firing alerts that match the filters, and the receivers of each alert."""
        matchers = _parsed(filters)
        if not _parsed(receiver_matchers).matches({}):  # receivers have no labels
            return []
        chosen = Matchers.of([] if receiver is None else [Matcher("receiver", "=~", receiver)])
        entries = [entry for entry in outbox.live() if not entry.change.over]
        firing = [entry.change for entry in entries]
        alerts: list[tuple[dict[str, Any], list[tuple[str, dict[str, str]]]]] = []
        for entry in entries:
            change = entry.change
            labels = handling.labels(change)
            hidden = bool(change.silenced) or change.inhibited
            if not matchers.matches(labels) or (not hidden and not active):
                continue
            if (change.silenced and not silenced) or (change.inhibited and not inhibited):
                continue
            sent = [receiver for receiver in sent_to(labels) if chosen.matches({"receiver": receiver[0]})]
            if receiver is None or sent:
                alert = _alert(entry, labels, origin, handling.clock(), inhibited_by(change, firing))
                alerts.append((alert | {"receivers": [{"name": name} for name, _ in sent]}, sent))
        return alerts

    alerts_of = {**route_responses("application/json", json=_LIST), **_BAD}

    @api.get("/alerts", responses=alerts_of)
    def alerts(
        filter: Filter = None,
        receiver: Annotated[str | None, Query(max_length=1_000)] = None,
        receiver_matchers: Filter = None,
        active: Yes = True,
        silenced: Yes = True,
        inhibited: Yes = True,
        unprocessed: Yes = True,
    ) -> Response:
        """List the firing alerts."""
        return _answered(
            lambda: [alert for alert, _ in listed(filter, receiver, receiver_matchers, active, silenced, inhibited)]
        )

    @api.get("/alerts/groups", responses=alerts_of)
    def groups(
        filter: Filter = None,
        receiver: Annotated[str | None, Query(max_length=1_000)] = None,
        receiver_matchers: Filter = None,
        active: Yes = True,
        silenced: Yes = True,
        inhibited: Yes = True,
        muted: Yes = True,
    ) -> Response:
        """List the firing alerts by receiver and group. `muted=false` leaves out each group in which all alerts are
        silenced or inhibited."""

        def shown() -> list[dict[str, Any]]:
            by_group: dict[tuple[str, str], dict[str, Any]] = {}
            for alert, sent in listed(filter, receiver, receiver_matchers, active, silenced, inhibited):
                for name, labels in sent:
                    group = {"labels": dict(labels), "routeLabels": {}, "receiver": {"name": name}, "alerts": []}
                    by_group.setdefault((name, json.dumps(dict(labels), sort_keys=True)), group)["alerts"].append(alert)
            groups = [by_group[key] for key in sorted(by_group)]
            return [group for group in groups if muted or not all(map(_suppressed, group["alerts"]))]

        return _answered(shown)

    @api.get("/silences", responses={**route_responses("application/json", json=_LIST), **_BAD})
    def silences(
        filter: Filter = None,
        creator: Annotated[list[str] | None, Query(max_length=100)] = None,
        active: Yes = True,
        pending: Yes = True,
        expired: Yes = True,
    ) -> Response:
        """List silences and maintenance windows."""
        now, asked = handling.clock(), {"active": active, "pending": pending, "expired": expired}

        def shown() -> list[dict[str, Any]]:
            matchers = _parsed(filter)
            return [
                _silence(silence, now)
                for silence in handling.silences()
                if matchers.matches({matcher.name: matcher.value for matcher in silence.matchers})
                and (not creator or silence.author in creator)
                and asked[silence.state(now)]
            ]

        return _answered(shown)

    @api.post(
        "/silences",
        responses={
            **route_responses("application/json", json={"type": "object"}),
            **_BAD,
            403: {
                "description": "The request needs the role responder, or comes from a page of another server.",
                "content": TEXT,
            },
            404: {"description": "There is no silence of this id.", "content": _STRING},
        },
    )
    def silence(new: NewSilence, person: Person = responder) -> Response:
        """Create a silence. With an `id`, change the silence that has this id."""

        def add() -> Silence:
            said = new.createdBy.strip()
            known = said in ("", person.name) or said.endswith(f" ({person.name})")
            author = (said or person.name) if known else f"{said} ({person.name})"
            return handling.add(new.made(author, handling.clock()), person.name, new.id or "")

        try:
            return JSONResponse({"silenceID": add().id})
        except Unknown as error:
            return JSONResponse(str(error.args[0]), 404)
        except Conflict as error:
            return JSONResponse(str(error), 400)
        except CepError as error:
            if error.code == "failed":
                raise HTTPException(503, error.message) from None
            return JSONResponse(error.message + (f"; {error.hint}" if error.hint else ""), 400)

    silence_responses = {
        **route_responses("application/json", json={"type": "object"}, _404="There is no silence of this id.")
    }

    @api.get("/silence/{id}", responses=silence_responses)
    def one_silence(id: str) -> Response:
        """Return one silence."""
        return JSONResponse(_silence(doing(lambda: handling.silence(id)), handling.clock()))

    @api.delete(
        "/silence/{id}",
        responses={
            **silence_responses,
            403: {
                "description": "The request needs the role responder, or comes from a page of another server.",
                "content": TEXT,
            },
            500: {"description": "The silence has ended, or is a maintenance window.", "content": _STRING},
        },
    )
    def expire(id: str, person: Person = responder) -> Response:
        """End a silence now."""
        try:
            handling.expire(id, person.name)
        except Conflict as error:  # clients accept no other status here
            return JSONResponse(str(error), 500)
        except Unknown as error:
            return JSONResponse(str(error.args[0]), 404)
        return JSONResponse({})

    @api.get("/receivers", responses={**route_responses("application/json", json=_LIST), **_BAD})
    def receivers(receiver_matchers: Filter = None) -> Response:
        """List the receivers of alerts."""
        return _answered(lambda: [{"name": name} for name in names()] if _parsed(receiver_matchers).matches({}) else [])

    @api.get("/status", responses=route_responses("application/json", json={"type": "object"}))
    def status() -> Response:
        """Return the server's version and start time. `config` contains the receivers and their routes."""
        build = dict.fromkeys(("revision", "buildUser", "buildDate", "goVersion"), "")
        return JSONResponse(
            {
                "cluster": {"status": "disabled", "name": origin.title, "peers": []},
                "versionInfo": {"version": _version(), "branch": "semcep", **build},
                "config": {"original": _config(names(), routes)},
                "uptime": rfc3339(begun),
            }
        )

    return api


def fingerprint(change: AlertChange) -> str:
    """Return the 16 hexadecimal digits that identify an alert in Alertmanager's API."""
    return change.alert[:16]


def _alert(
    entry: OutboxEntry, labels: Mapping[str, str], origin: Publisher, now: int, inhibited_by: list[str]
) -> dict[str, Any]:
    change = entry.change
    annotations = {"summary": change.title, "description": change.text or change.title, "alert": change.alert}
    for name, text in (
        ("instruction", change.instruction), ("runbook_url", change.runbook), ("note", change.note),
        ("acknowledged_by", change.acknowledged), ("assignee", change.assignee), ("verdict", change.verdict),
    ):  # fmt: skip
        if text:
            annotations[name] = text
    state = "suppressed" if change.silenced or inhibited_by else "active"
    document: dict[str, Any] = {
        "labels": dict(labels),
        "annotations": annotations,
        "startsAt": starts_at(change, now),
        "endsAt": rfc3339(max(change.until, now + OPEN_FOR)),
        "updatedAt": rfc3339(change.time if entry.recorded is None else entry.recorded),
        "fingerprint": fingerprint(change),
        "status": {"state": state, "silencedBy": list(change.silenced), "inhibitedBy": inhibited_by, "mutedBy": []},
    }
    return document | ({"generatorURL": page} if (page := origin.page(change)) else {})


def _parsed(filters: list[str] | None) -> Matchers:
    return Matchers.parse_all(filters or ())


def _answered(answers: Callable[[], list[dict[str, Any]]]) -> Response:
    """Call `answers`, and return its list as a response.

    If a filter is not valid, return status 400 and the reason as a JSON string, as Alertmanager does.
    """
    try:
        return JSONResponse(answers())
    except CepError as error:
        return JSONResponse(error.message + (f"; {error.hint}" if error.hint else ""), 400)


def _suppressed(alert: Mapping[str, Any]) -> bool:
    return bool(alert["status"]["state"] == "suppressed")


def _silence(silence: Silence, now: int) -> dict[str, Any]:
    return silence.document(now) | {"annotations": {}}


def _config(receivers: Sequence[str], routes: Routes | None) -> str:
    """Write receivers and routes as a configuration of Alertmanager.

    Receivers without a route get all alerts. If there are no receivers, all alerts go to NOBODY.
    """
    routed = () if routes is None else routes.receivers
    everything = [name for name in receivers if name not in routed and name != NOBODY]
    below: list[dict[str, Any]] = [{"receiver": name, "continue": True} for name in everything]
    below += [] if routes is None else [_route(route) for route in routes.routes]
    route = {"receiver": NOBODY, "group_by": ["alertname"], "routes": below}
    receivers = [*receivers, NOBODY] if NOBODY not in receivers else receivers
    lines = [f"route: {json.dumps(route)}", "receivers:", *(f"- name: {json.dumps(name)}" for name in receivers)]
    return "\n".join(lines) + "\n"


def _route(route: Route) -> dict[str, Any]:
    document: dict[str, Any] = {"receiver": route.receiver, "continue": route.goes_on}
    if route.matchers:
        document["matchers"] = [str(_exact(matcher)) for matcher in route.matchers]
    document["group_by"] = [EACH] if route.group_by is None else [*route.group_by]
    return document | {"group_wait": f"{route.wait // 1000}ms", "group_interval": f"{max(route.interval // 1000, 1)}ms"}


def _exact(matcher: Matcher) -> Matcher:
    """Return a case-sensitive matcher that matches the same labels as `matcher`. This server ignores case in some
    labels, but Alertmanager does not."""
    if matcher.name not in IGNORE_CASE:
        return matcher
    value = f"(?i:{matcher.value})" if matcher.operator in ("=~", "!~") else matcher.value.lower()
    return Matcher(matcher.name, matcher.operator, value)


def _version() -> str:
    try:
        return version("semcep")
    except PackageNotFoundError:
        return "0"
