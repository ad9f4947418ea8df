"""The command `cep explain`: why an event was derived, down to the records it comes from, and why one was not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer
from typer import Argument, Option

from cep.app.cli_help import INPUT
from cep.app.cli_options import (
    ChangingKnowledgeOptions,
    DialectOptions,
    EvaluationOptions,
    InputFormat,
    Inputs,
    RuleFile,
)
from cep.app.command_line import takes
from cep.app.durations import refuse
from cep.app.opening import ProgramSource
from cep.app.terminal import announce_compiling, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cep.app.knowledge_updates import KnowledgeUpdates
    from cep.engine import Engine
    from connectors.why.text import Explainer

ALWAYS = 2**62
"""A time that is longer than any input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOptions:
    """The records that the program is run over."""

    PANEL: ClassVar = INPUT

    inputs: Inputs = ()
    input_format: InputFormat = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionOptions:
    """The event that is asked for."""

    PANEL: ClassVar = "The question"

    absent: Annotated[str | None, Option("--not", metavar="EVENT", help="Why there is no such event; with --at.")] = (
        None
    )
    at: Annotated[
        str | None, Option(metavar="TIME", help="The time that it touches: 2013-02-09T03:00, or TIME/TIME.")
    ] = None
    back: Annotated[
        str | None,
        Option(
            metavar="DURATION",
            help="With --not: how long before that time what came counts; else a day, or the longest of the rule.",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions:
    """How much is answered, and how it is written."""

    PANEL: ClassVar = "The answer"

    events: Annotated[int, Option(metavar="N", min=1, help="Of many events that fit, so many of the latest.")] = 1
    most: Annotated[int, Option(metavar="N", min=1, help="How many events one tree holds.")] = 200
    depth: Annotated[int, Option(metavar="N", min=1, help="How many rules deep it goes.")] = 20
    format: Annotated[Literal["text", "json", "prov"], Option(help="prov: PROV-O in N-Triples.")] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    """The options of `cep explain`."""

    rules: RuleFile
    event: Annotated[
        str | None,
        Argument(
            metavar="EVENT",
            help="`warning(EWR)`, `warning(station: EWR)`, `warning`, or the `@id` of one event; `_` is any value.",
        ),
    ] = None
    records: RecordOptions
    question: QuestionOptions
    answer: AnswerOptions
    dialect: DialectOptions
    evaluation: EvaluationOptions
    knowledge: ChangingKnowledgeOptions

    @property
    def event_text(self) -> str:
        """The event, whether it is asked why it is there or why it is not."""
        return self.event or self.question.absent or ""

    def check(self) -> None:
        """CepError: an option is missing, or does not go with another."""
        absent = self.question.absent
        if (self.event is None) == (absent is None):
            raise refuse("what is to be explained?", "either an event, or one after --not")
        if absent is not None and self.answer.format == "prov":
            raise refuse("--format prov: what is not there comes from nothing", "`--format text` or `json`")
        if absent is not None and self.question.at is None:
            raise refuse("--not: there is no --at", "when it might have been: `--at 2013-02-09T03:00`")
        if not self.records.inputs:
            raise refuse("there is no --input", "name a file")


@takes(ExplainOptions)
def explain(options: ExplainOptions) -> int:
    """Say why an event was derived, or why not.

    \b
      cep explain rules.cep 'warning(EWR)' --input reading=weather.csv
      cep explain rules.cep --not 'warning(EWR)' --at 2013-02-09T03:00 -i days
      cep explain rules.cep @1c0ffee5... --input reading=weather.csv --format json

    It runs the program and shows the rule, its variables, conditions and knowledge, and the same of all that the event
    was made of. The exit status is 1 where no such event was derived; with --not, where it was.
    """
    from cep.app.durations import duration
    from cep.app.knowledge_updates import is_stream, knowledge_updates
    from cep.explain.question import read_question

    options.check()
    question, knowledge_options = options.question, options.knowledge
    for name in knowledge_options.updates:
        if is_stream(name) and not Path(name).is_file():
            raise refuse(f"--knowledge-updates {name}: `cep explain` reads changes from files")
    source = ProgramSource.read(options.rules, knowledge_options, options.evaluation.policy, options.dialect)
    engine = source.engine(replace(options.evaluation.engine, remember=ALWAYS))
    back = None if question.back is None else duration(question.back, "--back")
    if not options.event_text.startswith("@"):
        read_question(options.event_text, engine, question.at)  # mistakes are reported before anything runs
    announce_compiling()
    explainer = _run(
        engine,
        options.records.inputs,
        options.records.input_format,
        knowledge_updates(engine, knowledge_options.updates, None),
    )
    if source.known is not None:
        from knowledge.provenance import Provenance
        from knowledge.report import prefixes

        explainer = replace(explainer, facts=Provenance(source.known, prefixes(knowledge_options.files)))
    return _why(explainer, options) if question.absent is None else _not(explainer, options, back)


def _why(explainer: Explainer, options: ExplainOptions) -> int:
    from cep.explain.occurrences import Memory
    from cep.explain.question import read_question
    from cep.runtime.run_stats import count
    from connectors.why.lines import tree
    from connectors.why.prov import provenance
    from connectors.why.text import by_id

    if options.event_text.startswith("@"):
        found = [by_id(explainer.engine, options.event_text)]
    else:
        memory = Memory(explainer.engine)
        every = read_question(options.event_text, explainer.engine, options.question.at).found(memory)
        found = [one for one in every if not memory.is_input(one)]
        if not found:
            hint = f"`--not '{options.event_text}' --at TIME` says why" if not every else "it was read, not derived"
            at = "" if options.question.at is None else f" at {options.question.at}"
            say(f"no event {options.event_text} was derived{at}; {hint}")
            return 1
    shown = found[-options.answer.events :][::-1]
    trees = [explainer.why(one, options.answer.most, options.answer.depth) for one in shown]
    match options.answer.format:
        case "json":
            _say_json(trees)
        case "prov":
            say("".join(provenance(each, explainer.engine) for each in trees).rstrip("\n"))
        case _:
            texts = ["\n".join(tree(each)) for each in trees]
            if len(found) > len(shown):
                rest = count(len(found) - len(shown), "earlier event")
                texts.append(f"{rest} of this kind; `--at` and `--events` choose others")
            say("\n\n".join(texts))
    return 0


def _not(explainer: Explainer, options: ExplainOptions, back: int | None) -> int:
    from cep.explain.question import read_question
    from connectors.why.lines import refusals

    answer = explainer.why_not(read_question(options.event_text, explainer.engine, options.question.at), back)
    _say_json(answer) if options.answer.format == "json" else say("\n".join(refusals(answer)))
    return int(answer["exists"])


def _say_json(answer: Any) -> None:
    import json

    say(json.dumps(answer, ensure_ascii=False, indent=2))


def _run(engine: Engine, inputs: Sequence[str], format: str | None, updates: KnowledgeUpdates) -> Explainer:
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
    with closing(DeadLetters(None)) as dead_letters, interrupt.listening():
        times = form(find(inputs, engine.inputs, format), engine.inputs)
        flow(engine, batches, RunStats(), lambda batch, tables: None, dead_letters, interrupt, updates=updates)
    if interrupt.signal:
        raise typer.Exit(128 + interrupt.signal)
    return Explainer(engine, None, origins, (times or origins.times) != SECONDS)
