"""A Pygments lexer for `.cep` files. It highlights programs in documentation, notebooks and terminals (`pygmentize`).

It uses the parser's tokeniser and the language's lists of words, so it has no grammar of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from pygments.lexer import Lexer
from pygments.lexers.rdf import SparqlLexer
from pygments.token import Comment, Error, Keyword, Name, Number, Operator, Punctuation, String, Text, Whitespace

from cep.editor.words import TYPES, all_keywords
from cep.language.syntax.tokens import Token, line_starts, tokenise
from cep.rules.expressions.aggregates import AGGREGATES
from cep.rules.expressions.functions import FUNCTIONS
from cep.rules.keywords import SPELLINGS

_KEYWORDS = frozenset((*SPELLINGS, *all_keywords()))
_BUILT_IN = FUNCTIONS.keys() | set(AGGREGATES)
_KINDS = {
    "variable": Name.Variable,
    "number": Number,
    "time": Number,
    "duration": Number,
    "string": String,
    "open": Error,
    "quoted": Error,
    "brace": Error,
    "bad": Error,
    "iri": Name.Label,
    "prefixed": Name.Label,
}
_BRACKETS = frozenset("()[]{}.,;:")


class CepLexer(Lexer):  # type: ignore[misc]  # Pygments has no types
    """A lexer for programs of event rules."""

    name = "semcep event rules"
    aliases = ("cep",)
    filenames = ("*.cep",)

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, object, str]]:
        """Yield the parts of a program: the offset, token type and text of each part. All texts together are the
        program."""
        tokens = [token for token in tokenise(text, line_starts(text)) if token.kind != "end"]
        end = 0
        for index, token in enumerate(tokens):
            yield from _between(text, end, token.start)
            if token.kind == "graph":
                for offset, kind, part in SparqlLexer().get_tokens_unprocessed(token.text):
                    yield token.start + offset, kind, part
            else:
                before = tokens[index - 1].key if index else ""
                after = tokens[index + 1].key if index + 1 < len(tokens) else ""
                yield token.start, _kind(token, before, after), token.text
            end = token.end
        yield from _between(text, end, len(text))


def _between(text: str, start: int, end: int) -> Iterator[tuple[int, object, str]]:
    for line in text[start:end].splitlines(keepends=True):
        mark = len(line) - len(line.lstrip())
        if mark:
            yield start, Whitespace, line[:mark]
        if mark < len(line):
            yield start + mark, Comment if line[mark] in "#%" else Text, line[mark:]
        start += len(line)


def _kind(token: Token, before: str, after: str) -> object:
    """Return the Pygments token type of a token. `before`, `after`: the texts of the previous and the next token."""
    if token.kind == "mark":
        return Punctuation if token.text in _BRACKETS else Operator
    if after != ":" and token.text in _KEYWORDS and not (after == "(" and token.text in _BUILT_IN):
        return Keyword
    if token.kind != "name":
        return _KINDS[token.kind]
    if before == ":" and token.text in TYPES:
        return Keyword.Type
    if after == "(":
        return Name.Builtin if token.text in _BUILT_IN else Name.Function
    return Keyword.Constant if token.text in ("true", "false") else Name
