"""Texts about changes of alerts for mail and chats. They consist of a subject, and of a body as plain text or HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape

from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import OutboxEntry
from cep.connectors.alerts.text import at, clean, value_text
from cep.connectors.receivers.document import Publisher
from cep.rules.alert import SEVERITIES

_SUBJECT = 180  # characters
_ASIDES = ("updated", "commented", "assigned")


def news(change: AlertChange, outbox: Outbox) -> bool:
    """Return True if people are notified of a change. They are not notified of further occurrences of an open alert."""
    if change.word != "updated" or change.note or change.sent == change.revision:
        return True
    before = outbox.revision(change.alert, change.revision - 1)
    return before is None or before.change.quiet  # receivers were not notified of the alert before


def as_people_know_it(entry: OutboxEntry, outbox: Outbox) -> OutboxEntry:
    """Return a change in the form that people are sent.

    If the alert escalated while it was inhibited or silenced, nobody was notified of this. Then the next change that
    people are sent appears as the escalation.
    """
    change = entry.change
    if change.word not in ("updated", "unsilenced") or not change.escalated or change.sent == change.revision:
        return entry
    before = next(outbox.loud(change.alert, change.revision), None)
    if before is None or before.change.escalated >= change.escalated:
        return entry
    return replace(entry, change=replace(change, state="escalated", action=""))


def subject(entries: Sequence[OutboxEntry], origin: Publisher) -> str:
    """Return a subject line that names the most severe open alert by its state, severity and title."""
    status = "" if origin.status == "Actual" else f"{origin.status}: "
    first, *others = (_heading(_turn(own)) for own in _by_alert(entries))
    more = f"; {len(others)} more: {'; '.join(dict.fromkeys(others))}" if others else ""
    return clean(status + first + more, _SUBJECT)


def plain(entries: Sequence[OutboxEntry], origin: Publisher, safe: Callable[[str], str] = str) -> str:
    """Return a plain text that has one section per alert. The section lists the alert's changes.

    `safe`: a function that escapes texts for a service. Addresses are not escaped.
    """
    line = f"\n\n{'-' * 40}\n\n"
    return line.join(_plain(entry, origin, safe) for own in _by_alert(entries) for entry in own) + "\n"


def plain_body(entry: OutboxEntry, origin: Publisher, safe: Callable[[str], str] = str) -> str:
    """Return the text of one change without its heading, because the title of the message is the heading."""
    return _plain(entry, origin, safe, headed=False) + "\n"


def html(entries: Sequence[OutboxEntry], origin: Publisher) -> str:
    """Return the changes as an HTML document, without styles, scripts or remote images."""
    return (
        '<!DOCTYPE html><html><head><meta charset="utf-8"></head><body>'
        + "<hr>".join(_html(entry, origin) for own in _by_alert(entries) for entry in own)
        + "</body></html>\n"
    )


def _by_alert(entries: Sequence[OutboxEntry]) -> list[list[OutboxEntry]]:
    """Group changes by alert. The most severe open alert comes first, and resolved alerts come last."""
    alerts: dict[str, list[OutboxEntry]] = {}
    for entry in entries:
        alerts.setdefault(entry.change.alert, []).append(entry)

    def order(own: Sequence[OutboxEntry]) -> tuple[bool, int, bool]:
        turn = _turn(own)
        return (
            turn.change.over,
            SEVERITIES.index(turn.change.severity),
            _word(turn.change) not in ("escalated", "firing"),
        )

    return sorted(alerts.values(), key=order)


def _turn(own: Sequence[OutboxEntry]) -> OutboxEntry:
    """Return the change that best describes an alert. `own`: the changes of the alert.

    If the alert has ended, this is its last change. Otherwise, it is the last change that does more than add details.
    """
    if own[-1].change.over:
        return own[-1]
    return next((entry for entry in reversed(own) if _word(entry.change) not in _ASIDES), own[-1])


def _word(change: AlertChange) -> str:
    """Return the word for a change. The first sent change is called firing, unless the alert has ended."""
    return "firing" if change.sent == change.revision and not change.over else change.word


def _heading(entry: OutboxEntry) -> str:
    change = entry.change
    if change.over:
        return f"{change.word.capitalize()}: {change.title}"
    word = _word(change)
    if word == "escalated" and not entry.reminder:
        return f"Escalated to {change.severity}: {change.title}"
    if word == "kept" and not entry.reminder:
        return f"Condition has ended, alert still open ({change.severity}): {change.title}"
    return f"{'Reminder' if entry.reminder else word.capitalize()} ({change.severity}): {change.title}"


def _paragraphs(change: AlertChange) -> list[str]:
    instruction = "" if change.over else change.instruction
    said = f"{change.by}: {change.comment}" if change.by and change.comment else change.comment
    return [text for text in (said, change.note, change.text, instruction) if text and text != change.title]


def _fields(entry: OutboxEntry, origin: Publisher) -> list[tuple[str, str]]:
    """Return names and values that describe a change. Values that are addresses come last."""
    change = entry.change
    more = [text for text in (change.certainty, change.urgency) if text != "Unknown"]
    over = change.time if change.ended is None else change.ended
    latest = over if change.over else change.end
    word = _word(change)
    fields = [
        ("State", f"kept open until {_time(change.until)}" if word == "kept" else word),
        ("Severity", change.severity + (f" ({', '.join(more)})" if more else "")),
        ("Since", _time(change.start)),
        *([("Fired", _time(change.fired))] if change.fired is not None and change.fired > change.start else []),
        ("Over" if change.over else "Latest", _time(latest)),
    ]
    done = [("Acknowledged by", change.acknowledged), ("Assigned to", change.assignee), ("Verdict", change.verdict)]
    fields += [(name, text) for name, text in done if text]
    fields += [(name, value_text(value)) for name, value in (change.key | change.values).items()]  # type: ignore[operator]
    fields += [field for field in change.labels.items() if field not in fields]
    return [*fields, ("Change", change.id)]


def _addresses(change: AlertChange, origin: Publisher) -> list[tuple[str, str]]:
    return [(name, text) for name, text in (("Runbook", change.runbook), ("Alert", origin.page(change))) if text]


def _plain(entry: OutboxEntry, origin: Publisher, safe: Callable[[str], str], headed: bool = True) -> str:
    change = entry.change
    lines = [safe(f"{name}: {text}") for name, text in _fields(entry, origin)]
    lines += [f"{name}: {text}" for name, text in _addresses(change, origin)]
    paragraphs = [*([_heading(entry)] if headed else []), *_paragraphs(change)]
    return "\n\n".join([*map(safe, paragraphs), "\n".join(lines)])


def _html(entry: OutboxEntry, origin: Publisher) -> str:
    change = entry.change
    rows = [
        f'<tr><th align="left">{escape(name)}</th><td>{escape(text)}</td></tr>' for name, text in _fields(entry, origin)
    ]
    rows += [
        f'<tr><th align="left">{name}</th><td><a href="{escape(text)}">{escape(text)}</a></td></tr>'
        for name, text in _addresses(change, origin)
        if text.startswith(("https://", "http://"))
    ]
    paragraphs = "".join(f"<p>{escape(text)}</p>" for text in _paragraphs(change))
    return f"<h2>{escape(_heading(entry))}</h2>{paragraphs}<table>{''.join(rows)}</table>"


def _time(ticks: int) -> str:
    return at(ticks).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00") + " UTC"
