"""The interface between the engine and its background knowledge. A knowledge source answers graph patterns with
tables."""

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
from cep.core.versions import Versions
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
"""Subject, predicate and object of a triple pattern. None matches any term."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The distinct rows that answer a pattern, by column. The values are encoded as the engine stores them (see
    `cep.core.values`).

    Columns of type float are float64, all others int64. Columns of types string, iri and any contain pool codes.
    Unbound variables are NaN or MISSING.
    """

    types: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class Spanned:
    """Answers to a pattern over a period of time. Each row is valid for occurrences whose end is in [`since`, `until`).

    The periods of equal rows do not overlap. Rows are sorted as in `Answers`, then by time.
    """

    answers: Answers
    since: Ints
    until: Ints


class KnowledgeSource(ABC):
    """A source of knowledge that an engine queries. Its answers reflect its current state.

    A change removes triples and then adds others. This module treats a change as opaque bytes: `change` creates them,
    `merge` combines them, and `apply` applies them, even in another process.
    """

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A name for the loaded data and the reasoning. Two sources with the same name give the same answers."""

    @abstractmethod
    def answers(self, graph: Graph, pool: Pool, source: Source) -> Answers:
        """Return the answers to a graph pattern, one column for each of `graph.variables`.

        Raises CepError if the pattern is not valid. The position of the error lies inside the pattern in the program's
        text.
        """

    @abstractmethod
    def by_difference(self, graph: Graph) -> bool:
        """Return True if the source can compute how a change affects the answers to a pattern, without querying all
        answers again."""

    @abstractmethod
    def difference(self, pattern: Graph | Triples, pool: Pool) -> tuple[Answers, Answers] | None:
        """Return the answers that the last change removed, and those that it added. Returns None if the caller must
        query all answers anew.

        The same answer may be removed and added several times. It exists as long as it was added more often than
        removed.
        """

    @abstractmethod
    def triples(self, fixed: Fixed, pool: Pool) -> Answers:
        """Return the triples that match `fixed`, one column for each position that `fixed` leaves open."""

    @abstractmethod
    def why_no_answers(self, pattern: Graph | Triples, source: Source, schemas: Mapping[str, Schema]) -> Warning:
        """Return a warning that explains why a pattern has no answers. `schemas`: the event types of the program."""

    @abstractmethod
    def relations(self, pool: Pool) -> Mapping[str, Relation]:
        """Return the predicates that the source offers to conditions, by name."""

    @abstractmethod
    def areas(self) -> Areas | None:
        """Return a lookup from the IRI of a place to its shape, for the condition `inside`. Two lookups are equal if
        they return the same shapes."""

    @abstractmethod
    def fork(self, *, apart: bool = False) -> KnowledgeSource:
        """Return an independent copy in the current state. `apart`: True if `forget` may be called on the copy."""

    @abstractmethod
    def forget(self) -> None:
        """Free memory: if changes have removed or added many triples, drop data that is no longer needed."""

    @abstractmethod
    def change(self, add: Any, remove: Any) -> bytes:
        """Check and encode a change that removes the triples `remove` and then adds the triples `add`. Raises CepError
        if `add` or `remove` is not RDF."""

    @abstractmethod
    def merge(self, changes: Sequence[bytes]) -> bytes:
        """Merge successive changes into one."""

    @abstractmethod
    def net(self, changes: Sequence[bytes]) -> bytes:
        """Merge successive changes of this source into one. Removals of triples that the source does not contain are
        left out."""

    @abstractmethod
    def over(
        self, changes: Sequence[tuple[int, bytes]], patterns: Mapping[str, Graph | Triples], pool: Pool
    ) -> tuple[KnowledgeSource, dict[str, Spanned]] | None:
        """Apply all changes at once. Return a source in the resulting state, and the answers to each pattern with their
        validity times.

        `changes`: pairs of a time and the change that takes effect at this time, sorted by time. Returns None if this
        source can only apply changes one by one.
        """

    @abstractmethod
    def apply(self, change: bytes) -> None:
        """Apply a change. Raises CepError if the knowledge would become contradictory. The source is then unchanged."""


MakeSource = Callable[[Iterable[Any]], KnowledgeSource]
"""A function that creates a source from triples or quads, for example from an rdflib graph. Raises CepError for any
other argument."""

_makers: list[MakeSource] = []


def take_triples_by(make: MakeSource) -> None:
    """Register the function that creates sources from triples.

    `cep.knowledge.graph` calls this function when it is imported, because this module may not import it.
    """
    _makers[:] = [make]


def source_of(knowledge: KnowledgeSource | Iterable[Any] | None) -> KnowledgeSource | None:
    """Return the argument if it is a knowledge source. Otherwise create a source from its triples, without reasoning.

    Raises CepError if the argument is neither a source nor triples, or if no imported module can read triples.
    """
    if knowledge is None or isinstance(knowledge, KnowledgeSource):
        return knowledge
    if not _makers:
        raise CepError(
            f"knowledge: no imported module can read triples from this {type(knowledge).__name__}",
            hint="add `from cep.knowledge.graph import Knowledge`, or use `from cep import Engine, detect`",
            code="knowledge",
        )
    return _makers[0](knowledge)


class KnowledgePredicate:
    """A predicate whose rows come from the knowledge. A change of the knowledge may replace its relation."""

    def __init__(self, relation: Relation) -> None:
        self.relations = Versions(relation)
        self.name, self.arity, self.types = relation.name, relation.arity, relation.types

    def ready(self, bound: frozenset[int]) -> bool:
        return self.relations.latest.ready(bound)

    def probe(self, bound: Mapping[int, str], wanted: tuple[int, ...]) -> Probe:
        return _KnowledgeProbe(self, bound, wanted)


class _KnowledgeProbe:
    def __init__(self, offered: KnowledgePredicate, bound: Mapping[int, str], wanted: tuple[int, ...]) -> None:
        self._relations = offered.relations
        self._asked = (bound, wanted)
        self._last: tuple[Relation, Probe] | None = None
        probe = self._probe(offered.relations.latest)
        self.types, self.single = probe.types, probe.single

    @property
    def timed(self) -> bool:
        return self._relations.several

    def _probe(self, relation: Relation) -> Probe:
        if self._last is None or self._last[0] is not relation:
            self._last = relation, relation.probe(*self._asked)
        return self._last[1]

    def answers(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> tuple[Ints, list[Column]]:
        answers: list[tuple[Ints, list[Column]]] = []
        for relation, places in self._relations.at(ends):
            probe = self._probe(relation)
            if places is None:
                return probe.answers(bound, rows)
            index, columns = probe.answers([column[places] for column in bound], len(places))
            answers.append((places[index], columns))
        every = np.concatenate([index for index, _ in answers])
        order = np.argsort(every, kind="stable")
        return every[order], [np.concatenate(parts)[order] for parts in zip(*(columns for _, columns in answers))]

    def holds(self, bound: Sequence[Column], rows: int, ends: Ints | None = None) -> Mask:
        is_held = np.zeros(rows, dtype=np.bool_)
        for relation, places in self._relations.at(ends):
            probe = self._probe(relation)
            if places is None:
                return probe.holds(bound, rows)
            is_held[places] = probe.holds([column[places] for column in bound], len(places))
        return is_held


@dataclass(slots=True)
class ProgramKnowledge:
    """The knowledge that a program's rules query.

    - `tables`: the tables of graph patterns and triple patterns, by predicate.
    - `offers`: the predicates that the knowledge source offers, by name.
    - `supposed`: for columns without values, the types that the rules require.
    - `silent`: the conditions that have no answers.
    - `mingled`: warnings about columns that have values of several types.
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
    """Query the background knowledge for all patterns in the rules. Return the tables of answers, and the errors.

    `tables`: the predicates that have tables of facts. The knowledge must not offer predicates with these names.
    """
    known = ProgramKnowledge({}, {}, [])
    answers_by_name: dict[str, Answers] = {}
    for name, pattern in rules.asked.items():
        width = len(pattern.variables) if isinstance(pattern, Graph) else pattern.fixed.count(None)
        answers_by_name[name] = Answers(("any",) * width, (np.empty(0, dtype=np.int64),) * width, 0)
        try:
            if background is None:
                raise _nothing_to_ask(pattern, rules.source)
            answers_by_name[name] = pattern_answers(background, pattern, pool, rules.source)
        except CepError as error:
            known.errors += error.errors if isinstance(error, CepErrors) else [error]
    types = _supposed(rules, answers_by_name)
    known.supposed, known.silent = frozenset(types), _silent(rules, answers_by_name)
    known.mingled = tuple(
        warning
        for name, name_answers in answers_by_name.items()
        if isinstance(graph := rules.asked[name], Graph)
        for warning in mingled(graph, name_answers.types, name_answers.columns, pool, rules.source)
    )
    for name, answers in answers_by_name.items():
        table = known.tables[name] = MaterializedRelation(
            name, tuple(types.get((name, i), type) for i, type in enumerate(answers.types))
        )
        columns = [
            np.full(answers.rows, np.nan) if type == "float" and column.dtype != np.float64 else column
            for column, type in zip(answers.columns, table.types)
        ]
        table.add(columns, answers.rows)
    if background is not None:
        own = {rule.name: len(rule.arguments) for rule in rules.statics}
        for name, offered in background.relations(pool).items():
            if own.get(name, offered.arity) == offered.arity:
                known.offers[name] = KnowledgePredicate(offered)
        known.errors += _taken(rules, tables, known.offers)
        pool.areas = Versions(background.areas())
    return known


