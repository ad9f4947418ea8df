"""Subscriptions to a SPARQL query: what comes, what goes, and how they end."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import Future
from types import SimpleNamespace

import httpx
import pyoxigraph as ox
import pytest

from cep.connectors.rdf.question import Answer, QueryRefused, Question
from cep.connectors.serving.subscribe import PollingRate, Subscriptions, events_named
from tests import sparql_served
from tests.serving import Served, served
from tests.sparql_served import K

fridges = pytest.fixture(scope="module")(sparql_served.fridges)


pytestmark = pytest.mark.xdist_group("sparql")  # what they share is made once


def test_a_subscription_tells_what_comes_and_what_goes(tmp_path_factory: pytest.TempPathFactory) -> None:
    warm = "?e a k:Warming ; k:name ?n ; <urn:semcep:attribute/warm/temp> ?d"
    query = K + f"SELECT ?n (MAX(?d) AS ?most) {{ {warm} }} GROUP BY ?n"
    with served(tmp_path_factory.mktemp("watched")) as one, httpx.Client() as client:
        one.push((0, "milk", 8.0), (1, "milk", 1.0))
        one.store.flush()
        with client.stream("GET", one.url + "/sparql/subscribe", params={"query": query}) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines = (line for line in stream.iter_lines() if line and not line.startswith(":"))

            def next_event() -> tuple[str, dict]:  # type: ignore[type-arg]
                return next(lines).removeprefix("event: "), json.loads(next(lines).removeprefix("data: "))

            kind, found = next_event()
            assert kind == "answer" and [r["n"]["value"] for r in found["results"]["bindings"]] == ["milk"]
            one.push((2, "milk", 9.0), (3, "milk", 1.0))
            kind, found = next_event()
            assert kind == "change"
            assert [r["most"]["value"] for r in found["added"]] == ["9"] and [
                r["most"]["value"] for r in found["removed"]
            ] == ["8"]
            one.push((4, "milk", 8.5), (5, "fish", 3.0), (6, "milk", 1.0))
            assert [r["n"]["value"] for r in next_event()[1]["added"]] == ["fish"]
        assert asyncio.run(_all_watch(one)) == 30
        for bad, status in (("ASK {}", 400), ("SELECT * { ?x a }", 400), ("SELECT * { SERVICE ?x {} }", 403)):
            assert client.get(one.url + "/sparql/subscribe", params={"query": bad}).status_code == status


async def _all_watch(one: Served) -> int:
    """How many that come at once are sent the same of one query, which is asked but once for all of them, until it
    changes."""
    times = 0

    class Counted:
        def ask(self, question: Question) -> Future[Answer]:
            nonlocal times
            times += 1
            return one.store.ask(question)

    history = SimpleNamespace(store=Counted(), vocabulary=one.history.vocabulary, listen=one.history.listen)
    watched = Subscriptions(history, one.engine.outputs, PollingRate(0.01, 0.01))  # type: ignore[arg-type]
    question = Question("SELECT ?n { ?e a k:Warming ; k:name ?n }", prefixes=(("k", "http://example.org/kitchen#"),))
    queues = await asyncio.gather(*(watched.watch(question) for _ in range(30)))
    first = [await queue.get() for queue in queues]
    assert times == 1 and len(set(first)) == 1 and "milk" in (first[0] or "")
    one.push((20, "milk", 9.5), (21, "milk", 1.0))
    changes = [await queue.get() for queue in queues]
    assert times == 2 and len(set(changes)) == 1 and "added" in (changes[0] or "")
    late = await watched.watch(question)
    assert (await late.get() or "").count("milk") == (first[0] or "").count("milk") + 1 and times == 2
    for queue in (*queues, late):
        watched.leave(question, queue)
    assert watched.clients == 0
    with pytest.raises(QueryRefused, match="SELECT"):
        await watched.watch(Question("ASK {}"))
    return len(queues)


def test_a_subscription_that_cannot_go_on_ends() -> None:
    """After three problems of its own, one after the other; and whatever goes wrong, who waits hears of it."""
    asyncio.run(_ends())


async def _ends() -> None:
    def rows(*names: str) -> Answer:
        found = [{"n": {"type": "literal", "value": name}} for name in names]
        return Answer("json", json.dumps({"head": {"vars": ["n"]}, "results": {"bindings": found}}).encode())

    slow, busy, broken = QueryRefused("slow", "too long"), QueryRefused("busy", "too many"), Answer("json", b"{")
    given = iter([rows("milk"), slow, broken, rows("fish"), slow, busy, broken, busy, slow, broken, RuntimeError("x")])

    class Scripted:
        def ask(self, question: Question) -> Future[Answer]:
            found, future = next(given), Future[Answer]()
            if isinstance(found, Exception):
                future.set_exception(found)
            else:
                future.set_result(found)
            return future

    heard = []
    history = SimpleNamespace(store=Scripted(), vocabulary=None, listen=heard.append)
    watched = Subscriptions(history, {}, PollingRate(0.01, 0.01))  # type: ignore[arg-type]
    question = Question("SELECT ?n {}")
    queue = await watched.watch(question)
    sent = []
    while (message := await asyncio.wait_for(queue.get(), 60)) is not None:
        sent.append(message)
        if "problem" not in message:
            heard[0](None)
    kinds = [message.split("\n")[0].removeprefix("event: ") for message in sent]
    assert kinds == ["answer", "problem", "problem", "change", *["problem"] * 5]
    assert '"added": [{"n": {"type": "literal", "value": "fish"}}]' in sent[3] and '"code": "slow"' in sent[-1]
    assert '"code": "failed"' in sent[2] and watched.clients == 0
    for what in ("JSONDecodeError", "RuntimeError: x"):
        with pytest.raises(QueryRefused, match=what):
            await asyncio.wait_for(watched.watch(question), 60)
    assert watched.clients == 0 and next(given, None) is None


def test_which_events_a_query_is_about() -> None:
    iris = {"http://e.org/Storm": "storm", "http://e.org/at": "storm", "urn:semcep:type/calm": "calm"}
    for query, events in (
        ("PREFIX e: <http://e.org/> SELECT * { ?s a e:Storm }", {"storm"}),
        ("PREFIX : <http://e.org/> SELECT * { ?s :at ?x . ?c a <urn:semcep:type/calm> }", {"storm", "calm"}),
        ("SELECT * { ?s k:at 'e:Storm' }", {"storm"}),
        ("SELECT * { ?s ?p ?o } # <http://e.org/Storm>", None),
    ):
        assert events_named(query, {"k": "http://e.org/"}, iris) == events


def test_pages_of_events_by_time(fridges: Served) -> None:
    def page(path: str) -> tuple[httpx.Response, list[ox.Quad]]:
        found = httpx.get(fridges.url + path, headers={"Accept": "application/n-triples"})
        return found, list(ox.parse(found.content, ox.RdfFormat.N_TRIPLES))

    tree = "https://w3id.org/tree#"
    view, quads = page("/ldes")
    assert "P30D" in view.text and view.headers["cache-control"] == "no-cache"
    node = next(q.object.value for q in quads if q.predicate.value == tree + "node")
    _, quads = page(node.removeprefix(fridges.url))
    hours = sorted({q.object.value for q in quads if q.predicate.value == tree + "node"})
    assert [hour[-13:] for hour in hours] == ["2024-05-01T08", "2024-05-01T09"]
    members = []
    (compared,) = {q.object.datatype for q in quads if q.predicate.value == tree + "value"}
    for hour in hours:
        found, quads = page(hour.removeprefix(fridges.url))
        assert {q.object.datatype for q in quads if q.predicate.value.endswith("#inXSDDateTimeStamp")} == {compared}
        assert "immutable" in found.headers["cache-control"]
        members += [q.object.value for q in quads if q.predicate.value == tree + "member"]
        assert set(members[-1:]) <= {getattr(q.subject, "value", "") for q in quads}, "members are reported in full"
    assert len(members) == len(set(members)) == 6
    next_event = httpx.get(hours[0], headers={"Accept": "application/ld+json"}).json()
    assert {"ldes", "time", "tree"} <= set(next_event["@context"])
    assert any(node.get("@type") == "http://example.org/kitchen#Warming" for node in next_event["@graph"])
    for path in ("/ldes/2024-05-01T23", "/ldes/x", "/ldes/2024-05-01T08?page=9", "/ldes/2024-99-99"):
        assert httpx.get(fridges.url + path).status_code == 404, path
