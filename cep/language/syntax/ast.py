"""The syntax tree: what was written, with spans; no meaning yet."""

from __future__ import annotations

from dataclasses import dataclass, field

from cep.core.errors import NOWHERE, Source, Span
from cep.events import Iri

# Spans take no part in equality: two patterns written at different places may be the same pattern.


@dataclass(frozen=True, slots=True)
class Variable:
    """`Wind`, or `_` (anonymous, each one its own)."""

    name: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant. `type` is int float string bool iri time duration.

    `value` is int, float, str, bool or Iri; for time and duration whole microseconds. A lower-case name
    is the string of that name; a prefixed name is the Iri it stands for.
    """

    value: int | float | str | bool | Iri
    type: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function of values: `+ - * / // mod ** neg`, or by name: `abs`, `lower`, `start`, `duration`, ..."""

    function: str
    arguments: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False)


Expression = Variable | Constant | Call


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left operator right`; operator is one of = != < <= > >= (`is` and `==` are read as `=`)."""

    operator: str
    left: Expression
    right: Expression
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Graph:
    """`{ ?Station wgs84:lat ?Lat }`: a SPARQL group graph pattern over the background knowledge.

    `text` is what was written, with its braces. `variables`: those in it that start with an upper-case letter, which
    are the rule's, in the order in which they first appear. `prefixes`: those of the program so far, (name, IRI).
    """

    text: str
    variables: tuple[str, ...]
    prefixes: tuple[tuple[str, str], ...] = ()
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Predicate:
    """`linked(X, Y)`, `not linked(X, Y)`; also built-in tests: `contains(X, "snow")`, `matches(X, "^K")`.

    A graph pattern is a predicate of the variables in its braces: `graph` is the pattern, `name` its text.
    """

    name: str
    arguments: tuple[Expression, ...]
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False)
    graph: Graph | None = None


Condition = Comparison | Predicate


@dataclass(frozen=True, slots=True)
class EventPattern:
    """`sensor(ID, _, W)` (`names` is None) or `sensor(id: ID, wind: W)` (`names` beside `arguments`)."""

    name: str
    arguments: tuple[Expression, ...]
    names: tuple[str, ...] | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class TimePoint:
    """A number or a time as a pattern: the point [ticks, ticks], in microseconds."""

    ticks: int
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """`left OPERATOR right`, OPERATOR one of SEQ AND PAR OR EQUALS MEETS DURING STARTS FINISHES, or CNOT
    (`left CNOT right`: left is to be a SEQ)."""

    operator: str
    left: Pattern
    right: Pattern
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """`NOT(absent).[left, right]`."""

    absent: Pattern
    left: Pattern
    right: Pattern
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Unless:
    """`left UNLESS absent WITHIN duration`; duration in microseconds."""

    left: Pattern
    absent: Pattern
    duration: int
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Times:
    """`pattern TIMES count`, count >= 1."""

    pattern: Pattern
    count: int
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Within:
    """`pattern WITHIN duration`, also `(pattern).3`; microseconds."""

    pattern: Pattern
    duration: int
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Where:
    """`pattern WHERE conditions`."""

    pattern: Pattern
    conditions: tuple[Condition, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """`unrestricted`, `recent`, `chronological`, with the tie rule: `longest`, `shortest` or `by` a variable.

    `tie` is None where nothing was written (recent: longest, chronological: shortest).
    """

    name: str
    tie: str | None = None
    by: str | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Policy:
    """`pattern POLICY choice`."""

    pattern: Pattern
    choice: PolicyChoice
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class AggregateResult:
    """`A = avg(W)`: variable, function (count sum avg min max stddev first last), argument (None: `count()`);
    `distinct` for `count(distinct X)`. The argument may be any expression over the pattern's variables."""

    variable: str
    function: str
    argument: Expression | None
    distinct: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`pattern AGGREGATE results OVER LAST n EVENTS|duration [BY variables]`.

    `events` is the number of occurrences, or None; `duration` the length in microseconds, or None.
    """

    pattern: Pattern
    results: tuple[AggregateResult, ...]
    events: int | None
    duration: int | None
    by: tuple[Variable, ...]
    span: Span = field(default=NOWHERE, compare=False)


Pattern = EventPattern | TimePoint | Binary | Not | Unless | Times | Within | Where | Policy | Aggregate


@dataclass(frozen=True, slots=True)
class Attribute:
    """`gust: float? in 0..250 FROM wind_gust AS weather:gust`: name, type, `optional`, range (inclusive), source
    column, property in RDF.

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


@dataclass(frozen=True, slots=True)
class EventDeclaration:
    """`event name(attributes) [AS class] [TIME column | START column END column].`

    `time` names the column that holds the instant: such an event is a point. `start`, `end` name two columns. `iri`:
    the class in RDF.
    """

    name: str
    attributes: tuple[Attribute, ...]
    time: str | None = None
    start: str | None = None
    end: str | None = None
    iri: str | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class PolicyStatement:
    """`policy recent.`: the default for the rules that follow."""

    choice: PolicyChoice
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class EventRule:
    """`label: name(arguments) <- body.` Arguments are variables, constants, arithmetic."""

    name: str
    arguments: tuple[Expression, ...]
    body: Pattern
    label: str | None = None
    span: Span = field(default=NOWHERE, compare=False)
    head_span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class StaticRule:
    """`name(arguments) :- conditions.`, or a fact `name(arguments).` (no conditions)."""

    name: str
    arguments: tuple[Expression, ...]
    conditions: tuple[Condition, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class AlertStatement:
    """`ALERT name ON event WHERE conditions SEVERITY "Severe" TITLE "Blizzard at {S}" FOR 3 h KEYED BY S AT Lat, Long.`

    `title`, `text` and `instruction` are as written, with `{S}` for values; `duration` in microseconds; `at`: latitude
    and longitude in degrees, or nothing; `radius` in metres; `area` a text in WKT.
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
    duration: int
    keys: tuple[Variable, ...] = ()
    at: tuple[Expression, ...] = ()
    radius: Expression | None = None
    area: Expression | None = None
    span: Span = field(default=NOWHERE, compare=False)
    name_span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Prefix:
    """`PREFIX name: <iri>`."""

    name: str
    iri: str
    span: Span = field(default=NOWHERE, compare=False)


Statement = Prefix | EventDeclaration | PolicyStatement | EventRule | StaticRule | AlertStatement


@dataclass(frozen=True, slots=True)
class SyntaxTree:
    """All statements in the order written, and the text they came from."""

    statements: tuple[Statement, ...]
    source: Source = field(default=Source(""), compare=False)
