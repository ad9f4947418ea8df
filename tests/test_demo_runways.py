"""The runways demo against choices made by hand: the wind, what can be used, and the choice that changes least."""

from __future__ import annotations

import csv
from collections import defaultdict
from datetime import datetime
from itertools import product
from math import cos, hypot, radians, sin
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from cep.command import app
from cep.demos.run import weather
from cep.demos.runways import demo, picture
from cep.knowledge.graph import Knowledge

pytestmark = pytest.mark.xdist_group("runways")  # the demo runs once

HOUR = 3_600
HEADINGS = {"EWR": (26, 96, 206, 276), "JFK": (31, 121, 211, 301), "LGA": (32, 122, 212, 302)}
NAMES = {"EWR": ("04", "11", "22", "29"), "JFK": ("04", "13", "22", "31"), "LGA": ("04", "13", "22", "31")}
NEAREST = {"EWR": "LGA", "JFK": "LGA", "LGA": "JFK"}
CROSSING = ({("LGA", "04"), ("JFK", "13")}, {("LGA", "04"), ("EWR", "29")}, {("LGA", "31"), ("JFK", "22")})
Wind = tuple[int | None, float]
Choice = dict[str, str]


def hourly() -> dict[int, dict[str, Wind]]:
    """The winds of each hour by airport: whence, and miles an hour."""
    found: dict[int, dict[str, Wind]] = defaultdict(dict)
    with weather().open(newline="") as file:
        for row in csv.DictReader(file):
            if row["wind_speed"] != "NA":
                whence = None if row["wind_dir"] == "NA" else int(row["wind_dir"])
                hour = int(datetime.fromisoformat(row["time_hour"]).timestamp()) // HOUR
                found[hour][row["origin"]] = (whence, float(row["wind_speed"]))
    return found


def taken(winds: dict[str, Wind]) -> dict[str, Wind]:
    """By which wind each airport goes."""
    trusted = {}
    for airport, wind in winds.items():
        others = [speed for other, (_, speed) in winds.items() if other != airport]
        if not (len(others) == 2 and all(wind[1] > speed + 30 for speed in others)):
            trusted[airport] = wind
    found = dict(trusted)
    for airport, nearest in NEAREST.items():
        if airport not in trusted and nearest in trusted:
            found[airport] = trusted[nearest]
    return found


def usable(hours: list[dict[str, Wind]]) -> dict[str, list[str]]:
    """The runways of each airport that the winds of these hours allow."""
    found = {}
    for airport, headings in HEADINGS.items():
        own = []
        for name, heading in zip(NAMES[airport], headings, strict=True):
            good = True
            for winds in hours:
                whence, speed = winds.get(airport, (None, 99.0))
                off = None if whence is None else abs((whence - heading + 180) % 360 - 180)
                good &= speed <= 6 or (off is not None and off <= 90)
                good &= not (off is not None and off > 45 and speed >= 25)
            own += [name] if good else []
        found[airport] = own
    return found


def atoms(choice: Choice, can: dict[str, list[str]]) -> frozenset[str]:
    return frozenset(
        f'{"lands" if choice[airport] == name else "other"}("{airport}", "{name}")'
        for airport in choice
        for name in can[airport]
    )


def chosen(hours: dict[int, dict[str, Wind]]) -> dict[int, Choice | None]:
    """What is chosen in each hour; None: nothing can be."""
    first, last = min(hours), max(hours)
    winds = {hour: taken(hours.get(hour, {})) for hour in range(first, last + 1)}
    before: frozenset[str] = frozenset()
    found: dict[int, Choice | None] = {}
    now: Choice | None = None
    could: dict[str, list[str]] = {}
    for hour in range(first, last + 1):
        can = usable([winds[each] for each in range(max(first, hour - 2), hour + 1)])
        airports = [airport for airport in HEADINGS if can[airport]]
        if can == could:  # what was chosen before is no change
            found[hour] = now
            continue
        could = can
        best: tuple[int, list[bool]] | None = None
        found[hour] = None
        every = sorted(f'{word}("{airport}", "{name}")'
                       for word in ("lands", "other") for airport in airports for name in can[airport])  # fmt: skip
        for names in product(*(can[airport] for airport in airports)):
            choice = dict(zip(airports, names, strict=True))
            if any(pair <= set(choice.items()) for pair in CROSSING):
                continue
            made = atoms(choice, can)
            if best is None or len(made ^ before) <= best[0]:
                rank = len(made ^ before), [each not in made for each in every]
                if best is None or rank < best:
                    best, found[hour] = rank, choice
        now = found[hour]
        before = before if now is None else atoms(now, can)
    return found


@pytest.fixture(scope="module")
def found() -> demo.Found:
    return demo.find()


@pytest.fixture(scope="module")
def by_hand() -> dict[int, Choice | None]:
    return chosen(hourly())


