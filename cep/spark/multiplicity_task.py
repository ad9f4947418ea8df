"""The last job of a micro-batch if results are revised. It adds up how often all buckets and stages derive each row.

The job outputs the rows that appear or disappear. The multiplicities (`Ways`) are the state of the job. They are stored
like the states of engines, in one file for each bucket and version.
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
"""The multiplicities that this worker keeps in memory, each with its version. A key consists of the name of the run,
the number of the job's stage, and the bucket."""


@dataclass(frozen=True, slots=True)
class KeptWays:
    """The multiplicities of rows, by bucket, in memory and in files.

    `run`: the name of this run of the query. `states`: the files that contain the multiplicities. `schemas`: the
    schemas of the written events.
    """

    program: ShippedProgram
    run: str
    states: BucketStates
    schemas: Mapping[str, Schema]

    def of(self, bucket: int, version: int) -> Ways:
        """Return the multiplicities of a bucket at a version. Version 0 contains no rows."""
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
        """Store the current multiplicities of a bucket as version `version`. `batch`: the number of the micro-batch."""
        _, ways = _known[self.run, self.states.stage, bucket]
        self.states.write(bucket, version, ways.snapshot(self.program.program), batch)
        _known[self.run, self.states.stage, bucket] = version, ways


def drop_ways(run: str, number: int, bucket: int) -> None:
    """Drop the multiplicities of a bucket from this worker's memory."""
    _known.pop((run, number, bucket), None)


def forget_others(run: str) -> None:
    """Drop the multiplicities of other runs from this worker's memory."""
    for known in [key for key in _known if key[0] != run]:
        del _known[known]


@dataclass(frozen=True, slots=True)
class WaysWork:
    """A description of the job that adds up multiplicities. The driver sends it to workers.

    `run`: the name of this run of the query. `states`: the files that contain the multiplicities.
    """

    program: ShippedProgram
    run: str
    states: BucketStates

    def step(self, bucket: int, version: int, rows: Iterable[WorldRows], watermark: int, batch: int) -> Stepped:
        """Add the changes in `rows` to the multiplicities of a bucket. Return the rows that appear or disappear.

        Rows of events that need no merging are returned unchanged. `version`: the version of the stored multiplicities.
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
        forget_others(self.run)
        kept = KeptWays(self.program, self.run, self.states, self.program.outputs)
        ways, going, last = kept.of(bucket, version), dict[str, int](), len(self.program.stages) + 1
        for event, event_rows in sorted(mine.items()):
            tables = sorted(event_rows, key=lambda world_rows: world_rows.place)
            table = ways.take(event, stacked([table.table for table in tables]))
            going |= withdrawn({event: table})
            if table.height:
                world.append(WorldRows(bucket, event, last << 32, table))
        if watermark > 0:
            ways.forget(watermark * 1000 - 1 - (self.program.window or 0))
        kept.keep(bucket, version + 1, batch)
        blocks = []
        if going:
            done = RevisionStats(withdrawn=sum(going.values()))
            blocks.append(report_block(Report(stage=last, bucket=bucket, revised=done, withdrawn=going)))
        return Stepped(version + 1, None, blocks, world)
