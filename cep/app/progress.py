"""What a run has done so far, shown on a terminal while it lasts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cep.core.literals import write_time
from cep.operators.goals.arrival import take
from cep.runtime.run_stats import RunStats, count

SIZES = ("B", "kB", "MB", "GB", "TB")
OUR_DAYS = (315_532_800_000_000, 4_102_444_800_000_000)  # 1980 to 2100


def compiled() -> bool:
    """Whether there are kernels that an earlier run has compiled."""
    return any(Path(take.stats.cache_path or ".").glob("*.nbi"))


@contextmanager
def shown(tally: RunStats, quiet: bool = False) -> Iterator[None]:
    """Shows the tally on standard error while the block runs, if that is a terminal; leaves nothing behind."""
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
        if not tally.batches:  # the kernels may still be compiled: how fast it will be is not known
            first.add_row(spinner, Text(f"{tally.records:,} records", style="bold"))
            return Group(first)
        left = spinner if tally.done is None else ProgressBar(total=1.0, completed=tally.done, width=16)
        rate = tally.records / max(tally.seconds, 1e-3)
        at = "" if tally.watermark is None else f", at {moment(tally.watermark)}"
        first.add_row(left, Text(f"{tally.records:,} records, {rate:,.0f}/s{at}", style="bold"))
        dead = count(tally.dead.total(), "dead letter")
        return Group(first, Text(f"{tally.derived.total():,} derived, {dead}, {_state(tally)}"))

    with Live(get_renderable=lines, console=Console(stderr=True), transient=True, refresh_per_second=8):
        yield


def _state(tally: RunStats) -> str:
    size, unit = float(tally.state_bytes), 0
    while size >= 1000 and unit < len(SIZES) - 1:
        size, unit = size / 1000, unit + 1
    return f"{count(tally.state_rows, 'row')} of state, {size:.0f} {SIZES[unit]}"


def moment(ticks: int) -> str:
    """A time as people read it: ISO 8601 to the second, or seconds where it is no time of our days."""
    second = ticks - ticks % 1_000_000
    return write_time(second) if OUR_DAYS[0] <= ticks < OUR_DAYS[1] else f"{ticks / 1_000_000:g} s"
