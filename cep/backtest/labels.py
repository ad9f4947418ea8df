"""Read labels of incidents from CSV, Parquet, JSON, windows of NAB, or the verdicts on a server's alerts."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl

from cep.backtest.nab import Key
from cep.backtest.scoring import Label
from cep.backtest.server_labels import SERVER, server_rows
from cep.core.errors import CepError, reason_of
from cep.core.literals import read_instant
from cep.core.schema import Attribute
from cep.core.suggest import did_you_mean, missing
from cep.runtime.run_stats import count

_OFFSET = re.compile(r"(?:Z|[+-]\d\d:?\d\d)$", re.IGNORECASE)


def read_labels(
    path: Path | str,
    keys: Sequence[Attribute],
    unit: Fraction | None,
    detect: str = "",
    token_file: Path | None = None,
) -> tuple[list[Label], list[str]]:
    """Read labels, sorted by start. Also return the names of the columns other than `start` and `end`.

    - `path`: a file, or `server:URL` for the verdicts on a server's alerts.
    - `keys`: the attributes of the key. A label whose key is empty or `null` applies to all keys.
    - `detect`: the event or alert whose verdicts are read from a server.
    - `token_file`: the file that contains the token for the server.

    Raises CepError if the labels cannot be read, or if a label is not valid.
    """
    if isinstance(path, str) and path.startswith(SERVER):
        rows = _checked(path, server_rows(path, detect, token_file), keys)
    else:
        rows = _rows(path := Path(path), keys)
    labels: list[tuple[Label, int]] = []
    zones: dict[bool, int] = {}
    for number, row in enumerate(rows, 1):
        for name in ("start", "end"):
            if row.get(name) is None:
                raise _error(path, number, f"`{name}` is missing")
            if isinstance(row[name], str) and not row[name].strip().removeprefix("-").replace(".", "", 1).isdigit():
                zones.setdefault(_OFFSET.search(row[name].strip()) is not None, number)
        start, end = (_time(path, number, name, row[name], unit) for name in ("start", "end"))
        if end < start:
            raise _error(path, number, f"the label ends at `{row['end']}`, before it starts at `{row['start']}`")
        labels.append((Label(start, end, _key(path, number, row, keys)), number))
    if len(zones) == 2:
        message = f"the time of label {zones[True]} has an offset, and that of label {zones[False]} has none"
        hint = "write all times with an offset, or all without one: they are read as UTC"
        raise CepError(f"{path}: {message}", hint=hint, code="labels")
    if not labels:
        raise CepError(
            f"{path}: there are no labels", hint="write one row for each incident: `start,end`", code="labels"
        )
    labels.sort(key=lambda pair: (pair[0].start, pair[0].end, pair[1]))
    _refuse_overlaps(path, labels, _further(rows, keys))
    return [label for label, _ in labels], _others(rows)


def _others(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [name for row in rows[:1] for name in row if name not in ("start", "end")]


def _further(rows: Sequence[Mapping[str, Any]], keys: Sequence[Attribute]) -> str:
    columns = _others(rows)
    return f", or tell them apart: `--key {columns[0]}`" if columns and not keys else ""


def _refuse_overlaps(path: Path | str, labels: Sequence[tuple[Label, int]], further: str) -> None:
    latest: dict[Key | None, tuple[Label, int]] = {}
    for label, number in labels:
        before = latest.get(label.key)
        if before is not None and label.start <= before[0].end:
            message = f"labels {before[1]} and {number} overlap, and have the same key"
            raise CepError(f"{path}: {message}", hint=f"write them as one label{further}", code="labels")
        if before is None or label.end > before[0].end:
            latest[label.key] = (label, number)


def _error(path: Path | str, number: int, message: str, hint: str | None = None) -> CepError:
    return CepError(f"{path}: label {number}: {message}", hint=hint, code="labels")


def _time(path: Path | str, number: int, name: str, value: Any, unit: Fraction | None) -> int:
    try:
        return read_instant(str(value), unit)
    except CepError as error:
        raise _error(path, number, f"{name}: {error.message}", error.hint) from None


def _key(path: Path | str, number: int, row: Mapping[str, Any], keys: Sequence[Attribute]) -> Key | None:
    values = [row.get(key.name) for key in keys]
    if all(value is None or value == "" for value in values):
        return None
    return tuple(_value(path, number, attribute, value) for attribute, value in zip(keys, values))


def _value(path: Path | str, number: int, attribute: Attribute, value: Any) -> object:
    """Convert a value in the key of a label to the type of the key's attribute. `number`: the label's number, for
    messages."""
    if value is None or value == "":
        hint = "a label that counts for every key leaves all columns of the key empty"
        raise _error(path, number, f"`{attribute.name}` is missing", hint)
    try:
        match attribute.type:
            case "int":
                return int(value)
            case "float":
                return float(value)
            case "bool":
                return value if isinstance(value, bool) else {"true": True, "false": False}[str(value).lower()]
    except (KeyError, ValueError):
        raise _error(path, number, f"`{attribute.name}` is of type {attribute.type}, `{value}` is not") from None
    return str(value)


def _rows(path: Path, keys: Sequence[Attribute]) -> list[dict[str, Any]]:
    try:
        rows = _read(path, keys)
    except OSError as error:
        hint = missing(path) if isinstance(error, FileNotFoundError) else None
        reason = "no such file" if isinstance(error, FileNotFoundError) else reason_of(error)
        raise CepError(f"--labels {path}: {reason}", hint=hint, code="option") from None
    except (pl.exceptions.PolarsError, csv.Error, ValueError) as error:
        raise CepError(f"--labels {path}: {str(error).splitlines()[0]}", code="labels") from None
    return _checked(path, rows, keys)


def _checked(path: Path | str, rows: list[dict[str, Any]], keys: Sequence[Attribute]) -> list[dict[str, Any]]:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    for name in ("start", "end", *(key.name for key in keys)):
        if rows and name not in columns:
            listed = ", ".join(f"`{column}`" for column in columns)
            hint = did_you_mean(name, columns) or f"its columns are {listed}"
            if name not in ("start", "end"):
                hint += "; leave the cell empty in a label that counts for every key"
            raise CepError(f"{path}: labels have no column `{name}`", hint=hint, code="labels")
    return rows


def _read(path: Path, keys: Sequence[Attribute]) -> list[dict[str, Any]]:
    match path.suffix.lower():
        case ".csv" | ".tsv":
            separator = "\t" if path.suffix.lower() == ".tsv" else ","
            return _of_csv(path, separator)
        case ".parquet":
            table = pl.read_parquet(path)
            return [{name: _plain(value) for name, value in row.items()} for row in table.to_dicts()]
        case ".json" | ".jsonl" | ".ndjson":
            text = path.read_text(encoding="utf-8-sig")
            if path.suffix.lower() == ".json":
                return _of_json(json.loads(text), keys)
            return _of_json([json.loads(line) for line in text.splitlines() if line.strip()], keys)
    raise ValueError(f"`{path.suffix}` is not a format of labels: use csv, tsv, parquet, json or jsonl")


def _of_csv(path: Path, separator: str) -> list[dict[str, Any]]:
    """Return the rows of a CSV file as texts. Empty and missing cells are None."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=separator)
        header = next(reader, None)
        if not header:
            hint = "write a header, and one row for each incident: `start,end`"
            raise CepError(f"{path}: the file of labels is empty", hint=hint, code="labels")
        rows = []
        for cells in reader:
            if len(cells) > len(header):
                message = f"{count(len(cells), 'field')}, and the header has {len(header)}"
                hint = f"quote a value that has a `{separator}` in it, or name all columns in the first line"
                raise CepError(f"{path}:{reader.line_num}: {message}", hint=hint, code="labels")
            if cells:
                own = (cell or None for cell in (*cells, *[None] * (len(header) - len(cells))))
                rows.append(dict(zip(header, own)))
    return rows


def _plain(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


def _of_json(document: Any, keys: Sequence[Attribute]) -> list[dict[str, Any]]:
    """Return the rows of a JSON document: a list of records, or windows of NAB as `{name: [[start, end], ...]}`.

    If the key has one attribute, its value in a row for a NAB window is the window's `name`.
    """
    if isinstance(document, dict):
        rows = []
        for name, windows in document.items():
            for window in windows:
                if not isinstance(window, list) or len(window) != 2:
                    raise ValueError(f"`{name}`: a window is written `[start, end]`")
                own = {keys[0].name: name} if len(keys) == 1 else {}
                rows.append({"start": window[0], "end": window[1], **own})
        return rows
    if not isinstance(document, list) or not all(isinstance(row, dict) for row in document):
        raise ValueError("labels must be a list of records, or NAB's windows by name")
    return document
