"""Rephrase errors on the command line like the project's other errors: what is wrong, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from cep.app.terminal import REFUSED, complain
from cep.core.errors import CepError
from cep.core.suggest import did_you_mean

_UsageError: Any = typer.BadParameter.__bases__[0]  # typer does not export it


@contextmanager
def own_words(context: Any) -> Iterator[None]:
    """Report command-line errors raised inside a `with` block in the project's own words, and exit with 2."""
    try:
        yield
    except _UsageError as error:
        if context.resilient_parsing or type(error).__name__ == "NoArgsIsHelpError":
            raise
        complain(_reworded(error, error.ctx or context))
        raise typer.Exit(REFUSED) from None


def _reworded(error: Any, context: Any) -> CepError:
    command = context.command_path
    listed = f"`{command} {context.help_option_names[0]}` lists them"
    match type(error).__name__:
        case "MissingParameter":
            missing = error.param.metavar or error.param.name.upper()
            return _refused(f"{command}: {missing} is missing", f"`{command} {missing}`")
        case "BadParameter":
            return _bad_value(error)
        case "NoSuchOption":
            known = [name for param in context.command.get_params(context) for name in param.opts]
            hint = did_you_mean(error.option_name, known) or listed
            return _refused(f"{error.option_name} is not an option of `{command}`", hint)
        case "BadOptionUsage":
            option = next(
                (param for param in context.command.get_params(context) if error.option_name in param.opts), None
            )
            if option is None or option.is_flag:
                return _refused(f"{error.option_name} takes no value", f"`{error.option_name}` alone")
            return _refused(f"{error.option_name}: its value is missing", f"`{error.option_name} {_example(option)}`")
        case _ if error.message.startswith("No such command"):
            names = context.command.list_commands(context)
            wrong = error.message.split("'")[1]
            hint = did_you_mean(wrong, names) or f"there are {', '.join(names)}"
            return _refused(f"`{wrong}` is not a command of `{command}`", hint)
        case _ if error.message.startswith("Got unexpected extra argument"):
            more = error.message.partition("(")[2].partition("(")[2].rstrip(")") or error.message
            return _refused(f"{command}: `{more}` is one argument too many", f"options begin with `--`: {listed}")
        case _:
            return _refused(f"{command}: {_lowered(error.message)}", listed)


def _bad_value(error: Any) -> CepError:
    option = error.param
    name = max(option.opts, key=len) if option.opts[0].startswith("-") else option.metavar or option.name.upper()
    causes: list[Any] = getattr(error.__cause__, "errors", list)()
    rejected = causes[0]["input"] if causes else None
    choices = re.findall(r"'([^']*)'", error.message.partition("is not one of")[2])
    if rejected is None:
        return _refused(f"{name}: {_lowered(error.message)}", f"`{name} {_example(option)}`")
    if choices:
        *others, last = choices
        hint = did_you_mean(str(rejected), choices) or f"`{name} {choices[0]}`"
        return _refused(f"{name}: `{rejected}` is not one of {', '.join(others)} and {last}", hint)
    low, high = getattr(option, "min", None), getattr(option, "max", None)
    bounds = "" if low is None else f" from {low} to {high}" if high is not None else f" of at least {low}"
    return _refused(f"{name}: `{rejected}` is not a whole number{bounds}", f"`{name} {_example(option)}`")


def _example(option: Any) -> str:
    """Return an example value for an option: its default, or else its minimum, or else its placeholder in the help."""
    for value in (option.default, getattr(option, "min", None)):
        if value is not None and not callable(value):
            return str(value)
    return str(option.metavar or "1")


def _lowered(message: str) -> str:
    return message[:1].lower() + message[1:].rstrip(".")


def _refused(message: str, hint: str) -> CepError:
    return CepError(message, hint=hint, code="option")
