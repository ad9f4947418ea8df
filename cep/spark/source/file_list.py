"""The files of a checkpoint in the order in which they are read, each with its number, which stays.

Looking for new ones costs what listing a folder costs: what is known is known by name, and only what is new is looked
at, written and kept.
"""

from __future__ import annotations

import json
import os
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from pathlib import Path

from pyspark.sql.datasource import InputPartition

from cep.core.checksum import Broken, Chain
from cep.core.errors import CepError
from cep.spark.storage.disk import damaged, sync
from connectors.inputs import Input

FILE_BITS = 22
"""A file's number is the place of its spec, and in so many bits its own place there; so has a partition of a topic."""
SPECS = 32
"""So many specs can be told apart in the order of rows."""


class ListedFile(InputPartition):
    """A file to read, with its number. `there`: who plans sees it, and may read it."""

    def __init__(self, number: int, input: Input, there: bool = False) -> None:
        super().__init__((number, input))
        self.number, self.input, self.there = number, input, there

    @classmethod
    def of(cls, line: bytes) -> ListedFile:
        """The one that the journal has in this line."""
        fields = json.loads(line)
        fields.pop("hash", None)
        return cls(fields.pop("number"), Input(**fields))

    def seen(self) -> ListedFile:
        """The same, looked at now."""
        return ListedFile(self.number, self.input, os.access(self.path, os.R_OK))

    @property
    def path(self) -> str:
        return self.input.path

    def line(self) -> str:
        """As the journal has it, but for its hash."""
        one = self.input
        fields = {"path": one.path, "format": one.format, "type": one.type, "bound": one.bound}
        return json.dumps({"number": self.number} | fields, ensure_ascii=False)


class FileList:
    """The files in the order in which they are read, a line of JSON each, with a hash of all until it. New ones are
    added by their names alone, so that folders of several events are read side by side; numbers go spec by spec, in
    each by time of coming.

    Lines are only ever added, and are on disk before anyone is told of them. Of what a killed run was writing the last
    line may be torn: it was told to no one, and is cut off. Held in memory are paths, and where lines begin.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._known: set[str] = set()
        self._following: Counter[int] = Counter()
        self._begins = array("q", [0])  # of each line, and last where the next one will
        self._chain = Chain()

    @property
    def known(self) -> Set[str]:
        """The paths of all files."""
        self._read()
        return self._known

    def __len__(self) -> int:
        self._read()
        return len(self._begins) - 1

    def entries(self, first: int, beyond: int) -> list[ListedFile]:
        """Those from one place to before another. CepError: the journal does not go so far."""
        if beyond > len(self):
            raise CepError(
                f"--checkpoint: {self._path} has {len(self)} files, and {beyond} were read",
                hint="put the whole folder back as it was, or start anew with another one",
                code="checkpoint",
            )
        if first >= beyond:
            return []
        with self._path.open("rb") as file:
            file.seek(self._begins[first])
            lines = file.read(self._begins[beyond] - self._begins[first]).splitlines()
        return [self._some(line) for line in lines]

    def extend(self, now: Iterable[tuple[int, Input]]) -> int:
        """With those of `now`, each with the place of its spec, that are not yet in it; gives how many there are then.
        CepError: a spec has more files than can be told apart."""
        self._read()
        coming: dict[str, tuple[int, Input]] = {}
        for place, one in now:
            if one.path not in self._known:
                coming.setdefault(one.path, (place, one))
        following, new = self._following.copy(), []
        for place, one in coming.values():
            if following[place] >> FILE_BITS:
                raise CepError(
                    f"--input: input {place + 1} has had {1 << FILE_BITS:,} files, more cannot be told apart",
                    hint="start anew with other folders, and with larger files",
                    code="input",
                )
            new.append(ListedFile((place << FILE_BITS) + following[place], one))
            following[place] += 1
        self._add(sorted(new, key=lambda one: (os.path.basename(one.path), one.number)))
        return len(self)

    def _add(self, new: Sequence[ListedFile]) -> None:
        if not new:
            return
        with self._path.open("ab") as file:
            file.truncate(self._begins[-1])  # a torn line
            chain = self._chain.copy()
            file.write(b"".join(chain.add(one.line().encode("utf-8")) for one in new))
            sync(file)
        self._read()

    def _read(self) -> None:
        """What has been added since it was last read. CepError: it is damaged."""
        try:
            if self._path.stat().st_size <= self._begins[-1]:
                return
        except FileNotFoundError:
            return
        with self._path.open("rb") as file:
            file.seek(self._begins[-1])
            for line in file:
                if not line.endswith(b"\n"):
                    return
                try:
                    one = self._some(self._chain.read(line))
                except Broken:
                    raise damaged(self._path, what=f"is damaged in line {len(self._begins)}") from None
                self._known.add(one.path)
                place, number = one.number >> FILE_BITS, one.number & ((1 << FILE_BITS) - 1)
                self._following[place] = max(self._following[place], number + 1)
                self._begins.append(self._begins[-1] + len(line))

    def _some(self, line: bytes) -> ListedFile:
        try:
            return ListedFile.of(line)
        except (ValueError, TypeError, KeyError):
            raise damaged(self._path) from None
