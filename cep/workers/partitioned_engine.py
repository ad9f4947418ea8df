"""An engine whose key groups are distributed to worker processes. Callers use it like a single engine."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import polars as pl
import pyarrow as pa

from cep.compile import CompiledProgram
from cep.connectors.writing.unordered_rows import WrittenRows, stacked_rows
from cep.core.errors import CepError
from cep.core.fluents import author_name
from cep.core.relation import END, ORDER
from cep.core.schema import ARRIVAL, Schema
from cep.core.time import END_OF_TIME
from cep.core.values import MISSING, Ints, Pool
from cep.engine import Engine, Frames
from cep.events import Value
from cep.plan.event_schemas import may_close
from cep.plan.partition import Stage, partition
from cep.plan.plan import Plan
from cep.plan.staged import staged
from cep.runtime import snapshot
from cep.runtime.admission import EventBatch, admitted
from cep.runtime.buckets import KeyShares, stacked
from cep.runtime.fitting_tables import fitting_tables
from cep.runtime.history import BECAUSE
from cep.runtime.options import EngineOptions
from cep.runtime.partial_matches import Key, PartialMatches, RankedMatches, check_asked, merged
from cep.runtime.run_stats import Count
from cep.runtime.state_by_key import KeyGroups, check_partitions, groups_in
from cep.runtime.stepping import timely, wholly
from cep.workers.changing_input import ChangingInput
from cep.workers.chunk_readers import WorkerReaders
from cep.workers.messages import (
    Begin,
    Forget,
    Head,
    Learn,
    Learnt,
    Lineage,
    Listed,
    ListPartial,
    Restore,
    Save,
    Saved,
    WriteRows,
)
from cep.workers.placement import Placement, changing, dealt_stages
from cep.workers.processes import WorkerProcesses
from cep.workers.pushed_tables import as_table, taken_columns
from cep.workers.rounds import Rounds
from cep.workers.withdrawn_rows import WithdrawnRows

PER_CORE, LEAST = 8, 16
"""Limits of the number of workers: PER_CORE workers per core are allowed, but at least LEAST on any machine."""


def dealt_engine(program: CompiledProgram, options: EngineOptions, workers: int, tell: Callable[[str], None]) -> Engine:
    """Return an engine with this number of workers. If the program cannot be distributed, return an engine in this
    process.

    `tell`: a function that receives the reason why the program cannot be distributed. Raises CepError if the options do
    not work with workers, or if there are far more workers than cores.
    """
    check_partitions(workers)
    check_cores(workers)
    why = why_one_place(program.plan, options)
    if why is None:
        return PartitionedEngine(program, options, workers)
    tell(f"the program runs in one process, whatever the number of workers: {why}")
    return Engine(program, options)


def check_cores(workers: int) -> None:
    """Raise CepError if there are far more workers than cores, because starting them would take minutes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if workers > max(LEAST, PER_CORE * cores):
        has = "1 core" if cores == 1 else f"{cores} cores"
        hint = f"use as many workers as cores, {cores}; more only take memory, and a second each to start"
        raise CepError(f"{workers} workers are too many: this machine has {has}", hint=hint, code="workers")


def why_one_place(plan: Plan, options: EngineOptions) -> str | None:
    """Return the reason why a program cannot be distributed, or None if it can."""
    stages = partition(plan)
    if not any(stage.keyed for stage in stages):
        return (
            "; ".join(dict.fromkeys(reason.text for stage in stages for reason in stage.reasons)) or "it has no rules"
        )
    if not any(stage.keyed for stage in dealt_stages(plan, options)):
        keyed = [name for name in sorted(plan.inputs) if plan.schemas[name].key is not None]
        return f"rules need records of {_listed(keyed)} distributed by attributes that are not part of the KEY"
    for name in sorted(plan.inputs) if not changing(plan, options) else ():
        if may_close(plan, name):
            return f"records of `{author_name(name)}` may close earlier ones"
    return None


