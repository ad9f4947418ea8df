"""CPU time of repeated runs, and the peak memory of the process."""

from __future__ import annotations

import cProfile
import gc
import pstats
import statistics
import sys
from pathlib import Path
from time import process_time

ENOUGH, LEAST, MOST = 1.0, 1, 25
"""No run begins after ENOUGH seconds, unless there were fewer than LEAST runs. There are at most MOST runs."""


class Watch:
    """A stopwatch that adds up the CPU time, user and system, of `with watch:` blocks, one run each.

    With a profiler there is only one run.
    """

    def __init__(self, profile: bool = False) -> None:
        self.seconds: list[float] = []
        self._same_run = False
        self._started = 0.0
        self._profiler = cProfile.Profile() if profile else None
        gc.collect()
        gc.freeze()  # the collector need not search the input during a run
        forget_peak()

    def wants_more(self) -> bool:
        """Return True if another run would improve the result."""
        if self._profiler:
            return not self.seconds
        return len(self.seconds) < LEAST or (sum(self.seconds) < ENOUGH and len(self.seconds) < MOST)

    def more(self) -> Watch:
        """Count the next block as a part of the last run."""
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
        """The median CPU seconds of a run."""
        return statistics.median(self.seconds)

    def report(self) -> None:
        """Print where a profiled run spent its time."""
        if self._profiler:
            pstats.Stats(self._profiler, stream=sys.stdout).sort_stats("tottime").print_stats(40)


def forget_peak() -> None:
    """Reset the peak memory to the current one, if the system supports this (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_memory() -> int:
    """Return the peak memory of the process in MB."""
    try:
        status = Path("/proc/self/status").read_text()
        return round(int(status.split("VmHWM:")[1].split()[0]) / 1000)
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in bytes on systems without /proc
        return round(peak / 1_000_000)
