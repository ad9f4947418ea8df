"""The syntax tree: statements as the program writes them, with their spans, before names are resolved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from cep.core.errors import NOWHERE, Source, Span
from cep.core.schema import RecordFormat, TimeFormat, When
from cep.operators import temporal
from cep.operators.disjunction import Either
from cep.operators.pair import Pair
from cep.operators.ticks import Point
from cep.plan.formula import Formula
from cep.plan.pattern import Pattern
from cep.rules import pattern_text
from cep.rules.pattern_text import Text
from cep.rules.printing import print_argument
from cep.rules.static.typed_facts import FactDeclaration
from cep.rules.terms import (
    AggregateResult,
    Call,
    Comparison,
    Condition,
    Constant,
    Disjunction,
    Expression,
    PolicyChoice,
    Predicate,
    StaticRule,
    Variable,
    condition_variables,
    expression_variables,
)

# Equality ignores spans, so patterns at different places of a text can be equal.


class PatternTree(ABC):
    """The base class of patterns: frozen dataclasses. Fields that are patterns are the parts of the pattern."""

    __slots__ = ()
    span: Span

    def parts(self) -> list[PatternTree]:
        """Return the patterns directly inside this one, in the order of the fields."""
        values = (getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]
        return [value for value in values if isinstance(value, PatternTree)]

    def event_patterns(self) -> list[EventPattern]:
        """Return all events in the pattern in order. Negated events are included."""
        return [event for part in self.parts() for event in part.event_patterns()]

    def variables(self) -> list[str]:
        """Return the names of all variables in the pattern. A name can occur several times."""
        return [name for field in fields(self) for name in _variables(getattr(self, field.name))]  # type: ignore[arg-type]

    @abstractmethod
    def text(self) -> Text:
        """Return the text of the pattern."""

    def lowered(self, parts: Sequence[Pattern], policy: PolicyChoice, within: int | None) -> Pattern:
        """Return the lowered pattern. The dialect lowers events, clauses and abbreviations itself.

        `parts`: the lowered parts. `policy`, `within`: the POLICY and the WITHIN that apply to the operator.
        """
        raise AssertionError("the dialect lowers it")


def _variables(value: object) -> list[str]:
    """Return the names of the variables in a field of a pattern."""
    match value:
        case PatternTree():
            return value.variables()
        case Variable() | Call():
            return expression_variables(value)
        case Comparison() | Predicate() | Disjunction():
            return condition_variables(value)
        case AggregateResult(variable, argument=argument):
            return [variable, *_variables(argument)]
        case PolicyChoice(by=str(by)):
            return [by]
        case tuple():
            return [name for member in value for name in _variables(member)]
        case _:
            return []


@dataclass(frozen=True, slots=True)
class EventPattern(PatternTree):
    """An event in a pattern: `sensor(ID, _, W)` (`names` is None) or `sensor(id: ID, wind: W)`.

    `value`: for a fluent, the X of `location(P) = X`. `edge`: for a fluent, the BEGIN or END of `BEGIN OF moving(V)`.
    """

    name: str
    arguments: tuple[Expression, ...]
    names: tuple[str, ...] | None = None
    span: Span = field(default=NOWHERE, compare=False)
    value: Expression | None = None
    edge: str | None = None

    def event_patterns(self) -> list[EventPattern]:
        return [self]

    def text(self) -> Text:
        text = pattern_text.event(self.name, self.arguments, self.names).text
        text += "" if self.value is None else f" = {print_argument(self.value)}"
        return Text(text if self.edge is None else f"{self.edge} OF {text}")


@dataclass(frozen=True, slots=True)
class TimePoint(PatternTree):
    """A number or a time as a pattern. `ticks`: the instant in microseconds."""

    ticks: int
    span: Span = field(default=NOWHERE, compare=False)

    def text(self) -> Text:
        return pattern_text.time_point(self.ticks)

    def lowered(self, parts: Sequence[Pattern], policy: PolicyChoice, within: int | None) -> Pattern:
        return Point(self.ticks, within, self.span)


@dataclass(frozen=True, slots=True)
class Binary(PatternTree):
    """`left OPERATOR right`. The operator is an interval relation, OR or CNOT. The left side of CNOT must be a SEQ.

    `gap`: for `left SEQ[g, h] right`, the least and the greatest time between the sides, in microseconds.
    """

    operator: str
    left: PatternTree
    right: PatternTree
    span: Span = field(default=NOWHERE, compare=False)
    gap: tuple[int, int] | None = None

    def text(self) -> Text:
        word = self.operator if self.gap is None else self.operator + pattern_text.gap(*self.gap)
        return pattern_text.joined(self.left.text(), word, self.right.text())

    def lowered(self, parts: Sequence[Pattern], policy: PolicyChoice, within: int | None) -> Pattern:
        left, right = parts
        if self.operator == "OR":
            return Either(left, right, within, self.span)
        return Pair(self.operator, left, right, policy, within, None, self.span, self.gap)


@dataclass(frozen=True, slots=True)
class Within(PatternTree):
    """`pattern WITHIN duration` or `(pattern).3`. `duration` is in microseconds."""

    pattern: PatternTree
    duration: int
    span: Span = field(default=NOWHERE, compare=False)

    def text(self) -> Text:
        return pattern_text.within(self.pattern.text(), self.duration)


@dataclass(frozen=True, slots=True)
class Where(PatternTree):
    """`pattern WHERE conditions`."""

    pattern: PatternTree
    conditions: tuple[Condition, ...]
    span: Span = field(default=NOWHERE, compare=False)

    def text(self) -> Text:
        return pattern_text.where(self.pattern.text(), self.conditions)


@dataclass(frozen=True, slots=True)
class Policy(PatternTree):
    """`pattern POLICY choice`."""

    pattern: PatternTree
    choice: PolicyChoice
    span: Span = field(default=NOWHERE, compare=False)

    def text(self) -> Text:
        return pattern_text.policy(self.pattern.text(), self.choice)


@dataclass(frozen=True, slots=True)
class AttributeTree:
    """An attribute: `gust: float? in 0..250 FROM wind_gust AS weather:gust`.

    - `source`: the input column.
    - `iri`: the RDF property.
    - `quoted`: True if numbers may be in quotes.
    - `low`, `high`: the inclusive bounds, in microseconds for times and durations. None means unbounded.
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

    - `time`: the column of the instant.
    - `start`, `end`: the two columns of an interval.
    - `iri`: the class in RDF.

    `cep.core.schema.Schema` describes the other fields.
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
    """`fluent name(attributes) [= value: type].` `value` is None for a fluent that only holds or does not hold.

    - `records`: the clauses from `START s END e` on, in the form of an event declaration. The last attribute of this
      event is the value. `records` is None if the declaration has no such clauses.
    - `final`: True if an interval without an end lasts for ever, because no later record closes it.
    """

    name: str
    attributes: tuple[AttributeTree, ...]
    value: AttributeTree | None = None
    records: EventDeclaration | None = None
    span: Span = field(default=NOWHERE, compare=False)
    final: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class FluentRule:
    """`initiate name(arguments) [= value] <- body.`, `terminate ..`, `initially name(arguments) [WHERE conditions].`

    `verb`: the first word. `body`: the pattern, or None for `initially`. A rule that terminates the value `_`
    terminates any value.
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
    """`name(arguments) [= value] ENDS AFTER duration [RENEWED].` or `.. BECOMES next AFTER ..`

    `duration` is in microseconds.
    """

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
    """`name(arguments) [= value] WHILE formula.` `boxes`: the temporal operators before the head."""

    name: str
    arguments: tuple[Expression, ...]
    value: Expression | None
    boxes: tuple[Box, ...]
    formula: Formula
    span: Span = field(default=NOWHERE, compare=False)
    head_span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class PolicyStatement:
    """`policy recent.`: the default policy of the rules that follow.

    `choice`: the policy, or None to return to the default of the whole program.
    """

    choice: PolicyChoice | None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class EventRule:
    """`label: name(arguments) <- body.` `names`: the attribute names in the head, or None if its arguments are
    positional."""

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

    - `title`, `text`, `instruction`, `runbook`: texts in which `{S}` stands for the value of S.
    - `duration` (FOR), `after`, `keep`, `repeat`: durations in microseconds.
    - `escalations`: for each escalation, its severity, its time in microseconds since the alert fired, and its
      span.
    - `position`: the latitude and longitude in degrees, or empty.
    - `radius`: the radius in metres.
    - `area`: a text in WKT.
    - `inhibitor`: an alert, or a fluent and its arguments.
    - `clauses`: for each clause, the span of its first word.
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
    position: tuple[Expression, ...] = ()
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
    """All statements in the order of the program, and the program's text.

    The other fields are for dialects:

    - `impossible`: fluents that must never hold, each with the span of the rule that forbids it.
    - `helpers`: names of auxiliary events and fluents that are not part of the output.
    - `answered`: fluents that LARS derives. Their value in a tick is known at the end of the tick.
    """

    statements: tuple[Statement, ...]
    source: Source = field(default=Source(""), compare=False)
    impossible: tuple[tuple[str, Span], ...] = field(default=(), compare=False)
    helpers: frozenset[str] = field(default=frozenset(), compare=False)
    answered: frozenset[str] = field(default=frozenset(), compare=False)

    def as_facts(self) -> SyntaxTree:
        """Return a copy of the tree in which every event without a KEY is DISTINCT. In dialects, equal records are one
        occurrence."""
        return replace(self, statements=tuple(map(_as_fact, self.statements)))


def _as_fact(statement: Statement) -> Statement:
    if isinstance(statement, EventDeclaration) and statement.key is None:
        return replace(statement, distinct=True)
    return statement
