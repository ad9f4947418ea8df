"""The commands `cep check`, `cep plan` and `cep convert`: find mistakes, show the plan, translate dialects."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer
from typer import Argument, Option

from cep.app import completions
from cep.app.cli_help import RULES
from cep.app.cli_options import DialectOptions, KnowledgeOptions, ParameterOptions, PolicyName, RuleFile, RuleFiles
from cep.app.command_line import takes
from cep.app.durations import refuse
from cep.app.opening import ProgramSource
from cep.app.terminal import CLEAN, REFUSED, complain, facts_of, knowledge_of, say, text_of, undeclared
from cep.core.errors import CepError, CepErrors


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedKnowledge(KnowledgeOptions):
    """Options for the knowledge, and for the SHACL shapes to which the knowledge must conform."""

    shapes: Annotated[
        tuple[Path, ...],
        Option(
            metavar="FILE",
            help="Check the knowledge against these SHACL shapes. Repeatable.",
            autocompletion=completions.shape_files,
        ),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    rules: Annotated[
        tuple[Path, ...], Argument(metavar="RULES", help="Files of event rules.", autocompletion=completions.rule_files)
    ] = ()
    together: Annotated[
        bool, Option(help="Check the files as one program, as `cep run` does. Default: each file is a program.")
    ] = False
    dialect: DialectOptions
    parameters: ParameterOptions
    knowledge: CheckedKnowledge


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """Options that decide how rules are evaluated."""

    PANEL: ClassVar = RULES

    policy: PolicyName = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    rules: RuleFiles
    dialect: DialectOptions
    parameters: ParameterOptions
    evaluation: PolicyOptions
    knowledge: KnowledgeOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    rules: RuleFile
    dialect: DialectOptions


@takes(CheckOptions)
def check(options: CheckOptions) -> int:
    """Check programs and report all errors.

    \b
      cep check rules.cep
      cep check rules.cep --knowledge stations.ttl
      cep check --together rules.cep policies.lars
      cep check --knowledge stations.ttl --shapes shapes.ttl

    It also checks that the stations in the knowledge are complete. A warning points at something worth knowing, such as
    a rule whose state grows without limit. The exit status is 2 if there is an error.
    """
    from cep.app.lars_check import LarsCheck
    from cep.runtime.run_stats import count

    refused = False
    shapes = options.knowledge.shapes
    known = knowledge_of(options.knowledge.files, options.knowledge.reasoning, fetching=True)
    if known is None and not options.rules and not shapes:
        raise refuse("there is nothing to check", "name a file of rules, or `--knowledge stations.ttl`")
    if known is not None or shapes:
        from cep.app.cli_knowledge import validate_knowledge

        refused = not validate_knowledge(known, shapes, options.knowledge.files)
    programs = [options.rules] if options.together and options.rules else [(path,) for path in options.rules]
    for files in programs:
        path = ", ".join(map(str, files))
        try:
            source = ProgramSource.written(files, options.dialect, parameters=options.parameters)
            lars = LarsCheck.of(source)
            if lars is not None:
                lars.show_circles()
            tables = facts_of(options.knowledge.facts, source.text, path, source.options)
            program, warnings = source.knowing(tables, known).checked(path)
        except CepError as error:
            refused = True
            complain(error)
            say(f"{path}: {count(len(error.errors) if isinstance(error, CepErrors) else 1, 'error')}")
            continue
        if lars is not None:
            lars.conclude(path, warnings)
            continue
        for number, warning in enumerate(warnings):
            if number:
                typer.echo(err=True)
            complain(warning)
        for note in undeclared(program.inputs):
            typer.echo(f"{path}: {note}", err=True)
        counts = (
            count(program.written.rules, "rule"),
            *([count(sum(not alert.hidden for alert in program.alerts), "alert")] if program.alerts else []),
            count(len(program.inputs.keys() | program.outputs.keys()), "event type"),
            count(0, "error"),
            count(len(warnings), "warning"),
        )
        say(f"{path}: {', '.join(counts)}")
    if refused and len(programs) > 1:
        complain("hint: each file is a program of its own; `cep check --together` takes them as one")
    return REFUSED if refused else CLEAN


@takes(ConvertOptions)
def convert(options: ConvertOptions) -> None:
    """Translate a program of another dialect into the language of events and fluents.

    \b
      cep convert rules.dmtl
      cep convert description.prolog --tick 1ms > rules.cep

    The result means the same. Names that are not valid there are spelled differently: `Flag` becomes `flag`. Input of a
    fluent becomes records with `start` and `end`. A LARS program is printed in the syntax of `.lars` files.
    """
    from cep.language.reading import converted

    say(
        converted(text_of(options.rules), str(options.rules), options.dialect.dialect, options.dialect.ticks).rstrip(
            "\n"
        )
    )


@takes(PlanOptions)
def plan(options: PlanOptions) -> None:
    """Show the plan of a program.

    \b
      cep plan rules.cep
      cep plan rules.cep policies.lars

    The plan lists the binary goals as rules, what they share, their join keys, and how long they keep state.
    """
    from cep.app.lars_check import LarsCheck
    from cep.plan.explain import explain as explained

    source = ProgramSource.read(
        options.rules, options.knowledge, options.evaluation.policy, options.dialect, options.parameters, fetching=True
    )
    engine = source.engine(alerts=True)
    lars = LarsCheck.of(source)
    if engine.written.parameters:
        say(f"parameters\n{engine.written.parameters.listing()}\n")
    say(explained(engine.plan, engine.chained, answers=engine.answers, written=None if lars is None else lars.rules))
