"""The files that a checkpoint reads, in the order in which they are read. Each file has a fixed number.

A search for new files costs no more than listing a folder. Known files are recognized by name. Only new files are
opened and recorded. A spec is an input as the user names it: a file, a folder or a pattern.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

from cep.connectors.inputs import Input
from cep.core.append_log import LineLog
from cep.core.checksum import Broken
from cep.core.errors import CepError
from cep.core.storage.urls import is_url
from cep.spark.disk import damaged_file

FILE_BITS = 22
"""The number of low bits in a file's number that count the files of one spec. The other bits number the spec.

The partitions of a topic are numbered in the same way.
"""
SPECS = 32
"""The maximum number of specs. The `@order` of a row has no bits for more."""

SHOWN = 3
"""The number of changed files that a warning names."""

CHECKED = 10_000
"""The maximum number of files that are checked for changes. The files that were listed last are checked."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The size of a file, and the time of its last change in nanoseconds."""

    size: int
    written: int

    @classmethod
    def of(cls, path: str) -> Stamp | None:
        """Return the current stamp of a file, or None if the file is not on a local disk or does not exist."""
        if is_url(path):
            return None
        with suppress(OSError):
            status = os.stat(path)
            return cls(status.st_size, status.st_mtime_ns)
        return None

    def change(self, later: Stamp) -> str | None:
        """Describe how a file has changed since this stamp, or return None. `later`: the file's current stamp."""
        if later == self:
            return None
        if later.size > self.size:
            return f"has grown from {self.size:,} to {later.size:,} bytes"
        if later.size < self.size:
            return f"has shrunk from {self.size:,} to {later.size:,} bytes"
        return "was written again"


class FileChanges:
    """A detector of changes in files that are already in the list. It warns once about each change."""

    PAUSE = 60.0
    """The minimum number of seconds between two checks."""

    def __init__(self, path: str, clock: Callable[[], float] = monotonic) -> None:
        self._path, self._clock = path, clock
        self._reported: dict[str, str] = {}
        self._next = clock()

    def take(self, last: bool = False) -> list[str]:
        """Check the files, and return new warnings.

        If the last check was less than `PAUSE` seconds ago and `last` is False, return no warnings.
        """
        if self._clock() < self._next and not last:
            return []
        self._next = self._clock() + self.PAUSE
        changed = [entry for entry in FileList(self._path).changed() if self._reported.get(entry[0]) != entry[1]]
        self._reported |= dict(changed)
        more = f"; so have {len(changed) - SHOWN:,} more" if len(changed) > SHOWN else ""
        return [
            f"{path} {change} since it was listed{more if place == SHOWN - 1 else ''}: a file is read once, "
            "so later records may be missing; write them to a file with another name"
            for place, (path, change) in enumerate(changed[:SHOWN])
        ]


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file to read, and its number.

    - `readable`: True if the planning process can read the file.
    - `stamp`: the file's size and change time when it was listed, or None if they are unknown.
    """

    number: int
    input: Input
    readable: bool = False
    stamp: Stamp | None = None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> ListedFile:
        """Return the file that a line of the list describes."""
        own = ("number", "size", "written")
        stamp = None if fields["size"] is None else Stamp(fields["size"], fields["written"])
        file_input = Input(**{name: value for name, value in fields.items() if name not in own})
        return cls(fields["number"], file_input, stamp=stamp)

    def seen(self) -> ListedFile:
        """Return a copy whose `readable` is up to date."""
        return replace(self, readable=os.access(self.path, os.R_OK))

    @property
    def path(self) -> str:
        return self.input.path

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON line that describes the file in the list."""
        file_input, stamp = self.input, self.stamp
        times = {"size": None, "written": None} if stamp is None else {"size": stamp.size, "written": stamp.written}
        own = {"path": file_input.path, "format": file_input.format, "type": file_input.type, "bound": file_input.bound}
        return {"number": self.number, **own, **times}


