"""SenML, SensorThings and InfluxDB for `cep infer`: recognition of a file's format, and reading of its records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from cep.connectors.formats import senml
from cep.connectors.formats.influx_points import FIELDS, TAGS, read_point
from cep.connectors.formats.packs import documents
from cep.connectors.formats.prometheus import NONE, VALUE, as_points
from cep.connectors.formats.sensorthings import LINKED, TIME, linked
from cep.connectors.records.records import parse
from cep.connectors.records.values import Real, Unreadable
from cep.core.schema import Attribute, RecordFormat, Schema

TIMED = "@time"
"""The key under which the timestamp of a point in line protocol is stored."""

_SOME_TIME = RecordFormat("senml", (("now", "2020-01-01T00:00:00Z"),))
_UNITS = ((10**17, "ns"), (10**14, "us"), (10**11, "ms"), (0, "s"))
_DEEP = 4

Records = list[dict[str, Any]]


def recognised(head: bytes) -> str | None:
    """Return the name of the sensor format of a file. Return None if the file has another format.

    `head`: the first bytes of the file.
    """
    text = head.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if text.startswith(("[", "{")):
        first = _first_object(text)
        if first is None:
            return None
        if _is_observation(first):
            return "sensorthings"
        return "senml" if text.startswith("[") and first.keys() & {"n", "bn"} and _is_senml(first) else None
    lines = [line for line in head.split(b"\n")[:20] if line.strip() and not line.startswith(b"#")]
    if not lines:
        return None
    points, wrong = as_points(lines[0].rstrip(b"\r"))
    if points and not wrong:
        return "prometheus"
    try:
        return "influx" if read_point(lines[0]).fields else None
    except Unreadable:
        return None


def sensor_records(text: str, kind: str, limit: int) -> tuple[dict[str | None, Records], int, list[str]]:
    """Return the first `limit` records by event type, the number of unreadable records, and remarks.

    In line protocol, the measurement is the event type. If no record can be read, the only remark explains why the
    first record cannot be read.
    """
    records_by_type: dict[str | None, Records] = {}
    unreadable = 0
    remarks: list[str] = []
    reasons: list[str] = []
    typed_records: Iterator[tuple[str | None, dict[str, Any]] | None]
    typed_records = (
        _points(as_points(text.encode())[0].decode() if kind == "prometheus" else text)
        if kind in ("influx", "prometheus")
        else ((None, record) if record else None for record in _packed(text, kind, remarks, reasons))
    )
    for typed_record in islice(typed_records, limit):
        if typed_record is None:
            unreadable += 1
        else:
            records_by_type.setdefault(typed_record[0], []).append(typed_record[1])
    return records_by_type, unreadable, remarks if records_by_type else reasons[:1]


def sensor_options(kind: str, records: Records) -> tuple[tuple[str, str], ...]:
    """Return the options that the declaration needs for a format, as pairs of name and value.

    There is only one such option: the unit of timestamps in line protocol, if it is not the nanosecond.
    """
    times = [abs(int(record[TIMED])) for record in records if record.get(TIMED)]
    if kind != "influx" or not times:
        return ()
    unit = next(unit for least, unit in _UNITS if max(times) >= least)
    return () if unit == "ns" else (("precision", unit),)


def _points(text: str) -> Iterator[tuple[str | None, dict[str, Any]] | None]:
    for line in text.split("\n"):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            point = read_point(line.encode())
        except Unreadable:
            yield None
            continue
        both = point.tags.keys() & point.fields.keys()
        named = ((TAGS, point.tags), (FIELDS, point.fields))
        values = {prefix + key if key in both else key: value for prefix, of in named for key, value in of.items()}
        if NONE in values:
            values |= {NONE: None, VALUE: None}
        yield point.measurement, values | {TIMED: point.time}


def _packed(text: str, kind: str, remarks: list[str], reasons: list[str]) -> Iterator[dict[str, Any] | None]:
    """Yield the records of SenML packs or SensorThings pages. Yield None for each record that cannot be read.

    `remarks`: a list to which remarks about the packs are added. `reasons`: a list to which the reasons for unreadable
    records are added.
    """
    plain, timed = _packs()
    for elements in documents(text, None if kind == "senml" else "value"):
        if elements is None:
            yield None
            continue
        if kind == "sensorthings":
            yield from (_observation(element) if isinstance(element, dict) else None for element in elements)
            continue
        try:
            for line, exact in zip(timed.lines(elements, str), plain.lines(elements, str)):
                if isinstance(line, str):
                    if isinstance(exact, Unreadable) and not remarks:
                        why = 'some times are relative to now: `FORMAT senml(now: "..")` says when they were recorded'
                        remarks.append(why)
                    yield {senml_name(key): value for key, value in parse(line.encode()).items() if key != "t"}
                elif line is not None:
                    reasons.append(line.reason)
                    yield None
        except Unreadable as why:
            reasons.append(why.reason)
            yield None


def _packs() -> tuple[senml.Packs, senml.Packs]:
    """Return two SenML readers. The second reader has a reference time, so that it can read packs whose times are
    relative to the current time."""
    wanted = tuple(Attribute(name, "any") for name in ("n", "u", "v", "vs", "vb", "vd", "s"))
    plain, timed = (Schema("all", wanted, True, True, records=records) for records in (None, _SOME_TIME))
    return senml.Packs(plain), senml.Packs(timed)


def _is_observation(first: Mapping[str, Any]) -> bool:
    """Return True if a record is an observation or a data array. A record that has a time but no other property of an
    observation is not one."""
    names = first.get("components")
    if isinstance(names, list) and isinstance(first.get("dataArray"), list):
        return "result" in names
    return TIME in first and ("result" in first or any("@iot." in key for key in first))


def _is_senml(first: Mapping[str, Any]) -> bool:
    """Return True if the first record of a list is SenML.

    A key `n` is not enough, because many other lists of objects have it. A record that also has fields which SenML does
    not define is only accepted if it has a base name.
    """
    if any(len(key) > 4 for key in first) or ("bn" not in first and not first.keys() <= set(senml.Packs.labels)):
        return False
    _, timed = _packs()
    try:
        return not isinstance(timed.lines([first], str)[0], Unreadable)
    except Unreadable:
        return False


def senml_name(label: str) -> str:
    """Return the long name of a SenML field, such as `unit` for `u`."""
    return next((name for name, short in senml.LONG.items() if short == label), label)


def _observation(observation: Mapping[str, Any]) -> dict[str, Any]:
    leaves = dict(_leaves(observation, "", _DEEP))
    ids = {"id": observation.get("@iot.id"), **{name: linked(observation, *how) for name, how in LINKED.items()}}
    return leaves | {name: id for name, id in ids.items() if isinstance(id, int | str)}


def _leaves(entity: Mapping[str, Any], above: str, deep: int) -> Iterator[tuple[str, Any]]:
    for key, value in entity.items():
        if "@iot." in key or key == TIME or "." in key:
            continue
        if isinstance(value, dict):
            if deep:
                yield from _leaves(value, f"{above}{key}.", deep - 1)
        elif not isinstance(value, list):
            yield above + key, value


def _first_object(text: str) -> Mapping[str, Any] | None:
    """Return the first object in a JSON document. The end of the document may be missing."""
    decoder = json.JSONDecoder(parse_float=Real)
    for position in [place for place, mark in enumerate(text[:2000]) if mark == "{"]:
        try:
            decoded, _ = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            continue
        if isinstance(decoded.get("value"), list):
            decoded = next(iter(decoded["value"]), decoded)
        return decoded if isinstance(decoded, dict) else None
    return None
