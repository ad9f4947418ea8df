"""Draw the map of the demo: each area with its stations in the order of their warnings, and the affected places."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, radians
from pathlib import Path
from typing import Any

import polars as pl
import shapely
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.path import Path as Outline
from matplotlib.patheffects import Normal, Stroke
from matplotlib.transforms import Bbox
from pyproj import Geod
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

from cep.demos.blizzard.areas import REACH, Area, Place
from cep.demos.blizzard.picture import EDGE, INK, NAMES, QUIET, save
from cep.demos.moments import days, moment

COAST = Path(__file__).with_name("coast.geojson")
SEA, LAND, BORDER = "#d9e6f0", "#f7f5f0", "#a9b3bc"
INSIDE, OUTSIDE, FIELD = "#0b2f5b", "#b7bfc7", "#fbd3b8"
WIDTH, DPI = 9.2, 174
LEFT, RIGHT, GAP = 0.012, 0.988, 0.014
HEAD, FOOT, UNDER = 1.1, 0.66, 0.74  # heights in inches: the header, the attributions, and the text below a map
MARGIN = 5_000  # metres around the largest area
LABELS = 14
"""The greatest number of places with names."""
SIDES = (
    ("left", "center", 1, 0),
    ("right", "center", -1, 0),
    ("center", "bottom", 0, 1),
    ("center", "top", 0, -1),
    ("left", "bottom", 1, 1),
    ("right", "bottom", -1, 1),
    ("left", "top", 1, -1),
    ("right", "top", -1, -1),
)
"""The positions of a name beside its point: the alignment of the text, and the direction from the point."""
HALO = [Stroke(linewidth=1.6, foreground="white", alpha=0.75), Normal()]
CENSUS = "Shores and state lines: U.S. Census Bureau, cartographic boundary files 2016"
EARTH = Geod(ellps="WGS84")


@dataclass(frozen=True, slots=True)
class Scene:
    """The contents of the map: the areas, the stations {code: (lat, long)}, all places (iri, code, lat, long,
    population), and the attributions of the sources."""

    areas: Sequence[Area]
    stations: dict[str, tuple[float, float]]
    places: pl.DataFrame
    rights: Sequence[str]


def draw(path: Path, title: str, subtitle: str, scene: Scene) -> None:
    """Write the map to `path`. There must be at least one area."""
    fields = [_field([scene.stations[one.station] for one in area.joined]) for area in scene.areas]
    west, south, east, north = shapely.union_all(fields).bounds
    scale = cos(radians((south + north) / 2))  # the length of a degree of longitude in degrees of latitude
    more = MARGIN / 111_200
    box = (west - more / scale, south - more, east + more / scale, north + more)
    count = len(scene.areas)
    width = (RIGHT - LEFT - GAP * (count - 1)) / count
    high = width * WIDTH * (box[3] - box[1]) / (box[2] - box[0]) / scale
    height = HEAD + high + UNDER + FOOT
    figure = Figure(figsize=(WIDTH, height), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)  # needed to measure texts; otherwise each measurement would create a canvas
    figure.text(LEFT, 1 - 0.13 / height, title, size=15, weight="bold", color=INK, va="top")
    figure.text(LEFT, 1 - 0.44 / height, subtitle, size=8.8, color=QUIET, va="top", linespacing=1.4)
    for number, (area, field) in enumerate(zip(scene.areas, fields, strict=True)):
        left = LEFT + number * (width + GAP)
        axes = figure.add_axes((left, (FOOT + UNDER) / height, width, high / height))
        axes.set_xlim(box[0], box[2])
        axes.set_ylim(box[1], box[3])
        _land(axes, box, field)
        figure.text(
            left, (FOOT + UNDER + high + 0.06) / height, days(area.start, area.end), size=11, weight="bold", color=EDGE
        )
        _points(axes, area, scene, scene.places.filter(_within(box)))
        _names(figure, axes, area, scene)
        _told(figure, area, left, (FOOT + UNDER - 0.07) / height, 0.165 / height)
        if number == 0:
            _scale(axes, box, scale)
    _legend(figure, height)
    figure.text(
        LEFT, 0.06 / height, "\n".join((*scene.rights, CENSUS)), size=5.4, color=QUIET, va="bottom", linespacing=1.35
    )
    save(figure, path)


def _field(stations: Sequence[tuple[float, float]]) -> BaseGeometry:
    circles = []
    for lat, long in stations:
        ways = [360 * step / 180 for step in range(180)]
        longs, lats, _ = EARTH.fwd([long] * len(ways), [lat] * len(ways), ways, [REACH] * len(ways))
        circles.append(shapely.Polygon(list(zip(longs, lats, strict=True))))
    return shapely.union_all(circles)


def _land(axes: Axes, box: tuple[float, float, float, float], field: BaseGeometry) -> None:
    """Draw sea, land and state lines. Colour the land that is within reach of a station."""
    axes.set_facecolor(SEA)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set(color=BORDER, lw=0.7)
    for state in json.loads(COAST.read_text(encoding="utf-8"))["features"]:
        clipped = shapely.clip_by_rect(shape(state["geometry"]), *box)
        _shape(axes, clipped, facecolor=LAND, lw=0, zorder=1)
        _shape(axes, clipped.intersection(field), facecolor=FIELD, lw=0, zorder=2)
        _shape(axes, clipped, facecolor="none", edgecolor=BORDER, lw=0.6, zorder=2.5)
    _shape(axes, field, facecolor="none", edgecolor=EDGE, lw=1.1, zorder=3)


def _shape(axes: Axes, geometry: BaseGeometry, **style: Any) -> None:
    outlines = []
    for polygon in getattr(geometry, "geoms", [geometry]):
        if isinstance(polygon, shapely.Polygon) and not polygon.is_empty:
            rings = [Outline(list(ring.coords), closed=True) for ring in (polygon.exterior, *polygon.interiors)]
            outlines.append(Outline.make_compound_path(*rings))
    axes.add_collection(PathCollection(outlines, **style), autolim=False)


def _within(box: tuple[float, float, float, float]) -> pl.Expr:
    return pl.col("long").is_between(box[0], box[2]) & pl.col("lat").is_between(box[1], box[3])


def _points(axes: Axes, area: Area, scene: Scene, places: pl.DataFrame) -> None:
    """Draw all places, the affected ones in colour. Towns are discs sized by population, airports are triangles."""
    affected = pl.col("iri").is_in([place.iri for place in area.places])
    populated = pl.col("code").str.starts_with("P")
    for inside, which in ((False, ~affected), (True, affected)):
        for town, mark in ((True, "o"), (False, "^")):
            shown = places.filter(which, populated == town)
            axes.scatter(
                shown["long"],
                shown["lat"],
                s=(shown["population"].fill_null(0) ** 0.5 / 55).clip(2.0) if town else 11,
                marker=mark,
                color=INSIDE if inside else OUTSIDE,
                alpha=0.7 if inside and town else 0.9,
                lw=0,
                zorder=4 + inside,
            )
    order = {one.station: number for number, one in enumerate(area.joined, 1)}
    for station, (lat, long) in sorted(scene.stations.items()):
        warned = station in order
        axes.scatter(
            [long],
            [lat],
            s=92,
            color=EDGE if warned else "white",
            edgecolor="white" if warned else QUIET,
            lw=1,
            zorder=8,
        )
        if warned:
            axes.text(
                long,
                lat,
                str(order[station]),
                size=7.5,
                weight="bold",
                color="white",
                ha="center",
                va="center_baseline",
                zorder=9,
            )


def _names(figure: Figure, axes: Axes, area: Area, scene: Scene) -> None:
    """Draw the names of the stations, each on the side away from the other stations. Then draw the names of the most
    populous places, where there is room."""
    frame = axes.get_window_extent()
    taken = [_around(axes, at, 13) for at in scene.stations.values()]
    middle = sum(long for _, long in scene.stations.values()) / len(scene.stations)
    for station, (lat, long) in sorted(scene.stations.items()):
        side = SIDES[0] if long >= middle else SIDES[1]
        warned = any(one.station == station for one in area.joined)
        words, colour = NAMES.get(station, station), EDGE if warned else QUIET
        _name(figure, axes, taken, frame, words, (lat, long), 15, [side], size=7.6, weight="bold", color=colour)
    taken += [_around(axes, (place.lat, place.long), 3) for place in area.places if _large(place)]
    named = 0
    for place in area.places:
        if named == LABELS or not place.populated:
            break
        large = _large(place)
        style: dict[str, Any] = {
            "size": 7.2 if large else 6.4,
            "weight": "bold" if large else "normal",
            "color": INSIDE,
        }
        named += _name(
            figure, axes, taken, frame, place.name, (place.lat, place.long), 7 if large else 5, SIDES, **style
        )


def _large(place: Place) -> bool:
    return (place.population or 0) >= 1_000_000


def _around(axes: Axes, at: tuple[float, float], pixels: float) -> Bbox:
    x, y = axes.transData.transform((at[1], at[0]))
    return Bbox.from_extents(x - pixels, y - pixels, x + pixels, y + pixels)


def _name(
    figure: Figure,
    axes: Axes,
    taken: list[Bbox],
    frame: Bbox,
    words: str,
    at: tuple[float, float],
    away: float,
    sides: Sequence[tuple[str, str, int, int]],
    **style: Any,
) -> bool:
    """Write a name beside a point (lat, long), on the first of `sides` that has room. Return False if no side has
    room."""
    x, y = axes.transData.transform((at[1], at[0]))
    for across, along, right, up in sides:
        across_page, up_page = figure.transFigure.inverted().transform((x + right * away, y + up * away))
        text = figure.text(across_page, up_page, words, ha=across, va=along, path_effects=HALO, **style)
        box = text.get_window_extent().padded(0.5)
        inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
        if inside and not any(box.overlaps(other) for other in taken):
            taken.append(box)
            return True
        text.remove()
    return False


def _told(figure: Figure, area: Area, left: float, top: float, line: float) -> None:
    """Write below a map which stations joined the area and when, and the number of places."""
    for number, one in enumerate(area.joined, 1):
        name = NAMES.get(one.station, one.station)
        words = f"{number}  {name} " + ("opens it" if number == 1 else "joins") + f", {moment(one.time)}"
        figure.text(left, top - (number - 1) * line, words, size=7.6, color=INK, va="top")
    towns = sum(place.populated for place in area.places)
    words = f"{towns} towns and quarters, {len(area.places) - towns} airports"
    figure.text(left, top - 3 * line, words, size=7.6, color=INSIDE, va="top", weight="bold")


def _scale(axes: Axes, box: tuple[float, float, float, float], scale: float) -> None:
    long = 20_000 / 111_320 / scale
    x, y = box[0] + 0.04 / scale, box[1] + 0.04
    axes.plot([x, x + long], [y, y], color=INK, lw=1.4, solid_capstyle="butt", zorder=7)
    axes.text(x + long / 2, y + 0.012, "20 km", size=6.4, color=INK, ha="center", va="bottom", zorder=7)


def _legend(figure: Figure, height: float) -> None:
    marks = (
        ("o", 8, EDGE, EDGE, "warned station, in order"),
        ("o", 7, "white", QUIET, "no warning"),
        ("s", 8, FIELD, FIELD, f"within {REACH // 1000} km of a warned station"),
        ("o", 5, INSIDE, INSIDE, "town affected"),
        ("^", 5, INSIDE, INSIDE, "airport affected"),
        ("o", 5, OUTSIDE, OUTSIDE, "not affected"),
    )
    handles = [
        Line2D([], [], ls="", marker=marker, ms=size, mfc=inside, mec=edge, label=words)
        for marker, size, inside, edge, words in marks
    ]
    figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(LEFT - 0.006, 0.4 / height),
        ncols=len(handles),
        frameon=False,
        fontsize=7.4,
        handletextpad=0.2,
        columnspacing=1.3,
        borderaxespad=0,
    )
