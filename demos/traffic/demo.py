"""The traffic demo: what airplanes near Paris were doing, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl
from rich.console import Console

from cep.demos.moments import clock
from cep.demos.printed import illustrated, table
from cep.demos.traffic.positions import positions
from cep.engine import Engine

PROGRAM = Path(__file__).with_name("traffic.cep")
PHASES = ("climbing", "level", "descending")
MINUTE = 60_000_000
TITLE = "Three hours about Paris"
SUBTITLE = (
    "Positions of airplanes to and from its airports, 2021-10-07, UTC. What each was doing is what fluents say, begun\n"
    "and ended by positions; side by side: two less than 5 km and 1000 feet apart, both descending, for a minute."
)
COLUMNS = {
    "timestamp": "time",
    "callsign": "flight",
    "latitude": "lat",
    "longitude": "long",
    "altitude": "height",
    "vertical_rate": "climb",
}


@dataclass(frozen=True, slots=True)
class Found:
    """The input of the demo (flight, time, lat, long, height, track, climb), and the results of the program."""

    positions: pl.DataFrame
    derived: dict[str, pl.DataFrame]

    def of(self, fluent: str) -> pl.DataFrame:
        """Return the intervals of a fluent, sorted by start. All have ended, because all flights end."""
        return self.derived[fluent].sort("start", "flight")

    def phases(self) -> pl.DataFrame:
        """Return the positions, each with the phase of the flight. A fluent begins just after its event."""
        begun = self.of("phase").select("flight", "kind", time="start", until="end")
        seen = self.positions.sort("time", "flight").join_asof(
            begun, on="time", by="flight", allow_exact_matches=False, check_sortedness=False
        )
        return seen.with_columns(kind=pl.when(pl.col("time") <= pl.col("until")).then("kind"))


def find() -> Found:
    """Run the program over the positions. Raises CepError if their package is not installed."""
    seen = positions().rename(COLUMNS)
    engine = Engine.from_file(PROGRAM)
    derived = engine.push({"position": seen})
    for type, more in engine.close().items():
        derived[type] = pl.concat([derived[type], more]) if type in derived else more
    return Found(seen, derived)


def show(picture: Path | None) -> str:
    """Return what `cep demo traffic` prints."""
    found = find()
    return illustrated(picture, lambda path: _draw(path, found), lambda console: _print(console, found, picture))


def _draw(path: Path, found: Found) -> None:
    from cep.demos.traffic.picture import draw

    draw(path, TITLE, SUBTITLE, found)


def _print(console: Console, found: Found, picture: Path | None) -> None:
    phases = found.of("phase")
    rows = table("Phases", "phase", "flights intervals longest_min all_min")
    for kind in PHASES:
        held = phases.filter(pl.col("kind") == kind)
        long = ((held["end"] - held["start"]) / MINUTE).to_numpy()
        rows.add_row(kind, str(held["flight"].n_unique()), str(held.height), f"{long.max():.0f}", f"{long.sum():,.0f}")
    console.print(rows)
    rows = table("Descending side by side", "flight other from to", "min")
    for start, end, flight, other in found.of("side_by_side").select("start", "end", "flight", "other").iter_rows():
        rows.add_row(flight, other, clock(start), clock(end), f"{(end - start) / MINUTE:.1f}")
    console.print(rows)
    rows = table("For long", "flight what from to", "min")
    for fluent, words in (("low_for_long", "low, over 15 min"), ("holding", "circling, 3 min or more")):
        for start, end, flight in found.of(fluent).select("start", "end", "flight").iter_rows():
            rows.add_row(flight, words, clock(start), clock(end), f"{(end - start) / MINUTE:.1f}")
    console.print(rows)
    console.print(f"{found.positions.height:,} positions of {found.positions['flight'].n_unique()} airplanes.")
    console.print(
        "Positions: OpenSky Network, in the package traffic, © Xavier Olive, MIT", style="dim", soft_wrap=True
    )
    if picture is not None:
        console.print(f"The picture is in {picture}.", soft_wrap=True)
