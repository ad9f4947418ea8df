"""What people do with alerts on the page: acknowledge, assign, comment, silence, close; what a viewer may not."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from cep.connectors.alerts.maintenance import MaintenanceCalendar
from cep.connectors.receivers.routes import Route, Routes
from cep.connectors.serving.guard import Limits
from cep.connectors.serving.people import People, Person, Role
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
        expect(why.locator(".facts").first).to_contain_text(f" · ann assigned it to bob: {HOSTILE}")
        expect(why.locator(".log li")).to_have_count(2)
        expect(why.locator(".log li").last).to_contain_text(f"ann assigned it to bob: {HOSTILE}")

        # a silence: what it would hide is said before; then it hides, and is ended
        why.get_by_role("button", name="Silence").click()
        expect(why.locator("form")).to_contain_text("It hides 1 open alert now: Heat at vie")
        rows = why.locator(".matchers > div")
        expect(rows).to_have_count(2)
        rows.last.get_by_label("How").select_option("=~")
        rows.last.get_by_label("Value").fill("v.e|g.*")
        expect(why.locator("form")).to_contain_text("It hides 2 open alerts now")
        rows.last.get_by_label("Value").fill("(")
        expect(why.locator("form")).to_contain_text("`(` is not a regular expression")
        wrong.clear()  # the answer 422
        rows.last.get_by_label("Value").fill("v.e")
        assert bars(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        why.locator("form").get_by_role("button", name="Silence").click()
        expect(why.locator(".badge")).to_have_text("Severe, silenced")
        expect(why.locator(".facts").first).to_contain_text("by ann until")
        expect(why.locator(".facts").first).to_contain_text("in 60 min, hides 1 alert")
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
        why.get_by_role("button", name="Close alert …").click()
        expect(why.get_by_label("What it was")).to_have_value("")
        why.get_by_label("What it was").select_option("false")
        why.locator("form").get_by_role("button", name="Close alert", exact=True).click()
        expect(why.locator(".badge")).to_have_text("Severe, acknowledged, closed as false")
        why.get_by_role("button", name="Change verdict").click()
        expect(why.get_by_label("What it was")).to_have_value("false")
        held = "acknowledged by ann, assigned to bob, closed as false"
        expect(page.locator("#alerts li", has_text="Heat at vie")).to_contain_text(held)
        assert wrong == [] and page.evaluate("window.broken === undefined")

        # who has what is a filter; the list is sorted as somebody wants it
        page.keyboard.press("Escape")
        page.locator("#filters-set").click()
        page.get_by_label("Who has it").select_option("me (ann)")
        expect(page.locator("#alerts li")).to_have_count(1)
        assert "who=ann" in page.url
        page.get_by_label("Who has it").select_option("nobody yet")
        expect(page.locator("#alerts li strong")).to_have_text(["Heat at grz"])
        assert bars(page) == []
        page.get_by_role("button", name="Clear filters").click()
        expect(page.locator("#alerts li strong")).to_have_text(["Heat at grz", "Heat at vie"])  # the closed one last
        page.get_by_label("Order").select_option("oldest first")
        expect(page.locator("#alerts li strong")).to_have_text(["Heat at vie", "Heat at grz"])
        assert "sort=oldest" in page.url

        # without a network the page says so, in its head and where somebody does something; then it goes on
        page.locator("#alerts button", has_text="Heat at vie").click()
        why.get_by_role("button", name="Comment").click()
        why.locator("textarea").fill("from the train")
        page.context.set_offline(True)
        expect(page.locator("#connection")).to_have_text("connection lost, trying again")
        why.locator("form").get_by_role("button", name="Comment").click()
        expect(why.locator(".handling [role=alert]")).to_contain_text("The server cannot be reached.")
        expect(why.locator("textarea")).to_have_value("from the train")
        page.context.set_offline(False)
        expect(page.locator("#connection")).to_have_text("live")
        why.locator("form").get_by_role("button", name="Comment").click()
        expect(why.locator(".log li").last).to_contain_text("ann said: from the train")
        assert {each for each in wrong if "ERR_INTERNET_DISCONNECTED" not in each} == set()
        wrong.clear()

        # a viewer sees why there is nothing to be done
        page.context.clear_cookies()
        page.goto(f"{one.url}/?access_token={'v' * 16}#alert={alert}")
        page.reload()
        expect(why.locator(".handling")).to_contain_text("needs the role responder; vic is viewer")
        expect(why.get_by_role("button", name="Comment")).to_be_disabled()
        assert bars(page) == []
        why.get_by_role("button", name="Log in as somebody else").click()
        expect(page.get_by_role("alert")).to_have_text(
            "What you wanted to do needs the role responder: log in with a token that has it."
        )
        page.get_by_label("Token").fill("a" * 16)
        page.keyboard.press("Enter")
        expect(why.get_by_role("button", name="Comment")).to_be_enabled()
        expect(page.locator("#why-title")).to_have_text("Heat at vie")

        # a role that is lowered disables the buttons
        assert one.limits.people is not None
        one.limits.people.replace({Person("ann", Role.VIEWER): "a" * 16})
        expect(why.locator(".handling")).to_contain_text("needs the role responder; ann is viewer")
        expect(why.get_by_role("button", name="Comment")).to_be_disabled()
        one.limits.people.replace(TOKENS)
        page.reload()
        expect(why.get_by_role("button", name="Comment")).to_be_enabled()

        # a token that is taken back ends what the page shows
        one.limits.people.replace({Person("vic", Role.VIEWER): "v" * 16})
        expect(page.get_by_role("alert")).to_contain_text("it was replaced or taken back")


CALENDAR = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//t//t//EN
BEGIN:VEVENT
UID:pump
DTSTAMP:20260101T000000Z
DTSTART:%s
DTEND:%s
SUMMARY:new pump {station="lnz"}
END:VEVENT
END:VCALENDAR
"""


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.xdist_group("chromium")
def test_the_list_of_silences(tmp_path: Path) -> None:
    from playwright.sync_api import expect

    stamps = [f"{datetime.now(UTC) + timedelta(days=days):%Y%m%dT%H%M%SZ}" for days in (1, 2)]
    (tmp_path / "works.ics").write_text(CALENDAR % tuple(stamps))
    with (
        shown(tmp_path, NOWHERE, remember=3_600 * SECOND, knowledge="", limits=Limits(People(TOKENS), rate=0)) as one,
        browser(390, "UTC") as (page, wrong),
    ):
        one.handling._calendar = MaintenanceCalendar(tmp_path / "works.ics")
        one.push((0, "vie", 36), (1, "grz", 36), (2, "lnz", 36))
        one.handling.tick()
        page.goto(f"{one.url}/?access_token={'a' * 16}")
        expect(page.locator("#alerts li")).to_have_count(3)
        page.get_by_role("button", name="Silences").click()
        why = page.locator("#why")
        expect(page).to_have_url(re.compile("#silences=all"))
        items = why.locator("li[data-silence]")
        expect(items).to_have_count(1)
        expect(items).to_contain_text("maintenance window")
        expect(items).to_contain_text('station="lnz"')
        expect(items).to_contain_text("begins in")
        expect(items.get_by_role("button")).to_have_count(0)

        # one from a time until another, with all operators
        why.get_by_role("button", name="New silence").click()
        form = why.locator("form")
        form.get_by_label("Without this label").click()
        expect(form).to_contain_text("without any, the silence would hide every alert")
        form.get_by_role("button", name="Silence", exact=True).click()
        expect(form.get_by_role("alert")).to_contain_text("Add a label")
        for name, sign, value in (
            ("alertname", "=", "hot"),
            ("station", "!~", "l.*"),
            ("station", "!=", "x"),
            ("severity", "=~", "S.+"),
        ):
            form.get_by_role("button", name="Add a label").click()
            row = form.locator(".matchers > div").last
            row.get_by_label("Label", exact=True).fill(name)
            row.get_by_label("How").select_option(sign)
            row.get_by_label("Value").fill(value)
        expect(form).to_contain_text("It hides 2 open alerts now: Heat at")
        form.locator("select[name=span]").select_option("until …")
        form.get_by_label("Until (UTC)").fill("2020-01-01T00:00")
        form.get_by_role("button", name="Silence", exact=True).click()
        expect(form.get_by_role("alert")).to_contain_text("is in the past")
        wrong.clear()  # the answers 422
        begin = datetime.now(UTC) + timedelta(days=3)
        form.get_by_label("From (UTC; empty: now)").fill(f"{begin:%Y-%m-%dT%H:%M}")
        form.get_by_label("Until (UTC)").fill(f"{begin + timedelta(hours=5):%Y-%m-%dT%H:%M}")
        form.get_by_label("Comment (optional)").fill(HOSTILE)
        assert bars(page) == [] and page.evaluate("document.documentElement.scrollWidth") == 390
        form.get_by_role("button", name="Silence", exact=True).click()
        expect(items).to_have_count(2)
        mine = items.filter(has_text="ann")
        expect(mine).to_contain_text("to come")
        expect(mine).to_contain_text(f"{begin:%Y-%m-%d %H:%M} – ")
        expect(mine).to_contain_text(f"ann: {HOSTILE}")
        (made,) = one.handling._silences.values()
        assert str(made.matchers) == '{alertname="hot",station!~"l.*",station!="x",severity=~"S.+"}'
        assert made.ends - made.starts == 5 * 3_600 * SECOND

        # changed: it begins now; it says what it hides, and leads there; ended
        mine.get_by_role("button", name="Change").click()
        form.get_by_label("From (UTC; empty: now)").fill("")
        form.get_by_role("button", name="Change").click()
        expect(mine).to_contain_text("hides 2 open alerts: Heat at")
        assert bars(page) == []
        mine.get_by_role("button", name="Heat at vie").click()
        expect(why.locator(".badge")).to_have_text("Severe, silenced")
        why.get_by_role("button", name="the silence", exact=True).click()
        expect(page).to_have_url(re.compile(f"#silences={made.id}"))
        expect(items.first).to_contain_text("ann")
        page.reload()
        items.first.get_by_role("button", name="End").click()
        expect(items.first).to_contain_text("ended just now")
        assert wrong == [] and page.evaluate("window.broken === undefined")
        page.context.clear_cookies()
        page.goto(f"{one.url}/?access_token={'v' * 16}#silences=all")
        expect(why.get_by_role("button", name="New silence")).to_be_disabled()
        expect(why).to_contain_text("needs the role responder; vic is viewer")


