"""An SVG picture of a grid's points: a figure against the load, with the Pareto front and the chosen point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, floor, log10

from cep.backtest.grid import HIGHER, front
from cep.backtest.report import TITLES, point_text
from cep.backtest.search import BacktestResult
from cep.runtime.run_stats import count

WIDTH, HEIGHT = 720, 440
LEFT, RIGHT, TOP, BOTTOM = 72, 24, 62, 56
Places = dict[int, tuple[float, float]]
"""The load and the figure of each point, by the number of the point."""
TICKS = 6
"""The approximate number of labels on an axis."""
ROOM = 1.6
"""The largest load shown, as a multiple of the largest load on the Pareto front. Points beyond it are omitted."""
MANY = 200
"""The number of points at one place from which the size of the place's dot no longer grows."""
GREY, DARK, BLUE, RED = "#9aa0a6", "#5f6368", "#1a5fb4", "#c01c28"


def svg(result: BacktestResult) -> str:
    """Return the picture of a grid as SVG.

    It plots the figure by which the best point is chosen against the load. Without such a figure, it plots the recall.
    """
    figure = result.figure if result.figure in HIGHER[:2] else "recall"
    judged = result.judged
    places = {
        number: (point_figures.load, value)
        for number, point_figures in enumerate(judged)
        if point_figures.load is not None and (value := getattr(point_figures, figure)) is not None
    }
    best = [number for number in front(judged, figure) if number in places]
    chosen = () if result.chosen is None else (result.chosen,)
    reach = ROOM * max((places[number][0] for number in (*best, *chosen) if number in places), default=0.0)
    most = min(reach, max((load for load, _ in places.values()), default=0.0)) or 1.0
    left_out = sum(load > most for load, _ in places.values())
    places = {number: (load, value) for number, (load, value) in places.items() if load <= most}
    across = Axis(0.0, most, LEFT, WIDTH - RIGHT)
    up = Axis(0.0, 1.0, HEIGHT - BOTTOM, TOP)
    beyond = f"{count(left_out, 'point')} with more load not shown" if left_out else ""
    return "\n".join(_lines(result, figure, places, best, across, up, beyond)) + "\n"


class Axis:
    """An axis with a linear scale from values to coordinates. It begins and ends at round numbers."""

    def __init__(self, low: float, high: float, first: float, last: float) -> None:
        size = 10.0 ** floor(log10((high - low) / TICKS))
        step = next(size * factor for factor in (1, 2, 5, 10) if (high - low) / (size * factor) <= TICKS)
        self.step, self.low, self.high = step, low, low + step * ceil((high - low) / step - 1e-9)
        self._first, self._last = first, last

    def place(self, value: float) -> float:
        part = (value - self.low) / (self.high - self.low)
        return float(round(self._first + part * (self._last - self._first), 1))

    @property
    def ticks(self) -> list[float]:
        return [self.low + self.step * number for number in range(round((self.high - self.low) / self.step) + 1)]


def _lines(
    result: BacktestResult,
    figure: str,
    places: Places,
    best: Sequence[int],
    across: Axis,
    up: Axis,
    beyond: str,
) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" font-size="13" fill="#222">'
    )
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    part = "" if result.holdout is None else ", before the holdout"
    title = f"{result.detect}: {TITLES[figure]} and load of {len(result.points):,} points{part}"
    yield f'<text x="{LEFT}" y="24" font-size="15">{escape(title)}</text>'
    for value in across.ticks:
        x = across.place(value)
        yield f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{HEIGHT - BOTTOM}" stroke="#e6e6e6"/>'
        yield f'<text x="{x}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{value:g}</text>'
    for value in up.ticks:
        y = up.place(value)
        yield f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="#e6e6e6"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{100 * value:.0f} %</text>'
    yield f'<text x="{LEFT}" y="{HEIGHT - 14}">load, episodes a day</text>'
    yield f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 14}" text-anchor="end" fill="{DARK}">{beyond}</text>'
    middle = (TOP + HEIGHT - BOTTOM) / 2
    yield f'<text x="18" y="{middle}" text-anchor="middle" transform="rotate(-90 18 {middle})">{TITLES[figure]}</text>'
    yield from _dots(result, places, across, up)
    yield from _front(result, best, places, across, up)
    if result.chosen is not None and result.chosen in places:
        yield from _chosen(result, result.chosen, places, across, up)
    yield "</svg>"


def _dots(result: BacktestResult, places: Places, across: Axis, up: Axis) -> Iterator[str]:
    """Yield one dot for each place that has points. If a place has several points, the dot is larger, and its label
    contains their number."""
    dots: dict[tuple[float, float], list[int]] = {}
    for number, (load, value) in places.items():
        dots.setdefault((across.place(load), up.place(value)), []).append(number)
    for (x, y), numbers in dots.items():
        rest = f" and {len(numbers) - 1:,} more" if len(numbers) > 1 else ""
        told = escape(point_text(result, numbers[0]) + rest)
        radius = round(3 * min(len(numbers), MANY) ** 0.25, 1)
        yield f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{GREY}" fill-opacity="0.6"><title>{told}</title></circle>'
        if len(numbers) > 1:
            place = f'x="{x + radius + 1:.1f}" y="{y - radius - 1:.1f}"'
            yield f'<text {place} font-size="10" fill="{DARK}">×{len(numbers):,}</text>'


def _front(result: BacktestResult, best: Sequence[int], places: Places, across: Axis, up: Axis) -> Iterator[str]:
    path = []
    for place, number in enumerate(best):
        x, y = across.place(places[number][0]), up.place(places[number][1])
        path.append(f"M{x} {y}" if not place else f"H{x}V{y}")
    if path:
        yield f'<path d="{"".join(path)}" fill="none" stroke="{BLUE}" stroke-width="1.5"/>'
    for number in best:
        x, y = across.place(places[number][0]), up.place(places[number][1])
        told = escape(point_text(result, number))
        yield f'<circle cx="{x}" cy="{y}" r="4" fill="{BLUE}"><title>{told}</title></circle>'


def _chosen(result: BacktestResult, chosen: int, places: Places, across: Axis, up: Axis) -> Iterator[str]:
    x, y = across.place(places[chosen][0]), up.place(places[chosen][1])
    yield f'<circle cx="{x}" cy="{y}" r="7" fill="none" stroke="{RED}" stroke-width="2.5"/>'
    told = escape(f"chosen: {point_text(result, chosen)}")
    yield f'<circle cx="{LEFT + 6}" cy="40" r="5" fill="none" stroke="{RED}" stroke-width="2"/>'
    yield f'<text x="{LEFT + 18}" y="44" fill="{RED}">{told}</text>'
