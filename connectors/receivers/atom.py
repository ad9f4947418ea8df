"""Atom feeds (RFC 4287) with archives (RFC 5005). `prev-archive` links lead from the newest document to all others."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from xml.etree import ElementTree as ET

from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import OutboxEntry
from cep.connectors.alerts.text import rfc3339
from cep.connectors.receivers.document import Publisher, shown_values

PAGE = 100
"""The number of entries in each archive document. The newest document has at most this number of entries."""

TYPE = "application/atom+xml; charset=utf-8"


def newest_document(outbox: Outbox, origin: Publisher, feed: str = "") -> bytes:
    """Return the newest document of a feed, to which clients subscribe. `feed`: its name in links to archives."""
    last = outbox.last
    pages = last // PAGE
    entries = outbox.between(last - PAGE + 1, last)
    links = {"self": "atom", "prev-archive": _at(pages, feed) if _whole(outbox, pages) else None}
    return _feed(entries, origin, outbox.id, links, False)


def archive(outbox: Outbox, origin: Publisher, page: int, feed: str = "") -> bytes | None:
    """Return an archive document. Return None if the document is not full yet or no longer kept.

    `page`: the number of the document, 1 for the oldest. The contents do not depend on the time of the request. The
    document links to the previous document even if the previous document is no longer kept, so that a client that reads
    everything notices the gap. It does not link to the next document, which may not exist yet.
    """
    if page * PAGE > outbox.last:
        return None
    entries = outbox.between((page - 1) * PAGE + 1, page * PAGE)
    if not _whole(outbox, page):  # checked last, because older entries may be removed at any time
        return None
    links = {"self": _at(page, feed), "current": "atom", "prev-archive": _at(page - 1, feed) if page > 1 else None}
    return _feed(entries, origin, outbox.id, links, True)


def _whole(outbox: Outbox, page: int) -> bool:
    return page >= 1 and (page - 1) * PAGE + 1 >= outbox.first


def _at(page: int, feed: str) -> str:
    return f"atom?page={page}" + (f"&of={feed}" if feed else "")


def _feed(
    entries: Sequence[OutboxEntry], origin: Publisher, id: str, links: dict[str, str | None], archived: bool
) -> bytes:
    """Return a feed document.

    - `id`: the id of the outbox, which makes the id of the feed unique.
    - `links`: the addresses of links, by relation.
    - `archived`: True if the document is an archive document.
    """
    root = ET.Element(
        "feed", {"xmlns": "http://www.w3.org/2005/Atom", "xmlns:fh": "http://purl.org/syndication/history/1.0"}
    )
    _text(root, "id", f"urn:uuid:{id}")
    _text(root, "title", f"Alerts of {origin.title}")
    _text(root, "updated", rfc3339(max((entry.change.time for entry in entries), default=0)))
    _text(ET.SubElement(root, "author"), "name", origin.speaker)
    _text(root, "generator", "semcep")
    if archived:
        ET.SubElement(root, "fh:archive")
    for rel, href in links.items():
        if href is not None:
            ET.SubElement(root, "link", {"rel": rel, "href": href, "type": "application/atom+xml"})
    for entry in reversed(entries):
        _entry(root, entry, origin)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def _entry(root: ET.Element, entry: OutboxEntry, origin: Publisher) -> None:
    """Add an entry for a change of an alert to a feed.

    If the change is a revision that withdraws the alert, the entry has the same id as the entry for the alert's first
    change. So clients replace that entry.
    """
    change = entry.change
    element = ET.SubElement(root, "entry")
    taken_back = change.withdrawn and bool(change.note)
    _text(element, "id", f"{origin.base}alert/{change.alert}/{0 if taken_back else change.revision}")
    state = change.word
    title = f"{change.title} ({state})" if state != "firing" else change.title
    _text(element, "title", title if origin.status == "Actual" else f"{origin.status}: {title}")
    _text(element, "updated", rfc3339(change.time))
    if not taken_back:
        _text(element, "published", rfc3339(change.time))
    for scheme, term in (
        ("state", change.state), ("action", change.action), ("status", origin.status), ("severity", change.severity),
        ("urgency", change.urgency), ("certainty", change.certainty), ("alert", change.name),
    ):  # fmt: skip
        if term:
            ET.SubElement(element, "category", {"term": term, "scheme": f"{origin.base}{scheme}"})
    if not (change.quiet or change.remark):
        cap = {"rel": "alternate", "type": "application/cap+xml", "href": f"cap/{change.alert}/{change.revision}"}
        ET.SubElement(element, "link", cap)
    if page := origin.page(change):
        ET.SubElement(element, "link", {"rel": "alternate", "type": "text/html", "href": page})
    if change.runbook:
        ET.SubElement(element, "link", {"rel": "related", "title": "Runbook", "href": change.runbook})
    if change.text:
        _text(element, "summary", change.text, type="text")
    fields = [("severity", change.severity), ("urgency", change.urgency), ("certainty", change.certainty)]
    fields += [("since", rfc3339(change.start)), ("until", rfc3339(change.until))]
    done = [
        ("acknowledged by", change.acknowledged), ("assigned to", change.assignee), ("verdict", change.verdict),
    ]  # fmt: skip
    fields += [(name, text) for name, text in done if text]
    fields += shown_values(change)
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in fields)
    instruction = f"<p>{escape(change.instruction)}</p>" if change.instruction and not change.over else ""
    reason = f"<p>{escape(change.note)}</p>" if change.note else ""
    if change.action:
        said = f": {change.comment}" if change.comment else ""
        more = {
            "assigned": f" to {change.assignee}" if change.assignee else " to nobody",
            "closed": f" as {change.verdict}",
        }
        what = change.action + more.get(change.action, "")
        reason += f"<p>{escape(f'{what} by {change.by}{said}')}</p>"
    body = f"{reason}<p>{escape(change.text or change.title)}</p>{instruction}<dl>{rows}</dl>"
    _text(element, "content", body, type="html")


def _text(parent: ET.Element, name: str, text: str, **attributes: str) -> None:
    ET.SubElement(parent, name, attributes).text = text
