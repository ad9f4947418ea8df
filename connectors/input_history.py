"""The input of a program before its last snapshot: files with the batches of earlier journals, in order.

Each file is a journal that a later one replaced. Its name contains the number of its first batch, the number of batches
up to the snapshot that replaced it, and the latest end of their records. Batches after that snapshot are also in the
next file.
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
"""A JSON object, followed by the bytes of tables, or of the positions of sources."""

EVENTS = "events"
"""The file with the events for which the input was read, each with the number of the first batch that was read for
it."""

_NAME = re.compile(r"(\d{15})-(\d+)-(-?\d+)")


@dataclass(frozen=True, slots=True)
class _File:
    """A file of batches: the number of its first batch, the number of valid batches, and the latest end of a record."""

    path: Path
    first: int
    count: int
    latest: int

    @property
    def beyond(self) -> int:
        return self.first + self.count


def read_records(path: Path) -> tuple[RecordLog, list[JournalRecord], bool]:
    """Return the log of a file, its readable records, and True if one is damaged. An incomplete last record is not
    damage."""
    records: list[JournalRecord] = []
    log = RecordLog(path)
    try:
        for text, tables in log.unread():
            records.append((json.loads(text.decode("utf-8", "surrogatepass")), tables))
    except Broken:
        return log, records, True
    return log, records, False


class InputHistory:
    """The files of earlier journals in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        private_folder(folder)

    @property
    def beyond(self) -> int:
        """The number after the last stored batch."""
        return max((file.beyond for file in self._files()), default=0)

    def note_events(self, fields: Mapping[str, list[list[str]]], number: int) -> None:
        """Record that from the batch `number` on, the input is read for exactly these events.

        An event that was already read with the same fields keeps its earlier number. Raises OSError if the file cannot
        be written.
        """
        known = self._events()
        document = {
            name: [own, known[name][1] if name in known and known[name][0] == own else number]
            for name, own in fields.items()
        }
        write_whole(self._folder / EVENTS, json.dumps(document, ensure_ascii=False).encode())

    def read_since(self, events: Iterable[str]) -> int:
        """Return the number of the batch from which on the input was read for all of these events."""
        known = self._events()
        return max((known[name][1] if name in known else self.beyond for name in events), default=0)

    def _events(self) -> dict[str, Any]:
        try:
            document = json.loads((self._folder / EVENTS).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):  # if it is damaged, the numbers are unknown for all events
            return {}
        return document if isinstance(document, dict) else {}

    def keep(self, journal: Path, first: int, count: int, latest: int) -> None:
        """Keep a journal that is about to be replaced, with the first `count` of its batches. Raises OSError on
        failure."""
        if count:
            path = self._folder / f"{first:015d}-{count}-{latest}"
            path.unlink(missing_ok=True)
            os.link(journal, path)

    def forget(self, before: int) -> None:
        """Remove the files whose records all end before a time."""
        for file in self._files():
            if file.latest < before:
                file.path.unlink(missing_ok=True)

    def records(self, since: int, from_time: int, journal: Path) -> Iterator[tuple[int, JournalRecord]]:
        """Yield batches with their numbers, from the number `since` on, and finally those of the journal.

        Files whose records all end before `from_time` are left out, and so are batches before a missing one. Raises
        CepError if a file is damaged.
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
        """Return the files that contain the batches from `number` to `base`. Files before a missing or too old one are
        left out."""
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
