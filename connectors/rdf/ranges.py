"""Detection of the times for which a query asks, and of the bounds that its filters set.

Oxigraph does not expose the algebra of a query, so this module reads the query's tokens. The query must be one SELECT,
ASK or CONSTRUCT over the default graph. The module considers only the triples and filters directly in the query's
outermost group. If any part is unknown or ambiguous, the query is not rewritten, but evaluated as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pyoxigraph as ox

from cep.connectors.rdf.query_parts import STAMPED, WAYS, Link, Order, QueryParts, Range, Stamp
from cep.connectors.rdf.vocabulary import RDF, XSD
from cep.knowledge.query.sparql import SparqlToken, tokens

_NOT = {"graph", "service", "from", "base", "insert", "delete", "load", "clear", "with", "using", "describe", "reduced"}
_PLAIN = re.compile(r"<[A-Za-z][A-Za-z0-9+.-]*:[^<>\"{}|^`\\\x00-\x20()?$&!,;=]*>")  # it contains no operator
_OPENING, _CLOSING = {"(": ")", "[": "]", "{": "}"}, (")", "]", "}")
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_CONSTANT = ("(", ")", "+", "-", "^^")
_LATER = timedelta(minutes=10)  # the maximum delay before a query is evaluated
_EMPTY = ox.Store()


class _Unclear(Exception):
    pass


def timed(text: str, prefixes: Mapping[str, str]) -> QueryParts | None:
    """Return the parts of a query that concern times. Return None if the query has no such parts, or a form that this
    module does not understand."""
    if not ("inXSDDateTimeStamp" in text or "distance" in text) or "\\" in text:
        return None
    try:
        return _RangeReader(text, prefixes).timed()
    except (
        _Unclear,
        IndexError,
        KeyError,
        ValueError,
        RecursionError,
    ):  # it is not a query, or not one that is understood
        return None


class _RangeReader:
    def __init__(self, text: str, prefixes: Mapping[str, str]) -> None:
        self.text, self.prefixes = text, dict(prefixes)
        self.tokens = tokens(text)
        self.stamps: dict[str, Stamp] = {}
        self.ranges: dict[str, Range] = {}
        self.links: list[Link] = []
        self.filters: list[str] = []
        self.first = True  # nothing so far reads bound variables
        for token in self.tokens:
            if token.kind == "iri" and not _PLAIN.fullmatch(token.text):
                raise _Unclear
            if token.kind == "word" and token.text.lower() in _NOT:
                raise _Unclear
        self.pairs = self._paired()

    def _paired(self) -> dict[int, int]:
        """Return for each opening bracket the index of its closing bracket. Raise _Unclear if brackets do not match."""
        closing: dict[int, int] = {}
        open: list[int] = []
        for number, token in enumerate(self.tokens):
            if token.kind == "mark" and token.text in _OPENING:
                open.append(number)
            elif token.kind == "mark" and token.text in _CLOSING:
                if not open or _OPENING[self.tokens[open[-1]].text] != token.text:
                    raise _Unclear
                closing[open.pop()] = number
        if open:
            raise _Unclear
        return closing

    def word(self, place: int) -> str:
        """Return the token at an index in lower case if it is a word or a punctuation mark, and otherwise ""."""
        token = self.tokens[place] if place < len(self.tokens) else SparqlToken("", "", 0, 0)
        return token.text.lower() if token.kind in ("word", "mark") else ""

    def timed(self) -> QueryParts:
        place = 0
        while self.word(place) == "prefix":
            name, iri = self.tokens[place + 1], self.tokens[place + 2]
            if name.kind != "name" or not name.text.endswith(":") or iri.kind != "iri":
                raise _Unclear
            self.prefixes[name.text[:-1]] = iri.text[1:-1]
            place += 3
        kind, star, plain = self.word(place), None, True
        place += 1
        if kind == "construct" and self.word(place) == "{":
            place = self.pairs[place] + 1
        elif kind == "select":
            while self.word(place) not in ("where", "{"):
                star = self.tokens[place].start if self.word(place) == "*" else star
                plain = plain and (self.tokens[place].kind == "variable" or self.word(place) == "*")
                place = self.pairs[place] + 1 if self.word(place) == "(" else place + 1
        elif kind != "ask":
            raise _Unclear
        place += self.word(place) == "where"
        if self.word(place) != "{":
            raise _Unclear
        first, last = place + 1, self.pairs[place]
        if any(self.word(n) == "*" and self.word(n - 1) in ("select", "distinct") for n in range(first, last)):
            raise _Unclear  # `*` would select one more variable
        self._group(first, last)
        order = self._order(last + 1) if kind == "select" and plain else None
        parts = (self.stamps, self.ranges, order, self.links, self.filters)
        return QueryParts(self.text, *parts, self.tokens[place].end, star, self.prefixes)

    def _group(self, place: int, last: int) -> None:
        """Read the elements of a group, but not of nested groups. `place`, `last`: the range of the group's tokens."""
        while place < last:
            word, before, bracket = self.word(place), self.word(place - 1), self.word(place + 1) == "("
            if word == "filter" and bracket:
                self.filters.append(self.text[self.tokens[place + 1].end : self.tokens[self.pairs[place + 1]].start])
                for name, bounds in self._bounds(place + 2, self.pairs[place + 1]):
                    old = self.ranges.get(name, Range())
                    since, until = (bounds.since, old.since), (bounds.until, old.until)
                    self.ranges[name] = Range(_of(max, since), _of(min, until))
                place = self.pairs[place + 1] + 1
            elif word == "values":
                place = self.pairs[place + 1] + 1 if bracket else place + 2
                place = self.pairs[place] + 1
            elif bracket and (word == "bind" or before == "filter"):
                self.first = self.first and word != "bind"
                place = self.pairs[place + 1] + 1
            elif word in ("filter", "optional", "minus", "union", "not", "exists", "."):
                self.first = self.first and word not in ("optional", "minus")
                place += 1
            elif word == "{":
                place = self.pairs[place] + 1
            elif self.tokens[place].kind in ("variable", "iri", "name", "blank") or word == "[":
                place = self._triples(place, last)
            else:
                raise _Unclear

    def _triples(self, place: int, last: int) -> int:
        """Read a subject with its properties and objects, from index `place` on. Return the index after them."""
        subject = self._named(place)
        place = self.pairs[place] + 1 if self.word(place) == "[" else place + 1
        while place < last and self.word(place) != ".":
            verb, place = place, self._path(place)
            value, end = place, self._value(place)
            if self.word(end) != ",":
                self._triple(subject, verb, value, end)
            place = end
            while self.word(place) == ",":
                place = self._value(place + 1)
            if self.word(place) != ";":
                return place
            while self.word(place) == ";":
                place += 1
        return place

    def _triple(self, subject: str, verb: int, value: int, end: int) -> None:
        """Add a triple pattern. `verb`, `value`: the indices of the tokens at which its property and its object begin.
        `end`: the index after the object."""
        path = [self._iri(n) or self.word(n) for n in range(verb, value)]
        name, term = RDF + "type" if path == ["a"] else path[0], None
        if self.tokens[value].kind == "variable":
            object, start, behind = self.tokens[value].text[1:], self.tokens[verb].start, self.tokens[value].end
            if path == [STAMPED]:
                self.stamps.setdefault(object, Stamp(start, behind, "", subject))
            elif len(path) == 3 and path[0] in WAYS and path[1:] == ["/", STAMPED]:
                self.stamps.setdefault(object, Stamp(start, behind, path[0], subject))
        elif end == value + 1:
            term = self._constant(value)
        if self.first and len(path) == 1 and ":" in name and (term is not None or self._named(value)):
            self.links.append(Link(ox.NamedNode(name), subject, self._named(value), term))

    def _named(self, place: int) -> str:
        """Return a name for the term at an index: a variable with its `?`, the name of a blank node, or a number for an
        opening bracket. Return an empty text for any other term."""
        token = self.tokens[place]
        if token.kind in ("variable", "blank"):
            return f"?{token.text[1:]}" if token.kind == "variable" else token.text
        return f"[{sum(token.text == '[' for token in self.tokens[:place])}" if token.text == "[" else ""

    def _path(self, place: int) -> int:
        """Return the index after the property or path that begins at index `place`."""
        while True:
            while self.word(place) in ("^", "!"):
                place += 1
            if self.word(place) == "(":
                place = self.pairs[place] + 1
            elif self.tokens[place].kind in ("iri", "name", "variable") or self.tokens[place].text == "a":
                place += 1
            else:
                raise _Unclear
            while self.word(place) in ("*", "+", "?"):
                place += 1
            if self.word(place) not in ("/", "|"):
                return place
            place += 1

    def _value(self, place: int) -> int:
        if self.word(place) in ("[", "("):
            return self.pairs[place] + 1
        if self.tokens[place].kind == "string":
            place += 1
            return place + 2 if self.word(place) == "^^" else place + (self.tokens[place].kind == "language")
        place += self.word(place) in ("+", "-")
        token = self.tokens[place]
        if token.kind in ("variable", "iri", "name", "blank", "number") or token.text in ("true", "false"):
            return place + 1
        raise _Unclear

    def _constant(self, place: int) -> ox.NamedNode | ox.Literal | None:
        token = self.tokens[place]
        if token.kind == "string":
            return ox.Literal(token.text[1:-1]) if re.fullmatch(r'"[^"]+"', token.text) else None
        iri = self._iri(place)
        return ox.NamedNode(iri) if iri else None

    def _iri(self, place: int) -> str:
        token = self.tokens[place]
        if token.kind == "iri":
            return token.text[1:-1]
        prefix, _, local = token.text.partition(":")
        return self.prefixes[prefix] + local if token.kind == "name" and prefix in self.prefixes else ""

    def _bounds(self, first: int, last: int) -> Iterator[tuple[str, Range]]:
        """Yield each variable that a filter restricts, with its range.

        The filter must be one comparison, or several comparisons that are joined by `&&`. `first`, `last`: the range of
        the filter's tokens.
        """
        cuts, n = [first - 1], first
        while n < last:
            if self.word(n) == "||":
                return
            if self.word(n) == "&&":
                cuts.append(n)
            n = self.pairs[n] + 1 if self.word(n) in _OPENING else n + 1
        for before, behind in pairwise([*cuts, last]):
            yield from self._compared(before + 1, behind)

    def _compared(self, start: int, end: int) -> Iterator[tuple[str, Range]]:
        if self.word(start) == "(" and self.pairs[start] == end - 1:
            yield from self._bounds(start + 1, end - 1)
        if end - start < 3:
            return
        if self.tokens[start].kind == "variable" and self.word(start + 1) in _TURNED:
            name, sign, stamps = self.tokens[start].text[1:], self.word(start + 1), self._stamps(start + 2, end)
        elif self.tokens[end - 1].kind == "variable" and self.word(end - 2) in _TURNED:
            name, sign, stamps = (
                self.tokens[end - 1].text[1:],
                _TURNED[self.word(end - 2)],
                self._stamps(start, end - 2),
            )
        else:
            return
        if stamps is not None:
            yield name, Range(None if sign[0] == "<" else stamps[0], None if sign[0] == ">" else stamps[1])

    def _stamps(self, start: int, end: int) -> tuple[str, str] | None:
        """Return the earliest and the latest minute in which a constant expression may lie, or None if it is not a
        time.

        The latest minute has a margin. If the expression contains `NOW()`, its value will be greater during evaluation.
        """
        for n in range(start, end):
            plain = self.tokens[n].kind in ("string", "iri", "name") or self.word(n) == "now"
            if not plain and self.tokens[n].text not in _CONSTANT:
                return None
        value = f"<{XSD}dateTime>({self.text[self.tokens[start].start : self.tokens[end - 1].end]})"
        try:
            solutions = _EMPTY.query(f"SELECT ({value} AS ?time) {{}}", prefixes=self.prefixes)
            assert isinstance(solutions, ox.QuerySolutions), "it is a SELECT"
            (time,) = (_time(row["time"]) for row in solutions)
            return None if time is None else (_minute(time), _minute(time + _LATER))
        except (SyntaxError, ValueError, RuntimeError, OSError, OverflowError):
            return None

    def _order(self, place: int) -> Order | None:
        """Return the first variable of ORDER BY, with the query's LIMIT and OFFSET. Return None if the query has no
        ORDER BY of this form, or no LIMIT.

        `place`: the index of the token after the WHERE part.
        """
        if self.word(place) != "order" or self.word(place + 1) != "by":
            return None
        place += 2
        down = self.word(place) == "desc"
        if self.word(place) in ("asc", "desc"):
            if self.word(place + 1) != "(" or self.pairs[place + 1] != place + 3:
                return None
            place += 2
        if self.tokens[place].kind != "variable":
            return None
        name, counts = self.tokens[place].text[1:], {"limit": 0, "offset": 0}
        for n in range(place, len(self.tokens)):
            if self.word(n) == "values":
                return None
            if self.word(n) in counts:
                counts[self.word(n)] = int(self.tokens[n + 1].text)
        return Order(name, down, **counts) if counts["limit"] else None


def _of(choose: Callable[[list[str]], str], bounds: Iterable[str | None]) -> str | None:
    some = [bound for bound in bounds if bound is not None]
    return choose(some) if some else None


def _time(term: Any) -> datetime | None:
    if not isinstance(term, ox.Literal) or term.datatype.value != XSD + "dateTime":
        return None
    time = datetime.fromisoformat(re.sub(r"\.\d+", "", term.value))
    return None if time.tzinfo is None else time.astimezone(UTC)


def _minute(time: datetime) -> str:
    return time.isoformat()[:16]
