"""Reader of LARS windows in Ticker's syntax, and of the lengths of windows in ticks.

    window = "[" ( NUMBER [ UNIT ] | "inf" ) "]" [ "step" NUMBER [ UNIT ] ]
           | "[" NUMBER "#" "]" [ "by" VARIABLE { "," VARIABLE } ]
    UNIT   = "msec" | "sec" | "min" | "h" | "ms" | "s" | "d"

Older files contain the notations `[t 5]` and `[# 10]`.
"""

from __future__ import annotations

from cep.core.errors import Span
from cep.core.literals import LARGEST, read_number, read_ticks, write_duration
from cep.core.suggest import did_you_mean
from cep.core.ticks import INFINITE
from cep.core.time import FARTHEST
from cep.language.dialects.lars.ast import TimeWindow, TupleWindow, Window
from cep.language.dialects.lars.tokens import UNITS, LarsCursor, LarsToken

WINDOW = "a window is `[10]` (ticks), `[10 sec]`, `[5 min] step 1 min` or `[3 #]` (the last 3 atoms)"
FOREIGN_UNITS = {
    "second": "sec",
    "minute": "min",
    "m": "min",
    "hour": "h",
    "hr": "h",
    "day": "d",
    "millisecond": "msec",
}
MOST_ATOMS = 2**31 - 1
"""The maximum size of a tuple window, in atoms."""


def longest(tick: int) -> int:
    """Return the length of an unbounded window in ticks. It is so long that the window always reaches back to the first
    possible tick."""
    return FARTHEST // tick


def window(cursor: LarsCursor) -> Window:
    """Read a window. A window of time may have a step, and a window of tuples may have a partition."""
    opening = cursor.advance()
    assert opening.text == "[", "the caller has looked"
    counted = cursor.accept("#")
    if not counted and cursor.token.kind == "name" and cursor.token.text == "t" and cursor.peek().kind == "number":
        cursor.advance()
    token = cursor.token
    if token.kind == "name" and token.text in INFINITE and not counted:
        cursor.advance()
        size = longest(cursor.tick)
    else:
        _refuse_no_number(cursor)
        cursor.advance()
        if counted or cursor.accept("#"):
            atoms = count(cursor, token)
            cursor.expect("]", WINDOW)
            return TupleWindow(atoms, _by(cursor), cursor.span(opening))
        size = before_now(cursor, duration(cursor, token), token)
    cursor.expect("]", WINDOW)
    step = 1
    if cursor.sees("step"):
        cursor.advance()
        token = cursor.token
        _refuse_no_number(cursor)
        cursor.advance()
        step = duration(cursor, token)
        if step < 1:
            cursor.stop(
                "a step must have at least one tick",
                "a window with a step is written `[10] step 5`",
                cursor.span(token),
            )
    elif cursor.sees("by"):
        cursor.stop("`by` partitions a window of tuples", "e.g. `p(X, Y) [5 #] by X`")
    return TimeWindow(size, step, cursor.span(opening))


def before_now(cursor: LarsCursor, ticks: int, token: LarsToken) -> int:
    """Return how many ticks a window contains besides the current tick. Raises CepError if the window contains no tick.

    `ticks`: the length of the window, as written in the program. `token`: the token of this length.
    """
    if cursor.counted and not ticks:
        hint = "with `--window n`, the shortest window is `[1]`, the present tick"
        cursor.stop("this window contains no tick", hint, cursor.place(token.start, token.end))
    return ticks - cursor.counted


def _refuse_no_number(cursor: LarsCursor) -> None:
    token = cursor.token
    if token.text == "-":
        cursor.stop("a window always looks back, so its length has no sign", WINDOW)
    if token.kind == "variable":
        cursor.stop(f"the length of a window is a number, found `{token.text}`", WINDOW)
    if token.kind != "number":
        cursor.fail("a number", WINDOW)


def duration(cursor: LarsCursor, token: LarsToken) -> int:
    """Read the unit after the number `token`, if there is one. Return the duration as a number of ticks."""
    unit, tick = cursor.token, cursor.tick
    if unit.kind not in ("name", "variable") or cursor.on_new_line():
        return whole_ticks(cursor, token)
    if unit.text not in UNITS:
        meant = FOREIGN_UNITS.get(unit.text.lower().removesuffix("s"))
        hint = (
            f"did you mean `{meant}`?"
            if meant
            else did_you_mean(unit.text, UNITS) or "`msec`, `sec`, `min` and `h`; a number alone is ticks"
        )
        cursor.stop(f"unknown unit `{unit.text}`", hint)
    cursor.advance()
    exact = cursor.value(read_ticks, token, token.text, UNITS[unit.text])
    if exact % tick:
        wanted = write_duration(tick)
        hint = f"use a multiple of the tick, or set a shorter tick: `--tick {_finer(exact, tick)}`"
        cursor.stop(f"`{token.text} {unit.text}` is not a whole number of ticks of {wanted}", hint, cursor.span(token))
    return exact // tick


def _finer(exact: int, tick: int) -> str:
    for size in (60_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10):
        if exact % size == 0 and tick % size == 0:
            return write_duration(size).replace(" ", "")
    return "0.000001s"


def whole_ticks(cursor: LarsCursor, token: LarsToken, hint: str = WINDOW) -> int:
    """Convert the text of a number token to a whole number of ticks."""
    span = cursor.place(token.start, token.end)
    if not token.text.isdigit():
        cursor.stop(
            f"`{token.text}` is not a whole number of ticks",
            f"{hint}; for parts of a tick, set a shorter tick: `--tick 100ms`",
            span,
        )
    ticks = int(token.text) if len(token.text) < 20 else LARGEST
    refuse_too_long(cursor, ticks, span)
    return ticks


def refuse_too_long(cursor: LarsCursor, ticks: int, span: Span) -> None:
    if ticks > longest(cursor.tick):
        hint = f"the longest window has {longest(cursor.tick)} ticks; for all of time use `[inf]`"
        cursor.stop("this window is too long", hint, span)


def count(cursor: LarsCursor, token: LarsToken, hint: str = "`p(X) [3 #]`") -> int:
    """Read the number of atoms of a tuple window."""
    span = cursor.place(token.start, token.end)
    atoms = cursor.value(read_number, token, token.text)
    if not isinstance(atoms, int) or not 1 <= atoms <= MOST_ATOMS:
        cursor.stop(f"a window of tuples contains 1 to {MOST_ATOMS} atoms, found `{token.text}`", hint, span)
    return atoms


def _by(cursor: LarsCursor) -> tuple[str, ...] | None:
    """Read `by X, Y`. The list ends before a variable that begins a comparison. Return None if the next token is not
    `by`."""
    if not cursor.accept("by"):
        if cursor.sees("step"):
            cursor.stop(
                "a window of tuples cannot have a step",
                "leave out the step, `p(X) [3 #]`, or use a window of time: `p(X) [10] step 5`",
            )
        return None
    names: list[str] = []
    while True:
        token = cursor.token
        if token.kind != "variable" or token.text == "_":
            cursor.fail("a variable", "a window is partitioned by arguments of its atom: `p(X, Y) [5 #] by X`")
        names.append(cursor.advance().text)
        after = cursor.peek(2)
        goes_on = cursor.peek().kind == "variable" and (after.kind == "end" or after.text in (",", "."))
        if not (cursor.sees(",") and goes_on):
            return tuple(names)
        cursor.advance()
