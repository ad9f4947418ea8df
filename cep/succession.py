"""A program that took over from a former program under `--revise`.

The former program still corrects its own results until they are final. The results of both appear as the results of one
program:

    ended at or before `since`: the former program          ended later: this one
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import polars as pl
import pyarrow as pa

from cep.compile import CompiledProgram
from cep.core.identity import ID, identified
from cep.core.schema import CHANGE, Schema
from cep.core.time import BEGINNING
from cep.engine import Engine
from cep.rules.alert import Alert
from cep.runtime import snapshot
from cep.runtime.admission import EventBatch
from cep.runtime.encode import RefusedRow
from cep.runtime.options import EngineOptions
from cep.runtime.output import Frames

BOTH = " with the program before"
"""The suffix of the program's name in a snapshot that also contains the state of the former program."""
FORMER = "former "
"""The prefix of the table name of an alert that only the former program has."""
_NEVER = object()
"""A marker in place of an interval's end. It means that the interval is not reported."""


@dataclass(slots=True)
class FluentCut:
    """A fluent whose intervals are cut at a time, because only one of the two programs has it or they define it
    differently.

    - `ends`: True for the former program's fluent, whose intervals end at the cut. False for the new program's fluent,
      whose intervals begin at the cut.
    - `straddling`: the intervals that continue beyond the cut. A key is the `@id` under which the cut interval is
      reported. Its value is the `@id` and the end of the interval before the cut is applied.
    """

    schema: Schema
    meaning: str
    time: int
    ends: bool
    straddling: dict[str, tuple[str, int | None]] = field(default_factory=dict)

    def left(self, stable: int) -> dict[str, tuple[str, int | None]]:
        """Forget those intervals of `straddling` that end at or before `stable`, and return the others."""
        self.straddling = {
            key: (own, end) for key, (own, end) in self.straddling.items() if end is None or end > stable
        }
        return self.straddling

    def take(self, changes: pl.DataFrame) -> pl.DataFrame:
        """Apply the cut to the changes of one program's intervals. Return the changes of reported intervals."""
        early = (changes["start"] < self.time).fill_null(True)
        later = changes.filter(~early & (changes["end"] > self.time).fill_null(True))
        later = later.clear() if self.ends else later
        if not early.any():
            return later
        changes = changes.filter(early)
        told = changes
        if not self.ends:
            told = changes.drop(ID, CHANGE).with_columns(start=pl.lit(self.time, pl.Int64))
            told = identified(told, self.schema, self.meaning).with_columns(changes[CHANGE]).select(changes.columns)
        return pl.concat([later, *self._told(told, changes)]).sort(CHANGE, maintain_order=True)

    def _told(self, told: pl.DataFrame, changes: pl.DataFrame) -> Iterable[pl.DataFrame]:
        """Yield the changes of the intervals that this cut reports.

        `told`: the rows of `changes`, but with the start and the `@id` under which the intervals are reported. The
        yielded rows also have the reported ends.
        """
        before: dict[str, Any] = {}
        now: dict[str, Any] = {}
        rows: dict[str, int] = {}
        columns = told[ID].to_list(), changes[ID].to_list(), changes["end"].to_list(), changes[CHANGE].to_list()
        for row, (key, own, end, sign) in enumerate(zip(*columns)):
            straddles = end is None or end > self.time
            known = self.straddling.get(key)
            if key not in rows:
                rows[key] = row
                gone = end if self.ends and sign < 0 and known is None else _NEVER
                before[key] = now[key] = gone if known is None else self._end(known[1])
            if sign > 0 and straddles:
                self.straddling[key] = own, end
                now[key] = self._end(end)
            elif self.ends or (known is not None and known[0] == own):
                self.straddling.pop(key, None)
                now[key] = end if self.ends and sign > 0 else _NEVER
        for key, row in rows.items():
            old, new = before[key], now[key]
            if old == new:
                continue
            if old is not _NEVER and (old is not None or new is _NEVER):  # an open interval that ends is not withdrawn
                yield _row(told, row, old, -1)
            if new is not _NEVER:
                yield _row(told, row, new, 1)

    def _end(self, end: int | None) -> int | None:
        return self.time if self.ends else end


