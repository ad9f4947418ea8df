"""HTTP as it is written: what a client takes, methods, tags, codings and limits, the same for all that is served."""

from __future__ import annotations

import gzip
import re
import socket
import threading
import zlib
from dataclasses import replace

import httpx
import pytest
from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.testclient import TestClient

from cep.connectors.alerts.outbox import Outbox
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.sse import Stream
from cep.connectors.receivers.targets import public, target
from cep.connectors.serving.feeds import router
from cep.connectors.serving.guard import HEAD, _host, client_of
from cep.connectors.serving.negotiation import accepts, negotiated, takes_coding
from cep.core.errors import CepError
from cep.core.ip import canonical_host, here
from tests import http_served
from tests.alert_server import expected
from tests.http_served import places
from tests.page_server import Shown
from tests.serving import Served
from tests.test_slow import guarded

fridges = pytest.fixture(scope="module")(http_served.fridges)
page = pytest.fixture(scope="module")(http_served.page)


pytestmark = pytest.mark.xdist_group("http")  # what they share is made once
KNOWN = {"application/json": "json", "text/turtle": "ttl", "text/csv": "csv"}
WHOLE = expected()


@pytest.mark.parametrize(
    ("accept", "format"),
    [
        ([], "json"),
        ([""], "json"),
        (["*/*"], "json"),
        (["text/*"], "ttl"),
        (["text/*;q=0.5, text/csv"], "csv"),
        (["text/turtle;q=0, text/*"], "csv"),
        (["*/*, application/json;q=0"], "ttl"),
        (["*/*;q=0"], ""),
        (["image/png", "text/csv;q=0.1"], "csv"),  # two lines are one list
        (["image/*, text/html"], ""),
        (['text/html;a="x,text/csv;q=1", text/turtle'], "ttl"),
        (["text/html, *; q=.2, */*; q=.2"], "json"),  # as Java asks
        (["TEXT/CSV ; Q=1"], "csv"),
        (["text/csv;q=0.9;ext=1, text/turtle;charset=utf-8;q=0.8"], "csv"),
        (["text/csv;q=2, text/turtle;q=-1"], ""),
        ([";;;,,q=1"], ""),
        (['"' * 10_001], ""),
    ],
)
def test_what_accept_means(accept: list[str], format: str) -> None:
    headers = Headers(raw=[(b"accept", one.encode()) for one in accept])
    assert negotiated(headers, KNOWN) == format
    assert any(accepts(headers, kind) for kind in KNOWN) is bool(format)


def test_what_accept_encoding_means() -> None:
    for text, taken in (("gzip", True), ("br;q=1, gzip;q=0.1", True), ("*", True), ("x-gzip", True)):
        assert takes_coding(Headers({"accept-encoding": text}), "gzip") is taken, text
    for text in ("", "identity", "gzip;q=0", "*, gzip;q=0", "*;q=0"):
        assert not takes_coding(Headers({"accept-encoding": text}), "gzip"), text


def test_what_cannot_be_had_is_not_sent(page: Shown, fridges: Served) -> None:
    """By any path, also where what there is has one form only, or never ends; a mistake is reported in any case."""
    for one in (page, fridges):
        with httpx.Client(base_url=one.url) as client:
            for place in places(client.get("/openapi.json").json(), "get"):
                answer = client.get(place, headers={"Accept": "image/png, text/*;q=0, application/*;q=0"})
                assert answer.status_code in (404, 406) or "svg" in place, (place, answer.status_code)
                assert answer.text.count("\n") == 1, answer.text
    with httpx.Client(base_url=page.url) as client:
        atom = client.get("/feeds/atom", headers={"Accept": "application/*"})
        again = client.get("/feeds/atom", headers={"If-None-Match": atom.headers["etag"]})
        assert (atom.status_code, again.status_code) == (200, 304)
        for answer in (atom, again):
            assert answer.headers["vary"].split(", ").count("Accept") == 1, "another `Accept` has another answer"
        assert client.get("/feeds/atom", headers={"Accept": "text/*"}).status_code == 406
        assert client.get("/feeds/events", headers={"Accept": "application/json"}).status_code == 406
        assert client.get("/metrics", headers={"Accept": "text/plain;version=0.0.4"}).status_code == 200
        text = client.get("/why-not?event=hot&at=2024-05-01&format=text", headers={"Accept": "application/json"})
        assert text.headers["content-type"].startswith("text/plain"), "the address says it"


def test_queries_and_pages_of_events_negotiate_alike(fridges: Served) -> None:
    url, table, triples = fridges.url + "/sparql", "ASK {}", "CONSTRUCT WHERE { ?a ?b ?c }"
    for query, accept, status in (
        (table, "text/turtle", 406),
        (table, "text/turtle, text/*;q=0.1", 200),
        (triples, "application/sparql-results+json", 406),
        (triples, "text/csv, application/n-triples;q=0.5", 200),
        (None, "text/csv", 406),
        (None, "text/*", 200),
    ):
        parameters = {} if query is None else {"query": query}
        answer = httpx.get(url, params=parameters, headers={"Accept": accept})
        assert (answer.status_code, answer.headers["vary"].split(", ")[0]) == (status, "Accept"), (query, accept)
    answer = httpx.get(url, params={"query": table}, headers={"Accept": "text/*"})
    assert answer.headers["content-type"].startswith("text/csv"), "what is sent is what was taken"
    assert httpx.get(fridges.url + "/ldes", headers={"Accept": "text/csv"}).status_code == 406
    assert httpx.get(fridges.url + "/ldes", headers={"Accept": "text/csv, */*;q=0.1"}).status_code == 200


