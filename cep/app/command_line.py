"""Commands that are declared by dataclasses. Each field of the dataclass is an option of the command.

A field is annotated with its type and a `typer.Option` (or `Argument`): `lateness: Annotated[str | None,
typer.Option(metavar="DURATION", help="...")] = None`. The option has the name of the field, unless `typer.Option`
contains another name. A field that is a tuple is a repeatable option. A field whose type is a dataclass is a group of
options, and `PANEL` of this dataclass is the title of the group's section in the help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import MISSING, Field, fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo, ParameterInfo

from cep.app.terminal import CLEAN, reporting_errors
from cep.core.logs import LOGS, logged_warnings

Options = TypeVar("Options")
Body = Callable[..., int | None]
"""The function that runs a command. Its arguments are the options and, optionally, a `cep.app.conflicts.OutputGuard`.

It returns the exit status. None means 0.
"""


def takes(options: type[Any]) -> Callable[[Body], Callable[..., None]]:
    """Return a decorator that turns a function into a typer command. The command has the given options, and the
    function's name and docstring.

    If the function raises CepError, the error is reported and the command ends (see
    `cep.app.terminal.reporting_errors`).
    """

    def decorate(body: Body) -> Callable[..., None]:
        asks_guard = len(signature(body).parameters) > 1

        def command(context: typer.Context, **values: Any) -> None:
            log = LOGS[values.get("log", "text")]
            with reporting_errors(log), logged_warnings(log):
                parsed = parse_options(options, values)
                status = body(parsed, context.obj) if asks_guard else body(parsed)
            raise typer.Exit(status or CLEAN)

        first = Parameter("context", Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        parameters = [first, *_parameters(options)]
        command.__name__, command.__doc__, command.__module__ = body.__name__, body.__doc__, body.__module__
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return command

    return decorate


def parse_options(options: type[Options], values: Mapping[str, Any]) -> Options:
    """Create the options from the values of all parameters of a command."""
    parsed: dict[str, Any] = {}
    for field, type, declared in _declared(options):
        if declared is None:
            parsed[field.name] = parse_options(type, values)
        else:
            value = values[field.name]
            parsed[field.name] = tuple(value or ()) if get_origin(type) is tuple else value
    return options(**parsed)


def option_values(options: Any) -> Iterator[tuple[str, Any]]:
    """Yield every option of a dataclass and its groups, as (name on the command line, value)."""
    for field, _, declared in _declared(type(options)):
        value = getattr(options, field.name)
        if declared is None:
            yield from option_values(value)
        elif isinstance(declared, OptionInfo):
            yield _flag(field.name, declared), value


def _declared(options: type[Any]) -> Iterator[tuple[Field[Any], Any, ParameterInfo | None]]:
    hints = get_type_hints(options, include_extras=True)
    for field in fields(options):
        hint = hints[field.name]
        if is_dataclass(hint):
            yield field, hint, None
        else:
            assert get_origin(hint) is Annotated, f"{options.__name__}.{field.name} declares no option"
            type, declared = get_args(hint)
            yield field, type, declared


def _parameters(options: type[Any]) -> Iterator[Parameter]:
    for field, type, declared in _declared(options):
        if declared is None:
            yield from _parameters(type)
            continue
        declared = copy(declared)
        default = Parameter.empty if field.default is MISSING else field.default
        declared.show_default = default is not Parameter.empty and bool(default)
        if isinstance(declared, OptionInfo):
            declared.default = _flag(field.name, declared)  # in `Annotated` it is the first name
            declared.rich_help_panel = getattr(options, "PANEL", None)
        if get_origin(type) is tuple:  # typer knows lists only
            type = list.__class_getitem__(get_args(type)[0])
            if default is not Parameter.empty:
                type, default = type | None, None
        annotation = Annotated[type, declared]  # type: ignore[valid-type]
        yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _flag(name: str, declared: ParameterInfo) -> str:
    return f"--{name.replace('_', '-')}" if declared.default is ... else str(declared.default)
