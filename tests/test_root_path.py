"""A server below a path of a proxy, and how many streams a client may have."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from cep.connectors.serving import root_path as path_of
from cep.connectors.serving.guard import MANY, Guard, Limits
from cep.connectors.serving.people import People, Person, Role, cookie_value
from cep.core.errors import CepError
from cep.server.options import ServerOptions
from tests.page_server import shown
from tests.proxy import below
from tests.waiting import turn, until


def test_where_people_find_the_page() -> None:
    """An alert links to the public address, else to host and port."""
    for options, address in (
        (ServerOptions(), "http://127.0.0.1:8000/"),
        (ServerOptions(port=0), ""),
        (ServerOptions(host="::1", root_path="/semcep"), "http://[::1]:8000/semcep/"),
        (ServerOptions(host="0.0.0.0", open=True), f"http://{socket.gethostname()}:8000/"),
        (ServerOptions(port=0, public_url="https://example.org/semcep"), "https://example.org/semcep/"),
    ):
        assert options.address == address
    for wrong in (
        "example.org",
        "https://",
        "ftp://e.org/",
        "https://me:secret@e.org/",
        "https://e.org/?a=1",
        "https://e.org/#a",
    ):
        with pytest.raises(CepError, match="--public-url"):
            _ = ServerOptions(public_url=wrong).address


def test_a_link_that_only_this_machine_follows_is_warned_of() -> None:
    text = ServerOptions().link_warning
    assert "begin with http://127.0.0.1:8000/" in text and "--public-url" in text
    assert "no link" in ServerOptions(port=0).link_warning
    assert not ServerOptions(host="0.0.0.0", open=True).link_warning
    assert not ServerOptions(public_url="https://example.org/semcep").link_warning


def test_a_path_of_a_proxy(tmp_path: Path) -> None:
    """With the path taken away, left, or never there, what is answered is found, and a cookie holds there alone."""
    token = "a-secret-of-the-house"
    limits = Limits(People({Person("ann", Role.VIEWER): token}), rate=0)
    with shown(tmp_path, limits=limits, root="/weather/storms") as one, below("/weather/storms", one.port) as outside:
        one.push((0, "vie", 20), (1, "vie", 35.5))
        first = httpx.get(f"{outside}/?access_token={token}")
        assert (first.status_code, first.headers["location"]) == (303, "./")
        assert "; Path=/weather/storms/" in first.headers["set-cookie"]
        with httpx.Client(cookies={"semcep": cookie_value(token)}) as client:
            assert client.get(f"{outside}/").text.startswith("<!doctype html>")
            for server in (outside, one.url, f"{one.url}/weather/storms"):
                (alert,) = client.get(f"{server}/api/state").json()["alerts"]
                assert alert["title"] == "Heat at vie" and client.get(f"{server}/health").json() == {"status": "ok"}
                assert client.get(f"{server}/feeds/cap/{alert['alert']}").status_code == 200
                assert client.get(f"{server}/page/main.js").status_code == 200
            assert httpx.get(f"{one.url}/weather/storms/api/state").status_code == 401
            led = client.get(f"{one.url}/weather/storms?access_token=x")
            assert (led.status_code, led.headers["location"]) == (308, "/weather/storms/?access_token=x")
            assert client.get(f"{one.url}/weather/storms/openapi.json").json()["servers"] == [
                {"url": "/weather/storms"}
            ]
    for given, root in (("", ""), ("/", ""), ("/semcep/", "/semcep"), ("/a/b-c", "/a/b-c")):
        assert path_of.root(given) == root
    for wrong in ("semcep", "//evil.example", "/a/../b", "/a b", "http://here/a", '/"><script>'):
        with pytest.raises(CepError, match="is not a path"):
            path_of.root(wrong)


def test_a_client_has_so_many_streams(tmp_path: Path) -> None:
    with shown(tmp_path, limits=Limits(rate=0, streams=2)) as one, httpx.Client(base_url=one.url) as client:
        with ExitStack() as open:
            for _ in range(2):
                assert open.enter_context(client.stream("GET", "/feeds/events")).status_code == 200
            with client.stream("GET", "/api/stream") as refused:
                assert (refused.status_code, refused.headers["retry-after"]) == (429, "30")
                refused.read()
            assert "2 streams open" in refused.text and client.get("/api/state").status_code == 200
            other = {"X-Forwarded-For": "203.0.113.7"}  # a proxy on this machine says for whom it asks
            assert open.enter_context(client.stream("GET", "/feeds/events", headers=other)).status_code == 200
        status = until(lambda: (one := _status(client, "/feeds/events")) != 429 and one, "it sees that they have gone")
        assert status == 200


def _status(client: httpx.Client, path: str) -> int:
    with client.stream("GET", path) as answer:
        return answer.status_code


def test_whose_streams_are_counted() -> None:
    """Unless it is said, this machine has as many as it likes; of IPv6 a whole network is one client."""

    async def asked() -> list[int]:
        over = asyncio.Event()

        async def endless(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await over.wait()

        guard, found = Guard(endless, Limits(rate=0)), []

        async def ask(client: str) -> None:
            async def send(message: Message) -> None:
                if message["type"] == "http.response.start":
                    found.append(message["status"])

            async def receive() -> Message:
                return {"type": "http.request", "body": b""}

            scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/feeds/events", "client": (client, 1)}
            await guard(scope | {"query_string": b"", "headers": [], "scheme": "http"}, receive, send)

        hosts = ["127.0.0.1", "::1", "192.0.2.1", *(f"2001:db8::{number:x}" for number in range(MANY))]
        tasks = [asyncio.create_task(ask(host)) for host in hosts + ["127.0.0.1"] * MANY + ["192.0.2.1"] * (MANY - 1)]
        await turn()
        for host in ("192.0.2.1", "2001:db8::ffff:1", "::ffff:192.0.2.1", "2001:db8:0:1::1", "127.0.0.1", "nobody"):
            tasks.append(asyncio.create_task(ask(host)))
            await turn()
        over.set()
        await asyncio.gather(*tasks)
        assert not guard._open
        assert found[: len(hosts) + 2 * MANY - 1] == [200] * (len(hosts) + 2 * MANY - 1)
        return found[-6:]

    assert asyncio.run(asked()) == [429, 429, 429, 200, 200, 200]
