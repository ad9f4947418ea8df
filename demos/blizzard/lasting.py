"""The blizzard demo with fluents: how long a storm lasts, at how many stations, and how long places are struck."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.table import Table

from cep.demos.blizzard import LASTING, readings
from cep.demos.blizzard.demo import NUMBERS
from cep.demos.blizzard.register import Register
from cep.demos.blizzard.storms import Storm, episodes, lasted, settled
from cep.demos.moments import clock, days, moment
from cep.demos.printed import illustrated
from cep.demos.printed import table as empty
from cep.demos.run import RunResult, run
from cep.demos.side_process import Beside

SUBTITLE = (
    "The airports of New York, 2013, UTC. A storm is on from its first warning until for three hours no reading has\n"
    "had wind of at least 15 mph, visibility below 2 miles and at most 34 °F."
)


@dataclass(frozen=True, slots=True)
class Lasting:
    """The results of a run, the storms, and the times at which places were struck."""

    found: RunResult
    readings: pl.DataFrame
    storms: list[Storm]
    places: pl.DataFrame


def find(register: Register, output: str | None = None, ready: Callable[[], object] | None = None) -> Lasting:
    """Run the program over the readings, with the register's knowledge."""
    found = run(LASTING, readings(), register.knowledge, output, ready)
    judged = found.judged("reading")
    storms = lasted(found.derived["storm"], found.derived["settling"], judged)
    places = found.derived["struck"].join(register.places, left_on="place", right_on="iri", how="inner")
    return Lasting(found, judged, storms, places)


def show(beside: Beside, picture: Path | None, output: str | None) -> str:
    """Run the whole demo, draw its picture, and return what `cep demo blizzard --fluents` prints."""
    register = Register.of_packages()
    if picture is not None:
        beside.prepare(import_module, "cep.demos.blizzard.picture")
    seen = find(register, output, beside.wait)
    return illustrated(
        picture, lambda path: _draw(path, seen), lambda console: _print(console, seen, register, picture)
    )


def _draw(path: Path, seen: Lasting) -> None:
    from cep.demos.blizzard.picture import Scene, draw

    count = len(episodes(seen.storms))
    title = f"{NUMBERS[count] if count < len(NUMBERS) else count} winter storms, and when they were on"
    draw(
        path, title, SUBTITLE, Scene(seen.readings, settled(seen.found.derived["settling"], seen.readings), seen.storms)
    )


def _print(console: Console, seen: Lasting, register: Register, picture: Path | None) -> None:
    console.print(storms(seen.storms))
    console.print(areas(seen))
    console.print(places(seen))
    for right in register.rights:
        console.print(right, style="dim", soft_wrap=True)
    console.print()
    console.print(f"{LASTING.name}: {seen.found.stats.closing()}", style="dim", soft_wrap=True)
    if picture is not None:
        console.print(f"The picture is in {picture}.", soft_wrap=True)


def storms(found: list[Storm]) -> Table:
    """Return a table with one row per storm: its station and times."""
    table = empty("When a storm was on, 2013, UTC", "station", "from to hours wind visib")
    for spell in episodes(found):
        for one in spell:
            wind, visib = f"{one.wind:.0f} mph", f"{one.visib:g} mi"
            table.add_row(one.station, moment(one.start), moment(one.end), f"{one.hours:g}", wind, visib)
        table.add_section()
    return table


def areas(seen: Lasting) -> Table:
    """Return a table with one row for each period with the same number of stations."""
    table = empty("At how many stations at once", "spell from to", "stations")
    held = seen.found.derived["area"].sort("start")
    for first, last in _spells(seen.storms):
        rows = held.filter(pl.col("start").is_between(first, last)).select("start", "end", "stations").iter_rows()
        for number, (start, end, stations) in enumerate(rows):
            table.add_row("" if number else days(first, last), clock(start), clock(end), str(stations))
        table.add_section()
    return table


def places(seen: Lasting) -> Table:
    """Return a table of the times at which places were struck.

    Overlapping times near several stations count once. Places with the same times share a row, which shows the most
    populous place and the number of places.
    """
    table = empty("Places within 40 km of a station where a storm was on", "the_largest_of", "places")
    spells = _spells(seen.storms)
    for first, last in spells:
        table.add_column(days(first, last), justify="right", no_wrap=True)
    known = seen.places.sort("population", "place", descending=[True, False], nulls_last=True)
    times: dict[str, list[str]] = {}
    for iri, start, end in known.sort("start", maintain_order=True).select("place", "start", "end").iter_rows():
        cells = times.setdefault(iri, [""] * len(spells))
        at = next(number for number, (first, last) in enumerate(spells) if first <= start <= last)
        cells[at] += f"{', ' if cells[at] else ''}{clock(start)}–{clock(end)}"
    alike: dict[tuple[str, ...], list[str]] = {}
    for iri, name in known.select("place", "name").unique("place", maintain_order=True).iter_rows():
        alike.setdefault(tuple(times[iri]), []).append(name)
    for struck, names in alike.items():
        table.add_row(names[0], str(len(names)), *(cell or "–" for cell in struck))
    return table


def _spells(found: list[Storm]) -> list[tuple[int, int]]:
    """Return the start and end of each spell of weather."""
    return [(min(one.start for one in spell), max(one.end for one in spell)) for spell in episodes(found)]
