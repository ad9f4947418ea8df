"""The Python API, `from cep import Engine, detect`. Input tables may come from any data-frame library, and results are
derived events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, Unpack
from warnings import warn

import polars as pl

from cep.compile import CompileOptions, DataProgramKeywords, divided
from cep.connectors.frames.reading import ROWS, read_data
from cep.connectors.records.batch import Batch
from cep.connectors.records.order import in_order
from cep.connectors.records.revised import as_written, changes_of, with_changes
from cep.connectors.records.times import of_iso
from cep.core.errors import CepError, Warning
from cep.core.schema import Schema
from cep.core.time import BEGINNING
from cep.derived import Derived
from cep.derived_page import engine_page
from cep.engine import Engine as Running
from cep.engine import Frames
from cep.events import Event, types_of
from cep.programs import Duration, Program, compiled_program, program_text, refuse_order, ticks_of
from cep.runtime.encode import RefusedRow
from cep.runtime.knowledge_source import KnowledgeSource
from cep.runtime.partial_matches import Key, PartialMatches
from cep.workers.partitioned_engine import dealt_engine


class ArrowStream(Protocol):
    """An object that exports its rows as an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """An object that exports its rows as one Arrow array of structs."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


Data = pl.DataFrame | pl.LazyFrame | ArrowStream | ArrowArray | Mapping[str, Any] | Iterable[Any] | Event
"""The accepted sources of rows (see `cep.connectors.frames.reading`):

