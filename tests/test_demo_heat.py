"""The heat demo against the heat index worked out by hand, as the US weather service writes it down."""

from __future__ import annotations

import csv
from collections import Counter
from datetime import datetime
from math import sqrt

import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.demos.heat import demo
from cep.demos.run import RunResult, weather

AREAS = {"EWR": "west of the Hudson", "JFK": "Long Island", "LGA": "Long Island"}


def index(t: float, rh: float) -> float:
    """https://www.wpc.ncep.noaa.gov/html/heatindex_equation.shtml"""
    simple = 0.5 * (t + 61.0 + ((t - 68.0) * 1.2) + (rh * 0.094))
    if (simple + t) / 2 < 80:
        return (simple + t) / 2
    hi = (
        -42.379 + 2.04901523 * t + 10.14333127 * rh - 0.22475541 * t * rh - 0.00683783 * t * t
        - 0.05481717 * rh * rh + 0.00122874 * t * t * rh + 0.00085282 * t * rh * rh - 0.00000199 * t * t * rh * rh
    )  # fmt: skip
    if rh < 13 and 80 <= t <= 112:
        return hi - ((13 - rh) / 4) * sqrt((17 - abs(t - 95.0)) / 17)
    if rh > 85 and 80 <= t <= 87:
        return hi + ((rh - 85) / 10) * ((87 - t) / 5)
    return hi


def note(hi: float) -> str | None:
    """The classes of the ETALIS paper."""
    if hi < 80:
        return None
    return "caution" if hi < 90 else "extreme caution" if hi < 105 else "danger" if hi < 130 else "extreme danger"


@pytest.fixture(scope="module")
def found() -> RunResult:
    return demo.find()


def test_every_hot_hour_is_as_by_hand(found: RunResult) -> None:
    expected = {}
    with weather().open(newline="") as file:
        for row in csv.DictReader(file):
            if "NA" not in (row["temp"], row["humid"]):
                hi = index(float(row["temp"]), float(row["humid"]))
                time = int(datetime.fromisoformat(row["time_hour"]).timestamp()) * 1_000_000
                if (name := note(hi)) is not None:
                    expected[row["origin"], time] = (AREAS[row["origin"]], name, hi)
    columns = ("station", "start", "area", "class", "index")
    heat = found.derived["heat"].select(columns).rows()
    assert {(station, time) for station, time, *_ in heat} == expected.keys()
    assert len(heat) == len(expected) == 2121
    for station, time, area, name, hi in heat:
        assert (area, name) == expected[station, time][:2]
        assert hi == pytest.approx(expected[station, time][2], abs=0.05 + 1e-9)
    assert Counter(name for *_, name, _ in heat) == {"caution": 1518, "extreme caution": 584, "danger": 19}


def test_what_it_prints() -> None:
    result = CliRunner().invoke(app, ["demo", "heat"])
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "Long Island JFK 366 134 5" in lines
    assert "Long Island LGA 576 197 3" in lines
    assert "west of the Hudson EWR 576 253 11" in lines
    assert "west of the Hudson EWR danger 20 Jul 22:00 120.2 °F" in lines
