"""The command line is made from dataclasses: every option is declared in one place, and all that is given arrives."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args, get_type_hints

import pytest
import typer
from typer import Argument, Option
from typer.models import OptionInfo
from typer.testing import CliRunner

from cep.app.cli_check import CheckOptions, PlanOptions
from cep.app.cli_explain import ExplainOptions
from cep.app.cli_help import Sectioned
from cep.app.command_line import option_values, parse_options, takes
from cep.app.run_options import RunOptions
from cep.command import app
from cep.core.errors import CepError
from cep.server.options import ONE_PROCESS, ServeOptions

COMMANDS = {
    "check": CheckOptions,
    "plan": PlanOptions,
    "run": RunOptions,
    "explain": ExplainOptions,
    "serve": ServeOptions,
}
OWN_MEANING = {
    "--explain": ("run", "serve"),  # of output, of what is kept
    "--revise": ("explain", "run", "serve"),  # of what is said, of output, of what is kept
    "--format": ("explain", "run", "serve"),  # of the answer, of the input
    "--keep": ("run", "serve"),
    "--token-file": ("explain", "serve"),  # of one who asks a server, of those whom it knows
    "RULES": ("check", "plan", "run", "serve"),  # of several programs, of one
}
"""Words by which commands mean different things, each of which is an option of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Options of the test."""

    PANEL: ClassVar = "The group"

    names: Annotated[tuple[str, ...], Option("--name", "-n", help="Repeatable.")] = ()
    kind: Annotated[Literal["a", "b"], Option(help="Which.")] = "a"


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A command of the test."""

    place: Annotated[Path, Argument(metavar="PLACE", help="Where.")]
    group: Group
    fast_now: Annotated[bool, Option(help="At once.")] = False
    count: Annotated[int | None, Option(metavar="N", min=1, help="How many.")] = None


def made(answers: list[Whole], status: int | None = None) -> typer.Typer:
    command = typer.Typer(rich_markup_mode=None)

    @command.command(cls=Sectioned)
    @takes(Whole)
    def whole(options: Whole) -> int | None:
        """Say what was given."""
        answers.append(options)
        if options.count == 13:
            raise CepError("--count: 13 is unlucky", hint="12 or 14", code="option")
        return status

    return command


def test_what_is_given_arrives() -> None:
    answers: list[Whole] = []
    line = ["here", "-n", "x", "--name", "y", "--kind", "b", "--fast-now", "--count", "3"]
    assert CliRunner().invoke(made(answers), line).exit_code == 0
    assert answers == [Whole(place=Path("here"), group=Group(names=("x", "y"), kind="b"), fast_now=True, count=3)]
    values = [("--name", ("x", "y")), ("--kind", "b"), ("--fast-now", True), ("--count", 3)]
    assert list(option_values(answers[0])) == values


def test_what_is_not_given_is_the_default() -> None:
    answers: list[Whole] = []
    assert CliRunner().invoke(made(answers), ["here"]).exit_code == 0
    assert answers == [Whole(place=Path("here"), group=Group())]
    assert (
        parse_options(Whole, {"place": Path("here"), "names": None, "kind": "a", "fast_now": False, "count": None})
        in answers
    )


def test_the_status_is_what_the_command_gives() -> None:
    assert CliRunner().invoke(made([], 1), ["here"]).exit_code == 1


