"""The options of `cep run`, and checks of combinations that Spark does not support."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, ClassVar

from typer import Option

from cep.app import completions
from cep.app.answer_modes import ALL, CHANGES, INTERVALS, MODES, NEW
from cep.app.cli_help import OUTPUT, WATCHING
from cep.app.cli_options import (
    BatchSize,
    ChangingKnowledgeOptions,
    DialectOptions,
    EvaluationOptions,
    InputOptions,
    Logging,
    ParameterOptions,
    PlaceOptions,
    RuleFiles,
)
from cep.app.command_line import option_values
from cep.app.durations import instant, refuse, refuse_longer_lateness, revise_duration
from cep.core.logs import LOGS, Log
from cep.core.storage.urls import is_url


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(InputOptions):
    """Options for the input events and for reading them."""

    strict: Annotated[bool, Option(help="Exit with status 1 if there were dead letters.")] = False
    revise: Annotated[
        str | None,
        Option(
            metavar="DURATION",
            help="Write results at once, and correct them when an input event arrives late, is corrected or is "
            "withdrawn, up to this long before the latest event: 6h. Rows then have `@change` (`add` or "
            "`withdraw`) and `@id`.",
        ),
    ] = None
    batch: BatchSize = 131_072


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesOptions(EvaluationOptions):
    """Options for the evaluation of rules, and the number of processes."""

    workers: Annotated[
        int,
        Option(
            metavar="N",
            min=1,
            max=1024,
            help="Number of processes on this machine that share the keys; one per core is a good choice.",
        ),
    ] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Options for the output: which derived events are written, where, and in which format."""

    PANEL: ClassVar = OUTPUT

    output: Annotated[
        str,
        Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write derived events here: a file, a directory, an address (`s3://bucket/key`), a table "
            "(`delta:folder`, `iceberg:catalog/a.b`), or a topic (`mqtt://host/topic`, `kafka://host/topic`). On "
            "Spark: a directory, such a table or a topic.",
        ),
    ] = "-"
    output_format: Annotated[
        str | None,
        Option(
            metavar="FORMAT",
            autocompletion=completions.output_formats,
            help="Output format: jsonl, csv, tsv, parquet, nquads, ntriples, turtle, trig, jsonld or rtec. Default: "
            "by the suffix; jsonl on standard output.",
        ),
    ] = None
    only: Annotated[
        tuple[str, ...], Option(metavar="TYPE", help="Write only derived events of this type. Repeatable.")
    ] = ()
    explain: Annotated[bool, Option(help="Add to each derived event the input events it comes from.")] = False
    final: Annotated[
        bool,
        Option(help="With --revise: write only final results, after the time that --revise allows for corrections."),
    ] = False
    changes: Annotated[
        bool, Option(help="Write a fluent's beginnings and ends as they become known, instead of whole intervals.")
    ] = False
    output_mode: Annotated[
        str | None,
        Option(
            metavar="MODE",
            autocompletion=completions.one_of(*MODES),
            help="How to write fluents: changes (what LARS returns), all (what holds at each tick), new (what holds "
            "and did not at the tick before) or intervals.",
        ),
    ] = None
    output_every: Annotated[
        str | None,
        Option(
            metavar="WHEN",
            help="With all and new, when to write: at a `signal`, at a `change`, or every `5s`. Default: each tick.",
        ),
    ] = None
    since: Annotated[
        str | None,
        Option(
            "--from",
            metavar="TIME",
            help="Write only results from this time on: 2013-02-09T03:00, or a number as in the output. Fluents are "
            "clipped.",
        ),
    ] = None
    until: Annotated[
        str | None,
        Option(
            metavar="TIME",
            help="Write only results up to this time. Fluents are clipped; those without an end stop here.",
        ),
    ] = None

    @property
    def asks_changes(self) -> bool:
        """Return True if an option requests the beginnings and ends of fluents instead of their intervals."""
        return self.changes or self.output_mode == CHANGES

    def stretch(self, unit: Fraction | None) -> tuple[int | None, int | None]:
        """Return the times of --from and --until in microseconds. A time that is not set is None.

        `unit`: the unit of bare numbers (see `read_instant`). Raises CepError if a value is not a time, or if
        --until is before --from.
        """
        since, until = (
            None if text is None else instant(text, option, unit)
            for text, option in ((self.since, "--from"), (self.until, "--until"))
        )
        if since is not None and until is not None and until < since:
            raise refuse(f"--until: `{self.until}` is before --from, `{self.since}`")
        return since, until


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    PANEL: ClassVar = WATCHING

    metrics: Annotated[
        str | None,
        Option(metavar="PORT", help="Serve Prometheus metrics during the run at this port: 9464, 0.0.0.0:9464."),
    ] = None
    log: Logging = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions(PlaceOptions):
    master: Annotated[
        str | None, Option(metavar="URL", help="Spark master. Default: that of spark-submit, else `local[*]`.")
    ] = None
    checkpoint: Annotated[
        str | None,
        Option(
            metavar="FOLDER",
            autocompletion=completions.folders,
            help="Folder for the state of the query, to resume from.",
        ),
    ] = None
    once: Annotated[
        bool, Option(help="Process the input that is there, keep the state for the next run, and exit.")
    ] = False
    follow: Annotated[bool, Option(help="Wait for more input until Ctrl-C or SIGTERM.")] = False
    every: Annotated[
        str | None,
        Option(
            metavar="DURATION",
            help="With --follow: least time between micro-batches: 10s. Default: 1s.",
        ),
    ] = None
    keep: Annotated[
        str | None,
        Option(
            metavar="DURATION",
            help="How long to keep derived events in --output after their end, in event time: 30d. Default: forever.",
        ),
    ] = None
    compact: Annotated[
        str | None,
        Option(
            metavar="FOLDER",
            autocompletion=completions.folders,
            help="With --revise: write the events that remain when the run ends to this folder, one file per event.",
        ),
    ] = None
    migrate: Annotated[bool, Option(help="Resume with changed rules; rules that did not change keep their state.")] = (
        False
    )
    buckets: Annotated[
        int | None,
        Option(
            metavar="N",
            min=1,
            max=1024,
            help="Number of buckets that the keys are divided into. Default: one per core.",
        ),
    ] = None
    most_files: Annotated[
        int | None, Option("--files", metavar="N", min=1, help="Largest number of files in a micro-batch.")
    ] = None
    conf: Annotated[tuple[str, ...], Option(metavar="NAME=VALUE", help="A Spark setting. Repeatable.")] = ()

    @property
    def open_ended(self) -> bool:
        """Return True if the input may continue after the records that exist now, as the input from a broker does."""
        return self.once or self.follow

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings of the Spark session. Raises CepError if a setting is not valid."""
        return dict(_setting(setting) for setting in self.conf)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    rules: RuleFiles
    source: SourceOptions
    sink: SinkOptions
    dialect: DialectOptions
    parameters: ParameterOptions
    evaluation: RulesOptions
    knowledge: ChangingKnowledgeOptions
    watch: WatchOptions
    spark: SparkOptions

    @property
    def name(self) -> str:
        """The program's name, which consists of the names of its files."""
        return ", ".join(map(str, self.rules))

    @property
    def log(self) -> Log:
        """Return the log to which the run writes."""
        return LOGS[self.watch.log]

    @property
    def on_spark(self) -> bool:
        """Return True if the program runs on Spark.

        Raises CepError if `--on` has another value, if an option that needs Spark is used without it, or if `--workers`
        is more than 1 on Spark.
        """
        if self.spark.on_spark:
            if self.evaluation.workers > 1:
                raise refuse(
                    "--workers has no effect on Spark", "on Spark, use `--buckets` and the cores of the Spark workers"
                )
            return True
        for option, value in option_values(self.spark):
            if value:
                raise refuse(f"{option} needs Spark", "add `--on spark`")
        return False

    @property
    def output_mode(self) -> str:
        """Return the mode in which fluents are written.

        Raises CepError if the mode is unknown, or cannot be combined with other options.
        """

        from cep.language.reading import LARS, dialect_of, dialect_of_file

        of = dialect_of if len(self.rules) == 1 else dialect_of_file
        lars = any(of(str(rule), self.dialect.dialect) in LARS for rule in self.rules)
        cut = self.sink.since is not None or self.sink.until is not None
        mode = self.sink.output_mode
        if mode is None:
            mode = CHANGES if self.sink.changes or (lars and not cut) else INTERVALS
        elif mode not in MODES:
            raise refuse(f"--output-mode: `{mode}` is not a mode", f"the modes are {', '.join(MODES)}")
        elif self.sink.changes and mode != CHANGES:
            raise refuse(f"--changes and --output-mode {mode} cannot be combined", "use only one of them")
        if self.sink.changes and cut:
            hint = "leave --changes out: intervals are then clipped to --from and --until"
            raise refuse("--changes writes every beginning and end, so --from and --until cannot clip intervals", hint)
        if mode != INTERVALS and cut:
            raise refuse(
                f"--output-mode {mode}: --from and --until clip only intervals", "use `--output-mode intervals`"
            )
        if mode in (ALL, NEW) and not lars:
            raise refuse(f"--output-mode {mode}: this program has no ticks", "use `--changes`, or a LARS program")
        if self.sink.output_every is not None and mode not in (ALL, NEW):
            raise refuse("--output-every needs answers at ticks", "add `--output-mode all` or `--output-mode new`")
        return mode

    @property
    def revised(self) -> int | None:
        """Return the greatest age of results that are revised, in microseconds, or None if results are not revised.

        Raises CepError if `--revise` is not a duration, or does not fit other options.
        """
        if self.source.revise is None:
            if self.sink.final:
                raise refuse("--final needs --revise", "leave --final out: without --revise every result is final")
            return None
        refuse_longer_lateness(self.source.lateness, self.source.revise)
        return revise_duration(self.source.revise)

    def checked(self) -> tuple[tuple[str, ...], Path]:
        """Return the inputs and the checkpoint of a run on Spark.

        Raises CepError if an option is missing, or does not work on Spark.
        """
        if self.sink.explain:
            raise refuse("--explain does not work on Spark", "leave out `--on spark` to run in one process")
        self._revisable()
        if self.output_mode in (ALL, NEW):
            hint = "use `--output-mode changes` or `intervals`, which contain the same results"
            raise refuse(f"--output-mode {self.output_mode}: Spark cannot write answers tick by tick", hint)
        if not self.source.inputs:
            raise refuse("there is no --input", "name files, or a folder: `--input readings/`")
        if "-" in self.source.inputs:
            raise refuse("--input -: Spark cannot read standard input", "name files, or a folder")
        from cep.connectors.tables.names import is_table

        for name in self.source.inputs:
            if is_table(name.partition("=")[2] or name) and not Path(name).exists():
                hint = "name a folder, or run in one process: the files of a table change while it is written"
                raise refuse(f"--input {name}: Spark does not read tables", hint)
        if self.sink.output == "-":
            raise refuse("there is no --output", "name a folder: `--output derived`")
        self._writable()
        if self.spark.checkpoint is None:
            raise refuse("there is no --checkpoint", "name a folder for the state: `--checkpoint state`")
        self._folders(self.spark.checkpoint)
        self._times()
        return self.source.inputs, Path(self.spark.checkpoint).absolute()

    def _revisable(self) -> None:
        from cep.connectors.brokers.sending import is_topic
        from cep.connectors.tables.names import is_table

        if self.revised is None or self.sink.final:
            if self.spark.compact is not None:
                hint = "leave --compact out: without --revise the output is already the final result"
                raise refuse("--compact needs --revise", hint)
            return
        if is_table(self.sink.output) and self.spark.compact is not None:
            raise refuse("--compact: a table has no changelog to compact", "use a folder as --output")
        if is_topic(self.sink.output) and self.spark.compact is not None:
            hint = "use a folder as --output; in a topic, the highest `@version` of each `@id` is current"
            raise refuse("--compact: messages that were sent to a broker cannot be removed", hint)

    def _writable(self) -> None:
        from cep.connectors.brokers.sending import is_topic
        from cep.connectors.tables.names import is_table

        if is_topic(self.sink.output) and self.sink.output_format not in (None, "jsonl"):
            raise refuse(f"--output-format: messages are lines of JSON, not {self.sink.output_format}")
        if is_table(self.sink.output) and self.sink.output_format is not None:
            raise refuse(f"--output-format: a table is not written as {self.sink.output_format}")
        if is_topic(self.sink.output) and self.spark.keep is not None:
            raise refuse("--keep works only for folders", "leave --keep out, and set the retention in the broker")
        if is_table(self.sink.output) and self.spark.keep is not None:
            raise refuse(
                "--keep works only for folders", "leave --keep out, and delete rows with the tools of the table"
            )
        if self.sink.output_format not in (None, "jsonl", "parquet"):
            raise refuse(f"--output-format: Spark does not write {self.sink.output_format}", "use jsonl or parquet")

    def _folders(self, checkpoint: str) -> None:
        from cep.connectors.addresses import bare
        from cep.connectors.brokers.sending import is_topic
        from cep.connectors.tables.names import is_table

        sent = is_topic(self.sink.output) or is_table(self.sink.output)
        dead = self.source.dead_letter
        places = {"--checkpoint": checkpoint, "--dead-letter": dead, **({} if sent else {"--output": self.sink.output})}
        stored = {option for option, place in places.items() if place is not None and is_url(place)}
        for option, place in places.items():
            if place is not None and "://" in place and option not in stored:
                hint = "use a folder that all machines mount at the same place, or s3://, gs://, abfs://"
                raise refuse(f"{option}: `{bare(place)}` is an address, not a folder", hint)
        if not stored:
            return
        hint = "`--checkpoint s3://bucket/state --output s3://bucket/derived`"
        if sent:
            raise refuse(
                f"--checkpoint {checkpoint}: output to a broker or a table needs a folder as --checkpoint", hint
            )
        for option in ("--checkpoint", "--output"):
            if option not in stored:
                other = next(iter(sorted(stored)))
                raise refuse(f"{other} is at an address, but {option} is a folder of this machine", hint)
        for option, asked in (("--keep", self.spark.keep), ("--compact", self.spark.compact)):
            if asked is not None:
                raise refuse(
                    f"{option} works only with folders, but --output is at an address",
                    "use a folder as --output, or leave the option out",
                )

    def _times(self) -> None:
        if self.spark.once and self.spark.follow:
            raise refuse("--once and --follow exclude each other")
        timed = self.source.lateness is not None or self.source.revise is not None
        if self.spark.open_ended and not timed:
            option, hint = "--once" if self.spark.once else "--follow", "say how far out of order events may arrive"
            raise refuse(f"{option} needs a --lateness", f"{hint}: `--lateness 10min`")
        if self.source.idle is not None and not self.spark.follow:
            hint = "add `--follow`, or leave --idle out"
            raise refuse("--idle needs live input, so it needs --follow", hint)
        if self.spark.every is not None and not self.spark.follow:
            raise refuse(
                "--every needs --follow",
                "add `--follow`, or leave --every out: without --follow the run ends with the input",
            )
        if self.spark.most_files is not None and not timed:
            raise refuse(
                "--files needs a --lateness",
                "add `--lateness`: without it, all files are one micro-batch, sorted by time",
            )


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        raise refuse(f"--conf: expected `name=value`, found `{text}`", "e.g. `--conf spark.executor.memory=2g`")
    return name, value
