"""Explain why one program derives an occurrence and another program does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cep.connectors.why.text import Explainer
from cep.core.fluents import SINCE_EVER
from cep.core.schema import Schema
from cep.core.time import END_OF_TIME
from cep.diff.matching import Difference, names_of
from cep.diff.rows import FIRST, Row
from cep.explain.absence import DEEPEST
from cep.explain.derivation import derivation
from cep.explain.judging import Judge
from cep.explain.occurrences import Memory, Occurrence
from cep.explain.question import BEGINNING, END, EventQuestion

Explained = dict[str, Any]
"""An explanation as JSON, as the functions of `cep.connectors.why.text` return it."""


@dataclass(frozen=True, slots=True)
class Reason:
    """The reasons of a difference. `old`, `new`: the explanation by each program, or None if the program does not
    derive the event at all.

    A program that derived the occurrence explains it by a tree. A program that did not derive the occurrence explains
    why not, and its explanation has the key `asked`.
    """

    old: Explained | None
    new: Explained | None


@dataclass(frozen=True, slots=True)
class Reasons:
    """An explainer of the differences between the runs of two programs, whose engines have the option `remember`.

    This object must not be used while an engine is stepping.
    """

    old: Explainer
    new: Explainer

    def of(self, difference: Difference) -> Reason:
        """Return the reasons of a difference.

        If an occurrence has moved, the new program explains the new occurrence. The old program explains why it did not
        derive the new occurrence.
        """
        name, row = difference.event, difference.row
        deriving, other = (self.old, self.new) if difference.new is None else (self.new, self.old)
        occurrence = occurrence_of(deriving, name, row)
        told = None if occurrence is None else deriving.why(occurrence)
        back = () if occurrence is None else _reach(deriving, occurrence)
        refused = absent(other, row, deriving.engine.outputs[name], back)
        return Reason(told, refused) if difference.new is None else Reason(refused, told)


def why(explainer: Explainer, name: str, row: Row) -> Explained | None:
    """Return the explanation of a derived row as a tree. Returns None if the program has not derived the row."""
    occurrence = occurrence_of(explainer, name, row)
    return None if occurrence is None else explainer.why(occurrence)


def occurrence_of(explainer: Explainer, name: str, row: Row) -> Occurrence | None:
    """Return the occurrence that a derived row represents. Returns None if the program has not derived the row."""
    schema = explainer.engine.plan.schemas[name]
    asked = EventQuestion(name, dict(enumerate(row[FIRST : FIRST + len(schema.attributes)])))
    start = SINCE_EVER if row[0] is None else row[0]
    end = END_OF_TIME if row[1] is None else row[1]
    memory = Memory(explainer.engine)
    for occurrence in asked.found(memory):
        if (occurrence.start, occurrence.end) == (start, end) and not memory.is_input(occurrence):
            return occurrence
    return None


def _reach(explainer: Explainer, occurrence: Occurrence) -> tuple[int, ...]:
    """Return, for each depth of an occurrence's tree of constituents, the longest time between the end of a constituent
    and the end of the occurrence, in microseconds."""
    nodes, reach = [derivation(Memory(explainer.engine), Judge(explainer.engine), occurrence, depth=DEEPEST + 1)], []
    while nodes:
        nodes = [part for node in nodes for link in (node, *node.chain) for part in (*link.parts, *link.chain)]
        if nodes:
            reach.append(max(max(0, occurrence.end - part.occurrence.end) for part in nodes))
    return tuple(reach)


def absent(explainer: Explainer, row: Row, schema: Schema, back: tuple[int, ...] = ()) -> Explained | None:
    """Explain why a program did not derive a row that the other program derived. Returns None if it has no rule for the
    event.

    - `schema`: the row's schema in the other program.
    - `back`: for each depth of the explanation tree, the age in microseconds, before the row's end, of the oldest
      occurrence from which the other program derived the row.

    The first search considers no older occurrences than `back`. If it explains nothing, a second search considers all.
    The key `exists` of the explanation is True if the program derived an occurrence with the same values at this time.
    """
    own = explainer.engine.outputs.get(schema.name)
    if own is None:
        return None
    time = time_within(row, own)
    places = {column: place for place, column in enumerate(names_of(own))}
    values = zip(names_of(schema), row[FIRST:])
    fixed = {places[column]: value for column, value in values if column in places and value is not None}
    since, until = (BEGINNING, END) if time is None else (time, time)
    asked = EventQuestion(own.name, fixed, since, until)
    if back and own.fluent is None:
        answer = explainer.why_not(asked, back)
        kinds = [_told(rule) for rule in answer.get("rules", ())]
        if answer["exists"] or ("whole" not in kinds and set(kinds) - {"apart", "missing"}):
            return answer
    return explainer.why_not(asked)


def _told(refusal: Explained) -> str:
    return "because" if "because" in refusal else str(refusal["failure"]["kind"])


def time_within(row: Row, schema: Schema) -> int | None:
    """Return the last instant of a row's interval, in microseconds. If the interval has no end, return its start.
    Returns None if it has neither."""
    start, end = row[0], row[1]
    if schema.fluent is None or end is None:
        return None if end is None and start is None else int(start if end is None else end)
    return int(end) - 1 if row[-1][1] == ")" and end - 1 > (start or 0) else int(end)
