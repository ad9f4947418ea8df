"""Program text to syntax tree, in whichever dialect it is written: the suffix of its file says which, or an option."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cep.core.errors import CepError, Source
from cep.core.literals import SECOND
from cep.core.suggest import did_you_mean
from cep.language.dialects.datalogmtl.reader import read as read_datalogmtl
from cep.language.dialects.lars.ast import LarsProgram
from cep.language.dialects.lars.printer import print_program as print_lars
from cep.language.dialects.lars.programs import program_of, read_lars, read_laser
from cep.language.dialects.rtec.reader import read as read_rtec
from cep.language.spelled import spelled
from cep.language.syntax import ast
from cep.language.syntax.parser import LONGEST as LONGEST
from cep.language.syntax.parser import parse
from cep.language.syntax.parser import too_long as too_long
from cep.language.syntax.printer import print_program

SUFFIXES = {".dmtl": "datalogmtl", ".prolog": "rtec", ".lars": "lars"}
"""Dialects by the suffix of a file; any other holds the language of events and fluents."""
_READERS: Mapping[str, Callable[[Source, int], ast.SyntaxTree]] = {
    "datalogmtl": read_datalogmtl, "rtec": read_rtec, "lars": read_lars, "laser": read_laser
}  # fmt: skip
DIALECTS = tuple(_READERS)
LARS = ("lars", "laser")
"""The dialects that are LARS, in one notation or the other."""


def dialect_of(name: str, dialect: str | None = None) -> str | None:
    """The dialect of a program: the one that is asked for, else that of the file's suffix; None: our own. Raises
    CepError."""
    if dialect is None:
        return next((found for suffix, found in SUFFIXES.items() if name.endswith(suffix)), None)
    if dialect not in _READERS:
        hint = did_you_mean(dialect, _READERS) or f"the dialects are {', '.join(DIALECTS)}"
        raise CepError(f"--dialect: `{dialect}` is no dialect", hint=hint, code="option")
    return dialect


def lars_program(
    text: str, name: str = "<program>", dialect: str | None = None, tick: int | None = None
) -> LarsProgram | None:
    """The program of LARS that a text is; None: it is of no such dialect. Raises CepError."""
    found = dialect_of(name, dialect)
    if found not in LARS:
        return None
    if len(text) > LONGEST:
        raise too_long(name)
    return program_of(Source(text, name), found, SECOND if tick is None else tick)


def converted(text: str, name: str = "<program>", dialect: str | None = None, tick: int | None = None) -> str:
    """A program in our own language, which means the same; one of LARS in Ticker's syntax. Raises CepError."""
    lars = lars_program(text, name, dialect, tick)
    if lars is not None:
        return print_lars(lars)
    return print_program(spelled(read(text, name, dialect, tick)))


def read(text: str, name: str = "<program>", dialect: str | None = None, tick: int | None = None) -> ast.SyntaxTree:
    """The statements of a program. `tick`: microseconds of the number 1 in a dialect, a second if None. Raises
    CepError."""
    found = dialect_of(name, dialect)
    if found is None:
        if tick is not None:
            hint = f"`10 s`, `5 min`; a dialect has ticks: `--dialect {DIALECTS[0]}`"
            raise CepError("--tick: times of this program have units", hint=hint, code="option")
        return parse(text, name)
    if len(text) > LONGEST:
        raise too_long(name)
    return _READERS[found](Source(text, name), SECOND if tick is None else tick)
