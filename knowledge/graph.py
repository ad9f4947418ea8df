"""Background knowledge: asserted triples, inferred triples, and the answers to patterns in rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyoxigraph as ox

from cep.core.errors import CepError, Source, Warning
from cep.core.schema import Schema
from cep.core.values import Areas, Pool
from cep.knowledge import geometry, load, unmatched_patterns
from cep.knowledge.answer_intervals import stretch
from cep.knowledge.change import Change, merge
from cep.knowledge.forgetting import FEW, forget
from cep.knowledge.named_graphs import by_graph, changed, differing, graph_contains, union
from cep.knowledge.query import differences, graph_patterns, store, validation
from cep.knowledge.query.answers import PreviousAnswers, answered
from cep.knowledge.query.bindings import TooLarge
from cep.knowledge.query.differences import Difference
from cep.knowledge.query.frames import has_order_by, solutions_frame
from cep.knowledge.query.locality import locality
from cep.knowledge.query.pattern_tables import PatternTable
from cep.knowledge.query.refreshed import Refreshed, names, refreshed, tables_following
from cep.knowledge.query.sparql import ConstantTerm, basic, tokens
from cep.knowledge.rdf import interop
from cep.knowledge.rdf.canonical import Canonical
from cep.knowledge.rdf.fingerprint import quads_fingerprint
from cep.knowledge.rdf.terms import NONE, Terms
from cep.knowledge.rdf.triples import TripleSet
from cep.knowledge.reasoning.closure import Closure
from cep.knowledge.reasoning.owlrl_rules import OwlrlClosure
from cep.knowledge.reasoning.regime import closed_under
from cep.plan import algebra
from cep.rules.conditions.relations import Relation
from cep.rules.terms import Graph
from cep.runtime.knowledge_source import Answers, Fixed, KnowledgeSource, Spanned, take_triples_by

if TYPE_CHECKING:
    import rdflib

_Asked = tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]]

_PLACED = [ox.NamedNode(iri) for iri in geometry.PROPERTIES]
_MANY = 8  # after a change of more than one in this many triples, a store is filled anew at its next use
_OPEN = frozenset(("limit", "offset", "sample", "group_concat"))  # SPARQL lets these depend on the order of solutions


class Knowledge(KnowledgeSource):
    """Triples in a default graph and named graphs, and the triples that reasoning infers from them.

    Patterns are matched against the union of all graphs and everything that is inferred from it. Only GRAPH is matched
    against the asserted triples of the named graphs. In patterns, literals of equal value, such as numbers and times,
    are the same term (knowledge/rdf/canonical.py).
    """

    def __init__(self, terms: Terms, graphs: Mapping[int, TripleSet], reasoning: str | type[Any] = "none") -> None:
        """Build knowledge from triples. `graphs`: the triples of each graph, by the id of the graph. The id NONE stands
        for the default graph.

        `reasoning`: none, rdfs, owlrl, or your own rule set. The latter is a class for the library owlrl, or the name
        of the class as `module:Class` (knowledge/reasoning/owlrl_rules.py).

        A large closure is cached on disk (knowledge/reasoning/cache.py). Raises CepError if the triples are
        inconsistent under the reasoning.
        """
        self.terms = terms
        self.graphs = dict(graphs)
        self.asserted = union(graphs)
        self.reasoning, self.closure = closed_under(terms, self.asserted, reasoning)
        self.closed = self.asserted if self.closure is None else self.closure.triples
        self.canonical = Canonical(terms)
        self._asked: TripleSet | None = None
        self._stores: dict[bool, ox.Store] = {}
        self._lent = False  # True if a fork shares these stores
        self.loaded: Knowledge | None = None  # the origin of a fork with its own dictionary
        self.first = self._many = 0  # the number of loaded terms; the number of terms that triggers `forget`
        self.tables: dict[_Asked, PatternTable | None] = {}
        self._answers: dict[_Asked, tuple[PatternTable | Refreshed, Pool, Answers, PreviousAnswers]] = {}
        self._refreshed: dict[_Asked, Refreshed] = {}  # tables of patterns with more than triples
        self._single: dict[_Asked | Fixed, bool] = {}  # True if no two bindings had the same values
        self._last: Difference | None = None  # the last change
        self._places: geometry.Geometries | None = None
        self._fingerprint: str | None = None

    @classmethod
    def load(cls, names: str | Path | Iterable[str | Path], reasoning: str | type[Any] = "none") -> Knowledge:
        """Load knowledge from files.

        `names`: RDF files, GeoNames dumps, registers of places, folders, and patterns (`*.ttl`). For a folder or a
        pattern, all its files are loaded. RDF files are recognised by their suffix: .ttl .nt .nq .trig .rdf .owl .xml
        .jsonld, which .gz may follow. If any file is invalid, nothing is loaded, and CepError is raised with the line
        and column.
        """
        terms = Terms()
        return cls(terms, by_graph(load.load(names, terms)), reasoning)

    @classmethod
    def of(cls, source: Any, reasoning: str | type[Any] = "none") -> Knowledge:
        """Build knowledge from an rdflib Graph or Dataset, or from triples or quads of rdflib or pyoxigraph.

        Raises CepError if the source is invalid.
        """
        terms = Terms()
        quads = load.Quads.joined(list(load.triple_columns(interop.foreign_quads(source), terms, None)))
        return cls(terms, by_graph(quads), reasoning)

    def __len__(self) -> int:
        return len(self.closed)

    @property
    def fingerprint(self) -> str:
        """A hash of the quads and the kind of reasoning, whatever the order or format of the loaded quads."""
        if self._fingerprint is None:
            kind = self.reasoning
            if isinstance(self.closure, OwlrlClosure):  # the class may be another one the next time
                kind += f" {quads_fingerprint(self.terms, {NONE: self.closed}, '')}"
            self._fingerprint = quads_fingerprint(self.terms, self.graphs, kind)
        return self._fingerprint

    # --- what rules ask ---

    def answers(self, graph: Graph, pool: Pool, source: Source) -> Answers:
        """Return the answers to a graph pattern: one column for each of `graph.variables`. The rows are sorted.

        Raises CepError if the pattern is not supported or has too many answers. The error points to the mistake in the
        pattern.
        """
        key = _key(graph)
        if key not in self.tables:
            self.tables[key] = graph_patterns.triple_patterns_table(graph, self._seen, self.constant_id, source)
        table = self.tables[key] or self._followed(graph, source)
        if table is None:
            return graph_patterns.by_sparql(graph, self._store_for(graph), pool, source)
        known = self._answers.get(key)
        if known is None or known[0] is not table or known[1] is not pool:
            before = PreviousAnswers() if known is None or known[1] is not pool else known[3]
            if isinstance(table, PatternTable):
                computed = graph_patterns.table_answers(table, graph, self.terms, pool, source, before)
            else:
                columns = table.columns()
                computed = answered(table.terms, columns, len(columns[0]), pool)
            known = self._answers[key] = (table, pool, computed, before)
            self._single[key] = computed.rows == table.rows
        return known[2]

    def _followed(self, graph: Graph, source: Source) -> Refreshed | None:
        """Return the answers to a pattern that is not only a list of triples, as a table. After each change of the
        knowledge, the table is updated.

        Return None if such a table cannot be updated for this pattern, or if it would be too large.
        """
        key = _key(graph)
        if key not in self._refreshed and graph.variables and (of := locality(graph.text, dict(graph.prefixes))):
            wanted = names(of, graph.variables)
            try:
                solutions = graph_patterns.solved(graph, wanted, self._store_for(graph), source)
            except CepError:  # there are too many answers with the key
                return None
            self._refreshed[key] = refreshed(of, graph.variables, *solutions)
        return self._refreshed.get(key)

    def _store_for(self, graph: Graph) -> ox.Store:
        words = {token.text.lower() for token in tokens(graph.text) if token.kind == "word"}
        return self.store(ordered=not words.isdisjoint(_OPEN))

    def by_difference(self, graph: Graph) -> bool:
        """Return True if changes can update the table of this pattern, so that it need not be evaluated again.

        For this, the pattern must consist of triples (see `cep.knowledge.query.pattern_tables`), or each of its answers
        must depend on few triples (see `cep.knowledge.query.locality`).
        """
        prefixes = dict(graph.prefixes)
        return basic(graph.text, prefixes) is not None or bool(graph.variables and locality(graph.text, prefixes))

    def difference(self, pattern: Graph | algebra.Triples, pool: Pool) -> tuple[Answers, Answers] | None:
        """Return the answers that the last change removed, and the answers that it added. Return None if they are
        unknown, so that the pattern must be evaluated again.

        An answer that has several derivations may be in both results, or several times in one of them.
        """
        last, key = self._last, _key(pattern) if isinstance(pattern, Graph) else pattern.fixed
        if last is None or not self._single.get(key):
            return None
        if isinstance(pattern, algebra.Triples):
            return differences.of_triples(last, pattern.fixed, self.terms, pool)
        now, known = self.tables.get(key := _key(pattern)) or self._refreshed.get(key), self._answers.get(key)
        if now is None or known is None or known[1] is not pool:
            return None
        return differences.changes_of_table(last.tables.get(key), now, self.terms, pool)

    def why_no_answers(
        self, pattern: Graph | algebra.Triples, source: Source, schemas: Mapping[str, Schema]
    ) -> Warning:
        return unmatched_patterns.why_no_answers(pattern, self, source, schemas)

    def triples(self, fixed: Fixed, pool: Pool) -> Answers:
        """Return the triples that have the terms `fixed`. A term that is None accepts any term. The result has one
        column for each position that is None."""
        ids = [None if term is None else self.terms.id_of(str(term)) for term in fixed]
        wanted = [i for i, id in enumerate(ids) if id is None]
        columns = self.closed.match(*ids) if NONE not in ids else TripleSet.empty().columns
        answers = answered(self.terms, [columns[i] for i in wanted], len(columns[0]), pool)
        self._single[fixed] = answers.rows == len(columns[0])
        return answers

    def relations(self, pool: Pool) -> Mapping[str, Relation]:
        """Return the relation `near` over the places in the knowledge."""
        return {"near": geometry.Near(self.places, pool)}

    def areas(self) -> Areas:
        """Return a function that returns the shapes of things. Its argument is a list of the things' IRIs."""
        return self.places.areas

    @property
    def places(self) -> geometry.Geometries:
        """The places of the things in the knowledge."""
        if self._places is None:
            self._places = geometry.Geometries(self.terms, self.closed)
        return self._places

    # --- what Python asks ---

    def query(
        self, sparql: str, prefixes: Mapping[str, str] | None = None, name: str = "query"
    ) -> pl.DataFrame | bool | rdflib.Graph:
        """Evaluate a SPARQL query. Return a table for SELECT, a boolean for ASK, otherwise an rdflib graph.

        Rows are sorted by value unless the query has an ORDER BY. `name`: the name of the query in error messages.
        Raises CepError if the query is invalid.
        """
        results = self.found(sparql, prefixes, name)
        if isinstance(results, ox.QueryBoolean):
            return bool(results)
        if isinstance(results, ox.QueryTriples):
            return Knowledge.of(results).rdflib()
        return solutions_frame(results, has_order_by(sparql))

    def found(
        self, sparql: str, prefixes: Mapping[str, str] | None = None, name: str = "query"
    ) -> ox.QuerySolutions | ox.QueryBoolean | ox.QueryTriples:
        """Return Oxigraph's result for a SPARQL query. Raises CepError if it is invalid or asks another endpoint."""
        words = {token.text.lower() for token in tokens(sparql) if token.kind == "word"}
        try:
            validation.check_query(sparql, prefixes or {}, name)
            return self.store(ordered=not _OPEN.isdisjoint(words)).query(sparql, prefixes=dict(prefixes or {}))
        except SyntaxError as error:
            raise validation.no_query(str(error), sparql, prefixes or {}, name) from None
        except (RuntimeError, OSError) as error:
            raise CepError(f"the query cannot be answered: {error}", code="graph") from None

    def rdflib(self, inferred: bool = True) -> rdflib.Graph:
        """Return the triples as an rdflib graph. `inferred`: False to return only the asserted triples."""
        return interop.graph_of(self.terms, self.closed if inferred else self.asserted)

    def store(self, ordered: bool = False) -> ox.Store:
        """Return an Oxigraph store that contains all triples. The store is filled when it is first needed.

        `ordered`: True for a store in which the results of queries do not depend on the order of loading
        (knowledge/query/store.py).
        """
        if ordered not in self._stores:
            self._stores[ordered] = store.filled(self.terms, self._seen, self.graphs, ordered)
        return self._stores[ordered]

    # --- change ---

    def fork(self, with_answers: bool = True, apart: bool = False) -> Knowledge:
        """Return a copy that changes independently. The copies share their data until one of them changes.

        `with_answers`: True to also copy the cached answers to patterns, because the same patterns will be evaluated
        again. `apart`: True to give the copy its own dictionary, from which `forget` drops unused terms.
        """
        forked = object.__new__(Knowledge)
        forked.__dict__.update(self.__dict__)
        forked.graphs = dict(self.graphs)
        forked._stores = dict(self._stores)
        forked.tables, forked._answers = (dict(self.tables), dict(self._answers)) if with_answers else ({}, {})
        forked._refreshed = dict(self._refreshed) if with_answers else {}
        forked._single, forked._last = dict(self._single), None
        self._lent = forked._lent = True
        if apart:
            forked.loaded = self
            forked.canonical = self.canonical.copy()
            forked.terms = terms = forked.canonical.terms
            forked.first = len(terms)
            # earlier answers have other ids
            forked._answers = {key: (*known[:3], PreviousAnswers()) for key, known in forked._answers.items()}
            forked.closure = self.closure and replace(self.closure, terms=terms)
            forked._refreshed = {key: table.apart() for key, table in forked._refreshed.items()}
            forked._many = 2 * max(len(terms), FEW)
        return forked

    def forget(self, always: bool = False) -> None:
        """Drop unused terms that arrived in changes, if the number of terms has doubled since the last time or `always`
        is True."""
        if self.loaded is not None and (always or len(self.terms) > self._many):
            forget(self)
            self._many = 2 * max(len(self.terms), FEW)

    def take_on(
        self,
        terms: Terms,
        canonical: Canonical,
        graphs: Mapping[int, TripleSet],
        triples: tuple[TripleSet, TripleSet, TripleSet],
        closure: Closure | None,
        tables: Mapping[_Asked, PatternTable | None],
    ) -> None:
        """Replace the dictionary of terms, and everything that contains ids of the old dictionary.

        `triples`: the asserted triples, all triples including inferred ones, and the triples that patterns use
        (`seen`).
        """
        self.terms, self.canonical, self.graphs, self.closure = terms, canonical, dict(graphs), closure
        self.asserted, self.closed, self._asked = triples
        self.tables, self._answers, self._last = dict(tables), {}, None

    def __getstate__(self) -> dict[str, Any]:
        # Stores and places cannot be sent to another process, and answers contain codes of a pool of this process. All
        # are rebuilt at their next use, and so are tables.
        made_again: dict[str, Any] = {"_stores": {}, "_answers": {}, "tables": {}, "_refreshed": {}, "_places": None}
        return {**self.__dict__, **made_again, "_last": None, "_lent": False}

    def change(self, add: Any = None, remove: Any = None) -> bytes:
        """Build a change that first removes the triples of `remove` and then adds the triples of `add`.

        Each source is text (Turtle, TriG, N-Triples or N-Quads), the Path of a file, an rdflib graph, or triples or
        quads of rdflib or pyoxigraph. Raises CepError if a source is invalid.

        A removed triple without the name of a graph is removed from all graphs. A blank node is the node in the
        knowledge that has the same label.
        """
        return Change.of(add, remove).written()

    def merge(self, changes: Sequence[bytes]) -> bytes:
        return merge(changes)

    def net(self, changes: Sequence[bytes]) -> bytes:
        """Combine changes like `merge`, but leave out removals of quads that this knowledge does not contain."""
        merged = Change.read(merge(changes))
        return Change(
            frozenset(line for line in merged.removed if graph_contains(line, self.terms, self.graphs, self.asserted)),
            merged.added,
        ).written()

    def over(
        self, changes: Sequence[tuple[int, bytes]], patterns: Mapping[str, Graph | algebra.Triples], pool: Pool
    ) -> tuple[Knowledge, dict[str, Spanned]] | None:
        """Apply changes. Return the resulting knowledge, and the answers to the patterns with their valid times.

        `changes`: each change with the time from which it is valid, in ascending order. Return None if the changes must
        be applied one by one (answer_intervals.py).
        """
        keys = {name: _key(pattern) for name, pattern in patterns.items() if isinstance(pattern, Graph)}
        if any(self.tables.get(key) is None for key in keys.values()) or not (timeline := stretch(self, changes)):
            return None
        answers = timeline.answers(patterns, keys, pool)
        return None if answers is None else (timeline.after, answers)

    def apply(self, change: bytes) -> None:
        less, more = (by_graph(quads) for quads in Change.read(change).quads(self.terms))
        graphs = changed(self.graphs, less, more)
        added = union(more).minus(self.asserted)
        removed = union(less)
        removed = removed.minus(removed.minus(self.asserted))
        for triples in graphs.values():
            removed = removed.minus(triples)
        single = graphs.keys() <= {NONE} and self.graphs.keys() <= {NONE}
        asserted = union(graphs) if single else self.asserted.minus(removed).plus(added)
        closure = self.closure
        if closure is not None and (len(removed) or len(added)):
            closure = closure.changed(removed, added)
            added, removed = closure.since(self.closure)  # type: ignore[arg-type]
        placed = self.placed(added, removed)
        if placed:
            geometry.Geometries(self.terms, added).check()
        closed = asserted if closure is None else self.closed.minus(removed).plus(added)
        before = self._seen
        seen, new, gone = self.canonical.changed(before, closed, added, removed)
        tables: dict[_Asked, PatternTable | None] = {}
        resolve = cache(self.constant_id)  # patterns often have the same constants
        for key, table in self.tables.items():
            try:
                tables[key] = table and table.changed(before, seen, new, gone, resolve, graph_patterns.MOST_CELLS)
            except TooLarge:
                continue  # evaluating the pattern reports the error
        self._last = Difference({**self.tables, **self._refreshed}, removed, added)
        self._refreshed = tables_following(self._refreshed, (before, seen, new, gone), self.terms, resolve)
        self._renew_stores(graphs, new, gone)
        if placed:
            self._places = None
        self.graphs, self.asserted, self.closure, self.closed = graphs, asserted, closure, closed
        self._asked, self.tables, self._fingerprint = seen, tables, None

    def _renew_stores(self, graphs: Mapping[int, TripleSet], new: TripleSet, gone: TripleSet) -> None:
        kept = self._stores.get(False)
        self._stores = {}
        if self._lent or kept is None or (len(new) + len(gone)) * _MANY > len(self.closed):
            self._lent = False
            return
        self._stores[False] = kept
        store.follow(kept, self.terms, [(NONE, gone, new), *differing(self.graphs, graphs)])

    def placed(self, *changed: TripleSet) -> bool:
        """Return True if any of the triples `changed` gives a place to a thing."""
        if not any(map(len, changed)):
            return False
        ids = self.terms.ids(_PLACED)
        return any(bool(np.isin(triples.p, ids).any()) for triples in changed)

    # --- inside ---

    @property
    def seen(self) -> TripleSet:
        """The triples in the form that patterns and stores use: one literal replaces all literals of equal value."""
        return self._seen

    @property
    def _seen(self) -> TripleSet:
        if self._asked is None:
            self._asked = self.canonical.triples(self.closed)
        return self._asked

    def constant_id(self, constant: ConstantTerm) -> int:
        """Return the id by which the triples `seen` represent a constant of a pattern."""
        return self.canonical.find(constant.text, constant.datatype, constant.language)


take_triples_by(Knowledge.of)


def _key(graph: Graph) -> _Asked:
    return graph.text, graph.variables, graph.prefixes
