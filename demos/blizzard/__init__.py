"""Detect winter storms at the three airports of New York in 2013, from real hourly readings."""

from __future__ import annotations

from pathlib import Path

PROGRAM = Path(__file__).with_name("areas.cep")
LASTING = Path(__file__).with_name("on.cep")
REVISED = Path(__file__).with_name("revised.cep")
OFFICIAL = Path(__file__).with_name("noaa.cep")


def readings() -> list[str]:
    """Return the input of the demo in the form of `--input`. Raises CepError if it is not installed."""
    from cep.demos.run import weather

    return [f"reading={weather()}"]
