"""DataFrames of a Spark session as inputs. Their columns are checked during planning. Workers convert rows to blocks.

The `@order` of a row comes from one or two columns. Without such columns, it comes from a hash of the row's values. So
it does not depend on partitions, micro-batches or machines.
"""

from __future__ import annotations

import glob
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ByteType, DateType, IntegerType, LongType, ShortType, TimestampType

from cep.connectors.frames.reading import needed_columns
from cep.connectors.records.records import closest
from cep.core.errors import CepError
from cep.core.schema import Schema
from cep.spark.dead_letters import LINE_BITS
from cep.spark.handover import COLUMNS, as_row
from cep.spark.source.file_list import FILE_BITS
from cep.spark.worker import Packed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from cep.connectors.records.batch import Batch
    from cep.core.values import Ints
    from cep.spark.program import ShippedProgram
    from cep.spark.shuffle_blocks import ShuffleBlock

RecordBatches = Iterator["pa.RecordBatch"]

ROWS = 1 << 17
"""The maximum number of rows that are converted together."""

BITS = LINE_BITS + FILE_BITS
"""The number of bits of an `@order` that is defined by one column. If two columns define it, the second column has the
lowest `LINE_BITS` bits, and the first column has the other bits."""

CLOCK = "@clock"
"""The column that contains the time of the micro-batch (microseconds)."""

_ORDERS = ("@order-1", "@order-2")
_BATCH = "streaming.sql.batchId"
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_DELAY = "spark.watermarkDelayMs"


