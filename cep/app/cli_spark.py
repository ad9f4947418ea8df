"""`cep run --on spark`: start a query on Spark, run it, and log a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cep.app.durations import refuse
from cep.app.run_options import RunOptions
from cep.app.terminal import CLEAN, DEAD_LETTERS, announce_spark
from cep.core.extras import install_command
from cep.core.storage.urls import local_path

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from cep.app.spark_query import JobInputs, JobRequest
    from cep.app.watch import Watch
    from cep.core.logs import Log
    from cep.spark.driver.java_start import JavaStart
    from cep.spark.driver.query import MicroBatch
    from cep.spark.driver.remarks import InputRemarks
    from cep.spark.job import Job
    from cep.spark.source.file_list import FileChanges


@dataclass(frozen=True, slots=True)
class BatchWatcher:
    """A callback for Spark. It passes the report of each micro-batch to `watch`, and logs warnings.

    - `files`: the number of files to read, or None if the input has no end.
    - `remarks`: the collector of warnings about suspicious input.
    - `changes`: the detector of files that have changed since they were listed.
    """

    watch: Watch
    files: int | None
    remarks: InputRemarks
    log: Log
    changes: FileChanges

    def __call__(self, done: MicroBatch) -> None:
        self.watch.batch(done.reports, done.seconds, batch=done.number, phases=done.phases)
        self.watch.show()
        self.tell(self.remarks.take(done.reports))
        self.look()
        if self.files and done.files is not None:
            self.watch.stats.done = min(1.0, done.files / self.files)

    def look(self, last: bool = False) -> None:
        """Log a warning for each file that has changed since it was listed. `last`: True to check the files even if the
        previous check was recent."""
        self.tell(self.changes.take(last))

    def tell(self, remarks: Iterable[str]) -> None:
        """Log remarks about suspicious input as warnings."""
        for remark in remarks:
            self.log("remark", f"warning: {remark}", "warning")


def run_on_spark(options: RunOptions) -> int:
    """Run the query to its end, and return the exit status. Raises CepError if the query cannot start or fails."""
    options = _of_folders(options)
    if options.source.lateness_by is not None:
        options = replace(options, source=options.source.as_they_stand)
    options.checked()  # before anything is loaded, which takes a second
    try:
        from cep.app.spark_mirror import mirrored
        from cep.app.spark_query import JobInputs, JobRequest, claimed
        from cep.spark.driver import session
    except ModuleNotFoundError as error:
        raise refuse(f"Spark is not installed: no module {error.name}", install_command("spark")) from None
    with ExitStack() as java, mirrored(options) as (own, mirror), ExitStack() as locks:
        request = JobRequest.of(own)
        if mirror is not None:
            request = replace(request, mirror=mirror)
        reads = JobInputs.of(request)
        query = claimed(request, reads, locks)
        start = session.beginning(own.spark.master, request.settings, keep=not own.spark.follow)
        java.callback(start.end, own.log)
        return _run(request, reads, query, start)


def _of_folders(options: RunOptions) -> RunOptions:
    """Replace addresses `file:///path` in options by plain paths. Raises CepError if a folder is on another machine."""

    def path(name: str | None) -> str | None:
        return None if name is None else local_path(name)

    spark = replace(options.spark, checkpoint=path(options.spark.checkpoint), compact=path(options.spark.compact))
    source = replace(options.source, dead_letter=path(options.source.dead_letter))
    return replace(
        options, spark=spark, source=source, sink=replace(options.sink, output=local_path(options.sink.output))
    )


def _run(request: JobRequest, reads: JobInputs, query: Job, start: JavaStart) -> int:
    """Run a query and return the exit status. The caller has locked the checkpoint of the query. `start`: the
    parameters with which Java starts."""
    from pathlib import Path

    from cep.app.meter import charts
    from cep.app.spark_query import warm
    from cep.app.watch import Watch
    from cep.connectors.addresses import bare
    from cep.connectors.inputs import passed_over
    from cep.runtime.run_stats import RevisionStats, RunStats
    from cep.spark import job
    from cep.spark.disk import FILES
    from cep.spark.driver import query as queries
    from cep.spark.driver import session
    from cep.spark.driver.remarks import InputRemarks
    from cep.spark.sink import file_sink
    from cep.spark.sink.commit_log import CommitLog
    from cep.spark.sink.compaction import compact
    from cep.spark.sink.forwarding import forwarding
    from cep.spark.source.file_list import FileChanges
    from cep.spark.whole_states import settle_on_spark

    options, output = request.options, Path(query.output)
    written = CommitLog(output)
    earlier = written.totals()
    watch = Watch(
        charts(request.engine.plan, request.program.stages), RunStats(), options.log, 0, request.program.buckets
    )
    endless = options.spark.follow or reads.live
    remarks = InputRemarks(request.engine.inputs, options.spark.open_ended, options.source.lateness_by is not None)
    if request.program.window is not None:
        watch.meter.revision = RevisionStats()
    changes = FileChanges(str(request.checkpoint / FILES))
    watcher = BatchWatcher(watch, None if endless else reads.known + len(reads.files), remarks, options.log, changes)
    watcher.tell(passed_over(request.inputs, request.engine.inputs))
    begins = {
        "program": options.name,
        "inputs": [bare(path) for path in request.inputs],
        "output": bare(options.sink.output) if request.sent else request.named(query.output),
        "checkpoint": request.named(query.checkpoint),
    }

    def waits(text: str) -> None:
        options.log("waiting", text, "warning")

    announce_spark()
    spark = session.start_session(options.spark.master, request.settings, request.checkpoint, waits, start)
    with (
        watch.watching(options.watch.metrics, quiet=False, **begins),
        queries.StopRequest(
            request.checkpoint, lambda: watch.working(*queries.running_tasks(spark))
        ).listening() as stop,
        queries.listening(spark, watcher, watcher.look),
        forwarding(
            request.checkpoint,
            query.mark.removesuffix("-"),
            options.sink.output,
            request.sent_schemas,
            waits,
            lambda: stop.at_once,
            options.spark.follow,
        )
        if request.sent
        else nullcontext() as sends,
    ):
        query = replace(query, forwarding=sends)

        def begin() -> StreamingQuery:
            warm(spark, request, query)
            return job.start(spark, query, options.spark.follow)

        queries.run_query(
            begin,
            stop,
            options.spark.follow,
            lambda: watch.meter.batches,
            options.log,
        )
        if not (query.apart or stop.at_once):
            settle_on_spark(spark, query, lambda text: options.log("log", text, "warning"))
    file_sink.finish_batches(output)
    if query.mirror is not None:
        query.mirror.ship()
    if options.spark.compact is not None:
        compact(output, query.format, request.schemas, Path(options.spark.compact))
    status = _report(watch, written.totals() - earlier, options, stop.signal)
    watcher.look(last=True)
    watcher.tell(remarks.all())
    start.well = not stop.signal
    return status


def _report(watch: Watch, derived: Counter[str], options: RunOptions, signal: int) -> int:
    """Log the results of the run, and return the exit status."""
    from cep.runtime.run_stats import revised_line, revised_numbers

    dead, revision = watch.meter.dead, watch.meter.revision
    numbers: dict[str, object] = {"records": watch.meter.records, "dead": dict(dead)}
    if watch.meter.unmatched:
        numbers["unmatched"] = watch.meter.unmatched
    if watch.meter.merged:
        numbers["equal"] = watch.meter.merged
    if revision is not None:
        derived = derived - watch.meter.withdrawn  # in a changelog, the rows that are added
        numbers["revision"] = revised_numbers(revision)
    closing = _closing(watch.meter.records, watch.meter.unmatched, watch.meter.merged, derived, dead, bool(signal))
    if revision is not None and revision.revisions:
        closing += f", {revised_line(revision)}"
    options.log("stop", closing, signal=signal or None, **numbers, derived=dict(derived))
    if signal:
        return 128 + signal
    return DEAD_LETTERS if options.source.strict and dead else CLEAN


def _closing(
    records: int, unmatched: int, merged: int, derived: Counter[str], dead: Counter[str], stopped: bool
) -> str:
    """Return the last line of the log. Example:

    stopped: 900 records, 12 dead letters (12 late), 120 derived events: storm 100, ...
    """
    from cep.runtime.run_stats import REASONS, count, ranked

    parts = [count(records, "record")]
    if unmatched:
        parts.append(f"{unmatched:,} matching no event")
    if merged:
        parts.append(f"{merged:,} equal to others")
    if dead:
        reasons = ", ".join(f"{number:,} {REASONS.get(code, code)}" for code, number in ranked(dead))
        parts.append(f"{count(dead.total(), 'dead letter')} ({reasons})")
    types = ", ".join(f"{name} {number:,}" for name, number in ranked(derived))
    total = count(derived.total(), "derived event")
    parts.append(f"{total}: {types}" if types else total)
    return ("stopped: " if stopped else "") + ", ".join(parts)
