"""The syntax tree: what was written, with spans; no meaning yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cep.core.errors import NOWHERE, Source, Span
from cep.core.schema import RecordFormat, TimeFormat, When
from cep.operators import temporal
from cep.plan.formula import Formula
from cep.rules.static.typed_facts import FactDeclaration
from cep.rules.terms import AggregateResult, Condition, Constant, Expression, PolicyChoice, StaticRule, Variable
from cep.rules.window_forms import Over

# Spans take no part in equality: two patterns written at different places may be the same pattern.


@dataclass(frozen=True, slots=True)
class EventPattern:
    """`sensor(ID, _, W)` (`names` is None) or `sensor(id: ID, wind: W)` (`names` beside `arguments`).

    Of a fluent: `value`, the X of `location(P) = X`; `edge`: BEGIN or END of `BEGIN OF moving(V)`.
    """

    name: str
    arguments: tuple[Expression, ...]
    names: tuple[str, ...] | None = None
    span: Span = field(default=NOWHERE, compare=False)
    value: Expression | None = None
    edge: str | None = None


@dataclass(frozen=True, slots=True)
class TimePoint:
    """A number or a time as a pattern: the point [ticks, ticks], in microseconds."""

    ticks: int
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """`left OPERATOR right`, OPERATOR a relation of intervals, OR, or CNOT (`left CNOT right`: left is to be a SEQ).

    `gap`: of `left SEQ[g, h] right` the least and the greatest time between the two, in microseconds.
    """

    operator: str
    left: PatternTree
    right: PatternTree
    span: Span = field(default=NOWHERE, compare=False)
    gap: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Not:
    """`NOT(absent).[left, right]`."""

    absent: PatternTree
    left: PatternTree
    right: PatternTree
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class UnlessTree:
    """`left UNLESS absent WITHIN duration`; duration in microseconds."""

    left: PatternTree
    absent: PatternTree
    duration: int
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Times:
    """`pattern TIMES count`, count >= 1."""

    pattern: PatternTree
    count: int
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Within:
    """`pattern WITHIN duration`, also `(pattern).3`; microseconds."""

    pattern: PatternTree
    duration: int
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Where:
    """`pattern WHERE conditions`."""

    pattern: PatternTree
    conditions: tuple[Condition, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Policy:
    """`pattern POLICY choice`."""

    pattern: PatternTree
    choice: PolicyChoice
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`pattern AGGREGATE results OVER LAST n EVENTS|duration [BY variables]`.

    `events` is the number of occurrences, or None; `duration` the length in microseconds, or None. `over`: EACH,
    SESSION or EVERY.
    """

    pattern: PatternTree
    results: tuple[AggregateResult, ...]
    events: int | None
    duration: int | None
    by: tuple[Variable, ...]
    span: Span = field(default=NOWHERE, compare=False)
    over: Over | None = None


PatternTree = EventPattern | TimePoint | Binary | Not | UnlessTree | Times | Within | Where | Policy | Aggregate


@dataclass(frozen=True, slots=True)
class AttributeTree:
    """`gust: float? in 0..250 FROM wind_gust AS weather:gust`: name, type, `optional`, range (inclusive), source
    column, property in RDF. `quoted`: numbers may stand in quotes.

    `low` and `high` are in the attribute's own unit (microseconds for times and durations), None: unbounded.
    """

    name: str
    type: str
    optional: bool = False
    low: int | float | None = None
    high: int | float | None = None
    source: str | None = None
    iri: str | None = None
    span: Span = field(default=NOWHERE, compare=False)
    format: TimeFormat | None = None
    missing: tuple[int | float | str, ...] | None = None
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class EventDeclaration:
    """`event name(attributes) [AS class] [TIME column | START column END column] [how records are written].`

    `time` names the column that holds the instant: such an event is a point. `start`, `end` name two columns. `iri`:
    the class in RDF. `further`, `format`, `missing`, `records`, `key`, `when` and `distinct` as in
    `cep.core.schema.Schema`.
    """

    name: str
    attributes: tuple[AttributeTree, ...]
    time: str | None = None
    start: str | None = None
    end: str | None = None
    iri: str | None = None
    span: Span = field(default=NOWHERE, compare=False)
    further: tuple[str, ...] = ()
    format: TimeFormat | None = None
    missing: tuple[int | float | str, ...] | None = None
    records: RecordFormat | None = None
    key: tuple[str, ...] | None = None
    when: When | None = None
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class FluentDeclaration:
    """`fluent name(attributes) [= value: type].` `value` is None where it holds or does not.

    `records`: how it comes in, `START s END e` and what may follow, as the declaration of an event with the value as
    its last attribute; None: it is not said. `final`: a record without an end holds for good, no other closes it."""

    name: str
    attributes: tuple[AttributeTree, ...]
    value: AttributeTree | None = None
    records: EventDeclaration | None = None
    span: Span = field(default=NOWHERE, compare=False)
    final: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class FluentRule:
    """`initiate name(arguments) [= value] <- body.`, `terminate ..`, `initially name(arguments) [WHERE conditions].`

    `verb` is the first word; `body` is None of `initially` alone. `value` is `_` where every value is terminated.
    """

    verb: str
    name: str
    arguments: tuple[Expression, ...]
    value: Expression | None
    body: PatternTree | None
    conditions: tuple[Condition, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)
    head_span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class DeadlineStatement:
    """`name(arguments) [= value] ENDS AFTER duration [RENEWED].` or `.. BECOMES next AFTER ..`; microseconds."""

    name: str
    arguments: tuple[Expression, ...]
    value: Expression | None
    becomes: Expression | None
    duration: int
    renewed: bool
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Box:
    """`ALWAYS[a, b]` or `HISTORICALLY[a, b]` before the head of a rule."""

    operator: str
    within: temporal.MetricInterval


