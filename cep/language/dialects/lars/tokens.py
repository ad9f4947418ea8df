"""Lexer of LARS: tokens, a cursor over the tokens, and units of time.

`//` begins a comment. `%` also begins one, unless it is the remainder operator between two values on one line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple, NoReturn, ParamSpec, TypeVar

from cep.core.errors import CepError, Source, Span
from cep.core.literals import SECOND
from cep.language.syntax.tokens import line_starts
from cep.rules.graph_text import closed, open_string
from cep.rules.parameters import Parameters
from cep.rules.terms import Expression

P = ParamSpec("P")
V = TypeVar("V")

UNITS = {
    **dict.fromkeys(("msec", "ms"), 1_000),
    **dict.fromkeys(("sec", "s"), SECOND),
    "min": 60 * SECOND,
    "h": 3_600 * SECOND,
    "d": 86_400 * SECOND,
}
"""The length of each unit in microseconds, for units of Ticker and our own units."""

_BREAKS = r"\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*:"
_TOKEN = re.compile(
    rf"""
    (?P<skip>\s++|//[^{_BREAKS}]*+)
  | (?P<block>/\*(?:[^*]|\*(?!/))*+\*/|%\*(?:[^*]|\*(?!%))*+\*%)
  | (?P<unclosed>/\*|%\*)
  | (?P<time>[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:[Tt][0-9:.]*[0-9](?:[Zz]|[+-][0-9]{{2}}(?::?[0-9]{{2}})?)?)?(?!\w))
  | (?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
  | (?P<prefixed>(?:[^\W\d_]\w*+(?:-\w++){{0,4}}+)?:\w(?:[\w.\-]*\w)?)
  | (?P<word>[^\W\d]\w*+)
  | (?P<string>"(?:[^"\\{_BREAKS}]|\\[^{_BREAKS}])*+")
  | (?P<quoted>'(?:[^'\\{_BREAKS}]|\\[^{_BREAKS}])*+')
  | (?P<open>["'])
  | (?P<iri><{_SCHEME}[^<>"{{}}|^`\\\s\x00-\x20]*+>)
  | (?P<percent>%)
  | (?P<mark>:-|->|:=|<=|<>|=>|=<(?!{_SCHEME})|==|!=|>=|&&|[()\[\]{{}}.,:;+\-*/^<>=!|&\#@])
  | (?P<bad>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_REMAINDER = re.compile(
    r"%[ \t]*(?:\(|(?:[0-9]+(?:\.[0-9]+)?|[A-Z_]\w*)[ \t]*(?:[-+*/%^,.)<>=!\[:]|(?:not[ \t]+)?in[ \t]*\[|$))",
    re.MULTILINE,
)
"""A pattern that matches a `%` and the text after it, if the `%` is the remainder operator. Any other `%` begins a
comment."""
_COMMENT = re.compile(rf"[%#][^{_BREAKS}]*+")
_HEAD = r"at\s+[-A-Z0-9_]|at\s*\((?!\s*(?:\)|[^\W\d]\w*\s*:(?!-)))"  # `event at T :- ...` is a rule, not a declaration
_DECLARATION = re.compile(
    rf"(?:event|fact)\s+(?!(?-i:{_HEAD}))[^\W\d]\w*|prefix\s+(?:[^\W\d_][\w-]*)?\s*(?::(?!-)|<)", re.IGNORECASE
)
_DECLARED = re.compile(r'(?:"(?:[^"\\\n]|\\.)*+"|<[^<>\s]*+>|[#%][^\n]*+|[^".]|\.(?!\s|\Z))*+\.?')
_PREFIX = re.compile(r"[^<\n]*(?:\n\s*)?(?:<[^<>\n]*>)?")


class LarsToken(NamedTuple):
    """A token.

    - `kind` of valid text: name, variable, number, string, iri, prefixed, time, graph, declaration, mark or end.
      A declaration is one token, including its `.`.
    - `kind` of invalid text: quoted (single quotes), open (a string without an end), brace, unclosed (a comment)
      or bad.
    - `start`, `end`: offsets into the text.
    """

    kind: str
    text: str
    start: int
    end: int


def tokens(text: str) -> Iterator[LarsToken]:
    """Yield the tokens of a text. The last token has the kind `end`. Invalid text does not raise an error."""
    position, before, last = 0, None, 0
    called: list[bool] = []  # for each open parenthesis: True if it contains the arguments of an atom
    value = False  # True if a value ends just before
    while position < len(text):
        match = _TOKEN.match(text, position)
        assert match is not None, "any character is a token"
        kind, start, end = str(match.lastgroup), position, match.end()
        if kind in ("skip", "block"):
            value = value and not any(newline in text[start:end] for newline in "\n\r")
            position = end
            continue
        if kind == "percent":
            if not (value and _REMAINDER.match(text, start)):
                rest = _COMMENT.match(text, start)
                assert rest is not None, "it begins with `%`"
                position = rest.end()
                continue
            kind = "mark"
        elif match.group() == "#" and _between(before) and text[end : end + 1].isspace():
            rest = _COMMENT.match(text, start)  # a comment after declarations, as in semcep's own language
            assert rest is not None, "it begins with `#`"
            position = rest.end()
            continue
        elif kind == "word":
            kind = "variable" if match.group()[0] == "_" or match.group()[0].isupper() else "name"
            if (_between(before) or "\n" in text[last:start]) and _DECLARATION.match(text, start):
                prefix = (_PREFIX if text[start : start + 1] in "pP" else _DECLARED).match(text, start)
                assert prefix is not None, "both match nothing, too"
                kind, end = "declaration", max(end, prefix.end())
        elif match.group() == "{":
            closing = closed(text, start, len(text))
            kind, end = ("graph", closing) if closing >= 0 else ("brace", len(text))
        elif kind == "unclosed":
            end = len(text)
        token = LarsToken(kind, text[start:end], start, end)
        holds = False
        if token.text == "(":
            called.append(before is not None and before.kind in ("name", "quoted") and before.end == start)
        elif token.text == ")":
            holds = bool(called) and not called.pop()
        elif token.text == ".":
            called = []
        value = kind in ("variable", "number") or holds
        yield token
        before, position, last = token, end, end
    yield LarsToken("end", "", last, last)


def _with_values(token: LarsToken, parameters: Parameters, tick: int) -> Iterator[LarsToken]:
    pieces = parameters.in_dialect(token.text, tick) if token.kind == "variable" else None
    if token.kind == "graph":
        yield token._replace(text=parameters.in_graph(token.text))
    elif pieces is None:
        yield token
    else:
        yield from (token._replace(kind=kind, text=text) for kind, text in pieces)


def _between(before: LarsToken | None) -> bool:
    return before is None or before.kind == "declaration" or before.text == "."


class LarsCursor:
    """A cursor over the tokens of a program.

    - `previous`: the token before the current one.
    - `counted`: True if a window `[n]` has n ticks, False if it has n + 1.
    - `prefixes`: the prefixes that have been declared so far.
    - `depth`: the number of open parentheses.
    - `heights`: the heights of expressions in the current statement.
    """

    def __init__(self, source: Source, tick: int, counted: bool = False, parameters: Parameters | None = None) -> None:
        self.source = source
        self.tick = tick
        self.counted = counted
        self.words = list(tokens(source.text))
        if parameters:
            self.words = [word for token in self.words for word in _with_values(token, parameters, tick)]
        self.at = 0
        self.depth = 0
        self.prefixes: dict[str, str] = {}
        self.heights: dict[int, tuple[int, Expression]] = {}
        self._starts = line_starts(source.text)

    @property
    def token(self) -> LarsToken:
        return self.words[self.at]

    @property
    def previous(self) -> LarsToken:
        return self.words[max(self.at - 1, 0)]

    def peek(self, ahead: int = 1) -> LarsToken:
        return self.words[min(self.at + ahead, len(self.words) - 1)]

    def advance(self) -> LarsToken:
        token = self.token
        self.at = min(self.at + 1, len(self.words) - 1)
        return token

    def sees(self, *texts: str) -> bool:
        return self.token.kind in ("mark", "name") and self.token.text in texts

    def accept(self, *texts: str) -> bool:
        if not self.sees(*texts):
            return False
        self.advance()
        return True

    def expect(self, text: str, hint: str | None = None) -> LarsToken:
        if not self.sees(text):
            self.fail(f"`{text}`", hint)
        return self.advance()

    def on_new_line(self) -> bool:
        """Return True if the next token is on a later line than the token before it."""
        return "\n" in self.source.text[self.previous.end : self.token.start]

    def line(self, offset: int) -> int:
        return bisect_right(self._starts, offset)

    def place(self, start: int, end: int) -> Span:
        """Return the span between two offsets of the program's text."""
        first, last = self.line(start), self.line(max(end - 1, start))
        return Span(first, start - self._starts[first - 1] + 1, last, end - self._starts[last - 1] + 1)

    def span(self, first: LarsToken) -> Span:
        return self.place(first.start, max(self.previous.end, first.start))

    def skip_statement(self) -> None:
        """Move past the next `.`. Stop earlier at a declaration or at the end of the text."""
        while self.token.kind not in ("end", "declaration"):
            if self.advance().text == ".":
                return

    def value(self, reader: Callable[P, V], token: LarsToken, *arguments: P.args, **options: P.kwargs) -> V:
        """Call `reader` and return its result. If it raises CepError, report the error at `token`."""
        try:
            return reader(*arguments, **options)
        except CepError as error:
            self.stop(error.message, error.hint, self.place(token.start, token.end))

    def fail(self, expected: str, hint: str | None = None) -> NoReturn:
        """Raise an error that says what the grammar expects instead of the next token."""
        token = self.token
        if token.kind == "open":
            self.stop(
                "this string is not closed", "a string ends on the line where it begins, with the same quotation mark"
            )
        if token.kind == "unclosed":
            ends = "*/" if token.text.startswith("/") else "*%"
            begins = self.place(token.start, token.start + 2)
            self.stop("this comment is not closed", f"it ends with `{ends}`", begins)
        if token.kind == "brace":
            position = open_string(self.source.text, token.start)
            where = self.place(token.start, token.start + 1) if position < 0 else self.place(position, position + 1)
            self.stop("this `{` is not closed" if position < 0 else "this string is not closed",
                      "a graph pattern stands in braces: `{ ?S wt:height ?H }`", where)  # fmt: skip
        seen = "the end of the program" if token.kind == "end" else f"`{token.text}`"
        self.stop(f"expected {expected}, found {seen}", hint)

    def stop(self, message: str, hint: str | None = None, span: Span | None = None, code: str = "syntax") -> NoReturn:
        token = self.token
        raise CepError(message, self.source, span or self.place(token.start, token.end), hint, code)
