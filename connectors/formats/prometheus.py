"""A reader of the text format of Prometheus and OpenMetrics. Each line is a sample. Its metric selects the event type.

A sample is rewritten as a point of InfluxDB's line protocol (see `cep.connectors.formats.influx_points`). The metric
becomes the point's measurement. The labels and the value become the point's fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import polars as pl

from cep.connectors.formats.influx import PointReader
from cep.connectors.formats.influx_points import MEASUREMENT, TIME
from cep.connectors.formats.streams import line_ends
from cep.connectors.records.batch import Block, DeadLetter
from cep.connectors.records.times import shown
from cep.core.schema import RecordFormat, Schema

VALUE = "value"
"""The name that a declaration uses for a sample's value."""
NONE = "@none"
"""The name of a dummy field. A sample whose value is missing, such as NaN, is rewritten with this field instead.

A point needs at least one field, and no declaration can use this name.
"""

_NAME = r"[A-Za-z_:][A-Za-z0-9_:]*"
_TEXT = r'"(?:[^"\\\n]|\\.)*"'
_SAMPLE = re.compile(
    rf"[ \t]*((?:{_NAME}(?![A-Za-z0-9_:]))?[ \t]*(?:\{{(?:[^\"}}]|{_TEXT})*\}})?)[ \t]*"
    r"([^ \t#{}\"]+)(?:[ \t]+([^ \t#]+))?[ \t]*(?:#.*)?\r?"
)
_SERIES = re.compile(rf"({_NAME})?[ \t]*(?:\{{(.*)\}})?", re.DOTALL)
_LABEL = re.compile(rf"[ \t]*(?:({_NAME})|({_TEXT}))[ \t]*(?:=[ \t]*({_TEXT})[ \t]*)?(?:,|$)")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NONE = re.compile(r"nan|[+-]?inf(?:inity)?", re.IGNORECASE)
_TIME = re.compile(r"(-?)(\d{1,17})(?:\.(\d+))?", re.ASCII)
_SECONDS = 10**11
"""The limit for timestamps without decimals: below it they are in seconds, as in OpenMetrics, otherwise in
milliseconds."""

_LINE = '`metric{label="text"} value milliseconds`'
TIMELESS = (
    "the sample has no timestamp: read `/federate` of Prometheus, which writes timestamps; `/metrics` rarely does"
)
_OWN = (VALUE, TIME, MEASUREMENT)


def as_point(schema: Schema) -> Schema:
    """Return the schema that reads an event type from the points into which its samples are rewritten."""
    if schema.records is None or schema.records.name != "prometheus":
        return replace(schema, records=RecordFormat("influx", (("precision", "us"),)))
    metric = schema.records.option("metric")
    options = (("precision", "us"), *(() if metric is None else (("measurement", metric),)))
    return replace(schema, records=RecordFormat("influx", options))


class SampleReader(PointReader):
    """A reader of samples, block by block.

    If the program does not read a sample's metric, the sample is skipped and counted. If a schema is `strict`, the
    sample becomes a dead letter instead.
    """

    def __init__(self, schemas: Mapping[str, Schema], default: str | None, bound: bool) -> None:
        """Raise CepError in the same cases as `PointReader`."""
        self._strict = any(schema.strict for schema in schemas.values())
        super().__init__({name: as_point(schema) for name, schema in schemas.items()}, default, bound)

    def read(
        self,
        file: str,
        data: bytes,
        position: int,
        line: int,
        first: int,
        beside: Mapping[str, Sequence[str | None]] | None = None,
    ) -> tuple[dict[str, pl.DataFrame], list[DeadLetter], Block]:
        points, reasons = as_points(data)
        tables, dead, block = super().read(file, points, position, line, first, beside)
        starts, stops = line_ends(data)
        rows = np.arange(block.count) if block.lines is None else block.lines - line
        places = np.stack([starts, stops], axis=1)[rows].reshape(-1)
        lines = None if len(rows) == len(starts) else rows + line
        block = replace(block, lines=lines, starts=places, rows=2 * np.arange(len(rows)), data=data, times="iso")
        told, others = [], []
        for record in dead:
            row = record.line - line
            text = data[starts[row] : stops[row]].decode("utf-8", "replace")
            if record.code == "time" and record.reason.startswith("the line has no timestamp"):
                record = replace(record, reason=TIMELESS)
            if row in reasons:
                record = replace(record, code="prometheus", reason=reasons[row])
            elif record.code == "type" and record.reason.startswith("no event of the program") and not self._strict:
                others.append(text)
                continue
            told.append(replace(record, text=text))
        if others:
            block = replace(block, unmatched=len(others), first_unmatched=others[0])
        return tables, told, block


