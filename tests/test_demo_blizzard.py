"""The blizzard demo against the same storms worked out by hand: the csv module, lists, and the text of the rules."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from cep.cli import app
from demos.blizzard import demo
from demos.blizzard.storms import HOUR, Storm, episodes

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
                hour = int(datetime.fromisoformat(row["time_hour"]).timestamp()) // 3600
                met = float(values[0]) >= wind and float(values[1]) < visib and float(values[2]) <= temp
                rows.setdefault(row["origin"], []).append((hour, met))
    found = []
    for station, readings in rows.items():
        settling: list[Settling] = []
        for hour in sorted(hour for hour, met in readings if met):
            earlier = [one for one in settling if one.end < hour and hour - one.start <= LONGEST]
            settling.append(Settling(station, hour, hour, 1))
            if earlier:
                one = max(earlier, key=lambda one: (one.end, one.end - one.start))
                settling.append(Settling(station, one.start, hour, one.readings + 1))
        found.extend(settling)
    return found, wrong


@pytest.fixture(scope="module")
def found() -> demo.Found:
    return demo.find(demo.PROGRAM)


def hours(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) // 3600


def span(storm: Storm) -> tuple[str, int, int]:
    return storm.station, storm.start // HOUR, storm.end // HOUR
