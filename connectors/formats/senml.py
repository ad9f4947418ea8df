"""A converter of SenML packs in JSON (RFC 8428). It adds the base values of earlier records to each record."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

import numpy as np

from cep.connectors.formats.pack_scan import resolve
from cep.connectors.formats.plain_packs import Ints, Lines, PlainRecords
from cep.connectors.records.numbers import ESCAPED, FALSE, NUMBER, STRING, TRUE
from cep.connectors.records.paths import from_message, sources
from cep.connectors.records.records import Twice, time_keys
from cep.connectors.records.times import of_iso, shown
from cep.connectors.records.values import Real, Unreadable, kind
from cep.core.errors import CepError
from cep.core.fluents import RECORD_END
from cep.core.schema import CHANGE, Schema

TIME = "t"
"""The field that contains a record's time."""
VERSION = 10
"""The latest supported version of SenML."""
RELATIVE = 1 << 28
"""The limit in seconds below which a time is relative to the current time. From this limit on, a time is absolute."""
LONG = {"name": "n", "unit": "u", "sum": "s", "time": "t"}
"""Long names that a declaration may use for fields. It may also use `value` for the field of VALUES that a record
has."""

VALUES = ("v", "vs", "vb", "vd")
_OWN = ("n", "u", *VALUES, "s", "t", "ut", "ct")
_BASE = ("bn", "bt", "bu", "bv", "bs", "bver", "bct")
_LABELS = frozenset((*_OWN, *_BASE))
_NAMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9\-:./_]*")
_LARGEST = 30  # digits before the point of a number in an addition
_KINDS: Mapping[str, str] = {
    **dict.fromkeys(("n", "u", "vs", "vd", "ct", "bn", "bu", "bct"), "a string"),
    **dict.fromkeys(("v", "s", "t", "ut", "bt", "bv", "bs"), "a number"),
    "vb": "a boolean",
}
_TEXT = (STRING, ESCAPED)
_PLAIN: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("n", "bn"), (STRING,)),
    **dict.fromkeys(("u", "bu", "vs", "vd"), _TEXT),
    **dict.fromkeys(("v", "t", "bt", "bver"), (NUMBER,)),
    "vb": (TRUE, FALSE),
}
"""For each field, the kinds of cells that the fast converter supports."""
_EXAMPLE = "`event temp(sensor: string FROM n, value: float FROM v) FORMAT senml`"


