"""An index of places by latitude. With it, a query for things near a point reads only nearby things.

Oxigraph cannot search for numbers in a range. To find everything within 20 km of three stations, it would try every
thing that has a place. This index sorts the places by latitude, and adds the things that are near enough to the query
as `VALUES`. The list may contain things that the query excludes later, but it lacks none of the solutions.
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

from cep.connectors.rdf.distance_filters import DistanceLimit, degrees, shorts
from cep.connectors.rdf.query_parts import STAMPED, Link, QueryParts
from cep.connectors.rdf.selectivity import Few
from cep.connectors.rdf.time_tree import HERE, count_matches
from cep.connectors.rdf.vocabulary import XSD
from cep.rules.expressions.geodesy import LatLong, compare

_WGS84, _SCHEMA = "http://www.w3.org/2003/01/geo/wgs84_pos#", "http://schema.org/"
_WAYS = [(f"{_WGS84}lat", f"{_WGS84}long"), (f"{_SCHEMA}latitude", f"{_SCHEMA}longitude")]
_PLACES = 300_000  # the maximum triples to keep sorted, per pair of properties
_MOST_LONGITUDE = 720.0  # degrees of longitude, beyond which rounding would matter
_READS = 20  # how often places are read before changes end the index
_POINTS, _NEAR = 5_000, 5_000  # the maximum number of centres of a search, and of candidates
_PRODUCT, _PAIRS = 10_000, 200_000  # list pairs above this many points times candidates; the maximum pairs


@dataclass(frozen=True, slots=True)
class _Places:
    """The places in a store, sorted by latitude.

    `points`: the latitude and longitude of each place. `names`: the IRI of the thing at each place, or an empty text if
    the thing is a blank node.
    """

    points: np.ndarray[Any, np.dtype[np.float64]]
    latitudes: list[float]
    names: list[str]


@dataclass(frozen=True, slots=True)
class _Origins:
    """The points around which a query searches.

    - `variables`: the query's variables whose values determine the point. It is empty if the point is a constant,
      or is known only for a blank node.
    - `points`: for each solution, the values of `variables` and the point that they determine.
    """

    variables: tuple[str, ...]
    points: Sequence[tuple[tuple[str, ...], LatLong]]


class PlaceIndex:
    """The index of the places in a store. Other threads that write to the store must call `changed`."""

    def __init__(self, store: ox.Store) -> None:
        self._store = store
        self._places: dict[tuple[str, str], _Places | None] = {}
        self._changes = self._reads = 0

    def changed(self, text: bytes | None = None) -> None:
        """Invalidate the index if the triples that were added may contain places. `text`: the added triples as
        N-Triples. It is None if they are unknown.

        If places change very often, they are no longer indexed.
        """
        if text is None or any(f"<{name}>".encode() in text for way in _WAYS for name in way):
            self._changes += 1
            many = [way for way, places in self._places.items() if places is None and text is not None]
            self._places = dict.fromkeys(_WAYS if self._reads > _READS else many)

    def read(self) -> None:
        """Read the store's places into the index, which the forks that evaluate queries inherit."""
        for way in _WAYS:
            if way not in self._places:
                self._reads += 1
                changes, places = self._changes, _read(self._store, *way)
                if changes == self._changes:
                    self._places[way] = places

    def among(self, query: QueryParts, few: Few, ask: Callable[[str], Iterable[Any]]) -> str | None:
        """Return the query with a list (`VALUES`) of the things that are near enough for the query's distance filter.

        The list may instead contain pairs of a point and a thing near this point. Return None if the query has no
        distance filter, or if these things are unknown or too many.

        - `few`: the variables of the query that have few values, with these values.
        - `ask`: a function that evaluates a query and returns its rows.
        """
        for short in shorts(query.filters, query.prefixes):
            sides = [
                (here, near_place)
                for here, near_place in (short.places, short.places[::-1])
                if _linked(query, near_place)
            ]
            for here, near_place in sorted(sides, key=lambda side: not _timed(query, side[0])):
                subject, way = _linked(query, near_place)[0]
                origins = self._known(query, here, few) or self._queried(query, here, subject, ask)
                pairs = None if origins is None else self._pairs(way, origins, short)
                if origins is None or pairs is None:
                    continue
                near = dict.fromkeys(name for _, name in pairs)
                if origins.variables and len(origins.points) * len(near) > _PRODUCT:
                    rows = dict.fromkeys(f"({' '.join((*terms, name))})" for terms, name in pairs)
                    return query.among(f"({' '.join((*origins.variables, subject))})", rows)
                if len(near) <= _NEAR:
                    return query.among(subject, sorted(near))
        return None

    def _pairs(
        self, way: tuple[str, str], origins: _Origins, short: DistanceLimit
    ) -> Sequence[tuple[tuple[str, ...], str]] | None:
        """Return the pairs of a point and a thing whose distance may be within the limit `short`.

        `way`: the properties that state a thing's latitude and longitude. Return None if there are too many pairs, or
        if a thing is a blank node.
        """
        self.read()
        places = self._places.get(way)
        if places is None or any(abs(long) > _MOST_LONGITUDE for _, (_, long) in origins.points):
            return None
        pairs: list[tuple[tuple[str, ...], str]] = []
        for terms, (lat, long) in origins.points:
            apart = degrees(short.metres)
            band = slice(bisect_left(places.latitudes, lat - apart), bisect_right(places.latitudes, lat + apart))
            within = compare("<=", (lat, long, *places.points[band].T), short.metres * (1 + 1e-9) + 1e-3)
            pairs += [(terms, places.names[band.start + n]) for n in np.flatnonzero(within).tolist()]
            if len(pairs) > _PAIRS:
                return None
        return None if any(not name for _, name in pairs) else pairs

    def _known(self, query: QueryParts, place: tuple[str, str], few: Few) -> _Origins | None:
        """Return the possible points of a place if few things can be at this place. Return None if their number is
        unknown or large.

        `place`: the variables for latitude and longitude. `few`: the variables that have few values, with these values.
        """
        for subject, (lat, long) in _linked(query, place):
            if len(few.get(subject, range(_POINTS + 1))) <= _POINTS:
                named = not any(isinstance(term, ox.BlankNode) for term in few[subject])
                points = [
                    ((str(term),), point)
                    for term in few[subject]
                    for quad in self._store.quads_for_pattern(term, ox.NamedNode(lat), None, HERE)
                    for two in self._store.quads_for_pattern(term, ox.NamedNode(long), None, HERE)
                    for point in _point(_value(quad.object), _value(two.object))
                ]
                return _Origins((subject,) if named else (), points)
        return None

    def _queried(
        self, query: QueryParts, place: tuple[str, str], other: str, ask: Callable[[str], Iterable[Any]]
    ) -> _Origins | None:
        """Evaluate the part of the query that determines a place. Return the possible points of the place.

        `place`: variables or numbers for latitude and longitude. `other`: the variable of the thing whose distance from
        the place is limited. Return None if the points are unknown or too many.
        """
        names = [name for name in place if name.startswith("?")]
        if not names:
            return _Origins((), [((), (float(place[0]), float(place[1])))])
        patterns, variables = _patterns_of(query, names[0])
        if len(names) < 2 or other in variables or names[1] not in variables or "?blank" in query.text:
            return None
        rows = list(ask(f"SELECT DISTINCT {' '.join(names)} {{ {patterns} }} LIMIT {_POINTS + 1}"))
        if len(rows) > _POINTS:
            return None
        terms = [(row[names[0][1:]], row[names[1][1:]]) for row in rows]
        points = [
            ((str(first), str(two)), point) for first, two in terms for point in _point(_value(first), _value(two))
        ]
        return _Origins(tuple(names), points)


