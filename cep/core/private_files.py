"""Files and folders that only their owner may read (0600, 0700, whatever the umask), and checks of who may write to a
folder."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path


def private_folder(folder: Path) -> None:
    """Create a folder that only its owner may read, and its parents. Do nothing if it exists.

    Raises OSError if the folder cannot be created.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def private_opener(path: str, flags: int) -> int:
    """Open a file that only its owner may read. This function is an `opener` for `open`."""
    return os.open(path, flags, 0o600)


def private_file(path: Path | str) -> None:
    """Create an empty file that only its owner may read, unless the file exists. The caller fills it later.

    Raises OSError if the file cannot be created.
    """
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))


def others_may_write(folder: Path, trusted: int = 0) -> bool:
    """Return True if others than this user, root and `trusted` may change or replace the contents of a folder.

    `trusted`: the id of another user. A group that has the user's name and no other member counts as the user. Raises
    OSError if the folder cannot be inspected.
    """
    for place in (folder := folder.resolve(), *folder.parents):
        status = place.stat()
        if status.st_uid not in (0, os.geteuid(), trusted):
            return True
        writers = stat.S_IWOTH | (0 if _is_own_group(status.st_gid) else stat.S_IWGRP)
        if status.st_mode & writers and not (place != folder and status.st_mode & stat.S_ISVTX):
            return True
    return False


@cache
def _is_own_group(number: int) -> bool:
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(number)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and user.pw_gid == number and not {*group.gr_mem} - {user.pw_name}


def make_private(folder: Path) -> None:
    """Remove other users' permissions on a folder and its contents. Files that belong to other users stay unchanged."""
    for path in (folder, *folder.rglob("*")):
        with suppress(OSError):  # it belongs to another user, or no longer exists
            mode = stat.S_IMODE(path.lstat().st_mode)
            if mode & 0o077 and not path.is_symlink():
                path.chmod(mode & 0o700)
