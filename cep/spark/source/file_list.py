"""The files of a checkpoint in the order in which they are read, each with its number, which stays.

Looking for new files costs no more than listing a folder: known files are recognised by name, and only new ones are
opened and written down.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import InputPartition

from cep.core.append_log import LineLog
from cep.core.checksum import Broken
from cep.core.errors import CepError
from cep.spark.disk import damaged_file
from connectors.inputs import Input

FILE_BITS = 22
"""A file's number is the place of its spec, and in so many low bits its own place among the files of the spec;
likewise that of a partition of a topic."""
SPECS = 32
"""At most so many specs: the order of rows has no more bits for them."""


class ListedFile(InputPartition):
    """A file to read, with its number. `there`: the process that plans sees it, and may read it."""

    def __init__(self, number: int, input: Input, there: bool = False) -> None:
        super().__init__((number, input))
        self.number, self.input, self.there = number, input, there

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> ListedFile:
        """The one of a line of the list."""
        return cls(fields["number"], Input(**{name: value for name, value in fields.items() if name != "number"}))

    def seen(self) -> ListedFile:
        """The same, with `there` as it is now."""
        return ListedFile(self.number, self.input, os.access(self.path, os.R_OK))

    @property
    def path(self) -> str:
        return self.input.path

    def fields(self) -> dict[str, Any]:
        """Its line of the list."""
        one = self.input
        return {"number": self.number, "path": one.path, "format": one.format, "type": one.type, "bound": one.bound}


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
            new.append(ListedFile((place << FILE_BITS) + following[place], one))
            following[place] += 1
        if new:
            new.sort(key=lambda one: (os.path.basename(one.path), one.number))
            self._log.append([one.fields() for one in new])
            self._log.close()
            for file in new:
                self._take(file)
        return len(self)

    def _read(self) -> None:
        """What has been added since the list was last read. CepError: it is damaged."""
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