def _supposed(rules: Rules, answers_by_name: Mapping[str, Answers]) -> dict[ArgumentPosition, str]:
    """Return the types that the rules require of columns without values. Keys are pairs of a predicate and a column."""
    columns: dict[ArgumentPosition, ArgumentPosition] = {}
    types: dict[ArgumentPosition, str | None] = {}
    for name, answers in answers_by_name.items():
        pattern = rules.asked[name]
        places = (
            range(len(answers.types))
            if isinstance(pattern, Graph)
            else [i for i, x in enumerate(pattern.fixed) if x is None]
        )
        for i, (column, type) in enumerate(zip(answers.columns, answers.types)):
            columns[name, places[i]] = (name, i)
            types[name, places[i]] = None if type == "any" and bool(np.equal(column, MISSING).all()) else type
    if None not in types.values():
        return {}
    return {columns[place]: type for place, type in wanted(rules, types).items()}


def _silent(rules: Rules, answers: Mapping[str, Answers]) -> tuple[Graph | Triples, ...]:
    conditions = [condition for rule in rules.statics for condition in rule.conditions]
    for rule in rules.rules:
        conditions += pattern_conditions(rule.body)
    silent: dict[str, Graph | Triples] = {}
    for atom in each_condition(conditions):
        if isinstance(atom, Predicate) and not atom.negated and atom.name in answers and not answers[atom.name].rows:
            silent.setdefault(atom.name, replace(rules.asked[atom.name], span=(atom.graph or atom).span))
    return tuple(silent.values())


