"""The page of a program that revises, in Chromium: what is withdrawn goes, and is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.page_server import CHROMIUM, MISSING, SECOND, shown


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.xdist_group("chromium")
def test_what_is_withdrawn_is_struck_out_and_the_page_says_why(tmp_path: Path) -> None:
    from playwright.sync_api import expect, sync_playwright

    with shown(tmp_path, revise=3600 * SECOND, stored=True) as one, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(one.url)
        one.push((0, "vie", 20.0), (600, "vie", 1048.0), (700, "grz", 31.0), (800, "grz", 32.0))
        expect(page.locator("#alerts li")).to_have_count(2, timeout=60_000)
        one.push((600, "vie", 1048.0), change=-1)
        withdrawn = page.locator("#alerts li[data-state=withdrawn]")
        expect(withdrawn).to_contain_text("Heat at vie")
        expect(page.locator("#derived")).to_have_text("1, 1 withdrawn")
        withdrawn.locator("button").click()
        expect(page.locator("#why .note").first).to_contain_text("the events that led to this alert no longer exist")
        expect(page.locator("#why .note").last).to_contain_text(
            "reading(vie, 1048) at 2024-05-01T08:10:00Z was withdrawn"
        )
        page.keyboard.press("Escape")
        page.click("#tab-events")
        expect(page.locator("#events li.withdrawn")).to_have_count(1)
        expect(page.locator("#events li:not(.withdrawn)")).to_have_count(1)
        one.push((600, "vie", 33.0))  # as it was really
        expect(page.locator("#events li:not(.withdrawn)")).to_have_count(2)
        page.reload()
        page.click("#tab-events")
        expect(page.locator("#events li.withdrawn")).to_have_count(1)
        expect(page.locator("#derived")).to_have_text("2, 1 withdrawn")

        # as it was before: what was withdrawn since is there, and marked
        page.goto(f"{one.url}/#tab=events&at=2024-05-01T08:11:40Z")
        expect(page.locator("#past")).to_be_visible()
        since = page.locator("#events li", has_text="withdrawn since")
        expect(since).to_have_count(1)
        expect(since).to_contain_text("station vie · temp 1048")
        expect(page.locator("#events li")).to_have_count(2)
        page.get_by_role("button", name="Back to now").click()
        expect(since).to_have_count(0)
        assert not wrong
        browser.close()
