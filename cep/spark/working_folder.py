"""The folder in which a run works whose checkpoint is elsewhere: it goes with the run, or, where that is killed, with
the next one."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX, _LOCK = "semcep-run-", "lock"


@contextmanager
def working_folder() -> Iterator[Path]:
    """An empty folder while the block runs. Those that killed runs of this user have left are removed."""
    _remove_left(Path(tempfile.gettempdir()))
    root = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        with (root / f".{_LOCK}").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.rename(lock.name, root / _LOCK)  # nobody else sees it without its lock
            (root / "run").mkdir()
            yield root / "run"
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _remove_left(folder: Path) -> None:
    for left in folder.glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError), left.open("r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left.parent, ignore_errors=True)