def _row(table: pl.DataFrame, row: int, end: int | None, sign: int) -> pl.DataFrame:
    return table[row].with_columns(pl.lit(end, pl.Int64).alias("end"), pl.lit(sign, pl.Int8).alias(CHANGE))


class Successor(Engine):
    """A program that took over from a former program at the watermark `since`.

    - `former`: the former program. None when its results can no longer change.
    - `texts`: the texts of the former program, by file.

    The former program reports results that end at or before `since`, and this program reports later results.
    Exceptions:

    - Fluents and alerts that mean the same in both programs are reported by this program alone. The intervals of other
      fluents are cut at `since` (`FluentCut`).
    - If an alert on a fluent is new, this program reports it for all rows of the window of revision. If a row ends
      after `since`, its alert begins at `since`.
    """

    def __init__(self, program: CompiledProgram, options: EngineOptions) -> None:
        super().__init__(program, options)
        self.former: Engine | None = None
        self.since = BEGINNING
        self.texts: Mapping[str, str] = {}
        self._begun: dict[str, FluentCut] = {}
        self._ended: dict[str, FluentCut] = {}
        self._split: frozenset[str] = frozenset()
        self._new: dict[str, Alert] = {}
        self._gone: dict[str, Alert] = {}

    def take_over(
        self, former: Engine, texts: Mapping[str, str], cuts: Mapping[str, int], holding: Mapping[str, pl.DataFrame]
    ) -> Frames:
        """Take over from an engine at its watermark. Return the changes of results that the change of the program
        causes at once.

        This engine already has the state of the former engine (`PriorState`).

        - `cuts`: the fluents that earlier changes of the program have cut, each with the time at which it begins.
        - `holding`: rows for new alerts on fluents: the intervals that hold at the beginning of the window of revision.
        """
        self._cut(cuts)
        held, run = _as_told(self, super().held_now()), super()._run(former.watermark)
        for tables in (held, run):
            for name in self._begun.keys() & tables.keys():
                self._begun[name].take(tables[name])
        self._begin(former, former.watermark, texts)
        new = {name for name, alert in self._new.items() if alert.ends is not None}
        rows = {name: _signed(table, 1) for name, table in holding.items() if name in new}
        alerts = _together(rows, {name: table for name, table in run.items() if name in new})
        self.count_up_to(former.position + 1)  # a new round after the last one of the former program
        begun = {name: table for name, table in _as_told(self, self.held_now()).items() if name in self._changed}
        ended = {name: table for name, table in _as_told(former, former.held_now()).items() if name in self._ended}
        for name, table in ended.items():
            self._ended[name].take(table)
            before = (pl.col("start") < self.since).fill_null(True)
            closed = table.filter(before).with_columns(end=pl.lit(self.since, pl.Int64))
            ended[name] = pl.concat([_signed(table.filter(~before), -1), closed])
        return _together(ended, begun) | alerts

    def _begin(self, former: Engine, since: int, texts: Mapping[str, str]) -> None:
        """Keep the former engine, because its results up to `since` may still change."""
        self.former, self.since, self.texts = former, since, texts
        old, new = former.meanings(), self.meanings()
        self._ended = {
            name: FluentCut(schema, old[name], since, True)
            for name, schema in former.shown.items()
            if schema.fluent is not None and new.get(name) != old[name]
        }
        self._new, self._gone = alerts_beside(self, former), alerts_beside(former, self)
        events = {name for name, schema in self.outputs.items() if schema.fluent is None}
        alerts = {name for name, alert in self._new.items() if alert.ends is None}
        self._split = frozenset(events | alerts)
        self._changed = {name for name in self.outputs if new[name] != old.get(name)}

    def _cut(self, cuts: Mapping[str, int]) -> None:
        meanings = self.meanings()
        self._begun = {
            name: FluentCut(schema, meanings[name], cuts[name], False)
            for name, schema in self.outputs.items()
            if name in cuts
        }

    # --- running ---

    @property
    def inputs(self) -> dict[str, Schema]:
        """The schemas of the events that this program or the former program reads."""
        return {**({} if self.former is None else self.former.inputs), **super().inputs}

    @property
    def shown(self) -> dict[str, Schema]:
        return {**({} if self.former is None else self.former.shown), **self.outputs}

    def held_now(self) -> dict[str, pl.DataFrame]:
        """Return the open intervals of fluents. The intervals of a cut fluent begin at the cut or later."""
        held = super().held_now()
        for name, cut in self._begun.items():
            if name in held:
                start = pl.max_horizontal("start", pl.lit(cut.time, pl.Int64))
                held[name] = held[name].with_columns(start=start)
        return held

    def push(self, batch: EventBatch) -> Frames:
        self.receive(batch)
        return self._run(self.reached)

    def receive(self, batch: EventBatch, in_turn: bool = False) -> None:
        """Pass a batch to both programs. Each receives only the events that it reads. Neither derives anything yet."""
        batch = batch if isinstance(batch, Mapping) else list(batch)
        own = super().inputs
        super().receive(_read(batch, own), in_turn)
        if isinstance(batch, Mapping):
            super().pass_by({name: table for name, table in batch.items() if name not in own})
        former = self.former
        if former is not None:
            former.receive(_read(batch, former.inputs), in_turn)
            if isinstance(batch, Mapping):
                former.pass_by({name: table for name, table in batch.items() if name not in former.inputs})
            for engine, other in ((self, former), (former, self)):
                engine.count_up_to(other.position)

    def pass_by(self, tables: Mapping[str, pl.DataFrame]) -> None:
        super().pass_by(tables)
        if self.former is not None:
            self.former.pass_by(tables)

    def take_dead(self) -> list[RefusedRow]:
        """Return the rows that were rejected since the last call.

        If both programs read an event type, only the rows that this program rejected are returned.
        """
        dead, own = super().take_dead(), super().inputs
        return dead + [row for row in ([] if self.former is None else self.former.take_dead()) if row.type not in own]

    def _run(self, watermark: int) -> Frames:
        own = super()._run(watermark)
        for name in self._begun.keys() & own.keys():
            own[name] = self._begun[name].take(own[name])
        former = self.former
        if former is None:
            return {name: table for name, table in own.items() if table.height}
        for name in self._split & own.keys():
            own[name] = own[name].filter(pl.col("end") > self.since)
        theirs = {}
        for name, table in self._run_former(former, watermark).items():
            if name in self._ended:
                theirs[name] = self._ended[name].take(table)
            elif name in self._gone:
                theirs[FORMER + name] = table.filter(pl.col("end") <= self.since)
            elif name in former.outputs and former.outputs[name].fluent is None:
                theirs[name] = table.filter(pl.col("end") <= self.since)
        if self.stable >= self.since:
            self.former, self._ended = None, {}
        return _together(theirs, own)

    def _run_former(self, former: Engine, watermark: int) -> Frames:
        try:
            return former._run(watermark)
        except BaseException:
            self.broken = True
            raise

    # --- state ---

    def snapshot(self) -> bytes:
        own = super().snapshot()
        begun = {name: cut.left(self.stable) for name, cut in self._begun.items()}
        if self.former is None and not any(begun.values()):
            return own
        ended = {name: cut.straddling for name, cut in self._ended.items()}
        cuts = {name: cut.time for name, cut in self._begun.items()}
        texts = None if self.former is None else self.texts
        header = {"since": self.since, "texts": texts, "cuts": cuts, "begun": begun, "ended": ended}
        blobs = [own, b"" if self.former is None else self.former.snapshot()]
        return snapshot.save(
            header, [pa.record_batch({"blob": pa.array(blobs, pa.large_binary())})], self._state + BOTH
        )

    def goes_on(self, blob: bytes) -> bool:
        """Return True if a snapshot belongs to this program, with or without the state of a former program.

        Raises CepError if the snapshot is damaged.
        """
        return snapshot.program_of(blob) in (self._state, self._state + BOTH)

    def go_on_with(self, blob: bytes, make_successor: Callable[[Mapping[str, str]], Successor]) -> Self:
        """Restore a snapshot of this program, and return the engine. Raises CepError if the snapshot is damaged or
        belongs to another program.

        The snapshot may also contain the state of the former program, and of programs before it. `make_successor`: a
        function that creates an engine for such a program from the program's texts.
        """
        if snapshot.program_of(blob) == self._state:
            return self.restore(blob)
        with snapshot.restoring():
            header, (blobs,) = snapshot.load(blob, self._state + BOTH)
            own, former = blobs["blob"].to_pylist()
            self.restore(own)
            self._cut(header["cuts"])
            if former:
                texts = header["texts"]
                self._begin(make_successor(texts).go_on_with(former, make_successor), header["since"], texts)
            for cuts, which in ((self._begun, "begun"), (self._ended, "ended")):
                for name, straddling in header[which].items():
                    cuts[name].straddling = {key: (own, end) for key, (own, end) in straddling.items()}
        return self


