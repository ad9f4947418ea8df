"""The files of a kernel: numba's index and its compiled code, and how long Python has run it over all runs.

Any number of processes read and write them at once, and any of them may end at any moment. So compiled code is in a
file that is named by the hash of what it is for (numba counts: two processes give the same number to different code),
and it is whole before the index names it. A damaged file is none.

How long Python has run a kernel is the length of a file, a byte for each hundredth of a second. Whoever adds to it
appends, and nothing in it can be damaged.
"""

from __future__ import annotations

import glob
import hashlib
import os
from contextlib import suppress
from pickle import PickleError
from typing import Any

from numba.core.caching import IndexDataCacheFile

HUNDREDTH = 0.01
"""The seconds that a byte stands for."""
LONGEST = 2000
"""How many of them are added at once at most: 20 s, more than any kernel takes to compile."""


class KernelFile(IndexDataCacheFile):
    """Numba's index and compiled code of one kernel."""

    def save(self, key: Any, data: Any) -> None:
        """Keep the compiled code for a key. Raises OSError."""
        kept = self._load_index()
        name = self._data_name_of(key)
        if not kept:  # what is there is of other sources
            for old in glob.glob(glob.escape(self._index_path.removesuffix(".nbi")) + ".*.nbc"):
                with suppress(OSError):
                    os.unlink(old)
        self._save_data(name, data)  # type: ignore[no-untyped-call]
        self._save_index({**kept, key: name})  # type: ignore[no-untyped-call]

    def _data_name_of(self, key: Any) -> str:
        digest = hashlib.blake2b(repr((self._source_stamp, key)).encode(), digest_size=8).digest()
        name: str = self._data_name(int.from_bytes(digest))  # type: ignore[no-untyped-call]
        return name

    def load(self, key: Any) -> Any:
        """The compiled code for a key; None: there is none."""
        with suppress(Exception):  # of what a damaged file holds, unpickling raises whatever it likes
            return super().load(key)  # type: ignore[no-untyped-call]
        return None

    def _load_index(self) -> dict[Any, str]:
        with suppress(Exception):
            kept: dict[Any, str] = super()._load_index()  # type: ignore[no-untyped-call]
            return kept
        return {}


class TimeSpent:
    """How many seconds Python has run a kernel, in this and other processes. A folder that cannot be written keeps
    nothing, which is no error."""

    __slots__ = ("_added", "_path", "before", "seconds")

    def __init__(self, path: str | None) -> None:
        """`path`: None, where nothing is kept."""
        self._path, self._added = path, 0
        self.before, self.seconds = 0.0, 0.0
        if path is not None:
            with suppress(OSError):
                self.before = os.stat(path).st_size * HUNDREDTH

    @property
    def total(self) -> float:
        """Of all processes until this one began, and of this one."""
        return self.before + self.seconds

    def add(self, seconds: float) -> None:
        """Python has run the kernel for so long again."""
        self.seconds += seconds
        new = min(int(self.seconds / HUNDREDTH) - self._added, LONGEST)
        if new > 0 and self._path is not None:
            self._added += new
            with suppress(OSError):
                file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o666)
                try:
                    os.write(file, bytes(new))
                finally:
                    os.close(file)

    def clear(self) -> None:
        """The kernel is compiled."""
        if self._path is not None:
            with suppress(OSError):
                os.unlink(self._path)


def is_compiled(kernel: Any) -> bool:
    """Whether an earlier run has compiled the kernel as it is now, for some types."""
    with suppress(AttributeError, EOFError, OSError, PickleError):  # it is not kept, or the index is damaged
        return bool(kernel._cache._cache_file._load_index())  # empty where it is of other sources
    return False


def keep_whole(kernel: Any) -> None:
    """The files of a kernel that is kept are written as said above."""
    numbas = _numbas(kernel)
    if numbas is not None:
        path, name = os.path.split(numbas._index_path)
        whole = KernelFile(path, name.removesuffix(".nbi"), numbas._source_stamp)  # type: ignore[no-untyped-call]
        kernel._cache._cache_file = whole


def time_spent(kernel: Any) -> TimeSpent:
    """That of a kernel, beside its index."""
    numbas = _numbas(kernel)
    return TimeSpent(None if numbas is None else numbas._index_path.removesuffix(".nbi") + ".python")


def _numbas(kernel: Any) -> Any:
    """Numba's own files of a kernel; None where it is not kept."""
    return getattr(kernel._cache, "_cache_file", None)
