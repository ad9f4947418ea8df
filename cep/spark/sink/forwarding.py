"""Forwarding of derived events to a broker or a table. The committed files of a micro-batch are sent, and then removed.

The files are the only record of what is still to be sent. If a run is killed, the next run first sends the remaining
files. A broker then receives some rows twice, with the same ids. A commit of a table contains the number of the
micro-batch: in Delta as an application transaction, in Iceberg as a property. So the next run knows if the commit
succeeded.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from cep.connectors.brokers.sending import Sending
from cep.connectors.tables.kinds import KINDS
from cep.connectors.tables.names import TableName, is_table, table_name
from cep.core.durable_files import sync_names
from cep.core.errors import UNREACHABLE, CepError, reason_of
from cep.core.schema import Schema
from cep.spark.disk import OUTGOING, STOP, damaged_file, put
from cep.spark.sink.commit_log import CommitLog, batch_of, file_name, intact

NOTE = "table.json"
"""The name of a file in the checkpoint that contains the number of the last commit to a table, and the table's name."""

PATIENCE = 60.0
"""The number of seconds for which a run over finite input tries to connect to a destination."""

_PAUSE, _LONGEST, _LOOK = 1.0, 30.0, 0.1  # seconds: first and longest pause before a retry, and between checks
_BYTES = 1 << 22  # bytes that are sent at once
_ROWS = 1 << 17
_TYPE = "type"


class Destination(Protocol):
    """The broker or table that receives the files."""

    def take(self, files: Sequence[Path], number: int) -> None:
        """Send the files of a micro-batch, and remove them. `number`: the number of the micro-batch.

        Raises CepError if they cannot be sent. If the error has the code `UNREACHABLE`, the caller may try again later.
        """

    def close(self) -> None: ...


class Broker:
    """A destination that sends rows to a broker as messages.

    `to`: a function that connects to the broker. `at_once`: a function that returns True if the query should stop at
    once. The remaining files are then left for the next run.
    """

    def __init__(self, to: Callable[[], Sending], at_once: Callable[[], bool]) -> None:
        self._to, self._at_once = to, at_once
        self._sending: Sending | None = None

    def take(self, files: Sequence[Path], number: int) -> None:
        for path in files:
            if self._at_once():
                return
            try:
                self._sending = self._sending or self._to()
                with path.open("rb") as file:
                    while lines := file.readlines(_BYTES):
                        self._sending.write(b"".join(lines))
            except CepError:
                self.close()
                raise
            path.unlink()

    def close(self) -> None:
        if self._sending is not None:
            self._sending.close()
            self._sending = None


class Table:
    """A destination that adds rows to a table. `job`: a name of the checkpoint. Each commit contains it, so that a
    repeated commit adds nothing."""

    def __init__(self, name: TableName, job: str, checkpoint: Path) -> None:
        self._name, self._job, self._note = name, job, checkpoint / NOTE
        self._table = KINDS[name.kind]
        self._small = 0  # commits since the last compaction

    def take(self, files: Sequence[Path], number: int) -> None:
        """See `Destination`. Also raises CepError if another table may already contain these rows."""
        self._begin(number)
        name = replace(self._name, append=self._job)
        if not self._table.is_added(name, number):
            self._table.write(name, partial(_rows, files), number)
            self._small += 1
        for path in files:
            path.unlink()
        if self._name.compact is not None and self._small >= self._name.compact:
            with suppress(CepError):  # it is repeated after the next rows; the last failure is reported
                self._table.compact(self._name)
                self._small = 0

    def _begin(self, number: int) -> None:
        """Record that the rows of a micro-batch go to this table, before they are added."""
        try:
            known = json.loads(self._note.read_bytes()) if self._note.exists() else {}
            before = known["table"] if known.get("number") == number else self._name.text
        except (ValueError, LookupError, AttributeError):
            raise damaged_file(self._note) from None
        if before != self._name.text:
            hint = f"first run once with `--output {before}`, then with the other table"
            raise self._name.refused(f"some of the next rows may already be in {before}", hint)
        put(self._note, json.dumps({"number": number, "table": self._name.text}).encode())
        sync_names(self._note.parent)  # the table may be on another disk

    def close(self) -> None:
        """Compact the table's small files, if the table's address asks for it."""
        self._table.compact(self._name)


