"""The records of a test. They come from the test file and from other files, and are sorted by arrival."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.connectors.files import read
from cep.connectors.formats.known import FORMATS
from cep.connectors.inputs import inputs
from cep.connectors.records.batch import Batch, DeadLetter
from cep.connectors.records.order import one_table
from cep.connectors.records.revised import changes_of, with_changes
from cep.connectors.records.times import SECOND
from cep.connectors.why.origins import Origins
from cep.connectors.writing.time_format import number_size
from cep.core.errors import CepError, Span, mistakes_together
from cep.core.schema import ARRIVAL, Schema
from cep.core.suggest import did_you_mean
from cep.testing.rule_files import RuleTest
from cep.testing.yaml_tree import Value

SUFFIXES = {name: format.suffixes[0] for name, format in FORMATS.items() if format.suffixes}


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a test, in one table per event type, and their order of arrival.

    - `types`, `rows`: for each record in order of arrival, the number of its table and its row in this table.
    - `dead`: the records that could not be read.
    - `unit`: the unit of a time that is written as a bare number, in microseconds. It is None if the unit is unknown.
    """

    tables: Mapping[str, pl.DataFrame]
    types: NDArray[np.int64]
    rows: NDArray[np.int64]
    ends: NDArray[np.int64]
    dead: tuple[DeadLetter, ...]
    origins: Origins
    unit: Fraction | None

    @classmethod
    def none(cls) -> Records:
        """Return an object without records. Its `unit` is one second."""
        return _arranged([], {}, Origins(), Fraction(SECOND), False)

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, places: NDArray[np.int64], first: int | None = None) -> dict[str, pl.DataFrame]:
        """Return some of the records as tables. `places`: their positions in the order of arrival.

        `first`: if it is not None, the tables have a column `@order`, which counts from this number.
        """
        batches = {}
        for number, (name, table) in enumerate(self.tables.items()):
            own = np.flatnonzero(self.types[places] == number)
            if len(own):
                rows = table[self.rows[places][own]]
                batches[name] = rows if first is None else rows.with_columns(pl.Series(ARRIVAL, first + own))
        return batches

    def only(self, names: Container[str]) -> Records:
        """Return only the records of the named events."""
        numbers = [number for number, name in enumerate(self.tables) if name in names]
        kept = np.isin(self.types, numbers)
        return replace(self, types=self.types[kept], rows=self.rows[kept], ends=self.ends[kept])


def read_records(test: RuleTest, schemas: Mapping[str, Schema], revises: bool) -> Records:
    """Read the records of a test. Raises CepError if a record cannot be read.

    - `schemas`: the schemas of the program's input events.
    - `revises`: True if records may withdraw or correct earlier records.
    """
    read_as = with_changes(schemas) if revises else dict(schemas)
    origins, batches, specs = Origins(), list[Batch](), list[str]()
    with TemporaryDirectory(prefix="cep-test-") as folder:
        with mistakes_together() as wrong:
            for name, value in test.records:
                first = max((block.beyond for batch in batches for block in batch.blocks), default=0)
                with wrong.kept():
                    spec, own = _given(test, name, value, schemas, Path(folder), read_as, first)
                    specs.append(spec)
                    batches += own
            for value in test.inputs:
                first = max((block.beyond for batch in batches for block in batch.blocks), default=0)
                with wrong.kept():
                    spec = _spec(test, value)
                    specs.append(spec)
                    batches += _read(spec, value, read_as, first)
        unit = number_size(inputs(specs, read_as), read_as)
    if revises:
        batches = list(changes_of(batches))
    for _ in origins.noted(iter(batches)):
        pass
    return _arranged(batches, read_as, origins, unit, revises)


def _given(
    test: RuleTest,
    name: Value,
    value: Value,
    schemas: Mapping[str, Schema],
    folder: Path,
    read_as: Mapping[str, Schema],
    first: int,
) -> tuple[str, list[Batch]]:
    event = name.word("the name of an event")
    if event not in schemas:
        listed = ", ".join(f"`{schema}`" for schema in schemas) or "none"
        hint = did_you_mean(event, list(schemas)) or f"it reads {listed}"
        name.fail(f"the program reads no event `{event}`", hint)
    if value.mapping is not None:
        with mistakes_together() as wrong:
            path = value.known({"path": "a file"}, "a file of records", wrong).get("path")
            if path is None and not wrong:
                wrong.append(value.error("the file of records has no path", "add the path: `{path: readings.csv}`"))
        assert path is not None, "else it is wrong"
        spec = f"{event}={test.file.beside(path)}"
        return spec, _read(spec, path, read_as, first)
    if value.items is not None:
        lines = [(item.line, json.dumps(_record(item), ensure_ascii=False)) for item in value.items]
        text, suffix, numbers = "".join(f"{line}\n" for _, line in lines), ".jsonl", [line for line, _ in lines]
    elif value.line_inside is not None or "\n" in value.word("records"):
        text = value.word("records")
        declared = schemas[event].records
        suffix = SUFFIXES.get("csv" if declared is None else declared.name, ".csv")
        start = value.line_inside or value.line
        numbers = [start + 1 + offset for offset in range(text.count("\n") + 1)]
    else:
        value.fail(
            f"expected records of `{event}`, found {value.kind}", "write CSV below `|`, a list, or `{path: FILE}`"
        )
    path_there = folder / f"{first}{suffix}"
    path_there.write_text(text, encoding="utf-8")
    spec = f"{event}={path_there}"
    try:
        batches = list(read([spec], read_as, first=first))
    except CepError as error:
        raise _of_header(error, path_there, value, schemas[event], numbers[0]) from None
    return spec, [_placed(batch, str(test.file.path), numbers) for batch in batches]


