"""Background knowledge as the engine sees it: something that answers graph patterns with tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cep.conditions import Column, Mask, Probe, Relation
from cep.errors import CepError, CepErrors, Source
from cep.events import Iri
from cep.plan.algebra import Rules, Triples
from cep.stored import Chosen, Stored
from cep.syntax.ast import Graph
from cep.values import Areas, Ints, Pool

Fixed = tuple[Iri | None, Iri | None, Iri | None]
"""Subject, predicate and object of a triple, None where any will do."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The distinct rows of a relation, column by column, as the engine holds values (`cep.values`).

    Columns are float64 (type float) or int64: codes of the pool for string, iri and any. NaN and MISSING stand where a
    variable is not bound.
    """

    types: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: int


class Background(Protocol):
    """Knowledge that an engine can ask. What it gives is what holds in its present state.

    A change takes triples away and then adds others. As bytes it is opaque here: what `change` makes, `merge` puts
    together and `apply` takes, also in another process.
    """

    @property
    def fingerprint(self) -> str:
        """A name for what was loaded and how: equal names are equal knowledge."""

    def answers(self, graph: Graph, pool: Pool, source: Source) -> Answers:
        """The answers of a graph pattern, a column for each of `graph.variables`.

        Raises CepError with a span inside the braces.
        """

    def triples(self, fixed: Fixed, pool: Pool) -> Answers:
        """The triples that have these terms, a column for each position that is not fixed."""

    def relations(self, pool: Pool) -> Mapping[str, Relation]:
        """Further predicates that conditions can ask, by name."""

    def areas(self) -> Areas | None:
        """What gives the shapes of places by their IRIs, for `inside`. Equal ones give the same."""

    def fork(self) -> Background:
        """The same knowledge in its present state, which changes by itself."""

    def change(self, add: Any, remove: Any) -> bytes:
        """A change, checked. Raises CepError where `add` or `remove` is no RDF."""

    def merge(self, changes: Sequence[bytes]) -> bytes:
        """Changes one after the other as one."""

    def apply(self, change: bytes) -> None:
        """Change the knowledge. Raises CepError, and changes nothing, where the new state contradicts itself."""


Rows = tuple[tuple[Column, ...], int]
"""Columns, and how many rows they have."""


class Offered:
    """A predicate of the knowledge's own, whose present relation is asked: a change may bring another one."""

    def __init__(self, relation: Relation) -> None:
        self.relation = relation

    @property
    def name(self) -> str:
        return self.relation.name

    @property
    def arity(self) -> int:
        return self.relation.arity

    @property
    def types(self) -> tuple[str | None, ...]:
        return self.relation.types

    def ready(self, bound: frozenset[int]) -> bool:
        return self.relation.ready(bound)

    def probe(self, bound: Mapping[int, str], wanted: tuple[int, ...]) -> Probe:
        return _OfferedProbe(self, bound, wanted)


class _OfferedProbe:
    def __init__(self, offered: Offered, bound: Mapping[int, str], wanted: tuple[int, ...]) -> None:
        self._offered = offered
        self._asked = (bound, wanted)
        self._relation = offered.relation
        self._probe = self._relation.probe(bound, wanted)
        self.types = self._probe.types
        self.single = self._probe.single

    def _now(self) -> Probe:
        if self._relation is not self._offered.relation:
            self._relation = self._offered.relation
            self._probe = self._relation.probe(*self._asked)
        return self._probe

    def answers(self, bound: Sequence[Column], rows: int) -> tuple[Ints, list[Column]]:
        return self._now().answers(bound, rows)

    def holds(self, bound: Sequence[Column], rows: int) -> Mask:
        return self._now().holds(bound, rows)


@dataclass(slots=True)
class Known:
    """What the rules of a program can ask of knowledge: `tables` by predicate, and what it `offers` besides."""

    tables: dict[str, Stored]
    offers: dict[str, Offered]
    errors: list[CepError]

    def relations(self, rules: Rules) -> dict[str, Relation]:
        return {name: relation(rules.asked[name], table) for name, table in self.tables.items()} | self.offers


def ask(rules: Rules, background: Background | None, tables: Collection[str], pool: Pool) -> Known:
    """The tables of all that rules ask of the background knowledge, and what further predicates there are.

    `tables`: the predicates whose facts are given from outside.
    """
    known = Known({}, {}, [])
    for name, asked in rules.asked.items():
        width = len(asked.variables) if isinstance(asked, Graph) else asked.fixed.count(None)
        table = Stored(name, ("any",) * width)
        try:
            if background is None:
                raise _nothing_to_ask(asked, rules.source)
            found = answers(background, asked, pool, rules.source)
            table = Stored(name, found.types)
            table.add(found.columns, found.rows)
        except CepError as error:
            known.errors += error.errors if isinstance(error, CepErrors) else [error]
        known.tables[name] = table
    if background is not None:
        known.offers = {name: Offered(each) for name, each in background.relations(pool).items()}
        known.errors += _taken(rules, tables, known.offers)
        pool.areas = background.areas()
    return known


def answers(background: Background, asked: Graph | Triples, pool: Pool, source: Source) -> Answers:
    """The rows of a pattern, or of triples."""
    if isinstance(asked, Graph):
        return background.answers(asked, pool, source)
    return background.triples(asked.fixed, pool)


def relation(asked: Graph | Triples, table: Stored) -> Relation:
    """The predicate that a table of answers is: of triples, constants of the rules besides."""
    if isinstance(asked, Graph) or not any(asked.fixed):
        return table
    return Chosen(table, [None if term is None else "iri" for term in asked.fixed])


def _nothing_to_ask(asked: Graph | Triples, source: Source) -> CepError:
    what = "this graph pattern" if isinstance(asked, Graph) else "`triple`"
    hint = "name the files that hold it: `--knowledge stations.ttl`"
    if isinstance(asked, Triples):
        hint += ", or define it: `triple(S, P, O) :- ...`"
    return CepError(f"{what} asks background knowledge, and there is none", source, asked.span, hint, "knowledge")


def _taken(rules: Rules, tables: Collection[str], offered: Collection[str]) -> list[CepError]:
    """Predicates of the program or from outside that have a name which the knowledge has given to its own."""
    errors: list[CepError] = []
    message = "`{}` is a predicate of the background knowledge already"
    for name in dict.fromkeys(rule.name for rule in rules.statics if rule.name in offered):
        span = next(rule.span for rule in rules.statics if rule.name == name)
        errors.append(CepError(message.format(name), rules.source, span, "another name for this one", "name"))
    for name in tables:
        if name in offered:
            errors.append(CepError(message.format(name), hint=f"another name: `--facts my_{name}=...`", code="name"))
    return errors
