"""The input that a program read before its last snapshot, stored in files. Each snapshot replaces the journal of the
batches before it. The replaced journal is kept as one of these files.

The name of a file contains three numbers:

- the number of the file's first batch
- the number of its batches before the snapshot that replaced the journal
- the latest end of a record in these batches

A file may also contain batches after that snapshot. The next file contains these batches again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cep.core.append_log import RecordLog
from cep.core.checksum import Broken
from cep.core.durable_files import write_whole
from cep.core.errors import CepError
from cep.core.private_files import private_folder

JournalRecord = tuple[dict[str, Any], bytes]
"""A record of a journal: a JSON object, and bytes that contain tables or the positions of sources."""

EVENTS = "events"
"""The name of the file that lists the event types for which the input was read.

For each event type, the file contains the number of the first batch that was read for this event type.
"""

_NAME = re.compile(r"(\d{15})-(\d+)-(-?\d+)")


@dataclass(frozen=True, slots=True)
class _File:
    """A file that contains batches.

    - `first`: the number of the file's first batch.
    - `count`: the number of batches to read from the file. Batches after them are also in the next file.
    - `latest`: the latest end of a record in these batches.
    """

    path: Path
    first: int
    count: int
    latest: int

    @property
    def beyond(self) -> int:
        return self.first + self.count


def read_records(path: Path) -> tuple[RecordLog, list[JournalRecord], bool]:
    """Read a journal file. Return its log, the records that can be read, and True if a record is damaged.

    If the last record is incomplete, it is left out but does not count as damaged.
    """
    records: list[JournalRecord] = []
    log = RecordLog(path)
    try:
        for text, tables in log.unread():
            records.append((json.loads(text.decode("utf-8", "surrogatepass")), tables))
    except Broken:
        return log, records, True
    return log, records, False


class InputHistory:
    """The input history of a program. `folder`: the folder that contains the files of replaced journals."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        private_folder(folder)

    @property
    def beyond(self) -> int:
        """The number that follows the number of the last stored batch."""
        return max((file.beyond for file in self._files()), default=0)

    def note_events(self, fields: Mapping[str, list[list[str]]], number: int) -> None:
        """Store that, from batch `number` on, the input is read for exactly the event types in `fields`.

        `fields`: the fields of each event type. If an event type was already read with the same fields, the earlier
        batch number stays stored for it. Raises OSError if the file cannot be written.
        """
        known = self._events()
        document = {
            name: [own, known[name][1] if name in known and known[name][0] == own else number]
            for name, own in fields.items()
        }
        write_whole(self._folder / EVENTS, json.dumps(document, ensure_ascii=False).encode())

    def read_since(self, events: Iterable[str]) -> int:
        """Return the number of the first batch since which the input was read for all event types in `events`."""
        known = self._events()
        return max((known[name][1] if name in known else self.beyond for name in events), default=0)

    def _events(self) -> dict[str, Any]:
        try:
            document = json.loads((self._folder / EVENTS).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):  # if it is damaged, the numbers are unknown for all events
            return {}
        return document if isinstance(document, dict) else {}

    def keep(self, journal: Path, first: int, count: int, latest: int) -> None:
        """Keep the file of a journal that is about to be replaced. Raises OSError if this is not possible.

        `first`: the number of the journal's first batch. `count`: the number of its batches up to the new snapshot.
        `latest`: the latest end of a record in these batches.
        """
        if count:
            path = self._folder / f"{first:015d}-{count}-{latest}"
            path.unlink(missing_ok=True)
            os.link(journal, path)

    def forget(self, before: int) -> None:
        """Delete each file in which all records end before the time `before`."""
        for file in self._files():
            if file.latest < before:
                file.path.unlink(missing_ok=True)

    def records(self, since: int, from_time: int, journal: Path) -> Iterator[tuple[int, JournalRecord]]:
        """Yield each batch from the number `since` on, together with its number. The batches in `journal` come last.

        If all records of a file end before `from_time`, this file and all earlier files are left out. If a batch is
        missing, all earlier batches are left out. Raises CepError if a file is damaged.
        """
        number = since
        while True:
            begun, *records = self._read(journal)
            files = self._before(begun[0]["base"], number, from_time)
            if not files:
                break
            for file in files:
                for place, record in enumerate(self._read(file.path)[1 : 1 + file.count], file.first):
                    if place >= number:
                        yield place, record
                number = max(number, file.beyond)
        for place, record in enumerate(records, begun[0]["base"]):
            if place >= number:
                yield place, record

    def _before(self, base: int, number: int, from_time: int) -> list[_File]:
        """Return the files that contain the batches from `number` up to, but not including, `base`.

        The search goes backwards from `base`, to a missing batch or to a file whose records all end before `from_time`.
        """
        earlier: list[_File] = []
        for file in reversed(self._files()):
            if file.beyond < base or file.beyond <= number or file.latest < from_time:
                break
            if file.first < base:
                earlier.append(file)
                base = file.first
        return earlier[::-1]

    def _read(self, path: Path) -> list[JournalRecord]:
        _, records, damaged = read_records(path)
        if damaged:
            message = f"--state: {path}: the stored earlier input is damaged"
            raise CepError(message, hint="remove the file; new rules then do not see the earlier input", code="state")
        return records

    def _files(self) -> list[_File]:
        files = []
        for path in self._folder.iterdir():
            if match := _NAME.fullmatch(path.name):
                files.append(_File(path, *(int(part) for part in match.groups())))
        return sorted(files, key=lambda file: file.first)
