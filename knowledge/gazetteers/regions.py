"""Conversion of a GeoNames dump to a gazetteer that also contains the administrative divisions of places."""

from __future__ import annotations

import polars as pl

from cep.knowledge.gazetteers.gazetteer import DatasetOrigin, Gazetteer
from cep.knowledge.gazetteers.geonames import Dump

SWS = "https://sws.geonames.org/"
"""The prefix of IRIs of GeoNames features. GeoNames writes these IRIs with https, not http."""

GEONAMES = DatasetOrigin(
    "https://www.geonames.org/",
    "GeoNames",
    "https://creativecommons.org/licenses/by/4.0/",
    "Place data: GeoNames (https://www.geonames.org/), CC BY 4.0",
)
_LEVELS = (1, 2, 3, 4)
_COUNTRIES = ("PCL", "PCLD", "PCLF", "PCLI", "PCLIX", "PCLS")


def feature(ids: pl.Expr) -> pl.Expr:
    """Return the IRIs of the places that have these geonameids."""
    return SWS + ids.cast(pl.String) + "/"


def regions_gazetteer(dump: Dump) -> Gazetteer:
    """Convert a dump to a gazetteer. Divisions and countries that only the companion files contain also become places.

    `parentADM1` to `parentADM4` and `parentCountry` are derived from the codes of a place. `parentFeature` is read from
    the hierarchy file. If that file does not contain the place, `parentFeature` is the smallest division that contains
    the place. A population of 0 counts as unknown.
    """
    features = _complete(dump)
    parents = _parents(features, dump)
    links = pl.concat(
        [
            parents.select("id", relation=pl.lit(name), other=pl.col(name)).drop_nulls()
            for name in (*(f"parentADM{level}" for level in _LEVELS), "parentCountry", "parentFeature")
        ]
        + [
            dump.hierarchy.join(features, left_on="child", right_on="id", how="semi", maintain_order="left").select(
                id="child", relation=pl.lit("parentFeature"), other="parent"
            )
        ]
    )
    shown = features.select(
        "id",
        "name",
        "lat",
        "long",
        "class",
        "code",
        "country",
        "alternates",
        "timezone",
        iri=feature(pl.col("id")),
        alt=pl.col("elevation"),
        population=pl.when(pl.col("population") > 0).then(pl.col("population")),
    )
    return Gazetteer(
        GEONAMES,
        shown,
        links.select(iri=feature(pl.col("id")), relation="relation", other=feature(pl.col("other"))),
        dump.codes,
    )


def _complete(dump: Dump) -> pl.DataFrame:
    # Return the features, and those that only companion files contain.
    features = dump.features.with_columns(_key(level).alias(f"key{level}") for level in _LEVELS)
    parts = pl.col("key").str.split(".")
    regions = dump.regions.select(
        "id",
        "name",
        **{"class": pl.lit("A")},
        code=pl.when(parts.list.len() == 2).then(pl.lit("ADM1")).otherwise(pl.lit("ADM2")),
        country=parts.list.first(),
        key1=parts.list.head(2).list.join("."),
        key2=pl.when(parts.list.len() > 2).then("key"),
    )
    countries = dump.countries.select("id", "name", "country", "population", **{"class": pl.lit("A")})
    whole = pl.concat([features, regions, countries], how="diagonal")
    return whole.unique("id", keep="first", maintain_order=True)


def _key(level: int) -> pl.Expr:
    # Return a key such as `US.NJ.013`; null if a part is null.
    return pl.concat_str(["country", *(f"admin{i}" for i in range(1, level + 1))], separator=".")


def _parents(features: pl.DataFrame, dump: Dump) -> pl.DataFrame:
    # Return, for each feature, its divisions, its country, and the lowest of them if the hierarchy has no parent.
    own = pl.when(pl.col("class") == "A").then(pl.col("code").str.extract(r"^ADM([1-4])$").cast(pl.Int64))
    joined = features.with_columns(own=own)
    for level in _LEVELS:
        divisions = joined.filter(pl.col("own") == level).select(f"key{level}", division="id")
        if level < 3:
            named = dump.regions.select(pl.col("key").alias(f"key{level}"), division="id")
            divisions = pl.concat([divisions, named])
        joined = joined.join(
            divisions.drop_nulls().unique(f"key{level}", keep="first", maintain_order=True),
            on=f"key{level}",
            how="left",
            maintain_order="left",
        ).rename({"division": f"parentADM{level}"})
    codes = features.filter((pl.col("class") == "A") & pl.col("code").is_in(_COUNTRIES)).select("country", nation="id")
    nations = pl.concat([dump.countries.select("country", nation="id"), codes]).drop_nulls()
    joined = joined.join(
        nations.unique("country", keep="first", maintain_order=True), on="country", how="left", maintain_order="left"
    )
    # At its own level, a division's codes name itself, and so does a country's code.
    other = pl.col("id")
    for level in _LEVELS:
        name, lower = f"parentADM{level}", (pl.col("own") > level) | pl.col("own").is_null()
        joined = joined.with_columns(pl.when(lower & (pl.col(name) != other)).then(name).alias(name))
    joined = joined.with_columns(parentCountry=pl.when(pl.col("nation") != other).then("nation"))
    lowest = pl.coalesce(*(f"parentADM{level}" for level in reversed(_LEVELS)), "parentCountry")
    without_parent = ~pl.col("id").is_in(dump.hierarchy["child"].implode())
    return joined.with_columns(parentFeature=pl.when(without_parent).then(lowest))
