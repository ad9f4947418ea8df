"""Lateness by key (`--lateness-by`): the driver compares each record with the latest time of its own key.

A reading task sends the key, end and order of each record to the driver. Once per micro-batch, the driver judges the
records in the order that the tasks sent. It uses the clocks of the keys after the previous micro-batch. It tells the
buckets which keys have late records, and stores the new clocks beside the note of the micro-batch. So the result
depends neither on the number of buckets nor on repeated micro-batches.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from cep.connectors.arrow_bytes import pack, unpack
from cep.core.relation import END, FIRST, ORDER
from cep.core.schema import CHANGE
from cep.core.time import BEGINNING
from cep.core.values import Ints, Pool
from cep.runtime.change_admission import named_by_key
from cep.runtime.encode import PushedColumns, admit
from cep.runtime.key_clocks import KeyClocks
from cep.spark.program import ShippedProgram
from cep.spark.shuffle_blocks import LATE, TIMES, ShuffleBlock

_WORD, _END, _ORDER = "word", "end", "order"


def key_times(program: ShippedProgram, tables: Mapping[str, pl.DataFrame], place: int) -> Iterator[ShuffleBlock]:
    """Yield blocks for the driver that contain the key, end and order of each valid record.

    `place`: the number of the file or input from which the records come.
    """
    clocks, pool = program.clocks(0), Pool()
    for event, table in tables.items():
        goes = table[CHANGE] == -1 if CHANGE in table.columns else pl.repeat(False, table.height, eager=True)
        for rows, schema in ((table.filter(~goes), program.schemas[event]), (table.filter(goes), None)):
            if not rows.height:
                continue
            taken = admit(PushedColumns.of(rows), schema or named_by_key(program.schemas[event]), pool, 0)
            words = clocks.words(event, {event: rows}, taken.pushed(slice(None)))
            frame = pl.DataFrame({_WORD: words, _END: taken.table[END], _ORDER: taken.table[ORDER]})
            yield ShuffleBlock(TIMES, 0, event, place, rows=pack(frame, narrow=True))


@dataclass(frozen=True, slots=True)
class KeyRule:
    """The parameters of lateness by key, in microseconds.

    - `lateness`: how far a record may be behind the latest time of its key.
    - `behind`: how far the watermark stays behind the keys' clocks.
    - `window`: how far final results stay behind the watermark.
    """

    program: ShippedProgram
    lateness: int
    behind: int
    window: int

    def judge(self, arrived: Iterable[ShuffleBlock], clocks: Mapping[str, Any] | None, passed: int) -> KeyVerdict:
        """Find the late records of a micro-batch. Raises CepError if a block is missing or damaged.

        `clocks`: the keys' clocks before the micro-batch. `passed`: the time up to which records of all keys are late.
        """
        known = self.program.clocks(self.lateness)
        if clocks is not None:
            known.restore(clocks)
        blocks = sorted(arrived, key=lambda block: (block.place, block.event))
        if not blocks:
            return KeyVerdict({}, known.save(), self._reached(known))
        columns = pl.concat([unpack(block.rows) for block in blocks])
        table = np.zeros((FIRST, columns.height), np.int64)
        table[END], table[ORDER] = columns[_END].to_numpy(), columns[_ORDER].to_numpy()
        words = columns[_WORD].to_numpy()
        back = 1 + self.behind + self.window
        late = known.judge({"": table}, {"": words}, passed - self.window, back, False)[""]
        wrong = late > 0
        until = dict(zip(words[wrong].tolist(), (table[END] + late - 1)[wrong].tolist(), strict=True))
        return KeyVerdict(until, known.save(), self._reached(known))

    def _reached(self, clocks: KeyClocks) -> int:
        time = clocks.time
        return 0 if time == BEGINNING else max((time - self.behind) // 1000, 0)


@dataclass(frozen=True, slots=True)
class KeyVerdict:
    """The result of judging the records of a micro-batch.

    - `until`: for each key that has late records, the time (microseconds) up to which its records are late. The key is
      represented by its hash.
    - `clocks`: the keys' clocks after the micro-batch.
    - `reached`: the watermark that follows from these clocks, in milliseconds. It is 0 if there is no watermark yet.
    """

    until: Mapping[int, int]
    clocks: Mapping[str, Any]
    reached: int

    def block(self, stage: int, bucket: int) -> ShuffleBlock:
        """Return a block that informs a bucket which keys have late records."""
        rows = json.dumps([*self.until.items()], separators=(",", ":")).encode()
        return ShuffleBlock(stage, bucket, LATE, rows=rows)


class LateKeys:
    """The keys that have late records, read from the blocks of a bucket."""

    def __init__(self, program: ShippedProgram, rows: Iterable[ShuffleBlock]) -> None:
        late_words = sorted((word, until) for row in rows if row.event == LATE for word, until in json.loads(row.rows))
        self._clocks = program.clocks(0) if late_words else None
        self._words = np.array([word for word, _ in late_words], np.int64)
        self._until = np.array([until for _, until in late_words], np.int64)

    def until(self, event: str, table: pl.DataFrame, stable: int) -> Ints:
        """Return, for each row of `table`, the time up to which records of the row's key are late. It is at least
        `stable`, the time up to which the records of all keys are late."""
        ends = np.full(table.height, stable)
        if self._clocks is not None:
            words = self._clocks.words(event, {event: table}, np.arange(table.height))
            places = np.minimum(np.searchsorted(self._words, words), len(self._words) - 1)
            ends = np.where(self._words[places] == words, np.maximum(self._until[places], stable), ends)
        return ends
