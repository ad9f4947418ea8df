"""Names of files that outlive the end of the machine."""

from __future__ import annotations

import os
from pathlib import Path


def sync_names(folder: Path) -> None:
    """Return when the names of the files in a folder are on disk."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
