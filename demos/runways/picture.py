"""Draw the picture of the demo: the wind at each airport and the runways it permits, while a front passes."""

from __future__ import annotations

from math import cos, radians, sin
from pathlib import Path

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cep.demos.blizzard.picture import HAIR, INK, NAMES, QUIET, save
from cep.demos.moments import clock
from cep.demos.runways.demo import FRONT, HOUR, Found

ALLOWED, USED, ARROW = "#d5e0ea", "#1f5a8c", "#8a97a3"
WIDTH, HEIGHT, DPI = 9.2, 5.9, 174
LEFT, RIGHT, TOP, BOTTOM = 0.115, 0.985, 0.835, 0.085
TALL = 1.9
"""The height of the wind arrows, in rows of runways."""
STRONG = 30.0
"""The wind speed in miles per hour at which an arrow has its full length. Arrows of squalls are longer."""


def draw(path: Path, title: str, subtitle: str, found: Found) -> None:
    """Write the picture to `path`. The time axis is in microseconds UTC."""
    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, facecolor="white")
    figure.text(0.012, 0.972, title, size=15, weight="bold", color=INK, va="top")
    figure.text(0.012, 0.911, subtitle, size=8.2, color=QUIET, va="top", linespacing=1.4)
    airports = sorted(found.usable["airport"].unique())
    height = (TOP - BOTTOM) / len(airports)
    for row, airport in enumerate(airports):
        axes = figure.add_axes((LEFT, TOP - (row + 1) * height, RIGHT - LEFT, height * 0.93))
        _airport(axes, found, airport)
        _times(axes, named=row == len(airports) - 1)
    save(figure, path)


def _airport(axes: Axes, found: Found, airport: str) -> None:
    runways = sorted(found.usable.filter(airport=airport)["runway"].unique())
    axes.set_ylim(len(runways) - 0.4, -0.6 - TALL)
    _winds(axes, found.winds.filter(pl.col("airport") == airport, pl.col("start").is_between(*FRONT, closed="left")))
    for table, colour, wide in ((found.usable, ALLOWED, 0.62), (found.lands, USED, 0.62)):
        for start, runway in table.filter(airport=airport).select("start", "runway").iter_rows():
            if FRONT[0] <= start < FRONT[1]:
                row = runways.index(runway)
                axes.barh(row, HOUR, left=start, height=wide, color=colour, linewidth=0, zorder=2)
    axes.set_yticks(range(len(runways)), runways, size=7.5, color=QUIET)
    axes.tick_params(axis="y", length=0, pad=3)
    axes.text(-0.03, 1 - TALL / 2 / (len(runways) + 0.2 + TALL), NAMES[airport], size=9, weight="bold", color=INK,
              ha="right", va="center", transform=axes.transAxes)  # fmt: skip


def _winds(axes: Axes, winds: pl.DataFrame) -> None:
    """Draw an arrow for each hour, whose length shows the wind speed, or a dot if the wind varies."""
    middle = -0.6 - TALL / 2
    known = winds.filter(pl.col("whence").is_not_null(), pl.col("mph") > 0)
    times = [start + HOUR // 2 for start in known["start"]]
    towards = [radians(whence + 180) for whence in known["whence"]]
    length = [mph / STRONG for mph in known["mph"]]
    axes.quiver(
        times, [middle] * len(times),
        [each * sin(way) for way, each in zip(towards, length, strict=True)],
        [each * cos(way) for way, each in zip(towards, length, strict=True)],
        pivot="mid", units="inches", scale=5.2, width=0.018, headwidth=3.6, headlength=4.0, headaxislength=3.6,
        color=ARROW,
    )  # fmt: skip
    still = [start + HOUR // 2 for start in winds.join(known, on="start", how="anti")["start"]]
    axes.plot(still, [middle] * len(still), ".", color=ARROW, ms=3)
    for start, mph in known.select("start", "mph").iter_rows():
        if mph >= 40:
            axes.annotate(f"{mph:.0f} mph", (start + HOUR // 2, middle), xytext=(0, 11), textcoords="offset points",
                          size=6.5, color=QUIET, ha="center")  # fmt: skip


def _times(axes: Axes, named: bool) -> None:
    axes.set_xlim(*FRONT)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.spines["bottom"].set_visible(True)
    axes.spines["bottom"].set_color(HAIR)
    ticks = range(-(-FRONT[0] // (3 * HOUR)) * 3 * HOUR, FRONT[1] + 1, 3 * HOUR)
    axes.set_xticks(list(ticks), [clock(tick) for tick in ticks] if named else [], size=7.5, color=QUIET)
    axes.tick_params(axis="x", length=3 if named else 0, color=QUIET, pad=2)
    axes.grid(axis="x", color=HAIR, lw=0.5, zorder=0)
    axes.set_axisbelow(True)
