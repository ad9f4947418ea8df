"""Alerts in CAP: the schema of OASIS, references to messages before, times and senders."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from lxml import etree

from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import OutboxEntry
from cep.connectors.receivers import atom, cap
from cep.connectors.receivers.document import Publisher, own_name, sender
from cep.core.errors import CepError
from tests.alert_feeds import CAP, ORIGIN, SCHEMA, WHOLE, client_of, filled


def test_cap_messages_are_valid_and_refer_to_those_before() -> None:
    shapes = {"circle": [40.7, -74.2, 40_000.0], "polygons": [[[0.0, 1e-7], [0.0, 2.0], [1.0, 2.0], [0.0, 1e-7]]]}
    placed = [replace(change, place=shapes, text="") for change in WHOLE]
    client = client_of(filled(placed))
    for change in placed:
        answer = client.get(f"/feeds/cap/{change.alert}/{change.revision}")
        assert answer.headers["content-type"] == "application/cap+xml; charset=utf-8"
        message = etree.fromstring(answer.content)
        SCHEMA.assertValid(message)
        kind = {"firing": "Alert", "updated": "Update", "resolved": "Cancel"}[change.state]
        assert message.findtext("c:msgType", namespaces=CAP) == kind
        received = (message.findtext("c:references", namespaces=CAP) or "").split()
        assert len(received) == min(change.revision, 2)
        if received:
            sender, identifier, sent = received[-1].split(",")
            before = etree.fromstring(client.get(f"/feeds/cap/{change.alert}/{change.revision - 1}").content)
            assert [sender, identifier, sent] == [
                before.findtext(f"c:{name}", namespaces=CAP) for name in ("sender", "identifier", "sent")
            ]
        assert message.findtext(".//c:circle", namespaces=CAP) == "40.7,-74.2 40"
        assert message.findtext(".//c:polygon", namespaces=CAP) == "0,0 0,2 1,2 0,0"
    latest = etree.fromstring(client.get(f"/feeds/cap/{WHOLE[0].alert}").content)
    assert latest.findtext("c:msgType", namespaces=CAP) == "Cancel"
    for path in ("cap/" + "0" * 32, f"cap/{WHOLE[0].alert}/99", f"cap/{WHOLE[0].alert}/-1", "alerts/x"):
        assert client.get(f"/feeds/{path}").status_code == 404


def test_cap_of_the_largest_times() -> None:
    far = replace(WHOLE[0], time=2**62, end=2**62, until=2**62 + 5, start=-(2**62))
    SCHEMA.assertValid(etree.fromstring(cap.to_xml(OutboxEntry(1, far), ORIGIN, [])))
    SCHEMA.assertValid(etree.fromstring(cap.to_xml(OutboxEntry(1, far, 2**62), ORIGIN, [])))


def test_cap_goes_by_the_clock_and_says_who_and_whether_it_is_meant(tmp_path: Path) -> None:
    """Of a storm in 1970 that is told of now: it is in force, as long as its alert lasts. The same after a restart."""
    path, before = tmp_path / "alerts.db", int(time.time())
    origin = Publisher("p.cep", sender=sender("alerts@example.org"), status="Exercise")
    with closing(Outbox(path)) as outbox:
        outbox.begin({"storm": "one"})
        outbox.add(WHOLE[:1], {"one": 0})
        outbox.begin({"storm": "other"})
        messages = [cap.message(outbox, origin, WHOLE[0].alert, number) for number in (0, 1)]
        feed = outbox.id
    with closing(Outbox(path)) as outbox, closing(Outbox(None)) as elsewhere:
        assert [cap.message(outbox, origin, WHOLE[0].alert, number) for number in (0, 1)] == messages
        assert outbox.id == feed != elsewhere.id
        assert outbox.remembered("sender", own_name("urn:x:")) == outbox.remembered("sender", "another@host"), (
            "that of the start"
        )
        assert f"urn:uuid:{feed}".encode() in atom.newest_document(outbox, origin)
        assert b"Exercise: Strong wind (withdrawn)" in atom.newest_document(outbox, origin)
    fired, gone = (etree.fromstring(message or b"") for message in messages)

    def said(message: etree._Element, name: str) -> str:
        return str(message.findtext(f".//c:{name}", namespaces=CAP))

    for message in (fired, gone):
        SCHEMA.assertValid(message)
        sent, expires = (datetime.fromisoformat(said(message, name)).timestamp() for name in ("sent", "expires"))
        assert before <= sent <= time.time() and expires == sent + 3
        assert (said(message, "status"), said(message, "sender")) == ("Exercise", "alerts@example.org")
        assert said(message, "onset") == "1970-01-01T00:00:00-00:00" and said(message, "effective") == said(
            message, "sent"
        )
    assert (
        said(gone, "msgType") == "Cancel"
        and said(gone, "responseType") == "None"
        and said(gone, "urgency") == "Unknown"
    )
    assert "rules have changed" in said(gone, "note") and said(fired, "note") == "None"
    assert said(gone, "references").split(",") == ["alerts@example.org", WHOLE[0].id, said(fired, "sent")]
    assert own_name("https://alerts.example.org/x/") == "semcep@alerts.example.org"
    assert sender(own_name("urn:semcep:")).startswith("semcep@")
    for wrong in ("", "a b", "a,b", "<a>", "a&b", "a\n"):
        with pytest.raises(CepError, match="--sender"):
            sender(wrong)