def _read(store: ox.Store, lat: str, long: str) -> _Places | None:
    """Read all places from a store. `lat`, `long`: the properties for latitude and longitude.

    Return None if there are too many places, or if a longitude is out of range.
    """
    located: list[tuple[float, float, str]] = []
    longs: dict[str, list[str]] = {}
    if max(count_matches(store, f"?thing <{property}> ?value", _PLACES + 1) for property in (lat, long)) > _PLACES:
        return None
    for name, value in _values_of(store, long):
        longs.setdefault(name, []).append(value)
    for name, value in _values_of(store, lat):
        written = "" if name.startswith("_:") else f"<{name}>"  # a query cannot name blank nodes
        located.extend((*point, written) for other in longs.get(name, ()) for point in _point(value, other))
    if any(abs(long) > _MOST_LONGITUDE for _, long, _ in located):
        return None
    located.sort()
    points = np.array([row[:2] for row in located], dtype=np.float64).reshape(-1, 2)
    return _Places(points, [row[0] for row in located], [row[2] for row in located])


def _values_of(store: ox.Store, property: str) -> Iterator[tuple[str, str]]:
    """Yield each subject that has the property, with the property's value. This is much faster than converting each
    term to a Python object."""
    rows: Any = store.query(f"SELECT ?thing ?value {{ ?thing <{property}> ?value }}")
    lines = csv.reader(io.StringIO(rows.serialize(format=ox.QueryResultsFormat.CSV).decode(), newline=""))
    next(lines)
    return ((name, value) for name, value in lines)


