"""Temporary folders that are removed when their process ends.

If a process is killed, its folder stays. It is removed by the next process that creates a temporary folder.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

_PREFIX, _LOCK, _FOLDER = "semcep-", "lock", "run"


@contextmanager
def working_folder() -> Iterator[Path]:
    """Create an empty folder for use in a `with` block, and remove it after the block. First remove folders that killed
    processes have left."""
    _remove_left(Path(tempfile.gettempdir()))
    root = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        with (root / f".{_LOCK}").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.rename(lock.name, root / _LOCK)  # so no other process sees it unlocked
            (root / _FOLDER).mkdir()
            yield root / _FOLDER
    finally:
        shutil.rmtree(root, ignore_errors=True)


@cache
def own_folder() -> str:
    """Return a folder that exists until this process ends."""
    folders = ExitStack()
    atexit.register(folders.close)
    return str(folders.enter_context(working_folder()))


def _remove_left(folder: Path) -> None:
    for left in folder.glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError), left.open("r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left.parent, ignore_errors=True)
