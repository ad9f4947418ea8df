"""The places in the knowledge: a search for things near a point, and the areas that things cover."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
import shapely

from cep.core.errors import CepError
from cep.core.relation import Column
from cep.core.values import MISSING, Floats, Ints, Pool
from cep.knowledge.point_index import PointIndex
from cep.knowledge.rdf.namespaces import GEO, SCHEMA, WGS84
from cep.knowledge.rdf.terms import IRI, NONE, Terms
from cep.knowledge.rdf.triples import TripleSet
from cep.rules.conditions.relations import Mask, Probe
from cep.rules.expressions import geodesy
from cep.rules.expressions.areas import WrongArea, read_all

GEOMETRIES = (GEO + "hasGeometry", GEO + "hasDefaultGeometry", *(schema + "geo" for schema in SCHEMA))
LINKS = (WGS84 + "location", *GEOMETRIES)
NUMBERS = (
    (WGS84 + "lat", WGS84 + "long", "wgs84:lat", "wgs84:long"),
    *((schema + "latitude", schema + "longitude", "schema:latitude", "schema:longitude") for schema in SCHEMA),
)
"""The supported pairs of properties for latitude and longitude, with the names of both for error messages."""
PROPERTIES = (*(name for pair in NUMBERS for name in pair[:2]), WGS84 + "lat_long", GEO + "asWKT", *LINKS)
"""All properties that give a place to a thing."""

_OF_POINTS = (shapely.GeometryType.POINT, shapely.GeometryType.MULTIPOINT)
_PIECE = 1 << 20  # rows per piece


class Geometries:
    """The places of things in the knowledge. They are read from the triples at first use.

    A thing is at its `wgs84:lat` and `wgs84:long`, its `schema:latitude` and `schema:longitude`, its `wgs84:lat_long`,
    and its `geo:asWKT`. It is also at the places of its `wgs84:location`, `schema:geo`, `geo:hasGeometry` and
    `geo:hasDefaultGeometry`. Methods raise CepError if a number or WKT text cannot be read.
    """

    def __init__(self, terms: Terms, triples: TripleSet) -> None:
        self._terms = terms
        self._triples = triples

    @cached_property
    def features(self) -> Features:
        """The IRIs of all things that are at points, and these points.

        If a geometry is at a point, the result contains the thing that has the geometry instead of the geometry.
        """
        points, links = self._points, self._links
        shapes = self._shapes.filter(pl.col("kind").is_in(_OF_POINTS))
        ends, row = shapely.get_coordinates(shapes["shape"].to_list(), return_index=True)
        points = pl.concat(
            [points, pl.DataFrame({"thing": shapes["thing"].gather(row), "lat": ends[:, 1], "long": ends[:, 0]})]
        )
        geometries = links.filter("geometry").select("place").unique()
        moved = links.join(points, left_on="place", right_on="thing").select("thing", "lat", "long")
        own = points.join(geometries, left_on="thing", right_on="place", how="anti")
        every = pl.concat([own, moved]).unique()
        things = every["thing"].unique().sort()
        iris = pl.DataFrame({"thing": things, "kind": self._terms.kinds(things.to_numpy())})
        iris = iris.filter(pl.col("kind") == IRI).select("thing")
        iris = iris.with_columns(iri=self._terms.texts(iris["thing"].to_numpy())).sort("iri").with_row_index("feature")
        every = every.join(iris.select("thing", "feature"), on="thing").sort("feature", "lat", "long")
        return Features(
            iris["iri"],
            every["feature"].cast(pl.Int64).to_numpy(),
            every["lat"].to_numpy(),
            every["long"].to_numpy(),
        )

    def check(self) -> None:
        """Raise CepError if a place cannot be read."""
        for pair in NUMBERS:
            self._both(*pair)
        self._pairs_of_numbers()
        self._read_shapes()

    def areas(self, iris: Sequence[str]) -> list[Any]:
        """Return a shape for each IRI, which combines all shapes of its thing, or None if the thing has no shape."""
        things, rows = self._areas
        ids = self._terms.tokens(pl.Series([f"<{iri}>" for iri in iris], dtype=pl.String), add=False)
        starts, stops = np.searchsorted(things, ids, "left").tolist(), np.searchsorted(things, ids, "right").tolist()
        return [_together([self._shape(row) for row in rows[a:b].tolist()]) for a, b in zip(starts, stops)]

    def _shape(self, row: int) -> Any:
        shapes = self._shapes["shape"]
        if row < len(shapes):
            return shapes[row]
        _, lat, long = self._points.row(row - len(shapes))
        return shapely.points(long, lat)

    @cached_property
    def _areas(self) -> tuple[Ints, Ints]:
        """The ids of things that have a shape, in ascending order. For each one, also the row number of its shape.

        The rows of `_shapes` are numbered first, then the rows of `_points`. A thing that has several shapes appears
        several times.
        """
        own = pl.concat([self._shapes.select("thing"), self._points.select("thing")]).with_row_index("row")
        linked = self._links.join(own, left_on="place", right_on="thing")
        every = pl.concat([own.select("thing", "row"), linked.select("thing", "row")]).unique().sort("thing", "row")
        return every["thing"].to_numpy(), every["row"].to_numpy()

    @cached_property
    def _links(self) -> pl.DataFrame:
        """The things that get their place from another thing.

        Columns: thing, place (the id of the other thing), geometry (True if the other thing is only a geometry).
        """
        parts = [
            self._pairs(property, "thing", "place").with_columns(geometry=pl.lit(property in GEOMETRIES))
            for property in LINKS
        ]
        return pl.concat(parts)

    @cached_property
    def _points(self) -> pl.DataFrame:
        """The points of things. Columns: thing, lat, long.

        If a thing has several latitudes and longitudes, each latitude is combined with each longitude. Literals that
        contain both numbers yield further points.
        """
        return pl.concat([*(self._both(*pair) for pair in NUMBERS), self._pairs_of_numbers()]).unique(
            maintain_order=True
        )

    def _both(self, lat: str, long: str, lat_name: str, long_name: str) -> pl.DataFrame:
        latitudes = self._numbers(lat, lat_name, "lat", 90.0)
        return latitudes.join(self._numbers(long, long_name, "long", np.inf), on="thing")

    def _numbers(self, property: str, called: str, name: str, most: float) -> pl.DataFrame:
        pairs = self._pairs(property, "thing", "value")
        texts = self._terms.texts(pairs["value"].to_numpy())
        numbers = texts.str.strip_chars().cast(pl.Float64, strict=False)
        wrong = (~(numbers.is_finite() & (numbers.abs() <= most))).fill_null(True)
        if wrong.any():
            row = int(wrong.arg_max() or 0)
            what = f"`{texts[row]}` is not a number"
            if numbers[row] is not None:
                what = f"a latitude lies between -90 and 90, but this is `{texts[row]}`"
            raise self._refused(int(pairs["thing"][row]), called, what, int(wrong.sum()))
        return pairs.select("thing", numbers.alias(name))

    def _pairs_of_numbers(self) -> pl.DataFrame:
        """Read literals that contain both latitude and longitude, such as `40.69,-74.17`. Columns: thing, lat, long."""
        pairs = self._pairs(WGS84 + "lat_long", "thing", "value")
        texts = self._terms.texts(pairs["value"].to_numpy())
        split = texts.str.split(",").list
        numbers = pl.DataFrame(
            [
                split.get(i, null_on_oob=True).str.strip_chars().cast(pl.Float64, strict=False).alias(name)
                for i, name in enumerate(("lat", "long"))
            ]
        )
        inside = (split.len() == 2) & (numbers["lat"].abs() <= 90) & numbers["long"].is_finite()
        wrong = ~inside.fill_null(False)
        if wrong.any():
            row = int(wrong.arg_max() or 0)
            what = f"`{texts[row]}` is not a latitude and longitude, as `40.69,-74.17`"
            raise self._refused(int(pairs["thing"][row]), "wgs84:lat_long", what, int(wrong.sum()))
        return pairs.select("thing", numbers["lat"], numbers["long"])

    @cached_property
    def _shapes(self) -> pl.DataFrame:
        return self._read_shapes()

    def _read_shapes(self) -> pl.DataFrame:
        """Read literals in WKT. Columns: thing, shape, kind (the type of geometry)."""
        pairs = self._pairs(GEO + "asWKT", "thing", "value")
        texts = self._terms.texts(pairs["value"].to_numpy())
        shapes, wrong = read_all(texts.to_list())
        if wrong:
            row = min(wrong)
            raise self._refused(int(pairs["thing"][row]), "geo:asWKT", str(wrong[row]), len(wrong), wrong[row])
        return pairs.select(
            "thing",
            shape=pl.Series(shapes, dtype=pl.Object),
            kind=pl.Series(shapely.get_type_id(shapes), dtype=pl.Int64),
        )

    def _pairs(self, property: str, subject: str, object: str) -> pl.DataFrame:
        id = self._terms.id_of(property)
        s, _, o = self._triples.match(p=id) if id != NONE else TripleSet.empty().columns
        return pl.DataFrame({subject: s, object: o})

    def _refused(self, thing: int, property: str, reason: str, count: int, wrong: WrongArea | None = None) -> CepError:
        name = self._terms.term(thing)
        more = f" (and {count - 1} more)" if count > 1 else ""
        hint = wrong.hint if wrong is not None else None
        return CepError(f"knowledge: {property} of {name}: {reason}{more}", hint=hint, code="geometry")


def _together(shapes: list[Any]) -> Any:
    return (shapes[0] if len(shapes) == 1 else shapely.GeometryCollection(shapes)) if shapes else None


@dataclass(frozen=True)
class Features:
    """Things that are at points. The IRIs are sorted as texts, and the points are grouped by IRI.

    `of`: for each point, the index in `iris` of the thing at this point. These indices are in ascending order.
    """

    iris: pl.Series
    of: Ints
    lat: Floats
    long: Floats

    @cached_property
    def point_index(self) -> PointIndex:
        return PointIndex(self.lat, self.long)

    @cached_property
    def starts(self) -> Ints:
        """For each IRI, the index of its first point. The last item is the number of all points."""
        return np.searchsorted(self.of, np.arange(len(self.iris) + 1))


class Near:
    """The relation `near(Lat, Long, Radius, Feature, Metres)` between a point and each thing (Feature) within Radius
    metres of it.

    Metres is the distance to the thing's nearest point. The results for one point are sorted by the IRIs of the things.
    """

    name = "near"
    arity = 5
    types = ("float", "float", "float", "iri", "float")

    def __init__(self, places: Geometries, pool: Pool) -> None:
        self._places = places
        self._pool = pool
        self._codes: _GeometryCodes | None = None

    def ready(self, bound: frozenset[int]) -> bool:
        return bound >= {0, 1, 2}

    def probe(self, bound: Mapping[int, str], wanted: tuple[int, ...]) -> Probe:
        features = self._places.features
        if self._codes is None:
            self._codes = _GeometryCodes(features.iris, self._pool)
        return _NearProbe(features, self._codes, tuple(bound), wanted)


class _GeometryCodes:
    """The codes by which the engine represents the IRIs of features. An IRI gets a code when it is first needed."""

    def __init__(self, iris: pl.Series, pool: Pool) -> None:
        self._iris = iris
        self._pool = pool
        self._known: Ints = np.full(len(iris), MISSING)

    def of(self, features: Ints) -> Ints:
        codes = self._known[features]
        new = np.unique(features[codes == MISSING])
        if len(new):
            self._known[new] = self._pool.encode(self._iris.gather(new), "iri")
            self._pool.pin(self._known[new])
            codes = self._known[features]
        return codes

    def features(self, codes: Ints) -> Ints:
        """Return the index of the feature that each code's IRI names, or -1 if there is none."""
        if not len(self._iris):
            return np.full(len(codes), -1)
        distinct, which = np.unique(codes, return_inverse=True)
        texts = self._pool.decode(distinct, "iri")
        places = self._iris.search_sorted(texts).to_numpy().astype(np.int64)
        named = self._iris.gather(np.minimum(places, len(self._iris) - 1)) == texts
        return np.where(named.to_numpy(), places, -1)[which]


