"""A program in the form that is sent to workers, which create the engines of its stages and buckets."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from io import BytesIO

import polars as pl

from cep.compile import CompiledProgram, CompileOptions, compiled
from cep.connectors.records.revised import with_changes
from cep.core.fluents import EDGES, HOLDS, beside
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
    """The options that determine a program's meaning, in addition to its text.

    - `facts`: tables of facts as Arrow streams.
    - `knowledge`: the pickled knowledge.
    - `compiling`, `running`: the other options of the compiler, and the options of engines.
    """

    facts: Mapping[str, bytes] = field(default_factory=dict)
    knowledge: bytes | None = None
    compiling: CompileOptions = field(default_factory=CompileOptions)
    running: EngineOptions = field(default_factory=EngineOptions)

    @classmethod
    def of(cls, compiling: CompileOptions, knowledge: bytes | None, running: EngineOptions) -> ProgramOptions:
        """Convert options to the form that is sent to workers. `knowledge`: the pickled knowledge."""
        facts = packed_facts(compiling.facts or {})
        return cls(facts, knowledge, replace(compiling, facts=None, knowledge=None), running)

    @property
    def unpacked(self) -> CompileOptions:
        """The options of the compiler, including facts and knowledge."""
        facts = {name: pl.read_ipc_stream(BytesIO(table)) for name, table in self.facts.items()}
        known = None if self.knowledge is None else unpickled_knowledge(self.knowledge)
        return replace(self.compiling, facts=facts, knowledge=known)


@dataclass(frozen=True, slots=True)
class ShippedProgram:
    """A program text that is divided into stages. Each stage runs in one engine, or in `buckets` engines.

    - `schemas`: the schemas of all tables. `inputs`, `outputs`: the schemas of input events and of written events.
    - `written`: the tables to write, each with the name of its output.
    - `records`: the tables that contain the records of input fluents.
    - `meanings`: a fingerprint of each event's rules, from which the `@id` of its rows is computed.
    - `program`: a fingerprint of the program and of everything else on which its state depends.
    - `ticking`: the numbers of the stages that derive results at fixed times, even without input.
    - `unending`: the numbers of the stages whose recursion continues to the latest time in the input.
    - `beginning`: the numbers of the stages that depend on the time of the first record.
    - `revises`: True if records may withdraw or replace earlier records.
    - `window`: how far behind the watermark results may be withdrawn (microseconds). It is None if results are never
      withdrawn.
    - `known`: how far behind the watermark the knowledge may change (microseconds).
    - `lateness_by`: the attribute whose values have separate clocks for lateness, or None if all records share one
      clock.
    """

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
        check_partitions(self.buckets)

    @classmethod
    def of(cls, engine: Engine, text: str, name: str, options: ProgramOptions, buckets: int) -> ShippedProgram:
        """Return the program that `engine` runs. Raises CepError if there are more buckets than key groups."""
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
        """Create an engine for a stage. Its watermark moves only when `advance` is called.

        `before`: the state of another program from which the engine starts.
        """
        running = replace(self.options.running, lateness=None, lateness_by=None, stage=stage, before=before)
        return Engine(_compiled(self), running)

    def clocks(self, lateness: int) -> KeyClocks:
        """Create the clocks by which each key has its own lateness. Raises CepError as `KeyClocks` does."""
        assert self.lateness_by is not None, "lateness is judged by keys"
        return KeyClocks(self.lateness_by, lateness, {name: self.inputs[name] for name in sorted(self.inputs)})

    def load(self) -> None:
        """Compile the program now, so that creating the first engine takes less time."""
        _compiled(self)

    def bare(self) -> ShippedProgram:
        """Return a copy without the options. Only the creation of engines needs the options."""
        return replace(self, options=ProgramOptions())

    @property
    def read(self) -> Mapping[str, Schema]:
        """The schemas by which input is read. They have the column `@change` if records may withdraw or replace
        others."""
        return with_changes(self.inputs) if self.revises else self.inputs

    @property
    def scattered(self) -> frozenset[str]:
        """The tables of which several buckets or stages may independently derive the same row."""
        return frozenset[str]().union(*(stage.merged for stage in self.stages))

    @property
    def changes(self) -> bool:
        """True if the output contains the beginnings and ends of fluents instead of their intervals."""
        return any(name != table for table, name in self.written.items())

    def edges(self, name: str, held: pl.DataFrame, time: int, kind: int) -> tuple[str, pl.DataFrame]:
        """Convert intervals of the fluent `name` that hold at a time (microseconds) to changes at that time. Return the
        name of the table of changes, and its rows.

        `held`: the intervals, as `held_now` returns them. `kind`: the kind of change, such as a beginning. Call this
        only if the program writes changes.
        """
        table = next(table for table, written in self.written.items() if written == name)
        fluent, attributes = self.schemas[table].fluent, [attribute.name for attribute in self.outputs[name].attributes]
        late = 0 if fluent is None else fluent.late
        kinds = pl.lit(kind, pl.Int64).alias(beside("what", attributes))
        return table, held.with_columns(kinds, end=pl.lit(time + late, pl.Int64))

    def count(self, stage: Stage) -> int:
        """Return the number of buckets in which a stage runs."""
        return self.buckets if stage.keyed else 1

    def dealt(
        self, stage: Stage, tables: Mapping[str, pl.DataFrame], keys: KeyCounter | None = None
    ) -> Sequence[Mapping[str, pl.DataFrame]]:
        """Distribute the rows of tables to the buckets of a stage. `keys`: a counter of the keys in the rows."""
        return deal_groups(stage, tables, self.schemas, self.count(stage), keys)

    def owner(self, event: str) -> int:
        """Return the number of the stage that reports rows of an event as dead letters if they are refused."""
        return owner(self.stages, event)

    @property
    def merged(self) -> frozenset[str]:
        """The written events of which several buckets may independently derive the same occurrence."""
        scattered_tables = self.scattered
        return frozenset(name for table, name in self.written.items() if table in scattered_tables)


@dataclass(frozen=True, slots=True)
class PlannedRules:
    """Rules that are ready to run as a query.

    - `engine`: an engine of the whole program, for checks.
    - `program`: the program from which workers create their engines.
    - `lateness`: how far out of order records may arrive, in microseconds. If it is None, no record is late before the
      end of the input.
    """

    engine: Engine
    program: ShippedProgram
    lateness: int | None


_last: list[tuple[ShippedProgram, CompiledProgram]] = []
"""The program that this worker has compiled last, with the result. The list is empty before the first compilation."""


def _compiled(program: ShippedProgram) -> CompiledProgram:
    """Compile a program, or return the result of the last compilation. All engines of a worker share it."""
    if not _last or _last[0][0] is not program:
        _last[:] = [(program, compiled(program.text, program.name, program.options.unpacked))]
    return _last[0][1]


def written_names(engine: Engine) -> dict[str, str]:
    """Return the tables that a program writes, each with the name of its output.

    The output of a fluent is its intervals, or its beginnings and ends if the program writes `changes`.
    """
    outputs, part = engine.outputs, EDGES if engine.plan.changes else HOLDS
    kinds = {name: schema.fluent for name, schema in engine.plan.schemas.items()}
    return {
        name: name if kind is None else kind.name
        for name, kind in kinds.items()
        if (name in outputs if kind is None else kind.part == part and kind.name in outputs)
    }


@lru_cache(maxsize=1)
def unpickled_knowledge(pickled: bytes) -> KnowledgeSource:
    """Unpickle the knowledge, once for each worker."""
    knowledge: KnowledgeSource = pickle.loads(pickled)
    return knowledge


def packed_facts(facts: Mapping[str, pl.DataFrame]) -> dict[str, bytes]:
    """Convert tables of facts to Arrow streams."""
    packed = {}
    for name, table in facts.items():
        sink = BytesIO()
        table.write_ipc_stream(sink)
        packed[name] = sink.getvalue()
    return packed
