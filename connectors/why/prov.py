"""Explanations as PROV-O in N-Triples. Derived events have the IRIs that they have in RDF output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cep.connectors.rdf.derivations import Derivations
from cep.connectors.rdf.triples import quoted, triple_line
from cep.connectors.rdf.vocabulary import PROV, RDF, RDFS, EventVocabulary
from cep.connectors.why.lines import Explained
from cep.core.identity import identity_hashes
from cep.engine import Engine


def provenance(node: Explained, engine: Engine, vocabulary: EventVocabulary | None = None) -> str:
    """Return the explanation of a derived event as triples.

    Each event is connected to its sources, to the rule that derived it, and to the triples of the knowledge that were
    used. Each of these triples of the knowledge is described by an `rdf:Statement`. If a triple was inferred, its
    statement is derived from the statements of the triples from which it was inferred.
    """
    return "".join(dict.fromkeys(_node(node, engine, vocabulary or EventVocabulary())))


def _node(node: Explained, engine: Engine, vocabulary: EventVocabulary) -> Iterator[str]:
    chain, parts = node.get("chain", ()), _parts(node)
    yield from _own(node, [*parts, *chain[:1]], engine, vocabulary)
    for link, before in zip(chain, [*chain[1:], None]):
        yield from _own(link, [*_parts(link), *([] if before is None else [before])], engine, vocabulary)
    for part in (*parts, *(part for link in chain for part in _parts(link))):
        yield from _node(part, engine, vocabulary)


def _parts(node: Explained) -> list[Explained]:
    """Return the occurrences from which an occurrence was derived. For a fluent, these are the events that began and
    ended it, and the parts of its formulas."""
    told = [cause for turn in ("began", "ended") for cause in node.get(turn, {}).get("by", ())]
    behind = [part for cause in told for part in (_parts(cause) if "rule" in cause else [cause])]
    return [*node.get("parts", ()), *behind, *_of_formulas(node.get("formulas", ()))]


def _of_formulas(formulas: Sequence[Explained]) -> list[Explained]:
    parts: list[Explained] = []
    for formula in formulas:
        for part in formula["parts"]:
            parts += _of_formulas([part]) if "formula" in part else [part]
    return parts


def _own(node: Explained, parts: Sequence[Explained], engine: Engine, vocabulary: EventVocabulary) -> Iterator[str]:
    subject = _iri(node, vocabulary)
    yield triple_line(subject, RDF + "type", PROV + "Entity")
    yield triple_line(subject, RDF + "type", vocabulary.type(engine.plan.schemas[node["event"]]))
    yield f"<{subject}> <{RDFS}label> {quoted(node['text'])} .\n"
    for part in parts:
        yield triple_line(subject, PROV + "wasDerivedFrom", _iri(part, vocabulary))
    if "rule" not in node and "bounds" in node and "record" not in node:
        derivations = Derivations(engine.plan, engine.meanings(), vocabulary)
        rules = _followed(node, derivations)
        yield triple_line(subject, PROV + "wasGeneratedBy", derivations.activity(node["event"], rules))
        yield from derivations.described(node["event"], rules)
    if "rule" not in node:
        return
    rules_used = {(rule["line"], rule["column"]) for rule in (node["rule"], *node.get("also", ()))}
    numbered = enumerate(engine.plan.rules.rules)
    rules = [number for number, rule in numbered if (rule.span.line, rule.span.column) in rules_used]
    derivations = Derivations(engine.plan, engine.meanings(), vocabulary)
    activity = derivations.activity(node["event"], rules)
    yield triple_line(subject, PROV + "wasGeneratedBy", activity)
    for part in parts:
        yield triple_line(activity, PROV + "used", _iri(part, vocabulary))
    for steps in _known(node.get("conditions", ())):
        yield triple_line(subject, PROV + "wasDerivedFrom", _statement(steps[0]["triple"], vocabulary))
        yield triple_line(activity, PROV + "used", _statement(steps[0]["triple"], vocabulary))
        yield from _stated(steps, vocabulary)
    yield from derivations.described(node["event"], rules)


def _followed(node: Explained, derivations: Derivations) -> list[int]:
    told = [cause for turn in ("began", "ended") for cause in node.get(turn, {}).get("by", ())]
    every = [cause["rule"] for cause in (*told, *node.get("formulas", ())) if "rule" in cause]
    places = {(rule["line"], rule["column"]) for rule in every}
    spans = {number: derivations.plan.rules.rules[number].span for number in derivations.rules_of(node["event"])}
    return [number for number, span in spans.items() if len(spans) == 1 or (span.line, span.column) in places]


def _known(conditions: Sequence[Explained]) -> Iterator[Sequence[Explained]]:
    for condition in conditions:
        yield from (fact["steps"] for fact in condition.get("triples", ()) if fact["steps"])
        yield from _known(condition.get("because", ()))


def _stated(steps: Sequence[Explained], vocabulary: EventVocabulary) -> Iterator[str]:
    for step in steps:
        subject = _statement(step["triple"], vocabulary)
        yield triple_line(subject, RDF + "type", PROV + "Entity")
        yield triple_line(subject, RDF + "type", RDF + "Statement")
        for property, term in zip(("subject", "predicate", "object"), step["triple"]):
            yield f"<{subject}> <{RDF}{property}> {term} .\n"
        for premise in step.get("from", ()):
            yield triple_line(subject, PROV + "wasDerivedFrom", _statement(premise, vocabulary))
        if step.get("from"):
            yield f"<{subject}> <{RDFS}comment> {quoted('inferred by ' + step['rule'])} .\n"


def _statement(triple: Sequence[str], vocabulary: EventVocabulary) -> str:
    return f"{vocabulary.base}statement/{identity_hashes([' '.join(triple)], '')[0]}"


def _iri(node: Explained, vocabulary: EventVocabulary) -> str:
    return vocabulary.reading(node["id"]) if "record" in node else vocabulary.event(node["id"])
