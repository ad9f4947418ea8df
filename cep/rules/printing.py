"""Printer of expressions, conditions and declarations. Reading the printed text returns the same tree.

It writes parentheses only where they are needed, IRIs in full, and graph patterns unchanged. A string argument that is
also a valid name has no quotes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from cep.core.literals import LARGEST, SECOND, write_duration, write_time
from cep.core.schema import RecordFormat, RecordTest, TimeFormat, When
from cep.rules.expressions.typed import COMPARISONS
from cep.rules.keywords import KEYWORDS
from cep.rules.terms import (
    DIVIDED,
    AggregateResult,
    Call,
    Comparison,
    Condition,
    Constant,
    Disjunction,
    Expression,
    Graph,
    NamedNumber,
    PolicyChoice,
    Predicate,
    Variable,
)

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}

# Precedences of expressions, the lowest first. An operand of a lower precedence than its place gets parentheses.
_SUM, _PRODUCT, _SIGNED, _POWER, _OPERAND = range(5)
_INFIX = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT, DIVIDED: _PRODUCT, "mod": _PRODUCT}


@dataclass(frozen=True, slots=True)
class Notation:
    """The notation of expressions in our language or in a dialect.

    - `marks`: for each operator that the dialect spells differently from our language, its spelling there.
    - `reserved`: words in capitals that need quotes if they are strings.
    - `around`: for some operators, two regular expressions. They match those left and right operands that need no
      parentheses.
    """

    marks: Mapping[str, str]
    reserved: frozenset[str]
    around: Mapping[str, tuple[re.Pattern[str], re.Pattern[str]]] = field(default_factory=dict)

    def mark(self, function: str) -> str:
        return self.marks.get(function, function)

    def beside(self, mark: str, left: str, right: str) -> tuple[str, str]:
        """Return the texts of an operator's two operands. Put an operand in parentheses if it needs them. `mark`: the
        operator."""
        if mark not in self.around:
            return left, right
        before, after = self.around[mark]
        return left if before.fullmatch(left) else f"({left})", right if after.match(right) else f"({right})"


OWN = Notation({DIVIDED: "/"}, frozenset((*KEYWORDS, "TRUE", "FALSE")))

# Time points of these years, 1973 to 9999, are printed as times, others as seconds.
_TIMES = range(100_000_000 * SECOND, 253_402_300_800 * SECOND)


class AnAttribute(Protocol):
    """The interface of an attribute in a declaration or in a schema."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def optional(self) -> bool: ...
    @property
    def low(self) -> int | float | None: ...
    @property
    def high(self) -> int | float | None: ...
    @property
    def source(self) -> str | None: ...
    @property
    def iri(self) -> str | None: ...
    @property
    def format(self) -> TimeFormat | None: ...
    @property
    def missing(self) -> tuple[int | float | str, ...] | None: ...
    @property
    def quoted(self) -> bool: ...


def declaration(
    name: str,
    attributes: Sequence[AnAttribute],
    iri: str | None = None,
    time: str | None = None,
    start: str | None = None,
    end: str | None = None,
    further: Sequence[str] = (),
    format: TimeFormat | None = None,
    missing: tuple[int | float | str, ...] | None = None,
    records: RecordFormat | None = None,
    key: tuple[str, ...] | None = None,
    when: When | None = None,
    distinct: bool = False,
) -> str:
    """Return `name(attributes) AS <iri> TIME time, further START start END end`, followed by the other clauses."""
    text = f"{name}({', '.join(map(attribute, attributes))})"
    if iri is not None:
        text += f" AS <{iri}>"
    if time is not None:
        text += f" TIME {', '.join(map(_column, (time, *further)))}"
    if start is not None and end is not None:
        text += f" START {_column(start)} END {_column(end)}"
    text += time_format(format, "epoch ") + _missing(missing) + record_format(records) + record_tests(when)
    text += "" if key is None else f" KEY {', '.join(key)}"
    return f"{text} DISTINCT" if distinct else text


def record_format(records: RecordFormat | None) -> str:
    """Return ` FORMAT csv(separator: ";")`, or an empty text if `records` is None."""
    if records is None:
        return ""
    options = ", ".join(f"{key}: {print_string(value)}" for key, value in records.options)
    return f" FORMAT {records.name}" + (f"({options})" if options else "")


def record_tests(when: When | None) -> str:
    """Return ` WHEN kind = "deploy", level > 3`, or an empty text if `when` is None."""
    return "" if when is None else " WHEN " + " or ".join(", ".join(map(_record_test, tests)) for tests in when)


def _record_test(test: RecordTest) -> str:
    values = ", ".join(map(_value, test.values))
    if test.operator.endswith("in"):
        values = f"[{values}]"
    words = (_column(test.source), test.operator.upper() if not test.values else test.operator, values)
    return " ".join(filter(None, words))