- a data frame of polars or pandas, or a lazy frame
- a table, record batch, reader or dataset of pyarrow
- any object that has `__arrow_c_stream__` or `__arrow_c_array__`
- `{column: array}`
- a list of records (dicts) or of `Event`
- an iterator of any of these
- `{event: any of these}`
"""


def detect(
    program: Program,
    data: Data,
    policy: str | None = None,
    facts: Mapping[str, Any] | None = None,
    knowledge: KnowledgeSource | Iterable[Any] | None = None,
    *,
    lateness: Duration | None = None,
    lateness_by: str | None = None,
    strict: bool = False,
    distinct: bool = False,
    params: Mapping[str, object] | None = None,
) -> Derived:
    """Return everything that a program derives from data. The rows may be in any order.

    The program's declarations (FROM, TIME) name the columns that contain attributes and times.

    Args:
        program: The program's text, its `Path`, or several files.
        data: Rows in any form of `Data`. `{event: data}` has no order between the tables of different events, so the
            watermark moves after all rows of all tables.
        policy: The policy of rules that do not choose a policy themselves.
        facts: Tables of static facts, `{predicate: table}`.
        knowledge: RDF knowledge for conditions in braces.
        lateness: A duration: process rows in the given order, and reject rows that are later than this. Each row waits
            in memory only for this duration, so an iterator of tables may be larger than memory. By default, all rows
            are sorted first.
        lateness_by: An attribute whose values have separate clocks. The lateness of a row is measured from the latest
            row that has the same value. So one wrong clock affects only its own rows.
        strict: Raise an error for a row that cannot be converted to an event, instead of listing it in the `dead` of
            the result.
        distinct: Treat equal records as one event, for every event type.
        params: Values of parameters, `{"Hot": 8}`.

    Raises:
        CepError: The program has an error, or the data do not fit it.
    """
    events, data = _events(data)
    text, name = program_text(program)
    types = None if events is None else types_of(events)
    options = CompileOptions(policy=policy, knowledge=knowledge, types=types, params=params, distinct=distinct)
    if lateness_by is not None and lateness is None:
        lateness = "0 s"
    ticks = None if lateness is None else ticks_of(lateness)
    engine = Running(compiled_program(text, name, facts, options), lateness=ticks, lateness_by=lateness_by)
    collector = _Found(engine, strict)
    if events is not None:
        collector.take(events)
    else:
        batches = read_data(data, engine.inputs, _only(engine), together=lateness is not None)
        for batch in batches if lateness is not None else in_order(list(batches), engine.inputs, ROWS):
            collector.take(batch, in_turn=not batch.together)
    collector.refuse_unreadable()
    collector.add(engine.close())
    return collector.derived()


class Engine:
    """A program that processes data as they arrive. Each call returns the events that it completes.

    `push` takes the same data as `detect`. The watermark is `lateness` behind the latest row, and the caller can also
    move it with `advance`. Rows that arrive after the watermark are listed in the `dead` of the results. `inner` is the
    underlying `cep.engine.Engine`, with times in microseconds.
    """

    def __init__(self, inner: Running) -> None:
        self.inner = inner

    @classmethod
    def from_text(
        cls,
        text: str | Mapping[str, str],
        name: str = "<program>",
        *,
        lateness: Duration = "0 s",
        revise: Duration | None = None,
        facts: Mapping[str, Any] | None = None,
        workers: int | None = None,
        **options: Unpack[DataProgramKeywords],
    ) -> Engine:
        """Create an engine for a program text, or for the texts of several files by name.

        Args:
            text: The text, or `{name: text}`.
            name: The program's name in messages.
            lateness: How far out of order rows of later calls may be.
            revise: Correct earlier results if an event arrives late, is corrected or is withdrawn. This applies to
                events that are at most this much older than the watermark.
            facts: Tables of static facts, `{predicate: table}`.
            workers: Distribute keys to this many processes besides the current process. The processes end when the
                engine is deleted, or when the caller calls `stop`.
            options: Further options of `cep.compile.compile` and of `cep.engine.Engine`.

        Raises:
            CepError: The program has an error, or options contradict each other.
        """
        window = None if revise is None else ticks_of(revise, "revise")
        compiling, running = divided({**options, "lateness": ticks_of(lateness), "revise": window})
        program = compiled_program(text, name, facts, compiling)
        return cls(Running(program, running) if workers is None else dealt_engine(program, running, workers, _warn))

    @classmethod
    def from_file(
        cls,
        path: str | Path | Sequence[str | Path],
        name: str | None = None,
        *,
        lateness: Duration = "0 s",
        revise: Duration | None = None,
        facts: Mapping[str, Any] | None = None,
        workers: int | None = None,
        **options: Unpack[DataProgramKeywords],
    ) -> Engine:
        """Create an engine for one or several program files. The options are the same as for `from_text`.

        `name`: the program's name in messages; by default, the name of the file.
        """
        paths = [Path(name) for name in ([path] if isinstance(path, str | Path) else path)]
        text, named = program_text(paths[0] if len(paths) == 1 else paths)
        name = name or named
        return cls.from_text(text, name, lateness=lateness, revise=revise, facts=facts, workers=workers, **options)

    def push(self, data: Data) -> Derived:
        """Process all rows, then move the watermark. Return the events that this completes.

        Raises:
            CepError: The data do not match the declarations. No row was processed.
        """
        collector = _Found(self.inner)
        events, data = _events(data)
        if events is not None:
            collector.take(events)
        else:
            refuse_order(self.inner.inputs)
            collector.take_together(self._read(data))
        return collector.derived()

    def _read(self, data: Data) -> list[Batch]:
        schemas, only, first = self.inner.inputs, _only(self.inner), self.inner.position
        if self.inner.revises:
            return list(changes_of(read_data(data, with_changes(schemas), only, first)))
        return list(read_data(data, schemas, only, first))

    def advance(self, time: datetime | str) -> Derived:
        """Move the watermark to `time`, and return the events that this completes.

        The caller asserts that no event will arrive that ends at or before `time`. A time without a zone is UTC.
        Raises CepError if a text is not a time in ISO 8601.
        """
        if isinstance(time, datetime):
            ticks = (time.replace(tzinfo=time.tzinfo or UTC) - _EPOCH) // timedelta(microseconds=1)
        else:
            try:
                ticks = of_iso(time)
            except (ValueError, TypeError):
                hint = "use a datetime, or a text such as 2024-05-01T08:00:00Z"
                raise CepError(f"advance: `{time}` is not a time", hint=hint) from None
        return self._derived(self.inner.advance(ticks))

    def finish(self) -> Derived:
        """End the input: every deadline passes, and every window ends. Return the events that this completes."""
        return self._derived(self.inner.close())

    def stop(self) -> None:
        """End the worker processes, if the engine has any. The engine must not be used afterwards."""
        self.inner.stop()

    def snapshot(self) -> bytes:
        """Return the whole state of the engine as bytes.

        `Engine.from_text(program).restore(blob)` continues from it, with any number of workers.
        """
        return self.inner.snapshot()

    def restore(self, blob: bytes) -> Engine:
        """Restore a snapshot of the same program, and return the engine.

        Raises CepError if the snapshot is damaged or belongs to another program.
        """
        self.inner.restore(blob)
        return self

    def partial_matches(self, event: str, key: Key | None = None, limit: int = 100) -> PartialMatches:
        """List the partial matches of a derived event's rules, the most complete first.

        A partial match shows its progress, what it waits for, and until when. Times are in microseconds.

        Args:
            event: The derived event.
            key: Values of the event's attributes or of variables of its rules. Matches with other values are omitted.
            limit: The greatest number of matches to list. Further matches are only counted.

        Raises:
            CepError: The program has no partial matches for this event.
        """
        return self.inner.partial_matches(event, key, limit)

    @property
    def inputs(self) -> dict[str, Schema]:
        """The schemas of input events, by name."""
        return self.inner.inputs

    @property
    def outputs(self) -> dict[str, Schema]:
        """The schemas of derived events, by name."""
        return self.inner.outputs

    @property
    def warnings(self) -> tuple[Warning, ...]:
        """Warnings about the program, sorted by position in its text."""
        return self.inner.warnings

    @property
    def watermark(self) -> datetime | None:
        """The watermark: the engine rejects events that end at or before it. It is None before it has moved."""
        ticks = self.inner.watermark
        try:
            return None if ticks == BEGINNING else _EPOCH + timedelta(microseconds=ticks)
        except OverflowError:  # beyond the largest datetime
            return datetime.max.replace(tzinfo=UTC)

    def __repr__(self) -> str:
        rules = self.inner.written.rules
        text = f"{rules} rule{'' if rules == 1 else 's'}: {', '.join(self.inputs) or 'nothing'} in, "
        text += f"{', '.join(self.outputs) or 'nothing'} out"
        return f"<{text}; {'no data yet' if self.watermark is None else f'up to {self.watermark.isoformat()}'}>"

    def _repr_html_(self) -> str:
        return engine_page(repr(self)[1:-1], self.inputs, self.outputs, [str(warning) for warning in self.warnings])

    def _derived(self, tables: Frames) -> Derived:
        collector = _Found(self.inner)
        collector.add(tables)
        return collector.derived()


class _Found:
    """The events and rejected rows that an engine returns over several calls."""

    def __init__(self, engine: Running, strict: bool = False) -> None:
        self._engine, self._strict = engine, strict
        self._tables: dict[str, list[pl.DataFrame]] = {}
        self._dead: list[RefusedRow] = []
        self._read: Counter[str] = Counter()  # rows per event; `_unreadable`: the rows that could not be read
        self._unreadable: Counter[str] = Counter()

    def take(self, events: Batch | list[Event], in_turn: bool = False) -> None:
        """Pass a batch, or a list of events, to the engine. Then move the watermark. Events that the program does not
        read are omitted.

        `in_turn`: as in `Engine.receive`.
        """
        engine = self._engine
        if isinstance(events, Batch):
            self._receive(events, in_turn)
            reached = events.watermark
        else:
            places = [place for place, event in enumerate(events) if event.type in engine.inputs]
            engine.receive([events[place] for place in places])
            self._dead += [RefusedRow(d.type, places[d.row], d.code, d.reason) for d in engine.take_dead()]
            reached = None
        if self._strict and self._dead:
            first = self._dead[0]
            what = f"row {first.row}" + (f" of {first.type}" if first.type else "")
            raise CepError(f"data: {what}: {first.reason}", code=first.code)
        self.add(engine.advance(engine.reached if reached is None else reached))

    def refuse_unreadable(self) -> None:
        """Raise CepError if all rows of an event type are unreadable for the same reason. The cause is then usually a
        wrong declaration."""
        for name, count in self._unreadable.items():
            reasons = [
                (letter.code, letter.reason.partition(":")[0], letter) for letter in self._dead if letter.type == name
            ]
            if not self._read[name] and count > 1 and len({reason[:2] for reason in reasons}) == 1:
                code, _, first = reasons[0]
                whose = f" of {name}" if name else ""
                raise CepError(f"data: none of the {count:,} rows{whose} can be read: {first.reason}", code=code)

    def take_together(self, batches: list[Batch]) -> None:
        """Pass all batches to the engine before the watermark moves. The list is empty afterwards."""
        engine = self._engine
        if not engine.revises:
            for batch in in_order(batches, engine.inputs, ROWS):  # sorted pieces yield the same results as the whole
                self.take(replace(batch, watermark=None))
            return
        while batches:
            self._receive(batches.pop(0))
        self.add(engine.advance(engine.reached))

    def _receive(self, batch: Batch, in_turn: bool = False) -> None:
        engine = self._engine
        engine.receive(batch.tables, in_turn)
        self._read.update({name: table.height for name, table in batch.tables.items()})
        self._unreadable.update(letter.event or "" for letter in batch.dead)
        # Records that became no event also count as received before the next ones.
        engine.count_up_to(max((block.beyond for block in batch.blocks), default=0))
        self._dead += [
            RefusedRow(letter.event or "", letter.line - 1, letter.code, letter.reason) for letter in batch.dead
        ]
        self._dead += [_row(batch, row) for row in engine.take_dead()]

    def add(self, tables: Frames) -> None:
        for name, table in tables.items():
            if table.height:
                self._tables.setdefault(name, []).append(table)

    def derived(self) -> Derived:
        schemas = as_written(self._engine.outputs, "int") if self._engine.withdraws else self._engine.outputs
        tables = {name: _joined(self._tables[name]) for name in schemas if name in self._tables}
        return Derived(tables, schemas, self._dead)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _row(batch: Batch, refused: RefusedRow) -> RefusedRow:
    """Return a rejected row whose index counts the rows of the whole data, not those of the batch."""
    _, line, _ = batch.origin(refused.type, refused.row)
    return RefusedRow(refused.type, line - 1, refused.code, refused.reason)


def _joined(tables: list[pl.DataFrame]) -> pl.DataFrame:
    """Concatenate tables. A column with values of several types becomes a column of Python objects."""
    if len(tables) == 1:
        return tables[0]
    if all(table.schema == tables[0].schema for table in tables) and pl.Object not in tables[0].dtypes:
        return pl.concat(tables)
    columns = []
    for name in tables[0].columns:
        parts = [table[name] for table in tables]
        different = {column.dtype for column in parts if column.dtype != pl.Null}
        if len(different) <= 1 and pl.Object not in different:
            columns.append(pl.concat([column.cast(next(iter(different), pl.Null())) for column in parts]))
        else:
            values = [value for column in parts for value in column.to_list()]
            columns.append(pl.Series(name, values, dtype=pl.Object))
    return pl.DataFrame(columns)


def _events(data: Data) -> tuple[list[Event] | None, Any]:
    """Return (events, data): the list of events, or None if the data are not events, and the data to read from now on.

    To see if an iterator yields events, its first element is read. The returned data then replace the iterator.
    """
    if isinstance(data, Event):
        data = [data]
    if isinstance(data, list | tuple):
        return (list(data), data) if not data or isinstance(data[0], Event) else (None, data)
    if isinstance(data, Iterator) and not hasattr(data, "__arrow_c_stream__"):
        head = next(data, None)
        if head is None or isinstance(head, Event):
            return ([] if head is None else [head, *data]), data
        return None, chain([head], data)
    return None, data


def _only(engine: Running) -> str | None:
    """Return the event type of rows that do not name their type: the program's only input event. Returns None if the
    program has several input events."""
    names = [name for name in engine.inputs if name not in engine.outputs] or list(engine.inputs)
    return names[0] if len(names) == 1 else None


def _warn(text: str) -> None:
    warn(f"workers: {text}", stacklevel=4)


__all__ = ["Derived", "Engine", "detect"]
