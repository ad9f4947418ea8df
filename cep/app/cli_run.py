"""The command `cep run`: read records and write derived events, in this process or on Spark."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

from cep.app import cli_spark
from cep.app.answer_modes import ALL, INTERVALS, NEW
from cep.app.command_line import takes
from cep.app.opening import ProgramSource, open_batches
from cep.app.run_options import RunOptions
from cep.app.terminal import (
    CLEAN,
    DEAD_LETTERS,
    announce_compiling,
    source_log,
    warn,
    warnings_of,
)
from cep.core.logs import objects
from cep.core.signals import stops

if TYPE_CHECKING:
    from polars import DataFrame

    from cep.app.answer_rows import AnswerRows
    from cep.app.conflicts import OutputGuard
    from cep.app.knowledge_updates import KnowledgeUpdates
    from cep.connectors.dead_letters import DeadLetters
    from cep.connectors.inputs import Input
    from cep.connectors.rdf.writer import RdfWriter
    from cep.connectors.records.batch import Batch
    from cep.connectors.writing.table_writer import TableWriter
    from cep.connectors.writing.writers import Writer
    from cep.core.schema import Schema
    from cep.engine import Engine
    from cep.runtime.run_stats import RunStats
    from cep.workers.partitioned_engine import PartitionedEngine


AHEAD = 3
"""The greatest number of batches that workers may still be processing when the next batch is read from files."""


@takes(RunOptions)
def run(options: RunOptions, guard: OutputGuard) -> int:
    """Run a program over records and write the events it derives.

    \b
      cep run rules.cep --input reading=weather.csv --dead-letter dead.jsonl
      cep run rules.cep --input 'days/*.parquet' --output storms.csv --only storm
      tail -f events.jsonl | cep run rules.cep --input - --lateness 10min
      cep run rules.cep --input events.jsonl --facts linked=links.csv --explain
      cep run rules.cep --input events.jsonl --knowledge stations.ttl
      cep run rules.cep policies.lars --input events.jsonl
      cep run rules.cep --on spark --input days --output out --checkpoint state

    Ctrl-C ends the run after the batch at hand. The exit status is 0; 1 if there were dead letters and --strict
    is given; 2 if the program, an option or an input is wrong; 3 if a query on Spark fails;
    130 after Ctrl-C, 143 after SIGTERM.
    """
    return cli_spark.run_on_spark(options) if options.on_spark else _here(options, guard)


def _here(options: RunOptions, guard: OutputGuard) -> int:
    """Run the program in this process, and return the exit status."""
    from cep.app.meter import charts
    from cep.app.pipeline import Interrupt, added, flow
    from cep.app.watch import Watch
    from cep.connectors.addresses import bare
    from cep.connectors.dead_letters import DeadLetters
    from cep.connectors.inputs import passed_over
    from cep.connectors.records.revised import RowVersions, cut, worded
    from cep.connectors.records.times import ISO
    from cep.connectors.writing.table_writer import TableWriter
    from cep.connectors.writing.time_format import form
    from cep.connectors.writing.writers import Writer
    from cep.runtime.maximal_intervals import clipped
    from cep.runtime.run_stats import RunStats

    source = _sourced(options)
    if _done(options):
        return CLEAN
    engine, stretch = source.engine, source.stretch
    stats, interrupt = RunStats(began=stops.began or perf_counter()), Interrupt()
    warn(warnings_of(engine, options.name, options.knowledge.predicates), options.rules, options.log)
    dead_letters = DeadLetters(options.source.dead_letter)
    watch = Watch(charts(engine.plan), stats, options.log, partitions=options.evaluation.workers)
    begins = {"program": options.name, "inputs": [bare(path) for path in options.source.inputs]}
    with (
        interrupt.listening(),  # also while files are closed
        dead_letters,
        _stopping(engine),
        _writer(options, source, guard) as writer,
        _compiling(options),  # outputs that cannot be written were refused earlier
        watch.watching(options.watch.metrics, options.sink.output == "-" and sys.stdout.isatty(), **begins),
    ):
        times = interrupt.next(form(source.inputs, engine.inputs) for _ in range(1))  # a line may have gigabytes
        writer.times = times or ISO
        if isinstance(writer, Writer) and source.dealt is not None:
            writer.write_beside()
            if times is not None and source.rows is None and stretch == (None, None) and writer.of_rows is not None:
                source.dealt.write_rows(source.shown, writer.of_rows, writer.times)

        told = set[str]()

        def tell(remarks: Iterable[str]) -> None:
            for remark in remarks:
                if remark not in told:
                    told.add(remark)
                    options.log("remark", f"warning: {remark}", "warning")

        tell(passed_over(options.source.inputs, engine.inputs))
        schemas, versions = engine.outputs, RowVersions()
        meanings = engine.meanings() if engine.withdraws else {}

        def take(batch: Batch | None, tables: dict[str, DataFrame]) -> None:
            nonlocal times
            tell(stats.remarks)  # a run on a pipe may have no end
            if times is None and batch is not None and not any(writer.counts.values()):  # as for live input
                times = batch.times
                writer.times = times or ISO
            if engine.withdraws:
                changes = cut(tables, schemas, *stretch, meanings)
                stats.written = (stats.written or Counter()) + added(
                    {n: t for n, t in changes.items() if n in source.shown}
                )
                writer.write(worded(versions.numbered(changes, engine.stable)))
            elif source.rows is not None:
                source.rows.see({} if batch is None else batch.tables)
                writer.write(source.rows.take(tables, engine.watermark, source.rows.tick - 1))
            else:
                writer.write(clipped(tables, schemas, *stretch))

        files = [source.path for source in source.inputs if source.address is None]
        observed = watch if options.watch.metrics is not None or options.log is objects else None
        flow(engine, source.batches, stats, take, dead_letters, interrupt, observed, source.changes)
        if isinstance(writer, TableWriter) and interrupt.signal:
            writer.whole = False
        stats.revision = engine.revision_stats
        stats.empty = [] if interrupt.signal else [name for name in files if name not in stats.with_records]
        if not engine.withdraws:
            stats.written = Counter({type: number for type, number in writer.counts.items() if number})
    closing_line = ("stopped: " if interrupt.signal else "") + stats.closing()
    options.log("stop", closing_line, signal=interrupt.signal or None, **stats.numbers())
    tell((*stats.remarks, *_without_answer(options, stats)))
    if options.source.dead_letter is None:
        _first_dead(options, dead_letters)
    if interrupt.signal:
        return 128 + interrupt.signal
    return DEAD_LETTERS if options.source.strict and stats.dead else CLEAN


def _named_twice(sources: Sequence[Input]) -> list[str]:
    known: set[tuple[str, str | None]] = set()
    twice: dict[str, None] = {}
    for source in sources:
        place = source.path if source.address is not None or source.path == "-" else os.path.realpath(source.path)
        if (place, source.type) in known:
            twice[source.path] = None
        known.add((place, source.type))
    return list(twice)


def _without_answer(options: RunOptions, stats: RunStats) -> list[str]:
    from cep.core.fluents import INCONSISTENT

    if options.dialect.models == "all" or not stats.derived[INCONSISTENT]:
        return []
    why = "`cep explain --not ATOM --at TICK` says why"
    return [f"at some ticks the rules have no answer, so nothing holds: `{INCONSISTENT}` says at which, {why}"]


@dataclass(frozen=True, slots=True)
class _Sourced:
    """A compiled program and its opened input.

    - `shown`: the schemas of the events that are written.
    - `derived`: the same schemas with further columns for changes.
    - `stretch`: the first and the last time of the output.
    - `rows`: the converter from changes to answers, or None if the output mode needs no conversion.
    - `dealt`: the engine, if it runs in several workers. Otherwise None.
    """

    engine: Engine
    shown: Mapping[str, Schema]
    derived: Mapping[str, Schema]
    batches: Iterator[Batch]
    changes: KnowledgeUpdates
    inputs: Sequence[Input]
    stretch: tuple[int | None, int | None]
    rows: AnswerRows | None = None
    dealt: PartitionedEngine | None = None


def _done(options: RunOptions) -> bool:
    """Return True if the output is a table to which an earlier run has already appended the output of this run.

    Raises CepError if the output is not valid.
    """
    from cep.connectors.tables.names import is_table

    if not is_table(options.sink.output):
        return False
    from cep.connectors.writing.table_writer import is_added

    if not is_added(options.sink.output):
        return False
    options.log(
        "added",
        f"{options.sink.output}: an earlier run has already added these rows, so there is nothing to do",
        "info",
    )
    return True


@contextmanager
def _stopping(engine: Engine) -> Iterator[None]:
    try:
        yield
    finally:
        engine.stop()


@contextmanager
def _compiling(options: RunOptions) -> Iterator[None]:
    announce_compiling(options.log)
    yield


def _sourced(options: RunOptions) -> _Sourced:
    """Compile the program and open its input, without reading it. Raises CepError if an option is wrong."""
    from cep.app.durations import duration, idle_seconds, refuse, selected
    from cep.app.knowledge_updates import is_stream, knowledge_updates
    from cep.connectors.brokers.sending import is_topic
    from cep.connectors.brokers.sources import Sources
    from cep.connectors.files import sizes
    from cep.connectors.inputs import inputs as find
    from cep.connectors.records.revised import as_written, changes_of, with_changes
    from cep.connectors.writing.sinks import put_at_end
    from cep.connectors.writing.time_format import number_size
    from cep.engine import Engine
    from cep.plan.event_schemas import inputs_of

    strict_types = options.source.strict_types
    policy, parameters = options.evaluation.policy, options.parameters
    source = ProgramSource.read(
        options.rules, options.knowledge, policy, options.dialect, parameters, strict_types,
        options.evaluation.distinct, fetching=True,
    )  # fmt: skip
    program = source.compiled()
    if not options.source.inputs:
        raise refuse("there is no --input", "name a file, or `--input -` for standard input")
    schemas = inputs_of(program.plan)
    sources = find(options.source.inputs, schemas, options.source.format)
    since, until = options.sink.stretch(number_size(sources, schemas))
    running = replace(
        options.evaluation.engine,
        lateness=duration(options.source.lateness or "0", "--lateness"),
        lateness_by=options.source.lateness_by,
        explain=options.sink.explain,
        changes=options.output_mode != INTERVALS,
        start=since,
        until=until,
        revise=options.revised,
        final=options.sink.final,
    )
    workers = options.evaluation.workers

    def tell(text: str) -> None:
        options.log("remark", f"warning: --workers: {text}", "warning")

    engine, dealt = None, None
    if workers != 1:
        from cep.workers.partitioned_engine import PartitionedEngine, dealt_engine

        engine = dealt_engine(program, running, workers, tell)
        dealt = engine if isinstance(engine, PartitionedEngine) else None
    engine = engine or Engine(program, running)
    engine.refuse_boundless(since, until)
    derived = shown = selected(engine.outputs, options.sink.only)
    if options.sink.asks_changes and not any(schema.fluent for schema in derived.values()):
        options.log(
            "remark",
            "warning: --changes has no effect: the program writes no fluent, and events have no beginnings and ends",
            "warning",
        )
    rows = None
    if options.output_mode in (ALL, NEW):
        from cep.app.answer_rows import AnswerRows
        from cep.core.literals import SECOND

        rows = AnswerRows(shown, options.output_mode, options.sink.output_every, options.dialect.ticks or SECOND)
        derived = rows.outputs
    if engine.withdraws:
        derived = as_written(derived, versions=is_topic(options.sink.output))
    for path in _named_twice(sources):
        options.log("remark", f"warning: {path} is named twice, so semcep reads its records twice", "warning")
    if any(source.address is not None for source in sources):
        engine.refuse_endless("a live input")
    if put_at_end(options.sink.output):
        from cep.connectors.brokers.live import acknowledged

        for endless in filter(acknowledged, sources):
            hint = "use a local file or a topic, which semcep writes during the run, or a folder with `--on spark`"
            raise refuse(
                f"--output {options.sink.output}: semcep writes it when the input ends, but {endless.path} never ends",
                hint,
            )
        options.log("output", f"{options.sink.output} is written whole, when the run ends", "info")
    live = [name for name in options.knowledge.updates if is_stream(name)]
    if [*live, *(source.path for source in sources)].count("-") > 1:
        raise refuse("standard input is named twice", "use it for events or for changes of the knowledge, not for both")
    stored = all(size is not None for size in sizes(sources)) and not live
    silence = None if options.source.idle is None else idle_seconds(options.source.idle, stored)
    if stored and rows is None:
        engine.run_ahead(AHEAD)
    changes = knowledge_updates(engine, options.knowledge.updates, silence)
    lost = Sources(source_log(options.log), ahead=options.source.ahead_limits)
    read = options.source
    if engine.revises:
        schemas = with_changes(schemas)
    if read.revise is not None or read.lateness_by is not None:
        read = read.as_they_stand
    readers = None if dealt is None else dealt.readers
    batches = open_batches(read, options.source.batch, schemas, silence, lost, readers=readers)
    if options.knowledge.files:
        from cep.app.things import ThingsFollower, check_refreshed

        check_refreshed(options.knowledge.files, any(size is None for size in sizes(sources)))
        batches = ThingsFollower(options.knowledge.files, source.known, None, False, options.log).followed(batches)
    if engine.revises:
        batches = changes_of(batches)
    return _Sourced(engine, shown, derived, batches, changes, sources, (since, until), rows, dealt)


def _writer(options: RunOptions, source: _Sourced, guard: OutputGuard) -> Writer | RdfWriter | TableWriter:
    from cep.app.durations import refuse
    from cep.connectors.addresses import live as is_address
    from cep.connectors.tables.names import is_table
    from cep.connectors.writing.rtec_writer import RtecWriter, tick_of
    from cep.connectors.writing.table_writer import TableWriter
    from cep.connectors.writing.writers import Writer, rdf_format

    def opening(path: str) -> None:
        guard.write("--output", path)

    if is_table(options.sink.output):
        if options.sink.output_format is not None:
            raise refuse(f"--output-format: a table is not written as {options.sink.output_format}")
        return TableWriter(options.sink.output, source.derived, source.engine.inputs if options.sink.explain else None)

    rdf = None if is_address(options.sink.output) else rdf_format(options.sink.output, options.sink.output_format)
    if options.sink.output_format == "rtec":
        if source.engine.withdraws:
            hint = "add `--final`, which withdraws nothing, or use `--output-format jsonl`"
            raise refuse("--output-format rtec: clauses cannot say that an event is withdrawn", hint)
        if options.sink.explain:
            raise refuse("--output-format rtec: clauses cannot contain the input events", "use `--output-format jsonl`")
        return RtecWriter(options.sink.output, source.derived, tick_of(source.engine.inputs), opening)
    if rdf is not None:
        if options.output_mode != INTERVALS:
            raise refuse(
                "--changes: in RDF, fluents are written as intervals",
                "leave --changes out: intervals that still hold then have no end",
            )
        from cep.connectors.rdf.writer import RdfWriter

        return RdfWriter(options.sink.output, source.shown, source.engine, rdf)
    inputs = source.engine.inputs if options.sink.explain else None
    return Writer(
        options.sink.output, source.derived, format=options.sink.output_format, inputs=inputs, opening=opening
    )


def _first_dead(options: RunOptions, dead_letters: DeadLetters) -> None:
    if (first := dead_letters.first_told) is not None:
        text = f"one dead letter is {first}; `--dead-letter FILE` keeps them"
        options.log("first_dead_letter", text)
