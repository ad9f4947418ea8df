"""Compare the occurrences of one event in two runs: find those that have appeared, are gone, or have moved.

An occurrence has *moved* if the other run has an occurrence of the same key that overlaps it, but whose times or values
differ. Moved occurrences are matched one to one: the largest overlap first, then the earliest start. All other
occurrences that only one run has are *gone* (from the old run) or have *appeared* (in the new run).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from cep.core.interval_sets import INFINITE, code
from cep.core.schema import Schema
from cep.diff.rows import FIRST, Row, row_key, sorted_rows
from cep.rules.alert import Alert

Kind = Literal["appeared", "gone", "moved"]
KINDS: tuple[Kind, ...] = ("appeared", "gone", "moved")
TEXTS = ("string", "iri")
"""The types of attributes that form the key by default."""
_WITHOUT = object()
"""A placeholder for the value of an attribute that only the other program's event has."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between two runs: an occurrence that has appeared, is gone, or has moved.

    `old`, `new`: the occurrence as a row of each run, or None if the run does not have it.
    """

    kind: Kind
    event: str
    old: Row | None
    new: Row | None

    @property
    def row(self) -> Row:
        """The new row. If the occurrence is gone, it is the old row."""
        row = self.old if self.new is None else self.new
        assert row is not None, "a difference has a row at least"
        return row


@dataclass(frozen=True, slots=True)
class ComparedEvent:
    """An event or fluent of two programs.

    - `old`, `new`: its schema in each program, or None if the program does not derive it.
    - `key`: the attributes that must be equal in corresponding occurrences.
    """

    name: str
    old: Schema | None
    new: Schema | None
    key: tuple[str, ...]

    def compare(self, old: Counter[Row], new: Counter[Row]) -> list[Difference]:
        """Return the differences between the rows of two runs, sorted by end, start and values."""
        both = old.keys() & new.keys() if self.alike else ()
        same = {row: min(old[row], new[row]) for row in both}
        gone = sorted_rows(old - Counter(same))
        appeared = sorted_rows(new - Counter(same))
        if not self.alike:
            gone, appeared = self._unequal(gone, appeared)
        pairs = self._pairs(gone, appeared)
        matched_old, matched_new = {place for place, _ in pairs}, {place for _, place in pairs}
        differences = [Difference("moved", self.name, gone[before], appeared[other]) for before, other in pairs]
        differences += [Difference("gone", self.name, row, None) for n, row in enumerate(gone) if n not in matched_old]
        differences += [
            Difference("appeared", self.name, None, row) for n, row in enumerate(appeared) if n not in matched_new
        ]
        return sorted(differences, key=lambda difference: (row_key(difference.row), KINDS.index(difference.kind)))

    @property
    def alike(self) -> bool:
        """Return True if the rows of both programs have the same columns."""
        return self.old is None or self.new is None or names_of(self.old) == names_of(self.new)

    def _unequal(self, old: list[Row], new: list[Row]) -> tuple[list[Row], list[Row]]:
        """Return both lists without the rows that occur in both. Attributes are compared by name, because the programs
        may declare them in different orders."""
        assert self.old is not None and self.new is not None, "only then rows have several forms"
        columns = sorted({*names_of(self.old), *names_of(self.new)})
        forms = [_named(row, names_of(self.old), columns) for row in old]
        others = [_named(row, names_of(self.new), columns) for row in new]
        same = Counter(forms) & Counter(others)
        return _left(old, forms, same), _left(new, others, same)

    def _pairs(self, old: Sequence[Row], new: Sequence[Row]) -> list[tuple[int, int]]:
        """Return the rows that have moved, as pairs (index in `old`, index in `new`)."""
        if self.old is None or self.new is None or (self.old.fluent is None) is not (self.new.fluent is None):
            return []
        places = [[FIRST + names_of(schema).index(name) for name in self.key] for schema in (self.old, self.new)]
        by_key: dict[Row, tuple[list[int], list[int]]] = {}
        for side, rows in enumerate((old, new)):
            for number, row in enumerate(rows):
                own = tuple(row[place] for place in places[side])
                by_key.setdefault(own, ([], []))[side].append(number)
        fluent = self.old.fluent is not None
        pairs: list[tuple[int, int]] = []
        for before, other in by_key.values():
            spans = {n: codes_of(old[n], fluent) for n in before}, {n: codes_of(new[n], fluent) for n in other}
            pairs += _matched(*spans, old, new)
        return pairs


def names_of(schema: Schema) -> list[str]:
    return [attribute.name for attribute in schema.attributes]


def codes_of(row: Row, fluent: bool) -> tuple[int, int]:
    """Return the first and the last instant of a row's interval as codes of `cep.core.interval_sets`."""
    start, end = row[0], row[1]
    if not fluent:
        return 2 * start, 2 * end
    first = -INFINITE if start is None else code(start, row[-1][0] == "[", False)
    return first, INFINITE if end is None else code(end, row[-1][1] == "]", True)


