"""Run the stages of a program in rounds over worker processes. In a round, all partitions of each stage advance to the
same watermark.

Several rounds may be in progress. A worker that has finished its part of a round begins the next round. So the later
stages of one round run at the same time as the earlier stages of the next. The results of rounds are returned in order.
"""

from __future__ import annotations

import warnings
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from cep.core.logs import RunWarning
from cep.core.schema import ARRIVAL, NUMBER, TIE, Schema
from cep.plan.partition import Stage, owner
from cep.runtime.buckets import KeyCounter, merged_by_arrival, merged_identical
from cep.runtime.run_stats import Count
from cep.workers.dealing import deal_packed
from cep.workers.lineage import as_told, made_one
from cep.workers.merging import in_order
from cep.workers.messages import Made, Step, Take, Taken
from cep.workers.packing import Tables
from cep.workers.placement import Placement
from cep.workers.processes import WorkerProcesses
from cep.workers.withdrawn_rows import WithdrawnRows


@dataclass(slots=True)
class _Round:
    """A round in progress.

    - `tables`: the input by event. Each table consists of parts that have the same columns.
    - `derived`: the rows derived so far, by event, with one table per partition.
    - `begun`: the number of stages that have begun.
    - `answers`: the results of the last stage that has begun, by worker.
    - `missing`: the number of partitions of that stage that have not answered yet.
    - `counted`: by event, the changes of rows for later stages, after all rows in `derived` have been counted.
    """

    tables: Mapping[str, Sequence[pl.DataFrame]]
    watermark: int
    first: int
    latest: int
    derived: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    begun: int = 0
    answers: dict[int, Tables] = field(default_factory=dict)
    missing: int = 0
    counted: dict[str, pl.DataFrame] = field(default_factory=dict)