def test_mistakes_end_with_2() -> None:
    for line, text in (
        (["here", "--count", "13"], "--count: 13 is unlucky\nhint: 12 or 14\n"),
        (["here", "--count", "0"], "--count: `0` is not a whole number of at least 1\nhint: `--count 1`\n"),
        (["here", "--count", "x"], "--count: `x` is not a whole number of at least 1\nhint: `--count 1`\n"),
        (["here", "--kind", "c"], "--kind: `c` is not one of a and b\nhint: `--kind a`\n"),
        ([], "cep: PLACE is missing\nhint: `cep PLACE`\n"),
        (["here", "--fats-now"], "--fats-now is not an option of `cep`\nhint: did you mean `--fast-now`?\n"),
        (["here", "--fast-now=1"], "--fast-now takes no value\nhint: `--fast-now` alone\n"),
        (["here", "--count"], "--count: its value is missing\nhint: `--count 1`\n"),
        (
            ["here", "there"],
            "cep: `there` is one argument too many\nhint: options begin with `--`: `cep --help` lists them\n",
        ),
    ):
        result = CliRunner().invoke(made([]), line, prog_name="cep")
        assert result.exit_code == 2 and result.stderr == text, result.stderr


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("serve rules.cep --port x", "--port: `x` is not a whole number from 0 to 65535\nhint: `--port 8000`\n"),
        ("run rules.cep --first x", "--first: `x` is not a whole number\nhint: `--first TICK`\n"),
        (
            "explain r.cep e --format rtec",
            "--format: `rtec` is not one of text, json and prov\nhint: `--format text`\n",
        ),
        ("chek rules.cep", "`chek` is not a command of `cep`\nhint: did you mean `check`?\n"),
        ("demo fir", "`fir` is not a command of `cep demo`\nhint: did you mean `fire`?\n"),
        ("infer", "cep infer: FILE is missing\nhint: `cep infer FILE`\n"),
    ],
)
def test_every_command_says_it_likewise(line: str, text: str) -> None:
    result = CliRunner().invoke(app, line.split(), prog_name="cep")
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", text)


def test_the_help_has_a_section_for_each_group() -> None:
    text = " ".join(CliRunner().invoke(made([]), ["--help"]).stdout.split())
    assert text.index("The group:") < text.index("-n, --name") < text.index("Options:") < text.index("--fast-now")
    assert "Which. [default: a]" in text and "--count N How many. [x>=1]" in text and "--no-fast-now" not in text


def declared(options: type[Any]) -> Iterator[tuple[str, str]]:
    """The options of a dataclass: each as it is written, and its help."""
    hints = get_type_hints(options, include_extras=True)
    for field in fields(options):
        hint = hints[field.name]
        if is_dataclass(hint):
            yield from declared(hint)  # type: ignore[arg-type]
            continue
        info = get_args(hint)[1]
        flag = f"--{field.name.replace('_', '-')}" if info.default is ... else str(info.default)
        yield flag if isinstance(info, OptionInfo) else info.metavar, info.help


def test_every_option_has_one_meaning() -> None:
    meanings: dict[str, dict[str, list[str]]] = {}
    for command, options in COMMANDS.items():
        names = [name for name, _ in declared(options)]
        assert len(names) == len(set(names)), f"cep {command} has an option twice"
        for name, help in declared(options):
            meanings.setdefault(name, {}).setdefault(help, []).append(command)
    several = {
        name: tuple(sorted(chain.from_iterable(found.values()))) for name, found in meanings.items() if len(found) > 1
    }
    assert several == OWN_MEANING


def test_every_option_is_declared_once() -> None:
    """Its help is written in one place."""
    root = Path(__file__).parent.parent
    modules = [path for folder in ("cep", "demos") for path in (root / folder).rglob("*.py")]
    written = Counter(
        node.value
        for path in modules
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    for options in COMMANDS.values():
        for name, help in declared(options):
            assert written[help] == 1, f"{name}: {help}"


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_command_has_no_option_besides_those_of_its_dataclass(command: str) -> None:
    found = typer.main.get_group(app).commands[command]  # type: ignore[attr-defined]
    parameters = found.params
    assert isinstance(found, Sectioned)
    own = {name for name, _ in declared(COMMANDS[command])}
    written = {one.opts[0] if one.param_type_name == "option" else str(one.metavar) for one in parameters}
    assert {name for name in written if not name.startswith("-h")} - {"--help"} == own


def test_options_for_one_process_are_options_of_serve() -> None:
    assert {name for name, _ in declared(ServeOptions)} >= set(ONE_PROCESS)
