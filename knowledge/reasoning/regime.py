"""Entailment regimes: none, RDFS, OWL 2 RL, and custom rule sets."""

from __future__ import annotations

from typing import Any

from cep.core.errors import CepError
from cep.core.suggest import did_you_mean
from cep.knowledge.rdf.terms import Terms
from cep.knowledge.rdf.triples import TripleSet
from cep.knowledge.reasoning.cache import close_once
from cep.knowledge.reasoning.closure import Closure
from cep.knowledge.reasoning.owlrl_rules import close_by, name_of, rule_set
from cep.knowledge.reasoning.ruleset import REASONING


def closed_under(terms: Terms, asserted: TripleSet, reasoning: str | type[Any]) -> tuple[str, Closure | None]:
    """Return the name of an entailment regime, and the closure of the asserted triples under it (None for `none`).

    Raises CepError if the regime is unknown or the triples are inconsistent.
    """
    if reasoning == "none":
        return "none", None
    if isinstance(reasoning, type) or ":" in reasoning:
        return name_of(rule_set(reasoning)), close_by(reasoning, terms, asserted)
    for kind in REASONING:
        if kind == reasoning:
            return kind, close_once(terms, asserted, kind)
    hint = (
        did_you_mean(reasoning, REASONING) or f"use one of {', '.join(REASONING)}, or `module:Class`, a class of owlrl"
    )
    raise CepError(f"`{reasoning}` is not a kind of reasoning", hint=hint, code="knowledge")
