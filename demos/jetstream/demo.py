"""The jet stream demo: a day of real positions, the routes of the flights, and the flights that were warned of
turbulence ahead."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from rich.console import Console

from cep.demos.jetstream.positions import positions
from cep.demos.jetstream.routes import LOWEST, routes, triples
from cep.demos.moments import clock
from cep.demos.printed import rendered, table
from cep.engine import Engine
from cep.knowledge.graph import Knowledge

PROGRAM = Path(__file__).with_name("jetstream.cep")
ROUTES = 24
"""The number of routes that count as streams. At least eleven flights use each of them on the day of the demo."""


@dataclass(frozen=True, slots=True)
class Found:
    """The positions, the routes that were computed from them (see `routes`), and the derived events."""

    positions: pl.DataFrame
    routes: pl.DataFrame
    derived: dict[str, pl.DataFrame]

    def of(self, type: str) -> pl.DataFrame:
        """Return the derived events of a type."""
        return self.derived[type]


def find() -> Found:
    """Run the program over the positions. Raises CepError if their package is not installed."""
    seen = positions()
    points = routes(seen, ROUTES)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "routes.nt"
        file.write_text(triples(points), encoding="utf-8")
        knowledge = Knowledge.load([file])
    engine = Engine.from_file(PROGRAM, knowledge=knowledge)
    columns = {
        "callsign": "flight",
        "latitude": "lat",
        "longitude": "long",
        "altitude": "level",
        "vertical_rate": "climb",
    }
    derived = engine.push({"position": seen.rename(columns)})
    for type, more in engine.close().items():
        derived[type] = pl.concat([derived[type], more]) if type in derived else more
    return Found(seen, points, derived)


def show() -> str:
    """Return what `cep demo jetstream` prints."""
    found = find()
    return rendered(lambda console: _print(console, found))


def _print(console: Console, found: Found) -> None:
    warnings = found.of("jet_stream_warning").join(
        found.of("confirmed").select("flight", "told_by", shaken="end"), on=["flight", "told_by"], how="left"
    )
    rows = table(
        "Turbulence ahead on the same stream, 2018-08-01, UTC", "warned told_by stream point", "at km_ahead shaken"
    )
    for flight, told_by, stream, point, at, km, shaken in (
        warnings.sort("end", "flight").select("flight", "told_by", "stream", "point", "end", "km", "shaken").iter_rows()
    ):
        place = point.rpartition("/")[2]
        when = "" if shaken is None else clock(shaken)
        rows.add_row(flight, told_by, stream.rpartition(":")[2], place, clock(at), str(km), when)
    console.print(rows)
    high = found.positions.filter(pl.col("altitude") >= LOWEST)["callsign"].n_unique()
    thrown = found.of("shaken")["flight"].n_unique()
    warned, right = warnings["flight"].n_unique(), warnings.filter(pl.col("shaken").is_not_null())["flight"].n_unique()
    lines = (
        f"{found.positions.height:,} positions; {high:,} flights above {LOWEST:,} feet; "
        f"{found.routes['route'].n_unique()} streams with {found.routes.height} points.",
        f"{thrown} of these flights ({thrown / high:.0%}) were shaken. {right} of the {warned} warned flights were "
        "shaken within half an hour.",
        "Shaken: climbs and descents of 192 feet per minute or more, at a level within 100 feet for two minutes.",
    )
    console.print("\n".join(lines), soft_wrap=True)
    console.print(
        "Positions: OpenSky Network, in the package traffic, © Xavier Olive, MIT", style="dim", soft_wrap=True
    )
