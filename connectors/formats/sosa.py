"""A reader of observations in RDF. A declaration selects observations by class and properties."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.connectors.formats.streams import ByteStream, whole_lines
from cep.connectors.records.batch import Block, DeadLetter
from cep.connectors.records.paths import source_of
from cep.connectors.records.records import Record, series
from cep.connectors.records.revised import ADD, WITHDRAW
from cep.connectors.records.times import shown
from cep.connectors.records.values import Unreadable, text_time, text_value
from cep.core.errors import CepError
from cep.core.fluents import RECORD_BOUNDS
from cep.core.schema import ARRIVAL, CHANGE, Attribute, Schema
from cep.events import Value
from cep.knowledge.observations import (
    InvalidLine,
    NodeShape,
    Observation,
    ObservedTerm,
    PropertyPath,
    lines_of_json,
    observations,
)
from cep.knowledge.rdf.namespaces import PROV

SOSA = "http://www.w3.org/ns/sosa/"
INVALIDATED = tuple(f"{PROV}{name}" for name in ("invalidatedAtTime", "wasInvalidatedBy"))
"""The properties that mark an observation as a withdrawal of an earlier observation with equal values."""
_PATH = re.compile(r"<[^<>]+>(?:/<[^<>]+>)*")
_HINT = "add a property, `temp: float AS sosa:hasSimpleResult`, or a path, `FROM sosa:hasResult/qudt:numericValue`"

_Found = tuple[int, Record | Unreadable]


class Documents:
    """A reader of the observations of one event type. Observations are nodes of an RDF class. The declaration names the
    class with `AS`. By default, it is sosa:Observation.

    Each attribute is read from a property path (`FROM`) or from a property (`AS`). The time is also read from a
    property path, by default from sosa:resultTime.
    """

    def __init__(self, schema: Schema, format: str) -> None:
        """Raise CepError if an attribute has neither FROM nor AS, if a time column is not a property, or if the event
        type has a WHEN condition."""
        if schema.when is not None:
            hint = f"leave out WHEN, and select observations by class: `event {schema.name}(...) AS <class>`"
            raise CepError(
                f"{schema.name}: WHEN tests fields of records, but observations in RDF have no fields",
                hint=hint,
                code="input",
            )
        bounded = tuple(
            attribute
            for attribute in schema.attributes
            if attribute.name != RECORD_BOUNDS or _path(source_of(attribute))
        )
        self.schema = schema = replace(schema, attributes=bounded)
        self._format = format
        times = (schema.time,) if schema.start is None and schema.end is None else (schema.start, schema.end)
        self._times = [_path(time or f"<{SOSA}resultTime>") for time in times]
        if None in self._times:
            message = f"{schema.name}: `{next(time for time in times if time)}` is not a property in RDF"
            raise CepError(message, hint="e.g. `TIME sosa:resultTime`, with `PREFIX sosa: <...>`", code="input")
        self._paths: list[PropertyPath] = [path for path in self._times if path is not None]
        own = [attribute for attribute in schema.attributes if attribute.name != CHANGE]
        for attribute in own:
            path = _path(attribute.source or "") or ((attribute.iri,) if attribute.iri else None)
            if path is None:
                message = f"{schema.name}: the RDF property of `{attribute.name}` is not declared"
                raise CepError(message, hint=_HINT, code="input")
            self._paths.append(path)
        self._revises = len(own) < len(schema.attributes)
        self._paths += [(predicate,) for predicate in INVALIDATED if self._revises]
        self._shape = NodeShape(schema.iri or SOSA + "Observation", self._paths[0], tuple(self._paths))

    def read(self, documents: Sequence[bytes], first: int) -> tuple[pl.DataFrame, list[DeadLetter], NDArray[np.int64]]:
        """Read documents. Return the table of events, the dead letters, and for each record the index of its document.

        The record numbers start at `first`. In a dead letter, the line number is the index of the document.
        """
        records = [(row, record) for row, text in enumerate(documents) if text for _, record in self._records(text)]
        return self._table("", records, first, lambda row: documents[row].decode("utf-8", "replace"))

    def one(self, file: str, text: bytes, first: int) -> tuple[pl.DataFrame, list[DeadLetter], NDArray[np.int64]]:
        """Read a file that is a single document. Return the events, the dead letters, and the line of each record."""
        return self._table(file, self._records(text), first, lambda line: None)

    def _records(self, text: bytes) -> list[_Found]:
        records: list[_Found] = []
        for observation in observations(text, self._format, [self._shape]):
            try:
                records.append((observation.line, self._record(observation)))
            except Unreadable as reason:
                records.append((observation.line, reason.kept()))
        return records

    def _record(self, observation: Observation | InvalidLine) -> Record:
        if isinstance(observation, InvalidLine):
            raise Unreadable("rdf", observation.reason)
        count = len(self._times)
        keys = ("TIME",) if count == 1 else ("START", "END")
        times = [text_time(key, _time(key, terms), self.schema.format) for key, terms in zip(keys, observation.values)]
        own = self.schema.attributes[:-1] if self._revises else self.schema.attributes
        values = tuple(_value(*pair) for pair in zip(own, observation.values[count:]))
        if self._revises:
            values = *values, WITHDRAW if any(observation.values[-len(INVALIDATED) :]) else ADD
        return Record(self.schema.name, times[0], times[-1], values)

    def _table(
        self, file: str, records: Sequence[_Found], first: int, text: Callable[[int], str | None]
    ) -> tuple[pl.DataFrame, list[DeadLetter], NDArray[np.int64]]:
        dead: list[DeadLetter] = []
        good: list[tuple[int, Record]] = []
        for order, (line, record) in enumerate(records, first):
            if isinstance(record, Unreadable):
                dead.append(DeadLetter(file, line, record.reason, record.code, text(line)))
            else:
                good.append((order, record))
        columns = [
            pl.Series("start", [record.start for _, record in good], dtype=pl.Int64),
            pl.Series("end", [record.end for _, record in good], dtype=pl.Int64),
            pl.Series(ARRIVAL, [order for order, _ in good], dtype=pl.Int64),
        ]
        for place, attribute in enumerate(self.schema.attributes):
            columns.append(series(attribute, [record.values[place] for _, record in good]))
        return pl.DataFrame(columns), dead, np.array([line for line, _ in records], np.int64)


def read_observations(
    file: str, stream: ByteStream, documents: Documents, format: str, chunk: int, first: int
) -> Iterator[tuple[pl.DataFrame | None, list[DeadLetter], Block | None]]:
    """Yield, for each block, the table of events, the dead letters, and the positions of the records.

    While the stream is silent, yield `(None, [], None)`. A stream in JSON-LD that has one document per line is read
    block by block. Any other stream is read as a whole, because the triples of a node may be anywhere in it.
    """
    line = 1
    blocks = whole_lines(stream, chunk)
    if format == "jsonld":
        for data, position, length in blocks:
            if not length and not data:
                yield None, [], None
                continue
            if line == 1 and not lines_of_json(data):
                blocks = (block for block in [(data, position, length), *blocks])
                break
            rows = data.split(b"\n")
            table, dead, places = documents.read([row.strip() for row in rows], first)
            lines = places + line
            block = Block(file, first, len(lines), line, lines, times="iso", said=invalidates(data))
            yield table, [replace(record, file=file, line=record.line + line) for record in dead], block
            first = block.beyond
            line += data.count(b"\n")
        else:
            return
    text = b"".join(data for data, _, _ in blocks if data)
    table, dead, lines = documents.one(file, text, first)
    yield table, dead, Block(file, first, len(lines), 1, lines, times="iso", said=invalidates(text))


def invalidates(text: bytes) -> bool:
    """Return True if a text may contain a withdrawal. It may if it contains the local name of one of the properties
    INVALIDATED. Prefixes are ignored, because they vary."""
    return any(word.removeprefix(PROV).encode() in text for word in INVALIDATED)


def _path(text: str) -> PropertyPath | None:
    return tuple(text[1:-1].split(">/<")) if _PATH.fullmatch(text) else None


def _single(name: str, terms: Sequence[ObservedTerm]) -> ObservedTerm | None:
    if len(terms) > 1:
        raise Unreadable("ill-typed", f"{name}: the observation has {len(terms)} values, and only one can be read")
    return terms[0] if terms else None


def _time(key: str, terms: Sequence[ObservedTerm]) -> str:
    term = _single(key, terms)
    if term is None:
        raise Unreadable("time", f"no time: the property of {key} is missing")
    if term.kind != "literal":
        raise Unreadable("time", f"{key}: {_named(term)} is not a time")
    return term.text


def _value(attribute: Attribute, terms: Sequence[ObservedTerm]) -> Value:
    term = _single(attribute.name, terms)
    if term is None:
        return None
    taken = {"literal": attribute.type != "iri", "iri": attribute.type in ("iri", "string"), "blank": False}
    if not taken[term.kind]:
        raise Unreadable("ill-typed", f"{attribute.name}: expected {attribute.type}, found {_named(term)}")
    return text_value(attribute, term.text)


def _named(term: ObservedTerm) -> str:
    match term.kind:
        case "iri":
            return f"the IRI <{shown(term.text)}>"
        case "blank":
            return "a blank node, whose values are read with a path"
        case _:
            return f"`{shown(term.text)}`"
