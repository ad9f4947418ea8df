"""A program as it is sent to the workers, which make engines of any stage and bucket of it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from io import BytesIO

import polars as pl

from cep.compile import CompiledProgram, CompileOptions, compiled
from cep.connectors.records.revised import with_changes
from cep.core.fluents import EDGES, HOLDS
from cep.core.schema import Schema
from cep.engine import Engine
from cep.plan.dependencies import Dependencies
from cep.plan.event_schemas import tables_of
from cep.plan.partition import Stage, dealt_by_keys, owner, partition
from cep.plan.staged import needed
from cep.runtime.buckets import KeyCounter
from cep.runtime.key_clocks import KeyClocks
from cep.runtime.knowledge_source import KnowledgeSource
from cep.runtime.options import EngineOptions
from cep.runtime.prior_state import PriorState
from cep.runtime.state_by_key import check_partitions, deal_groups


@dataclass(frozen=True, slots=True)
class ProgramOptions:
    """The options that a program's meaning depends on besides its text: `facts` as Arrow streams, `knowledge` pickled,
    all other options of compiling it and of its engines."""

    facts: Mapping[str, bytes] = field(default_factory=dict)
    knowledge: bytes | None = None
    compiling: CompileOptions = field(default_factory=CompileOptions)
    running: EngineOptions = field(default_factory=EngineOptions)

    @classmethod
    def of(cls, compiling: CompileOptions, knowledge: bytes | None, running: EngineOptions) -> ProgramOptions:
        """Those of one process, to be sent. `knowledge`: pickled."""
        facts = packed_facts(compiling.facts or {})
        return cls(facts, knowledge, replace(compiling, facts=None, knowledge=None), running)

    @property
    def unpacked(self) -> CompileOptions:
        """The options of compiling with facts and knowledge among them."""
        facts = {name: pl.read_ipc_stream(BytesIO(table)) for name, table in self.facts.items()}
        known = None if self.knowledge is None else unpickled_knowledge(self.knowledge)
        return replace(self.compiling, facts=facts, knowledge=known)


@dataclass(frozen=True, slots=True)
class ShippedProgram:
    """A text, cut into stages, each run in `buckets` engines, or in one. `schemas`: of all tables, `inputs`: of
    what is read, `outputs`: of what is written, `written`: under which of these names a table is written, if it is;
    `records`: of fluents that are read the tables of their records. `program`: the fingerprint of all of it;
    `ticking`: the stages in which something happens at certain times without input; `unending`: those in which
    something may go on by itself, to the latest time in the input; `beginning`: those in which something begins
    with the first. `revises`: whether records may withdraw or replace others; `window`: how far behind the
    watermark what was derived may be withdrawn (microseconds), None: never; `known`: how far behind it changes of
    the knowledge may come; `meanings`: what each event means, by which the `@id` of its rows is made. `lateness_by`:
    the attribute by whose values' own latest times lateness is judged, None: by that of all."""

    text: str
    name: str
    options: ProgramOptions
    buckets: int
    stages: tuple[Stage, ...]
    schemas: Mapping[str, Schema]
    inputs: Mapping[str, Schema]
    outputs: Mapping[str, Schema]
    written: Mapping[str, str]
    program: str
    ticking: frozenset[int]
    unending: frozenset[int]
    records: Mapping[str, str]
    revises: bool = False
    window: int | None = None
    known: int = 0
    meanings: Mapping[str, str] = field(default_factory=dict)
    beginning: frozenset[int] = frozenset()
    lateness_by: str | None = None

    def __post_init__(self) -> None:
        """CepError: there are no groups for so many buckets."""
        check_partitions(self.buckets)

    @classmethod
    def of(cls, engine: Engine, text: str, name: str, options: ProgramOptions, buckets: int) -> ShippedProgram:
        """The program that `engine` runs. CepError: there are no groups for so many buckets."""
        stages, book = partition(engine.plan), Dependencies(engine.plan)
        if engine.revises:
            stages = dealt_by_keys(engine.plan, stages)
        ticks = {number for number, node in enumerate(engine.plan.nodes) if node.once()}
        return cls(
            text,
            name,
            options,
            buckets,
            stages,
            dict(engine.plan.schemas),
            engine.inputs,
            engine.outputs,
            written_names(engine),
            engine.program,
            frozenset(s.number for s in stages if any(ticks.intersection(book.nodes[rule]) for rule in s.rules)),
            frozenset(s.number for s in stages if engine.unending.intersection(needed(engine.plan, s))),
            tables_of(engine.plan),
            engine.revises,
            options.running.revise if engine.withdraws else None,
            (options.running.revise or 0) if engine.withdraws else 0,
            engine.meanings() if engine.withdraws else {},
            frozenset(s.number for s in stages if engine.beginning.intersection(needed(engine.plan, s))),
            options.running.lateness_by,
        )

    def engine(self, stage: int, before: PriorState | None = None) -> Engine:
        """A new engine of a stage, whose time only `advance` moves; with the state `before` of another program."""
        running = replace(self.options.running, lateness=None, lateness_by=None, stage=stage, before=before)
        return Engine(_compiled(self), running)

    def clocks(self, lateness: int) -> KeyClocks:
        """Return the clocks of the keys by which lateness is judged. Raises CepError as `KeyClocks` does."""
        assert self.lateness_by is not None, "lateness is judged by keys"
        return KeyClocks(self.lateness_by, lateness, {name: self.inputs[name] for name in sorted(self.inputs)})

    def load(self) -> None:
        """Compile it, once, so that the first engine does not have to."""
        _compiled(self)

    def bare(self) -> ShippedProgram:
        """The same without what only engines need."""
        return replace(self, options=ProgramOptions())

    @property
    def read(self) -> Mapping[str, Schema]:
        """The schemas for readers: with a column `@change` where records may have it."""
        return with_changes(self.inputs) if self.revises else self.inputs

    @property
    def scattered(self) -> frozenset[str]:
        """The tables of which several buckets or stages may make identical rows."""
        return frozenset[str]().union(*(stage.merged for stage in self.stages))

    @property
    def changes(self) -> bool:
        """Return True if fluents are written as beginnings and ends, and not as intervals."""
        return any(name != table for table, name in self.written.items())

    def count(self, stage: Stage) -> int:
        """In how many buckets a stage runs."""
        return self.buckets if stage.keyed else 1

    def dealt(
        self, stage: Stage, tables: Mapping[str, pl.DataFrame], keys: KeyCounter | None = None
    ) -> Sequence[Mapping[str, pl.DataFrame]]:
        """The tables that each bucket of a stage takes; `keys` counts them."""
        return deal_groups(stage, tables, self.schemas, self.count(stage), keys)

    def owner(self, event: str) -> int:
        """The stage that reports refused rows of the event."""
        return owner(self.stages, event)

    @property
    def merged(self) -> frozenset[str]:
        """The written events of which several buckets may derive identical occurrences."""
        found = self.scattered
        return frozenset(name for table, name in self.written.items() if table in found)


