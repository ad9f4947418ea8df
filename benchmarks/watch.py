"""CPU time of repeated runs, and the peak of the process's memory."""

from __future__ import annotations

import cProfile
import gc
import pstats
import statistics
import sys
from pathlib import Path
from time import process_time

ENOUGH, LEAST, MOST = 2.0, 3, 25
"""Runs are repeated until they took this many seconds and are this many; they are never more than that many."""


class Watch:
    """Adds up the CPU time, user and system, of `with watch:` blocks, a run each. What is profiled runs once."""

    def __init__(self, profile: bool = False) -> None:
        self.seconds: list[float] = []
        self._same_run = False
        self._started = 0.0
        self._profiler = cProfile.Profile() if profile else None
        gc.collect()
        gc.freeze()  # the input is not the run's to search for garbage
        forget_peak()

    def wants_more(self) -> bool:
        """Whether another run would help."""
        if self._profiler:
            return not self.seconds
        return len(self.seconds) < LEAST or (sum(self.seconds) < ENOUGH and len(self.seconds) < MOST)

    def more(self) -> Watch:
        """The next block belongs to the run of the last."""
        self._same_run = True
        return self

    def __enter__(self) -> None:
        if not self._same_run:
            gc.collect()
        if self._profiler:
            self._profiler.enable()
        self._started = process_time()

    def __exit__(self, *_: object) -> None:
        spent = process_time() - self._started
        if self._profiler:
            self._profiler.disable()
        if self._same_run:
            self.seconds[-1] += spent
        else:
            self.seconds.append(spent)
        self._same_run = False

    @property
    def median(self) -> float:
        """CPU seconds of the middle run."""
        return statistics.median(self.seconds)

    def report(self) -> None:
        """Prints where the time of a profiled run went."""
        if self._profiler:
            pstats.Stats(self._profiler, stream=sys.stdout).sort_stats("tottime").print_stats(40)


def forget_peak() -> None:
    """Lets the peak of memory count from here, where the system can (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_memory() -> int:
    """The peak of the process's memory in MB."""
    try:
        status = Path("/proc/self/status").read_text()
        return round(int(status.split("VmHWM:")[1].split()[0]) / 1000)
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes, where there is no /proc
        return round(peak / 1_000_000)
