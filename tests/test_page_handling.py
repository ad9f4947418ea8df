"""What people do with alerts on the page: acknowledge, assign, comment, silence, close; what a viewer may not."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from connectors.serving.guard import Limits
from connectors.serving.people import People, Person, Role
from tests.axe import bars
from tests.page_server import CHROMIUM, MISSING, SECOND, shown
from tests.test_page_address import NOWHERE, browser

HOSTILE = '<img src=x onerror="window.broken=1">'
TOKENS = {Person("ann", Role.RESPONDER): "a" * 16, Person("vic", Role.VIEWER): "v" * 16}


def test_the_page_knows_who_may_handle_alerts(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    with shown(tmp_path / "open", NOWHERE, knowledge="") as one:
        program = httpx.get(f"{one.url}/api/program").json()
        assert program["person"] == {"name": "local", "refused": ""}
    (tmp_path / "people").mkdir()
    with shown(tmp_path / "people", NOWHERE, knowledge="", limits=Limits(People(TOKENS), rate=0)) as one:

        def told(token: str) -> dict[str, str]:
            answer = httpx.get(f"{one.url}/api/program", headers={"Authorization": f"Bearer {token}"})
            found: dict[str, str] = answer.json()["person"]
            return found

        assert told("a" * 16) == {"name": "ann", "refused": ""}
        refused = "Handling alerts needs the role responder; vic is viewer."
        assert told("v" * 16) == {"name": "vic", "refused": refused}


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.xdist_group("chromium")
def test_handling_in_a_browser(tmp_path: Path) -> None:
    from playwright.sync_api import expect

    with (
        shown(tmp_path, NOWHERE, remember=3_600 * SECOND, knowledge="", limits=Limits(People(TOKENS), rate=0)) as one,
        browser(390) as (page, wrong),
    ):
        one.push((0, "vie", 36), (1, "grz", 36), (2, "lnz", 3))
        page.goto(f"{one.url}/?access_token={'a' * 16}")
        page.locator("#alerts button", has_text="Heat at vie").click()
        why = page.locator("#why")
        expect(why.locator(".facts").first).to_contain_text("who has itnobody")
        assert page.evaluate("document.documentElement.scrollWidth") == 390  # no scrolling to the side
        small = [
            each.inner_text()
            for each in why.locator("button, select, input, summary, a").all()
            if each.is_visible() and (box := each.bounding_box()) is not None and box["height"] < 44
        ]
        assert small == []
        assert bars(page) == []

        why.get_by_role("button", name="Acknowledge").click()
        expect(why.locator(".badge")).to_have_text("Severe, acknowledged")
        expect(why.locator(".facts").first).to_contain_text("who has itacknowledged by ann")
        why.get_by_role("button", name="Assign").click()
        why.get_by_label("To (empty: nobody)").fill("bob")
        why.get_by_label("Comment (optional)").fill(HOSTILE)
        why.locator("form").get_by_role("button", name="Assign").click()
        expect(why.locator(".facts").first).to_contain_text("acknowledged by ann, assigned to bob")
        expect(why.locator(".log li")).to_have_count(2)
        expect(why.locator(".log li").last).to_contain_text(f"ann assigned it to bob: {HOSTILE}")

        # a silence: what it would hide is said before; then it hides, and is ended
        why.get_by_role("button", name="Silence").click()
        expect(why.locator("form")).to_contain_text("It hides 1 open alert now: Heat at vie")
        why.get_by_label("station = vie").uncheck()
        expect(why.locator("form")).to_contain_text("It hides 2 open alerts now")
        assert bars(page) == []
        why.get_by_label("station = vie").check()
        why.locator("form").get_by_role("button", name="Silence").click()
        expect(why.locator(".badge")).to_have_text("Severe, silenced")
        assert [change["title"] for change in asked(one.url, "alerts?silenced=true")] == ["Heat at vie"]
        why.get_by_role("button", name="End the silence").click()
        expect(why.locator(".badge")).to_have_text("Severe, acknowledged")

        # somebody else comments while this one writes: it is seen, and what is written stays
        why.get_by_role("button", name="Comment").click()
        why.locator("textarea").fill("I am on my way")
        alert = asked(one.url, "alerts?text=vie")[0]["alert"]
        one.handling.comment(alert, "bob", "it is the sensor")
        expect(why.locator(".log li").last).to_contain_text("bob said: it is the sensor")
        expect(why.locator("textarea")).to_have_value("I am on my way")
        why.locator("form").get_by_role("button", name="Comment").click()
        expect(why.locator(".log li").last).to_contain_text("ann said: I am on my way")
        why.get_by_role("button", name="Give back").click()
        expect(why.locator(".badge")).to_have_text("Severe, firing")
        why.get_by_role("button", name="Close", exact=True).last.click()
        why.get_by_label("What it was").select_option("false")
        why.locator("form").get_by_role("button", name="Close").click()
        expect(why.locator(".facts").nth(1)).to_contain_text("closed asfalse")
        assert wrong == [] and page.evaluate("window.broken === undefined")

        # a viewer sees why there is nothing to be done
        page.context.clear_cookies()
        page.goto(f"{one.url}/?access_token={'v' * 16}#alert={alert}")
        page.reload()
        expect(why.locator(".handling")).to_contain_text("needs the role responder; vic is viewer")
        expect(why.get_by_role("button", name="Comment")).to_be_disabled()
        assert bars(page) == []


def asked(url: str, path: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = httpx.get(f"{url}/{path}", headers={"Authorization": f"Bearer {'a' * 16}"}).json()
    return found
