"""The engine, which runs a program. Read this first: `compile` (cep/compile.py) turns text into a plan, and an engine
runs the plan.

push -> admit (cep/runtime/admission.py) -> wait (reorder_buffer.py) -> step (stepping.py) -> output (decode.py)

`cep/engine_view.py` assembles the parts of an engine (plan, machine, reorder buffer, history).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import polars as pl

from cep.compile import CompiledProgram, CompileKeywords, CompileOptions, ProgramKeywords, compiled, divided, one_text
from cep.core.relation import Table, concat
from cep.core.time import END_OF_TIME, Frontier
from cep.events import Event, Held, Value, types_of
from cep.plan.event_schemas import tables_of
from cep.runtime.admission import EventBatch, as_declared, receive
from cep.runtime.change_admission import go_on, receive_changes
from cep.runtime.decode import to_events
from cep.runtime.encode import RefusedRow
from cep.runtime.fluent_records import as_records
from cep.runtime.knowledge_source import KnowledgeSource
from cep.runtime.maximal_intervals import held_of
from cep.runtime.options import EngineKeywords, EngineOptions
from cep.runtime.output import Frames as Frames
from cep.runtime.stepping import step, step_slices, update, wholly
from cep.runtime.time_slices import TimeSlice, time_slices
from cep.stateful import StatefulEngine


class Engine(StatefulEngine):
    """A running program. `push` processes a batch, `advance` moves the watermark, and `close` ends the input.

    Each of these calls returns the new derived events, {type: table}. A table has one column per attribute, and Int64
    `start` and `end` (microseconds UTC, closed interval). `explain`: True if events have lineage. If an exception
    interrupts a call (Ctrl-C, no memory, too many derivations), the engine is `broken` and refuses further calls. The
    caller can continue from the last snapshot.
    """

    def __init__(
        self, program: CompiledProgram, options: EngineOptions | None = None, **keywords: Unpack[EngineKeywords]
    ) -> None:
        """Create an engine. `keywords` replace fields of `options`. Raises ValueError if the lateness is not valid."""
        asked = replace(options or EngineOptions(), **keywords)
        super().__init__(program, asked)
        self.explain = asked.explain
        self._recorded = tables_of(self.plan)
        if self.revises:
            hint = "run it without `revise`, and declare no KEY: `--lateness` waits for late events; revising is not "
            hint += "possible, because a late or withdrawn first event would move all results of the cycle"
            self.refuse_beginning("an input that is revised", hint)

    @classmethod
    def from_text(
        cls, text: str | Mapping[str, str], name: str = "<program>", **options: Unpack[ProgramKeywords]
    ) -> Engine:
        """Create an engine for a program text, or for the texts of several files by name.

        `options`: the options of `compile` and of an engine. Raises CepError if the program or an option is wrong.
        """
        compiling, running = divided(options)
        return cls(compiled(*one_text(text, name, compiling)), running)

    @classmethod
    def from_file(cls, path: str | Path, name: str | None = None, **options: Unpack[ProgramKeywords]) -> Engine:
        """Create an engine for a program file. `name`: the program's name in messages, by default the path."""
        return cls.from_text(Path(path).read_text(encoding="utf-8"), name or str(path), **options)

    # --- running ---

    def push(self, batch: EventBatch) -> Frames:
        """Process a batch: `{type: table}`, or events in any order. Return the derived events that the batch completes.

        A table has Int64 `start` and `end` (or `time`), one column per attribute, and optionally `@order`, each row's
        position in the input. The watermark moves after the batch, so no row is late because of another row of the
        batch. `take_dead` returns rejected rows. Raises CepError if an event type is unknown or a column is missing.
        """
        batch = as_records(batch, self._recorded) if self._recorded else batch
        if self._parts.revision is not None:
            self._receive(batch)
            return self._run(self.reached)
        if slices := time_slices(self._parts, batch):
            return self._run_slices(slices)
        self._receive(batch)
        return self._run(self._buffer.reached())

    def push_event(self, type: str, arguments: Iterable[Value], start: int, end: int | None = None) -> Frames:
        """Push one event. Without `end`, it is an instant. If the event is rejected, `take_dead` reports row 0."""
        return self.push((Event(type, tuple(arguments), start, start if end is None else end),))

    def receive(self, batch: EventBatch, in_turn: bool = False) -> None:
        """Receive a batch as `push` does, but derive nothing yet. `advance(engine.reached)` then derives the results.

        `in_turn`: True if a row may be late because of earlier rows, as if all rows were pushed one by one.
        """
        self._receive(as_records(batch, self._recorded) if self._recorded else batch, in_turn)

    @wholly(refuses=True)
    def _receive(self, batch: EventBatch, in_turn: bool = False) -> None:
        (receive if self._parts.revision is None else receive_changes)(self._parts, batch, in_turn)

    @wholly(refuses=True)
    def update(self, time: int, add: object = (), remove: object = ()) -> None:
        """From `time` (microseconds) on, remove the triples `remove` from the knowledge and add the triples `add`.

        Occurrences that end at or after `time` see the update. Updates may arrive in any order; updates of the same
        time apply in sequence. Raises CepError, and changes nothing, if the watermark has passed `time` or the types of
        query results would change.
        """
        update(self._parts, [(time, add, remove)])

    @wholly(refuses=True)
    def updates(self, changes: Iterable[tuple[int, object, object]]) -> None:
        """Apply many updates (time, add, remove) at once, which is much faster than one by one. Raises CepError, and
        changes nothing, if an update is refused."""
        update(self._parts, list(changes))

    def advance(self, watermark: int) -> Frames:
        """Move the watermark: no event that ends at or before it (microseconds) will arrive. Return the new results."""
        return self._run(max(min(int(watermark), END_OF_TIME), self.watermark))

    def close(self) -> Frames:
        """End the input: every deadline and time point passes. Return the new results."""
        return self._run(END_OF_TIME)

    @wholly()
    def _run(self, watermark: int) -> Frames:
        if self._parts.revision is not None:
            changes = go_on(self._parts, watermark)
            lineage = self._lineage if self.explain else None
            if self.stage:
                frames = self._output.handed(changes, self.withdraws, lineage)
            else:
                meanings = self._meanings if self.withdraws else None
                frames = self._output.changed(changes, meanings, lineage, self.open_intervals)
            if self._parts.revision.lineage is not None:
                self._parts.revision.lineage.told()
            self._parts.sweep()
            return frames
        return self._given(step(self._parts, watermark))

    @wholly()
    def _run_slices(self, slices: Sequence[TimeSlice]) -> Frames:
        return self._given(step_slices(self._parts, slices))

    def _lineage(self, event: str, table: Table) -> list[pl.Series]:
        return [] if self.history is None else self.history.columns(event, table, self.plan, self.pool)

    def _given(self, tables_by_name: dict[str, list[Table]]) -> Frames:
        tables_by_name = self._output.shown(tables_by_name)
        if not self.stage and (self.history is None or not self.explain):
            out = self._output.of_step(tables_by_name)
            self._parts.sweep()
            return out
        out = self._output.frames(tables_by_name)
        if self.stage:
            out = {name: self._output.placed(name, table, concat(tables_by_name[name])) for name, table in out.items()}
        if self.history is not None and self.explain:
            for name, tables in tables_by_name.items():
                out[name] = out[name].with_columns(self.history.columns(name, concat(tables), self.plan, self.pool))
        self._parts.sweep()
        return self._output.as_asked(out)

    def advance_only(self) -> None:
        """Stop moving the watermark when input arrives. From now on, only `advance` moves it."""
        self._buffer.lateness = self._buffer.clocks = None

    def count_up_to(self, position: int) -> None:
        """Count `position` records as received, including rejected ones. Later records get higher positions."""
        self._parts.position = max(self._parts.position, position)

    @wholly()
    def skip(self, watermark: int) -> None:
        """Move the watermark, and drop the waiting rows up to it, which another engine processes. Derive nothing."""
        self._buffer.release(watermark)

    def set_lineage_columns(self, *columns: str) -> None:
        """Select the lineage columns of occurrences: `because`, `constituents` or both."""
        if self.history is not None:
            self.history.wanted_columns = columns

    @wholly()
    def forget(self) -> None:
        """Drop all state that no later event can need. Steps drop it only after much of it has accumulated."""
        self._machine.evict(Frontier.at(self.watermark))

    def take_dead(self) -> list[RefusedRow]:
        """Return the rows rejected since the last call. Their `row` is the index in the pushed table or sequence."""
        dead, self._parts.dead = self._parts.dead, []
        if not self._recorded:
            return dead
        names = {table: name for name, table in self._recorded.items()}
        return [replace(row, type=names.get(row.type, row.type)) for row in dead]


