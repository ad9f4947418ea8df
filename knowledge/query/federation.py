"""Detection of federated queries. Oxigraph's own parser decides if a query has a SERVICE clause.

Only this parser knows where strings, names and IRIs begin and end. For example, keywords need no space around them, and
the parser reads `x:SERVICE` as `x:` and `SERVICE` where a name is not allowed. So this module replaces each occurrence
of `SERVICE` by letters that are not a keyword. If the query is still valid, the occurrence was a part of a name, a
string or an IRI. Otherwise it was the keyword.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyoxigraph as ox

_WORD = re.compile("service", re.IGNORECASE)
_AROUND = re.compile(r"service[^\s{}]*\s*(?:silent)?\s*\{?", re.IGNORECASE)  # the range in which a parser fails
_PLACE = re.compile(r"error at (\d+):(\d+): ")
_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")
_LETTERS = "qzjkvw"  # no hexadecimal digits; seven in a row are no keyword
_NOTHING = ox.Store()


class FederatedQuery(Exception):
    """The error for a query that asks another endpoint, or might do so."""


def check_federation(text: str, prefixes: Mapping[str, str]) -> None:
    """Raise FederatedQuery if a query has a SERVICE clause. The query is only parsed, not evaluated.

    Raises SyntaxError for some invalid queries.
    """
    escaped = unescaped(text)
    if len(_WORD.findall(escaped)) > len(_WORD.findall(text)):
        raise FederatedQuery
    if not _WORD.search(text):
        return
    all_of_it = "\n".join([text, *prefixes]).lower()
    letter = next((letter for letter in _LETTERS if letter * 7 not in all_of_it), None)
    if letter is None:
        raise FederatedQuery

    def other(word: str) -> str:
        return _WORD.sub(lambda match: "".join(letter.upper() if c.isupper() else letter for c in match[0]), word)

    try:
        _NOTHING.query(other(text), prefixes={other(name): iri for name, iri in prefixes.items()})
    except SyntaxError as error:
        place = _PLACE.search(str(error))
        lines = text.split("\n")
        if place is not None and int(place[1]) <= len(lines):
            offset = sum(len(line) + 1 for line in lines[: int(place[1]) - 1]) + int(place[2]) - 1
            if not any(match.start() <= offset <= match.end() for match in _AROUND.finditer(text)):
                raise
        raise FederatedQuery from None
    except (ValueError, RuntimeError, OSError):  # it is SPARQL; evaluating it will report the error
        return


def unescaped(text: str) -> str:
    r"""Replace escapes such as `\u0041` and `\U00000041` in a query by the characters that they represent."""
    return _ESCAPE.sub(lambda escape: _letter(escape[1] or escape[2]), text)


def _letter(code: str) -> str:
    return chr(int(code, 16)) if int(code, 16) < 0x110000 else ""
