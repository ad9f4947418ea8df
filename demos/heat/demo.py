"""The heat demo: how hot it felt in a year of real readings, by area, and the worst hours."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from cep.demos.moments import moment
from cep.demos.printed import rendered, table
from cep.demos.run import RunResult, run, weather
from cep.knowledge.graph import Knowledge

HERE = Path(__file__).parent
PROGRAM = HERE / "heat.cep"
KNOWLEDGE = (HERE / "areas.ttl", HERE.parent / "blizzard" / "stations.ttl")
CLASSES = ("caution", "extreme caution", "danger", "extreme danger")
WORST = 10


def find() -> RunResult:
    """Run the program over the readings."""
    return run(PROGRAM, [f"reading={weather()}"], Knowledge.load(KNOWLEDGE))


def show() -> str:
    """Return what `cep demo heat` prints."""
    found = find()
    return rendered(lambda console: _print(console, found))


def _print(console: Console, found: RunResult) -> None:
    heat = found.derived["heat"]
    classes = [name for name in CLASSES if (heat["class"] == name).any()]
    hours = table("Hours of 2013 by heat index", "area station", " ".join(name.replace(" ", "_") for name in classes))
    for area, station in heat.select("area", "station").unique().sort("area", "station").iter_rows():
        own = heat.filter(area=area, station=station)["class"]
        hours.add_row(area, station, *(str((own == name).sum()) for name in classes))
    console.print(hours)
    worst = table("The worst hours, UTC", "area station class", "time index")
    hottest = heat.sort("index", "start", "station", descending=[True, False, False]).head(WORST)
    for area, station, name, start, index in hottest.select("area", "station", "class", "start", "index").iter_rows():
        worst.add_row(area, station, name, moment(start), f"{index:.1f} °F")
    console.print(worst)
    console.print(f"{PROGRAM.name}: {found.stats.closing()}", style="dim", soft_wrap=True)
