"""Lexer: splits the text of a program into tokens."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from cep.core.errors import Span
from cep.rules.graph_text import closed
from cep.rules.keywords import KEYWORDS


class Token(NamedTuple):
    """A token. All tokens except graph patterns are on one line.

    - `kind` of valid text: name, variable, number, string, iri, prefixed, time, duration, graph, mark or end.
    - `kind` of invalid text: open (a string without an end), quoted (single quotes), brace (not closed) or bad.
    - `key`: for a keyword, its text in capitals; for a mark, its text; for all other tokens, an empty string.
    - `start`, `end`: offsets into the text.
    """

    kind: str
    text: str
    key: str
    line: int
    column: int
    start: int
    end: int

    @property
    def stop(self) -> tuple[int, int]:
        """The line and the column just after the token."""
        if self.kind != "graph":
            return self.line, self.column + self.end - self.start
        *before, last = self.text.splitlines()
        return self.line + len(before), len(last) + (1 if before else self.column)

    @property
    def span(self) -> Span:
        return Span(self.line, self.column, *self.stop)

    @property
    def after(self) -> Span:
        """The empty span just after the token."""
        return Span(*self.stop, *self.stop)


_BREAKS = r"\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # the line breaks of `str.splitlines`, by which errors count lines
_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*:"
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"

# Possessive repeats (`*+`) make the time of every alternative linear in the text.
_TOKEN = re.compile(
    rf"""
    (?P<skip>(?:\s|[#%][^{_BREAKS}]*+)++)
  | (?P<time>[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:[Tt][0-9:.]*[0-9](?:[Zz]|[+-][0-9]{{2}}(?::?[0-9]{{2}})?)?)?(?!\w))
  | (?P<number>{_NUMBER}(?:[eE][+-]?[0-9]+)?)
  | (?P<duration>P(?=[0-9]|T[0-9])(?:{_NUMBER}W)?(?:{_NUMBER}D)?
        (?:T(?=[0-9])(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?(?!\w))
  | (?P<prefixed>(?:[^\W\d_]\w*+(?:-\w++){{0,4}}+)?:\w(?:[\w.\-]*\w)?)
  | (?P<word>[^\W\d]\w*+)
  | (?P<string>"(?:[^"\\{_BREAKS}]|\\[^{_BREAKS}])*+")
  | (?P<open>"[^{_BREAKS}]*+)
  | (?P<quoted>'[^'{_BREAKS}]*+'?)
  | (?P<iri><{_SCHEME}[^<>"{{}}|^`\\\s\x00-\x20]*+>)
  | (?P<mark><-|:-|:=|<=|<>|=>|=<(?!{_SCHEME})|==|!=|>=|->|//|\*\*|\.\.|&&|\|\||[()\[\]{{}}.,:;+\-*/<>=?!&|])
  | (?P<bad>.)
    """,
    re.VERBOSE | re.DOTALL,
)


def line_starts(text: str) -> list[int]:
    """Return the offset of the first character of each line. Lines end where `str.splitlines` ends them."""
    lines = text.splitlines(keepends=True)
    return list(accumulate(map(len, lines[:-1]), initial=0))


def tokenise(text: str, starts: list[int], begin: int = 0, stop: int | None = None) -> list[Token]:
    """Return the tokens of `text[begin:stop]`. The last token has the kind `end`. `starts`: the result of
    `line_starts`.

    Invalid text does not raise an error, because the parser reports the tokens `open`, `quoted`, `brace` and `bad`. A
    graph pattern in braces is one token. Inside it, SPARQL's rules for strings and comments apply.
    """
    tokens: list[Token] = []
    stop = len(text) if stop is None else stop
    line = bisect_right(starts, begin)
    line_start = starts[line - 1]
    next_line = starts[line] if line < len(starts) else len(text) + 1
    offset: int | None = begin
    while offset is not None:
        matches = _TOKEN.finditer(text, offset, stop)
        offset = None
        for match in matches:
            kind = match.lastgroup
            if kind == "skip":
                continue
            assert kind is not None, "every alternative is named"
            word = match.group()
            start, end = match.span()
            if start >= next_line:
                line = bisect_right(starts, start)
                line_start = starts[line - 1]
                next_line = starts[line] if line < len(starts) else len(text) + 1
            key = ""
            if kind == "word":
                kind = "variable" if word[0] == "_" or word[0].isupper() else "name"
                key = word.upper()
                if key not in KEYWORDS:
                    key = ""
            elif kind == "mark":
                key = word
            if key == "{":
                offset = closed(text, start, stop)
                if offset >= 0:
                    tokens.append(Token("graph", text[start:offset], key, line, start - line_start + 1, start, offset))
                    break
                kind, offset = "brace", None
            tokens.append(Token(kind, word, key, line, start - line_start + 1, start, end))
            if kind == "brace":
                break
    if tokens:
        last = tokens[-1]
        line, column = last.stop
        tokens.append(Token("end", "", "", line, column, last.end, last.end))
    else:
        tokens.append(Token("end", "", "", line, begin - line_start + 1, begin, begin))
    return tokens
