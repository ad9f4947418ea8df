"""`cep serve --revise` killed at random moments, with live input: each consumer comes to what a run in order gives, and
nothing is told twice.

`SEMCEP_KILLS=50` kills so often.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urljoin

import feedparser
import httpx
import pytest
from lxml import etree

from cep.connectors.receivers.document import document
from cep.engine import Engine
from tests import brokers
from tests.alert_feeds import CAP, SCHEMA, by_key
from tests.brokers import Cluster, mosquitto, publish
from tests.consumers import Stream
from tests.receiver import receiver
from tests.revised_consumers import PROGRAM, SECOND, LdesClient, Record, Truth, by_brute_force, records
from tests.serving import EIGHT
from tests.test_alerts_revised import standing
from tests.test_serve import Server
from tests.told_alerts import Told
from tests.waiting import pause, until

KILLS = int(os.environ.get("SEMCEP_KILLS", "3"))
WINDOW = 10
FALSE = (0, "z", 0, 9.0, 1)
"""The first record, which is withdrawn."""
FRESH = (10**4, "a", 0, 0.0, 1)
"""The last record, so late that all before is final."""
READ = re.compile(r"semcep_records_total [1-9]")
HELD = "SELECT ?e { ?e time:hasBeginning ?t }"


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    while Server.running:
        Server.running.pop().kill()


def line(record: Record) -> bytes:
    at, fridge, n, temp, change = record
    found: dict[str, object] = {"time": (EIGHT + at * SECOND) / 1e6, "fridge": fridge, "n": n, "temp": temp}
    if change < 0:
        found["@change"] = "withdraw"
        if n % 2:
            del found["temp"]  # a withdrawal needs no more than key and time
    return json.dumps(found).encode()


def atom(url: str) -> dict[str, list[str]]:
    """The entries of all documents, by their ids: how each was called, the latest last."""
    found: dict[str, list[str]] = {}
    documents, place = [], f"{url}/feeds/atom"
    while place:
        page = feedparser.parse(httpx.get(place).content, response_headers={"content-location": place})
        documents.append(page)
        links = {link.rel: link.href for link in page.feed.links}
        place = urljoin(place, links["prev-archive"]) if "prev-archive" in links else ""
    seen: set[tuple[str, str]] = set()
    for page in reversed(documents):
        for entry in reversed(page.entries):
            if (entry.id, entry.updated) not in seen:  # the newest document has some of the last archive
                seen.add((entry.id, entry.updated))
                found.setdefault(entry.id, []).append(entry.title)
    return found


def check_cap(url: str, told: list[dict[str, object]]) -> None:
    """Every message is valid, and refers to the first one of its alert and the one before it."""
    identifiers: dict[object, list[str]] = {}
    for change in told:
        message = etree.fromstring(httpx.get(f"{url}/feeds/cap/{change['alert']}/{change['revision']}").content)
        SCHEMA.assertValid(message)
        before = identifiers.setdefault(change["alert"], [])
        kind = "Alert" if not before else "Cancel" if change["state"] == "resolved" else "Update"
        assert message.findtext("c:msgType", namespaces=CAP) == kind
        references = message.findtext("c:references", namespaces=CAP) or ""
        named = [re.split(",", each)[1] for each in references.split()]
        assert named == list(dict.fromkeys([*before[:1], *before[-1:]]))
        assert (message.findtext("c:note", namespaces=CAP) or "") == change["note"]
        before.append(str(message.findtext("c:identifier", namespaces=CAP)))


def pages(server: Server, path: str) -> bytes | None:
    answer = httpx.get(f"{server.url}/{path}", headers={"Accept": "application/n-triples"})
    return answer.content if answer.status_code == 200 else None


@pytest.mark.long
@pytest.mark.skipif(brokers.MOSQUITTO is None, reason=brokers.MISSING)
def test_every_consumer_comes_to_the_same(tmp_path: Path) -> None:
    """Records of Kafka in; a store, pages of events, a stream of events that goes on, Atom with CAP, topics of a
    broker, and posts to who fails at random out."""
    chance = random.Random(KILLS)
    given = [FALSE, (*FALSE[:4], -1), *records(chance, 60 + 25 * KILLS, WINDOW), FRESH]
    truth = Truth.of(given, WINDOW * SECOND)
    Engine.from_text(PROGRAM, alerts=True, revise=WINDOW * SECOND)  # the program is none that is refused
    (tmp_path / "rules.cep").write_text(PROGRAM)
    stream, cluster = Stream(), Cluster("readings")
    hook = receiver(0, tmp_path / "taken", random.Random(KILLS), 0.95)
    threading.Thread(target=hook.serve_forever, daemon=True).start()
    with mosquitto(tmp_path / "broker") as port:
        arguments = [str(tmp_path / "rules.cep"), "--state", str(tmp_path / "state"), "--idle", "never"]
        arguments += ["--input", f"reading=kafka://{cluster.servers}/readings?group=served", "--rate", "0"]
        arguments += ["--revise", f"{WINDOW}s", "--keep-history"]
        arguments += ["--feed", f"mqtt://127.0.0.1:{port}/alerts#from=start"]
        arguments += ["--feed", f"cloudevents+http://127.0.0.1:{hook.server_port}/in#private=yes&from=start"]
        cuts = [0, *sorted(chance.sample(range(3, len(given)), KILLS)), len(given)]
        client = LdesClient(lambda path: pages(server, path))
        for turn in range(KILLS):
            server = Server(*arguments)
            stream.url = server.url
            if turn == 0:
                stream.start()
            for number in range(cuts[turn], cuts[turn + 1]):
                cluster.send([(0, number, line(given[number]))])
                if number == cuts[turn]:
                    until(partial(reads, server), "it reads")
                if number == 0:
                    stream.found.at_least(1)  # so that what is withdrawn was told
                pause(chance.choice((0, 0.02, 0.1)))
            pause(chance.uniform(0, 0.5))
            if turn % 2:
                client.read()
            assert server.end(signal.SIGKILL) == -signal.SIGKILL
        server = Server(*arguments)
        stream.url = server.url
        cluster.send([(0, number, line(given[number])) for number in range(cuts[-2], len(given))])
        until(lambda: sorted(truth.ids) == sorted(each[0][17:] for each in server.rows(HELD)), "the store holds it")
        receivers = f"{server.url}/feeds/receivers"
        until(lambda: not any(one["waiting"] for one in httpx.get(receivers).json()), "all is reported")
        assert [one["dead"] for one in httpx.get(receivers).json()] == [0, 0]
        last = max(entry["number"] for each in truth.alerts for entry in life(server.url, each.alert))
        stream.found.wait(lambda: stream.found and stream.found[-1][0] >= last, "the stream has all")
        client.read()
        assert client.held() == truth.ids.keys() - truth.open
        told = [one for _, one in stream.found]
        assert [number for number, _ in stream.found] == list(range(1, len(told) + 1)), "each once, in order"
        check_cap(server.url, told)
        entries = atom(server.url)
        stream.over.set()
        assert server.end(signal.SIGTERM) == 0
        stream.join()
        retained: list[tuple[str, bytes]] = []
        with brokers.listening(port, "alerts/#") as kept:
            publish(port, [("alerts/over", b"over")])
            until(lambda: any(topic == "alerts/over" for topic, _, _ in kept), "it comes")
            retained += [(topic, body) for topic, _, body in kept if topic != "alerts/over"]
    hook.shutdown()
    hook.server_close()
    taken = [text.split("\t") for text in (tmp_path / "taken").read_text().splitlines()]
    posted = {key: json.loads(body) for _, key, _, body in taken}
    assert by_key(one["data"] for one in posted.values()) == by_key(told), "each change once, those of a key in order"
    follower = Told(SECOND, EIGHT)
    follower.take(told)
    follower.check(by_brute_force(given, WINDOW))
    holds = standing(truth.alerts)
    documents = {one.alert: document(one) for one in truth.alerts}
    last_told = {str(one["alert"]): one for one in told}
    assert {name for name, one in last_told.items() if not one["withdrawn"]} == holds.keys()
    for name in holds:
        mine, due = last_told[name], documents[name]
        assert {key: mine[key] for key in ("occurrences", "start", "end", "until", "values", "title")} == {
            key: due[key] for key in ("occurrences", "start", "end", "until", "values", "title")
        }
        assert (mine["state"] == "resolved") == (due["state"] == "resolved")
    revisions: dict[object, int] = {}
    for one in told:
        assert one["revision"] == revisions.get(one["alert"], -1) + 1, "no change is told twice"
        revisions[one["alert"]] = int(str(one["revision"]))
    kinds = {"withdrawn" if one["data"]["withdrawn"] else one["data"]["state"] for one in posted.values()}
    assert {one["type"] for one in posted.values()} == {f"semcep.alert.{kind}" for kind in kinds}
    assert {"firing", "withdrawn", "resolved"} <= kinds
    open_ = {documents[name]["title"] for name, (over, *_) in holds.items() if not over}
    assert {json.loads(body)["title"] for _, body in retained if body} == open_
    for one in told:
        titles = entries[f"urn:semcep:alert/{one['alert']}/{0 if one['withdrawn'] else one['revision']}"]
        assert any(str(one["title"]) in title for title in titles)
        if last_told[str(one["alert"])]["withdrawn"]:
            assert entries[f"urn:semcep:alert/{one['alert']}/0"][-1].endswith("(withdrawn)"), "its entry says so"


def reads(server: Server) -> bool:
    return READ.search(httpx.get(f"{server.url}/metrics").text) is not None


def life(url: str, alert: str) -> list[dict[str, int]]:
    found: list[dict[str, int]] = httpx.get(f"{url}/feeds/alerts/{alert}").json()
    return found
