"""A query on Spark whose operators run in this process, with a check of revision.

After each micro-batch, the rows that were added and not withdrawn equal the result of one process.
"""

from __future__ import annotations

import pickle
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from cep.compile import compiled, divided
from cep.connectors.inputs import inputs
from cep.core.schema import ARRIVAL, CHANGE, NUMBER, TIE
from cep.engine import Engine
from cep.events import Event
from cep.runtime.buckets import merged_identical
from cep.runtime.fluent_records import as_records
from cep.runtime.options import EngineOptions
from cep.spark import multiplicity_task, stage_task
from cep.spark.multiplicity_task import WaysWork
from cep.spark.program import ProgramOptions, ShippedProgram
from cep.spark.shuffle_blocks import (
    END,
    ChangeLine,
    ShuffleBlock,
    WorldRows,
    change_blocks,
    first_blocks,
    from_outside,
    latest_blocks,
    wake_ups,
)
from cep.spark.source.reading import file_blocks, first_ends, furthest, with_change
from cep.spark.stage_task import GenerationStart, StageWork
from cep.spark.state.bucket_states import BucketStates
from tests.test_revision import UNSEEN, Change, Known, Rows, rows, sets_of, tables
from tests.test_revision_knowledge import Update


@dataclass
class Notes:
    """Of one operator the version of the state of each bucket, and when it is to be stepped again."""

    versions: dict[int, int] = field(default_factory=dict)
    calls: dict[int, int | None] = field(default_factory=dict)


class Query:
    """A query whose operators run here, one after another; now and then workers are lost, and their engines with
    them (`lost`: how often)."""

    lost = 0.1

    def __init__(
        self,
        program: ShippedProgram,
        folder: Path,
        rng: random.Random,
        dead: str | None = None,
        beginning: GenerationStart | None = None,
    ) -> None:
        self.program, self.rng, self.dead = program, rng, dead
        folder.mkdir(parents=True, exist_ok=True)
        run = str(folder)
        works: list[StageWork | WaysWork] = [
            StageWork(program, s.number, run, tuple(program.outputs), dead, BucketStates(run, s.number), beginning)
            for s in program.stages
        ]
        if program.window is not None and program.merged:
            works.append(WaysWork(program, run, BucketStates(run, len(program.stages) + 1)))
        self.works = [(work, Notes()) for work in works]
        self.begun = False

    def micro_batch(
        self, found: dict[str, pl.DataFrame], watermark: int, updates: Sequence[ChangeLine] = ()
    ) -> dict[str, pl.DataFrame]:
        """What the sink gets of records as tables, by event."""
        if self.rng.random() < self.lost:
            stage_task._engines.clear()
            multiplicity_task._known.clear()
        blocks = list(from_outside(self.program, found, 0, None)) if found else []
        if updates:
            blocks += change_blocks(self.program, updates)
        if not self.begun:
            blocks += wake_ups(self.program)
        if self.program.unending and (latest := furthest(self.program, found)) is not None:
            blocks += latest_blocks(self.program, latest)
        if self.program.beginning and len(ends := first_ends(self.program, found)):
            blocks += first_blocks(self.program, ends.tolist())
        self.begun = True
        return self.passed(blocks, watermark)

    def read(self, number: int, path: Path, watermark: int) -> dict[str, pl.DataFrame]:
        """The same of a file."""
        (file,) = inputs([str(path)], self.program.inputs, None)
        return self.passed(list(file_blocks(self.program, number, file, self.dead)), watermark)

    def passed(self, passing: Sequence[ShuffleBlock], watermark: int) -> dict[str, pl.DataFrame]:
        """What the operators make of these blocks."""
        world: list[WorldRows] = []
        for work, notes in self.works:
            if isinstance(work, WaysWork):
                counting = [one for one in world if one.event in self.program.merged]
                world = [one for one in world if one.event not in self.program.merged]
                for bucket in sorted({one.bucket for one in counting}):
                    mine = [one for one in counting if one.bucket == bucket]
                    mine = self.rng.sample(mine, len(mine))
                    made = work.step(bucket, notes.versions.get(bucket, 0), mine, watermark, 0)
                    notes.versions[bucket] = made.version
                    world += made.world
            else:
                came, found = self.stage(work, notes, passing, watermark)
                passing = [*passing, *came]
                world += found
        out: dict[str, list[pl.DataFrame]] = {}
        for one in world:
            out.setdefault(one.event, []).append(one.table.drop(ARRIVAL, TIE, strict=False))
        return {event: pl.concat(each, how="diagonal_relaxed") for event, each in out.items()}

    def stage(
        self, work: StageWork, notes: Notes, passing: Sequence[ShuffleBlock], watermark: int
    ) -> tuple[list[ShuffleBlock], list[WorldRows]]:
        """What the buckets of a stage make for later ones, and for the sink."""
        task, blocks, world = work.task(), list[ShuffleBlock](), list[WorldRows]()
        by_bucket: dict[int, list[ShuffleBlock]] = {}
        for one in self.rng.sample(passing, len(passing)):
            if one.stage == work.number:
                by_bucket.setdefault(one.bucket, []).append(one)
        for bucket, call in notes.calls.items():
            if call is not None and call <= watermark:
                by_bucket.setdefault(bucket, [])
        for bucket, mine in sorted(by_bucket.items()):
            made = task.step(bucket, notes.versions.get(bucket, 0), mine, watermark, 0)
            notes.versions[bucket], notes.calls[bucket] = made.version, made.call
            blocks += made.blocks
            world += made.world
        return blocks, world


