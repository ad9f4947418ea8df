"""The files of a checkpoint in the order in which they are read, each with its number, which stays.

Looking for new files costs no more than listing a folder: known files are recognised by name, and only new ones are
opened and written down.
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
"""A file's number is the place of its spec, and in so many low bits its own place among the files of the spec;
likewise that of a partition of a topic."""
SPECS = 32
"""At most so many specs: the order of rows has no more bits for them."""

SHOWN = 3
"""Files of which a look for changes warns by name."""

CHECKED = 10_000
"""At most so many files of a list are looked at for changes, the latest ones."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The size of a file, and when it was last written (nanoseconds)."""

    size: int
    written: int

    @classmethod
    def of(cls, path: str) -> Stamp | None:
        """Return the current stamp of a file; None: it is not on a local disk, or cannot be found."""
        if is_url(path):
            return None
        with suppress(OSError):
            status = os.stat(path)
            return cls(status.st_size, status.st_mtime_ns)
        return None

    def change(self, later: Stamp) -> str | None:
        """Say how a file has changed; None: it has not."""
        if later == self:
            return None
        if later.size > self.size:
            return f"has grown from {self.size:,} to {later.size:,} bytes"
        if later.size < self.size:
            return f"has shrunk from {self.size:,} to {later.size:,} bytes"
        return "was written again"


class FileChanges:
    """Warns, once for each change, of files that have changed since they were listed."""

    PAUSE = 60.0
    """Seconds between two looks, at least."""

    def __init__(self, path: str, clock: Callable[[], float] = monotonic) -> None:
        """`path`: of the list."""
        self._path, self._clock = path, clock
        self._reported: dict[str, str] = {}
        self._next = clock()

    def take(self, last: bool = False) -> list[str]:
        """New warnings; none where the last look was a moment ago, unless this is the `last` one."""
        if self._clock() < self._next and not last:
            return []
        self._next = self._clock() + self.PAUSE
        found = [one for one in FileList(self._path).changed() if self._reported.get(one[0]) != one[1]]
        self._reported |= dict(found)
        more = f"; so have {len(found) - SHOWN:,} more" if len(found) > SHOWN else ""
        return [
            f"{path} {change} since it was listed{more if place == SHOWN - 1 else ''}: a file is read once, "
            "so what came after that may be missing; write it to a file of another name"
            for place, (path, change) in enumerate(found[:SHOWN])
        ]


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file to read, with its number. `there`: the process that plans sees it, and may read it; `stamp`: its size and
    time when it was listed, None: they are not known."""

    number: int
    input: Input
    there: bool = False
    stamp: Stamp | None = None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> ListedFile:
        """The one of a line of the list."""
        own = ("number", "size", "written")
        stamp = None if fields["size"] is None else Stamp(fields["size"], fields["written"])
        one = Input(**{name: value for name, value in fields.items() if name not in own})
        return cls(fields["number"], one, stamp=stamp)

    def seen(self) -> ListedFile:
        """The same, with `there` as it is now."""
        return replace(self, there=os.access(self.path, os.R_OK))

    @property
    def path(self) -> str:
        return self.input.path

    def fields(self) -> dict[str, Any]:
        """Its line of the list."""
        one, stamp = self.input, self.stamp
        times = {"size": None, "written": None} if stamp is None else {"size": stamp.size, "written": stamp.written}
        own = {"path": one.path, "format": one.format, "type": one.type, "bound": one.bound}
        return {"number": self.number, **own, **times}


class FileList:
    """The files in the order in which they are read, a line of JSON each in a log on disk. New ones are added by their
    names alone, so that folders of several events are read side by side; numbers go spec by spec, in each in the order
    in which files came.

    Lines are only ever added, and are on disk before anyone relies on them. Held in memory are paths, and where lines
    begin.
    """

    def __init__(self, path: str) -> None:
        self._log = LineLog(Path(path))
        self._known: set[str] = set()
        self._following: Counter[int] = Counter()

    @property
    def known(self) -> Set[str]:
        """The paths of all files."""
        self._read()
        return self._known

    def __len__(self) -> int:
        self._read()
        return len(self._log)

    def entries(self, first: int, beyond: int) -> list[ListedFile]:
        """The files from one place to before another. CepError: the list is shorter."""
        if beyond > len(self):
            raise CepError(
                f"--checkpoint: {self._log.path} has {len(self)} files, and {beyond} were read",
                hint="put the whole folder back as it was, or start anew with another one",
                code="checkpoint",
            )
        try:
            return [self._listed(fields) for fields in self._log.read(first, beyond)]
        except Broken as error:
            raise self._damaged(error) from None

    def extend(self, now: Iterable[tuple[int, Input]]) -> int:
        """Add the files of `now`, each with the place of its spec, that are not listed yet; gives how many there are
        then. CepError: a spec has more files than there are numbers."""
        self._read()
        coming: dict[str, tuple[int, Input]] = {}
        for place, one in now:
            if one.path not in self._known:
                coming.setdefault(one.path, (place, one))
        following, new = self._following.copy(), []
        for place, one in coming.values():
            if following[place] >> FILE_BITS:
                raise CepError(
                    f"--input: input {place + 1} has had {1 << FILE_BITS:,} files, there are no numbers for more",
                    hint="start anew with other folders, and with larger files",
                    code="input",
                )
            number = (place << FILE_BITS) + following[place]
            new.append(ListedFile(number, one, stamp=Stamp.of(one.path)))
            following[place] += 1
        if new:
            new.sort(key=lambda one: (os.path.basename(one.path), one.number))
            self._log.append([one.fields() for one in new])
            self._log.close()
            for file in new:
                self._take(file)
        return len(self)

    def changed(self) -> list[tuple[str, str]]:
        """Return the paths of listed files that have changed since, each with how. A file is read once, so what has
        come since may be in no result. CepError: the list is damaged."""
        there, found = len(self), list[tuple[str, str]]()
        for one in self.entries(max(0, there - CHECKED), there):
            now = None if one.stamp is None else Stamp.of(one.path)
            if one.stamp is not None and now is not None and (change := one.stamp.change(now)) is not None:
                found.append((one.path, change))
        return found

    def _read(self) -> None:
        """Read the lines that were added since the list was last read. CepError: it is damaged."""
        try:
            for fields in self._log.unread():
                self._take(self._listed(fields))
        except Broken as error:
            raise self._damaged(error) from None

    def _take(self, one: ListedFile) -> None:
        self._known.add(one.path)
        place, number = one.number >> FILE_BITS, one.number & ((1 << FILE_BITS) - 1)
        self._following[place] = max(self._following[place], number + 1)

    def _listed(self, fields: Mapping[str, Any]) -> ListedFile:
        try:
            return ListedFile.of(fields)
        except (ValueError, TypeError, KeyError):
            raise damaged_file(self._log.path) from None

    def _damaged(self, error: Broken) -> CepError:
        return damaged_file(self._log.path, what=f"is damaged in line {error.number + 1}")