@dataclass(frozen=True, slots=True)
class PlannedRules:
    """Rules as a query runs them. `engine`: of the whole program, for checks; `program`: what workers make theirs from;
    `lateness`: of the watermark, in microseconds, None: nothing is late before the end of the input."""

    engine: Engine
    program: ShippedProgram
    lateness: int | None


_last: list[tuple[ShippedProgram, CompiledProgram]] = []
"""The program that was compiled last."""


def _compiled(program: ShippedProgram) -> CompiledProgram:
    """A program compiled, once for all engines that a worker makes of it."""
    if not _last or _last[0][0] is not program:
        _last[:] = [(program, compiled(program.text, program.name, program.options.unpacked))]
    return _last[0][1]


def written_names(engine: Engine) -> dict[str, str]:
    """The tables of a program that are written, and under which names: of fluents their intervals, or with `changes`
    when they begin and end."""
    outputs, part = engine.outputs, EDGES if engine.plan.changes else HOLDS
    kinds = {name: schema.fluent for name, schema in engine.plan.schemas.items()}
    return {
        name: name if kind is None else kind.name
        for name, kind in kinds.items()
        if (name in outputs if kind is None else kind.part == part and kind.name in outputs)
    }


@lru_cache(maxsize=1)
def unpickled_knowledge(pickled: bytes) -> KnowledgeSource:
    """The knowledge, unpickled once in a worker."""
    found: KnowledgeSource = pickle.loads(pickled)
    return found


def packed_facts(facts: Mapping[str, pl.DataFrame]) -> dict[str, bytes]:
    """Tables of facts as Arrow streams."""
    found = {}
    for name, table in facts.items():
        sink = BytesIO()
        table.write_ipc_stream(sink)
        found[name] = sink.getvalue()
    return found
