"""How a command's help is laid out: its options in sections, each in the order in which they are declared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand

INPUT, OUTPUT, KNOWLEDGE, RULES = "Input", "Output", "Knowledge", "The rules"
WATCHING, SPARK, OTHER = "While it runs", "On Spark", "Options"
"""The sections that several commands have; `rich_help_panel` of an option names its own, else it is in the last."""


class Sectioned(TyperCommand):
    """Sections come in the order of their first options, the one without a name at the end.

    Before the command begins it is seen that it writes nothing over what it reads (`cep.app.conflicts`, the object of
    its context).
    """

    def invoke(self, ctx: Any) -> Any:
        from cep.app.conflicts import Apart
        from cep.app.terminal import settled
        from cep.core.logs import LOGS

        with settled(LOGS[ctx.params.get("log", "text")]):
            ctx.obj = Apart.of(ctx.params, self.reads())
        return super().invoke(ctx)

    def reads(self) -> Iterable[tuple[str, str]]:
        """What it reads besides what its options name: what that is, and where."""
        return ()

    def format_options(self, ctx: Any, formatter: Any) -> None:
        arguments: list[tuple[str, str]] = []
        sections: dict[str, list[tuple[str, str]]] = {}
        for each in self.get_params(ctx):
            if (told := each.get_help_record(ctx)) is None:
                continue
            if each.param_type_name == "argument":
                arguments.append((told[0].partition(" <")[0], told[1]))  # its type says nothing here
            else:
                sections.setdefault(getattr(each, "rich_help_panel", None) or OTHER, []).append(told)
        if OTHER in sections:
            sections[OTHER] = sections.pop(OTHER)
        for title, rows in (("Arguments", arguments), *sections.items()):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
