"""Positions that airplanes near Paris sent by ADS-B, from the package `traffic`, recorded by the OpenSky Network."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl

from cep.demos.jetstream.positions import place

NAME = "quickstart.json.gz"
EVERY = 10_000_000
"""The microseconds between two positions of an airplane. One position in ten is used."""


def file() -> Path:
    """Return the file with the positions. Raises CepError if the package is not installed."""
    return place().with_name(NAME)


def positions() -> pl.DataFrame:
    """Return three hours of positions near the airports of Paris on 2021-10-07, one row per airborne airplane and 10
    seconds, in order of time.

    Columns: timestamp (microseconds UTC, multiples of ten seconds), callsign, latitude and longitude (degrees),
    altitude (feet), track (degrees), vertical_rate (feet per minute). Raises CepError if the package is not installed.
    """
    table = pl.read_json(gzip.decompress(file().read_bytes()))
    names = ("callsign", "latitude", "longitude", "altitude", "track", "vertical_rate")
    airborne = table.filter(~pl.col("onground")).select(pl.col("timestamp") * 1000, *names).drop_nulls()
    return (
        airborne.sort("timestamp", "callsign", maintain_order=True)
        .with_columns(pl.col("timestamp") // EVERY * EVERY)
        .unique(["timestamp", "callsign"], keep="first", maintain_order=True)
    )
