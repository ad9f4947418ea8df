"""Process records that may withdraw or replace earlier records, while workers store the existing records.

The main process rejects records that are too late. The worker that has a record's key detects withdrawals of unknown
records. Records of events that no rule reads are not stored, so their withdrawals are never reported as unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter_ns

import numpy as np
import polars as pl

from cep.core.relation import ORDER, rows
from cep.core.schema import ARRIVAL, CHANGE
from cep.runtime.admission import EventBatch
from cep.runtime.change_admission import Pushed, refuse_final, taken
from cep.runtime.encode import RefusedRow
from cep.runtime.parts import EngineParts
from cep.runtime.revision.revision import Revision
from cep.runtime.run_stats import RevisionStats
from cep.workers.packing import Tables
from cep.workers.pushed_tables import as_table, taken_columns
from cep.workers.rounds import Rounds


class ChangingInput:
    """The input of a program that runs in workers, if its records may change later.

    `parts`: the parts of the main process's engine. `revision`: the watermark and statistics of revision; it stores no
    rows.
    """

    def __init__(self, parts: EngineParts, revision: Revision, rounds: Rounds) -> None:
        self._parts, self._revision, self._rounds = parts, revision, rounds
        self._late = False

    def receive(self, batch: EventBatch, in_turn: bool) -> None:
        """Process a pushed batch (see `receive_changes`). If CepError is raised, nothing has changed."""
        parts, revision = self._parts, self._revision
        events = batch if isinstance(batch, Mapping) else list(batch)
        pushed, position = taken(parts, events)
        refuse_final(parts, revision, pushed, events, in_turn)
        parts.position = position
        tables = {}
        for name, coming in pushed.items():
            if not rows(coming.table):
                continue
            parts.buffer.count(*coming.span)
            if isinstance(events, Mapping):
                frame = events[name] if coming.rows is None else events[name][coming.rows]
            else:
                assert coming.rows is not None, "events have their places"
                frame = as_table([events[row] for row in coming.rows.tolist()], parts.plan.schemas[name])
            frame = taken_columns(frame.with_columns(pl.Series(ARRIVAL, coming.table[ORDER])), parts.plan.schemas[name])
            signs = np.ones(frame.height, np.int8) if coming.withdraws is None else np.where(coming.withdraws, -1, 1)
            tables[name] = frame.with_columns(pl.Series(CHANGE, signs, pl.Int8))
        self._refuse(pushed, tables)

    def _refuse(self, pushed: Mapping[str, Pushed], tables: Mapping[str, pl.DataFrame]) -> None:
        """Distribute the tables to workers. Count the late rows, and store the records that workers refuse."""
        stages = self._rounds.placement.stages
        owner = {name: stage.number for stage in reversed(stages) for name in stage.outside}
        refused: dict[str, list[tuple[int, str, str]]] = {}
        for stage, worker, answer in self._rounds.receive(tables):
            for name, late in answer.late.items():
                if late and self._reports(name, owner, stage, worker):
                    self._late = True
                    self._revision.stats += RevisionStats(late=late)
                    self._revision.late_rows[name] += late
            for refusal in answer.refused:
                if self._reports(refusal.table, owner, stage, worker):
                    refused.setdefault(refusal.table, []).append((refusal.order, refusal.code, refusal.reason))
        for name, every in refused.items():
            coming = pushed[name]
            places: dict[int, list[int]] = {}
            for row, order in zip(coming.pushed(np.arange(rows(coming.table))), coming.table[ORDER].tolist()):
                places.setdefault(order, []).append(row)
            dead = [RefusedRow(name, places[order].pop(0), code, reason) for order, code, reason in sorted(every)]
            self._parts.dead += dead

    def _reports(self, name: str, owner: Mapping[str, int], stage: int, worker: int) -> bool:
        """Return True if this worker reports on the table `name`. Several stages and workers may receive the same row,
        but only one of them reports on it."""
        route = self._rounds.placement.stages[stage - 1].inputs[name]
        return owner.get(name) == stage and (route != "broadcast" or worker == 0)

    def learnt(self, first: int) -> None:
        """Record that the knowledge has changed from the time `first` on."""
        self._late |= first <= self._revision.watermark

    def step(self, watermark: int) -> Tables:
        """Advance to a watermark, and return the new results. They include corrections after late changes."""
        revision, rounds, buffer = self._revision, self._rounds, self._parts.buffer
        began, replayed = perf_counter_ns(), rounds.keys_replayed
        revision.watermark = buffer.watermark = max(watermark, revision.watermark)
        rounds.begin({}, revision.watermark, buffer.first, buffer.latest)
        (derived,) = rounds.finished(0)
        if self._late:
            seconds, keys = (perf_counter_ns() - began) / 1e9, rounds.keys_replayed - replayed
            revision.stats += RevisionStats(revisions=1, keys_replayed=keys, seconds=seconds)
            self._late = False
        if rounds.withdrawn is not None:
            withdrawn = sum(int((table[CHANGE] < 0).sum()) for table in derived.values())
            revision.stats += RevisionStats(withdrawn=withdrawn)
            rounds.withdrawn.forget(revision.stable)
        return derived

    # --- state ---

    def times(self) -> dict[str, object]:
        """Return the times up to which results may still change, in the form that a snapshot stores."""
        return {"length": self._revision.length, "floor": self._revision.floor}

    def restore(self, watermark: int, times: Mapping[str, int]) -> None:
        """Continue at a watermark, with the `times` of a snapshot.

        Results that were final in the snapshot stay final, even if the snapshot's revision window is shorter than the
        present one.
        """
        revision, length = self._revision, times["length"]
        revision.watermark, revision.floor = watermark, times["floor"]
        if length != revision.length:
            revision.floor = max(revision.floor, watermark - length)
