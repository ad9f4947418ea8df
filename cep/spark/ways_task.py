"""The last operator of a query that revises: of what several buckets and stages make it hands on what is there in some
way, and is no more.

Its state is that of `Ways`: a file for each bucket and version, as engines have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import Row

from cep.core.schema import Schema
from cep.runtime.buckets import stacked
from cep.runtime.report import Report
from cep.runtime.revision.revision_stats import RevisionStats
from cep.spark.bucket_store import BucketStore, micro_batch
from cep.spark.program import ShippedProgram
from cep.spark.shuffle_blocks import (
    WORLD,
    ShuffleBlock,
    bucket_keys,
    buckets_by_key,
    report_block,
    world_block,
)
from cep.spark.state.bucket_states import BucketStates
from cep.spark.ways import Ways, withdrawn
from connectors.arrow_bytes import unpack

_known: dict[tuple[str, int, int], tuple[int, Ways]] = {}
"""By run, number of the operator and bucket: version and ways."""


@dataclass(frozen=True, slots=True)
class KeptWays:
    """The ways of the buckets of an operator. `run`: a name of this run of the query; `states`: their files; `schemas`:
    of the events."""

    program: ShippedProgram
    run: str
    states: BucketStates
    schemas: Mapping[str, Schema]

    def of(self, bucket: int, version: int) -> Ways:
        """Those of a bucket as they are in a version of it; 0: there are none yet."""
        known, ways = _known.get((self.run, self.states.stage, bucket), (-1, Ways(self.schemas)))
        if known != version:
            ways = Ways(self.schemas)
            if version:
                made, program = ways, self.program.program
                ways = self.states.opened(
                    bucket, version, lambda state, has: made.restore(state, has.names, has.fetch, program)
                )
        _known[self.run, self.states.stage, bucket] = -1, ways  # until the version is kept
        return ways

    def keep(self, bucket: int, version: int, batch: int) -> None:
        """Write them as a version, made in the micro-batch of this number."""
        _, ways = _known[self.run, self.states.stage, bucket]
        self.states.write(bucket, version, ways.snapshot(self.program.program), batch)
        _known[self.run, self.states.stage, bucket] = version, ways


def forget_others(run: str) -> None:
    """Drop what workers keep of runs that have ended."""
    for known in [each for each in _known if each[0] != run]:
        del _known[known]


@dataclass(frozen=True, slots=True)
class WaysWork:
    """The work of the last operator. `run`: a name of this run of the query; `states`: its own."""

    program: ShippedProgram
    run: str
    states: BucketStates

    def task(self, store: BucketStore) -> WaysTask:
        """It in a worker."""
        return WaysTask(self, store)


class WaysTask:
    """A task's buckets."""

    def __init__(self, work: WaysWork, store: BucketStore) -> None:
        self.program, self.store, self.bucket_of_key = work.program, store, buckets_by_key(work.program.buckets)
        self.ways = KeptWays(work.program, work.run, work.states, work.program.outputs)
        forget_others(work.run)

    def take(self, key: int, rows: Iterable[Row], watermark: int) -> Iterator[Row]:
        """The rows of a bucket, named by its key; those of other events go on."""
        mine: dict[str, list[Row]] = {}
        for row in rows:
            if row.stage == WORLD and row.event in self.program.merged:
                mine.setdefault(row.event, []).append(row)
            else:
                yield row
        if not mine:
            return
        version, bucket, going = self.store.version(), self.bucket_of_key[key], dict[str, int]()
        ways = self.ways.of(bucket, version)
        for event, found in sorted(mine.items()):
            blocks = sorted(found, key=lambda row: row.place)
            table = ways.take(event, stacked([unpack(bytes(row.rows)) for row in blocks]))
            going |= withdrawn({event: table})
            if table.height:
                yield row_of(world_block(self.program, key, event, table))
        if watermark > 0:
            ways.forget(watermark * 1000 - 1 - (self.program.window or 0))
        self.ways.keep(bucket, version + 1, micro_batch())
        self.store.keep(version + 1)
        if going:
            done = RevisionStats(withdrawn=sum(going.values()))
            report = Report(stage=len(self.program.stages) + 1, bucket=bucket, revised=done, withdrawn=going)
            yield row_of(report_block(report, bucket_keys(1)[0]))

    def call(self, key: int, watermark: int) -> Iterator[Row]:
        """Time alone does nothing here."""
        return iter(())


def row_of(block: ShuffleBlock) -> Row:
    """A block as Spark takes it."""
    return Row(
        stage=block.stage, key=block.key, event=block.event, place=block.place, source=block.source, rows=block.rows
    )
