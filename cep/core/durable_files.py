"""Files, and their names, that outlive the end of the machine."""

from __future__ import annotations

import os
from pathlib import Path

from cep.core.private_files import private_opener


def write_whole(path: Path, content: bytes) -> None:
    """Write a private file. The file gets its name only when its content is complete and on disk.

    It replaces an older file with that name. Call `sync_names` if the name has to be on disk, too. Raises OSError if
    the file cannot be written.
    """
    part = path.with_suffix(".part")
    with open(part, "wb", opener=private_opener) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def sync_names(folder: Path) -> None:
    """Return when the names of the files in a folder are on disk."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
