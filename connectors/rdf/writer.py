"""Output of derived occurrences to files of RDF: JSON-LD at the end, all other formats as the run proceeds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType

import polars as pl
import pyoxigraph as ox

from cep.connectors.rdf.derivations import Derivations
from cep.connectors.rdf.triples import stamp, triple_line
from cep.connectors.rdf.vocabulary import PREFIXES, PROV, RDF, RDFS, XSD, EventVocabulary
from cep.connectors.records.revised import VERSION
from cep.connectors.writing.sinks import Sink
from cep.core.errors import CepError
from cep.core.identity import ID, identified
from cep.core.schema import Schema
from cep.engine import Engine
from cep.runtime.history import CONSTITUENTS

_PRETTY = {"turtle": ox.RdfFormat.TURTLE, "trig": ox.RdfFormat.TRIG}


class RdfWriter:
    """A writer of RDF to `path` (`-`: standard output). It writes the rules first, then the derived occurrences.

    - `schemas`: the event types to write.
    - `times`: a field that other writers use. Here it is ignored, because times are always xsd:dateTime.

    A withdrawn occurrence is marked as invalidated at the event time that the run had reached. An occurrence that is
    added again is written as a revision, whose IRI contains the number of the revision.
    """

    def __init__(
        self,
        path: str,
        schemas: Mapping[str, Schema],
        engine: Engine,
        format: str,
        vocabulary: EventVocabulary | None = None,
    ) -> None:
        self.times = "iso"
        self.counts = dict.fromkeys(schemas, 0)
        if os.path.isdir(path) or path.endswith("/"):
            hint = "RDF of all events is written to one file: `--output events.nq`"
            raise CepError(f"`{path}` is a folder", hint=hint, code="output")
        self._schemas, self._format, self._vocabulary = schemas, format, vocabulary or EventVocabulary()
        self._engine = engine
        self._meanings = engine.meanings()
        self._sink = Sink(path)
        self._begun = False
        self._kept: list[str] = []
        self._derivations = Derivations(engine.plan, self._meanings, self._vocabulary, frozenset(schemas))
        engine.set_lineage_columns(CONSTITUENTS)
        self._put(self._derivations.rules())

    def write(self, tables: Mapping[str, pl.DataFrame]) -> int:
        """Write tables of occurrences, by event type. Return the number of rows."""
        total = 0
        for name, schema in self._schemas.items():
            table = tables.get(name)
            if table is not None and table.height:
                table = table.sort("end", "start", nulls_last=True, maintain_order=True)
                if VERSION in table.columns:
                    self._put(self._changes(table, schema))
                else:
                    named = identified(table, schema, self._meanings[name])
                    self._put(self._derivations.events({name: named}, self._schemas))
                self.counts[name] += table.height
                total += table.height
        return total

    def _changes(self, table: pl.DataFrame, schema: Schema) -> str:
        """Describe the withdrawn rows of a table, and then its added rows."""
        again = (pl.col(VERSION) + 1) // 2
        own = pl.when(again > 1).then(pl.col(ID) + "/" + again.cast(pl.String)).otherwise(pl.col(ID)).alias(ID)
        versions = table[VERSION].to_list()
        lines = []
        table = table.with_columns(own)
        for id, version in zip(table[ID].to_list(), versions):
            if version % 2 == 0:
                lines.append(self._withdrawn(self._vocabulary.event(id)))
        added = table.filter(pl.col(VERSION) % 2 == 1)
        lines.append(self._derivations.events({schema.name: added}, self._schemas))
        for id, version in zip(added[ID].to_list(), added[VERSION].to_list()):
            if version > 1:
                first = id.rpartition("/")[0]
                before = first if version == 3 else f"{first}/{version // 2}"
                names = self._vocabulary.event(id), self._vocabulary.event(before)
                lines.append(triple_line(names[0], PROV + "wasRevisionOf", names[1]))
        return "".join(lines)

    def _withdrawn(self, event: str) -> str:
        time, position = stamp(min(self._engine.watermark, self._engine.latest)), self._engine.position
        activity = f"{event}/withdrawn/{time}/{position}"
        moment = f'"{time.removesuffix("Z").rstrip("0").rstrip(".")}Z"^^<{XSD}dateTime>'
        return (
            triple_line(event, PROV + "wasInvalidatedBy", activity)
            + f"<{event}> <{PROV}invalidatedAtTime> {moment} .\n"
            + triple_line(activity, RDF + "type", PROV + "Activity")
            + f"<{activity}> <{PROV}endedAtTime> {moment} .\n"
        )

    def close(self) -> None:
        if self._format == "jsonld":
            self._sink.write(_written("".join(self._kept), ox.RdfFormat.JSON_LD) + b"\n")
        self._sink.close()

    def _put(self, text: str) -> None:
        if self._format == "jsonld":
            self._kept.append(text)
        elif self._format in _PRETTY:
            lines = _written(text, _PRETTY[self._format]).splitlines(keepends=True)
            head = [line for line in lines if line.startswith(b"@prefix")]
            self._sink.write(b"".join([*([] if self._begun else sorted(head)), *lines[len(head) :]]))
            self._begun = True
        else:
            self._sink.write(text.encode())

    def __enter__(self) -> RdfWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close() if kind is None else self._sink.discard()


def _written(text: str, format: ox.RdfFormat) -> bytes:
    quads = ox.parse(text, ox.RdfFormat.N_QUADS, lenient=True)
    names = {**PREFIXES, "rdfs": RDFS}
    serialized = ox.serialize(quads, format=format, prefixes=names if format != ox.RdfFormat.JSON_LD else None)
    assert serialized is not None, "without an output the text is given"
    return serialized