def _of_header(error: CepError, file: Path, value: Value, schema: Schema, line: int) -> CepError:
    """Replace an error about records that are written inside a test file by an error that shows the place in it.

    The place is the first column of the header that is not an attribute of the event. If all columns are attributes, it
    is the first column.
    """
    message = error.message.replace(f"{file}: ", "").replace(str(file), "the records")
    lines = value.source.text.splitlines()
    if value.items is not None or not line <= len(lines):
        return value.error(message, error.hint)
    known = {
        schema.time or "time",
        "time",
        "start",
        "end",
        *(attribute.source or attribute.name for attribute in schema.attributes),
    }
    cells = [(match.start(), match.group().strip()) for match in re.finditer(r"[^,;\t]+", lines[line - 1])]
    start, cell = next((cell for cell in cells if cell[1] and cell[1].strip('"') not in known), cells[0])
    column = lines[line - 1].index(cell, start) + 1
    return CepError(message, value.source, Span(line, column, line, column + len(cell)), error.hint, "test")


def _record(value: Value) -> object:
    if value.mapping is not None:
        return {key: _record(entry) for key, (_, entry) in value.mapping.items()}
    if value.items is not None:
        return [_record(item) for item in value.items]
    return value.scalar


def _spec(test: RuleTest, value: Value) -> str:
    """Return an input of a test in the form of the option `--input`. Its path is relative to the test file's folder."""
    text = value.word("a file of records")
    name, equals, path = text.partition("=")
    if equals and name.isidentifier():
        return f"{name}={test.file.path.parent / path}"
    return str(test.file.path.parent / text)


def _read(spec: str, value: Value, schemas: Mapping[str, Schema], first: int) -> list[Batch]:
    try:
        return list(read([spec], schemas, first=first))
    except CepError as error:
        raise value.error(error.message, error.hint) from None


def _placed(batch: Batch, file: str, numbers: Sequence[int]) -> Batch:
    """Replace the records' places in a temporary file by lines of the test file.

    `numbers`: for each line of the temporary file, the corresponding line of the test file.
    """

    def line(own: int) -> int:
        return numbers[min(max(own, 1), len(numbers)) - 1]

    blocks = []
    for block in batch.blocks:
        lines = [line(block.place(block.first + offset)[1]) for offset in range(block.count)]
        blocks.append(replace(block, file=file, line=line(block.line), lines=np.array(lines, np.int64)))
    dead = [replace(record, file=file, line=line(record.line)) for record in batch.dead]
    return replace(batch, blocks=blocks, dead=dead)


def _arranged(
    batches: Sequence[Batch], schemas: Mapping[str, Schema], origins: Origins, unit: Fraction | None, revises: bool
) -> Records:
    parts: dict[str, list[pl.DataFrame]] = {}
    for batch in batches:
        for name, table in batch.tables.items():
            if table.height:
                parts.setdefault(name, []).append(table)
    tables = {name: one_table(schemas[name], parts[name]) for name in schemas if name in parts}
    columns: list[list[NDArray[np.int64]]] = [[], [], [], []]
    for number, table in enumerate(tables.values()):
        columns[0].append(np.full(table.height, number, np.int64))
        columns[1].append(np.arange(table.height, dtype=np.int64))
        columns[2].append(table["end"].to_numpy())
        columns[3].append(table[ARRIVAL].to_numpy())
    types, rows, ends, orders = (np.concatenate([*column, np.empty(0, np.int64)]) for column in columns)
    order = np.argsort(orders, kind="stable") if revises else np.lexsort((orders, ends))
    dead = tuple(record for batch in batches for record in batch.dead)
    return Records(tables, types[order], rows[order], ends[order], dead, origins, unit)
