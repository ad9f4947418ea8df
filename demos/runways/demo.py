"""The runways demo: a year of winds at the airports of New York, and the landing directions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl
from rich.console import Console

from cep.demos.moments import moment
from cep.demos.printed import illustrated, table
from cep.demos.run import RunResult, run, weather
from cep.knowledge.graph import Knowledge

HERE = Path(__file__).parent
PROGRAM = HERE / "runways.lars"
KNOWLEDGE = (HERE / "runways.ttl", HERE.parent / "blizzard" / "stations.ttl")
HOUR = 3_600_000_000
FRONT = (1_359_586_800_000_000, 1_359_716_400_000_000)
"""The times of a front: from 30 January 2013 23:00 to 1 February 11:00 UTC."""
TITLE = "A front comes through"
SUBTITLE = (
    "The airports of New York, 31 January 2013, UTC. Arrows: the wind that an airport goes by. Bars: the runways that\n"
    "it allows, dark the one in use: of those whose final approaches cross only one is, and as little changes as can."
)


@dataclass(frozen=True, slots=True)
class Found:
    """The results of the run, and tables with one row per hour.

    - `winds`: the wind by which an airport chooses its runways (start, airport, whence, mph).
    - `usable`: the usable runways (start, airport, runway, off). `off` is the angle between runway and wind, or null if
      the wind varies.
    - `lands`: the runways in use (start, airport, runway).
    """

    result: RunResult
    winds: pl.DataFrame
    usable: pl.DataFrame
    lands: pl.DataFrame

    @classmethod
    def of(cls, result: RunResult) -> Found:
        found = {name: hourly(result.derived[name]) for name in ("wind", "ahead", "usable", "lands")}
        off = found["ahead"].select("start", "airport", "runway", "off")
        usable = found["usable"].join(off, on=["start", "airport", "runway"], how="left")
        return cls(result, found["wind"], usable.sort("start", "airport", "runway"), found["lands"])

    def table(self, name: str) -> pl.DataFrame:
        """Return the intervals of a fluent, in order."""
        made = self.result.derived[name]
        return made.sort("start", *(each for each in made.columns if each not in ("start", "bounds")))

    @property
    def begins(self) -> pl.DataFrame:
        """Return the intervals in which a runway is in use."""
        return self.table("lands")

    def nearest_to_the_wind(self) -> int:
        """Return how often the runway in use would change if it were always the one closest to the wind."""
        best = self.usable.sort("start", "airport", pl.col("off").abs().fill_null(0), "runway").unique(
            ["start", "airport"], keep="first", maintain_order=True
        )
        before = pl.col("start", "runway").shift().over("airport").name.suffix("_before")
        same = (pl.col("start") == pl.col("start_before") + HOUR) & (pl.col("runway") == pl.col("runway_before"))
        return best.sort("airport", "start").with_columns(before).filter(~same.fill_null(False)).height

    def borrowed(self) -> pl.DataFrame:
        """Return the hours in which an airport uses the wind of another airport: start, airport."""
        own = hourly(self.result.derived["trusted"]).select("start", "airport")
        return (
            self.winds.join(own, on=["start", "airport"], how="anti").select("start", "airport").unique().sort("start")
        )

    def doubted(self) -> pl.DataFrame:
        """Return the readings that the program does not trust: start, airport, mph."""
        readings = self.result.read["reading"].select("start", "airport", "mph")
        return hourly(self.result.derived["doubted"]).join(readings, on=["start", "airport"])


def hourly(intervals: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each hour of intervals."""
    hours = pl.int_ranges("start", "end", HOUR, dtype=pl.Int64)
    return intervals.with_columns(start=hours).explode("start").drop("end", "bounds")


def find() -> Found:
    """Run the program over the readings."""
    return Found.of(run(PROGRAM, [f"reading={weather()}"], Knowledge.load(KNOWLEDGE), tick=HOUR))


def show(picture: Path | None) -> str:
    """Return what `cep demo runways` prints."""
    found = find()
    return illustrated(picture, lambda path: _draw(path, found), lambda console: _print(console, found, picture))


def _draw(path: Path, found: Found) -> None:
    from cep.demos.runways.picture import draw

    draw(path, TITLE, SUBTITLE, found)


def _print(console: Console, found: Found, picture: Path | None) -> None:
    begins = found.begins
    rows = table("Runways of 2013 by the wind", "airport runway", "usable_h in_use_h times longest_h")
    for airport, runway in found.usable.select("airport", "runway").unique().sort("airport", "runway").iter_rows():
        mine = {"airport": airport, "runway": runway}
        own = begins.filter(**mine)
        hours = ((own["end"] - own["start"]) // HOUR).to_list()
        usable = found.usable.filter(**mine).height
        rows.add_row(airport, runway, f"{usable:,}", f"{sum(hours):,}", f"{own.height:,}", f"{max(hours, default=0)}")
    console.print(rows)
    rows = table("As a front came through, UTC", "from airport runway instead_of", "wind mph")
    for start, _, airport, runway, *_ in begins.filter(pl.col("start").is_between(*FRONT)).iter_rows():
        before = begins.filter(pl.col("airport") == airport, pl.col("start") < start)["runway"].last()
        wind = found.winds.filter(start=start, airport=airport).row(0, named=True)
        rows.add_row(moment(start), airport, runway, str(before), f"{wind['whence']}°", f"{wind['mph']:.0f}")
    console.print(rows)
    nearest = found.nearest_to_the_wind()
    console.print(
        f"A runway came into use {begins.height:,} times; {nearest:,} times if it always were the nearest to the wind."
    )
    none = found.table("answer streams")
    lost = int(((none["end"] - none["start"]) // HOUR).sum())
    console.print(f"In {lost} hours, no choice was possible: all usable approaches crossed.")
    for start, airport, mph in found.doubted().select("start", "airport", "mph").iter_rows():
        console.print(f"Not trusted: {mph:,.0f} mph at {airport}, {moment(start)}; the others had less than 30.")
    missing = found.borrowed().height - found.doubted().height
    console.print(f"In {missing} hours, an airport without a reported wind used that of the nearest.")
    console.print(f"{PROGRAM.name}: {found.result.stats.closing()}", style="dim", soft_wrap=True)
    if picture is not None:
        console.print(f"The picture is in {picture}.", soft_wrap=True)