def _listed(names: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def refuse_workers(plan: Plan, options: EngineOptions) -> None:
    """Raise CepError if an option of the engine does not work with workers."""
    if options.remember is not None:
        raise CepError("workers: remembering events for explanations needs one process", code="workers")
    if options.before is not None:
        raise CepError("workers: taking over the state of another program needs one process", code="workers")
    if options.begins and options.revise is not None and not options.final:
        hint = "leave out `begins` to get only complete intervals, or leave out workers"
        raise CepError("workers: beginnings that may be withdrawn need one process", hint=hint, code="workers")
    stages = dealt_stages(plan, options)
    withdraws = options.revise is not None and not options.final
    if options.explain and withdraws and (len(stages) > 1 or stages[0].merged):
        many = f"run in {len(stages)} stages" if len(stages) > 1 else "may derive an event in several workers"
        hint = "leave out workers or `--explain`; `cep plan` lists the stages"
        message = f"workers: these rules {many}, and with `revise` the origins of an event may change in all of them"
        raise CepError(message, hint=hint, code="workers")


ROUND = 1 << 17
"""The number of rows per worker that are distributed at once, if the engine may return their results in a later call.

It equals the size of a Parquet batch, so that a worker needs no more steps than a single process.
"""


class PartitionedEngine(Engine):
    """A program that runs in worker processes. They end together with the engine, or when `stop` is called."""

    def __init__(self, program: CompiledProgram, options: EngineOptions, workers: int | WorkerProcesses) -> None:
        """Create the engine.

        `workers`: the number of workers to start, or existing workers that no other engine uses any more. Existing
        workers do not end together with this engine.
        """
        check_partitions(workers if isinstance(workers, int) else len(workers))
        refuse_workers(program.plan, options)
        super().__init__(program, options)
        self._ahead = 0
        self._moved = False
        self._parts.pool = _NoPool()  # texts are only encoded in the workers
        self._waiting: dict[str, list[pl.DataFrame]] = {}
        self._later: list[Frames] = []
        self._own = isinstance(workers, int)
        self._processes = WorkerProcesses(workers) if isinstance(workers, int) else workers
        self.readers = WorkerReaders(self._processes)
        self._placement = Placement(dealt_stages(program.plan, options), len(self._processes))
        running = replace(options, lateness=None, lateness_by=None, changes=False, begins=False)
        shipped = replace(program, _first=None)
        self._program, self._running = shipped, running
        for worker in range(len(self._processes)):
            self._processes.tell(worker, Begin(shipped, running, self._placement.stages_of(worker)))
        withdrawn = WithdrawnRows(self.plan.schemas) if self.withdraws else None
        derived = frozenset(self.plan.derived)
        lineage = (BECAUSE,) if options.explain else ()
        self._rounds = Rounds(self._placement, self.plan.schemas, self._processes, derived, withdrawn, lineage)
        revision = self._parts.revision
        self._changing = None if revision is None else ChangingInput(self._parts, revision, self._rounds)
        self._units = {stage.number: staged(self.plan, stage.number).origin or () for stage in self._placement.stages}

    @property
    def processes(self) -> list[int]:
        """The process ids of the workers."""
        return self._processes.numbers

    def stop(self) -> None:
        if self._own:
            self._processes.close()

    # --- running ---

    def push(self, batch: EventBatch) -> Frames:
        self.receive(batch)
        return self._run(self.reached)

    @wholly(refuses=True)
    def _receive(self, batch: EventBatch, in_turn: bool = False) -> None:
        if self._changing is not None:
            self._changing.receive(batch, in_turn)
            return
        taken = batch if isinstance(batch, Mapping) else list(batch)
        if isinstance(taken, Mapping) and taken and (fit := fitting_tables(self._parts, taken, in_turn)) is not None:
            self._parts.position += sum(table.height for table in taken.values())
            for name, frame in fit[0].items():
                self._buffer.count(*fit[1][name])
                self._waiting.setdefault(name, []).append(frame)
            return
        for name, rows in admitted(self._parts, taken, in_turn).items():
            if not rows.table.shape[1]:
                continue
            self._buffer.count(int(rows.table[END].min()), int(rows.table[END].max()))
            if isinstance(taken, Mapping):
                frame = taken[name] if rows.rows is None else taken[name][rows.rows]
            else:
                assert rows.rows is not None, "events have their places"
                frame = as_table([taken[row] for row in rows.rows.tolist()], self.plan.schemas[name])
            frame = frame.with_columns(pl.Series(ARRIVAL, rows.table[ORDER]))
            self._waiting.setdefault(name, []).append(taken_columns(frame, self.plan.schemas[name]))

    @wholly()
    def _run(self, watermark: int) -> Frames:
        if self._changing is not None:
            return self._as_given(self._changing.step(watermark))
        if watermark > self.watermark:
            self._buffer.release(watermark)
            self._moved = True
        over = watermark >= END_OF_TIME
        if over or not self._ahead or self._waiting_rows >= ROUND * self._placement.workers:
            self._begin()
        self._collect(0 if over else self._ahead)
        return self._taken()

    def _begin(self) -> None:
        if self._waiting or self._moved:
            tables = {name: _alike(parts) for name, parts in self._waiting.items()}
            self._waiting, self._moved = {}, False
            self._rounds.begin(tables, self.watermark, self._buffer.first, self._buffer.latest)

    def run_ahead(self, calls: int) -> None:
        self._ahead = 0 if self._changing is not None else calls  # only workers know which records are refused

    @wholly()
    def outstanding(self) -> Frames:
        self._settle()
        return self._taken()

    def _settle(self) -> None:
        self._begin()
        self._collect(0)

    def _collect(self, ahead: int) -> None:
        self._later += map(self._as_given, self._rounds.finished(ahead))

    def _taken(self) -> Frames:
        held, self._later = self._later, []
        if len(held) < 2:
            return held[0] if held else {}
        names = dict.fromkeys(name for frames in held for name in frames)
        parts = {name: [frames[name] for frames in held if name in frames] for name in names}
        return {
            name: stacked_rows(runs) if isinstance(runs[0], WrittenRows) else stacked(runs)
            for name, runs in parts.items()
        }

    def _as_given(self, derived: Frames) -> Frames:
        shown = {name: derived[name] for name in self._output.given if name in derived}
        return self._output.changes_asked(shown, self.meanings()) if self.withdraws else self._output.as_asked(shown)

    def set_lineage_columns(self, *columns: str) -> None:
        if self.explain:
            self._rounds.lineage = columns
        for worker in range(len(self._processes)):
            self._processes.tell(worker, Lineage(columns))

    def write_rows(self, schemas: Mapping[str, Schema], format: str, times: str) -> None:
        """Return rows of events as output text (see `cep.connectors.writing.writers.written_rows`) from now on.

        This applies to the events in `schemas` whose attributes are not needed in this process.
        """
        if self.explain or self.plan.changes or self.plan.begins or self.withdraws:
            return
        asked = self._rounds.merged.union(*(stage.inputs for stage in self._placement.stages))
        ready = {name: schema for name, schema in schemas.items() if name not in asked and schema.fluent is None}
        for worker in range(len(self._processes)):
            self._processes.tell(worker, WriteRows(ready, format, times))

    @wholly()
    def forget(self) -> None:
        self._settle()
        self._processes.ask([Forget()] * len(self._processes))

    @wholly(refuses=True)
    def partial_matches(self, event: str, key: Key | None = None, limit: int = 100) -> PartialMatches:
        check_asked(self.plan, event, key or {}, limit)
        self._settle()
        asked = [ListPartial(event, key or {}, limit, not worker) for worker in range(len(self._processes))]
        ranked: list[RankedMatches] = []
        for answer in self._processes.ask(asked):
            if isinstance(answer, Listed):
                if answer.refused is not None:
                    raise answer.refused.error()
                ranked += answer.matches
        return merged(event, self.watermark, ranked, limit)

    def skip(self, watermark: int) -> None:
        raise CepError("workers: `skip` needs one process", code="workers")

    # --- what it holds ---

    @property
    def state_rows(self) -> int:
        return self._waiting_rows + sum(rows for rows, _ in self._rounds.held.values())

    @property
    def _waiting_rows(self) -> int:
        return sum(table.height for tables in self._waiting.values() for table in tables)

    @property
    def state_bytes(self) -> int:
        return sum(size for _, size in self._rounds.held.values())

    def take_merged(self) -> Counter[str]:
        merged_counts, self._rounds.equal = self._rounds.equal, Counter()
        return merged_counts

    def take_counts(self) -> list[Count]:
        unit_counts: dict[int | str, Count] = {}
        for (_, stage), counts in self._rounds.counts.items():
            origin = self._units[stage]
            for count in counts:
                unit = origin[count.unit] if isinstance(count.unit, int) else count.unit
                sums = unit_counts.get(unit, Count(unit, 0, 0, 0, 0))
                unit_counts[unit] = Count(
                    unit,
                    sums.produced + count.produced,
                    sums.time + count.time,
                    sums.rows + count.rows,
                    sums.bytes + count.bytes,
                )
            self._rounds.counts[_, stage] = [replace(count, produced=0, time=0) for count in counts]
        return list(unit_counts.values())

    def take_key_shares(self) -> Sequence[KeyShares]:
        return self._rounds.keys.counts()

    # --- state ---

    @wholly()
    def snapshot(self) -> bytes:
        """Return the whole state. An engine with another number of workers can restore it, too."""
        self._settle()
        answers = self._processes.ask([Save()] * len(self._processes))
        states = [answer.states for answer in answers if isinstance(answer, Saved)]
        placed_states = [
            (stage.number, place, states[worker][stage.number])
            for stage in self._placement.stages
            for place, worker in enumerate(self._placement.places(stage))
        ]
        header = {
            "partitions": self._placement.workers,
            "position": self.position,
            "times": self._buffer.times(),
            "stages": [number for number, _, _ in placed_states],
        }
        held = [state for _, _, state in placed_states]
        if self._changing is not None:
            header["revision"] = self._changing.times()
            ways = [] if self._rounds.withdrawn is None else [*self._rounds.withdrawn.saved()]
            header["ways"] = [[number, event] for number, event, _ in ways]
            held += [table for *_, table in ways]
        batch = pa.record_batch([pa.array(held, pa.large_binary())], ["state"])
        return snapshot.save(header, [batch], self._state + snapshot.IN_PARTITIONS)

    @wholly()
    def held_now(self) -> Frames:
        """Return the open intervals of fluents at the watermark. An interval that several workers have is returned
        once."""
        self._settle()
        answers = self._processes.ask([Save()] * len(self._processes))
        states = [answer.states for answer in answers if isinstance(answer, Saved)]
        by_name: dict[str, list[pl.DataFrame]] = {}
        for stage in self._placement.stages:
            for worker in self._placement.places(stage):
                engine = Engine(self._program, replace(self._running, stage=stage.number))
                for name, table in engine.restore(states[worker][stage.number]).held_now().items():
                    by_name.setdefault(name, []).append(table)
        plain = {
            name: [column for column in tables[0].columns if column != BECAUSE] for name, tables in by_name.items()
        }
        return {name: pl.concat(parts).unique(plain[name], maintain_order=True) for name, parts in by_name.items()}

    def goes_on(self, blob: bytes) -> bool:
        return snapshot.program_of(blob) == self._state + snapshot.IN_PARTITIONS

    def restore(self, blob: bytes) -> Self:
        with snapshot.restoring():
            header, (batch,) = snapshot.load(blob, self._state + snapshot.IN_PARTITIONS)
            self._go_on_from(header, [state_blob.as_py() for state_blob in batch["state"]])
        return self

    @wholly()
    def _go_on_from(self, header: Mapping[str, Any], states: Sequence[bytes]) -> None:
        if self._changing is not None and header["partitions"] != self._placement.workers:
            message = f"workers: the snapshot was made with {header['partitions']} workers"
            hint = f"restore it with as many workers, not with {self._placement.workers}"
            raise CepError(message, hint=hint, code="workers")
        before: dict[int, list[bytes]] = {}
        for number, state in zip(header["stages"], states):
            before.setdefault(number, []).append(state)
        asked = [Restore({}, {}) for _ in range(self._placement.workers)]
        for stage in self._placement.stages:
            self._restoring(stage, before[stage.number], asked)
        heads: list[Head] = list(asked)
        self._processes.ask(heads)
        self._parts.position = header["position"]
        self._buffer.restore({}, header["times"])
        if self._changing is not None:
            self._changing.restore(header["times"]["watermark"], header["revision"])
        if self._rounds.withdrawn is not None:
            ways = zip(header["ways"], states[len(header["stages"]) :], strict=True)
            self._rounds.withdrawn.restore([(number, event, table) for (number, event), table in ways])

    def _restoring(self, stage: Stage, before: Sequence[bytes], asked: Sequence[Restore]) -> None:
        places = self._placement.places(stage)
        for number, worker in enumerate(places):
            if len(before) == len(places):
                asked[worker].whole[stage.number] = before[number]
                continue
            mine = groups_in(number, len(places))
            parts = asked[worker].parts[stage.number] = []
            for place, state in enumerate(before):
                their_groups = groups_in(place, len(before))
                share = KeyGroups(max(mine.first, their_groups.first), min(mine.stop, their_groups.stop))
                if share.first < share.stop:
                    parts.append((share, state))

    def update(self, time: int, add: object = (), remove: object = ()) -> None:
        self.updates([(time, add, remove)])

    @wholly(refuses=True)
    def updates(self, changes: Iterable[tuple[int, object, object]]) -> None:
        timed_changes = timely(self._parts, list(changes))
        if not timed_changes:
            return
        self._settle()
        for answer in self._processes.ask([Learn(tuple(timed_changes))] * len(self._processes)):
            if isinstance(answer, Learnt) and answer.refused is not None:
                raise answer.refused.error()  # all workers refuse for the same reason
        if self._changing is not None:
            self._changing.learnt(min(time for time, _ in timed_changes))

    # --- what only one process does ---

    def extract(self, keys: object) -> bytes:
        raise CepError(
            "workers: `extract` needs one process", hint="use `snapshot`, which has the whole state", code="workers"
        )

    def replace(self, keys: object, state: bytes) -> None:
        raise CepError(
            "workers: `replace` needs one process", hint="use `restore`, which replaces the whole state", code="workers"
        )


def _alike(parts: Sequence[pl.DataFrame]) -> Sequence[pl.DataFrame]:
    """Return the waiting tables of one event, converted to equal columns.

    Tables of instants may have a single column `time` instead of `start` and `end`. If another table has `start` and
    `end`, they replace `time`.
    """
    if len({tuple(part.columns) for part in parts}) == 1:
        return parts
    aligned = []
    for part in parts:
        if "start" not in part.columns:
            part = part.with_columns(start=pl.col("time"), end=pl.col("time")).drop("time")
        aligned.append(part.select(sorted(part.columns)))
    return aligned


class _NoPool(Pool):
    """A pool that only distinguishes missing from existing texts, which is enough to distribute rows."""

    def encode(self, series: pl.Series, type: str) -> Ints:
        if series.dtype != pl.String:
            return Pool().encode(series, type)
        if not series.null_count():
            return np.zeros(len(series), np.int64)
        return np.where(series.is_null().to_numpy(), MISSING, 0)

    def encode_values(self, values: Sequence[Value]) -> Ints:
        return Pool().encode_values(values)