def as_points(data: bytes) -> tuple[bytes, dict[int, str]]:
    """Convert lines of samples to lines of points. Comments become empty lines.

    For each line that is not a sample, also return the reason, by the number of the line.
    """
    reasons: dict[int, str] = {}
    points = []
    for number, line in enumerate(data.decode("utf-8", "surrogateescape").split("\n")):
        try:
            points.append(_point(line))
        except ValueError as reason:
            reasons[number] = str(reason)
            points.append("!")
    return "\n".join(points).encode("utf-8", "surrogateescape"), reasons


def _point(line: str) -> str:
    """Convert one line to a point. Raise ValueError with a reason if the line is not a sample."""
    if not line.strip() or line.lstrip(" \t").startswith("#"):
        return ""
    sample = _SAMPLE.fullmatch(line)
    if sample is None or not sample[1]:
        raise ValueError(f"this is not a sample: a line is {_LINE}")
    series, value, time = sample.groups()
    if _NUMBER.fullmatch(value):
        number = f"{VALUE}={float(value)!r}" if value[0] in "+." or "e" in value.lower() else f"{VALUE}={value}"
    elif _NONE.fullmatch(value):
        number = f"{NONE}=0"
    else:
        raise ValueError(f"the value `{shown(value)}` is not a number: a line is {_LINE}")
    return f"{_series(series.strip())}{number}{'' if time is None else ' ' + _micros(time)}"


@lru_cache(maxsize=1 << 16)
def _series(text: str) -> str:
    """Convert a metric and its labels to the measurement and the first fields of a point.

    Raise ValueError with a reason if the text is not a metric with labels.
    """
    match = _SERIES.fullmatch(text)
    assert match is not None, "a sample begins with a metric, or its labels"
    metric, rest = match[1], match[2] or ""
    labels, position = {}, 0
    while rest[position:].strip():
        label = _LABEL.match(rest, position)
        if label is None:
            raise ValueError(
                f"the labels of `{shown(text)}` cannot be read at `{shown(rest[position:])}`: a line is {_LINE}"
            )
        name, position = label[1] or _plain(label[2]), label.end()
        if label[3] is not None:
            if name in labels:
                raise ValueError(f"the label `{shown(name)}` appears twice")
            labels[name] = _plain(label[3])
        elif metric is None and label[1] is None:
            metric = name
        else:
            raise ValueError(f"the label `{shown(name)}` has no value: a line is {_LINE}")
    if not metric:
        raise ValueError(f"the sample has no metric: a line is {_LINE}")
    fields = [
        f'{_escaped(f"exported_{name}" if name in _OWN else name, ",= ")}="{_escaped(text, _QUOTED)}",'
        for name, text in labels.items()
        if text
    ]
    return f"{_escaped(metric, ', ')} {''.join(fields)}"


_QUOTED = '\\"'


def _escaped(text: str, marks: str) -> str:
    for mark in marks:
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", " ")


def _plain(quoted: str) -> str:
    if "\\" not in quoted:
        return quoted[1:-1]
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], quoted[1:-1])


def _micros(time: str) -> str:
    """Convert a timestamp to microseconds. Raise ValueError if the text is not a timestamp.

    A timestamp that has decimals or is less than `_SECONDS` is in seconds. Any other timestamp is in milliseconds.
    """
    match = _TIME.fullmatch(time)
    if match is None:
        raise ValueError(f"`{shown(time)}` is not a timestamp: a line is {_LINE}")
    whole, fraction = int(match[2]), match[3]
    if fraction is None and whole >= _SECONDS:
        return f"{match[1]}{1000 * whole}"
    return f"{match[1]}{1_000_000 * whole + int((fraction or '')[:6].ljust(6, '0'))}"
