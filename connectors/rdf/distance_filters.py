"""Faster filters by distance: distant places are excluded by their latitudes before their distance is computed.

Computing a distance calls Python, while Oxigraph compares numbers fast. On the ellipsoid, a degree of latitude has a
minimum length. So if a filter requires `distance(...) < 20000`, the latitudes of the two places differ by at most a
certain angle. The filter then compares the latitudes before it calls `distance`. The rows of the result stay the same.
A filter that has another form than a simple limit remains unchanged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cep.connectors.rdf.vocabulary import DISTANCE
from cep.knowledge.query.sparql import SparqlToken, tokens
from cep.rules.expressions.geodesy import TIGHTEST_RADIUS

_DEGREE = TIGHTEST_RADIUS * math.pi / 180  # the minimum length of a degree in metres
_SLACK, _PART = 1e-3, 1e-6  # degrees and a ratio, above the error of 32-bit floats
_PLAIN = re.compile(r"<[A-Za-z][A-Za-z0-9+.-]*:[^()?$&!,;=]*>")  # it cannot be read as two comparisons
_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")


@dataclass(frozen=True, slots=True)
class DistanceLimit:
    """A condition that two places are at most `metres` apart.

    A place is a pair of a latitude and a longitude. Each is a variable or a number.
    """

    places: tuple[tuple[str, str], tuple[str, str]]
    metres: float

    @property
    def degrees(self) -> float:
        """The maximum difference in latitude between the two places, in degrees."""
        return degrees(self.metres)


def degrees(metres: float) -> float:
    """Return the maximum difference in latitude, in degrees, of two places that are at most `metres` apart."""
    return metres / _DEGREE * (1 + _PART) + _SLACK


def near(text: str, prefixes: Mapping[str, str]) -> str:
    """Return an equivalent query in which a comparison of latitudes precedes each limit on a distance."""
    if "distance" not in text.lower() or "\\" in text:
        return text
    sparql_tokens = tokens(text)
    if any(token.kind == "iri" and not _PLAIN.fullmatch(token.text) for token in sparql_tokens):
        return text
    names = {**prefixes, **_declared(sparql_tokens)}
    parts: list[tuple[int, str]] = []
    for place, token in enumerate(sparql_tokens[:-1]):
        if token.text.lower() == "filter" and token.kind == "word" and sparql_tokens[place + 1].text == "(":
            conjuncts = list(_conjuncts(sparql_tokens, place + 2))
            bands = [_band(short) for short in (_short(text, conjunct, names) for conjunct in conjuncts) if short]
            if bands:
                parts.append((sparql_tokens[place + 1].end, " && ".join([*bands, "("])))
                parts.append((conjuncts[-1][-1].end, ")"))
    for offset, more in sorted(parts, reverse=True):
        text = text[:offset] + more + text[offset:]
    return text


def shorts(filters: Sequence[str], prefixes: Mapping[str, str]) -> Iterator[DistanceLimit]:
    """Yield the distance limits in some filters. `filters`: the text of each filter, without the brackets around it."""
    for text in filters:
        for conjunct in _conjuncts(tokens(text + ")"), 0):
            if short := _short(text, conjunct, prefixes):
                yield short


def _declared(sparql_tokens: Sequence[SparqlToken]) -> dict[str, str]:
    return {
        name.text[:-1]: iri.text[1:-1]
        for word, name, iri in zip(sparql_tokens, sparql_tokens[1:], sparql_tokens[2:], strict=False)
        if word.text.lower() == "prefix" and name.kind == "name" and iri.kind == "iri"
    }


def _conjuncts(sparql_tokens: Sequence[SparqlToken], start: int) -> Iterator[Sequence[SparqlToken]]:
    """Yield the conditions that a filter joins by `&&`. `start`: the index after its opening bracket.

    Yield nothing if the filter contains `||`, or if one of its conditions is empty.
    """
    parts: list[list[SparqlToken]] = [[]]
    depth = 0
    for token in sparql_tokens[start:]:
        mark = token.text if token.kind == "mark" else ""
        if depth == 0 and mark == ")":
            if all(parts):
                yield from parts
            return
        if depth == 0 and mark == "||":
            return
        if depth == 0 and mark == "&&":
            parts.append([])
            continue
        depth += (mark in _OPENING) - (mark in _CLOSING)
        parts[-1].append(token)


def _short(text: str, condition: Sequence[SparqlToken], names: Mapping[str, str]) -> DistanceLimit | None:
    """Return the limit that a condition sets on a distance, or None if it sets none.

    The condition has a form such as `distance(lat, long, y, x) < 20000` or `20000 > distance(...)`.
    """
    if len(condition) < 4:
        return None
    if condition[0].kind == "number" and condition[1].text in (">", ">="):
        limit, call = condition[0], condition[2:]
    elif condition[-1].kind == "number" and condition[-2].text in ("<", "<="):
        limit, call = condition[-1], condition[:-2]
    else:
        return None
    prefix, _, local = call[0].text.partition(":")
    called = call[0].text[1:-1] if call[0].kind == "iri" else names.get(prefix, "") + local
    shape = "".join(token.text if token.kind == "mark" else token.kind[0] for token in call[1:])
    if called != DISTANCE or not re.fullmatch(r"\((v|[+-]?n)(,(v|[+-]?n)){3}\)", shape):
        return None
    some = text[call[2].start : call[-1].start].replace("$", "?").split(",")
    lat, long, y, x = (re.sub(r"#[^\n\r]*|\s", "", text) for text in some)
    return DistanceLimit(((lat, long), (y, x)), float(limit.text))


def _band(short: DistanceLimit) -> str:
    (lat, _), (y, _) = short.places
    return f"COALESCE(ABS(({lat}) - ({y})) <= {short.degrees:.6e}, true)"
