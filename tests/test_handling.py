"""The work of people with alerts, over HTTP: each action is a change of its alert and survives a start."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from starlette.testclient import TestClient

from cep.connectors.alerts.handling_tables import RecordedAction
from cep.connectors.alerts.maintenance import MaintenanceCalendar
from cep.connectors.alerts.matchers import Matchers
from cep.connectors.alerts.text import JsonValue, rfc3339
from cep.connectors.receivers import atom, cap
from cep.connectors.receivers.metrics import MaintenanceMetrics
from cep.core.errors import CepError
from tests.desk import ANN, BEGIN, BEN, ORIGIN, PROGRAM, SECOND, WALL, Desk, at
from tests.waiting import until


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    with closing(made.outbox):
        yield made


def silence_of(seconds: int, *matchers: str, begin: int = 0, **more: object) -> Mapping[str, object]:
    return {"matchers": [*matchers], "startsAt": at(begin), "endsAt": at(begin + seconds), "comment": "works", **more}


def test_an_acknowledged_alert_does_not_escalate_until_it_is_given_back(desk: Desk) -> None:
    desk.take((0, "a", 9), (5, "x", 4))
    alert = desk.alert()
    answer = desk.ask("POST", f"/alerts/{alert}/acknowledge", {"comment": "on it"})
    assert (answer["acknowledged"], answer["state"], answer["by"], answer["comment"]) == (
        "ben",
        "firing",
        "ben",
        "on it",
    )
    desk.take((15, "x", 4))
    desk.ask("DELETE", f"/alerts/{alert}/acknowledge")
    desk.take((16, "x", 4), (30, "a", 0), (31, "x", 4))
    assert desk.told() == [
        "firing 0 Minor", "acknowledged 5 Minor", "unacknowledged 15 Minor", "escalated 15 Severe",
        "escalated 20 Extreme", "resolved 30 Extreme",
    ]  # fmt: skip
    revisions = [entry.change.revision for entry in desk.outbox.life(alert)]
    assert revisions == list(range(6))


@pytest.mark.parametrize("revise", [None, 100])
def test_what_people_did_survives_a_start(tmp_path: Path, revise: int | None) -> None:
    desk = Desk(tmp_path, revise=None if revise is None else revise * SECOND)
    desk.take((0, "a", 9), (5, "x", 4))
    alert = desk.alert()
    desk.ask("POST", f"/alerts/{alert}/acknowledge")
    desk.ask("POST", f"/alerts/{alert}/assign", {"to": "ann"})
    made = desk.ask("POST", "/silences", silence_of(60, "site=b"))
    before = desk.told()
    desk.restart()
    assert desk.told() == before
    desk.take((15, "b", 9), (25, "x", 4))
    assert desk.told() == before, "it does not escalate"
    (one,) = [each for each in desk.ask("GET", "/alerts") if each["alert"] == alert]
    assert (one["acknowledged"], one["assignee"], one["severity"]) == ("ben", "ann", "Minor")
    (hidden,) = desk.ask("GET", "/alerts?silenced=true")
    assert hidden["key"] == {"site": "b"} and hidden["silenced"] == [made["id"]] and desk.sent("b") == []
    assert [each["action"] for each in desk.ask("GET", "/feeds/actions")] == ["acknowledged", "assigned", "silence"]
    desk.outbox.close()


def test_an_acknowledgement_survives_a_revision_that_keeps_the_alert(tmp_path: Path) -> None:
    desk = Desk(tmp_path, revise=100 * SECOND)
    desk.take((0, "a", 9), (5, "x", 4))
    alert = desk.alert()
    desk.ask("POST", f"/alerts/{alert}/acknowledge")
    desk.take((8, "x", 4), (7, "a", 8), (4, "a", 7), (40, "x", 4))
    (one,) = desk.ask("GET", "/alerts?name=flood&matcher=site=a")
    assert (one["alert"], one["acknowledged"], one["severity"]) == (alert, "ben", "Minor")
    desk.outbox.close()


def test_what_people_did_survives_a_revision_that_changes_the_alert(tmp_path: Path) -> None:
    """A late record has the alert begin earlier, so that it is another one: which somebody has, and which does not
    escalate either; also after a start."""
    desk = Desk(tmp_path, revise=100 * SECOND)
    desk.take((5, "a", 9), (8, "x", 4))
    before = desk.alert()
    desk.ask("POST", f"/alerts/{before}/acknowledge")
    desk.ask("POST", f"/alerts/{before}/assign", {"to": "ann"})
    desk.ask("POST", f"/alerts/{before}/close", {"verdict": "true"})
    desk.take((3, "a", 9))
    after = desk.alert()
    assert after != before
    desk.restart()
    desk.take((60, "x", 4))
    (one,) = desk.ask("GET", "/alerts?name=flood")
    assert (one["alert"], one["severity"]) == (after, "Minor")
    assert (one["acknowledged"], one["assignee"], one["verdict"]) == ("ben", "ann", "true")
    (label,) = desk.ask("GET", "/alerts/verdicts")
    assert label["alert"] == after, "the one that was withdrawn is no label"
    done = [(each["by"], each["action"], each["alert"]) for each in desk.ask("GET", "/feeds/actions")]
    assert done[3:] == [("semcep", action, after) for action in ("acknowledged", "assigned", "closed")]
    revisions = [entry.change.revision for entry in desk.outbox.life(after)]
    assert revisions == list(range(len(revisions))), "every change has its number"
    desk.ask("DELETE", f"/alerts/{after}/acknowledge")
    desk.take((61, "x", 4))
    assert desk.ask("GET", "/alerts?name=flood")[0]["severity"] == "Extreme", "it was given back"
    desk.outbox.close()


def test_the_actions_are_filtered(desk: Desk) -> None:
    """Reminders are left out unless they are asked for."""
    desk.take((0, "a", 9), (1, "b", 9), (2, "x", 4))
    first, second = (desk.ask("GET", f"/alerts?matcher=site={site}")[0]["alert"] for site in "ab")
    desk.ask("POST", f"/alerts/{first}/acknowledge", token=ANN)
    for number in range(1, 4):
        details: dict[str, JsonValue] = {"receiver": "hook", "reminder": number, "id": f"{second}-0"}
        desk.outbox.act([], RecordedAction(number, 0, "semcep", "reminded", second, None, None, details))
    desk.ask("POST", f"/alerts/{second}/comment", {"comment": "seen"})
    silence = desk.ask("POST", "/silences", silence_of(60, "site=c"))["id"]

    def found(query: str) -> list[tuple[str, str]]:
        every = desk.ask("GET", f"/feeds/actions?{query}")
        return [(each["action"], each["alert"] or each["silence"]) for each in every]

    done = [("acknowledged", first), ("commented", second), ("silence", silence)]
    assert found("") == done
    assert found("by=ann") == done[:1] and found("by=ben") == done[1:] and found("by=ann&by=ben") == done
    assert found(f"alert={second}") == done[1:2]
    assert found("action=silence&action=commented") == done[1:]
    assert found(f"action=reminded&alert={second}") == [("reminded", second)] * 3
    assert found("limit=1") == done[:1] and found("after=1&limit=1") == done[1:2], "limits count what is listed"
    assert [each["reminder"] for each in desk.ask("GET", "/feeds/actions?action=reminded&after=3")] == [3]
    for wrong in ("action=escalated", "person=ann"):
        desk.ask("GET", f"/feeds/actions?{wrong}", status=422)


def test_a_verdict_is_taken_back(desk: Desk) -> None:
    desk.take((0, "a", 9), (2, "a", 0), (4, "x", 4))
    (alert,) = [each["alert"] for each in desk.ask("GET", "/alerts?state=resolved")]
    desk.ask("DELETE", f"/alerts/{alert}/close", status=409)
    desk.ask("POST", f"/alerts/{alert}/close", {"verdict": "true"})
    desk.ask("DELETE", f"/alerts/{alert}/close", token=WALL, status=403)
    reopened = desk.ask("DELETE", f"/alerts/{alert}/close", {"comment": "look again"})
    assert (reopened["verdict"], reopened["comment"]) == ("", "look again")
    desk.ask("DELETE", f"/alerts/{alert}/close", {"coment": "x"}, status=422)
    assert desk.ask("GET", "/alerts/verdicts") == []
    desk.restart()
    assert desk.ask("GET", f"/alerts/{alert}")["verdict"] == ""
    assert [each["action"] for each in desk.ask("GET", "/feeds/actions")] == ["closed", "reopened"]


def test_one_that_is_kept_and_escalates_is_kept(tmp_path: Path) -> None:
    desk = Desk(tmp_path, program=PROGRAM.replace("  ESCALATE", "  KEEP 30 s ESCALATE"))
    desk.take((0, "a", 9), (5, "a", 0), (12, "x", 4))
    (one,) = desk.ask("GET", "/alerts?state=kept")
    assert (one["severity"], one["state"]) == ("Severe", "kept")
    assert desk.ask("POST", f"/alerts/{one['alert']}/acknowledge")["state"] == "kept"
    desk.restart()
    desk.take((13, "a", 9), (14, "x", 4))
    assert [each["state"] for each in desk.ask("GET", "/alerts")] == ["firing"], "it goes on"
    desk.outbox.close()


def test_the_life_of_an_alert_is_read_in_pages(desk: Desk) -> None:
    desk.take((0, "a", 9), (5, "x", 4))
    alert = desk.alert()
    for number in range(7):
        desk.ask("POST", f"/alerts/{alert}/comment", {"comment": f"{number}"})
    pages, before = [], ""
    while page := desk.ask("GET", f"/alerts/{alert}?limit=3{before}")["changes"]:
        pages.append([each["revision"] for each in page])
        before = f"&before={page[0]['number']}"
    assert pages == [[5, 6, 7], [2, 3, 4], [0, 1]]
    assert len(desk.ask("GET", f"/alerts/{alert}")["changes"]) == 8
    desk.ask("GET", f"/alerts/{alert}?limit=0", status=422)


def test_closing_says_what_it_was_also_when_it_is_over(desk: Desk) -> None:
    desk.take((0, "a", 9), (2, "a", 0), (3, "a", 9), (4, "x", 4))
    first, second = [each["alert"] for each in desk.ask("GET", "/alerts?state=resolved&state=firing")][::-1]
    assert desk.ask("POST", f"/alerts/{first}/close", {"verdict": "false", "comment": "a boat"})["state"] == "resolved"
    *_, over = [each["time"] for each in desk.ask("GET", f"/alerts/{first}")["changes"] if not each["action"]]
    assert desk.ask("GET", f"/alerts/{first}")["time"] > over, "it was closed later"
    refusal = desk.ask("POST", f"/alerts/{first}/acknowledge", status=409)
    assert refusal == f"the alert is over since {over}: it can only be commented on or closed\n"
    assert desk.ask("POST", f"/alerts/{second}/close", {"verdict": "true"})["acknowledged"] == "ben"
    desk.take((60, "a", 0), (61, "x", 4))
    assert [each["verdict"] for each in desk.ask("GET", "/alerts/verdicts")] == ["true", "false"]
    full = desk.ask("GET", f"/alerts/{second}")
    assert [each["alert"] for each in full["episodes"]] == [first] and full["episodes"][0]["verdict"] == "false"
    assert full["episodes"][0]["over"] == over == desk.ask("GET", "/alerts/verdicts")[1]["over"]
    assert [each["action"] for each in full["actions"]] == ["closed"]
    assert [each["state"] for each in full["changes"]] == ["firing", "updated", "resolved"]
    assert full["severity"] == "Minor", "what is closed does not escalate"


def test_silences_hide_and_what_still_fires_is_sent_when_they_end(desk: Desk) -> None:
    desk.take((0, "a", 9), (1, "b", 9), (2, "x", 4))
    assert [each["key"] for each in desk.ask("POST", "/silences/preview", {"matchers": ["site=a"]})] == [{"site": "a"}]
    made = desk.ask("POST", "/silences", silence_of(60, "site=a", "team=~'w.*'".replace("'", '"')))
    assert (made["createdBy"], made["hides"], made["status"]) == ("ben", 1, {"state": "active"})
    desk.take((12, "x", 4))
    assert desk.sent() == ["firing"] and desk.sent("b") == ["firing", "escalated"]
    desk.now = BEGIN + 60 * SECOND
    desk.handling.tick()
    assert desk.sent() == ["firing", "unsilenced"]
    assert desk.told() == ["firing 0 Minor", "silenced 2 Minor", "escalated 10 Severe", "unsilenced 12 Severe"]


def test_whoever_ends_a_silence_has_ended_it_and_the_clock_is_nobody(desk: Desk) -> None:
    desk.take((0, "a", 9), (1, "b", 9), (2, "x", 4))
    first = desk.ask("POST", "/silences", silence_of(60, "site=a"))
    desk.ask("POST", "/silences", silence_of(60, "site=b"))
    desk.ask("DELETE", f"/silences/{first['id']}", {"comment": "pump runs"}, token=ANN)
    ended = desk.ask("GET", "/feeds/actions?action=unsilence")[0]
    assert (ended["by"], ended["comment"], ended["matchers"]) == ("ann", "pump runs", '{site="a"}')
    desk.now = BEGIN + 61 * SECOND
    desk.handling.tick()
    changes = [entry.change for entry in desk.outbox.after(0) if entry.change.action == "unsilenced"]
    assert [(each.by, each.comment) for each in changes] == [("ann", "pump runs"), ("semcep", "the silence is over")]


def test_what_no_alert_of_the_program_has_is_said(desk: Desk) -> None:
    desk.take((0, "a", 9), (1, "x", 4))
    for query, message in (
        ("severity=Sever", "no alert has the severity `Sever`; did you mean `Severe`?"),
        ("name=flod", "the program has no ALERT `flod`; did you mean `flood`?"),
        ("matcher=sit%3Dnorth", "no alert of the program has the label `sit`; did you mean `site`?"),
        ("severty=Severe", "the parameter `severty` is not known; did you mean `severity`?"),
        ("state=fireing", "state: `fireing` is not one of `pending`, `firing`, `kept`, `resolved`, `withdrawn`"),
        ("limit=many", "limit: `many` is not a whole number"),
        ("limit=0", "limit: `0` is less than 1"),
        ("since=soon", "since: `soon` is not a valid time"),
    ):
        assert message in desk.ask("GET", f"/alerts?{query}", status=422), query
    assert len(desk.ask("GET", "/alerts?severity=minor&name=flood&matcher=team%3Dwater")) == 1
    made = desk.ask("POST", "/silences", silence_of(60, "sit=a"))
    assert made["warnings"] == ["no alert of the program has the label `sit`; did you mean `site`?"]
    assert desk.ask("POST", "/silences", silence_of(60, "site=a"))["warnings"] == []


def test_alerts_are_assigned_to_people_of_the_file(desk: Desk) -> None:
    desk.take((0, "a", 9), (1, "x", 4))
    path = f"/alerts/{desk.alert()}/assign"
    assert "nobody in the file of tokens is called `bne`; did you mean `ben`?" in desk.ask(
        "POST", path, {"to": "bne"}, status=422
    )
    assert desk.ask("POST", path, {"to": " ben "})["assignee"] == "ben"
    assert desk.ask("POST", path, {"to": None})["assignee"] == ""


def test_a_body_that_does_not_say_that_it_is_json(desk: Desk) -> None:
    desk.take((0, "a", 9), (1, "x", 4))
    path, headers = f"/alerts/{desk.alert()}/close", {"Authorization": f"Bearer {BEN}"}
    said = desk.client.post(path, content='{"verdict": "true"}', headers=headers)
    assert said.status_code == 422
    assert said.text == "the body is not read as JSON; the request needs the header `Content-Type: application/json`\n"
    assert desk.ask("POST", path, [1], status=422) == "body: `[1]` is not an object\n"
    refusal = desk.ask("POST", path, {"verdict": "true", "by": "me"}, status=422)
    assert refusal == "`by` is not known here; there are comment, verdict\n"


def test_a_silence_that_begins_or_ends_is_a_change_also_if_another_comes_before_it_is_looked_at(desk: Desk) -> None:
    desk.take((0, "a", 9), (2, "x", 4))
    desk.ask("POST", "/silences", silence_of(60, "site=a", begin=5))
    desk.now = BEGIN + 6 * SECOND
    desk.take((12, "x", 4))
    assert desk.told() == ["firing 0 Minor", "silenced 2 Minor", "escalated 10 Severe"]
    desk.now = BEGIN + 66 * SECOND
    desk.take((22, "x", 4))
    assert desk.told()[3:] == ["unsilenced 12 Severe", "escalated 20 Extreme"]
    assert desk.sent() == ["firing", "unsilenced", "escalated"]
    desk.handling.tick()
    revisions = [entry.change.revision for entry in desk.outbox.life(desk.alert())]
    assert revisions == list(range(5))


def test_an_alert_that_comes_under_a_silence_by_its_severity_is_silenced_first(desk: Desk) -> None:
    desk.take((0, "a", 9), (2, "x", 4))
    desk.ask("POST", "/silences", silence_of(60, "severity=Severe"))
    desk.take((12, "x", 4), (22, "x", 4))
    assert desk.told() == [
        "firing 0 Minor", "silenced 2 Minor", "escalated 10 Severe", "escalated 20 Extreme", "unsilenced 20 Extreme",
    ]  # fmt: skip
    assert desk.sent() == ["firing", "unsilenced"], "they are sent how it is now, once"
    before = desk.told()
    desk.handling.tick()
    desk.restart()
    assert desk.told() == before


def test_alerts_are_looked_at_when_something_changes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    looked, matches = [0], Matchers.matches

    def counted(self: Matchers, labels: Mapping[str, str]) -> bool:
        looked[0] += 1
        return matches(self, labels)

    desk.take(*((number, f"s{number}", 9) for number in range(200)))
    for number in range(20):
        desk.ask("POST", "/silences", silence_of(60 + number, f"site=s{number}"))
    monkeypatch.setattr(Matchers, "matches", counted)
    for _ in range(50):
        desk.handling.tick()
    assert [each["hides"] for each in desk.ask("GET", "/silences")] == [1] * 20
    assert looked == [0], "nothing has changed"
    desk.now = BEGIN + 61 * SECOND
    desk.handling.tick()
    assert desk.told("s0")[-1].startswith("unsilenced") and looked == [0], "an end needs no look"
    desk.ask("POST", "/silences", silence_of(200, "site=s100"))
    assert looked == [199], "a new silence is held against each alert that fires"
    desk.take((200, "new", 9))
    assert looked[0] <= 200 + 201 * 20, "alerts that are new or escalate, against each silence"


def test_one_that_fires_silenced_is_sent_first_when_the_silence_is_ended(desk: Desk) -> None:
    made = desk.ask("POST", "/silences", silence_of(60, 'alertname="flood"', begin=5))
    assert made["status"] == {"state": "pending"}
    desk.now = BEGIN + 6 * SECOND
    desk.handling.tick()
    desk.take((0, "a", 9), (1, "c", 9), (2, "c", 0), (3, "x", 4))
    assert desk.sent() == desk.sent("c") == []
    assert cap.message(desk.outbox, ORIGIN, desk.alert()) is None
    ended = desk.ask("DELETE", f"/silences/{made['id']}")
    assert ended["status"] == {"state": "expired"}
    assert desk.sent() == ["unsilenced"] and desk.sent("c") == []
    assert b"<msgType>Alert</msgType>" in (cap.message(desk.outbox, ORIGIN, desk.alert()) or b"")
    desk.ask("DELETE", f"/silences/{made['id']}", status=409)
    desk.now += 121 * 3600 * SECOND
    desk.handling.tick()
    assert desk.ask("GET", "/silences") == []


def test_a_silence_that_is_changed_keeps_its_id_unless_it_hides_others(desk: Desk) -> None:
    first = desk.ask("POST", "/silences", silence_of(60, "site=a"))
    longer = desk.ask("POST", "/silences", silence_of(90, "site=a", id=first["id"]))
    assert (longer["id"], longer["endsAt"]) == (first["id"], at(90))
    other = desk.ask("POST", "/silences", silence_of(90, "site=b", id=first["id"]))
    assert other["id"] != first["id"]
    states = {each["id"]: each["status"]["state"] for each in desk.ask("GET", "/silences")}
    assert states == {first["id"]: "expired", other["id"]: "active"}
    desk.ask("POST", "/silences", silence_of(90, "site=b", id="nobody"), status=404)
    edited = desk.ask("POST", "/silences", silence_of(99, "site=b", id=other["id"]), token=ANN)
    assert (edited["createdBy"], edited["endsAt"]) == ("ben", at(99)), "who made it stays; the log says who changed it"
    last = desk.outbox.actions()[-1]
    assert (last.person, last.action, last.silence) == ("ann", "edit_silence", other["id"])


def test_a_silence_that_takes_the_place_of_another_is_stored_with_its_end(desk: Desk) -> None:
    desk.take((0, "a", 9), (1, "x", 4))
    first = desk.ask("POST", "/silences", silence_of(60, "site=a"))
    act = desk.outbox.act
    calls: list[Any] = []

    def counted(*values: Any, **more: Any) -> None:
        calls.append(more.get("silences"))
        act(*values, **more)

    desk.outbox.act = counted  # type: ignore[method-assign]
    other = desk.ask("POST", "/silences", silence_of(60, "site=b", id=first["id"]))
    assert [*calls[0]] == [first["id"], other["id"]], "one transaction has both"
    assert [each.action for each in desk.outbox.actions()] == ["silence", "unsilence", "silence"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/alerts/{}/acknowledge", {}),
        ("DELETE", "/alerts/{}/acknowledge", None),
        ("POST", "/alerts/{}/assign", {"to": "ben"}),
        ("POST", "/alerts/{}/comment", {"comment": "x"}),
        ("POST", "/alerts/{}/close", {"verdict": "true"}),
        ("POST", "/silences", {"matchers": ["site=a"], "endsAt": "2099-01-01T00:00:00Z"}),
        ("DELETE", "/silences/x", None),
    ],
)
def test_a_viewer_changes_nothing(desk: Desk, method: str, path: str, body: object) -> None:
    desk.take((0, "a", 9), (1, "x", 4))
    path = path.format(desk.alert())
    before = desk.outbox.last
    text = desk.ask(method, path, body, token=WALL, status=403)
    assert "needs the role responder; wall is viewer" in text
    assert "a token is needed" in desk.ask(method, path, body, token="", status=401)
    assert (desk.outbox.last, desk.outbox.actions()) == (before, [])


def test_a_trusted_proxy_says_who_asks(desk: Desk) -> None:
    desk.take((0, "a", 9), (1, "x", 4))
    path = f"/alerts/{desk.alert()}/comment"

    def said(user: str, token: str = "", client: TestClient = desk.client) -> int:
        headers = {"X-Forwarded-User": user} | ({"Authorization": f"Bearer {token}"} if token else {})
        return client.post(path, json={"comment": "x"}, headers=headers).status_code

    assert said("cat") == 200 and desk.outbox.actions()[-1].person == "cat"
    assert said("wall", BEN) == said("stranger") == 403, "the name says what one may, not the token"
    assert said("c at") == said("cat#") == 403, "a name that is nearly that of somebody is nobody's"
    several = desk.client.post(
        path, json={"comment": "x"}, headers=[("X-Forwarded-User", "cat"), ("x-forwarded-user", "wall")]
    )
    assert several.status_code == 400 and "several X-Forwarded-User" in several.text
    others = TestClient(desk.client.app, client=("192.0.2.7", 1234))
    assert said("cat", client=others) == 401 and said("cat", BEN, others) == 200
    assert desk.outbox.actions()[-1].person == "ben"


@pytest.mark.parametrize(
    ("path", "body", "status", "text"),
    [
        ("/alerts/{}/close", {"verdict": "ture"}, 422, "`ture` is not a verdict; did you mean `true`?"),
        ("/alerts/{}/close", {"verdict": "maybe"}, 422, "use one of true, false, duplicate, test"),
        ("/alerts/{}/close", {}, 422, "verdict: this parameter is missing"),
        ("/alerts/{}/comment", {"comment": " "}, 422, "the text is missing"),
        ("/alerts/{}/comment", {"comment": "x" * 2_001}, 422, "comment"),
        ("/alerts/{}/comment", {"coment": "x"}, 422, "coment"),
        ("/alerts/{}/assign", {}, 422, "to: this parameter is missing"),
        ("/alerts/0123/comment", {"comment": "x"}, 404, "there is no such alert"),
        ("/silences", {"matchers": [], "endsAt": at(9)}, 422, "the matchers are missing"),
        ("/silences", {"matchers": ['site=~".*"'], "endsAt": at(9)}, 422, "hide every alert"),
        ("/silences", {"matchers": ['site=~"("'], "endsAt": at(9)}, 422, "is not a regular expression"),
        ("/silences", {"matchers": ["site=a"]}, 422, "`endsAt` is missing"),
        ("/silences", {"matchers": ["site=a"], "startsAt": at(9), "endsAt": at(8)}, 422, "is before `startsAt`"),
        ("/silences", {"matchers": ["site=a"], "endsAt": at(-9)}, 422, "is in the past"),
        ("/silences", {"matchers": ["site=a"], "endsAt": "soon"}, 422, "endsAt: `soon`"),
        ("/silences", {"matchers": ["site=b"], "endsAt": at(9), "startAt": at(8)}, 422, "did you mean `startsAt`?"),
        ("/silences/preview", {"matchers": ["site=b"], "matcher": []}, 422, "did you mean `matchers`?"),
        ("/silences/preview", {"matchers": ["site"]}, 422, "is not followed by an operator"),
    ],
)
def test_mistakes_are_said_and_change_nothing(desk: Desk, path: str, body: object, status: int, text: str) -> None:
    desk.take((0, "a", 9), (1, "x", 4))
    assert text in desk.ask("POST", path.format(desk.alert()), body, status=status)
    assert desk.outbox.actions() == [] and desk.handling.silences() == []


def test_the_list_can_be_filtered(desk: Desk) -> None:
    desk.take((0, "a", 9), (1, "b", 9), (2, "c", 9), (3, "c", 0), (4, "x", 4))
    desk.ask("POST", f"/alerts/{desk.alert('b')}/assign", {"to": "ann"})

    def sites(query: str) -> list[str]:
        return [each["key"]["site"] for each in desk.ask("GET", f"/alerts?{query}")]

    assert sites("") == ["b", "a"] and sites("state=resolved") == ["c"]
    assert sites("assignee=ann") == ["b"] and sites("acknowledged=true") == []
    assert sites("text=FLOOD AT A") == ["a"] and sites("severity=minor&limit=1") == ["b"]
    assert sites("matcher=site!=b&matcher=team=water") == ["a"] and sites("since=1970-01-01T00:00:01Z") == ["b"]
    assert sites("state=resolved&state=firing&limit=2") == ["b", "c"]
    numbers = [each["number"] for each in desk.ask("GET", "/alerts?state=resolved&state=firing")]
    assert sites(f"state=resolved&state=firing&before={numbers[0]}") == ["c", "a"]
    assert "state" in desk.ask("GET", "/alerts?state=open", status=422)


def test_what_people_write_is_escaped_in_atom(desk: Desk) -> None:
    desk.take((0, "a", 9), (1, "x", 4))
    desk.ask("POST", f"/alerts/{desk.alert()}/comment", {"comment": "<script>alert(1)</script>\r\nBcc: x"})
    feed = atom.newest_document(desk.outbox, ORIGIN)
    assert b"<script" not in feed and b"&lt;script" not in feed and b"&amp;lt;script&amp;gt;" in feed
    assert desk.outbox.actions()[0].details["comment"] == "<script>alert(1)</script>  Bcc: x"


CALENDAR = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//t//t//EN
BEGIN:VEVENT
UID:1@t
DTSTART;TZID=Europe/Berlin:20261123T020000
DTEND;TZID=Europe/Berlin:20261123T030000
RRULE:FREQ=DAILY;COUNT=30
EXDATE;TZID=Europe/Berlin:20261201T020000
SUMMARY:Pumps {site="a"}
DESCRIPTION:greased
ORGANIZER;CN=Ann:mailto:ann@example.org
END:VEVENT
END:VCALENDAR
"""


