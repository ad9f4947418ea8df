"""The folder for files that semcep can create again: compiled kernels, closures, Java classes."""

from __future__ import annotations

import os
from pathlib import Path

SETTING = "SEMCEP_CACHE_DIR"


def asked_cache() -> Path | None:
    """Return the cache folder from the environment variable SEMCEP_CACHE_DIR, or None if the variable is not set."""
    setting = os.environ.get(SETTING)
    return Path(setting) if setting else None


def own_cache() -> Path:
    """Return the folder `semcep` in the user's cache directory. Raises RuntimeError if there is no home directory."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "semcep"
