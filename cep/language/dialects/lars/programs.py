"""LARS as a dialect: the text of a program, in either notation, to the tree of fluents that it is lowered to."""

from __future__ import annotations

from cep.core.errors import Source
from cep.core.literals import SECOND
from cep.language.dialects.lars import laser, reader
from cep.language.dialects.lars.lowering import lowered
from cep.language.syntax import ast


def read_lars(source: Source, tick: int = SECOND) -> ast.SyntaxTree:
    """A program in Ticker's syntax. `tick`: microseconds of one. Raises CepError with all that is wrong."""
    return lowered(reader.read(source, tick), source)


def read_laser(source: Source, tick: int = SECOND) -> ast.SyntaxTree:
    """The same in Laser's rule strings."""
    return lowered(laser.read_laser(source, tick), source)
