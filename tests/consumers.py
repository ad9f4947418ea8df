"""Clients that follow the alerts of a server which stops and restarts, for tests.

They are an event stream that resumes with its `Last-Event-ID`, a reader of Atom with its archives and linked CAP
messages, and a subscriber at a broker.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urljoin

import feedparser
import httpx

from tests.waiting import Received

_MOMENT = 0.02  # seconds until the next try


class Stream(threading.Thread):
    """Reads events from all servers that there are, one after the other; `found`: number and document of each."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.url = ""
        self.found: Received[tuple[int, dict[str, Any]]] = Received()
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(_MOMENT):
            last = {"Last-Event-ID": str(self.found[-1][0])} if self.found else {}
            try:
                with httpx.stream("GET", f"{self.url}/feeds/events?after=0", headers=last, timeout=60) as answer:
                    self._read(answer)
            except httpx.HTTPError:
                continue  # it is not there, or no more

    def _read(self, answer: httpx.Response) -> None:
        fields: dict[str, str] = {}
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if line:
                fields[name] = value
            elif "data" in fields:  # whole: one that breaks off is none
                self.found.append((int(fields["id"]), json.loads(fields["data"])))
            fields = fields if line else {}
            if self.over.is_set():
                return


class Reader:
    """Reads Atom; `found`: of each entry its id and the CAP message behind it, oldest first."""

    def __init__(self) -> None:
        self.found: dict[str, bytes] = {}
        self._client = httpx.Client(timeout=60)

    def read(self, url: str) -> int:
        """What is new, back to what is known; how many documents that took. httpx.HTTPError: the server is gone, and
        nothing was read."""
        new: dict[str, bytes] = {}
        place: str | None = f"{url}/feeds/atom"
        pages = 0
        while place is not None:
            answer = self.get(place)
            pages += 1
            page = feedparser.parse(answer.content, response_headers={"content-location": place})
            known = False
            for entry in page.entries:
                known = known or entry.id in self.found
                if entry.id not in self.found and entry.id not in new:
                    (link,) = [link.href for link in entry.links if link.type == "application/cap+xml"]
                    new[entry.id] = self.get(urljoin(place, link)).content
            links = {link.rel: link.href for link in page.feed.links}
            place = None if known else links.get("prev-archive")
        self.found |= dict(reversed(new.items()))
        return pages

    def get(self, place: str) -> httpx.Response:
        return self._client.get(place).raise_for_status()


@contextmanager
def subscribed(port: int, topic: str, found: list[tuple[str, bytes]]) -> Iterator[None]:
    """What comes to a topic, now and while nobody was there, goes to `found`: the broker keeps a session."""
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion

    stands = threading.Event()
    client = Client(CallbackAPIVersion.VERSION2, client_id="consumer", clean_session=False)
    client.on_connect = lambda client, *_: client.subscribe(topic, qos=1)
    client.on_subscribe = lambda *_: stands.set()
    client.on_message = lambda _, __, one: found.append((one.topic, one.payload))
    client.connect("127.0.0.1", port)
    client.loop_start()
    assert stands.wait(60), "it is granted"
    try:
        yield
    finally:
        client.disconnect()
        client.loop_stop()
