"""A writer of Parquet files that adds one row group at a time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from cep.connectors.writing.sinks import writing
from cep.core.storage.files import Upload
from cep.core.storage.urls import is_url

GROUP = 1 << 17
"""The minimum number of rows in a row group. Only the last one may have fewer."""


def encodings(schema: pa.Schema) -> dict[str, Any]:
    """Return the arguments of `ParquetWriter` that define how columns are encoded.

    Times and whole numbers are stored as differences. Compared to a dictionary, this takes half the time and fewer
    bytes. Other columns use a dictionary.
    """
    whole = [field.name for field in schema if field.type == pa.int64() or pa.types.is_timestamp(field.type)]
    return {
        "use_dictionary": [name for name in schema.names if name not in whole],
        "column_encoding": dict.fromkeys(whole, "DELTA_BINARY_PACKED"),
    }


class ParquetGroups:
    """A Parquet file to which row groups are added.

    If `write_beside` has been called, a thread writes each row group while the caller collects the next one.
    """

    def __init__(self, path: str, schema: pa.Schema) -> None:
        self._path = path
        with writing(path):
            self._upload = Upload(path) if is_url(path) else None
            to = path if self._upload is None else self._upload.file
            self._writer = pq.ParquetWriter(to, schema, compression="zstd", **encodings(schema))
        self._schema = schema
        self._waiting: list[pl.DataFrame] = []
        self._rows = 0
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: Future[None] | None = None

    def write_beside(self) -> None:
        """From now on, write row groups in a thread. If this fails, `add` or `close` raises the error later."""
        self._thread = ThreadPoolExecutor(1, "parquet")

    def add(self, table: pl.DataFrame) -> None:
        self._waiting.append(table)
        self._rows += table.height
        if self._rows >= GROUP:
            self._out()

    def close(self) -> None:
        try:
            self._out()
            self._settle()
        finally:
            self._end()
        with writing(self._path):
            self._writer.close()
            if self._upload is not None:
                self._upload.close()

    def discard(self) -> None:
        if self._upload is None:
            self.close()
        else:
            self._end()
            self._writer.close()
            self._upload.discard()

    def _out(self) -> None:
        if self._waiting:
            tables, self._waiting, self._rows = self._waiting, [], 0
            self._settle()
            if self._thread is None:
                self._write(tables)
            else:
                self._under_way = self._thread.submit(self._write, tables)

    def _write(self, tables: Sequence[pl.DataFrame]) -> None:
        table = pl.concat(tables).to_arrow()
        if table.schema != self._schema:
            table = table.cast(self._schema)
        with writing(self._path):
            self._writer.write_table(table)

    def _settle(self) -> None:
        """Wait until the thread has written its row group. Raises CepError if the thread could not write it."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()

    def _end(self) -> None:
        """Stop the thread after its current row group. An error of the thread is ignored."""
        if self._thread is not None:
            wait([] if self._under_way is None else [self._under_way])
            self._thread.shutdown()
