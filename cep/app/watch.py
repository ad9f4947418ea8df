"""Who looks at a run while it lasts: its numbers go to the display, to a log, and to whoever asks a port."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from time import perf_counter

from cep.app.meter import Chart, Meter
from cep.app.progress import moment, shown
from cep.core.logs import Log, objects
from cep.runtime.report import Report
from cep.runtime.run_stats import RunStats

OFTEN = 10.0
"""Seconds between two lines of progress of a run in one process."""


class Watch:
    """What a run has done, for those who look. `pause`: seconds between two lines of progress, 0: one a batch."""

    def __init__(self, charts: Sequence[Chart], tally: RunStats, log: Log, pause: float = OFTEN) -> None:
        self.meter = Meter(charts)
        self.tally = tally
        self.log = log
        self._pause = pause
        self._told = perf_counter()
        self._before = 0
        self._late: Counter[str] = Counter()
        self._dead: Counter[str] = Counter()

    @contextmanager
    def looking(self, port: str | None, quiet: bool, **start: object) -> Iterator[None]:
        """All that look, while the block runs. `port`: where metrics are asked for, None: nowhere; `quiet`: nothing is
        displayed; `start`: what the log begins with."""
        with ExitStack() as stack:
            if port is not None:
                from cep.app.metrics import served

                where = stack.enter_context(served(self.meter, port))
                self.log("metrics", f"metrics: {where}", url=where)
            self.log("start", None, **start)
            stack.enter_context(shown(self.tally, quiet or self.log is objects))
            yield

    def batch(self, reports: Sequence[Report], seconds: float, **more: object) -> None:
        """A batch was run and took so long; `more`: what else is to be told of it."""
        self.meter.take(reports, seconds)
        meter = self.meter
        for file in (file for one in reports for file in one.unread):
            self.log("unread", f"not read: {file}", "warning")
        if meter.dead != self._dead:
            late, dead = meter.late - self._late, meter.dead - self._dead
            self.log("dead_letters", None, "warning", reasons=dict(dead), late=dict(late))
            self._late, self._dead = meter.late.copy(), meter.dead.copy()
        now = perf_counter()
        if now - self._told < self._pause:
            return
        rows, size = meter.state
        lag = None if meter.latest is None or meter.watermark is None else max(0, meter.latest - meter.watermark)
        self.log(
            "progress",
            None,
            batches=meter.batches,
            records=meter.records,
            records_a_second=round((meter.records - self._before) / max(now - self._told, 1e-3)),
            derived=dict(meter.derived),
            dead=meter.dead.total(),
            late=meter.late.total(),
            watermark=None if meter.watermark is None else moment(meter.watermark),
            lag_seconds=None if lag is None else lag / 1e6,
            state_rows=rows,
            state_bytes=size,
            batch_seconds=round(seconds, 3),
            **more,
        )
        self._told, self._before = now, meter.records

    def tell(self) -> None:
        """The display shows what the meter has, where nothing else counts."""
        tally, meter = self.tally, self.meter
        tally.records, tally.dead, tally.derived = meter.records, meter.dead, meter.derived
        tally.batches, tally.watermark = meter.batches, meter.watermark
        tally.state_rows, tally.state_bytes = meter.state
