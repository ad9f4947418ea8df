"""Why a fluent holds, asked of a running server and on its page; and what held before it was started again."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyoxigraph as ox
import pytest

from tests.page_server import CHROMIUM, MISSING, SECOND, Shown, shown
from tests.test_serve import Server

HOUR = 3_600 * SECOND
PATIENCE = 120_000
PROGRAM = """event reading(station: string, temp: float, y: float?, x: float?) TIME time.
fluent warm(station: string).
fluent alarming(station: string).
initiate warm(S) <- reading(S, T, _, _) WHERE T > 20.
terminate warm(S) <- reading(S, T, _, _) WHERE T <= 20.
warm(S) ENDS AFTER 30 min RENEWED.
alarming(S) WHILE warm(S) AND HISTORICALLY[0, 2 min] warm(S).
ALERT heat ON alarming(S) SEVERITY "Minor" TITLE "{S} stays warm" FOR 5 s.
"""


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    while Server.running:
        Server.running.pop().kill()


def of(one: Shown, name: str) -> str:
    return next(id for id, (_, found, *_) in reversed(one.scene._ids.items()) if found == name)


def test_what_holds_is_explained_over_http(tmp_path: Path) -> None:
    with shown(tmp_path, PROGRAM, HOUR) as one, httpx.Client(base_url=one.url) as client:
        one.push((0, "vie", 25.0), (60, "vie", 26.0), (240, "grz", 12.0))
        before = one.engine.snapshot()
        told = client.get(f"/why/{of(one, 'warm')}").json()
        assert (told["start"], told["end"], told["bounds"]) == ("2024-05-01T08:00:00Z", None, "()")
        assert told["began"]["by"][0]["rule"]["line"] == 4 and "ended" not in told
        assert told["deadline"]["time"] == "2024-05-01T08:31:00Z", "it was renewed a minute after it began"
        text = client.get(f"/why/{of(one, 'alarming')}?format=text").text
        assert "nothing has ended it since" in text and "it ends at 2024-05-01T08:31:00Z if nothing else does" in text
        assert "HISTORICALLY[0, 2 min] warm(S) over (2024-05-01T08:02:00Z" in text
        prov = client.get(f"/why/{of(one, 'alarming')}?format=prov").text
        assert any("wasDerivedFrom" in str(quad.predicate) for quad in ox.parse(prov, ox.RdfFormat.N_TRIPLES))
        assert one.engine.snapshot() == before, "to ask changes nothing"

        asked = {"event": "alarming(vie)", "at": "2024-05-01T08:01:00Z"}
        missing = client.get("/why-not", params=asked).json()
        (gap,) = missing["rules"][0]["gaps"]
        assert missing["fluent"] and not missing["exists"] and gap["kind"] == "not always"
        assert "warm" in gap["formula"] and "does not hold at all times" in gap["told"]
        asked = {"event": "warm(grz)", "at": "2024-05-01T08:04:00Z", "format": "text"}
        assert "but `T > 20` does not hold" in client.get("/why-not", params=asked).text
        one.push((300, "vie", 12.0))
        text = client.get(f"/why/{of(one, 'warm')}?format=text").text
        assert "it ended at 2024-05-01T08:05:00Z" in text


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.xdist_group("chromium")
def test_the_page_tells_why_a_fluent_holds_and_why_not(tmp_path: Path) -> None:
    from playwright.sync_api import expect, sync_playwright

    wrong: list[str] = []
    with shown(tmp_path, PROGRAM, HOUR) as one, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport={"width": 1280, "height": 800})
        tab.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        one.push((0, "vie", 25.0), (60, "vie", 26.0), (240, "grz", 12.0))
        tab.goto(one.url)
        tab.locator("#alerts li button, #alerts button").first.click()
        expect(tab.locator("#why-title")).to_contain_text("vie stays warm")
        tree = tab.locator("#why .tree")
        expect(tree).to_contain_text("Nothing has ended it since.")
        expect(tree).to_contain_text("HISTORICALLY[0, 2 min] warm(S)")
        expect(tree.locator(".turn").first).to_contain_text("it began at 2024-05-01 08:00")
        tab.keyboard.press("Escape")
        tab.get_by_role("tab", name="Stations").click()
        tab.locator("#stations button", has_text="Graz").click()
        tab.locator("#why form button").click()
        expect(tab.locator("#why .refused")).to_contain_text("does not hold")
        assert not wrong
        browser.close()


def test_what_held_is_there_at_once_after_a_restart(tmp_path: Path) -> None:
    with shown(tmp_path, PROGRAM, HOUR) as one:
        one.push((0, "vie", 25.0), (180, "grz", 12.0), (190, "grz", 30.0))
        expected = {state["key"]: state.get("holds") for state in one.scene.newest(10)[2]}
        assert expected == {"vie": ["warm", "alarming"], "grz": ["warm"]}
        blob = one.engine.snapshot()
    with shown(tmp_path, PROGRAM, HOUR) as two:
        two.engine.restore(blob)
        two.scene.begin(two.service.identified(two.engine.held_now()))
        _, events, stations = two.scene.newest(10)
        assert {state["key"]: set(state.get("holds") or ()) for state in stations} == {
            "vie": {"warm", "alarming"}, "grz": {"warm"}
        }  # fmt: skip
        assert len(events) == 3
        text = httpx.get(f"{two.url}/why/{of(two, 'warm')}?format=text").text
        assert "it began at" in text and "line 4" in text, "what began it is known, too"
        two.push((200, "grz", 3.0))
        assert {state["key"]: state.get("holds") for state in two.scene.newest(10)[2]}["grz"] is None


@pytest.mark.long
def test_a_server_that_is_stopped_and_started_again_shows_what_holds(tmp_path: Path) -> None:
    program = """event reading(fridge: string, temp: float) TIME time.
fluent warm(fridge: string).
initiate warm(F) <- reading(F, T) WHERE T > 8.
terminate warm(F) <- reading(F, T) WHERE T <= 8.
"""
    (tmp_path / "p.cep").write_text(program)
    arguments = [
        str(tmp_path / "p.cep"),
        "--input",
        "-",
        "--state",
        str(tmp_path / "s"),
        "--explain",
        "--idle",
        "never",
    ]
    open_ones = """PREFIX time: <http://www.w3.org/2006/time#>
        SELECT ?f { ?i a <urn:semcep:type/warm> ; <urn:semcep:attribute/warm/fridge> ?f
        FILTER NOT EXISTS { ?i time:hasEnd ?e } }"""
    server = Server(*arguments)
    for minute, fridge, degrees in [(0, "a", 9.0), (1, "b", 9.0), (2, "b", 3.0), (3, "c", 1.0)]:
        server.say(minute, fridge, degrees)
    server.look("/api/state", lambda state: state["numbers"]["derived"] == {"warm": 1})
    assert server.rows(open_ones, 1) == [["a"]]
    assert server.end(signal.SIGTERM) == 0
    server = Server(*arguments)

    def held(state: Any) -> list[tuple[str, Any]]:
        return [(each["key"], each["end"]) for each in state["events"] if each.get("holds")]

    state = server.look("/api/state", lambda state: bool(state["events"]))
    assert held(state) == [("a", None)]
    assert server.rows(open_ones, 1) == [["a"]]
    why = httpx.get(f"{server.url}/why/{state['events'][0]['id']}?format=text")
    assert why.status_code == 200 and "line 3" in why.text, why.text
    server.say(4, "a", 1.0)
    server.say(5, "c", 1.0)
    server.look("/api/state", lambda state: any(end is not None for _, end in held(state)))
    assert server.end(signal.SIGTERM) == 0
