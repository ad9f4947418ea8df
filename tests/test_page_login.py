"""The form by which a browser logs in: it leads to what a link shows, and nobody else's page can use the cookie."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import httpx
import pytest

from cep.connectors.serving import guard
from cep.connectors.serving.guard import Limits
from cep.connectors.serving.login import LASTS
from cep.connectors.serving.people import People, Person, Role, cookie_value
from tests.axe import bars
from tests.http_served import places
from tests.page_server import CHROMIUM, MISSING, SECOND, shown
from tests.test_page_address import NOWHERE, browser

TOKEN = "a" * 16
PEOPLE = People({Person("ann", Role.EDITOR): TOKEN})
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
READS = frozenset(("/sparql", "/sparql/subscribe", "/silences/preview"))
"""Paths with a POST that changes nothing."""


def test_the_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        shown(tmp_path, NOWHERE, knowledge="", limits=Limits(PEOPLE, rate=0)) as one,
        httpx.Client(base_url=one.url) as client,
    ):
        first = client.get("/", headers=HTML)
        assert "This page is for people with a token." in first.text
        assert "needs the role editor: log in" in client.get("/?role=editor", headers=HTML).text
        assert "needs the role" not in client.get("/?role=<b>", headers=HTML).text
        void = client.get("/", headers={**HTML, "Cookie": f"semcep={cookie_value('c' * 16)}"})
        assert void.status_code == 401 and "is not valid any more: it was replaced or taken back." in void.text
        assert first.status_code == 401 and "<form" in first.text and "www-authenticate" in first.headers
        policy = first.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "form-action 'self'" in policy and "unsafe" not in policy
        assert "<script" not in first.text
        for program in (client.get("/"), client.get("/api/state", headers=HTML)):
            assert (program.status_code, program.text) == (401, "a token is needed\n")

        def sent(token: str, **headers: str) -> httpx.Response:
            return client.post("/", data={"token": token}, headers=headers)

        wrong = sent("b" * 16)
        assert wrong.status_code == 401 and "This token is not known here." in wrong.text
        assert "set-cookie" not in wrong.headers and "There is no token." in sent(" ").text
        assert sent("x" * 9_000).status_code == 413 and sent("😀").status_code == 401
        for other in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
            assert sent(TOKEN, **other).status_code == 403
        good = sent(f" {TOKEN} ", Origin=one.url)
        assert (good.status_code, good.headers["location"]) == (303, "./")
        cookie = good.headers["set-cookie"]
        assert cookie == f"semcep={cookie_value(TOKEN)}; HttpOnly; SameSite=Lax; Max-Age={LASTS}; Path=/"
        assert sent(TOKEN, **{"X-Forwarded-Proto": "https"}).headers["set-cookie"].endswith("; Secure")
        client.cookies.set("semcep", cookie_value(TOKEN))
        assert client.get("/", headers=HTML).status_code == 200
        assert client.get("/api/program").json()["session"] is True
        left = client.post("/logout")
        assert left.json() == {"status": "logged out"} and "Max-Age=0" in left.headers["set-cookie"]
        assert client.post("/logout", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    monkeypatch.setattr(guard, "time", SimpleNamespace(monotonic=lambda: 0.0))
    with shown(tmp_path, NOWHERE, knowledge="", limits=Limits(PEOPLE, rate=2)) as one:
        tried = [httpx.post(one.url, data={"token": "b" * 16}).status_code for _ in range(12)]
        assert tried == [401] * 4 + [429] * 8  # twice the rate at once, and no time passes


def test_no_other_page_changes_anything_by_the_cookie(tmp_path: Path) -> None:
    """The cookie comes with links of others (SameSite=Lax), so each route that changes something looks who sends."""
    (tmp_path / "page").mkdir()
    with shown(tmp_path / "page", limits=Limits(PEOPLE, rate=0), stored=True) as one:
        refused_by(one.url)


def refused_by(url: str) -> None:
    with httpx.Client(base_url=url, cookies={"semcep": cookie_value(TOKEN)}) as client:
        openapi = client.get("/openapi.json").json()
        changing = 0
        for method in ("post", "put", "delete", "patch"):
            for place in places(openapi, method):
                if urlsplit(place).path in READS:
                    continue
                changing += 1
                for other in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "null"}):
                    answer = client.request(method, place, headers=other, json={})
                    assert (answer.status_code, answer.text) == (
                        403,
                        "requests from pages of another server are refused\n",
                    ), place
        assert changing > 5


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.xdist_group("chromium")
def test_a_link_leads_over_the_form_to_its_alert(tmp_path: Path) -> None:
    from playwright.sync_api import expect

    with (
        shown(tmp_path, NOWHERE, knowledge="", remember=3_600 * SECOND, limits=Limits(PEOPLE, rate=0)) as one,
        browser(390) as (page, wrong),
    ):
        one.push((0, "vie", 36))
        (alert,) = one.outbox.live()
        fragment = f"#alert={alert.change.alert}"
        page.goto(f"{one.url}/{fragment}")
        expect(page.get_by_label("Token")).to_be_focused()
        assert page.evaluate("document.documentElement.scrollWidth") == 390 and bars(page) == []
        for part in (page.get_by_label("Token"), page.get_by_role("button")):
            box = part.bounding_box()
            assert box is not None and box["height"] >= 44
        page.get_by_label("Token").fill("b" * 16)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_have_text("This token is not known here.")
        assert bars(page) == []
        page.get_by_label("Token").fill(TOKEN)
        page.keyboard.press("Enter")
        expect(page.locator("#why-title")).to_have_text("Heat at vie")
        assert page.url.endswith(fragment) and TOKEN not in page.url
        wrong.clear()  # the two answers 401

        # a link on the page of another site brings the cookie; what that site sends does not
        with httpx.Client() as client:
            assert client.get(one.url).status_code == 401
        page.goto("data:text/html," + f'<a href="{one.url}/%23alert={alert.change.alert}">alert</a>')
        page.get_by_role("link").click()
        expect(page.locator("#why-title")).to_have_text("Heat at vie")
        assert wrong == []

        page.keyboard.press("Escape")
        page.get_by_role("button", name="Log out ann").click()
        expect(page.get_by_label("Token")).to_be_visible()
        assert page.context.cookies() == []
        page.get_by_label("Token").fill(TOKEN)
        page.keyboard.press("Enter")
        expect(page.locator("#connection")).to_have_text("live")

        # where the cookie is over, the page leads to the form
        page.context.clear_cookies()
        page.locator("#alerts button").first.click()
        expect(page.get_by_label("Token")).to_be_visible()
        assert re.search("#alert=|/$|#$", page.url)
