"""A program, running. Read this first: `compile` (cep/compile.py) makes a plan of a text, an engine runs it.

push -> admit (cep/runtime/admission.py) -> wait (reorder_buffer.py) -> step (stepping.py) -> give out (decode.py)

Its parts (plan, machine, reorder buffer, history) are put together in `cep/engine_view.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from cep.compile import COMPILED, CompiledProgram, compile
from cep.core.errors import CepError, Span
from cep.core.relation import Table, concat
from cep.core.time import END_OF_TIME, FARTHEST, Frontier
from cep.engine_view import EngineView, assemble
from cep.events import Event, Held, types_of
from cep.language.pieces import as_declared, as_events
from cep.runtime import engine_state, snapshot
from cep.runtime.admission import EventBatch, receive
from cep.runtime.atomic_step import wholly
from cep.runtime.counts import Count
from cep.runtime.decode import frames, places, to_events
from cep.runtime.encode import RefusedRow
from cep.runtime.fluent_changes import as_changes, with_begun
from cep.runtime.fluent_records import as_records, tables_of
from cep.runtime.held import held_of
from cep.runtime.impossible import refuse_impossible
from cep.runtime.knowledge_source import KnowledgeSource
from cep.runtime.prior_state import PriorState, SnapshotParts
from cep.runtime.state_by_key import KeyedStage, KeySelection, StateByKey
from cep.runtime.stepping import step, step_slices, update
from cep.runtime.time_slices import TimeSlice, time_slices

Frames = dict[str, pl.DataFrame]


class Engine(EngineView):
    """A program, running. Batches go in by `push`, time by `advance`, the end of the input by `close`; each gives
    the new derived events, {type: table} with Int64 `start` and `end` (microseconds UTC, closed interval) and a column
    an attribute.

    `explain`: whether lineage is given. `carried`: of each rule that remembers whether it goes on as it was in the
    program before.

    Where an exception ends one of them in the middle (Ctrl-C, a lack of memory, the limit of derivations), the engine
    is `broken`: it takes, gives and saves nothing any more, and the last snapshot is what to go on from.
    """

    def __init__(
        self,
        program: CompiledProgram,
        *,
        lateness: int | None = 0,
        explain: bool = False,
        remember: int | None = None,
        fast_recursion: bool = True,
        max_derivations: int = 1_000_000,
        stage: int | None = None,
        before: PriorState | None = None,
        changes: bool = False,
        begins: bool = False,
    ) -> None:
        """`lateness`: microseconds, None: only `advance` moves the watermark; `explain`: lineage; `remember`: for
        `cep.explain`, keep what ended in the last so many microseconds, and what led to it; `stage`: of the stages of
        `cep.plan.partition` run this one alone, from 1 (`cep.runtime.buckets` says how its rows come and go), 0: the
        ALERT statements alone, over what was derived; `before`: the state of another program, of which it takes over
        that of the goals that mean the same; `changes`: of fluents each beginning and end is given when it is known
        (columns `@edge`, `time`, the attributes, `bounds`), and not their intervals; `begins`: besides their
        intervals each is given when it begins, without an end, unless it ends in the same step."""
        if lateness is not None and not 0 <= lateness <= FARTHEST:
            raise ValueError("lateness is 0 to 2**60 microseconds; None: only `advance` moves the time")
        super().__init__(
            program,
            stage,
            assemble(program, stage, lateness, explain, remember, fast_recursion, max_derivations, changes, begins),
        )
        self.explain, self.broken = explain, False
        self._recorded = tables_of(self.plan)
        self._by_key: StateByKey | None = None
        self.carried: dict[str, bool] = {}
        if before is not None:
            state = SnapshotParts.of(before)
            with snapshot.restoring():
                taken = engine_state.carry(self._parts, state, self._goals(), self._loaded)
            self.carried = {rule: goals <= taken for rule, goals in self.goals().items()}

    @classmethod
    def from_text(cls, text: str, name: str = "<program>", **options: Any) -> Engine:
        """An engine for a program text: the options of `compile`, and those of the engine. Raises CepError."""
        given = {option: options.pop(option) for option in COMPILED if option in options}
        return cls(compile(text, name, **given), **options)

    @classmethod
    def from_file(cls, path: str | Path, **options: Any) -> Engine:
        """The same for a file, whose name the messages quote."""
        options.setdefault("name", str(path))
        return cls.from_text(Path(path).read_text(encoding="utf-8"), **options)

    # --- running ---

    def push(self, batch: EventBatch) -> Frames:
        """Take a batch, {type: table} or events, sorted or not; gives what it completes.

        A table has Int64 `start` and `end` (or `time`), a column an attribute, and may have `@order`, each row's
        position in the input. Rows that do not fit go to `take_dead`. Raises CepError for an unknown type or a
        missing column.
        """
        batch = as_records(batch, self._recorded) if self._recorded else batch
        if slices := time_slices(self._parts, batch):
            return self._run_slices(slices)
        self._receive(batch)
        return self._run(self._clock.reached())

    def receive(self, batch: EventBatch) -> None:
        """Take a batch as `push` does and complete nothing: `advance(reached)` goes on."""
        self._receive(as_records(batch, self._recorded) if self._recorded else batch)

    @wholly(refuses=True)
    def _receive(self, batch: EventBatch) -> None:
        receive(self._parts, batch)

    @wholly(refuses=True)
    def update(self, time: int, add: object = (), remove: object = ()) -> None:
        """From `time` on (microseconds) the knowledge is without the triples `remove`, and then with `add`.

        Occurrences that end at or after `time` are judged by it. Updates may come in any order; of one time, each goes
        on from the one before. Raises CepError, and changes nothing, where the watermark has passed `time`, and where
        the types of what is asked would change.
        """
        update(self._parts, [(time, add, remove)])

    @wholly(refuses=True)
    def updates(self, changes: Iterable[tuple[int, object, object]]) -> None:
        """Take many updates at once, each (time, add, remove) as `update` does, which is much faster than one by one.

        Raises CepError, and changes nothing, where one of them cannot be.
        """
        update(self._parts, list(changes))

    def advance(self, watermark: int) -> Frames:
        """No event that ends at or before `watermark` (microseconds) will come any more; gives what that completes."""
        return self._run(max(min(int(watermark), END_OF_TIME), self.watermark))

    def close(self) -> Frames:
        """The end of the input: every deadline passes, every time point comes."""
        return self._run(END_OF_TIME)

    @wholly()
    def _run(self, watermark: int) -> Frames:
        return self._given(step(self._parts, watermark))

    @wholly()
    def _run_slices(self, slices: Sequence[TimeSlice]) -> Frames:
        return self._given(step_slices(self._parts, slices))

    def _given(self, made: dict[str, list[Table]]) -> Frames:
        if self.tree.helpers:
            made = {name: tables for name, tables in made.items() if not self._helps(name)}
        out = frames(made, self.plan.schemas, self.pool)
        if self.tree.impossible:
            refuse_impossible(out, self._impossible(out), self.plan.source)
        if self.stage:
            out = {name: table.with_columns(places(concat(made[name]))) for name, table in out.items()}
        if self.history is not None and self.explain:
            for name, tables in made.items():
                out[name] = out[name].with_columns(self.history.columns(name, concat(tables), self.plan, self.pool))
        self._parts.sweep()
        if self.plan.changes:
            return as_changes(out, self.plan.schemas, self.outputs)
        return with_begun(out, self.plan.schemas, self.outputs) if self.plan.begins else out

    def _impossible(self, tables: Iterable[str]) -> dict[str, Span]:
        """Those of the tables that must be empty, with the rules that say so."""
        spans, schemas = dict(self.tree.impossible), self.plan.schemas
        fluents = {name: schemas[name].fluent for name in tables}
        return {name: spans[of.name] for name, of in fluents.items() if of is not None and of.name in spans}

    def _helps(self, name: str) -> bool:
        """Whether a table only helps to say what a dialect means."""
        fluent = self.plan.schemas[name].fluent
        return (name if fluent is None else fluent.name) in self.tree.helpers

    def advance_only(self) -> None:
        """From now on only `advance` moves the watermark, whatever comes."""
        self._clock.lateness = None

    def count_up_to(self, position: int) -> None:
        """So many records have come, also those that became no event: what comes next has a higher position."""
        self._parts.position = max(self._parts.position, position)

    @wholly()
    def skip(self, watermark: int) -> None:
        """Time goes on to `watermark`; what was to complete until then is dropped: another engine gives it."""
        self._clock.release(watermark)

    def set_lineage_columns(self, *columns: str) -> None:
        """With lineage: give these columns of `cep.runtime.history` with each occurrence, `because` or `constituents`
        or both."""
        if self.history is not None:
            self.history.wanted_columns = columns

    @wholly()
    def forget(self) -> None:
        """Keep nothing that no later event can need. Steps leave some of it until there is more."""
        self._machine.evict(Frontier.at(self.watermark))

    def take_dead(self) -> list[RefusedRow]:
        """The rows refused since the last call: (type, row in its pushed table or sequence, code, reason)."""
        dead, self._parts.dead = self._parts.dead, []
        if not self._recorded:
            return dead
        names = {table: name for name, table in self._recorded.items()}
        return [replace(row, type=names.get(row.type, row.type)) for row in dead]

    def take_counts(self) -> list[Count]:
        """What each goal has done since the last call, and what it holds."""
        return self._machine.take_counts()

    # --- its state ---

    @wholly()
    def snapshot(self) -> bytes:
        """The whole state, to go on from later: `Engine.from_text(program).restore(blob)`."""
        return engine_state.save(self._parts, self._goals(), self._loaded, self._state)

    def goes_on(self, blob: bytes) -> bool:
        """Whether a snapshot is of this program, so that `restore` takes it. Raises CepError where it is damaged."""
        return snapshot.program_of(blob) == self._state

    def restore(self, blob: bytes) -> Engine:
        """Take on a snapshot of the same program; gives the engine itself. Raises CepError where it is another
        program's, or damaged; the engine is then not to be used any more."""
        with snapshot.restoring():
            self._take_on(*engine_state.read_snapshot(self._parts, blob, self._state))
        return self

    @wholly()
    def _take_on(self, header: Mapping[str, Any], batches: list[pa.RecordBatch]) -> None:
        engine_state.take_on(self._parts, header, batches)

    def extract(self, keys: KeySelection) -> bytes:
        """Take out all that is held of these keys, each the values of the arguments by which the program runs
        (`cep plan`), or of a share of them; what belongs to every key is copied. Gives it as `replace` takes it.
        Raises CepError where the program or stage does not run by key, and with lineage."""
        return self._extract(self._keyed(), keys)

    def replace(self, keys: KeySelection, state: bytes) -> None:
        """Put what `extract` gave, of an engine of the same program and stage at the same watermark, in the place of
        all that is held of these keys; an engine that has met nothing takes on the watermark, too. Raises CepError."""
        held = self._keyed()
        with snapshot.restoring():
            self._replace(held, keys, *held.read(state))

    @wholly()
    def _extract(self, held: StateByKey, keys: KeySelection) -> bytes:
        return held.extract(keys)

    @wholly()
    def _replace(
        self, held: StateByKey, keys: KeySelection, header: Mapping[str, Any], batches: list[pa.RecordBatch]
    ) -> None:
        held.replace(keys, header, batches)
        engine_state.check_restored(self._parts)

    def _keyed(self) -> StateByKey:
        if self.history is not None:
            raise CepError("lineage is not kept by key", hint="an engine without `explain`", code="snapshot")
        if self._by_key is None:
            stage = KeyedStage(self._whole, self.stage)
            held = StateByKey(stage, self._parts, self._state + " by key")
            held.check()
            self._by_key = held
        return self._by_key


