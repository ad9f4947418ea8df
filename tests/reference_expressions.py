"""The reference interpreter's parser of tokens, expressions and conditions. It expects a valid program."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from cep.events import Iri
from tests.reference_tree import (
    SECOND,
    UNITS,
    Call,
    Comparison,
    Const,
    Or,
    Predicate,
    Ticks,
    Var,
)

TOKEN = re.compile(
    r"""(?P<space>\s+|[#%][^\n]*)
      | (?P<iri><[A-Za-z][A-Za-z0-9+.\-]*:[^\s<>"]*>)
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<time>\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?)
      | (?P<period>P(?=[\dT])(?:\d+D)?(?:T(?:\d+(?:\.\d+)?[HMS])+)?\b)
      | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<name>[a-z][A-Za-z0-9_]*)
      | (?P<variable>[A-Z_][A-Za-z0-9_]*)
      | (?P<symbol><-|:-|!=|<=|>=|==|\*\*|//|\.\.|[-+*/<>=().,:\[\]?])
    """,
    re.VERBOSE,
)
STRINGS = r'"""(?:[^\\]|\\.)*?"""|"(?:[^"\\]|\\.)*"|' + r"'(?:[^'\\]|\\.)*'"
SPARQL = re.compile(rf"{STRINGS}|<[^<>\s{{}}]*>|#[^\n]*|[{{}}]|.", re.DOTALL)


def braces(text: str, start: int) -> int:
    """Where the braces that open at `start` are closed."""
    depth = 0
    for match in SPARQL.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if not depth:
            return match.end()
    raise AssertionError("braces are not closed")


class ExpressionReader:
    """Recursive descent over a list of (kind, text, position)."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str, int]] = []
        self.at = 0
        self.prefixes: dict[str, str] = {}
        self.waiting: list[Any] = []  # UNLESS that have not met their WITHIN
        position = 0
        while position < len(text):
            if text[position] == "{":
                start, position = position, braces(text, position)
                self.tokens.append(("graph", text[start:position], start))
                continue
            match = TOKEN.match(text, position)
            assert match, f"the reference cannot read {text[position : position + 20]!r}"
            position = match.end()
            if match.lastgroup != "space":
                self.tokens.append((str(match.lastgroup), match.group(), match.start()))
        self.tokens.append(("end", "", position))

    # Tokens.
    def peek(self, ahead: int = 0) -> str:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)][1]

    def kind(self, ahead: int = 0) -> str:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)][0]

    def word(self) -> str:
        """The next token as a keyword (lower case), or the empty string."""
        return self.peek().lower() if self.kind() in ("name", "variable") else ""

    def take(self, expected: str | None = None) -> str:
        text = self.peek()
        assert expected is None or text.lower() == expected, f"expected {expected!r}, found {text!r}"
        self.at += 1
        return text

    def maybe(self, *texts: str) -> bool:
        if self.peek().lower() in texts and self.kind() != "string":
            self.at += 1
            return True
        return False

    # Conditions and expressions.
    def conditions(self, separators: tuple[str, ...] = (",",)) -> tuple[Any, ...]:
        conditions = [*self.condition()]
        while self.maybe(*separators):
            conditions += self.condition()
        return tuple(conditions)

    def either(self, separators: tuple[str, ...]) -> tuple[Any, ...]:
        """Alternatives; those of an `or` in an `or` are its own."""
        alternatives = [self.conditions(separators)]
        while self.maybe("or"):
            alternatives.append(self.conditions(separators))
        return either(alternatives)

    def condition(self) -> tuple[Any, ...]:
        if self.word() == "not" and self.peek(1) == "(":
            self.take()
            (inside,) = [self.condition()]
            return either([opposite(each) for each in inside])
        if self.word() == "not" and self.kind(1) in ("name", "graph"):
            self.take()
            return tuple(replace(each, negated=True) for each in self.condition())
        if self.kind() == "graph":
            text = self.take()
            names = dict.fromkeys(re.findall(r"[?$]([A-Z]\w*)", text))
            return (Predicate(text, tuple(map(Var, names)), False, tuple(self.prefixes.items())),)
        if self.peek() == "(":  # a value, or conditions: whichever can be read
            start = self.at
            try:
                return self.compared()
            except AssertionError:
                self.at = start
            self.take("(")
            found = self.either((",", "and"))
            self.take(")")
            return found
        return self.compared()

    def compared(self) -> tuple[Any, ...]:
        left = self.expression()
        if self.peek() in ("=", "==", "is", "!=", "<", "<=", ">", ">="):
            operator = self.take()
            return (Comparison("=" if operator in ("==", "is") else operator, left, self.expression()),)
        denied = self.maybe("not")
        if self.maybe("in"):
            self.take("[")
            values = [self.expression()]
            while self.maybe(","):
                values.append(self.expression())
            self.take("]")
            if denied:
                return tuple(Comparison("!=", left, value) for value in values)
            return either([(Comparison("=", left, value),) for value in values])
        if self.maybe("between"):
            low = self.expression()
            self.take("and")
            high = self.expression()
            if denied:
                return either([(Comparison("<", left, low),), (Comparison(">", left, high),)])
            return (Comparison(">=", left, low), Comparison("<=", left, high))
        if isinstance(left, Call):
            assert left.function not in (*"+-*/", "//", "mod", "neg", "**"), "a value is not a condition"
            return (Predicate(left.function, left.arguments),)
        assert isinstance(left, Const) and isinstance(left.value, str), "a value is not a condition"
        return (Predicate(left.value, ()),)

    def arguments(self) -> tuple[Any, ...]:
        arguments = []
        if self.maybe("("):
            while not self.maybe(")"):
                arguments.append(self.expression())
                self.maybe(",")
        return tuple(arguments)

    def expression(self) -> Any:
        left = self.product()
        while self.peek() in ("+", "-"):
            left = Call(self.take(), (left, self.product()))
        return left

    def product(self) -> Any:
        left = self.unary()
        while self.peek() in ("*", "/", "//") or (self.word() == "mod" and self.peek(1) != "("):
            left = Call(self.take(), (left, self.unary()))
        return left

    def unary(self) -> Any:
        if self.maybe("-"):
            operand = self.unary()
            if isinstance(operand, Const) and isinstance(operand.value, Ticks):
                return Const(Ticks(operand.value.kind, -operand.value.n))
            return Const(-operand.value) if isinstance(operand, Const) else Call("neg", (operand,))
        return self.power()

    def power(self) -> Any:
        left = self.term()
        return Call(self.take(), (left, self.unary())) if self.peek() == "**" else left

    def term(self) -> Any:
        if self.maybe("("):
            inner = self.expression()
            self.take(")")
            return inner
        if self.kind() == "variable" and not self.prefixed():
            name = self.take()
            # Each `_` is its own.
            return Var(f"_#{self.at}" if name == "_" else name)
        assert self.word() not in ("not", "or", "and", "in", "between"), "a keyword is not a value"
        if self.peek() == "if" and self.peek(1) == "(":
            self.take()
            self.take("(")
            condition = self.either(("and",))
            self.take(",")
            yes = self.expression()
            self.take(",")
            no = self.expression()
            self.take(")")
            return Call("if", (condition, yes, no))
        if self.kind() == "name" and self.peek(1) == "(":
            return Call(self.take(), self.arguments())
        return Const(self.constant())

    def prefixed(self, ahead: int = 0) -> bool:
        """Is this `wt:Diablo`: a declared prefix, a colon and a name without space between?"""
        (_, name, p), (_, colon, q), (kind, _, r) = (self.tokens + 3 * [("end", "", 0)])[self.at + ahead :][:3]
        joined = q == p + len(name) and r == q + 1
        return colon == ":" and name in self.prefixes and joined and kind in ("name", "variable")

    def joined(self, ahead: int) -> bool:
        """Does a token follow the one before it without space between?"""
        (_, text, p), (kind, _, q) = self.tokens[self.at + ahead : self.at + ahead + 2]
        return kind != "end" and q == p + len(text)

    def constant(self) -> Any:
        if self.prefixed():
            prefix = self.take()
            self.take(":")
            local = self.take()
            while self.peek() == "-" and self.joined(-1) and self.joined(0):  # `unit:MI-PER-HR`
                local += self.take() + self.take()
            return Iri(self.prefixes[prefix] + local)
        kind, text = self.kind(), self.take()
        if kind == "number":
            value = float(text) if re.search(r"[.eE]", text) else int(text)
            if self.kind() == "name" and self.peek() in UNITS:
                return Ticks("duration", int(Fraction(text) * UNITS[self.take()]))
            return value
        if kind == "period":
            return Ticks("duration", period(text))
        if kind == "time":
            return Ticks("time", instant(text))
        if kind == "string":
            return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), text[1:-1])
        if kind == "iri":
            return Iri(text[1:-1])
        assert kind == "name", f"expected a constant, found {text!r}"
        return {"true": True, "false": False}.get(text, text)

    def duration(self) -> int:
        value = self.constant()
        return value.n if isinstance(value, Ticks) else seconds(value)


OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def either(alternatives: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    flat: list[tuple[Any, ...]] = []
    for each in alternatives:
        flat += each[0].alternatives if len(each) == 1 and isinstance(each[0], Or) else (each,)
    return flat[0] if len(flat) == 1 else (Or(tuple(flat)),)


def opposite(condition: Any) -> tuple[Any, ...]:
    """What `not` makes of a condition: what is missing fulfils neither."""
    if isinstance(condition, Comparison):
        return (replace(condition, operator=OPPOSITE[condition.operator]),)
    if isinstance(condition, Predicate):
        return (replace(condition, negated=not condition.negated),)
    return tuple(c for each in condition.alternatives for c in either([opposite(one) for one in each]))


def seconds(number: int | float) -> int:
    """A number of seconds as microseconds, by its shortest decimal spelling."""
    return round(Fraction(repr(number)) * SECOND)


def period(text: str) -> int:
    days, _, clock = text[1:].partition("T")
    total = Fraction(days[:-1] or 0) * UNITS["d"]
    for number, unit in re.findall(r"([\d.]+)([HMS])", clock):
        total += Fraction(number) * UNITS[{"H": "h", "M": "min", "S": "s"}[unit]]
    return int(total)


def instant(text: str) -> int:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    passed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (passed.days * 86400 + passed.seconds) * SECOND + passed.microseconds
