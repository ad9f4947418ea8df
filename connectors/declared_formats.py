"""Formats that declarations name, checked before any input is read."""

from __future__ import annotations

from collections.abc import Mapping

from cep.core.schema import Schema
from connectors.formats.influx import PointReader
from connectors.formats.packs import PackReader
from connectors.formats.prometheus import SampleReader
from connectors.inputs import PACKS


def check_formats(schemas: Mapping[str, Schema]) -> None:
    """CepError: records of the format that a declaration names cannot hold its event or fluent."""
    formats = {name: schema.records.name for name, schema in schemas.items() if schema.records is not None}
    for name, format in formats.items():
        if format in PACKS:
            PackReader(schemas[name], format)
    if points := {name: schemas[name] for name, format in formats.items() if format == "influx"}:
        PointReader(points, None, False)
    if samples := {name: schemas[name] for name, format in formats.items() if format == "prometheus"}:
        SampleReader(samples, None, False)
