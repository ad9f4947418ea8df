"""Validation of graph patterns and queries before they are evaluated.

A pattern must be valid SPARQL, bind the variables of the rule, and return the same answers each time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyoxigraph as ox

from cep.core.errors import CepError, Source, Span
from cep.knowledge.query.diagnostics import first_error, first_query_error
from cep.knowledge.query.federation import FederatedQuery, check_federation
from cep.knowledge.query.sparql import SparqlToken, tokens
from cep.knowledge.rdf.namespaces import GEOF
from cep.rules.graph_text import of_the_rule
from cep.rules.terms import Graph

DEEPEST = 200
"""The maximum nesting depth of brackets in a query."""
MOST_PARTS = 2_000
"""The maximum number of operators, triples and clauses in a query.

Oxigraph nests most of them in each other. With some thousands of them, its stack overflows, which ends the process.
"""
_CLAUSES = frozenset(("AS", "BIND", "FILTER", "GRAPH", "MINUS", "OPTIONAL", "SELECT", "UNION"))
_OPERATORS = frozenset("+-*/|!=<>^.;") | {"||", "&&", "!=", "<=", ">="}

_VOLATILE = ("now", "rand", "uuid", "struuid", "bnode")
_ERROR = re.compile(r"error at (\d+):(\d+): ")
_NOTHING = ox.Store()
_FEDERATED = "`SERVICE` queries another endpoint over the network, which {} cannot do"
_SMALLER = "split it into smaller ones; list many values with `VALUES ?x { ... }` or `?x IN (...)`"
_LOADED = "load the data of the other endpoint from a file: `--knowledge FILE`"


def check_pattern(graph: Graph, source: Source) -> None:
    """Raise CepError, with the position of the mistake, if a pattern cannot be evaluated."""
    words = tokens(graph.text)
    if (large := too_large(words)) is not None:
        raise pattern_error(f"the pattern has {large[1]}", graph, source, large[0], _SMALLER)
    if (mark := quoting(graph.text)) is not None:
        message = f"`{mark.text}` asks for a triple about a triple, which is RDF 1.2 and not supported"
        hint = "describe the triple by a node of its own: `?R rdf:subject ?S ; rdf:object ?O`"
        raise pattern_error(message, graph, source, mark, hint)
    for token, following in zip(words, [*words[1:], SparqlToken("end", "", 0, 0)]):
        word = token.text.lower() if token.kind == "word" else ""
        if "service" in word:  # it may lack surrounding space
            raise pattern_error(_FEDERATED.format("a pattern"), graph, source, token, _LOADED)
        if _iri(token, graph).startswith(GEOF):
            message = f"`{token.text}` measures on a plane or a sphere, but the rules measure on the earth"
            hint = "use `distance(...)`, `inside(...)` or `near(...)` after the braces"
            raise pattern_error(message, graph, source, token, hint)
        if word in _VOLATILE and following.text == "(":
            message = f"`{token.text}()` returns a different value each time, but a pattern is evaluated only once"
            raise pattern_error(message, graph, source, token, "test times of events after the braces: `end() > T`")
    prefixes = dict(graph.prefixes)
    query = "SELECT * WHERE\n" + graph.text
    try:
        check_federation(query, prefixes)
        solutions = _NOTHING.query(query, prefixes=prefixes)
    except FederatedQuery:
        raise pattern_error(_FEDERATED.format("a pattern"), graph, source, hint=_LOADED) from None
    except SyntaxError as error:
        raise _no_sparql(str(error), graph, source) from None
    except RuntimeError as error:  # the query calls an unknown function
        reason = str(error)[:1].lower() + str(error)[1:]
        raise pattern_error(f"this pattern cannot be answered: {reason}", graph, source) from None
    assert isinstance(solutions, ox.QuerySolutions), "a SELECT gives solutions"
    bound = {variable.value for variable in solutions.variables}
    for name, pos in of_the_rule(graph.text).items():
        if name not in bound:
            message = f"`?{name}` has no value in this pattern, which is evaluated before any event"
            hint = f"test the rule's `{name}` after the braces: `{{ ... }}, {name} > 3`"
            raise pattern_error(message, graph, source, SparqlToken("variable", name, pos - 1, pos + len(name)), hint)


def too_large(words: Sequence[SparqlToken]) -> tuple[SparqlToken, str] | None:
    """Return the first token at which a query becomes too large for a parser's stack, and the reason. Return None if
    the query is not too large."""
    depth, parts = 0, 0
    for token in words:
        if token.kind == "mark":
            depth += (token.text in ("(", "{", "[")) - (token.text in (")", "}", "]"))
            parts += token.text in _OPERATORS
        elif token.kind == "word":
            parts += token.text.upper() in _CLAUSES
        if depth > DEEPEST:
            return token, f"more than {DEEPEST} nested brackets"
        if parts > MOST_PARTS:
            return token, f"more than {MOST_PARTS:,} operators, triples and clauses"
    return None


_TRIPLES = ("isTRIPLE", "TRIPLE", "SUBJECT", "PREDICATE", "OBJECT")


def quoting(text: str) -> SparqlToken | None:
    """Return the token that begins a triple about a triple (`<<`, `{|`, `~` or `TRIPLE(...)`), or None."""
    words = tokens(text)
    for token, following in zip(words, words[1:]):
        joined = token.text + following.text
        if token.end == following.start and joined in ("<<", "{|"):
            return SparqlToken("mark", joined, token.start, following.end)
        if token.text == "~" or (following.text == "(" and token.text.upper() in map(str.upper, _TRIPLES)):
            return token
    return None


def _iri(token: SparqlToken, graph: Graph) -> str:
    if token.text.startswith("<"):
        return token.text[1:-1]
    prefix, colon, local = token.text.partition(":")
    return dict(graph.prefixes).get(prefix, "") + local if colon else ""


def pattern_error(
    message: str, graph: Graph, source: Source, token: SparqlToken | None = None, hint: str | None = None
) -> CepError:
    """Build an error for a pattern. It points to `token`, or to the whole pattern if `token` is None."""
    span = graph.span if token is None else span_in_program(graph, token.start, token.end)
    return CepError(message, source, span, hint, "graph")


def span_in_program(graph: Graph, start: int, end: int) -> Span:
    """Convert offsets in a pattern's text to a position in the program."""
    line, column = _position(graph, start)
    end_line, end_column = _position(graph, end)
    return Span(line, column, end_line, end_column)


