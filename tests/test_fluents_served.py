"""Fluents where they are served: on the page, in the store, as RDF, and alerts that last while they hold."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import polars as pl
import pyoxigraph as ox
import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.connectors.alerts.lifecycle import AlertLifecycle
from cep.engine import Engine
from cep.events import Event
from tests.page_server import CHROMIUM, EIGHT, MISSING, SECOND, shown

if TYPE_CHECKING:
    from playwright.sync_api import Page

TIME = "http://www.w3.org/2006/time#"
PROGRAM = """event reading(station: string, temp: float, y: float?, x: float?) TIME time.
fluent warm(station: string).
initially warm(grz).
initiate warm(S) <- reading(S, T, _, _) WHERE T > 20.
terminate warm(S) <- reading(S, T, _, _) WHERE T <= 20.
ALERT heat ON warm(S) SEVERITY "Minor" TITLE "{S} is warm" FOR 5 s.
"""


def test_the_page_is_told_what_holds_and_when_it_ends(tmp_path: Path) -> None:
    with shown(tmp_path, PROGRAM) as one:
        one.push((0, "vie", 25.0))
        number, events, stations = one.scene.newest(10)
        first = [json.loads(each) for each in events]
        assert [(e["key"], e["start"], e["end"], e["holds"]) for e in first] == [
            ("grz", None, None, True), ("vie", EIGHT, None, True)
        ]  # fmt: skip
        assert {s["key"]: s.get("holds") for s in stations} == {"vie": ["warm"], "grz": ["warm"]}
        assert [(entry.change.state, entry.change.title) for entry in one.outbox.live()] == [("firing", "vie is warm")]
        one.push((60, "vie", 12.0))
        _, later, stations = one.scene.behind(number, 10) or (0, [], [])
        assert [(e["id"], e["start"], e["end"]) for e in map(json.loads, later)] == [
            (first[1]["id"], EIGHT, EIGHT + 60 * SECOND)
        ]  # fmt: skip
        assert {s["key"]: s.get("holds") for s in stations} == {"vie": None}
        assert not one.outbox.live(), "it lasted a minute, longer than its FOR, and is resolved"
        answer = httpx.get(f"{one.url}/api/state").json()
        assert [alert["state"] for alert in answer["alerts"]] == ["firing", "resolved"]
        assert answer["alerts"][-1]["time"] == "2024-05-01T08:01:00Z"
        assert answer["alerts"][0]["first"] == first[1]["id"], "an alert names what it is on"
        assert answer["numbers"]["derived"] == {"warm": 1}


def until(tab: Page, condition: str) -> None:
    """Wait for a minute at most; the page lets nobody evaluate texts but by its own console."""
    for _ in range(600):
        if tab.evaluate(condition):
            return
        tab.wait_for_timeout(100)
    raise AssertionError(f"{condition} is not so")


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.xdist_group("chromium")
def test_bars_go_on_to_the_present_and_stations_have_the_colour_of_what_holds(tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    with shown(tmp_path, PROGRAM.replace("ALERT", "# ALERT")) as one, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page()
        wrong: list[str] = []
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        one.push((0, "vie", 25.0))
        one.push((600, "grz", 12.0))
        tab.goto(one.url)
        until(tab, "window.semcep?.store.stations.size === 2 && Boolean(window.semcep.store.numbers)")
        vie = "[...semcep.store.events].find((each) => each.key === 'vie')"
        assert tab.evaluate(f"[{vie}.open, {vie}.end]") == [True, EIGHT + 600 * SECOND]
        one.push((1200, "vie", 25.0))
        until(tab, f"{vie}.end === {EIGHT + 1200 * SECOND}")
        assert tab.evaluate(f"{vie}.open")
        if tab.evaluate("Boolean(semcep.parts.map)"):
            styles = "['vie', 'grz'].map((key) => semcep.parts.map.style(semcep.store.stations.get(key)))"
            holding, not_any_more = tab.evaluate(styles)
            assert (holding["color"], holding["glyph"]) != (not_any_more["color"], not_any_more["glyph"])
        one.push((1800, "vie", 2.0), (2400, "vie", 2.0))
        until(tab, f"!{vie}.open")
        assert tab.evaluate(f"{vie}.end") == EIGHT + 1800 * SECOND and not wrong
        browser.close()


def test_intervals_are_rdf_and_what_still_holds_has_no_end(tmp_path: Path) -> None:
    (tmp_path / "p.cep").write_text(PROGRAM.replace("warm(station: string)", "warm(station: string) AS <urn:x:Warm>"))
    (tmp_path / "r.csv").write_text("time,station,temp,y,x\n1,vie,25,,\n2,lnz,25,,\n5,vie,12,,\n7,grz,12,,\n")
    result = CliRunner().invoke(
        app, ["run", str(tmp_path / "p.cep"), "-i", f"reading={tmp_path / 'r.csv'}", "-o", str(tmp_path / "o.nt")]
    )
    assert result.exit_code == 0, result.output
    store = ox.Store()
    store.load(path=str(tmp_path / "o.nt"), format=ox.RdfFormat.N_TRIPLES)
    asked = f"""PREFIX time: <{TIME}>
        SELECT ?s ?b ?e {{ ?i a <urn:x:Warm> ; <urn:semcep:attribute/warm/station> ?s
        OPTIONAL {{ ?i time:hasBeginning/time:inXSDDateTimeStamp ?b }}
        OPTIONAL {{ ?i time:hasEnd/time:inXSDDateTimeStamp ?e }} }}"""
    found = store.query(asked)
    assert isinstance(found, ox.QuerySolutions)
    rows = {tuple(None if row[n] is None else row[n].value for n in ("s", "b", "e")) for row in found}
    assert rows == {
        ("vie", "1970-01-01T00:00:01Z", "1970-01-01T00:00:05Z"),
        ("lnz", "1970-01-01T00:00:02Z", None),
        ("grz", None, "1970-01-01T00:00:07Z"),
    }
    refused = CliRunner().invoke(
        app, ["run", str(tmp_path / "p.cep"), "-i", "x.csv", "-o", str(tmp_path / "o.nt"), "--changes"]
    )
    assert refused.exit_code == 2


@pytest.mark.parametrize("cut", [1, 2, 5, 50])
def test_an_alert_on_a_fluent_lasts_while_anything_of_its_key_holds(cut: int) -> None:
    text = """event begin(area: string, v: string) TIME time.
