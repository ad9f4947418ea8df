"""Detection of accidental cross products. If some parts of a group share no variable, the group's answers are a cross
product of these parts. A cross product that has too many rows is assumed to be accidental."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyoxigraph as ox

from cep.core.errors import Source
from cep.knowledge.query.group_patterns import GroupElement, NestedGroup, elements, nested_groups
from cep.knowledge.query.sparql import SparqlToken
from cep.knowledge.query.validation import pattern_error
from cep.rules.terms import Graph

MOST_PRODUCT = 100_000
"""The maximum number of rows of a cross product. A larger product is assumed to be a mistake."""

_TIMES = 10  # a product of less than this many times the sum of its factors counts as intended too
_JOINED = ("triples", "group", "graph", "values")


@dataclass(slots=True)
class _Factor:
    """Elements of a group that share variables, directly or through other elements.

    - `texts`: the texts of the elements. The answers to these texts are counted.
    - `places`: the positions of the elements in the pattern's text.
    - `linked`: True if some elements share variables with parts of the surrounding groups.
    """

    variables: set[str]
    texts: list[str]
    places: list[tuple[int, int]] = field(default_factory=list)
    linked: bool = False


@dataclass(frozen=True, slots=True)
class GroupPattern:
    """A group of a graph pattern: the whole pattern, or a group in braces inside it.

    - `links`: parts of the surrounding groups that are joined with each row of this group. They can connect the
      group's own parts.
    - `within`: the graph names of the GRAPH clauses that contain the group.
    - `tests`: True if the group only tests each row (EXISTS).
    - `cut`: True if a LIMIT may drop some of the group's answers.
    - `absent`: True if solutions must not match the group, or a group around it (MINUS, NOT EXISTS).
    """

    elements: tuple[GroupElement, ...]
    links: tuple[_Factor, ...] = ()
    within: tuple[str, ...] = ()
    tests: bool = False
    cut: bool = False
    absent: bool = False


def group_patterns(text: str) -> Iterator[GroupPattern]:
    """Yield all groups of a valid pattern, outer ones first."""
    yield from _groups(text, NestedGroup("group", 0, len(text)), GroupPattern(()))


def _groups(text: str, block: NestedGroup, around: GroupPattern) -> Iterator[GroupPattern]:
    parts = [
        replace(element, start=element.start + block.start, end=element.end + block.start)
        for element in elements(text[block.start : block.end])
    ]
    group = replace(around, elements=tuple(parts))
    yield group
    for element in parts:
        for inner in nested_groups(text, element):
            # SPARQL evaluates other inner groups on their own; these are joined with the outer group.
            alone = inner.kind not in ("group", "graph", "exists")
            links = () if alone else tuple(_factors(text, group, element))
            within = (*group.within, inner.name) if inner.kind == "graph" else group.within
            absent = around.absent or inner.absent
            yield from _groups(text, inner, GroupPattern((), links, within, inner.kind == "exists", inner.cut, absent))


def refuse_products(graph: Graph, store: ox.Store, source: Source, most: int) -> None:
    """Raise CepError, before any join, if parts of a group share no variable and their product is too large.

    If a FILTER or BIND relates the parts, the product may have up to `most` rows.
    """
    for group in group_patterns(graph.text):
        factors = _factors(graph.text, group)
        own = [factor for factor in factors if factor.places and not (group.tests and factor.linked)]
        if len(own) < 2 or group.cut:
            continue
        own.sort(key=lambda factor: min(factor.places))
        filtered = False
        for element in group.elements:
            if element.kind in ("filter", "bind"):
                touching = [factor for factor in own if factor.variables & element.variables]
                filtered |= len(touching) > 1
                if len(touching) == 1 and not group.tests:  # a store filters tests only after the product
                    # the filter narrows a single factor
                    touching[0].texts.append(graph.text[element.start : element.end])
        sizes = [_size(factor.texts, group.within, graph, store, most) for factor in own]
        ends = [(min(factor.places)[0], max(end for _, end in factor.places)) for factor in own]
        refuse_product(
            sizes, [pattern_excerpt(graph, *end) for end in ends], graph, source, most if filtered else MOST_PRODUCT
        )


def _factors(text: str, group: GroupPattern, without: GroupElement | None = None) -> list[_Factor]:
    """Combine the elements and links of a group that share variables, and return the resulting factors.

    `without`: an element to leave out.
    """
    factors = [_Factor(set(link.variables), list(link.texts), linked=True) for link in group.links]
    for element in group.elements:
        if element.kind in _JOINED and element.variables and element is not without:
            touching = [factor for factor in factors if factor.variables & element.variables]
            factors = [factor for factor in factors if not any(factor is touched for touched in touching)]
            joined = _Factor(
                set(element.variables), [text[element.start : element.end]], [(element.start, element.end)]
            )
            for factor in reversed(touching):
                joined.variables |= factor.variables
                joined.texts[:0] = factor.texts
                joined.places[:0] = factor.places
                joined.linked |= factor.linked
            factors.append(joined)
    for element in group.elements:
        if element.kind == "optional" and element.variables and element is not without:
            # It does not connect other parts, because it keeps their rows.
            touching = [factor for factor in factors if factor.variables & element.variables]
            if touching:
                touching[0].variables |= element.variables
            elif factors:
                (inner,) = nested_groups(text, element)
                factors.append(
                    _Factor(set(element.variables), [text[inner.start : inner.end]], [(element.start, element.end)])
                )
    return factors


def _size(texts: Sequence[str], within: Sequence[str], graph: Graph, store: ox.Store, most: int) -> int:
    inner = " ".join(text + " ." for text in texts)
    for name in reversed(within):
        inner = f"{name} {{ {inner} }}"
    return query_count(f"SELECT (COUNT(*) AS ?n) {{ {{ SELECT * {{ {inner} }} LIMIT {most} }} }}", graph, store)


def query_count(query: str, graph: Graph, store: ox.Store) -> int:
    """Evaluate a query of the form SELECT (COUNT(...) AS ...), and return the count."""
    rows = store.query(query, prefixes=dict(graph.prefixes))
    assert isinstance(rows, ox.QuerySolutions), "a SELECT gives solutions"
    (number,) = next(iter(rows))
    assert isinstance(number, ox.Literal), "a count is a number"
    return int(number.value)


def pattern_excerpt(graph: Graph, start: int, end: int) -> tuple[SparqlToken, str]:
    """Return the part of a pattern from offset `start` to `end` as a token, and its text for error messages."""
    text = " ".join(graph.text[start:end].split())
    return SparqlToken("part", "", start, end), text if len(text) <= 40 else text[:37] + "..."


def refuse_product(
    sizes: Sequence[int],
    texts: Sequence[tuple[SparqlToken, str]],
    graph: Graph,
    source: Source,
    most: int = MOST_PRODUCT,
) -> None:
    """Raise CepError if the product of several parts of a pattern is too large to be intended.

    - `sizes`: the number of answers of each part.
    - `texts`: each part as a token, and its text.

    The error points to the second of the two largest parts.
    """
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
    hint = "join them by a variable or a triple; if only events join them, write two patterns: `{ ... }, { ... }`"
    raise pattern_error(message, graph, source, texts[second][0], hint)