def holds(
    program: str,
    events: Iterable[Event],
    *,
    start: int | None = None,
    until: int | None = None,
    **options: Unpack[CompileKeywords],
) -> list[Held]:
    """Return the maximal intervals of all fluents, derived and input, sorted by (type, args, start).

    If an input event's type is a fluent, the fluent holds from the event's start to its end, both included. A fluent's
    value is the last argument. Intervals are clipped to `start` and `until` (microseconds, both included). `options`:
    the fields of `CompileOptions`. Raises CepError, and ValueError if an event does not match its declaration.
    """
    engine = _taken(program, events, CompileOptions(**options), start, until)
    engine.refuse_boundless(start, until)
    return held_of(engine.close(), engine.outputs, start, until)


def detect(
    program: str,
    events: Iterable[Event],
    policy: str | None = None,
    facts: Mapping[str, pl.DataFrame] | None = None,
    knowledge: KnowledgeSource | Iterable[Any] | None = None,
    distinct: bool = False,
) -> list[Event]:
    """Return all derived events, sorted by (end, start, type, args). The attributes of undeclared events have the types
    of their values in `events`. Raises CepError, and ValueError if an event does not match its declaration."""
    engine = _taken(program, events, CompileOptions(policy=policy, facts=facts, knowledge=knowledge, distinct=distinct))
    return to_events(step(engine._parts, END_OF_TIME), engine.plan.schemas, engine.pool)


def _taken(
    program: str, events: Iterable[Event], options: CompileOptions, start: int | None = None, until: int | None = None
) -> Engine:
    """Create an engine that has received events, but has not derived anything yet."""
    listed = list(events)
    program_compiled = compiled(program, "<program>", replace(options, types=types_of(listed)))
    engine = Engine(program_compiled, lateness=None, start=start, until=until)
    known = [event for event in listed if event.type in engine.inputs]
    if options.dialect is not None:
        known = [as_declared(event, engine.inputs[event.type]) for event in known]
    engine.receive(known)
    for refused in engine.take_dead():
        event = known[refused.row]
        raise ValueError(f"event {event.type}{event.args} {refused.reason}")
    return engine
