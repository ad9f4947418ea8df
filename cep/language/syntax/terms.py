"""Terms: constants, variables, arithmetic, and the conditions of WHERE and `:-`."""

from __future__ import annotations

import re
from typing import NoReturn

from cep.core.errors import Span
from cep.core.literals import UNITS, read_duration, read_number, read_string, read_ticks, read_time
from cep.events import Iri
from cep.language.syntax import messages
from cep.language.syntax.cursor import Cursor
from cep.language.syntax.tokens import Token
from cep.rules.graphs import DEEPEST, depth, of_the_rule
from cep.rules.keywords import BINARY_OPERATORS, RESERVED
from cep.rules.terms import Call, Comparison, Condition, Constant, Expression, Graph, Predicate, Variable

LEVELS = {"+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "MOD": 2}
_OPERANDS = ("name", "variable", "number", "duration", "string", "iri", "prefixed", "time")
_WHOLE = re.compile(r"(?<![\w.])([0-9]+),\Z", re.ASCII)
COMPARISONS = {"=": "=", "==": "=", "IS": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def expression(cursor: Cursor, level: int = 1) -> Expression:
    """Sums (level 1) of products (level 2) of signed powers; all but `**` associate to the left."""
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
    """`-x`, or a power: `-x ** 2` is `-(x ** 2)`, `-3` is the constant, `x ** -y ** 2` is `x ** (-(y ** 2))`."""
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
                return Call(token.text, arguments(cursor), cursor.span(token))
            if token.text in ("true", "false"):
                return Constant(token.text == "true", "bool", token.span)
            return Constant(token.text, "string", token.span)
        case kind if kind not in ("name", "variable") and kind in _OPERANDS:
            return constant(cursor)
    if token.key == "(":
        opening = cursor.advance()
        inner = expression(cursor)
        hint = messages.logic_hint(cursor.token)
        if cursor.token.key in COMPARISONS:
            hint = messages.GROUPED
        cursor.close(opening, ")", "an operator or `)`", hint)
        return inner
    if token.kind == "graph":
        cursor.stop("a graph pattern has no value", f"{messages.GRAPH}; a comparison with it is another condition")
    hint = messages.VALUE
    if token.key == "NOT" and cursor.previous.key in COMPARISONS and cursor.peek().text in messages.FOREIGN_NULLS:
        _refuse_null(cursor, cursor.peek())
    if token.key == "!":
        hint = messages.NEGATION
    elif token.kind in ("name", "variable"):
        hint = f'`{token.text}` is a keyword; as a string it is written `"{token.text}"`'
    elif token.key == "<":
        hint = "an IRI is written whole, `<http://www.w3.org/ns/sosa/Sensor>`, or with a prefix, `sosa:Sensor`"
    elif token.key == "?":
        hint = "a variable is written without `?`: `Lat`"
    elif cursor.previous.key == ",":
        hint = "something is missing after the `,`, or the `,` is one too many"
    cursor.fail("a value", hint)


def constant(cursor: Cursor) -> Constant:
    """A number, a duration, a string, an IRI or a time; the next token is one of them."""
    before = cursor.previous
    token = cursor.advance()
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
    """The microseconds of the unit that follows a number, 0 where none does."""
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
            cursor.stop(f"unknown unit `{token.text}`", hint)
    return 0


def _resolve(cursor: Cursor, token: Token, before: Token) -> Iri:
    prefix, _, local = token.text.partition(":")
    if prefix not in cursor.prefixes:
        hint = f"declare it before: `PREFIX {prefix}: <http://...>`"
        if before.key in ("(", ",") and prefix[:1].islower() and "-" not in prefix:
            hint += f"; an argument by name has a space after the colon: `{prefix}: {local}`"
        cursor.stop(f"unknown prefix `{prefix}:`", hint, token.span)
    return Iri(cursor.prefixes[prefix] + local)


def arguments(cursor: Cursor, colon: str = messages.ONLY_IN_PATTERNS) -> tuple[Expression, ...]:
    """`(x, y + 1)`, or `()`; `colon` is the hint where one is found."""
    opening = cursor.expect("(")
    if cursor.accept(")"):
        cursor.height = 1
        return ()
    found = [expression(cursor)]
    height = cursor.height
    while cursor.accept(","):
        found.append(expression(cursor))
        height = max(height, cursor.height)
    close_arguments(cursor, opening, colon)
    cursor.grow(height, opening)
    return tuple(found)


def close_arguments(cursor: Cursor, opening: Token, colon: str) -> None:
    token = cursor.token
    hint = None
    if token.key == ":-":
        hint = "a space after the colon: `temp: -3`"
    elif token.key == ":":
        hint = colon
    elif token.kind in _OPERANDS and token.key not in RESERVED:
        hint = "arguments are separated by `,`"
    elif token.key in COMPARISONS:
        hint = "conditions do not stand among arguments but follow `WHERE`: `smoke(R, T) WHERE T > 50`"
    cursor.close(opening, ")", "`,` or `)`", hint)


def conditions(cursor: Cursor) -> tuple[Condition, ...]:
    """One or more, separated by commas."""
    found = [_condition(cursor)]
    height = cursor.height
    while cursor.accept(","):
        found.append(_condition(cursor))
        height = max(height, cursor.height)
    cursor.height = height
    return tuple(found)


def _condition(cursor: Cursor) -> Condition:
    first = cursor.token
    if first.kind == "graph":
        return _graph(cursor, first, False)
    if first.key == "NOT":
        return _negated(cursor)
    if cursor.peek().kind == "graph" and first.kind in ("name", "variable"):
        _refuse_sparql(cursor, first)
    if first.kind == "end" or first.key in (".", ")", "]") or first.key in RESERVED:
        hint = messages.CONDITION
        if cursor.previous.key == ",":
            hint = f"something is missing after the `,`, or the `,` is one too many; {hint}"
        cursor.fail("a condition", hint)
    left = expression(cursor)
    operator = _comparison(cursor)
    if operator:
        start = cursor.token
        height = cursor.height
        right = expression(cursor)
        for token, side in ((first, left), (start, right)):
            if token.text in messages.FOREIGN_NULLS and side.span == token.span:
                _refuse_null(cursor, token)
        cursor.grow(max(height, cursor.height), start)
        _refuse_word_beside_number(cursor, first, left, right)
        _refuse_word_beside_number(cursor, start, right, left)
        if cursor.token.key in COMPARISONS:
            cursor.stop("a comparison has two sides", "write two conditions: `1 < X, X < 3` for `1 < X < 3`")
        return Comparison(operator, left, right, cursor.span(first))
    predicate = _as_predicate(cursor, first, left)
    if predicate:
        return predicate
    cursor.fail("a comparison", _comparison_hint(cursor))


def _refuse_null(cursor: Cursor, token: Token) -> NoReturn:
    cursor.stop(f"`{token.text}` is no value", messages.NULL, token.span)


def _comparison(cursor: Cursor) -> str | None:
    """The operator, passed, or None. `X <-5` is read as `X < -5`."""
    token = cursor.token
    if token.key == "<-":
        after = cursor.peek()
        if after.start != token.end:
            cursor.fail("a comparison or the end of the conditions", "less than a negative number is written `X < -5`")
        cursor.split()
        token = cursor.token
    if token.key not in COMPARISONS:
        return None
    cursor.advance()
    return COMPARISONS[token.key]


def _negated(cursor: Cursor) -> Predicate:
    first = cursor.advance()
    if cursor.token.kind == "graph":
        return _graph(cursor, first, True)
    if cursor.peek().kind == "graph" and cursor.token.kind in ("name", "variable"):
        _refuse_sparql(cursor, cursor.token)
    if cursor.token.kind != "name":
        cursor.fail("a predicate", messages.NEGATION)
    name = cursor.name("a predicate", messages.NEGATION)
    cursor.height = 1
    found = arguments(cursor) if cursor.token.key == "(" else ()
    if cursor.token.key in COMPARISONS or cursor.token.key in LEVELS:
        cursor.fail("`,` or the end of the conditions", messages.NEGATION)
    return Predicate(name.text, found, True, cursor.span(first))


def _as_predicate(cursor: Cursor, first: Token, read: Expression) -> Predicate | None:
    """The predicate that stands there alone: `linked(X, Y)`, or `raining` without arguments."""
    if first.kind != "name":
        return None
    if isinstance(read, Call) and read.function == first.text:
        if read.arguments and _position(read.arguments[0].span) == _position(first.span):
            return None  # `mod(X, 2) mod 3`
        return Predicate(read.function, read.arguments, False, read.span)
    if isinstance(read, Constant) and read.type == "string":
        return Predicate(first.text, (), False, read.span)
    return None


def _position(span: Span) -> tuple[int, int]:
    return (span.line, span.column)


def _comparison_hint(cursor: Cursor) -> str:
    token, previous = cursor.token, cursor.previous
    between = cursor.source.text[previous.end : token.start if token.kind != "end" else None]
    rest = between.splitlines()[0].strip(" \t") if between else ""
    if rest.startswith("%"):
        return "`%` starts a comment; the remainder of a division is written `X mod 2`"
    if previous.kind == "number" and _decimal_comma(cursor):
        return f"the decimal mark is a point: `{_decimal_comma(cursor)}`"
    word = cursor.peek() if token.key == "NOT" else token
    if word.text.upper() in messages.FOREIGN_TESTS:
        return messages.FOREIGN_TESTS[word.text.upper()]
    meant = messages.FOREIGN_COMPARISONS.get(token.key)
    if meant:
        return f"did you mean `{meant}`? {messages.CONDITION}"
    if token.key in BINARY_OPERATORS:
        return messages.logic_hint(token) or messages.BOTH
    return messages.CONDITION


def _decimal_comma(cursor: Cursor) -> str | None:
    """The number whose decimals the previous token is, `7.5` where `7,5` is written."""
    after = cursor.previous
    before = _WHOLE.search(cursor.source.text, max(0, after.start - 25), after.start)
    return f"{before[1]}.{after.text}" if before and after.text.isdigit() else None


def _graph(cursor: Cursor, first: Token, negated: bool) -> Predicate:
    """The pattern in braces that comes, a predicate of the rule's variables in it."""
    token = cursor.advance()
    cursor.height = 1
    if depth(token.text) > DEEPEST:
        cursor.stop(f"more than {DEEPEST} levels of nesting", "several patterns, separated by `,`", token.span)
    names = of_the_rule(token.text)
    graph = Graph(token.text, tuple(names), tuple(cursor.prefixes.items()), negated, token.span)
    variables = tuple(Variable(name, cursor.place(token.start + at, len(name))) for name, at in names.items())
    return Predicate(token.text, variables, negated, cursor.span(first), graph)


def _refuse_sparql(cursor: Cursor, word: Token) -> None:
    """`OPTIONAL { ... }`, `exists { ... }`: a word of SPARQL before the braces, where it has no place."""
    if word.text.upper() == "EXISTS":
        hint = "braces that are a condition ask whether there is such a thing: `{ ... }`, `not { ... }`"
        cursor.stop(f"`{word.text}` is not written before braces", hint, word.span)
    if word.text.upper() in messages.FOREIGN_GRAPHS:
        cursor.stop(f"`{word.text}` stands inside the braces", messages.INSIDE, word.span)


def _refuse_word(cursor: Cursor, first: Token, read: Expression) -> None:
    """A lower-case name cannot be calculated with: a variable was meant."""
    if first.kind == "name" and isinstance(read, Constant) and read.type == "string":
        hint = f"a variable starts with an upper-case letter: `{first.text[0].upper()}{first.text[1:]}`"
        if first.text in ("start", "end", "duration"):
            hint = f"that of the pattern is `{first.text}()`; {hint}"
        cursor.stop(f"`{first.text}` is a word, not a number", hint, first.span)


def _refuse_word_beside_number(cursor: Cursor, first: Token, read: Expression, other: Expression) -> None:
    """Nor is it compared with a number."""
    if isinstance(other, Call):
        numeric = other.function in LEVELS or other.function in ("mod", "**", "neg")
    else:
        numeric = isinstance(other, Constant) and other.type in ("int", "float", "duration", "time")
    if numeric:
        _refuse_word(cursor, first, read)
