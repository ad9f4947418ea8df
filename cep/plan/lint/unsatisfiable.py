"""What can never hold: conditions against each other, a range or a WITHIN, and instants that should overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cep.core.errors import Source, Span, Warning
from cep.core.literals import SECOND, say_duration, write_duration
from cep.core.schema import Attribute
from cep.language.syntax import ast
from cep.language.syntax.printer import print_statement
from cep.plan.algebra import (
    Atom,
    Either,
    Given,
    Join,
    Node,
    Pair,
    Pattern,
    Point,
    Repeat,
    Rules,
    Scan,
    Select,
    Unless,
    Window,
)
from cep.plan.binarise import Binarised
from cep.plan.names import excerpt
from cep.plan.patterns import patterns
from cep.rules.terms import Call, Comparison, Condition, Constant, Expression, Variable

FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
NUMBERS = ("int", "float")


@dataclass(frozen=True, slots=True)
class _Limit:
    """A bound of a value, itself excluded where it is `open`; why it is one, or the condition that makes it one, and
    what to do where that is wrong."""

    value: int | float
    open: bool
    why: str | Span
    hint: str


@dataclass(frozen=True, slots=True)
class _Range:
    """What is known of a value of a kind (number, time, duration)."""

    kind: str
    low: _Limit | None = None
    high: _Limit | None = None

    def clash(self) -> tuple[_Limit, _Limit] | None:
        """The two bounds between which nothing is."""
        if self.low is None or self.high is None:
            return None
        apart = self.low.value > self.high.value
        touching = self.low.value == self.high.value and (self.low.open or self.high.open)
        return (self.low, self.high) if apart or touching else None

    def meet(self, other: _Range) -> _Range:
        """What is in both; of bounds that are as tight the older stays."""
        if self.kind != other.kind:
            return self
        low, high = self.low, self.high
        if other.low is not None and (low is None or (other.low.value, other.low.open) > (low.value, low.open)):
            low = other.low
        if other.high is not None and (high is None or (-other.high.value, other.high.open) > (-high.value, high.open)):
            high = other.high
        return replace(self, low=low, high=high)


Ranges = Mapping[str, _Range]


def never(rules: Rules) -> list[Warning]:
    """A warning for each WHERE that can never hold, and each UNLESS that is longer than the WITHIN around it."""
    searcher = _Searcher(rules)
    for rule in rules.rules:
        for pattern in patterns(rule.body):
            if isinstance(pattern, Unless):
                searcher.unless(pattern)
        searcher.ranges(rule.body)
    return list(searcher.found.values())


class _Searcher:
    def __init__(self, rules: Rules) -> None:
        self.source = rules.source
        self.schemas = rules.schemas
        self.derived = {rule.event for rule in rules.rules}
        self.found: dict[Span, Warning] = {}

    def warn(self, message: str, span: Span, hint: str) -> None:
        self.found.setdefault(span, Warning(message, self.source, span, hint, "never"))

    def unless(self, unless: Unless) -> None:
        if unless.within is not None and unless.within < unless.duration:
            self.warn(
                f"this UNLESS never occurs: it takes {say_duration(unless.duration)}, "
                f"and the WITHIN around it allows {say_duration(unless.within)}",
                unless.span,
                "a longer WITHIN outside, or a shorter one for the UNLESS",
            )

    def ranges(self, pattern: Pattern) -> Ranges:
        """What is known of the variables that a pattern binds."""
        match pattern:
            case Atom():
                return self.declared(pattern)
            case Point():
                return {}
            case Pair():
                if pattern.absent is not None:
                    self.ranges(pattern.absent)
                return _both(self.ranges(pattern.left), self.ranges(pattern.right))
            case Either():
                for side in (pattern.left, pattern.right):
                    self.ranges(side)
                return {}
            case Unless():
                self.ranges(pattern.absent)
                return self.ranges(pattern.left)
            case Repeat():
                return self.ranges(pattern.links[0])
            case Window():
                groups = {variable.name for variable in pattern.by}
                return {name: known for name, known in self.ranges(pattern.pattern).items() if name in groups}
            case Given():
                return self.where(pattern)

    def declared(self, atom: Atom) -> Ranges:
        """The ranges of an event's attributes, where a record outside them is refused."""
        schema = self.schemas.get(atom.event)
        if schema is None or atom.event in self.derived:
            return {}
        known: dict[str, _Range] = {}
        for argument, attribute in zip(atom.arguments, schema.attributes, strict=False):
            if isinstance(argument, Variable) and (attribute.low is not None or attribute.high is not None):
                low, high = (_limit(bound, attribute, atom.event) for bound in (attribute.low, attribute.high))
                kind = "number" if attribute.type in NUMBERS else attribute.type
                known[argument.name] = _Range(kind, low, high)
        return known

    def where(self, given: Given) -> Ranges:
        known = dict(self.ranges(given.pattern))
        inside = dict(known) | {"duration()": self.duration(given.pattern)}
        for condition in given.conditions:
            read = _read(condition)
            if read is None:
                continue
            name, asked = read
            before = inside.get(name, _Range(asked.kind))
            inside[name] = before.meet(asked)
            clash = inside[name].clash()
            if clash is not None and before.clash() is None:
                other = clash[1] if clash[0] in (asked.low, asked.high) else clash[0]
                why = other.why
                if isinstance(why, Span):
                    why = f" beside `{excerpt(self.source, why) or 'another condition'}`"
                self.warn(f"this never holds{why}", condition.span, other.hint)
        return {name: known for name, known in inside.items() if name != "duration()"}

    def duration(self, pattern: Pattern) -> _Range:
        low, high = _Limit(0, False, ": a duration is never negative", "`duration()` is end less start"), None
        if pattern.within is not None:
            longest = write_duration(pattern.within)
            high = _Limit(
                pattern.within, False, f": WITHIN {longest} bounds it", "a longer WITHIN, or a shorter duration"
            )
        while isinstance(pattern, Given):
            pattern = pattern.pattern
        if isinstance(pattern, Unless):
            shortest = write_duration(pattern.duration)
            low = _Limit(pattern.duration, False, f": the UNLESS alone lasts {shortest}", f"more than {shortest}")
        elif isinstance(pattern, Atom) and pattern.event not in self.derived and self.schemas[pattern.event].point:
            why = f": each `{pattern.event}` is an instant, being declared with TIME"
            high = _Limit(0, False, why, "`duration()` is that of the pattern before this WHERE; of a SEQ, say")
        return _Range("duration", low, high)


