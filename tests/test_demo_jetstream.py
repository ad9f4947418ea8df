"""The jet stream demo against plain loops over the positions."""

from __future__ import annotations

from collections import defaultdict
from statistics import stdev

import numpy as np
import polars as pl
import pytest
from pyproj import Geod
from typer.testing import CliRunner

from cep.command import app
from cep.demos.jetstream import demo, positions, routes

pytestmark = pytest.mark.xdist_group("jetstream")  # the demo runs once

SECOND = 1_000_000
MINUTE = 60 * SECOND
EARTH = Geod(ellps="WGS84")


@pytest.fixture(scope="module")
def found() -> demo.Found:
    return demo.find()


def shaken_by_hand(seen: pl.DataFrame) -> dict[tuple[str, int], float]:
    """When which flight was shaken, and how much."""
    flights: dict[str, list[tuple[int, float, float]]] = defaultdict(list)
    for time, flight, level, climb in seen.select("time", "callsign", "altitude", "vertical_rate").iter_rows():
        flights[flight].append((time, level, climb))
    shaken = {}
    for flight, rows in flights.items():
        for last, (time, _, _) in enumerate(rows):
            window = [row for row in rows[max(0, last - 11) : last + 1] if row[0] > time - 2 * MINUTE]
            levels, climbs = [row[1] for row in window], [row[2] for row in window]
            level = len(window) >= 12 and min(levels) >= 29_000 and max(levels) - min(levels) <= 100
            if level and max(climbs) >= 192 and min(climbs) <= -192:
                shaken[flight, time] = stdev(climbs)
    return shaken


def check_shaken(found: demo.Found, least: int) -> None:
    expected = shaken_by_hand(found.positions)
    actual = {
        (flight, end): swing for flight, end, swing in found.of("shaken").select("flight", "end", "swing").iter_rows()
    }
    assert actual.keys() == expected.keys() and len(actual) > least
    for key, swing in actual.items():
        assert swing == pytest.approx(expected[key])


@pytest.mark.long
def test_who_is_shaken_is_as_by_hand(found: demo.Found) -> None:
    check_shaken(found, 500)


def test_so_it_is_of_few_flights(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = positions.positions()
    some = seen["callsign"].unique().sort().gather_every(10)
    monkeypatch.setattr(demo, "positions", lambda: seen.filter(pl.col("callsign").is_in(some.implode())))
    check_shaken(demo.find(), 20)


def places_by_hand(found: demo.Found, flights: set[str]) -> dict[str, list[tuple[int, int, int, float, float, float]]]:
    """Where these flights are on streams: time, route, point, level, lat, long."""
    places: dict[str, list[tuple[int, int, int, float, float, float]]] = defaultdict(list)
    points = found.routes.select("route", "point", "lat", "long", "course").rows()
    seen = found.positions.filter(pl.col("callsign").is_in(list(flights)) & (pl.col("altitude") >= 29_000))
    columns = {name: seen[name].to_numpy() for name in ("time", "altitude", "latitude", "longitude", "track")}
    names = seen["callsign"].to_list()
    for route, point, lat, long, course in points:
        near = np.abs(columns["latitude"] - lat) < 0.1  # 11 km
        rows = np.flatnonzero(near & (np.abs((columns["track"] - course + 540) % 360 - 180) <= 20))
        away = EARTH.inv(
            np.full(len(rows), long), np.full(len(rows), lat), columns["longitude"][rows], columns["latitude"][rows]
        )[2]
        for row in rows[away <= 8_000].tolist():
            place = (columns[name][row] for name in ("time", "altitude", "latitude", "longitude"))
            time, level, own_lat, own_long = place
            places[names[row]].append((int(time), route, point, float(level), float(own_lat), float(own_long)))
    return places


@pytest.mark.long
def test_warnings_are_as_by_hand(found: demo.Found) -> None:
    shaken = shaken_by_hand(found.positions)
    places = places_by_hand(found, set(found.positions["callsign"]))
    rough = [
        (time, flight, *where) for flight, own in places.items() for time, *where in own if (flight, time) in shaken
    ]
    first: dict[tuple[str, str], int] = {}
    for time, teller, route, point, level, _, _ in rough:
        for flight, own in places.items():
            for later, own_route, own_point, own_level, _, _ in own:
                if (
                    flight != teller
                    and own_route == route
                    and own_point < point
                    and abs(own_level - level) <= 2000
                    and time < later <= time - 110 * SECOND + 15 * MINUTE
                ):
                    first[flight, teller] = min(first.get((flight, teller), later), later)
    warnings = found.of("jet_stream_warning").select("flight", "told_by", "end").rows()
    assert sorted(warnings) == sorted((*pair, time) for pair, time in first.items())
    assert len(warnings) == 24


@pytest.mark.long
def test_routes_are_rows_of_points_a_minute_apart(found: demo.Found) -> None:
    for (_,), points in found.routes.group_by("route", maintain_order=True):
        assert points["point"].to_list() == list(range(1, points.height + 1)) and points.height >= routes.SHORTEST
        lat, long = points["lat"].to_numpy(), points["long"].to_numpy()
        steps = EARTH.inv(long[:-1], lat[:-1], long[1:], lat[1:])[2]
        assert (steps > 8_000).all() and (steps < 25_000).all()
    flights = found.routes["flights"].unique(maintain_order=True).to_list()
    assert flights == sorted(flights, reverse=True)


@pytest.mark.long
def test_what_it_prints(found: demo.Found, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find", lambda: found)
    result = CliRunner().invoke(app, ["demo", "jetstream"])
    assert result.exit_code == 0, result.output
    assert "139,098 positions; 1,243 flights above 29,000 feet; 24 streams" in result.output
    assert "3 of the 23 warned flights were shaken within half an hour" in result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "DAH2071 EZY27XG 11 9 17:13 98 17:26" in lines


def test_without_the_data_it_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["demo", "jetstream"])
    assert result.exit_code == 2
    assert "the package traffic" in result.output and "pip install --no-deps traffic" in result.output
