"""State files that are stored elsewhere. They are copied to a folder of this worker when they are needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Bring = Callable[[str], None]
"""A function that copies a file to the folder if it is elsewhere. Its argument is the name of the file.

It raises CepError if the file cannot be read.
"""

_folders: dict[Path, Bring] = {}


def bringing(folder: Path, bring: Bring) -> None:
    """Use `bring` from now on to get the files of a folder."""
    _folders.clear()
    _folders[folder] = bring


def present(path: Path) -> Path:
    """Make sure that a file is at its path, and return the path. Raises CepError if the file cannot be read."""
    if (bring := _folders.get(path.parent)) is not None:
        bring(path.name)
    return path
