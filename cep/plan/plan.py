"""The plan of a program, and the passes that build it.

Each of PASSES changes a draft of the plan. The first draft contains the lowered rules, and the last one becomes the
plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from cep.core.errors import CepError, CepErrors, Source, Span, Warning
from cep.core.fluents import EDGES, HOLDS, RECORDS
from cep.core.schema import Schema
from cep.core.values import Pool
from cep.plan import delayed_cycles, endless, horizon, order, safety, types
from cep.plan.alerts import ill_placed
from cep.plan.algebra import Head, Rules
from cep.plan.binarise import Binarised, binarise
from cep.plan.lint.absent import unjoined
from cep.plan.lint.empty import by_order, empty
from cep.plan.lint.lasting import lasting
from cep.plan.lint.ranges import unsatisfiable
from cep.plan.lint.suspicious import suspicious
from cep.plan.lint.unused import unused
from cep.plan.node import Node
from cep.plan.order import Group
from cep.plan.types import ColumnType
from cep.rules.conditions.relations import Relation
from cep.rules.expressions.typed import Typed


@dataclass(frozen=True, slots=True)
class Plan:
    """A program that is ready to run: nodes with children before parents, and rule heads in program order.

    - `names`: the names of each node's columns, as the author first wrote them.
    - `users`: for each node, the numbers of the rules that need it.
    - `points`: for each node, True if all its occurrences are instants.
    - `arguments`: the typed arguments of each head.
    - `groups`: the units (nodes and events) that run together, in running order.
    - `changes`: True if fluents are output as beginnings and ends instead of intervals.
    - `begins`: True if beginnings are output in addition to intervals.

    These fields are caches, which are filled at first use:

    - `stages`: the result of `partition`.
    - `keyed`: the key columns of each stage.
    - `equal`: the treatment of equal records.

    These fields are only used in the plan of one stage:

    - `origin`: for each node, its number in the plan of the whole program.
    - `handed`: the inputs that other stages derive.
    - `several`: the events of the whole program that may have equal occurrences.
    """

    rules: Rules
    nodes: tuple[Node, ...]
    names: tuple[tuple[str, ...], ...]
    spans: tuple[Span, ...]
    users: tuple[frozenset[int], ...]
    columns: tuple[tuple[ColumnType, ...], ...]
    points: tuple[bool, ...]
    heads: tuple[Head, ...]
    arguments: tuple[tuple[Typed, ...], ...]
    schemas: Mapping[str, Schema]
    inputs: frozenset[str]
    groups: tuple[Group, ...]
    warnings: tuple[Warning, ...]
    source: Source
    origin: tuple[int, ...] | None = None
    changes: bool = False
    begins: bool = False
    stages: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)
    keyed: dict[int | None, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    equal: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)
    handed: frozenset[str] = frozenset()
    several: frozenset[str] | None = None

    def types(self, number: int) -> list[str]:
        return [column.type for column in self.columns[number]]

    @property
    def derived(self) -> tuple[str, ...]:
        """The derived events and fluents of the output, in program order. In the plan of a stage, these are all derived
        events, because other stages may read them."""
        events = dict.fromkeys(head.event for head in self.heads)
        if self.origin is not None:
            return tuple(events)
        parts = (EDGES,) if self.changes else (HOLDS, EDGES) if self.begins else (HOLDS,)
        return tuple(name for name in events if (of := self.schemas[name].fluent) is None or of.part in parts)

    @property
    def edges(self) -> frozenset[str]:
        """The names of the tables that contain beginnings and ends of fluents."""
        return frozenset(
            n for n, schema in self.schemas.items() if schema.fluent is not None and schema.fluent.part == EDGES
        )

    @property
    def fluents(self) -> tuple[str, ...]:
        """The names of the derived tables that contain intervals of fluents."""
        kinds = {name: self.schemas[name].fluent for name in dict.fromkeys(head.event for head in self.heads)}
        return tuple(name for name, kind in kinds.items() if kind is not None and kind.part == HOLDS)


# --- the passes -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Draft:
    """A plan under construction: the program from which it is built, and the results of the passes that have run."""

    rules: Rules
    relations: Mapping[str, Relation]
    pool: Pool
    inputs: frozenset[str]
    errors: list[CepError]
    refused: frozenset[int] = frozenset()
    binarised: Binarised = field(default_factory=Binarised)
    groups: tuple[Group, ...] = ()
    typing: types.Typing = field(default_factory=lambda: types.Typing([], {}, []))
    points: tuple[bool, ...] = ()
    warnings: list[Warning] = field(default_factory=list)
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)


def _safe(draft: Draft) -> None:
    draft.refused, unsafe = safety.unsafe(draft.rules)
    draft.errors += unsafe


def _binarise(draft: Draft) -> None:
    rules = [rule for number, rule in enumerate(draft.rules.rules) if number not in draft.refused]
    draft.binarised = binarise(rules)


def _order(draft: Draft) -> None:
    binarised = draft.binarised
    draft.groups, cyclic = order.order(binarised.nodes, binarised.heads, binarised.spans, draft.rules.source)
    draft.errors += cyclic
    draft.errors += delayed_cycles.refused(
        draft.groups, binarised.nodes, binarised.heads, binarised.spans, draft.rules.source
    )
    draft.errors += endless.refused(draft.groups, binarised, draft.rules.source)


def _types(draft: Draft) -> None:
    rules, partial = draft.rules, bool(draft.refused or draft.rules.errors)
    draft.typing = types.infer(
        draft.binarised, draft.groups, rules.schemas, draft.relations, draft.pool, rules.source, partial
    )


def _alerts(draft: Draft) -> None:
    rules = draft.rules
    draft.errors += ill_placed(rules.alerts, rules.rules, draft.typing.schemas, rules.source)


def _horizon(draft: Draft) -> None:
    derived = {head.event for head in draft.binarised.heads}
    schemas = draft.typing.schemas
    incoming = {name for name, schema in schemas.items() if name not in derived or schema.declared}
    draft.inputs |= {name for name in incoming if (of := schemas[name].fluent) is None or of.part == RECORDS}
    draft.inputs &= schemas.keys()
    draft.points = horizon.points(draft.binarised.nodes, draft.binarised.heads, schemas, draft.inputs)
    draft.errors += horizon.refused(draft.binarised, draft.points, draft.rules.source)


def _lint(draft: Draft) -> None:
    for lint in LINTS:
        draft.warnings += lint.find(draft)


@dataclass(frozen=True, slots=True)
class Lint:
    """A kind of warning: its name, and a function that finds such warnings in a draft that has no errors."""

    name: str
    find: Callable[[Draft], list[Warning]]


LINTS = (
    Lint("suspicious", lambda draft: suspicious(draft.rules)),
    Lint("unjoined", lambda draft: unjoined(draft.rules)),
    Lint("unused", lambda draft: unused(draft.rules)),
    Lint("unsatisfiable", lambda draft: unsatisfiable(draft.rules)),
    Lint("endless", lambda draft: endless.warnings(draft.groups, draft.binarised, draft.rules.source)),
    Lint("unbounded", lambda draft: horizon.warnings(draft.binarised, draft.points, draft.rules.source)),
    Lint("lasting", lambda d: lasting(d.binarised, d.typing.schemas, d.inputs, d.rules.source)),
    Lint("empty", lambda draft: empty(draft.rules, draft.tables)),
    Lint("by order", lambda draft: by_order(draft.rules, draft.tables)),
)
"""The checks of the pass `lint`."""


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass: its name, the function that updates the draft, and a description.

    `sound`: True if the pass runs only if earlier passes have reported no errors.
    """

    name: str
    run: Callable[[Draft], None]
    does: str
    sound: bool = False


