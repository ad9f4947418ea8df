"""Streams with late, corrected and withdrawn records, written in every format, and the capabilities of each format."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import polars as pl

from cep.connectors.records.times import iso
from cep.core.fluents import RECORD_BOUNDS, RECORD_END
from cep.core.schema import Attribute, Schema
from cep.events import Event, Value

Change = tuple[Event, int]
"""A record, and 1 where it comes, -1 where it withdraws another."""
SECOND = 1_000_000
ONE_TIME = "a record of SenML has one time, but a fluent needs a start and an end"
NO_DECLARATION = "the program is not {}, so its events have no names in this format"
NAMES = "http://example.org/"


@dataclass(frozen=True, slots=True)
class Form:
    """How a format writes records.

    `key`, `fluents`: why events with a KEY, or fluents, cannot come in it; None: they can. `declared`: the clauses of
    the declaration of an event or a fluent, of which `line` writes records; `each_type`: a file holds one event.
    `bounds`: records of fluents say them; `instants`: it has no intervals; `missing`: it has missing values; `ways`:
    how records come.
    """

    format: str
    declared: Callable[[Schema], str]
    text: Callable[[Schema, Sequence[Change]], bytes]
    suffix: str
    each_type: bool = True
    key: str | None = None
    fluents: str | None = None
    bounds: bool = True
    instants: bool = False
    missing: bool = True
    ways: Sequence[str] = ("files", "files", "messages")

    def files(self, folder: Path, schemas: Mapping[str, Schema], changes: Sequence[Change]) -> list[str]:
        """Write files whose records stand in the order of the changes; returns what `--input` says of them."""
        whole = not self.each_type
        runs: Iterator[tuple[object, Iterator[Change]]]
        runs = iter([("", iter(changes))]) if whole else groupby(changes, lambda change: change[0].type)
        specs = []
        for number, (type, run) in enumerate(runs):
            path = folder / f"{number}{self.suffix}"
            own = list(run)
            if whole:
                path.write_bytes(b"".join(self.text(schemas[each[0].type], [each]) for each in own))
            else:
                path.write_bytes(self.text(schemas[str(type)], own))
            specs.append(str(path) if whole else f"{type}={path}")
        return specs


def is_fluent(schema: Schema) -> bool:
    return any(each.name == RECORD_END for each in schema.attributes)


def own(schema: Schema) -> list[Attribute]:
    """The attributes of an event or a fluent, without those that its records have besides."""
    return [each for each in schema.attributes if each.name not in (RECORD_END, RECORD_BOUNDS)]


def seconds(time: int) -> str:
    return f"{time // SECOND}.{time % SECOND:06}"


def _ends(event: Event, schema: Schema) -> tuple[int, int | None]:
    """The start and the end, None: it still holds."""
    if not is_fluent(schema):
        return event.start, event.end
    end = event.args[-2]
    assert end is None or isinstance(end, int), "a time"
    return event.start, end


def _values(event: Event, schema: Schema) -> dict[str, Value]:
    return dict(zip((each.name for each in own(schema)), event.args))


def _attributes(schema: Schema, source: Callable[[Attribute], str] = lambda each: "") -> str:
    texts = (f"{each.name}: {each.type}{'?' if each.optional else ''}{source(each)}" for each in own(schema))
    return f"({', '.join(texts)})" if own(schema) else ""


def _plain(schema: Schema) -> str:
    return f"{_attributes(schema)} START s' END e'".replace("'", "_")


# --- JSON Lines, tables ---


def _json(schema: Schema, changes: Sequence[Change]) -> bytes:
    lines = []
    for event, sign in changes:
        start, end = _ends(event, schema)
        record = {"type": schema.name, "s_": iso(start), "e_": None if end is None else iso(end)}
        record |= _values(event, schema) | ({"bounds": event.args[-1]} if is_fluent(schema) else {})
        lines.append(json.dumps(record | ({"@change": "withdraw"} if sign < 0 else {})))
    return "".join(f"{line}\n" for line in lines).encode()


def table(schema: Schema, changes: Sequence[Change]) -> pl.DataFrame:
    ends = [_ends(event, schema) for event, _ in changes]
    time = pl.Datetime("us", "UTC")
    types = {"int": pl.Int64, "float": pl.Float64, "bool": pl.Boolean}
    columns = [pl.Series("s_", [start for start, _ in ends], dtype=time)]
    columns += [pl.Series("e_", [end for _, end in ends], dtype=time)]
    for place, each in enumerate(own(schema)):
        values = [event.args[place] for event, _ in changes]
        columns.append(pl.Series(each.name, values, dtype=types.get(each.type, pl.String)))
    if is_fluent(schema):
        columns.append(pl.Series("bounds", [event.args[-1] for event, _ in changes], dtype=pl.String))
    if any(sign < 0 for _, sign in changes):
        columns.append(pl.Series("@change", ["withdraw" if sign < 0 else None for _, sign in changes]))
    return pl.DataFrame(columns)


def _delimited(separator: str) -> Callable[[Schema, Sequence[Change]], bytes]:
    def text(schema: Schema, changes: Sequence[Change]) -> bytes:
        return table(schema, changes).write_csv(separator=separator, datetime_format="%Y-%m-%dT%H:%M:%S%.6fZ").encode()

    return text


def _parquet(schema: Schema, changes: Sequence[Change]) -> bytes:
    out = io.BytesIO()
    table(schema, changes).write_parquet(out)
    return out.getvalue()


# --- sensors ---


def senml_fields(schema: Schema) -> dict[str, str]:
    """The field of SenML of each attribute. KeyError: there is none."""
    rooms = {"text": ["u"], "number": ["v", "s", "ut"]}
    fields = {}
    for each in own(schema):
        kind = {"int": "number", "float": "number", "string": "text"}[each.type]
        if kind == "text" and not each.optional and "n" not in fields.values():
            fields[each.name] = "n"
        elif rooms[kind]:
            fields[each.name] = rooms[kind].pop(0)
        else:
            raise KeyError(each.name)
    return fields


def _senml(schema: Schema, changes: Sequence[Change]) -> bytes:
    fields = senml_fields(schema)
    packs = []
    for event, sign in changes:
        record: dict[str, object] = {"n": "x", "bt": event.start // SECOND, "t": event.start % SECOND / SECOND}
        record |= {fields[name]: value for name, value in _values(event, schema).items() if value is not None}
        packs.append(json.dumps([record | ({"@change": "withdraw"} if sign < 0 else {})]))
    return "".join(f"{pack}\n" for pack in packs).encode()


def _senml_declared(schema: Schema) -> str:
    fields = {} if is_fluent(schema) else senml_fields(schema)
    names = _attributes(schema, lambda each: f" FROM {fields[each.name]}" if fields else "")
    return f"{names} START t END t FORMAT senml"


def _observations(schema: Schema, changes: Sequence[Change]) -> bytes:
    lines = []
    for event, sign in changes:
        start, end = _ends(event, schema)
        interval = f"{iso(start)}/{'..' if end is None else iso(end)}"
        record: dict[str, object] = {"phenomenonTime": iso(start) if start == end else interval}
        record["parameters"] = {name: value for name, value in _values(event, schema).items() if value is not None}
        record |= {"bounds": event.args[-1]} if is_fluent(schema) else {}
        lines.append(json.dumps(record | ({"@change": "withdraw"} if sign < 0 else {})))
    return "".join(f"{line}\n" for line in lines).encode()


def _observed(schema: Schema) -> str:
    return f"{_attributes(schema, lambda each: f' FROM parameters.{each.name}')} FORMAT sensorthings"


def _points(schema: Schema, changes: Sequence[Change]) -> bytes:
    lines = []
    for event, sign in changes:
        start, end = _ends(event, schema)
        first, last = (start, end) if is_fluent(schema) else (end, start)
        fields = {} if last is None else {"other": f"{last * 1000}i"}
        for name, value in _values(event, schema).items():
            if value is not None:
                fields[name] = (
                    f'"{value}"' if isinstance(value, str) else f"{value}i" if type(value) is int else f"{value}"
                )
        fields |= {"bounds": f'"{event.args[-1]}"'} if is_fluent(schema) else {}
        fields |= {"@change": '"withdraw"'} if sign < 0 else {}
        assert first is not None, "of an event both are there"
        lines.append(f"{schema.name} {','.join(f'{name}={value}' for name, value in fields.items())} {first * 1000}")
    return "".join(f"{line}\n" for line in lines).encode()


def _measured(schema: Schema) -> str:
    return (
        f"{_attributes(schema)} {'START time END other' if is_fluent(schema) else 'START other END time'} FORMAT influx"
    )


def _samples(schema: Schema, changes: Sequence[Change]) -> bytes:
    lines = []
    for event, sign in changes:
        start, end = _ends(event, schema)
        first, last = (start, end) if is_fluent(schema) else (end, start)
        labels = {} if last is None else {"other": str(last)}
        labels |= {name: _literal(value) for name, value in _values(event, schema).items() if value is not None}
        labels |= {"bounds": str(event.args[-1])} if is_fluent(schema) else {}
        labels |= {"@change": "withdraw"} if sign < 0 else {}
        assert first is not None, "of an event both are there"
        written = ",".join(f'"{name}"="{value}"' for name, value in labels.items())
        lines.append(f"{schema.name}{{{written}}} 1 {seconds(first)}")
    return "".join(f"{line}\n" for line in lines).encode()


def _sampled(schema: Schema) -> str:
    return _measured(schema).replace("FORMAT influx", "FORMAT prometheus")


# --- RDF ---


def _nodes(schema: Schema, changes: Sequence[Change]) -> Iterator[dict[str, object]]:
    for event, sign in changes:
        start, end = _ends(event, schema)
        node: dict[str, object] = {f"{NAMES}start": iso(start)}
        node |= {} if end is None else {f"{NAMES}end": iso(end)}
        node |= {f"{NAMES}{name}": value for name, value in _values(event, schema).items() if value is not None}
        yield node | ({"http://www.w3.org/ns/prov#invalidatedAtTime": iso(event.end)} if sign < 0 else {})


def _json_ld(schema: Schema, changes: Sequence[Change]) -> bytes:
    nodes = ({"@type": f"{NAMES}{schema.name}"} | node for node in _nodes(schema, changes))
    return "".join(json.dumps(node) + "\n" for node in nodes).encode()


def _n_quads(schema: Schema, changes: Sequence[Change]) -> bytes:
    lines = []
    for number, node in enumerate(_nodes(schema, changes)):
        lines.append(f"_:r{number} <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{NAMES}{schema.name}> .")
        lines += [f'_:r{number} <{name}> "{_literal(value)}" .' for name, value in node.items()]
    return "".join(f"{line}\n" for line in lines).encode()


def _literal(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _in_rdf(schema: Schema) -> str:
    names = _attributes(schema, lambda each: f" AS <{NAMES}{each.name}>")
    return f"{names} AS <{NAMES}{schema.name}> START <{NAMES}start> END <{NAMES}end>"


# --- dialects ---


def _facts(schema: Schema, changes: Sequence[Change]) -> bytes:
    lines = []
    for event, sign in changes:
        start, end = _ends(event, schema)
        bounds = str(event.args[-1])
        when = f"{bounds[0]}{seconds(start)},{'inf' if end is None else seconds(end)}{bounds[1]}"
        values = _values(event, schema).values()
        lines.append(f"{'-' if sign < 0 else ''}{schema.name}({','.join(map(str, values))})@{when}")
    return "".join(f"{line}\n" for line in lines).encode()


def _rtec(schema: Schema, changes: Sequence[Change]) -> bytes:
    lines = []
    for event, sign in changes:
        start, end = _ends(event, schema)
        values = [str(value) for value in _values(event, schema).values()]
        times = [start // SECOND]
        if is_fluent(schema):
            times = [times[0] + 1, *(["inf"] if end is None else [end // SECOND + 1])]
            values = [values[-1], *values[:-1]]
        fields = [schema.name, "0", *map(str, times), *values]
        lines.append(("-" if sign < 0 else "") + "|".join(fields))
    return "".join(f"{line}\n" for line in lines).encode()


def _undeclared(schema: Schema) -> str:
    raise AssertionError("a dialect has no declarations")


_JSON = Form("jsonl", _plain, _json, ".jsonl", each_type=False)
_FACTS = Form(
    "facts", _undeclared, _facts, ".facts", each_type=False, key=NO_DECLARATION.format("datalogmtl"), missing=False
)
FORMS: Mapping[str, Form] = {
    form.format: form
    for form in (
        _JSON,
        Form("csv", _plain, _delimited(","), ".csv", ways=("files",)),
        Form("tsv", _plain, _delimited("\t"), ".tsv", ways=("files",)),
        Form("parquet", _plain, _parquet, ".parquet", ways=("files", "frames")),
        Form("senml", _senml_declared, _senml, ".senml", fluents=ONE_TIME, instants=True),
        Form("sensorthings", _observed, _observations, ".json"),
        Form("influx", _measured, _points, ".lp", each_type=False),
        Form("prometheus", _sampled, _samples, ".prom", each_type=False),
        Form("nquads", _in_rdf, _n_quads, ".nq", bounds=False),
        Form("jsonld", _in_rdf, _json_ld, ".jsonld", bounds=False),
        _FACTS,
        replace(_FACTS, format="rtec", text=_rtec, suffix=".txt", key=NO_DECLARATION.format("rtec"), bounds=False),
    )
}
"""The abilities of each format. All take records that are late or withdrawn."""
