"""Recovery from syntax errors. The parser skips a statement that has a mistake and reads the others, so that all
mistakes are reported together.

After a skipped statement, the parser continues on a new line: after a `.`, or with a word such as `event`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cep.core.errors import CepError, CepErrors, Mistakes
from cep.language.syntax.ast import SyntaxTree
from cep.language.syntax.cursor import Cursor
from cep.language.syntax.tokens import Token

_FIRST_WORDS = ("ALERT", "EVENT", "FACT", "FLUENT", "INITIALLY", "INITIATE", "PARAM", "PREFIX", "TERMINATE")
"""Words that begin a statement if a name follows them."""
_BEHIND_NAMES = ("(", "<-", ":-", "=", "ON")
"""Marks and words that directly follow the name that a statement declares or derives."""
_CONSTANTS = ("PARAM", "PREFIX")
"""The first words of the statements that declare parameters and prefixes. Other statements cannot be read without these
names."""


class SyntaxErrors(CepErrors):
    """The mistakes in those statements of a program that the parser could not read.

    `tree`: the statements without mistakes. `names`: the names that the statements with mistakes declare.
    """

    def __init__(self, errors: list[CepError], tree: SyntaxTree, names: frozenset[str]) -> None:
        super().__init__(errors)
        self.tree = tree
        self.names = names


class Recovery:
    """A collector of the mistakes that the parser reports while it reads a program.

    `names`: the names that the statements with mistakes declare. `skipped`: the lines and columns at which these
    statements begin.
    """

    def __init__(self) -> None:
        self.errors = Mistakes()
        self.names: set[str] = set()
        self.skipped: set[tuple[int, int]] = set()
        self._constants: set[str] = set()

    def refuse_constant(self, error: CepError, first: Token, name: Token, known: bool) -> None:
        """Record a mistake in a PARAM statement. `known`: True if another one declares the same parameter."""
        self.errors.add(error)
        self.skipped.add((first.line, first.column))
        if name.kind == "variable" and not known:
            self._constants.add(name.text)
            self.names.add(name.text)

    def refuse(self, error: CepError, cursor: Cursor, first: Token) -> None:
        """Record the mistake in a statement, and move the cursor to the next statement.

        If the statement uses a parameter or prefix whose declaration has a mistake, do not record the mistake of the
        statement.
        """
        before = set(self._constants)
        tokens = self.skip(cursor, first)
        if not any(token.text.partition(":")[0] in before for token in tokens):
            self.errors.add(error)

    def skip(self, cursor: Cursor, first: Token) -> list[Token]:
        """Move the cursor to the next statement. Record the names that the skipped tokens declare. Return these tokens.

        `first`: the first token of the statement that is skipped.
        """
        cursor.depth = 0
        if cursor.token is first and first.kind != "end":
            cursor.advance()
        while cursor.token.kind != "end" and not _begins(cursor, first):
            cursor.advance()
        tokens = cursor.tokens(first, cursor.token)
        names = list(_declared(tokens))
        self.names.update(names)
        if tokens and tokens[0].key in _CONSTANTS:
            self._constants.update(name.partition(":")[0] for name in names)
        return tokens

    def refused(self, tree: SyntaxTree) -> SyntaxErrors:
        """Return one error that contains all mistakes. `tree`: the statements without mistakes."""
        return SyntaxErrors(self.errors, tree, frozenset(self.names))


def _begins(cursor: Cursor, first: Token) -> bool:
    token, before, after = cursor.token, cursor.previous, cursor.peek()
    if not cursor.on_new_line() or token.column > first.column:
        return False
    ended = before.key == "." or (before.kind == "open" and before.text.endswith("."))
    return ended or (
        token.key in _FIRST_WORDS and after.kind in ("name", "variable", "prefixed") and after.line == token.line
    )


def _declared(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the names that tokens declare. In each statement, these are the names before the first bracket or arrow.

    A new line begins a statement even if the `.` before it is missing, unless the line is indented deeper than the
    first token.
    """
    line, before, heading = 0, ".", False
    for token in tokens:
        begins = before == "." or (token.line > line and token.column <= tokens[0].column)
        heading = (heading or begins) and token.key not in _BEHIND_NAMES
        if heading and token.kind in ("name", "variable", "prefixed") and token.key not in _FIRST_WORDS:
            yield token.text
        line, before = token.line, token.key