PASSES = (
    Pass("safe", _safe, "refuses rules with a variable that nothing binds; the other passes run without them"),
    Pass("binarise", _binarise, "makes nodes with two inputs, merges equal ones, and assigns each condition to a node"),
    Pass("order", _order, "sorts nodes and events in the order of execution; those that form a cycle are one group"),
    Pass(
        "types",
        _types,
        "infers column types (in a cycle, until they are stable); checks conditions, keys and the heads of rules",
    ),
    Pass(
        "alerts",
        _alerts,
        "checks the positions and areas of alerts (`AT`, `RADIUS`, `AREA`); it needs the types of their values",
    ),
    Pass(
        "horizon",
        _horizon,
        "finds which events are inputs, which nodes have only instants as rows, and how long goals must remember rows",
        True,
    ),
    Pass("lint", _lint, "warns of valid code that is probably a mistake", True),
)
"""The passes in running order. The function `cep.plan.partition.partition` is not one of them. It runs on the finished
plan when its result is first needed."""


def plan(
    rules: Rules,
    relations: Mapping[str, Relation],
    pool: Pool,
    inputs: frozenset[str],
    tables: Mapping[str, pl.DataFrame] | None = None,
) -> Plan:
    """Plan lowered rules. Raises CepErrors with all mistakes in the program.

    - `relations`: the static predicates.
    - `inputs`: the events that the engine reads as input although rules also derive them.
    - `tables`: the tables of facts, by predicate.
    """
    draft = Draft(rules, relations, pool, inputs, list(rules.errors), tables=tables or {})
    for plan_pass in PASSES:
        if plan_pass.sound and draft.errors:
            break
        try:
            plan_pass.run(draft)
        except CepErrors as several:
            draft.errors += several.errors
            break
    if draft.errors:
        raise CepErrors(draft.errors)
    binarised, typing = draft.binarised, draft.typing
    return Plan(
        rules,
        tuple(binarised.nodes),
        tuple(binarised.names),
        tuple(binarised.spans),
        tuple(frozenset(users) for users in binarised.users),
        tuple(typing.columns),
        draft.points,
        tuple(binarised.heads),
        tuple(typing.heads),
        typing.schemas,
        draft.inputs,
        draft.groups,
        tuple(sorted(draft.warnings, key=lambda w: (w.span.line, w.span.column) if w.span else (0, 0))),
        rules.source,
    )
