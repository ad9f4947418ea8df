"""Conversion of the lineage of derived events to JSON. Times are written in the format of the output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import polars as pl

from cep.connectors.records.times import FIRST, ISO, LAST, SECONDS, iso, time_text
from cep.core.schema import Schema

BECAUSE = "because"
"""The column that contains the lineage of a derived event. Its JSON text is a list of input events."""


def because(column: pl.Series, schemas: Mapping[str, Schema], times: str) -> pl.Series:
    """Convert a column of lineage from the engine to JSON, for an output. Durations are in seconds.

    `schemas`: the schemas of the input events. `times`: the format of times (see `cep.connectors.records.times`).
    """
    ticks = {
        type: {"start": "time", "end": "time"}
        | {attribute.name: attribute.type for attribute in schema.attributes if attribute.type in ("time", "duration")}
        for type, schema in schemas.items()
    }

    def written(event: dict[str, Any]) -> str:
        kinds = ticks[event["type"]]
        fields = (f"{_text(key)}: {_value(value, kinds.get(key), times)}" for key, value in event.items())
        return f"{{{', '.join(fields)}}}"

    texts = [f"[{', '.join(map(written, json.loads(text)))}]" for text in column.to_list()]
    return pl.Series(column.name, texts, dtype=pl.String)


def _value(value: Any, kind: str | None, times: str) -> str:
    if kind is None or value is None:
        return _text(value)
    if times == ISO and kind == "time" and FIRST <= value <= LAST:
        return f'"{iso(value)}"'
    return time_text(value, times if kind == "time" else SECONDS)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
