"""Files of states that are elsewhere, and come into a folder of this worker when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Bring = Callable[[str], None]
"""Has a file of a name there, if it is elsewhere. CepError: it cannot be read."""

_folders: dict[Path, Bring] = {}


def bringing(folder: Path, bring: Bring) -> None:
    """From now on, fetch the files of a folder with this function."""
    _folders.clear()
    _folders[folder] = bring


def present(path: Path) -> Path:
    """The same path; the file is there now, if it is elsewhere. CepError: it cannot be read."""
    if (bring := _folders.get(path.parent)) is not None:
        bring(path.name)
    return path
