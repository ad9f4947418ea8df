"""Parser of event patterns: events, operators, and the clauses WHERE, WITHIN, POLICY and AGGREGATE after a pattern.

    pattern     = repeated { OPERATOR repeated | "UNLESS" repeated | postfix }
    OPERATOR    = "SEQ" [ "[" duration "," duration "]" ] | another of BINARY_OPERATORS (cep/rules/keywords.py)
    repeated    = primary { "TIMES" number }
    primary     = event [ "=" expression ] | ( "BEGIN" | "END" ) "OF" event [ "=" expression ]
                | [ "-" ] number | TIME | "(" pattern ")" [ "." duration ]
                | "NOT" "(" pattern ")" "." "[" pattern "," pattern "]"
    postfix     = "WHERE" conditions | "WITHIN" duration | "POLICY" choice
                | "AGGREGATE" result { "," result } "OVER" window [ "BY" VARIABLE { "," VARIABLE } ]

Every operator and postfix applies to the whole pattern to its left. The next WITHIN after an UNLESS belongs to the
UNLESS. AND and OR directly after a WHERE are refused, because a condition was probably meant. The dot of `(p).3` has no
spaces around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from cep.core.errors import NOWHERE, Span
from cep.core.literals import read_ticks, read_time
from cep.language.syntax import ast, messages
from cep.language.syntax.aggregates import Aggregate, aggregate
from cep.language.syntax.conditions import conditions
from cep.language.syntax.cursor import Cursor
from cep.language.syntax.durations import duration, whole_number
from cep.language.syntax.terms import arguments, close_arguments, expression, unit_after_number
from cep.language.syntax.tokens import Token
from cep.operators.pair import Pair
from cep.operators.unless import Unless
from cep.plan.pattern import Pattern
from cep.rules import pattern_text
from cep.rules.keywords import BINARY_OPERATORS, OPERATORS, POSTFIXES, RESERVED
from cep.rules.pattern_text import Text
from cep.rules.terms import Constant, Expression, PolicyChoice

_STEPS = frozenset((*OPERATORS, *POSTFIXES))
POLICIES = ("unrestricted", "recent", "chronological")


@dataclass(frozen=True, slots=True)
class Not(ast.PatternTree):
    """`NOT(absent).[left, right]`."""

    absent: ast.PatternTree
    left: ast.PatternTree
    right: ast.PatternTree
    span: Span = field(default=NOWHERE, compare=False)

    def text(self) -> Text:
        return pattern_text.negated(self.absent.text(), self.left.text(), self.right.text())

    def lowered(self, parts: Sequence[Pattern], policy: PolicyChoice, within: int | None) -> Pattern:
        absent, left, right = parts
        return Pair("SEQ", left, right, policy, within, absent, self.span)


@dataclass(frozen=True, slots=True)
class UnlessTree(ast.PatternTree):
    """`left UNLESS absent WITHIN duration`. `duration` is in microseconds."""

    left: ast.PatternTree
    absent: ast.PatternTree
    duration: int
    span: Span = field(default=NOWHERE, compare=False)

    def text(self) -> Text:
        return pattern_text.unless(self.left.text(), self.absent.text(), self.duration)

    def lowered(self, parts: Sequence[Pattern], policy: PolicyChoice, within: int | None) -> Pattern:
        left, absent = parts
        return Unless(left, absent, self.duration, within, self.span)


@dataclass(frozen=True, slots=True)
class Times(ast.PatternTree):
    """`pattern TIMES count`, count >= 1."""

    pattern: ast.PatternTree
    count: int
    span: Span = field(default=NOWHERE, compare=False)

    def text(self) -> Text:
        return pattern_text.times(self.pattern.text(), self.count)


def pattern(cursor: Cursor) -> ast.PatternTree:
    """Read a pattern. Each operator and each clause applies to the whole pattern to its left, because all have the same
    precedence."""
    cursor.enter()
    first = cursor.token
    left = _repeated(cursor)
    after_where = False
    waiting: UnlessTree | None = None  # an UNLESS whose WITHIN has not been read yet
    while (step := cursor.token).key in _STEPS:
        height = cursor.height
        if step.key in ("AND", "OR") and after_where:
            _refuse_logic(cursor)
        after_where = step.key == "WHERE"
        if step.key == "UNLESS" and waiting:
            cursor.fail("`WITHIN`", messages.UNLESS)
        cursor.advance()
        if step.key == "UNLESS":
            left = waiting = UnlessTree(left, _repeated(cursor), 0, cursor.span(first))
        elif step.key in BINARY_OPERATORS:
            gap = _gap(cursor) if step.key == "SEQ" and cursor.token.key == "[" else None
            left = ast.Binary(step.key, left, _repeated(cursor), cursor.span(first), gap)
        elif step.key == "WITHIN" and waiting:
            ticks = duration(cursor)
            met = replace(waiting, duration=ticks, span=cursor.span(first) if left is waiting else waiting.span)
            left = _with_deadline(left, waiting, met)
            waiting = None
            continue  # no node was added
        else:
            left = _postfixed(cursor, step, first, left)
        cursor.grow(max(height, cursor.height), step)
    if waiting:
        cursor.fail("`WITHIN`", messages.UNLESS)
    cursor.depth -= 1
    return left


def _gap(cursor: Cursor) -> tuple[int, int]:
    """Read the gap `[g, h]` after SEQ. Return g and h in microseconds."""
    opening = cursor.advance()
    low = duration(cursor)
    cursor.expect(",", "`,`", messages.GAP)
    high = duration(cursor)
    cursor.close(opening, "]", "`]`", messages.GAP)
    if high < low or high == 0:
        after = "the right event starts strictly after the left one ends, e.g. `SEQ[0 s, 5 min]`"
        hint = "write the shorter time first, e.g. `SEQ[10 s, 5 min]`" if high else after
        cursor.stop("no time between the two events lies within these bounds", hint, cursor.span(opening))
    return low, high


def _with_deadline(left: ast.PatternTree, waiting: UnlessTree, met: UnlessTree) -> ast.PatternTree:
    if left is waiting:
        return met
    if isinstance(left, ast.Binary):
        return replace(left, left=_with_deadline(left.left, waiting, met))
    assert isinstance(left, (ast.Where, ast.Policy, Aggregate)), "nothing else was put on top of it"
    return replace(left, pattern=_with_deadline(left.pattern, waiting, met))


def _postfixed(cursor: Cursor, postfix: Token, first: Token, left: ast.PatternTree) -> ast.PatternTree:
    match postfix.key:
        case "WHERE":
            tests = conditions(cursor)
            return ast.Where(left, tests, cursor.span(first))
        case "WITHIN":
            ticks = duration(cursor)
            return ast.Within(left, ticks, cursor.span(first))
        case "POLICY":
            chosen = policy_choice(cursor)
            return ast.Policy(left, chosen, cursor.span(first))
        case _:
            return aggregate(cursor, first, left)


def _refuse_logic(cursor: Cursor) -> NoReturn:
    """Refuse AND or OR after the conditions of a WHERE: `a WHERE X > 1 AND linked(X)`. A condition was probably meant,
    but AND would join an event."""
    word = cursor.token.text
    logic = messages.logic_hint(cursor.token)
    hint = f"{logic}; to join another event, write `(smoke(R, T) WHERE T > 50) {word} heat(R)`"
    cursor.fail("`,` or the end of the conditions", hint)


def _repeated(cursor: Cursor) -> ast.PatternTree:
    first = cursor.token
    read = _primary(cursor)
    while cursor.token.key == "TIMES":
        height = cursor.height
        times = cursor.advance()
        count = whole_number(cursor, "`TIMES`", messages.TIMES)
        cursor.grow(height, times)
        read = Times(read, count, cursor.span(first))
    return read


def _primary(cursor: Cursor) -> ast.PatternTree:
    first = cursor.token
    if first.key == "(":
        return _parenthesised(cursor)
    if first.key == "NOT":
        return _absence(cursor)
    if first.kind in ("number", "time") or (first.key == "-" and cursor.peek().kind == "number"):
        return _time_point(cursor)
    if first.key in ("BEGIN", "END") and cursor.peek().key == "OF":
        cursor.advance()
        cursor.advance()
        return replace(occurrence(cursor), edge=first.key, span=cursor.span(first))
    return occurrence(cursor)


def occurrence(cursor: Cursor) -> ast.EventPattern:
    """Read an event, or a fluent with its value: `location(P) = X`."""
    first = cursor.token
    read = event(cursor)
    if not cursor.accept("="):
        return read
    value = expression(cursor)
    return replace(read, value=value, span=cursor.span(first))


def _parenthesised(cursor: Cursor) -> ast.PatternTree:
    """Read `(p)` or `(p).3`. In the notation of the ETALIS paper, `(p).3` is `p WITHIN 3`. The dot has no spaces around
    it."""
    opening = cursor.advance()
    inner = pattern(cursor)
    cursor.close(opening, ")", "an operator or `)`", condition_hint(cursor, inner) or join_hint(cursor))
    dot, number = cursor.token, cursor.peek()
    if dot.key != "." or number.kind not in ("number", "duration") or number.start != dot.end or not cursor.adjoins():
        return inner
    cursor.advance()
    cursor.grow(cursor.height, dot)
    return ast.Within(inner, duration(cursor), cursor.span(opening))


def condition_hint(cursor: Cursor, read: ast.PatternTree) -> str | None:
    """Return the hint for an unexpected token after the conditions of a pattern. Return None if the token does not
    directly follow them, or if no hint fits."""
    if not isinstance(read, ast.Where) or (read.span.end_line, read.span.end_column) != cursor.previous.stop:
        return None
    token = cursor.token
    if cursor.previous.kind == "graph" and token.text.upper() in messages.FOREIGN_GRAPHS:
        return messages.INSIDE
    meant = (
        messages.logic_hint(token) or messages.operator_hint(token) or messages.FOREIGN_TESTS.get(token.text.upper())
    )
    if meant is None and token.kind in ("name", "variable", "number", "string", "graph"):
        meant = "conditions are separated by `,`; alternatives are written `(X > 3 or linked(X, Y))`"
    return meant


def join_hint(cursor: Cursor) -> str | None:
    """Return the hint for a token that stands between two events and is not an operator. None if no hint fits."""
    token = cursor.token
    if token.kind == "graph":
        return messages.GRAPH
    if token.key == ",":
        return "events are joined by `AND` or `SEQ`; conditions follow `WHERE`, and aggregates follow `AGGREGATE`"
    return messages.operator_hint(token)


def _absence(cursor: Cursor) -> ast.PatternTree:
    first = cursor.advance()
    opening = cursor.expect("(", "`(`", messages.ABSENCE)
    absent = pattern(cursor)
    height = cursor.height
    cursor.close(opening, ")", "an operator or `)`", condition_hint(cursor, absent) or join_hint(cursor))
    if cursor.token.key != "." or cursor.peek().key != "[":
        if cursor.token.key == ".":
            cursor.advance()
        cursor.fail("`.[`" if cursor.previous.key != "." else "`[`", messages.ABSENCE)
    cursor.advance()
    opening = cursor.advance()
    left = pattern(cursor)
    height = max(height, cursor.height)
    if cursor.token.key != ",":
        hint = join_hint(cursor) or messages.ABSENCE
        if cursor.token.key == "]" and isinstance(left, (ast.Where, Aggregate)):
            hint = "put the first pattern in parentheses, because the `,` belongs to it: `.[(a(X) WHERE X > 1), b(X)]`"
        cursor.fail("`,` and a second pattern", hint)
    cursor.advance()
    right = pattern(cursor)
    height = max(height, cursor.height)
    cursor.close(opening, "]", "an operator or `]`", condition_hint(cursor, right) or join_hint(cursor))
    cursor.grow(height, first)
    return Not(absent, left, right, cursor.span(first))


def _time_point(cursor: Cursor) -> ast.TimePoint:
    first = cursor.token
    cursor.height = 1
    sign = -1 if cursor.accept("-") else 1
    token = cursor.advance()
    if token.kind == "time":
        return ast.TimePoint(cursor.read(read_time, token, token.text), token.span)
    ticks = sign * cursor.read(read_ticks, token, token.text)
    if unit_after_number(cursor):
        hint = "a point in time is `2013-02-08T18:00:00Z`, or a number of seconds since 1970-01-01 without a unit"
        cursor.stop("a duration is not a point in time", hint, cursor.span(first))
    return ast.TimePoint(ticks, cursor.span(first))


def event(cursor: Cursor) -> ast.EventPattern:
    hint = None
    if cursor.token.kind == "graph":
        hint = messages.GRAPH
    elif cursor.previous.key in messages.EXAMPLES:
        hint = messages.EXAMPLES[cursor.previous.key]
    elif cursor.previous.key == "<-":
        hint = messages.EVENT_RULE
    elif cursor.token.kind in ("string", "iri", "prefixed"):
        hint = "an event is a name with arguments: `smoke(R)`"
    first = cursor.name("an event", hint)
    cursor.height = 1
    if cursor.token.key != "(":
        return ast.EventPattern(first.text, (), None, first.span)
    if not goes_by_name(cursor):
        terms = arguments(cursor, messages.ALL_OR_NONE)
        _refuse_parameters(cursor, terms)
        return ast.EventPattern(first.text, terms, None, cursor.span(first))
    names, values = named_arguments(cursor)
    _refuse_parameters(cursor, values)
    return ast.EventPattern(first.text, values, names, cursor.span(first))


def _refuse_parameters(cursor: Cursor, values: Iterable[Expression]) -> None:
    """Refuse parameters among the arguments of an event. A reader might take a parameter for a variable and not notice
    that it filters."""
    for value in values:
        if isinstance(value, Constant) and (name := cursor.parameter(value.span)) is not None:
            hint = f"use a variable here, and a comparison: `... WHERE X = {name}`"
            cursor.stop(f"the parameter `{name}` cannot be an argument of an event", hint, value.span)


def goes_by_name(cursor: Cursor) -> bool:
    """Return True if the next parenthesis contains named arguments."""
    return cursor.peek().kind in ("name", "variable") and cursor.peek(2).key == ":"


def named_arguments(cursor: Cursor) -> tuple[tuple[str, ...], tuple[Expression, ...]]:
    opening = cursor.advance()
    names: dict[str, None] = {}
    values: list[Expression] = []
    height = 1
    while True:
        name = cursor.token
        if name.kind == "variable" and cursor.peek().key == ":":
            cursor.fail("the name of an attribute", f"{messages.CASE}: `{name.text.lower()}: {name.text}`")
        if name.kind != "name" or cursor.peek().key != ":":
            cursor.fail("the name of an attribute and `:`", messages.ALL_OR_NONE)
        if name.text in names:
            cursor.stop(f"`{name.text}` is named twice", "each attribute is named at most once")
        cursor.advance()
        cursor.advance()
        names[name.text] = None
        values.append(expression(cursor))
        height = max(height, cursor.height)
        if not cursor.accept(","):
            break
    close_arguments(cursor, opening, messages.ALL_OR_NONE)
    cursor.grow(height, opening)
    return tuple(names), tuple(values)


def policy_choice(cursor: Cursor) -> PolicyChoice:
    """Read `recent`, `recent(longest)` or `chronological(by Vol)`."""
    first = cursor.token
    if first.kind not in ("name", "variable") or first.key in RESERVED:
        cursor.fail("a policy", messages.POLICY)
    name = first.text.lower()
    if name not in POLICIES:
        cursor.stop(f"unknown policy `{first.text}`", messages.unknown(name, POLICIES, messages.POLICY))
    cursor.advance()
    if cursor.token.key != "(":
        return PolicyChoice(name, None, None, first.span)
    if name == "unrestricted":
        cursor.stop("`unrestricted` takes every pair, so it has no ties to break", messages.TIE)
    opening = cursor.advance()
    tie, by = cursor.token.text.lower(), None
    if tie == "by":
        cursor.advance()
        by = cursor.variable("a variable", messages.TIE).text
    elif tie in ("longest", "shortest"):
        cursor.advance()
    else:
        cursor.fail("`longest`, `shortest` or `by`", messages.unknown(tie, ("longest", "shortest"), messages.TIE))
    cursor.close(opening, ")", "`)`")
    return PolicyChoice(name, tie, by, cursor.span(first))
