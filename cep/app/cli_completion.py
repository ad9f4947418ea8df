"""`cep completion`: print the script with which a shell completes commands, options, values and file names.

Each time the user presses Tab, the shell runs `cep` with `_CEP_COMPLETE` in the environment (typer's protocol).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, Literal

from typer import Argument

from cep.app.command_line import takes
from cep.app.terminal import say

ASKED = "_CEP_COMPLETE"

# Typer's own script for bash cannot complete a word with `=` or `:`, where bash begins another word.
_BASH = r"""
_cep_completion() {
    local line="${COMP_LINE:0:COMP_POINT}" words word at before="" answer
    read -a words <<< "$line"
    at=$((${#words[@]} - 1))
    word="${words[at]}"
    [[ "$line" == *[[:space:]] ]] && at=$((at + 1)) word=""
    [[ "$word" == *[=:]* ]] && before="${word%"${word##*[=:]}"}"
    COMPREPLY=()
    while IFS= read -r answer; do
        [[ -z "$answer" ]] && continue
        [[ "$answer" == *" "* ]] && printf -v answer %q "$answer"
        COMPREPLY+=("${answer#"$before"}")
    done < <(_CEP_COMPLETE=complete_bash COMP_WORDS="$line" COMP_CWORD=$at "$1" 2> /dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == *[/=] ]]; then
        type compopt &> /dev/null && compopt -o nospace
    fi
    return 0
}
complete -o default -F _cep_completion cep
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionOptions:
    shell: Annotated[Literal["bash", "zsh", "fish"], Argument(metavar="SHELL", help="bash, zsh or fish.")]


@takes(CompletionOptions)
def completion(options: CompletionOptions) -> None:
    """Print the script with which a shell completes `cep`.

    \b
      cep completion bash >> ~/.bashrc
      cep completion zsh >> ~/.zshrc
      cep completion fish > ~/.config/fish/completions/cep.fish

    It completes commands, options, the words that an option accepts, and files by their suffix. It takes effect in the
    next shell. In zsh, run `compinit` first.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    if options.shell == "bash":
        say(_BASH.strip())
    else:
        say(get_completion_script(prog_name="cep", complete_var=ASKED, shell=options.shell))


def answering() -> None:
    """If a shell has started this process to get completions, let typer print them."""
    if ASKED in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
        os.environ["COLUMNS"] = "10000"  # a line of help that is wrapped would be read as several answers
