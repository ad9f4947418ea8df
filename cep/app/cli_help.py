"""The layout of a command's help: options in sections, each in the order of declaration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand, TyperGroup

from cep.app.late_imports import import_late

INPUT, OUTPUT, KNOWLEDGE, RULES = "Input", "Output", "Knowledge", "Rules"
WATCHING, SPARK, OTHER = "Monitoring", "Spark", "Options"
"""Titles of sections that several commands share. The `rich_help_panel` of an option names its section; the default is
`Options`."""


class Sectioned(TyperCommand):
    """A command whose help has sections, in the order of their first options, with the default section last.

    Before it runs, `cep.app.conflicts` checks that no output would overwrite an input. The command's context stores the
    guard that checks later outputs.
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
        """Return further inputs that no option names, as pairs (name in messages, path)."""
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


class Commands(TyperGroup):
    """A group of commands, with its own message for unknown names."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        from cep.app.usage_errors import own_words

        with own_words(ctx):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        from cep.app.usage_errors import own_words

        with own_words(ctx):
            return super().resolve_command(ctx, args)


class WithoutRecords(Sectioned):
    """A command that reads programs. It loads the packages for records only if there are tables of facts."""

    def invoke(self, ctx: Any) -> Any:
        import_late("polars", "pyarrow")
        return super().invoke(ctx)
