"""`python -m benchmarks.curves`: CPU nanoseconds per event, by the number of events, keys and waiting rows.

Each point is measured in its own process, with one thread per library. Neighbouring sizes differ by a factor of ten.
The last column is the greatest factor between the costs of neighbours. More events must not make an event more
expensive, so their factor is about one. For other sizes, only a factor above ten means that the cost is superlinear.
`python -m benchmarks.small --curve` has the curves for rules and types.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.measure import ONE_CORE, measure
from benchmarks.report import ROOT, parser, publish

EVENTS, KEYS = 1_000_000, 1_000
SIZES = tuple(10**power for power in range(8))


@dataclass(frozen=True, slots=True)
class Curve:
    """A row of the table. `point` returns nanoseconds per event for each of the sizes `SIZES[low:high]`."""

    name: str
    low: int
    high: int
    point: Callable[[int], float]

    def row(self, most: int) -> str:
        """Measure sizes up to `most`, and return a row of the table."""
        taken = {size: self.point(size) for size in SIZES[self.low : self.high] if size <= most}
        steps = [later / earlier for earlier, later in pairwise(taken.values())]
        cells = [f"{taken[size]:,.0f}" if size in taken else "" for size in SIZES]
        return f"| {self.name} | {' | '.join(cells)} | {max(steps, default=1.0):.1f} |"


def by_events(workload: str) -> Callable[[int], float]:
    """Return the cost of a workload by the number of events."""
    return lambda events: measure(workload, events, KEYS, "engine").seconds / events * 1e9


def by_keys(workload: str) -> Callable[[int], float]:
    """Return the cost of a workload by the number of keys."""
    return lambda keys: measure(workload, EVENTS, keys, "engine").seconds / EVENTS * 1e9


def by_waiting(rows: int) -> float:
    """Return the cost of a SEQ with an inequality, measured in its own process. `rows`: the waiting rows per key."""
    code = f"from benchmarks.curves import waiting; print(waiting({rows}))"
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, env={**os.environ, **ONE_CORE}, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return float(ran.stdout)


def waiting(rows: int) -> float:
    """Return the least of three costs of a SEQ with an inequality, measured in this process."""
    from benchmarks.waiting_rows import measured

    measured(10, 1, 1_000, "Y > X + {}")  # loads the kernels
    return min(measured(rows, 1, max(200_000, 4 * rows), "Y > X + {}")[0] for _ in range(3))


CURVES = (
    Curve("events: `a SEQ b`, recent, 1,000 keys", 4, 8, by_events("seq2 recent")),
    Curve("events: sum of the last 10 events, 1,000 keys", 4, 8, by_events("sum of 10 events")),
    Curve("keys: `a SEQ b`, recent, a million events", 0, 7, by_keys("seq2 recent")),
    Curve("keys: sum of the last 10 events, a million events", 0, 7, by_keys("sum of 10 events")),
    Curve("waiting rows of one key: SEQ with an inequality", 0, 6, by_waiting),
)


def table(curves: Sequence[Curve], most: int) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"| | {' | '.join(f'{size:,}' for size in SIZES)} | step |"
    yield f"| --- |{' --: |' * (len(SIZES) + 1)}"
    for curve in curves:
        yield curve.row(most)


def main() -> None:
    """Measure the curves, and print their table."""
    options = parser("benchmarks.curves", __doc__)
    options.add_argument("--only", default="", help="curves whose name holds this")
    options.add_argument("--most", type=int, default=SIZES[-1], help="the greatest size")
    asked = options.parse_args()
    lines = table([curve for curve in CURVES if asked.only in curve.name], asked.most)
    publish("curves", "python -m benchmarks.curves", lines, asked.write)


if __name__ == "__main__":
    main()
