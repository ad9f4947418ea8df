"""Warn about conditions that can never be true, because they contradict each other, a declared range, or a WITHIN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cep.core.errors import Span, Warning
from cep.core.fluents import author_name
from cep.core.interval_relations import FOLLOWS
from cep.core.literals import SECOND, write_duration
from cep.core.schema import Attribute
from cep.plan.algebra import Rules
from cep.plan.names import excerpt
from cep.plan.pattern import Pattern
from cep.rules.expressions.typed import MIRRORED
from cep.rules.printing import range_of
from cep.rules.terms import Call, Comparison, Condition, Constant, Disjunction, Expression, Variable

NUMBERS = ("int", "float")


@dataclass(frozen=True, slots=True)
class _Limit:
    """A lower or upper bound of a value.

    `open`: True if the value must not equal the bound. `why`: the reason for the bound in words, or the position of the
    condition that sets it. `hint`: what the author should change.
    """

    value: int | float
    open: bool
    why: str | Span
    hint: str


@dataclass(frozen=True, slots=True)
class _Range:
    """The known range of a value. `kind`: "number", "time" or "duration"."""

    kind: str
    low: _Limit | None = None
    high: _Limit | None = None

    def clash(self) -> tuple[_Limit, _Limit] | None:
        """Return the two bounds if no value lies between them, otherwise None."""
        if self.low is None or self.high is None:
            return None
        apart = self.low.value > self.high.value
        touching = self.low.value == self.high.value and (self.low.open or self.high.open)
        return (self.low, self.high) if apart or touching else None

    def meet(self, other: _Range) -> _Range:
        """Return the intersection of two ranges, or this range if the two have different kinds."""
        if self.kind != other.kind:
            return self
        low, high = self.low, self.high
        if other.low is not None and (low is None or (other.low.value, other.low.open) > (low.value, low.open)):
            low = other.low
        if other.high is not None and (high is None or (-other.high.value, other.high.open) > (-high.value, high.open)):
            high = other.high
        return replace(self, low=low, high=high)


Ranges = Mapping[str, _Range]


def unsatisfiable(rules: Rules) -> list[Warning]:
    """Return a warning for each WHERE that can never be true. Also return one for each UNLESS whose duration is longer
    than that of the WITHIN around it."""
    searcher = Searcher(rules)
    for rule in rules.rules:
        rule.body.ranges(searcher)
    return list(searcher.found.values())


class Searcher:
    """A collector of warnings about ranges. Patterns call its methods to find the ranges of their variables (see
    `Pattern.ranges`)."""

    def __init__(self, rules: Rules) -> None:
        self.source = rules.source
        self.schemas = rules.schemas
        self.derived = {rule.event for rule in rules.rules}
        self.found: dict[Span, Warning] = {}

    def warn(self, message: str, span: Span, hint: str) -> None:
        self.found.setdefault(span, Warning(message, self.source, span, hint, "never"))

    def declared(self, event: str, arguments: Sequence[Variable | Constant]) -> Ranges:
        """Return the declared ranges of an input event's attributes, by the variables in `arguments`. They are certain,
        because records outside these ranges are rejected."""
        schema = self.schemas.get(event)
        if schema is None or event in self.derived:
            return {}
        known: dict[str, _Range] = {}
        for argument, attribute in zip(arguments, schema.attributes, strict=False):
            if isinstance(argument, Variable) and (attribute.low is not None or attribute.high is not None):
                low, high = (_limit(bound, attribute, event) for bound in (attribute.low, attribute.high))
                kind = "number" if attribute.type in NUMBERS else attribute.type
                known[argument.name] = _Range(kind, low, high)
        return known

    def where(self, pattern: Pattern, conditions: Sequence[Condition]) -> Ranges:
        known = dict(pattern.ranges(self))
        inside = dict(known) | {"duration()": self.duration(pattern)}
        self.narrow(inside, conditions)
        return {name: known for name, known in inside.items() if name != "duration()"}

    def narrow(self, inside: dict[str, _Range], conditions: Sequence[Condition]) -> None:
        """Narrow the known ranges in `inside` to the values that the conditions permit. Warn about conditions that
        contradict each other.

        Each alternative of a disjunction is checked separately, together with all other conditions.
        """
        for condition in conditions:
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
        for condition in conditions:
            if isinstance(condition, Disjunction):
                for alternative in condition.alternatives:
                    self.narrow(dict(inside), alternative)

    def duration(self, pattern: Pattern) -> _Range:
        low, high = _Limit(0, False, ": a duration is never negative", "`duration()` is end less start"), None
        if pattern.within is not None:
            longest = write_duration(pattern.within)
            high = _Limit(
                pattern.within, False, f": WITHIN {longest} bounds it", "use a longer WITHIN, or a shorter duration"
            )
        inner = pattern.decider()
        shortest, event = inner.shortest(), inner.properties().event
        if shortest is not None:
            least, why = shortest
            low = _Limit(least, False, f": {why}", f"more than {write_duration(least)}")
        elif event is not None and event not in self.derived and self.schemas[event].point:
            why = f": each `{event}` is an instant, being declared with TIME"
            high = _Limit(0, False, why, f"`duration()` is that of the pattern before this WHERE; of a {FOLLOWS}, say")
        return _Range("duration", low, high)


def _limit(bound: int | float | None, attribute: Attribute, event: str) -> _Limit | None:
    if bound is None:
        return None
    written = range_of(attribute.type, attribute.low, attribute.high)
    why = f": `{attribute.name}` of `{author_name(event)}` is declared in {written}, and other values are refused"
    return _Limit(bound, False, why, "use another bound here, or a wider range in the declaration")


def both(left: Ranges, right: Ranges) -> Ranges:
    return {**left, **{name: left[name].meet(known) if name in left else known for name, known in right.items()}}


def _read(condition: Condition) -> tuple[str, _Range] | None:
    """Return the range that a comparison with a constant requires of a variable or of `duration()`. Return None for any
    other condition."""
    if not isinstance(condition, Comparison) or condition.operator == "!=":
        return None
    operator, left, right = condition.operator, condition.left, condition.right
    if isinstance(left, Constant):
        operator, left, right = MIRRORED[operator], right, left
    name, value = _name(left), _value(right)
    if name is None or value is None:
        return None
    kind, number = value
    if name == "duration()" and kind == "number":
        kind, number = "duration", number * SECOND
    hint = "if either may hold, use `or` in parentheses: `(X < 1 or X > 3)`"
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
            inner_value = _value(inner)
            return None if inner_value is None else (inner_value[0], -inner_value[1])
        case _:
            return None
