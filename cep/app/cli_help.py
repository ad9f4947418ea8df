"""The layout of a command's help: sections, and in each section the options in the order of their declaration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_args, get_origin

from typer.core import TyperCommand, TyperGroup

from cep.app.late_imports import import_late

INPUT, OUTPUT, KNOWLEDGE, RULES = "Input", "Output", "Knowledge", "Rules"
WATCHING, SPARK, OTHER = "Monitoring", "Spark", "Options"
"""The titles of help sections that several commands share. The `rich_help_panel` of an option is the title of its
section. The default is `Options`."""


class _WithoutPydantic:
    """A command that converts texts, paths and default values without typer. typer would import pydantic for this,
    which takes a tenth of a second."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if "process_value" not in vars(param) and hasattr(param, "type_descriptor"):  # older versions lack it
                param.process_value = _conversion(param)
        return params


def _conversion(param: Any) -> Callable[[Any, Any], Any]:
    """Return a function that converts the value of a parameter, and then calls the parameter's callback."""
    by_typer, annotation = param.process_value, param.type_descriptor.annotation
    repeated = get_origin(annotation) is list
    kind = get_args(annotation)[0] if repeated else annotation

    def process_value(ctx: Any, value: Any) -> Any:
        is_default = ctx.get_parameter_source(param.name).name == "DEFAULT" and not param.required
        if not is_default and (kind not in (str, Path) or not value):
            return by_typer(ctx, value)
        if repeated:
            value = [kind(item) for item in value or ()]
        elif not is_default:
            value = kind(value)
        return value if param.callback is None else param.callback(ctx, param, value)

    return process_value


class Sectioned(_WithoutPydantic, TyperCommand):
    """A command whose help is divided into sections. The sections are in the order of their first options, with the
    default section last.

    Before the command runs, `cep.app.conflicts` checks that no output would overwrite an input. The command's context
    then contains the `OutputGuard`, which checks the outputs that are opened later.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        from cep.app.usage_errors import own_words

        with own_words(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        from cep.app.conflicts import OutputGuard
        from cep.app.terminal import reporting_errors
        from cep.core.logs import LOGS

        with reporting_errors(LOGS[ctx.params.get("log", "text")]):
            ctx.obj = OutputGuard.of(ctx.params, self.reads())
        return super().invoke(ctx)

    def reads(self) -> Iterable[tuple[str, str]]:
        """Return the inputs of the command that are not named by its options, as pairs (name in messages, path)."""
        return ()

    def format_options(self, ctx: Any, formatter: Any) -> None:
        arguments: list[tuple[str, str]] = []
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if (record := param.get_help_record(ctx)) is None:
                continue
            if param.param_type_name == "argument":
                arguments.append((record[0].partition(" <")[0], record[1]))  # without its type
            else:
                sections.setdefault(getattr(param, "rich_help_panel", None) or OTHER, []).append(record)
        if OTHER in sections:
            sections[OTHER] = sections.pop(OTHER)
        for title, rows in (("Arguments", arguments), *sections.items()):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class Commands(_WithoutPydantic, TyperGroup):
    """A group of commands. If the user enters an unknown command, the group prints its own message."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        from cep.app.usage_errors import own_words

        with own_words(ctx):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        from cep.app.usage_errors import own_words

        with own_words(ctx):
            return super().resolve_command(ctx, args)


class WithoutRecords(Sectioned):
    """A command that reads programs but no records. It loads polars and pyarrow only if a table of facts needs them."""

    def invoke(self, ctx: Any) -> Any:
        import_late("polars", "pyarrow")
        return super().invoke(ctx)