def _matched(
    before: dict[int, tuple[int, int]], other: dict[int, tuple[int, int]], old: Sequence[Row], new: Sequence[Row]
) -> list[tuple[int, int]]:
    """Match rows that have the same key one to one: the largest overlap first, then the earliest start."""
    candidates = []
    ordered = sorted(other.items(), key=lambda span: span[1])
    for number, (first, last) in before.items():
        for place, (begin, end) in ordered:
            if begin > last:
                break
            if (overlap := min(last, end) - max(first, begin)) >= 0:
                candidates.append((-overlap, first, begin, row_key(old[number]), row_key(new[place]), number, place))
    taken_old: set[int] = set()
    taken_new: set[int] = set()
    pairs = []
    for *_, number, place in sorted(candidates):
        if number not in taken_old and place not in taken_new:
            taken_old.add(number)
            taken_new.add(place)
            pairs.append((number, place))
    return pairs


def _named(row: Row, names: Sequence[str], columns: Iterable[str]) -> Row:
    values = dict(zip(names, row[FIRST:]))
    rest = row[FIRST + len(names) :]
    return (*row[:FIRST], *(values.get(name, _WITHOUT) for name in columns), *rest)


def _left(rows: Iterable[Row], forms: Iterable[Row], same: Counter[Row]) -> list[Row]:
    taken, left = Counter(same), []
    for row, form in zip(rows, forms):
        if taken[form]:
            taken[form] -= 1
        else:
            left.append(row)
    return left


def compared_event(
    name: str,
    old: Schema | None,
    new: Schema | None,
    old_alerts: Iterable[Alert] = (),
    new_alerts: Iterable[Alert] = (),
    asked: Sequence[str] = (),
) -> ComparedEvent:
    """Prepare an event that both programs derive for comparison, and choose the key by which its rows are matched.

    The key is the first of these that is not empty:

    - the event's attributes that are in `asked`,
    - the key of an alert on the event (`old_alerts` and `new_alerts` are the alerts of the programs),
    - the event's attributes that are strings or IRIs.
    """
    sides = [(schema, alerts) for schema, alerts in ((new, new_alerts), (old, old_alerts)) if schema is not None]
    first = sides[0][0]
    known = [column for column in names_of(first) if all(column in names_of(schema) for schema, _ in sides)]
    key = tuple(column for column in known if column in asked)
    if not key:
        own = (_keyed_by(alert, schema) for schema, alerts in sides for alert in alerts if alert.event == name)
        key = next((columns for columns in own if columns and all(word in known for word in columns)), ())
    if not key:
        texts = {attribute.name for attribute in first.attributes if attribute.type in TEXTS}
        key = tuple(column for column in known if column in texts)
    return ComparedEvent(name, old, new, key)


def _keyed_by(alert: Alert, schema: Schema) -> tuple[str, ...]:
    """Return the attributes of the event that form an alert's key. The result is empty if a part of the key is no
    attribute."""
    names = dict(zip(alert.arguments, names_of(schema)))
    return tuple(names[key] for key in alert.keys) if all(key in names for key in alert.keys) else ()
