"""Files read by tests: their rows, their dead letters, and their errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cep.connectors.files import read
from cep.connectors.records.batch import Batch
from cep.core.errors import CepError
from cep.core.schema import Attribute, Schema

READING = Schema(
    "reading",
    (
        Attribute("station", "string", source="origin"),
        Attribute("wind", "float", source="wind_speed"),
        Attribute("gust", "float", optional=True),
    ),
    declared=True,
    point=True,
    time="time_hour",
)
TICK = Schema("tick", (Attribute("n", "int"),), declared=True, point=False)
LOOSE = Schema("loose", (Attribute("arg1", "any"),), declared=False, point=False)
BOTH = {"reading": READING, "tick": TICK}
TICKS = {"tick": TICK}


def rows(batches: Iterator[Batch] | list[Batch]) -> list[tuple[Any, ...]]:
    """(type, start, end, order, attributes...) of all batches, by order."""
    found = [(type, *row) for batch in batches for type, table in batch.tables.items() for row in table.rows()]
    return sorted(found, key=lambda row: row[3])


def dead(batches: list[Batch]) -> list[tuple[int, str]]:
    return [(record.line, record.code) for batch in batches for record in batch.dead]


def refusal(specs: list[str], schemas: dict[str, Schema], **options: Any) -> str:
    with pytest.raises(CepError) as caught:
        list(read(specs, schemas, **options))
    return str(caught.value)
