"""Writers of derived events to JSON Lines, CSV and Parquet. After a stopped run, each file ends with a whole line."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from cep.connectors.addresses import live
from cep.connectors.brokers.sending import Sending, with_ids
from cep.connectors.formats.known import FORMATS
from cep.connectors.inputs import known_format
from cep.connectors.records.revised import WITHDRAW
from cep.connectors.records.times import ISO, SECOND, SECONDS
from cep.connectors.writing.json_lines import TextPieces, as_is, as_json, lines, merged, ticks_text
from cep.connectors.writing.lineage import BECAUSE, because
from cep.connectors.writing.row_groups import ParquetGroups
from cep.connectors.writing.sinks import Sink
from cep.connectors.writing.unordered_rows import WrittenRows
from cep.connectors.writing.unordered_rows import in_order as texts_in_order
from cep.core.errors import CepError
from cep.core.fluents import CHANGES, EDGE
from cep.core.schema import CHANGE, Attribute, Schema
from cep.core.storage.urls import is_url, local_path
from cep.core.time import BEGINNING, END_OF_TIME

WRITTEN = tuple(name for name, format in FORMATS.items() if format.written)
"""The formats that this module writes."""
RDF_SUFFIXES: Mapping[str, str] = {
    ".nq": "nquads",
    ".nt": "ntriples",
    ".ttl": "turtle",
    ".trig": "trig",
    ".jsonld": "jsonld",
}
OUTPUT_FORMATS = (*WRITTEN, *RDF_SUFFIXES.values(), "rtec")
"""All output formats. Other modules write RDF and RTEC."""

_ARROW: Mapping[str, Any] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us", "UTC"),
    "duration": pa.float64(),
}
_ARROW_TIME = pl.Datetime("us", "UTC")
_OPEN = {"end": END_OF_TIME, "time": BEGINNING}
"""The time that replaces null in a time column when rows are sorted. An interval without an end is sorted last. The
beginning of a fluent that holds from the beginning of time is sorted first."""


def rdf_format(path: str, format: str | None) -> str | None:
    """Return the RDF format of an output, or None if the output is not RDF.

    `format`: the format that the user chose. If it is None, the suffix of the path selects the format.
    """
    if format is not None:
        return format if format in RDF_SUFFIXES.values() else None
    return RDF_SUFFIXES.get(os.path.splitext(path.removesuffix(".gz"))[1].lower())


class Writer:
    """A writer of derived events to the file `path`, to standard output (`-`), or as messages to a broker's topic.

    A JSON Lines file contains all event types. Within each call of `write`, it is sorted by (end, start, type). A CSV
    or Parquet file contains one event type. If the program derives several event types, `out.csv` becomes
    `out.<type>.csv` for each of them. If the path is an existing directory or ends in `/`, each event type has a file
    `<type>.<suffix>` in the directory. An event type without events also has a file.

    A missing value is null, or an empty field in CSV. Durations are in seconds. In CSV and Parquet, values of type
    `any` are text. Durations in Parquet are exact below 2**33 seconds.

    - `times`: the format of times (see `cep.connectors.records.times`). It can be changed until the first call of
      `write`. Parquet files always contain timestamps. The `id`s of messages do not depend on this format.
    - `inputs`: the schemas of the input events if lineage is written, otherwise None. If lineage is written, the tables
      must contain it in a column.
    - `opening`: a function that is called with each path before the file is opened. It may raise an error.
    """

    def __init__(
        self,
        path: str,
        schemas: Mapping[str, Schema],
        *,
        times: str = ISO,
        format: str | None = None,
        inputs: Mapping[str, Schema] | None = None,
        opening: Callable[[str], None] | None = None,
    ) -> None:
        path = local_path(path)
        self.times = times
        self.counts = dict.fromkeys(schemas, 0)
        self._schemas = schemas
        self._inputs = inputs
        directory = path != "-" and not live(path) and (os.path.isdir(path) or path.endswith("/"))
        self.format = format or ("jsonl" if path == "-" or directory or live(path) else _format(path))
        if self.format not in WRITTEN:
            hint = f"formats are {', '.join(OUTPUT_FORMATS)}"
            raise CepError(f"--output-format: `{format}` is not a format", hint=hint, code="output")
        if live(path) and self.format != "jsonl":
            raise CepError(f"--output: messages are JSON, not {self.format}", code="output")
        self._single = self.format == "jsonl" and not directory
        self.paths = self._places(path, directory)
        if opening is not None:
            for place in dict.fromkeys(self.paths.values()):
                opening(place)
        if self.format == "parquet":
            self._groups = {type: ParquetGroups(place, self._arrow(type)) for type, place in self.paths.items()}
            self._sinks: dict[str, Sink | Sending] = {}
        elif live(path):
            self._sinks = {path: Sending(path, schemas)}
        else:
            self._sinks = {place: Sink(place) for place in dict.fromkeys(self.paths.values())}
            for type, place in self.paths.items() if self.format in ("csv", "tsv") else ():
                self._sinks[place].write(self._delimited(type, None))

    def write(self, tables: Mapping[str, pl.DataFrame]) -> int:
        """Write derived events, and return the number of events. `tables`: one table per event type.

        A table has the columns `start` and `end`, the attributes, and `because` if lineage is written.
        """
        tables = {type: tables[type] for type in self._schemas if type in tables and tables[type].height}
        for type, table in tables.items():
            self.counts[type] += table.height
        if self._single and tables:
            ((place, sink),) = self._sinks.items()
            if any(isinstance(table, WrittenRows) for table in tables.values()):
                for piece in self._merged(tables):
                    sink.write(piece)
                return sum(table.height for table in tables.values())
            written = self._lines(tables)
            if live(place) and self.times != ISO:
                written = with_ids(written, self._lines(tables, ISO))
            sink.write(written)
        elif self.format == "parquet":
            for type, table in tables.items():
                self._groups[type].add(self._typed(type, self._timed(table)))
        else:
            for type, table in tables.items():
                if isinstance(table, WrittenRows):
                    for piece in self._merged({type: table}):
                        self._sinks[self.paths[type]].write(piece)
                    continue
                text = self._lines({type: table}) if self.format == "jsonl" else self._delimited(type, table)
                self._sinks[self.paths[type]].write(text)
        return sum(table.height for table in tables.values())

    @property
    def of_rows(self) -> str | None:
        """The format to which other processes may convert rows (`written_rows`), or None if they must not."""
        plain = self.format != "parquet" and self._inputs is None
        return self.format if plain and not any(isinstance(sink, Sending) for sink in self._sinks.values()) else None

    def write_beside(self) -> None:
        """From now on, write each Parquet file's row groups in a thread, while the caller collects the next one."""
        for group in self._groups.values() if self.format == "parquet" else ():
            group.write_beside()

    def close(self) -> None:
        for sink in self._sinks.values():
            sink.close()
        if self.format == "parquet":
            for group in self._groups.values():
                group.close()

    def discard(self) -> None:
        """Close the files without completing them. Nothing is uploaded to the address of a stored object."""
        for output in (*self._sinks.values(), *(self._groups.values() if self.format == "parquet" else ())):
            output.discard()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close() if kind is None else self.discard()

    def _places(self, path: str, directory: bool) -> dict[str, str]:
        """Return the path of each event type's file."""
        if self._single:
            return dict.fromkeys(self._schemas, path) or {"": path}
        if path == "-":
            if self.format == "parquet" or len(self._schemas) > 1:
                raise CepError(
                    f"{self.format} cannot be written to standard output",
                    hint="a file of this format holds one event type: use `--output` with a file or folder, or jsonl",
                    code="output",
                )
            return dict.fromkeys(self._schemas, path)
        if directory:
            if not is_url(path):
                os.makedirs(path, exist_ok=True)
            return {type: os.path.join(path, f"{type}.{self.format}") for type in self._schemas}
        if len(self._schemas) == 1:
            return dict.fromkeys(self._schemas, path)
        stem, suffix = os.path.splitext(path.removesuffix(".gz"))
        suffix += path[len(path.removesuffix(".gz")) :]
        return {type: f"{stem}.{type}{suffix}" for type in self._schemas}

    def _lines(self, tables: Mapping[str, pl.DataFrame], times: str | None = None) -> bytes:
        timed = {type: self._timed(table, times) for type, table in tables.items()}
        return json_lines(timed, self._schemas, times or self.times, self._inputs is not None)

    def _merged(self, tables: Mapping[str, pl.DataFrame]) -> Iterator[memoryview]:
        """Yield the lines of all tables in the order of the output. Each piece contains the lines of some rows. The
        tables must not have lineage.

        A table may be `WrittenRows`, whose rows have already been converted to text.
        """
        parts: list[tuple[Sequence[TextPieces], NDArray[np.int64]]] = []
        for type, table in tables.items():
            if isinstance(table, WrittenRows):
                parts.append((table.parts, table.order))
            else:
                rows = _json_rows(type, table, self._schemas[type], self.times, False)
                parts.append(([rows], np.arange(table.height)))
        return texts_in_order(parts, _line_order(tables, self._schemas) if self.format == "jsonl" else None)

    def _timed(self, table: pl.DataFrame, times: str | None = None) -> pl.DataFrame:
        if self._inputs is None:
            return table
        return table.with_columns(because(table[BECAUSE], self._inputs, times or self.times))

    def _delimited(self, type: str, table: pl.DataFrame | None) -> bytes:
        schema = self._schemas[type]
        if table is not None:
            return _delimited_rows(self._timed(table), schema, self.format, self.times, self._inputs is not None)
        keys = [*time_columns(schema), *(attribute.name for attribute in schema.attributes), *_more(schema)]
        keys += [BECAUSE] if self._inputs is not None else []
        return _as_csv(
            pl.DataFrame({key: [] for key in keys}, schema=dict.fromkeys(keys, pl.String)), self.format, True
        )

    def _arrow(self, type: str) -> pa.Schema:
        columns = arrow(self._schemas[type])
        return columns if self._inputs is None else columns.append(pa.field(BECAUSE, pa.large_string()))

    def _typed(self, type: str, table: pl.DataFrame) -> pl.DataFrame:
        rows = typed(table, self._schemas[type])
        return rows if self._inputs is None else rows.with_columns(table[BECAUSE])