def check(
    text: str,
    events: Sequence[Event],
    rng: random.Random,
    length: int,
    folder: Path,
    buckets: int,
    keys: Iterable[str] = (),
    revise: bool = True,
    updates: Sequence[Update] = (),
    kind: type[Query] | None = None,
    **options: object,
) -> int:
    """Events in any order, some twice, some withdrawn, in micro-batches; gives how many rows were withdrawn. Without
    `revise` the watermark is as far behind, and records are replaced while they wait for it. `kind`: of the query."""
    compiling, running = divided(options)
    made = compiled(text, "<program>", compiling)
    running = replace(running, revise=length if revise else None)
    engine = Engine(made, running)
    pickled = None if compiling.knowledge is None else pickle.dumps(compiling.knowledge)
    shipped = ProgramOptions.of(compiling, pickled, replace(running, changes=False))
    query = (kind or Query)(ShippedProgram.of(engine, text, "<program>", shipped, buckets), folder, rng)
    events = [event for event in events if event.type in engine.inputs]
    if rng.random() < 0.5:
        events = rng.sample(events, len(events))
    changes: list[Change | Update] = []
    for number, event in enumerate(events):
        changes.append((event, 1))
        if engine.revises and rng.random() < 0.3:
            changes.append((rng.choice(events[: number + 1]), -1))
        if engine.revises and rng.random() < 0.1:
            changes.append((event, 1))
    for update in updates:
        changes.insert(rng.randint(0, len(changes)), update)
    learnt: list[Update] = []
    known, net, withdrawn, at = Known(length, keys, sets_of(engine)), Rows(), 0, 0
    latest, watermark = -(2**62), 0
    looks = random.Random(text)
    while watermark < END // 1000:
        piece = list(enumerate(changes))[at : at + rng.choice((0, 1, 1, 2, 3, 5, 9))]
        new = [each for _, each in piece if len(each) == 3]
        piece = [(position, each) for position, each in piece if len(each) == 2]
        over = at == len(changes)
        at += len(piece) + len(new)
        if over:
            watermark = END // 1000
        until = watermark * 1000 - 1 if watermark > 0 else -(2**62)
        known.latest = until if revise else until + length
        for position, change in piece:
            known.take(position, change)
            known.latest = until if revise else until + length  # all of a micro-batch are judged by the one watermark
        found = tables(engine, piece)
        if engine.revises:
            found = {event: with_change(table) for event, table in found.items()}
        else:
            found = {event: table.drop(CHANGE) for event, table in found.items()}
        if query.program.records:
            found = as_records(found, query.program.records)  # type: ignore[assignment]
        learnt += [update for update in new if update[0] > until - query.program.known]
        given = query.micro_batch(
            found, watermark, [(update[0], engine.changes.loaded.change(*update[1:]).decode(), "", 0) for update in new]
        )
        assert all((CHANGE in table.columns) is revise for table in given.values())
        if not revise:
            merged = query.program.merged
            once = {event: merged_identical([placed(table)]) for event, table in given.items() if event in merged}
            given = {event: with_change(once.get(event, table)) for event, table in given.items()}
        net.subtract(changed(given, -1))
        net.update(changed(given, 1))
        withdrawn += changed(given, -1).total()
        assert min(net.values(), default=0) >= 0, "no row is withdrawn that is not there"
        if over or looks.random() >= UNSEEN:
            other = Engine(made, replace(running, revise=None, lateness=None))
            known.into(other)
            if learnt:
                other.updates(sorted(learnt, key=lambda update: update[0]))
            told = other.close() if over else other.advance(until) if watermark > 0 else {}
            assert +net == ordered(told), (text, changes[:at], length)
        latest = max([latest, *(event.end for _, (event, _) in piece)])
        watermark = max(watermark, (latest - (0 if revise else length)) // 1000, 0)
    return withdrawn


def placed(table: pl.DataFrame) -> pl.DataFrame:
    """The table with places, which those of the sink have not."""
    return table.with_columns(pl.lit(0).alias(ARRIVAL), pl.lit(0).alias(TIE))


def changed(given: dict[str, pl.DataFrame], sign: int) -> Rows:
    parts = {event: table.filter(pl.col(CHANGE) == sign) for event, table in given.items()}
    return ordered({event: table.drop(CHANGE, NUMBER, strict=False) for event, table in parts.items()})


def ordered(frames: dict[str, pl.DataFrame]) -> Rows:
    """Rows whatever the order of their columns."""
    return rows({event: table.select(sorted(table.columns)) for event, table in frames.items()})


def keyed_declarations(text: str, rng: random.Random) -> tuple[str, list[str]]:
    """The program with the first arguments of some events as their KEY."""
    lines, keys = [], []
    for line in text.split("\n"):
        declared = re.match(r"event (\w+)\((\w+): .*\)(.*)\.$", line)
        if declared is not None and rng.random() < 0.4:
            keys.append(declared[1])
            line = f"{line[:-1]} KEY {declared[2]}."
        lines.append(line)
    return "\n".join(lines), keys


def query(text: str, folder: Path, buckets: int, **options: Any) -> Query:
    running = EngineOptions(**options)
    shipped = ShippedProgram.of(Engine.from_text(text, **options), text, "p", ProgramOptions(running=running), buckets)
    return Query(shipped, folder / "states", random.Random(1), str(folder / "dead-"))
