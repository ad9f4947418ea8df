"""Where things are: a query for what is near is asked of the things that are there alone.

Oxigraph finds no numbers between two others, so that what is within 20 km of three stations would be looked for among
all that has a place. Here the places are in order of latitude; what may be near is said to the query as `VALUES`. There
may be more of these than there is, never fewer.
"""

from __future__ import annotations

import csv
import io
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyoxigraph as ox

from cep.rules.geodesy import compare
from connectors.rdf.near import Short, degrees, shorts
from connectors.rdf.rare import Few
from connectors.rdf.spans import HERE, counted
from connectors.rdf.timed import STAMPED, Link, Timed
from connectors.rdf.words import XSD

_WGS84, _SCHEMA = "http://www.w3.org/2003/01/geo/wgs84_pos#", "http://schema.org/"
_WAYS = [(f"{_WGS84}lat", f"{_WGS84}long"), (f"{_SCHEMA}latitude", f"{_SCHEMA}longitude")]
_PLACES = 300_000  # triples that are held in order, of each way to say where something is
_TURNS = 720.0  # degrees of longitude, beyond which rounding would matter
_READS = 20  # times that places are read, and read again since they have changed
_POINTS, _NEAR = 2_000, 5_000  # places around which is looked, and what is found there at most

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Places:
    """In order of latitude."""

    points: np.ndarray[Any, np.dtype[np.float64]]
    latitudes: list[float]
    names: list[str]


class Grid:
    """The places of a store. It is read while others write: `changed` says that what was read is of before."""

    def __init__(self, store: ox.Store) -> None:
        self._store = store
        self._places: dict[tuple[str, str], _Places | None] = {}
        self._changes = self._reads = 0

    def changed(self, text: bytes | None = None) -> None:
        """After triples have come, None: any. Where places come again and again, they are no longer held."""
        if text is None or any(f"<{name}>".encode() in text for way in _WAYS for name in way):
            self._changes += 1
            many = [way for way, places in self._places.items() if places is None and text is not None]
            self._places = dict.fromkeys(_WAYS if self._reads > _READS else many)

    def read(self) -> None:
        """So that not every fork has to."""
        for way in _WAYS:
            if way not in self._places:
                self._reads += 1
                changes, places = self._changes, _read(self._store, *way)
                if changes == self._changes:
                    self._places[way] = places

    def among(self, query: Timed, few: Few, ask: Callable[[str], Iterable[Any]]) -> str | None:
        """The query begun with what is near; None: that is not known, or much. `ask` answers a query."""
        for short in shorts(query.filters, query.prefixes):
            sides = [(here, there) for here, there in (short.places, short.places[::-1]) if _linked(query, there)]
            for here, there in sorted(sides, key=lambda side: not _timed(query, side[0])):
                subject, way = _linked(query, there)[0]
                points = self._known(query, here, few) or self._points(query, here, subject, ask)
                names = None if points is None else self._near(way, points, short)
                if names is not None:
                    return query.among(subject, names)
        return None

    def _near(self, way: tuple[str, str], points: Sequence[Point], short: Short) -> Sequence[str] | None:
        self.read()
        places = self._places.get(way)
        if places is None or any(abs(long) > _TURNS for _, long in points):
            return None
        found: dict[str, None] = {}
        for lat, long in points:
            apart = degrees(short.metres)
            band = slice(bisect_left(places.latitudes, lat - apart), bisect_right(places.latitudes, lat + apart))
            within = compare("<=", (lat, long, *places.points[band].T), short.metres * (1 + 1e-9) + 1e-3)
            found.update(dict.fromkeys(places.names[band.start + n] for n in np.flatnonzero(within).tolist()))
            if len(found) > _NEAR:
                return None
        return None if "" in found else sorted(found)

    def _known(self, query: Timed, place: tuple[str, str], few: Few) -> Sequence[Point] | None:
        """Where those are that are few; None: they are not, or have no such place."""
        for subject, (lat, long) in _linked(query, place):
            if len(few.get(subject, range(_POINTS + 1))) <= _POINTS:
                return [
                    point
                    for each in few[subject]
                    for one in self._store.quads_for_pattern(each, ox.NamedNode(lat), None, HERE)
                    for two in self._store.quads_for_pattern(each, ox.NamedNode(long), None, HERE)
                    for point in _point(_value(one.object), _value(two.object))
                ]
        return None

    def _points(
        self, query: Timed, place: tuple[str, str], other: str, ask: Callable[[str], Iterable[Any]]
    ) -> Sequence[Point] | None:
        """Where a place of the query can be."""
        names = [name for name in place if name.startswith("?")]
        if not names:
            return [(float(place[0]), float(place[1]))]
        said, held = _said(query, names[0])
        if len(names) < 2 or other in held or names[1] not in held or "?blank" in query.text:
            return None
        rows = list(ask(f"SELECT DISTINCT {' '.join(names)} {{ {said} }} LIMIT {_POINTS + 1}"))
        if len(rows) > _POINTS:
            return None
        return [point for row in rows for point in _point(_value(row[names[0][1:]]), _value(row[names[1][1:]]))]