def written_rows(type: str, table: pl.DataFrame, schema: Schema, format: str, times: str) -> TextPieces:
    """Convert the rows of an event type to lines of text, for use in `WrittenRows`. The rows must not have lineage.

    `format`: `jsonl`, `csv` or `tsv`. `times`: the format of times.
    """
    if format == "jsonl":
        return _json_rows(type, table, schema, times, False)
    text = _delimited_rows(table, schema, format, times, False)
    data = np.frombuffer(text, np.uint8)
    breaks = data == ord("\n")
    if b'"' in text:  # lines may end within quotes
        breaks &= np.bitwise_and(np.cumsum(data == ord('"'), dtype=np.uint8), 1) == 0
    ends = np.flatnonzero(breaks) + 1
    return TextPieces(data, np.concatenate([[0], ends]))


def _delimited_rows(table: pl.DataFrame, schema: Schema, format: str, times: str, lineage: bool) -> bytes:
    columns = [_first_field(table[key], times) for key in time_columns(schema)]
    columns += [_field(table[attribute.name], attribute, times) for attribute in schema.attributes]
    columns += [table[key] for key in _more(schema)] + ([table[BECAUSE]] if lineage else [])
    return _as_csv(pl.DataFrame(columns), format, False)


def _as_csv(table: pl.DataFrame, format: str, header: bool) -> bytes:
    out = io.BytesIO()
    table.write_csv(out, include_header=header, separator="," if format == "csv" else "\t")
    return out.getvalue()


