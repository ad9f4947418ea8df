"""Results of SPARQL queries as text: a readable table, the W3C's CSV, TSV and JSON formats, or Turtle."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyoxigraph as ox

from cep.core.errors import CepError
from cep.knowledge.graph import Knowledge
from cep.knowledge.query.frames import has_order_by
from cep.knowledge.rdf.namespaces import XSD
from cep.knowledge.rdf.prefixed_names import PrefixedNames
from cep.knowledge.rdf.terms import Terms

NUMBERS = frozenset(XSD + name for name in ("integer", "decimal", "double", "float", "int", "long", "short", "byte"))
ResultTerm = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple | None
ResultRows = list[list[ResultTerm]]


def text(knowledge: Knowledge, sparql: str, prefixes: Mapping[str, str], format: str, name: str = "query") -> str:
    """Evaluate a query, and return its result in one of FORMATS. Rows are sorted unless the query has an ORDER BY.

    Raises CepError if the query is invalid, or if the format cannot represent a result that is not a table.
    """
    results = knowledge.found(sparql, prefixes, name)
    if not isinstance(results, ox.QuerySolutions):
        if format != "text":
            message = f"the answer is not a table, so it cannot be written as {format}"
            raise CepError(message, hint="leave out `--format`", code="option")
        return ("yes" if results else "no") if isinstance(results, ox.QueryBoolean) else _turtle(results, prefixes)
    variables = [variable.value for variable in results.variables]
    rows: ResultRows = [[solution[name] for name in variables] for solution in results]
    if not has_order_by(sparql):
        rows.sort(key=lambda row: [_rank(term) for term in row])
    return FORMATS[format](variables, rows, prefixes)


def _rank(term: ResultTerm) -> tuple[bool, float, str]:
    """Return a sort key for a term. Numbers are sorted by value and come first. All other terms are sorted as text."""
    try:
        number = float(term.value) if isinstance(term, ox.Literal) and _text(term.datatype) in NUMBERS else math.inf
    except ValueError:
        number = math.inf
    return (not number < math.inf, number if number < math.inf else 0.0, str(term))


def _turtle(triples: ox.QueryTriples, prefixes: Mapping[str, str]) -> str:
    every = sorted(triples, key=str)
    written = "".join(f"{triple.subject} {triple.predicate} {triple.object}\n" for triple in every)
    used = {name: iri for name, iri in prefixes.items() if name and f"<{iri}" in written}
    turtle = ox.serialize(every, format=ox.RdfFormat.TURTLE, prefixes=used)
    assert turtle is not None, "without an output the text is given"
    lines = turtle.decode().splitlines()
    named = sorted(line for line in lines if line.startswith("@prefix"))  # their order varies
    return "\n".join([*named, *lines[len(named) :]])


def _table(variables: Sequence[str], rows: ResultRows, prefixes: Mapping[str, str]) -> str:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    terms = Terms()
    names = PrefixedNames(terms, prefixes)
    table = Table(box=SIMPLE_HEAD)
    for variable in variables:
        table.add_column(Text(variable), overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if term is None else names.of(int(terms.ids([term])[0]))) for term in row))
    console = Console(highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(table)
    return captured.get().strip("\n") + f"\n{len(rows):,} answer{'s' * (len(rows) != 1)}"


def _csv(variables: Sequence[str], rows: ResultRows, prefixes: Mapping[str, str]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(variables)
    writer.writerows([["" if term is None else _text(term) for term in row] for row in rows])
    return out.getvalue().rstrip("\n")


def _tsv(variables: Sequence[str], rows: ResultRows, prefixes: Mapping[str, str]) -> str:
    lines = [["?" + variable for variable in variables]]
    lines += [["" if term is None else str(term).replace("\t", "\\t") for term in row] for row in rows]
    return "\n".join("\t".join(line) for line in lines)


def _json(variables: Sequence[str], rows: ResultRows, prefixes: Mapping[str, str]) -> str:
    bindings = [{name: _binding(term) for name, term in zip(variables, row) if term is not None} for row in rows]
    return json.dumps({"head": {"vars": list(variables)}, "results": {"bindings": bindings}}, ensure_ascii=False)


def _text(term: ResultTerm) -> str:
    return term.value if isinstance(term, ox.NamedNode | ox.Literal) else str(term)


def _binding(term: ResultTerm) -> dict[str, Any]:
    if not isinstance(term, ox.Literal):
        kind = "uri" if isinstance(term, ox.NamedNode) else "bnode"
        return {"type": kind, "value": _text(term).removeprefix("_:")}
    binding: dict[str, Any] = {"type": "literal", "value": term.value}
    if term.language:
        binding["xml:lang"] = term.language
    elif term.datatype.value != XSD + "string":
        binding["datatype"] = term.datatype.value
    return binding


FORMATS: Mapping[str, Callable[[Sequence[str], ResultRows, Mapping[str, str]], str]] = {
    "text": _table,
    "csv": _csv,
    "tsv": _tsv,
    "json": _json,
}
"""The writer for each format of a table."""