@dataclass(frozen=True, slots=True)
class FrameInput:
    """A reader that converts rows of a DataFrame to occurrences of an event.

    - `place`: the number of the input.
    - `columns`: the names of the columns to read.
    - `ordered`: the number of columns that define the order. If it is 0, a hash of the values defines it.
    - `ahead`: how far the time of a row may be ahead of the clock, in microseconds. If it is None, there is no limit.
    """

    event: str
    place: int
    columns: tuple[str, ...]
    ordered: int
    ahead: int | None = None

    @property
    def name(self) -> str:
        """The name of the input in a checkpoint."""
        return self.event

    @property
    def metric(self) -> str:
        """The name under which Spark's progress reports the number of rows."""
        return f"semcep_{self.event}"

    def blocks(
        self, program: ShippedProgram, batches: Iterable[pa.RecordBatch], dead_letters: str | None, name: str
    ) -> Iterator[ShuffleBlock]:
        """See `RowReader`. Also raises CepError if the order of a row is not valid."""
        from cep.spark.source.reading import record_blocks

        pieces = self._pieces(program.read[self.event], batches)
        return record_blocks(program, self.place << FILE_BITS, self.event, pieces, dead_letters, name, BITS)

    def _pieces(self, schema: Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[Batch]:
        from cep.connectors.frames.reading import read_data
        from cep.spark.source.reading import in_time

        for rows in joined(batches):
            orders, table = self._orders(rows), rows.select(self.columns)
            clock = None if self.ahead is None else rows[CLOCK][0].as_py()
            pieces = (
                _placed(piece, orders, table, self.event)
                for piece in read_data({self.event: table}, {self.event: schema}, self.event, rows=ROWS)
            )
            yield from in_time(pieces, (self.ahead, clock))

    def _orders(self, rows: pa.Table) -> Ints:
        orders = np.zeros(rows.num_rows, np.int64)
        for name, bits in zip(_ORDERS, (BITS,) if self.ordered < 2 else (BITS - LINE_BITS, LINE_BITS)):
            column = rows[name]
            if column.null_count:
                raise CepError(f"order: a row of {self.event} has no value", hint=_COLUMNS, code="input")
            numbers = column.to_numpy()
            if len(numbers) and (numbers.min() < 0 or int(numbers.max()) >> bits):
                wrong = int(numbers.min()) if numbers.min() < 0 else int(numbers.max())
                message = f"order: {self.event} has {wrong:,}, which is not from 0 to {(1 << bits) - 1:,}"
                raise CepError(message, hint=_COLUMNS, code="input")
            orders = (orders << bits) + numbers
        return orders


_COLUMNS = (
    f"use one column of whole numbers or times, below 2^{BITS}; or two, the first below 2^{BITS - LINE_BITS}, as "
    '`["partition", "offset"]`'
)


def frame_input(
    label: str, frame: DataFrame, schema: Schema, place: int, order: Sequence[str], ahead: int | None = None
) -> Provided:
    """Return the columns that an event needs from a DataFrame, and a reader of their rows for workers.

    `label`: the name of the DataFrame in messages. `order`: the columns that define the order. Raises CepError if a
    column is missing or its type does not fit.
    """
    columns = to_arrow_schema(frame.schema, timezone="UTC")
    needed = needed_columns(label, columns, schema)
    for name in frame.columns:
        if _DELAY in frame.schema[name].metadata:
            message = f"{label}: `{name}` has a watermark of its own"
            raise CepError(
                message, hint="leave out `withWatermark`; `lateness=` says how late rows may be", code="input"
            )
    if len(order) > len(_ORDERS):
        raise CepError(f"order: {len(order)} columns for {schema.name} are too many", hint=_COLUMNS, code="input")
    numbers = [_number(label, frame, name).alias(alias) for name, alias in zip(order, _ORDERS)]
    values = [F.col(_quoted(name)) for name in needed]
    if not order:
        hashed = F.xxhash64(*values).bitwiseAND(F.lit((1 << BITS) - 1))
        numbers = [hashed.alias(_ORDERS[0])]
    if ahead is not None:
        numbers.append(F.unix_micros(F.current_timestamp()).alias(CLOCK))
    columns_read = frame.select(*values, *numbers)
    return columns_read, FrameInput(schema.name, place, tuple(needed), len(order), ahead)


class RowReader(Protocol):
    """A reader that converts rows of a DataFrame to blocks, in a worker."""

    @property
    def place(self) -> int:
        """The number of the input."""

    @property
    def name(self) -> str:
        """The name of the input in a checkpoint."""

    @property
    def metric(self) -> str:
        """The name under which Spark's progress reports the number of rows."""

    def blocks(
        self, program: ShippedProgram, batches: Iterable[pa.RecordBatch], dead_letters: str | None, name: str
    ) -> Iterator[ShuffleBlock]:
        """Yield the rows of a task as blocks for the stages. Raises CepError if a row is not valid.

        `dead_letters`: the path prefix of dead-letter files. `name`: the name of the task's dead-letter file.
        """


Provided = tuple["DataFrame", RowReader]
"""A DataFrame, and the reader of its rows."""


def provided(
    frame: DataFrame, feed: RowReader, program: ShippedProgram, dead_letters: str | None, handed: str | None
) -> DataFrame:
    """Convert a streaming DataFrame to a DataFrame of blocks (see `cep.spark.handover.COLUMNS`). Spark's progress then
    also reports the number of rows in `frame`.

    - `feed`: the reader of the DataFrame's rows.
    - `dead_letters`: the path prefix of dead-letter files.
    - `handed`: the shared folder for blocks, or None if workers share no folder.
    """
    carried = Packed.of(program.bare())

    def taken(batches: RecordBatches) -> RecordBatches:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None, "a task runs it"
        batch = int(task.getLocalProperty(_BATCH) or 0)
        name = f"read-{feed.place << FILE_BITS:08}-{batch:08}-{task.partitionId():05}"
        known = carried.open()
        yield from as_row(lambda begin: feed.blocks(known, batches, begin, name), dead_letters, handed)

    observed = frame.observe(feed.metric, F.count(F.lit(1)).alias("rows"))
    return observed.mapInArrow(taken, COLUMNS)


def read_letters(dead_letters: str, batch: int) -> list[Path]:
    """Return the dead-letter files that the readers of all DataFrames wrote in a micro-batch. `dead_letters`: the path
    prefix of dead-letter files."""
    return sorted(map(Path, glob.glob(f"{glob.escape(dead_letters)}read-*-{batch:08}-*.jsonl")))


def _number(label: str, frame: DataFrame, name: str) -> Column:
    """Return a column that defines an order. Its values are converted to whole numbers.

    Raises CepError if the column is missing, or contains neither whole numbers nor times.
    """
    if name not in frame.columns:
        message = f"order: {label} has no column `{name}`{closest(name, frame.columns)}"
        raise CepError(message, hint=f"the columns are {', '.join(frame.columns)}", code="input")
    kind, column = frame.schema[name].dataType, F.col(_quoted(name))
    if isinstance(kind, _WHOLE):
        return column.cast("bigint")
    if isinstance(kind, TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, DateType):
        return F.unix_date(column).cast("bigint")
    message = f"order: the column `{name}` of {label} has the type {kind.simpleString()}"
    raise CepError(message, hint=_COLUMNS, code="input")


def joined(batches: Iterable[pa.RecordBatch], rows: int = ROWS) -> Iterator[pa.Table]:
    """Join batches of Spark into tables of about `rows` rows. Spark's own batches are smaller than that."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held += [batch] if batch.num_rows else []
        count += batch.num_rows
        if count >= rows:
            yield pa.Table.from_batches(held).combine_chunks()
            held, count = [], 0
    if held:
        yield pa.Table.from_batches(held).combine_chunks()


def _placed(piece: Batch, orders: Ints, table: pa.Table, event: str) -> Batch:
    (block,) = piece.blocks
    lines = np.arange(block.line, block.line + block.count) if block.lines is None else block.lines
    dead = [
        replace(row, file=event, line=int(orders[row.line - 1]), text=row.text or _record(table.slice(row.line - 1, 1)))
        for row in piece.dead
    ]
    return replace(piece, dead=dead, blocks=[replace(block, file=event, lines=orders[lines - 1])])


def _record(row: pa.Table) -> str:
    (values,) = row.to_pylist()
    known: Mapping[str, Any] = {name: value for name, value in values.items() if value is not None}
    return json.dumps(known, default=str, ensure_ascii=False)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
