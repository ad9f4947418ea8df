"""The records added to and removed from the input of a revising engine, after all corrections and withdrawals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import polars as pl

from cep.core.fluents import BOUNDS, RECORD_BOUNDS, RECORD_START
from cep.core.relation import Table, rows
from cep.engine import Engine
from cep.plan.event_schemas import tables_of
from cep.runtime.decode import table_frame
from cep.runtime.revision.row_window import RowChanges

Frames = dict[str, pl.DataFrame]


class RecordChanges:
    """A collector of the changes to an engine's input records."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._names = {table: name for name, table in tables_of(engine.plan).items()}
        self._changes: list[tuple[str, RowChanges]] = []
        engine.follow_input(lambda event, changes: self._changes.append((event, changes)))

    def take(self) -> tuple[Frames, Frames]:
        """Return two sets of tables: the records that were removed and those that were added since the last call.

        The tables have the same columns as the engine's input tables.
        """
        taken, self._changes = self._changes, []
        gone = self._frames((event, change.going) for event, change in taken)
        return gone, self._frames((event, change.coming) for event, change in taken)

    def _frames(self, tables: Iterable[tuple[str, Table]]) -> Frames:
        frames: dict[str, list[pl.DataFrame]] = {}
        for event, table in tables:
            if rows(table):
                frame = table_frame(table, self._engine.plan.schemas[event], self._engine.pool)
                frames.setdefault(self._names.get(event, event), []).append(_as_read(frame))
        return _whole(frames)


def _as_read(frame: pl.DataFrame) -> pl.DataFrame:
    if RECORD_BOUNDS not in frame.columns:
        return frame
    words = pl.col(RECORD_BOUNDS).replace_strict(list(range(4)), list(BOUNDS), return_dtype=pl.String)
    return frame.with_columns(words).drop(RECORD_START)


def _whole(frames: Mapping[str, list[pl.DataFrame]]) -> Frames:
    return {name: tables[0] if len(tables) == 1 else pl.concat(tables) for name, tables in frames.items()}
