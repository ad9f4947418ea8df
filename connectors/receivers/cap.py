"""Messages of the Common Alerting Protocol 1.2 (OASIS, July 2010). An Alert message is sent when an alert fires, Update
messages follow, and a Cancel message is sent at its end.

The time of a message is the wall-clock time when its change was added to the outbox, so it does not depend on the
request. Receivers also expire messages by the wall clock. In event time, an alert stays open for a certain duration
after its last occurrence. The message expires when the same duration has passed since the message's time.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import OutboxEntry
from cep.connectors.alerts.text import JsonValue, at, value_text
from cep.connectors.receivers.document import Publisher, shown_values

TYPE = "application/cap+xml; charset=utf-8"

WITHDRAWN = "The rules have changed, so this alert was withdrawn; the condition that it warned of may continue."


def message(outbox: Outbox, origin: Publisher, alert: str, revision: int | None = None) -> bytes | None:
    """Return the message for a change, or None if receivers are not sent the change.

    `revision`: the number of the change within its alert; None means the latest change.
    """
    entry = outbox.revision(alert, revision)
    if revision is None:
        entry = _sent_last(outbox, entry)
    if entry is None or _unsaid(entry) or entry.change.sent is None:
        return None
    first, number = entry.change.sent, entry.change.revision
    before = {} if number <= first else {first: outbox.revision(alert, first)}
    if number > first and (last := _sent_last(outbox, outbox.revision(alert, number - 1))) is not None:
        before[last.change.revision] = last
    return to_xml(entry, origin, [earlier for earlier in before.values() if earlier is not None])


def _sent_last(outbox: Outbox, entry: OutboxEntry | None) -> OutboxEntry | None:
    """Return the last change of an alert that has a message. Only `entry` and the changes before it are considered."""
    while entry is not None and _unsaid(entry):
        number = entry.change.revision - 1
        entry = outbox.revision(entry.change.alert, number) if number >= (entry.change.sent or 0) else None
    return entry


def _unsaid(entry: OutboxEntry) -> bool:
    """Return True if a change has no message. This is the case if receivers are not sent the change, or if the change
    only records an action of a person."""
    return entry.change.quiet or entry.change.remark


def to_xml(entry: OutboxEntry, origin: Publisher, before: Sequence[OutboxEntry]) -> bytes:
    """Return the message for a change as XML.

    `before`: the alert's first message and the previous message. The new message references both.
    """
    change, sent = entry.change, _sent(entry)
    root = ET.Element("alert", {"xmlns": "urn:oasis:names:tc:emergency:cap:1.2"})
    _text(root, "identifier", change.id)
    _text(root, "sender", origin.sender)
    _text(root, "sent", _time(sent))
    _text(root, "status", origin.status)
    _text(root, "msgType", "Cancel" if change.over else "Update" if before else "Alert")
    _text(root, "source", origin.title)
    _text(root, "scope", "Public")
    if note := change.note or (WITHDRAWN if change.withdrawn else ""):
        _text(root, "note", note)
    if before:
        references = (f"{origin.sender},{earlier.change.id},{_time(_sent(earlier))}" for earlier in before)
        _text(root, "references", " ".join(references))
    _info(root, change, origin, sent)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def _sent(entry: OutboxEntry) -> int:
    return entry.change.time if entry.recorded is None else entry.recorded


def _info(root: ET.Element, change: AlertChange, origin: Publisher, sent: int) -> None:
    over = change.over and not change.withdrawn
    info = ET.SubElement(root, "info")
    _text(info, "category", change.category)
    _text(info, "event", change.name.replace("_", " "))
    if over:
        _text(info, "responseType", "AllClear")
    _text(info, "urgency", "Past" if over else change.urgency)
    _text(info, "severity", change.severity)
    _text(info, "certainty", change.certainty)
    _text(info, "effective", _time(sent))
    _text(info, "onset", _time(change.start))
    _text(info, "expires", _time(max(change.until, sent + change.until - change.end)))
    _text(info, "senderName", origin.speaker)
    _text(info, "headline", change.title)
    _text(info, "description", change.text or change.title)
    if change.instruction and not over:
        _text(info, "instruction", change.instruction)
    page = origin.page(change)
    if change.runbook or page:
        _text(info, "web", change.runbook or page)
    more: list[tuple[str, JsonValue]] = [("occurrences", change.occurrences)]
    more += [("page", page)] if change.runbook and page else []
    for name, text in (*shown_values(change), *((name, value_text(value)) for name, value in more)):
        parameter = ET.SubElement(info, "parameter")
        _text(parameter, "valueName", name)
        _text(parameter, "value", text)
    area = ET.SubElement(info, "area")
    _text(area, "areaDesc", ", ".join(value_text(value) for value in change.key.values()) or change.title)
    for polygon in change.place.get("polygons", ()):
        _text(area, "polygon", " ".join(f"{_degrees(lat)},{_degrees(long)}" for lat, long in polygon))
    if circle := change.place.get("circle"):
        lat, long, metres = circle
        _text(area, "circle", f"{_degrees(lat)},{_degrees(long)} {_degrees(metres / 1000)}")


def _time(ticks: int) -> str:
    """Return a time in the format of CAP: UTC, to the second."""
    return at(ticks).isoformat(timespec="seconds").removesuffix("+00:00")[:19] + "-00:00"


def _degrees(number: float) -> str:
    return f"{number:.6f}".rstrip("0").rstrip(".")


def _text(parent: ET.Element, name: str, text: str) -> None:
    ET.SubElement(parent, name).text = text
