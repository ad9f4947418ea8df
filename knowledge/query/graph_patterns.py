"""Evaluation of graph patterns. Patterns that consist of triples only are joined column by column. Oxigraph evaluates
all other patterns.

The size of results is limited.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyoxigraph as ox

from cep.core.errors import CepError, Source
from cep.core.values import Ints, Pool
from cep.knowledge.query import solutions
from cep.knowledge.query.answers import PreviousAnswers, answered
from cep.knowledge.query.bindings import TooLarge
from cep.knowledge.query.cross_products import group_patterns, pattern_excerpt, refuse_product, refuse_products
from cep.knowledge.query.pattern_tables import PatternTable, Resolve, pattern_table
from cep.knowledge.query.sparql import basic
from cep.knowledge.query.validation import check_pattern, pattern_error
from cep.knowledge.rdf.terms import Terms
from cep.knowledge.rdf.triples import TripleSet
from cep.rules.terms import Graph
from cep.runtime.knowledge_source import Answers

MOST_CELLS = 20_000_000
"""The maximum number of cells in the table of a pattern: rows times variables."""

MOST_READ = 50_000_000
"""The maximum number of rows that a store may produce for one pattern. Duplicates count."""

_LOOKED_AT = 2_000_000  # the maximum values of a join that only counts answers
_ENDLESS = 2_000_000_000  # a store would take an hour for this many answers


def triple_patterns_table(graph: Graph, triples: TripleSet, resolve: Resolve, source: Source) -> PatternTable | None:
    """Return the answers to a pattern that consists of triples only. Return None for all other patterns.

    Raises CepError if the pattern is invalid or has too many answers.
    """
    check_pattern(graph, source)
    patterns = basic(graph.text, dict(graph.prefixes))
    if patterns is None:
        _refuse_explosion(graph, triples, resolve, source)
        return None
    try:
        return pattern_table(patterns, graph.variables, triples, resolve, MOST_CELLS)
    except TooLarge as error:
        raise _too_large(error.rows, graph, source) from None


def table_answers(
    pattern: PatternTable, graph: Graph, terms: Terms, pool: Pool, source: Source, before: PreviousAnswers | None = None
) -> Answers:
    """Convert the table of a pattern to the engine's values. Raises CepError if there are too many answers.

    `before`: the last answers to this pattern. Columns that have not changed since then are used again.
    """
    several = [component for component in pattern.components if component.wanted]
    if len(several) > 1:
        texts = [
            pattern_excerpt(graph, p.patterns[0].start, max(pattern.end for pattern in p.patterns)) for p in several
        ]
        refuse_product([component.bindings.rows for component in several], texts, graph, source)
    if pattern.rows * len(pattern.variables) > MOST_CELLS:
        raise _too_large(pattern.rows, graph, source)
    return answered(terms, pattern.columns(), pattern.rows, pool, before)


def by_sparql(graph: Graph, store: ox.Store, pool: Pool, source: Source) -> Answers:
    """Return the answers to a pattern of any form. `store`: a store that contains all triples.

    The caller must first call `triple_patterns_table`, which checks the pattern. Raises CepError for too many answers.
    """
    if not graph.variables:
        refuse_products(graph, store, source, MOST_CELLS)
        return Answers((), (), int(bool(store.query("ASK\n" + graph.text, prefixes=dict(graph.prefixes)))))
    terms, columns = solved(graph, graph.variables, store, source)
    return answered(terms, columns, len(columns[0]), pool)


def solved(graph: Graph, names: Sequence[str], store: ox.Store, source: Source) -> tuple[Terms, list[Ints]]:
    """Return the distinct bindings of the variables `names`. `store`: a store that contains all triples.

    The result is a dictionary of terms, and one column of ids per variable. Raises CepError for too many bindings.
    """
    refuse_products(graph, store, source, MOST_CELLS)
    results = store.query(select_query(graph.text, names), prefixes=dict(graph.prefixes))
    assert isinstance(results, ox.QuerySolutions), "a SELECT gives solutions"
    try:
        return solutions.distinct_solutions(results, MOST_CELLS // len(names), MOST_READ)
    except solutions.TooMany as error:
        raise _too_large(error.rows, graph, source, more=True) from None


def select_query(text: str, names: Sequence[str]) -> str:
    return f"SELECT {' '.join('?' + name for name in names)} WHERE\n{text}"


def _refuse_explosion(graph: Graph, triples: TripleSet, resolve: Resolve, source: Source) -> None:
    """Raise CepError if a group of triples has more answers than a store may produce. This also applies if a FILTER
    would keep only a few of these answers."""
    for group in group_patterns(graph.text):
        parts = group.elements
        if group.links or group.within or any(p.kind not in ("triples", "filter", "optional", "minus") for p in parts):
            continue  # another element may narrow them
        if any("=" in graph.text[p.start : p.end].replace("!=", "") for p in parts if p.kind == "filter"):
            continue
        core = " . ".join(graph.text[part.start : part.end] for part in parts if part.kind == "triples")
        patterns = basic(f"{{ {core} }}", dict(graph.prefixes))
        every = tuple(dict.fromkeys(name for pattern in patterns or () for name in pattern.variables))
        try:
            pattern_table(patterns or (), every, triples, resolve, _LOOKED_AT)
        except TooLarge as error:
            if error.rows > _ENDLESS:
                raise _too_large(error.rows, graph, source) from None


def _too_large(rows: int, graph: Graph, source: Source, more: bool = False) -> CepError:
    many = f"more than {rows:,}" if more else f"{rows:,}"
    message = f"this pattern has {many} answers; a table can hold at most {MOST_CELLS:,} values"
    hint = "narrow it by a class or a FILTER, or write variables that the rule does not need in lower case"
    return pattern_error(message, graph, source, hint=hint)