@dataclass(frozen=True, slots=True)
class WhileRule:
    """`name(arguments) [= value] WHILE formula.`; `boxes`: what stands before the head."""

    name: str
    arguments: tuple[Expression, ...]
    value: Expression | None
    boxes: tuple[Box, ...]
    formula: Formula
    span: Span = field(default=NOWHERE, compare=False)
    head_span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class PolicyStatement:
    """`policy recent.`: the default for the rules that follow; None: that of the whole program again."""

    choice: PolicyChoice | None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class EventRule:
    """`label: name(arguments) <- body.` Arguments are variables, constants, arithmetic; `names` beside them where the
    head names its attributes."""

    name: str
    arguments: tuple[Expression, ...]
    body: PatternTree
    label: str | None = None
    span: Span = field(default=NOWHERE, compare=False)
    head_span: Span = field(default=NOWHERE, compare=False)
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class AlertStatement:
    """`ALERT name ON event WHERE conditions SEVERITY "Severe" TITLE "Blizzard at {S}" FOR 3 h KEYED BY S AT Lat, Long.`

    `title`, `text`, `instruction` and `runbook` are as written, with `{S}` for values; `duration` (None: not written),
    `after`, `keep` and `repeat` in microseconds; `escalations`: severities with the time since it fired; `at`: latitude
    and longitude in degrees, or nothing; `radius` in metres; `area` a text in WKT. `inhibitor`: an alert or a fluent
    with its arguments; `clauses`: the words that begin them.
    """

    name: str
    event: EventPattern
    conditions: tuple[Condition, ...]
    severity: str | None
    urgency: str | None
    certainty: str | None
    category: str | None
    title: Constant
    text: Constant | None
    instruction: Constant | None
    duration: int | None
    keys: tuple[Variable, ...] = ()
    at: tuple[Expression, ...] = ()
    radius: Expression | None = None
    area: Expression | None = None
    after: int = 0
    keep: int = 0
    escalations: tuple[tuple[str, int, Span], ...] = ()
    runbook: Constant | None = None
    labels: tuple[tuple[str, Constant | Variable], ...] = ()
    inhibitor: EventPattern | None = None
    repeat: int = 0
    clauses: Mapping[str, Span] = field(default_factory=dict, compare=False)
    span: Span = field(default=NOWHERE, compare=False)
    name_span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Prefix:
    """`PREFIX name: <iri>`."""

    name: str
    iri: str
    span: Span = field(default=NOWHERE, compare=False)


FluentStatement = FluentDeclaration | FluentRule | DeadlineStatement | WhileRule
Statement = (
    Prefix
    | EventDeclaration
    | PolicyStatement
    | EventRule
    | StaticRule
    | AlertStatement
    | FactDeclaration
    | FluentStatement
)


@dataclass(frozen=True, slots=True)
class SyntaxTree:
    """All statements in the order written, and the text they came from. Of a dialect:
    `impossible`, fluents that must not hold, each with the rule that says so; `helpers`, what only helps to say what a
    program means; `answered`, fluents that answers of LARS say, which are known at the end of their tick."""

    statements: tuple[Statement, ...]
    source: Source = field(default=Source(""), compare=False)
    impossible: tuple[tuple[str, Span], ...] = field(default=(), compare=False)
    helpers: frozenset[str] = field(default=frozenset(), compare=False)
    answered: frozenset[str] = field(default=frozenset(), compare=False)

    def as_facts(self) -> SyntaxTree:
        """Return the same where records are facts, as in dialects: equal ones of an event are one."""
        return replace(self, statements=tuple(map(_as_fact, self.statements)))


def _as_fact(statement: Statement) -> Statement:
    if isinstance(statement, EventDeclaration) and statement.key is None:
        return replace(statement, distinct=True)
    return statement
