"""Memory that is free again stays with the process for the next push: a fresh page costs more than computing on it.

The C library gets large arrays from the system and gives them back when they are free, so that every push pays for
the same pages again: half its time, where it brings 20,000 events. glibc takes as large only what is above the largest
such array that was freed, up to 32 MiB, and keeps twice as much at the end of its heap. So one array of that size is
taken and freed, untouched: no page of it is ever there. Elsewhere that does nothing.
"""

from __future__ import annotations

import numpy as np

LARGEST = 32 << 20
"""The limit of glibc's own adjustment (DEFAULT_MMAP_THRESHOLD_MAX)."""


def keep_freed() -> None:
    """From now on what is freed is used again, but for single arrays above 32 MiB and what goes beyond 64 MiB."""
    np.empty(LARGEST - (64 << 10), np.uint8)
