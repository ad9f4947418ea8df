"""Rows that are refused as records again, by their values: what was read is not known where a stage runs."""

from __future__ import annotations

import numpy as np
import polars as pl

from cep.core.schema import Schema
from connectors.writers import json_lines


def records(table: pl.DataFrame, schema: Schema, times: str) -> list[str]:
    """A line of JSON for each row, in their order; `times` are `iso` or `seconds`."""
    if not table.height:
        return []
    written = json_lines({schema.name: table}, {schema.name: schema}, times == "iso", False).decode().split("\n")
    order = np.lexsort((table["start"].to_numpy(), table["end"].to_numpy()))  # as it is written
    found = [""] * table.height
    for row, line in zip(order.tolist(), written):
        found[row] = line
    return found
