"""A worker process: it runs its part of each stage, as the main process requests (see `cep.workers.processes`).

It ends when the connection is closed, so no worker survives the main process.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from cep.compile import CompiledProgram
from cep.connectors.writing.writers import written_rows
from cep.core.errors import CepError
from cep.core.logs import RunWarning
from cep.core.schema import ARRIVAL, CHANGE, NUMBER, TIE
from cep.engine import Engine
from cep.plan.event_schemas import tables_of
from cep.runtime.options import EngineOptions
from cep.runtime.partial_matches import StagePart
from cep.runtime.prior_state import PriorState
from cep.workers.chunk_readers import WorkerChunks
from cep.workers.messages import (
    Begin,
    Done,
    Failed,
    Forget,
    Head,
    Learn,
    Learnt,
    Line,
    Lineage,
    Listed,
    ListPartial,
    Made,
    ReadChunk,
    RefusedRecord,
    Restore,
    Save,
    Saved,
    Step,
    Take,
    Taken,
    WriteRows,
)
from cep.workers.packing import PackedTable, Tables
from cep.workers.placement import dealt_stages

Sent = Mapping[str, pl.DataFrame | PackedTable]


class Worker:
    """The engines of a worker process, by stage."""

    def __init__(self, program: CompiledProgram, running: EngineOptions, stages: tuple[int, ...]) -> None:
        self.program, self.running, self.stages = program, running, stages
        self.columns: tuple[str, ...] | None = None
        self.rows: WriteRows | None = None
        self.chunks = WorkerChunks()
        self.engines = {stage: self.engine(stage) for stage in stages}
        stages_of = dealt_stages(program.plan, running)
        self.handed = frozenset[str]().union(*(own_stage.inputs.keys() | own_stage.merged for own_stage in stages_of))

    def engine(self, stage: int, before: PriorState | None = None) -> Engine:
        stage_engine = Engine(self.program, replace(self.running, stage=stage, lateness=None, before=before))
        if self.columns is not None:
            stage_engine.set_lineage_columns(*self.columns)
        return stage_engine

    def give_lineage(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        for engine in self.engines.values():
            engine.set_lineage_columns(*columns)

    def step(self, step: Step, tables: Tables) -> tuple[Made, Sent]:
        engine = self.engines[step.stage]
        engine.reached_in_input(step.latest)
        engine.begun_in_input(step.first)
        if tables:
            engine.hand_lineage(tables)
            engine.receive(tables)
            refused = engine.take_dead()
            assert not refused, f"a row that was taken is refused: {refused[0]}"
        before = engine.revision_stats
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", RunWarning)
            derived = engine.advance(step.watermark)
        warned = []
        for warning in told:
            if isinstance(warning.message, RunWarning):
                warned.append((warning.message.event, str(warning.message), warning.message.fields))
            else:
                warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)
        counts, done = tuple(engine.take_counts()), engine.revision_stats
        replayed = 0 if before is None or done is None else (done - before).keys_replayed
        size = engine.state_rows, engine.state_bytes
        held = Made(step.stage, *size, counts, tuple(warned), replayed, engine.take_merged())
        return held, {name: self.given(name, table) for name, table in derived.items() if table.height}

    def take(self, asked: Take, tables: Tables) -> Taken:
        engine = self.engines[asked.stage]
        before, own = engine.late_rows, tables_of(engine.plan)
        engine.receive(tables)
        refused = []
        for dead in engine.take_dead():
            table = own.get(dead.type, dead.type)
            refused.append(RefusedRecord(table, int(tables[table][ARRIVAL][dead.row]), dead.code, dead.reason))
        late = {event: number - before.get(event, 0) for event, number in engine.late_rows.items()}
        return Taken(asked.stage, tuple(refused), late)

    def learn(self, asked: Learn) -> Learnt:
        try:
            for engine in self.engines.values():
                engine.learn(asked.changes)
        except CepError as error:  # each engine refuses for the same reason
            return Learnt(Failed.of(error))
        return Learnt(None)

    def list_partial(self, asked: ListPartial) -> Listed:
        stages = {dealt_stage.number: dealt_stage for dealt_stage in dealt_stages(self.program.plan, self.running)}
        try:
            listed = [
                engine.ranked_matches(asked.event, asked.key, asked.limit, StagePart(stages[number], asked.copies))
                for number, engine in self.engines.items()
            ]
        except CepError as error:
            return Listed((), Failed.of(error))
        return Listed(tuple(listed))

    def given(self, event: str, table: pl.DataFrame) -> pl.DataFrame | PackedTable:
        """Return derived rows in the form in which the main process needs them: as attributes, or as output text."""
        if self.rows is None or event not in self.rows.schemas:
            plain = [] if CHANGE in table.columns else [NUMBER]
            return table if event in self.handed else table.drop(TIE, *plain, strict=False)
        asked = self.rows
        rows = written_rows(event, table, asked.schemas[event], asked.format, asked.times)
        packed = PackedTable.of(table.select("start", "end", ARRIVAL))
        packed.add_lines(rows)
        return packed

    def restore(self, asked: Restore) -> None:
        for stage, state in asked.whole.items():
            self.engines[stage] = self.engine(stage).restore(state)
        for stage, parts in asked.parts.items():
            changes = self.program.knowledge is not None and not self.running.explain
            # the knowledge is the same in all of them
            known = PriorState(parts[0][1], frozenset(), waits=False) if changes else None
            self.engines[stage] = into = self.engine(stage, known)
            for groups, state in parts:
                into.replace(groups, self.engine(stage).restore(state).extract(groups))

    def answer(self, head: Head, tables: Tables) -> tuple[Head, Sent]:
        match head:
            case Step():
                return self.step(head, tables)
            case Take():
                return self.take(head, tables), {}
            case Learn():
                return self.learn(head), {}
            case ListPartial():
                return self.list_partial(head), {}
            case Forget():
                for engine in self.engines.values():
                    engine.forget()
            case ReadChunk():
                return self.chunks.read(head)
            case Save():
                return Saved({stage: engine.snapshot() for stage, engine in self.engines.items()}), {}
            case Restore():
                self.restore(head)
            case _:
                raise AssertionError(f"nobody says {head} to a worker")
        return Done(), {}


def serve(line: Line) -> None:
    """Answer the main process's requests until the connection is closed."""
    worker: Worker | None = None
    while True:
        head, tables = line.receive()
        try:
            if isinstance(head, Begin):
                worker = Worker(head.program, head.running, head.stages)
                continue
            assert worker is not None, "a worker begins first"
            if isinstance(head, Lineage):
                worker.give_lineage(head.columns)
                continue
            if isinstance(head, WriteRows):
                worker.rows = head
                continue
            answer: tuple[Head, Sent] = worker.answer(head, tables)
        except CepError as error:
            answer = Failed.of(error), {}
        except Exception as error:
            text = traceback.format_exc()
            answer = Failed(f"a worker failed: {type(error).__name__}: {error}", None, None, text, "worker"), {}
        tables = {}  # release the shared memory
        line.send(*answer)


def leave_with(line: socket.socket) -> None:
    """End this process as soon as the other end of the connection is closed, even during a step."""
    waiting = select.poll()
    waiting.register(line, 0)  # a closed connection is always reported
    while not waiting.poll():
        pass
    os._exit(0)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process decides about interrupts
    number, *memory = map(int, sys.argv[1:])
    outgoing, taken = reversed(memory) if memory else (None, None)  # memory that is sent from here is received there
    end = socket.socket(fileno=number)
    threading.Thread(target=leave_with, args=[end], daemon=True).start()
    line = Line(end, outgoing, taken)
    try:
        serve(line)
    except (EOFError, OSError):
        os._exit(0)  # the main process has ended, and nothing needs to be cleaned up


if __name__ == "__main__":
    main()
