"""Tokens: program text cut into words, constants and marks, each with its position."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from cep.core.errors import Span
from cep.rules.graph_text import closed
from cep.rules.keywords import KEYWORDS


class Token(NamedTuple):
    """A token on one line, or a graph pattern. `kind` is one of

    name variable number string iri prefixed time duration graph mark end, or, for what is no token of the language,
    open (a string without its end), quoted (single quotes), brace (one that is not closed), bad (any other character).
    `key` is the keyword in capitals, the mark itself, or empty; `start` and `end` are offsets into the text.
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
        """The line and column behind the token."""
        if self.kind != "graph":
            return self.line, self.column + self.end - self.start
        *before, last = self.text.splitlines()
        return self.line + len(before), len(last) + (1 if before else self.column)

    @property
    def span(self) -> Span:
        return Span(self.line, self.column, *self.stop)

    @property
    def after(self) -> Span:
        """The empty stretch behind the token."""
        return Span(*self.stop, *self.stop)


_BREAKS = r"\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # where str.splitlines cuts, and so where errors count lines
_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*:"
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"

# Possessive repeats (`*+`) keep every alternative linear in the text.
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
    """The offset of each line's first character, counting lines as `str.splitlines` does."""
    lines = text.splitlines(keepends=True)
    return list(accumulate(map(len, lines[:-1]), initial=0))


def tokenise(text: str, starts: list[int], begin: int = 0, stop: int | None = None) -> list[Token]:
    """The tokens of `text[begin:stop]`, then one of kind `end` just behind the last; `starts` are its line starts.

    Never fails: what is no token comes as `open`, `quoted`, `brace` or `bad`, for the parser to refuse when it gets
    there. A graph pattern in braces is one token, in which the marks and comments of SPARQL hold.
    """
    tokens: list[Token] = []
    stop = len(text) if stop is None else stop
    line = bisect_right(starts, begin)
    line_start = starts[line - 1]
    next_line = starts[line] if line < len(starts) else len(text) + 1
    at: int | None = begin
    while at is not None:
        matches = _TOKEN.finditer(text, at, stop)
        at = None
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
                at = closed(text, start, stop)
                if at >= 0:
                    tokens.append(Token("graph", text[start:at], key, line, start - line_start + 1, start, at))
                    break
                kind, at = "brace", None
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
