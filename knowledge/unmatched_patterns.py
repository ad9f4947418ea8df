"""Explanations why a pattern has no answers: the knowledge lacks a term of it, or a part of it has no match."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np
import polars as pl

from cep.core.errors import Source, Span, Warning
from cep.core.prefixes import PREFIXES
from cep.core.schema import Schema
from cep.core.suggest import nearest
from cep.knowledge.query.group_patterns import elements
from cep.knowledge.query.sparql import ConstantTerm, SparqlToken, basic, tokens
from cep.knowledge.query.validation import span_in_program
from cep.knowledge.rdf.namespaces import OWN
from cep.knowledge.rdf.terms import IRI, NONE
from cep.plan.algebra import Triples
from cep.rules.graph_text import on_one_line
from cep.rules.terms import Graph

if TYPE_CHECKING:
    from cep.knowledge.graph import Knowledge

_NEEDED = ("triples", "group", "graph", "values", "select")
_PREFIX = re.compile(r"^\s*PREFIX\s+(\S*):\s*<([^>]*)>", re.MULTILINE | re.IGNORECASE)
_EVENT = re.compile(
    rf"{OWN}(type|attribute|event|reading|instant|interval|hour|derivation|rule|revision)/|{re.escape(PREFIXES['time'])}"
)
"""A pattern that matches the beginning of the IRI of an occurrence, an event type or a time (see
`cep.connectors.rdf.vocabulary`)."""
_MOST = 20_000  # the maximum number of names to compare by edit distance


def why_no_answers(
    pattern: Graph | Triples, knowledge: Knowledge, source: Source, schemas: Mapping[str, Schema]
) -> Warning:
    """Return a warning that a pattern has no answers. `schemas`: the event types of the program.

    If the knowledge lacks a term of the pattern, the warning names this term and suggests the most similar one. If the
    term belongs to an event type, the warning says so. Otherwise the warning shows the first part that has no answers,
    or says that each part alone has answers.
    """
    if isinstance(pattern, Triples):
        return _of_triples(pattern, knowledge, source, schemas)
    prefixes = dict(pattern.prefixes)
    for token, iri in _names(pattern.text, prefixes):
        if not _occurs(iri, knowledge):
            span = span_in_program(pattern, token.start, token.end)
            return _unknown(token.text, iri, prefixes, knowledge, source, span, schemas)
    for start, end in _empty(pattern, knowledge):
        part = on_one_line(pattern.text[start:end])
        message = f"this pattern has no answers: nothing in the knowledge fits `{part}`"
        return Warning(message, source, span_in_program(pattern, start, end), None, "no-answers")
    message = "this pattern has no answers: its parts have some, but none together"
    hint = "a shared variable must have the same value in all parts, and every FILTER must be true"
    return Warning(message, source, pattern.span, hint, "no-answers")


def unknown_names(sparql: str, prefixes: Mapping[str, str], knowledge: Knowledge, name: str) -> list[Warning]:
    """Return a warning for each missing IRI that the knowledge must have for a SELECT or ASK query to have an answer.

    `prefixes`: the prefixes that files declare. The query may declare others. `name`: the query's name in messages.
    """
    head, brace, _ = sparql.partition("{")
    if not brace or re.search(r"\b(construct|describe)\b", head, re.IGNORECASE):
        return []
    end = sparql.rindex("}") + 1
    known = {**prefixes, **dict(_PREFIX.findall(head))}
    before = head.splitlines()[-1:] or [""]
    begin = Span(head.count("\n") + 1, len(before[0]) + 1, 0, 0)
    pattern, source = Graph(sparql[len(head) : end], (), span=begin), Source(sparql, name)
    return [
        _unknown(token.text, iri, known, knowledge, source, span_in_program(pattern, token.start, token.end))
        for token, iri in _names(pattern.text, known)
        if not _occurs(iri, knowledge)
    ]


def _of_triples(pattern: Triples, knowledge: Knowledge, source: Source, schemas: Mapping[str, Schema]) -> Warning:
    prefixes = dict(_PREFIX.findall(source.text))
    for iri in pattern.fixed:
        if iri is not None and not _occurs(str(iri), knowledge):
            return _unknown(_short(str(iri), prefixes), str(iri), prefixes, knowledge, source, pattern.span, schemas)
    return Warning("there is no such triple in the knowledge", source, pattern.span, None, "no-answers")


def _names(text: str, prefixes: Mapping[str, str]) -> Iterator[tuple[SparqlToken, str]]:
    """Yield the IRIs that must be in the knowledge for an answer, in the order of the text. IRIs of functions and
    datatypes are left out."""
    words = tokens(text)
    after = dict(zip(words, [*(token.text for token in words[1:]), ""]))
    before = dict(zip(words[1:], (token.text for token in words)))
    needed = [part for part in elements(text) if part.kind in _NEEDED]
    for token in words:
        if token.kind not in ("iri", "name") or after[token] == "(" or before.get(token) == "^^":
            continue
        if any(part.start <= token.start < part.end for part in needed):
            name, _, local = token.text.partition(":")
            full = token.text[1:-1] if token.kind == "iri" else prefixes[name] + re.sub(r"\\(.)", r"\1", local)
            yield token, full


def _occurs(iri: str, knowledge: Knowledge) -> bool:
    id = knowledge.terms.id_of(iri)
    if id == NONE:
        return False
    closed = knowledge.closed
    return id in knowledge.graphs or any(closed.count(**{place: id}) for place in "pso")


def _unknown(
    written: str,
    iri: str,
    prefixes: Mapping[str, str],
    knowledge: Knowledge,
    source: Source,
    span: Span,
    schemas: Mapping[str, Schema] | None = None,
) -> Warning:
    message = f"`{written}` is nowhere in the knowledge, so there are no answers"
    hint = _of_event(iri, schemas)
    if hint is None and (near := _nearest(iri, knowledge)) is not None:
        hint = f"did you mean `{_short(near, prefixes)}`?"
    return Warning(message, source, span, hint, "no-answers")


def _of_event(iri: str, schemas: Mapping[str, Schema] | None) -> str | None:
    """Return a hint if an IRI belongs to an event type or occurrence. The knowledge contains neither of them. For other
    IRIs, return None.

    `schemas`: the event types of the program, or None if the pattern is part of a query.
    """
    served = "`cep serve` answers queries over events and knowledge at `/sparql`"
    if schemas is None:
        return f"events are not knowledge; {served}" if _EVENT.match(iri) else None
    for name, schema in schemas.items():
        of_attribute = next((attribute.name for attribute in schema.attributes if attribute.iri == iri), None)
        words = unquote(iri.removeprefix(OWN)).split("/") if _EVENT.match(iri) else []
        if of_attribute is None and words[:2] == ["attribute", name]:
            of_attribute = words[-1]
        if of_attribute is not None or iri == schema.iri or words == ["type", name]:
            what = f"the attribute `{of_attribute}` of `{name}`" if of_attribute else f"the class of `{name}`"
            shown = ", ".join("_" if attribute.name != of_attribute else "X" for attribute in schema.attributes)
            return f"this is {what}, and braces see knowledge only: name it in the pattern: `{name}({shown})`"
    return f"events are not knowledge, which is all that braces see; {served}" if _EVENT.match(iri) else None


def _short(iri: str, prefixes: Mapping[str, str]) -> str:
    known = {**PREFIXES, **prefixes}
    fits = [(len(begin), name) for name, begin in known.items() if begin and iri.startswith(begin)]
    if not fits:
        return f"<{iri}>"
    length, name = max(fits)
    return f"{name}:{iri[length:]}"


def _nearest(iri: str, knowledge: Knowledge) -> str | None:
    """Return the IRI in the knowledge that is most similar to `iri`. Return None if no IRI is similar.

    Properties are preferred to other terms. IRIs in the same namespace are preferred to IRIs in other namespaces.
    """
    begin, local = _split(iri)
    closed, terms = knowledge.closed, knowledge.terms
    for ids in (closed.p, np.concatenate([closed.s, closed.o])):
        ids = np.unique(ids)
        texts = terms.texts(ids[terms.kinds(ids) == IRI])
        near = texts.filter(texts.str.starts_with(begin)).str.slice(len(begin))
        lengths = near.str.len_chars().cast(pl.Int64) - len(local)
        near = near.filter(lengths.abs() <= 3).unique().sort()
        if near.len() <= _MOST and (close := nearest(local, near.to_list())) is not None:
            return begin + close
        others = texts.filter(texts.str.ends_with(local)).unique().sort().to_list() if local else []
        same = [other for other in others if _split(other)[1] == local]
        if same:
            return str(same[0])
    return None


def _split(iri: str) -> tuple[str, str]:
    cut = max(iri.rfind("#"), iri.rfind("/"), iri.rfind(":")) + 1
    return iri[:cut], iri[cut:]


def _empty(graph: Graph, knowledge: Knowledge) -> Iterator[tuple[int, int]]:
    """Yield the positions of those parts of a pattern that have no answers even without the other parts."""
    prefixes = dict(graph.prefixes)
    patterns = basic(graph.text, prefixes)
    if patterns is not None:
        for pattern in patterns:
            ids = [knowledge.constant_id(slot) if isinstance(slot, ConstantTerm) else None for slot in pattern.slots]
            if NONE in ids or not knowledge.seen.count(*ids):
                yield pattern.start, pattern.end
        return
    for part in elements(graph.text):
        if part.kind in _NEEDED[:-1]:
            query = f"ASK {{ {graph.text[part.start : part.end]} }}"
            if not bool(knowledge.store().query(query, prefixes=prefixes)):
                yield part.start, part.end
