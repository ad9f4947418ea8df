"""Conversion of changes of fluents to the answers of LARS programs. At each tick, the answers are the rows that hold,
or the rows that begin to hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.app.answer_modes import CHANGE, NEW, SIGNAL
from cep.app.durations import duration, refuse
from cep.core.fluents import EDGE
from cep.core.schema import Schema
from cep.core.time import BEGINNING, END_OF_TIME

Ints = NDArray[np.int64]
Frames = Mapping[str, pl.DataFrame]
_SINCE, _UNTIL, _TURN = "@since", "@until", "@turn"


class AnswerRows:
    """A converter from changes of fluents to rows of answers. Rows of events stay unchanged.

    - `schemas`: the schemas of the fluents and events.
    - `mode`: ALL to output the rows that hold, NEW to output the rows that begin to hold.
    - `every`: the value of `--output-every`, or None to write answers at every tick.
    - `tick`: the length of a tick in microseconds.
    - `outputs`: the schemas of the rows that `take` returns. Each row is an instant.

    Raises CepError if `every` is not valid.
    """

    def __init__(self, schemas: Mapping[str, Schema], mode: str, every: str | None, tick: int) -> None:
        self.schemas = {name: schema for name, schema in schemas.items() if schema.fluent is not None}
        self.mode, self.tick = mode, tick
        told = {name: replace(schema, fluent=None, point=True) for name, schema in self.schemas.items()}
        self.outputs = {**schemas, **told}
        self.every = every
        self._width = tick
        if every not in (None, SIGNAL, CHANGE):
            self._width = duration(every, "--output-every")
            if not self._width or self._width % tick:
                raise refuse(
                    f"--output-every: `{every}` is not a number of ticks",
                    "use `signal`, `change`, or a duration such as `5s`",
                )
        self._open: dict[str, pl.DataFrame] = {}
        self._signals: Ints = np.empty(0, np.int64)
        self._first: int | None = None
        self._done = BEGINNING

    def see(self, tables: Frames) -> None:
        """Record the ticks at which input has arrived."""
        times = [table["time" if "time" in table.columns else "start"].drop_nulls() for table in tables.values()]
        signals = np.concatenate([time.cast(pl.Int64).to_numpy() for time in times] or [self._signals[:0]])
        ticks = np.unique(signals // self.tick * self.tick)
        if len(ticks):
            self._first = int(ticks[0]) if self._first is None else min(self._first, int(ticks[0]))
            self._signals = np.union1d(self._signals, ticks)

    def take(self, changes: Frames, watermark: int, late: int) -> dict[str, pl.DataFrame]:
        """Return the answers up to a watermark.

        - `changes`: the changes of fluents, and the rows of events, since the last call.
        - `late`: the delay in microseconds with which the engine outputs changes.
        """
        events = {name: table for name, table in changes.items() if name not in self.schemas}
        if self._first is None:
            return events
        changes = {name: table for name, table in changes.items() if name in self.schemas}
        end = int(self._signals[-1]) if len(self._signals) else self._done
        known = end if watermark >= END_OF_TIME else (watermark - late) // self.tick * self.tick
        instants = self._times(max(self._done + 1, self._first), known, changes)
        tables = events
        for name in self.schemas:
            rows = self._rows(name, changes.get(name), instants)
            if rows is not None and rows.height:
                tables[name] = rows
        self._done = max(self._done, known)
        self._signals = self._signals[self._signals >= known]
        return tables

    def _times(self, after: int, until: int, changes: Frames) -> Ints:
        if self.every == SIGNAL:
            return self._signals[(self._signals >= after) & (self._signals <= until)]
        if self.every == CHANGE:
            change_times = [change["time"].drop_nulls().to_numpy() for change in changes.values()]
            times = np.unique(np.concatenate([*change_times, self._signals[:0]]))
            return times[(times >= after) & (times <= until)]
        first = -(-after // self._width) * self._width
        return np.arange(first, until + 1, self._width)

    def _rows(self, name: str, changes: pl.DataFrame | None, instants: Ints) -> pl.DataFrame | None:
        """Return the answers of a fluent at the times `instants`: the rows that hold at these times or, if the mode is
        NEW, the rows that begin to hold."""
        names = [attribute.name for attribute in self.schemas[name].attributes]
        held = self._open.get(name)
        if changes is not None:
            began = pl.col("time").fill_null(BEGINNING)
            begins = changes.filter(pl.col(EDGE) == "begins").select(*names, began.alias(_SINCE))
            ends = changes.filter(pl.col(EDGE) == "ends").select(*names, pl.col("time").alias(_UNTIL))
            begins = begins if held is None else pl.concat([held, begins])
            held = begins.sort(_SINCE).with_columns(_turn(names))
            ends = ends.sort(_UNTIL).with_columns(_turn(names))
            held = held.join(ends, on=[*names, _TURN], how="left", nulls_equal=True).drop(_TURN)
            self._open[name] = held.filter(pl.col(_UNTIL).is_null()).drop(_UNTIL)
        elif held is not None:
            held = held.with_columns(pl.lit(None, pl.Int64).alias(_UNTIL))
        if held is None or not held.height or not len(instants):
            return None
        since, until = held[_SINCE].to_numpy(), held[_UNTIL].fill_null(END_OF_TIME).to_numpy()
        first = np.searchsorted(instants, since)
        last = np.searchsorted(instants, until)
        if self.mode == NEW:
            begun = (first < len(instants)) & (first < last)
            begun[begun] = instants[first[begun]] == since[begun]
            last = np.where(begun, first + 1, first)
        counts = last - first
        ends_at = np.cumsum(counts)
        times = instants[np.repeat(first - ends_at + counts, counts) + np.arange(int(ends_at[-1]))]
        rows = held[np.repeat(np.arange(held.height), counts)].select(names)
        time = pl.Series("start", times)
        return pl.DataFrame([time, time.alias("end"), *rows.get_columns()])


def _turn(names: Iterable[str]) -> pl.Expr:
    """Return an expression that counts, for each row, the earlier rows that have the same values."""
    names = list(names)
    numbers = pl.int_range(pl.len())
    return (numbers.over(names) if names else numbers).alias(_TURN)
