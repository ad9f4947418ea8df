"""Airports, heliports and seaplane bases from the packages airportsdata and avwx-engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from cep.core.errors import CepError
from cep.knowledge.gazetteers.gazetteer import NO_CODES, NO_LINKS, DatasetOrigin, Gazetteer
from cep.knowledge.gazetteers.packages import data, package_records
from cep.knowledge.rdf.namespaces import OWN

AIRPORTSDATA = DatasetOrigin(
    "https://github.com/mborsetti/airportsdata",
    "airportsdata",
    "https://spdx.org/licenses/MIT",
    "Airport data: airportsdata (https://github.com/mborsetti/airportsdata), © 2020- Mike Borsetti, © 2014 mwgg, MIT",
)
AVWX = DatasetOrigin(
    "https://github.com/avwx-rest/avwx-engine",
    "avwx-engine",
    "https://spdx.org/licenses/MIT",
    "Airport and heliport data: avwx-engine (https://github.com/avwx-rest/avwx-engine), © 2015 Michael duPont, MIT, "
    "from OurAirports (https://ourairports.com/), public domain",
)
FOOT = 0.3048
"""The length of a foot in metres."""

_KINDS = {
    "large_airport": "AIRP",
    "medium_airport": "AIRP",
    "small_airport": "AIRP",
    "heliport": "AIRH",
    "seaplane_base": "AIRS",
    "balloonport": "AIRF",
    "weather_station": "STNM",
}
"""For each kind of aerodrome in OurAirports and avwx-engine, its feature code in GeoNames."""


def airportsdata() -> Gazetteer:
    """Return the airports and landing strips of the world. Their IRIs look like `urn:semcep:airportsdata:KEWR`.

    The package does not state the kind of a place. So the feature code is AIRH if the name says "heliport", AIRS if it
    says "seaplane base", and AIRP otherwise. The package states elevations in feet, and warns that many are wrong.
    """
    file = data("airportsdata", "airports.csv")
    try:
        table = pl.read_csv(
            file,
            schema_overrides={"icao": pl.String, "iata": pl.String, "lid": pl.String, "elevation": pl.Float64},
            infer_schema_length=None,
        )
        kind = pl.when(pl.col("name").str.contains(r"Heliport")).then(pl.lit("AIRH"))
        features = table.select(
            "name",
            "lat",
            "country",
            "city",
            "iata",
            long="lon",
            iri=OWN + "airportsdata:" + pl.col("icao"),
            code=kind.when(pl.col("name").str.contains("Seaplane Base")).then(pl.lit("AIRS")).otherwise(pl.lit("AIRP")),
            alt=(pl.col("elevation") * FOOT).round(1),
            # The package invents codes for airports without one; drop these.
            icao=pl.when(pl.col("icao").str.contains("^[A-Z]{4}$")).then("icao"),
            local="lid",
            **{"class": pl.lit("S")},
        )
    except (pl.exceptions.PolarsError, OSError) as error:
        raise CepError(f"{file}: {error}: install another version of the package", code="places") from None
    empty = [pl.when(pl.col(name) != "").then(name).alias(name) for name in ("iata", "local")]
    return Gazetteer(AIRPORTSDATA, features.with_columns(empty), NO_LINKS, NO_CODES)


def avwx() -> Gazetteer:
    """Return the aerodromes and weather stations of avwx-engine. Their IRIs look like `urn:semcep:avwx:KEWR`."""
    return avwx_stations(data("avwx", "data/files/stations.json", "avwx-engine"))


def avwx_stations(file: Path) -> Gazetteer:
    """Read a file of stations in the format of avwx-engine.

    All heliports get the feature code AIRH. The file does not say which of them belong to hospitals, except in their
    names.
    """
    stations = package_records(file, _avwx)
    rows = [(key, *values) for key, values in stations.items()]
    schema = {"key": pl.String, "name": pl.String, "lat": pl.Float64, "long": pl.Float64, "alt": pl.Float64}
    schema |= dict.fromkeys(("country", "city", "icao", "iata", "local", "kind"), pl.String)
    table = pl.DataFrame(rows, schema=schema, orient="row")
    unknown = table.filter(~pl.col("kind").is_in(list(_KINDS)))
    if unknown.height:
        raise CepError(
            f"{file}: {unknown['key'][0]} is a `{unknown['kind'][0]}`: install another version of the package",
            code="places",
        )
    features = table.select(
        "name",
        "lat",
        "long",
        "alt",
        "country",
        "city",
        "icao",
        "iata",
        "local",
        iri=OWN + "avwx:" + pl.col("key"),
        code=pl.col("kind").replace_strict(_KINDS),
        **{"class": pl.lit("S")},
    )
    return Gazetteer(AVWX, features, NO_LINKS, NO_CODES)


def _avwx(record: dict[str, Any]) -> Any:
    if "ident1" in record:
        return None  # a runway
    if "latitude" not in record:
        return record  # the whole file is an object by key
    return (
        record["name"],
        record["latitude"],
        record["longitude"],
        record["elevation_m"],
        record["country"],
        record["city"],
        record["icao"],
        record["iata"],
        record["local"],
        record["type"],
    )
