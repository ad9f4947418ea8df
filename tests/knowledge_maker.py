"""Random knowledge and random graph patterns, for tests that compare the ways to evaluate them."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

PREFIXES = (("ex", "http://ex.org/"), ("xsd", "http://www.w3.org/2001/XMLSchema#"))

NAMES = [f"ex:{letter}" for letter in "abcd"]
VERBS = ["ex:p", "ex:q", "ex:r"]
LITERALS = [
    "1",
    "2",
    "2.5",
    '"x"',
    '"y"',
    '"x"@en',
    "true",
    '"2024-05-01"^^xsd:date',
    '"odd"^^ex:type',
    '"no"^^xsd:integer',
]
VARIABLES = ["?A", "?B", "?C", "?d", "?e"]


def _full(term: str) -> str:
    for name, iri in PREFIXES:
        if term.startswith(name + ":"):
            return f"<{iri}{term[len(name) + 1 :]}>"
    for number, name in (("1", "integer"), ("2", "integer"), ("2.5", "decimal"), ("true", "boolean")):
        if term == number:
            return f'"{term}"^^<http://www.w3.org/2001/XMLSchema#{name}>'
    text, mark, datatype = term.partition("^^")
    return text + mark + (_full(datatype) if mark else "")


subjects = st.sampled_from([*NAMES, "_:n1", "_:n2"])
triples = st.tuples(subjects, st.sampled_from(VERBS), st.one_of(subjects, st.sampled_from(LITERALS)))
lines = triples.map(lambda triple: " ".join(map(_full, triple)) + " .")
"""Triples in N-Triples."""

knowledge = st.lists(lines, max_size=25, unique=True)


def _triple(draw: Callable[..., str], paths: bool = False) -> str:
    terms = st.sampled_from(VARIABLES)
    subject = draw(st.one_of(terms, terms, terms, st.sampled_from(NAMES)))
    verbs = [st.sampled_from(VERBS), st.sampled_from(VERBS), st.sampled_from(["?A", "?d"])]
    if paths:
        verbs.append(st.sampled_from(["ex:p/ex:q", "ex:p|ex:q", "^ex:p", "ex:p+", "(ex:p/^ex:q)", "!ex:p"]))
    verb = draw(st.one_of(*verbs))
    object = draw(st.one_of(terms, terms, terms, st.sampled_from([*NAMES, *LITERALS, "[]", "_:z"])))
    return f"{subject} {verb} {object}"


@st.composite
def basic(draw: Callable[..., str]) -> str:
    """Triples only."""
    count = int(draw(st.integers(1, 4)))
    parts = [_triple(draw) for _ in range(count)]
    return "{ " + " . ".join(parts) + str(draw(st.sampled_from([" }", " . }", " ; ex:p ?A }", " , ex:a }"])))


@st.composite
def patterns(draw: Callable[..., str]) -> str:
    """A group with everything of SPARQL in it, whose triples connect all of its variables to ?A."""
    start = f"?A {draw(st.sampled_from(VERBS))} ?B"
    return "{ " + start + " . " + " ".join(_part(draw) for _ in range(int(draw(st.integers(1, 3))))) + " }"


def _part(draw: Callable[..., str]) -> str:
    kind = draw(
        st.sampled_from(
            ["triples", "optional", "union", "filter", "values", "minus", "exists", "count", "bind", "graph"]
        )
    )
    one, two = (
        f"?A {draw(st.sampled_from(VERBS))} {draw(st.sampled_from(['?C', '?d', 'ex:a', '1']))}" for _ in range(2)
    )
    match kind:
        case "triples":
            return _triple(draw, paths=True) + " ."
        case "optional":
            return f"OPTIONAL {{ {one} }}"
        case "union":
            return f"{{ {one} }} UNION {{ {two} }}"
        case "filter":
            test = draw(
                st.sampled_from(
                    ["?B = 1", "isNumeric(?B) && ?B > 1", "isIRI(?B)", "?A != ?B", "lang(?B) = 'en'", "bound(?B)"]
                )
            )
            return f"FILTER({test})"
        case "values":
            return "VALUES ?B { ex:a 1 'x' }"
        case "minus":
            return f"MINUS {{ {one.replace('?C', '?c')} }}"
        case "exists":
            return f"FILTER {draw(st.sampled_from(['', 'NOT ']))}EXISTS {{ {one.replace('?C', '?c')} }}"
        case "count":
            counted = f"?A {draw(st.sampled_from(VERBS))} ?x"
            return f"{{ SELECT ?A (COUNT(?x) AS ?N) {{ {counted} }} GROUP BY ?A }} FILTER(bound(?N))"
        case "bind":
            return "{ ?A ex:p ?e BIND(isLiteral(?e) AS ?F) }"
        case _:
            return f"OPTIONAL {{ GRAPH ?G {{ {one} }} }}"
