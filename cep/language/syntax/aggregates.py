"""Parser of aggregations, such as `AGGREGATE A = avg(W), N = count() OVER LAST 5 EVENTS BY K`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cep.core.errors import NOWHERE, Span
from cep.core.literals import read_number, read_string, say_duration, write_duration
from cep.core.zones import names, zone_hint
from cep.language.syntax import ast, messages
from cep.language.syntax.cursor import Cursor
from cep.language.syntax.durations import duration, whole_number
from cep.language.syntax.terms import expression
from cep.language.syntax.tokens import Token
from cep.operators.aggregate import Window
from cep.plan.pattern import Pattern
from cep.rules import pattern_text
from cep.rules.expressions.aggregates import AGGREGATES, FOREIGN_AGGREGATES, PARAMETERS, example
from cep.rules.keywords import RESERVED
from cep.rules.pattern_text import Text
from cep.rules.terms import AggregateResult, PolicyChoice, Variable
from cep.rules.window_forms import DAY, WEEK, Over


@dataclass(frozen=True, slots=True)
class Aggregate(ast.PatternTree):
    """`pattern AGGREGATE results OVER LAST n EVENTS|duration [BY variables]`.

    - `events`: the number of occurrences in the window, or None.
    - `duration`: the length of the window in microseconds, or None.
    - `over`: a window of the form EACH, SESSION or EVERY, or None.
    """

    pattern: ast.PatternTree
    results: tuple[AggregateResult, ...]
    events: int | None
    duration: int | None
    by: tuple[Variable, ...]
    span: Span = field(default=NOWHERE, compare=False)
    over: Over | None = None

    def text(self) -> Text:
        groups = [variable.name for variable in self.by]
        return pattern_text.aggregate(self.pattern.text(), self.results, self.events, self.duration, self.over, groups)

    def lowered(self, parts: Sequence[Pattern], policy: PolicyChoice, within: int | None) -> Pattern:
        (part,) = parts
        return Window(part, self.results, self.events, self.duration, self.by, within, self.span, self.over)


def aggregate(cursor: Cursor, first: Token, left: ast.PatternTree) -> Aggregate:
    """Read an aggregate after the word AGGREGATE. `left`: the pattern whose occurrences are aggregated."""
    results = [result(cursor)]
    height = cursor.height
    while cursor.accept(","):
        results.append(result(cursor))
        height = max(height, cursor.height)
    cursor.expect("OVER", "`OVER`", messages.WINDOW)
    events, ticks, over = _window(cursor)
    by: list[Variable] = []
    if cursor.accept("BY"):
        by.append(group(cursor))
        while cursor.accept(","):
            by.append(group(cursor))
    cursor.height = height
    return Aggregate(left, tuple(results), events, ticks, tuple(by), cursor.span(first), over)


def group(cursor: Cursor) -> Variable:
    token = cursor.variable("a variable to group by", messages.WINDOW)
    return Variable(token.text, token.span)


# --- windows ----------------------------------------------------------------------------------------------------------


def _window(cursor: Cursor) -> tuple[int | None, int | None, Over | None]:
    """Read a window. Return its number of events, its length in microseconds, and its form (EACH, SESSION or EVERY).

    Values that do not apply to the window are None.
    """
    if cursor.accept("EACH"):
        return None, None, _each(cursor)
    if cursor.accept("SESSION"):
        ticks = _length(cursor, messages.SESSION)
        if cursor.token.key == "ZONE":
            cursor.stop("a session cannot have a ZONE", messages.ZONE)
        return None, None, Over("session", ticks)
    meant = messages.FOREIGN_WINDOWS.get(cursor.token.text.upper())
    cursor.expect("LAST", "`LAST`, `EACH` or `SESSION`", meant or messages.WINDOW)
    token, after = cursor.token, cursor.peek()
    if token.kind in ("number", "variable") and after.key == "EVENTS":
        count = whole_number(cursor, "`LAST`", "`OVER LAST 5 EVENTS`")
        cursor.advance()
        if cursor.token.key == "EVERY":
            cursor.stop("only a window of time can have results at regular times", messages.EVERY)
        return count, None, None
    if token.kind == "number" and after.text.upper() == "EVENT":
        cursor.advance()
        cursor.fail("`EVENTS` or a unit", messages.WINDOW)
    ticks = _length(cursor, messages.WINDOW)
    if not cursor.accept("EVERY"):
        if cursor.token.key == "ZONE":
            cursor.stop("a sliding window cannot have a ZONE", messages.ZONE)
        return None, ticks, None
    token = cursor.token
    step = _length(cursor, messages.EVERY)
    if step > ticks:
        hint = f"to cover all times, write `OVER EACH {write_duration(step)}`, or make LAST longer"
        cursor.stop("these windows leave gaps", hint, cursor.span(token))
    if cursor.token.key == "ZONE":
        cursor.stop("`EVERY` counts in UTC, so it cannot have a ZONE", f"leave out ZONE; {messages.ZONE}")
    return None, ticks, Over("every", step)


def _length(cursor: Cursor, hint: str) -> int:
    token = cursor.token
    if token.key == "-":
        cursor.fail("a duration", hint)
    ticks = duration(cursor)
    if ticks == 0:
        cursor.stop("this duration must be longer than 0", hint, cursor.span(token))
    return ticks


def _each(cursor: Cursor) -> Over:
    token = cursor.token
    weeks = token.kind == "number" and cursor.peek().text.lower() in ("week", "weeks")
    if weeks:
        length = whole_number(cursor, "`EACH`", "`OVER EACH 1 week`") * WEEK
        cursor.advance()
    else:
        length = _length(cursor, messages.EACH)
        weeks = token.kind == "duration" and token.text.endswith("W")
    written = cursor.span(token)
    if not cursor.accept("ZONE"):
        return Over("each", length, weeks)
    if length % DAY and DAY % length:
        days = max(1, round(length / DAY))
        nearest = f"{days} d" if length > DAY else say_duration(_divisor(length))
        cursor.stop(
            f"windows of {say_duration(length)} are not whole days, and do not divide a day evenly",
            f"with ZONE, write e.g. `OVER EACH {nearest} ZONE ..`",
            written,
        )
    return Over("each", length, weeks, _zone(cursor))


def _divisor(length: int) -> int:
    usual = [DAY // n for n in (1, 2, 3, 4, 6, 8, 12, 24, 48, 96, 144, 288, 1440, 86_400)]
    return min(usual, key=lambda part: abs(part - length))


def _zone(cursor: Cursor) -> str:
    token = cursor.token
    if token.kind != "string":
        cursor.fail("the name of a zone", messages.ZONE)
    name = cursor.read(read_string, token, token.text)
    if name not in names():
        cursor.stop(f"there is no time zone `{name}`", zone_hint(name))
    cursor.advance()
    return name


# --- functions --------------------------------------------------------------------------------------------------------


def result(cursor: Cursor) -> AggregateResult:
    """Read one result, `A = avg(W)`."""
    first = cursor.variable("a variable for the result", messages.RESULT)
    cursor.expect("=", "`=`", messages.RESULT)
    function = cursor.token
    if function.kind not in ("name", "variable") or function.key in RESERVED:
        cursor.fail("an aggregate function", messages.RESULT)
    name = function.text.lower()
    if name not in AGGREGATES:
        all_of_them = "the aggregates are " + ", ".join(f"`{name}`" for name in AGGREGATES)
        hint = messages.unknown(name, AGGREGATES, all_of_them, FOREIGN_AGGREGATES)
        cursor.stop(f"unknown aggregate `{function.text}`", hint)
    cursor.advance()
    opening = cursor.expect("(", "`(`", messages.RESULT)
    cursor.height = 1
    if cursor.token.key == ")":
        if name != "count":
            needs = f"`{name}` needs a value to aggregate: `{example(name, 'W')}`; only `count()` needs none"
            cursor.fail("a value", needs)
        cursor.advance()
        return AggregateResult(first.text, name, None, False, cursor.span(first))
    distinct = cursor.token.key == "DISTINCT"
    if distinct:
        if name != "count":
            cursor.stop(f"`distinct` belongs to `count`, not to `{name}`", "e.g. `N = count(distinct X)`")
        cursor.advance()
    argument = expression(cursor)
    parameter = _parameter(cursor, name) if name in PARAMETERS else None
    alone = f"`{name}` takes one value: `{example(name, 'W')}`" if cursor.token.key == "," else None
    cursor.close(opening, ")", "an operator or `)`", alone if name not in PARAMETERS else None)
    return AggregateResult(first.text, name, argument, distinct, cursor.span(first), parameter)


def _parameter(cursor: Cursor, name: str) -> float:
    """Read the second argument of an aggregate function: a percentile from 0 to 100, or for `ewma` a half-life in
    microseconds."""
    hint = f"e.g. `{example(name, 'W')}`: {PARAMETERS[name]}"
    cursor.expect(",", f"`,` and a {'duration' if name == 'ewma' else 'number'}", hint)
    token = cursor.token
    if name == "ewma":
        ticks = duration(cursor)
        if ticks == 0:
            cursor.stop("the half-life must be longer than 0", hint, cursor.span(token))
        return ticks
    below = cursor.accept("-")
    if cursor.token.kind != "number":
        cursor.fail("a number", cursor.parameter_meant("int", "float") or hint)
    percent = cursor.read(read_number, cursor.token, cursor.token.text)
    cursor.advance()
    if below or percent > 100:
        cursor.stop("a percentile must be from 0 to 100", hint, cursor.span(token))
    return percent