def _position(graph: Graph, offset: int) -> tuple[int, int]:
    before = graph.text[:offset]
    lines = before.count("\n")
    if not lines:
        return graph.span.line, graph.span.column + offset
    return graph.span.line + lines, offset - before.rfind("\n")


def no_query(error: str, text: str, prefixes: Mapping[str, str], name: str) -> CepError:
    """Build the error for a query that Oxigraph refuses with the message `error`."""
    source = Source(text, name)
    offset = _offset(error, text)
    if offset is None:
        return CepError(f"this is not SPARQL: {error[:1].lower()}{error[1:]}", code="graph")
    diagnostic = first_query_error(text, dict(prefixes), offset)
    whole = Graph(text, (), span=Span(1, 1, 1, 1))
    return CepError(
        diagnostic.message, source, span_in_program(whole, diagnostic.start, diagnostic.end), diagnostic.hint, "graph"
    )


def check_query(text: str, prefixes: Mapping[str, str], name: str) -> None:
    """Raise CepError if a query has a SERVICE clause, or is too large for the parser's stack.

    Raises SyntaxError for some invalid queries.
    """
    source, whole, words = Source(text, name), Graph(text, (), span=Span(1, 1, 1, 1)), tokens(text)
    if (large := too_large(words)) is not None:
        place = span_in_program(whole, large[0].start, large[0].end)
        raise CepError(f"the query has {large[1]}", source, place, _SMALLER, "graph")
    try:
        check_federation(text, prefixes)
    except FederatedQuery:
        keyword = next((token for token in words if token.kind == "word" and "service" in token.text.lower()), None)
        span = None if keyword is None else span_in_program(whole, keyword.start, keyword.end)
        raise CepError(_FEDERATED.format("a query"), source, span, _LOADED, "graph") from None


def _no_sparql(error: str, graph: Graph, source: Source) -> CepError:
    offset = _offset(error, graph.text, 1)  # one line precedes the pattern in the query
    diagnostic = first_error(graph.text, dict(graph.prefixes), offset or 0)
    return CepError(
        diagnostic.message, source, span_in_program(graph, diagnostic.start, diagnostic.end), diagnostic.hint, "graph"
    )


def _offset(error: str, text: str, before: int = 0) -> int | None:
    match = _ERROR.search(error)
    if match is None:
        return None
    starts = [0, *(m.end() for m in re.finditer("\n", text))]
    return starts[min(int(match[1]) - 1 - before, len(starts) - 1)] + int(match[2]) - 1