class Packs:
    """A converter of SenML records to lines of JSON. A line contains only the fields that the event type reads."""

    pages = None
    labels = (*_OWN, *_BASE)

    def __init__(self, schema: Schema) -> None:
        """Raise CepError if the schema belongs to a fluent, or reads a field that SenML does not define."""
        if any(attribute.name == RECORD_END for attribute in schema.attributes):
            message = f"{schema.name}: a record of SenML has one time, but a fluent needs a start and an end"
            hint = f"read an event, whose rules `initiate` and `terminate` the fluent: {_EXAMPLE}"
            raise CepError(message, hint=hint, code="input")
        if schema.time is None and schema.start is None and schema.end is None:
            schema = replace(schema, time=TIME)
        self.schema = schema
        now = None if schema.records is None else schema.records.option("now")
        self._now = None if now is None else Decimal(of_iso(now)).scaleb(-6)
        wanted = dict.fromkeys(sources(schema, time_keys(schema)))
        self._wanted: list[tuple[str, str]] = []
        for source in wanted:
            label = LONG.get(source, source)
            if label in (*_OWN, "value", CHANGE):
                self._wanted.append((quoted(source), label))
            elif not from_message(source):
                message = f"{schema.name}: a record of SenML has no `{source}`"
                hint = f"fields are `n` (or `name`), `u` (`unit`), `v` `vs` `vb` `vd` (`value`), `s`, `t`: {_EXAMPLE}"
                raise CepError(message, hint=hint, code="input")
        self._revises = any(label == CHANGE for _, label in self._wanted)
        self._names: set[str] = set()

    def lines(self, elements: Sequence[Any], text: Callable[[int], str]) -> list[str | Unreadable | None]:
        """Convert the records of a pack to lines of JSON.

        If a record cannot be converted, the result contains the reason instead of a line. If a record has only base
        fields, the result contains None. Raise Unreadable if one record makes the whole pack invalid.
        """
        base: dict[str, Any] = {}
        return [self._line(record, base) for record in elements]

    def made(self, records: PlainRecords) -> Lines:
        """Generate the lines of many records at once.

        The span of a record in an unusual form is marked in `Lines.refused`, so that `lines` converts it.
        """
        good = records.good & records.known & ~records.empty
        for label in self.labels:
            good &= ~records.there(label) | records.there(label, *_PLAIN.get(label, ()))
        buffer, (begins, size) = records.buffer, records.cell("bver")
        good &= (size < 2) | ((size == 2) & (buffer[begins] == ord("1")) & (buffer[begins + (size > 1)] == ord("0")))
        good &= (size != 1) | (buffer[begins] != ord("0"))
        begins, size = records.cell("v")
        good &= (size < 40) & ~((size == 2) & (buffer[begins] == ord("-")) & (buffer[begins + (size > 1)] == ord("0")))
        values = np.sum([records.there(label) for label in VALUES], axis=0)
        has_line = (values > 0) | records.there("n") | records.there("u") | records.there("t")
        good &= (values == 1) | ~has_line
        parts = [_inherited(records, "bn"), records.cell("n"), _inherited(records, "bt"), records.cell("t")]
        texts, ends, whole = resolve(
            buffer, np.array([start for start, _ in parts]), np.array([size for _, size in parts]), RELATIVE * 1_000_000
        )
        good &= whole | ~has_line
        spans = {label: records.span(label) for label in (*VALUES, "u")}
        unit, size = _inherited(records, "bu")
        own = records.there("u")
        first, length, _ = spans["u"]
        length = np.where(own | (size == 0), length, size)
        spans["u"] = np.where(own, first, unit), length, np.ones(len(own), np.bool_)
        unquoted = np.zeros(len(own), np.bool_)
        for label, begin in (("n", 0), ("t", 1)):
            spans[label] = len(buffer) + ends[begin:-1:2], np.diff(ends)[begin::2], unquoted
        having = [records.there(label) for label in VALUES]
        starts, sizes, quotes = zip(*(spans[label] for label in VALUES))
        spans["value"] = np.select(having, starts), np.select(having, sizes, -1), np.select(having, quotes, False)
        missing = np.zeros(len(own), np.int64), np.full(len(own), -1), unquoted
        columns = [(f"{key}: ", spans.get(label, missing)) for key, label in self._wanted]
        refused = np.bincount(records.of[~good], minlength=records.spans) > 0
        return Lines(np.concatenate([buffer, texts]), columns, has_line, unquoted, refused)

    def _line(self, record: Any, base: dict[str, Any]) -> str | Unreadable | None:
        if not isinstance(record, dict):
            return Unreadable("object", f"a record of SenML is a JSON object, but this is {kind(record)}")
        if isinstance(record, Twice):
            raise Unreadable("json", f"the key `{sorted(record.names)[0]}` appears twice")
        if not record.keys().isdisjoint(_BASE):
            _rebase(record, base)
        if any(label.endswith("_") for label in record.keys() - _LABELS):
            label = next(label for label in record if label.endswith("_"))
            reason = f"the field `{label}` must be understood (RFC 8428, 4.4), but semcep does not know it"
            raise Unreadable("senml", f"the pack cannot be used: {reason}")
        try:
            return self._resolved(record, base)
        except Unreadable as reason:
            return reason.kept()

    def _resolved(self, record: Mapping[str, Any], base: Mapping[str, Any]) -> str | None:
        resolved: dict[str, str] = {}
        for label, value in record.items():
            if label in _OWN:
                resolved[label] = _written(label, value)
        if self._revises and record.get(CHANGE) is not None:
            resolved[CHANGE] = json.dumps(record[CHANGE])
        values = [label for label in VALUES if label in resolved]
        if not values and "s" not in resolved:
            if not resolved and record and record.keys() <= set(_BASE):
                return None
            if not resolved:
                raise Unreadable("senml", _no_record(record))
            by_key = CHANGE in resolved and self.schema.key is not None
            if "bv" not in base and "bs" not in base and not by_key:
                raise Unreadable(
                    "senml", "the record has no value: it needs one of `v`, `vs`, `vb`, `vd`, or the sum `s`"
                )
        if len(values) > 1:
            raise Unreadable("senml", f"a record has one value, but this one has `{values[0]}` and `{values[1]}`")
        if "bv" in base and (not values or values[0] == "v"):
            resolved["v"] = str(_number("bv", base["bv"]) + _number("v", resolved.get("v", "0")))
            values = ["v"]
        if "bs" in base:
            resolved["s"] = str(_number("bs", base["bs"]) + _number("s", resolved.get("s", "0")))
        if values:
            resolved["value"] = resolved[values[0]]
        if "bu" in base and "u" not in resolved:
            resolved["u"] = quoted(base["bu"])
        if "bct" in base and "vd" in resolved and "ct" not in resolved:
            resolved["ct"] = quoted(base["bct"])
        resolved["n"] = self._name(base.get("bn", "") + record.get("n", ""))
        resolved["t"] = self._time(base.get("bt", 0), record.get("t", 0))
        return "{" + ", ".join([f"{key}: {resolved[label]}" for key, label in self._wanted if label in resolved]) + "}"

    def _name(self, name: str) -> str:
        if name not in self._names:
            if not name:
                raise Unreadable("senml", "the record has no name: it needs `n`, or `bn` in a record before it")
            if _NAMED.fullmatch(name) is None:
                reason = f"`{shown(name)}` is not a name: letters, digits and `-:./_`, the first a letter or a digit"
                raise Unreadable("senml", reason)
            if len(self._names) > 100_000:
                self._names.clear()
            self._names.add(name)
        return f'"{name}"'

    def _time(self, base: Any, own: Any) -> str:
        """Return the sum of the base time and a record's own time: seconds since 1970, without exponent."""
        if type(base) is int and type(own) is int:
            time: int | Decimal = base + own
        else:
            time = _number("bt", base) + _number("t", own)
        if time < RELATIVE:
            if self._now is None:
                when = f"{time:f} s from now" if time else "now"
                hint = "add a base time `bt` to the pack"
                option = 'or for a recording `FORMAT senml(now: "2026-11-22T10:00:00Z")`'
                raise Unreadable("time", f"the time is {when}, and the time of arrival is not used: {hint}, {option}")
            time = self._now + time
        return str(time) if type(time) is int else f"{time:f}"


