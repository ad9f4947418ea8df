"""Reader of Laser's rule strings: `h(X) :- time_win(10, 0, 1, diamond(p(X))) and tuple_win(3, @(T, q(X)))`.

    program = { rule }, one per line, with or without a final `.`; a rule continues after `and`, and on a line that
              begins with `and`
    rule    = head [ ":-" formula { "and" formula } ]
    head    = atom | "@" "(" tick "," atom ")"
    formula = "not" "(" formula ")" | window | asked | "COMP" "(" comparison "," value "," value ")"
            | "MATH" "(" operator "," VARIABLE "," value "," value ")"
    window  = ( "time_win" | "tuple_win" ) "(" size [ "," ahead "," step ] "," asked ")"
    asked   = "not" "(" asked ")" | ( "diamond" | "box" ) "(" asked ")" | "@" "(" tick "," atom ")" | atom

A formula without a window reaches back to the first tick. `diamond(not(p))` is `not(box(p))`. Declarations are written
as in `.lars` files. Source: Bazoobandi, Beck and Urbani, Expressive Stream Reasoning with Laser (2017).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from cep.core.errors import Source
from cep.core.literals import SECOND
from cep.core.suggest import SURE, nearest
from cep.language.dialects.lars.ast import (
    AT,
    EVERY,
    NOW,
    SOME,
    BodyLiteral,
    LarsAtom,
    LarsLiteral,
    LarsProgram,
    LarsRule,
    TimeWindow,
    TupleWindow,
    Window,
)
from cep.language.dialects.lars.reader import statements, tick_of
from cep.language.dialects.lars.safety import refuse_unsafe
from cep.language.dialects.lars.terms import COMPARISONS, FUNCTIONS, arguments, expression, operand, quotient
from cep.language.dialects.lars.tokens import LarsCursor, LarsToken
from cep.language.dialects.lars.windows import before_now, count, longest, whole_ticks
from cep.rules.parameters import Parameters
from cep.rules.terms import Call, Comparison, Constant, Expression

F = TypeVar("F")

WINDOWS = ("time_win", "tuple_win")
ASKED = {"diamond": SOME, "box": EVERY}
RULE = "a rule is `h(X) :- time_win(10, 0, 1, diamond(p(X))) and q(X)`"
TIME_WIN = "`time_win(10, 0, 1, diamond(p(X)))` looks ten ticks back and none ahead, at every tick"
TUPLE_WIN = "`tuple_win(3, diamond(p(X)))` is true if `p(X)` is among the last three atoms"
COMP = "`COMP(>=, V, 18)`"
MATH = "`MATH(+, S, T, 1)`, which is S = T + 1"


def read_laser(source: Source, tick: int = SECOND, *, counted: bool = False) -> LarsProgram:
    """Read a program and check that its variables have values. Raises CepError with all mistakes.

    `tick`: the length of a tick in microseconds. `counted`: True if a window `n` has n ticks, False if it has n + 1.
    """
    program = parsed_laser(source, tick, counted)
    refuse_unsafe(program, source)
    return program


def parsed_laser(source: Source, tick: int, counted: bool = False, parameters: Parameters | None = None) -> LarsProgram:
    """Read a program without checking that its variables have values. Raises CepError if it has mistakes."""
    return statements(LarsCursor(source, tick, counted, parameters), _rule, _skip_rule)


def _skip_rule(cursor: LarsCursor, _: int) -> None:
    while cursor.token.kind not in ("end", "declaration"):
        if cursor.on_new_line() and not cursor.sees("and") and cursor.previous.text not in ("and", ":-", "("):
            return
        cursor.advance()


def _rule(cursor: LarsCursor) -> LarsRule:
    first = cursor.token
    if cursor.sees(*WINDOWS, *ASKED):
        cursor.stop(f"a head cannot contain `{cursor.token.text}`", "a head is `h(X)`, or `@(T, h(X))` at another tick")
    instant, head = _at(cursor) if cursor.sees("@") else (None, _atom(cursor))
    body: list[BodyLiteral] = []
    if cursor.accept(":-"):
        body.append(_formula(cursor))
        while cursor.accept("and", "&&", ","):
            body.append(_formula(cursor))
    span = cursor.span(first)
    if not cursor.accept(".") and cursor.token.kind != "end" and not cursor.on_new_line():
        hint = "write one rule per line, without quotation marks"
        if cursor.sees("or", "|", ";"):
            hint = "write two rules for `or`"
        elif cursor.sees(":-") and len(body) > 1:
            hint = "the rule above is incomplete: remove its final `and`, or write a condition after it"
        cursor.fail("`and` or the end of the rule", hint if body else RULE)
    return LarsRule(head, instant, tuple(body), span)


def _atom(cursor: LarsCursor) -> LarsAtom:
    token = cursor.token
    if token.kind == "variable":
        cursor.fail("an atom", f"predicates begin with a lower-case letter: `{token.text.lower()}`")
    if token.kind == "quoted":
        cursor.stop("a predicate has no quotation marks", "use only letters, digits and `_` in its name")
    if token.kind != "name":
        cursor.fail("an atom", RULE)
    if token.text in (*WINDOWS, *ASKED) and cursor.peek().text == "(":
        cursor.stop(
            f"`{token.text}` cannot be inside another window or operator",
            f"put an operator in a window, and an atom in the operator: {RULE}",
        )
    cursor.advance()
    return LarsAtom(token.text, arguments(cursor), cursor.span(token))


def _at(cursor: LarsCursor) -> tuple[Expression, LarsAtom]:
    """Read `@(T, p(X))`."""
    cursor.expect("@")
    cursor.expect("(", "`@(T, p(X))`")
    instant = tick_of(cursor)
    cursor.expect(",", "`@(T, p(X))`")
    if cursor.sees("not"):
        cursor.stop("`@` cannot contain `not`", "put `not` outside, `not(@(T, p(X)))`, and bind T in another condition")
    atom = _atom(cursor)
    cursor.expect(")", "`@(T, p(X))`")
    return instant, atom


def _formula(cursor: LarsCursor) -> BodyLiteral:
    first = cursor.token
    if first.text in ("COMP", "MATH") and cursor.peek().text == "(":
        cursor.advance()
        return _comparison(cursor, first) if first.text == "COMP" else _calculation(cursor, first)
    if cursor.sees("not"):
        inner = _denied(cursor, _formula)
        if not isinstance(inner, LarsLiteral):
            cursor.stop("`not` needs an atom or a window", "the opposite of COMP(<, X, 3) is COMP(>=, X, 3)",
                        cursor.span(first))  # fmt: skip
        return replace(inner, negated=not inner.negated, span=cursor.span(first))
    if cursor.sees(*WINDOWS) and cursor.peek().text == "(":
        return replace(_windowed(cursor), span=cursor.span(first))
    literal = _asked(cursor)
    if literal.modality in (SOME, EVERY):
        literal = replace(literal, window=TimeWindow(longest(cursor.tick), 1, cursor.span(first)))
    return replace(literal, span=cursor.span(first))


def _denied(cursor: LarsCursor, reader: Callable[[LarsCursor], F]) -> F:
    cursor.expect("not")
    cursor.depth += 1
    if cursor.depth > 100:
        cursor.stop("more than 100 levels of nesting", "remove each `not` of a `not`: they cancel")
    opened = cursor.accept("(")
    inner = reader(cursor)
    if opened:
        cursor.expect(")")
    cursor.depth -= 1
    return inner


def _asked(cursor: LarsCursor) -> LarsLiteral:
    """Read a literal. A `not` inside an operator turns ◇ into □, and □ into ◇."""
    if cursor.sees("not"):
        inner = _denied(cursor, _asked)
        return replace(inner, negated=not inner.negated)
    if cursor.sees("@"):
        instant, atom = _at(cursor)
        return LarsLiteral(atom, AT, instant)
    if cursor.sees(*ASKED) and cursor.peek().text == "(":
        modality = ASKED[cursor.advance().text]
        cursor.expect("(")
        inner = _asked(cursor)
        if inner.modality != NOW:
            cursor.stop("an atom can have only one operator", "`diamond(p(X))`, `box(p(X))` or `@(T, p(X))`")
        cursor.expect(")", "`diamond(p(X))`")
        if inner.negated:
            modality = EVERY if modality == SOME else SOME
        return replace(inner, modality=modality)
    return LarsLiteral(_atom(cursor))


def _windowed(cursor: LarsCursor) -> LarsLiteral:
    """Read `time_win(10, 0, 1, diamond(p(X)))`."""
    first = cursor.advance()
    timed = first.text == "time_win"
    hint = TIME_WIN if timed else TUPLE_WIN
    cursor.expect("(")
    size = _number(cursor, hint)
    ahead = step = None
    if cursor.token.kind == "number":
        ahead = _number(cursor, hint)
        step = _number(cursor, hint)
    window: Window
    if ahead is not None and ahead.text != "0":
        span = cursor.place(ahead.start, ahead.end)
        cursor.stop("this window looks ahead", f"later atoms are not known yet; {hint}", span)
    if timed:
        ticks = before_now(cursor, whole_ticks(cursor, size, hint), size)
        window = TimeWindow(ticks, 1 if step is None else whole_ticks(cursor, step, hint))
        if window.step < 1:
            cursor.stop("a step must have at least one tick", TIME_WIN, cursor.span(first))
    else:
        window = TupleWindow(count(cursor, size, hint))
        if step is not None and step.text != "1":
            cursor.stop("a window of tuples cannot have a step", TUPLE_WIN, cursor.place(step.start, step.end))
    asked = cursor.token
    if cursor.sees(*WINDOWS):
        cursor.stop("a window in a window", "write a rule of its own for the inner one")
    if asked.text not in ASKED and cursor.peek().text == "(" and (meant := nearest(asked.text, ASKED, SURE)):
        cursor.stop(f"unknown `{asked.text}`", f"did you mean `{meant}`?", cursor.place(asked.start, asked.end))
    literal = _asked(cursor)
    cursor.expect(")", hint)
    window = replace(window, span=cursor.span(first))
    if literal.modality != NOW:
        return replace(literal, window=window)
    if isinstance(window, TimeWindow) and window.step == 1:
        return literal  # each such window contains the current tick
    where = cursor.span(asked)
    cursor.stop("the operator of the window is missing", f"use `diamond(..)`, `box(..)` or `@(T, ..)`; {hint}", where)


def _number(cursor: LarsCursor, hint: str) -> LarsToken:
    if cursor.token.kind != "number":
        cursor.fail("a number", hint)
    token = cursor.advance()
    cursor.expect(",", hint)
    return token


def _comparison(cursor: LarsCursor, first: LarsToken) -> Comparison:
    cursor.expect("(")
    token = cursor.token
    if token.text not in COMPARISONS:
        cursor.fail("a comparison", COMP)
    cursor.advance()
    cursor.expect(",", COMP)
    left = expression(cursor)
    cursor.expect(",", COMP)
    right = expression(cursor)
    cursor.expect(")", COMP)
    return Comparison(COMPARISONS[token.text], left, right, cursor.span(first))


def _calculation(cursor: LarsCursor, first: LarsToken) -> Comparison:
    cursor.expect("(")
    token = cursor.token
    if token.text not in ("+", "-", "*", "/"):
        cursor.fail("one of `+ - * /`", MATH)
    cursor.advance()
    cursor.expect(",", MATH)
    result = operand(cursor)
    cursor.expect(",", MATH)
    left = expression(cursor)
    cursor.expect(",", MATH)
    right = expression(cursor)
    cursor.expect(")", MATH)
    for side in (left, right):
        if isinstance(side, Constant) and side.type not in ("int", "float"):
            cursor.stop(f"`{side.value}` is not a number", MATH, side.span)
    function = FUNCTIONS.get(token.text) or quotient(left, right)
    return Comparison("=", result, Call(function, (left, right), cursor.span(first)), cursor.span(first))
