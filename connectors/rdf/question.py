"""Queries to the store, their answers, and refusals."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyoxigraph as ox

RESULTS = {
    "json": ox.QueryResultsFormat.JSON,
    "xml": ox.QueryResultsFormat.XML,
    "csv": ox.QueryResultsFormat.CSV,
    "tsv": ox.QueryResultsFormat.TSV,
}
GRAPHS = {
    "nt": ox.RdfFormat.N_TRIPLES,
    "ttl": ox.RdfFormat.TURTLE,
    "rdf": ox.RdfFormat.RDF_XML,
    "jsonld": ox.RdfFormat.JSON_LD,
}


@dataclass(frozen=True, slots=True)
class Question:
    """A query.

    `table`, `graph`: the formats of an answer that is a table (or a boolean), and of one that is triples. `default`,
    `named`: the graphs that the query reads; None: all. `seconds`: the time limit, counted from its arrival. `bytes`:
    the maximum size of the answer. `client`: the sender; clients take turns.
    """

    text: str
    table: str = "json"
    graph: str = "ttl"
    default: tuple[str, ...] | None = None
    named: tuple[str, ...] | None = None
    prefixes: tuple[tuple[str, str], ...] = ()
    seconds: float = 10.0
    bytes: int = 1 << 26
    client: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. `format`: the format of `body`, a key of RESULTS or GRAPHS."""

    format: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the events that end in a span of time.

    `members`: the IRIs of events, in order of time. `body`: their description in N-Triples. `more`: the instant at
    which the next page begins; None for the last page. If there are too many events for a page, it only has `parts`,
    the smaller spans to request instead.
    """

    members: tuple[str, ...] = ()
    body: bytes = b""
    more: str | None = None
    parts: tuple[str, ...] = ()


class QueryRefused(Exception):
    """An error for a query without an answer. `code`: `syntax`, `service`, `large`, `slow`, `busy`, `gone`,
    `failed`."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
