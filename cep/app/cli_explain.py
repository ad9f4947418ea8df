"""The command `cep explain`: why an event was derived, down to the records it comes from, and why one was not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cep.app.cli_options import (
    MOST_DERIVED,
    Facts,
    InputFormat,
    Inputs,
    KnowledgeFiles,
    MaxDerivations,
    Policy,
    Reasoning,
    Rules,
    Updates,
)
from cep.app.terminal import compiles, facts_of, knowledge_of, say, settled, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cep.app.knowledge_feed import KnowledgeFeed
    from cep.engine import Engine
    from connectors.why.text import Explainer

QUESTION, ANSWER = "The question", "The answer"
ALWAYS = 2**62
"""A time that is longer than any input."""


def explain(
    rules: Rules,
    event: Annotated[
        str | None,
        typer.Argument(
            metavar="EVENT",
            show_default=False,
            help="`warning(EWR)`, `warning(station: EWR)`, `warning`, or the `@id` of one event; `_` is any value.",
        ),
    ] = None,
    inputs: Inputs = None,
    absent: Annotated[
        str | None,
        typer.Option(
            "--not",
            metavar="EVENT",
            rich_help_panel=QUESTION,
            show_default=False,
            help="Why there is no such event; with --at.",
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            rich_help_panel=QUESTION,
            show_default=False,
            help="The time that it touches: 2013-02-09T03:00, or TIME/TIME.",
        ),
    ] = None,
    back: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            rich_help_panel=QUESTION,
            show_default=False,
            help="With --not: how long before that time what came counts; else a day, or the longest of the rule.",
        ),
    ] = None,
    events: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, rich_help_panel=ANSWER, help="Of many events that fit, so many of the latest."
        ),
    ] = 1,
    most: Annotated[
        int, typer.Option(metavar="N", min=1, rich_help_panel=ANSWER, help="How many events one tree holds.")
    ] = 200,
    depth: Annotated[
        int, typer.Option(metavar="N", min=1, rich_help_panel=ANSWER, help="How many rules deep it goes.")
    ] = 20,
    format: Annotated[
        Literal["text", "json", "prov"], typer.Option(rich_help_panel=ANSWER, help="prov: PROV-O in N-Triples.")
    ] = "text",
    input_format: InputFormat = None,
    policy: Policy = None,
    facts: Facts = None,
    knowledge: KnowledgeFiles = None,
    reasoning: Reasoning = None,
    updates: Updates = None,
    max_derivations: MaxDerivations = MOST_DERIVED,
) -> None:
    """Say why an event was derived, or why not.

    \b
      cep explain rules.cep 'warning(EWR)' --input reading=weather.csv
      cep explain rules.cep --not 'warning(EWR)' --at 2013-02-09T03:00 -i days
      cep explain rules.cep @1c0ffee5... --input reading=weather.csv --format json

    It runs the program and shows the rule, its variables, conditions and knowledge, and the same of all that the event
    was made of. The exit status is 1 where no such event was derived; with --not, where it was.
    """
    status = 0
    with settled():
        from cep.app.durations import duration, refuse
        from cep.app.knowledge_feed import arrives, changing
        from cep.engine import Engine

        if (event is None) == (absent is None):
            raise refuse("what is to be explained?", "either an event, or one after --not")
        if absent is not None and format == "prov":
            raise refuse("--format prov: what is not there comes from nothing", "`--format text` or `json`")
        if absent is not None and at is None:
            raise refuse("--not: there is no --at", "when it might have been: `--at 2013-02-09T03:00`")
        if not inputs:
            raise refuse("there is no --input", "name a file")
        for name in updates or ():
            if arrives(name) and not Path(name).is_file():
                raise refuse(f"--knowledge-updates {name}: `cep explain` reads changes from files")
        known = knowledge_of(knowledge, reasoning)
        engine = Engine.from_text(
            text_of(rules),
            name=str(rules),
            facts=facts_of(facts),
            knowledge=known,
            policy=policy,
            remember=ALWAYS,
            max_derivations=max_derivations,
        )
        told = ExplainOptions(
            event or absent or "", at, None if back is None else duration(back, "--back"), events, most, depth
        )
        told.checked(engine)
        compiles()
        asked = _run(engine, inputs, input_format, changing(engine, updates, None))
        if known is not None:
            from dataclasses import replace

            from knowledge.provenance import Provenance
            from knowledge.report import prefixes

            asked = replace(asked, facts=Provenance(known, prefixes(knowledge or ())))
        status = _not(asked, told, format) if absent is not None else _why(asked, told, format)
    raise typer.Exit(status)


class ExplainOptions:
    """What is asked."""

    def __init__(self, event: str, at: str | None, back: int | None, events: int, most: int, depth: int) -> None:
        self.event = event
        self.at = at
        self.back = back
        self.events = events
        self.most = most
        self.depth = depth

    def checked(self, engine: Engine) -> None:
        """Mistakes are told before anything runs."""
        from cep.explain.question import wanted

        if not self.event.startswith("@"):
            wanted(self.event, engine, self.at)


def _why(asked: Explainer, wish: ExplainOptions, format: str) -> int:
    from cep.explain.occurrences import Memory
    from cep.explain.question import wanted
    from cep.runtime.run_stats import count
    from connectors.why.lines import tree
    from connectors.why.prov import provenance
    from connectors.why.text import by_id

    if wish.event.startswith("@"):
        found = [by_id(asked.engine, wish.event)]
    else:
        memory = Memory(asked.engine)
        every = wanted(wish.event, asked.engine, wish.at).found(memory)
        found = [one for one in every if not memory.is_input(one)]
        if not found:
            hint = f"`--not '{wish.event}' --at TIME` says why" if not every else "it was read, not derived"
            say(f"no event {wish.event} was derived{'' if wish.at is None else f' at {wish.at}'}; {hint}")
            return 1
    shown = found[-wish.events :][::-1]
    trees = [asked.why(one, wish.most, wish.depth) for one in shown]
    match format:
        case "json":
            _say_json(trees)
        case "prov":
            say("".join(provenance(each, asked.engine) for each in trees).rstrip("\n"))
        case _:
            texts = ["\n".join(tree(each)) for each in trees]
            if len(found) > len(shown):
                rest = count(len(found) - len(shown), "earlier event")
                texts.append(f"{rest} of this kind; `--at` and `--events` choose others")
            say("\n\n".join(texts))
    return 0


def _not(asked: Explainer, wish: ExplainOptions, format: str) -> int:
    from cep.explain.question import wanted
    from connectors.why.lines import refusals

    told = asked.why_not(wanted(wish.event, asked.engine, wish.at), wish.back)
    _say_json(told) if format == "json" else say("\n".join(refusals(told)))
    return int(told["exists"])


def _say_json(told: Any) -> None:
    import json

    say(json.dumps(told, ensure_ascii=False, indent=2))


def _run(engine: Engine, inputs: Sequence[str], format: str | None, feed: KnowledgeFeed) -> Explainer:
    """Run the program over files to their end."""
    from contextlib import closing

    from cep.app.pipeline import Interrupt, flow
    from cep.runtime.run_stats import RunStats
    from connectors.dead_letters import DeadLetters
    from connectors.files import replay
    from connectors.inputs import inputs as find
    from connectors.time_format import SECONDS, form
    from connectors.why.origins import Origins
    from connectors.why.text import Explainer

    origins, interrupt = Origins(), Interrupt()
    batches = origins.noted(replay(inputs, engine.inputs, format=format))
    with closing(DeadLetters(None)) as letters, interrupt.listening():
        times = form(find(inputs, engine.inputs, format), engine.inputs)
        flow(engine, batches, RunStats(), lambda batch, tables: None, letters, interrupt, feed=feed)
    if interrupt.wished:
        raise typer.Exit(128 + interrupt.wished)
    return Explainer(engine, None, origins, (times or origins.times) != SECONDS)