def _value(value: int | float | str | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return print_string(value) if isinstance(value, str) else _number(value)


def time_format(format: TimeFormat | None, since: str) -> str:
    """Return ` FORMAT "%d.%m.%Y" ZONE "Europe/Zurich" FOLD later`. Clauses that do not apply are left out."""
    if format is None:
        return ""
    text = f" FORMAT {since}{format.unit}" if format.unit is not None else ""
    text += f" FORMAT {print_string(format.pattern)}" if format.pattern is not None else ""
    text += f" ZONE {print_string(format.zone)}" if format.zone is not None else ""
    return text + (f" FOLD {format.fold}" if format.fold is not None else "")


def _missing(values: tuple[int | float | str, ...] | None) -> str:
    if not values:
        return ""
    return " MISSING " + ", ".join(print_string(v) if isinstance(v, str) else _number(v) for v in values)


def _number(value: int | float) -> str:
    return print_expression(Constant(value, "int" if isinstance(value, int) else "float"))


def attribute(declared: AnAttribute) -> str:
    text = f"{declared.name}: {declared.type}{'?' if declared.optional else ''}"
    if declared.low is not None or declared.high is not None:
        text += f" in {range_of(declared.type, declared.low, declared.high)}"
    if declared.source is not None:
        text += f" FROM {_column(declared.source)}"
    if declared.iri is not None:
        text += f" AS <{declared.iri}>"
    text += " QUOTED" if declared.quoted else ""
    return text + time_format(declared.format, "epoch " if declared.type == "time" else "") + _missing(declared.missing)


def range_of(type: str, low: int | float | None, high: int | float | None) -> str:
    """Return the text of an attribute's range, `0..250`."""
    return f"{_bound(low, type)}..{_bound(high, type)}"


def _bound(value: int | float | None, kind: str) -> str:
    if value is None:
        return ""
    if kind == "time":
        return instant(int(value))
    if kind == "float" and value == int(value) and abs(value) < LARGEST:
        return str(int(value))
    return print_expression(Constant(value, kind))


def _column(name: str) -> str:
    return name if _WORD.fullmatch(name) else print_string(name)


def instant(ticks: int) -> str:
    if ticks in _TIMES:
        return write_time(ticks)
    sign, size = ("-", -ticks) if ticks < 0 else ("", ticks)
    whole, fraction = divmod(size, SECOND)
    return f"{sign}{whole}.{fraction:06}".rstrip("0").rstrip(".")


def print_result(result: AggregateResult) -> str:
    inside = "" if result.argument is None else print_expression(result.argument)
    if result.parameter is not None:
        behind = write_duration(int(result.parameter)) if result.function == "ewma" else repr(result.parameter)
        inside = f"{inside}, {behind}"
    return f"{result.variable} = {result.function}({'distinct ' if result.distinct else ''}{inside})"


def print_policy(choice: PolicyChoice) -> str:
    if choice.tie is None:
        return choice.name
    return f"{choice.name}({choice.tie}{f' {choice.by}' if choice.by is not None else ''})"


def print_conditions(conditions: tuple[Condition, ...]) -> str:
    return ", ".join(map(print_condition, conditions))


def print_condition(condition: Condition) -> str:
    match condition:
        case Comparison(operator, left, right):
            return f"{print_expression(left)} {operator} {print_expression(right)}"
        case Predicate(graph=Graph() as graph):
            return f"{'not ' if condition.negated else ''}{graph.text}"
        case Predicate(name, arguments, negated):
            return f"{'not ' if negated else ''}{name}{print_arguments(arguments)}"
        case Disjunction(alternatives):
            values = _one_of(condition)
            if values:
                left = values[0].left
                listed = ", ".join(print_expression(value.right) for value in values)
                return f"{print_expression(left)} in [{listed}]"
            return f"({' or '.join(map(print_conditions, alternatives))})"


def parameters_named(condition: Condition) -> Condition:
    """Replace each parameter in a condition by its name, followed by its value in parentheses. The result is for
    display."""
    named: Condition = _named(condition)
    return named


def expression_named(expression: Expression) -> str:
    """Return the text of an expression for display. A parameter's name is followed by its value in parentheses."""
    return print_expression(_named(expression))


def duration_named(ticks: int) -> str:
    """Return the text of a duration for display. A parameter's name is followed by its value in parentheses."""
    return _with_name(ticks, write_duration(ticks))


def count_named(count: int) -> str:
    """Return a number of events as text for display. If a parameter sets the number, the text is the parameter's name
    and the number in parentheses."""
    return _with_name(count, str(count))


def _with_name(number: int, written: str) -> str:
    return f"{number.parameter} ({written})" if isinstance(number, NamedNumber) else written


def _named(value: Any) -> Any:
    match value:
        case Constant(parameter=str() as name):
            return Variable(f"{name} ({_constant(value)})")
        case Constant() | Variable() | Graph():
            return value
        case tuple():
            return tuple(map(_named, value))
        case Call():
            return replace(value, arguments=_named(value.arguments))
        case Comparison():
            return replace(value, left=_named(value.left), right=_named(value.right))
        case Predicate():
            return replace(value, arguments=_named(value.arguments))
        case Disjunction():
            return replace(value, alternatives=_named(value.alternatives))
    return value


def _one_of(condition: Disjunction) -> list[Comparison]:
    """Return the comparisons of a disjunction that means `X in [1, 2]`. Return [] for any other disjunction."""
    singles = [inside[0] for inside in condition.alternatives if len(inside) == 1]
    equal = [inner for inner in singles if isinstance(inner, Comparison) and inner.operator == "="]
    same = len(equal) == len(condition.alternatives) and all(comparison.left == equal[0].left for comparison in equal)
    return equal if same else []


def print_arguments(arguments: tuple[Expression, ...]) -> str:
    """Return the text of arguments in parentheses, or an empty text if there are none."""
    return f"({', '.join(map(print_argument, arguments))})" if arguments else ""


def print_argument(expression: Expression, notation: Notation = OWN) -> str:
    """Return the text of an argument. A string that is also a valid name has no quotes."""
    if isinstance(expression, Constant) and expression.type == "string":
        text = str(expression.value)
        if _NAME.fullmatch(text) and text.upper() not in notation.reserved:
            return text
    return print_expression(expression, notation)


def print_expression(expression: Expression, notation: Notation = OWN) -> str:
    return _written(expression, notation)[0]


def _written(expression: Expression, notation: Notation) -> tuple[str, int]:
    """Return the text of an expression and its precedence."""
    match expression:
        case Variable(name):
            return name, _OPERAND
        case Constant():
            text = _constant(expression)
            return text, _SIGNED if text.startswith("-") else _OPERAND
        case Call("neg", (inner,)):
            text, holds = _written(inner, notation)
            bare = holds >= _SIGNED and not isinstance(inner, Constant)  # `-3` would be read as a constant
            return f"-{text}" if bare and not text.startswith("-") else f"-({text})", _SIGNED
        case Call("**", (base, exponent)):
            first, second = _operand(base, _OPERAND, notation), _operand(exponent, _SIGNED, notation)
            return f"{first} {notation.mark('**')} {second}", _POWER
        case Call("if", (condition, *values)):
            return f"if({', '.join([_test(condition), *map(print_argument, values)])})", _OPERAND
        case Call("=" | "!=" as function, (left, right)):  # the value of a fluent, in `held`
            return f"{print_expression(left)} {function} {print_expression(right)}", _SUM
        case Call(function, (left, right)) if function in _INFIX:
            level, mark = _INFIX[function], notation.mark(function)
            sides = _operand(left, level, notation), _operand(right, level + 1, notation)
            first, second = notation.beside(mark, *sides)
            return f"{first} {mark} {second}", level
        case Call(function, arguments):
            return f"{function}({', '.join(map(print_argument, arguments))})", _OPERAND


def _test(expression: Expression) -> str:
    """Return the text of the condition of an `if`."""
    match expression:
        case Call("or" as word, sides) | Call("and" as word, sides):
            loose = word == "and"
            written = [_test(side) for side in sides]
            grouped = [
                f"({text})" if loose and isinstance(side, Call) and side.function == "or" else text
                for side, text in zip(sides, written)
            ]
            return f" {word} ".join(grouped)
        case Call("not", (inner,)):
            return f"not {_test(inner)}"
        case Call(function, (left, right)) if function in COMPARISONS:
            return f"{print_expression(left)} {function} {print_expression(right)}"
        case _:
            return print_expression(expression)


def _operand(expression: Expression, place: int, notation: Notation) -> str:
    text, holds = _written(expression, notation)
    return text if holds >= place else f"({text})"


def _constant(constant: Constant) -> str:
    value = constant.value
    match constant.type:
        case "time":
            assert isinstance(value, int), "times are microseconds"
            return write_time(value)
        case "duration":
            assert isinstance(value, int), "durations are microseconds"
            return write_duration(value)
        case "bool":
            return "true" if value else "false"
        case "iri":
            return f"<{value}>"
        case "string":
            return print_string(str(value))
        case _:
            return repr(value)


def print_string(text: str) -> str:
    return (
        '"'
        + "".join(_ESCAPES.get(letter) or (letter if letter.isprintable() else _code(letter)) for letter in text)
        + '"'
    )


def _code(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04X}" if number < 0x10000 else f"\\U{number:08X}"
