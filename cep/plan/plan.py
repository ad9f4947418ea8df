"""The plan: shared nodes, the heads that make events of them, and what is known of each; the passes in order.

lowered rules -> safe -> binary and shared -> typed -> ordered -> horizons
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cep.core.errors import CepErrors, Source, Span, Warning
from cep.core.schema import Schema
from cep.core.values import Pool
from cep.plan import horizon, order, safety, types
from cep.plan.alerts import ill_placed
from cep.plan.algebra import Head, Rules
from cep.plan.binarise import binarise
from cep.plan.lasting import lasting
from cep.plan.lint.ranges import never
from cep.plan.lint.suspicious import doubts
from cep.plan.lint.unused import idle
from cep.plan.node import Node
from cep.plan.order import Group
from cep.plan.types import Column
from cep.rules.relations import Relation
from cep.rules.typed import Typed


@dataclass(frozen=True, slots=True)
class Plan:
    """Nodes with children before parents. `names`: the variables of each node's columns as first written; `users`: the
    rules (by number) that need it; `points`: whether its occurrences are all instants; `heads` in program order with
    their typed arguments; `groups`: what runs together, in order; `origin`: of a stage's plan, the numbers that its
    nodes have in the whole one.
    """

    rules: Rules
    nodes: tuple[Node, ...]
    names: tuple[tuple[str, ...], ...]
    spans: tuple[Span, ...]
    users: tuple[frozenset[int], ...]
    columns: tuple[tuple[Column, ...], ...]
    points: tuple[bool, ...]
    heads: tuple[Head, ...]
    arguments: tuple[tuple[Typed, ...], ...]
    schemas: Mapping[str, Schema]
    inputs: frozenset[str]
    groups: tuple[Group, ...]
    warnings: tuple[Warning, ...]
    source: Source
    origin: tuple[int, ...] | None = None

    @property
    def derived(self) -> tuple[str, ...]:
        """The events that rules make, in program order."""
        return tuple(dict.fromkeys(head.event for head in self.heads))


def plan(rules: Rules, relations: Mapping[str, Relation], pool: Pool, inputs: frozenset[str]) -> Plan:
    """Plan lowered rules over static `relations`. `inputs`: events that come from outside although rules make them
    too."""
    refused, unsafe = safety.unsafe(rules)
    errors = [*rules.errors, *unsafe]
    binarised = binarise([rule for number, rule in enumerate(rules.rules) if number not in refused])
    groups, cyclic = order.order(binarised.nodes, binarised.heads, binarised.spans, rules.source)
    errors += cyclic
    try:
        partial = bool(refused or rules.errors)
        typing = types.infer(binarised, groups, rules.schemas, relations, pool, rules.source, partial)
    except CepErrors as found:
        raise CepErrors([*errors, *found.errors]) from None
    errors += ill_placed(rules.alerts, rules.rules, typing.schemas, rules.source)
    if errors:
        raise CepErrors(errors)
    derived = {head.event for head in binarised.heads}
    outside = frozenset(
        name for name, schema in typing.schemas.items() if name not in derived or schema.declared or name in inputs
    )
    points = horizon.points(binarised.nodes, binarised.heads, typing.schemas, outside)
    warnings = doubts(rules) + idle(rules) + never(rules) + horizon.warnings(binarised, points, rules.source)
    warnings += lasting(binarised, typing.schemas, outside, rules.source)
    return Plan(
        rules,
        tuple(binarised.nodes),
        tuple(binarised.names),
        tuple(binarised.spans),
        tuple(frozenset(users) for users in binarised.users),
        tuple(typing.columns),
        points,
        tuple(binarised.heads),
        tuple(typing.heads),
        typing.schemas,
        outside,
        groups,
        tuple(sorted(warnings, key=lambda w: (w.span.line, w.span.column) if w.span else (0, 0))),
        rules.source,
    )
