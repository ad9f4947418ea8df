"""Draw the picture of the demo: an overview of the year, and each spell of storms hour by hour."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle
from PIL import Image

from cep.demos.blizzard.storms import HOUR, Storm, episodes
from cep.demos.moments import days

NAMES = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}
INK, QUIET, HAIR, BEAM, CALM = "#1b2530", "#64707c", "#e3e7eb", "#eef1f4", "#d3d9df"
STORM, EDGE = "#fdeadd", "#d4501a"
# shades by visibility of the readings that met the conditions: (upper limit in miles, colour, words)
SHADES = ((0.75, "#0b2f5b", "below ¾ mile"), (1.25, "#2f6db0", "¾ to 1 mile"), (2.0, "#8ab8e0", "1¼ to 2 miles"))
WIDTH, HEIGHT, DPI = 9.2, 5.9, 174
LEFT, RIGHT, GAP = 0.095, 0.985, 0.022  # positions of the panels, as fractions of the figure's width
BOTTOM, TOP = 0.145, 0.575
STRONGEST = 38  # the wind in mph at the top of a row
THRESHOLD = 15


@dataclass(frozen=True, slots=True)
class Scene:
    """The contents of the picture: all readings (station, end, wind, visib), the readings that satisfied the rule's
    conditions, and the storms."""

    readings: pl.DataFrame
    met: pl.DataFrame
    storms: list[Storm]

    @property
    def stations(self) -> list[str]:
        """Return the stations in the order of their rows, from the top."""
        return sorted(self.readings["station"].unique())


def draw(path: Path, title: str, subtitle: str, scene: Scene) -> None:
    """Write the picture to `path`. There must be at least one storm. The time axis is in hours UTC since the epoch."""
    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, facecolor="white")
    figure.text(0.012, 0.972, title, size=15, weight="bold", color=INK, va="top")
    figure.text(0.012, 0.911, subtitle, size=8.8, color=QUIET, va="top", linespacing=1.4)
    year = figure.add_axes((LEFT, 0.685, RIGHT - LEFT, 0.125))
    _year(year, scene)
    spells = episodes(scene.storms)
    hours = 9 + max(max(s.end for s in spell) - min(s.start for s in spell) for spell in spells) // HOUR
    width = (RIGHT - LEFT - GAP * (len(spells) - 1)) / len(spells)
    for number, spell in enumerate(spells):
        left = LEFT + number * (width + GAP)
        first = (min(s.start for s in spell) + max(s.end for s in spell)) // 2 // HOUR - hours // 2 - 0.5
        _beam(figure, year, (first, first + hours), (left, left + width))
        figure.text(
            left,
            0.6,
            days(min(s.start for s in spell), max(s.end for s in spell)),
            size=11,
            weight="bold",
            color=EDGE,
            va="bottom",
        )
        _panel(figure, scene, spell, (first, first + hours), (left, width))
    _legend(figure)
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as a small PNG with 96 colours."""
    drawn = BytesIO()
    figure.savefig(drawn, format="png")
    image = Image.open(drawn).convert("RGB").quantize(96, dither=Image.Dither.NONE)
    image.save(path, format="PNG", optimize=True)


