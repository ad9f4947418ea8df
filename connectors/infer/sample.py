"""The first records of a file as columns of values, by the path to each."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from cep.core.errors import CepError
from cep.core.schema import RecordFormat
from connectors.infer.sensors import SENSORS, TIMED, recognised, sensor_options, sensor_records
from connectors.inputs import COMPRESSED, FORMATS, KNOWN
from connectors.paths import EACH, path, written
from connectors.records import parse
from connectors.values import Unreadable

_HEAD = 1 << 16  # bytes by which a format is recognised
SEPARATORS = ";\t|,"
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
KNOWLEDGE = (".ttl", ".nt", ".trig", ".rdf", ".owl")
"""Suffixes of what is no records, but knowledge."""
_LOOKED_AT = 50
"""Lines by which the separator is found."""


@dataclass(slots=True)
class RecordSample:
    """Records of one event: by path the value in each record, None where it is missing. `text`: values are texts of a
    table. `left_out`: paths that no declaration can reach, with the reason."""

    name: str | None
    count: int = 0
    columns: dict[str, list[Any]] = field(default_factory=dict)
    text: bool = False
    typed: Mapping[str, pa.DataType] = field(default_factory=dict)
    records: RecordFormat | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    unreadable: int = 0
    remarks: list[str] = field(default_factory=list)

    def add(self, values: Mapping[str, Any]) -> None:
        for each, value in values.items():
            column = self.columns.get(each)
            if column is None:
                column = self.columns[each] = [None] * self.count
            column.append(value)
        self.count += 1
        for column in self.columns.values():
            if len(column) < self.count:
                column.append(None)


def samples(file: Path, limit: int, format: str | None = None) -> list[RecordSample]:
    """The first `limit` records of a file, those of JSON by the event they name. CepError: it cannot be read, or has no
    records."""
    plain = file.with_suffix("") if file.suffix in COMPRESSED else file
    kind = format or FORMATS.get(plain.suffix.lower())
    if kind in ("jsonl", None) and format is None:
        with _opened(file) as stream:
            kind = recognised(stream.read(_HEAD)) or kind
    if kind in SENSORS:
        with _opened(file) as stream:
            return _of_sensors(stream.read(), kind, limit, file)
    if plain.suffix.lower() in KNOWLEDGE and format is None:
        hint = f"rules ask it in braces, `WHERE {{ ?S <http://...> ?O }}`, with `--knowledge {file}`"
        raise CepError(f"{file}: knowledge has no records, and needs no declaration", hint=hint, code="input")
    if kind not in ("jsonl", "csv", "tsv", "parquet"):
        hint = f"formats are {KNOWN}; say which with `--format`"
        what = f"no declaration is inferred from {kind}" if kind else f"`{file.name}` does not say its format"
        raise CepError(f"{file}: {what}", hint=hint if kind is None else "its records say all themselves", code="input")
    try:
        if kind == "parquet":
            found = [_parquet(file, limit)]
        else:
            with _opened(file) as stream:
                found = _json(stream, limit) if kind == "jsonl" else [_table(stream, limit, kind)]
    except (OSError, EOFError, pa.ArrowException) as error:
        why = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise CepError(f"cannot read {file}: {why}", code="input") from None
    found = [each for each in found if each.count]
    if not found:
        raise CepError(f"{file}: there is no record", hint="a declaration is inferred from some", code="input")
    return found


def _opened(file: Path) -> BinaryIO | pa.NativeFile:
    if file.suffix == ".gz":
        return gzip.open(file, "rb")
    return pa.CompressedInputStream(pa.OSFile(str(file)), "zstd") if file.suffix == ".zst" else open(file, "rb")


# --- formats of sensors ---


def _of_sensors(data: bytes, kind: str, limit: int, file: Path) -> list[RecordSample]:
    events, unreadable, remarks = sensor_records(data.decode("utf-8", "replace"), kind, limit)
    found = []
    for name, records in events.items():
        sample = RecordSample(name, records=RecordFormat(kind, sensor_options(kind, records)))
        sample.unreadable, sample.remarks = unreadable, remarks
        for record in records:
            sample.add({key: value for key, value in record.items() if key != TIMED})
        sample.columns = {
            source: column for source, column in sample.columns.items() if any(v is not None for v in column)
        }
        found.append(sample)
    if not found:
        raise CepError(
            f"{file}: there is no record of {kind}", hint="a declaration is inferred from some", code="input"
        )
    return found


# --- JSON ---


def _json(stream: Any, limit: int) -> list[RecordSample]:
    found: dict[str | None, RecordSample] = {}
    seen = unreadable = 0
    for line in itertools.islice(io.BufferedReader(stream) if isinstance(stream, pa.NativeFile) else stream, limit):
        if not line.strip():
            continue
        try:
            record = parse(line.removeprefix(_BOMS[0][0]))
        except Unreadable as why:
            unreadable += 1
            if unreadable == 1 and not seen:
                first = why.reason
            continue
        if not isinstance(record, dict):
            unreadable += 1
            first = "a record is a JSON object"
            continue
        seen += 1
        name = record.get("type")
        name = name if isinstance(name, str) and len(found) < 50 else None
        sample = found.setdefault(name, RecordSample(name))
        if "args" in record:
            sample.left_out["args"] = "values by position have no names: name the attributes, in their order"
        _spread(record, sample, bool(name))
    if unreadable and not seen:
        raise CepError(f"no line could be read as a record of JSON: {first}", code="input")
    for each in found.values():
        each.unreadable = unreadable
    return list(found.values())


def _spread(record: Mapping[str, Any], sample: RecordSample, named: bool) -> None:
    """Add a record, or each element of its list, to the sample."""
    lists: dict[str, list[Any]] = {}
    values = dict(_leaves(record, (), lists, sample.left_out))
    if named:
        values.pop("type", None)
    values.pop("args", None)
    best = max(lists, key=lambda each: (isinstance(lists[each][0], dict), -len(path(each))), default=None)
    for each in lists:
        if each != best:
            sample.left_out[f"{each}[]"] = "an event comes of each element of one list"
    if best is None:
        sample.add(values)
        return
    for element in lists[best]:
        if isinstance(element, dict):
            inner = dict(_leaves(element, (*path(best), EACH), {}, sample.left_out))
        else:
            inner = {f"{best}[]": element}
        sample.add(values | inner)


def _leaves(
    found: Mapping[str, Any], above: tuple[str, ...], lists: dict[str, list[Any]], left_out: dict[str, str]
) -> Iterator[tuple[str, Any]]:
    for name, value in found.items():
        here = (*above, name)
        source = written(here)
        if above and ("." in name or EACH in name):
            left_out[source] = "a name with a dot cannot stand in a path"
        elif isinstance(value, dict):
            yield from _leaves(value, here, lists, left_out)
        elif not isinstance(value, list):
            yield source, value
        elif EACH in above:
            left_out[f"{source}[]"] = "a list within a list"
        elif value and not isinstance(value[0], list):
            lists[source] = value
        elif value:
            left_out[f"{source}[]"] = "a list within a list"


# --- tables ---


def _table(stream: Any, limit: int, kind: str) -> RecordSample:
    """A table of text: its separator is the one that cuts all lines alike, its decimal mark what its numbers have."""
    data = b"".join(itertools.islice(iter(lambda: stream.read(1 << 16), b""), max(16, limit // 100)))
    text, encoding = _decoded(data)
    lines = text.splitlines()[: limit + _LOOKED_AT]
    comment = "#" if lines and lines[0].startswith("#") else None
    lines = [line for line in lines if comment is None or not line.startswith(comment)]
    usual = "\t" if kind == "tsv" else ","
    separator = _separator(lines, usual)
    rows = list(itertools.islice(csv.reader(lines, delimiter=separator), limit + 1))
    if not rows:
        return RecordSample(None)
    names = rows[0]
    sample = RecordSample(None, text=True)
    for row in rows[1:]:
        if len(row) == len(names):
            sample.add({name: None if value in ("", "NA") else value for name, value in zip(names, row, strict=True)})
        elif row:
            sample.unreadable += 1
    decimal = "," if separator != "," and _commas(sample) else None
    options = (
        ("separator", None if separator == usual else separator),
        ("decimal", decimal),
        ("comment", comment),
        ("encoding", encoding),
    )
    said = tuple((name, value) for name, value in options if value is not None)
    sample.records = RecordFormat("csv", said) if said else None
    return sample


def _decoded(data: bytes) -> tuple[str, str | None]:
    for mark, name in _BOMS:
        if data.startswith(mark):
            return data.decode("utf-8-sig" if name == "utf-8" else name, "replace"), None if name == "utf-8" else name
    try:
        return data.decode("utf-8"), None
    except UnicodeDecodeError as error:
        if error.start > len(data) - 4:  # a character that the sample cuts
            return data[: error.start].decode("utf-8"), None
        return data.decode("cp1252", "replace"), "cp1252"


def _separator(lines: Sequence[str], usual: str) -> str:
    """That which cuts most lines into as many fields as the first, more than one; of several that which makes most."""

    def fit(mark: str) -> tuple[float, int, bool]:
        rows = list(csv.reader(lines[:_LOOKED_AT], delimiter=mark))
        width = len(rows[0]) if rows else 1
        alike = sum(len(row) == width for row in rows) / max(1, len(rows))
        return (alike if width > 1 else 0.0, width, mark == usual)

    best = max(SEPARATORS, key=fit)
    return best if fit(best)[0] > 0.5 else usual


def _commas(sample: RecordSample) -> bool:
    """Whether numbers have a decimal comma, and none a point."""
    comma = point = 0
    for column in sample.columns.values():
        for value in column[:_LOOKED_AT]:
            whole, _, rest = (value or "").strip().lstrip("+-").partition(",")
            comma += whole.isdigit() and rest.isdigit()
            whole, _, rest = (value or "").strip().lstrip("+-").partition(".")
            point += whole.isdigit() and rest.isdigit()
    return comma > point


def _parquet(file: Path, limit: int) -> RecordSample:
    source = pq.ParquetFile(file)
    names = source.schema_arrow.names
    sample = RecordSample(None, typed={name: source.schema_arrow.field(name).type for name in names})
    batch = next(source.iter_batches(limit), None)
    if batch is not None:
        for name in names:
            type = sample.typed[name]
            if pa.types.is_nested(type):
                sample.left_out[name] = f"a column of type {type}: tables have columns of plain values"
                continue
            column = batch.column(name)
            if pa.types.is_timestamp(type) or pa.types.is_date(type):
                column = column.cast(pa.timestamp("us")).cast(pa.int64())
            sample.columns[name] = column.to_pylist()
        sample.count = batch.num_rows
    return sample
