"""Files and folders that their owner alone may read: 0600 and 0700, whatever the umask."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path


def private_folder(folder: Path) -> None:
    """Make a folder, with those above it, unless it exists. OSError: it cannot be made."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def private_opener(path: str, flags: int) -> int:
    """An opener for `open`."""
    return os.open(path, flags, 0o600)


def private_file(path: Path | str) -> None:
    """Make an empty file for others to fill, unless it exists. OSError: it cannot be made."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))


def make_private(folder: Path) -> None:
    """Take from others what they may do in a folder and with all in it; what belongs to another user stays as it is."""
    for path in (folder, *folder.rglob("*")):
        with suppress(OSError):  # it is not ours, or has gone
            mode = stat.S_IMODE(path.lstat().st_mode)
            if mode & 0o077 and not path.is_symlink():
                path.chmod(mode & 0o700)
