"""Lowered programs. The body of each rule is a pattern, and each option of a pattern is a field of its class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cep.core.errors import NOWHERE, CepError, Source, Span
from cep.core.schema import Schema
from cep.events import Iri
from cep.plan.pattern import Pattern
from cep.rules.alert import Alert
from cep.rules.static.typed_facts import FactDeclaration
from cep.rules.terms import Expression, Graph, StaticRule


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule `label: event(arguments) <- body.`"""

    event: str
    arguments: tuple[Expression, ...]
    body: Pattern
    label: str | None
    span: Span
    head_span: Span


@dataclass(frozen=True, slots=True)
class Triples:
    """A query to the background knowledge: a triple pattern `triple(S, P, O)`.

    `fixed`: the constant IRI of each of the three positions, or None for a position that contains a variable. `span`:
    the place of the pattern's first use in the program.
    """

    fixed: tuple[Iri | None, Iri | None, Iri | None]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Rules:
    """A lowered program: event schemas, event rules in program order, and static rules.

    - `errors`: the mistakes of rules that were left out. The planner reports them with its own errors.
    - `asked`: the queries to the background knowledge, by predicate name.
    - `alerts`: the ALERT statements. Ordinary rules derive the occurrences of alerts.
    - `declared`: the predicates whose facts are declared.
    - `helpers`: events and fluents that are not part of the output, because they only help to define others.
    - `impossible`: the fluents that must never hold, each with the position of the rule that says so.
    """

    schemas: Mapping[str, Schema]
    rules: tuple[Rule, ...]
    statics: tuple[StaticRule, ...]
    source: Source
    errors: tuple[CepError, ...] = ()
    asked: Mapping[str, Graph | Triples] = field(default_factory=dict)
    alerts: tuple[Alert, ...] = ()
    declared: Mapping[str, FactDeclaration] = field(default_factory=dict)
    helpers: frozenset[str] = frozenset()
    impossible: Mapping[str, Span] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Head:
    """A rule head, which derives an occurrence of `event` from each occurrence of the node `child`.

    `arguments`: for each attribute of the event, an expression over the canonical column names (`v0`, `v1`, ...) of the
    node.
    """

    event: str
    child: int
    arguments: tuple[Expression, ...]
    label: str | None
    span: Span = field(default=NOWHERE, compare=False)
