"""Search for the coordinates of subjects, in events and in the knowledge. Coordinates are in degrees on WGS84.

The subject of an event is the value of its first attribute of type string or IRI. If there is no such attribute, it is
the value of the first attribute of type int. Two numeric attributes of an event contain the coordinates of its subject
if AS maps the attributes to wgs84:lat and wgs84:long, or if their names are in LATITUDES and LONGITUDES. Otherwise the
coordinates are taken from the knowledge. There, the subject is the IRI or an identifier (IDENTIFIERS) of a thing that
has wgs84:lat and wgs84:long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from cep.core.schema import CODED, Attribute, Schema
from cep.core.time import BEGINNING
from cep.knowledge.graph import Knowledge
from cep.knowledge.places import attributions
from cep.rules.expressions.geodesy import LatLong

WGS84 = "http://www.w3.org/2003/01/geo/wgs84_pos#"
LATITUDES = frozenset(("lat", "latitude"))
LONGITUDES = frozenset(("long", "lon", "lng", "longitude"))
IDENTIFIERS = (
    "http://knoesis.wright.edu/ssw/ont/sensor-observation.owl#ID",
    "http://purl.org/dc/terms/identifier",
    "http://schema.org/identifier",
    "https://schema.org/identifier",
    "http://www.w3.org/2004/02/skos/core#notation",
)
"""Properties whose values identify a thing.

If several things have the same identifier, it belongs to the thing that has it in the first of these properties. If
several things have it in this property, it belongs to the one that is a station (STATIONS).
"""
NAMES = (
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://www.geonames.org/ontology#name",
    "http://schema.org/name",
    "https://schema.org/name",
)
STATIONS = ("http://www.w3.org/ns/sosa/Platform", "http://www.w3.org/ns/sosa/Sensor")
"""Classes of things that the map shows before the first event about them."""

_PLACED = f"?thing <{WGS84}lat> ?lat ; <{WGS84}long> ?long"
_WHERE = f"SELECT ?thing ?lat ?long WHERE {{ {_PLACED} }}"
_VALUES = "SELECT ?thing ?property ?value WHERE {{ VALUES ?property {{ {0} }} ?thing ?property ?value . {1} }}"
_STATIONS = "SELECT DISTINCT ?thing WHERE {{ VALUES ?class {{ {0} }} ?thing a ?class . {1} }}"


@dataclass(frozen=True, slots=True)
class SubjectColumns:
    """The names of the attributes that contain an event's subject, and the latitude and longitude of this subject."""

    subject: str | None
    latitude: str | None
    longitude: str | None

    @classmethod
    def of(cls, schema: Schema) -> SubjectColumns:
        lat, long = _first(schema, "lat", LATITUDES), _first(schema, "long", LONGITUDES)
        names = [attribute.name for attribute in schema.attributes if attribute.type in CODED]
        names += [attribute.name for attribute in schema.attributes if attribute.type == "int"]
        names = [name for name in names if name not in (lat, long)]
        both = lat is not None and long is not None
        return cls(names[0] if names else None, lat if both else None, long if both else None)


def subject_ends(tables: Mapping[str, pl.DataFrame], columns: Mapping[str, SubjectColumns]) -> pl.DataFrame:
    """Return the subjects in several tables, in order of appearance.

    The result has these columns:

    - `subject`: the subject.
    - `end`: the latest end of its events. For an open interval of a fluent, the start counts.
    - `table`: the index of the table that contains an event with this end; the last one, if there are several.
    - `lat`, `long`: the last coordinates of the subject in degrees; null if they are unknown.

    The tables are concatenated before they are grouped. Grouping a hundred tables of one row each would take a hundred
    times as long.
    """
    heights = [table.height for table in tables.values()]
    frame = pl.DataFrame(
        {
            "subject": pl.concat([texts(table[columns[name].subject or ""]) for name, table in tables.items()]),
            "start": pl.concat([table["start"] for table in tables.values()]),
            "end": pl.concat([table["end"] for table in tables.values()]),
            "table": np.repeat(np.arange(len(tables)), heights),
            "lat": _places([(table, columns[name].latitude) for name, table in tables.items()]),
            "long": _places([(table, columns[name].longitude) for name, table in tables.items()]),
        }
    )
    placed = (pl.col("lat").abs() <= 90) & (pl.col("long").abs() <= 360)
    return (
        frame.lazy()
        .filter(pl.col("subject").is_not_null())
        .with_columns(
            pl.coalesce("end", "start", pl.lit(BEGINNING)).alias("end"),
            *(pl.when(placed).then(column).alias(column) for column in ("lat", "long")),
        )
        .group_by("subject", maintain_order=True)
        .agg(
            pl.col("end").max(),
            pl.col("table").filter(pl.col("end") == pl.col("end").max()).last(),
            pl.col("lat").drop_nulls().last(),
            pl.col("long").drop_nulls().last(),
        )
        .collect()
    )