class _NearProbe:
    """A call of `near` with a fixed set of bound arguments."""

    def __init__(
        self, features: Features, codes: _GeometryCodes, bound: tuple[int, ...], wanted: tuple[int, ...]
    ) -> None:
        self._features = features
        self._codes = codes
        self._bound = bound
        self._wanted = wanted
        self.types = tuple(Near.types[i] for i in wanted)
        self.single = 3 in bound or not wanted

    timed = False

    def answers(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> tuple[Ints, list[Column]]:
        bound_values = dict(zip(self._bound, bound))
        empty: Ints = np.empty(0, dtype=np.int64)
        # Work in pieces: with a radius of half the earth, every call would match every place.
        pieces = [self._near(bound_values, *piece) for piece in self._candidates(bound_values)] or [
            (empty, empty, np.empty(0))
        ]
        index, which, metres = pieces[0] if len(pieces) == 1 else map(np.concatenate, zip(*pieces))
        return index, [self._codes.of(which) if i == 3 else metres for i in self._wanted]

    def _near(self, bound_values: Mapping[int, Column], index: Ints, points: Ints) -> tuple[Ints, Ints, Floats]:
        """Keep the pairs of a call and a point for which the point is within the call's radius.

        `index`: for each pair, the row of the call. `points`: for each pair, the index of the point. Return three
        columns: the row of the call, the feature at the point, and the distance in metres.
        """
        features = self._features
        pairs = (bound_values[0][index], bound_values[1][index], features.lat[points], features.long[points])
        radius = bound_values[2][index]
        if 4 in bound_values or 4 in self._wanted:
            metres = geodesy.distance(*pairs)
            near = metres <= radius
        else:  # the distance is not needed
            metres = np.zeros(len(index))
            near = geodesy.compare("<=", pairs, radius)
        index, which, metres = _nearest_of_each(index[near], features.of[points[near]], metres[near])
        if 4 in bound_values:
            equal = metres == bound_values[4][index]
            index, which, metres = index[equal], which[equal], metres[equal]
        if 3 not in bound_values and 3 not in self._wanted:
            index, metres = _distinct(index, metres)
            which = index[:0]
        return index, which, metres

    def holds(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> Mask:
        bound_values = dict(zip(self._bound, bound))
        near: Mask = np.zeros(rows, dtype=np.bool_)
        if 3 in bound_values or 4 in bound_values:
            near[self.answers(bound, rows)[0]] = True
            return near
        lat, long, radius = bound[:3]
        sure, reach = geodesy.certainly_within(radius), geodesy.certainly_beyond(radius)
        nearest = self._features.point_index.nearest_is(lat, long, sure, reach)
        doubtful = np.flatnonzero(nearest == 1)
        near[nearest == 2] = True
        near[doubtful[self.answers([column[doubtful] for column in bound], len(doubtful))[0]]] = True
        return near

    def _candidates(self, bound_values: Mapping[int, Column]) -> Iterator[tuple[Ints, Ints]]:
        # Yield pairs of a call and a point that may be near enough; all points of a call are in one piece.
        if 3 not in bound_values:
            yield from self._features.point_index.pieces(
                bound_values[0], bound_values[1], geodesy.certainly_beyond(bound_values[2])
            )
            return
        feature = self._codes.features(bound_values[3])
        known = np.flatnonzero(feature >= 0)
        starts, feature = self._features.starts, feature[known]
        counts = starts[feature + 1] - starts[feature]
        ends, first = np.cumsum(counts), 0
        while first < len(known):
            before = int(ends[first] - counts[first])
            stop = max(first + 1, int(np.searchsorted(ends, before + _PIECE, side="right")))
            own, many = slice(first, stop), counts[first:stop]
            within = np.arange(before, ends[stop - 1]) - np.repeat(ends[own] - many, many)
            yield np.repeat(known[own], many), np.repeat(starts[feature[own]], many) + within
            first = stop


def _nearest_of_each(index: Ints, which: Ints, metres: Floats) -> tuple[Ints, Ints, Floats]:
    same = (index[1:] == index[:-1]) & (which[1:] == which[:-1])
    if not same.any():
        return index, which, metres
    order = np.lexsort((metres, which, index))
    index, which, metres = index[order], which[order], metres[order]
    first = np.concatenate([[True], (index[1:] != index[:-1]) | (which[1:] != which[:-1])])
    return index[first], which[first], metres[first]


def _distinct(index: Ints, metres: Floats) -> tuple[Ints, Floats]:
    order = np.lexsort((metres, index))
    index, metres = index[order], metres[order]
    first = np.ones(len(index), dtype=np.bool_)
    first[1:] = (index[1:] != index[:-1]) | (metres[1:] != metres[:-1])
    return index[first], metres[first]
