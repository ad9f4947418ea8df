"""The algebra of plans: lowered patterns, in which every option is a field, and the nodes they become.

A lowered pattern is a tree over one rule's variables. A node is a piece of the plan, shared by all rules that need
it; its columns have canonical names (`v0`, `v1`, ...), so that equal sub-patterns are equal nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cep.core.errors import NOWHERE, CepError, Source, Span
from cep.core.schema import Schema
from cep.events import Iri
from cep.rules.alert import Alert
from cep.rules.terms import AggregateResult, Condition, Constant, Expression, Graph, PolicyChoice, StaticRule, Variable

# --- lowered patterns -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Atom:
    """An event with positional arguments: variables and constants."""

    event: str
    arguments: tuple[Variable | Constant, ...]
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Point:
    """The time point [ticks, ticks]."""

    ticks: int
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Pair:
    """`left RELATION right`; with `absent`: `NOT(absent).[left, right]`, relation SEQ."""

    relation: str
    left: Pattern
    right: Pattern
    policy: PolicyChoice
    within: int | None = None
    absent: Pattern | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Either:
    """`left OR right`."""

    left: Pattern
    right: Pattern
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Unless:
    """`left UNLESS absent WITHIN duration`."""

    left: Pattern
    absent: Pattern
    duration: int
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Repeat:
    """`pattern TIMES count`: a chain of SEQ; variables in `shared` are equal in all of them (M13)."""

    links: tuple[Pattern, ...]
    chain: Pattern
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Window:
    """`pattern AGGREGATE results OVER LAST events|duration BY by`."""

    pattern: Pattern
    results: tuple[AggregateResult, ...]
    events: int | None
    duration: int | None
    by: tuple[Variable, ...]
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Given:
    """`pattern WHERE conditions`."""

    pattern: Pattern
    conditions: tuple[Condition, ...]
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)


Pattern = Atom | Point | Pair | Either | Unless | Repeat | Window | Given


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
    """`triple(S, P, O)` where some of the three are constant IRIs, the others None; `span`: where it is first asked."""

    fixed: tuple[Iri | None, Iri | None, Iri | None]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Rules:
    """A lowered program: the schemas of all events, the rules in program order, the static rules; what conditions ask
    of the background knowledge, by the name of the predicate; the mistakes of the rules that are not among them,
    which the plan tells with its own; and what alerts say of their occurrences, which are made by rules like others."""

    schemas: Mapping[str, Schema]
    rules: tuple[Rule, ...]
    statics: tuple[StaticRule, ...]
    source: Source
    errors: tuple[CepError, ...] = ()
    asked: Mapping[str, Graph | Triples] = field(default_factory=dict)
    alerts: tuple[Alert, ...] = ()


# --- nodes ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scan:
    """Occurrences of an event: those with these constants and equal arguments, some arguments as columns.

    Columns: the arguments at `take`.
    """

    event: str
    constants: tuple[tuple[int, Constant], ...]
    equal: tuple[tuple[int, int], ...]
    take: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """The one occurrence [ticks, ticks], without columns."""

    ticks: int


@dataclass(frozen=True, slots=True)
class Join:
    """A binary goal. Columns: those of the left, then those of the right that are not in the key.

    `key` pairs columns of left and right. `absent`, when there, is the node that must not occur between;
    `absent_key` gives
    for each of its key columns the column of this join's output. `decide` holds what belongs to the pair (M4).
    """

    relation: str
    left: int
    right: int
    key: tuple[tuple[int, int], ...]
    policy: str
    tie: str
    by: tuple[int | None, int | None]
    within: int | None
    absent: int | None
    absent_key: tuple[tuple[int, int], ...]
    decide: tuple[Condition, ...]
    left_width: int


@dataclass(frozen=True, slots=True)
class Union:
    """Occurrences of either side; `right_columns` puts the right side's columns in the left's order."""

    left: int
    right: int
    right_columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Deadline:
    """`left UNLESS absent WITHIN duration`; key pairs columns of left and absent. Columns: the left's."""

    left: int
    absent: int
    key: tuple[tuple[int, int], ...]
    duration: int


@dataclass(frozen=True, slots=True)
class Select:
    """Occurrences for which the conditions hold; with `enumerate`, one for each answer, and what they bind as columns
    (in the order of `binds`). `within` bounds the occurrence's own length."""

    child: int
    conditions: tuple[Condition, ...]
    binds: tuple[str, ...]
    within: int | None


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A sliding window. Columns: the `by` columns, then a column a result."""

    child: int
    results: tuple[AggregateResult, ...]
    events: int | None
    duration: int | None
    by: tuple[int, ...]


Node = Scan | Tick | Join | Union | Deadline | Select | Aggregation


@dataclass(frozen=True, slots=True)
class Head:
    """How a rule makes its event of a node's occurrences: an expression over canonical columns for each argument."""

    event: str
    child: int
    arguments: tuple[Expression, ...]
    label: str | None
    span: Span = field(default=NOWHERE, compare=False)


def children(node: Node) -> tuple[int, ...]:
    """The nodes a node reads."""
    match node:
        case Join():
            return (node.left, node.right) if node.absent is None else (node.left, node.right, node.absent)
        case Union():
            return (node.left, node.right)
        case Deadline():
            return (node.left, node.absent)
        case Select() | Aggregation():
            return (node.child,)
        case Scan() | Tick():
            return ()