def _no_record(record: Mapping[str, Any]) -> str:
    if not record:
        return "the record is empty"
    if isinstance(record.get("e"), list):
        how = '`{"bn": "dev:", "bt": 1714554000, "e": [{"n": "t", "v": 3}]}` is written now '
        how += '`[{"bn": "dev:", "bt": 1714554000, "n": "t", "v": 3}]`, with `vs` and `vb` for `sv` and `bv`'
        return f"this is SenML of the drafts before RFC 8428, which had its records at `e`: {how}"
    if "e" in record:
        return f'`e` is {kind(record["e"])}, no list of records; those of RFC 8428 are `[{{"n": "t", "v": 3}}]`'
    names = ", ".join(f"`{shown(name)}`" for name in list(record)[:3])
    return f"the record has no fields of SenML, only {names}"


def _inherited(records: PlainRecords, label: str) -> tuple[Ints, Ints]:
    """Find the base field `label` that applies to each record. Return the position and the length of its value.

    The base field of the record itself applies. If the record has none, that of the closest earlier record in the same
    pack applies. The length is 0 if no base field applies.
    """
    rows = np.arange(len(records.of))
    last = np.maximum.accumulate(np.where(records.there(label), rows, -1))
    last = np.where(last >= records.head, last, -1)
    first, length = records.cell(label)
    return first[last], np.where(last >= 0, length[last], 0)


def _rebase(record: Mapping[str, Any], base: dict[str, Any]) -> None:
    """Copy the base fields of a record to `base`. They apply to this record and all later records of the pack.

    Raise Unreadable if a base field is invalid. The whole pack is then invalid.
    """
    for label in _BASE:
        value = record.get(label)
        if value is None:
            if label in record:
                raise Unreadable("senml", f"the pack cannot be used: `{label}` is null")
            continue
        if label == "bver":
            if type(value) is not int or value < 1:
                raise Unreadable("senml", "the pack cannot be used: the version `bver` is not a positive integer")
            if value > VERSION:
                reason = f"it has version {value} of SenML, but {VERSION} is the latest known version"
                raise Unreadable("senml", f"the pack cannot be used: {reason}")
            continue
        try:
            text = _written(label, value)
            if _KINDS[label] == "a number":
                _number(label, text)
        except Unreadable as reason:
            raise Unreadable(reason.code, f"the pack cannot be used: {reason.reason}") from None
        base[label] = value


def _written(label: str, value: Any) -> str:
    wanted = _KINDS[label]
    if type(value) is str:
        if wanted == "a string":
            return quoted(value)
    elif isinstance(value, bool):
        if wanted == "a boolean":
            return "true" if value else "false"
    elif isinstance(value, int | Real) and wanted == "a number":
        return str(value)
    raise Unreadable("ill-typed", f"`{label}` has to be {wanted}, but it is {kind(value)}")


def _number(label: str, value: Any) -> Decimal:
    """Convert a number to a decimal, for exact addition. Raise Unreadable if it is too large for a measurement."""
    number = Decimal(str(value))
    if number and not -400 < number.adjusted() < _LARGEST:
        raise Unreadable("ill-typed", f"`{label}`: `{shown(str(value))}` is too large to be added")
    return number
