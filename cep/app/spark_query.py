"""Preparation of a run on Spark: the options become a query that has a program, input, checkpoint and output."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cep.app.answer_modes import CHANGES
from cep.app.durations import duration, refuse, selected
from cep.app.opening import ProgramSource
from cep.app.run_options import RunOptions
from cep.app.spark_mirror import ALONE
from cep.app.terminal import announce_compiling, warn, warnings_of
from cep.connectors.addresses import bare
from cep.connectors.brokers.live import reach
from cep.connectors.brokers.sending import Sending, is_topic, output_address
from cep.connectors.inputs import Input
from cep.connectors.records.times import ISO, iso
from cep.connectors.tables.names import is_table, table_name
from cep.connectors.writing.time_format import form, number_size
from cep.core.schema import Schema
from cep.engine import Engine
from cep.knowledge.growing_files import there
from cep.plan.event_schemas import inputs_of
from cep.runtime.run_stats import count
from cep.spark import spark_files
from cep.spark.disk import CHECKPOINT, FILES, OUTGOING, check_writable, writing_to
from cep.spark.driver import session
from cep.spark.job import Job
from cep.spark.mirror import STATE, Mirror
from cep.spark.program import PlannedRules, ShippedProgram
from cep.spark.resuming import bucket_count, opened, taken_over, tell_lacking
from cep.spark.rules import Rules
from cep.spark.sink import file_sink
from cep.spark.sink.changelog import changelog_schemas
from cep.spark.sink.forwarding import check_table
from cep.spark.source import data_source, knowledge_changes
from cep.spark.source.file_list import FileList
from cep.spark.warming import warmed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY = "1s"
FILES_AT_ONCE = 4096
"""The default for the greatest number of files in a micro-batch, if files may be added to the input later. It limits
the time until the first results."""
MESSAGES = 500_000
"""The approximate greatest number of messages that a micro-batch reads from a live input."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A request for a Spark job, which is created from the options and rules.

    - `checkpoint`: the folder of the checkpoint.
    - `settings`: the settings of the Spark session.
    - `wanted`: the events to write.
    - `mirror`: the object that copies the checkpoint and the output to their addresses, or None.
    """

    options: RunOptions
    inputs: tuple[str, ...]
    checkpoint: Path
    settings: dict[str, str]
    rules: PlannedRules
    wanted: tuple[str, ...]
    mirror: Mirror | None = None

    @classmethod
    def of(cls, options: RunOptions) -> JobRequest:
        """Create the request. Raises CepError if a rule or option is wrong, or if Java is not installed."""
        inputs, checkpoint = options.checked()
        settings = options.spark.settings
        strict_types = options.source.strict_types
        policy, parameters = options.evaluation.policy, options.parameters
        source = ProgramSource.read(
            options.rules,
            options.knowledge,
            policy,
            options.dialect,
            parameters,
            strict_types,
            options.evaluation.distinct,
        )
        cores = session.cores(options.spark.master, settings)
        planned = _planned(options, source, bucket_count(checkpoint, options.spark.buckets, cores))
        wanted = tuple(selected(planned.engine.outputs, options.sink.only))
        if not wanted:
            hint = "`warning(S) <- reading(S, W) WHERE W > 15.`"
            raise refuse(f"{options.name} has no rules, so it derives nothing", hint)
        _judgeable(planned.program)
        session.needs_java()
        if (master := options.spark.master or settings.get(session.MASTER)) is not None:
            session.checked(master)
        return cls(options, inputs, checkpoint, settings, planned, wanted)

    @property
    def engine(self) -> Engine:
        """Return an engine for the whole program. The engine is only used for checks."""
        return self.rules.engine

    @property
    def program(self) -> ShippedProgram:
        """Return the program that is sent to Spark's workers."""
        return self.rules.program

    @property
    def sent(self) -> bool:
        """Return True if derived events are sent to a broker or a table instead of files."""
        return is_topic(self.options.sink.output) or is_table(self.options.sink.output)

    @property
    def schemas(self) -> dict[str, Schema]:
        """Return the schemas of the events that are written."""
        return {event: self.program.outputs[event] for event in self.wanted}

    @property
    def sent_schemas(self) -> dict[str, Schema]:
        """Return the schemas of the messages that are sent to a broker or a table."""
        return self.schemas if self.program.window is None else changelog_schemas(self.schemas)

    def named(self, folder: str) -> str:
        """Return the address to which a local folder is copied. Without a mirror, return the folder itself."""
        return folder if self.mirror is None else self.mirror.named(folder)

    @property
    def output(self) -> Path:
        """Return the folder to which Spark writes."""
        return self.checkpoint / OUTGOING if self.sent else Path(self.options.sink.output).absolute()


