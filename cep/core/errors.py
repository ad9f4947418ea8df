"""Errors for rule authors. Each says what is wrong, where, and what to write instead."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

Text = TypeVar("Text")
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A range of program text. Its start is the 1-based line and column of the first character. Its end is the position
    after the last character."""

    line: int
    column: int
    end_line: int
    end_column: int

    def to(self, other: Span) -> Span:
        """Return the range from the start of this range to the end of `other`."""
        return Span(self.line, self.column, other.end_line, other.end_column)


NOWHERE = Span(1, 1, 1, 1)

MOST = 100
"""The maximum number of mistakes that are reported together."""

FULL = (errno.ENOSPC, errno.EDQUOT)
"""The error numbers of a full disk or an exhausted quota."""

NO_ROOM = "No space left"
"""A part of the text of a library's error for a full disk. Such an error has no error number."""


Files = tuple[tuple[str, int], ...]
"""The files of a concatenated program text: the name of each file, and its first line in the text."""


@dataclass(frozen=True, slots=True)
class Source:
    """A program text, and its name for messages (a file name, or `<program>`).

    `files`: the files that the text was concatenated from, if there are several.
    """

    text: str
    name: str = "<program>"
    files: Files = ()

    def place(self, line: int) -> tuple[str, int]:
        """Return the file that contains a line of the text, and the line's number in that file."""
        name, first = next((file for file in reversed(self.files) if file[1] <= line), (self.name, 1))
        return name, line - first + 1

    def spot(self, span: Span) -> str:
        """Write the start of a span: `3:14`, or `policies.lars:3:14` if there are several files."""
        name, line = self.place(span.line)
        return f"{name}:{line}:{span.column}" if self.files else f"{line}:{span.column}"

    def line_name(self, line: int) -> str:
        """Name a rule that has no label by its line: `line 3`, or `policies.lars:3` if there are several files."""
        name, number = self.place(line)
        return f"{name}:{number}" if self.files else f"line {number}"

    def line(self, number: int) -> str:
        """Return line `number` (1-based) without its line break. If the text has fewer lines, return an empty text."""
        lines = self.lines
        return lines[number - 1] if 1 <= number <= len(lines) else ""

    @property
    def lines(self) -> tuple[str, ...]:
        """All lines of the text, without line breaks."""
        return _lines(self.text)


@lru_cache(maxsize=2)
def _lines(text: str) -> tuple[str, ...]:
    # Cached, so that a program with many mistakes is not split into lines again for each of them.
    return tuple(text.splitlines())


UNREACHABLE = "unreachable"
"""The code of an error whose cause may disappear by itself, so that a later attempt may succeed."""


class CepError(Exception):
    """An author's mistake. Its text has the position, the line, a caret under the line, and a hint.

    `code`: a short stable name (`syntax`, `unsafe`, `type`, ...), for tests and tools.
    """

    def __init__(
        self,
        message: str,
        source: Source | None = None,
        span: Span | None = None,
        hint: str | None = None,
        code: str = "error",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.source = source
        self.span = span
        self.hint = hint
        self.code = code

    def __str__(self) -> str:
        return render(self.message, self.source, self.span, self.hint)


class CepErrors(CepError):
    """Several mistakes of one program, sorted by position."""

    def __init__(self, errors: list[CepError]) -> None:
        assert errors, "a group of errors holds at least one"
        first = min(errors, key=_position)
        super().__init__(first.message, first.source, first.span, first.hint, first.code)
        self.errors = tuple(sorted(errors, key=_position))

    def __str__(self) -> str:
        texts = [str(error) for error in self.errors]
        if len(texts) >= MOST:
            texts.append(f"these are {len(texts)} mistakes; more are looked for when they are corrected")
        return "\n\n".join(texts)


class Mistakes(list[CepError]):
    """A list of mistakes in the order in which they were found. It raises CepErrors once it contains MOST mistakes."""

    def append(self, error: CepError) -> None:
        super().append(error)
        if len(self) >= MOST:
            raise CepErrors(self)

    def add(self, error: CepError) -> None:
        """Add a mistake. If it is a group of mistakes, add each of them."""
        for mistake in error.errors if isinstance(error, CepErrors) else (error,):
            self.append(mistake)

    def attempt(self, read: Callable[[Text], Read], text: Text | None, otherwise: Read) -> Read:
        """Return `read(text)`. If `read` raises a mistake, add it to the list and return `otherwise`.

        If `text` is None, also return `otherwise`.
        """
        with self.kept():
            return otherwise if text is None else read(text)
        return otherwise

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Catch a mistake that the block raises, and add it to the list."""
        try:
            yield
        except CepError as error:
            if len(self) >= MOST:
                raise
            self.add(error)


@contextmanager
def mistakes_together() -> Iterator[Mistakes]:
    """Collect mistakes during the block. Afterwards, raise CepErrors if there are any.

    A mistake that the block raises is also collected.
    """
    mistakes = Mistakes()
    with mistakes.kept():
        yield mistakes
    if mistakes:
        raise CepErrors(mistakes)


@dataclass(frozen=True, slots=True)
class Warning:
    """A remark to the author about something that is not a mistake, such as a goal whose state never shrinks."""

    message: str
    source: Source | None = None
    span: Span | None = None
    hint: str | None = None
    code: str = "warning"

    def __str__(self) -> str:
        return render("warning: " + self.message, self.source, self.span, self.hint)


def reason_of(error: BaseException) -> str:
    """Return the reason of an error in lower case: its `strerror`, otherwise its text."""
    return str(getattr(error, "strerror", None) or error).lower()


def lacks_room(error: BaseException | None) -> bool:
    """Return True if a full disk or an exhausted quota caused the error, so that a later attempt may succeed."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            return True
        error = error.__cause__ or error.__context__
    return False


def _position(error: CepError) -> tuple[int, int, str]:
    span = error.span or NOWHERE
    return (span.line, span.column, error.message)


def render(message: str, source: Source | None, span: Span | None, hint: str | None) -> str:
    """Format an error: `name:line:column: message`, the line, a caret line, and `hint: ...`. Omit unknown parts."""
    parts: list[str] = []
    if span is None:
        parts.append(message)
    else:
        name, line = source.place(span.line) if source else ("<program>", span.line)
        parts.append(f"{name}:{line}:{span.column}: {message}")
        if source:
            parts.extend(_caret(source.line(span.line), span))
    if hint:
        parts.append(f"hint: {hint}")
    return "\n".join(parts)


def _caret(line: str, span: Span, width: int = 100) -> list[str]:
    if not line or line.isspace():
        return []
    column = min(span.column, len(line) + 1)
    stop = span.end_column if span.end_line == span.line else len(line) + 1
    length = max(1, min(stop, len(line) + 1) - column)
    left = max(0, column - width)  # if the line is very long, show the part around the caret
    shown = line[left : left + 2 * width].expandtabs(1)
    return ["    " + shown, "    " + " " * (column - 1 - left) + "^" * min(length, 2 * width - (column - 1 - left))]
