"""Why one program derives an occurrence, and why another one does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cep.core.fluents import SINCE_EVER
from cep.core.schema import Schema
from cep.core.time import END_OF_TIME
from cep.diff.matching import Difference, names_of
from cep.diff.rows import FIRST, Row
from cep.events import Value
from cep.explain.occurrences import Memory
from cep.explain.question import BEGINNING, END, EventQuestion
from connectors.why.lines import refusals, tree
from connectors.why.text import Explainer

Explained = dict[str, Any]
"""As `connectors.why.text` gives it."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why two runs differ. `old`, `new`: what each program says of the difference: the tree of what it derived, or why
    it did not derive what the other one did (`asked` in it); None: it does not know such an event."""

    old: Explained | None
    new: Explained | None


@dataclass(frozen=True, slots=True)
class Reasons:
    """Explains differences between the runs of two programs, each of which was run with `remember`. Not to be asked
    while one of the engines steps."""

    old: Explainer
    new: Explainer

    def of(self, difference: Difference) -> Reason:
        """Return why there is a difference.

        Of what moved, the new program says why it derives the new occurrence, the old one why it did not.
        """
        name = difference.event
        if difference.new is None:
            assert difference.old is not None, "a difference has a row at least"
            values = self._values(self.old, name, difference.old)
            return Reason(why(self.old, name, difference.old), absent(self.new, name, difference.old, values))
        values = self._values(self.new, name, difference.new)
        return Reason(absent(self.old, name, difference.new, values), why(self.new, name, difference.new))

    @staticmethod
    def _values(explainer: Explainer, name: str, row: Row) -> dict[str, Value]:
        schema = explainer.engine.plan.schemas[name]
        return dict(zip(names_of(schema), row[FIRST:]))


def why(explainer: Explainer, name: str, row: Row) -> Explained | None:
    """Return the tree of a derived row; None: there is no such row."""
    schema = explainer.engine.plan.schemas[name]
    asked = EventQuestion(name, dict(enumerate(row[FIRST : FIRST + len(schema.attributes)])))
    start = SINCE_EVER if row[0] is None else row[0]
    end = END_OF_TIME if row[1] is None else row[1]
    memory = Memory(explainer.engine)
    for one in asked.found(memory):
        if (one.start, one.end) == (start, end) and not memory.is_input(one):
            return explainer.why(one)
    return None


def absent(explainer: Explainer, name: str, row: Row, values: Mapping[str, Value]) -> Explained | None:
    """Return why a program did not derive a row of another one with these values, at the time of the row; None: it
    does not derive such an event.

    It may say that the occurrence `exists`: then it is there with other times.
    """
    schema = explainer.engine.outputs.get(name)
    if schema is None:
        return None
    time = time_within(row, schema)
    places = {each: place for place, each in enumerate(names_of(schema))}
    fixed = {places[each]: value for each, value in values.items() if each in places and value is not None}
    since, until = (BEGINNING, END) if time is None else (time, time)
    return explainer.why_not(EventQuestion(name, fixed, since, until))


def time_within(row: Row, schema: Schema) -> int | None:
    """Return the last time of a row that belongs to it, in microseconds; None: it is from ever to ever."""
    start, end = row[0], row[1]
    if schema.fluent is None or end is None:
        return None if end is None and start is None else int(start if end is None else end)
    return int(end) - 1 if row[-1][1] == ")" and end - 1 > (start or 0) else int(end)


def reason_lines(explained: Explained | None, name: str, width: int) -> list[str]:
    """Return what one program says of a difference, line by line."""
    if explained is None:
        return [f"it does not derive `{name}`"]
    return refusals(explained, width) if "exists" in explained else tree(explained, width)
