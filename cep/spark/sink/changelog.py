"""Derived events as a changelog. Each row has `@change` (added or withdrawn), the occurrence's `@id`, and a `@version`.

The versions of an `@id` increase. They are odd for added rows and even for withdrawn rows, so the row with the highest
version shows the current state. Versions are computed from the number of the micro-batch, so a repeated micro-batch
writes the same versions.

A row can only be withdrawn after it was added, and only be added again after it was withdrawn. So the net result
consists of the rows that were added more often than withdrawn. It does not depend on the order of the files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from cep.connectors.records.revised import VERSION, as_written, worded
from cep.core.identity import identified
from cep.core.schema import CHANGE, Schema
from cep.runtime.buckets import stacked


def changelog_schemas(schemas: Mapping[str, Schema]) -> dict[str, Schema]:
    """Return the schemas of derived events, with the columns of a changelog added."""
    return as_written(schemas, versions=True)


def as_changelog(
    tables: Mapping[str, Sequence[pl.DataFrame]],
    schemas: Mapping[str, Schema],
    meanings: Mapping[str, str],
    batch: int,
) -> dict[str, list[pl.DataFrame]]:
    """Convert tables whose `@change` is 1 or -1 to rows of a changelog.

    `meanings`: the fingerprint of each event's rules, for the `@id`. `batch`: the number of the micro-batch.
    """
    changelog = {}
    for event, parts in tables.items():
        table = identified(stacked(parts), schemas[event], meanings[event])
        version = pl.when(pl.col(CHANGE) > 0).then(2 * batch + 1).otherwise(2 * batch).cast(pl.Int64).alias(VERSION)
        changelog[event] = [worded({event: table.with_columns(version).sort(VERSION, maintain_order=True)})[event]]
    return changelog


def is_changelog(file: Path) -> bool:
    """Return True if the first line of a JSON Lines file is a row of a changelog."""
    with file.open("rb") as lines:
        return CHANGE in json.loads(lines.readline() or b"{}")
