"""The reference's triples behind the engine's interface: knowledge for tests that need no more than matching."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from cep.background import Answers, Fixed
from cep.conditions import Relation
from cep.errors import Source
from cep.syntax.ast import Graph
from cep.values import MISSING, Pool
from knowledge import geometry as places
from knowledge.terms import Terms
from knowledge.triples import Triples
from tests.reference_conditions import kind
from tests.reference_knowledge import XSD, Term, Triple, answers, read, value
from tests.reference_parser import Ticks


class Matched:
    """Knowledge that answers by nested loops. Changes are Turtle."""

    def __init__(self, triples: Sequence[Triple]) -> None:
        self.known = list(triples)
        self.fingerprint = hashlib.sha256(repr(self.known).encode()).hexdigest()

    def answers(self, graph: Graph, pool: Pool, source: Source) -> Answers:
        return table(answers(graph.text, dict(graph.prefixes), graph.variables, self.known), len(graph.variables), pool)

    def triples(self, fixed: Fixed, pool: Pool) -> Answers:
        rows = [tuple(map(value, triple)) for triple in self.known]
        rows = [row for row in rows if all(want is None or want == term for want, term in zip(fixed, row))]
        rows = [tuple(term for want, term in zip(fixed, row) if want is None) for row in rows]
        return table(rows, fixed.count(None), pool)

    def relations(self, pool: Pool) -> Mapping[str, Relation]:
        return places.relations(places.Places(*stored(self.known)), pool)

    def fork(self) -> Matched:
        return Matched(self.known)

    def change(self, add: str, remove: str) -> bytes:
        read(add), read(remove)
        return json.dumps([[remove, add]]).encode()

    def merge(self, changes: Sequence[bytes]) -> bytes:
        return json.dumps([step for change in changes for step in json.loads(change)]).encode()

    def apply(self, change: bytes) -> None:
        for remove, add in json.loads(change):
            gone = read(remove)
            self.known = list(dict.fromkeys([*(t for t in self.known if t not in gone), *read(add)]))


def stored(triples: Sequence[Triple]) -> tuple[Terms, Triples]:
    """The triples as knowledge holds them."""
    terms = Terms()

    def id_of(term: Term) -> int:
        text = pl.Series([term.text.removeprefix("_:") if term.kind == "blank" else term.text])
        if term.kind == "literal":
            return int(terms.literals(text, term.datatype or f"{XSD}string", term.language)[0])
        return int((terms.iris if term.kind == "iri" else terms.blanks)(text)[0])

    ids = np.array([[id_of(term) for term in triple] for triple in triples], dtype=np.int64).reshape(-1, 3)
    return terms, Triples.of(*ids.T)


def table(rows: list[tuple[Any, ...]], width: int, pool: Pool) -> Answers:
    columns = [column([row[i] for row in rows], pool) for i in range(width)]
    return Answers(tuple(type for type, _ in columns), tuple(values for _, values in columns), len(rows))


def column(values: list[Any], pool: Pool) -> tuple[str, np.ndarray]:
    """A column in the engine's representation, of the type of all its values."""
    kinds = {_type(each) for each in values if each is not None}
    kinds = {"float"} if kinds == {"int", "float"} else kinds
    type = kinds.pop() if len(kinds) == 1 else "any"
    if type in ("string", "iri", "any"):
        return type, pool.encode_values([_plain(each) for each in values])
    if type == "float":
        return type, np.array([np.nan if each is None else each for each in values], dtype=np.float64)
    ticks = [each.n if isinstance(each, Ticks) else each for each in values]
    return type, np.array([MISSING if each is None else each for each in ticks], dtype=np.int64)


def _type(each: Any) -> str:
    return {"number": type(each).__name__}.get(kind(each), kind(each))


def _plain(each: Any) -> Any:
    return each.n / 1_000_000 if isinstance(each, Ticks) else each
