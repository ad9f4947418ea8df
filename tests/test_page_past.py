"""The page as it was at a time: alerts by their changes, events by page or store, and a mark that it is not now."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from cep.connectors.alerts import alert_history
from cep.connectors.alerts.alert_history import alerts_at
from cep.connectors.serving import page as served
from tests.axe import bars
from tests.page_server import CHROMIUM, EIGHT, MISSING, SECOND, shown
from tests.test_page_address import NOWHERE, browser
from tests.waiting import until

LATER = 9_000
"""Seconds after eight when the first alerts are over."""


def test_alerts_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with shown(tmp_path, NOWHERE, knowledge="") as one, httpx.Client(base_url=one.url) as client:
        assert alerts_at(one.outbox, EIGHT) == ([], False)
        one.push((60, "vie", 36.5), (90, "grz", 33), (120, "grz", 35), (LATER, "lnz", 31))

        def told(second: int) -> list[tuple[str, str]]:
            alerts = client.get("/api/past", params={"at": EIGHT + second * SECOND}).json()["alerts"]
            return sorted((each["title"], each["state"]) for each in alerts)

        assert told(59) == []
        assert told(60) == told(89) == [("Heat at vie", "firing")]
        assert told(90) == [("Heat at grz", "firing"), ("Heat at vie", "firing")]
        assert told(121) == [("Heat at grz", "updated"), ("Heat at vie", "firing")]
        over = [("Heat at grz", "resolved"), ("Heat at vie", "resolved")]
        assert [each for each in told(LATER) if each[1] == "resolved"] == over
        assert client.get("/api/past", params={"at": "x"}).status_code == 422

        # by any split of the changes; of those before only so many are looked at
        changes = one.outbox.after(0)
        times = {entry.change.time for entry in changes}
        for time in [time + by for time in times for by in (-1, 0, 1)]:
            last = {entry.change.alert: entry for entry in changes if entry.change.time <= time}
            assert alerts_at(one.outbox, time) == (sorted(last.values(), key=lambda entry: entry.number), False)
        monkeypatch.setattr(alert_history, "LOOKED_AT", 1)
        entries, cut = alerts_at(one.outbox, EIGHT + 121 * SECOND)
        assert len(entries) == 1 and cut
        assert not alerts_at(one.outbox, EIGHT + 60 * SECOND)[1]
        assert client.get("/api/past", params={"at": EIGHT + 121 * SECOND}).json()["cut"] == 10_000


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.xdist_group("chromium")
def test_scrubbing_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from playwright.sync_api import expect

    monkeypatch.setattr(served, "SHOWN", 3)  # older events are in the store only
    with (
        shown(tmp_path, NOWHERE, knowledge="", remember=LATER * SECOND, stored=True) as one,
        browser(zone="UTC") as (page, wrong),
    ):
        one.push(
            (0, "vie", 21), (60, "vie", 36.5), (61, "grz", 2), (600, "grz", 3), (LATER, "lnz", 31), (9_001, "x", 2)
        )
        assert one.store is not None, "there is one"
        one.store.flush()
        page.goto(f"{one.url}/#tab=events")
        expect(page.locator("#events li")).to_have_count(3)
        expect(page.locator("#past")).to_be_hidden()

        # a time before what the page holds: the events are the store's, the alerts as they were
        page.locator("#then").fill("2024-05-01 08:05")
        page.keyboard.press("Enter")
        expect(page.locator("#past")).to_contain_text("Not now: as it was at 2024-05-01 08:05")
        expect(page.locator("#connection")).to_have_text("not now")
        expect(page.locator("#events li .text")).to_have_text(
            ["station grz · temp 2", "station vie · temp 36.5", "station vie · temp 21"]
        )
        expect(page.locator("#open-alerts")).to_have_text("1")
        expect(page).to_have_url(re.compile("at=2024-05-01T08%3A05%3A00.000Z"))
        page.get_by_role("tab", name="Alerts").click()
        expect(page.locator("#alerts li")).to_have_count(1)
        expect(page.locator("#alerts li")).to_contain_text("firing")
        assert bars(page) == []

        # where not all changes of alerts were looked at, it says so
        expect(page.locator("#alerts-about")).to_be_hidden()
        monkeypatch.setattr(alert_history, "LOOKED_AT", 0)
        page.reload()
        expect(page.locator("#alerts-about")).to_have_text(
            "only the last 10,000 changes before this time were looked at"
        )
        monkeypatch.setattr(alert_history, "LOOKED_AT", 10_000)

        # what comes meanwhile is not of that time; a reload shows the same
        one.push((9_060, "vie", 35))
        page.reload()
        expect(page.locator("#past")).to_contain_text("2024-05-01 08:05")
        expect(page.locator("#alerts li")).to_have_count(1)
        page.get_by_role("tab", name="Events").click()
        expect(page.locator("#events li")).to_have_count(3)

        # on a phone the mark stays above what is chosen
        page.get_by_role("tab", name="Alerts").click()
        page.set_viewport_size({"width": 390, "height": 844})
        page.locator("#alerts button").first.click()
        expect(page.locator("#why .handling")).to_have_count(0)
        mark, chosen = page.locator("#past").bounding_box(), page.locator("#why").bounding_box()
        assert mark is not None and chosen is not None and chosen["y"] >= mark["y"] + mark["height"] > 40
        assert page.evaluate("document.elementFromPoint(195, 20).closest('#past') !== null")
        assert bars(page) == []
        page.keyboard.press("Escape")
        page.set_viewport_size({"width": 1300, "height": 844})

        # by the slider; and back to now
        page.locator("#scrub").focus()
        page.keyboard.press("PageUp")
        expect(page.locator("#past")).not_to_contain_text("08:05")
        page.get_by_role("button", name="Back to now").click()
        expect(page.locator("#past")).to_be_hidden()
        expect(page.locator("#connection")).to_have_text("live")
        expect(page.locator("#open-alerts")).to_have_text("2")
        assert wrong == [] and "at=" not in page.url


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.xdist_group("chromium")
def test_after_a_restart(tmp_path: Path) -> None:
    """The page holds no events then: alerts have their rows, and events are asked of the store."""
    from playwright.sync_api import expect

    with (
        shown(tmp_path, NOWHERE, knowledge="", stored=True) as one,
        browser(zone="UTC") as (page, wrong),
    ):
        one.push((0, "vie", 21), (60, "vie", 36.5), (61, "grz", 34), (LATER, "lnz", 31), (LATER + 1, "x", 2))
        assert one.store is not None, "there is one"
        one.store.flush()
        one.stop()
        one.scene.events.clear()  # a new process holds none
        one.scene._ids.clear()
        one.scene.derived = dict.fromkeys(one.scene.derived, 0)
        one.start()
        one.push((LATER + 60, "abc", 22))  # the only event that the page holds
        page.goto(one.url)
        expect(page.locator("#open-alerts")).to_have_text("1")
        until(lambda: page.evaluate("semcep.parts.timeline.rows.length === 4"), "it has its rows", every=0.1)
        rows = page.evaluate("semcep.parts.timeline.rows.map((row) => [row.key, row.alerts.length])")
        assert rows == [["lnz", 1], ["abc", 0], ["grz", 1], ["vie", 1]]  # open alerts first
        from_, to = page.evaluate("semcep.parts.timeline.range()")
        assert from_ < EIGHT + LATER * SECOND < to
        page.locator("#alerts button", has_text="Heat at lnz").click()
        expect(page.locator("#why-body")).to_contain_text("The latest event: warm")
        expect(page.locator("#why-body")).to_contain_text("temp31")
        expect(page.locator("#why .facts").first).to_contain_text("whywarm: temp 31 > 30")
        page.get_by_role("button", name="Back to the list").click()

        # the list does not count more than there are; what was before comes from the store
        page.get_by_role("tab", name="Events").click()
        expect(page.locator("#events-about")).to_have_text("the newest 1")
        page.locator("#then").fill("2024-05-01 08:05")
        page.keyboard.press("Enter")
        expect(page.locator("#events li")).to_have_count(3)
        page.get_by_role("button", name="Back to now").click()
        expect(page.locator("#past")).to_be_hidden()

        # what people do later does not lengthen an alert that is over
        over = [each for each in httpx.get(f"{one.url}/alerts?state=resolved").json() if "vie" in each["title"]]
        one.push((LATER + 3_600, "abc", 22))
        one.handling.comment(over[0]["alert"], "ann", "it was the sun")
        changed = f"semcep.store.alerts.get('{over[0]['alert']}').comment === 'it was the sun'"
        until(lambda: page.evaluate(changed), "the comment is there", every=0.1)
        page.get_by_role("tab", name="Alerts").click()
        about = page.locator("#alerts li", has_text="Heat at vie")
        expect(about.locator(".absolute")).to_contain_text("2024-05-01 10:01 ")
        assert all("404 (Not Found)" in each for each in wrong)  # the event that only the store has
