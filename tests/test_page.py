"""The live page: what it is sent, where stations are, and the page itself in a real browser."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import httpx
import pytest

from cep.connectors.alerts.lifecycle import Action, AlertState
from cep.connectors.rdf.vocabulary import EventVocabulary
from cep.connectors.serving import scene, vendor
from cep.connectors.serving.gazette import Gazette, SubjectColumns
from cep.connectors.serving.outline import outline
from cep.engine import Engine
from cep.knowledge.graph import Knowledge
from cep.rules.keywords import BINARY_OPERATORS
from tests.axe import bars
from tests.page_server import CHROMIUM, EIGHT, MISSING, SECOND, STATIONS, shown

if TYPE_CHECKING:
    from playwright.sync_api import Page

HOSTILE = '<img src=x onerror="window.broken=1"><b>"&'


def test_who_an_event_is_about_and_where(tmp_path: Path) -> None:
    schemas = Engine.from_text(
        "PREFIX wgs84: <http://www.w3.org/2003/01/geo/wgs84_pos#>"
        "event a(lat: float, name: string, lon: float). event b(n: int, x: float, y: float)."
        "event c(lat: float, k: iri). event d(y: float AS wgs84:lat, lat: float, x: float AS wgs84:long, what: string)."
        "o(N) <- a(_, N, _). o(N) <- d(_, _, _, N). p(N) <- b(N, _, _). p(1) <- c(_, _)."
    ).inputs
    assert SubjectColumns.of(schemas["a"]) == SubjectColumns("name", "lat", "lon")
    assert SubjectColumns.of(schemas["b"]) == SubjectColumns("n", None, None)
    assert SubjectColumns.of(schemas["c"]) == SubjectColumns("k", None, None)
    assert SubjectColumns.of(schemas["d"]) == SubjectColumns("what", "y", "x")

    (tmp_path / "stations.ttl").write_text(STATIONS)
    known = Gazette.of(Knowledge.load([tmp_path / "stations.ttl"]))
    assert known.stations == {"http://example.org/graz": "grz", "http://example.org/vienna": "vie"}
    assert known.thing("vie") == known.thing("http://example.org/vienna") == "http://example.org/vienna"
    assert known.points["http://example.org/park"] == (48.21, 16.41)
    assert known.thing("nowhere") is None and known.names["http://example.org/graz"] == "Graz"


def test_a_scene_is_bounded_and_goes_on_from_any_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scene, "EVENTS", 8)
    monkeypatch.setattr(scene, "STATIONS", 4)
    with shown(tmp_path) as one:
        look = one.scene
        assert [(s["key"], s["state"]) for s in look.newest(9)[2]] == [("grz", "silent"), ("vie", "silent")]
        start = look.number
        one.push(
            (0, "vie", 20), (1, "vie", 21), (2, "grz", 9), (3, "x", 1, 50.0, 8.0), (4, "y", 1), (5, "z", 1, 95.0, 8.0)
        )
        one.push((10, "vie", 22), (11, "a", 1, 1.0, 2.0), (12, "b", 1, 1.0, 2.0))  # one station too many
        number, events, stations = look.behind(start, 100) or (0, [], [])
        assert number == look.number and len({json.loads(text)["id"] for text in events}) == len(events) == 3
        states = {s["key"]: (s["state"], s["lat"]) for s in stations}
        assert states == {"vie": ("event", 48.2), "grz": ("quiet", 47.1), "x": ("quiet", 50.0), "a": ("quiet", 1.0)}
        assert look.summary()["unplaced"] == 3 and look.summary()["derived"] == {"warm": 3}

        # one at a time gives the same, and nothing twice
        at, found, moved = start, [], []
        while at < look.number:
            step = look.behind(at, 1)
            assert step is not None and step[0] > at
            at, found, moved = step[0], found + step[1], moved + step[2]
        assert found == events and len(moved) == len(stations)

        # an old reading of another place moves the station; what has no temperature above the last is quiet again
        one.push((20, "vie", 3), (21, "x", 1, 51.0, 8.0))
        changed = (look.behind(at, 9) or (0, [], []))[2]
        assert [(s["key"], s["state"], s["lat"]) for s in changed] == [("vie", "quiet", 48.2), ("x", "quiet", 51.0)]

        newest = json.loads(events[-1])["id"]
        because = (look.event(newest) or {})["because"]
        assert [record["temp"] for record in because] == [21.0, 22.0]
        assert look.readings.latest("vie")[0]["values"]["temp"] == 3.0 and look.readings.latest("nobody") == []

        one.push(*((30 + n, "vie", float(n)) for n in range(20)))
        assert look.behind(start, 100) is None and look.behind(look.number + 1, 100) is None
        assert look.event(newest) is None and len(look.newest(100)[1]) == len(look._ids) == 8


def test_a_station_has_no_data_when_its_records_cease(tmp_path: Path) -> None:
    with shown(tmp_path) as one:

        def states() -> dict[str, str]:
            return {each["key"]: each["state"] for each in one.scene.newest(0)[2]}

        one.push((0, "vie", 20), (0, "grz", 20), (60, "vie", 3), (90, "grz", 3))
        one.push((120, "vie", 3))  # of vie one comes each minute
        assert states() == {"vie": "quiet", "grz": "quiet"}
        one.push((300, "grz", 3))
        assert states() == {"vie": "quiet", "grz": "quiet"}
        at = one.scene.number
        one.push((301, "grz", 3))
        assert states() == {"vie": "missing", "grz": "quiet"}
        (vie,) = [each for each in (one.scene.behind(at, 9) or (0, [], []))[2] if each["key"] == "vie"]
        assert vie["last"] == EIGHT + 120 * SECOND
        one.push((400, "vie", 3))  # it is back, and may pause for as long from now on
        assert states() == {"vie": "quiet", "grz": "quiet"}
        one.push((1_000, "x", 3))
        assert states() == {"vie": "quiet", "grz": "missing"}
        one.push((5_000, "x", 3))
        assert states() == {"vie": "missing", "grz": "missing"}


def test_what_is_served(tmp_path: Path) -> None:
    with shown(tmp_path) as one, httpx.Client(base_url=one.url) as client:
        home = client.get("/")
        assert "script-src 'self'" in home.headers["content-security-policy"]
        assert "unsafe" not in home.headers["content-security-policy"]
        assert "<script>" not in home.text and "style=" not in home.text and "onclick" not in home.text
        again = client.get("/", headers={"If-None-Match": home.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert client.get("/page/main.js").headers["content-type"] == "text/javascript; charset=utf-8"
        for path in ("/page/../page.py", "/page/%2e%2e/page.py", "/page/vendor", "/page//etc/passwd", "/api/event/0"):
            assert client.get(path).status_code == 404, path

        one.push((0, "vie", 20), (1, "vie", 35.5))
        state = client.get("/api/state").json()
        assert [event["values"] for event in state["events"]] == [{"station": "vie", "temp": 35.5}]
        assert [(alert["title"], alert["state"]) for alert in state["alerts"]] == [("Heat at vie", "firing")]
        assert client.get(f"/api/event/{state['alerts'][0]['last']}").json()["because"][0]["temp"] == 20.0
        program = client.get("/api/program").json()
        (rule, alert) = program["rules"]
        change = one.outbox.after(0)[-1].change
        words = {
            replace(change, state=state, withdrawn=gone, action=action).word
            for state, gone, action in product(get_args(AlertState), (False, True), get_args(Action))
        }
        assert set(program["changes"]) == words
        assert set(program["words"]) >= {*BINARY_OPERATORS, "NOT", "not", "event", "in"}
        outlined = outline(one.scene.service, EventVocabulary("http://e.org/"))
        event = next(each for each in outlined["events"] if each["name"] == "warm")
        assert (outlined["base"], event["iri"]) == ("http://e.org/", "http://e.org/type/warm")
        assert event["attributes"][0]["iri"] == "http://e.org/attribute/warm/station"
        lines = program["text"].splitlines()
        assert lines[rule["line"] - 1].startswith("rising: warm") and lines[alert["line"] - 1].startswith("ALERT hot")
        assert state["numbers"]["made"][rule["node"]] == 1 and set(rule["goals"]) <= set(program["goals"])
        assert any(state["numbers"]["waiting"].get(goal) for goal in rule["goals"])

        def first(after: str, headers: dict[str, str] | None = None) -> tuple[str, str]:
            with client.stream("GET", "/api/stream", params={"after": after}, headers=headers or {}) as answer:
                lines = answer.iter_lines()
                kind = next(line for line in lines if line.startswith("event: "))
                return kind.removeprefix("event: "), next(lines).removeprefix("data: ")

        run = state["at"].split("-")[0]
        assert json.loads(first(f"{run}-0")[1])["events"] == state["events"]
        assert json.loads(first("", {"Last-Event-ID": state["at"]})[1])["events"] == []
        for wrong in ("", "0", "other-1", f"{run}-999", f"{run}-x", f"{run}--1"):
            assert first(wrong)[0] == "reset", wrong


def test_a_map_that_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import io
    import tarfile

    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        content = b"L = {}"
        entry = tarfile.TarInfo("package/dist/leaflet.js")
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    archive = file.getvalue()
    right = b64encode(hashlib.sha512(archive).digest()).decode()
    package = vendor.Package("leaflet", "1.0.0", right, {"dist/leaflet.js": "leaflet.js"})
    monkeypatch.setattr(vendor.shutil, "which", lambda name: None)
    with _registry(archive) as (address, asked):
        monkeypatch.setenv("NPM_CONFIG_REGISTRY", address)
        monkeypatch.setattr(vendor, "PACKAGES", (package,))
        assert (vendor.fetch(tmp_path / "page"), vendor.fetch(tmp_path / "page")) == (1, 0)
        assert (tmp_path / "page" / "leaflet.js").read_bytes() == b"L = {}" and asked == [
            "/leaflet/-/leaflet-1.0.0.tgz"
        ]
        monkeypatch.setattr(vendor, "PACKAGES", (vendor.Package("leaflet", "1.0.0", "other", package.files),))
        with pytest.raises(vendor.Unfetched, match="is not what it was"):
            vendor.fetch(tmp_path / "page")
        assert (tmp_path / "page" / "leaflet.js").read_bytes() == b"L = {}"
    assert vendor.main() == 0  # nobody answers there any more
    said = capsys.readouterr().err
    assert "will have no map" in said and "`make page` fetches" in said


@contextmanager
def _registry(archive: bytes) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(archive)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", asked
        server.shutdown()
        thread.join()


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.xdist_group("chromium")
def test_in_a_browser(tmp_path: Path) -> None:
    """One visit: a person opens the page, sees an alert come, asks why by keyboard; the server goes and comes back."""
    from playwright.sync_api import expect, sync_playwright

    wrong: list[str] = []
    with shown(tmp_path, remember=3_600 * SECOND) as one, sync_playwright() as play:
        one.push((0, HOSTILE, 20, 48.0, 14.0), (1, HOSTILE, 21, 48.0, 14.0))
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1300, "height": 800}, color_scheme="dark")
        page.set_default_timeout(120_000)
        expect.set_options(timeout=120_000)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.goto(one.url)
        expect(page.locator("#connection")).to_have_text("live")
        expect(page).to_have_title("heat.cep – semcep")
        drawn = (vendor.VENDOR / "leaflet.js").is_file()
        if drawn:
            _until(page, "semcep.parts.map && semcep.parts.map.markers.size === 3")
        else:
            expect(page.locator("#map")).to_contain_text("make page")

        # an event comes, then an alert; nobody has touched the page
        page.get_by_role("tab", name="Events").click()
        expect(page.locator("#events li")).to_have_count(1)
        one.push((60, "vie", 20), (61, "vie", 36.5))
        expect(page.locator("#events li")).to_have_count(2)
        expect(page.locator("#events li").first).to_contain_text("station vie · temp 36.5")
        expect(page.locator("#events li").last).to_contain_text(HOSTILE)
        expect(page.locator("#open-alerts")).to_have_text("1")
        expect(page.locator("#derived")).to_have_text("2")
        if drawn:
            _until(page, "[...semcep.parts.map.areas.values()].flat().some((each) => each.getRadius() === 20000)")
            markers = "[...semcep.parts.map.markers.values()]"
            colours = page.evaluate(f"{markers}.map((each) => each.options.fillColor + each.options.color)")
            assert len(set(colours)) == 3  # silent, part of an event, alert
            shapes = page.evaluate(f"{markers}.map((each) => each.options.glyph)")
            assert sorted(shapes) == [-1, 0, 0]  # that of `warm` where it was, and in the disc of the alert

            # what is searched and filtered thins out the map, and the list of the stations
            for filtered, keys in (
                ({"q": "36.5"}, ["vie"]), ({"q": "grz"}, ["grz"]), ({"type": "warm", "q": "img"}, [HOSTILE]),
                ({"severity": "Severe"}, ["vie"]), ({"severity": "Extreme"}, []), ({"state": "firing"}, ["vie"]),
                ({"only": "grz"}, ["grz"]),
            ):  # fmt: skip
                page.evaluate("(fields) => semcep.parts.lists.filters.change(fields)", filtered)
                _until(page, f"String([...semcep.parts.map.markers.keys()]) === {json.dumps(','.join(keys))}")
                page.evaluate("semcep.parts.lists.filters.clear()")
                _until(page, "semcep.parts.map.markers.size === 3")
            page.evaluate("semcep.parts.lists.filters.change({ q: 'lnz' })")
            _until(page, "semcep.parts.map.markers.size === 0")
            page.evaluate("semcep.parts.lists.filters.clear()")

        # by keyboard: from Events to Alerts, to the alert, why, and back
        page.get_by_role("tab", name="Events").focus()
        page.keyboard.press("ArrowLeft")
        expect(page.get_by_role("tab", name="Alerts")).to_be_focused()
        for _ in range(5):  # past what is searched, saved, silenced and filtered
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        why = page.locator("#why")
        expect(why).to_be_visible()
        expect(page.locator("#why-title")).to_be_focused()
        expect(why).to_contain_text("Heat at vie")
        expect(why.locator(".instruction")).to_have_text("Stay in the shade, vie.")
        expect(why.locator(".facts").nth(1)).to_contain_text("urgencyImmediate")
        expect(why.get_by_text("certainty")).to_be_hidden()  # that it was observed is the rule
        expect(why.locator(".records tbody tr")).to_have_count(2)
        expect(why).to_contain_text("rising: warm(S, B) <- reading(S, A, _, _) SEQ reading(S, B, _, _)")

        # the tree: what the event was made of, folded and unfolded by keyboard
        tree = why.locator(".tree")
        expect(tree.locator("figure")).to_contain_text("line 6")
        expect(tree.locator(".bound")).to_have_text('S = "vie" A = 20 B = 36.5 ')
        expect(tree.locator(".conditions")).to_have_text("B > A36.5 > 20")
        expect(tree.locator(".record")).to_have_count(2)
        why.locator("summary", has_text="All 2 input records").focus()
        expect(why.locator(".records")).to_be_hidden()
        page.keyboard.press("Enter")
        expect(why.locator(".records")).to_be_visible()
        assert bars(page) == []
        page.keyboard.press("Escape")
        expect(why).to_be_hidden()
        expect(page.locator("#alerts button")).to_be_focused()

        # a link to an alert leads to it, also to one that the page does not hold
        page.evaluate("semcep.store.alerts.clear()")
        (standing,) = page.evaluate("fetch('feeds/alerts').then((answer) => answer.json())")
        page.evaluate(f"location.hash = 'alert={standing['alert']}'")
        expect(why).to_be_visible()  # else what it showed before would do
        expect(why).to_contain_text("Heat at vie")
        page.keyboard.press("Escape")
        page.evaluate("location.hash = ''")

        # in the timeline: the row of the hostile name is first, its event the only one
        page.locator("#timeline").focus()
        page.keyboard.press("ArrowRight")
        expect(page.locator("#chosen")).to_contain_text("1 of 1")
        page.keyboard.press("Enter")
        expect(why).to_contain_text(HOSTILE)
        expect(tree.locator(".record").first).to_contain_text(HOSTILE)
        page.keyboard.press("Escape")
        page.get_by_role("tab", name="Stations").click()
        expect(page.locator("#stations li")).to_have_count(3)
        page.locator("#find").fill("img")
        expect(page.locator("#stations li")).to_have_count(1)
        page.locator("#stations button").click()
        expect(why).to_contain_text(HOSTILE)
        why.get_by_role("button", name="Ask").click()
        expect(why.locator(".near .named").first).to_contain_text("warm(")
        expect(why.locator(".verdict")).to_contain_text("onerror=")

        # rules with their numbers; dark as the system, then light
        page.get_by_role("tab", name="Rules").click()
        expect(page.locator(".rule[data-event=warm] summary")).to_contain_text("fired 2")
        expect(page.locator(".rule[data-event=warm] pre .word")).to_contain_text(["SEQ"])
        before = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.locator("#theme").click()
        expect(page.locator("html")).to_have_attribute("data-theme", "light")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
        assert bars(page) == []
        assert wrong == [] and page.evaluate("window.broken === undefined")

        # the server goes, more happens, it comes back
        one.stop()
        expect(page.locator("#connection")).to_contain_text("lost")
        one.push((120, "grz", 20), (121, "grz", 40))
        one.start()
        expect(page.locator("#connection")).to_have_text("live")
        expect(page.locator("#open-alerts")).to_have_text("2")
        expect(page.locator("#derived")).to_have_text("3")

        # a source is lost: that is said of it and of what is open, not that anything is over
        one.scene.without(["tcp://sensors:1"])
        expect(page.locator("#connection")).to_have_text("source lost: tcp://sensors:1; trying again")
        expect(page.locator("#alerts li .top").first).to_contain_text("source lost")
        one.scene.without([])
        expect(page.locator("#connection")).to_have_text("live")
        expect(page.locator("#alerts li .top").first).not_to_contain_text("source lost")

        # the input ends: nothing is live any more, what is open stays so, and nothing is begun again by the clock
        one.service.take(None, one.engine.close())
        expect(page.locator("#connection")).to_have_text("the input has ended")
        expect(page.locator("#alerts li .top").first).to_contain_text("active until 2024-05-01 ")
        expect(page.locator("#open-alerts")).to_have_text("2")
        expect(page.locator("#watermark")).to_contain_text("2024-05-01 08:02")
        assert bars(page) == []
        browser.close()


def _until(page: Page, condition: str) -> None:
    """Waits in Python: the page's policy does not let Playwright's own waiting evaluate a text there."""
    for _ in range(2400):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"it does not come to be: {condition}")


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.xdist_group("chromium")
def test_stations_close_together_and_without_data(tmp_path: Path) -> None:
    from playwright.sync_api import expect, sync_playwright

    near = ' a sosa:Platform ; dcterms:identifier "nxt" ; wgs84:lat 48.2001 ; wgs84:long 16.4 .\n'
    with shown(tmp_path, knowledge=f"{STATIONS}:next{near}") as one, sync_playwright() as play:
        one.push((0, "grz", 20))
        one.push((60, "grz", 3), (61, "nxt", 3))
        one.push((9_000, "nxt", 3))
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1300, "height": 800})
        page.set_default_timeout(120_000)
        expect.set_options(timeout=120_000)
        page.goto(one.url)
        if (vendor.VENDOR / "leaflet.js").is_file():
            _until(page, "window.semcep?.parts.map?.markers.size === 3")
            expect(page.locator(".station-name:visible")).to_have_count(2)  # two would lie over each other
            glyphs = page.evaluate("[...semcep.parts.map.markers].map(([key, each]) => `${key} ${each.options.glyph}`)")
            assert {"grz -2", "nxt -1"} <= set(glyphs)
        page.get_by_role("tab", name="Stations").click()
        expect(page.locator("#stations li").first).to_contain_text("no data since 2024-05-01 ")
        page.keyboard.press("/")
        expect(page.locator("#find")).to_be_focused()
