"""The page of a program of several files: its rules, and why, by their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.page_server import CHROMIUM, MISSING, shown
from tests.test_lars_served import POLICIES, RULES

PATIENCE = 60_000


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.xdist_group("chromium")
def test_rules_stand_in_their_files(tmp_path: Path) -> None:
    from playwright.sync_api import expect, sync_playwright

    wrong: list[str] = []
    with (
        shown(tmp_path, {"rules.cep": RULES, "policies.lars": POLICIES}, remember=10**12) as one,
        sync_playwright() as play,
    ):
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(f"{one.url}/")
        expect(page.locator("#connection")).to_have_text("live")
        one.push((0, "vie", 25.0), (1, "vie", 1.0))

        # rules that nobody wrote, of which LARS makes some, are none of those that are counted
        page.get_by_role("tab", name="Rules").click()
        expect(page.locator("#rules .rule").first).to_contain_text("hot(S)")
        page.get_by_role("tab", name="Events").click()
        page.locator("#events button", has_text="told").first.click()
        expect(page.locator("#why figcaption").first).to_have_text("rules.cep:3")
        page.get_by_role("button", name="unfold all").click()
        expect(page.locator("#why figcaption").nth(1)).to_have_text("policies.lars:1")
        expect(page.locator("#why")).not_to_contain_text("the cause is no longer known")
        browser.close()
    assert not wrong, wrong
