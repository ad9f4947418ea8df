"""Readers of programs that Python code passes: texts or files, facts as tables of any library, and knowledge as
triples."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl

from cep.compile import CompiledProgram, CompileOptions, ReadProgram, one_text
from cep.connectors.frames.reading import whole_table
from cep.connectors.records.times import of_duration
from cep.core.errors import CepError
from cep.core.schema import Schema
from cep.core.suggest import did_you_mean
from cep.runtime.knowledge_source import KnowledgeSource

Duration = timedelta | str
"""A duration: `timedelta(minutes=5)` or `"5 min"`."""


Program = str | Path | Mapping[str, str] | Sequence[Path]
"""A program: its text, its file, the texts of several files by name, or several files."""


def program_text(program: Program) -> tuple[str | Mapping[str, str], str]:
    """Return the text of a program, or the texts of several files by name. Also return the program's name in messages.

    Raises CepError if a text is the name of a file.
    """
    if isinstance(program, Mapping):
        return program, "<program>"
    if not isinstance(program, str | Path):
        return {str(path): path.read_text(encoding="utf-8") for path in program}, "<program>"
    if isinstance(program, Path):
        return program.read_text(encoding="utf-8"), str(program)
    if program.endswith(".cep") and "\n" not in program:
        hint = f'pass the file as a path: `detect(Path("{program}"), data)`'
        raise CepError(f"`{program}` is the name of a file, not the text of a program", hint=hint, code="input")
    return program, "<program>"


def compiled_program(
    text: str | Mapping[str, str], name: str, facts: Mapping[str, Any] | None, options: CompileOptions
) -> CompiledProgram:
    text, name, options = one_text(text, name, options)
    program = ReadProgram.of(text, name, options)
    tables = None if facts is None else _facts(facts, program.predicates)
    return program.compiled(replace(options, facts=tables, knowledge=_source(options.knowledge)))


def refuse_order(schemas: Mapping[str, Schema]) -> None:
    """Raise CepError if a format needs all records at once to restore their order (FOLD order). An engine cannot do
    this, because it may receive data in parts."""
    for name, schema in schemas.items():
        if schema.format is not None and schema.format.fold == "order":
            hint = "use `detect` with all data at once; or write the offset (`%z`), or `FOLD earlier`"
            raise CepError(f"{name}: `FOLD order` needs all data from the beginning", hint=hint, code="input")


def _source(knowledge: KnowledgeSource | Iterable[Any] | None) -> KnowledgeSource | None:
    if knowledge is None or isinstance(knowledge, KnowledgeSource):
        return knowledge
    from cep.knowledge.graph import Knowledge

    return Knowledge.of(knowledge)


def _facts(facts: Mapping[str, Any], known: Collection[str]) -> dict[str, pl.DataFrame]:
    for name in facts:
        if name not in known:
            listed = ", ".join(f"`{name}`" for name in sorted(known)) or "none"
            hint = did_you_mean(name, sorted(known)) or f"predicates of the program: {listed}"
            raise CepError(f'facts["{name}"]: no condition of the program asks for `{name}`', hint=hint, code="input")
    return {name: whole_table(table, f'facts["{name}"]') for name, table in facts.items()}


def ticks_of(duration: Duration, option: str = "lateness") -> int:
    """Return a duration in microseconds. Raises CepError if it is not valid. `option`: the option's name in
    messages."""
    try:
        return of_duration(duration) if isinstance(duration, str) else duration // timedelta(microseconds=1)
    except (TypeError, ValueError):
        hint = f'`{option}="5 min"`, or a `datetime.timedelta`'
        raise CepError(f"{option}: `{duration}` is not a valid duration", hint=hint, code="input") from None
