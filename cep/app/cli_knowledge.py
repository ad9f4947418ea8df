"""The commands `cep knowledge ...`: count, query and verify knowledge, explain a triple, fetch a service's Things."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer
from typer import Argument, Option

from cep.app import completions
from cep.app.cli_help import KNOWLEDGE, Commands, Sectioned
from cep.app.cli_options import KnowledgeFiles, ReasoningName
from cep.app.command_line import takes
from cep.app.terminal import CLEAN, DEAD_LETTERS, complain, knowledge_of, say
from cep.core.errors import CepError, reason_of
from cep.core.suggest import astray

if TYPE_CHECKING:
    from cep.knowledge.graph import Knowledge
    from cep.knowledge.report import TermCount

SHOWN = 20
"""The number of classes and properties that `stats` lists."""
SUBJECTS = 500
"""The default number of subjects in the sample of `verify`. For this many subjects, owlrl needs some seconds."""

knowing = typer.Typer(
    cls=Commands,
    add_completion=False,
    help="Inspect background knowledge.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
FileArguments = Annotated[
    tuple[str, ...],
    Argument(metavar="FILE", help="Files, as for --knowledge.", autocompletion=completions.knowledge_files),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedKnowledge:
    """Options for the knowledge that a command reads."""

    PANEL: ClassVar = KNOWLEDGE

    knowledge: KnowledgeFiles = ()
    reasoning: ReasoningName = None
    prefix: Annotated[
        tuple[str, ...], Option(metavar="NAME=IRI", help="A prefix in addition to those of the files. Repeatable.")
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsOptions:
    files: FileArguments = ()
    asked: AskedKnowledge


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeQueryOptions:
    sparql: Annotated[str, Argument(metavar="SPARQL", help="SELECT, ASK, CONSTRUCT or DESCRIBE; `@file` reads a file.")]
    asked: AskedKnowledge
    format: Annotated[
        str,
        Option(
            metavar="FORMAT",
            autocompletion=completions.one_of("text", "csv", "tsv", "json"),
            help="Format of a table: text, csv, tsv or json.",
        ),
    ] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofOptions:
    triple: Annotated[str, Argument(metavar="TRIPLE", help="A triple in Turtle: `ex:gale a weather:WindObservation`.")]
    asked: AskedKnowledge


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    files: FileArguments = ()
    asked: AskedKnowledge
    sample: Annotated[int, Option(metavar="N", min=1, help="Number of subjects in the sample, if there are more.")] = (
        SUBJECTS
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    address: Annotated[
        str, Argument(metavar="ADDRESS", help="As `sensorthings+https://host/FROST-Server/v1.1`, or `+http`.")
    ]


@takes(FetchOptions)
def fetch(options: FetchOptions) -> None:
    """Write the Things of a SensorThings service as RDF.

    \b
      cep knowledge fetch sensorthings+https://host/FROST-Server/v1.1 > things.nt
      cep run levels.cep -i level=sensorthings+https://host/FROST-Server/v1.1 -k things.nt

    The output is N-Triples: the Things and their Datastreams.
    """
    from cep.app.things import ThingsService

    say(ThingsService.of(options.address).triples().rstrip("\n"))


@takes(StatsOptions)
def stats(options: StatsOptions) -> None:
    """Count the triples, classes and properties of the knowledge.

    \b
      cep knowledge stats stations.ttl 'ontologies/*.ttl'
    """
    from time import process_time

    from cep.knowledge import report

    files = [*options.files, *options.asked.knowledge]
    started = process_time()
    known = _loaded(files, options.asked.reasoning)
    seconds = process_time() - started
    numbers = report.knowledge_stats(known, _prefixes(files, options.asked.prefix))
    from_cache = ", from the cache" if known.closure is not None and known.closure.cached else ""
    inferred = "" if known.reasoning == "none" else f", {numbers.inferred:,} inferred ({known.reasoning}{from_cache})"
    lines = [f"{numbers.asserted:,} triples{inferred}, {numbers.terms:,} terms, {seconds:.1f} s"]
    for title, counts in (("classes, instances", numbers.classes), ("properties, triples", numbers.properties)):
        lines += ["", *_counted(title, counts)]
    if numbers.attributions:
        lines += ["", *numbers.attributions]
    say("\n".join(lines))


@takes(KnowledgeQueryOptions)
def query(options: KnowledgeQueryOptions) -> None:
    """Query the knowledge and what is inferred from it in SPARQL.

    \b
      cep knowledge query 'SELECT ?s { ?s a sosa:Platform }' -k stations.ttl

    Prefixes of the files need not be declared again.
    """
    from cep.knowledge.result_formats import FORMATS, text
    from cep.knowledge.unmatched_patterns import unknown_names

    if options.format not in FORMATS:
        message = f"--format: `{options.format}` is not a format of a table"
        raise CepError(message, hint=f"one of {', '.join(FORMATS)}", code="option")
    sparql, asked = options.sparql, options.asked
    known = _loaded(asked.knowledge, asked.reasoning)
    name = sparql[1:] if sparql.startswith("@") and sparql != "@-" else "query"
    query_text, prefixes = _read(sparql), _prefixes(asked.knowledge, asked.prefix)
    say(text(known, query_text, prefixes, options.format, name))
    for warning in unknown_names(query_text, prefixes, known, name):
        complain(warning)


@takes(ProofOptions)
def explain(options: ProofOptions) -> None:
    """Show why a triple holds.

    \b
      cep knowledge explain 'ex:gale a weather:Gale' -k gale.ttl -k weather.ttl

    The output is the rule that derives it and the triples it depends on, down to the triples in the files.
    """
    from cep.knowledge import report

    asked = options.asked
    known = _loaded(asked.knowledge, asked.reasoning)
    say("\n".join(report.proof_lines(known, options.triple, _prefixes(asked.knowledge, asked.prefix))))


@takes(VerifyOptions)
def verify(options: VerifyOptions) -> int:
    """Compare what is inferred with the results of owlrl.

    \b
      cep knowledge verify stations.ttl 'ontologies/*.ttl'

    owlrl is slow, so large knowledge is compared by a sample: the whole schema, and N
    subjects with all their triples. Known differences are counted. The command shows
    any other difference, and the exit status is then 1.
    """
    from cep.knowledge.graph import Knowledge
    from cep.knowledge.verification import report

    files = [*options.files, *options.asked.knowledge]
    regime = report.regime(options.asked.reasoning)
    if not files:
        raise _nothing()
    verified = report.verify_closure(Knowledge.load(files), regime, options.sample)
    say("\n".join(report.report_lines(verified, _prefixes(files, options.asked.prefix))))
    return CLEAN if verified.comparison.agrees else DEAD_LETTERS


for command in (fetch, stats, query, explain, verify):
    knowing.command(cls=Sectioned)(command)


# --- for the other commands ---


def validate_knowledge(known: Knowledge | None, shapes: Sequence[Path] | None, files: Sequence[str] = ()) -> bool:
    """Check knowledge against SHACL shapes. Print all violations and warnings. Return True if the knowledge conforms.

    `files`: the files of the knowledge, for messages. Without `shapes`, the shapes of weather stations apply.
    """
    if known is None:
        raise CepError("--shapes: there is no --knowledge", hint="add `--knowledge stations.ttl`", code="option")
    from cep.knowledge.shapes import STATIONS, stations, undescribed_properties, validate, with_files
    from cep.runtime.run_stats import count

    violations = []
    for path in shapes or (STATIONS,):
        if not path.is_file():
            reason = "is a folder, not a file" if path.is_dir() else astray(path) or "does not exist"
            raise CepError(f"--shapes: `{path}` {reason}", code="option")
        violations += validate(known, path)
    if not shapes:
        violations += undescribed_properties(known)
    if violations:
        violations = with_files(violations, files)
    for problem in violations:
        complain(CepError(str(problem), code="shape"))
    problems = sum(not problem.warning for problem in violations)
    counts = [count(len(known), "triple"), f"{count(problems, 'problem')} of its shape"]
    if not shapes and not violations and not stations(known):
        counts[1] = "no stations"
    if problems < len(violations):
        counts.append(count(len(violations) - problems, "warning"))
    say(f"knowledge: {', '.join(counts)}")
    return not problems


def _loaded(files: Sequence[str], reasoning: str | None) -> Knowledge:
    known = knowledge_of(files, reasoning, fetching=True)
    if known is None:
        raise _nothing()
    return known


def _nothing() -> CepError:
    return CepError("there is no knowledge", hint="name it: `--knowledge stations.ttl`", code="option")


def _prefixes(files: Sequence[str], options: Sequence[str]) -> dict[str, str]:
    from cep.core.prefixes import PREFIXES
    from cep.knowledge.report import prefixes

    known = {**PREFIXES, **prefixes(files)}
    for option in options:
        name, equals, iri = option.partition("=")
        if not equals:
            raise CepError(f"--prefix: expected `name=iri`, found `{option}`", code="option")
        known[name.removesuffix(":")] = iri.removeprefix("<").removesuffix(">")
    return known


def _read(sparql: str) -> str:
    if not sparql.startswith("@"):
        return sparql
    try:
        return sys.stdin.read() if sparql == "@-" else Path(sparql[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = reason_of(error)
        raise CepError(f"{sparql[1:]} cannot be read: {reason}", code="option") from None


def _counted(title: str, counts: Sequence[TermCount]) -> list[str]:
    width = max([len(count.name) for count in counts[:SHOWN]] + [len(title)])
    lines = [title]
    for count in counts[:SHOWN]:
        own = f"  {count.inferred:,} inferred" if count.inferred else ""
        lines.append(f"  {count.name:<{width}}  {count.triples:>10,}{own}")
    if len(counts) > SHOWN:
        lines.append(f"  and {len(counts) - SHOWN:,} more")
    return lines
