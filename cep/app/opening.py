"""Open a program with its facts and knowledge, and open its input records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cep.app.cli_options import DialectOptions, InputOptions, KnowledgeOptions, ParameterOptions
from cep.app.terminal import facts_of, knowledge_of, text_of, warnings_of
from cep.core.errors import Warning

if TYPE_CHECKING:
    from polars import DataFrame

    from cep.compile import CompiledProgram, CompileOptions
    from cep.connectors.brokers.live import RunState
    from cep.connectors.brokers.sources import Sources
    from cep.connectors.formats.chunks import ChunkReaders
    from cep.connectors.records.batch import Batch
    from cep.core.schema import Schema
    from cep.engine import Engine
    from cep.knowledge.graph import Knowledge
    from cep.runtime.options import EngineOptions


@dataclass(frozen=True, slots=True)
class ProgramSource:
    """The source of a program.

    - `text`: the text of all files, joined.
    - `name`: the program's name in messages.
    - `known`: the knowledge in `options`, or None.
    """

    name: str
    text: str
    options: CompileOptions
    known: Knowledge | None = None

    @classmethod
    def read(
        cls,
        rules: Sequence[Path],
        knowledge: KnowledgeOptions,
        policy: str | None = None,
        dialect: DialectOptions | None = None,
        parameters: ParameterOptions | None = None,
        strict_types: bool = False,
        distinct: bool = False,
        texts: Mapping[Path, str] | None = None,
        known: Knowledge | None = None,
        fetching: bool = False,
    ) -> ProgramSource:
        """Read the program's files, facts and knowledge, as the command-line options name them.

        - `texts`: the contents of files that were already read.
        - `known`: the knowledge, if it was already loaded.
        - `fetching`: True if knowledge may be fetched from services.

        Raises CepError if something cannot be read, or if the policy does not exist.
        """
        from cep.compile import policy_choice

        policy_choice(policy, "--policy")
        source = cls.written(rules, dialect, policy, parameters, texts)
        source = replace(source, options=replace(source.options, strict_types=strict_types, distinct=distinct))
        facts = facts_of(knowledge.facts, source.text, source.name, source.options)
        if known is None:
            known = knowledge_of(knowledge.files, knowledge.reasoning, fetching)
        return source.knowing(facts, known)

    @classmethod
    def written(
        cls,
        rules: Sequence[Path],
        dialect: DialectOptions | None,
        policy: str | None = None,
        parameters: ParameterOptions | None = None,
        texts: Mapping[Path, str] | None = None,
    ) -> ProgramSource:
        """Read the program's files, without facts and knowledge. The parameters mean the same as in `read`."""
        return cls.of([(str(path), _text(path, texts or {})) for path in rules], dialect, policy, parameters)

    @classmethod
    def of(
        cls,
        texts: Sequence[tuple[str, str]],
        dialect: DialectOptions | None = None,
        policy: str | None = None,
        parameters: ParameterOptions | None = None,
    ) -> ProgramSource:
        """Create the source from texts, without facts and knowledge. `texts`: the name and text of each file."""
        from cep.compile import CompileOptions
        from cep.language.files import joined

        text, name, files = joined(texts)
        params = None if parameters is None else parameters.values
        options = CompileOptions(policy=policy, files=files, params=params)
        if dialect is not None:
            models, limit = dialect.answer_sets
            options = replace(options, dialect=dialect.dialect, tick=dialect.ticks, models=models, solve_limit=limit)
            options = replace(options, first=dialect.first)
        return cls(name, text, options)

    def knowing(self, facts: Mapping[str, DataFrame], known: Knowledge | None) -> ProgramSource:
        """Return a copy of the source that has these facts and this knowledge."""
        return replace(self, options=replace(self.options, facts=facts, knowledge=known), known=known)

    def engine(self, options: EngineOptions | None = None, alerts: bool = False) -> Engine:
        """Compile the program and return an engine. Raises CepError if the program is wrong."""
        from cep.engine import Engine

        return Engine(self.compiled(alerts), options)

    def checked(self, name: str) -> tuple[CompiledProgram, tuple[Warning, ...]]:
        """Compile the program, and return it with its warnings. `name`: the program's name in these warnings.

        Raises CepError if the program is wrong.
        """
        from cep.connectors.formats.known import check_declared

        program = self.compiled(alerts=True)
        check_declared(program.inputs)
        return program, warnings_of(program, name, self.options.facts or ())

    def compiled(self, alerts: bool = False) -> CompiledProgram:
        """Compile the program. Any number of engines can run the result. Raises CepError if the program is wrong."""
        from cep.compile import compiled

        return compiled(self.text, self.name, replace(self.options, alerts=alerts))


def _text(path: Path, texts: Mapping[Path, str]) -> str:
    return texts[path] if path in texts else text_of(path)


def open_batches(
    source: InputOptions,
    rows: int,
    schemas: Mapping[str, Schema],
    idle: float | None,
    sources: Sources,
    rest: RunState | None = None,
    first: int = 0,
    readers: ChunkReaders | None = None,
) -> Iterator[Batch]:
    """Yield the records of the inputs in batches of about `rows` records.

    Files are merged and sorted by time. If a lateness is set, the records of each file stay in their order instead. The
    other parameters are those of `cep.connectors.files.read`.
    """
    from cep.connectors.files import read, replay

    return (read if source.lateness else replay)(
        source.inputs,
        schemas,
        format=source.format,
        rows=rows,
        chunk=rows * 128,
        idle=idle,
        rest=rest,
        first=first,
        sources=sources,
        readers=readers,
    )
