"""A server that is killed again and again while people work: for each alert nothing is missing or out of order at a
client of Server-Sent Events, a webhook, a mailbox, one that is sent groups, an Alertmanager and in the list of
actions."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest

from cep.connectors.alerts.text import rfc3339
from tests.desk import BEN
from tests.mail_server import mail_server
from tests.ports import free_port
from tests.test_webhooks import listening
from tests.waiting import PATIENCE, pause, until

KILLS = 5
STATES = {"pending", "firing", "escalated", "kept", "resolved"}
RISING = ("Minor", "Moderate", "Severe", "Extreme")
HEADERS = {"Authorization": f"Bearer {BEN}"}


class Events:
    """A client of Server-Sent Events that comes back after each break, and continues behind what it has."""

    def __init__(self, url: str) -> None:
        self.url, self.last, self.over = url, 0, False
        self.seen: list[tuple[int, dict[str, Any]]] = []
        self.thread = threading.Thread(target=self._follow, daemon=True)
        self.thread.start()

    def _follow(self) -> None:
        while not self.over:
            with suppress(httpx.HTTPError):
                headers = {**HEADERS, "Last-Event-ID": str(self.last)}
                with httpx.stream("GET", f"{self.url}/feeds/events", headers=headers, timeout=5) as answer:
                    number = 0
                    for line in answer.iter_lines():
                        if line.startswith("id: "):
                            number = int(line[4:])
                        elif line.startswith("data: "):
                            self.seen.append((number, json.loads(line[6:])))
                            self.last = number
                        if self.over:
                            return
            pause(0.05)


@contextmanager
def process(folder: Path, port: int, feeds: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.desk_server", str(folder), str(port), *feeds]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=Path(__file__).parent.parent)
    try:
        until(lambda: server.poll() is not None or _answers(port), "it answers", seconds=PATIENCE)
        yield server
    finally:
        server.kill()
        server.wait()


def _answers(port: int) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code == 200
    return False


def _act(url: str, rng: random.Random, number: int) -> tuple[str, str] | None:
    """Do something; return what and to what, if the server has said that it is done."""
    try:
        open_now = httpx.get(f"{url}/alerts?limit=20", headers=HEADERS, timeout=10).json()
        if not open_now:
            return None
        alert, comment = rng.choice(open_now)["alert"], {"comment": f"number {number}"}
        action = rng.choice(("acknowledge", "comment", "close", "assign", "silence"))
        if action == "silence":
            end = rfc3339(time.time_ns() // 1000 + 300_000)
            silenced = {"matchers": [f"site={rng.choice('abc')}"], "endsAt": end, **comment}
            done = httpx.post(f"{url}/silences", json=silenced, headers=HEADERS, timeout=10)
            return ("silence", done.json()["id"]) if done.status_code == 200 else None
        more: dict[str, dict[str, str]] = {"close": {"verdict": "true"}, "assign": {"to": "ann"}}
        body = more.get(action, {}) | comment
        done = httpx.post(f"{url}/alerts/{alert}/{action}", json=body, headers=HEADERS, timeout=10)
        return (f"number {number}", alert) if done.status_code == 200 else None
    except (httpx.HTTPError, ValueError):
        return None


Life = list[dict[str, Any]]
"""The changes of an alert, in order."""


def _hidden(change: dict[str, Any]) -> bool:
    """Return True if a change says that the alert is silenced or inhibited."""
    return bool(change["silenced"] or change["inhibited"])


def _sent(life: Life) -> list[int]:
    """The revisions of an alert that receivers may be sent: since it fires, while nothing hides it; and its end, if
    they were sent another one."""
    found: list[int] = []
    for change in life:
        over = change["state"] == "resolved"
        if found if over else change["fired"] and not _hidden(change):
            found.append(change["revision"])
    return found


def _check_sent(life: Life, came: list[int], seldom: bool = False) -> None:
    """AssertionError: of an alert a change is missing, out of order, or came though it is hidden. A change may be
    left out if the alert was hidden before the next one was sent, and the end, if no change was sent at all.
    `seldom`: what is only updated is left out, too."""
    loud, there = _sent(life), list(dict.fromkeys(came))
    assert {*there} <= {*loud} and there == sorted(there)
    for revision in {*loud} - {*there}:
        change = life[revision]
        if change["state"] == "resolved":
            assert not there, "whoever was told of it is told of its end"
            continue
        if seldom and change["state"] == "updated" and not change["action"]:
            continue
        following = next((each for each in there if each > revision), len(life))
        assert any(map(_hidden, life[revision + 1 : following])), f"{revision} is missing"


def _check_life(life: Life) -> None:
    """AssertionError: a change is missing, or an action is forgotten."""
    assert [each["revision"] for each in life] == list(range(len(life))), "every change is there, in order"
    owner = ""
    for change in life:
        if change["action"] == "closed":
            owner = owner or ("" if change["state"] == "resolved" else "ben")
        elif change["action"] == "acknowledged":
            owner = "ben"
        assert change["acknowledged"] == owner, "whoever has an alert has it after a start too"
        assert not (change["state"] == "escalated" and owner), "an acknowledged alert does not escalate"
    states = [each["state"] for each in life if each["state"] not in ("updated", "escalated", "inhibited")]
    order = ["pending", "firing", "kept", "resolved"]
    fires = [order.index(state) for state in states if state != "kept"]
    assert fires == sorted(fires), "first it is pending, then it fires, then it is over"


def _check_manager(posts: list[dict[str, Any]], lives: dict[str, Life]) -> None:
    """AssertionError: an Alertmanager was told of an alert that is over, or of a severity of before, or has at the end
    other alerts than those that are open."""
    open_now: dict[tuple[str, str], dict[int, str]] = {}  # by name and site, the alert of each severity
    gravest: dict[str, int] = {}
    over: set[str] = set()
    for post in posts:
        alert, labels = post["annotations"]["alert"], post["labels"]
        there = open_now.setdefault((labels["alertname"], labels["site"]), {})
        severity = RISING.index(labels["severity"].title())
        if datetime.fromisoformat(post["endsAt"]) <= post["came"]:
            last = lives[alert][-1]
            if (
                there.pop(severity, "") == alert
                and last["state"] == "resolved"
                and RISING[severity] == last["severity"]
            ):
                over.add(alert)
            continue
        assert alert not in over, "what is over does not fire again"
        assert severity >= gravest.get(alert, 0), "it is as grave as before, or graver"
        gravest[alert] = severity
        there[severity] = alert
    for (name, site), there in open_now.items():
        mine = [life for life in lives.values() if life[0]["name"] == name and life[0]["key"]["site"] == site]
        latest = max(mine, key=lambda life: life[0]["number"])  # people may say something about an earlier one later
        expected = {} if latest[-1]["state"] == "resolved" else {latest[-1]["alert"]}
        told = [[post[each] for each in ("labels", "startsAt", "endsAt", "came")] for post in posts]
        assert len(there) == len({*there.values()}) and {*there.values()} <= {*expected}, (
            f"what is over is over there: {there}, {expected}, {latest}, {told}"
        )
        if latest[-1]["alert"] in there.values() and _sent(latest)[-1:] == [len(latest) - 1]:
            assert [RISING[severity] for severity in there] == [latest[-1]["severity"]]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_missing_or_out_of_order_after_kills(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    posted: list[dict[str, Any]] = []
    managed: list[dict[str, Any]] = []

    def take(request: BaseHTTPRequestHandler, body: bytes) -> int:
        if request.path.endswith("/api/v2/alerts"):
            now = datetime.now(UTC)
            managed.extend(each | {"came": now} for each in json.loads(body))
        else:
            posted.append(json.loads(body) | {"key": request.headers["Idempotency-Key"]})
        return 200

    port = free_port()
    url = f"http://127.0.0.1:{port}"
    answered: list[tuple[str, str]] = []

    def ask(path: str) -> Any:
        return httpx.get(f"{url}/{path}", headers=HEADERS, timeout=PATIENCE).json()

    with listening(take) as (hook, _), mail_server() as (mailbox, mail_port):
        feeds = [
            f"cloudevents+{hook}#private=yes",
            f"smtp://localhost:{mail_port}/team@example.org#private=yes&tls=none",
            f"alertmanager+{hook}#every=1",
        ]
        (tmp_path / "routes.toml").write_text(
            f'[receivers]\ngroup = "smtp://localhost:{mail_port}/group@example.org#private=yes&tls=none"\n'
            '[[routes]]\nreceiver = "group"\ngroup_by = ["site"]\ngroup_wait = "200ms"\ngroup_interval = "1s"\n'
        )
        with process(tmp_path, port, feeds):
            events = Events(url)
            until(lambda: ask("alerts"), "something fires")
        for kill in range(KILLS):
            with process(tmp_path, port, feeds):
                end = time.monotonic() + rng.uniform(0.3, 4.0)
                number = 0
                while time.monotonic() < end:
                    number += 1
                    if (done := _act(url, rng, 1_000 * kill + number)) is not None:
                        answered.append(done)
        with process(tmp_path, port, feeds):
            until(lambda: ask("alerts?name=lasting&state=resolved"), "one that was kept is over")
            until(lambda: {change["state"] for _, change in events.seen} >= STATES, "each state was there")
            (tmp_path / "enough").touch()
            pause(1.0)
            last = ask("feeds/actions?limit=10000")
            every = ask("alerts?state=resolved&state=firing&state=kept&state=pending&limit=10000")
            number = max(each["number"] for each in every)
            until(lambda: events.last >= number, "events come")
            until(lambda: all(each["cursor"] >= number for each in ask("feeds/receivers")), "all have all")
            offered = ask("api/v2/alerts")
            pause(1.5)  # an Alertmanager is told what is open
        events.over = True
    assert answered, "people have done something"
    recorded = [(each.get("comment"), each["alert"]) for each in last if each["alert"]]
    recorded += [("silence", each["silence"]) for each in last if each["silence"]]
    assert all(recorded.count(each) == 1 for each in answered), "what was answered is kept, once"
    numbers = [number for number, _ in events.seen]
    assert numbers == list(range(1, len(numbers) + 1)), "no number is missing, or comes twice"
    lives: dict[str, Life] = {}
    for number, change in events.seen:
        lives.setdefault(change["alert"], []).append(change | {"number": number})
    hooked: dict[str, list[int]] = {}
    for each in posted:
        id, reminder = each["data"]["id"], each["data"]["reminder"]
        assert each["id"] == id, "a repeat has the same id, and so has a reminder"
        assert each["key"] == (f"{id}.{reminder}" if reminder else id)
        hooked.setdefault(each["data"]["alert"], []).append(each["data"]["revision"])
    mailed: dict[str, dict[str, list[int]]] = {"team@example.org": {}, "group@example.org": {}}
    messages: dict[tuple[str, str], str] = {}  # by mailbox and id
    for message in mailbox.messages:
        changes = message["X-Semcep-Changes"]
        first = messages.setdefault((message["To"], message["Message-ID"]), changes).split()
        assert {*changes.split()} <= {*first}, "a repeat has the same id, and says the same"
        for left_out in filter(_is_change, {*first} - {*changes.split()}):
            life = lives[left_out.rpartition("-")[0]]
            assert any(map(_hidden, life)), "it leaves out what was hidden since"
        for change in changes.split():
            alert, _, revision = change.partition(".")[0].rpartition("-")
            mailed[message["To"]].setdefault(alert, []).append(int(revision))
    for mailbox_name in mailed:
        mine = [changes for (to, _), changes in messages.items() if to == mailbox_name]
        once = [change for changes in mine for change in changes.split()]
        assert len(once) == len({*once}), "no change, and no reminder, is told in two messages"
    for alert, life in lives.items():
        _check_life(life)
        _check_sent(life, hooked.get(alert, []))
        for mails in mailed.values():
            _check_sent(life, mails.get(alert, []), seldom=True)
    _check_manager(managed, lives)
    open_now = [life[-1] for life in lives.values() if life[-1]["fired"] and life[-1]["state"] != "resolved"]
    assert sorted((each["name"], each["key"]["site"], _hidden(each)) for each in open_now) == sorted(
        (each["labels"]["alertname"], each["labels"]["site"], each["status"]["state"] == "suppressed")
        for each in offered
    ), "Alertmanager's API has what fires"
    changes = [change for life in lives.values() for change in life]
    assert any(change["action"] for change in changes) and any(change["inhibited"] for change in changes)
    grouped = [message["X-Semcep-Changes"] for message in mailbox.messages if message["To"] == "group@example.org"]
    assert any(len({change.rpartition("-")[0] for change in each.split()}) > 1 for each in grouped), "there are digests"


def _is_change(name: str) -> bool:
    """Return False for a reminder, which has a number behind the id of the change."""
    return "." not in name
