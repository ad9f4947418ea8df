"""A cursor over tokens. It looks ahead, advances, checks tokens, and raises errors that have a position and a hint."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise
from typing import NoReturn, ParamSpec, TypeVar

from cep.core.errors import CepError, Source, Span
from cep.core.suggest import did_you_mean, lower_case
from cep.language.syntax import messages
from cep.language.syntax.tokens import Token, line_starts, tokenise
from cep.rules.expressions.spelling import CLOCK, joined
from cep.rules.graph_text import open_string
from cep.rules.keywords import RESERVED, STATEMENT_WORDS
from cep.rules.parameters import Parameters
from cep.rules.terms import Call

P = ParamSpec("P")
T = TypeVar("T")

DEEPEST = 100  # the maximum nesting, e.g. of parentheses, which the parser reads by recursion
HIGHEST = 200  # the maximum height of a tree, over which all later passes recurse


class Cursor:
    """A cursor over the tokens of a source.

    - `token`, `previous`: the next token, and the token before it.
    - `prefixes`: the prefixes that have been declared so far.
    - `height`: the height of the tree that was read last.
    - `depth`: the number of open brackets and operators.
    - `test`: a function that reads a condition inside an expression. The caller passes it, because the module
      that defines it imports this module.
    - `parameters`: the parameters whose names are read as their values.
    """

    __slots__ = (
        "_named", "_parameters", "_starts", "_tokens", "depth", "height", "prefixes", "previous", "source", "test",
        "token",
    )  # fmt: skip

    def __init__(
        self,
        source: Source,
        test: Callable[[Cursor], Call],
        begin: int = 0,
        stop: int | None = None,
        parameters: Parameters | None = None,
    ) -> None:
        self.source = source
        self.test = test
        self._starts = line_starts(source.text)
        tokens = tokenise(source.text, self._starts, begin, stop)
        self._parameters = parameters or Parameters()
        self._named: dict[tuple[int, int], Token] = {}
        """The tokens of the parameter names that the cursor has replaced by values. The keys are the lines and columns
        of these tokens."""
        self._tokens = (self._with_values(tokens, parameters) if parameters else tokens)[::-1]  # the next one last
        self.token = self._tokens[-1]
        self.previous = self.token
        self.prefixes: dict[str, str] = {}
        self.depth = 0
        self.height = 0

    def _with_values(self, tokens: list[Token], parameters: Parameters) -> list[Token]:
        """Replace the names of parameters by their values, also inside graph patterns."""
        replaced = list[Token]()
        before = ""
        for token in tokens:
            if (
                token.kind == "variable"
                and before != "PARAM"
                and (parameter := parameters.named(token.text)) is not None
            ):
                kind, text = parameter.token
                self._named[token.line, token.column] = token
                token = token._replace(kind=kind, text=text, key="")
            elif token.kind == "graph":
                token = token._replace(text=parameters.in_graph(token.text))
            replaced.append(token)
            before = token.key
        return replaced

    # -- parameters

    def parameter(self, span: Span | None = None) -> str | None:
        """Return the name of the parameter that fills `span` in the program, or None if no parameter does. The default
        of `span` is the next token."""
        token = self.token if span is None else self._named.get((span.line, span.column))
        if token is None or (span is None and (token.line, token.column) not in self._named):
            return None
        name = self._named[token.line, token.column]
        return name.text if span is None or span == name.span else None

    def parameter_meant(self, *types: str) -> str | None:
        """Return a hint if the next token is similar to the name of a parameter whose type is one of `types`. Otherwise
        return None."""
        return did_you_mean(
            self.token.text, [parameter.name for parameter in self._parameters if parameter.type in types]
        )

    def written(self, token: Token) -> Token:
        """Return a token as it is written in the program. If the token is the value of a parameter, return the
        parameter's name."""
        return self._named.get((token.line, token.column), token)

    def as_word(self) -> None:
        """If the next token is the value of a parameter, replace it by the parameter's name. Readers call this where a
        name is expected."""
        self._tokens[-1] = self.token = self.written(self.token)

    # -- looking and moving

    def peek(self, ahead: int = 1) -> Token:
        return self._tokens[max(len(self._tokens) - 1 - ahead, 0)]

    def advance(self) -> Token:
        """Return the next token and move past it. Must not be called at the end."""
        token = self.previous = self.token
        assert token.kind != "end", "nothing advances past the end"
        self._tokens.pop()
        self.token = self._tokens[-1]
        return token

    def accept(self, key: str) -> bool:
        if self.token.key != key:
            return False
        self.advance()
        return True

    def expect(self, key: str, expected: str | None = None, hint: str | None = None) -> Token:
        if self.token.key != key:
            self.fail(expected or f"`{key}`", hint)
        return self.advance()

    def close(self, opening: Token, key: str, expected: str, hint: str | None = None) -> None:
        """Move past the bracket that closes `opening`. Raises CepError if another token is next."""
        if self.token.key != key:
            token = self.token
            if hint is None and (
                token.kind == "end" or token.key in RESERVED or token.key in (".", "<-", ":-", ")", "]")
            ):
                hint = f"the `{opening.text}` at {opening.line}:{opening.column} is not closed"
            self.fail(expected, hint)
        self.advance()

    def adjoins(self) -> bool:
        """Return True if there is no space between the previous and the next token."""
        return self.previous.end == self.token.start

    def on_new_line(self) -> bool:
        return self.token.line > self.previous.stop[0]

    def split(self) -> None:
        """Split the next token: `wind:float` into `wind`, `:` and `float`, or `<-` into `<` and `-`."""
        token = self.token
        cut = token.start + (token.text.index(":") if token.kind == "prefixed" else 1)
        stops = (token.start, cut, cut + 1, token.end) if token.kind == "prefixed" else (token.start, cut, token.end)
        parts = [
            part
            for begin, stop in pairwise(stops)
            for part in tokenise(self.source.text, self._starts, begin, stop)[:-1]
        ]
        self._tokens[-1:] = parts[::-1]
        self.token = self._tokens[-1]

    def tokens(self, first: Token, last: Token) -> list[Token]:
        """Return the tokens from `first` to just before `last`, as the program writes them."""
        return tokenise(self.source.text, self._starts, first.start, last.start)[:-1]

    def span(self, first: Token) -> Span:
        return Span(first.line, first.column, *self.previous.stop)

    def place(self, offset: int, length: int) -> Span:
        """Return the span of `length` characters on one line. `offset`: the first character's offset in the source."""
        line = bisect_right(self._starts, offset)
        column = offset - self._starts[line - 1] + 1
        return Span(line, column, line, column + length)

    # -- limits

    def enter(self) -> None:
        """Enter a level of nesting. The caller leaves it by `depth -= 1`. Raises CepError at too many levels."""
        self.depth += 1
        if self.depth > DEEPEST:
            self.stop(f"more than {DEEPEST} levels of nesting", "give an inner part a rule of its own")

    def grow(self, below: int, token: Token) -> None:
        """Set `height` to the height of a new node of the tree. Raises CepError if it exceeds HIGHEST.

        `below`: the largest height of the node's operands. `token`: the token at which the error is reported.
        """
        self.height = below + 1
        if self.height > HIGHEST:
            self.stop(f"more than {HIGHEST} operators on one another", "give a part a rule of its own", token.span)

    # -- names and constants

    def name(self, expected: str, hint: str | None = None) -> Token:
        """Read the name of an event or a predicate: it begins in lower case and is not a keyword.

        Raises CepError if the next token is not such a name. `expected`: a description of the name for the message.
        """
        token = self.token
        if token.kind == "name" and token.key not in RESERVED and token.key not in STATEMENT_WORDS:
            return self.advance()
        if token.kind == "variable" and token.key not in RESERVED:
            lower = lower_case(token.text.lstrip("_"))
            self.fail(expected, f"{messages.CASE}: `{lower}`" if lower else messages.CASE)
        if token.kind == "name":
            self.stop(f"`{token.text}` is a keyword, not a name", f"another name is free: `{token.text}_seen`")
        self.fail(expected, hint)

    def variable(self, expected: str, hint: str | None = None) -> Token:
        token = self.token
        if (parameter := self.parameter()) is not None:
            self.stop(f"`{parameter}` is a parameter, so it cannot be a variable here", "choose another name here")
        if token.kind != "variable" or token.key in RESERVED:
            if token.kind == "name" and token.key not in RESERVED and self.peek().key != "(":
                hint = f"a variable starts with an upper-case letter: `{token.text[0].upper()}{token.text[1:]}`"
            self.fail(expected, hint)
        return self.advance()

    def read(self, reader: Callable[P, T], token: Token, *arguments: P.args, **options: P.kwargs) -> T:
        """Call `reader` and return its result. If it raises CepError, report the error at `token`."""
        try:
            return reader(*arguments, **options)
        except CepError as error:
            self.stop(error.message, error.hint, token.span)

    # -- failing

    def fail(self, expected: str, hint: str | None = None) -> NoReturn:
        """Raise an error that says what the grammar expects instead of the next token."""
        token = self.token
        if token.kind == "brace":
            self.fail_open_brace()
        wrong = messages.broken(token)
        if wrong:
            self.stop(*wrong)
        if (parameter := self.parameter()) is not None:
            self.stop(
                f"expected {expected}, found the parameter `{parameter}`, which is {messages.token_name(token)}", hint
            )
        if token.text == ";" and (self.peek().kind == "end" or self.peek().line > token.line):
            hint = messages.FINAL_DOT
        self.stop(f"expected {expected}, found {messages.token_name(token)}", self._spaced() or hint)

    def _spaced(self) -> str | None:
        day = self.previous
        clock = CLOCK.match(self.source.text, day.end) if day.kind == "time" and len(day.text) == 10 else None
        return f"a time is one word, with a `T` before the hour: `{joined(day.text, clock[1])}`" if clock else None

    def fail_open_brace(self) -> NoReturn:
        """Raise the error for a brace that is not closed. The cause may be a quotation mark that is missing."""
        offset = open_string(self.source.text, self.token.start)
        if offset < 0:
            self.stop("this `{` is not closed", messages.BRACE)
        opened = f"the graph pattern begins at {self.token.line}:{self.token.column}"
        hint = f'{opened}; a string ends on the line where it begins, unless it is in `"""`'
        self.stop("this string is not closed", hint, self.place(offset, 1))

    def stop(self, message: str, hint: str | None = None, span: Span | None = None, code: str = "syntax") -> NoReturn:
        raise CepError(message, self.source, span or self.token.span, hint, code)