def _read(store: ox.Store, lat: str, long: str) -> _Places | None:
    """None: there are too many to be held, or some are told oddly."""
    found: list[tuple[float, float, str]] = []
    longs: dict[str, list[str]] = {}
    if max(counted(store, f"?thing <{property}> ?value", _PLACES + 1) for property in (lat, long)) > _PLACES:
        return None
    for name, value in _told(store, long):
        longs.setdefault(name, []).append(value)
    for name, value in _told(store, lat):
        written = "" if name.startswith("_:") else f"<{name}>"  # what is blank cannot be written
        found.extend((*point, written) for other in longs.get(name, ()) for point in _point(value, other))
    if any(abs(long) > _TURNS for _, long, _ in found):
        return None
    found.sort()
    points = np.array([one[:2] for one in found], dtype=np.float64).reshape(-1, 2)
    return _Places(points, [one[0] for one in found], [one[2] for one in found])


def _told(store: ox.Store, property: str) -> Iterator[tuple[str, str]]:
    """What has a property, and its values; many times faster than by terms."""
    rows: Any = store.query(f"SELECT ?thing ?value {{ ?thing <{property}> ?value }}")
    lines = csv.reader(io.StringIO(rows.serialize(format=ox.QueryResultsFormat.CSV).decode(), newline=""))
    next(lines)
    return ((name, value) for name, value in lines)


def _point(lat: str, long: str) -> Iterator[Point]:
    """Nothing where the two are no numbers, of which there is no distance."""
    try:
        point = float(lat), float(long)
    except ValueError:
        return
    if abs(point[0]) <= 90 and np.isfinite(point[1]):
        yield point


def _value(term: Any) -> str:
    return str(getattr(term, "value", ""))


def _linked(query: Timed, place: tuple[str, str]) -> list[tuple[str, tuple[str, str]]]:
    """The variable that has a place, and how that is said."""
    return [
        (one.subject, (one.property.value, two.property.value))
        for one in query.links
        for two in query.links
        if (one.object, two.object) == place
        and one.subject == two.subject
        and one.subject.startswith("?")
        and (one.property.value, two.property.value) in _WAYS
    ]


def _timed(query: Timed, place: tuple[str, str]) -> bool:
    """Whether it is that of an event of which the time is asked for."""
    held = _said(query, place[0])[1]
    return any(stamp.subject in held for stamp in query.stamps.values())


def _said(query: Timed, name: str) -> tuple[str, set[str]]:
    """All that the links say of a variable, and of what they lead to, with its times; and the variables of that."""
    held, before = {name}, 0
    while len(held) > before:
        before = len(held)
        for link in query.links:
            if held & {link.subject, link.object} - {""}:
                held |= {link.subject, link.object} - {""}
    lines = [_line(link) for link in query.links if link.subject in held]
    for time, stamp in query.stamps.items():
        if stamp.subject in held:
            lines.append(f"{_variable(stamp.subject)} {f'<{stamp.way}>/' if stamp.way else ''}<{STAMPED}> ?{time} .")
            held.add(f"?{time}")
            one = query.ranges.get(time)
            for sign, minute, second in ((">=", one and one.since, "00"), ("<=", one and one.until, "59.999999")):
                if minute:
                    lines.append(f'FILTER(?{time} {sign} "{minute}:{second}Z"^^<{XSD}dateTime>)')
    return " ".join(lines), held


def _line(link: Link) -> str:
    return f"{_variable(link.subject)} {link.property} {link.value or _variable(link.object)} ."


def _variable(name: str) -> str:
    """What is blank has a name as well."""
    return name if name.startswith("?") else "?blank" + "".join(f"{ord(letter):x}_" for letter in name)