class Forwarding:
    """An object that sends the files of a sink to a destination. The sink is inside the checkpoint.

    - `to`: the broker or table.
    - `warn`: a function that is called with a message if files have to wait.
    - `at_once`: a function that returns True if the query should stop at once. The remaining files are then left for
      the next run.
    - `lasting`: True if the query runs until it is stopped. Retries then have no time limit.
    """

    def __init__(
        self, checkpoint: Path, to: Destination, warn: Callable[[str], None], at_once: Callable[[], bool], lasting: bool
    ) -> None:
        self.folder, self._to, self._warn, self._at_once = checkpoint / OUTGOING, to, warn, at_once
        self._log, self._stop, self._lasting = CommitLog(self.folder), checkpoint / STOP, lasting

    def waiting(self) -> dict[Path, str]:
        """Return the committed files that have not been sent, sorted by micro-batch, each with its line in the log."""
        lines = {self.folder / file_name(line): line for line in self._log.lines()}
        return {path: line for path, line in lines.items() if path.exists()}

    def begins(self, batch: int) -> None:
        """Do nothing, because an earlier attempt at a micro-batch leaves nothing to remove."""

    def give(self, spark: object, batch: int) -> None:
        """Forward a committed micro-batch. Raises CepError as `forward` does."""
        self.forward()

    def forward(self) -> None:
        """Send all waiting files. If the destination is unreachable, try again, while the query waits.

        Raises CepError if the time for retries is over, the query should stop, or a file is refused or has changed.
        """
        since, pause, told = time.monotonic(), _PAUSE, False
        while (failure := self._tried()) is not None:
            if not told:
                self._warn(f"{failure.message}; derived rows wait in {self.folder}")
                told = True
            if not self._slept(pause, since):
                hint = f"{len(self.waiting())} files wait in {self.folder}; the same command sends them"
                raise CepError(failure.message, hint=hint, code="failed")
            pause = min(2 * pause, _LONGEST)

    def _tried(self) -> CepError | None:
        """Send the waiting files. Returns an error if the destination is unreachable, and None if all files are sent.

        Raises CepError for any other failure, because a retry would not help.
        """
        try:
            waiting = self.waiting()
            for path, line in waiting.items():
                if not intact(path, line):
                    raise damaged_file(path)
            for number, files in groupby(waiting, lambda path: batch_of(waiting[path])):
                self._to.take(list(files), number)
            return None
        except OSError as error:
            return CepError(f"derived rows cannot be sent: {reason_of(error)}", code=UNREACHABLE)
        except CepError as error:
            if error.code != UNREACHABLE:
                raise
            return error

    def _slept(self, pause: float, since: float) -> bool:
        """Wait `pause` seconds. Return False if no time is left for a retry. `since`: the time of the first attempt."""
        until = time.monotonic() + pause
        while time.monotonic() < until:
            late = not self._lasting and time.monotonic() > since + PATIENCE
            if late or self._at_once() or self._stop.exists():
                return False
            time.sleep(_LOOK)
        return True


@contextmanager
def forwarding(
    checkpoint: Path,
    job: str,
    text: str,
    schemas: Mapping[str, Schema],
    warn: Callable[[str], None],
    at_once: Callable[[], bool] = lambda: False,
    lasting: bool = False,
) -> Iterator[Forwarding]:
    """Forward rows to a broker or table inside a `with` block. First send the files that an earlier run has left.

    - `job`: the name of the checkpoint.
    - `text`: the address of the broker or table.
    - `schemas`: the schemas of the events.
    - `warn`, `at_once`, `lasting`: the same as for `Forwarding`.

    Raises the same errors as `Forwarding.forward`.
    """
    to: Destination
    if is_table(text):
        to = Table(table_name(text), job, checkpoint)
    else:
        to = Broker(lambda: Sending(text, schemas), at_once)
    forwarder = Forwarding(checkpoint, to, warn, at_once, lasting)
    try:
        forwarder.forward()
        yield forwarder
    finally:
        try:
            to.close()
        except (CepError, OSError) as error:  # the rows have arrived; only compaction failed
            why = error.message if isinstance(error, CepError) else reason_of(error)
            warn(f"{why}; small files are not compacted")


def check_table(name: TableName) -> None:
    """Check that rows can be added to a table. Raises CepError if the table cannot be read.

    Also raises CepError if the table's address has the option `append`, which Spark does not support.
    """
    if name.append is not None:
        raise name.refused("Spark adds the rows of each micro-batch once, whatever `append` says", "leave out `append`")
    KINDS[name.kind].check(name)


def _rows(files: Sequence[Path]) -> pa.RecordBatchReader:
    """Read the rows of files. If each file is in a folder of its event, add a column `type` that contains the event."""
    schema = pq.read_schema(files[0])
    several = files[0].parent.name.startswith(f"{_TYPE}=")
    if several:
        schema = schema.insert(0, pa.field(_TYPE, pa.string()))

    def batches() -> Iterator[pa.RecordBatch]:
        for path in files:
            for batch in pq.ParquetFile(path).iter_batches(_ROWS):
                columns = list(batch.columns)
                if several:
                    event = path.parent.name.removeprefix(f"{_TYPE}=")
                    columns.insert(0, pa.array([event] * batch.num_rows, pa.string()))
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())