def test_maintenance_windows_of_a_calendar_recur(tmp_path: Path) -> None:
    file = tmp_path / "works.ics"
    file.write_text(CALENDAR)
    desk = Desk(tmp_path, MaintenanceCalendar(file))
    midnight = 1_795_910_400 * SECOND  # 2026-11-29
    desk.now = midnight
    desk.take((0, "a", 9), (1, "b", 9), (2, "x", 4))
    desk.handling.tick()
    assert desk.told() == ["firing 0 Minor"]
    desk.now = midnight + 3_600 * SECOND  # two o'clock in Berlin
    desk.handling.tick()
    assert desk.told() == ["firing 0 Minor", "silenced 2 Minor"] and desk.told("b") == ["firing 1 Minor"]
    windows = [each for each in desk.ask("GET", "/silences") if each["status"]["state"] != "expired"]
    days = [each["startsAt"] for each in windows]
    assert days == ["2026-11-29T01:00:00Z", "2026-11-30T01:00:00Z"], "the one that is active, and the next"
    assert [each["endsAt"] for each in desk.ask("GET", "/silences")[2:]] == ["2026-11-28T02:00:00Z"], "and the last"
    assert [each["startsAt"] for each in desk.ask("GET", "/api/v2/silences?expired=false")] == days
    begins = sorted(rfc3339(each.starts) for each in desk.handling._windows.values() if each.starts > desk.now)
    assert begins[:2] == ["2026-11-30T01:00:00Z", "2026-12-02T01:00:00Z"], "not on the 1st"
    assert {(each["createdBy"], each["comment"], each["maintenance"]) for each in windows} == {
        ("Ann", "Pumps greased", True)
    }
    assert "only its calendar file can change or end it" in desk.ask(
        "DELETE", f"/silences/{windows[0]['id']}", status=409
    )
    desk.restart()
    desk.now = midnight + 7_200 * SECOND
    desk.handling.tick()
    assert desk.told()[-1] == "unsilenced 2 Minor"
    file.write_text(CALENDAR.replace('{site="a"}', '{site="b"}'))
    desk.now = midnight + 24 * 3_600 * SECOND + 3_600 * SECOND
    desk.handling.tick()
    assert desk.told("b")[-1].startswith("silenced"), "the calendar is read again"
    file.write_text("nonsense")
    desk.handling.tick()
    assert "is not a calendar" in (desk.calendar.trouble if desk.calendar else "")
    desk.outbox.close()


