"""The relay: sends derived events from the files of the sink to a broker, and removes the files that it has sent.

So the folder is all the state there is: a killed run leaves the file that it was sending, and the next run sends it
again, with the same ids.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cep.connectors.brokers.sending import Sending
from cep.connectors.tables.names import is_table, table_name
from cep.core.errors import UNREACHABLE, CepError, reason_of
from cep.core.schema import Schema
from cep.spark.disk import OUTGOING, STOP, damaged_file
from cep.spark.sink.commit_log import CommitLog, file_name, intact
from cep.spark.sink.table_relay import TableRelay

WarnText = Callable[[str], None]

_PAUSE = 0.2  # seconds between two looks
_LONGEST = 30.0  # between two tries to reach a broker
_BYTES = 1 << 22  # bytes that are sent at once


class BrokerRelay:
    """Sends the files of a folder one by one, in the order of its log."""

    rest = 0.0
    """How often the time that it took passes before it sends more."""

    def __init__(self, folder: Path, to: Callable[[], Sending], at_once: Callable[[], bool] = lambda: False) -> None:
        """`at_once`: whether what waits is to be left for the next run."""
        self._folder, self._to, self._at_once = folder, to, at_once
        self._log = CommitLog(folder)
        self._seen = -1
        self._sending: Sending | None = None

    def waiting(self) -> list[Path]:
        """The files that count, and are not sent yet."""
        return list(self._waiting())

    def _waiting(self) -> dict[Path, str]:
        """Likewise, each with its line in the log."""
        lines = {self._folder / file_name(line): line for line in self._log.lines()}
        return {path: line for path, line in lines.items() if path.exists()}

    def move(self) -> None:
        """Send the files that count since the last call. CepError: the broker does not take one, which is sent the next
        time; or a file is not what was written."""
        last = self._log.entered
        if last == self._seen:
            return
        for path, line in self._waiting().items():
            if not intact(path, line):
                raise damaged_file(path)
            if self._at_once():
                return
            self._send(path)
        self._seen = last

    def close(self) -> None:
        if self._sending is not None:
            self._sending.close()
            self._sending = None

    def _send(self, path: Path) -> None:
        try:
            if self._sending is None:
                self._sending = self._to()
            with path.open("rb") as file:
                while lines := file.readlines(_BYTES):
                    self._sending.write(b"".join(lines))
        except CepError:
            self.close()
            raise
        path.unlink()


@contextmanager
def relaying(
    checkpoint: Path,
    text: str,
    schemas: Mapping[str, Schema],
    warn: WarnText,
    at_once: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Send what a query derives while the block runs, and what is left when it has ended well, but where it has to end
    `at_once`. A broker that cannot be reached, or a disk that cannot be written, is tried again. CepError: so it is at
    the end; or the broker refuses an event, which stops the query."""
    relay: BrokerRelay | TableRelay
    if is_table(text):
        relay = TableRelay(checkpoint / OUTGOING, table_name(text), at_once)
    else:
        relay = BrokerRelay(checkpoint / OUTGOING, lambda: Sending(text, schemas), at_once)
    over = threading.Event()
    failure: list[Exception] = []

    def move() -> None:
        try:
            relay.move()
        except OSError as error:
            raise CepError(f"what is derived cannot be sent: {reason_of(error)}", code=UNREACHABLE) from error

    def run() -> None:
        pause, waits = _PAUSE, False
        while not over.wait(pause):
            began = time.monotonic()
            try:
                move()
                pause, waits = min(max(_PAUSE, relay.rest * (time.monotonic() - began)), _LONGEST), False
            except CepError as error:
                if error.code != UNREACHABLE:
                    failure.append(error)
                    (checkpoint / STOP).touch()
                    return
                if not waits:
                    warn(f"{error.message}; what is derived waits in {checkpoint / OUTGOING}")
                pause, waits = min(max(2 * pause, 1.0), _LONGEST) if waits else 1.0, True
            except Exception as error:  # who waits is to know
                failure.append(error)
                (checkpoint / STOP).touch()
                return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
        over.set()
        thread.join()
        if failure:
            raise failure[0]
        if not at_once():
            move()
    except CepError as error:
        if error.code == UNREACHABLE:
            left, folder = len(relay.waiting()), checkpoint / OUTGOING
            hint = f"{left} files wait in {folder}; the same command sends them"
            raise CepError(error.message, hint=hint, code="failed") from None
        raise
    finally:
        over.set()
        thread.join()
        try:
            relay.close()
        except (CepError, OSError) as error:  # the rows are there
            why = error.message if isinstance(error, CepError) else reason_of(error)
            warn(f"{why}; small files stay as they are")
