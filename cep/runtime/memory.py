"""Reuse of freed memory by the process.

The C library obtains large arrays from the system and returns them when they are freed. So each push touches new memory
pages, which costs half the time of a push of 20,000 events.

glibc treats an array as large if it exceeds the largest such array freed so far, up to 32 MiB. It keeps twice this size
at the end of its heap. So this module allocates an array of almost 32 MiB, without touching its pages, and frees it.
With other C libraries, this has no effect.
"""

from __future__ import annotations

import numpy as np

LARGEST = 32 << 20
"""The greatest value that glibc chooses by itself for its threshold of large arrays (DEFAULT_MMAP_THRESHOLD_MAX), in
bytes."""


def keep_freed() -> None:
    """Make the process keep freed memory, except single arrays above 32 MiB and a total above 64 MiB."""
    np.empty(LARGEST - (64 << 10), np.uint8)
