"""The blizzard demo: runs a year of real hourly readings through the rules, and shows storms, areas and places as
tables and pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

import polars as pl
from rich.console import Console

from cep.connectors.writing.sinks import writing
from cep.demos.blizzard import OFFICIAL as OFFICIAL
from cep.demos.blizzard import PROGRAM as PROGRAM
from cep.demos.blizzard import readings, tables
from cep.demos.blizzard.areas import Area, gather
from cep.demos.blizzard.register import Register
from cep.demos.blizzard.storms import Storm, episodes, merge, settled
from cep.demos.printed import rendered
from cep.demos.run import RunResult, run, weather
from cep.demos.side_process import Beside

NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")
SUBTITLE = (
    "The airports of New York, 2013, UTC. A storm: wind of at least 15 mph, visibility below 2 miles, at most 34 °F,\n"
    "in four readings or more over three hours or more."
)
MAP_SUBTITLE = (
    "A first warning opens an area; stations within 300 km and nine hours join it. The rules look up the places\n"
    "within 40 km of its stations: towns and quarters of 15,000 people or more, and airports. 2013, UTC."
)


@dataclass(frozen=True, slots=True)
class Weather:
    """The results of a run over the readings: the run itself, and the storms and areas merged from its events."""

    found: RunResult
    readings: pl.DataFrame
    storms: list[Storm]
    areas: list[Area]

    @property
    def met(self) -> pl.DataFrame:
        """The readings that satisfied the conditions of the rule."""
        return settled(self.found.derived["settling"], self.readings)


def find(
    program: Path,
    register: Register | None = None,
    output: str | None = None,
    ready: Callable[[], object] | None = None,
) -> Weather:
    """Run a program over the readings, with the register's knowledge.

    The derived events are also written to the file `output`. `ready`: a function that waits for the input.
    """
    found = run(program, readings(), None if register is None else register.knowledge, output, ready)
    judged, derived = found.judged("reading"), found.derived
    storms = merge(derived["warning"], derived["settling"], judged) if "warning" in derived else []
    areas = gather(derived, register.places) if register is not None and "area" in derived else []
    return Weather(found, judged, storms, areas)


def show(beside: Beside, noaa: bool, picture: Path | None, chart: Path | None, output: str | None) -> str:
    """Run the whole demo, draw its pictures, and return what `cep demo blizzard` prints."""
    program = OFFICIAL if noaa else PROGRAM
    register = None if noaa else Register.of_packages()
    if picture is not None:
        beside.prepare(import_module, "cep.demos.blizzard.picture")
    seen = find(program, register, output, partial(_wait, beside, chart is not None))
    if not seen.storms:
        drawn = [] if picture is None and chart is None else ["There is nothing to draw."]
        return rendered(lambda console: _print(console, program, seen, register, drawn))
    timeline: Callable[[], object] | None = None
    for path in (picture, chart):
        if path is not None:
            with writing(str(path)):
                path.parent.mkdir(parents=True, exist_ok=True)
    if picture is not None:
        timeline = beside.begin(_timeline, picture, seen)
    if chart is not None:
        with writing(str(chart)):
            _map(chart, seen, register)
    if picture is not None and timeline is not None:
        with writing(str(picture)):
            timeline()
    names = (("picture", picture), ("map", chart))
    drawn = [f"The {name} is in {path}." for name, path in names if path is not None]
    return rendered(lambda console: _print(console, program, seen, register, drawn))


def _wait(beside: Beside, mapped: bool) -> None:
    """Wait until the input is available, and import needed modules in the meantime."""
    if mapped:
        import_module("cep.demos.blizzard.chart")
    beside.wait()


def _print(console: Console, program: Path, seen: Weather, register: Register | None, drawn: list[str]) -> None:
    if seen.storms:
        console.print(tables.storms(seen.storms))
    else:
        official = "No storm: nowhere 35 mph, less than a quarter mile and frost over three hours."
        console.print(official if program == OFFICIAL else "No storm.")
        console.print()
    if register is not None and seen.areas:
        console.print(tables.areas(seen.areas))
        for table in tables.places(seen.areas):
            console.print(table)
        for right in register.rights:
            console.print(right, style="dim", soft_wrap=True)
        console.print()
    console.print(tables.dead(seen.found.dead, weather()))
    console.print(f"{program.name}: {seen.found.stats.closing()}", style="dim", soft_wrap=True)
    for line in drawn:
        console.print(line, soft_wrap=True)


def _timeline(path: Path, seen: Weather) -> None:
    from cep.demos.blizzard.picture import Scene, draw

    title = f"{_counted(len(episodes(seen.storms)), 'winter storm')} in {seen.found.stats.records:,} hourly readings"
    draw(path, title, SUBTITLE, Scene(seen.readings, seen.met, seen.storms))


def _map(path: Path, seen: Weather, register: Register | None) -> None:
    from cep.demos.blizzard.chart import Scene, draw

    assert register is not None, "areas are those of a register's stations"
    title = f"{_counted(len(seen.areas), 'blizzard area')}, and the places they affect"
    draw(path, title, MAP_SUBTITLE, Scene(seen.areas, register.stations, register.places, register.rights))


def _counted(number: int, noun: str) -> str:
    return f"{NUMBERS[number] if number < len(NUMBERS) else number} {noun}{'s' * (number != 1)}"
