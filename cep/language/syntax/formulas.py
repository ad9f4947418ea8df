"""Parser of formulas: `flag(X) WHILE monitors(X, Z) AND HISTORICALLY[0, 4 s] ONCE[0, 2 s] signal(Z).`

The grammar is in `cep.language.syntax.parser`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from cep.core.metric_operators import TEMPORAL, Place, words
from cep.language.syntax import ast
from cep.language.syntax.aggregates import group, result
from cep.language.syntax.conditions import conditions
from cep.language.syntax.cursor import Cursor
from cep.language.syntax.declarations import end_statement
from cep.language.syntax.durations import duration
from cep.language.syntax.patterns import event
from cep.language.syntax.terms import arguments, expression
from cep.language.syntax.tokens import Token
from cep.operators.conjunction import And
from cep.operators.disjunction import Or
from cep.operators.grouping import AggregatedFormula
from cep.operators.supports import FormulaAtom
from cep.operators.temporal import LastingFormula, MetricFormula, MetricInterval
from cep.operators.where import RestrictedFormula
from cep.plan.formula import Formula
from cep.rules.terms import Expression, Variable

RULE = "e.g. `adrift(V) WHILE slow(V) AND NOT anchored(V).`"
FORMULA = "a formula is made of fluents and events: `slow(V) AND ONCE[0, 10 min] signal(V)`"
INTERVAL = "write how far it reaches: `ONCE[0, 10 min]`, `SINCE(2 s, inf)`"
LASTING = "e.g. `slow(V) LASTING >= 10 min`"
UNARY, BINARY, LENGTHS = words(Place.BEFORE), words(Place.BETWEEN), words(Place.BEHIND)
BOXES = tuple(word for word, operator in TEMPORAL.items() if operator.of_head is not None)
"""The temporal operators that a rule may have before its head."""


def begins_boxes(cursor: Cursor) -> bool:
    """Return True if a temporal operator before the head of a rule follows."""
    return cursor.token.key in (*UNARY, *BINARY) and cursor.peek().key in ("[", "(") and _opens(cursor, 2)


def begins_while(cursor: Cursor) -> bool:
    """Return True if WHILE follows, with or without `= value` before it."""
    ahead = 0
    if cursor.token.key == "=":
        while cursor.peek(ahead).key not in ("WHILE", ".", "<-", ":-") and cursor.peek(ahead).kind != "end":
            ahead += 1
    return cursor.peek(ahead).key == "WHILE"


def boxed_rule(cursor: Cursor) -> ast.WhileRule:
    """Read `ALWAYS[0, 3 s] head WHILE formula.`"""
    first = cursor.token
    boxes: list[ast.Box] = []
    while (word := cursor.token).key in (*UNARY, *BINARY):
        if word.key not in BOXES:
            cursor.stop(f"a head cannot contain `{word.text}`", "use `ALWAYS[0, 3 s]`, for all times up to 3 s "
                        "later, or `HISTORICALLY[0, 3 s]`, for all times up to 3 s earlier")  # fmt: skip
        cursor.advance()
        boxes.append(ast.Box(word.key, _within(cursor)))
    begin = cursor.token
    name = cursor.name("a fluent", RULE)
    values = arguments(cursor) if cursor.token.key == "(" else ()
    return while_rule(cursor, first, begin, name, values, tuple(boxes))


def while_rule(
    cursor: Cursor,
    first: Token,
    begin: Token,
    name: Token,
    values: tuple[Expression, ...],
    boxes: tuple[ast.Box, ...] = (),
) -> ast.WhileRule:
    """Read the part of a rule after its head `name(values)`: `[= value] WHILE formula.`"""
    value = expression(cursor) if cursor.accept("=") else None
    head = cursor.span(begin)
    cursor.expect("WHILE", "`WHILE`", RULE)
    body = formula(cursor)
    token = cursor.token
    hint = FORMULA
    if token.key in (")", "]", "}"):
        hint = f"there is no opening bracket for this `{token.text}`"
    elif token.key in ("AND", "OR", *BINARY):
        hint = f"`{cursor.previous.text}` ends the formula"
    end_statement(cursor, "the rule", hint, "an operator or `.`")
    return ast.WhileRule(name.text, values, value, boxes, body, cursor.span(first), head)


def formula(cursor: Cursor) -> Formula:
    """Read formulas that are joined by AND or OR, then the clauses that apply to the whole formula."""
    cursor.enter()
    first = cursor.token
    left = _joined(cursor)
    while (step := cursor.token).key in _BEHIND:
        height = cursor.height
        cursor.advance()
        left = _BEHIND[step.key](cursor, step, first, left)
        cursor.grow(max(height, cursor.height), step)
        if cursor.token.key in ("AND", "OR", *BINARY):
            word, inner = cursor.token.text, f"(.. {step.text} ..)"
            cursor.stop(f"`{step.text}` applies to everything on its left, so `{word}` cannot follow it", f"use "
                        f"`{inner} {word} ..` or `.. {word} (.. {step.text} ..)`, whichever you mean")  # fmt: skip
    cursor.depth -= 1
    return left


def _joined(cursor: Cursor) -> Formula:
    first = cursor.token
    if first.key == "NOT":
        cursor.stop("nothing binds the variables of a NOT that begins a formula", "put it after a formula that "
                    "binds them: `slow(V) AND NOT anchored(V)`")  # fmt: skip
    parts, negated = [_since(cursor)], [False]
    height, word = cursor.height, cursor.token.key
    while cursor.token.key in ("AND", "OR"):
        if cursor.token.key != word:
            cursor.stop(
                "AND beside OR needs parentheses",
                "add parentheses: `(p AND q) OR r`, or `p AND (q OR r)`",
            )
        cursor.advance()
        denied = cursor.token.key == "NOT"
        if denied and word == "OR":
            cursor.stop("nothing binds the variables of an `OR NOT`", "use `OR (q AND NOT r)`")
        negated.append(denied)
        if denied:
            cursor.advance()
        parts.append(_since(cursor))
        height = max(height, cursor.height)
    if len(parts) == 1:
        return parts[0]
    cursor.grow(height, first)
    span = cursor.span(first)
    return Or(tuple(parts), span) if word == "OR" else And(tuple(parts), tuple(negated), span)


def _since(cursor: Cursor) -> Formula:
    first = cursor.token
    left = _unary(cursor)
    if (word := cursor.token).key not in BINARY:
        return left
    height = cursor.height
    cursor.advance()
    within = _within(cursor) if _opens(cursor) else MetricInterval()
    right = _unary(cursor)
    cursor.grow(max(height, cursor.height), first)
    if cursor.token.key in BINARY:
        cursor.stop(f"`{cursor.token.text}` beside `{word.text}` needs parentheses",
                    f"add parentheses: `(p {word.text} q) {cursor.token.text} r`")  # fmt: skip
    return MetricFormula(word.key, (left, right), within, cursor.span(first))


def _unary(cursor: Cursor) -> Formula:
    first = cursor.token
    if first.key in UNARY:
        cursor.enter()
        cursor.advance()
        within = _within(cursor) if _opens(cursor) else MetricInterval()
        inner = _unary(cursor)
        cursor.grow(cursor.height, first)
        cursor.depth -= 1
        return MetricFormula(first.key, (inner,), within, cursor.span(first))
    if first.key == "NOT":
        cursor.stop("NOT can stand only directly after an AND", "`slow(V) AND NOT anchored(V)`; inside an operator in "
                    "parentheses: `ONCE (p(X) AND NOT q(X))`")  # fmt: skip
    if first.key == "(":
        opening = cursor.advance()
        inside = formula(cursor)
        cursor.close(opening, ")", "an operator or `)`")
        return inside
    if first.key in ("BEGIN", "END") and cursor.peek().key == "OF":
        cursor.stop(f"`{first.text} OF` can be used only in event patterns", "derive an event, "
                    "`started(V) <- BEGIN OF moving(V).`, and use it in the formula")  # fmt: skip
    if first.key in (*BINARY, "AND", "OR", *LENGTHS):
        cursor.fail("a fluent or an event", FORMULA)
    if first.kind in ("number", "time", "string"):
        cursor.fail("a fluent or an event", FORMULA)
    read = event(cursor)
    height = cursor.height
    value = expression(cursor) if cursor.accept("=") else None
    cursor.height = max(height, cursor.height)
    return FormulaAtom(read.name, read.arguments, read.names, value, None, cursor.span(first))


def _where(cursor: Cursor, step: Token, first: Token, left: Formula) -> Formula:
    return RestrictedFormula(left, conditions(cursor), cursor.span(first))


def _event_within(cursor: Cursor, step: Token, first: Token, left: Formula) -> Formula:
    if not isinstance(left, FormulaAtom) or left.within is not None:
        cursor.stop(
            "in a formula, WITHIN limits the duration of one event: `(trip(V) WITHIN 1 h)`",
            f"to test how long a fluent holds, use LASTING, {LASTING}; to look back, use ONCE",
            step.span,
        )
    return replace(left, within=duration(cursor), span=cursor.span(first))


def _aggregate(cursor: Cursor, step: Token, first: Token, left: Formula) -> Formula:
    results = [result(cursor)]
    height = cursor.height
    while cursor.accept(","):
        results.append(result(cursor))
        height = max(height, cursor.height)
    if cursor.token.key == "OVER":
        cursor.stop(
            "in a formula, AGGREGATE uses all tuples that hold at one time, so it has no window",
            "`AGGREGATE N = count() BY A`; for all tuples of the last 10 min: `(ONCE[0, 10 min] p) AGGREGATE ..`",
        )
    by: list[Variable] = []
    if cursor.accept("BY"):
        by.append(group(cursor))
        while cursor.accept(","):
            by.append(group(cursor))
    cursor.height = height
    return AggregatedFormula(left, tuple(results), tuple(by), cursor.span(first))


def _long(cursor: Cursor, step: Token, first: Token, left: Formula) -> Formula:
    sign = cursor.token
    if sign.key not in (">=", ">"):
        hint = f"e.g. `{TEMPORAL[step.key].example}`"
        if sign.key in ("<", "<="):
            hint = f"for a shorter time, write that it holds and does not last: `p AND NOT (p {step.key} >= 10 min)`"
        elif sign.kind in ("number", "duration"):
            hint = f"`{step.key} >= {sign.text} ..`, or `>`"
        cursor.fail("`>=` or `>`", hint)
    cursor.advance()
    token = cursor.token
    least = _length(cursor)
    if least == 0 and sign.key == ">=":
        cursor.stop("this is always true: everything that holds lasts 0 s", LASTING, token.span)
    return LastingFormula(left, least, sign.key == ">", cursor.span(first), step.key)


_BEHIND: Mapping[str, Callable[[Cursor, Token, Token, Formula], Formula]] = {
    **dict.fromkeys(LENGTHS, _long),
    "WHERE": _where,
    "AGGREGATE": _aggregate,
    "WITHIN": _event_within,
}
"""The functions that read the clauses after a formula, by the first word of the clause."""


# --- how far an operator reaches ---


def _opens(cursor: Cursor, ahead: int = 0) -> bool:
    """Return True if the interval of an operator follows, such as `[0, 4 s]`. If it begins with `(`, look at the token
    after it, because a `(` can also open a formula."""
    if ahead == 0:
        if cursor.token.key == "[":
            return True
        if cursor.token.key != "(":
            return False
        ahead = 1
    token = cursor.peek(ahead)
    return token.kind in ("number", "duration") or token.key in ("-", "]") or token.text.lower() == "inf"


def _within(cursor: Cursor) -> MetricInterval:
    opening = cursor.token
    if opening.key not in ("[", "("):
        cursor.fail("`[`", INTERVAL)
    cursor.advance()
    if cursor.token.text.lower() == "inf":
        cursor.stop("this reaches infinitely far", INTERVAL)
    low = _length(cursor)
    cursor.expect(",", "`,`", INTERVAL)
    high: int | None = None
    if cursor.token.text.lower() == "inf":
        cursor.advance()
    else:
        high = _length(cursor)
    closing = cursor.token
    if closing.key not in ("]", ")"):
        cursor.fail("`]` or `)`", INTERVAL)
    cursor.advance()
    span = cursor.span(opening)
    bounds = opening.text + (closing.text if high is not None else ")")
    if high is not None and low > high:
        cursor.stop("the interval ends before it begins", f"put the shorter time first; {INTERVAL}", span)
    if high == low and bounds != "[]":
        text = cursor.source.text[opening.start : closing.end]
        cursor.stop(f"nothing lies in `{text}`", "a single time is `[2 s, 2 s]`", span)
    return MetricInterval(low, high, bounds)


def _length(cursor: Cursor) -> int:
    if cursor.token.key == "-":
        back, ahead = (
            [
                operator.word
                for operator in TEMPORAL.values()
                if operator.ahead == later and operator.word not in LENGTHS
            ]
            for later in (False, True)
        )
        cursor.stop(
            "a time cannot be negative here",
            f"{', '.join(back[:-1])} and {back[-1]} look back, {', '.join(ahead[:-1])} and {ahead[-1]} ahead",
        )
    return duration(cursor)
