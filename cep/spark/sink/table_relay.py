"""The relay to a table: adds the rows of the sink's files to it, and removes the files that it has added.

Before a commit its number and its files are noted. The commit has the same number (in Delta an application transaction,
in Iceberg a property), so the next run sees whether it was done, and either removes these files or adds just them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from cep.connectors.tables.kinds import KINDS
from cep.connectors.tables.names import TableName
from cep.core.durable_names import sync_names
from cep.core.errors import CepError
from cep.spark.disk import damaged_file, put
from cep.spark.sink.commit_log import CommitLog, file_name, intact

NOTE = "table.json"
"""In the checkpoint: under which name rows are added, the number of the last commit, the table that it is of, and its
files until they are removed."""
_ROWS = 1 << 17
_TYPE = "type"


class TableRelay:
    """Adds the files of a folder in the order of its log, all that count at once."""

    rest = 9.0
    """How often the time that it took passes before it adds more: a commit takes longer, the more there were."""

    def __init__(self, folder: Path, name: TableName, at_once: Callable[[], bool] = lambda: False) -> None:
        """`at_once`: whether what waits is to be left for the next run."""
        self._at_once = at_once
        self._folder, self._note = folder, folder.parent / NOTE
        self._log = CommitLog(folder)
        self._seen = -1
        self._small = 0  # commits since small files were put together
        self._name, self._table = name, KINDS[name.kind]

    def waiting(self) -> list[Path]:
        """The files that count, and are not added yet."""
        return list(self._waiting())

    def move(self) -> None:
        """Add the files that count since the last call. CepError: the table does not take them; or a file is not what
        was written."""
        last = self._log.entered
        if last == self._seen:
            return
        known = self._finished()
        files = self._waiting()
        for path, line in files.items():
            if not intact(path, line):
                raise damaged_file(path)
        for names in self._alike(list(files)):
            if self._at_once():
                return
            noted = {"name": known["name"], "number": known["number"] + 1, "files": names, "table": self._name.text}
            put(self._note, json.dumps(noted).encode())
            sync_names(self._note.parent)  # the table may be on another disk
            known = self._finished()
            self._small += 1
        self._seen = last
        if self._name.compact is not None and self._small >= self._name.compact:
            with suppress(CepError):  # it is tried again behind the next rows, and told at the end
                self._table.compact(self._name)
                self._small = 0

    def _alike(self, files: Sequence[Path]) -> Iterator[list[str]]:
        """The names of files that follow each other with the same columns: other rules may have others."""
        for _, some in groupby(files, lambda path: (path.parent == self._folder, pq.read_schema(path))):
            yield [str(path.relative_to(self._folder)) for path in some]

    def close(self) -> None:
        """Put small files together, if that is asked for."""
        self._table.compact(self._name)

    def _finished(self) -> dict[str, Any]:
        """The note, when its commit is done and its files are removed."""
        try:
            known = json.loads(self._note.read_bytes())
        except FileNotFoundError:
            return {"name": uuid4().hex, "number": 0, "files": []}
        except ValueError:
            raise damaged_file(self._note) from None
        if known["files"]:
            if known.get("table", self._name.text) != self._name.text:
                why = f"rows that go to {known['table']} may be there already"
                raise self._name.refused(why, f"go on once with `--output {known['table']}`, then with another")
            name = replace(self._name, append=known["name"])
            files = [self._folder / each for each in known["files"]]
            if not self._table.is_added(name, known["number"]):
                for path in files:
                    if not path.exists():
                        raise damaged_file(path, what="is missing")
                self._table.write(name, partial(_rows, self._folder, files), known["number"])
            for path in files:
                path.unlink(missing_ok=True)
            known = known | {"files": []}
            put(self._note, json.dumps(known).encode())
        return dict(known)

    def _waiting(self) -> dict[Path, str]:
        lines = {self._folder / file_name(line): line for line in self._log.lines()}
        return {path: line for path, line in lines.items() if path.exists()}


def check_table(name: TableName) -> None:
    """CepError: the table cannot be read, or rows are asked to be added once under a name of their own."""
    if name.append is not None:
        raise name.refused("on Spark rows are added, those of each micro-batch once", "without `append`")
    KINDS[name.kind].check(name)


def _rows(folder: Path, files: Sequence[Path]) -> pa.RecordBatchReader:
    """The rows of files; of several events each with its name as `type`."""
    schema = pq.read_schema(files[0])
    if files[0].parent != folder:
        schema = schema.insert(0, pa.field(_TYPE, pa.string()))

    def batches() -> Iterator[pa.RecordBatch]:
        for path in files:
            for batch in pq.ParquetFile(path).iter_batches(_ROWS):
                columns = list(batch.columns)
                if path.parent != folder:
                    event = path.parent.name.removeprefix(f"{_TYPE}=")
                    columns.insert(0, pa.array([event] * batch.num_rows, pa.string()))
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())