def _limit(bound: int | float | None, attribute: Attribute, event: str) -> _Limit | None:
    if bound is None:
        return None
    alone = ast.Attribute("it", attribute.type, False, attribute.low, attribute.high)
    written = print_statement(ast.EventDeclaration(event, (alone,))).partition(" in ")[2].rstrip(").")
    why = f": `{attribute.name}` of `{event}` is declared in {written}, and what is outside is refused"
    return _Limit(bound, False, why, "another bound here, or a wider range in the declaration")


def _both(left: Ranges, right: Ranges) -> Ranges:
    return {**left, **{name: left[name].meet(known) if name in left else known for name, known in right.items()}}


def _read(condition: Condition) -> tuple[str, _Range] | None:
    """What a comparison with a constant asks of a variable, or of `duration()`."""
    if not isinstance(condition, Comparison) or condition.operator not in FLIPPED:
        return None
    operator, left, right = condition.operator, condition.left, condition.right
    if isinstance(left, Constant):
        operator, left, right = FLIPPED[operator], right, left
    name, value = _name(left), _value(right)
    if name is None or value is None:
        return None
    kind, number = value
    if name == "duration()" and kind == "number":
        kind, number = "duration", number * SECOND
    hint = "what holds for one or the other is two rules, or an OR of two patterns"
    limit = _Limit(number, operator in ("<", ">"), condition.span, hint)
    return name, _Range(
        kind, limit if operator in (">", ">=", "=") else None, limit if operator in ("<", "<=", "=") else None
    )


def _name(expression: Expression) -> str | None:
    match expression:
        case Variable(name) if name != "_":
            return name
        case Call("duration", ()):
            return "duration()"
        case _:
            return None


def _value(expression: Expression) -> tuple[str, int | float] | None:
    match expression:
        case Constant(bool()):
            return None
        case Constant(int() | float() as value, type):
            return ("number" if type in NUMBERS else type), value
        case Call("neg", (inner,)):
            found = _value(inner)
            return None if found is None else (found[0], -found[1])
        case _:
            return None


def overlaps(binarised: Binarised, points: Sequence[bool], source: Source) -> dict[int, Warning]:
    """A warning for each goal that asks of instants what only longer things do."""
    found: dict[int, Warning] = {}
    for number, node in enumerate(binarised.nodes):
        if not isinstance(node, Join):
            continue
        side = _instant(node, points)
        if side is None:
            continue
        name = event_of(binarised.nodes, side)
        who = (
            f"`{name}` is an instant" if name else f"the {'left' if side == node.left else 'right'} side is an instant"
        )
        if node.relation == "PAR":
            why, hint = "overlaps nothing", "`AND` with a WITHIN for what is near, `DURING` for what lies inside"
        else:
            why = "nothing lies inside it"
            hint = "the longer one stands on the right" if not points[node.left] else "`EQUALS` for the same instant"
        message = f"this {node.relation} never occurs: {who} and {why}"
        found[number] = Warning(message, source, binarised.spans[number], hint, "never")
    return found


def _instant(join: Join, points: Sequence[bool]) -> int | None:
    """The side that is an instant and must not be."""
    if join.relation == "PAR" and points[join.left]:
        return join.left
    return join.right if join.relation in ("PAR", "DURING", "STARTS", "FINISHES") and points[join.right] else None


def event_of(nodes: Sequence[Node], number: int) -> str | None:
    """The event that a node filters, or takes as it is."""
    node = nodes[number]
    while isinstance(node, Select):
        node = nodes[node.child]
    return node.event if isinstance(node, Scan) else None
