"""Results as tables in Markdown, and as JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import compress

COLUMNS = ("workload", "events", "keys", "engine", "loop", "ratio", "flat", "MB", "B/goal", "to reach", "reached")


@dataclass(frozen=True, slots=True)
class Target:
    """A target as a short text, and True if it was reached."""

    text: str
    reached: bool


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table. Fields that do not apply are None. `value` is in `unit`."""

    workload: str
    value: float
    unit: str = "events/s"
    events: int | None = None
    keys: int | None = None
    loop: float | None = None
    flat: float | None = None
    peak: int | None = None
    state_bytes: int | None = None
    live: int | None = None
    derived: int | None = None
    targets: tuple[Target, ...] = ()

    @property
    def ratio(self) -> float | None:
        """The ratio of the engine's rate to that of the loop."""
        return self.value / self.loop if self.loop else None

    @property
    def missed(self) -> list[str]:
        """The targets that were missed."""
        return [target.text for target in self.targets if not target.reached]

    def cells(self) -> tuple[str, ...]:
        """Return the line as texts, in the order of COLUMNS."""
        per_goal = self.state_bytes / self.live if self.state_bytes and self.live else None
        return (
            self.workload,
            short(self.events),
            short(self.keys),
            f"{short(self.value)} {self.unit}" if self.unit in ("s", "ms") else short(self.value),
            short(self.loop),
            "" if self.ratio is None else f"{self.ratio:.1f}",
            "" if self.flat is None else f"{self.flat:.2f}",
            "" if self.peak is None else str(self.peak),
            "" if per_goal is None else f"{per_goal:.0f}",
            ", ".join(target.text for target in self.targets),
            "" if not self.targets else "no: " + ", ".join(self.missed) if self.missed else "yes",
        )


def short(number: float | None) -> str:
    """Write a number with at most three digits: 2M, 100k, 12.3M, 456."""
    if number is None:
        return ""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def markdown(lines: list[Line]) -> str:
    """Return the table in Markdown, without empty columns.

    Its columns include:

    - `engine`, `loop`: events per second of CPU time on one core, of the engine and of hand-written Python.
    - `flat`: the cost of an event, relative to the workload's cheapest size.
    - `MB`: the peak memory of the engine's process, with its input.
    - `B/goal`: the bytes of state per waiting occurrence.
    """
    align = [":--" if name in ("workload", "to reach", "reached") else "--:" for name in COLUMNS]
    cells = [line.cells() for line in lines]
    used = [any(row[column] for row in cells) for column in range(len(COLUMNS))]
    return "\n".join(f"| {' | '.join(compress(row, used))} |" for row in (COLUMNS, align, *cells))


def rates(lines: list[Line], names: Mapping[str, str]) -> str:
    """Return a table in Markdown with the engine's rate in millions of events per second, and its ratio to the loop's.

    There is a row for each workload in `names`, which maps a workload to its name in the table. A row has two columns
    for the largest run with at most a hundred keys, and two columns for the largest run with more keys.
    """
    rows = [
        "| workload | 100 keys | beside the loop | 100,000 keys | beside the loop |",
        "| --- | --: | --: | --: | --: |",
    ]
    for workload, name in names.items():
        cells = [name]
        for many in (False, True):
            sizes = [line for line in lines if line.workload == workload and ((line.keys or 0) > 100) == many]
            line = max(sizes, key=lambda size: (size.events or 0, size.keys or 0), default=None)
            cells.append("" if line is None else f"{line.value / 1e6:.1f}")
            cells.append("" if line is None or line.ratio is None else f"{line.ratio:.1f}")
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def json_lines(lines: list[Line]) -> str:
    """Return a JSON object per line."""
    return "".join(json.dumps({**asdict(line), "ratio": line.ratio}) + "\n" for line in lines)
