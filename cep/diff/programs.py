"""Read the two programs of a comparison. They are files, files in Git, or one program with different parameters."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cep.app.cli_options import DialectOptions, EvaluationOptions, KnowledgeOptions
from cep.app.durations import refuse
from cep.app.opening import ProgramSource
from cep.app.terminal import facts_of, knowledge_of, text_of
from cep.compile import CompiledProgram, CompileOptions, policy_choice
from cep.language.files import joined

GIT = "git:"
_EXAMPLE = "`git:main:rules.cep`"


@dataclass(frozen=True, slots=True)
class Compared:
    """One of the two programs of a comparison. `name`: its name on the command line."""

    name: str
    source: ProgramSource
    program: CompiledProgram


def read_programs(
    names: Sequence[str],
    params: tuple[Mapping[str, object], Mapping[str, object]],
    dialect: DialectOptions,
    evaluation: EvaluationOptions,
    knowledge: KnowledgeOptions,
    strict_types: bool = False,
) -> tuple[Compared, Compared]:
    """Read and compile two programs. If there is only one name, both are the program of this name.

    - `params`: the values of parameters, for the old and for the new program.
    - `strict_types`: True if records that satisfy no WHEN clause become dead letters.

    Raises CepError if a program cannot be read or is not valid.
    """
    if len(names) > 2:
        hint = "join several files of one program with `,`: `old/a.cep,old/b.lars new/a.cep,new/b.lars`"
        raise refuse(f"{len(names)} programs cannot be compared", hint)
    if len(names) == 1 and params[0] == params[1]:
        raise refuse(
            "there is only one program", "name a second one, or set other parameters for it: `--new-param Hot=8`"
        )
    policy_choice(evaluation.policy, "--policy")
    known = knowledge_of(knowledge.files, knowledge.reasoning)
    programs = []
    for name, values in zip((names[0], names[-1]), params):
        text, called, files = joined(read_files(name))
        compiling = CompileOptions(policy=evaluation.policy, files=files, params=values, distinct=evaluation.distinct)
        compiling = replace(compiling, strict_types=strict_types)
        models, limit = dialect.answer_sets
        compiling = replace(compiling, dialect=dialect.dialect, tick=dialect.ticks, models=models, solve_limit=limit)
        source = ProgramSource(called, text, replace(compiling, first=dialect.first))
        source = source.knowing(facts_of(knowledge.facts, text, called, source.options), known)
        programs.append(Compared(name, source, source.compiled(alerts=True)))
    return programs[0], programs[1]


def read_files(name: str) -> list[tuple[str, str]]:
    """Return the name and text of each file of a program.

    `name`: a path, `git:REF:path`, or several of these separated by commas. Raises CepError if a file cannot be read.
    """
    paths = [name] if not name.startswith(GIT) and Path(name).exists() else name.split(",")
    return [(path, _of_git(path) if path.startswith(GIT) else text_of(Path(path))) for path in paths]


def _of_git(name: str) -> str:
    """Return the text of a file in Git. Its path is relative to the top of the repository unless it begins with
    `./`."""
    ref, colon, path = name.removeprefix(GIT).partition(":")
    if not colon or not ref or not path or ref.startswith("-"):
        raise refuse(f"`{name}` is not a version of a file", f"write a revision, then a path: {_EXAMPLE}")
    try:
        shown = subprocess.run(["git", "show", f"{ref}:{path}"], capture_output=True, check=False)
    except OSError as error:
        raise refuse(f"{name}: git cannot be run: {error.strerror}", "install Git, or name a file") from None
    if shown.returncode:
        told = shown.stderr.decode(errors="replace").strip().splitlines()
        reason = told[0].removeprefix("fatal: ") if told else f"git ended with {shown.returncode}"
        hint = "the path begins at the top of the repository; from the current folder it is `./rules.cep`"
        if reason.startswith(("invalid object name", "ambiguous argument", "bad revision")):
            hint = f"there is no branch, tag or commit `{ref}` here: `git branch --all` and `git tag` list them"
        raise refuse(f"{name}: {reason}", hint)
    try:
        return shown.stdout.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise refuse(f"{name}: this is not UTF-8 text", "save the rules as UTF-8") from None
