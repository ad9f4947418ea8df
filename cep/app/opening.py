"""What the commands open: a program with its facts and knowledge, and the records that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cep.app.cli_options import DialectOptions, InputOptions, KnowledgeOptions
from cep.app.terminal import facts_of, knowledge_of, text_of

if TYPE_CHECKING:
    from polars import DataFrame

    from cep.compile import CompileOptions
    from cep.core.schema import Schema
    from cep.engine import Engine
    from cep.runtime.options import EngineOptions
    from connectors.batch import Batch
    from connectors.live import RunState
    from connectors.sources import Sources
    from knowledge.graph import Knowledge


@dataclass(frozen=True, slots=True)
class ProgramSource:
    """What a program is made of: its text, the options that it is compiled with, and what the knowledge is among
    them."""

    rules: Path
    text: str
    options: CompileOptions
    known: Knowledge | None = None

    @classmethod
    def read(
        cls,
        rules: Path,
        knowledge: KnowledgeOptions,
        policy: str | None = None,
        dialect: DialectOptions | None = None,
    ) -> ProgramSource:
        """Read what options name. CepError: something cannot be read, or there is no such policy."""
        from cep.compile import policy_choice

        policy_choice(policy, "--policy")
        text = text_of(rules)
        written = (None, None) if dialect is None else (dialect.dialect, dialect.ticks)
        facts = facts_of(knowledge.facts, text, str(rules), *written)
        known = knowledge_of(knowledge.files, knowledge.reasoning)
        return cls.of(rules, text, facts, known, policy, dialect)

    @classmethod
    def of(
        cls,
        rules: Path,
        text: str,
        facts: Mapping[str, DataFrame],
        known: Knowledge | None,
        policy: str | None,
        dialect: DialectOptions | None,
    ) -> ProgramSource:
        """The same of what was read already."""
        from cep.compile import CompileOptions

        options = CompileOptions(facts=facts, knowledge=known, policy=policy)
        if dialect is not None:
            models, limit = dialect.answer_sets
            options = replace(options, dialect=dialect.dialect, tick=dialect.ticks, models=models, solve_limit=limit)
        return cls(rules, text, options, known)

    def engine(self, options: EngineOptions | None = None, alerts: bool = False) -> Engine:
        """An engine. CepError: the program is wrong."""
        from cep.compile import compiled
        from cep.engine import Engine

        return Engine(compiled(self.text, str(self.rules), replace(self.options, alerts=alerts)), options)


def open_batches(
    source: InputOptions,
    rows: int,
    schemas: Mapping[str, Schema],
    idle: float | None,
    sources: Sources,
    rest: RunState | None = None,
    first: int = 0,
) -> Iterator[Batch]:
    """The records of the inputs, about `rows` at a time: files together in the order of time, or with a lateness as
    they stand. For the others see `connectors.files.read`."""
    from connectors.files import read, replay

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
    )