class FileList:
    """A list of files in the order in which they are read, stored as one line of JSON per file.

    New files of all specs are sorted together by name, so that the folders of several events are read side by side. The
    files of each spec are numbered in the order in which they appeared. Lines are only appended, and are synced to disk
    before the files that they describe are read. Memory contains only the paths and the offsets of lines.
    """

    def __init__(self, path: str) -> None:
        self._log = LineLog(Path(path))
        self._known: set[str] = set()
        self._following: Counter[int] = Counter()

    @property
    def known(self) -> Set[str]:
        """The paths of all files in the list."""
        self._read()
        return self._known

    def __len__(self) -> int:
        self._read()
        return len(self._log)

    def entries(self, first: int, beyond: int) -> list[ListedFile]:
        """Return the files at the positions from `first` to `beyond` - 1. Raises CepError if the list is shorter."""
        if beyond > len(self):
            raise CepError(
                f"--checkpoint: {self._log.path} lists {len(self)} files, but {beyond} were read",
                hint="restore the whole folder from a copy, or start anew with another one",
                code="checkpoint",
            )
        try:
            return [self._listed(fields) for fields in self._log.read(first, beyond)]
        except Broken as error:
            raise self._damaged(error) from None

    def extend(self, now: Iterable[tuple[int, Input]]) -> int:
        """Add the files of `now` that are not in the list yet. Each file is paired with the position of its spec.

        Return the number of files in the list. Raises CepError if a spec has more than 2 ** `FILE_BITS` files.
        """
        self._read()
        coming: dict[str, tuple[int, Input]] = {}
        for place, file_input in now:
            if file_input.path not in self._known:
                coming.setdefault(file_input.path, (place, file_input))
        following, new = self._following.copy(), []
        for place, file_input in coming.values():
            if following[place] >> FILE_BITS:
                raise CepError(
                    f"--input: input {place + 1} has had {1 << FILE_BITS:,} files, which is the limit",
                    hint="start anew with other folders and with fewer, larger files",
                    code="input",
                )
            number = (place << FILE_BITS) + following[place]
            new.append(ListedFile(number, file_input, stamp=Stamp.of(file_input.path)))
            following[place] += 1
        if new:
            new.sort(key=lambda listed: (os.path.basename(listed.path), listed.number))
            self._log.append([listed.fields() for listed in new])
            self._log.close()
            for file in new:
                self._take(file)
        return len(self)

    def changed(self) -> list[tuple[str, str]]:
        """Return the files that have changed since they were listed: pairs of a path and a description of the change.

        A file is read once, so the query does not see text that was added later. Raises CepError if the list is
        damaged.
        """
        count, changes = len(self), list[tuple[str, str]]()
        for entry in self.entries(max(0, count - CHECKED), count):
            now = None if entry.stamp is None else Stamp.of(entry.path)
            if entry.stamp is not None and now is not None and (change := entry.stamp.change(now)) is not None:
                changes.append((entry.path, change))
        return changes

    def _read(self) -> None:
        """Read the lines that were added since the last call. Raises CepError if the list is damaged."""
        try:
            for fields in self._log.unread():
                self._take(self._listed(fields))
        except Broken as error:
            raise self._damaged(error) from None

    def _take(self, listed_file: ListedFile) -> None:
        self._known.add(listed_file.path)
        place, number = listed_file.number >> FILE_BITS, listed_file.number & ((1 << FILE_BITS) - 1)
        self._following[place] = max(self._following[place], number + 1)

    def _listed(self, fields: Mapping[str, Any]) -> ListedFile:
        try:
            return ListedFile.of(fields)
        except (ValueError, TypeError, KeyError):
            raise damaged_file(self._log.path) from None

    def _damaged(self, error: Broken) -> CepError:
        return damaged_file(self._log.path, what=f"is damaged in line {error.number + 1}")
