"""The command `cep`, which combines all subcommands."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.main import get_command

from cep.app.cli_completion import answering
from cep.app.cli_help import Commands, Sectioned, WithoutRecords
from cep.app.terminal import REFUSED, complain, drain, reporting_errors, say
from cep.core.errors import CepError

# A command is imported when it is called, and imports its dependencies when it runs, so that all commands start fast.

PLACES: Mapping[str, str] = {
    "infer": "cep.app.cli_infer:infer",
    "check": "cep.app.cli_check:check",
    "fmt": "cep.app.cli_format:fmt",
    "convert": "cep.app.cli_check:convert",
    "plan": "cep.app.cli_check:plan",
    "run": "cep.app.cli_run:run",
    "test": "cep.testing.command:test",
    "backtest": "cep.backtest.command:backtest",
    "diff": "cep.diff.command:diff",
    "explain": "cep.app.cli_explain:explain",
    "serve": "cep.server.command:serve",
    "lsp": "cep.editor.command:lsp",
    "completion": "cep.app.cli_completion:completion",
    "alerts": "cep.app.cli_alerts:handling",
    "knowledge": "cep.app.cli_knowledge:knowing",
    "demo": "cep.demos.command:demos",
}
"""The place of each subcommand's code (module and name), in the order of `cep --help`."""
_WITHOUT_RECORDS = ("check", "fmt", "convert", "plan")


class _Imported(Mapping[str, Any]):
    """The subcommands by name. A subcommand is imported when it is first used."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            module, _, attribute = PLACES[name].partition(":")
            attached = getattr(import_module(module), attribute)
            if not isinstance(attached, typer.Typer):
                alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
                shown = "Translate a program of another dialect into our own language." if name == "convert" else None
                kind = WithoutRecords if name in _WITHOUT_RECORDS else Sectioned
                alone.command(name, cls=kind, short_help=shown)(attached)
                attached = alone
            self._made[name] = get_command(attached)
            self._made[name].name = name
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(PLACES)

    def __len__(self) -> int:
        return len(PLACES)


class AllCommands(Commands):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Imported()  # type: ignore[assignment]


app = typer.Typer(
    name="cep",
    cls=AllCommands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> NoReturn:
    answering()
    try:
        app(prog_name="cep")
    except OSError as error:  # also from `--help`, which typer writes
        if error.errno != errno.ENOSPC:
            raise
        where = "" if error.filename is None else f" {error.filename}"
        complain(CepError(f"cannot write{where}: {error.strerror}", hint="free some disk space there"))
        drain()
        sys.exit(REFUSED)
    raise AssertionError("typer exits")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            text = f"cep {version('semcep')}"
        except PackageNotFoundError:
            text = "cep (run from its source, not installed)"
        with reporting_errors():
            say(text)
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Event rules in, derived events out.

    \b
      cep demo blizzard
      cep check rules.cep
      cep run rules.cep --input reading=weather.csv
      cep run rules.cep --input events.jsonl --output derived.parquet
      tail -f events.jsonl | cep run rules.cep --input - --lateness 10min
    """
