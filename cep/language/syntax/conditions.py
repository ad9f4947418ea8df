"""Parser of the conditions after WHERE and `:-`: comparisons, predicates, graph patterns, alternatives and `not`."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from cep.core.errors import CepError, Span
from cep.core.literals import read_clock
from cep.core.prefixes import prefixes_of
from cep.language.syntax import messages
from cep.language.syntax.cursor import Cursor
from cep.language.syntax.terms import (
    COMPARISONS,
    LEVELS,
    called,
    expression,
    refuse_null,
    refuse_word_beside_number,
)
from cep.language.syntax.tokens import Token
from cep.rules.graph_text import DEEPEST, depth, of_the_rule
from cep.rules.keywords import BINARY_OPERATORS, RESERVED
from cep.rules.printing import print_expression
from cep.rules.terms import (
    Call,
    Comparison,
    Condition,
    Constant,
    Disjunction,
    Expression,
    Graph,
    Predicate,
    Variable,
    conjunction,
)

_WHOLE = re.compile(r"(?<![\w.])([0-9]+),\Z", re.ASCII)
_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_INSIDE = frozenset((*COMPARISONS, "<-", ",", "AND", "OR", "NOT", "IN", "BETWEEN"))
"""Tokens that occur between parentheses only if the parentheses contain conditions."""


def conditions(cursor: Cursor) -> tuple[Condition, ...]:
    return _conjunction(cursor, (",",))


def test(cursor: Cursor) -> Call:
    """Read a condition that is used as a value: `X > 3 and Y < 2 or late(X)`, up to a comma."""
    first = cursor.token
    parts = _alternatives(cursor, ("AND",))
    span = cursor.span(first)
    call = conjunction(parts, span)
    if call is None:
        hint = "bind its variables in the WHERE first, or write alternatives: `({ ... }, X = 1 or X = 2)`"
        cursor.stop("an `if` cannot contain a graph pattern", hint, span)
    return call


def _conjunction(cursor: Cursor, separators: Collection[str]) -> tuple[Condition, ...]:
    parts = [*_condition(cursor)]
    height = cursor.height
    while cursor.token.key in separators:
        cursor.advance()
        parts += _condition(cursor)
        height = max(height, cursor.height)
    cursor.height = height
    return tuple(parts)


def _alternatives(cursor: Cursor, separators: Collection[str]) -> tuple[Condition, ...]:
    """Read one or more conjunctions that are separated by `or`: `X > 3, linked(X, Y) or X < 1`.

    `separators`: the tokens that separate the conditions of a conjunction. They bind tighter than `or`.
    """
    first = cursor.token
    parts = [_conjunction(cursor, separators)]
    height = cursor.height
    while cursor.accept("OR"):
        parts.append(_conjunction(cursor, separators))
        height = max(height, cursor.height)
    if len(parts) > 1:
        cursor.grow(height, first)
    return _either(parts, cursor.span(first))


def _either(alternatives: list[tuple[Condition, ...]], span: Span) -> tuple[Condition, ...]:
    """Return the disjunction of `alternatives`, each of which is a conjunction. If an alternative is itself a
    disjunction, its alternatives become alternatives of the result."""
    flat: list[tuple[Condition, ...]] = []
    for alternative in alternatives:
        if len(alternative) == 1 and isinstance(alternative[0], Disjunction):
            flat += alternative[0].alternatives
        else:
            flat.append(alternative)
    return flat[0] if len(flat) == 1 else (Disjunction(tuple(flat), (), span),)


def _opposite(condition: Condition) -> tuple[Condition, ...]:
    """Return the negation of a condition. The result is correct only if no value in the condition is missing."""
    match condition:
        case Comparison(operator):
            return (replace(condition, operator=_OPPOSITE[operator]),)
        case Predicate(graph=graph):
            denied = None if graph is None else replace(graph, negated=not graph.negated)
            return (replace(condition, negated=not condition.negated, graph=denied),)
        case Disjunction(alternatives):
            return tuple(opposite for inside in alternatives for opposite in _none(inside, condition.span))


def _none(conditions: tuple[Condition, ...], span: Span) -> tuple[Condition, ...]:
    return _either([_opposite(condition) for condition in conditions], span)


def _condition(cursor: Cursor) -> tuple[Condition, ...]:
    first = cursor.token
    if first.kind == "graph":
        return (_graph(cursor, first, False),)
    if first.key == "NOT":
        return _negated(cursor)
    if first.key == "(" and _holds_conditions(cursor):
        return _grouped(cursor)
    if cursor.peek().kind == "graph" and first.kind in ("name", "variable"):
        _refuse_sparql(cursor, first)
    if first.kind == "end" or first.key in (".", ")", "]") or first.key in RESERVED:
        hint = messages.CONDITION
        if cursor.previous.key == ",":
            hint = f"something is missing after the `,`, or there is one `,` too many; {hint}"
        cursor.fail("a condition", hint)
    left = expression(cursor)
    operator = _comparison(cursor)
    if operator:
        return (_compared(cursor, first, left, operator),)
    denied = cursor.token.key == "NOT" and cursor.peek().key in ("IN", "BETWEEN")
    word = cursor.peek() if denied else cursor.token
    if word.key in ("IN", "BETWEEN"):
        cursor.advance()
        if denied:
            cursor.advance()
        return (_among if word.key == "IN" else _between)(cursor, first, left, denied)
    predicate = _as_predicate(first, left)
    if predicate:
        return (predicate,)
    hint = _comparison_hint(cursor)
    if isinstance(left, Variable) and _ends(cursor.token) and hint in (messages.CONDITION, messages.BOTH):
        hint = f"{messages.truth(left.name, 'true')}; {hint}"
    cursor.fail("a comparison", hint)


def _compared(cursor: Cursor, first: Token, left: Expression, operator: str) -> Comparison:
    start = cursor.token
    height = cursor.height
    right = expression(cursor)
    for token, side in ((first, left), (start, right)):
        if token.text in messages.FOREIGN_NULLS and side.span == token.span:
            refuse_null(cursor, token)
    cursor.grow(max(height, cursor.height), start)
    refuse_word_beside_number(cursor, first, left, right)
    refuse_word_beside_number(cursor, start, right, left)
    if cursor.token.key in COMPARISONS:
        cursor.stop("a comparison has two sides", "write two conditions: `1 < X, X < 3` for `1 < X < 3`")
    return Comparison(operator, left, right, cursor.span(first))


def _among(cursor: Cursor, first: Token, left: Expression, denied: bool) -> tuple[Condition, ...]:
    """Read `X in [1, 2, 3]`, which means that X equals one of the values."""
    height = cursor.height
    opening = cursor.expect("[", "`[`", messages.LIST)
    if cursor.token.key == "]":
        cursor.fail("a value", f"an empty list contains no value; {messages.LIST}")
    values: list[Expression] = []
    while True:
        start = cursor.token
        values.append(expression(cursor))
        height = max(height, cursor.height)
        refuse_word_beside_number(cursor, first, left, values[-1])
        refuse_word_beside_number(cursor, start, values[-1], left)
        if not cursor.accept(","):
            break
    cursor.close(opening, "]", "`,` or `]`", messages.LIST)
    cursor.grow(height + 1, opening)
    span = cursor.span(first)
    if denied:
        return tuple(Comparison("!=", left, value, span) for value in values)
    return _either([(Comparison("=", left, value, span),) for value in values], span)


def _between(cursor: Cursor, first: Token, left: Expression, denied: bool) -> tuple[Condition, ...]:
    """Read `X between 1 and 3`. Both ends are included."""
    height = cursor.height
    start = cursor.token
    low = expression(cursor)
    cursor.expect("AND", "`and` before the upper end", messages.BETWEEN)
    height = max(height, cursor.height)
    second = cursor.token
    high = expression(cursor)
    for token, end in ((start, low), (second, high)):
        refuse_word_beside_number(cursor, first, left, end)
        refuse_word_beside_number(cursor, token, end, left)
    cursor.grow(max(height, cursor.height) + 1, start)
    span = cursor.span(first)
    _refuse_reversed(cursor, left, low, high, span)
    if denied:
        return _either([(Comparison("<", left, low, span),), (Comparison(">", left, high, span),)], span)
    return Comparison(">=", left, low, span), Comparison("<=", left, high, span)


def _comparison(cursor: Cursor) -> str | None:
    """Read a comparison operator, or return None if there is none. `X <-5` is read as `X < -5`."""
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


def _refuse_reversed(cursor: Cursor, left: Expression, low: Expression, high: Expression, span: Span) -> None:
    """Refuse `between` if its first constant is greater than the second. This includes times of day across midnight."""
    ends = (_constant(low), _constant(high))
    if ends[0] is None or ends[1] is None or ends[0][0] != ends[1][0] or ends[0][1] <= ends[1][1]:
        return
    value, lower, other = (print_expression(expression) for expression in (left, low, high))
    hint = f"put the smaller value first: `{value} between {other} and {lower}`"
    if ends[0][0] == "clock":
        hint = f"across midnight, write `({value} >= {lower} or {value} < {other})`"
    cursor.stop(f"nothing is between {lower} and {other}", hint, span)


def _constant(expression: Expression) -> tuple[str, float] | None:
    """Return the kind and the value of a constant number, time, duration or time of day. None for others."""
    match expression:
        case Constant(bool()):
            return None
        case Constant(int() | float() as value, type):
            return "number" if type in ("int", "float") else type, value
        case Call("time", (Constant(str() as text, "string"),)):
            try:
                return "clock", read_clock(text)
            except CepError:
                return None  # type checking refuses it, with its place
    return None


def _negated(cursor: Cursor) -> tuple[Condition, ...]:
    first = cursor.advance()
    if cursor.token.kind == "graph":
        return (_graph(cursor, first, True),)
    if cursor.token.key == "(":
        inside = _grouped(cursor)
        return _none(inside, cursor.span(first))
    if cursor.token.key == "NOT":
        cursor.stop("`not` is written twice", "leave out both: they cancel")
    if cursor.peek().kind == "graph" and cursor.token.kind in ("name", "variable"):
        _refuse_sparql(cursor, cursor.token)
    if cursor.token.kind != "name":
        alone = cursor.token.kind == "variable" and _ends(cursor.peek())
        denied = messages.truth(cursor.token.text, "false") + "; " if alone else ""
        cursor.fail("a predicate or `(`", f"{denied}{messages.NEGATION}")
    name = cursor.name("a predicate", messages.NEGATION)
    cursor.height = 1
    arguments = called(cursor, name) if cursor.token.key == "(" else ()
    if cursor.token.key in COMPARISONS or cursor.token.key in LEVELS or cursor.token.key in ("IN", "BETWEEN"):
        cursor.fail("`,` or the end of the conditions", messages.NEGATION)
    return (Predicate(name.text, arguments, True, cursor.span(first)),)


def _holds_conditions(cursor: Cursor) -> bool:
    """Return True if the next parenthesis contains conditions, False if it contains a value."""
    open_brackets, ahead = 0, 0
    while (token := cursor.peek(ahead)).kind != "end":
        if token.key in ("(", "["):
            open_brackets += 1
        elif token.key in (")", "]"):
            open_brackets -= 1
            if not open_brackets:
                break
        elif open_brackets == 1 and (token.kind == "graph" or token.key in _INSIDE):
            return True
        ahead += 1
    after = cursor.peek(ahead + 1).key
    if after == "NOT":
        after = cursor.peek(ahead + 2).key
    return token.kind != "end" and after not in (*COMPARISONS, *LEVELS, "**", "<-", "IN", "BETWEEN")


def _grouped(cursor: Cursor) -> tuple[Condition, ...]:
    """Read `(X > 3 or linked(X, Y), Y < 2)`."""
    cursor.enter()
    opening = cursor.advance()
    inside = _alternatives(cursor, (",", "AND"))
    cursor.close(opening, ")", "`,`, `or` or `)`", messages.logic_hint(cursor.token))
    cursor.depth -= 1
    return inside


def _as_predicate(first: Token, read: Expression) -> Predicate | None:
    """Return an expression as a predicate, or None if it is not one. `linked(X, Y)` and `raining` are predicates."""
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


def _ends(token: Token) -> bool:
    return token.kind == "end" or token.key in (".", ",", ")", "]") or token.key in RESERVED


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
    """Return the number as it should be written, `7.5`, if the program contains a number with a decimal comma, `7,5`.
    Otherwise return None."""
    after = cursor.previous
    before = _WHOLE.search(cursor.source.text, max(0, after.start - 25), after.start)
    return f"{before[1]}.{after.text}" if before and after.text.isdigit() else None


def _graph(cursor: Cursor, first: Token, negated: bool) -> Predicate:
    token = cursor.advance()
    cursor.height = 1
    if depth(token.text) > DEEPEST:
        cursor.stop(f"more than {DEEPEST} levels of nesting", "write several patterns, separated by `,`", token.span)
    names = of_the_rule(token.text)
    graph = Graph(token.text, tuple(names), prefixes_of(token.text, cursor.prefixes), negated, token.span)
    variables = tuple(Variable(name, cursor.place(token.start + offset, len(name))) for name, offset in names.items())
    return Predicate(token.text, variables, negated, cursor.span(first), graph)


def _refuse_sparql(cursor: Cursor, word: Token) -> None:
    """Refuse a word of SPARQL before braces: `OPTIONAL { ... }`, `exists { ... }`."""
    if word.text.upper() == "EXISTS":
        hint = "a pattern in braces holds if it has a match: `{ ... }`, `not { ... }`"
        cursor.stop(f"`{word.text}` cannot stand before braces", hint, word.span)
    if word.text.upper() in messages.FOREIGN_GRAPHS:
        cursor.stop(f"`{word.text}` belongs inside the braces", messages.INSIDE, word.span)
