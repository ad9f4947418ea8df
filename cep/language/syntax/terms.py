"""Parser of terms: constants, variables, arithmetic and calls."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from cep.core.literals import UNITS, read_duration, read_number, read_string, read_ticks, read_time
from cep.core.prefixes import namespace
from cep.events import Iri
from cep.language.syntax import messages
from cep.language.syntax.cursor import Cursor
from cep.language.syntax.tokens import Token
from cep.rules.keywords import RESERVED
from cep.rules.terms import Call, Constant, Expression, Variable

LEVELS = {"+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "MOD": 2}
OPERANDS = ("name", "variable", "number", "duration", "string", "iri", "prefixed", "time")
COMPARISONS = {"=": "=", "==": "=", "IS": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def expression(cursor: Cursor, level: int = 1) -> Expression:
    """Read a sum (level 1) of products (level 2) of signed powers. All operators except `**` associate to the left."""
    cursor.enter()
    first = cursor.token
    left = _signed(cursor)
    height = cursor.height
    while (strength := LEVELS.get(cursor.token.key, 0)) >= level:
        operator = cursor.advance()
        _refuse_word(cursor, first, left)
        start = cursor.token
        right = expression(cursor, strength + 1)
        _refuse_word(cursor, start, right)
        height = max(height, cursor.height)
        cursor.grow(height, operator)
        height = cursor.height
        left = Call(operator.text.lower(), (left, right), cursor.span(first))
    cursor.height = height
    cursor.depth -= 1
    return left


def _signed(cursor: Cursor) -> Expression:
    """Read `-x` or a power. `-x ** 2` means `-(x ** 2)`, and `x ** -y ** 2` means `x ** (-(y ** 2))`. `-3` is a
    constant."""
    first = cursor.token
    if first.key == "-":
        cursor.enter()
        cursor.advance()
        inner = cursor.token
        value = _signed(cursor)
        cursor.depth -= 1
        if inner.kind in ("number", "duration") and isinstance(value, Constant):
            assert isinstance(value.value, (int, float)), "a number or a duration was written"
            return Constant(-value.value, value.type, cursor.span(first))
        _refuse_word(cursor, inner, value)
        cursor.grow(cursor.height, first)
        return Call("neg", (value,), cursor.span(first))
    base = _operand(cursor)
    if cursor.token.key != "**":
        return base
    height = cursor.height
    operator = cursor.advance()
    _refuse_word(cursor, first, base)
    cursor.enter()
    inner = cursor.token
    exponent = _signed(cursor)
    cursor.depth -= 1
    _refuse_word(cursor, inner, exponent)
    cursor.grow(max(height, cursor.height), operator)
    return Call("**", (base, exponent), cursor.span(first))


def _operand(cursor: Cursor) -> Expression:
    token = cursor.token
    cursor.height = 1
    match token.kind:
        case "variable" if token.key not in RESERVED:
            if token.text.lower() in ("true", "false"):
                cursor.fail("a value", f"the constant is written `{token.text.lower()}`")
            cursor.advance()
            if cursor.token.key == "(":
                cursor.fail("an operator", f"a function starts with a lower-case letter: `{token.text.lower()}(...)`")
            return Variable(token.text, token.span)
        case "name" if token.key not in RESERVED:
            cursor.advance()
            if cursor.token.key == "(":
                if token.text == "if":
                    return _choice(cursor, token)
                return Call(token.text, called(cursor, token), cursor.span(token))
            if token.text in ("true", "false"):
                name = cursor.written(token)
                parameter = name.text if name is not token else None
                return Constant(token.text == "true", "bool", token.span, parameter)
            return Constant(token.text, "string", token.span)
        case kind if kind not in ("name", "variable") and kind in OPERANDS:
            return constant(cursor)
    if token.key == "(":
        opening = cursor.advance()
        inner = expression(cursor)
        cursor.close(opening, ")", "an operator or `)`", messages.logic_hint(cursor.token))
        return inner
    if token.kind == "graph":
        cursor.stop("a graph pattern has no value", messages.GRAPH_AS_VALUE)
    hint = messages.VALUE
    if token.key == "NOT" and cursor.previous.key in COMPARISONS and cursor.peek().text in messages.FOREIGN_NULLS:
        refuse_null(cursor, cursor.peek())
    if token.key == "!":
        hint = messages.NEGATION
    elif token.kind in ("name", "variable"):
        hint = f'`{token.text}` is a keyword; as a string it is written `"{token.text}"`'
    elif token.key == "<":
        hint = "write an IRI in full, `<http://www.w3.org/ns/sosa/Sensor>`, or with a prefix, `sosa:Sensor`"
    elif token.key == "?":
        hint = "a variable is written without `?`: `Lat`"
    elif cursor.previous.key == ",":
        hint = "something is missing after the `,`, or there is one `,` too many"
    cursor.fail("a value", hint)


def _choice(cursor: Cursor, word: Token) -> Call:
    """Read the arguments of `if(Level > 3, "high", "low")`. The first argument is a condition."""
    opening = cursor.expect("(")
    condition = cursor.test(cursor)
    height = cursor.height
    values: list[Expression] = []
    for what in ("a value for when the condition is true", "a value for when the condition is false"):
        if cursor.token.key != ",":
            cursor.fail(f"`,` and {what}", messages.CHOICE)
        cursor.advance()
        values.append(expression(cursor))
        height = max(height, cursor.height)
    close_arguments(cursor, opening, messages.ONLY_IN_PATTERNS)
    cursor.grow(height, opening)
    return Call("if", (condition, *values), cursor.span(word))


def constant(cursor: Cursor) -> Constant:
    """Read a constant: a number, a duration, a string, an IRI or a time."""
    before = cursor.previous
    token = cursor.advance()
    name = cursor.written(token)
    if name is not token:
        literal = _constant(cursor, token, before)
        return replace(literal, parameter=name.text) if literal.span == token.span else literal
    return _constant(cursor, token, before)


def _constant(cursor: Cursor, token: Token, before: Token) -> Constant:
    match token.kind:
        case "number":
            unit = unit_after_number(cursor)
            if unit:
                ticks = cursor.read(read_ticks, token, token.text, unit)
                return Constant(ticks, "duration", cursor.span(token))
            number = cursor.read(read_number, token, token.text)
            return Constant(number, "int" if isinstance(number, int) else "float", token.span)
        case "duration":
            return Constant(cursor.read(read_duration, token, token.text), "duration", token.span)
        case "string":
            return Constant(cursor.read(read_string, token, token.text), "string", token.span)
        case "iri":
            return Constant(Iri(token.text[1:-1]), "iri", token.span)
        case "prefixed":
            return Constant(_resolve(cursor, token, before), "iri", token.span)
        case kind:
            assert kind == "time", "the caller has looked at the kind"
            return Constant(cursor.read(read_time, token, token.text), "time", token.span)


def unit_after_number(cursor: Cursor) -> int:
    """Read the unit after a number, and return its length in microseconds. Return 0 if the number has no unit."""
    token = cursor.token
    if cursor.on_new_line():
        return 0
    if token.kind == "name" and token.text in UNITS:
        cursor.advance()
        return UNITS[token.text]
    if token.kind in ("name", "variable") and not token.key:
        lower = token.text.lower()
        if lower in UNITS or lower in messages.FOREIGN_UNITS or cursor.adjoins():
            meant = lower if lower in UNITS else messages.FOREIGN_UNITS.get(lower)
            hint = "the units are `ms`, `s`, `min`, `h` and `d`"
            if meant:
                hint = f"write `{cursor.previous.text} {meant}`; {hint}"
            elif lower in messages.CALENDAR_UNITS:
                hint = messages.CALENDAR_UNITS[lower](cursor.previous.text)
            cursor.stop(f"unknown unit `{token.text}`", hint)
    return 0


def _resolve(cursor: Cursor, token: Token, before: Token) -> Iri:
    prefix, _, local = token.text.partition(":")
    iri = namespace(prefix, cursor.prefixes)
    if iri is None:
        hint = f"declare it first: `PREFIX {prefix}: <http://...>`"
        if before.key in ("(", ",") and prefix[:1].islower() and "-" not in prefix:
            hint += f"; a named argument needs a space after the colon: `{prefix}: {local}`"
        cursor.stop(f"unknown prefix `{prefix}:`", hint, token.span)
    return Iri(iri + local)


def arguments(cursor: Cursor, colon: str = messages.ONLY_IN_PATTERNS) -> tuple[Expression, ...]:
    """Read arguments in parentheses, `(x, y + 1)` or `()`. `colon`: the hint for a colon among the arguments."""
    opening = cursor.expect("(")
    if cursor.accept(")"):
        cursor.height = 1
        return ()
    terms = [expression(cursor)]
    height = cursor.height
    while cursor.accept(","):
        terms.append(expression(cursor))
        height = max(height, cursor.height)
    close_arguments(cursor, opening, colon)
    cursor.grow(height, opening)
    return tuple(terms)


def called(cursor: Cursor, word: Token) -> tuple[Expression, ...]:
    """Read the arguments of a function or a predicate. For `held(location(P) = X, T)`, the first argument may be a
    fluent with its value."""
    if word.text != "held":
        return arguments(cursor)
    if cursor.peek().key == "NOT":
        cursor.advance()
        cursor.stop("`not` stands before `held`", messages.NOT_HELD)
    opening = cursor.expect("(")
    first = cursor.token
    terms = [expression(cursor)]
    height = cursor.height
    if cursor.token.key in ("=", "==", "!="):
        operator = COMPARISONS[cursor.advance().key]
        terms = [Call(operator, (terms[0], expression(cursor)), cursor.span(first))]
        height = max(height, cursor.height) + 1
    while cursor.accept(","):
        terms.append(expression(cursor))
        height = max(height, cursor.height)
    close_arguments(cursor, opening, messages.ONLY_IN_PATTERNS)
    cursor.grow(height, opening)
    return tuple(terms)


def close_arguments(cursor: Cursor, opening: Token, colon: str) -> None:
    token = cursor.token
    hint = None
    if token.key == ":-":
        hint = "put a space after the colon: `temp: -3`"
    elif token.key == ":":
        hint = colon
    elif token.kind in OPERANDS and token.key not in RESERVED:
        hint = "arguments are separated by `,`"
    elif token.key in COMPARISONS:
        hint = "put conditions after `WHERE`, not among the arguments: `smoke(R, T) WHERE T > 50`"
    cursor.close(opening, ")", "`,` or `)`", hint)


def refuse_null(cursor: Cursor, token: Token) -> NoReturn:
    cursor.stop(f"`{token.text}` is not a value", messages.NULL, token.span)


def _refuse_word(cursor: Cursor, first: Token, read: Expression) -> None:
    if first.kind == "name" and isinstance(read, Constant) and read.type == "string":
        hint = f"a variable starts with an upper-case letter: `{first.text[0].upper()}{first.text[1:]}`"
        if first.text in ("start", "end", "duration"):
            hint = f"for the start or end of the pattern, write `{first.text}()`; {hint}"
        cursor.stop(f"`{first.text}` is a word, not a number", hint, first.span)


def refuse_word_beside_number(cursor: Cursor, first: Token, read: Expression, other: Expression) -> None:
    """Refuse a comparison of a lower-case name with a number."""
    if isinstance(other, Call):
        numeric = other.function in LEVELS or other.function in ("mod", "**", "neg")
    else:
        numeric = isinstance(other, Constant) and other.type in ("int", "float", "duration", "time")
    if numeric:
        _refuse_word(cursor, first, read)
