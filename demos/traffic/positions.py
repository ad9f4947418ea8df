"""Positions that airplanes sent by ADS-B about Paris, as the package `traffic` has them, by the OpenSky Network."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl

from cep.demos.jetstream.positions import place

NAME = "quickstart.json.gz"
EVERY = 10_000_000
"""Microseconds from one position of an airplane to its next: one of ten is enough."""


def file() -> Path:
    """The file that holds them. CepError: the package is not installed."""
    return place().with_name(NAME)


def positions() -> pl.DataFrame:
    """Three hours about the airports of Paris, 2021-10-07, a row each 10 seconds an airplane in the air, in order of
    time.

    Columns: timestamp (microseconds UTC, whole tens of seconds), callsign, latitude and longitude (degrees), altitude
    (feet), track (degrees), vertical_rate (feet a minute). Raises CepError if the package is not installed.
    """
    table = pl.read_json(gzip.decompress(file().read_bytes()))
    names = ("callsign", "latitude", "longitude", "altitude", "track", "vertical_rate")
    airborne = table.filter(~pl.col("onground")).select(pl.col("timestamp") * 1000, *names).drop_nulls()
    return (
        airborne.sort("timestamp", "callsign", maintain_order=True)
        .with_columns(pl.col("timestamp") // EVERY * EVERY)
        .unique(["timestamp", "callsign"], keep="first", maintain_order=True)
    )