def _json_rows(type: str, table: pl.DataFrame, schema: Schema, times: str, lineage: bool) -> TextPieces:
    keys = [*time_columns(schema), *(attribute.name for attribute in schema.attributes), *_more(schema)]
    columns = [as_json(table[key], "string" if key == EDGE else "time", times) for key in time_columns(schema)]
    columns += [as_json(table[attribute.name], attribute.type, times) for attribute in schema.attributes]
    columns += [as_json(table[key], "string", times) for key in _more(schema)]
    if lineage:
        keys.append(BECAUSE)
        columns.append(as_is(table[BECAUSE]))
    return lines(keys, type, columns)


def json_lines(tables: Mapping[str, pl.DataFrame], schemas: Mapping[str, Schema], times: str, lineage: bool) -> bytes:
    """Convert derived events to lines of JSON, sorted by (end, start, type). Withdrawn rows come first.

    `times`: the format of times. `lineage`: True if the tables have a lineage column.
    """
    parts = [_json_rows(type, table, schemas[type], times, lineage) for type, table in tables.items()]
    return merged(parts, _line_order(tables, schemas))


def _line_order(tables: Mapping[str, pl.DataFrame], schemas: Mapping[str, Schema]) -> NDArray[np.int64]:
    times = [[key for key in time_columns(schemas[type]) if key != EDGE] for type in tables]
    pairs = list(zip(tables.values(), times))
    start = np.concatenate([table[keys[0]].fill_null(BEGINNING).to_numpy() for table, keys in pairs])
    end = np.concatenate([table[keys[-1]].fill_null(_OPEN[keys[-1]]).to_numpy() for table, keys in pairs])
    if not any(CHANGE in table.columns for table, _ in pairs):
        return _by_time(start, end)
    added = np.concatenate([(table[CHANGE] != WITHDRAW).to_numpy() for table, _ in pairs])
    return np.lexsort((start, end, added))