def holds(
    program: str,
    events: Iterable[Event],
    *,
    facts: Mapping[str, pl.DataFrame] | None = None,
    knowledge: KnowledgeSource | Iterable[Any] | None = None,
    dialect: str | None = None,
    tick: int | None = None,
    start: int | None = None,
    until: int | None = None,
) -> list[Held]:
    """All maximal intervals of all fluents that a program's rules define or that come in, sorted by (type, args,
    start). An event whose type is a fluent is a piece of it, closed.

    A fluent's value is the last argument. `start`, `until` (microseconds): clipped to them, both included. `dialect`,
    `tick`: as `cep.compile.compile` takes them. Raises CepError; ValueError where an event does not fit.
    """
    engine = _taken(program, events, None, facts, knowledge, dialect, tick)
    return held_of(engine.close(), engine.outputs, start, until)


def detect(
    program: str,
    events: Iterable[Event],
    policy: str | None = None,
    facts: Mapping[str, pl.DataFrame] | None = None,
    knowledge: KnowledgeSource | Iterable[Any] | None = None,
) -> list[Event]:
    """All events that a program derives from these, sorted by (end, start, type, args). Types of undeclared events
    are those of the events given. Raises CepError; ValueError where an event does not fit its declaration.
    """
    engine = _taken(program, events, policy, facts, knowledge)
    return to_events(step(engine._parts, END_OF_TIME), engine.plan.schemas, engine.pool)


def _taken(
    program: str,
    events: Iterable[Event],
    policy: str | None,
    facts: Mapping[str, pl.DataFrame] | None,
    knowledge: KnowledgeSource | Iterable[Any] | None,
    dialect: str | None = None,
    tick: int | None = None,
) -> Engine:
    """An engine that has taken events, and completed nothing of them."""
    given = list(events)
    types = types_of(given)
    made = compile(program, policy=policy, facts=facts, knowledge=knowledge, types=types, dialect=dialect, tick=tick)
    engine = Engine(made, lateness=None)
    known = [event for event in as_events(given, engine.tree.incoming) if event.type in engine.inputs]
    if engine.tree.incoming or dialect is not None:
        known = [as_declared(event, engine.inputs[event.type]) for event in known]
    engine.receive(known)
    for refused in engine.take_dead():
        event = known[refused.row]
        raise ValueError(f"event {event.type}{event.args} {refused.reason}")
    return engine