def former_texts(blob: bytes) -> Mapping[str, str] | None:
    """Return the texts of the former program from a snapshot. Returns None if the snapshot has no former program.

    Raises CepError if the snapshot is damaged.
    """
    texts: Mapping[str, str] | None = snapshot.header(blob).get("texts")
    return texts


def _read(batch: EventBatch, inputs: Mapping[str, Schema]) -> EventBatch:
    if isinstance(batch, Mapping):
        return {name: table for name, table in batch.items() if name in inputs}
    return [event for event in batch if event.type in inputs]


def _as_told(engine: Engine, held: Mapping[str, pl.DataFrame]) -> Frames:
    meanings, schemas = engine.meanings(), engine.outputs
    return {name: _signed(identified(table, schemas[name], meanings[name]), 1) for name, table in held.items()}


def alerts_beside(engine: Engine, other: Engine) -> dict[str, Alert]:
    """Return the alerts of `engine` that `other` lacks or defines differently. Keys are the names of their tables."""
    meanings = engine.meanings(), other.meanings()
    other_alerts = {(meanings[1][alert.table], alert.keys) for alert in other.alerts}
    alerts = [alert for alert in engine.alerts if (meanings[0][alert.table], alert.keys) not in other_alerts]
    return {table: alert for alert in alerts for table in alert.tables}


