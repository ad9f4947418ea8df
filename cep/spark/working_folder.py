"""Folders that go with their process, or, where that is killed, with the next one that makes such a folder."""

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
    """An empty folder while the block runs. Those that killed processes of this user have left are removed."""
    _remove_left(Path(tempfile.gettempdir()))
    root = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        with (root / f".{_LOCK}").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.rename(lock.name, root / _LOCK)  # nobody else sees it without its lock
            (root / _FOLDER).mkdir()
            yield root / _FOLDER
    finally:
        shutil.rmtree(root, ignore_errors=True)


@cache
def own_folder() -> str:
    """One for as long as this process lives."""
    folders = ExitStack()
    atexit.register(folders.close)
    return str(folders.enter_context(working_folder()))


def _remove_left(folder: Path) -> None:
    for left in folder.glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError), left.open("r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left.parent, ignore_errors=True)
