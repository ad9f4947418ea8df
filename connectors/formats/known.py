"""The table of all record formats. Command-line options, help texts, error messages and the choice of a reader are
derived from this table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from cep.core.schema import Schema

if TYPE_CHECKING:
    from cep.connectors.formats.clauses import ClauseReader
    from cep.connectors.formats.influx import PointReader
    from cep.connectors.formats.jsonl import LineReader
    from cep.connectors.formats.packs import PackReader
    from cep.connectors.formats.sosa import Documents

    MessageReader = LineReader | PointReader | ClauseReader | PackReader | Documents

Shape = Literal["lines", "points", "clauses", "documents", "graph", "table", "columns"]
"""The layout of records in a format.

- `lines`: a JSON object per line.
- `points`: a point of line protocol per line.
- `clauses`: a clause of a dialect per line.
- `documents`: JSON documents with many records each.
- `graph`: nodes of an RDF graph.
- `table`: rows of text below a header.
- `columns`: typed columns.

In the first three layouts, each record names its event type.
"""


@dataclass(frozen=True, slots=True)
class Format:
    """A record format.

    - `suffixes`: the suffixes of file names that select the format.
    - `reader`: the module and class that read messages, imported at first use. It is None if messages cannot have this
      format.
    - `inferred`: True if `cep infer` can write declarations for this format.
    - `written`: True if derived events can be written in this format.
    - `numeric_times`: True if times may be numbers. The declaration may name their unit.
    - `declared`: True if only a declaration can select the format, False if a command-line option can also select it.
    """

    name: str
    shape: Shape
    suffixes: tuple[str, ...] = ()
    reader: str | None = None
    inferred: bool = False
    written: bool = False
    numeric_times: bool = True
    declared: bool = False

    @property
    def names_events(self) -> bool:
        """Return True if records name their event type."""
        return self.shape in ("lines", "points", "clauses")

    @property
    def of_sensors(self) -> bool:
        """Return True for formats of sensor data. These formats define their own field names."""
        return self.shape in ("documents", "points")

    def open(self, schemas: Mapping[str, Schema], event: str | None, bound: bool) -> MessageReader:
        """Return a reader of messages or lines. Raise CepError if this format cannot contain the declared event type.

        `event`: the event type of all records, or None if records name their event type. `bound`: True if the user
        chose `event`.
        """
        assert self.reader is not None, "it is not a format of messages"
        module, name = self.reader.split(":")
        reader = getattr(import_module(module), name)
        message_reader: MessageReader
        if self.shape == "clauses":
            message_reader = reader(schemas, self.name)
        elif self.shape in ("documents", "graph"):
            assert event is not None, "such records are bound to an event"
            message_reader = reader(schemas[event], self.name)
        else:
            message_reader = reader(schemas, event, bound)
        return message_reader


_CLAUSES = "cep.connectors.formats.clauses:ClauseReader"
_PACKS = "cep.connectors.formats.packs:PackReader"
_GRAPHS = "cep.connectors.formats.sosa:Documents"
_ALL = (
    Format(
        "jsonl",
        "lines",
        (".jsonl", ".ndjson", ".json"),
        "cep.connectors.formats.jsonl:LineReader",
        inferred=True,
        written=True,
    ),
    Format("csv", "table", (".csv",), inferred=True, written=True),
    Format("tsv", "table", (".tsv",), inferred=True, written=True),
    Format("zeek", "table", declared=True),
    Format("parquet", "columns", (".parquet",), inferred=True, written=True),
    Format("nquads", "graph", (".nq", ".nt"), _GRAPHS, numeric_times=False),
    Format("jsonld", "graph", (".jsonld",), _GRAPHS, numeric_times=False),
    Format("senml", "documents", (".senml",), _PACKS, inferred=True),
    Format("sensorthings", "documents", (), _PACKS, inferred=True, numeric_times=False),
    Format("influx", "points", (".lp", ".line"), "cep.connectors.formats.influx:PointReader", inferred=True),
    Format(
        "prometheus",
        "points",
        (".prom",),
        "cep.connectors.formats.prometheus:SampleReader",
        inferred=True,
        numeric_times=False,
    ),
    Format("facts", "clauses", (".facts",), _CLAUSES),
    Format("rtec", "clauses", (), _CLAUSES),
)
FORMATS: Mapping[str, Format] = {format.name: format for format in _ALL}
BY_SUFFIX: Mapping[str, str] = {suffix: format.name for format in _ALL for suffix in format.suffixes}
NAMES = tuple(format.name for format in _ALL if not format.declared)
"""The names of the formats that the option `--format` accepts."""
KNOWN = ", ".join(NAMES)
COMPRESSED = (".gz", ".zst")


def check_declared(schemas: Mapping[str, Schema]) -> None:
    """Raise CepError if a declaration names a format whose records cannot contain the event type or fluent."""
    named: dict[str, dict[str, Schema]] = {}
    for name, schema in schemas.items():
        if schema.records is not None:
            named.setdefault(schema.records.name, {})[name] = schema
    for format in (FORMATS[name] for name in named):
        if format.shape == "documents":
            for event in named[format.name]:
                format.open(schemas, event, True)
        elif format.shape == "points":
            format.open(named[format.name], None, False)
