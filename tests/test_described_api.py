"""The description of what is served: it names every path, says who may ask, and is what is answered."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from cep.connectors.serving.guard import Limits
from cep.connectors.serving.people import People, Person, Role
from tests import http_served
from tests.http_served import places
from tests.page_server import Shown, shown
from tests.serving import Served

fridges = pytest.fixture(scope="module")(http_served.fridges)
page = pytest.fixture(scope="module")(http_served.page)


pytestmark = pytest.mark.xdist_group("http")  # what they share is made once


class Links(HTMLParser):
    """What a page asks for, and all that it says."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value for name, value in attrs if name in ("href", "src") and value]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_all_that_is_served_is_described(page: Shown, fridges: Served) -> None:
    """Each route with its parameters, media types and refusals; for people without a script, and without a network."""
    for one in (page, fridges):
        with httpx.Client(base_url=one.url) as client:
            openapi = client.get("/openapi.json").json()
            docs = client.get("/docs")
            assert docs.headers["content-type"].startswith("text/html") and "script-src" not in docs.text
            read = Links()
            read.feed(docs.text)
            assert "script" not in read.tags
            for link in read.links:
                assert link.startswith("#") or "//" not in link, link
                if not link.startswith("#") and one is page:
                    assert client.get(f"/{link}").status_code == 200, link
            for path, methods in openapi["paths"].items():
                for method, operation in methods.items():
                    assert f"{method.upper()} {path}" in read.text
                    assert operation["description"].strip(), path
                    answers = operation["responses"]
                    good = next(answer for status, answer in answers.items() if status.startswith("2"))
                    assert good["content"], path
                    assert {"406", "413", "415", "421", "431"} <= answers.keys()
                    assert ("429" in answers) is (path not in ("/health", "/ready"))
                    for status, answer in answers.items():
                        if int(status) >= 400 and path not in ("/health", "/ready"):
                            (kind,) = answer["content"]
                            assert kind == "text/plain" or path.startswith("/api/v2/"), (path, status)  # Alertmanager's
                    names = {each["name"] for each in operation.get("parameters", ())}
                    assert set(re.findall(r"{(\w+)}", path)) <= names, path
            assert "HTTPValidationError" not in str(openapi)
    openapi = httpx.get(page.url + "/openapi.json").json()
    for path in ("/", "/docs", "/openapi.json", "/metrics", "/feeds/atom", "/api/state", "/why/{id}", "/why-not"):
        assert path in openapi["paths"], path
    other = httpx.get(fridges.url + "/openapi.json").json()["paths"]
    assert {"/sparql", "/sparql/subscribe", "/ldes", "/ldes/{part}"} <= other.keys()
    assert set(other["/sparql"]["post"]["requestBody"]["content"]) == {
        "application/x-www-form-urlencoded",
        "application/sparql-query",
    }


def test_what_is_described_is_what_is_answered(page: Shown, fridges: Served) -> None:
    """By each path a status and a media type that stand there."""
    for one in (page, fridges):
        with httpx.Client(base_url=one.url) as client:
            openapi = client.get("/openapi.json").json()
            addresses = dict(
                zip([path for path, each in openapi["paths"].items() if "get" in each], places(openapi, "get"))
            )
            for path, place in addresses.items():
                if "events" in path or "stream" in path or "subscribe" in path:
                    continue
                for more in ("", "&most=0&page=0&after=-1&limit=x&key="):
                    answer = client.get(place + (more if "?" in place else more.replace("&", "?", 1)))
                    said = openapi["paths"][path]["get"]["responses"][str(answer.status_code)]
                    assert answer.headers["content-type"].partition(";")[0] in said["content"], (place, answer)


def test_a_token_is_part_of_the_description(tmp_path: Path) -> None:
    token = "a-secret-of-the-house"
    with shown(tmp_path, limits=Limits(People({Person("ann", Role.VIEWER): token}), rate=0)) as one:
        good = {"Authorization": f"Bearer {token}"}
        openapi = httpx.get(one.url + "/openapi.json", headers=good).json()
        assert set(openapi["components"]["securitySchemes"]) == {"bearer", "cookie", "address"}
        assert (
            openapi["paths"]["/feeds/alerts"]["get"]["security"] and "401" in openapi["paths"]["/"]["get"]["responses"]
        )
        assert "security" not in openapi["paths"]["/health"]["get"]
        assert httpx.get(one.url + "/docs").status_code == 401
