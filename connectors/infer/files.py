"""Sampling of the first records of a file: its format is recognised, and its records are grouped by event type."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from cep.connectors.formats.json_files import in_lines, split
from cep.connectors.formats.known import BY_SUFFIX, COMPRESSED, FORMATS, KNOWN, NAMES
from cep.connectors.formats.streams import ByteStream, whole_lines
from cep.connectors.infer.alternatives import alternatives
from cep.connectors.infer.columnar import parquet_sample
from cep.connectors.infer.names import event_name
from cep.connectors.infer.nested import nested_sample
from cep.connectors.infer.sample import RecordSample
from cep.connectors.infer.sensors import TIMED, recognised, sensor_options, sensor_records
from cep.connectors.infer.tables import is_zeek, table_sample
from cep.connectors.records.records import Twice, parse
from cep.connectors.records.values import Unreadable
from cep.core.errors import CepError
from cep.core.schema import RecordFormat, RecordTest
from cep.core.unpacking import Unpacked

_HEAD = 1 << 16  # the bytes in which a format is recognised
_CHUNK = 1 << 20
KNOWLEDGE = (".ttl", ".nt", ".trig", ".rdf", ".owl")
"""The suffixes of files that contain knowledge instead of records."""
_MOST_EVENTS = 50


def samples(file: Path, limit: int, format: str | None = None) -> list[RecordSample]:
    """Return the first `limit` records of a file, as one sample per event type.

    Raises CepError if the file cannot be read or has no records.
    """
    plain = file.with_suffix("") if file.suffix in COMPRESSED else file
    kind = format or BY_SUFFIX.get(plain.suffix.lower())
    if plain.suffix.lower() in KNOWLEDGE and format is None:
        hint = f"load it with `--knowledge {file}`, and query it in rules, `WHERE {{ ?S <http://...> ?O }}`"
        raise CepError(
            f"{file}: this file holds knowledge, which has no records and needs no declaration", hint=hint, code="input"
        )
    try:
        if kind in ("jsonl", None) and format is None:
            with _opened(file) as stream:
                head = stream.read(_HEAD)
            kind = recognised(head) or kind or ("tsv" if is_zeek(head) else None)
        if kind is not None and kind in NAMES and FORMATS[kind].of_sensors:
            with _opened(file) as stream:
                return _of_sensors(stream.read(), kind, limit, file)
        if kind not in NAMES or not FORMATS[kind].inferred:
            if kind is None:
                hint = f"formats are {KNOWN}; say which with `--format`"
                raise CepError(f"{file}: the format is not known from the name of the file", hint=hint, code="input")
            if kind not in NAMES:
                raise CepError(f"--format: `{kind}` is not a format", hint=f"formats are {KNOWN}", code="input")
            hint = "its records already name their events and values"
            raise CepError(f"{file}: no declaration can be inferred from {kind}", hint=hint, code="input")
        if kind == "parquet":
            record_samples = [parquet_sample(file, limit)]
        elif kind == "jsonl":
            record_samples = _json(file, limit)
        else:
            with _opened(file) as stream:
                record_samples = [table_sample(stream, limit, kind)]
    except (OSError, EOFError, pa.ArrowException) as error:
        why = getattr(error, "strerror", None) or (str(error).splitlines() or ["it is broken"])[0]
        raise CepError(f"cannot read {file}: {why}", code="input") from None
    for sample in record_samples:
        sample.without_changes()
    record_samples = [kept for kept in record_samples if kept.count]
    if not record_samples:
        raise CepError(
            f"{file}: the file has no records",
            hint="use a file with records, from which the declaration is inferred",
            code="input",
        )
    return record_samples if kind == "jsonl" else _by_test(record_samples[0])


def _opened(file: Path) -> BinaryIO:
    if file.suffix not in COMPRESSED:
        return open(file, "rb")
    packed = open(file, "rb")  # noqa: SIM115
    gzipped = file.suffix == ".gz"
    stream: Any = gzip.GzipFile(fileobj=packed) if gzipped else pa.CompressedInputStream(pa.PythonFile(packed), "zstd")
    return io.BufferedReader(Unpacked(stream, packed.tell), _CHUNK)


def _of_sensors(data: bytes, kind: str, limit: int, file: Path) -> list[RecordSample]:
    events, unreadable, remarks = sensor_records(data.decode("utf-8", "replace"), kind, limit)
    record_samples = []
    for name, records in events.items():
        sample = RecordSample(name, format=RecordFormat(kind, sensor_options(kind, records)))
        sample.unreadable, sample.remarks = unreadable, remarks
        for record in records:
            sample.add({key: value for key, value in record.items() if key != TIMED})
        sample.columns = {
            source: column for source, column in sample.columns.items() if any(v is not None for v in column)
        }
        record_samples.append(sample)
    if not record_samples:
        hint = next(iter(remarks), "use a file with records, from which the declaration is inferred")
        raise CepError(f"{file}: the file has no records of {kind}", hint=hint, code="input")
    return record_samples


def _json(file: Path, limit: int) -> list[RecordSample]:
    records: list[Mapping[str, Any]] = []
    unreadable = 0
    first = ""
    for line in _records(file, limit):
        try:
            record = parse(line)
            if not isinstance(record, dict):
                raise Unreadable("object", "a record is a JSON object")
            if isinstance(record, Twice):
                raise Unreadable("json", f"the key `{min(record.names)}` appears twice")
        except Unreadable as why:
            unreadable += 1
            first = first or why.reason
            continue
        records.append(record)
    if unreadable and not records:
        raise CepError(f"no line could be read as a record of JSON: {first}", code="input")
    record_samples = _by_event(records)
    for sample in record_samples:
        sample.unreadable = unreadable
    return record_samples


def _by_event(records: list[Mapping[str, Any]]) -> list[RecordSample]:
    """Return one sample per event type.

    The records are grouped by the key `type` if every record has a text at this key. The texts must all be equal, or be
    valid names of event types. Otherwise, another field may distinguish the event types (see `alternatives`). If there
    is no such field, the result is a single sample.
    """
    names = dict.fromkeys(record.get("type") if isinstance(record.get("type"), str) else None for record in records)
    said = [name for name in names if name is not None]
    if len(said) == len(names) <= _MOST_EVENTS and (len(said) == 1 or all(event_name(name) == name for name in said)):
        return [nested_sample(name, [record for record in records if record["type"] == name]) for name in said]
    if kinds := alternatives(records):
        return [_alternative(nested_sample(None, some), name, test) for name, test, some in kinds]
    sample = nested_sample(None, records)
    if any("type" in record for record in records):
        sample.bound = True
    return [sample]


def _by_test(table: RecordSample) -> list[RecordSample]:
    """Return one sample for each event type in the rows of a table. If the rows seem to have a single event type,
    return only the table itself."""
    if table.series is not None:
        return [table]
    rows = [
        {source: value for source, value in zip(table.columns, row, strict=True) if value is not None}
        for row in zip(*table.columns.values(), strict=True)
    ]
    events = []
    for name, test, some in alternatives(rows):
        present = {source for row in some for source in row}
        columns = {source: [row.get(source) for row in some] for source in table.columns if source in present}
        sample = replace(table, count=len(some), records=None, columns=columns, remarks=list(table.remarks))
        events.append(_alternative(sample, name, test))
    return events or [table]


def _alternative(sample: RecordSample, name: str, test: RecordTest) -> RecordSample:
    sample.name, sample.when = name, ((test,),)
    if test.values:
        sample.columns.pop(test.source, None)
    return sample


def _records(file: Path, limit: int) -> Iterator[bytes]:
    """Yield the first JSON records of a file as bytes, without blank lines."""
    stream = ByteStream(str(file))
    try:
        for part in _parts(stream):
            for line in part.split(b"\n"):
                if not line.strip():
                    continue
                if limit == 0:
                    return
                limit -= 1
                yield line
        if stream.damage is not None and limit:
            raise OSError(stream.damage)
    finally:
        stream.close()


def _parts(stream: ByteStream) -> Iterator[bytes]:
    head = b""
    while (plain := in_lines(head, False)) is None and (data := stream.read(_CHUNK)):
        head += data
    plain = in_lines(head, True) if plain is None else plain
    stream.unread(head)
    if plain:
        yield from (data for data, _, _ in whole_lines(stream, _CHUNK))
    else:
        yield from (part.data for part in split(stream, _CHUNK) if part is not None)
