"""A folder of this process alone, that goes with it."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache


@cache
def own_folder() -> str:
    """Spark leaves its sockets behind, and what else lies there is of no use to others."""
    folder = tempfile.mkdtemp(prefix="semcep-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
