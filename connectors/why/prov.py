"""Why an event was derived, as PROV-O in N-Triples, with the IRIs that derived events have everywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cep.engine import Engine
from connectors.rdf.triples import quoted
from connectors.rdf.words import PROV, RDF, RDFS, Words

Told = Mapping[str, Any]


def provenance(node: Told, engine: Engine, words: Words | None = None) -> str:
    """The tree of a derived event: for each event what it was derived from, and the rule that was followed."""
    return "".join(dict.fromkeys(_node(node, engine, words or Words())))


def _node(node: Told, engine: Engine, words: Words) -> Iterator[str]:
    chain, parts = node.get("chain", ()), node.get("parts", ())
    yield from _own(node, [*parts, *chain[:1]], engine, words)
    for link, before in zip(chain, [*chain[1:], None]):
        yield from _own(link, [*link.get("parts", ()), *([] if before is None else [before])], engine, words)
    for part in (*parts, *(part for link in chain for part in link.get("parts", ()))):
        yield from _node(part, engine, words)


def _own(node: Told, parts: Sequence[Told], engine: Engine, words: Words) -> Iterator[str]:
    one = _iri(node, words)
    yield _line(one, RDF + "type", PROV + "Entity")
    yield _line(one, RDF + "type", words.type(engine.plan.schemas[node["event"]]))
    yield f"<{one}> <{RDFS}label> {quoted(node['text'])} .\n"
    for part in parts:
        yield _line(one, PROV + "wasDerivedFrom", _iri(part, words))
    if "rule" not in node:
        return
    rule = node["rule"]
    activity, association = f"{one}/derivation", f"{one}/association"
    followed = words.rule(engine.program, rule["name"] or f"line-{rule['line']}-{rule['column']}")
    yield _line(one, PROV + "wasGeneratedBy", activity)
    yield _line(activity, RDF + "type", PROV + "Activity")
    for part in parts:
        yield _line(activity, PROV + "used", _iri(part, words))
    yield _line(activity, PROV + "qualifiedAssociation", association)
    yield _line(association, RDF + "type", PROV + "Association")
    yield _line(association, PROV + "hadPlan", followed)
    yield _line(followed, RDF + "type", PROV + "Plan")
    yield f"<{followed}> <{RDFS}label> {quoted(rule['text'])} .\n"


def _iri(node: Told, words: Words) -> str:
    return words.reading(node["id"]) if "record" in node else words.event(node["id"])


def _line(subject: str, property: str, object: str) -> str:
    return f"<{subject}> <{property}> <{object}> .\n"
