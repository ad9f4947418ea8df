"""The printer: syntax tree to rule text, such that `parse(print_program(p)) == p`.

Parentheses stand where the tree needs them, and around a pattern with a postfix under an operator. IRIs are written
whole, strings without quotes where they are names among arguments. A program is one statement a line; graph patterns
are as they were written.
"""

from __future__ import annotations

import re

from cep.core.literals import LARGEST, SECOND, write_duration, write_time
from cep.language.syntax import ast
from cep.language.syntax.tokens import KEYWORDS
from cep.rules.terms import (
    AggregateResult,
    Call,
    Comparison,
    Condition,
    Constant,
    Expression,
    Graph,
    PolicyChoice,
    Predicate,
    StaticRule,
    Variable,
)

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}

# How tightly an expression holds together; an operand that holds less than its place asks for is put in parentheses.
_SUM, _PRODUCT, _SIGNED, _POWER, _OPERAND = range(5)
_INFIX = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT, "mod": _PRODUCT}

# And a pattern.
_POSTFIXED, _JOINED, _REPEATED = range(3)

# Time points of these years, 1973 to 9999, are printed as times, others as seconds.
_TIMES = range(100_000_000 * SECOND, 253_402_300_800 * SECOND)


def print_program(program: ast.SyntaxTree) -> str:
    return "".join(print_statement(statement) + "\n" for statement in program.statements)


def print_statement(statement: ast.Statement) -> str:
    match statement:
        case ast.Prefix(name, iri):
            return f"PREFIX {name}: <{iri}>"
        case ast.EventDeclaration():
            return _declaration(statement)
        case ast.PolicyStatement(choice):
            return f"policy {_choice(choice)}."
        case ast.AlertStatement():
            return _alert(statement)
        case ast.EventRule(name, arguments, body, label):
            marked = f"{label}: " if label is not None else ""
            return f"{marked}{name}{_arguments(arguments)} <- {print_pattern(body)}."
        case StaticRule(name, arguments, conditions):
            body_text = f" :- {_conditions(conditions)}" if conditions else ""
            return f"{name}{_arguments(arguments)}{body_text}."


def _declaration(declaration: ast.EventDeclaration) -> str:
    text = f"event {declaration.name}({', '.join(map(_attribute, declaration.attributes))})"
    if declaration.iri is not None:
        text += f" AS <{declaration.iri}>"
    if declaration.time is not None:
        text += f" TIME {_column(declaration.time)}"
    if declaration.start is not None and declaration.end is not None:
        text += f" START {_column(declaration.start)} END {_column(declaration.end)}"
    return text + "."


def _alert(alert: ast.AlertStatement) -> str:
    text = f"ALERT {alert.name} ON {print_pattern(alert.event)}"
    if alert.conditions:
        text += f" WHERE {_conditions(alert.conditions)}"
    for word, string in (
        ("SEVERITY", alert.severity),
        ("URGENCY", alert.urgency),
        ("CERTAINTY", alert.certainty),
        ("CATEGORY", alert.category),
    ):
        text += "" if string is None else f" {word} {_string(string)}"
    for word, template in (("TITLE", alert.title), ("TEXT", alert.text), ("INSTRUCTION", alert.instruction)):
        text += "" if template is None else f" {word} {print_expression(template)}"
    text += f" FOR {write_duration(alert.duration)}"
    if alert.keys:
        text += f" KEYED BY {', '.join(each.name for each in alert.keys)}"
    for word, values in (("AT", alert.at), ("RADIUS", (alert.radius,)), ("AREA", (alert.area,))):
        written = ", ".join(print_expression(value) for value in values if value is not None)
        text += f" {word} {written}" if written else ""
    return text + "."


def _attribute(attribute: ast.Attribute) -> str:
    text = f"{attribute.name}: {attribute.type}{'?' if attribute.optional else ''}"
    if attribute.low is not None or attribute.high is not None:
        text += f" in {_bound(attribute.low, attribute.type)}..{_bound(attribute.high, attribute.type)}"
    if attribute.source is not None:
        text += f" FROM {_column(attribute.source)}"
    if attribute.iri is not None:
        text += f" AS <{attribute.iri}>"
    return text


def _bound(value: int | float | None, kind: str) -> str:
    if value is None:
        return ""
    if kind == "time":
        return _instant(int(value))
    if kind == "float" and value == int(value) and abs(value) < LARGEST:
        return str(int(value))
    return print_expression(Constant(value, kind))


def _column(name: str) -> str:
    return name if _WORD.fullmatch(name) else _string(name)


