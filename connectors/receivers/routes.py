"""Routes: a TOML file that selects the receivers of alerts, and groups the alerts into messages, as in Alertmanager."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from cep.connectors.alerts.labels import alert_labels
from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.alerts.matchers import Matchers
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.groups import Group
from cep.core.errors import CepError, reason_of
from cep.core.suggest import did_you_mean
from cep.rules.alert import Alert

WAIT, INTERVAL = 30_000_000, 300_000_000
"""The default values of `group_wait` and `group_interval` in microseconds. Alertmanager has the same defaults."""

EACH = "..."
"""The value of `group_by` that stands for all labels, so that each alert is a separate group."""

_KEYS = ("receiver", "matchers", "continue", "group_by", "group_wait", "group_interval")
_UNITS = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "min": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_PART = re.compile(r"(\d{1,9})\s*(ms|s|min|m|h|d)\s*")
_LONGEST = 30 * _UNITS["d"]
_EXAMPLE = """`[receivers]` with `on-call = "smtp://..."`, then `[[routes]]` with `receiver = "on-call"`"""
_USUAL = ("alertname", "severity", "program", "urgency", "certainty", "status")


@dataclass(frozen=True, slots=True)
class Route:
    """A rule that sends matching alerts to a receiver.

    - `goes_on`: True if an alert that matches this route is also compared with later routes.
    - `group_by`: the labels by which alerts are grouped. None means all labels.
    - `wait`, `interval`: the delays of `Group`, in microseconds.
    - `grouped`: True if the file sets group options for this route.
    """

    receiver: str
    matchers: Matchers = field(default_factory=Matchers)
    goes_on: bool = False
    group_by: tuple[str, ...] | None = ()
    wait: int = WAIT
    interval: int = INTERVAL
    grouped: bool = False

    def group(self, labels: Mapping[str, str]) -> Group:
        """Return the group to which this route assigns an alert that has these labels."""
        names = sorted(labels) if self.group_by is None else self.group_by
        values = {name: labels.get(name, "") for name in names}
        return Group(json.dumps([self.receiver, str(self.matchers), values]), self.wait, self.interval)


@dataclass(frozen=True)
class Routes:
    """The routes in a file. `receivers`: the addresses of each receiver, written as in `--feed`.

    An alert takes the first matching route. If this route has `continue`, the alert is also compared with later routes.
    If the severity of an alert rises, later changes are also sent to its earlier receivers. So all receivers are
    notified of its end.
    """

    receivers: Mapping[str, tuple[str, ...]]
    routes: tuple[Route, ...]
    file: Path = Path()

    @classmethod
    def read(cls, file: Path) -> Routes:
        """Read the routes in a file. Raises CepError if the file cannot be read, or if its routes are not valid."""
        where = f"--routes {file}"
        try:
            document = tomllib.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise _wrong(f"{where}: {reason_of(error)}", "a file in TOML") from None
        except ValueError as error:
            raise _wrong(f"{where}: {error}", "use a TOML file in UTF-8") from None
        for name in document.keys() - {"receivers", "routes"}:
            hint = did_you_mean(name, ("receivers", "routes")) or f"it has {_EXAMPLE}"
            raise _wrong(f"{where}: `{name}` is not known", hint)
        receivers = _receivers(where, document.get("receivers"))
        tables = document.get("routes")
        if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
            raise _wrong(f"{where}: the routes are missing", f"it has {_EXAMPLE}")
        routes = tuple(_route(f"{where}, route {n}", table, receivers) for n, table in enumerate(tables, 1))
        for name in receivers.keys() - {route.receiver for route in routes}:
            hint = (
                f'add a route; without matchers it receives all other alerts: `[[routes]]` with `receiver = "{name}"`'
            )
            raise _wrong(f"{where}: no route leads to the receiver `{name}`", hint)
        return cls(receivers, routes, file)

    def reached(self, labels: Mapping[str, str]) -> Iterator[Route]:
        """Yield the routes that an alert takes. `labels`: the labels of the alert."""
        for route in self.routes:
            if route.matchers.matches(labels):
                yield route
                if not route.goes_on:
                    return

    def for_people(self, receiver: str) -> bool:
        """Return True if a receiver is for people and is sent messages about groups of alerts."""
        return any(text.startswith(("smtp", "apprise")) for text in self.receivers[receiver])

    def of(self, receiver: str, origin: Publisher) -> ReceiverRoutes:
        return ReceiverRoutes(self, receiver, origin)

    def check_names(self, alerts: Sequence[Alert], origin: Publisher) -> None:
        """Check the labels that routes use. Raises CepError for a label that no alert of the program has."""
        known = known_labels(alerts, origin)
        for number, route in enumerate(self.routes, 1):
            asked = [matcher.name for matcher in route.matchers]
            for name in (*asked, *(route.group_by or ())):
                if alerts and name not in known:
                    hint = did_you_mean(name, sorted(known)) or f"there are {', '.join(sorted(known))}"
                    where = f"--routes {self.file}, route {number}"
                    raise _wrong(f"{where}: no alert of the program has the label `{name}`", hint)


class ReceiverRoutes:
    """The routes to one receiver. They determine the changes that it is sent, and the groups of these changes."""

    def __init__(self, routes: Routes, receiver: str, origin: Publisher) -> None:
        self._routes, self._receiver, self._origin = routes, receiver, origin
        self._route = lru_cache(maxsize=4096)(self._found)

    def wants(self, change: AlertChange) -> bool:
        return self._route(*_identity(change)) is not None

    def group(self, change: AlertChange) -> Group:
        route_group = self._route(*_identity(change))
        assert route_group is not None, "it is wanted"
        return route_group

    def _found(self, change: _Labelled, severities: tuple[str, ...]) -> Group | None:
        """Return the group of an alert at its current severity. Return None if the receiver is not sent the alert.

        `severities`: the severities that the alert has had. If no route leads from the current severity to the
        receiver, earlier severities are tried, latest first.
        """
        for severity in reversed(severities):
            labels = change.labels(severity, self._origin)
            for route in self._routes.reached(labels):
                if route.receiver == self._receiver:
                    return route.group(labels)
        return None


@dataclass(frozen=True, slots=True)
class _Labelled:
    """A cache key for the labels of an alert. Two objects are equal if they have the same alert id."""

    change: AlertChange = field(compare=False, hash=False)
    alert: str

    def labels(self, severity: str, origin: Publisher) -> dict[str, str]:
        return alert_labels(replace(self.change, severity=severity), origin.title, origin.status)


def _identity(change: AlertChange) -> tuple[_Labelled, tuple[str, ...]]:
    severities = change.severities[: change.escalated + 1] or [change.severity]
    return _Labelled(change, change.alert), tuple(severities)


def known_labels(alerts: Iterable[Alert], origin: Publisher) -> set[str]:
    """Return the names of all labels that alerts of a program can have."""
    return {name for alert in alerts for name in possible_labels(alert, alert.severity, origin)} | {*_USUAL}


def possible_labels(alert: Alert, severity: str, origin: Publisher) -> dict[str, str | None]:
    """Return the labels that an alert has at a severity. A value that depends on the occurrence is None."""
    names = dict.fromkeys(alert.keys)
    labels = {name: _value(template) for name, template in alert.labels}
    some = AlertChange(
        alert="", revision=0, state="firing", time=0, name=alert.name, event=alert.event, slot="", severity=severity,
        category=alert.category, title="", text="", start=0, end=0, until=0, occurrences=1, first="", last="",
        key={name: f"{_OPEN}{name}" for name in names}, urgency=alert.urgency, certainty=alert.certainty, labels=labels,
    )  # fmt: skip
    known = alert_labels(some, origin.title, origin.status)
    return {name: None if value.startswith(_OPEN) else value for name, value in known.items()}


_OPEN = "\0"  # the prefix of a text for an unknown value of an event


def _value(template: Sequence[str | tuple[str]]) -> str:
    if all(isinstance(piece, str) for piece in template):
        return "".join(piece for piece in template if isinstance(piece, str))
    return _OPEN + "".join(piece if isinstance(piece, str) else piece[0] for piece in template)


def _receivers(where: str, table: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(table, dict) or not table:
        raise _wrong(f"{where}: the receivers are missing", f"it has {_EXAMPLE}")
    receivers = {}
    for name, value in table.items():
        feeds = [value] if isinstance(value, str) else value
        if not isinstance(feeds, list) or not feeds or not all(isinstance(feed, str) for feed in feeds):
            hint = f'`{name} = "smtp://mail.example.org/team@example.org"`, or a list of such addresses'
            raise _wrong(f"{where}: the receiver `{name}` is not an address", hint)
        receivers[name] = tuple(feeds)
    return receivers


def _route(where: str, table: Mapping[str, Any], receivers: Mapping[str, object]) -> Route:
    for name in table:
        if name not in _KEYS:
            raise _wrong(f"{where}: `{name}` is not known", did_you_mean(name, _KEYS) or f"it has {', '.join(_KEYS)}")
    receiver = table.get("receiver")
    if not isinstance(receiver, str):
        raise _wrong(f"{where}: the route has no receiver", '`receiver = "on-call"`')
    if receiver not in receivers:
        hint = did_you_mean(receiver, receivers) or f"there are {', '.join(receivers)}"
        raise _wrong(f"{where}: there is no receiver `{receiver}`", hint)
    goes_on = table.get("continue", False)
    if not isinstance(goes_on, bool):
        raise _wrong(f"{where}: `continue` is neither true nor false", "`continue = true`")
    texts = table.get("matchers", [])
    group_by = table.get("group_by", [])
    for name, value in (("matchers", texts), ("group_by", group_by)):
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            example = """`matchers = ['team="water"']`""" if name == "matchers" else '`group_by = ["alertname"]`'
            raise _wrong(f"{where}: `{name}` is not a list of texts", example)
    try:
        matchers = Matchers.parse_all(texts)
    except CepError as error:
        raise _wrong(f"{where}: {error.message}", error.hint) from None
    if matchers.doubt:
        raise _wrong(f"{where}: {matchers.doubt}", None)
    return Route(
        receiver,
        matchers,
        goes_on,
        None if EACH in group_by else tuple(dict.fromkeys(group_by)),
        _duration(where, table, "group_wait", WAIT, 0),
        _duration(where, table, "group_interval", INTERVAL, _UNITS["s"]),
        any(name.startswith("group_") for name in table),
    )


def _duration(where: str, table: Mapping[str, Any], name: str, usual: int, least: int) -> int:
    text = table.get(name)
    if text is None:
        return usual
    parts = _PART.findall(text) if isinstance(text, str) else []
    total = sum(int(number) * _UNITS[unit] for number, unit in parts)
    if not parts or _PART.sub("", text) or not least <= total <= _LONGEST:
        hint = f'`{name} = "{"30s" if name == "group_wait" else "5m"}"`; from {"1s" if least else "0s"} to 30d'
        raise _wrong(f"{where}: `{name}`: `{text}` is not a valid duration", hint)
    return total


def _wrong(message: str, hint: str | None) -> CepError:
    return CepError(message, hint=hint, code="routes")


# --- what a program's alerts reach ---


def lines(routes: Routes, alerts: Iterable[Alert], origin: Publisher, write: Callable[[int], str]) -> list[str]:
    """Return lines of text that list the receivers of each alert of a program.

    `write`: a function that formats a duration.
    """
    lines: list[str] = []
    lost: list[str] = []
    for alert in alerts:
        if alert.hidden:
            continue
        words = [(alert.severity, 0), *alert.escalations]
        lines.append(f"{alert.name}: " + ", ".join(w + (f" after {write(t)}" if t else "") for w, t in words))
        told: dict[str, list[tuple[str, str]]] = {}  # the conditions and groups up to this severity, by receiver
        certain = ""  # the severity from which on it certainly reaches a receiver
        for number, (severity, _) in enumerate(words):
            rows, all_go = _reach(routes, possible_labels(alert, severity, origin))
            certain = certain or (severity if all_go else "")
            reached: dict[str, list[tuple[str, str]]] = {}
            for route, condition in rows:
                own = reached.setdefault(route.receiver, [])
                if any(before in ("", condition) for before, _ in own):
                    continue  # the first route that leads to a receiver counts
                groups = _groups(route, write) if routes.for_people(route.receiver) else ""
                own.append((condition, groups))
                if not {(condition, groups), ("", groups)} & {*told.get(route.receiver, ())}:
                    when = "" if not number else f"from {severity} on"
                    row = "  ".join(cell for cell in (route.receiver, when, condition, groups) if cell)
                    lines.append(f"  {row}")
            for receiver, own in reached.items():
                replaced = {condition for condition, _ in own}
                rest = [] if "" in replaced else [line for line in told.get(receiver, ()) if line[0] not in replaced]
                told[receiver] = [*own, *rest]
        if not told:
            lost.append(alert.name)
            lines.append("  reaches no receiver")
        elif certain != alert.severity:
            until = f" until {certain}" if certain else ""
            lines.append(f"  no receiver{until}, unless an `if` above is true")
    if lost:
        lines.append(f"{', '.join(lost)}: {'reaches' if len(lost) == 1 else 'reach'} no receiver")
    return lines


def unreached(routes: Routes, alerts: Iterable[Alert], origin: Publisher) -> list[str]:
    """Return the names of the alerts that are sent to no receiver, whatever the values of their attributes are."""
    return [
        alert.name
        for alert in alerts
        if not alert.hidden
        and not any(
            _reach(routes, possible_labels(alert, word, origin))[0]
            for word in (alert.severity, *(word for word, _ in alert.escalations))
        )
    ]


def _reach(routes: Routes, labels: Mapping[str, str | None]) -> tuple[list[tuple[Route, str]], bool]:
    """Return the routes that an alert may take, each with its condition as text. Also return True if the alert takes at
    least one route in any case.

    `labels`: the labels of the alert. The value of a label is None if it depends on the occurrence.
    """
    reached: list[tuple[Route, str]] = []
    certain = False
    before = False
    for route in routes.routes:
        asked = [matcher for matcher in route.matchers if matcher.name in labels and labels[matcher.name] is None]
        rest = Matchers.of(matcher for matcher in route.matchers if matcher not in asked)
        if not rest.matches({name: value for name, value in labels.items() if value is not None}):
            continue
        conditions = [f"if {', '.join(map(str, asked))}"] if asked else []
        conditions += ["otherwise"] if before and not asked else []
        reached.append((route, " ".join(conditions)))
        if not asked:
            certain = True
            if not route.goes_on:
                return reached, True
        elif not route.goes_on:
            before = True
    return reached, certain


def _groups(route: Route, write: Callable[[int], str]) -> str:
    by = "each alert" if route.group_by is None else ", ".join(route.group_by) or "all together"
    return f"[{by}; wait {write(route.wait)}, then every {write(route.interval)}]"
