"""The parts of a query that indices use: its times, ranges, order, triples and filters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyoxigraph as ox

from cep.connectors.rdf.vocabulary import DISTANCE, TIME

STAMPED = TIME + "inXSDDateTimeStamp"
WAYS = (TIME + "hasEnd", TIME + "hasBeginning")


@dataclass(frozen=True, slots=True)
class Range:
    """The first and the last minute (`2013-02-08T21:05`) in which a time variable may lie. None means unbounded."""

    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Stamp:
    """A triple pattern in a query that binds a variable to a time.

    - `start`, `end`: the positions in the query's text at which the predicate begins and the variable ends.
    - `way`: the first property, if the predicate is a path of two properties; otherwise an empty text.
    - `subject`: the subject of the pattern, written as in `Link.subject`. This is an instant or, if `way` is set, the
      thing that begins or ends at the time.
    """

    start: int
    end: int
    way: str
    subject: str


@dataclass(frozen=True, slots=True)
class Link:
    """A triple pattern whose property is constant.

    - `subject`, `object`: the name of a variable (`?x`), an invented name for brackets or a blank node, or '' for
      anything else.
    - `value`: the object if it is constant; otherwise None.
    """

    property: ox.NamedNode
    subject: str
    object: str
    value: ox.NamedNode | ox.Literal | None


@dataclass(frozen=True, slots=True)
class Order:
    """The order and number of rows that a query requests. `variable`: the first variable of ORDER BY. `down`: True if
    the order is descending.

    `limit`, `offset`: the values of LIMIT and OFFSET.
    """

    variable: str
    down: bool
    limit: int
    offset: int


@dataclass(frozen=True, slots=True)
class QueryParts:
    """The parts of a query that asks for times.

    - `stamps`: for each time variable, the triple pattern that binds it.
    - `ranges`: for each time variable, the range that filters allow.
    - `order`: the order and number of rows. It is None if the query requests all rows.
    - `links`: the triple patterns that every row satisfies, because they precede any BIND, OPTIONAL and MINUS.
    - `filters`: the text inside the brackets of each filter.
    - `open`: the position in the text after the opening brace of the outermost group.
    - `star`: the position of the `*` in `SELECT *`. It is None if the query lists its variables.
    """

    text: str
    stamps: Mapping[str, Stamp]
    ranges: Mapping[str, Range]
    order: Order | None
    links: Sequence[Link]
    filters: Sequence[str]
    open: int
    star: int | None
    prefixes: Mapping[str, str]

    def restricted(self, variable: str, path: str, spans: Iterable[str]) -> str:
        """Return the query with the additional condition that the value of a time variable lies in one of the given
        hours, minutes or days.

        - `variable`: the time variable.
        - `path`: the property path from an instant to the hour, minute or day that contains it.
        - `spans`: the IRIs of the hours, minutes or days.
        """
        name = "span"
        while name in self.text:
            name += "_"
        stamp = self.stamps[variable]
        pattern = f"<{STAMPED}> ?{variable} ; {path} ?{name}"
        parts = [
            (self.open, self.open, f" VALUES ?{name} {{ {' '.join(spans)} }} "),
            (stamp.start, stamp.end, f"<{stamp.way}> [ {pattern} ]" if stamp.way else pattern),
        ]
        if self.star is not None:
            parts.append((self.star, self.star + 1, " ".join(map(str, _variables(self.text, self.prefixes)))))
        text = self.text
        for start, end, new in sorted(parts, reverse=True):
            text = f"{text[:start]}{new} {text[end:]}"
        return text

    def events(self, variable: str) -> set[str]:
        """Return the variables, written as in `Link.subject`, for things whose time may be the value of a time
        variable.

        These are the subject of the pattern that binds the time variable, and the things that begin or end at it.
        """
        subject = self.stamps[variable].subject
        ways = [link.subject for link in self.links if link.object == subject and link.property.value in WAYS]
        return {subject, *ways} - {""}

    def among(self, variable: str, values: Iterable[str]) -> str:
        """Return the query with the additional condition that a variable has one of the given values.

        `variable`: a variable that appears in the query's `links`.
        """
        return f"{self.text[: self.open]} VALUES {variable} {{ {' '.join(values)} }} {self.text[self.open :]}"


def _variables(text: str, prefixes: Mapping[str, str]) -> Sequence[ox.Variable]:
    ours: dict[ox.NamedNode, Callable[..., Any]] = {ox.NamedNode(DISTANCE): lambda *terms: None}
    solutions = ox.Store().query(text, prefixes=dict(prefixes), custom_functions=ours)
    assert isinstance(solutions, ox.QuerySolutions), "it has a `*`"
    return solutions.variables
