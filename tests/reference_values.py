"""The reference interpreter's values and expressions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from cep.events import Iri
from tests.reference_expressions import seconds
from tests.reference_places import distance, value_in
from tests.reference_tree import SECOND, Call, Comparison, Const, Or, Ticks, Var

Env = dict[str, Any]
Span = tuple[int, int]
RANKS = {"missing": 0, "bool": 1, "number": 2, "string": 3, "iri": 4, "time": 5, "duration": 6}


# Values.
def kind(value: Any) -> str:
    if value is None:
        return "missing"
    if isinstance(value, Ticks):
        return value.kind
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return "iri" if isinstance(value, Iri) else "string"


def key(value: Any) -> tuple[int, Any]:
    """Equal keys are equal values; keys of any values can be sorted."""
    if value is None:
        return (0, 0)
    if isinstance(value, Ticks):
        return (RANKS[value.kind], value.n)
    return (RANKS[kind(value)], str(value) if isinstance(value, str) else value)


def equal(left: Any, right: Any) -> bool:
    """A join: by value, and a missing value equals nothing."""
    return left is not None and right is not None and key(left) == key(right)


def compare(operator: str, left: Any, right: Any) -> bool:
    if left is None or right is None:
        return False
    left, right = as_ticks(left, right), as_ticks(right, left)
    if operator in ("=", "!="):
        return equal(left, right) == (operator == "=")
    if kind(left) != kind(right) or kind(left) in ("bool", "iri"):
        return False
    a, b = key(left)[1], key(right)[1]
    return bool({"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator])


def as_ticks(value: Any, beside: Any) -> Any:
    """A number where a time or a duration is due is seconds."""
    if isinstance(beside, Ticks) and kind(value) == "number":
        return Ticks(beside.kind, seconds(value))
    return value


# Expressions.
def variables(thing: Any) -> list[str]:
    """The named variables of an expression or a condition, each once, in the order of the text."""
    if isinstance(thing, Var):
        return [] if thing.name.startswith("_#") else [thing.name]
    if isinstance(thing, Comparison):
        parts: tuple[Any, ...] = (thing.left, thing.right)
    elif isinstance(thing, tuple):
        parts = thing
    elif isinstance(thing, Or):
        return [name for name in variables(thing.alternatives) if name not in thing.local]
    else:
        parts = getattr(thing, "arguments", ())
    return list(dict.fromkeys(name for part in parts for name in variables(part)))


def uses_interval(thing: Any) -> bool:
    """Does a condition speak of start(), end() or duration()?"""
    if isinstance(thing, Call) and thing.function in ("start", "end", "duration"):
        return True
    if isinstance(thing, Or):
        return any(uses_interval(part) for alternative in thing.alternatives for part in alternative)
    if isinstance(thing, tuple):  # the condition of an `if`
        return any(map(uses_interval, thing))
    parts = (thing.left, thing.right) if isinstance(thing, Comparison) else getattr(thing, "arguments", ())
    return any(uses_interval(part) for part in parts)


def evaluate(expression: Any, env: Env, span: Span) -> Any:
    """The value of an expression whose variables are bound; None when it is missing or undefined."""
    if isinstance(expression, Var):
        return env[expression.name]
    if isinstance(expression, Const):
        return expression.value
    if expression.function == "start":
        return Ticks("time", span[0])
    if expression.function == "end":
        return Ticks("time", span[1])
    if expression.function == "duration":
        return Ticks("duration", span[1] - span[0])
    if expression.function == "if":
        condition, yes, no = expression.arguments
        return evaluate(yes if all(holds(each, env, span) for each in condition) else no, env, span)
    arguments = [evaluate(argument, env, span) for argument in expression.arguments]
    if expression.function == "coalesce":
        return next((argument for argument in arguments if argument is not None), None)
    if any(argument is None for argument in arguments):
        return None
    if expression.function == "**" and not constant_power(expression, arguments):
        arguments = [float(a) if kind(a) == "number" else a for a in arguments]
    try:
        return finite(FUNCTIONS[expression.function](*arguments))
    except (ValueError, ZeroDivisionError, OverflowError, TypeError):
        return None


def holds(condition: Any, env: Env, span: Span) -> bool:
    """A condition that asks nothing and binds nothing."""
    if isinstance(condition, Or):
        return any(all(holds(each, env, span) for each in alternative) for alternative in condition.alternatives)
    if isinstance(condition, Comparison):
        sides = (evaluate(side, env, span) for side in (condition.left, condition.right))
        return compare(condition.operator, *sides)
    values = [evaluate(argument, env, span) for argument in condition.arguments]
    strings = all(kind(value) == "string" for value in values)
    return strings and TESTS[condition.name](*values) != condition.negated


def single(conditions: Any) -> Iterator[Any]:
    """Comparisons and predicates, those of alternatives too."""
    for condition in conditions:
        if isinstance(condition, Or):
            yield from (each for alternative in condition.alternatives for each in single(alternative))
        else:
            yield condition


def constant_power(expression: Call, arguments: list[Any]) -> bool:
    """An integer to a non-negative constant integer stays an integer."""
    exponent = expression.arguments[1]
    whole = isinstance(exponent, Const) and type(exponent.value) is int and exponent.value >= 0
    return whole and type(arguments[0]) is int


def finite(value: Any) -> Any:
    if type(value) is int:
        return value if -(2**63) < value < 2**63 else None
    if isinstance(value, Ticks):
        return value if -(2**63) < value.n < 2**63 else None
    if isinstance(value, complex) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value


def number(value: Any) -> Any:
    if kind(value) != "number":
        raise TypeError("not a number")
    return value


def text(value: Any) -> str:
    if kind(value) != "string":
        raise TypeError("not a string")
    return str(value)


def add(a: Any, b: Any) -> Any:
    if not isinstance(a, Ticks) and not isinstance(b, Ticks):
        return number(a) + number(b)
    a, b = (Ticks("duration", seconds(number(x))) if not isinstance(x, Ticks) else x for x in (a, b))
    if a.kind == b.kind == "time":
        raise TypeError("time + time")
    return Ticks("time" if "time" in (a.kind, b.kind) else "duration", a.n + b.n)


def subtract(a: Any, b: Any) -> Any:
    if isinstance(a, Ticks) and isinstance(b, Ticks) and a.kind == b.kind == "time":
        return Ticks("duration", a.n - b.n)
    if isinstance(b, Ticks) and b.kind == "time":
        raise TypeError("duration - time")
    return add(a, negate(b))


def negate(a: Any) -> Any:
    if isinstance(a, Ticks):
        if a.kind == "time":
            raise TypeError("- time")
        return Ticks("duration", -a.n)
    return -number(a)


def multiply(a: Any, b: Any) -> Any:
    if isinstance(b, Ticks):
        a, b = b, a
    if isinstance(a, Ticks):
        return Ticks(span_of(a), round(a.n * Fraction(number(b))))
    return number(a) * number(b)


def divide(a: Any, b: Any) -> Any:
    if isinstance(a, Ticks) and isinstance(b, Ticks):
        return Fraction(a.n, b.n).__float__() if span_of(a) == span_of(b) else None
    if isinstance(a, Ticks):
        return Ticks(span_of(a), round(a.n / Fraction(number(b))))
    return number(a) / number(b)


def floor_divide(a: Any, b: Any) -> Any:
    if isinstance(a, Ticks) and isinstance(b, Ticks):
        return a.n // b.n if span_of(a) == span_of(b) else None
    return number(a) // number(b)


def modulo(a: Any, b: Any) -> Any:
    if isinstance(a, Ticks):
        b = Ticks("duration", seconds(number(b))) if not isinstance(b, Ticks) else b
        return Ticks(a.kind, a.n % b.n) if span_of(b) else None
    return number(a) % number(b)


def span_of(value: Ticks) -> str:
    if value.kind != "duration":
        raise TypeError("not a duration")
    return value.kind


def in_seconds(a: Any) -> Any:
    return Fraction(a.n, SECOND) if isinstance(a, Ticks) else number(a)


def power(a: Any, b: Any) -> Any:
    return number(a) ** number(b)


def extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    def run(*values: Any) -> Any:
        if len({kind(value) for value in values}) > 1 or kind(values[0]) not in ("number", "time", "duration"):
            raise TypeError("not of one kind")
        return choose(values, key=key)

    return run


def absolute(a: Any) -> Any:
    return Ticks(span_of(a), abs(a.n)) if isinstance(a, Ticks) else abs(number(a))


def as_text(a: Any) -> str:
    return str(a).lower() if kind(a) == "bool" else str(a)


def text_or_iri(a: Any) -> str:
    if kind(a) not in ("string", "iri"):
        raise TypeError("no text")
    return str(a)


def clock(at: Any, zone: str) -> datetime:
    """What a clock in a zone shows."""
    if kind(at) != "time":
        raise TypeError("no time")
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at.n)).astimezone(ZoneInfo(zone))


def of_clock(part: Callable[[datetime], Any]) -> Callable[..., Any]:
    return lambda at, zone="UTC": part(clock(at, zone))


def midnight(moment: datetime) -> timedelta:
    return moment.replace(tzinfo=None) - datetime(moment.year, moment.month, moment.day)


def begun(unit: str, at: Any, zone: str = "UTC") -> Any:
    """When a unit of the calendar began."""
    local = clock(at, zone)
    if unit in ("second", "minute", "hour"):
        size = {"second": 1, "minute": 60, "hour": 3600}[unit]
        past = midnight(local) % timedelta(seconds=size)
        begin = local.replace(tzinfo=None) - past
    else:
        day = local.replace(tzinfo=None) - midnight(local)
        quarter = day.month - (day.month - 1) % 3
        begin = {
            "day": day,
            "week": day - timedelta(days=day.weekday()),
            "month": day.replace(day=1),
            "quarter": day.replace(day=1, month=quarter),
            "year": day.replace(day=1, month=1),
        }[unit]
    first, second = (begin.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC) for fold in (0, 1))
    again = unit in ("second", "minute", "hour") and first < second <= local.astimezone(UTC)
    since = (second if again else first) - datetime(1970, 1, 1, tzinfo=UTC)
    return Ticks("time", since // timedelta(microseconds=1))


def of_day(text: str) -> Ticks:
    hour, minute, second = (*map(float, text.split(":")), 0.0)[:3]
    return Ticks("duration", round((hour * 60 + minute) * 60 * SECOND + second * SECOND))


def part(text: str, separator: str, place: int) -> Any:
    parts = text.split(separator)
    return parts[place - 1 if place > 0 else place] if 0 < abs(place) <= len(parts) else None


def group(text: str, pattern: str, *number: int) -> Any:
    found = re.search(pattern, text)
    return found and found.group(number[0] if number else min(1, re.compile(pattern).groups))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        name: of_clock(lambda t, name=name: getattr(t, name))
        for name in ("hour", "minute", "second", "day", "month", "year")
    },
    "weekday": of_clock(datetime.isoweekday),
    "week": of_clock(lambda t: t.isocalendar()[1]),
    "day_of_year": of_clock(lambda t: t.timetuple().tm_yday),
    "local_time": of_clock(lambda t: Ticks("duration", midnight(t) // timedelta(microseconds=1))),
    "date_trunc": begun,
    "time": of_day,
    "extract": group,
    "split": part,
    "format": lambda template, *values: template.format(*(a if kind(a) == "number" else as_text(a) for a in values)),
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "//": floor_divide,
    "mod": modulo,
    "**": power,
    "neg": negate,
    "abs": absolute,
    "min": extreme(min),
    "max": extreme(max),
    "round": lambda a, *digits: round(number(a), *digits),
    "floor": lambda a: math.floor(number(a)),
    "ceil": lambda a: math.ceil(number(a)),
    **{
        name: (lambda f: lambda a: f(number(a)))(getattr(math, name))
        for name in ("sqrt", "exp", "log10", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "degrees", "radians")
    },
    "log": lambda a, *base: math.log(number(a)) / (math.log(number(base[0])) if base else 1),
    "atan2": lambda a, b: math.atan2(number(a), number(b)),
    "pi": lambda: math.pi,
    "sign": lambda a: (in_seconds(a) > 0) - (in_seconds(a) < 0),
    "float": lambda a: float(a) if kind(a) == "string" else float(in_seconds(a)),
    "int": lambda a: int(a) if kind(a) == "string" else int(in_seconds(a)),
    "iri": lambda a, *more: Iri(text_or_iri(a) + "".join(map(as_text, more))),
    "string": lambda a: as_text(a),
    "replace": lambda a, part, by: text(a).replace(text(part), text(by)),
    "substring": lambda a, first, *length: text(a)[first - 1 :][: length[0] if length else None],
    "trim": lambda a: text(a).strip(),
    "lower": lambda a: text(a).lower(),
    "upper": lambda a: text(a).upper(),
    "concat": lambda *parts: "".join(text(part) for part in parts),
    "length": lambda a: len(text(a)),
    "distance": lambda *degrees: distance(*(float(number(x)) for x in degrees)),
    "value_in": lambda x, source, target: value_in(float(number(x)), source, target),
}
TESTS: dict[str, Callable[[str, str], bool]] = {
    "contains": lambda a, b: b in a,
    "starts_with": lambda a, b: a.startswith(b),
    "ends_with": lambda a, b: a.endswith(b),
    "matches": lambda a, b: re.search(b, a) is not None,
}
