"""Records of a sensor, and how tests read them."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from cep.connectors.formats.jsonl import LineReader
from cep.connectors.records.batch import DeadLetter
from cep.connectors.records.records import Record, read_events
from cep.connectors.records.values import Unreadable
from cep.core.schema import Attribute, Schema

SENSOR = Schema(
    "sensor",
    (
        Attribute("id", "string"),
        Attribute("wind", "float"),
        Attribute("count", "int", optional=True),
        Attribute("wet", "bool", optional=True),
        Attribute("place", "iri", optional=True),
        Attribute("seen", "time", optional=True),
        Attribute("lasting", "duration", optional=True),
    ),
    declared=True,
    point=False,
)
LOOSE = Schema("a", (Attribute("arg1", "any"), Attribute("arg2", "any")), declared=False, point=False)
POINT = Schema("p", (Attribute("v", "float", source="value"),), declared=True, point=True, time="at")
SPAN = Schema("s", (Attribute("v", "int"),), declared=True, point=False, start="from", end="to")
SCHEMAS = {schema.name: schema for schema in (SENSOR, LOOSE, POINT, SPAN)}


def fast(
    data: bytes, default: str | None = None, bound: bool = False
) -> tuple[dict[str, pl.DataFrame], list[DeadLetter], list[tuple[int, Record]]]:
    """What the column-wise reader makes of some lines; its tables as records by order, too."""
    tables, dead, block = LineReader(SCHEMAS, default, bound).read("f", data, 0, 1, 0)
    for record in dead:
        assert record.text == data.split(b"\n")[record.line - 1].decode("utf-8", "replace").strip("\r")
    assert block.count == len(dead) + sum(table.height for table in tables.values())
    found = []
    for type, table in tables.items():
        for start, end, order, *values in zip(*[table[name].to_list() for name in table.columns]):
            found.append((order, Record(type, start, end, tuple(values))))
    return {type: table for type, table in tables.items() if table.height}, dead, sorted(found, key=lambda one: one[0])


def read_line(line: bytes, schemas: Mapping[str, Schema], default: str | None = None, bound: bool = False) -> Record:
    """Return the event of one line of JSON. Unreadable: it is not an event."""
    (event,) = read_events(line, schemas, default, bound)
    if isinstance(event, Unreadable):
        raise event
    return event
