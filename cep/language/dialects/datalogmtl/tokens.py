"""Lexer of DatalogMTL: tokens, a cursor over the tokens of one rule, and a reader of times."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NoReturn

from cep.core.errors import CepError, Source, Span
from cep.core.ticks import INFINITE, ticks
from cep.rules.parameters import Parameters

_TOKEN = re.compile(
    r"""
    (?P<skip>[ \t\r\f\v]+|[#%].*)
  | (?P<number>[0-9]+(?:\.[0-9]+)?(?:/[0-9]+)?)
  | (?P<name>[^\W\d]\w*)
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<mark>:-|<-|\\\+|[()\[\],.@+~-])
  | (?P<bad>.)
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class DatalogMtlToken:
    """A token of one line. `kind`: name, number, string, mark, bad or end. `column`: the column of the first character,
    from 1."""

    kind: str
    text: str
    line: int
    column: int

    @property
    def span(self) -> Span:
        return Span(self.line, self.column, self.line, self.column + len(self.text))


def tokens(line: str, number: int) -> list[DatalogMtlToken]:
    """Return the tokens of a line. The last token has the kind `end`."""
    words = [
        DatalogMtlToken(str(match.lastgroup), match.group(), number, match.start() + 1)
        for match in _TOKEN.finditer(line)
        if match.lastgroup != "skip"
    ]
    last = words[-1].column + len(words[-1].text) if words else 1
    return [*words, DatalogMtlToken("end", "", number, last)]


def with_values(words: list[DatalogMtlToken], parameters: Parameters, tick: int) -> list[DatalogMtlToken]:
    """Replace the names of parameters by their values. A name before `(` is a predicate and is not replaced."""
    if not parameters:
        return words
    replaced = list[DatalogMtlToken]()
    for word, after in zip(words, [*words[1:], None], strict=True):
        called = word.kind != "name" or (after is not None and after.text == "(")
        pieces = None if called else parameters.in_dialect(word.text, tick)
        replaced += [word] if pieces is None else [replace(word, kind=kind, text=text) for kind, text in pieces]
    return replaced


class DatalogMtlCursor:
    """A cursor over the tokens of one rule or fact. `previous` is the token before the current one."""

    def __init__(self, source: Source, words: list[DatalogMtlToken]) -> None:
        self.source = source
        self.words = words
        self.at = 0
        self.previous = words[0]
        self.depth = 0

    @property
    def token(self) -> DatalogMtlToken:
        return self.words[self.at]

    def peek(self, ahead: int = 1) -> DatalogMtlToken:
        return self.words[min(self.at + ahead, len(self.words) - 1)]

    def advance(self) -> DatalogMtlToken:
        self.previous = self.token
        self.at = min(self.at + 1, len(self.words) - 1)
        return self.previous

    def accept(self, *marks: str) -> bool:
        """If the next token is one of `marks`, move past it and return True. Otherwise return False."""
        if self.token.kind in ("end", "string") or self.token.text not in marks:
            return False
        self.advance()
        return True

    def expect(self, mark: str, hint: str | None = None) -> DatalogMtlToken:
        if not self.accept(mark):
            self.fail(f"`{mark}`", hint)
        return self.previous

    def span(self, first: DatalogMtlToken) -> Span:
        return first.span.to(self.previous.span)

    def fail(self, expected: str, hint: str | None = None) -> NoReturn:
        seen = "the end of the line" if self.token.kind == "end" else f"`{self.token.text}`"
        self.stop(f"expected {expected}, found {seen}", self.token.span, hint)

    def stop(self, message: str, span: Span, hint: str | None = None) -> NoReturn:
        raise CepError(message, self.source, span, hint, "syntax")


def bound(cursor: DatalogMtlCursor, tick: int) -> int | None:
    """Read a signed number of time units. Return it in microseconds, or return None for `inf`."""
    negative = cursor.accept("-")
    if not negative:
        cursor.accept("+")
    token = cursor.token
    if token.kind == "name" and token.text.lower() in INFINITE:
        cursor.advance()
        return None
    if token.kind != "number":
        cursor.fail("a number or `inf`", "numbers are `3`, `1.5` or `3/2`")
    cursor.advance()
    try:
        count = ticks(token.text, tick)
    except CepError as error:
        cursor.stop(error.message, token.span, error.hint)
    return -count if negative else count
