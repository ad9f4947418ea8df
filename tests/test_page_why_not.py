"""The page where there is no event: asked why not by mouse and by keyboard, behind a proxy, in an exercise."""

from __future__ import annotations

from pathlib import Path

import pytest

from cep.connectors.alerts.lifecycle import resolved
from tests.axe import bars
from tests.page_server import CHROMIUM, MISSING, SECOND, shown
from tests.proxy import below

PATIENCE = 120_000


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.xdist_group("chromium")
def test_why_not_in_a_browser(tmp_path: Path) -> None:
    from playwright.sync_api import expect, sync_playwright

    wrong: list[str] = []
    # the proxy takes the path away and nobody tells the server: all that the page asks for is relative
    with (
        shown(tmp_path, remember=3_600 * SECOND, status="Exercise") as one,
        below("/semcep", one.port) as outside,
        sync_playwright() as play,
    ):
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("response", lambda answer: wrong.append(answer.url) if answer.status >= 400 else None)
        page.goto(f"{outside}/")
        expect(page.locator("#connection")).to_have_text("live")

        # alerts are for practice, and it is said; there is none, and it can be asked why
        expect(page).to_have_title("Exercise: heat.cep – semcep")
        expect(page.locator("#status")).to_contain_text("Exercise")
        page.get_by_role("button", name="Why is there none?").click()
        answer = page.locator("#why .refused")
        expect(answer).to_contain_text("There is no warm(_, _)")
        expect(answer.locator(".failed")).to_contain_text("there is no reading(_, _, _, _)")
        page.keyboard.press("Escape")

        # a station falls: chosen in the list by keyboard, asked why it is not warm
        one.push((0, "vie", 20), (60, "vie", 36.5), (90, "grz", 21), (120, "grz", 18), (125, "vie", 9))
        expect(page.locator("#alerts .practice")).to_have_text("Exercise")
        page.get_by_role("tab", name="Stations").click()
        page.locator("#stations button", has_text="Graz").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#why-title")).to_be_focused()
        page.locator("#why form button").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#why-title")).to_have_text("Why no warm at grz?")
        expect(answer.locator(".verdict")).to_have_text('There is no warm("grz", _) at 2024-05-01 08:02:05')
        refusal = answer.locator(".refusal")
        expect(refusal.locator("figcaption")).to_have_text("line 6")
        expect(refusal.locator(".conditions > li")).to_have_text(
            [
                'there is reading("grz", 21, nothing, nothing) 2024-05-01 08:01:30',
                'there is reading("grz", 18, nothing, nothing) 2024-05-01 08:02',
                "B > A18 > 21does not hold",
            ]
        )
        expect(page.locator("#chosen")).to_contain_text("does not hold")
        assert bars(page) == []

        # another question in the same place: it is there, and leads to why it is; back to the question
        form = page.locator("#why form")
        form.get_by_label("station").fill("vie")
        form.get_by_label("at (UTC)").fill("2024-05-01 08:01")
        page.keyboard.press("Enter")
        expect(answer).to_contain_text("It is there")
        answer.get_by_role("button").click()
        expect(page.locator("#why .tree")).to_contain_text("36.5 > 20")
        page.get_by_role("button", name="Back", exact=True).click()
        expect(form.get_by_label("station")).to_have_value("vie")
        expect(answer).to_contain_text("It is there")
        form.get_by_label("at (UTC)").fill("noon")
        form.get_by_role("button").click()
        expect(answer.locator(".wrong")).to_contain_text("at: ")
        assert [each for each in wrong if "400" not in each and "why-not" not in each] == []
        wrong.clear()

        # in the timeline: a place where nothing is, and the same by keyboard
        page.keyboard.press("Escape")
        found = page.evaluate("(({ shown, rows }) => [shown.from, shown.to, rows[0].top])(semcep.parts.timeline)")
        box = page.locator("#timeline").bounding_box()
        assert box is not None
        share = (one.engine.watermark - 5 * SECOND - found[0]) / (found[1] - found[0])
        page.mouse.click(box["x"] + 96 + share * (box["width"] - 96), box["y"] + found[2] + 20)
        expect(page.locator("#why-title")).to_have_text("Why no warm at vie?")
        expect(answer.locator(".near").first).to_contain_text('the latest before: warm("vie", 36.5)')
        page.locator("#timeline").focus()
        page.keyboard.press("n")
        expect(form.get_by_label("at (UTC)")).to_have_value("2024-05-01 08:02:05")

        # on a telephone the answer lies over all else, which cannot be reached meanwhile
        page.set_viewport_size({"width": 400, "height": 800})
        expect(page.locator("header").first).to_have_js_property("inert", True)  # once the page has noticed
        assert page.evaluate("document.querySelector('#why').getBoundingClientRect().width") == 400
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert bars(page) == []
        page.get_by_role("button", name="Back to the list").click()
        expect(page.locator("header").first).to_have_js_property("inert", False)

        # the program is changed: what it told of is taken back, and that is no all-clear
        (entry,) = one.outbox.live()
        one.outbox.add([resolved(entry.change, entry.change.time, withdrawn=True)], {})
        page.get_by_role("tab", name="Alerts").click()
        expect(page.locator("#alerts li")).to_have_attribute("data-state", "withdrawn")
        expect(page.locator("#open-alerts")).to_have_text("0")
        page.locator("#alerts button").click()
        expect(page.locator("#why .note")).to_contain_text("no all-clear")
        assert bars(page) == [] and wrong == []
        browser.close()
