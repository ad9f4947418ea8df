"""The command `cep explain`. It shows why an event was derived, down to the input records, or why not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from typer import Argument, Option

from cep.app import completions
from cep.app.cli_options import (
    ChangingKnowledgeOptions,
    DialectOptions,
    EvaluationOptions,
    InputFormat,
    ParameterOptions,
    StoredInputOptions,
)
from cep.app.command_line import takes
from cep.app.durations import refuse
from cep.app.opening import ProgramSource
from cep.app.terminal import announce_compiling, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cep.connectors.why.text import Explainer
    from cep.explain.question import EventQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOptions(StoredInputOptions):
    """Options for the records that the program reads."""

    input_format: InputFormat = None
    revise: Annotated[
        str | None,
        Option(
            metavar="DURATION",
            help="Correct results within this time, as `cep run` does, and show what came late, was corrected or "
            "withdrawn.",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionOptions:
    """Options that name the event to explain."""

    PANEL: ClassVar = "Question"

    absent: Annotated[
        str | None, Option("--not", metavar="EVENT", help="Explain why there is no such event; needs --at.")
    ] = None
    at: Annotated[
        str | None,
        Option(
            metavar="TIME",
            help="A time that the event covers: 2013-02-09T03:00, a number as in the output, or TIME/TIME.",
        ),
    ] = None
    back: Annotated[
        str | None,
        Option(
            metavar="DURATION",
            help="With --not: how far back to look for input. Default: a day, or the longest window of the rule.",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions:
    """Options for the size and format of the answer."""

    PANEL: ClassVar = "Answer"

    events: Annotated[int, Option(metavar="N", min=1, help="If several events match, explain the latest N.")] = 1
    most: Annotated[int, Option(metavar="N", min=1, help="Largest number of events in one tree.")] = 200
    depth: Annotated[int, Option(metavar="N", min=1, help="Largest depth of a tree, in rules.")] = 20
    format: Annotated[Literal["text", "json", "prov"], Option(help="prov: PROV-O in N-Triples.")] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    arguments: Annotated[
        tuple[str, ...],
        Argument(
            metavar="RULES EVENT",
            help="A file of event rules, several as one program, and then the event: `warning(EWR)`, "
            "`warning(station: EWR)`, `warning`, or the `@id` of one event; `_` is any value.",
            autocompletion=completions.rule_files,
        ),
    ]
    records: RecordOptions
    question: QuestionOptions
    answer: AnswerOptions
    dialect: DialectOptions
    parameters: ParameterOptions
    evaluation: EvaluationOptions
    knowledge: ChangingKnowledgeOptions

    @property
    def rules(self) -> tuple[Path, ...]:
        """The files of the program: all arguments except the event to explain."""
        return tuple(map(Path, self.arguments if self.event is None else self.arguments[:-1]))

    @property
    def event(self) -> str | None:
        """The event to explain, which is the last argument. It is None if `--not` names the event."""
        from cep.language.reading import OWN, SUFFIXES

        *before, last = self.arguments
        is_file = self.question.absent is not None and Path(last).suffix in (OWN, *SUFFIXES)
        return None if not before or is_file else last

    @property
    def event_text(self) -> str:
        """Return the event to explain, from the last argument or from `--not`."""
        return self.event or self.question.absent or ""

    def check(self) -> None:
        """Raise CepError if an option is missing, or cannot be combined with another option."""
        from cep.language.reading import OWN, SUFFIXES

        absent = self.question.absent
        if self.event is not None and Path(self.event).suffix in (OWN, *SUFFIXES):
            hint = f"the event comes last: `cep explain {' '.join(self.arguments)} 'warning(EWR)'`, or one after --not"
            raise refuse("name one event to explain", hint)
        if (self.event is None) == (absent is None):
            raise refuse("name one event to explain", "write it as the last argument, or after --not")
        if absent is not None and self.answer.format == "prov":
            raise refuse("--format prov: an event that did not occur has no provenance", "`--format text` or `json`")
        if absent is not None and self.question.at is None:
            raise refuse("--not: there is no --at", "add the time to explain: `--at 2013-02-09T03:00`")
        if not self.records.inputs:
            raise refuse("there is no --input", "name a file")


@takes(ExplainOptions)
def explain(options: ExplainOptions) -> int:
    """Explain why an event was derived, or why not.

    \b
      cep explain rules.cep 'warning(EWR)' --input reading=weather.csv
      cep explain rules.cep policies.lars 'warning(EWR)' --input days
      cep explain rules.cep --not 'warning(EWR)' --at 2013-02-09T03:00 -i days
      cep explain rules.cep @1c0ffee5... --input reading=weather.csv --format json

    It runs the program and shows the rule, its variables, conditions and knowledge, and the same for all events from
    which it was derived. The exit status is 1 if no such event was derived; with --not, if one was.
    """
    from cep.app.knowledge_updates import is_stream

    options.check()
    for name in options.knowledge.updates:
        if is_stream(name) and not Path(name).is_file():
            raise refuse(f"--knowledge-updates {name}: `cep explain` reads changes from files")
    with TemporaryDirectory(prefix="semcep-") as folder:
        return _explained(options, Path(folder))


def _explained(options: ExplainOptions, folder: Path) -> int:
    """Answer the question, and return the exit status. `folder`: a folder for records downloaded from a server."""
    from cep.app.durations import duration, revise_duration
    from cep.app.explained_run import ALWAYS, StoredRecords, is_corrected, knowing
    from cep.app.served_history import downloaded
    from cep.connectors.inputs import inputs as find
    from cep.connectors.writing.time_format import number_size
    from cep.engine import Engine
    from cep.explain.question import interval, read_question
    from cep.plan.event_schemas import inputs_of

    question, knowledge_options, evaluation = options.question, options.knowledge, options.evaluation
    source = ProgramSource.read(
        options.rules, knowledge_options, evaluation.policy, options.dialect, options.parameters,
        distinct=evaluation.distinct,
    )  # fmt: skip
    program = source.compiled()
    schemas = inputs_of(program.plan)
    local = downloaded(options.records.inputs, schemas, options.records.token_file, folder)
    unit = number_size(find(local.inputs, schemas, options.records.input_format), schemas)
    span = (None, None) if question.at is None else interval(question.at, unit)
    running = replace(options.evaluation.engine, remember=ALWAYS, corrected=True, start=span[0], until=span[1])
    engine = Engine(program, running)
    back = None if question.back is None else duration(question.back, "--back")
    text = options.event_text
    asked = None if text.startswith("@") else read_question(text, engine, question.at, unit)
    announce_compiling()
    revise = None if options.records.revise is None else revise_duration(options.records.revise)
    first = None
    if revise is not None or is_corrected(engine):
        first = Engine(program, replace(options.evaluation.engine, revise=revise, explain=True))
    records = StoredRecords(
        inputs=local.inputs,
        format=options.records.input_format,
        as_they_stand=revise is not None,
        updates=knowledge_options.updates,
        names=local.servers,
    )
    explainer = records.explained(engine, first, None if asked is None else asked.event)
    explainer = knowing(explainer, source.known, knowledge_options.files)
    if question.absent is None:
        return _why(explainer, asked, options)
    if asked is None:
        raise refuse("--not: an `@id` names an event that occurred", "name the event: `--not 'warning(EWR)'`")
    return _not(explainer, asked, options, back)


def _why(explainer: Explainer, asked: EventQuestion | None, options: ExplainOptions) -> int:
    """Explain why an event was derived. `asked`: the event, or None if the options name its `@id`."""
    from cep.connectors.why import revised
    from cep.connectors.why.lines import tree
    from cep.connectors.why.prov import provenance
    from cep.connectors.why.text import by_id
    from cep.explain.occurrences import Memory
    from cep.runtime.run_stats import count

    if asked is None:
        if gone := revised.withdrawn(explainer, options.event_text):
            return _gone(gone, options)
        events = [by_id(explainer.engine, options.event_text)]
    else:
        memory = Memory(explainer.engine)
        every = asked.found(memory)
        events = [event for event in every if not memory.is_input(event)]
        if not events and (gone := revised.withdrawn(explainer, asked)):
            return _gone(gone[: options.answer.events], options)
        if not events:
            hint = f"`--not '{options.event_text}' --at TIME` says why" if not every else "it was read, not derived"
            when = "" if options.question.at is None else f" at {options.question.at}"
            say(f"no event {options.event_text} was derived{when}; {hint}")
            return 1
    shown = events[-options.answer.events :][::-1]
    since = None if options.question.at is None or asked is None else asked.since
    trees = [explainer.why(event, options.answer.most, options.answer.depth, since) for event in shown]
    match options.answer.format:
        case "json":
            _say_json(trees)
        case "prov":
            say("".join(provenance(tree, explainer.engine) for tree in trees).rstrip("\n"))
        case _:
            texts = ["\n".join(tree(answer)) for answer in trees]
            if len(events) > len(shown):
                rest = count(len(events) - len(shown), "earlier event")
                texts.append(f"{rest} of this kind not shown; `--at` and `--events` choose others")
            say("\n\n".join(texts))
    return 0


def _not(explainer: Explainer, asked: EventQuestion, options: ExplainOptions, back: int | None) -> int:
    """Explain why an event was not derived. Return the exit status, which is 1 if the event was derived after all."""
    from cep.connectors.why import revised
    from cep.connectors.why.lines import refusals, withdrawn

    answer = explainer.why_not(asked, back)
    gone = [] if answer["exists"] else revised.withdrawn(explainer, asked)
    if options.answer.format == "json":
        _say_json(answer | {"withdrawn": gone} if gone else answer)
    else:
        say("\n\n".join("\n".join(lines) for lines in (*map(withdrawn, gone), refusals(answer))))
    return int(answer["exists"])


def _gone(gone: Sequence[dict[str, Any]], options: ExplainOptions) -> int:
    from cep.connectors.why.lines import withdrawn

    if options.answer.format == "prov":
        raise refuse("--format prov: an event that was withdrawn has no provenance", "`--format text` or `json`")
    if options.answer.format == "json":
        _say_json(gone)
    else:
        say("\n\n".join("\n".join(withdrawn(event)) for event in gone))
    return 1


def _say_json(answer: Any) -> None:
    import json

    say(json.dumps(answer, ensure_ascii=False, indent=2))
