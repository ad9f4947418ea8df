"""Lowered programs: the rules of a program over patterns in which every option is a field, and what they ask."""

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
    """`label: event(arguments) <- body.`"""

    event: str
    arguments: tuple[Expression, ...]
    body: Pattern
    label: str | None
    span: Span
    head_span: Span


@dataclass(frozen=True, slots=True)
class Triples:
    """`triple(S, P, O)` with constant IRIs in some positions and None in the others; `span`: its first use."""

    fixed: tuple[Iri | None, Iri | None, Iri | None]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Rules:
    """A lowered program: the schemas of all events, the rules in program order, the static rules; what conditions ask
    of the background knowledge, by the name of the predicate; the mistakes of the rules that are not among them, to be
    reported with those of the plan; what alerts say of their occurrences, which are made by rules like others; the
    predicates whose facts are declared; the events and fluents that only help to say what a program means (`helpers`),
    which nobody is given; and the fluents that must not hold (`impossible`), with the rules that say so."""

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
    """How a rule makes its event of a node's occurrences: an expression over canonical columns for each argument."""

    event: str
    child: int
    arguments: tuple[Expression, ...]
    label: str | None
    span: Span = field(default=NOWHERE, compare=False)
