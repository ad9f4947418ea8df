"""Reader of LARS programs in the dialects `lars` and `laser`. A program is lowered to a syntax tree of rules for
fluents."""

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

    `dialect`: `lars` or `laser`, or one of these with the suffix `/n`. A window `[n]` has n + 1 ticks; with the suffix,
    it has n ticks. `tick`: the length of a tick in microseconds.
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