def pattern_answers(background: KnowledgeSource, pattern: Graph | Triples, pool: Pool, source: Source) -> Answers:
    """Return the answers of a graph pattern or of a triple pattern."""
    if isinstance(pattern, Graph):
        return background.answers(pattern, pool, source)
    return background.triples(pattern.fixed, pool)


def relation(pattern: Graph | Triples, table: MaterializedRelation) -> Relation:
    """Return the predicate for a pattern whose answers are in `table`. If the pattern is a triple pattern, its
    constants are also arguments of the predicate."""
    if isinstance(pattern, Graph) or not any(pattern.fixed):
        return table
    return TableWithConstants(table, [None if term is None else "iri" for term in pattern.fixed])


def _nothing_to_ask(pattern: Graph | Triples, source: Source) -> CepError:
    what = "this graph pattern" if isinstance(pattern, Graph) else "`triple`"
    hint = "add its files: `--knowledge stations.ttl`"
    if isinstance(pattern, Triples):
        hint += ", or define it: `triple(S, P, O) :- ...`"
    return CepError(f"{what} needs background knowledge, but there is none", source, pattern.span, hint, "knowledge")


def _taken(rules: Rules, tables: Collection[str], offered: Collection[str]) -> list[CepError]:
    """Return an error for each name that is already the name of a predicate of the knowledge. The checked names are
    those of the program's static rules, and `tables`."""
    errors: list[CepError] = []
    message = "`{}` is already a predicate of the background knowledge"
    for name in dict.fromkeys(rule.name for rule in rules.statics if rule.name in offered):
        span = next(rule.span for rule in rules.statics if rule.name == name)
        errors.append(CepError(message.format(name), rules.source, span, "use another name for this one", "name"))
    for name in tables:
        if name in offered:
            errors.append(
                CepError(message.format(name), hint=f"use another name: `--facts my_{name}=...`", code="name")
            )
    return errors