def asked(url: str, path: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = httpx.get(f"{url}/{path}", headers={"Authorization": f"Bearer {'a' * 16}"}).json()
    return found


RISING = """
PARAM Limit = 30.0 IN 20.0..40.0.
event reading(station: string, temp: float, y: float?, x: float?) TIME time.
event warm(station: string, temp: float).
warm(S, T) <- reading(S, T, _, _) WHERE T > Limit.
ALERT hot ON warm(station: S, temp: T)
    SEVERITY "Moderate" ESCALATE "Severe" AFTER 30 min, "Extreme" AFTER 2 h REPEAT 4 h FOR 6 h KEYED BY S
    TITLE "Water above the alarm mark at {S}, rising since the reading of the evening, {S}" TEXT "{T} degrees"
    INSTRUCTION "Open the relief valve of {S}." RUNBOOK "https://wiki.example.org/{S}".
"""


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.xdist_group("chromium")
def test_the_first_screen_of_a_phone_says_how_an_alert_stands(tmp_path: Path) -> None:
    from playwright.sync_api import expect

    with (
        shown(tmp_path, RISING, remember=9 * 3_600 * SECOND, knowledge="") as one,
        browser(390, "UTC") as (page, wrong),
    ):
        one.push((0, "vie", 36))
        one.push((1_900, "x", 3))
        (live,) = one.outbox.live()
        # the link of a message, when the server cannot be reached at first and is slow then
        page.route("**/api/program", lambda route: route.abort(), times=1)
        page.route("**/alerts/*", lambda route: (page.wait_for_timeout(1_500), route.continue_()), times=1)
        page.goto(f"{one.url}/#alert={live.change.alert}")
        expect(page.locator("#connection")).to_have_text("connection lost, trying again")
        why = page.locator("#why")
        expect(page.locator("#why-title")).to_have_text("Loading …")
        expect(page.locator("#why-title")).to_have_text(
            "Water above the alarm mark at vie, rising since the reading of the evening, vie"
        )
        facts = why.locator(".facts").first
        for row in (
            "since2024-05-01 08:00 · 32 min earlier", "whywarm: temp 36 > 30", "who has itnobody",
            "escalatedfrom Moderate at 2024-05-01 08:30, 30 min after it fired", "sent tonobody",
            "nextExtreme at 2024-05-01 10:00 · 88 min later, unless somebody acknowledges it",
            "reminderevery 4 h, the next about ",
        ):  # fmt: skip
            expect(facts).to_contain_text(row)
        box = why.get_by_role("button", name="Acknowledge").bounding_box()
        assert box is not None and box["y"] + box["height"] < 844
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        assert bars(page) == []
        assert [each for each in wrong if "ERR_FAILED" not in each] == []
        wrong.clear()

        # somebody has it: nothing comes; a verdict can be taken back
        why.get_by_role("button", name="Acknowledge").click()
        expect(facts).to_contain_text("nextnothing while local has it")
        expect(facts).not_to_contain_text("reminder")
        why.get_by_role("button", name="Close alert …").click()
        why.get_by_label("What it was").select_option("true")
        why.locator("form").get_by_role("button", name="Close alert", exact=True).click()
        expect(why.locator(".badge")).to_have_text("Severe, acknowledged, closed as true")
        why.get_by_role("button", name="Reopen").click()
        expect(why.locator(".badge")).to_have_text("Severe, acknowledged")
        expect(facts).to_contain_text("local reopened it")
        expect(page.locator("#alerts li")).to_contain_text("acknowledged by local, escalated")

        # when it was over stays, whatever people say later
        one.push((6 * 3_600, "x", 3))
        over = "over at2024-05-01 14:00 · "
        expect(facts).to_contain_text(over)
        one.push((7 * 3_600, "x", 3))
        one.handling.comment(live.change.alert, "bob", "it was the valve")
        expect(why.locator(".log li").last).to_contain_text("bob said: it was the valve")
        expect(facts).to_contain_text(over)
        expect(facts).to_contain_text("began2024-05-01 08:00 · ")
        expect(facts).to_contain_text("who had itacknowledged by local")
        expect(facts).not_to_contain_text("next")

        page.keyboard.press("Escape")
        page.get_by_role("tab", name="Rules").click()
        expect(page.locator("#parameters .facts")).to_have_text("Limit30.0")
        assert wrong == []


KEPT = """
event reading(station: string, temp: float, y: float?, x: float?) TIME time.
fluent heat(station: string).
initiate heat(S) <- reading(S, T, _, _) WHERE T > 35.
terminate heat(S) <- reading(S, T, _, _) WHERE T < 30.
ALERT hot ON heat(S) SEVERITY "Severe" TITLE "Heat at {S}" KEYED BY S KEEP 10 min REPEAT 1 h.
"""


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.xdist_group("chromium")
def test_a_phone_never_says_what_is_not_known(tmp_path: Path) -> None:
    """A link from a message: the server is down, or goes down; the condition is over; who has the other alerts."""
    from playwright.sync_api import expect

    with (
        shown(tmp_path, KEPT, remember=9 * 3_600 * SECOND, knowledge="") as one,
        browser(390, "UTC") as (page, wrong),
    ):
        one.push((0, "graz", 38), (1, "bruck", 36), (2, "wildon", 36), (300, "graz", 20))
        ids = {each.change.title: each.change.alert for each in one.outbox.live()}
        page.route("**/api/program", lambda route: route.fulfill(status=502, body="Bad gateway"), times=1)
        page.goto(f"{one.url}/#alert={ids['Heat at graz']}")
        expect(page.locator("#no-alerts")).to_contain_text("the open alerts are not known")
        expect(page.locator("#open-alerts")).to_have_text("–")
        facts = page.locator("#why .facts").first
        expect(facts).to_contain_text("conditionhas ended; the alert is over at 2024-05-01 08:15 · ")
        expect(facts).to_contain_text("whyheat: temp 38 > 35")  # not the reading that ended it
        expect(facts).to_contain_text("who has itnobody · 2 others that nobody has")
        wrong.clear()  # the answer 502

        # what is shown while the connection is lost says of when it is
        expect(page.locator("#why-connection")).to_be_hidden()
        page.context.set_offline(True)
        expect(page.locator("#why-connection")).to_contain_text("connection lost, trying again. This is from ")
        assert bars(page) == []
        page.context.set_offline(False)
        expect(page.locator("#why-connection")).to_be_hidden()
        wrong.clear()

        # nobody is sent a silenced alert, nor reminded of it
        one.handling.acknowledge(ids["Heat at wildon"], "ben")
        expect(facts).to_contain_text("who has itnobody · 1 other that nobody has")
        (silence := httpx.post(f"{one.url}/silences", json=hour("graz"))).raise_for_status()
        expect(facts).to_contain_text("sent tonobody while it is silenced")
        expect(facts).not_to_contain_text("reminder")
        httpx.delete(f"{one.url}/silences/{silence.json()['id']}").raise_for_status()

        # one tap leads to the others; Back to the alert; what closes it leads to the list, not past it
        page.get_by_role("button", name="1 other that nobody has").click()
        expect(page.locator("#alerts li strong")).to_have_text(["Heat at graz", "Heat at bruck"])
        search = page.locator("#search").bounding_box()
        assert search is not None and search["width"] > 100  # beside what clears the filters
        page.go_back()
        expect(page.locator("#why-title")).to_have_text("Heat at graz")
        page.locator("#why .handling").get_by_role("button", name="Assign").click()
        page.get_by_label("To (empty: nobody)").fill("ben")
        page.locator("#why form").get_by_role("button", name="Assign").click()
        expect(facts).to_contain_text("assigned to ben, not acknowledged · 1 other that nobody has")
        page.reload()
        expect(page.locator("#why-title")).to_have_text("Heat at graz")
        page.locator("#why-close").click()
        expect(page.get_by_role("tab", name="Alerts")).to_be_focused()
        assert page.evaluate("scrollY") == 0
        assert wrong == []


RIVER = """
event level(station: string, cm: float, y: float?, x: float?) TIME time.
event reading(station: string, temp: float, y: float?, x: float?) TIME time.
fluent high(station: string).
initiate high(S) <- reading(S, T, _, _) WHERE T > 400.
terminate high(S) <- reading(S, T, _, _) WHERE T < 300.
ALERT flood ON high(S) SEVERITY "Severe" TITLE "High water at {S}" AFTER 10 min KEYED BY S FOR 3 h
    RUNBOOK "https://wiki.example.org/{S}".
ALERT frost ON reading(station: S, temp: T) WHERE T < 0 SEVERITY "Minor" TITLE "Frost at {S}" AFTER 10 min
    FOR 2 h KEYED BY S.
"""
ADDRESSES = (
    "cloudevents+https://hooks.example.org/…3f9a11c2", "smtps://mail.example.org:465/team@example.org",
    "mqtt://broker.example.org/alerts", "alertmanager+http://prom:9093", "slack://…b01fd2aa",
)  # fmt: skip


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.xdist_group("chromium")
def test_a_view_says_what_is_read_now_and_who_is_told(tmp_path: Path) -> None:
    """Also when a pending alert would fire, and what somebody needs first; the rest is behind `All attributes`."""
    from playwright.sync_api import expect

    with (
        shown(tmp_path, RIVER, remember=9 * 3_600 * SECOND, knowledge="") as one,
        browser(390, "UTC") as (page, wrong),
    ):
        for address in ADDRESSES:
            one.outbox.receiver(address)
        one.push((0, "vie", 471), (30, "graz", -3))
        ids = {each.change.title: each.change.alert for each in one.outbox.live()}
        why, facts = page.locator("#why"), page.locator("#why .facts").first
        page.goto(f"{one.url}/#alert={ids['Frost at graz']}")
        expect(facts).to_contain_text("fireswhen it occurs again at 2024-05-01 08:10 or later · ")
        page.goto(f"{one.url}/#alert={ids['High water at vie']}")
        expect(why.locator(".badge")).to_have_text("Severe, pending")
        expect(facts).to_contain_text("firesat 2024-05-01 08:10 · 10 min later, if its condition holds until then")
        expect(facts).to_contain_text("whyhigh: temp 471 > 400who")  # nothing was read since

        one.push((840, "vie", 455.5))
        expect(why.locator(".badge")).to_have_text("Severe, firing")
        expect(facts).to_contain_text("whyhigh: temp 471 > 400; now 455.5 at 2024-05-01 08:14who")
        expect(facts).not_to_contain_text("fires")
        expect(facts).to_contain_text("sent toAlertmanager at prom:9093, webhook at hooks.example.org, ")
        expect(facts).to_contain_text("MQTT alerts at broker.example.org, slack, mail to team@example.org")
        box = [page.locator(f"#why {each}").bounding_box() for each in (".actions a.button", ".doing")]
        assert box[0] is not None and box[1] is not None and box[0]["y"] + box[0]["height"] <= box[1]["y"], (
            "the runbook first"
        )
        rest = why.get_by_text("All attributes")
        expect(why.get_by_text("occurrences")).to_be_hidden()
        rest.click()
        expect(why.locator("details", has_text="All attributes")).to_contain_text("occurrences1")
        assert bars(page) == [] and page.evaluate("document.documentElement.scrollWidth") == 390
        one.push((900, "vie", 460))
        expect(facts).to_contain_text("; now 460 at 2024-05-01 08:15")
        expect(why.get_by_text("occurrences")).to_be_visible()  # what was opened stays open

        # names of a file of routes, and who is in no route
        one.routes = Routes({"night": ADDRESSES[1:3]}, (Route("night"),))
        one.receivers = {"": ADDRESSES[:1], "night": ADDRESSES[1:3]}
        one.stop()
        one.start()
        page.reload()
        expect(facts).to_contain_text(
            "sent tonight (mail to team@example.org, MQTT alerts at broker.example.org), webhook at hooks.example.org"
        )

        wrong.clear()
        page.goto(f"{one.url}/#alert={'f' * 32}")
        expect(why).to_contain_text("There is no alert ffff")
        wrong.clear()  # the answer 404
        assert bars(page) == []
        why.get_by_role("button", name="Show open alerts").click()
        expect(why).to_be_hidden()
        expect(page.locator("#alerts li strong")).to_have_text(["High water at vie", "Frost at graz"])
        assert wrong == []


def hour(station: str) -> dict[str, object]:
    """A silence of a station, for an hour."""
    ends = datetime.now(UTC) + timedelta(hours=1)
    return {"matchers": [f"station={station}"], "endsAt": f"{ends:%Y-%m-%dT%H:%M:%SZ}"}