def test_every_path_answers_head_and_options(page: Shown, fridges: Served) -> None:
    for one in (page, fridges):
        with httpx.Client(base_url=one.url) as client:
            openapi = client.get("/openapi.json").json()
            for place in places(openapi, "get"):
                head = client.head(place)
                assert not head.content and "405" not in str(head.status_code), place
                if "events" in place or "stream" in place or "subscribe" in place:
                    assert head.headers.get("content-type", "").startswith(("text/event-stream", "text/plain")), place
                    continue
                whole = client.get(place)
                assert head.status_code == whole.status_code, place
                changing = ("date", "content-length") if "/metrics" in place else ("date",)
                seen = [{k: v for k, v in each.headers.items() if k not in changing} for each in (head, whole)]
                assert seen[0] == seen[1], place
            for path in openapi["paths"]:
                alike = [each for each in openapi["paths"] if re.fullmatch(re.sub(r"{\w+}", "[^/]+", each), path)]
                methods = {method for each in alike for method in openapi["paths"][each]}  # `/x/preview`, `/x/{id}`
                allowed = (
                    {method.upper() for method in methods} | {"OPTIONS"} | ({"HEAD"} if "get" in methods else set())
                )
                options = client.options(re.sub(r"{\w+}", "0", path))
                assert options.status_code == 204 and not options.content
                assert set(options.headers["allow"].split(", ")) == allowed, path
            assert client.options("/nowhere").status_code == 404
    for method in ("PUT", "DELETE", "PATCH", "TRACE"):
        refused = httpx.request(method, fridges.url + "/sparql")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS, POST")
        assert refused.text == "/sparql takes GET, HEAD, OPTIONS, POST only\n"
    asks = {"Origin": "http://page.example", "Access-Control-Request-Method": "POST"}
    asks["Access-Control-Request-Headers"] = "content-encoding, last-event-id"
    allowed = httpx.options(fridges.url + "/sparql", headers=asks)
    assert allowed.status_code == 200 and allowed.headers["access-control-allow-origin"] == "http://page.example"
    other = httpx.options(fridges.url + "/sparql", headers={**asks, "Access-Control-Request-Method": "PATCH"})
    assert other.status_code == 400


def feed_of(outbox: Outbox) -> TestClient:
    app = FastAPI()
    app.include_router(router(outbox, Publisher("storm.cep"), Stream(outbox, Publisher("storm.cep"))))
    return TestClient(app)


def test_a_tag_is_of_one_feed_alone() -> None:
    """A server that keeps nothing begins another feed at each start: what was read of the last is not taken for it."""
    several = [replace(change, alert=f"{n}{change.alert[1:]}") for n in range(5) for change in WHOLE]
    first, second = Outbox(None), Outbox(None)
    for outbox in (first, second):
        outbox.add(several, {})
    clients = [feed_of(outbox) for outbox in (first, second)]
    one, other = (client.get("/feeds/atom") for client in clients)
    tag = one.headers["etag"]
    assert tag != other.headers["etag"]
    assert clients[1].get("/feeds/atom", headers={"If-None-Match": tag}).status_code == 200
    for given in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        same = clients[0].get("/feeds/atom", headers={"If-None-Match": given})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag), given
    found = re.search(r'rel="prev-archive" href="([^"]+)"', one.text)
    assert found is not None
    archive = "/feeds/" + found[1].replace("&amp;", "&")
    kept = clients[0].get(archive)
    assert kept.status_code == 200 and "immutable" in kept.headers["cache-control"]
    assert kept.headers["etag"] not in (tag, clients[0].get("/feeds/atom?page=1").headers["etag"])
    assert clients[1].get(archive).status_code == 404, "another feed has no such archive"
    assert "immutable" not in clients[0].get("/feeds/atom?page=1").headers["cache-control"]
    cap = f"/feeds/cap/{several[0].alert}/0"
    message = clients[0].get(cap)
    assert clients[0].get(cap, headers={"If-None-Match": message.headers["etag"]}).status_code == 304
    assert clients[0].get("/feeds/atom", headers={"If-None-Match": message.headers["etag"]}).status_code == 200