event gone(area: string, v: string) TIME time.
fluent in_area(v: string, area: string).
initiate in_area(V, A) <- begin(A, V).
terminate in_area(V, A) <- gone(A, V).
ALERT busy ON in_area(V, A) WHERE A != nowhere TITLE "{V} is in {A}" FOR 2 s KEYED BY A.
"""
    engine = Engine.from_text(text, alerts=True, lateness=0)
    schemas = {table: engine.plan.schemas[table] for alert in engine.alerts for table in alert.tables}
    lifecycle = AlertLifecycle(engine.alerts, schemas, (), engine.meanings())
    rows = [
        Event(name, (area, v), t * SECOND, t * SECOND)
        for t, name, area, v in [
            (1, "begin", "a", "x"), (3, "begin", "a", "y"), (4, "begin", "nowhere", "x"), (6, "gone", "a", "x"),
            (6, "begin", "b", "x"), (20, "gone", "a", "y"), (21, "gone", "b", "x"), (21, "begin", "b", "z"),
            (30, "begin", "a", "x"), (31, "gone", "nowhere", "x"),
        ]
    ]  # fmt: skip
    found = []
    while rows:
        found += lifecycle.take(engine.push(rows[:cut]), engine.watermark)
        live = [type(each).load(each.dump()) for each in lifecycle.live.values()]
        lifecycle = AlertLifecycle(engine.alerts, schemas, (), engine.meanings(), live, lifecycle.reached)
        rows = rows[cut:]
    found += lifecycle.take(engine.advance(60 * SECOND), 60 * SECOND)
    assert [(c.state, c.key["a"] if "a" in c.key else c.key["area"], c.time // SECOND) for c in found] == [
        ("firing", "a", 1), ("updated", "a", 3), ("firing", "b", 6), ("resolved", "a", 20), ("updated", "b", 21),
        ("firing", "a", 30),
    ]  # fmt: skip


LEVELS = """event reading(station: string, temp: float, y: float?, x: float?) TIME time.
fluent level(station: string) = l: int.
initiate level(S) = 3 <- reading(S, T, _, _) WHERE T > 30.
initiate level(S) = 2 <- reading(S, T, _, _) WHERE T > 20, T <= 30.
terminate level(S) = _ <- reading(S, T, _, _) WHERE T <= 20.
"""

EACH_VALUE = [f"firing {level} at {second}" for level, second in ((2, 0), (3, 60), (2, 120))]
EACH_VALUE += [f"resolved {level} at {second}" for level, second in ((2, 60), (3, 120), (2, 180))]


@pytest.mark.parametrize(
    "alert, expected",
    [
        ("level(S) = L {} KEYED BY S", ["firing 2 at 0", "updated 3 at 60", "updated 2 at 120", "resolved 2 at 180"]),
        ("level(station: S) = L {} KEYED BY S, L", EACH_VALUE),
        ("level(S) = L {}", EACH_VALUE),
        ("level(S) = L WHERE L > 2 {} KEYED BY S", ["firing 3 at 60", "resolved 3 at 120"]),
        ("level(S) = 3 {}", ["firing 3 at 60", "resolved 3 at 120"]),
    ],
)
def test_an_alert_on_a_fluent_with_values_goes_by_its_key(alert: str, expected: list[str], tmp_path: Path) -> None:
    """With a key of the value there is one for each value, without it the same one is updated."""
    title = 'TITLE "{S}" FOR 1 h'
    with shown(tmp_path, f"{LEVELS}ALERT high ON {alert.format(title)}.") as one:
        for second, degrees in ((0, 25.0), (60, 35.0), (120, 22.0), (180, 10.0), (240, 10.0)):
            one.push((second, "vie", degrees))
        told = [entry.change for entry in one.outbox.after(0)]
        found = [f"{each.state} {each.values['l']} at {(each.time - EIGHT) // SECOND}" for each in told]
        assert sorted(found) == sorted(expected)
        _, events, _ = one.scene.newest(10)
        named = {each["id"]: each["values"]["l"] for each in map(json.loads, events)}
        assert all(named[each.last] == each.values["l"] for each in told), "an alert names what it is on"


def test_an_alert_outlasts_an_instant_at_which_its_fluent_does_not_hold() -> None:
    """The alert goes on if an interval of its key begins when another ends, also one with the same arguments."""
    text = """event on(s: string) TIME time.
