"""Background knowledge as the engine sees it: something that answers graph patterns with tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cep.core.errors import CepError, CepErrors, Source, Warning
from cep.core.relation import Column
from cep.core.schema import Schema
from cep.core.values import MISSING, Areas, Ints, Pool
from cep.events import Iri
from cep.plan.algebra import Rules, Triples
from cep.plan.expected_types import ArgumentPosition, wanted
from cep.plan.pattern import conditions as pattern_conditions
from cep.rules.conditions.relations import Mask, Probe, Relation
from cep.rules.static.materialized import MaterializedRelation
from cep.rules.static.mixed_kinds import mingled
from cep.rules.static.table_views import TableWithConstants
from cep.rules.terms import Graph, Predicate, each_condition

Fixed = tuple[Iri | None, Iri | None, Iri | None]
"""Subject, predicate and object of a triple, None where any will do."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The distinct rows of a relation, column by column, as the engine holds values (`cep.core.values`).

    Columns are float64 (type float) or int64: codes of the pool for string, iri and any. NaN and MISSING stand where a
    variable is not bound.
    """

    types: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class Spanned:
    """Answers over a stretch of time: each holds for what ends at or after `since` and before `until`. Equal rows lie
    apart in time; rows are sorted as those of Answers are, then by time."""

    answers: Answers
    since: Ints
    until: Ints


class KnowledgeSource(ABC):
    """Knowledge that an engine can ask. What it gives is what holds in its present state.

    A change takes triples away and then adds others. As bytes it is opaque here: what `change` makes, `merge` puts
    together and `apply` takes, also in another process.
    """

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A name for what was loaded and how: equal names are equal knowledge."""

    @abstractmethod
    def answers(self, graph: Graph, pool: Pool, source: Source) -> Answers:
        """The answers of a graph pattern, a column for each of `graph.variables`.

        Raises CepError with a span inside the braces.
        """

    @abstractmethod
    def by_difference(self, graph: Graph) -> bool:
        """Return True if a change of the knowledge queries only the answers of the pattern that it adds or removes."""

    @abstractmethod
    def difference(self, pattern: Graph | Triples, pool: Pool) -> tuple[Answers, Answers] | None:
        """The answers that the last change took, and those that it brought; None where all are to be asked for anew.
        Equal answers may come and go several times: an answer is there until it has gone as often as it has come."""

    @abstractmethod
    def triples(self, fixed: Fixed, pool: Pool) -> Answers:
        """The triples that have these terms, a column for each position that is not fixed."""

    @abstractmethod
    def why_no_answers(self, pattern: Graph | Triples, source: Source, schemas: Mapping[str, Schema]) -> Warning:
        """Why a pattern, or triples, of which there are none have no answers; `schemas`: the events of the program."""

    @abstractmethod
    def relations(self, pool: Pool) -> Mapping[str, Relation]:
        """Further predicates that conditions can ask, by name."""

    @abstractmethod
    def areas(self) -> Areas | None:
        """The source of the shapes of places by IRI, for `inside`. Equal sources return the same shapes."""

    @abstractmethod
    def fork(self, *, apart: bool = False) -> KnowledgeSource:
        """The same knowledge in its present state, which changes by itself; `apart`: and may `forget`."""

    @abstractmethod
    def forget(self) -> None:
        """Hold nothing any more of what came and went, when it is much."""

    @abstractmethod
    def change(self, add: Any, remove: Any) -> bytes:
        """A change, checked. Raises CepError where `add` or `remove` is no RDF."""

    @abstractmethod
    def merge(self, changes: Sequence[bytes]) -> bytes:
        """Changes one after the other as one."""

    @abstractmethod
    def net(self, changes: Sequence[bytes]) -> bytes:
        """Changes of this knowledge as one, without what goes and is not here."""

    @abstractmethod
    def over(
        self, changes: Sequence[tuple[int, bytes]], patterns: Mapping[str, Graph | Triples], pool: Pool
    ) -> tuple[KnowledgeSource, dict[str, Spanned]] | None:
        """The knowledge after changes, each with the time from which it holds, ascending; and the answers to what is
        asked from before the first until after the last. None where this needs them one by one."""

    @abstractmethod
    def apply(self, change: bytes) -> None:
        """Change the knowledge. Raises CepError, and changes nothing, where the new state contradicts itself."""


MakeSource = Callable[[Iterable[Any]], KnowledgeSource]
"""Triples or quads as a source; an rdflib graph or dataset is one of them. Raises CepError for anything else."""

_makers: list[MakeSource] = []


def take_triples_by(make: MakeSource) -> None:
    """From now on triples can be given as knowledge, too. The module that knows triples calls this when it is imported
    (`cep.knowledge.graph`): it lies above this one."""
    _makers[:] = [make]


def source_of(knowledge: KnowledgeSource | Iterable[Any] | None) -> KnowledgeSource | None:
    """Return a knowledge source: the one given, or triples without reasoning.

    Raises CepError for anything else, and for triples if no imported module accepts them.
    """
    if knowledge is None or isinstance(knowledge, KnowledgeSource):
        return knowledge
    if not _makers:
        raise CepError(
            f"knowledge: nothing is imported that takes triples, as of this {type(knowledge).__name__}",
            hint="`from cep.knowledge.graph import Knowledge`; `from cep import Engine, detect` need no more",
            code="knowledge",
        )
    return _makers[0](knowledge)


class KnowledgePredicate:
    """A predicate of the knowledge. It always uses the current relation, which a change may replace."""

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
        return _KnowledgeProbe(self, bound, wanted)