def print_pattern(pattern: ast.Pattern) -> str:
    match pattern:
        case ast.EventPattern(name, arguments, None):
            return name + _arguments(arguments)
        case ast.EventPattern(name, arguments, names):
            pairs = (f"{key}: {_argument(value)}" for key, value in zip(names or (), arguments))
            return f"{name}({', '.join(pairs)})"
        case ast.TimePoint(ticks):
            return _instant(ticks)
        case ast.Binary(operator, left, right):
            return f"{_inside(left, _JOINED)} {operator} {_inside(right, _REPEATED)}"
        case ast.Not(absent, left, right):
            return f"NOT({print_pattern(absent)}).[{_before_comma(left)}, {print_pattern(right)}]"
        case ast.Unless(left, absent, ticks):
            joined = f"{_inside(left, _JOINED)} UNLESS {_inside(absent, _REPEATED)}"
            return f"{joined} WITHIN {write_duration(ticks)}"
        case ast.Times(inner, count):
            return f"{_inside(inner, _REPEATED)} TIMES {count}"
        case ast.Within(inner, ticks):
            return f"{print_pattern(inner)} WITHIN {write_duration(ticks)}"
        case ast.Where(inner, conditions):
            return f"{print_pattern(inner)} WHERE {_conditions(conditions)}"
        case ast.Policy(inner, choice):
            return f"{print_pattern(inner)} POLICY {_choice(choice)}"
        case ast.Aggregate(inner, results, events, ticks, by):
            length = f"{events} EVENTS" if ticks is None else write_duration(ticks)
            groups = f" BY {', '.join(each.name for each in by)}" if by else ""
            return f"{print_pattern(inner)} AGGREGATE {', '.join(map(_result, results))} OVER LAST {length}{groups}"


def _inside(pattern: ast.Pattern, place: int) -> str:
    """The pattern, in parentheses where it holds together less than its place asks for."""
    match pattern:
        case ast.Within() | ast.Where() | ast.Policy() | ast.Aggregate():
            holds = _POSTFIXED
        case ast.Binary() | ast.Unless():
            holds = _JOINED
        case _:
            holds = _REPEATED
    text = print_pattern(pattern)
    return text if holds >= place else f"({text})"


def _before_comma(pattern: ast.Pattern) -> str:
    """In parentheses where the pattern itself ends in a list that a comma would go on."""
    text = print_pattern(pattern)
    listed = isinstance(pattern, ast.Where) or (isinstance(pattern, ast.Aggregate) and pattern.by)
    return f"({text})" if listed else text


def _instant(ticks: int) -> str:
    if ticks in _TIMES:
        return write_time(ticks)
    sign, size = ("-", -ticks) if ticks < 0 else ("", ticks)
    whole, fraction = divmod(size, SECOND)
    return f"{sign}{whole}.{fraction:06}".rstrip("0").rstrip(".")


def _result(result: AggregateResult) -> str:
    inside = "" if result.argument is None else print_expression(result.argument)
    return f"{result.variable} = {result.function}({'distinct ' if result.distinct else ''}{inside})"


def _choice(choice: PolicyChoice) -> str:
    if choice.tie is None:
        return choice.name
    return f"{choice.name}({choice.tie}{f' {choice.by}' if choice.by is not None else ''})"


def _conditions(conditions: tuple[Condition, ...]) -> str:
    return ", ".join(map(print_condition, conditions))


def print_condition(condition: Condition) -> str:
    match condition:
        case Comparison(operator, left, right):
            return f"{print_expression(left)} {operator} {print_expression(right)}"
        case Predicate(graph=Graph() as graph):
            return f"{'not ' if condition.negated else ''}{graph.text}"
        case Predicate(name, arguments, negated):
            return f"{'not ' if negated else ''}{name}{_arguments(arguments)}"


def _arguments(arguments: tuple[Expression, ...]) -> str:
    """Nothing where there are none."""
    return f"({', '.join(map(_argument, arguments))})" if arguments else ""


def _argument(expression: Expression) -> str:
    """A string that is a name stands here without quotes."""
    if isinstance(expression, Constant) and expression.type == "string":
        text = str(expression.value)
        if _NAME.fullmatch(text) and text not in ("true", "false") and text.upper() not in KEYWORDS:
            return text
    return print_expression(expression)


def print_expression(expression: Expression) -> str:
    return _written(expression)[0]


def _written(expression: Expression) -> tuple[str, int]:
    """The text and how tightly it holds together."""
    match expression:
        case Variable(name):
            return name, _OPERAND
        case Constant():
            text = _constant(expression)
            return text, _SIGNED if text.startswith("-") else _OPERAND
        case Call("neg", (inner,)):
            text, holds = _written(inner)
            bare = holds >= _SIGNED and not isinstance(inner, Constant)  # `-3` would be the constant
            return f"-{text}" if bare and not text.startswith("-") else f"-({text})", _SIGNED
        case Call("**", (base, exponent)):
            return f"{_operand(base, _OPERAND)} ** {_operand(exponent, _SIGNED)}", _POWER
        case Call(function, (left, right)) if function in _INFIX:
            level = _INFIX[function]
            return f"{_operand(left, level)} {function} {_operand(right, level + 1)}", level
        case Call(function, arguments):
            return f"{function}({', '.join(map(_argument, arguments))})", _OPERAND


def _operand(expression: Expression, place: int) -> str:
    text, holds = _written(expression)
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
            return _string(str(value))
        case _:
            return repr(value)


def _string(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(each) or (each if each.isprintable() else _code(each)) for each in text) + '"'


def _code(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04X}" if number < 0x10000 else f"\\U{number:08X}"
