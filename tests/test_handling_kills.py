"""A server that is killed again and again while people work: for each alert nothing is missing or out of order at a
client of Server-Sent Events, a webhook and the list of actions."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest

from connectors.alerts.text import rfc3339
from tests.desk import BEN
from tests.ports import free_port
from tests.test_webhooks import listening
from tests.waiting import PATIENCE, pause, until

KILLS = 5
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
def process(folder: Path, port: int, feed: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.desk_server", str(folder), str(port), feed]
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
            body = {"matchers": [f"site={rng.choice('abc')}"], "endsAt": end, **comment}
            done = httpx.post(f"{url}/silences", json=body, headers=HEADERS, timeout=10)
            return ("silence", done.json()["id"]) if done.status_code == 200 else None
        body = {"close": {"verdict": "true"}, "assign": {"to": "ann"}}.get(action, {}) | comment
        done = httpx.post(f"{url}/alerts/{alert}/{action}", json=body, headers=HEADERS, timeout=10)
        return (f"number {number}", alert) if done.status_code == 200 else None
    except (httpx.HTTPError, ValueError):
        return None


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_missing_or_out_of_order_after_kills(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    posted: list[dict[str, Any]] = []

    def take(request: BaseHTTPRequestHandler, body: bytes) -> int:
        posted.append(json.loads(body))
        return 200

    port = free_port()
    url = f"http://127.0.0.1:{port}"
    answered: list[tuple[str, str]] = []
    with listening(take) as (hook, _):
        feed = f"cloudevents+{hook}#private=yes"
        with process(tmp_path, port, feed):
            events = Events(url)
            until(lambda: httpx.get(f"{url}/alerts", headers=HEADERS).json(), "something fires")
        for kill in range(KILLS):
            with process(tmp_path, port, feed):
                end = time.monotonic() + rng.uniform(0.3, 4.0)
                number = 0
                while time.monotonic() < end:
                    number += 1
                    if (done := _act(url, rng, 1_000 * kill + number)) is not None:
                        answered.append(done)
        with process(tmp_path, port, feed):
            pause(1.0)
            last = httpx.get(f"{url}/feeds/actions?limit=10000", headers=HEADERS).json()
            every = httpx.get(f"{url}/alerts?state=resolved&state=firing&limit=10000", headers=HEADERS).json()
            number = max(each["number"] for each in every)
            until(lambda: events.last >= number, "events come")
            waits = f"{url}/feeds/receivers"
            cursor = until(
                lambda: httpx.get(waits, headers=HEADERS).json()[0]["cursor"] >= number, "the webhook has all"
            )
            assert cursor
        events.over = True
    assert answered, "people have done something"
    recorded = [(each["comment"], each["alert"]) for each in last if each["alert"]]
    recorded += [("silence", each["silence"]) for each in last if each["silence"]]
    assert all(recorded.count(each) == 1 for each in answered), "what was answered is kept, once"
    numbers = [number for number, _ in events.seen]
    assert numbers == list(range(1, len(numbers) + 1)), "no number is missing, or comes twice"
    lives: dict[str, list[dict[str, Any]]] = {}
    for _, change in events.seen:
        lives.setdefault(change["alert"], []).append(change)
    sent: dict[str, list[int]] = {}
    for each in posted:
        sent.setdefault(each["data"]["alert"], []).append(each["data"]["revision"])
    for alert, life in lives.items():
        assert [each["revision"] for each in life] == list(range(len(life))), "every change is there, in order"
        loud = [each["revision"] for each in life if not each["silenced"] or each["state"] == "resolved"]
        there = [revision for revision in dict.fromkeys(sent.get(alert, [])) if revision in loud]
        first = there[0] if there else len(life)
        assert there == [each for each in loud if first <= each <= life[-1]["revision"]][: len(there)]
        assert all(revision in loud for revision in sent.get(alert, ())), "what is silenced is not sent"
        owner = ""
        for change in life:
            owner = {"acknowledged": "ben", "closed": owner or ("" if change["state"] == "resolved" else "ben")}.get(
                change["action"], owner
            )
            assert change["acknowledged"] == owner, "whoever has an alert has it after a start too"
            escalates = change["state"] == "escalated"
            assert not (escalates and owner), "an acknowledged alert does not escalate"
    assert any(change["action"] for life in lives.values() for change in life)
