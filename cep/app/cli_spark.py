"""`cep run --on spark`: what the options mean there, and the run from its start to what is told at its end."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from cep.app.cli_help import SPARK
from cep.app.durations import refuse
from cep.app.run_options import RunOptions
from cep.app.terminal import CLEAN, DEAD_LETTERS

if TYPE_CHECKING:
    from cep.app.spark_query import JobRequest, Reads
    from cep.app.watch import Watch
    from cep.spark.driver.listener import MicroBatch
    from cep.spark.job import Job

Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        show_default=False,
        rich_help_panel=SPARK,
        help="The cluster, by default that of spark-submit, else `local[*]`.",
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER", show_default=False, rich_help_panel=SPARK, help="Where the state is kept, to go on from."
    ),
]
Once = Annotated[
    bool,
    typer.Option(
        "--once", rich_help_panel=SPARK, help="Take what there is, and leave open what is open, for the next time."
    ),
]
Follow = Annotated[
    bool, typer.Option("--follow", rich_help_panel=SPARK, help="Wait for more files, until Ctrl-C or SIGTERM.")
]
Every = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        show_default=False,
        rich_help_panel=SPARK,
        help="With --follow, from one micro-batch to the next, at least: 10s. By default 1s.",
    ),
]
Keep = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        show_default=False,
        rich_help_panel=SPARK,
        help="How long derived events stay in --output after their end, by the time of the events: 30d. By "
        "default for good.",
    ),
]
Buckets = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, show_default=False, rich_help_panel=SPARK, help="How many buckets keys have (16)."
    ),
]
Migrate = Annotated[
    bool,
    typer.Option(
        "--migrate", rich_help_panel=SPARK, help="The rules have changed: go on with what the unchanged ones remember."
    ),
]
FilesEach = Annotated[
    int | None,
    typer.Option(
        "--files",
        metavar="N",
        min=1,
        show_default=False,
        rich_help_panel=SPARK,
        help="Files of a micro-batch, at most.",
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE", show_default=False, rich_help_panel=SPARK, help="A setting of the session. Repeatable."
    ),
]
Packages = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES",
        show_default=False,
        rich_help_panel=SPARK,
        help="Jars by their Maven names, as spark-submit takes them; with its connector for Kafka, topics are "
        "read through that. Repeatable.",
    ),
]


@dataclass(frozen=True, slots=True)
class Looking:
    """Shows each micro-batch to those who look. `files`: how many there are to read, None: it has no end."""

    watch: Watch
    files: int | None

    def __call__(self, done: MicroBatch) -> None:
        self.watch.batch(done.reports, done.seconds, batch=done.number, phases=done.phases, store_bytes=done.stored)
        self.watch.tell()
        if self.files and done.files is not None:
            self.watch.tally.done = min(1.0, done.files / self.files)


def run(wish: RunOptions) -> int:
    """Run the query to its end; the exit status. CepError: it cannot begin, or has failed."""
    wish.checked()  # before anything is loaded, which takes a second
    try:
        from cep.app.spark_query import JobRequest, Reads, claimed
    except ModuleNotFoundError as error:
        raise refuse(f"Spark is not installed: no module {error.name}", "pip install 'semcep[spark]'") from None
    with ExitStack() as held:
        asked = JobRequest.of(wish)
        reads = Reads.of(asked)
        return _run(asked, reads, claimed(asked, reads, held))


def _run(asked: JobRequest, reads: Reads, query: Job) -> int:
    """Likewise, with a checkpoint that is this run's."""
    from pathlib import Path

    from cep.app.meter import charts
    from cep.app.watch import Watch
    from cep.runtime.run_stats import RunStats
    from cep.spark import job
    from cep.spark.driver import listener, running, startup
    from cep.spark.sink import output_folder
    from cep.spark.sink.commit_log import CommitLog
    from cep.spark.sink.relay import relaying
    from cep.spark.source import kafka_connector
    from connectors.addresses import bare

    wish, output = asked.wish, Path(query.output)
    written = CommitLog(output)
    earlier = written.totals()
    watch = Watch(charts(asked.engine.plan, asked.program.stages), RunStats(), wish.log, 0)
    endless = wish.follow or reads.live or reads.beside
    looking = Looking(watch, None if endless else reads.known + len(reads.files))
    begins = {
        "program": str(wish.rules),
        "inputs": [bare(one) for one in asked.inputs],
        "output": bare(wish.output) if asked.sent else query.output,
        "checkpoint": query.checkpoint,
    }

    def waits(told: str) -> None:
        wish.log("waiting", told, "warning")

    spark = startup.started(wish.master, asked.settings, asked.checkpoint, waits)
    if reads.beside:
        kafka_connector.check_installed(spark)
    kafka_connector.note_topics(asked.checkpoint, reads.beside)
    with (
        watch.looking(wish.metrics, quiet=False, **begins),
        running.StopRequest(asked.checkpoint, bool(reads.beside)).listening() as stop,
        listener.listening(spark, looking),
        relaying(asked.checkpoint, wish.output, asked.schemas, waits) if asked.sent else nullcontext(),
    ):
        running.run(
            lambda: job.start(spark, query, wish.follow), stop, wish.follow, lambda: watch.meter.batches, wish.log
        )
    output_folder.sweep(output)
    return _told(watch, written.totals() - earlier, wish, stop.signal)


def _told(watch: Watch, derived: Counter[str], wish: RunOptions, signal: int) -> int:
    """Tell what the run has done; its exit status."""
    dead = watch.meter.dead
    numbers = {"records": watch.meter.records, "dead": dict(dead), "derived": dict(derived)}
    wish.log("stop", _closing(watch.meter.records, derived, dead, bool(signal)), signal=signal or None, **numbers)
    if signal:
        return 128 + signal
    return DEAD_LETTERS if wish.strict and dead else CLEAN


def _closing(records: int, derived: Counter[str], dead: Counter[str], stopped: bool) -> str:
    """`stopped: 900 records, 12 dead letters (12 late), 120 derived events: storm 100, ...`."""
    from cep.runtime.run_stats import REASONS, count, ranked

    parts = [count(records, "record")]
    if dead:
        reasons = ", ".join(f"{number:,} {REASONS.get(code, code)}" for code, number in ranked(dead))
        parts.append(f"{count(dead.total(), 'dead letter')} ({reasons})")
    types = ", ".join(f"{name} {number:,}" for name, number in ranked(derived))
    told = count(derived.total(), "derived event")
    parts.append(f"{told}: {types}" if types else told)
    return ("stopped: " if stopped else "") + ", ".join(parts)
