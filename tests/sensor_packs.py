"""Packs, pages and lines of sensor data, read by tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from cep.connectors.files import read
from cep.connectors.records.batch import Batch, DeadLetter
from cep.core.schema import Schema
from cep.engine import Engine

SECOND = 1_000_000


def schemas(*declarations: str) -> dict[str, Schema]:
    names = [text.split("(")[0].removeprefix("event ") for text in declarations]
    firsts = [text.split("(")[1].split(":")[0] for text in declarations]
    rules = [f"found{i}(X) <- {name}({first}: X)." for i, (name, first) in enumerate(zip(names, firsts))]
    engine = Engine.from_text("\n".join([*declarations, *rules]))
    return {name: engine.plan.schemas[name] for name in names}


def everything(batches: list[Batch]) -> tuple[dict[str, pl.DataFrame], list[DeadLetter]]:
    found: dict[str, list[pl.DataFrame]] = {}
    for batch in batches:
        for name, table in batch.tables.items():
            found.setdefault(name, []).append(table)
    return {name: pl.concat(parts) for name, parts in found.items()}, [one for batch in batches for one in batch.dead]


def rows(
    folder: Path, declaration: str, text: str, name: str = "data.json", format: str | None = None
) -> tuple[list[tuple[Any, ...]], list[tuple[int, str]]]:
    """(start, end and values of each event; line and reason of each dead letter) of a file of this text."""
    (folder / name).write_text(text)
    known = schemas(declaration)
    tables, dead = everything(list(read([str(folder / name)], known, format=format)))
    (found,) = (list(tables.values()) or [pl.DataFrame({"@order": []})])[:1]
    return found.drop("@order").rows(), [(one.line, one.reason) for one in dead]
