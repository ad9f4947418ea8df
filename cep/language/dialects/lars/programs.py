"""LARS as a dialect: the text of a program, in either notation, to the tree of fluents that it is lowered to."""

from __future__ import annotations

from cep.core.errors import Source
from cep.core.literals import SECOND
from cep.language.dialects.lars import laser, reader
from cep.language.dialects.lars.answer_set_options import AnswerSetOptions
from cep.language.dialects.lars.ast import LarsProgram
from cep.language.dialects.lars.lowering import lowered
from cep.language.dialects.lars.undeclared import with_inputs
from cep.language.syntax import ast
from cep.rules.parameters import Parameters


def program_of(source: Source, dialect: str, tick: int = SECOND) -> LarsProgram:
    """The program as it is written, in the notation of the dialect, `lars` or `laser`; with `/n` behind it a window of
    n ticks has n of them, not n + 1. `tick`: microseconds of one. Raises CepError with all that is wrong."""
    read = laser.read_laser if dialect.startswith("laser") else reader.read
    return read(source, tick, counted=dialect.endswith("/n"))


def parsed_of(source: Source, dialect: str, tick: int = SECOND, parameters: Parameters | None = None) -> LarsProgram:
    """The same of a file among others, which may say what its variables are. Raises CepError."""
    read = laser.parsed_laser if dialect.startswith("laser") else reader.parsed
    return read(source, tick, dialect.endswith("/n"), parameters)


def lars_tree(
    dialect: str, source: Source, tick: int = SECOND, options: AnswerSetOptions | None = None
) -> ast.SyntaxTree:
    """The same, lowered; what comes in and is not declared is as the rules have it, where no event is declared.
    `options`: of answer sets."""
    return lowered(with_inputs(program_of(source, dialect, tick)), source, options=options)