def _by_time(start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the order of rows by end and then start, as `np.lexsort((start, end))` does, but faster if the rows of
    each table are already sorted."""
    order = np.argsort(end, kind="stable")
    starts, ends = start[order], end[order]
    if ((ends[1:] == ends[:-1]) & (starts[1:] < starts[:-1])).any():
        return np.lexsort((start, end))
    return order


def arrow(schema: Schema) -> pa.Schema:
    """Return the Parquet schema of an event type."""
    fields = [(key, _ARROW.get("string" if key == EDGE else "time", pa.large_string())) for key in time_columns(schema)]
    fields += [(attribute.name, _ARROW.get(attribute.type, pa.large_string())) for attribute in schema.attributes]
    return pa.schema(fields + [(key, pa.large_string()) for key in _more(schema)])


def time_columns(schema: Schema) -> list[str]:
    """Return the names of an event type's time columns. In an output, they precede the attributes."""
    return [EDGE, "time"] if schema.fluent is not None and schema.fluent.part == CHANGES else ["start", "end"]


def _more(schema: Schema) -> list[str]:
    """Return the columns that are neither times nor attributes: the bounds of intervals, for a fluent."""
    return [] if schema.fluent is None else ["bounds"]


def typed(table: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Convert a table of derived events to the column types of Parquet."""
    columns = [table[key] if key == EDGE else table[key].cast(_ARROW_TIME) for key in time_columns(schema)]
    for attribute in schema.attributes:
        column = table[attribute.name]
        if attribute.type == "time":
            column = column.cast(pl.Datetime("us", "UTC"))
        elif attribute.type == "duration":
            exact = column.cast(pl.Float64).to_numpy() / SECOND  # polars multiplies by the reciprocal
            column = pl.Series(attribute.name, exact).fill_nan(None)
        elif attribute.type == "any":
            column = _field(column, attribute, ISO)
        columns.append(column)
    return pl.DataFrame([*columns, *(table[key] for key in _more(schema))])


def _format(path: str) -> str:
    """Return the format that the suffix of a path selects. For a path without a suffix, return JSON Lines."""
    suffix = os.path.splitext(os.path.basename(path).removesuffix(".gz"))[1]
    format = known_format(path) or ("jsonl" if not suffix else None)
    if format not in WRITTEN:
        raise CepError(
            f"{path}: the format is not known from the name"
            if format is None
            else f"{path}: derived events are not written as {format}",
            hint="use a name that ends in .jsonl, .csv, .tsv or .parquet, or add `--output-format jsonl`",
            code="output",
        )
    return format


def _first_field(column: pl.Series, times: str) -> pl.Series:
    return column if column.name == EDGE else ticks_text(column, times).alias(column.name)


def _field(column: pl.Series, attribute: Attribute, times: str) -> pl.Series:
    if attribute.type in ("time", "duration"):
        return ticks_text(column, times if attribute.type == "time" else SECONDS).alias(attribute.name)
    if column.dtype == pl.Object:
        texts = [value if value is None or isinstance(value, str) else _plain(value) for value in column.to_list()]
        return pl.Series(attribute.name, texts, dtype=pl.String)
    if column.dtype.is_float():
        column = column.set(~column.is_finite().fill_null(False), None) + 0.0
    return column.cast(pl.String)


def _plain(value: int | float | bool) -> str:
    return str(value).lower()
