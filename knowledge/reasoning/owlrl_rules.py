"""Custom rule sets: classes for the library owlrl, which are loaded by name, and the closures that they compute."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from cep.core.errors import CepError
from cep.core.suggest import did_you_mean
from cep.knowledge.rdf.interop import to_rdflib
from cep.knowledge.rdf.prefixed_names import PrefixedNames
from cep.knowledge.rdf.relation import PredicateRelations, packed
from cep.knowledge.rdf.terms import Terms
from cep.knowledge.rdf.triples import TripleSet
from cep.knowledge.reasoning.closure import Closure, visible
from cep.knowledge.reasoning.proof import ASSERTED, Proof
from cep.knowledge.reasoning.ruleset import ruleset

if TYPE_CHECKING:
    from rdflib.term import Node

    Triple = tuple[Node, Node, Node]
else:
    Triple = tuple

_HINT = "a subclass of `owlrl.Closure.Core`, as `owlrl.OWLRL_Extension`, or its name, `module:Class`"
_ERROR = "http://www.daml.org/2002/03/agents/agent-ont#error"


def rule_set(named: str | type[Any]) -> type[Any]:
    """Return the class of a rule set. `named`: the class, or its name as `module:Class`.

    The module is searched among installed packages and in the current folder. Raises CepError if it cannot be imported,
    or is not a rule set of owlrl.
    """
    from owlrl.Closure import Core

    rules = _imported(named) if isinstance(named, str) else named
    if not (isinstance(rules, type) and issubclass(rules, Core)):
        raise CepError(f"{_shown(named)} is not a rule set of owlrl", hint=_HINT, code="knowledge")
    return rules


def name_of(rules: type[Any]) -> str:
    return f"{rules.__module__}:{rules.__qualname__}"


def _shown(named: object) -> str:
    return f"`{named if isinstance(named, str) else getattr(named, '__qualname__', named)}`"


def _imported(name: str) -> Any:
    module, _, path = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        imported = import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0] and error.name != module:
            raise CepError(
                f"`{name}`: {module} imports `{error.name}`, which is not installed", code="knowledge"
            ) from None
        hint = "use an installed module or a file of this folder: `mine:Rules` is the class `Rules` in mine.py"
        raise CepError(f"`{name}`: there is no module `{module}`", hint=hint, code="knowledge") from None
    except Exception as error:
        raise CepError(f"`{name}`: {module} cannot be imported: {error}", code="knowledge") from None
    for part in path.split("."):
        classes = [member for member in dir(imported) if isinstance(getattr(imported, member), type)]
        if not hasattr(imported, part):
            hint = did_you_mean(part, classes) or _HINT
            raise CepError(f"`{name}`: {module} has no class `{part}`", hint=hint, code="knowledge")
        imported = getattr(imported, part)
    return imported


# --- the closure ---


def expanded(rules: type[Any], triples: Iterable[Triple]) -> tuple[set[Triple], Any]:
    """Compute the closure of triples under a rule set, as `owlrl.DeductiveClosure` does, but without axiomatic triples.

    Return the closure and the instance of the rule set, whose `error_messages` describe contradictions.
    """
    from owlrl import DeductiveClosure
    from owlrl.DatatypeHandling import use_Alt_lexical_conversions, use_RDFLib_lexical_conversions
    from rdflib import Graph, URIRef

    graph = Graph()
    for triple in triples:
        graph.add(triple)
    use_Alt_lexical_conversions()
    try:
        with quiet():
            run = rules(graph, False, False)
            run.closure()
    finally:
        if not DeductiveClosure.improved_datatype_generic:
            use_RDFLib_lexical_conversions()
    messages = set(graph.subjects(URIRef(_ERROR)))
    return {triple for triple in graph if triple[0] not in messages}, run


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the tracebacks that rdflib logs for ill-formed literals."""
    log = logging.getLogger("rdflib.term")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def close_by(rules: str | type[Any], terms: Terms, triples: TripleSet) -> OwlrlClosure:
    """Compute the closure under a custom rule set. Raises CepError if the rule set reports a contradiction."""
    asserted = PredicateRelations.of(*triples.columns)
    start = ruleset("none", terms, asserted, PrefixedNames(terms, {}, asserted))
    facts, labels = _closed(rule_set(rules), terms, asserted), np.arange(len(terms), dtype=np.int64)
    return OwlrlClosure(terms, "none", asserted, start, facts, labels, 1, rule_set=rules)