def _point(lat: str, long: str) -> Iterator[LatLong]:
    try:
        point = float(lat), float(long)
    except ValueError:
        return
    if abs(point[0]) <= 90 and np.isfinite(point[1]):
        yield point


def _value(term: Any) -> str:
    return str(getattr(term, "value", ""))


def _linked(query: QueryParts, place: tuple[str, str]) -> list[tuple[str, tuple[str, str]]]:
    return [
        (link.subject, (link.property.value, two.property.value))
        for link in query.links
        for two in query.links
        if (link.object, two.object) == place
        and link.subject == two.subject
        and link.subject.startswith("?")
        and (link.property.value, two.property.value) in _WAYS
    ]


def _timed(query: QueryParts, place: tuple[str, str]) -> bool:
    variables = _patterns_of(query, place[0])[1]
    return any(stamp.subject in variables for stamp in query.stamps.values())


def _patterns_of(query: QueryParts, name: str) -> tuple[str, set[str]]:
    """Return the triple patterns of the query that are connected to a variable, as SPARQL text. The text also contains
    the filters of these patterns' times.

    The second result is the set of the variables in this text.
    """
    variables, before = {name}, 0
    while len(variables) > before:
        before = len(variables)
        for link in query.links:
            if variables & {link.subject, link.object} - {""}:
                variables |= {link.subject, link.object} - {""}
    lines = [_line(link) for link in query.links if link.subject in variables]
    for time, stamp in query.stamps.items():
        if stamp.subject in variables:
            lines.append(f"{_variable(stamp.subject)} {f'<{stamp.way}>/' if stamp.way else ''}<{STAMPED}> ?{time} .")
            variables.add(f"?{time}")
            bounds = query.ranges.get(time)
            for sign, minute, second in (
                (">=", bounds and bounds.since, "00"),
                ("<=", bounds and bounds.until, "59.999999"),
            ):
                if minute:
                    lines.append(f'FILTER(?{time} {sign} "{minute}:{second}Z"^^<{XSD}dateTime>)')
    return " ".join(lines), variables


def _line(link: Link) -> str:
    return f"{_variable(link.subject)} {link.property} {link.value or _variable(link.object)} ."


def _variable(name: str) -> str:
    """Return the name of a variable unchanged. Return a new variable for the name of a blank node."""
    return name if name.startswith("?") else "?blank" + "".join(f"{ord(letter):x}_" for letter in name)
