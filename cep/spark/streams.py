"""Rules over streaming DataFrames: what a query is started with (`cep.spark.rules.Rules.over`)."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from cep.connectors.ahead_limits import AheadLimits
from cep.core.errors import CepError
from cep.core.storage.urls import is_url, local_path
from cep.programs import Duration, ticks_of
from cep.spark import disk, resuming
from cep.spark.foreach_batch import Each
from cep.spark.frame_events import Events
from cep.spark.job import Job, start
from cep.spark.program import PlannedRules
from cep.spark.sink import file_sink
from cep.spark.source.data_frames import Provided
from cep.spark.stateful_frame import streamed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_PATIENCE = 60.0
"""Seconds that a query of before may take to let go of its checkpoint."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Rules over streaming DataFrames of a session. `lateness` and `idle` in microseconds; `buckets`: None, as many as
    tasks run at once."""

    session: SparkSession
    planned: PlannedRules
    frames: tuple[Provided, ...]
    idle: int | None
    buckets: int | None

    def start(
        self,
        *,
        output: str | Path,
        checkpoint: str | Path,
        format: str = "parquet",
        dead_letters: str | Path | None = None,
        every: Duration = "1 s",
        available_now: bool = False,
    ) -> StreamingQuery:
        """Start a query that writes derived events to a folder, exactly once: as `cep run --on spark` does, with the
        same files and the same checkpoint.

        `format`: parquet or jsonl. `dead_letters`: a folder for the rows that became no event, as lines of JSON.
        `every`: the time between two looks for more; `available_now`: take what is there, and end. The folders are
        shared by all workers. CepError: the checkpoint is in use, or is of another program; or a folder cannot be
        written.
        """
        folder = _local(output, "output")
        letters = None if dead_letters is None else str(_local(dead_letters, "dead_letters"))
        return self._started(str(folder), checkpoint, format, letters, every, available_now, None)

    def each(
        self,
        function: Each,
        *,
        checkpoint: str | Path,
        every: Duration = "1 s",
        available_now: bool = False,
    ) -> StreamingQuery:
        """Start a query that calls a function with what each micro-batch derives, `{event: DataFrame}`, and the number
        of the micro-batch.

        Where the function raises, or the run is killed meanwhile, the next run calls it again, with the same number
        and the same rows: so what is keyed by the number, as `txnVersion` of Delta is, or by the rows, as by MERGE, is
        written exactly once. The DataFrames are there until the next micro-batch. `dead` of the events has the rows
        that became none. The other arguments, and CepError: as of `start`.
        """
        place = _local(checkpoint, "checkpoint")
        letters = str(place / disk.DEAD)
        return self._started(str(place / disk.OUTGOING), checkpoint, "parquet", letters, every, available_now, function)

    def frame(self, event: str) -> DataFrame:
        """A derived event as a streaming DataFrame, to be written with any sink of Spark.

        Its state is in the stores of Spark and its own checkpoint, not in ours; each such DataFrame that is started is
        a query of its own. It is the way for Spark Connect. CepError: there is no such event; the session keeps state
        in another store than RocksDB; or the rules need `start` or `each`, as `revise` does.
        """
        return self._streamed()[event]

    def dead_frame(self) -> DataFrame:
        """The rows that become no event, likewise: `event`, `code`, `reason` and `record`."""
        return self._streamed().dead

    def _streamed(self) -> Events:
        if self.idle is not None:
            hint = "`start` or `each`"
            raise CepError("frame: `idle` needs the plain jobs", hint=hint, code="spark")
        program = replace(self.planned.program, buckets=self.buckets or resuming.BUCKETS)
        return streamed(self.session, program, self.frames, self.planned.lateness or 0)

    def _started(
        self,
        output: str,
        checkpoint: str | Path,
        format: str,
        letters: str | None,
        every: Duration,
        available_now: bool,
        each: Each | None,
    ) -> StreamingQuery:
        folder = _local(checkpoint, "checkpoint")
        if not hasattr(self.session, "sparkContext") or type(self.session).__module__.startswith("pyspark.sql.connect"):
            hint = "`frame` gives a streaming DataFrame, which Spark Connect can run"
            raise CepError("Spark Connect cannot run the plain jobs of `start` and `each`", hint=hint, code="spark")
        if format not in ("parquet", "jsonl"):
            raise CepError(f"format: `{format}` is none", hint="parquet or jsonl", code="option")
        cores = max(1, self.session.sparkContext.defaultParallelism)
        program = replace(self.planned.program, buckets=resuming.bucket_count(folder, self.buckets, cores))
        query = Job(
            program,
            (),
            output,
            str(folder),
            tuple(program.outputs),
            self.planned.lateness,
            format,
            closing=False,
            dead_letters=letters,
            every=ticks_of(every, "every"),
            idle=self.idle,
            ahead=AheadLimits(None, None),
            frames=self.frames,
            each=each,
        )
        locks = ExitStack()
        try:
            query, _ = resuming.opened(self.planned.engine, query, locks, migratable=False, patience=_PATIENCE)
            started = start(self.session, query, follow=not available_now)
        except BaseException:
            locks.close()
            raise
        Thread(target=_let_go, args=(started, locks, Path(output)), name="semcep", daemon=True).start()
        return started


def _let_go(query: StreamingQuery, locks: ExitStack, output: Path) -> None:
    """When a query has ended, finish what counts, and let go of its checkpoint."""
    with locks:
        with suppress(Exception):  # who awaits the query is told why it failed
            query.awaitTermination()
        with suppress(CepError):  # the next run does it
            file_sink.finish_batches(output)


def _local(path: str | Path, option: str) -> Path:
    """A folder that this machine and all workers share. CepError: it is none."""
    name = local_path(str(path))
    if is_url(name) or "://" in name:
        hint = "a folder that is mounted on all machines, e.g. `/dbfs/...` or `/Volumes/...`"
        raise CepError(f"{option}: {path} is not a folder that workers share", hint=hint, code="option")
    return Path(name).absolute()
