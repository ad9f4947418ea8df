"""LARS as a dialect: the way from the text of a program, in either notation, to the tree of fluents."""

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
    """Read a program and check it. Raises CepError with all mistakes.

    `dialect`: `lars` or `laser`. With the suffix `/n`, a window `n` has n ticks instead of n + 1. `tick`: the length of
    a tick in microseconds.
    """
    read = laser.read_laser if dialect.startswith("laser") else reader.read
    return read(source, tick, counted=dialect.endswith("/n"))


def parsed_of(source: Source, dialect: str, tick: int = SECOND, parameters: Parameters | None = None) -> LarsProgram:
    """Read one file of a program, without checking that its variables have values. Raises CepError if the file has
    mistakes."""
    read = laser.parsed_laser if dialect.startswith("laser") else reader.parsed
    return read(source, tick, dialect.endswith("/n"), parameters)


def lars_tree(
    dialect: str, source: Source, tick: int = SECOND, options: AnswerSetOptions | None = None
) -> ast.SyntaxTree:
    """Read and lower a program. If the program declares no event, infer the declarations of its input from the rules.

    `options`: the options of the answer set solver.
    """
    return lowered(with_inputs(program_of(source, dialect, tick)), source, options=options)