@dataclass(frozen=True, slots=True)
class JobInputs:
    """The input of a job.

    - `files`: the files that no earlier run has read.
    - `known`: the number of files that earlier runs have read.
    - `live`: the live inputs, by position among all inputs.
    """

    files: list[str]
    known: int
    live: dict[int, Input]

    @classmethod
    def of(cls, request: JobRequest) -> JobInputs:
        """Find the input of a job. Raises CepError if an input is wrong or missing."""
        options, schemas = request.options, request.engine.inputs
        with writing_to("--checkpoint", request.checkpoint, begins=True):
            known = FileList(str(request.checkpoint / FILES)).known
        absent = ("no-files",) if options.spark.open_ended else ()  # files may be added later
        file_inputs = [
            file.path for file in data_source.new_files(schemas, request.inputs, options.source.format, absent, known)
        ]
        live = {
            n: source
            for n, spec in enumerate(request.inputs)
            for source in data_source.alive(schemas, spec, options.source.format)
        }
        for source in live.values():
            assert source.address is not None, "a live input has an address"
            if source.address.kind == "sensorthings":
                hint = "run it in one process, or let the service send: `sensorthings+mqtt://host`"
                raise refuse(f"{source.path}: Spark cannot poll a service", hint)
            if request.mirror is not None and source.address.kind in ("mqtt", "tcp"):
                message = (
                    f"{source.path}: messages would be acknowledged before they are in {request.mirror.places[STATE]}"
                )
                raise refuse(message, "use a folder as --checkpoint, or a topic of Kafka")
        for source in live.values():
            reach(source)
        return cls(file_inputs, len(known), live)


def planned(request: JobRequest) -> Job:
    """Return the query, before its checkpoint is opened. Raises CepError if an option is wrong."""
    options = request.options
    if request.mirror is not None and request.mirror.apart and request.program.lateness_by is not None:
        hint = "use a folder that all workers share as --checkpoint, or `--lateness` for all records together"
        raise refuse("--lateness-by: workers exchange keys through a folder, but these workers share none", hint)

    def lasting(text: str | None, option: str) -> int | None:
        return None if text is None else duration(text, option)

    return Job(
        request.program,
        request.inputs,
        str(request.output),
        str(request.checkpoint),
        request.wanted,
        options.sink.output_format or ("jsonl" if is_topic(options.sink.output) else "parquet"),
        None if options.source.dead_letter is None else str(Path(options.source.dead_letter).absolute()),
        duration(options.spark.every or EVERY, "--every"),
        lasting(options.spark.keep, "--keep"),
        lateness=request.rules.lateness,
        input_format=options.source.format,
        limit=options.spark.most_files or (FILES_AT_ONCE if options.spark.open_ended else None),
        closing=not options.spark.open_ended,
        most=None if request.rules.lateness is None else MESSAGES,
        idle=lasting(options.source.idle, "--idle"),
        ahead=options.source.ahead_limits,
        updates=options.knowledge.updates,
        stretch=_stretch(options, request.engine.inputs),
        mirror=request.mirror,
    )


def claimed(request: JobRequest, reads: JobInputs, locks: ExitStack) -> Job:
    """Return the query with a locked checkpoint, from which the remains of killed runs were removed.

    `locks`: the stack that holds the lock until it is closed. Raises CepError if the checkpoint belongs to another
    program, is in use or cannot be continued, or if the disk is full.
    """
    options, query, folder = request.options, planned(request), request.checkpoint
    warn(warnings_of(request.engine, options.name, options.knowledge.predicates), options.rules, options.log)
    announce_compiling(options.log)
    if is_table(options.sink.output):
        check_table(table_name(options.sink.output))
    elif request.sent:
        output_address(options.sink.output, request.sent_schemas)
        if not (folder / CHECKPOINT).exists():
            Sending(options.sink.output, request.sent_schemas).close()  # from here on, derived events wait if necessary
    query, moved = opened(request.engine, query, locks, lambda: _times(request), migrate=options.spark.migrate)
    if query.apart and query.generation.start is not None and not query.generation.begun(folder):
        raise refuse(f"--checkpoint: {folder} is being migrated to another program", ALONE)
    _check_end(request, reads, query)
    query = taken_over(request.engine, query, moved, [bare(source.path) for source in reads.live.values()], options.log)
    if options.spark.compact is not None:
        check_writable("--compact", Path(options.spark.compact))
    if not request.sent and request.mirror is None:
        _report_missing(options, file_sink.missing_files(Path(query.output)))
    knowledge_changes.FileChangeLog(folder, [os.path.abspath(update) for update in query.updates]).look(
        query.closing, strict=True
    )
    return query


