"""Alert feeds, read by those who read them: feedparser, an event stream that breaks."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import unescape

import feedparser
import httpx
import uvicorn
from fastapi import FastAPI
from lxml import etree
from starlette.testclient import TestClient

from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.outbox_entries import OutboxEntry
from cep.connectors.alerts.text import clean
from cep.connectors.receivers import atom, cap
from cep.connectors.receivers.alertmanager import alertmanager_alert
from cep.connectors.receivers.document import SCHEMA as SCHEMA_OF_CHANGES
from cep.connectors.receivers.document import document, to_json
from cep.connectors.receivers.mqtt import topic_end
from cep.connectors.receivers.sse import Stream, sse_message
from cep.connectors.receivers.webhooks import cloudevent
from cep.connectors.serving.feeds import router
from tests.alert_feeds import CAP, ORIGIN, SCHEMA, WHOLE, client_of, filled
from tests.ports import free_port
from tests.waiting import Started, pause

HOSTILE = "]]><script>\x00\x1b</script>&amp; \u202egnp.exe \ufffe \"' \U0001f328 " + "x" * 1_000_000


def test_an_atom_reader_gets_all_by_following_the_archives() -> None:
    several = [replace(change, alert=f"{n}{change.alert[1:]}") for n in range(5) for change in WHOLE]
    outbox = filled(several)
    client = client_of(outbox)
    newest = client.get("/feeds/atom")
    assert newest.headers["content-type"] == "application/atom+xml; charset=utf-8"
    assert client.get("/feeds/atom", headers={"If-None-Match": newest.headers["etag"]}).status_code == 304
    seen: dict[str, str] = {}
    at, page = "/feeds/atom", newest
    while True:
        headers = {"content-location": f"http://h{at}", "content-type": page.headers["content-type"]}
        feed = feedparser.parse(page.content, response_headers=headers)
        assert not feed.bozo and feed.version == "atom10" and feed.feed.title == "Alerts of storm.cep"
        for entry in feed.entries:
            seen.setdefault(entry.id, entry.title)
        links = {link.rel: link.href for link in feed.feed.links}
        if "prev-archive" not in links:
            break
        at = links["prev-archive"].removeprefix("http://h")
        page = client.get(at)
        assert "immutable" in page.headers["cache-control"] and b"<fh:archive" in page.content
    assert set(seen) == {f"urn:semcep:alert/{change.alert}/{change.revision}" for change in several}
    assert client.get(f"/feeds/atom?page={len(several) // 100 + 1}").status_code == 404
    first = client.get("/feeds/atom?page=1")
    linked = {link.rel for link in feedparser.parse(first.content).feed.links}
    assert linked == {"self", "current"}
    empty = feedparser.parse(client_of(Outbox(None)).get("/feeds/atom").content)
    assert not empty.bozo and not empty.entries


def test_open_alerts_and_a_life_are_read_in_parts() -> None:
    outbox = Outbox(None)
    client, firing = client_of(outbox), WHOLE[0]
    opened = [replace(firing, alert=f"{number:032x}") for number in range(1_003)]
    outbox.add(opened, {})
    outbox.add([replace(opened[0], revision=revision, state="updated") for revision in range(1, 6)], {})

    def parts(path: str, limit: str = "") -> list[list[int]]:
        found = [[each["number"] for each in client.get(f"{path}?{limit}").json()]]
        while found[-1]:
            found.append([each["number"] for each in client.get(f"{path}?{limit}&after={found[-1][-1]}").json()])
        return found

    assert [len(part) for part in parts("/feeds/alerts")] == [1_000, 3, 0]
    assert [number for part in parts("/feeds/alerts") for number in part] == [*range(2, 1_004), 1_008]
    assert parts(f"/feeds/alerts/{opened[0].alert}", "limit=4") == [[1, 1_004, 1_005, 1_006], [1_007, 1_008], []]
    assert client.get(f"/feeds/alerts/{'0' * 31}x").status_code == 404
    for wrong in ("limit=0", "limit=10001", "after=-1", "after=x"):
        assert client.get(f"/feeds/alerts?{wrong}").status_code == 422, wrong


def test_an_archive_never_changes_while_it_is_there() -> None:
    """Also when an alert that came long ago stays open: it is still told of, but not as an archive of its own."""
    outbox = Outbox(None, keep=300)
    client, stream, seen = client_of(outbox), Stream(outbox, ORIGIN), {}
    firing, over = WHOLE[0], replace(WHOLE[0], revision=1, state="resolved")
    outbox.add([replace(firing, alert="f" * 32)], {})
    stayed = outbox.live()
    for number in range(400):
        outbox.add([replace(one, alert=f"{number:032x}") for one in (firing, over)], {})
        if number % 20 == 19:
            for page in range(1, 10):
                found = client.get(f"/feeds/atom?page={page}")
                if found.status_code == 200:
                    assert seen.setdefault(page, found.content) == found.content
                    assert found.content.count(b"<entry>") == 100
    assert set(seen) == {*range(1, 9)} and outbox.last == 801 and 401 < outbox.first <= 502
    there = [page for page in seen if client.get(f"/feeds/atom?page={page}").status_code == 200]
    assert there == [page for page in seen if page * 100 - 99 >= outbox.first] and there[-1] == 8
    assert b"page=8" in client.get("/feeds/atom").content
    assert outbox.live() == stayed and outbox.after(0, 1) == stayed, "what is open is sent to whoever comes"

    async def all_of(number: int) -> list[int]:
        ids: list[int] = []
        frames = stream.frames(number)
        while not ids or ids[-1] < outbox.last:
            frame = await asyncio.wait_for(anext(frames), 60)
            ids += [int(line[4:]) for line in frame.decode().split("\n") if line.startswith("id: ")]
        await frames.aclose()  # type: ignore[attr-defined]
        return ids

    kept = [entry.number for entry in outbox.after(0, 10_000)]
    assert kept == [1, *range(outbox.first, outbox.last + 1)] == asyncio.run(all_of(0))


def test_hostile_values_stay_values() -> None:
    """In every format; what is invisible or endless is gone before, in `connectors/alerts/text.py`."""
    bad = clean(HOSTILE)
    change = replace(WHOLE[0], title=bad, text=bad, values={"s": bad}, key={"s": bad}, name="storm")
    client = client_of(filled([change]))
    message = etree.fromstring(client.get(f"/feeds/cap/{change.alert}").content)
    SCHEMA.assertValid(message)
    assert message.findtext(".//c:headline", namespaces=CAP) == bad
    feed = feedparser.parse(client.get("/feeds/atom").content, sanitize_html=False)
    assert not feed.bozo and feed.entries[0].title == bad
    assert "<script" not in feed.entries[0].content[0].value and "&lt;script&gt;" in feed.entries[0].content[0].value
    assert client.get("/feeds/alerts").json()[0]["key"] == {"s": bad}
    event = json.loads(json.dumps(cloudevent(OutboxEntry(1, change), replace(ORIGIN, program="a b/<ü>\n"))))
    assert event["data"]["title"] == bad and event["source"] == "urn:semcep:program/a%20b%2F%3C%C3%BC%3E%20"
    assert alertmanager_alert(change, ORIGIN, 0, 60)["labels"]["s"] == bad  # type: ignore[index]
    assert set(topic_end(change)) <= set("abcdefghijklmnopqrstuvwxyz0123456789/")
    assert topic_end(replace(change, key={"a": "x/+#", "b": None})) == "storm/x%2F%2B%23/unknown"


@contextmanager
def served(outbox: Outbox) -> Iterator[str]:
    app, stream = FastAPI(), Stream(outbox, ORIGIN)
    app.include_router(router(outbox, ORIGIN, stream))
    port = free_port()
    server = Started(uvicorn.Config(app, port=port, log_level="error", lifespan="off"))
    yield f"http://127.0.0.1:{port}/feeds"
    stream.close()
    server.should_exit = True
    server.thread.join()


def test_an_event_stream_goes_on_where_it_broke() -> None:
    """Several clients, each breaking off at random, while changes come; one that comes late gets only what is new."""
    outbox, chance = Outbox(None), random.Random(5)

    async def follow(url: str, chance: random.Random) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        async with httpx.AsyncClient(timeout=60) as client:
            while len(found) < len(WHOLE):
                headers = {"Last-Event-ID": str(found[-1][0])} if found else {}
                patience = chance.randrange(1, 12)
                async with client.stream("GET", f"{url}/events?after=0", headers=headers) as answer:
                    assert answer.headers["content-type"].startswith("text/event-stream")
                    number = 0
                    async for line in answer.aiter_lines():
                        if line.startswith("id: "):
                            number = int(line[4:])
                        if line.startswith("data: "):
                            found.append((number, line[6:]))
                            patience -= 1
                        if not patience or len(found) == len(WHOLE):
                            break
        return found

    async def all_follow(url: str) -> list[list[tuple[int, str]]]:
        return await asyncio.gather(*(follow(url, random.Random(seed)) for seed in range(10)))

    def come() -> None:
        for change in WHOLE:
            pause(chance.uniform(0, 0.005))
            outbox.add([change], {"p": 0})

    with served(outbox) as url:
        coming = threading.Thread(target=come)
        coming.start()
        for found in asyncio.run(all_follow(url)):
            assert [number for number, _ in found] == list(range(1, len(WHOLE) + 1))
            assert [json.loads(data) for _, data in found] == [document(change) for change in WHOLE]
        coming.join()
        assert httpx.get(f"{url}/events", headers={"Last-Event-ID": "x; drop"}).status_code == 400
        with httpx.stream("GET", f"{url}/events", headers={"Last-Event-ID": "999999"}) as answer:
            lines = (line for line in answer.iter_lines() if line.startswith("id: "))
            assert next(lines) == "id: 1", "of a number that never was, everything"
        with httpx.stream("GET", f"{url}/events") as answer:
            lines = answer.iter_lines()
            assert next(lines) == "retry: 2000"
            outbox.add([replace(WHOLE[0], alert="f" * 32)], {"p": 0})
            assert next(line for line in lines if line.startswith("id: ")) == f"id: {len(WHOLE) + 1}"
        assert [one["number"] for one in httpx.get(f"{url}/alerts").json()] == [len(WHOLE) + 1]
        assert len(httpx.get(f"{url}/alerts/{WHOLE[0].alert}").json()) == sum(
            change.alert == WHOLE[0].alert for change in WHOLE
        )


def test_the_schema_of_a_change_is_that_of_its_document() -> None:
    kinds = {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list, "null": type(None)}
    for change in WHOLE:
        received = document(change)
        assert received.keys() == SCHEMA_OF_CHANGES["properties"].keys()
        for name, schema in SCHEMA_OF_CHANGES["properties"].items():
            types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
            assert type(received[name]) in {kinds[each] for each in types}, name
            assert received[name] in schema.get("enum", [received[name]])


def test_each_feed_has_the_link_of_an_alert() -> None:
    origin = replace(ORIGIN, address="https://x.org/cep/")
    change = replace(WHOLE[0], runbook="https://r.org/flood")
    (entry,) = (outbox := filled([change])).after(0)
    link = f"https://x.org/cep/#alert={change.alert}"
    assert cloudevent(entry, origin)["data"]["link"] == link  # type: ignore[index]
    assert json.loads(to_json(entry, origin))["link"] == link
    assert json.loads(sse_message(entry, origin).partition(b"data: ")[2])["link"] == link
    app = FastAPI()
    app.include_router(router(outbox, origin, Stream(outbox, origin)))
    assert TestClient(app).get("/feeds/alerts").json()[0]["link"] == link
    links = etree.fromstring(atom.newest_document(outbox, origin)).findall("{*}entry/{*}link")
    assert [each.get("href") for each in links if each.get("type") == "text/html"] == [link]
    for runbook in ("", change.runbook):
        made = etree.fromstring(cap.to_xml(replace(entry, change=replace(change, runbook=runbook)), origin, []))
        assert SCHEMA.validate(made), SCHEMA.error_log
        assert made.findtext("{*}info/{*}web") == (runbook or link)
        more = {each.findtext("{*}valueName"): each.findtext("{*}value") for each in made.iter("{*}parameter")}
        assert more.get("page") == (link if runbook else None)
    assert document(change)["link"] == "" and set(document(change)) == set(SCHEMA_OF_CHANGES["properties"])


def test_what_people_did_and_labels_are_there_once() -> None:
    """In Atom who has an alert and what became of it; a label that is a value too is not listed again."""
    change = replace(
        WHOLE[0], values={"site": "north", "cm": 3}, labels={"site": "north", "cm": "high"}, action="closed", by="ann",
        comment="a leak", assignee="ben", acknowledged="eve", verdict="true",
    )  # fmt: skip
    (entry,) = filled([change]).after(0)
    body = atom.newest_document(filled([change]), ORIGIN).decode()
    content = unescape(body.partition("<content")[2])
    shown = {"assigned to": "ben", "verdict": "true", "acknowledged by": "eve", "cm": "high"}
    rows = [f"<dt>{name}</dt><dd>{text}</dd>" for name, text in shown.items()]
    for text in ("closed as true by ann: a leak", "<dt>cm</dt><dd>3</dd>", *rows):
        assert text in content
    assert content.count("<dt>site</dt>") == 1
    assert cap.to_xml(entry, ORIGIN, []).decode().count("<valueName>site<") == 1