def _year(axes: Axes, scene: Scene) -> None:
    """Draw one thin row per station: a grey tick for each reading that satisfied the conditions, and the storms in
    colour."""
    _bare(axes)
    months = [datetime(2013 + month // 12, month % 12 + 1, 1, tzinfo=UTC) for month in range(13)]
    axes.set_xlim(_hour(months[0]), _hour(months[-1]))
    axes.set_ylim(len(scene.stations) - 0.5, -0.5)
    for row, station in enumerate(scene.stations):
        axes.axhline(row, color=HAIR, lw=0.9, zorder=0)
        times = scene.met.filter(pl.col("station") == station)["end"] / HOUR
        axes.plot(times, [row] * len(times), "|", color="#8d99a5", ms=5.5, mew=0.9)
        for storm in (storm for storm in scene.storms if storm.station == station):
            axes.plot([storm.start / HOUR, storm.end / HOUR], [row, row], "|", color=EDGE, ms=10, mew=2.6)
    axes.set_yticks(range(len(scene.stations)), _names(scene), size=8, color=INK)
    axes.set_xticks(
        list(map(_hour, months[:-1])), [f"{month:%b}" for month in months[:-1]], size=8, color=QUIET, ha="left"
    )
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=2)


def _beam(figure: Figure, year: Axes, hours: tuple[float, float], panel: tuple[float, float]) -> None:
    """Draw a pale beam from the hours in the overview of the year to the panel that enlarges them."""
    box, (first, last) = year.get_position(), year.get_xlim()
    start, end = (box.x0 + box.width * (hour - first) / (last - first) for hour in hours)
    corners = [(start, box.y0), (end, box.y0), (panel[1], 0.595), (panel[0], 0.595)]
    figure.add_artist(Polygon(corners, closed=True, transform=figure.transFigure, color=BEAM, lw=0, zorder=-5))


def _panel(
    figure: Figure, scene: Scene, spell: list[Storm], hours: tuple[float, float], place: tuple[float, float]
) -> None:
    """Draw one spell of storms: a row per station, with one bar per hour."""
    height = (TOP - BOTTOM) / len(scene.stations)
    for row, (station, name) in enumerate(zip(scene.stations, _names(scene), strict=True)):
        axes = figure.add_axes((place[0], TOP - (row + 1) * height, place[1], height * 0.9))
        _bare(axes)
        axes.set_xlim(*hours)
        axes.set_ylim(0, STRONGEST)
        for storm in (storm for storm in spell if storm.station == station):
            _band(axes, storm)
        _bars(axes, station, scene, hours)
        axes.axhline(THRESHOLD, color=INK, lw=0.6, ls=(0, (1, 2.5)), zorder=3)
        axes.axhline(0, color=QUIET, lw=0.8, zorder=3)
        if place[0] == LEFT:
            axes.text(hours[0] - 0.6, 5.4, name, size=9, weight="bold", color=INK, ha="right")
            axes.text(hours[0] - 0.6, THRESHOLD, f"{THRESHOLD} mph", size=7, color=QUIET, ha="right", va="center")
        if row == len(scene.stations) - 1:
            _clock(axes, hours)


def _band(axes: Axes, storm: Storm) -> None:
    left, right = storm.start / HOUR - 0.5, storm.end / HOUR + 0.5
    axes.axvspan(left, right, color=STORM, lw=0, zorder=0)
    axes.plot([left, right], [STRONGEST - 0.6] * 2, color=EDGE, lw=2.2, solid_capstyle="butt")
    words = f"{storm.hours:g} h · {storm.wind:.0f} mph"
    axes.text(left + 0.25, STRONGEST - 3, words, size=7.5, weight="bold", color=EDGE, va="top")


def _bars(axes: Axes, station: str, scene: Scene, hours: tuple[float, float]) -> None:
    here = (pl.col("station") == station) & (pl.col("end") / HOUR).is_between(*hours)
    met = set(scene.met.filter(here)["end"])
    for end, wind, visib in scene.readings.filter(here).select("end", "wind", "visib").sort("end").iter_rows():
        colour = next(colour for below, colour, _ in SHADES if visib < below) if end in met else CALM
        axes.bar(end / HOUR, wind, width=0.76, color=colour, lw=0, zorder=2)


def _clock(axes: Axes, hours: tuple[float, float]) -> None:
    times = range(int(hours[0] // 6 + 1) * 6, int(hours[1]) + 1, 6)
    words: list[str] = []
    for time in map(_date, times):
        day = f"\n{time.day} {time:%b}" if time.hour == 0 or not words else ""
        words.append(f"{time:%H:%M}{day}")
    axes.set_xticks(times, words, size=7.5, color=QUIET)
    axes.tick_params(axis="x", length=3, color=QUIET, pad=2)


def _legend(figure: Figure) -> None:
    x, y = LEFT, 0.028
    words = "A bar: the wind of one hour; its colour: the visibility while the conditions were met"
    figure.text(x, y + 0.036, words, size=8, color=QUIET)
    shades = [(colour, words) for _, colour, words in SHADES]
    for colour, words in [(CALM, "conditions not met"), *shades, (STORM, "storm: hours, strongest wind")]:
        figure.add_artist(Rectangle((x, y), 0.014, 0.018, transform=figure.transFigure, color=colour, lw=0))
        text = figure.text(x + 0.019, y + 0.001, words, size=8, color=INK)
        x += 0.019 + text.get_window_extent().width / (WIDTH * DPI) + 0.025


def _bare(axes: Axes) -> None:
    axes.set_facecolor("none")
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xticks([])
    axes.set_yticks([])


def _names(scene: Scene) -> list[str]:
    return [NAMES.get(station, station) for station in scene.stations]


def _hour(time: datetime) -> float:
    return time.timestamp() / 3600


def _date(hour: int) -> datetime:
    return datetime.fromtimestamp(hour * 3600, UTC)