@dataclass(frozen=True)
class OwlrlClosure(Closure):
    """A closure that a custom rule set computes. `rule_set`: a class for the library owlrl, or the name of the class.

    After a change, the closure is computed anew. A proof names only the class, and has no premises.
    """

    rule_set: str | type[Any] = ""

    def proof(self, s: int, p: int, o: int) -> Proof:
        if min(s, p, o) < 0 or not self.facts[p].has(packed(np.array([s]), np.array([o])))[0]:
            raise CepError("the triple is neither asserted nor inferred", code="unknown-triple")
        asserted = self.asserted[p].has(packed(np.array([s]), np.array([o])))[0]
        return Proof((s, p, o), ASSERTED if asserted else name_of(rule_set(self.rule_set)))

    def plus(self, triples: TripleSet) -> Closure:
        return self.changed(TripleSet.empty(), triples)

    def minus(self, triples: TripleSet) -> Closure:
        return self.changed(triples, TripleSet.empty())

    def changed(self, removed: TripleSet, added: TripleSet) -> Closure:
        asserted = visible(self.terms, self.asserted).minus(removed).plus(added)
        return close_by(self.rule_set, self.terms, asserted)

    def links(self, less: Closure) -> bool:
        return True  # it is unknown on which triples another depends


def _closed(rules: type[Any], terms: Terms, asserted: PredicateRelations) -> PredicateRelations:
    from rdflib import BNode, Literal, URIRef

    loaded = visible(terms, asserted)
    used = np.unique(np.concatenate(loaded.columns)).tolist()
    with quiet():
        nodes = {id: to_rdflib(terms.term(id)) for id in used}
    ids = {node: id for id, node in nodes.items()}
    every, run = expanded(
        rules, ((nodes[s], nodes[p], nodes[o]) for s, p, o in zip(*map(np.ndarray.tolist, loaded.columns)))
    )
    if errors := sorted(map(str, run.error_messages)):
        shown = [f"  {error}" for error in errors[:3]]
        more = [f"  and {len(errors) - 3} more"] if len(errors) > 3 else []
        message = "\n".join([f"the knowledge is inconsistent by {name_of(rules)}:", *shown, *more])
        raise CepError(message, code="inconsistent")
    rdf = [t for t in every if isinstance(t[1], URIRef) and not isinstance(t[0], Literal)]
    blank_nodes: set[Node] = {node for t in rdf for node in t if isinstance(node, BNode) and node not in ids}
    if blank_nodes:
        rdf = _labelled(rdf, blank_nodes)
    new = sorted({node for triple in rdf for node in triple if node not in ids}, key=sort_key)
    ids |= dict(zip(new, terms.ids(new).tolist(), strict=True))
    s, p, o = (np.array([ids[triple[i]] for triple in rdf], dtype=np.int64) for i in range(3))
    return asserted.plus(asserted.fresh(PredicateRelations.of(s, p, o)), 1)


def sort_key(node: Node) -> tuple[str, ...]:
    """Return a key by which terms of all kinds can be sorted: the kind, the text, the datatype and the language."""
    return type(node).__name__, str(node), *(str(getattr(node, name, None)) for name in ("datatype", "language"))


def _labelled(triples: list[Triple], blank_nodes: set[Node]) -> list[Triple]:
    """Replace the labels of blank nodes that a rule set created.

    The library owlrl creates random labels. The new labels depend only on the triples.
    """
    from rdflib import BNode, Graph, URIRef
    from rdflib.compare import to_canonical_graph

    def known(node: Node) -> Node:  # blank nodes of the input keep their labels
        return URIRef(f"_:{node}") if isinstance(node, BNode) and node not in blank_nodes else node

    def back(node: Node) -> Node:
        return BNode(node[2:]) if isinstance(node, URIRef) and node.startswith("_:") else node

    some = Graph()
    for s, p, o in triples:
        if not blank_nodes.isdisjoint((s, p, o)):
            some.add((known(s), known(p), known(o)))
    labelled = [(back(s), back(p), back(o)) for s, p, o in to_canonical_graph(some)]
    return [triple for triple in triples if blank_nodes.isdisjoint(triple)] + labelled
