"""A writer of derived events to a table. It collects the events on disk, and writes all of them in one commit at the
end, so that readers of the table see either none or all of a run's rows.

If there are several event types, they share one table, which then has a column `type`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from types import TracebackType

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from cep.connectors.tables.kinds import KINDS
from cep.connectors.tables.names import TableName, table_name
from cep.connectors.writing.layout import ParquetLayout
from cep.connectors.writing.lineage import BECAUSE, because
from cep.core.schema import Schema

_ROWS = 1 << 17
TYPE = "type"


def is_added(text: str) -> bool:
    """Return True if the table already contains the rows of this run.

    `text`: the name of the table. Raises CepError if the name is invalid, or if the table cannot be read.
    """
    name = table_name(text)
    return KINDS[name.kind].is_added(name)


class TableWriter:
    """A writer of derived events to a table.

    `inputs`: the schemas of the input events if lineage is written, otherwise None. If lineage is written, the rows
    must contain it in a column. `whole`: True if the results are complete, because the input has ended.
    """

    def __init__(self, text: str, schemas: Mapping[str, Schema], inputs: Mapping[str, Schema] | None = None) -> None:
        """Prepare to write to the table named by `text`. Raises CepError if the name is wrong or reading it fails."""
        self.name: TableName = table_name(text)
        self.times = "iso"
        self.counts = dict.fromkeys(schemas, 0)
        self.whole = True
        self._inputs = inputs
        self._layout = ParquetLayout(schemas)
        self._schema = self._layout.schema
        if not self._layout.single:
            self._schema = self._schema.insert(0, pa.field(TYPE, pa.string()))
        if inputs is not None:
            self._schema = self._schema.append(pa.field(BECAUSE, pa.string()))
        KINDS[self.name.kind].check(self.name, self._schema)
        self._file = tempfile.TemporaryFile(prefix="semcep-")  # noqa: SIM115
        self._rows = pq.ParquetWriter(self._file, self._schema, compression="zstd")
        self._schemas = schemas

    def write(self, tables: Mapping[str, pl.DataFrame]) -> int:
        """Store derived events on disk until `close` writes them. Return the number of events."""
        total = 0
        for event in self._schemas:
            if event in tables and tables[event].height:
                self._rows.write_table(self._arranged(event, tables[event]), row_group_size=_ROWS)
                self.counts[event] += tables[event].height
                total += tables[event].height
        return total

    def close(self) -> None:
        """Write all stored rows to the table in one commit. Raises CepError if the commit fails.

        If the results are incomplete and would be added under a name, the stored rows are deleted instead.
        """
        if self.name.append is not None and not self.whole:
            self.discard()
            return
        self._rows.close()
        try:
            KINDS[self.name.kind].write(self.name, self._gathered)
            KINDS[self.name.kind].compact(self.name)
        finally:
            self._file.close()

    def _gathered(self) -> pa.RecordBatchReader:
        self._file.seek(0)
        read = pq.ParquetFile(self._file)
        return pa.RecordBatchReader.from_batches(self._schema, read.iter_batches(_ROWS))

    def discard(self) -> None:
        """Delete the stored rows without writing them to the table."""
        self._rows.close()
        self._file.close()

    def _arranged(self, event: str, table: pl.DataFrame) -> pa.Table:
        arranged = self._layout.table(event, table)
        columns = {name: arranged[name] for name in arranged.column_names}
        columns[TYPE] = pa.array([event] * table.height, pa.string())
        if self._inputs is not None:
            columns[BECAUSE] = because(table[BECAUSE], self._inputs, self.times).to_arrow().cast(pa.string())
        return pa.table([columns[name] for name in self._schema.names], schema=self._schema)

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close() if kind is None else self.discard()