class _KnowledgeProbe:
    timed = False

    def __init__(self, offered: KnowledgePredicate, bound: Mapping[int, str], wanted: tuple[int, ...]) -> None:
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

    def answers(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> tuple[Ints, list[Column]]:
        return self._now().answers(bound, rows, ends)

    def holds(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> Mask:
        return self._now().holds(bound, rows, ends)


@dataclass(slots=True)
class ProgramKnowledge:
    """The knowledge that a program's rules query: `tables` by predicate, and the predicates that it `offers`.

    `supposed`: columns of empty tables, whose types are those that the rules assume. `silent`: conditions without
    answers. `mingled`: warnings about columns with values of several kinds.
    """

    tables: dict[str, MaterializedRelation]
    offers: dict[str, KnowledgePredicate]
    errors: list[CepError]
    supposed: frozenset[ArgumentPosition] = frozenset()
    silent: tuple[Graph | Triples, ...] = ()
    mingled: tuple[Warning, ...] = ()

    def relations(self, rules: Rules) -> dict[str, Relation]:
        return {name: relation(rules.asked[name], table) for name, table in self.tables.items()} | self.offers


def ask(rules: Rules, background: KnowledgeSource | None, tables: Collection[str], pool: Pool) -> ProgramKnowledge:
    """The tables of all that rules ask of the background knowledge, and what further predicates there are.

    `tables`: the predicates whose facts are given from outside.
    """
    known = ProgramKnowledge({}, {}, [])
    found: dict[str, Answers] = {}
    for name, pattern in rules.asked.items():
        width = len(pattern.variables) if isinstance(pattern, Graph) else pattern.fixed.count(None)
        found[name] = Answers(("any",) * width, (np.empty(0, dtype=np.int64),) * width, 0)
        try:
            if background is None:
                raise _nothing_to_ask(pattern, rules.source)
            found[name] = pattern_answers(background, pattern, pool, rules.source)
        except CepError as error:
            known.errors += error.errors if isinstance(error, CepErrors) else [error]
    types = _supposed(rules, found)
    known.supposed, known.silent = frozenset(types), _silent(rules, found)
    known.mingled = tuple(
        warning
        for name, each in found.items()
        if isinstance(graph := rules.asked[name], Graph)
        for warning in mingled(graph, each.types, each.columns, pool, rules.source)
    )
    for name, each in found.items():
        table = known.tables[name] = MaterializedRelation(
            name, tuple(types.get((name, i), type) for i, type in enumerate(each.types))
        )
        columns = [
            np.full(each.rows, np.nan) if type == "float" and column.dtype != np.float64 else column
            for column, type in zip(each.columns, table.types)
        ]
        table.add(columns, each.rows)
    if background is not None:
        own = {rule.name: len(rule.arguments) for rule in rules.statics}
        for name, offered in background.relations(pool).items():
            if own.get(name, offered.arity) == offered.arity:
                known.offers[name] = KnowledgePredicate(offered)
        known.errors += _taken(rules, tables, known.offers)
        pool.areas = background.areas()
    return known


def _supposed(rules: Rules, found: Mapping[str, Answers]) -> dict[ArgumentPosition, str]:
    """The types of columns that hold no value, by predicate and column, where the rules want one."""
    columns: dict[ArgumentPosition, ArgumentPosition] = {}
    types: dict[ArgumentPosition, str | None] = {}
    for name, each in found.items():
        pattern = rules.asked[name]
        at = (
            range(len(each.types))
            if isinstance(pattern, Graph)
            else [i for i, x in enumerate(pattern.fixed) if x is None]
        )
        for i, (column, type) in enumerate(zip(each.columns, each.types)):
            columns[name, at[i]] = (name, i)
            types[name, at[i]] = None if type == "any" and bool(np.equal(column, MISSING).all()) else type
    if None not in types.values():
        return {}
    return {columns[place]: type for place, type in wanted(rules, types).items()}


def _silent(rules: Rules, found: Mapping[str, Answers]) -> tuple[Graph | Triples, ...]:
    """Return the conditions that are asked, not only negated, and have no answers, each where it first occurs."""
    conditions = [condition for rule in rules.statics for condition in rule.conditions]
    for rule in rules.rules:
        conditions += pattern_conditions(rule.body)
    silent: dict[str, Graph | Triples] = {}
    for each in each_condition(conditions):
        if isinstance(each, Predicate) and not each.negated and each.name in found and not found[each.name].rows:
            silent.setdefault(each.name, replace(rules.asked[each.name], span=(each.graph or each).span))
    return tuple(silent.values())


def pattern_answers(background: KnowledgeSource, pattern: Graph | Triples, pool: Pool, source: Source) -> Answers:
    """The rows of a pattern, or of triples."""
    if isinstance(pattern, Graph):
        return background.answers(pattern, pool, source)
    return background.triples(pattern.fixed, pool)


def relation(pattern: Graph | Triples, table: MaterializedRelation) -> Relation:
    """The predicate that a table of answers is: of triples, constants of the rules besides."""
    if isinstance(pattern, Graph) or not any(pattern.fixed):
        return table
    return TableWithConstants(table, [None if term is None else "iri" for term in pattern.fixed])


def _nothing_to_ask(pattern: Graph | Triples, source: Source) -> CepError:
    what = "this graph pattern" if isinstance(pattern, Graph) else "`triple`"
    hint = "name the files that hold it: `--knowledge stations.ttl`"
    if isinstance(pattern, Triples):
        hint += ", or define it: `triple(S, P, O) :- ...`"
    return CepError(f"{what} asks background knowledge, and there is none", source, pattern.span, hint, "knowledge")


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