def calendar_of(file: Path, *events: str) -> MaintenanceCalendar:
    """A calendar of events at 2026-11-29 01:00 UTC, each with its further lines."""
    body = "".join(
        f"BEGIN:VEVENT\nUID:{number}@t\nDTSTART:20261129T010000Z\nDTEND:20261129T020000Z\n{event}\nEND:VEVENT\n"
        for number, event in enumerate(events)
    )
    file.write_text(f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//t//t//EN\n{body}END:VCALENDAR\n")
    return MaintenanceCalendar(file)


def texts_of(calendar: MaintenanceCalendar) -> list[str]:
    return sorted(str(each.matchers) for each in calendar.windows(1_795_910_400 * SECOND).values())


@pytest.mark.parametrize(
    ("event", "remark"),
    [
        ("SUMMARY:Ann's birthday", "1 event has no matchers in braces and hide"),
        ('SUMMARY:P {site=~".*"}', '`P {site=~".*"}` is not a window: {site=~".*"} would hide every alert'),
        ("SUMMARY:P {}", "its braces contain no matchers"),
        ('SUMMARY:P {site=~"("}', "is not a regular expression"),
        ("SUMMARY:P {site=~n{2}}", "the name of a label is missing at `2`"),
        ('SUMMARY:P {site="a"', "a brace or a quote in its summary is not closed or not opened"),
        ('SUMMARY:P {site="a"}\nRRULE:FREQ=DALY', "is not valid"),
        ('SUMMARY:P {site="a"}\nRRULE:FREQ=SECONDLY', "86,400 times a day since 2026-11-29, which is too often"),
        ('SUMMARY:P {site="a"}\nRRULE:FREQ=DAILY;BYHOUR=1,2,3;BYMINUTE=' + ",".join(map(str, range(60))), "180 times"),
        ('SUMMARY:P {site="a"}\nDTSTART:yesterday', "is not valid"),
    ],
)
def test_an_event_that_is_not_a_window_is_left_out_with_a_remark(tmp_path: Path, event: str, remark: str) -> None:
    calendar = calendar_of(tmp_path / "works.ics", event, 'SUMMARY:Pumps {site="b"}')
    assert texts_of(calendar) == ['{site="b"}']
    (said,) = calendar.remarks
    assert remark in said and "works.ics" in said
    told: list[str] = []
    desk = Desk(tmp_path, calendar)
    thread = threading.Thread(target=desk.handling.run, kwargs={"remark": told.append})
    thread.start()
    until(lambda: bool(told), "it is said")
    desk.handling.stop()
    thread.join()
    assert told == [said]
    desk.outbox.close()


def test_a_cancelled_event_says_nothing(tmp_path: Path) -> None:
    calendar = calendar_of(tmp_path / "works.ics", "STATUS:CANCELLED\nSUMMARY:Ann", "SUMMARY:x {\nSTATUS:CANCELLED")
    assert texts_of(calendar) == [] and calendar.remarks == ()


@pytest.mark.parametrize(
    ("text", "matchers"),
    [
        ('Pumps {site="a"} and {site="b"\\,team="water"}', ['{site="a"}', '{site="b",team="water"}']),
        ('{site=~"n{2}.*"}', ['{site=~"n{2}.*"}']),
        ("<b>Pumps</b><br>{site=&quot;a&quot;}", ['{site="a"}']),
        ("{site=~“n{2}”\\, team=„water“}", ['{site=~"n{2}",team="water"}']),
        ('{site=~"(?P<a>x)&amp;|<b>"}', ['{site=~"(?P<a>x)&amp;|<b>"}']),
    ],
)
def test_matchers_stand_in_braces_as_calendars_have_them(tmp_path: Path, text: str, matchers: list[str]) -> None:
    calendar = calendar_of(tmp_path / "works.ics", f"SUMMARY:Works\nDESCRIPTION:{text}")
    assert (texts_of(calendar), calendar.remarks) == (matchers, ())


@pytest.mark.parametrize(
    ("lines", "first", "last"),
    [
        # Berlin ends summer time on 25 October 2026, at 01:00 UTC
        ("DTSTART;VALUE=DATE:20261025\nDTEND;VALUE=DATE:20261026", "2026-10-24T22:00 25h", ""),
        ("DTSTART;VALUE=DATE:20261024", "2026-10-23T22:00 24h", ""),
        ("DTSTART;VALUE=DATE:20261024\nRRULE:FREQ=DAILY;COUNT=3", "2026-10-23T22:00 24h", "2026-10-25T23:00 24h"),
        ("DTSTART:20261020T060000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY;UNTIL=20261030T060000Z", "2026-10-20T06:00 1h",
         "2026-10-30T06:00 1h"),
        ("DTSTART:20261020T060000\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=11", "2026-10-20T04:00 1h",
         "2026-10-30T05:00 1h"),
        ("DTSTART;TZID=America/New_York:20261030T060000\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=4",
         "2026-10-30T10:00 1h", "2026-11-02T11:00 1h"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["Europe/Berlin", "W. Europe Standard Time"])
def test_days_and_times_without_a_zone_are_in_that_of_the_calendar(
    tmp_path: Path, name: str, lines: str, first: str, last: str
) -> None:
    event = f'BEGIN:VEVENT\nUID:1@t\nSUMMARY:P {{site="a"}}\n{lines}\nEND:VEVENT\n'
    head = f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//t//t//EN\nX-WR-TIMEZONE:{name}\n"
    (tmp_path / "works.ics").write_text(f"{head}{event}END:VCALENDAR\n")
    calendar = MaintenanceCalendar(tmp_path / "works.ics")
    assert calendar.remarks == ()
    windows = sorted(calendar.windows(1_792_800_000 * SECOND).values(), key=lambda each: each.starts)  # 24 October
    said = [f"{rfc3339(each.starts)[:16]} {(each.ends - each.starts) // (3_600 * SECOND)}h" for each in windows]
    assert (said[0], said[-1]) == (first, last or first)


def test_an_event_at_a_time_without_an_end_is_not_a_window_and_it_is_said(tmp_path: Path) -> None:
    file = tmp_path / "works.ics"
    file.write_text(CALENDAR.replace("DTEND;TZID=Europe/Berlin:20261123T030000\n", ""))
    calendar = MaintenanceCalendar(file)
    assert calendar.windows(1_795_910_400 * SECOND) == {}
    (said,) = calendar.remarks
    assert '`Pumps {site="a"}` is not a window: the event has no duration; add an end (DTEND) after the start' in said


def test_a_calendar_in_a_zone_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "works.ics"
    file.write_text(CALENDAR.replace("BEGIN:VEVENT", "X-WR-TIMEZONE:Europe/Belrin\nBEGIN:VEVENT"))
    with pytest.raises(CepError, match="the time zone `Europe/Belrin` is not known"):
        MaintenanceCalendar(file)


def test_an_event_that_recurs_often_is_a_window_if_it_is_bounded(tmp_path: Path) -> None:
    calendar = calendar_of(tmp_path / "works.ics", 'SUMMARY:P {site="a"}\nRRULE:FREQ=MINUTELY;COUNT=30')
    assert len(texts_of(calendar)) == 30 and calendar.remarks == ()


def test_windows_of_a_calendar_that_is_gone_stay_and_it_is_said(tmp_path: Path) -> None:
    file = tmp_path / "works.ics"
    file.write_text(CALENDAR)
    calendar, now = MaintenanceCalendar(file), 1_795_910_400 * SECOND
    windows = calendar.windows(now)
    content = file.read_bytes()
    file.unlink()
    assert calendar.windows(now) == windows and windows
    assert calendar.trouble == f"--maintenance {file}: no such file or directory"
    file.write_bytes(content)
    assert calendar.windows(now) == windows and calendar.trouble == ""


def test_a_broken_calendar_is_told_of_until_it_is_mended(tmp_path: Path) -> None:
    file = tmp_path / "works.ics"
    file.write_text(CALENDAR)
    desk = Desk(tmp_path, MaintenanceCalendar(file))
    told: list[str] = []
    thread = threading.Thread(target=desk.handling.run, kwargs={"trouble": told.append})
    thread.start()

    def up() -> str:
        return generate_latest(MaintenanceMetrics(lambda: desk.handling.calendar_up)).decode().splitlines()[-1][-3:]  # type: ignore[arg-type]

    assert up() == "1.0"
    file.write_text("nonsense")
    until(lambda: up() == "0.0" and len(told) == 1, "it is broken")
    file.write_text(CALENDAR)
    until(lambda: up() == "1.0" and len(told) == 2, "it is mended")
    assert "is not a calendar" in told[0] and told[1] == ""
    desk.handling.stop()
    thread.join()
    desk.outbox.close()
    assert not [*MaintenanceMetrics(lambda: None).collect()], "without a calendar there is none to be up"


def test_a_file_that_is_not_a_calendar_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "works.ics"
    file.write_text(CALENDAR.replace("BEGIN:VCALENDAR", "BEGIN:NOTHING"))
    with pytest.raises(CepError, match="this is not a calendar"):
        MaintenanceCalendar(file)
    with pytest.raises(CepError, match="no such file"):
        MaintenanceCalendar(tmp_path / "none.ics")


def test_a_silence_of_any_name_survives_a_start_and_one_that_cannot_be_read_does_not_end_it(desk: Desk) -> None:
    body = {"matchers": [{"name": "a\\\\", "value": "b\\\\", "isRegex": False}], "endsAt": at(60)}
    made = desk.ask("POST", "/silences", body)
    desk.restart()
    assert desk.ask("GET", "/silences")[0]["matchers"] == made["matchers"]
    desk.outbox.act([], silences={"odd": '["{a=", 0, 1, "ann", "", 0]', "odder": "[]"})
    desk.restart()
    assert [each["id"] for each in desk.ask("GET", "/silences")] == [made["id"]]
    told: list[str] = []
    thread = threading.Thread(target=desk.handling.run, args=[told.append])
    thread.start()
    until(lambda: len(told) == 2, "both are reported")
    desk.handling.stop()
    thread.join()
    assert "the silence odd cannot be read, so it hides no alerts: matchers: `{a=`" in told[0]
