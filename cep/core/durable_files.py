"""Writing of files so that they, and their names, survive a crash of the machine."""

from __future__ import annotations

import os
from pathlib import Path

from cep.core.private_files import private_opener


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read. The file gets its name only after its content is complete and on disk.

    It replaces an older file of that name. Call `sync_names` afterwards if the name must be on disk, too. Raises
    OSError if the file cannot be written.
    """
    part = path.with_suffix(".part")
    with open(part, "wb", opener=private_opener) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def sync_names(folder: Path) -> None:
    """Write the file names of a folder to disk. Raises OSError if this is not possible."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
