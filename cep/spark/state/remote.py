"""Files of states that are stored elsewhere, and copied to a folder of this worker when they are needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Bring = Callable[[str], None]
"""A function that copies a file to the folder, by name, if it is elsewhere. CepError: it cannot be read."""

_folders: dict[Path, Bring] = {}


def bringing(folder: Path, bring: Bring) -> None:
    """Fetch the files of a folder with this function from now on."""
    _folders.clear()
    _folders[folder] = bring


def present(path: Path) -> Path:
    """Copy a file to its path if it is elsewhere, and return the path. CepError: it cannot be read."""
    if (bring := _folders.get(path.parent)) is not None:
        bring(path.name)
    return path
