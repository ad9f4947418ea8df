"""Derived events as a changelog: each row says whether it is added or withdrawn (`@change`), of which occurrence
(`@id`), and its `@version`.

The versions of one `@id` rise, those that are added are odd, those that are withdrawn even: the highest says what is
there. They come from the number of the micro-batch, so a micro-batch that is done again writes the same. A row is added
at most once before it is withdrawn, and withdrawn only while it is there: so the rows that were added more often than
withdrawn are the net result, in whatever order they are read.
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
    """Derived events as rows of the changelog."""
    return as_written(schemas, versions=True)


def as_changelog(
    tables: Mapping[str, Sequence[pl.DataFrame]],
    schemas: Mapping[str, Schema],
    meanings: Mapping[str, str],
    batch: int,
) -> dict[str, list[pl.DataFrame]]:
    """Tables with `@change` (1, -1) as they are written in the micro-batch of this number."""
    found = {}
    for event, each in tables.items():
        table = identified(stacked(each), schemas[event], meanings[event])
        version = pl.when(pl.col(CHANGE) > 0).then(2 * batch + 1).otherwise(2 * batch).cast(pl.Int64).alias(VERSION)
        found[event] = [worded({event: table.with_columns(version).sort(VERSION, maintain_order=True)})[event]]
    return found


def is_changelog(file: Path) -> bool:
    """Return True if the first of these lines of JSON is a row of a changelog."""
    with file.open("rb") as lines:
        return CHANGE in json.loads(lines.readline() or b"{}")
