"""Printer of patterns. It builds the text of a pattern from the texts of its operands, and writes parentheses where
they are needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cep.core.fluents import (
    AT_TICKS,
    BEFORE,
    BEGINNING,
    BEGINS,
    ENDING,
    ENDS,
    FIRST_TICK,
    TICK_NOW,
    UNCONSTRAINED,
)
from cep.core.literals import write_duration
from cep.rules.printing import instant, print_argument, print_arguments, print_conditions, print_policy, print_result
from cep.rules.terms import AggregateResult, Condition, Constant, Expression, PolicyChoice
from cep.rules.window_forms import Over, over

WORDS = {BEGINS: "BEGIN OF ", BEGINNING: "BEGIN OF ", BEFORE: "BEGIN OF ", ENDS: "END OF ", ENDING: "END OF "}
"""For each kind of change of a fluent, the words before the fluent in a pattern."""

# Precedences of patterns, the lowest first.
POSTFIXED, JOINED, REPEATED = range(3)


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a pattern.

    `holds`: the precedence of its outermost operator. `listed`: True if the text ends with a list, so that a comma
    after it would add to this list.
    """

    text: str
    holds: int = REPEATED
    listed: bool = False

    def at(self, place: int) -> str:
        """Return the text, in parentheses if its precedence is lower than `place`."""
        return self.text if self.holds >= place else f"({self.text})"


def event(name: str, arguments: Sequence[Expression], names: Sequence[str] | None = None) -> Text:
    """Return `name(a, b)`, or `name(x: a)` if the arguments are named, or `name` if there are none."""
    if names is None:
        return Text(_applied(name, tuple(arguments)))
    pairs = (f"{key}: {print_argument(value)}" for key, value in zip(names, arguments))
    return Text(f"{name}({', '.join(pairs)})")


def changing(name: str, arguments: Sequence[Expression], valued: bool) -> Text:
    """Return the text of an atom that matches a change of a fluent.

    `arguments`: the fluent's arguments, then its value if `valued` is True, then the kind of change.
    """
    *own, what = arguments
    word = WORDS.get(what.value, "") if isinstance(what, Constant) and isinstance(what.value, int) else ""
    value = own.pop() if valued else None
    return Text(word + held(name, own, value))


def held(name: str, arguments: Sequence[Expression], value: Expression | None) -> str:
    """Return `location(P) = X`, or `location(P)` if the fluent has no value."""
    return _applied(name, tuple(arguments)) + ("" if value is None else f" = {print_argument(value)}")


def _applied(name: str, arguments: tuple[Expression, ...]) -> str:
    if name in (FIRST_TICK, TICK_NOW) and arguments:
        return f"the {name} is {print_argument(arguments[0])}"
    atom = name.removesuffix(UNCONSTRAINED)
    behind = name.removeprefix(atom)
    if atom.endswith(AT_TICKS) and arguments:
        before, tick = print_arguments(arguments[:-1]), print_argument(arguments[-1])
        return f"{atom.removesuffix(AT_TICKS)}{before} at {tick}{behind}"
    return f"{atom}{print_arguments(arguments)}{behind}"


def time_point(ticks: int) -> Text:
    """Return the text of an instant: a time, or a number of seconds."""
    return Text(instant(ticks))


def joined(left: Text, word: str, right: Text) -> Text:
    return Text(f"{left.at(JOINED)} {word} {right.at(REPEATED)}", JOINED)


def gap(low: int, high: int) -> str:
    """Return the gap after SEQ, `[10 s, 5 min]`. `low`, `high`: its ends in microseconds."""
    return f"[{write_duration(low)}, {write_duration(high)}]"


def negated(absent: Text, left: Text, right: Text) -> Text:
    """Return `NOT(absent).[left, right]`."""
    before_comma = f"({left.text})" if left.listed else left.text
    return Text(f"NOT({absent.text}).[{before_comma}, {right.text}]")


def cnot(left: Text, word: str, right: Text, absent: Text) -> Text:
    """Return `(left WORD right) CNOT absent`."""
    return Text(f"({joined(left, word, right).text}) CNOT {absent.at(REPEATED)}", JOINED)


def unless(left: Text, absent: Text, duration: int) -> Text:
    """Return `left UNLESS absent WITHIN duration`."""
    return Text(f"{joined(left, 'UNLESS', absent).text} WITHIN {write_duration(duration)}", JOINED)


def times(pattern: Text, count: int) -> Text:
    return Text(f"{pattern.at(REPEATED)} TIMES {count}")


def within(pattern: Text, duration: int) -> Text:
    return Text(f"{pattern.text} WITHIN {write_duration(duration)}", POSTFIXED)


def where(pattern: Text, conditions: Iterable[Condition]) -> Text:
    return Text(f"{pattern.text} WHERE {print_conditions(tuple(conditions))}", POSTFIXED, True)


def policy(pattern: Text, choice: PolicyChoice) -> Text:
    return Text(f"{pattern.text} POLICY {print_policy(choice)}", POSTFIXED)


def aggregate(
    pattern: Text,
    results: Sequence[AggregateResult],
    events: int | None,
    duration: int | None,
    form: Over | None,
    by: Sequence[str],
) -> Text:
    """Return `pattern AGGREGATE results OVER LAST events|duration BY by`. `form`: the form of the window (EACH, SESSION
    or EVERY), or None if LAST alone describes the window."""
    groups = f" BY {', '.join(by)}" if by else ""
    listed = ", ".join(map(print_result, results))
    return Text(f"{pattern.text} AGGREGATE {listed} OVER {over(events, duration, form)}{groups}", POSTFIXED, bool(by))
