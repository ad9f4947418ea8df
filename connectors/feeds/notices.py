"""Changes of alerts as people read them, in mail and chats: a subject, plain text, HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from connectors.alerts.lifecycle import AlertChange
from connectors.alerts.outbox import Outbox
from connectors.alerts.outbox_entries import OutboxEntry
from connectors.alerts.text import at, clean, value_text
from connectors.feeds.document import Publisher

_SUBJECT = 180  # characters


def news(change: AlertChange, outbox: Outbox) -> bool:
    """Return False for what no person wants a message of: one more occurrence of an alert that they know of."""
    if change.word != "updated" or change.note or change.sent == change.revision:
        return True
    before = outbox.revision(change.alert, change.revision - 1)
    return before is None or before.change.quiet  # what they were not told of: it goes on


def subject(entries: Sequence[OutboxEntry], origin: Publisher) -> str:
    """One line; of several alerts how many, and their titles."""
    status = "" if origin.status == "Actual" else f"{origin.status}: "
    headings = list(dict.fromkeys(_heading(entry) for entry in entries))
    number = len({entry.change.alert for entry in entries})
    text = headings[0] if number == 1 and len(headings) == 1 else f"{number} alerts: {'; '.join(headings)}"
    if number == 1 and len(headings) > 1:
        text = _heading(entries[-1])
    return clean(status + text, _SUBJECT)


def plain(entries: Sequence[OutboxEntry], origin: Publisher) -> str:
    """The changes one after another, with a line between them."""
    return f"\n\n{'-' * 40}\n\n".join(_plain(entry, origin) for entry in entries) + "\n"


def html(entries: Sequence[OutboxEntry], origin: Publisher) -> str:
    """The same as a document of HTML without styles, scripts and pictures from elsewhere."""
    return (
        '<!DOCTYPE html><html><head><meta charset="utf-8"></head><body>'
        + "<hr>".join(_html(entry, origin) for entry in entries)
        + "</body></html>\n"
    )


def _heading(entry: OutboxEntry) -> str:
    change = entry.change
    if entry.reminder:
        return f"Reminder: {change.title}"
    return change.title if change.word == "firing" else f"{change.word.capitalize()}: {change.title}"


def _paragraphs(change: AlertChange) -> list[str]:
    instruction = "" if change.over else change.instruction
    said = f"{change.by}: {change.comment}" if change.by and change.comment else change.comment
    return [text for text in (said, change.note, change.text, instruction) if text and text != change.title]


def _fields(entry: OutboxEntry, origin: Publisher) -> list[tuple[str, str]]:
    """Names with values; the last ones are addresses."""
    change = entry.change
    more = [text for text in (change.certainty, change.urgency) if text != "Unknown"]
    fields = [
        ("State", change.word),
        ("Severity", change.severity + (f" ({', '.join(more)})" if more else "")),
        ("Since", _time(change.start)),
        ("Over" if change.over else "Latest", _time(change.time if change.over else change.end)),
    ]
    done = [("Acknowledged by", change.acknowledged), ("Assigned to", change.assignee), ("Verdict", change.verdict)]
    fields += [(name, text) for name, text in done if text]
    fields += [(name, value_text(value)) for name, value in (change.key | change.values).items()]  # type: ignore[operator]
    fields += [(name, text) for name, text in change.labels.items()]
    return [*fields, ("Change", change.id)]


def _addresses(change: AlertChange, origin: Publisher) -> list[tuple[str, str]]:
    return [(name, text) for name, text in (("Runbook", change.runbook), ("Alert", origin.page(change))) if text]


def _plain(entry: OutboxEntry, origin: Publisher) -> str:
    change = entry.change
    fields = [*_fields(entry, origin), *_addresses(change, origin)]
    lines = [f"{name}: {text}" for name, text in fields]
    return "\n\n".join([_heading(entry), *_paragraphs(change), "\n".join(lines)])


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
