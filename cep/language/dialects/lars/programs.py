"""LARS as a dialect: the text of a program, in either notation, to the tree of fluents that it is lowered to."""

from __future__ import annotations

from cep.core.errors import Source
from cep.core.literals import SECOND
from cep.language.dialects.lars import laser, reader
from cep.language.dialects.lars.ast import LarsProgram
from cep.language.dialects.lars.lowering import lowered
from cep.language.syntax import ast


def program_of(source: Source, dialect: str, tick: int = SECOND) -> LarsProgram:
    """The program as it is written, in the notation of the dialect. Raises CepError with all that is wrong."""
    return laser.read_laser(source, tick) if dialect == "laser" else reader.read(source, tick)


def read_lars(source: Source, tick: int = SECOND) -> ast.SyntaxTree:
    """A program in Ticker's syntax. `tick`: microseconds of one. Raises CepError with all that is wrong."""
    return lowered(program_of(source, "lars", tick), source)


def read_laser(source: Source, tick: int = SECOND) -> ast.SyntaxTree:
    """The same in Laser's rule strings."""
    return lowered(program_of(source, "laser", tick), source)
