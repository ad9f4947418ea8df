"""Queries to the store, their answers, and the errors for refused queries."""

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
    """A SPARQL query and the limits for its evaluation.

    - `table`: the format of the answer if it is a table or a boolean.
    - `graph`: the format of the answer if it consists of triples.
    - `default`, `named`: the default graphs and the named graphs that the query reads. None means all.
    - `seconds`: the time limit, which starts when the query arrives.
    - `bytes`: the maximum size of the answer.
    - `client`: the sender. Clients take turns.
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
    """The answer to a query. `format`: the format of `body`, which is a key of RESULTS or GRAPHS."""

    format: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the occurrences that end in a span of time.

    - `members`: the IRIs of the occurrences, in order of time.
    - `body`: the description of the occurrences in N-Triples.
    - `more`: the instant at which the next page begins; None for the last page.
    - `parts`: if the span contains too many occurrences for a page, the smaller spans to request instead. The other
      fields are then empty.
    """

    members: tuple[str, ...] = ()
    body: bytes = b""
    more: str | None = None
    parts: tuple[str, ...] = ()


class QueryRefused(Exception):
    """An error for a query that is not answered.

    `code`: `syntax`, `service`, `large`, `slow`, `busy`, `gone` or `failed`.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
