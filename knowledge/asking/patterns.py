"""Graph patterns answered: triples by joining columns, all else of SPARQL by Oxigraph; never a table too large."""

from __future__ import annotations

from collections.abc import Sequence

import pyoxigraph as ox

from cep.background import Answers
from cep.errors import CepError, Source
from cep.syntax.ast import Graph
from cep.values import Pool
from knowledge.asking import solutions
from knowledge.asking.answers import answered
from knowledge.asking.bindings import TooLarge
from knowledge.asking.checked import check, refused
from knowledge.asking.sparql import Part, Token, basic, parts
from knowledge.asking.tables import Resolve, Table, tabled
from knowledge.rdf.terms import Terms
from knowledge.rdf.triples import Triples

MOST_CELLS = 20_000_000
"""Values that the table of a pattern may hold, rows times variables."""

MOST_PRODUCT = 100_000
"""Rows up to which a cross product is taken to be meant."""

_TIMES = 10  # a product is taken to be meant, too, while it is not so many times as large as its factors together

_LOOKED_AT = 2_000_000  # values up to which the triples of a pattern are joined to see how many answers they have
_ENDLESS = 2_000_000_000  # answers that a store would take an hour for


def table(graph: Graph, triples: Triples, resolve: Resolve, source: Source) -> Table | None:
    """The answers of a pattern of triples only, None if it is another. Raises CepError."""
    check(graph, source)
    patterns = basic(graph.text, dict(graph.prefixes))
    if patterns is None:
        _refuse_explosion(graph, triples, resolve, source)
        return None
    try:
        return tabled(patterns, graph.variables, triples, resolve, MOST_CELLS)
    except TooLarge as error:
        raise _too_large(error.rows, graph, source) from None


def of_table(found: Table, graph: Graph, terms: Terms, pool: Pool, source: Source) -> Answers:
    """The answers as the engine takes them. Raises CepError where they are too many."""
    several = [piece for piece in found.pieces if piece.wanted]
    if len(several) > 1:
        texts = [_stretch(graph, p.patterns[0].start, max(each.end for each in p.patterns)) for p in several]
        _refuse_product([piece.found.rows for piece in several], texts, graph, source)
    if found.rows * len(found.variables) > MOST_CELLS:
        raise _too_large(found.rows, graph, source)
    return answered(terms, found.columns(), found.rows, pool)


def by_sparql(graph: Graph, store: ox.Store, pool: Pool, source: Source) -> Answers:
    """The answers of any pattern that `table` found to be one, from a store of all triples. Raises CepError."""
    _refuse_products(graph, store, source)
    prefixes = dict(graph.prefixes)
    if not graph.variables:
        return Answers((), (), int(bool(store.query("ASK\n" + graph.text, prefixes=prefixes))))
    most = MOST_CELLS // len(graph.variables)
    names = " ".join("?" + name for name in graph.variables)
    query = f"SELECT DISTINCT {names} WHERE\n{graph.text}\nLIMIT {most + 1}"
    found = store.query(query, prefixes=prefixes)
    assert isinstance(found, ox.QuerySolutions), "a SELECT gives solutions"
    terms, columns = solutions.columns(found)
    if len(columns[0]) > most:
        raise _too_large(most, graph, source, more=True)
    return answered(terms, columns, len(columns[0]), pool)


def _refuse_explosion(graph: Graph, triples: Triples, resolve: Resolve, source: Source) -> None:
    """Refuse triples with so many answers that no store ever goes through them, however few a FILTER leaves."""
    found = parts(graph.text)
    if any(part.kind not in ("triples", "filter", "optional", "minus") for part in found):
        return  # something else may narrow them
    if any("=" in graph.text[p.start : p.end].replace("!=", "") for p in found if p.kind == "filter"):
        return
    core = " . ".join(graph.text[part.start : part.end] for part in found if part.kind == "triples")
    patterns = basic(f"{{ {core} }}", dict(graph.prefixes))
    every = tuple(dict.fromkeys(name for pattern in patterns or () for name in pattern.variables))
    try:
        tabled(patterns or (), every, triples, resolve, _LOOKED_AT)
    except TooLarge as error:
        if error.rows > _ENDLESS:
            raise _too_large(error.rows, graph, source) from None


def _refuse_products(graph: Graph, store: ox.Store, source: Source) -> None:
    """Refuse parts that share no variable and are too many together, before anything is joined."""
    found = parts(graph.text)
    factors = [p for p in found if p.kind in ("triples", "group", "graph", "values") and p.variables]
    groups: list[list[Part]] = []
    for part in factors:
        touching = [g for g in groups if any(part.variables & other.variables for other in g)]
        groups = [g for g in groups if g not in touching]
        groups.append([*(each for g in touching for each in g), part])
    if len(groups) < 2:
        return
    groups = sorted((sorted(g, key=lambda part: part.start) for g in groups), key=lambda g: g[0].start)
    meant = False
    for link in (part for part in found if part.kind in ("filter", "bind")):
        touching = [g for g in groups if any(link.variables & each.variables for each in g)]
        meant |= len(touching) > 1
        if len(touching) == 1:
            touching[0].append(link)  # it narrows what it is about alone
    sizes = [_size([graph.text[part.start : part.end] for part in g], graph, store) for g in groups]
    texts = [_stretch(graph, g[0].start, max(part.end for part in g if part in factors)) for g in groups]
    _refuse_product(sizes, texts, graph, source, MOST_CELLS if meant else MOST_PRODUCT)


def _size(texts: Sequence[str], graph: Graph, store: ox.Store) -> int:
    inner = " ".join(text + " ." for text in texts)
    query = f"SELECT (COUNT(*) AS ?n) {{ {{ SELECT * {{ {inner} }} LIMIT {MOST_CELLS} }} }}"
    rows = store.query(query, prefixes=dict(graph.prefixes))
    assert isinstance(rows, ox.QuerySolutions), "a SELECT gives solutions"
    (number,) = next(iter(rows))
    assert isinstance(number, ox.Literal), "a count is a number"
    return int(number.value)


def _stretch(graph: Graph, start: int, end: int) -> tuple[Token, str]:
    text = " ".join(graph.text[start:end].split())
    return Token("part", "", start, end), text if len(text) <= 40 else text[:37] + "..."


def _refuse_product(
    sizes: Sequence[int], texts: Sequence[tuple[Token, str]], graph: Graph, source: Source, most: int = MOST_PRODUCT
) -> None:
    total = 1
    for size in sizes:
        total *= size
    if total <= most or total <= _TIMES * sum(sizes) or sum(size > 1 for size in sizes) < 2:
        return
    large = sorted(range(len(sizes)), key=lambda i: -sizes[i])[:2]
    first, second = sorted(large)
    message = (
        f"this pattern is a cross product of {total:,} answers: `{texts[first][1]}` has {sizes[first]:,}, "
        f"`{texts[second][1]}` {sizes[second]:,}, and they share no variable"
    )
    hint = "join them by a variable or a triple; what only the rule's events join is two patterns: `{ ... }, { ... }`"
    raise refused(message, graph, source, texts[second][0], hint)


def _too_large(rows: int, graph: Graph, source: Source, more: bool = False) -> CepError:
    many = f"more than {rows:,}" if more else f"{rows:,}"
    message = f"this pattern goes through {many} answers; its table may hold {MOST_CELLS:,} values"
    hint = "narrow it by a class or a FILTER, or write variables that the rule does not need in lower case"
    return refused(message, graph, source, hint=hint)
