"""The blizzard demo: a year of real hourly readings through the rules, the storms as a table and as a picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import polars as pl

from cep.engine import Engine
from cep.options import refuse
from cep.pipeline import Interrupt, flow
from cep.progress import Tally, count
from connectors.batch import Batch, DeadRecord
from connectors.files import read
from demos.blizzard.storms import Storm, episodes, merge

PROGRAM = Path(__file__).with_name("blizzard.cep")
OFFICIAL = Path(__file__).with_name("noaa.cep")
NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")


@dataclass(slots=True)
class Found:
    """What a run over the readings gave: tables of readings and of derived events, and the dead letters."""

    tally: Tally = field(default_factory=Tally)
    readings: list[pl.DataFrame] = field(default_factory=list)
    derived: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    dead: list[DeadRecord] = field(default_factory=list)

    def take(self, tables: dict[str, pl.DataFrame]) -> None:
        """Keep derived events."""
        for type, table in tables.items():
            self.derived.setdefault(type, []).append(table)


