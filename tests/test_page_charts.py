"""Charts of the page: the readings behind an alert, thresholds of the rules, colours and shapes of events."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import httpx
import numpy as np
import polars as pl
import pytest

from cep.connectors.serving import page as served
from cep.connectors.serving import readings, vendor
from cep.connectors.serving.gazette import SubjectColumns
from cep.connectors.serving.readings import Readings
from cep.engine import Engine
from cep.plan.thresholds import thresholds
from tests.axe import bars
from tests.page_server import CHROMIUM, EIGHT, MISSING, SECOND, shown
from tests.test_page_address import NOWHERE, browser

PROGRAM = """
event reading(station: string, temp: float) TIME time.
event warm(station: string, temp: float).
rising: warm(S, B) <- reading(S, A) SEQ reading(S, B) WHERE B > A, A >= -12 WITHIN 1 h.
warm(S, B) <- (reading(S, B) WHERE (25 < B or B < 3)).
mean(S, M) <- reading(S, T) AGGREGATE M = avg(T) OVER LAST 5 EVENTS BY S WHERE M > 28.
lots(S, N) <- reading(S, T) AGGREGATE N = count() OVER LAST 5 EVENTS BY S WHERE N > 4.
three(S) <- (reading(S, B) WHERE B > 7) TIMES 3 WITHIN 1 h.
lone(S) <- reading(S, _) UNLESS (reading(S, T) WHERE T < 1) WITHIN 1 h.
there(S) <- reading(S, T) WHERE T != 5, S = "vie".
ALERT hot ON warm(station: S, temp: T) WHERE T > 30
    SEVERITY "Severe" TITLE "Heat at {S}" FOR 2 h KEYED BY S.