def warm(spark: SparkSession, request: JobRequest, query: Job) -> None:
    """Run new rules over the earlier input files, unless an earlier run has done so. Log how far back these reach.

    Raises the same errors as `cep.spark.warming.warmed`: CepError and Spark's errors.
    """
    options, start = request.options, query.generation.start

    def begins(files: int) -> None:
        options.log("warming", f"new rules read {count(files, 'earlier file')}", files=files)

    done = warmed(spark, query, begins)
    if done is None or start is None:
        return
    seen = "have seen no earlier input"
    if done.since is not None:
        seen = f"have seen the input files from {iso(done.since)} until {iso(start.time)}"
    if missing := [*done.gone, *done.unread]:
        shown = f"{', '.join(missing[:3])}{', ...' if len(missing) > 3 else ''}"
        why = f"; {count(len(missing), 'file')} cannot be read any more: {shown}"
        tell_lacking(options.log, request.engine, start, seen, why)
    elif rules := start.lacking(request.engine):
        fields = {"since": None if done.since is None else iso(done.since), "until": iso(start.time)}
        options.log("warmed", f"new rules {seen}: {', '.join(rules)}", "info", rules=[*rules], **fields)


def _times(request: JobRequest) -> str:
    schemas, absent = request.engine.inputs, ("no-file", "no-files")
    return form(data_source.new_files(schemas, request.inputs, request.options.source.format, absent), schemas) or ISO


def _check_end(request: JobRequest, reads: JobInputs, query: Job) -> None:
    """Raise CepError if the checkpoint's input has ended but there is more input. Otherwise log skipped input."""
    options, own = request.options, query.generation.spark(request.checkpoint)
    end_sent = spark_files.ends_sent(own) > 0
    over = spark_files.input_ended(own) or (end_sent and not query.closing)
    if over and (options.spark.follow or reads.live or reads.files):
        raise refuse(
            f"--checkpoint: the input of {request.checkpoint} has ended, so new input would be late",
            "start again with other folders; if more input will come, run with `--once` or `--follow`",
        )
    if over:
        options.log("ended", f"the input of {request.checkpoint} has ended: there is nothing new to read", "info")
    if end_sent and reads.files:
        files = reads.files
        late = f"{count(len(files), 'file')} came after the end of the input was declared, and will not be read"
        options.log("after", f"{late}: {', '.join(files[:3])}{', ...' if len(files) > 3 else ''}", "warning")


def _report_missing(options: RunOptions, gone: list[Path]) -> None:
    if gone:
        these = f"{', '.join(map(str, gone[:3]))}{', ...' if len(gone) > 3 else ''}"
        message = f"--output: {count(len(gone), 'written file')} {'is' if len(gone) == 1 else 'are'} missing"
        hint = "restore them from a copy: readers that follow the log of the folder, such as Spark, fail without them"
        options.log("missing", f"{message}: {these}; {hint}", "warning", files=len(gone))


def _judgeable(program: ShippedProgram) -> None:
    """Raise CepError if the program needs a clock per value of an attribute, and Spark cannot provide these."""
    if program.lateness_by is None:
        return
    program.clocks(0)
    hint = "use `--lateness` for all records together; or run it in one process, or with `--workers`"
    if program.records:
        named = " and ".join(f"`{event}`" for event in program.records)
        raise refuse(f"--lateness-by: on Spark, the records that end intervals of {named} are never late", hint)
    if program.beginning:
        raise refuse("--lateness-by: a cycle through NOT or AGGREGATE begins with a record that may be late", hint)


def _stretch(options: RunOptions, schemas: Mapping[str, Schema]) -> tuple[int | None, int | None]:
    """Return the times of --from and --until in microseconds. A number has the unit of the times in the input.

    Input files that do not exist yet are ignored.
    """
    names, format, absent = options.source.inputs, options.source.format, ("no-file", "no-files")
    sources = data_source.new_files(schemas, names, format, absent)
    sources += [source for name in names for source in data_source.alive(schemas, name, format)]
    return options.sink.stretch(number_size(sources, schemas))


def _planned(options: RunOptions, source: ProgramSource, buckets: int) -> PlannedRules:
    """Return the plan of the program for `buckets` buckets. Raises CepError if the program is wrong or cannot run."""
    program = source.compiled()
    until = _stretch(options, inputs_of(program.plan))[1]
    running = replace(
        options.evaluation.engine,
        until=until,
        revise=options.revised,
        final=options.sink.final,
        lateness_by=options.source.lateness_by,
    )
    rules = Rules(program, source.text, source.name, source.options)
    late = None if options.source.lateness is None else duration(options.source.lateness, "--lateness")
    planned = rules.planned(running, late, buckets, options.output_mode == CHANGES)
    engine = planned.engine
    if options.knowledge.updates and engine.changes is None:
        raise refuse("--knowledge-updates: there is no --knowledge to change")
    for name in options.knowledge.updates:
        if name == "-" or (Path(name).exists() and not (Path(name).is_file() or Path(name).is_dir())):
            hint = "name files, or a folder"
            raise refuse(f"--knowledge-updates {name}: Spark has to read it again, which is not possible", hint)
        if not (options.spark.open_ended or there([name])):
            raise refuse(f"--knowledge-updates: {name}: no such file")
    return planned
