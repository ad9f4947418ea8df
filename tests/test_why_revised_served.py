"""Why, where input is revised at a server: which late, corrected or withdrawn record changed an event."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.page_server import CHROMIUM, MISSING, SECOND, Shown, shown

HOUR = 3_600 * SECOND
PROGRAM = """
event reading(station: string, temp: float, y: float?, x: float?) TIME time KEY station.
event warm(station: string, temp: float).
rising: warm(S, B) <- reading(S, A, _, _) SEQ reading(S, B, _, _) WHERE B > A WITHIN 1 h.
silent(S) <- reading(S, _, _, _) UNLESS reading(S, _, _, _) WITHIN 5 min.
fluent high(station: string).
initiate high(S) <- reading(S, T, _, _) WHERE T > 20.
terminate high(S) <- reading(S, T, _, _) WHERE T <= 20.
ALERT heat ON high(S) TITLE "{S} is high" FOR 5 s KEYED BY S.
"""


def ids(one: Shown, event: str) -> list[str]:
    return [id for id, (_, name, *_) in one.scene._ids.items() if name == event]


def test_an_answer_says_which_record_changed_an_event(tmp_path: Path) -> None:
    with shown(tmp_path, PROGRAM, HOUR, revise=HOUR) as one, httpx.Client(base_url=one.url) as client:

        def why(id: str, **more: str) -> str:
            answer = client.get(f"/why/{id}", params={"format": "text", **more})
            assert answer.status_code == 200, answer.text
            return " ".join(answer.text.split())

        one.push((0, "vie", 20.0), (600, "vie", 30.0))
        (silent,) = ids(one, "silent")
        (warm,) = ids(one, "warm")
        (high,) = ids(one, "high")
        assert "changes" not in client.get(f"/why/{warm}").json()
        one.push((240, "vie", 25.0))  # late
        gone = why(silent)
        late = 'reading("vie", 25, nothing, nothing) at 2024-05-01T08:04:00Z came 6 min late, at 2024-05-01T08:10:00Z'
        assert gone.startswith('silent("vie") from 2024-05-01T08:00:00Z to 2024-05-01T08:05:00Z was withdrawn')
        assert f"withdrawn at 2024-05-01T08:10:00Z: {late}" in gone
        assert 'it came from reading("vie", 20, nothing, nothing) at 2024-05-01T08:00:00Z' in gone
        answer = client.get(f"/why/{silent}").json()
        assert answer["withdrawn"] and [each["change"] for each in answer["changes"]] == ["withdraw"]
        assert client.get(f"/why/{silent}?format=prov").status_code == 410
        other = next(id for id in ids(one, "warm") if id != warm)
        assert f"added at 2024-05-01T08:10:00Z: {late}" in why(other)
        assert "came 6 min late, at 2024-05-01T08:10:00Z" in why(other).split("reading", 2)[2], "of the record, too"
        missing = client.get("/why-not", params={"event": "silent(vie)", "at": "2024-05-01T08:02", "format": "text"})
        assert late in " ".join(missing.text.split()) and "is not there" in missing.text
        assert client.get("/why-not", params={"event": "silent(vie)", "at": "2024-05-01T08:02"}).json()["withdrawn"]

        began = client.get(f"/why/{ids(one, 'high')[-1]}").json()
        assert (began["start"], began["end"]) == ("2024-05-01T08:04:00Z", None), "a fluent is there when it begins"
        assert "was withdrawn" in why(high), "it began earlier than was known"
        one.push((240, "vie", 21.0))  # corrected
        corrected = 'reading("vie", 25, nothing, nothing) at 2024-05-01T08:04:00Z was corrected to reading("vie", 21'
        assert corrected in why(other)
        one.push((240, "vie", 21.0), change=-1)
        assert "was withdrawn" in why(began["id"])
        assert [*ids(one, "high"), *ids(one, "silent")] == [high, silent], "as it was at first"
        assert "added at" in why(silent) and "was withdrawn" in why(silent)


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.xdist_group("chromium")
def test_the_page_shows_why_an_event_is_no_more(tmp_path: Path) -> None:
    from playwright.sync_api import expect, sync_playwright

    with shown(tmp_path, PROGRAM, HOUR, revise=HOUR) as one, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 390, "height": 844})
        expect.set_options(timeout=60_000)
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(one.url)
        one.push((0, "vie", 20.0), (600, "vie", 30.0))
        page.click("#tab-events")
        expect(page.locator("#events li")).to_have_count(3)
        one.push((240, "vie", 25.0))
        expect(page.locator("#events li.withdrawn")).to_have_count(2)
        page.locator("#events li.withdrawn button", has_text="silent").click()
        expect(page.locator("#why .changes")).to_contain_text("came 6 min late, at 2024-05-01 08:10")
        expect(page.locator("#why-body")).to_contain_text("It came from:")
        page.keyboard.press("Escape")
        one.push((900, "vie", 1.0))
        page.locator("#events li:not(.withdrawn) button", has_text="high").click()
        expect(page.locator("#why .turn").last).to_contain_text("it ended at 2024-05-01 08:15")
        page.keyboard.press("Escape")
        one.push((900, "vie", 22.0))  # it goes on
        page.locator("#events li:not(.withdrawn) button", has_text="high").click()
        expect(page.locator("#why-body")).to_contain_text("Nothing has ended it since.")
        expect(page.locator("#events li.withdrawn", has_text="high")).to_have_count(1)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth") and not wrong
        browser.close()
