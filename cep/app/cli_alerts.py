"""The commands `cep alerts ...`, with which people handle the alerts of a server from a terminal."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from textwrap import wrap
from typing import Annotated, Any, ClassVar
from urllib.parse import quote, urlencode

import typer
from typer import Argument, Option

from cep.app import completions
from cep.app.cli_help import Commands, Sectioned
from cep.app.command_line import takes
from cep.app.durations import duration, refuse
from cep.app.server_client import TokenFile, ask, plain, token_of
from cep.app.terminal import complain, say
from cep.core.errors import CepError
from cep.core.suggest import did_you_mean
from cep.rules.alert import SEVERITIES

WIDTH = 80
"""The greatest number of characters in a line of a table."""

_FIRST = 8  # characters of an id that are shown
_MOST = 10_000  # alerts that a server lists at a time
_STATES = ("pending", "firing", "kept", "resolved", "withdrawn")
_VERDICTS = ("true", "false", "duplicate", "test")

handling = typer.Typer(
    cls=Commands,
    add_completion=False,
    help="Work with the alerts of a server.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Ids = Annotated[
    tuple[str, ...], Argument(metavar="ALERT", help="Id of the alert, or its first characters, as `list` shows it.")
]
Id = Annotated[str, Argument(metavar="ALERT", help="Id of the alert, or its first characters, as `list` shows it.")]
Comment = Annotated[str, Option("--comment", "-m", metavar="TEXT", help="Text of the comment.")]
Json = Annotated[bool, Option("--json", help="Print JSON instead of a table.")]
Matchers = Annotated[
    tuple[str, ...], Option("--matcher", metavar="MATCHER", help='As `site=north` or `site=~"n.*"`. Repeatable.')
]
Expressions = Annotated[tuple[str, ...], Argument(metavar="MATCHER", help='As `site=north` or `site=~"n.*"`.')]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A connection to a server, with the user's token."""

    PANEL: ClassVar = "Server"

    server: Annotated[
        str | None,
        Option(
            metavar="URL", help="Address of the server. Default: the variable CEP_SERVER, else http://127.0.0.1:8000."
        ),
    ] = None
    token_file: TokenFile = None

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send a request, and return the server's answer. Raises CepError if the server does not answer or refuses."""
        address = self.server or os.environ.get("CEP_SERVER") or "http://127.0.0.1:8000"
        answer = ask(address, path, token_of(self.token_file), body, option="--server ", method=method)
        try:
            return json.loads(answer)
        except ValueError as error:
            raise CepError(f"{address}: {error}", hint="say where `cep serve` runs with `--server URL`") from None

    def alert(self, begin: str) -> str:
        """Return the id of the alert whose id begins with `begin`. Raises CepError unless exactly one alert matches."""
        if len(begin) == 32:
            return begin
        for states in (("pending", "firing", "kept"), ("resolved", "withdrawn")):
            every = self.ask("GET", f"alerts?{urlencode([('state', state) for state in states])}&limit=10000")
            ids = [alert["alert"] for alert in every if alert["alert"].startswith(begin.lower())]
            if ids:
                return _one("alert", begin, ids)
        raise CepError(
            f"no alert has an id that begins with `{plain(begin)}`", hint="`cep alerts list --all` lists every alert"
        )

    def verdicts(self) -> list[dict[str, Any]]:
        """Return all closed alerts, sorted by the time of their last change."""
        closed: list[dict[str, Any]] = []
        before = ""
        while page := self.ask("GET", f"alerts/verdicts?limit=1000{before}"):
            closed += page
            before = f"&before={page[-1]['number']}"
        return closed[::-1]

    def silence(self, begin: str) -> str:
        """Return the id of the silence whose id begins with `begin`. Raises CepError unless there is exactly one."""
        if len(begin) == 36:
            return begin
        ids = [silence["id"] for silence in self.ask("GET", "silences") if silence["id"].startswith(begin.lower())]
        if not ids:
            raise CepError(
                f"no silence has an id that begins with `{plain(begin)}`", hint="`cep alerts silences` lists them"
            )
        return _one("silence", begin, ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    to: Connection
    state: Annotated[
        tuple[str, ...],
        Option(
            metavar="STATE",
            autocompletion=completions.one_of(*_STATES),
            help="Show alerts in this state: pending, firing, kept, resolved or withdrawn. Repeatable. Default: all "
            "that are not over.",
        ),
    ] = ()
    all: Annotated[bool, Option("--all", help="Include alerts that are over.")] = False
    severity: Annotated[
        tuple[str, ...], Option(metavar="SEVERITY", help="Show alerts of this severity, e.g. Severe. Repeatable.")
    ] = ()
    name: Annotated[tuple[str, ...], Option(metavar="NAME", help="The name of an ALERT. Repeatable.")] = ()
    matcher: Matchers = ()
    assignee: Annotated[str | None, Option(metavar="NAME", help="Show alerts assigned to this person.")] = None
    limit: Annotated[int, Option(metavar="N", min=1, max=_MOST, help="Largest number of alerts to list.")] = 100
    json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions:
    alert: Id
    to: Connection
    json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AckOptions:
    alerts: Ids
    to: Connection
    comment: Comment = ""
    undo: Annotated[bool, Option("--undo", help="Take the acknowledgement back; the alert escalates again.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignOptions:
    alert: Id
    person: Annotated[str, Argument(metavar="NAME", help="The person to assign it to; `-` for nobody.")]
    to: Connection
    comment: Comment = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentOptions:
    alert: Id
    text: Annotated[str, Argument(metavar="TEXT", help="Text of the comment.")]
    to: Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseOptions:
    alert: Id
    to: Connection
    verdict: Annotated[
        str | None,
        Argument(
            metavar="VERDICT", autocompletion=completions.one_of(*_VERDICTS), help="true, false, duplicate or test."
        ),
    ] = None
    comment: Comment = ""
    undo: Annotated[bool, Option("--undo", help="Take the verdict back.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceOptions:
    matchers: Expressions
    to: Connection
    span: Annotated[str | None, Option("--for", metavar="DURATION", help="Duration of the silence: 30m, 2h.")] = None
    begin: Annotated[
        str | None, Option("--from", metavar="TIME", help="Start of the silence: 2026-12-01T06:00Z. Default: now.")
    ] = None
    until: Annotated[str | None, Option("--until", metavar="TIME", help="End of the silence, instead of --for.")] = None
    comment: Comment = ""
    preview: Annotated[
        bool, Option("--preview", help="List the alerts that it would hide, and do not silence them.")
    ] = False
    json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SilencesOptions:
    to: Connection
    all: Annotated[bool, Option("--all", help="Include those that have ended.")] = False
    json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsilenceOptions:
    silences: Annotated[
        tuple[str, ...], Argument(metavar="SILENCE", help="Id of the silence, or its first characters.")
    ]
    to: Connection
    comment: Comment = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictsOptions:
    to: Connection
    name: Annotated[tuple[str, ...], Option(metavar="NAME", help="The name of an ALERT. Repeatable.")] = ()
    all: Annotated[
        bool, Option("--all", help="Print every verdict, in the column `verdict`. Default: only alerts that were true.")
    ] = False
    json: Json = False


@takes(ListOptions)
def list_(options: ListOptions) -> None:
    """List alerts: the most severe first, and of these the newest.

    \b
      cep alerts list --severity Severe
      cep alerts list --all --matcher site=north --json
    """
    for word in options.state:
        _one_of("state", word, _STATES)
    for word in options.severity:
        _one_of("severity", word.title(), SEVERITIES)
    fields: list[tuple[str, str]] = [("state", state) for state in options.state or (_STATES if options.all else ())]
    fields += [("severity", severity) for severity in options.severity] + [("name", name) for name in options.name]
    fields += [("matcher", matcher) for matcher in options.matcher]
    if options.assignee is not None:
        fields.append(("assignee", options.assignee))
    every = options.to.ask("GET", f"alerts?{urlencode([*fields, ('limit', str(_MOST))])}")
    every.sort(key=lambda change: change["number"], reverse=True)
    every.sort(key=lambda alert: alert["start"], reverse=True)
    every.sort(key=lambda alert: SEVERITIES.index(alert["severity"]))
    alerts = every[: options.limit]
    nothing = "no alert matches" if fields else "no alerts are open"
    say(_json(alerts) if options.json else _alerts(alerts, nothing))
    if len(alerts) < len(every):
        more = " or more" if len(every) == _MOST else ""
        complain(f"{len(alerts):,} of {len(every):,}{more} shown; `--limit N` shows more")


@takes(ShowOptions)
def show(options: ShowOptions) -> None:
    """Show one alert: its state and values, its history, and who did what.

    \b
      cep alerts show 89e505a4
    """
    alert = options.to.ask("GET", f"alerts/{quote(options.to.alert(options.alert))}")
    say(_json(alert) if options.json else _shown(alert))


@takes(AckOptions)
def ack(options: AckOptions) -> None:
    """Acknowledge alerts: you take charge of them, and they stop escalating.

    \b
      cep alerts ack 89e505a4 -m "on my way"
    """
    for begin in options.alerts:
        path = f"alerts/{quote(options.to.alert(begin))}/acknowledge"
        alert = options.to.ask("DELETE" if options.undo else "POST", path, {"comment": options.comment})
        _said(alert, "no longer acknowledged" if options.undo else f"acknowledged by {plain(alert['acknowledged'])}")


@takes(AssignOptions)
def assign(options: AssignOptions) -> None:
    """Assign an alert to somebody.

    \b
      cep alerts assign 89e505a4 ben
    """
    to = None if options.person == "-" else options.person
    body = {"to": to, "comment": options.comment}
    alert = options.to.ask("POST", f"alerts/{quote(options.to.alert(options.alert))}/assign", body)
    _said(alert, f"assigned to {plain(alert['assignee']) or 'nobody'}")


@takes(CommentOptions)
def comment(options: CommentOptions) -> None:
    """Comment on an alert.

    \b
      cep alerts comment 89e505a4 "pump 2 runs again"
    """
    if not options.text.strip():
        raise refuse("TEXT is empty", 'e.g. `cep alerts comment 89e505a4 "pump 2 runs again"`')
    path = f"alerts/{quote(options.to.alert(options.alert))}/comment"
    _said(options.to.ask("POST", path, {"comment": options.text}), "comment added")


@takes(CloseOptions)
def close(options: CloseOptions) -> None:
    """Close an alert: say whether it was true, false, a duplicate or a test.

    \b
      cep alerts close 89e505a4 false -m "a boat"
    """
    if options.undo:
        if options.verdict is not None:
            raise refuse("--undo cannot be combined with a VERDICT", "use `cep alerts close 89e505a4 --undo`")
        path = f"alerts/{quote(options.to.alert(options.alert))}/close"
        _said(options.to.ask("DELETE", path, {"comment": options.comment}), "no longer closed")
        return
    if options.verdict is None:
        raise refuse("VERDICT is missing", "use `cep alerts close 89e505a4 true`, or `--undo` instead of a verdict")
    _one_of("verdict", options.verdict, _VERDICTS)
    body = {"verdict": options.verdict, "comment": options.comment}
    alert = options.to.ask("POST", f"alerts/{quote(options.to.alert(options.alert))}/close", body)
    _said(alert, f"closed as {alert['verdict']}")


@takes(SilenceOptions)
def silence(options: SilenceOptions) -> None:
    """Silence the alerts whose labels match.

    \b
      cep alerts silence alertname=flood 'site=~"n.*"' --for 2h -m "new pump"
      cep alerts silence site=north --preview
    """
    if options.preview:
        fields = [("matcher", matcher) for matcher in options.matchers] + [("limit", str(_MOST))]
        alerts = options.to.ask("GET", f"alerts?{urlencode(fields)}")
        say(_json(alerts) if options.json else _alerts(alerts, "no open alert matches"))
        return
    if (options.span is None) == (options.until is None):
        raise refuse("a silence needs either --for or --until", "use `--for 2h`, or `--until 2026-12-01T06:00Z`")
    begin = None if options.begin is None else _time(options.begin, "--from")
    if options.until is not None:
        end = _time(options.until, "--until")
    else:
        end = (begin or datetime.now(UTC)) + timedelta(microseconds=duration(_minutes(options.span or ""), "--for"))
    for time, option in ((begin, "--from"), (datetime.now(UTC), "now")):
        if time is not None and end <= time:
            past = "in the past" if option == "now" else f"not after {option} {options.begin}"
            raise refuse(
                f"{'--for' if options.until is None else '--until'}: the silence ends {past}", "use a later end"
            )
    body = {"matchers": [*options.matchers], "endsAt": end.isoformat(), "comment": options.comment}
    if begin is not None:
        body["startsAt"] = begin.isoformat()
    created = options.to.ask("POST", "silences", body)
    hides = f"{created['hides']} open alert{'s' * (created['hides'] != 1)}"
    effect = f"it hides {hides} now"
    if created["status"]["state"] == "pending":
        effect = f"it begins at {_minute(created['startsAt'])}"
    text = f"{created['id']}\nuntil {_minute(created['endsAt'])}; {effect}"
    say(_json(created) if options.json else text)
    for warning in created.get("warnings", []):
        complain(f"warning: {plain(warning)}")


@takes(SilencesOptions)
def silences(options: SilencesOptions) -> None:
    """List silences and maintenance windows.

    \b
      cep alerts silences --all
    """
    listed = [
        silence
        for silence in options.to.ask("GET", "silences")
        if options.all or silence["status"]["state"] != "expired"
    ]
    if options.json:
        say(_json(listed))
        return
    rows = [
        (
            silence["id"][:_FIRST], silence["status"]["state"], _short(silence["startsAt"]), _short(silence["endsAt"]),
            silence["createdBy"], f"{_matchers(silence['matchers'])} {silence['comment']}",
        )
        for silence in listed
    ]  # fmt: skip
    say(_table(("id", "state", "from", "until", "by", "what"), rows, "nothing is silenced"))


@takes(UnsilenceOptions)
def unsilence(options: UnsilenceOptions) -> None:
    """End silences.

    \b
      cep alerts unsilence 7d48114e
    """
    for begin in options.silences:
        path = f"silences/{quote(options.to.silence(begin))}"
        answer = options.to.ask("DELETE", path, {"comment": options.comment})
        say(f"{answer['id']} has ended")


@takes(VerdictsOptions)
def verdicts(options: VerdictsOptions) -> None:
    """Print closed alerts as the labels of a backtest (CSV): those that were true.

    \b
      cep alerts verdicts --name flood > labels.csv
      cep backtest rules.cep -i history.parquet --labels labels.csv --detect flood --key site

    `cep backtest --labels server:http://host:8000` reads them directly.
    """
    closed = [
        alert
        for alert in options.to.verdicts()
        if (options.all or alert["verdict"] == "true") and (not options.name or alert["name"] in options.name)
    ]
    if options.json:
        say(_json(closed))
        return
    keys = sorted({name for verdict in closed for name in verdict["key"]})
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["start", "end", *keys, "alert", *(["verdict"] if options.all else [])])
    for verdict in closed:
        cells = ["" if verdict["key"].get(name) is None else verdict["key"][name] for name in keys]
        rows.writerow(
            [
                verdict["start"],
                label_end(verdict),
                *cells,
                verdict["name"],
                *([verdict["verdict"]] if options.all else []),
            ]
        )
    say(text.getvalue().rstrip("\n"))
    if len({tuple(verdict["key"]) for verdict in closed}) > 1:
        names = sorted({verdict["name"] for verdict in closed})
        complain(
            "warning: these alerts have different keys, and an empty cell stands for every key: write a file for each "
            f"alert, with {', '.join(f'`--name {plain(name)}`' for name in names)}"
        )


def label_end(alert: dict[str, Any]) -> str:
    """Return the end of the label for a closed alert: the time at which the alert ended or, if it had not ended, the
    watermark at which a person closed it."""
    return str(alert["over"] or max(alert["end"], alert["closed"]))


for _command, _name in (
    (list_, "list"), (show, "show"), (ack, "ack"), (assign, "assign"), (comment, "comment"), (close, "close"),
    (silence, "silence"), (silences, "silences"), (unsilence, "unsilence"), (verdicts, "verdicts"),
):  # fmt: skip
    handling.command(_name, cls=Sectioned)(_command)


# --- what is printed ---


def _one(what: str, begin: str, ids: Sequence[str]) -> str:
    if len(ids) > 1:
        hint = "more characters of: " + ", ".join(matching[: len(begin) + 4] for matching in ids[:5])
        raise CepError(f"{len(ids)} {what}s have an id that begins with `{plain(begin)}`", hint=hint)
    return ids[0]


def _one_of(what: str, word: str, words: Sequence[str]) -> None:
    if word not in words:
        hint = did_you_mean(word, words) or f"it is one of {', '.join(words)}"
        raise refuse(f"`{plain(word)}` is not a {what}", hint)


def _time(text: str, option: str) -> datetime:
    """Parse the time in an option's value. A time without an offset is in UTC."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise refuse(f"{option}: `{text}` is not a valid time", "e.g. 2026-12-01T06:00Z") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _minutes(span: str) -> str:
    """Replace the unit `m` of a duration, which amtool and routes use for minutes, by `min`."""
    return re.sub(r"(?<=\d)(\s*)m$", r"\1min", span.strip())


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


def _short(time: str) -> str:
    return f"{time[5:10]} {time[11:16]}"


def _minute(time: str) -> str:
    return f"{time[:10]} {time[11:16]} UTC"


def _moment(time: str) -> str:
    return f"{time[:10]} {time[11:19]} UTC"


def _second(time: str) -> str:
    return f"{time[5:10]} {time[11:19]}"


def _matchers(matchers: Iterable[dict[str, Any]]) -> str:
    signs = {(True, False): "=", (True, True): "=~", (False, False): "!=", (False, True): "!~"}
    return ",".join(
        f'{matcher["name"]}{signs[matcher["isEqual"], matcher["isRegex"]]}"{matcher["value"]}"' for matcher in matchers
    )


def _said(alert: dict[str, Any], what: str) -> None:
    say(f"{alert['alert'][:_FIRST]} {plain(alert['title'])}: {what}")


def _state(alert: dict[str, Any]) -> str:
    """Return the state of an alert, or the reason why its receivers are not notified at present."""
    if alert["state"] in ("firing", "kept"):
        for word in ("inhibited", "silenced"):
            if alert[word]:
                return word
    return "acknowledged" if alert["state"] == "firing" and alert["acknowledged"] else str(alert["state"])


def _who(alert: dict[str, Any]) -> str:
    words = [alert["acknowledged"]] if alert["acknowledged"] else []
    if alert["assignee"] and alert["assignee"] != alert["acknowledged"]:
        words.append(f"for {alert['assignee']}")
    return ", ".join(words) or "-"


def _alerts(alerts: Sequence[dict[str, Any]], nothing: str) -> str:
    rows = []
    for alert in alerts:
        what = f"[{alert['verdict']}] {alert['title']}" if alert["verdict"] else alert["title"]
        rows.append(
            (alert["alert"][:_FIRST], alert["severity"], _state(alert), _short(alert["start"]), _who(alert), what)
        )
    return _table(("id", "severity", "state", "since UTC", "who", "what"), rows, nothing)


def _table(head: Sequence[str], rows: Sequence[Sequence[object]], nothing: str) -> str:
    """Format a table that is at most WIDTH characters wide. Cells of the last column are cut to fit. Earlier columns
    are cut only if they are very long."""
    if not rows:
        return nothing
    texts = [[plain(cell) for cell in row] for row in rows]
    widths = [min(14, max(len(row[place]) for row in (head, *texts))) for place in range(len(head) - 1)]
    last = max(16, WIDTH - sum(widths) - 2 * len(widths))

    def line(row: Sequence[str]) -> str:
        cells = [_cut(text, width).ljust(width) for text, width in zip(row, widths)]
        return "  ".join([*cells, _cut(row[-1], last)]).rstrip()

    return "\n".join(map(line, (head, *texts)))


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _shown(alert: dict[str, Any]) -> str:
    values = {name: value for name, value in alert["values"].items() if name not in alert["key"]}
    facts = [
        ("alert", alert["alert"]), ("state", f"{_state(alert)}, {alert['severity']}"),
        ("since", _moment(alert["start"])),
        ("fired", _moment(alert["fired"]) if alert["fired"] and alert["fired"] > alert["start"] else ""),
        ("over", _moment(alert["over"]) if alert["over"] else ""), ("text", alert["text"]),
        ("instruction", alert["instruction"]), ("key", _named(alert["key"])), ("values", _named(values)),
        ("labels", _named(alert["labels"])), ("acknowledged", alert["acknowledged"]),
        ("assigned to", alert["assignee"]), ("verdict", alert["verdict"]), ("runbook", alert["runbook"]),
        ("page", alert["link"]),
    ]  # fmt: skip
    lines = [plain(alert["title"])]
    for name, value in facts:
        parts = wrap(plain(value), WIDTH - 16, break_long_words=False, break_on_hyphens=False)
        lines += [f"  {name if not number else '':<14}{part}" for number, part in enumerate(parts)]
    lines.append("")
    rows = []
    for change in alert["changes"]:
        said = f": {change['comment']}" if change["comment"] else ""
        recorded, moment = _second(change["when"]) if change["when"] else "-", ""
        if change["action"]:
            more = {"assigned": f" to {change['assignee'] or 'nobody'}", "closed": f" as {change['verdict']}"}
            what = f"{change['action']}{more.get(change['action'], '')} by {change['by']}{said}"
        else:
            moment, what = _second(change["time"]), f"{change['state']}, {change['severity']}"
        rows.append((recorded, moment, what))
    if alert["changes"] and alert["changes"][0]["revision"]:
        rows.insert(0, ("…", "", f"{alert['changes'][0]['revision']:,} earlier changes are not listed"))
    lines.append(_table(("recorded UTC", "event time", "what happened"), rows, "nothing"))
    if alert["episodes"]:
        before = [
            (
                episode["alert"][:_FIRST],
                episode["state"],
                _short(episode["start"]),
                episode["verdict"] or "-",
                episode["title"],
            )
            for episode in alert["episodes"]
        ]
        lines += ["", _table(("also", "state", "since UTC", "verdict", "what"), before, "")]
    return "\n".join(lines)


def _named(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={'unknown' if value is None else value}" for name, value in values.items())