event off(s: string) TIME time.
event blip(s: string) TIME time.
fluent up(s: string).
fluent calm(s: string).
initiate up(S) <- on(S).
terminate up(S) <- off(S).
calm(S) WHILE up(S) AND NOT blip(S).
ALERT calm ON calm(S) TITLE "{S}" FOR 2 s.
"""
    engine = Engine.from_text(text, alerts=True, lateness=0)
    schemas = {table: engine.plan.schemas[table] for alert in engine.alerts for table in alert.tables}
    lifecycle = AlertLifecycle(engine.alerts, schemas, (), engine.meanings())
    found = []
    for second, name in [(1, "on"), (5, "blip"), (20, "off"), (21, "blip")]:
        given = engine.push([Event(name, ("vie",), second * SECOND, second * SECOND)])
        found += lifecycle.take(given, engine.watermark)
    assert [(change.state, change.time // SECOND) for change in found] == [
        ("firing", 1), ("updated", 5), ("resolved", 20)
    ]  # fmt: skip
    before = [replace(found[1], holding=['["vie"]'])]  # as an outbox of before names it, by its arguments alone
    lifecycle = AlertLifecycle(engine.alerts, schemas, (), engine.meanings(), before)
    whole = {"start": [5 * SECOND], "end": [20 * SECOND], "s": ["vie"]}
    ended = lifecycle.take({"alert calm ends": pl.DataFrame(whole)}, 20 * SECOND)
    assert [(change.state, change.time // SECOND) for change in ended] == [("resolved", 20)]


def test_alerts_on_fluents_of_formulas_fire_when_they_are_known() -> None:
    text = """event reading(station: string, temp: float) TIME time.
fluent warm(station: string).
fluent steady(station: string).
fluent alarming(station: string).
initiate warm(S) <- reading(S, T) WHERE T > 20.
terminate warm(S) <- reading(S, T) WHERE T <= 20.
alarming(S) WHILE warm(S) AND ONCE[0, 10 s] reading(S, _).
steady(S) WHILE warm(S) LASTING >= 5 s.
ALERT alarm ON alarming(S) TITLE "{S}" FOR 3 s.
ALERT calm ON steady(S) TITLE "{S}" FOR 3 s.
"""
    engine = Engine.from_text(text, alerts=True, lateness=0)
    schemas = {table: engine.plan.schemas[table] for alert in engine.alerts for table in alert.tables}
    lifecycle = AlertLifecycle(engine.alerts, schemas, (), engine.meanings())
    found = []
    for t, temp in [(1, 25.0), (4, 25.0), (7, 30.0), (9, 3.0), (40, 25.0), (42, 3.0), (60, 1.0)]:
        given = engine.push([Event("reading", ("vie", temp), t * SECOND, t * SECOND)])
        found += lifecycle.take(given, engine.watermark)
    assert [(change.name, change.state, change.time // SECOND) for change in found if change.name == "alarm"] == [
        ("alarm", "firing", 1), ("alarm", "resolved", 9), ("alarm", "firing", 40), ("alarm", "resolved", 42),
    ]  # fmt: skip
    assert [change.state for change in found if change.name == "calm"] == ["firing", "resolved"]
