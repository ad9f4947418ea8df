"""The folder in which semcep keeps what it would make again: compiled kernels, closures, Java's classes."""

from __future__ import annotations

import os
from pathlib import Path

SETTING = "SEMCEP_CACHE_DIR"


def asked_cache() -> Path | None:
    """The folder that the environment names; None: it names none."""
    setting = os.environ.get(SETTING)
    return Path(setting) if setting else None


def own_cache() -> Path:
    """`semcep` in the user's cache directory. RuntimeError: there is no home."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "semcep"
