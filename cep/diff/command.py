"""The command `cep diff`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, ClassVar

from typer import Argument, Option

from cep.app import completions
from cep.app.cli_help import OUTPUT, RULES
from cep.app.cli_options import (
    ChangingKnowledgeOptions,
    DialectOptions,
    EvaluationOptions,
    HistoryInputOptions,
    LatenessBy,
    ParameterOptions,
    StrictTypes,
)
from cep.app.command_line import takes
from cep.app.durations import duration, refuse, refuse_longer_lateness, revise_duration
from cep.app.terminal import announce_compiling, say
from cep.core.errors import reason_of

if TYPE_CHECKING:
    from cep.diff.comparison import Comparison
    from cep.diff.programs import Compared

FOUND = 1
"""The exit status if there are more differences than allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SidedParameterOptions(ParameterOptions):
    """Options that set parameters of both programs, or of one of the two."""

    old_param: Annotated[
        tuple[str, ...], Option(metavar="NAME=VALUE", help="Set a parameter of the old program alone. Repeatable.")
    ] = ()
    new_param: Annotated[
        tuple[str, ...], Option(metavar="NAME=VALUE", help="Set a parameter of the new program alone. Repeatable.")
    ] = ()

    @property
    def sides(self) -> tuple[dict[str, object], dict[str, object]]:
        """The parameter values of the old and of the new program. Raises CepError if they cannot be read."""
        both = self.values
        old, new = (ParameterOptions(param=values).values for values in (self.old_param, self.new_param))
        return {**both, **old}, {**both, **new}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOptions(HistoryInputOptions):
    """Options for the records over which both programs run."""

    lateness: Annotated[
        str | None,
        Option(
            metavar="DURATION", help="Do not sort the records; accept them this much out of order, and drop later ones."
        ),
    ] = None
    revise: Annotated[
        str | None,
        Option(
            metavar="DURATION",
            help="Correct results when events come late, are corrected or withdrawn within this time, as `cep run` "
            "does.",
        ),
    ] = None
    lateness_by: LatenessBy = None
    strict_types: StrictTypes = False

    @property
    def as_they_stand(self) -> bool:
        """True if the files are read in their own order, without sorting by time."""
        return (self.lateness, self.revise, self.lateness_by) != (None, None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    PANEL: ClassVar = OUTPUT

    key: Annotated[
        tuple[str, ...],
        Option(
            metavar="ATTRIBUTE",
            help="Attribute that is the same in an event of both programs, even if times differ. Default: the KEYED BY "
            "of an alert on the event, or else all strings and IRIs. Repeatable.",
        ),
    ] = ()
    allow: Annotated[
        str | None,
        Option(
            metavar="LIMITS",
            help="Most differences that are allowed: `gone 0, appeared 10`, or of one event `warming gone 0`. The exit "
            "status is 1 if there are more.",
        ),
    ] = None
    show: Annotated[int, Option(metavar="N", min=0, help="Number of differences of each kind to print.")] = 3
    output: Annotated[
        str | None, Option(metavar="FILE", help="Write all differences with their reasons to this file, as JSON Lines.")
    ] = None
    markdown: Annotated[bool, Option("--markdown", help="Print Markdown, for a pull request.")] = False
    json: Annotated[bool, Option("--json", help="Print JSON.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions:
    programs: Annotated[
        tuple[str, ...],
        Argument(
            metavar="OLD NEW",
            help="Two programs: files, or versions in Git (`git:main:rules.cep`). Separate the files of one program "
            "by commas. A single program is compared with itself, with other parameters.",
            autocompletion=completions.rule_files,
        ),
    ]
    records: RecordOptions
    report: ReportOptions
    dialect: DialectOptions
    parameters: SidedParameterOptions
    evaluation: EvaluationOptions
    knowledge: ChangingKnowledgeOptions

    PANEL: ClassVar = RULES

    def check(self) -> None:
        """Raise CepError if an option is missing, or cannot be combined with another option."""
        report = self.report
        if report.json and report.markdown:
            raise refuse("--json and --markdown cannot be combined", "use only one of them")
        refuse_longer_lateness(self.records.lateness, self.records.revise)
        if not self.records.inputs:
            for option, value in (
                ("--allow", report.allow),
                ("--output", report.output),
                ("--key", report.key),
                ("--lateness", self.records.lateness),
                ("--revise", self.records.revise),
                ("--lateness-by", self.records.lateness_by),
                ("--strict-types", self.records.strict_types),
                ("--knowledge-updates", self.knowledge.updates),
            ):
                if value:
                    raise refuse(f"{option} needs --input", "name the records: `--input history.parquet`")
        if report.output is not None and Path(report.output).suffix not in (".jsonl", ".ndjson"):
            raise refuse(
                f"--output {report.output}: differences are written as JSON Lines",
                "use a name like `--output diff.jsonl`",
            )


@takes(DiffOptions)
def diff(options: DiffOptions) -> int:
    """Compare two programs: rules, and what they derive.

    \b
      cep diff old.cep new.cep
      cep diff git:main:rules.cep rules.cep --input history.parquet
      cep diff rules.cep --new-param Hot=8 --input reading=history.csv
      cep diff git:main:rules.cep rules.cep -i history.parquet \\
          --allow 'gone 0, appeared 10' --markdown

    The report lists the rules whose meaning changed, and the rules that depend on them. With --input, it also lists
    the events that appeared, are gone or moved, with reasons. The exit status is 1 if more differs than --allow says.
    """
    options.check()
    with TemporaryDirectory(prefix="cep-") as folder:
        return _diff(options, Path(folder))


def _diff(options: DiffOptions, folder: Path) -> int:
    """Compare two programs, and return the exit status.

    `folder`: a temporary folder for records that are downloaded from a server.
    """
    from cep.diff.allowed import exceeded, read_limits
    from cep.diff.meaning import program_diff
    from cep.diff.programs import read_programs
    from cep.diff.report import as_json, lines, markdown

    old, new = read_programs(
        options.programs,
        options.parameters.sides,
        options.dialect,
        options.evaluation,
        options.knowledge,
        options.records.strict_types,
    )
    changes = program_diff(old.program, new.program)
    comparison, beyond = None, []
    if options.records.inputs:
        limits = [] if options.report.allow is None else read_limits(options.report.allow, _limited(new, old))
        announce_compiling()
        comparison = _compared(old, new, options, folder)
        beyond = exceeded(limits, comparison.counts)
        if options.report.output is not None:
            _write(comparison, options.report.output)
    told = changes, comparison, options.report.show, beyond
    if options.report.json:
        say(as_json(*told))
    else:
        say("\n".join((markdown if options.report.markdown else lines)(*told)).rstrip("\n"))
    return FOUND if beyond else 0


def _limited(*programs: Compared) -> list[str]:
    from cep.diff.alerts import alert_table

    names: dict[str, None] = {}
    for program in programs:
        tables = {table for alert in program.program.alerts for table in alert.tables}
        names |= dict.fromkeys(rule.event for rule in program.program.rules.rules if rule.event not in tables)
        names |= dict.fromkeys(alert_table(alert.name) for alert in program.program.alerts if not alert.hidden)
    return list(names)


def _compared(old: Compared, new: Compared, options: DiffOptions, folder: Path) -> Comparison:
    """Run both programs over the records. `folder`: a temporary folder for records that are downloaded from a server.

    Raises CepError if the records cannot be read twice, or if a program cannot run.
    """
    from cep.app.explained_run import StoredRecords
    from cep.app.knowledge_updates import is_stream
    from cep.app.served_history import downloaded
    from cep.connectors.inputs import inputs as find
    from cep.diff.comparison import Comparison
    from cep.plan.event_schemas import inputs_of

    read = {name: schema for compared in (old, new) for name, schema in inputs_of(compared.program.plan).items()}
    local = downloaded(options.records.inputs, read, options.records.token_file, folder)
    records = replace(options.records, inputs=local.inputs)
    for compared in (old, new):
        for source in find(records.inputs, inputs_of(compared.program.plan), records.format):
            if source.size is None:
                raise refuse(
                    f"--input {source.path}: a history must be files",
                    "save the live records to files first, then name the files",
                )
    for name in options.knowledge.updates:
        if is_stream(name) and not Path(name).is_file():
            raise refuse(f"--knowledge-updates {name}: `cep diff` reads changes of the knowledge only from files")
    running = replace(
        options.evaluation.engine,
        lateness=duration(records.lateness or "0", "--lateness"),
        lateness_by=records.lateness_by,
        revise=None if records.revise is None else revise_duration(records.revise),
    )
    stored = StoredRecords(
        inputs=records.inputs,
        format=records.format,
        as_they_stand=records.as_they_stand,
        updates=options.knowledge.updates,
        names=local.servers,
    )
    return Comparison(old, new, stored, running, options.knowledge.files, options.report.key)


def _write(comparison: Comparison, path: str) -> None:
    import json

    from cep.diff.report import difference_json

    try:
        with Path(path).open("w", encoding="utf-8") as file:
            for difference in comparison.differences:
                file.write(json.dumps(difference_json(comparison, difference), ensure_ascii=False) + "\n")
    except OSError as error:
        raise refuse(f"--output {path}: {reason_of(error)}") from None
