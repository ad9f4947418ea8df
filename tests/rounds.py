"""A program run by stages, each in several buckets with their own engines: a distributed run in one process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

import polars as pl

from cep.compile import CompiledProgram, compiled, divided
from cep.core.schema import ARRIVAL
from cep.core.time import END_OF_TIME
from cep.engine import Engine
from cep.events import Event, Iri
from cep.plan.partition import Stage, partition
from cep.runtime.buckets import merged_by_arrival, merged_identical
from cep.runtime.state_by_key import deal_groups

TYPES = {"int": pl.Int64, "float": pl.Float64, "string": pl.String, "iri": pl.String, "bool": pl.Boolean}


class Buckets:
    """`round` after round. What stages hand on is shuffled, engines are stopped and restored, as `random` has it."""

    def __init__(self, text: str | CompiledProgram, count: int, random: Random, **options: Any) -> None:
        self.random = random
        compiling, self.running = divided(options)
        self.program = compiled(text, "<program>", compiling) if isinstance(text, str) else text
        whole = Engine(self.program, self.running)
        self.inputs, self.schemas = whole.plan.inputs, whole.plan.schemas
        self.stages: tuple[Stage, ...] = partition(whole.plan)
        self.merged = {event for stage in self.stages for event in stage.merged}
        self.latest, self.first = -(2**62), 2**62
        self.engines = [[self.engine(stage) for _ in range(count if stage.keyed else 1)] for stage in self.stages]

    def engine(self, stage: Stage) -> Engine:
        return Engine(self.program, self.running, stage=stage.number, lateness=None)

    def round(self, tables: Mapping[str, pl.DataFrame], watermark: int) -> dict[str, pl.DataFrame]:
        """What the tables (with `order`) and all that ends up to the watermark give."""
        made: dict[str, list[pl.DataFrame]] = {}
        self.latest = max([self.latest, *(table["end"].max() for table in tables.values() if table.height)])
        self.first = min([self.first, *(table["end"].min() for table in tables.values() if table.height)])
        for stage, engines in zip(self.stages, self.engines, strict=True):
            taken = {event: table for event, table in tables.items() if event in stage.outside}
            taken |= {
                event: merged_by_arrival(
                    [self.shuffled(part) for part in self.random.sample(made[event], len(made[event]))]
                )
                for event in stage.inputs
                if event not in stage.outside and event in made
            }
            for bucket, rows in enumerate(deal_groups(stage, taken, self.schemas, len(engines))):
                engines[bucket].reached_in_input(self.latest)
                engines[bucket].begun_in_input(self.first)
                assert not engines[bucket].push(rows), "nothing is decided before the watermark comes"
                for event, table in engines[bucket].advance(watermark).items():
                    made.setdefault(event, []).append(table)
                assert not engines[bucket].take_dead()
                if self.random.random() < 0.2:
                    blob = engines[bucket].snapshot()
                    engines[bucket] = self.engine(stage).restore(blob)
        settled = {event: merged_identical(parts) for event, parts in made.items()}
        for event, parts in made.items():
            assert event in self.merged or settled[event].height == sum(part.height for part in parts)
        return settled

    def shuffled(self, table: pl.DataFrame) -> pl.DataFrame:
        return table[self.random.sample(range(table.height), table.height)]

    def run(self, batches: Iterable[Sequence[tuple[int, Event]]], lateness: int = 0) -> list[Event]:
        """All that batches of events give, each with its position in the input; the watermark follows the largest
        end."""
        latest = -(2**62)
        outputs = []
        for batch in batches:
            latest = max([latest, *(event.end for _, event in batch)])
            if latest > -(2**62):
                outputs.append(self.round(self.tables(batch), latest - lateness - 1))
        outputs.append(self.round({}, END_OF_TIME))
        return [event for output in outputs for type, table in output.items() for event in self.events(type, table)]

    def events(self, type: str, table: pl.DataFrame) -> Iterator[Event]:
        iris = [attribute.type == "iri" for attribute in self.schemas[type].attributes]
        for start, end, *values in table.iter_rows():
            arguments = [Iri(v) if iri and v is not None else v for v, iri in zip(values, iris, strict=True)]
            yield Event(type, tuple(arguments), start, end)

    def tables(self, events: Iterable[tuple[int, Event]]) -> dict[str, pl.DataFrame]:
        """Events with their positions in the input, as tables."""
        by_type: dict[str, list[tuple[int, Event]]] = {}
        for position, event in events:
            if event.type in self.inputs:
                by_type.setdefault(event.type, []).append((position, event))
        return {type: self.table(type, rows) for type, rows in by_type.items()}

    def table(self, type: str, rows: Sequence[tuple[int, Event]]) -> pl.DataFrame:
        columns = [
            pl.Series("start", [event.start for _, event in rows], dtype=pl.Int64),
            pl.Series("end", [event.end for _, event in rows], dtype=pl.Int64),
            pl.Series(ARRIVAL, [position for position, _ in rows], dtype=pl.Int64),
        ]
        for i, attribute in enumerate(self.schemas[type].attributes):
            dtype = pl.Object if attribute.type == "any" else TYPES.get(attribute.type, pl.Int64)
            columns.append(pl.Series(attribute.name, [event.args[i] for _, event in rows], dtype=dtype))
        return pl.DataFrame(columns)
