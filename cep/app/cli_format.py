"""The command `cep fmt`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from cep.app import completions
from cep.app.command_line import takes
from cep.app.durations import refuse
from cep.app.terminal import CLEAN, REFUSED, complain, say, text_of
from cep.core.errors import CepError, CepErrors

DIFFERS = 1
"""The exit status of `--check` if a file is not formatted."""
_STDIN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatOptions:
    files: Annotated[
        tuple[Path, ...],
        Argument(
            metavar="FILE",
            help="Programs (`.cep`), folders of programs, or `-` to read standard input and write standard output.",
            autocompletion=completions.rule_files,
        ),
    ]
    check: Annotated[bool, Option(help="Write nothing, and exit with status 1 if a layout would change.")] = False
    diff: Annotated[bool, Option(help="Write nothing, and print what would change.")] = False


@takes(FormatOptions)
def fmt(options: FormatOptions) -> int:
    """Format programs.

    \b
      cep fmt rules.cep
      cep fmt --check .
      cep fmt --diff rules.cep
      cep fmt - < rules.cep

    Spaces, indentation and the case of keywords change; the meaning, comments, blank lines and line breaks stay. Text
    that is aligned in columns stays aligned. Each statement begins a line, and a line of more than 120 columns is
    broken. Graph patterns stay as they are, and so does a program with a syntax error.
    """
    from cep.language.reading import formatted
    from cep.runtime.run_stats import count

    texts = _texts(options.files)
    beside = {str(path): text for path, text in texts.items()}
    refused, changed = False, 0
    for path, text in texts.items():
        name = "<stdin>" if str(path) == _STDIN else str(path)
        try:
            laid_out = formatted(text, name, beside)
        except CepError as error:
            refused = True
            complain(error)
            say(f"{name}: {count(len(error.errors) if isinstance(error, CepErrors) else 1, 'error')}, left as it is")
            continue
        changed += laid_out != text
        if options.diff:
            before, after = text.splitlines(keepends=True), laid_out.splitlines(keepends=True)
            lines = "".join(_whole(line) for line in unified_diff(before, after, name, f"{name}, formatted"))
            if lines:
                say(lines.rstrip("\n"))
        elif options.check:
            if laid_out != text:
                say(f"{name}: the layout differs")
        elif str(path) == _STDIN:
            say(laid_out.removesuffix("\n"))
        elif laid_out != text:
            _replace(path, laid_out)
            say(f"{name}: formatted")
    if str(_STDIN) not in beside and not options.diff:
        does = "would be formatted" if options.check else "formatted"
        say(f"{count(len(texts), 'file')}, {changed} {does}")
    if refused:
        return REFUSED
    return DIFFERS if options.check and changed else CLEAN


def _texts(paths: tuple[Path, ...]) -> dict[Path, str]:
    """Read the named files, and all programs in the named folders."""
    texts: dict[Path, str] = {}
    for path in paths:
        if str(path) == _STDIN:
            if len(paths) > 1:
                raise refuse("`-` is standard input, which cannot be combined with files", "name one or the other")
            try:
                texts[path] = sys.stdin.buffer.read().decode("utf-8-sig")
            except UnicodeDecodeError:
                raise refuse("standard input is not UTF-8 text") from None
        elif path.is_dir():
            below = sorted(file for file in path.rglob("*.cep") if file.is_file())
            if not below:
                raise refuse(f"{path}: there is no `.cep` file in this folder", "name the programs")
            texts |= {file: text_of(file) for file in below}
        else:
            texts[path] = text_of(path, "`cep fmt` lays out programs: `cep fmt rules.cep`")
    return texts


def _whole(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ no line break at the end of the file\n"


def _replace(path: Path, text: str) -> None:
    try:
        path.write_bytes(text.encode())
    except OSError as error:
        raise CepError(f"cannot write {path}: {error.strerror}", code="option") from None