@dataclass(frozen=True, slots=True)
class Gazette:
    """The things in the current knowledge that have coordinates.

    - `points`: the coordinates of each thing, by IRI.
    - `names`: the names of things, by IRI.
    - `identified`: the IRI of each thing that has an identifier, by identifier.
    - `stations`: the identifier of each station, by IRI. A station without an identifier has its IRI instead.
    - `rights`: the attributions to the knowledge's authors that the page must show.
    """

    points: Mapping[str, LatLong] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    identified: Mapping[str, str] = field(default_factory=dict)
    stations: Mapping[str, str] = field(default_factory=dict)
    rights: tuple[str, ...] = ()

    @classmethod
    def of(cls, knowledge: Knowledge | None) -> Gazette:
        if knowledge is None:
            return cls()
        points: dict[str, LatLong] = {}
        for thing, lat, long in _rows(knowledge, _WHERE):
            point = coordinates(lat, long)
            if point is not None:
                points.setdefault(str(thing), point)
        stations = {str(thing) for (thing,) in _rows(knowledge, _STATIONS.format(_iris(STATIONS), _PLACED))}
        places = [
            (IDENTIFIERS.index(str(property)), str(thing) not in stations, str(value), str(thing))
            for thing, property, value in _rows(knowledge, _VALUES.format(_iris(IDENTIFIERS), _PLACED))
            if str(thing) in points
        ]
        identified: dict[str, str] = {}
        codes: dict[str, str] = {}
        for _, _, value, thing in sorted(places):
            identified.setdefault(value, thing)
            if identified[value] == thing:
                codes.setdefault(thing, value)
        names: dict[str, str] = {}
        named = _rows(knowledge, _VALUES.format(_iris(NAMES), _PLACED))
        for _, thing, value in sorted((NAMES.index(str(p)), str(t), str(v)) for t, p, v in named):
            names.setdefault(thing, value)
        known = {thing: codes.get(thing, thing) for thing in sorted(stations) if thing in points}
        return cls(points, names, identified, known, tuple(attributions(knowledge)))

    def thing(self, subject: str) -> str | None:
        """Return the IRI of the thing that a subject names, or None if the knowledge has no coordinates of it."""
        if subject in self.points:
            return subject
        return self.identified.get(subject)


def coordinates(lat: object, long: object) -> LatLong | None:
    """Convert a latitude and a longitude to numbers. Return None if they are not valid."""
    point = _degree(lat), _degree(long)
    if point[0] is None or point[1] is None or not (abs(point[0]) <= 90 and abs(point[1]) <= 360):
        return None
    return point[0], point[1]


def _degree(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None


def texts(column: pl.Series) -> pl.Series:
    """Convert a column of subjects to texts, as Python's `str` writes them."""
    if column.dtype == pl.String:
        return column
    if column.dtype.is_integer():
        return column.cast(pl.String)
    return pl.Series([None if value is None else str(value) for value in column.to_list()], dtype=pl.String)


def _places(columns: Sequence[tuple[pl.DataFrame, str | None]]) -> pl.Series:
    known = [name for _, name in columns if name is not None]
    nothing = pl.Series([None], dtype=pl.Float64).new_from_index(0, sum(table.height for table, _ in columns))
    if not known:
        return nothing
    return pl.concat([nothing[: table.height] if name is None else _degrees(table[name]) for table, name in columns])


def _degrees(column: pl.Series) -> pl.Series:
    if column.dtype.is_numeric():
        return column.cast(pl.Float64)
    return pl.Series([_degree(value) for value in column.to_list()], dtype=pl.Float64)


def _first(schema: Schema, local: str, names: frozenset[str]) -> str | None:
    numbers = [attribute for attribute in schema.attributes if attribute.type in ("float", "int", "any")]
    declared = [attribute.name for attribute in numbers if attribute.iri == WGS84 + local]
    return next(iter(declared + [attribute.name for attribute in numbers if _called(attribute) in names]), None)


def _called(attribute: Attribute) -> str:
    return attribute.name.lower()


def _iris(iris: tuple[str, ...]) -> str:
    return " ".join(f"<{iri}>" for iri in iris)


def _rows(knowledge: Knowledge, query: str) -> list[tuple[object, ...]]:
    solutions = knowledge.query(query)
    assert isinstance(solutions, pl.DataFrame), "a SELECT gives a table"
    return list(solutions.iter_rows())
