"""Rules over streaming DataFrames, and ways to start a query that runs them (see `cep.spark.rules.Rules.over`)."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING
from warnings import warn

from cep.connectors.ahead_limits import AheadLimits
from cep.core.errors import CepError
from cep.core.storage.urls import is_url, local_path
from cep.programs import Duration, ticks_of
from cep.spark import disk, resuming
from cep.spark.foreach_batch import Each
from cep.spark.frame_events import Events
from cep.spark.job import Job, start
from cep.spark.parameters import parameters_named
from cep.spark.program import PlannedRules
from cep.spark.sink import file_sink
from cep.spark.source.data_frames import Provided
from cep.spark.stateful_frame import streamed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from cep.core.logs import Level

_PATIENCE = 60.0
"""The number of seconds for which to wait until an earlier query releases its checkpoint."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Rules over streaming DataFrames of a session.

    - `planned`: the rules. `frames`: the DataFrames and the readers of their rows.
    - `idle`: the time without rows after which the watermark advances by the clock, in microseconds. If it is None, the
      watermark never advances by the clock.
    - `buckets`: the number of buckets. If it is None, a query uses the number in its checkpoint. A query with a new
      checkpoint uses the number of tasks that run at once.
    """

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
        migrate: bool = False,
    ) -> StreamingQuery:
        """Start a query that writes derived events to a folder exactly once, like `cep run --on spark`.

        The output files and the checkpoint are the same as those of this command. All workers must share both folders.

        - `format`: parquet or jsonl.
        - `dead_letters`: a folder for rows that are not valid events, as lines of JSON.
        - `every`: the time between two searches for more input.
        - `available_now`: True to process the existing input and end.
        - `migrate`: True to continue a checkpoint of another program. Its unchanged rules keep their state. Warns of
          new rules that may lack results.

        Raises CepError if the checkpoint is in use or does not fit the program, or if a folder is not writable.
        """
        folder = _local(output, "output")
        letters = None if dead_letters is None else str(_local(dead_letters, "dead_letters"))
        return self._started(str(folder), checkpoint, format, letters, every, available_now, migrate, None)

    def each(
        self,
        function: Each,
        *,
        checkpoint: str | Path,
        every: Duration = "1 s",
        available_now: bool = False,
        migrate: bool = False,
    ) -> StreamingQuery:
        """Start a query that calls a function after each micro-batch.

        The arguments of `function` are the output of the micro-batch, `{event: DataFrame}`, and the micro-batch's
        number. If the function raises an error or the run is killed, the next run calls it again with the same number
        and rows. So the function can write its output exactly once. For this, it must identify the output by the number
        (e.g. with `txnVersion` in Delta) or by the rows (e.g. with MERGE).

        The DataFrames exist until the next micro-batch. The output's attribute `dead` contains the rows that are not
        valid events. The other arguments and errors are the same as for `start`.
        """
        place = _local(checkpoint, "checkpoint")
        output, letters = str(place / disk.OUTGOING), str(place / disk.DEAD)
        return self._started(output, checkpoint, "parquet", letters, every, available_now, migrate, function)

    def frame(self, event: str) -> DataFrame:
        """Return a derived event as a streaming DataFrame. Any sink of Spark can write it.

        The state of the rules is in Spark's own stores and checkpoint. If several such DataFrames are started, each of
        them is a separate query. This also works with Spark Connect.

        Raises CepError if there is no such event, if the session does not keep state in RocksDB, or if the rules need
        `start` or `each`, for example because of `revise`.
        """
        return self._streamed()[event]

    def dead_frame(self) -> DataFrame:
        """Return the rows that are not valid events as a streaming DataFrame. It is used like that of `frame`.

        The columns are `event`, `code`, `reason` and `record`.
        """
        return self._streamed().dead

    @parameters_named()
    def _streamed(self) -> Events:
        if self.idle is not None:
            hint = "use `start` or `each`"
            raise CepError("frame: a streaming DataFrame does not support `idle`", hint=hint, code="spark")
        program = replace(self.planned.program, buckets=self.buckets or resuming.BUCKETS)
        return streamed(self.session, program, self.frames, self.planned.lateness or 0)

    @parameters_named()
    def _started(
        self,
        output: str,
        checkpoint: str | Path,
        format: str,
        letters: str | None,
        every: Duration,
        available_now: bool,
        migrate: bool,
        batch_function: Each | None,
    ) -> StreamingQuery:
        folder = _local(checkpoint, "checkpoint")
        if not hasattr(self.session, "sparkContext") or type(self.session).__module__.startswith("pyspark.sql.connect"):
            hint = "use `frame`, which returns a streaming DataFrame that Spark Connect can run"
            raise CepError("Spark Connect cannot run `start` and `each`", hint=hint, code="spark")
        if format not in ("parquet", "jsonl"):
            raise CepError(f"format: `{format}` is not a valid format", hint="use `parquet` or `jsonl`", code="option")
        cores = max(1, self.session.sparkContext.defaultParallelism)
        program = replace(self.planned.program, buckets=resuming.bucket_count(folder, self.buckets, cores))
        query = Job(
            program,
            (),
            output,
            str(folder),
            tuple(program.outputs),
            format,
            lateness=self.planned.lateness,
            closing=False,
            dead_letters=letters,
            every=ticks_of(every, "every"),
            idle=self.idle,
            ahead=AheadLimits(None, None),
            frames=self.frames,
            callback=batch_function,
        )
        locks = ExitStack()
        try:
            engine, unkept = self.planned.engine, [f"`{reader.name}`" for _, reader in self.frames]
            query, moved = resuming.opened(engine, query, locks, migrate=migrate, patience=_PATIENCE)
            query = resuming.taken_over(engine, query, moved, unkept, _warn)
            started = start(self.session, query, follow=not available_now)
        except BaseException:
            locks.close()
            raise
        Thread(target=_let_go, args=(started, locks, Path(output)), name="semcep", daemon=True).start()
        return started


def _warn(event: str, text: str | None, level: Level = "info", /, **fields: object) -> None:
    """Show a message of a migration as a Python warning, if it is a warning."""
    if level == "warning" and text is not None:
        warn(text.removeprefix("warning: "), stacklevel=7)


def _let_go(query: StreamingQuery, locks: ExitStack, output: Path) -> None:
    """Wait until a query has ended. Then finish committed micro-batches, and release the query's checkpoint."""
    with locks:
        with suppress(Exception):  # whoever awaits the query receives the error
            query.awaitTermination()
        with suppress(CepError):  # otherwise, the next run does it
            file_sink.finish_batches(output)


def _local(path: str | Path, option: str) -> Path:
    name = local_path(str(path))
    if is_url(name) or "://" in name:
        hint = "use a folder that is mounted on all machines, e.g. `/dbfs/...` or `/Volumes/...`"
        raise CepError(f"{option}: {path} is not a folder that workers share", hint=hint, code="option")
    return Path(name).absolute()
