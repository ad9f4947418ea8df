"""The charts of `docs/scale.md`: predictions of the cost model and measurements, and the limits of clusters."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log10

from benchmarks.charts import MARGIN, STYLE, WIDTH, Bar, Panel, svg
from benchmarks.scale_model import Costs, Tried
from benchmarks.scale_paper import CORES, EVERY, MACHINES, Paper, short

COLOURS = ("#0969da", "#bf8700", "#1a7f37", "#8250df")
LOWEST, HIGHEST = 5.0, 9.0
"""The ends of the axis for events per second, as powers of ten."""


def charts(costs: Costs, found: Sequence[Tried], run: str) -> dict[str, str]:
    """Return the charts by file name."""
    made = {"scale-limits.svg": limits(costs)}
    if found:
        made["scale-tried.svg"] = tried(costs, found, run)
    return made


def tried(costs: Costs, found: Sequence[Tried], run: str) -> str:
    """Draw a panel for each load, with two bars for each number of workers."""
    panels: dict[str, dict[str, Sequence[Bar]]] = {}
    for one in found:
        shape = one.shape
        title = f"{short(shape.events)} events, {shape.rules} rule{'s' * (shape.rules > 1)}, {short(shape.keys)} keys"
        guess = costs.of_driver(shape) + costs.of_workers(shape)
        every = one.costs.driver + one.costs.workers
        bars = Bar(guess, f"{guess:.2f} ({guess / every - 1:+.0%})", True), Bar(every, f"{every:.2f}", False)
        panels.setdefault(title, {})[f"{one.workers} worker{'s' * (one.workers > 1)}"] = bars
    title = "Seconds of a core that a micro-batch takes, driver and workers together"
    return svg(title, run, [Panel(*each) for each in panels.items()], "by the model", "measured")


def limits(costs: Costs) -> str:
    """Draw a panel for each interval between micro-batches: the events per second that limits allow, by machines."""
    top, bottom, wide = 74, 360, (WIDTH - MARGIN - 70) / len(EVERY)
    height = bottom + 130
    title = "Events a second, by what limits them"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">',
        f"<style>{STYLE}\n.curve {{ fill: none; stroke-width: 2 }}</style>",
        f'<rect class="back" width="{WIDTH}" height="{height}" rx="8"/>',
        f'<text class="title" x="{MARGIN}" y="28">{escape(title)}</text>',
    ]
    for panel, every in enumerate(EVERY):
        left = 70 + panel * wide
        right = left + wide - 40

        def across(machines: int, left: float = left, right: float = right) -> float:
            return left + (right - left) * log10(machines) / log10(MACHINES[-1])

        def up(rate: float) -> float:
            inside = min(HIGHEST, max(LOWEST, log10(max(rate, 1.0))))
            return bottom - (bottom - top) * (inside - LOWEST) / (HIGHEST - LOWEST)

        out.append(f'<text x="{left:.1f}" y="{top - 14}">a micro-batch every {every:.0f} s</text>')
        for power in range(int(LOWEST), int(HIGHEST) + 1):
            y = up(10.0**power)
            out.append(f'<line class="line" x1="{left:.1f}" x2="{right:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
            if not panel:
                place = f'x="{left - 8:.1f}" y="{y + 4:.1f}" text-anchor="end"'
                out.append(f'<text class="note" {place}>{short(10.0**power)}</text>')
        for machines in (1, 10, 100, 1000):
            x = across(machines)
            out.append(f'<text class="note" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{machines:,}</text>')
        middle = f'x="{(left + right) / 2:.1f}" y="{bottom + 36}" text-anchor="middle"'
        out.append(f'<text class="note" {middle}>machines of 8 cores</text>')
        names = list(Paper(costs, CORES, every).limits())
        for name, colour in zip(names, COLOURS, strict=True):
            rates = [(machines, Paper(costs, machines * CORES, every).limits()[name]) for machines in MACHINES]
            rates = rates[: next((n + 1 for n, (_, rate) in enumerate(rates) if rate < 1), len(rates))]
            points = " ".join(f"{across(machines):.1f},{up(rate):.1f}" for machines, rate in rates)
            out.append(f'<polyline class="curve" stroke="{colour}" points="{points}"/>')
    for number, (name, colour) in enumerate(zip(names, COLOURS, strict=True)):
        x, y = MARGIN + 54 + 400 * (number % 2), bottom + 66 + 22 * (number // 2)
        out.append(f'<line x1="{x}" x2="{x + 26}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="3"/>')
        out.append(f'<text x="{x + 34}" y="{y}">{escape(name)}</text>')
    note = "A SEQ by key, four events of each key in ten minutes; cores and driver busy for 70% of the time"
    out.append(f'<text class="note" x="{MARGIN}" y="{height - 14}">{escape(note)}</text>')
    return "\n".join([*out, "</svg>", ""])
