"""Quick fixes: changes of a text that the hints of errors propose, such as "write X instead" or "did you mean X?"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cep.core.errors import NOWHERE, CepError, CepErrors, Source
from cep.core.suggest import nearest
from cep.editor.checking import Finding
from cep.editor.symbols import Index
from cep.language.reading import parameters_with, read

_INSTEAD = re.compile(
    r"(?:did you mean `(?P<meant>[^`]+)`\?"
    r"|^write `(?P<write>[^`]+)`"
    r"|starts? with an upper-case letter: `(?P<upper>\w+)`$"
    r"|variables with an upper-case one: `(?P<lower>\w+)`$"
    r"|another name is free: `(?P<free>\w+)`$)"
)
_DECLARE = re.compile(r"declare it, `(event [^`]+\.)`")
_DOT = re.compile(r"expected `\.` at the end|a statement ends with `\.`|is a `\.` missing before")
_COMMA = re.compile(r"^conditions are separated by `,`")
_QUOTED = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Fix:
    """A change of a text: replace `text[start:end]` by `new`."""

    title: str
    start: int
    end: int
    new: str


def fixes(index: Index, finding: Finding, name: str, beside: Mapping[str, str]) -> list[Fix]:
    """Return the changes that the hint of a finding proposes. Changes that would not remove the error are omitted.

    `beside`: the texts of all files of the program, by name, because they may declare parameters.
    """
    if finding.hint is None:
        return []
    begin, end = extent(index, finding)
    proposed = list(_proposed(index, finding, begin, end))
    return [fix for fix in proposed if _helps(index.text, fix, finding, name, beside)]


def extent(index: Index, finding: Finding) -> tuple[int, int]:
    """Return the offsets at which a finding starts and ends."""
    starts, span = index.line_starts, finding.span

    def offset(line: int, column: int) -> int:
        if line > len(starts):
            return len(index.text)
        return min(starts[line - 1] + column - 1, len(index.text))

    begin = offset(span.line, span.column)
    return begin, max(begin, offset(span.end_line, span.end_column))


def _proposed(index: Index, finding: Finding, begin: int, end: int) -> Iterator[Fix]:
    hint = finding.hint or ""
    before = [token for token in index.tokens if token.end <= begin]
    if match := _INSTEAD.search(hint):
        instead = next(group for group in match.groups() if group is not None)
        place = _wrong_word(index, finding, instead, begin, end)
        if place is not None and index.text[place[0]] == '"' and instead[0] != '"':
            instead = f'"{instead}"'
        if place is not None and index.text[place[0] : place[1]] != instead:
            apart = place[0] > 0 and instead[0].isalpha() and index.text[place[0] - 1] in ")]"
            yield Fix(f"write `{instead}`", *place, f" {instead}" if apart else instead)
    if "is written without `?`" in hint and index.text[begin:end] == "?":
        yield Fix("leave out `?`", begin, end, "")
    if match := _DECLARE.search(hint):
        statement = index.statement_at(begin)
        start = 0 if statement is None else index.line_starts[statement.tokens[0].line - 1]
        yield Fix(f"declare it: `{match[1]}`", start, start, f"{match[1]}\n")
    if _DOT.search(f"{finding.message}; {hint}"):
        if index.text[begin:end] == ";":
            yield Fix("write `.`", begin, end, ".")
        elif before:
            yield Fix("write `.`", before[-1].end, before[-1].end, ".")
    if _COMMA.search(hint) and before and index.text[begin:end].upper() in ("AND", "&", "&&", ";"):
        yield Fix("write `,`", before[-1].end, end, ",")


def _wrong_word(index: Index, finding: Finding, instead: str, begin: int, end: int) -> tuple[int, int] | None:
    """Return the start and end of the word that a hint replaces. Returns None if this word is not found.

    The word is the text from `begin` to `end`, or the word nearest to it that the finding's message quotes.
    """
    quoted = nearest(instead, [word for word in _QUOTED.findall(finding.message) if word != instead])
    if quoted is None or index.text[begin:end].strip('"') == quoted:
        before = [token for token in index.tokens if token.end <= begin]
        if before and " " in instead:  # `write 3 h` replaces the number of `3 hours` too
            number = before[-1].kind == "number" and instead[0].isdigit()
            begin = before[-1].start if number or before[-1].text == instead.split()[0] else begin
        return (begin, end) if end > begin else None
    named = [token for token in index.tokens if token.text == quoted]
    statement = index.statement_at(begin)
    if statement is not None:
        named = [token for token in named if token in statement.tokens] or named
    closest = min(named, key=lambda token: abs(token.start - begin), default=None)
    return None if closest is None else (closest.start, closest.end)


def _helps(text: str, fix: Fix, finding: Finding, name: str, beside: Mapping[str, str]) -> bool:
    """Return True if a fix removes the error without causing a new one.

    If the error is a syntax error, new errors after its position do not count.
    """
    changed = text[: fix.start] + fix.new + text[fix.end :]
    moved = fix.new.count("\n") - text[fix.start : fix.end].count("\n")
    known = set(_refused(text, name, beside))
    here = finding.span.line, finding.span.column
    for message, (line, column) in _refused(changed, name, beside):
        place = line - moved, column
        new = (message, place) == (finding.message, here) or (message, place) not in known
        if new and (finding.code != "syntax" or place <= here):
            return False
    return True


def _refused(text: str, name: str, beside: Mapping[str, str]) -> list[tuple[str, tuple[int, int]]]:
    try:
        read(text, name, parameters=parameters_with(Source(text, name), beside) if len(beside) > 1 else None)
    except CepError as error:
        errors = error.errors if isinstance(error, CepErrors) else (error,)
        spans = [error.span or NOWHERE for error in errors]
        return [(error.message, (span.line, span.column)) for error, span in zip(errors, spans)]
    return []