def test_bodies_come_and_go_compressed(fridges: Served) -> None:
    url, query = fridges.url + "/sparql", b"query=SELECT * { ?s ?p ?o }"
    kind = {"Content-Type": "application/x-www-form-urlencoded", "Accept-Encoding": "identity"}
    plain = httpx.post(url, content=query, headers=kind)
    assert plain.status_code == 200 and "content-encoding" not in plain.headers and len(plain.content) > 1000
    assert "Accept-Encoding" in plain.headers["vary"] and "Accept" in plain.headers["vary"].split(", ")
    packed = gzip.compress(query)
    for coding, body in (
        ("gzip", packed),
        ("x-gzip", packed),
        ("identity", query),
        ("GZIP", packed + gzip.compress(b"")),
    ):
        answer = httpx.post(url, content=body, headers={**kind, "Content-Encoding": coding, "Accept-Encoding": "gzip"})
        assert (answer.status_code, answer.headers["content-encoding"]) == (200, "gzip"), coding
        assert sorted(answer.text) == sorted(plain.text)
        assert int(answer.headers["content-length"]) < len(plain.content)
    for coding in ("br", "gzip, gzip", "deflate"):
        refused = httpx.post(url, content=packed, headers={**kind, "Content-Encoding": coding})
        assert (refused.status_code, refused.headers["accept-encoding"]) == (415, "gzip"), coding
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join([*(packer.compress(bytes(1 << 20)) for _ in range(64)), packer.flush()])
    assert len(bomb) < 1 << 17
    for body, status in ((bomb, 413), (packed[:-9], 400), (b"none", 400), (packed + b"none", 400)):
        answer = httpx.post(url, content=body, headers={**kind, "Content-Encoding": "gzip"})
        assert answer.status_code == status and answer.text.count("\n") == 1, answer.text
    small = httpx.post(url, content=b"query=ASK {}", headers={**kind, "Accept-Encoding": "gzip"})
    assert "content-encoding" not in small.headers, "it does not pay"


def test_a_compressed_file_keeps_its_tag_and_streams_are_as_they_are(page: Shown) -> None:
    with httpx.Client(base_url=page.url) as client:
        script = client.get("/page/main.js", headers={"Accept-Encoding": "gzip"})
        plain = client.get("/page/main.js", headers={"Accept-Encoding": "gzip;q=0"})
        assert script.headers["content-encoding"] == "gzip" and script.text == plain.text
        assert script.headers["etag"] == "W/" + plain.headers["etag"]
        again = {"If-None-Match": script.headers["etag"], "Accept-Encoding": "gzip"}
        assert client.get("/page/main.js", headers=again).status_code == 304
        with client.stream("GET", "/feeds/events", headers={"Accept-Encoding": "gzip"}) as answer:
            assert "content-encoding" not in answer.headers
            assert next(answer.iter_lines()) == "retry: 2000"


def test_headers_have_a_limit_that_is_kept() -> None:
    """However they come: at once, or in parts that never end."""

    def status(port: int, size: int, whole: bool) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=120) as opened:
            head = b"GET /word HTTP/1.1\r\nHost: here\r\nX-Long: "
            end = b"\r\n\r\n" if whole else b""
            opened.sendall(head + b"x" * (size - len(head) - len(end)) + end)
            return opened.recv(100).split(b"\r\n")[0]

    with guarded(threading.Event()) as port:
        assert status(port, HEAD, True) == b"HTTP/1.1 200 OK"
        assert status(port, HEAD + 1, True) == b"HTTP/1.1 431 Request Header Fields Too Large"
        assert status(port, HEAD + 1, False) == b"HTTP/1.1 431 Request Header Fields Too Large"


def test_this_machine_has_many_names() -> None:
    """An address of IPv4 stands in one of IPv6 in several ways."""
    for local in ("127.0.0.1", "::1", "127.9.9.9", "::ffff:127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1"):
        assert here(local) and here(f"[{local}]") and client_of({"client": (local, 1)}) == "this machine", local
        if local != "::1":
            assert not public(local), local
            with pytest.raises(CepError, match="is a private address"):
                target(f"cloudevents+http://[{local}]/" if ":" in local else f"cloudevents+http://{local}/")
    assert here("LOCALHOST.") and here("0:0:0:0:0:0:0:1") and not here("10.0.0.1") and not here("127.0.0.1.example")
    for own in ("::ffff:0:10.0.0.1", "2a00:1450::5efe:192.168.1.1", "2a00:1450::200:5efe:10.0.0.1"):
        assert not public(own), own
    assert public("2a00:1450:4001::5efe:808:808")
    for link in ("::ffff:0:169.254.169.254", "2a00:1450::5efe:169.254.169.254"):
        with pytest.raises(CepError, match="is a link-local address"):
            target(f"alertmanager+http://[{link}]:9093")
    for text in ("127.0.0.1:8000", "[::ffff:127.0.0.1]:8000", "[::ffff:0:7f00:1]", "127.0.0.1"):
        assert _host(text) == "127.0.0.1", text
    assert (_host("[0:0::1]:80"), _host("LocalHost.:1"), canonical_host("Example.ORG.")) == (
        "::1",
        "localhost",
        "example.org",
    )
    assert (
        client_of({"client": ("2001:db8::1:2", 1)}) == "2001:db8::/64"
        and client_of({"client": ("9.9.9.9", 1)}) == "9.9.9.9"
    )
