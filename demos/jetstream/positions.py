"""Positions that airplanes sent by ADS-B, from the package `traffic`, recorded by the OpenSky Network."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path

import polars as pl

from cep.app.durations import refuse

FILE = Path("data", "samples", "collections", "switzerland.json.gz")
COMMAND = "pip install --no-deps traffic"
"""The command that installs the package. Its data need none of the many dependencies of its code."""


def place() -> Path:
    """Return the file with the positions, without importing the package. Raises CepError if it is not installed."""
    spec = find_spec("traffic")
    path = None if spec is None or spec.origin is None else Path(spec.origin).parent / FILE
    if path is None or not path.exists():
        raise refuse("the demo reads the positions in the package traffic", f"do `{COMMAND}`")
    return path


def positions() -> pl.DataFrame:
    """Return the positions over Switzerland on 2018-08-01, one row per airplane and 10 seconds, in order of time.

    Columns: time (microseconds UTC), callsign, latitude and longitude (degrees), altitude (feet), track (degrees),
    vertical_rate (feet per minute). Raises CepError if the package is not installed.
    """
    table = pl.read_json(gzip.decompress(place().read_bytes()))
    names = ("callsign", "latitude", "longitude", "altitude", "track", "vertical_rate")
    return table.select(pl.col("timestamp").alias("time") * 1000, *names).sort("time", "callsign", maintain_order=True)
