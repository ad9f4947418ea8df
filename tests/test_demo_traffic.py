"""The traffic demo against plain loops over the positions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import polars as pl
import pytest
from PIL import Image
from pyproj import Geod
from typer.testing import CliRunner

from cep.command import app
from cep.demos.jetstream import positions as data
from cep.demos.traffic import demo, picture

pytestmark = pytest.mark.xdist_group("traffic")  # the demo runs once

SECOND = 1_000_000
MINUTE = 60 * SECOND
EARTH = Geod(ellps="WGS84")

Span = tuple[int, int]
Row = tuple[int, float, float, float, float, float]
"""Time, lat, long, height, track, climb."""


@pytest.fixture(scope="module")
def found() -> demo.Found:
    """Of the flights of one half hour, some of which land side by side, and of the one that stays low."""
    patch = pytest.MonkeyPatch()
    seen = demo.positions()
    early = seen.filter(pl.col("timestamp") < seen["timestamp"].min() + 30 * MINUTE)["callsign"].unique().sort()
    some = pl.concat([early.gather_every(2), pl.Series("callsign", ["MSR799", "EJU875P", "EJU948D", "FHMAC"])])
    patch.setattr(demo, "positions", lambda: seen.filter(pl.col("callsign").is_in(some.unique().implode())))
    found = demo.find()
    patch.undo()
    return found


@pytest.fixture(scope="module")
def flights(found: demo.Found) -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = defaultdict(list)
    for flight, *row in found.positions.select("flight", "time", "lat", "long", "height", "track", "climb").iter_rows():
        rows[flight].append(tuple(row))
    return rows


def lost(rows: list[Row]) -> list[int]:
    times = [row[0] for row in rows]
    return [time + MINUTE for time, later in zip(times, [*times[1:], 1 << 60]) if later > time + MINUTE]


def lasting(told: Iterable[tuple[int, str | None]]) -> list[tuple[int, int, str]]:
    """Of what each time says, a value or None for the end, when each value held. A time says one thing."""
    out, now, since = [], None, 0
    for time, value in sorted(told, key=lambda each: each[0]):
        if value != now:
            if now is not None:
                out.append((since, time, now))
            now, since = value, time
    return out


def phases(rows: list[Row]) -> list[tuple[int, int, str]]:
    told: list[tuple[int, str | None]] = [(time, None) for time in lost(rows)]
    for time, *_, climb in rows:
        if climb >= 400 or climb <= -400 or abs(climb) <= 150:
            told.append((time, "climbing" if climb >= 400 else "descending" if climb <= -400 else "level"))
    return lasting(told)


def circling(rows: list[Row]) -> list[Span]:
    turns = [
        (second[0], (second[4] - first[4] + 540) % 360 - 180)
        for first, second in zip(rows, rows[1:])
        if second[0] - first[0] <= 30 * SECOND
    ]
    told: list[tuple[int, str | None]] = [(time, None) for time in lost(rows)]
    for time, _ in turns:
        total = sum(degrees for at, degrees in turns if time - 4 * MINUTE < at <= time)
        told.append((time, "round" if abs(total) >= 300 else None))
    return [span[:2] for span in lasting(told)]


def held(found: demo.Found, fluent: str, *columns: str) -> list[tuple[object, ...]]:
    return sorted(found.of(fluent).select(*columns, "start", "end").rows())


def test_phases_are_as_by_hand(found: demo.Found, flights: dict[str, list[Row]]) -> None:
    expected = sorted((flight, kind, *span) for flight, rows in flights.items() for *span, kind in phases(rows))
    assert held(found, "phase", "flight", "kind") == expected
    assert len(expected) > 50


def test_who_is_low_and_who_goes_round_is_as_by_hand(found: demo.Found, flights: dict[str, list[Row]]) -> None:
    low, rounds = [], []
    for flight, rows in flights.items():
        told: list[tuple[int, str | None]] = [(time, None) for time in lost(rows)]
        told += [(time, "low" if height < 2500 else None) for time, _, _, height, _, _ in rows]
        low += [(flight, *span) for *span, _ in lasting(told)]
        rounds += [(flight, *span) for span in circling(rows)]
    assert held(found, "low", "flight") == sorted(low)
    assert held(found, "circling", "flight") == sorted(rounds)
    assert held(found, "low_for_long", "flight") == sorted(each for each in low if each[2] - each[1] > 15 * MINUTE)
    assert held(found, "holding", "flight") == sorted(each for each in rounds if each[2] - each[1] >= 3 * MINUTE)
    assert rounds and len(low) > 10


def test_who_comes_down_side_by_side_is_as_by_hand(found: demo.Found, flights: dict[str, list[Row]]) -> None:
    together: dict[tuple[str, str], list[int]] = defaultdict(list)
    by_time: dict[int, list[tuple[str, Row]]] = defaultdict(list)
    for flight, rows in sorted(flights.items()):
        for row in rows:
            by_time[row[0]].append((flight, row))
    for time, seen in sorted(by_time.items()):
        for number, (flight, one) in enumerate(seen):
            for other, two in seen[number + 1 :]:
                if abs(one[3] - two[3]) < 1000 and EARTH.inv(one[2], one[1], two[2], two[1])[2] < 5000:
                    together[flight, other].append(time)
    near: dict[tuple[str, str], list[Span]] = {}
    for pair, times in together.items():
        spans: list[Span] = []
        for time in times:
            renews = spans and time <= spans[-1][1]
            spans[-1:] = [(spans[-1][0], time + 15 * SECOND)] if renews else [*spans[-1:], (time, time + 15 * SECOND)]
        near[pair] = spans
    assert held(found, "near", "flight", "other") == sorted((*pair, *span) for pair in near for span in near[pair])
    down = {flight: [span[:2] for span in phases(rows) if span[2] == "descending"] for flight, rows in flights.items()}
    beside = [
        (flight, other, start, end)
        for (flight, other), spans in near.items()
        for span in spans
        for one in down[flight]
        for two in down[other]
        if (end := min(span[1], one[1], two[1])) - (start := max(span[0], one[0], two[0])) >= MINUTE
    ]
    assert held(found, "side_by_side", "flight", "other") == sorted(beside)
    assert len(beside) > 2


def test_the_picture_is_drawn(found: demo.Found, tmp_path: Path) -> None:
    file = tmp_path / "paris.png"
    picture.draw(file, demo.TITLE, demo.SUBTITLE, found)
    with Image.open(file) as image:
        assert image.size == (int(picture.WIDTH * picture.DPI), int(picture.HEIGHT * picture.DPI))
        colours = image.convert("RGB").getcolors(1 << 20)
    assert colours is not None and len(colours) > 30


@pytest.mark.long
def test_what_it_prints(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["demo", "traffic", "--picture", str(tmp_path / "paris.png")])
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "FHMAC low, over 15 min 13:22 14:18 56.5" in lines
    assert "AFR91QD MSR799 12:28 12:30 2.1" in lines
    assert "22,829 positions of 233 airplanes." in lines


def test_without_the_data_it_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["demo", "traffic"])
    assert result.exit_code == 2
    assert "the package traffic" in result.output and "pip install --no-deps traffic" in result.output
