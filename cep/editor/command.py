"""The command `cep lsp`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cep.app.cli_help import KNOWLEDGE
from cep.app.cli_options import KnowledgeFiles, ReasoningName
from cep.app.command_line import takes
from cep.app.durations import refuse
from cep.core.extras import install_command


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorOptions:
    PANEL: ClassVar = KNOWLEDGE

    files: KnowledgeFiles = ()
    reasoning: ReasoningName = None


@takes(EditorOptions)
def lsp(options: EditorOptions) -> None:
    """Start a language server (LSP) for editors.

    \b
      cep lsp
      cep lsp --knowledge stations.ttl

    Editors start it and talk to it on standard input and output. It reports the diagnostics of `cep check` as you
    type, shows and finds definitions, completes and renames names, and formats programs. A program is one file, or the
    files that a test file next to it lists, with the knowledge listed there.
    """
    try:
        from cep.editor.server import rule_server
    except ModuleNotFoundError as error:
        if error.name not in ("pygls", "lsprotocol"):
            raise
        raise refuse("`cep lsp` needs a library for the protocol", install_command("editor")) from None
    rule_server(options.files, options.reasoning).start_io()