def test_every_hour_is_as_by_hand(found: demo.Found, by_hand: dict[int, Choice | None]) -> None:
    made: dict[int, Choice] = {hour: {} for hour in by_hand}
    for start, airport, runway in found.lands.select("start", "airport", "runway").iter_rows():
        hour = start // demo.HOUR
        assert airport not in made.get(hour, {})
        if hour in made:
            made[hour][airport] = runway
    assert made == {hour: choice or {} for hour, choice in by_hand.items()}
    none = {hour for start, end in found.table("answer streams").select("start", "end").iter_rows()
            for hour in range(start // demo.HOUR, end // demo.HOUR)}  # fmt: skip
    assert none == {hour for hour, choice in by_hand.items() if choice is None}
    assert len(none) == 35


def test_what_the_readings_hold(found: demo.Found) -> None:
    """Newark told of 1,048 mph on 12 February; an hour here and there is missing."""
    winds = hourly()
    odd = [(hour, airport) for hour, each in winds.items() for airport, (_, mph) in each.items() if mph > 200]
    doubted = [
        (start // demo.HOUR, airport) for start, airport in found.doubted().select("start", "airport").iter_rows()
    ]
    assert doubted == odd == [(int(datetime.fromisoformat("2013-02-12T08:00Z").timestamp()) // HOUR, "EWR")]
    missing = {(hour, airport) for hour, each in winds.items() for airport, other in NEAREST.items()
               if airport not in each and other in each}  # fmt: skip
    borrowed = {(start // demo.HOUR, airport) for start, airport in found.borrowed().iter_rows()}
    assert borrowed == missing | set(odd)
    assert found.winds.group_by("start", "airport").len()["len"].max() == 1


def test_the_choice_that_changes_least(found: demo.Found, by_hand: dict[int, Choice | None]) -> None:
    """Against the runway nearest to the wind, hour by hour."""
    begins, before = 0, Choice()
    for choice in by_hand.values():
        begins += len((choice or {}).items() - before.items())
        before = choice or {}
    assert found.begins.height == begins == 1136
    winds = {hour: taken(each) for hour, each in hourly().items()}
    first, times, was = min(winds), 0, Choice()
    for hour in range(first, max(winds) + 1):
        can = usable([winds.get(each, {}) for each in range(max(first, hour - 2), hour + 1)])
        now = {}
        for airport, names in can.items():
            whence, _ = winds.get(hour, {}).get(airport, (None, 0.0))

            def off(name: str, airport: str = airport, whence: int | None = whence) -> int:
                heading = HEADINGS[airport][NAMES[airport].index(name)]
                return 0 if whence is None else abs((whence - heading + 180) % 360 - 180)

            if names and by_hand[hour] is not None:
                now[airport] = min(names, key=lambda name: (off(name), name))
        times += len(now.items() - was.items())
        was = now
    assert found.nearest_to_the_wind() == times == 4810


def test_which_final_approaches_cross() -> None:
    """The last 20 km before the airports, on a plane."""
    places = dict(Knowledge.load(demo.KNOWLEDGE).query(
        """PREFIX om-owl: <http://knoesis.wright.edu/ssw/ont/sensor-observation.owl#>
        PREFIX wgs84: <http://www.w3.org/2003/01/geo/wgs84_pos#>
        SELECT ?id ?lat ?long WHERE { ?station om-owl:ID ?id ; wgs84:lat ?lat ; wgs84:long ?long }"""
    ).map_rows(lambda row: (row[0], (111.2 * row[1], 111.2 * cos(radians(40.7)) * row[2]))).iter_rows())  # fmt: skip
    ends = [(airport, name, *places[airport], radians(heading + 180))
            for airport in NAMES for name, heading in zip(NAMES[airport], HEADINGS[airport], strict=True)]  # fmt: skip
    crossing = []
    for one, name, north, east, way in ends:
        for other, second, up, right, course in ends:
            turn = sin(way - course)
            if one < other and abs(turn) > 0.1:
                own = ((right - east) * -cos(course) - (up - north) * -sin(course)) / -turn
                theirs = ((right - east) * -cos(way) - (up - north) * -sin(way)) / -turn
                if 0 < own < 20 and 0 < theirs < 20:
                    crossing.append({(one, name), (other, second)})
    assert sorted(map(sorted, crossing)) == sorted(map(sorted, CROSSING))
    for one, (north, east) in places.items():
        others = [(hypot(up - north, right - east), other) for other, (up, right) in places.items() if other != one]
        assert min(others)[1] == NEAREST[one]


def test_the_picture_is_drawn(found: demo.Found, tmp_path: Path) -> None:
    file = tmp_path / "front.png"
    picture.draw(file, demo.TITLE, demo.SUBTITLE, found)
    with Image.open(file) as image:
        assert image.size == (int(picture.WIDTH * picture.DPI), int(picture.HEIGHT * picture.DPI))
        colours = image.convert("RGB").getcolors(1 << 20)
    assert colours is not None and len(colours) > 30


def test_what_it_prints(found: demo.Found, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find", lambda: found)
    result = CliRunner().invoke(app, ["demo", "runways"])
    assert result.exit_code == 0, result.output
    assert max(map(len, result.output.splitlines()[:-1])) <= 80
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "EWR 29 6,111 3,220 98 194" in lines
    assert "31 Jan 13:00 LGA 31 22 260° 32" in lines
    assert "Not trusted: 1,048 mph at EWR, 12 Feb 08:00; the others had less than 30." in lines
    assert "In 20 hours, an airport without a reported wind used that of the nearest." in lines
    readme = [" ".join(line.split()) for line in Path("demos/README.md").read_text(encoding="utf-8").splitlines()]
    assert [line for line in readme if line.startswith("31 Jan")] == [
        line for line in lines if line.startswith("31 Jan")
    ]