"""


def test_thresholds_of_rules() -> None:
    found = thresholds(Engine.from_text(PROGRAM, alerts=True).plan.rules)
    told = [(each.event, each.aggregate, each.operator, each.value, each.line, each.leads) for each in found]
    hot = ("alert hot", "warm")
    assert told == [
        ("reading", "", ">=", -12, 4, hot),
        ("reading", "", ">", 25, 5, hot),
        ("reading", "", "<", 3, 5, hot),
        ("reading", "avg", ">", 28, 6, ("mean",)),
        ("reading", "", ">", 7, 8, ("three",)),
        ("reading", "", "<", 1, 9, ("lone",)),
        ("warm", "", ">", 30, 11, ("alert hot",)),
        ("reading", "", ">", 30, 11, ("alert hot",)),  # what warm has, reading had
    ]
    assert {each.attribute for each in found} == {"temp"}


def test_readings_are_bounded_and_found(monkeypatch: pytest.MonkeyPatch) -> None:
    schemas = Engine.from_text("event r(s: string, t: float, n: int). o(S) <- r(S, T, _) WHERE T > 3.").inputs
    held = Readings(schemas, {name: SubjectColumns.of(schema) for name, schema in schemas.items()})

    def take(*rows: tuple[int, str, float | None, int]) -> None:
        table = pl.DataFrame(
            [(end, end, *rest) for end, *rest in rows],
            schema={"start": pl.Int64, "end": pl.Int64, "s": pl.String, "t": pl.Float64, "n": pl.Int64},
            orient="row",
        )
        held.take({"r": table})

    assert held.numeric("r", "t") and held.numeric("r", "n")
    assert not held.numeric("r", "s") and not held.numeric("r", "x") and not held.numeric("x", "t")
    assert held.series("r", "t", "a", 0, 9) == readings.Series((), (), None)
    for end in range(10):
        take((end, "a" if end % 2 else "b", float(end), end))
    take((10, "a", None, 3), (12, "a", float("nan"), 3), (11, "a", float("inf"), 3))
    # what lies in the time, with the one before and the one behind it
    assert held.series("r", "t", "a", 4, 6) == readings.Series([3, 5, 7], [3.0, 5.0, 7.0], 0)
    assert held.series("r", "n", "a", 8, 99) == readings.Series([7, 9, 10, 11, 12], [7.0, 9.0, 3.0, 3.0, 3.0], 0)
    assert held.latest("a") == [{"type": "r", "start": 12, "end": 12, "values": {"s": "a", "t": "nan", "n": 3}}]
    assert held.latest("nobody") == []

    # of many points the lowest and the highest stay
    monkeypatch.setattr(readings, "POINTS", 20)
    for at in range(0, 4_000, 40):
        take(*((100 + at + n, "c", float((at + n) % 97), 0) for n in range(40)))
    thin = held.series("r", "t", "c", 0, 10_000)
    assert len(thin.times) <= 20 and list(thin.times) == sorted(thin.times)
    assert (min(thin.values), max(thin.values)) == (0.0, 96.0)

    # the oldest go
    monkeypatch.setattr(readings, "RECORDS", 100)
    take(*((9_000 + n, "d", 1.0, 0) for n in range(30)))
    assert held.series("r", "n", "a", 0, 99).times == []
    assert len(held.series("r", "n", "d", 0, 10_000).times) == 10  # of equal ones one


def test_readings_of_an_event_that_nobody_declared() -> None:
    schemas = Engine.from_text("o(S, T) <- r(S, T) WHERE T > 3.").inputs
    held = Readings(schemas, {name: SubjectColumns.of(schema) for name, schema in schemas.items()})
    mixed = [pl.Series(name, values, dtype=pl.Object) for name, values in (("arg1", ["a", 5]), ("arg2", [4, "x"]))]
    held.take({"r": pl.DataFrame([pl.Series("start", [1, 2]), pl.Series("end", [1, 2]), *mixed])})
    assert held.series("r", "arg2", "a", 0, 9) == readings.Series([1], [4.0], 1)
    assert held.series("r", "arg2", "5", 0, 9).values == []  # it is a text
    assert held.latest("5") == [{"type": "r", "start": 2, "end": 2, "values": {"arg1": 5, "arg2": "x"}}]


# How the three kinds of colour-blindness see linear colours (Machado, Oliveira and Fernandes 2009), and how all do.
SIGHTS = (
    np.eye(3),
    np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
)
CONES = np.array([[0.41222, 0.53633, 0.05145], [0.21190, 0.68070, 0.10740], [0.08830, 0.28172, 0.62998]])
OKLAB = np.array([[0.21045, 0.79362, -0.00407], [1.97800, -2.42859, 0.45059], [0.02590, 0.78277, -0.80868]])
APART = 0.12  # in Oklab; 0.02 is just noticed


def test_twenty_events_can_be_told_apart() -> None:
    style = (served.PAGE / "style.css").read_text()
    shapes = (served.PAGE / "glyphs.js").read_text()
    number = len(re.findall(r'^  "M', shapes, re.M))
    colours = re.findall(r"--kind-\d: light-dark\((#\w{6}), (#\w{6})\)", style)
    (panel,) = re.findall(r"--panel: light-dark\((#\w{6}), (#\w{6})\)", style)
    assert np.gcd(number, len(colours)) == 1 and number * len(colours) >= 20
    for theme in (0, 1):
        for one, other in combinations(range(20), 2):
            if one % number == other % number:  # of one shape
                a, b = (_linear(colours[each % len(colours)][theme]) for each in (one, other))
                for sight in SIGHTS:
                    assert np.linalg.norm(_oklab(sight @ a) - _oklab(sight @ b)) > APART, (one, other, theme)
        for pair in colours:
            dark, light = sorted((_bright(pair[theme]), _bright(panel[theme])))
            assert (light + 0.05) / (dark + 0.05) >= 3, pair[theme]


def _linear(text: str) -> np.ndarray:
    values = np.array([int(text[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def _bright(text: str) -> float:
    return float(_linear(text) @ [0.2126, 0.7152, 0.0722])


def _oklab(linear: np.ndarray) -> np.ndarray:
    return np.asarray(OKLAB @ np.cbrt(CONES @ np.clip(linear, 0, 1)))


def test_what_charts_are_given(tmp_path: Path) -> None:
    with shown(tmp_path, NOWHERE, knowledge="") as one, httpx.Client(base_url=one.url) as client:
        one.push((0, "vie", 21), (60, "vie", 36.5), (61, "grz", 2))
        query = {"event": "reading", "attribute": "temp", "key": "vie"}
        found = client.get("/api/series", params=query).json()
        assert found == {"times": [EIGHT, EIGHT + 60 * SECOND], "values": [21.0, 36.5], "held": EIGHT}
        later = client.get("/api/series", params={**query, "since": EIGHT + 61 * SECOND}).json()
        assert later["values"] == [36.5]  # where the line comes from
        for wrong in ({"attribute": "station"}, {"attribute": "z"}, {"event": "x"}):
            assert client.get("/api/series", params={**query, **wrong}).status_code == 404, wrong
        assert client.get("/api/series", params={**query, "since": "x"}).status_code == 422
        program = client.get("/api/program").json()
        assert [(each["event"], each["value"], each["leads"]) for each in program["thresholds"]] == [
            ("reading", 20, ["alert hot", "warm"]),
            ("reading", 5, ["cold"]),
            ("warm", 30, ["alert hot"]),
            ("reading", 30, ["alert hot"]),
        ]


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.xdist_group("chromium")
def test_charts_in_a_browser(tmp_path: Path) -> None:
    from playwright.sync_api import expect

    with shown(tmp_path, NOWHERE, knowledge="", remember=3_600 * SECOND) as one, browser() as (page, wrong):
        one.push(*((60 * n, "vie", 18 + n) for n in range(17)), (961, "grz", 2))
        page.goto(one.url)
        page.locator("#alerts button").click()
        why = page.locator("#why")
        if not (vendor.VENDOR / "uplot.js").is_file():
            expect(why).to_contain_text("The library of charts is missing")
            return
        # behind the alert: the readings, what the rules compare them with, when the event was
        chart = why.locator(".chart")
        expect(chart).to_have_count(1)
        expect(chart).to_contain_text("temp of reading34 at 2024-05-01 10:16")
        expect(chart).to_contain_text("compared: > 20 (warm, line 5), > 30 (hot, line 7)")
        expect(chart.locator("canvas")).to_be_visible()
        assert bars(page) == []

        # the timeline goes with it, by key and by button; and it with the timeline
        why.locator(".charts").focus()
        page.keyboard.press("+")
        (from_, to) = page.evaluate("semcep.parts.timeline.view")
        why.get_by_role("button", name="Later").click()
        assert page.evaluate("semcep.parts.timeline.view")[0] == pytest.approx((from_ + to) / 2)
        expect(page).to_have_url(re.compile("from=2024-05-01T"))

        # several attributes of several subjects, in a tab that the address knows
        page.goto(f"{one.url}/#tab=charts&chart=reading.temp,warm.temp&of=vie")
        expect(page.locator("#chart-box .chart")).to_have_count(2)
        expect(page.locator("#chart-box .chart").first).to_contain_text("34 at 2024-05-01 10:16")
        page.locator("#chart-subject").fill("grz")
        page.keyboard.press("Enter")
        expect(page.locator("#chart-box .chart").first.locator(".legend li")).to_have_text(["vie 34", "grz 2"])
        page.locator("#kinds button", has_text="warm").click()
        expect(page.locator("#chart-box .chart")).to_have_count(1)
        page.reload()
        expect(page.locator("#chart-box .chart")).to_have_count(1)
        expect(page.locator("#chart-box")).to_contain_text("switched off in the legend")
        one.push((1_000, "vie", 36))
        expect(page.locator("#chart-box .legend li").first).to_have_text("vie 36")
        assert bars(page) == [] and wrong == []
