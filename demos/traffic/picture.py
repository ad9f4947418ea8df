"""Draw the picture of the demo: the tracks, coloured by what each airplane did, and the intervals of fluents over
time."""

from __future__ import annotations

from math import cos, radians
from pathlib import Path

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cep.demos.blizzard.picture import HAIR, INK, QUIET, save
from cep.demos.moments import clock
from cep.demos.traffic.demo import MINUTE, Found

SHADES = {"climbing": "#2f6db0", "level": "#9aa5b0", "descending": "#e08a4a"}
BESIDE, ROUND = "#8a1f6a", "#1d7a4f"
WIDTH, HEIGHT, DPI = 9.2, 5.9, 174
WEST, EAST, SOUTH, NORTH = 1.6, 3.4, 48.35, 49.4
HALF_HOUR = 30 * MINUTE


def draw(path: Path, title: str, subtitle: str, found: Found) -> None:
    """Write the picture to `path`. The time axis is in microseconds UTC."""
    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, facecolor="white")
    figure.text(0.012, 0.972, title, size=15, weight="bold", color=INK, va="top")
    figure.text(0.012, 0.911, subtitle, size=8.2, color=QUIET, va="top", linespacing=1.4)
    seen = found.phases()
    _map(figure.add_axes((0.012, 0.09, 0.54, 0.72)), found, seen)
    times = (int(seen["time"].to_numpy().min()), int(seen["time"].to_numpy().max()))
    _counts(figure.add_axes((0.615, 0.59, 0.37, 0.2)), seen, times)
    _pairs(figure.add_axes((0.615, 0.245, 0.37, 0.27)), found, times)
    _low(figure.add_axes((0.615, 0.09, 0.37, 0.09)), found, times)
    _legend(figure)
    save(figure, path)


def _map(axes: Axes, found: Found, seen: pl.DataFrame) -> None:
    axes.set_xlim(WEST, EAST)
    axes.set_ylim(SOUTH, NORTH)
    axes.set_aspect(1 / cos(radians((SOUTH + NORTH) / 2)))
    for _, track in seen.sort("flight", "time").group_by("flight", maintain_order=True):
        runs = track.with_row_index("row").group_by(pl.col("kind").rle_id().alias("run"), maintain_order=True)
        for _, first, last, kind in runs.agg(
            pl.first("row"), pl.last("row").alias("last"), pl.first("kind")
        ).iter_rows():
            if kind is not None:
                ways = track[max(0, first - 1) : last + 1]  # start at the previous position
                axes.plot(ways["long"], ways["lat"], color=SHADES[kind], lw=0.55, alpha=0.8, zorder=2)
    for start, end, flight, other in found.of("side_by_side").select("start", "end", "flight", "other").iter_rows():
        for each in (flight, other):
            _stretch(axes, seen, each, start, end, BESIDE)
    for start, end, flight in found.of("low_for_long").select("start", "end", "flight").iter_rows():
        _stretch(axes, seen, flight, start, end, ROUND)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(HAIR)


def _stretch(axes: Axes, seen: pl.DataFrame, flight: str, start: int, end: int, colour: str) -> None:
    """Draw the track of a flight in an interval."""
    own = seen.filter((pl.col("flight") == flight) & pl.col("time").is_between(start, end)).sort("time")
    axes.plot(own["long"], own["lat"], color=colour, lw=1.5, zorder=4)


def _counts(axes: Axes, seen: pl.DataFrame, times: tuple[int, int]) -> None:
    """Draw the number of airplanes in each phase over time, with one step per minute."""
    axes.set_title("airplanes at a time", size=8.5, color=INK, loc="left", pad=4)
    counts = (
        seen.filter(pl.col("kind").is_not_null())
        .group_by(minute=pl.col("time") // MINUTE * MINUTE, kind="kind")
        .agg(number=pl.col("flight").n_unique())
    )
    for kind, colour in SHADES.items():
        own = counts.filter(pl.col("kind") == kind).sort("minute")
        axes.step(own["minute"], own["number"], color=colour, lw=1.2, where="post")
    axes.set_ylim(0, None)
    axes.tick_params(axis="y", length=0, labelsize=7.5, labelcolor=QUIET)
    axes.grid(axis="y", color=HAIR, lw=0.6)
    _clocked(axes, times, named=False)


def _pairs(axes: Axes, found: Found, times: tuple[int, int]) -> None:
    """Draw a bar for each pair of airplanes that descend side by side."""
    axes.set_title("descending side by side for a minute or more", size=8.5, color=INK, loc="left", pad=4)
    pairs = found.of("side_by_side").select("start", "end", "flight", "other").rows()
    for row, (start, end, flight, other) in enumerate(pairs):
        axes.plot([start, end], [row, row], color=BESIDE, lw=3.2, solid_capstyle="butt")
        late = start > (times[0] + times[1]) // 2
        axes.annotate(
            f"{flight}, {other}",
            (start if late else end, row),
            xytext=(-4 if late else 4, 0),
            textcoords="offset points",
            size=5.8,
            color=QUIET,
            va="center",
            ha="right" if late else "left",
        )
    axes.set_ylim(len(pairs) - 0.3, -0.7)
    axes.set_yticks([])
    _clocked(axes, times, named=False)


def _low(axes: Axes, found: Found, times: tuple[int, int]) -> None:
    """Draw the airplanes that were low for a long time, and the times at which they circled."""
    low = found.of("low_for_long").select("start", "end", "flight").rows()
    axes.set_title(
        f"low for over 15 minutes: {', '.join(flight for *_, flight in low)}; dark: circling",
        size=8.5, color=INK, loc="left", pad=4,
    )  # fmt: skip
    for start, end, _ in low:
        axes.plot([start, end], [0, 0], color="#bfe0d0", lw=9, solid_capstyle="butt")
    for start, end in found.of("holding").select("start", "end").iter_rows():
        axes.plot([start, end], [0, 0], color=ROUND, lw=9, solid_capstyle="butt")
    axes.set_ylim(-1, 1)
    axes.set_yticks([])
    _clocked(axes, times, named=True)


def _clocked(axes: Axes, times: tuple[int, int], named: bool) -> None:
    axes.set_facecolor("none")
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.spines["bottom"].set_visible(True)
    axes.spines["bottom"].set_color(QUIET)
    axes.set_xlim(*times)
    ticks = range(-(-times[0] // HALF_HOUR) * HALF_HOUR, times[1] + 1, HALF_HOUR)
    axes.set_xticks(list(ticks), [clock(tick) for tick in ticks] if named else [], size=7.5, color=QUIET)
    axes.tick_params(axis="x", length=3, color=QUIET, pad=2)


def _legend(figure: Figure) -> None:
    words = [*SHADES.items(), ("side by side", BESIDE), ("low for over 15 minutes", ROUND)]
    lines = [Line2D([], [], color=colour, lw=2, label=name) for name, colour in words]
    figure.legend(
        handles=lines, loc="lower left", bbox_to_anchor=(0.005, 0.012), ncols=5, frameon=False, fontsize=8,
        labelcolor=INK, handlelength=1.4, columnspacing=1.4, handletextpad=0.5,
    )  # fmt: skip
