"""The last job of a micro-batch with revision. It adds up the multiplicities of rows from several buckets and stages.

It passes on the rows that appear or disappear. Its state (`Ways`) is stored like the states of engines, in a file per
bucket and version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cep.core.schema import Schema
from cep.runtime.buckets import stacked
from cep.runtime.report import Report
from cep.runtime.run_stats import RevisionStats
from cep.spark.program import ShippedProgram
from cep.spark.shuffle_blocks import Stepped, WorldRows, report_block
from cep.spark.state.bucket_states import BucketStates
from cep.workers.multiplicities import Ways, withdrawn

_known: dict[tuple[str, int, int], tuple[int, Ways]] = {}
"""The versions and multiplicities that this worker keeps, by run, number of the operator, and bucket."""


@dataclass(frozen=True, slots=True)
class KeptWays:
    """The stored multiplicities of the job's buckets.

    `run`: the name of this run of the query. `states`: their files. `schemas`: the schemas of the events.
    """

    program: ShippedProgram
    run: str
    states: BucketStates
    schemas: Mapping[str, Schema]

    def of(self, bucket: int, version: int) -> Ways:
        """Return the multiplicities of a bucket at a version. Version 0 is empty."""
        known, ways = _known.get((self.run, self.states.stage, bucket), (-1, Ways(self.schemas)))
        if known != version:
            ways = Ways(self.schemas)
            if version:
                restored, program = ways, self.program.program
                ways = self.states.opened(
                    bucket, version, lambda state, has: restored.restore(state, has.names, has.fetch, program)
                )
        _known[self.run, self.states.stage, bucket] = -1, ways  # -1 until `keep` stores a version
        return ways

    def keep(self, bucket: int, version: int, batch: int) -> None:
        """Store the multiplicities of a bucket as a version. `batch`: the number of the micro-batch."""
        _, ways = _known[self.run, self.states.stage, bucket]
        self.states.write(bucket, version, ways.snapshot(self.program.program), batch)
        _known[self.run, self.states.stage, bucket] = version, ways


def drop_ways(run: str, number: int, bucket: int) -> None:
    """Drop the multiplicities that this worker keeps of a bucket."""
    _known.pop((run, number, bucket), None)


def forget_others(run: str) -> None:
    """Drop the multiplicities that this worker keeps of other runs."""
    for known in [key for key in _known if key[0] != run]:
        del _known[known]


@dataclass(frozen=True, slots=True)
class WaysWork:
    """The work of the job. `run`: the name of this run of the query. `states`: the files of its states."""

    program: ShippedProgram
    run: str
    states: BucketStates

    def task(self) -> WaysTask:
        """Return the task, in a worker."""
        return WaysTask(self)


class WaysTask:
    """A task that steps some buckets."""

    def __init__(self, work: WaysWork) -> None:
        self.program = work.program
        self.ways = KeptWays(work.program, work.run, work.states, work.program.outputs)
        forget_others(work.run)

    def step(self, bucket: int, version: int, rows: Iterable[WorldRows], watermark: int, batch: int) -> Stepped:
        """Step a bucket, whose state has this version, with its rows. Rows of events that need no merging are passed
        on.

        `batch`: the number of the micro-batch.
        """
        mine: dict[str, list[WorldRows]] = {}
        world: list[WorldRows] = []
        for row in rows:
            if row.event in self.program.merged:
                mine.setdefault(row.event, []).append(row)
            else:
                world.append(row)
        if not mine:
            return Stepped(version, None, [], world)
        ways, going, last = self.ways.of(bucket, version), dict[str, int](), len(self.program.stages) + 1
        for event, event_rows in sorted(mine.items()):
            tables = sorted(event_rows, key=lambda world_rows: world_rows.place)
            table = ways.take(event, stacked([table.table for table in tables]))
            going |= withdrawn({event: table})
            if table.height:
                world.append(WorldRows(bucket, event, last << 32, table))
        if watermark > 0:
            ways.forget(watermark * 1000 - 1 - (self.program.window or 0))
        self.ways.keep(bucket, version + 1, batch)
        blocks = []
        if going:
            done = RevisionStats(withdrawn=sum(going.values()))
            blocks.append(report_block(Report(stage=last, bucket=bucket, revised=done, withdrawn=going)))
        return Stepped(version + 1, None, blocks, world)
