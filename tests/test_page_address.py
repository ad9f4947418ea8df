"""The page's address, filters, lists and time zone: what somebody chose is there after a reload and for others."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.axe import bars
from tests.page_server import CHROMIUM, MISSING, SECOND, shown

if TYPE_CHECKING:
    from playwright.sync_api import Page

PATIENCE = 120_000
pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason=MISSING), pytest.mark.xdist_group("chromium")]

NOWHERE = """
event reading(station: string, temp: float, y: float?, x: float?) TIME time.
event warm(station: string, temp: float).
event cold(station: string, temp: float).
warm(S, T) <- reading(S, T, _, _) WHERE T > 20.
cold(S, T) <- reading(S, T, _, _) WHERE T < 5.
ALERT hot ON warm(station: S, temp: T) WHERE T > 30
    SEVERITY "Severe" TITLE "Heat at {S}" FOR 2 h KEYED BY S RUNBOOK "https://wiki.example.org/{S}".
"""


@contextmanager
def browser(width: int = 1300, zone: str = "Europe/Vienna") -> Iterator[tuple[Page, list[str]]]:
    """A page in a new browser, and what went wrong there."""
    from playwright.sync_api import expect, sync_playwright

    wrong: list[str] = []
    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        context = chromium.new_context(viewport={"width": width, "height": 844}, timezone_id=zone, locale="en-GB")
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        yield page, wrong
        chromium.close()


def test_the_address_says_what_is_shown(tmp_path: Path) -> None:
    from playwright.sync_api import expect

    with shown(tmp_path, NOWHERE, knowledge="", remember=3_600 * SECOND) as one, browser() as (page, wrong):
        one.push((0, "vie", 21), (60, "vie", 36.5), (61, "grz", 2), (90, "=SUM(A1)", 33), (120, "grz", 25))
        page.goto(one.url)
        expect(page.locator("#open-alerts")).to_have_text("2")

        # nothing has a place: there is no map, and the timeline has its room
        expect(page.locator("#map-part")).to_be_hidden()
        timeline, side = page.locator("#timeline-part").bounding_box(), page.locator("#side").bounding_box()
        assert timeline is not None and side is not None and timeline["height"] == side["height"]

        # an alert is chosen: the address is that of the alert; Back of the browser leads back
        page.locator("#alerts button", has_text="Heat at vie").click()
        expect(page.locator("#why-title")).to_have_text("Heat at vie")
        expect(page.locator("#why")).to_contain_text("since2024-05-01 10:01 · ")  # in the browser's zone
        expect(page.locator("#why a", has_text="Runbook")).to_have_attribute("href", "https://wiki.example.org/vie")
        link = page.url
        assert "#alert=" in link
        page.go_back()
        expect(page.locator("#why")).to_be_hidden()
        page.go_forward()
        expect(page.locator("#why-title")).to_have_text("Heat at vie")
        page.reload()
        expect(page.locator("#why-title")).to_have_text("Heat at vie")
        page.keyboard.press("Escape")

        # filters, the legend, the tab, the zone and the time in view
        page.get_by_role("tab", name="Events").click()
        expect(page.locator("#events li")).to_have_count(5)
        page.locator("#search").fill("grz")
        expect(page.locator("#events li")).to_have_count(2)
        page.locator("#kinds button", has_text="cold").click()
        expect(page.locator("#events li")).to_have_count(1)
        expect(page.locator("#events time").first).to_have_text("2024-05-01 10:02")
        page.locator("#zone").click()
        expect(page.locator("#zone")).to_have_text("UTC")
        expect(page.locator("#events time").first).to_have_text("2024-05-01 08:02")
        page.locator("#closer").click()
        page.wait_for_timeout(600)
        view = page.evaluate("semcep.parts.timeline.view")
        page.reload()
        expect(page.locator("#events li")).to_have_count(1)
        expect(page.locator("#events li")).to_contain_text("station grz · temp 25")
        expect(page.locator("#search")).to_have_value("grz")
        expect(page.locator("#zone")).to_have_text("UTC")
        expect(page.locator("#kinds button", has_text="cold")).to_have_attribute("aria-pressed", "false")
        assert [round(each / SECOND) for each in page.evaluate("semcep.parts.timeline.view")] == [
            round(each / SECOND) for each in view
        ]
        assert {"tab=events", "q=grz", "hide=cold", "zone=utc"} <= set(page.url.split("#")[1].split("&"))
        assert page.evaluate("semcep.parts.timeline.rows.map((row) => row.key)") == ["grz"]  # also in the timeline

        # what a list holds is a file; a text that a spreadsheet would take for a formula is none there
        page.locator("#unfilter").click()
        expect(page.locator("#events li")).to_have_count(5)
        page.get_by_text("Filters", exact=True).click()
        page.locator("#filter-type").select_option("warm")
        expect(page.locator("#events li")).to_have_count(4)
        assert bars(page) == []
        with page.expect_download() as download:
            page.locator("#save").click()
        with open(download.value.path(), encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert [(row["type"], row["subject"], row["warm.temp"]) for row in rows] == [
            ("warm", "grz", "25"),
            ("warm", "'=SUM(A1)", "33"),
            ("warm", "vie", "36.5"),
            ("warm", "vie", "21"),
        ]
        assert rows[0]["end"] == "2024-05-01T08:02:00.000Z"
        assert wrong == []

        # what nobody knows is said
        for fields, title, text in (
            (f"alert={'0' * 32}", "Unknown alert", "There is no alert 0000"),
            ("alert=x", "Unknown alert", "There is no alert x"),
            ("event=0", "Unknown event", "older than what is kept here"),
            ("station=nobody", "nobody", "Nothing is known of nobody"),
        ):
            page.goto(f"{one.url}/#{fields}")
            expect(page.locator("#why-title")).to_have_text(title)
            expect(page.locator("#why-body")).to_contain_text(text)


def test_a_list_of_thousands(tmp_path: Path) -> None:
    from playwright.sync_api import expect

    with shown(tmp_path, NOWHERE, knowledge="") as one, browser() as (page, wrong):
        one.push(*((n, f"s{n % 50}", 21 + n % 9) for n in range(3_000)))
        page.goto(f"{one.url}/#tab=events")
        expect(page.locator("#events-about")).to_contain_text("the newest 3,000")
        assert page.locator("#events li").count() < 60
        expect(page.locator("#events li").first).to_have_attribute("aria-setsize", "3000")
        page.locator("#events button").first.focus()
        page.keyboard.press("End")
        expect(page.locator("#events button:focus")).to_contain_text("station s0 · temp 21")
        expect(page.locator("#events li", has=page.locator("button:focus"))).to_have_attribute("aria-posinset", "3000")
        page.keyboard.press("ArrowUp")
        expect(page.locator("#events button:focus")).to_contain_text("station s1 · temp 22")

        # what comes meanwhile does not move what is read
        before = page.locator("#events button:focus").bounding_box()
        one.push(*((3_000 + n, "new", 21) for n in range(10)))
        expect(page.locator("#events-about")).to_contain_text("the newest 3,010")
        assert page.locator("#events button:focus").bounding_box() == before
        expect(page.locator("#events button:focus")).to_contain_text("station s1 · temp 22")
        assert wrong == []
