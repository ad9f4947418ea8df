"""Monitoring of a run: its statistics are sent to the terminal, to a log and to Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from time import perf_counter

from cep.app.meter import Chart, Meter
from cep.app.progress import progress_display, readable_time
from cep.core.logs import Log, objects
from cep.runtime.buckets import KeyShares, merged, slowdown
from cep.runtime.report import Report
from cep.runtime.run_stats import RunStats, revised_numbers

OFTEN = 10.0
"""The number of seconds between two log entries of progress, for a run in one process."""
MANY, SLOW, MOST = 10_000, 1.5, 100
"""Limits for warnings about hot keys.

A key is reported if a batch has at least MANY rows of the event type, and the step takes SLOW times as long as it would
if all keys were equally frequent. At most MOST keys are reported.
"""
_TOLD = 3


class Watch:
    """The statistics of a run, which are shown while it lasts.

    - `pause`: the seconds between two log entries of progress. 0 means one entry per batch.
    - `partitions`: the number of partitions to which keys are distributed.
    """

    def __init__(
        self, charts: Sequence[Chart], stats: RunStats, log: Log, pause: float = OFTEN, partitions: int = 1
    ) -> None:
        self.meter = Meter(charts)
        self.stats = stats
        self.log = log
        self._pause, self._partitions = pause, partitions
        self._reported = self._worked = perf_counter()
        self._before = 0
        self._late: Counter[str] = Counter()
        self._dead: Counter[str] = Counter()
        self._hot: set[tuple[str, str]] = set()

    @contextmanager
    def watching(self, port: str | None, quiet: bool, **start: object) -> Iterator[None]:
        """Show the statistics inside a `with` block.

        - `port`: the port for Prometheus, or None.
        - `quiet`: True to show nothing on the terminal.
        - `start`: the fields of the first log entry.
        """
        with ExitStack() as stack:
            if port is not None:
                from cep.app.metrics import serving

                where = stack.enter_context(serving(self.meter, port))
                self.log("metrics", f"metrics: {where}", url=where)
            self.log("start", None, **start)
            stack.enter_context(progress_display(self.stats, quiet or self.log is objects))
            yield

    def batch(self, reports: Sequence[Report], seconds: float, **more: object) -> None:
        """Add the reports of a batch. `seconds`: the time that it took. `more`: further fields of the log entry."""
        self.stats.tasks = None
        self.meter.take(reports, seconds)
        meter = self.meter
        for file in (file for report in reports for file in report.unread):
            self.log("unread", f"not read: {file}", "warning")
        if meter.dead != self._dead:
            late, dead = meter.late - self._late, meter.dead - self._dead
            self.log("dead_letters", None, "warning", reasons=dict(dead), late=dict(late))
            self._late, self._dead = meter.late.copy(), meter.dead.copy()
        self._warn_of_hot_keys(reports)
        now = perf_counter()
        if now - self._reported < self._pause:
            return
        rows, size = meter.state
        lag = None if meter.latest is None or meter.watermark is None else max(0, meter.latest - meter.watermark)
        self.log(
            "progress",
            None,
            batches=meter.batches,
            records=meter.records,
            records_a_second=round((meter.records - self._before) / max(now - self._reported, 1e-3)),
            derived=dict(meter.derived),
            dead=meter.dead.total(),
            late=meter.late.total(),
            watermark=None if meter.watermark is None else readable_time(meter.watermark),
            lag_seconds=None if lag is None else lag / 1e6,
            state_rows=rows,
            state_bytes=size,
            batch_seconds=round(seconds, 3),
            **({"hot_keys": hot} if (hot := _hottest(meter.keys)) else {}),
            **({} if meter.revision is None else {"revision": revised_numbers(meter.revision)}),
            **more,
        )
        self._reported, self._before = now, meter.records

    def working(self, done: int, tasks: int) -> None:
        """Show how many tasks of the current batch are finished, unless the batch has only one task."""
        self.stats.tasks = (done, tasks) if tasks > 1 else None
        now = perf_counter()
        if self.stats.tasks is not None and now - max(self._reported, self._worked) >= OFTEN:
            self._worked = now
            self.log("working", None, batches=self.meter.batches, tasks=tasks, done=done)

    def _warn_of_hot_keys(self, reports: Sequence[Report]) -> None:
        """Warn once of each key that makes a large batch much slower than an even distribution of keys would."""
        for hot in merged(share for report in reports for share in report.keys):
            if hot.rows < MANY or self._partitions < 2:
                continue
            for key, share in hot.shares().items():
                times = slowdown(share, self._partitions)
                if times >= SLOW and (hot.event, key) not in self._hot and len(self._hot) < MOST:
                    self._hot.add((hot.event, key))
                    text = (
                        f"hot key: {key} has {share:.0%} of the rows of `{hot.event}`, and one of {self._partitions} "
                    )
                    text += f"partitions takes them: a step is up to {times:.1f} times as long as with even keys"
                    self.log("hot_key", text, "warning", of=hot.event, key=key, share=round(share, 4))

    def show(self) -> None:
        """Copy the meter's sums to the display. Call this if nothing else updates the display."""
        stats, meter = self.stats, self.meter
        stats.records, stats.dead, stats.derived = meter.records, meter.dead, meter.derived
        stats.batches, stats.watermark = meter.batches, meter.watermark
        stats.state_rows, stats.state_bytes = meter.state


def _hottest(keys: Sequence[KeyShares]) -> dict[str, dict[str, float]]:
    hottest: dict[str, dict[str, float]] = {}
    for shares in keys:
        for key, share in list(shares.shares().items())[:_TOLD]:
            hottest.setdefault(shares.event, {})[key] = round(share, 4)
    return hottest
