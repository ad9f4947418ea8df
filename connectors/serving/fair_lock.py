"""A fair lock. It protects an engine that one thread advances and other threads read."""

from __future__ import annotations

import threading
import time


class FairLock:
    """A lock that passes to a waiting thread before the releasing thread can acquire it again."""

    def __init__(self) -> None:
        self._lock, self._door = threading.Lock(), threading.Lock()

    def acquire(self, timeout: float = -1) -> bool:
        """Acquire the lock. Return False if this takes longer than `timeout` seconds. -1: wait without limit."""
        until = None if timeout < 0 else time.monotonic() + timeout
        if not self._door.acquire(timeout=timeout):
            return False
        try:
            return self._lock.acquire(timeout=-1 if until is None else max(0.0, until - time.monotonic()))
        finally:
            self._door.release()

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *failed: object) -> None:
        self.release()