def cuts_between(former: Engine, engine: Engine, cuts: Mapping[str, int]) -> dict[str, int]:
    """Return the times at which intervals are cut when `engine` takes over from `former`.

    The keys are the fluents, and the alerts on fluents, whose intervals are cut. `cuts`: the cuts of the former
    program. If `cuts` is empty, the result contains only the new cuts.
    """
    old, new = former.meanings(), engine.meanings()
    fluents = (name for name, schema in engine.outputs.items() if schema.fluent is not None)
    names = {name for name in fluents if new[name] != old.get(name)}
    names |= {name for name, alert in alerts_beside(engine, former).items() if alert.ends is not None}
    gone = alerts_beside(former, engine).keys() & cuts.keys()
    kept = {name: time for name, time in cuts.items() if name in new and new[name] == old.get(name)}
    return kept | {FORMER + name: cuts[name] for name in sorted(gone)} | dict.fromkeys(sorted(names), former.watermark)


def _signed(table: pl.DataFrame, sign: int) -> pl.DataFrame:
    return table.with_columns(pl.lit(sign, pl.Int8).alias(CHANGE))


def _together(theirs: Frames, own: Frames) -> Frames:
    """Concatenate the changes that two programs report, with withdrawals first."""
    joined = {}
    for name in sorted({*theirs, *own}):
        tables = [table for table in (theirs.get(name), own.get(name)) if table is not None and table.height]
        if len(tables) > 1:
            tables = [pl.concat(tables).sort(CHANGE, maintain_order=True)]
        if tables:
            joined[name] = tables[0]
    return joined
