"""A program, running. Read this first: `compile` (cep/compile.py) makes a plan of a text, an engine runs it.

push -> admit (cep/runtime/admission.py) -> wait (reorder_buffer.py) -> step (stepping.py) -> give out (decode.py)

Its parts (plan, machine, reorder buffer, history) are put together in `cep/engine_view.py`.
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
    """A program, running. Batches go in by `push`, time by `advance`, the end of the input by `close`; each gives
    the new derived events, {type: table} with Int64 `start` and `end` (microseconds UTC, closed interval) and a column
    an attribute.

    `explain`: whether lineage is given. `carried`: of each rule that remembers whether it goes on as it was in the
    program before.

    Where an exception ends one of them in the middle (Ctrl-C, a lack of memory, the limit of derivations), the engine
    is `broken`: it takes, gives and saves nothing any more, and the last snapshot is what to go on from.
    """

    def __init__(
        self, program: CompiledProgram, options: EngineOptions | None = None, **given: Unpack[EngineKeywords]
    ) -> None:
        """`options`, or the same as keyword arguments. Raises ValueError for a lateness that is none."""
        asked = replace(options or EngineOptions(), **given)
        super().__init__(program, asked)
        self.explain = asked.explain
        self._recorded = tables_of(self.plan)
        if self.revises:
            hint = "without `revise`, and without a KEY: `--lateness` waits for what is late; a late event may be the "
            hint += "first one, and one that is withdrawn, which would move all that the cycle holds"
            self.refuse_beginning("what is revised", hint)

    @classmethod
    def from_text(
        cls, text: str | Mapping[str, str], name: str = "<program>", **options: Unpack[ProgramKeywords]
    ) -> Engine:
        """An engine for a program text, or for those of several files by their names: `options` are those of `compile`
        and those of the engine. Raises CepError."""
        compiling, running = divided(options)
        return cls(compiled(*one_text(text, name, compiling)), running)

    @classmethod
    def from_file(cls, path: str | Path, name: str | None = None, **options: Unpack[ProgramKeywords]) -> Engine:
        """The same for a file, whose name the messages quote where they are given no other."""
        return cls.from_text(Path(path).read_text(encoding="utf-8"), name or str(path), **options)

    # --- running ---

    def push(self, batch: EventBatch) -> Frames:
        """Take a batch, {type: table} or events, sorted or not; gives what it completes.

        A table has Int64 `start` and `end` (or `time`), a column an attribute, and may have `@order`, each row's
        position in the input. All rows are taken, then time moves: none is late for another of the batch. Rows that do
        not fit go to `take_dead`. Raises CepError for an unknown type or a missing column.
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
        """Push one event, with its arguments in order; without `end` it is an instant. It is row 0 of its push."""
        return self.push((Event(type, tuple(arguments), start, start if end is None else end),))

    def receive(self, batch: EventBatch, in_turn: bool = False) -> None:
        """Take a batch as `push` does and complete nothing: `advance(reached)` goes on. `in_turn`: each row moves the
        watermark for the rows after it, so that which rows are late does not depend on where the input is cut."""
        self._receive(as_records(batch, self._recorded) if self._recorded else batch, in_turn)

    @wholly(refuses=True)
    def _receive(self, batch: EventBatch, in_turn: bool = False) -> None:
        (receive if self._parts.revision is None else receive_changes)(self._parts, batch, in_turn)

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
        Raises CepError, and changes nothing, where one of them cannot be."""
        update(self._parts, list(changes))

    def advance(self, watermark: int) -> Frames:
        """No event that ends at or before `watermark` (microseconds) will come any more; gives what that completes."""
        return self._run(max(min(int(watermark), END_OF_TIME), self.watermark))

    def close(self) -> Frames:
        """The end of the input: every deadline passes, every time point comes."""
        return self._run(END_OF_TIME)

    @wholly()
    def _run(self, watermark: int) -> Frames:
        if self._parts.revision is not None:
            changes = go_on(self._parts, watermark)
            lineage = self._lineage if self.explain else None
            if self.stage:
                found = self._output.handed(changes, self.withdraws, lineage)
            else:
                meanings = self._meanings if self.withdraws else None
                found = self._output.changed(changes, meanings, lineage, self.open_intervals)
            if self._parts.revision.lineage is not None:
                self._parts.revision.lineage.told()
            self._parts.sweep()
            return found
        return self._given(step(self._parts, watermark))

    @wholly()
    def _run_slices(self, slices: Sequence[TimeSlice]) -> Frames:
        return self._given(step_slices(self._parts, slices))

    def _lineage(self, event: str, table: Table) -> list[pl.Series]:
        """The columns that say where occurrences of an event come from."""
        return [] if self.history is None else self.history.columns(event, table, self.plan, self.pool)

    def _given(self, made: dict[str, list[Table]]) -> Frames:
        made = self._output.shown(made)
        if not self.stage and (self.history is None or not self.explain):
            out = self._output.of_step(made)
            self._parts.sweep()
            return out
        out = self._output.frames(made)
        if self.stage:
            out = {name: self._output.placed(name, table, concat(made[name])) for name, table in out.items()}
        if self.history is not None and self.explain:
            for name, tables in made.items():
                out[name] = out[name].with_columns(self.history.columns(name, concat(tables), self.plan, self.pool))
        self._parts.sweep()
        return self._output.as_asked(out)

    def advance_only(self) -> None:
        """From now on only `advance` moves the watermark, whatever comes."""
        self._buffer.lateness = self._buffer.clocks = None

    def count_up_to(self, position: int) -> None:
        """So many records have come, also those that became no event: what comes next has a higher position."""
        self._parts.position = max(self._parts.position, position)

    @wholly()
    def skip(self, watermark: int) -> None:
        """Time goes on to `watermark`; what was to complete until then is dropped: another engine gives it."""
        self._buffer.release(watermark)

    def set_lineage_columns(self, *columns: str) -> None:
        """With lineage: give these columns with each occurrence, `because` or `constituents` or both."""
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


def holds(
    program: str,
    events: Iterable[Event],
    *,
    start: int | None = None,
    until: int | None = None,
    **options: Unpack[CompileKeywords],
) -> list[Held]:
    """All maximal intervals of all fluents that a program's rules define or that come in, sorted by (type, args,
    start). An event whose type is a fluent is a piece of it, closed.

    A fluent's value is the last argument. `start`, `until` (microseconds): clipped to them, both included; what never
    ends goes on to `until`, what goes back and back goes to `start`. `options`: those of `CompileOptions`. Raises
    CepError; ValueError where an event does not fit.
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
    """All events that a program derives from these, sorted by (end, start, type, args). Types of undeclared events
    are those of the events given. Raises CepError; ValueError where an event does not fit its declaration.
    """
    engine = _taken(program, events, CompileOptions(policy=policy, facts=facts, knowledge=knowledge, distinct=distinct))
    return to_events(step(engine._parts, END_OF_TIME), engine.plan.schemas, engine.pool)


def _taken(
    program: str, events: Iterable[Event], options: CompileOptions, start: int | None = None, until: int | None = None
) -> Engine:
    """An engine that has taken events, and completed nothing of them."""
    given = list(events)
    made = compiled(program, "<program>", replace(options, types=types_of(given)))
    engine = Engine(made, lateness=None, start=start, until=until)
    known = [event for event in given if event.type in engine.inputs]
    if options.dialect is not None:
        known = [as_declared(event, engine.inputs[event.type]) for event in known]
    engine.receive(known)
    for refused in engine.take_dead():
        event = known[refused.row]
        raise ValueError(f"event {event.type}{event.args} {refused.reason}")
    return engine
