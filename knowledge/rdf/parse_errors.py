"""Errors in RDF files: each with the file, line, column, reason, and a hint that suggests a correction."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from typing import IO
from xml.parsers import expat

import pyoxigraph as ox

from cep.core.errors import CepError, Source, Span

_WHERE = re.compile(r"^Parser error (?:at|between|on) line .*?: |^Parser error between line .*? and line .*?: ")
_PREFIX = re.compile(r"[Tt]he prefix (\S*?):? has not been declared|Prefix not found|Unknown prefix")
_HINTS = (
    ("No scheme found", "an IRI is written in full, `<http://...>`, or relative to an `@base <http://...> .`"),
    ("Unexpected end of file", 'the file ends within a statement: is a closing `"`, `>`, `]` or the last `.` missing?'),
    ("not a valid RDF object", 'an object is an IRI `<...>`, a prefixed name `ex:a`, a literal `"..."` or a number'),
    ("not a valid RDF subject", "a subject is an IRI `<...>`, a prefixed name `ex:a` or a blank node `_:b`"),
    ("not a valid predicate", "a predicate is an IRI `<...>`, a prefixed name `ex:a`, or `a` for rdf:type"),
    ("A dot is expected", "a statement ends with ` .`; `;` goes on with the same subject, `,` with the same predicate"),
    ("Invalid UTF-8", "convert the file to UTF-8 first"),
    ("LoadDocumentCallback", "write the context in the file itself: contexts are not fetched from the network"),
    ("code point", 'in an IRI a space is `%20`, and `<`, `>`, `"`, `{`, `}` are percent-encoded as well'),
)
_LINES = (ox.RdfFormat.N_TRIPLES, ox.RdfFormat.N_QUADS)
_HINTS_OF_LINES = (  # for formats without prefixes and base, with one statement per line
    ("No scheme found", "an IRI is written in full, `<http://...>`: this format has no base for relative IRIs"),
    ("object of a triple", 'an object is an IRI in full, `<http://...>`, a blank node `_:b` or a literal `"..."`'),
    ("subject of a triple", "a line begins with an IRI in full, `<http://...>`, or a blank node `_:b`"),
    ("predicate of a triple", "a predicate is an IRI in full, `<http://...>`; neither prefixes nor `a` are known here"),
    ("followed by a dot", "a statement is one line, and ends with ` .`"),
    ("Unexpected end of file", 'the file ends within a statement: is a closing `"` or `>`, or the last `.`, missing?'),
    *(hint for hint in _HINTS if hint[0] in ("Invalid UTF-8", "code point")),
)
_LONGEST = 100_000  # show the line itself up to this line number


def unreadable(error: SyntaxError, name: str, format: ox.RdfFormat, opened: Callable[[], IO[bytes]]) -> CepError:
    """Convert an error of Oxigraph's parser to a CepError. `opened`: a function that opens the text again, so that the
    error can show the line."""
    reason = _WHERE.sub("", error.msg)
    hint = next((hint for part, hint in (_HINTS_OF_LINES if format in _LINES else _HINTS) if part in reason), None)
    if match := _PREFIX.search(reason):
        prefix = (match[1] or "") if match.lastindex else ""
        hint = f"declare it above: `@prefix {prefix}: <http://...> .`"
    line, column, end = error.lineno, error.offset or 1, error.end_offset
    if line is None and format == ox.RdfFormat.RDF_XML:
        line, column, reason = _ill_formed(opened, reason)
    message = f"this is not {format.name}: {_lower(reason)}"
    if line is None:
        return CepError(f"{name} cannot be read: {message}", hint=hint, code="knowledge")
    stop = end if end is not None and error.end_lineno == line and end > column else column + 1
    return CepError(message, _shown(name, line, opened), Span(line, column, line, stop), hint, "knowledge")


def plain(error: SyntaxError) -> str:
    """Return the reason in a parser's error message, without the position."""
    return _lower(_WHERE.sub("", error.msg))


def _lower(reason: str) -> str:
    return reason if re.match("[A-Z]{2}", reason) else reason[:1].lower() + reason[1:]  # `IRI` stays


def _shown(name: str, number: int, opened: Callable[[], IO[bytes]]) -> Source:
    if number > _LONGEST:
        return Source("", name)
    with opened() as file:
        line = next(islice(file, number - 1, number), b"").decode(errors="replace")
    return Source("\n" * (number - 1) + line, name)


def _ill_formed(opened: Callable[[], IO[bytes]], reason: str) -> tuple[int | None, int, str]:
    # Oxigraph gives no position. expat does for ill-formed XML, and text that a message quotes can be searched.
    parser = expat.ParserCreate(namespace_separator=" ")
    try:
        with opened() as file:
            parser.ParseFile(file)
    except expat.ExpatError as error:
        return error.lineno, error.offset + 1, expat.ErrorString(error.code)
    quoted = re.search("'([^']+)'", reason)
    if quoted is not None:
        with opened() as file:
            for number, line in enumerate(file, 1):
                if (column := line.decode(errors="replace").find(quoted[1])) >= 0:
                    return number, column + 1, reason
    return None, 1, reason
