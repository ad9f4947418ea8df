"""The tables that the demo prints, 80 columns wide: storms, areas with the affected places, and dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from cep.connectors.records.batch import DeadLetter
from cep.demos.blizzard.areas import REACH, Area, Place
from cep.demos.blizzard.storms import Storm, episodes
from cep.demos.moments import clock, days, moment
from cep.demos.printed import table as empty
from cep.runtime.run_stats import count

SHOWN = {True: 10, False: 5}
"""The number of towns (True) and of airports (False) that are listed by name."""
SIDE_BY_SIDE = 3
"""The number of areas that fit side by side."""


def storms(found: Sequence[Storm]) -> Table:
    """Return a table with one row per storm. Spells of weather are separated."""
    table = empty("Storms at the airports of New York, 2013, UTC", "station", "from to hours readings wind visib temp")
    for spell in episodes(list(found)):
        for storm in spell:
            table.add_row(
                storm.station,
                moment(storm.start),
                moment(storm.end),
                f"{storm.hours:g}",
                str(storm.readings),
                f"{storm.wind:.0f} mph",
                f"{storm.visib:g} mi",
                f"{storm.temp:.0f} °F",
            )
        table.add_section()
    return table


def areas(found: Sequence[Area]) -> Table:
    """Return a table with one row per area: its stations, when they joined, and the number of affected places."""
    title = "Blizzard areas: warnings within 300 km and nine hours"
    table = empty(title, "area opened_by joined_by", "towns airports")
    for area in found:
        first, *later = area.joined
        towns = sum(place.populated for place in area.places)
        table.add_row(
            days(area.start, area.end),
            f"{first.station} {moment(first.time)}",
            ", ".join(f"{one.station} {clock(one.time)}" for one in later),
            str(towns),
            str(len(area.places) - towns),
        )
    return table


def places(found: Sequence[Area]) -> list[Table]:
    """Return tables of the largest affected towns and airports: when they were warned, and how far from a station."""
    tables: list[Table] = []
    for first in range(0, len(found), SIDE_BY_SIDE):
        side = found[first : first + SIDE_BY_SIDE]
        table = empty(
            f"Places within {REACH // 1000} km of an area's stations, and which told first", "place", "people"
        )
        table.columns[0].max_width = 33
        for area in side:
            table.add_column(_short(days(area.start, area.end)), justify="right", no_wrap=True)
        affected = [{place.iri: place for place in area.places} for area in side]
        every = list({place.iri: place for area in side for place in area.places}.values())
        for populated in (True, False):
            kind = sorted((one for one in every if one.populated == populated), key=_rank)
            for place in kind[: SHOWN[populated]]:
                cells = [_told(area, own.get(place.iri)) for area, own in zip(side, affected, strict=True)]
                table.add_row(place.name, f"{place.population or '':,}" if place.population else "", *cells)
            if len(kind) > SHOWN[populated]:
                table.add_row(f"and {len(kind) - SHOWN[populated]} more", style="dim")
            table.add_section()
        tables.append(table)
    return tables


def dead(found: Sequence[DeadLetter], file: Path) -> Text:
    """Return the dead letters as text: each record with its reason and its place."""
    with file.open(encoding="utf-8") as lines:
        names = lines.readline().strip().split(",")
    text = Text(f"{count(len(found), 'record')} of {file.name} could not be judged:\n", style="bold")
    for record in found:
        fields = dict(zip(names, (record.text or "").split(","), strict=False))
        text.append(
            f"  line {record.line}, {fields.get('origin')} {fields.get('time_hour', '')[:16]}: ", style="not bold"
        )
        text.append(f"{record.reason}", style="not bold")
        text.append(
            f" ({float(fields['wind_speed']):.0f} mph)\n" if record.code == "range" else "\n", style="not bold red"
        )
    return text


def _rank(place: Place) -> tuple[int, float, str]:
    """Return a sort key: populated places first, the most populous first. Others follow, the closest first."""
    return -(place.population or 0), place.metres, place.name


def _told(area: Area, place: Place | None) -> str:
    """Return the station that reached a place first: `EWR 14 km`."""
    if place is None:
        return "–"
    station = next(one.station for one in area.joined if one.time == place.time)
    return f"{station} {place.metres / 1000:2.0f} km"


def _short(dates: str) -> str:
    """Shorten `8–9 February` to `8–9 Feb`."""
    return " ".join(word[:3] if word.isalpha() else word for word in dates.split())