class Rounds:
    """The rounds of a program's stages over worker processes.

    - `held`: the rows and bytes of state, for each worker and stage.
    - `counts`: the counters of operators since they were last read, for each worker and stage.
    - `keys`: the object that counts the distributed rows by key.
    - `keys_replayed`: the number of keys that were recomputed.
    - `equal`: for each event type, the number of records that were merged with an equal record.
    - `given_events`: the events that are returned to the caller.
    - `withdrawn`: the multiplicities of rows, if results may be withdrawn.
    - `lineage`: the columns of lineage that rows have.
    """

    def __init__(
        self,
        placement: Placement,
        schemas: Mapping[str, Schema],
        processes: WorkerProcesses,
        given_events: Collection[str],
        withdrawn: WithdrawnRows | None = None,
        lineage: Collection[str] = (),
    ) -> None:
        self.placement, self.schemas, self.processes, self.given = placement, schemas, processes, given_events
        self.withdrawn, self.lineage, self.keys_replayed = withdrawn, lineage, 0
        self.merged = frozenset[str]().union(*(stage.merged for stage in placement.stages))
        self.held: dict[tuple[int, int], tuple[int, int]] = {}
        self.counts: dict[tuple[int, int], list[Count]] = {}
        self.equal: Counter[str] = Counter()
        self.keys = KeyCounter()
        self._under_way: deque[_Round] = deque()

    def begin(self, tables: Mapping[str, Sequence[pl.DataFrame]], watermark: int, first: int, latest: int) -> None:
        """Begin a round.

        - `tables`: the input by event, with `@order`. Each table consists of parts that have the same columns.
        - `watermark`: the time up to which all input has arrived.
        - `first`, `latest`: the earliest and latest end of all input so far.
        """
        self._under_way.append(_Round(tables, watermark, first, latest))
        self._go_on()

    def receive(self, tables: Mapping[str, pl.DataFrame]) -> list[tuple[int, int, Taken]]:
        """Distribute input tables whose records may withdraw or replace earlier records. No round may be in progress.

        Returns `(stage, worker, answer)` for each stage and each of its workers that has received tables.
        """
        asked = []
        for stage in self.placement.stages:
            mine = {name: [table] for name, table in tables.items() if name in stage.outside}
            places = self.placement.places(stage)
            dealt = deal_packed(stage, mine, self.schemas, len(places), self.keys)
            for worker, parts in zip(places, dealt, strict=True):
                if parts:
                    self.processes.tell(worker, Take(stage.number), parts)
                    asked.append(worker)
        answers = []
        for _ in asked:
            heard = self.processes.hear()
            assert heard is not None and isinstance(heard[1], Taken), "workers answer what they take"
            answers.append((heard[1].stage, heard[0], heard[1]))
        return sorted(answers, key=lambda answer: answer[:2])

    def finished(self, ahead: int) -> Iterator[Tables]:
        """Yield the results of completed rounds in order. Wait until at most `ahead` rounds are in progress."""
        while self._under_way:
            over = self._under_way[0]
            if over.begun == len(self.placement.stages) and not over.missing:
                self._under_way.popleft()
                parts = {name: over.derived[name] for name in sorted(over.derived.keys() & self.given)}
                merged = {name: self._for_the_world(name, event_parts) for name, event_parts in parts.items()}
                yield merged if self.withdrawn is None else {name: part for name, part in merged.items() if part.height}
                continue
            heard = self.processes.hear(wait=len(self._under_way) > ahead)
            if heard is None:
                return
            worker, head, tables = heard
            assert isinstance(head, Made), "workers answer a step"
            self._take(worker, head, tables)

    def _take(self, worker: int, step: Made, tables: Tables) -> None:
        for event, text, fields in step.warnings:
            warnings.warn(RunWarning(event, text, **fields), stacklevel=2)
        self.held[worker, step.stage] = step.rows, step.bytes
        self.keys_replayed += step.keys_replayed
        stage = self.placement.stages[step.stage - 1]
        for event, count in step.merged.items():
            everywhere = stage.inputs[event] == "broadcast" and worker != self.placement.places(stage)[0]
            if owner(self.placement.stages, event) == step.stage and not everywhere:
                self.equal[event] += count
        self.counts[worker, step.stage] = _together(self.counts.get((worker, step.stage), ()), step.counts)
        round_ = next(turn for turn in self._under_way if turn.begun == step.stage and worker not in turn.answers)
        round_.answers[worker] = tables
        round_.missing -= 1
        if not round_.missing:
            for place in sorted(round_.answers):
                for name, table in round_.answers[place].items():
                    round_.derived.setdefault(name, []).append(table)
            self._go_on()

    def _go_on(self) -> None:
        stages = self.placement.stages
        before = len(stages)  # the number of stages that the previous round has begun
        for round_ in self._under_way:
            while not round_.missing and round_.begun < before:
                self._begin(round_, stages[round_.begun])
            before = round_.begun

    def _begin(self, round_: _Round, stage: Stage) -> None:
        taken = {name: parts for name, parts in round_.tables.items() if name in stage.outside}
        for name in stage.inputs:
            if name not in stage.outside and name in round_.derived:
                taken[name] = [self._handed_on(round_, name)]
        places = self.placement.places(stage)
        round_.begun, round_.answers, round_.missing = stage.number, {}, len(places)
        step = Step(stage.number, round_.watermark, round_.latest, round_.first)
        dealt = deal_packed(stage, taken, self.schemas, len(places), self.keys)
        for worker, tables in zip(places, dealt, strict=True):
            self.processes.tell(worker, step, tables)

    def _handed_on(self, round_: _Round, name: str) -> pl.DataFrame:
        if name in self.merged and self.lineage:
            return made_one(merged_by_arrival(round_.derived[name]))
        if self.withdrawn is None or name not in self.merged:
            return merged_by_arrival(round_.derived[name])
        if name not in round_.counted:
            round_.counted[name] = self.withdrawn.handed_on(name, merged_by_arrival(round_.derived[name]))
        return round_.counted[name]

    def _for_the_world(self, name: str, parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
        if self.withdrawn is not None:
            merged_rows = self.withdrawn.given(name, in_order(parts), name in self.merged)
        elif name not in self.merged:
            merged_rows = in_order(parts, TIE, ARRIVAL, NUMBER)
        elif self.lineage:
            merged_rows = made_one(in_order(parts)).drop(TIE, ARRIVAL, NUMBER, strict=False)
        else:
            merged_rows = merged_identical([in_order(parts)])
        return as_told(merged_rows, self.lineage) if self.lineage else merged_rows


def _together(before: Sequence[Count], now: Sequence[Count]) -> list[Count]:
    """Add the counters of one stage in one worker to its earlier counters. Sizes of state are replaced, not added."""
    counts = {c.unit: Count(c.unit, c.produced, c.time, 0, 0) for c in before}
    for count in now:
        earlier = counts.get(count.unit)
        row_count, time = (0, 0) if earlier is None else (earlier.produced, earlier.time)
        counts[count.unit] = Count(count.unit, count.produced + row_count, count.time + time, count.rows, count.bytes)
    return list(counts.values())
