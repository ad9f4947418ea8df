"""The progress display of a run on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from cep.core.compilation import compilation
from cep.core.literals import write_time
from cep.runtime.run_stats import RunStats, count

SIZES = ("B", "kB", "MB", "GB", "TB")
OUR_DAYS = (315_532_800_000_000, 4_102_444_800_000_000)  # 1980 to 2100


@contextmanager
def progress_display(stats: RunStats, quiet: bool = False) -> Iterator[None]:
    """Show the statistics on standard error inside a `with` block, if standard error is a terminal. At the end of the
    block, remove them from the terminal."""
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.spinner import Spinner
    from rich.table import Table
    from rich.text import Text

    spinner = Spinner("dots")

    def lines() -> Group:
        first = Table.grid(padding=(0, 1))
        if not stats.batches:  # the speed is not known yet
            first.add_row(spinner, Text(compilation.state or f"{stats.records:,} records{_tasks(stats)}", style="bold"))
            return Group(first)
        left = spinner if stats.done is None else ProgressBar(total=1.0, completed=stats.done, width=16)
        rate = stats.records / max(stats.seconds, 1e-3)
        reached = "" if stats.watermark is None else f", at {readable_time(stats.watermark)}"
        first.add_row(left, Text(f"{stats.records:,} records, {rate:,.0f}/s{reached}{_tasks(stats)}", style="bold"))
        dead = count(stats.dead.total(), "dead letter")
        return Group(first, Text(f"{stats.derived.total():,} derived, {dead}, {_state(stats)}"))

    with Live(get_renderable=lines, console=Console(stderr=True), transient=True, refresh_per_second=8):
        yield


def _tasks(stats: RunStats) -> str:
    return "" if stats.tasks is None else f", task {stats.tasks[0]:,} of {stats.tasks[1]:,}"


def _state(stats: RunStats) -> str:
    size, unit = float(stats.state_bytes), 0
    while size >= 1000 and unit < len(SIZES) - 1:
        size, unit = size / 1000, unit + 1
    return f"{count(stats.state_rows, 'row')} of state, {size:.0f} {SIZES[unit]}"


def readable_time(ticks: int) -> str:
    """Format a time for people: in ISO 8601 to the second, or outside the years 1980 to 2100 as a number of seconds."""
    second = ticks - ticks % 1_000_000
    return write_time(second) if OUR_DAYS[0] <= ticks < OUR_DAYS[1] else f"{ticks / 1_000_000:g} s"
