"""Parser for the part of Prolog that event descriptions use. It returns clauses as terms with their positions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from cep.core.errors import NOWHERE, CepError, Source, Span
from cep.core.literals import read_number, read_string
from cep.language.syntax.tokens import line_starts
from cep.rules.parameters import Parameters

DEEPEST = 100


@dataclass(frozen=True, slots=True)
class Var:
    """A variable: `Vessel`, `_`."""

    name: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Number:
    """A number: `5`, `2.7`."""

    value: int | float
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Many:
    """A list: `[I1, I2]`."""

    items: tuple[Term, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Compound:
    """A compound term, `happensAt(gap(V), T)`, or an atom, which has no arguments.

    An operator is the name of a compound term: `=(F, V)`. `quoted`: True if the atom is a quoted text.
    """

    name: str
    arguments: tuple[Term, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)
    quoted: bool = field(default=False, compare=False)


Term = Var | Number | Many | Compound


class _Token(NamedTuple):
    kind: str  # variable, number, name, quoted, string, mark or end
    text: str
    span: Span
    start: int
    end: int


_TOKEN = re.compile(
    r"""
    (?P<skip>(?:\s|%[^\n]*|/\*(?s:.*?)\*/)+)
  | (?P<number>[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?)?)
  | (?P<variable>[A-Z_]\w*)
  | (?P<name>[^\W\d_]\w*)
  | (?P<quoted>'(?:[^'\\\n]|''|\\.)*')
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<stop>\.(?=\s|%|$))
  | (?P<mark>:-|-->|->|\\\+|\\==|\\=|=:=|=\\=|==|=<|>=|=\.\.|\*\*|//|@<|@>|[()\[\]|,;=<>+\-*/^!.])
  | (?P<bad>.)
    """,
    re.VERBOSE | re.DOTALL,
)
# Infix operators: their priority, and the highest priority of the left and the right operand.
_INFIX = {
    ":-": (1200, 1199, 1199),
    ";": (1100, 1099, 1100),
    "->": (1050, 1049, 1050),
    ",": (1000, 999, 1000),
    **dict.fromkeys(("=", "\\=", "==", "\\==", "is", "<", ">", "=<", ">=", "=:=", "=\\=", "@<", "@>", "=.."),
                    (700, 699, 699)),
    **dict.fromkeys(("+", "-"), (500, 500, 399)),
    **dict.fromkeys(("*", "/", "//", "mod", "rem"), (400, 400, 399)),
    "**": (200, 199, 199),
    "^": (200, 199, 200),
}  # fmt: skip
_PREFIX = {":-": (1200, 1199), "\\+": (900, 900), "-": (200, 200), "+": (200, 200)}


def clauses(source: Source, tick: int, parameters: Parameters | None = None) -> Iterator[Term | CepError]:
    """Yield each clause of a text as a term. For a clause that cannot be read, yield a CepError instead."""
    tokens = _tokens(source)
    if parameters:
        tokens = [word for token in tokens for word in _with_values(token, parameters, tick)]
    position = 0
    while tokens[position].kind != "end":
        stop = position
        while tokens[stop].kind not in ("stop", "end"):
            stop += 1
        reading = _Reading(source, [*tokens[position:stop], tokens[stop]])
        try:
            if tokens[stop].kind == "end":
                reading.stop("this clause has no end", tokens[position].span, "end each clause with `.`")
            if stop > position:
                yield reading.clause()
        except CepError as error:
            yield error
        position = stop + (tokens[stop].kind == "stop")


def _with_values(token: _Token, parameters: Parameters, tick: int) -> list[_Token]:
    pieces = parameters.in_dialect(token.text, tick) if token.kind == "variable" else None
    return [token] if pieces is None else [token._replace(kind=kind, text=text) for kind, text in pieces]


def _tokens(source: Source) -> list[_Token]:
    text, starts = source.text, line_starts(source.text)
    tokens: list[_Token] = []
    line = 0
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup)
        if kind == "skip":
            continue
        while line + 1 < len(starts) and starts[line + 1] <= match.start():
            line += 1
        column = match.start() - starts[line] + 1
        span = Span(line + 1, column, line + 1, column + len(match.group()))
        tokens.append(_Token(kind, match.group(), span, match.start(), match.end()))
    last = tokens[-1] if tokens else None
    span = (
        Span(1, 1, 1, 1)
        if last is None
        else Span(last.span.end_line, last.span.end_column, last.span.end_line, last.span.end_column)
    )
    return [*tokens, _Token("end", "", span, len(text), len(text))]


_DIRECTIVES = "dynamic", "discontiguous", "multifile", "table", "initialization", "module_transparent", "meta_predicate"
_DIRECTIVE = 1150
"""The operator priority of words that occur in directives, such as `dynamic` in `:- dynamic f/1, g/2.`"""


class _Reading:
    def __init__(self, source: Source, tokens: list[_Token]) -> None:
        self.source = source
        self.tokens = tokens
        self.at = 0
        self.depth = 0

    @property
    def token(self) -> _Token:
        return self.tokens[min(self.at, len(self.tokens) - 1)]

    def stop(self, message: str, span: Span, hint: str | None = None) -> NoReturn:
        raise CepError(message, self.source, span, hint, "syntax")

    def fail(self, expected: str) -> NoReturn:
        token = self.token
        seen = "the end of the clause" if token.kind in ("stop", "end") else f"`{token.text}`"
        hint = "is a `.` missing at the end of the clause before?" if token.text in ("happensAt", ":-") else None
        self.stop(f"expected {expected}, found {seen}", token.span, hint)

    def take(self) -> _Token:
        token = self.token
        self.at += 1
        return token

    def clause(self) -> Term:
        term = self.term(1200)
        if self.token.kind != "stop":
            self.fail("an operator or `.`")
        return term

    def term(self, most: int) -> Term:
        self.depth += 1
        if self.depth > DEEPEST:
            self.stop(f"more than {DEEPEST} levels of nesting", self.token.span)
        left, looseness = self.primary(most)
        while self.token.text in _INFIX and self.token.kind in ("mark", "name"):
            own, before, after = _INFIX[self.token.text]
            if own > most or looseness > before:
                break
            name = self.take().text
            height = self.depth
            right = self.term(after)
            self.depth = height
            left, looseness = Compound(name, (left, right), left.span.to(right.span)), own
        self.depth -= 1
        return left

    def primary(self, most: int) -> tuple[Term, int]:
        token = self.take()
        following = self.token
        match token.kind:
            case "variable":
                return Var(token.text, token.span), 0
            case "number":
                return Number(read_number(token.text), token.span), 0
            case "string":
                return Compound(read_string(token.text), (), token.span, True), 0
            case "quoted":
                inner = token.text[1:-1].replace("''", "'").replace("\\'", "'")
                return self.applied(inner, token, True)
            case "name" if token.text in _DIRECTIVES and most >= _DIRECTIVE and following.kind in ("name", "quoted"):
                operand = self.term(_DIRECTIVE - 1)
                return Compound(token.text, (operand,), token.span.to(operand.span)), _DIRECTIVE
            case "name":
                return self.applied(token.text, token, False)
            case "mark":
                pass
            case _:
                self.at -= 1
                if token.kind == "bad":
                    self.stop(f"`{token.text}` is not valid in Prolog", token.span)
                self.fail("a term")
        if token.text == "(":
            height = self.depth
            inside = self.term(1200)
            self.depth = height
            self.close(")", token)
            return inside, 0
        if token.text == "[":
            return self.many(token), 0
        if token.text == "!":
            return Compound("!", (), token.span), 0
        if token.text == "-" and following.kind == "number" and following.start == token.end:
            number = self.take()
            return Number(-read_number(number.text), token.span.to(number.span)), 0
        if token.text in _PREFIX and _PREFIX[token.text][0] <= most:
            own, after = _PREFIX[token.text]
            height = self.depth
            operand = self.term(after)
            self.depth = height
            return Compound(token.text, (operand,), token.span.to(operand.span)), own
        self.at -= 1
        self.fail("a term")

    def applied(self, name: str, token: _Token, quoted: bool) -> tuple[Term, int]:
        opening = self.token
        if opening.text != "(" or opening.kind != "mark" or opening.start != token.end:
            return Compound(name, (), token.span, quoted), 0
        self.take()
        height = self.depth
        arguments = [self.term(999)]
        while self.token.text == "," and self.token.kind == "mark":
            self.take()
            arguments.append(self.term(999))
        self.depth = height
        closing = self.close(")", opening)
        return Compound(name, tuple(arguments), token.span.to(closing.span), False), 0

    def many(self, opening: _Token) -> Term:
        items: list[Term] = []
        if self.token.text != "]":
            items.append(self.term(999))
            while self.token.text == ",":
                self.take()
                items.append(self.term(999))
        if self.token.text == "|":
            self.stop("a list with a tail is not supported", self.token.span, "list all members: `[I1, I2]`")
        closing = self.close("]", opening)
        return Many(tuple(items), opening.span.to(closing.span))

    def close(self, mark: str, opening: _Token) -> _Token:
        if self.token.text != mark or self.token.kind != "mark":
            token = self.token
            seen = "the end of the clause" if token.kind in ("stop", "end") else f"`{token.text}`"
            line, column = opening.span.line, opening.span.column
            self.stop(f"expected `,` or `{mark}`, found {seen}", token.span,
                      f"the `{opening.text}` at {line}:{column} is not closed")  # fmt: skip
        return self.take()


def conjuncts(term: Term) -> list[Term]:
    if isinstance(term, Compound) and term.name == "," and len(term.arguments) == 2:
        return [*conjuncts(term.arguments[0]), *conjuncts(term.arguments[1])]
    return [term]


def alternatives(body: list[Term]) -> list[list[Term]]:
    """Expand each `;` in the body of a clause. Return several bodies without `;`. The original body is true if one of
    them is true."""
    for place, goal in enumerate(body):
        if isinstance(goal, Compound) and goal.name == ";" and len(goal.arguments) == 2:
            bodies = []
            for side in goal.arguments:
                bodies += alternatives([*body[:place], *conjuncts(side), *body[place + 1 :]])
            return bodies
    return [body]


def term_variables(term: Term) -> list[str]:
    """Return the names of a term's variables except `_`. A name can occur several times."""
    match term:
        case Var(name):
            return [] if name == "_" else [name]
        case Many(items):
            return [name for item in items for name in term_variables(item)]
        case Compound(_, arguments):
            return [name for argument in arguments for name in term_variables(argument)]
        case _:
            return []
